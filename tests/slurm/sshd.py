"""A real OpenSSH server on loopback for tests: this user's own, with keys of its own, gone with its context."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.conftest import short_folder
from tests.slurm.lab import free_ports
from tests.waiting import awaited

PROGRAMS = ("sshd", "ssh-keygen", "ssh-agent", "ssh-add", "setpriv")
_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
_SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")

# The clients of tests find the `ssh` there.
os.environ["PATH"] = f"{Path(__file__).parent / 'bin'}:{os.environ['PATH']}"

USER = pwd.getpwuid(os.getuid()).pw_name


def skip_without_sshd() -> None:
    absent = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if absent:
        pytest.skip(f"OpenSSH's server is not installed: no {', '.join(absent)}")
    shell = Path(pwd.getpwuid(os.getuid()).pw_shell).name
    if shell != "bash":
        pytest.skip(f"the login shell of {USER} is {shell}; what is tested of start-up files is bash's")


def new_key(path: Path, passphrase: str = "", kind: str = "ed25519") -> Path:
    """A new key pair at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True)
    return path


def write_ssh_files(folder: Path) -> None:
    """Let the clients whose $HOME has `folder` as its .ssh have the files there, `config` first."""
    (folder / "all").write_text(
        f"Include {folder}/config\nMatch all\n  IdentityFile {folder}/id_ed25519\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n"
    )


class Sshd:
    """An SSH server in `folder` that lets in the key `client_key` and gives its sessions the variables of `environ`.

    Sessions have `home` as their home folder, where shells look for their start-up files. `begin` is the beginning of
    the server's command, which runs the rest. `sftp` is whether it offers access to files.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str] | None = None,
        *,
        options: tuple[str, ...] = (),
        begin: tuple[str, ...] = (),
        sftp: bool = True,
    ) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.client_key = folder / "client_key"
        (self.port,) = free_ports(1)
        self._environ = {"HOME": str(self.home), **(environ or {})}
        self._options = options
        self._begin = begin
        self._sftp = sftp
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host_key(self) -> str:
        """Type and key, as they stand in known_hosts."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])

    @property
    def known_hosts_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.host_key}\n"

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True)
        new_key(self.folder / "host_key")
        new_key(self.client_key)
        shutil.copy(f"{self.client_key}.pub", self.folder / "authorized_keys")
        if os.geteuid() == 0:
            # The server insists on it, and only the distribution's own start makes it.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, and return when it does."""
        sftp = next((path for path in _SFTP_SERVERS if Path(path).exists()), "internal-sftp")
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder / 'host_key'}",
            f"PidFile {self.folder / 'sshd.pid'}",
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "PrintMotd no",
            *([f"Subsystem sftp {sftp}"] if self._sftp else []),
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in self._environ.items()),
            *self._options,
        ]
        config = self.folder / "sshd_config"
        config.write_text("\n".join(lines) + "\n")
        program = shutil.which("sshd", path=_PATH) or ""
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._begin, program, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        awaited(self._listens, (self.folder / "sshd.log").read_text)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "sshd.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def stop(self) -> None:
        """End the server and its sessions."""
        if self._process is None:
            return
        self.drop()
        self._process.kill()
        self._process.wait()
        self.drop()
        self._process = None

    def sessions(self) -> list[int]:
        """The server's processes for connections that are open."""
        assert self._process is not None
        return _children(self._process.pid)

    def file_servers(self) -> list[int]:
        """The processes that answer questions about files."""
        below, found = self.sessions(), []
        while below:
            found += [pid for pid in below if _name(pid) == "sftp-server"]
            below = [child for pid in below for child in _children(pid)]
        return found

    def drop(self) -> None:
        """Kill the processes of all connections, as a host that fails does; what they started goes on."""
        for pid in self.sessions():
            for process in (*_children(pid), pid):
                if _name(process) == "sshd":
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)

    def client_home(self, folder: Path, known: str | None = None) -> Path:
        """A home folder whose SSH files let its user log in."""
        ssh = folder / ".ssh"
        ssh.mkdir(parents=True, mode=0o700, exist_ok=True)
        shutil.copy(self.client_key, ssh / "id_ed25519")
        (ssh / "known_hosts").write_text(self.known_hosts_line if known is None else known)
        write_ssh_files(ssh)
        return folder


class SlowLink:
    """A port on loopback whose bytes reach another one late and in small pieces; `cut` ends what is open."""

    def __init__(self, target: int, *, delay_seconds: float = 0.02, piece_bytes: int = 2000) -> None:
        self._target = target
        self._delay_seconds = delay_seconds
        self._piece_bytes = piece_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.frozen = threading.Event()
        self.cuts = 0
        self._bytes_left: int | None = None
        self._counting = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.frozen.clear()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(30)
        for end in self._open:
            end.close()

    def cut(self) -> None:
        """End every connection that goes through, and none that a client makes as it sees that."""
        for end in tuple(self._open):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, more_bytes: int) -> None:
        """End every connection once, when so much more has gone through."""
        self._bytes_left = more_bytes

    def _is_last(self, more_bytes: int) -> bool:
        """Count bytes that have gone through; return whether the connections are cut after them."""
        with self._counting:
            if self._bytes_left is None:
                return False
            self._bytes_left -= more_bytes
            if self._bytes_left > 0:
                return False
            self._bytes_left = None
            self.cuts += 1
            return True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for source, sink in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._carry, args=(source, sink), daemon=True))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(self._piece_bytes):
                time.sleep(self._delay_seconds)
                while self.frozen.is_set():
                    time.sleep(0.05)
                sink.sendall(data)
                if self._is_last(len(data)):
                    self.cut()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def agent_with(key: Path) -> Iterator[str]:
    """The socket of an agent that holds `key`."""
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", f"{key}.agent"], stdout=subprocess.DEVNULL)
    try:
        awaited(Path(f"{key}.agent").exists)
        subprocess.run(["ssh-add", "-q", str(key)], env={**os.environ, "SSH_AUTH_SOCK": f"{key}.agent"}, check=True)
        yield f"{key}.agent"
    finally:
        agent.kill()
        agent.wait()


@contextlib.contextmanager
def running_master(server: Sshd, ssh: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A running master for the server, which the configuration in the folder `ssh` of a client's home names."""
    with short_folder() as folder:
        (ssh / "config").write_text(f"ControlPath {folder}/%h-%%\n")
        words = ["ssh", "-F", str(ssh / "all"), "-MN", "-i", str(server.client_key), "-p", str(server.port), "-l", USER]
        with subprocess.Popen([*words, "127.0.0.1"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            awaited(lambda: any(folder.iterdir()))
            yield process
            process.kill()


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
