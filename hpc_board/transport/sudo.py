"""Another account of this machine, whose commands and files are reached by sudo rules and without a password."""

import os
import pwd
import re
import select
import shutil
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import IO, TYPE_CHECKING, Final

from msgspec.structs import replace

from hpc_board.errors import SchedulerError
from hpc_board.model.text import one_line
from hpc_board.transport import CommandMissing, CommandTimeout, Completed
from hpc_board.transport.sftp_files import STALL_SECONDS, SftpFiles
from hpc_board.transport.this_host import ThisHost, scrubbed_environment
from hpc_board.transport.time_budget import RETRY_SECONDS, close_quietly

if TYPE_CHECKING:
    from paramiko import SFTPClient

SFTP_SERVERS: Final = (
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
)
"""The places of OpenSSH's SFTP server in distributions."""

_GRACE_SECONDS = 5.0
_KILLED = (128 + 9, -9)
_NO_PROGRAM = 127
_NO_FOLDER = 126

_TOKENS = frozenset({"SLURM_JWT", "KRB5CCNAME"})

_TOLD_GROUP = re.compile(r"^hpc-board: group ([1-9][0-9]{1,9})\n", re.MULTILINE)
_TELL_GROUP = 'echo "hpc-board: group $PPID" >&2; '
"""The sh commands before `_RUN` that tell the process group of its parent, `timeout`, which leads that of the command.

Nothing else tells it: the account's processes may be hidden from this one.
"""

_RUN = (
    'while IFS= read -r hb_line && [ "$hb_line" ]; do export "$hb_line"; done; '
    'hb_folder=$1; shift; cd "$hb_folder" || exit 126; '
    'command -v "$1" >/dev/null 2>&1 || { echo "hpc-board: no program" >&2; exit 127; }; '
    'exec /usr/bin/env -u PWD -u OLDPWD -u SHLVL -u _ "$@"'
)
"""The sh script that runs its arguments in a folder, with the variables that its input begins with.

All users of a machine can read arguments, and SLURM_JWT opens the account; printed variables would be arguments.
"""


def rules(service: str, account: str) -> str:
    """Return the sudo rules by which `service` runs commands as `account`, for a file in /etc/sudoers.d.

    They allow every command: a batch script may run any.
    """
    return f"Defaults:{service} !requiretty, !use_pty\n{service} ALL=({account}) NOPASSWD: ALL\n"


def as_account(account: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` as `account`, and fails where the rules would ask for a password."""
    return ["sudo", "-n", "-u", account, "--", *argv]


class SudoHost:
    """Host that runs commands of this machine as another account; safe to use from several threads.

    A command gets the scrubbed environment of this process, with the other account's name and home folder.
    """

    def __init__(self, account: str, environ: Mapping[str, str] | None = None) -> None:
        self._account = account
        self._environ = os.environ if environ is None else environ
        self._host = ThisHost(environ)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        """Run `argv` without a shell, with the scrubbed environment plus `env`, and wait for its end.

        `timeout`, which runs as the account, ends the command and its process group: this process may send no signals
        to the account's processes.

        Raises:
            CommandTimeout: it did not end within `timeout_seconds` and was killed; a CommandStopped as `Host` has it.
            CommandMissing: the program does not exist.
            SchedulerError: sudo refuses, or the folder cannot be entered.
        """
        entry = _entry(self._account)
        # Tokens of this account would let the other one's processes act as this one.
        found = {name: text for name, text in scrubbed_environment(self._environ).items() if name not in _TOKENS}
        found |= {"HOME": entry.pw_dir, "USER": self._account, "LOGNAME": self._account, "SHELL": "/bin/sh"}
        variables = {name: value for name, value in {**found, **(env or {})}.items() if value.isprintable()}
        lines = "".join(f"{name}={value}\n" for name, value in variables.items())
        limit = ["/usr/bin/timeout", "-s", "KILL", f"{max(timeout_seconds, 0.001):.3f}"]
        script = f"{_TELL_GROUP}{_RUN}" if until else _RUN
        inner = [*limit, "/usr/bin/env", "-i", "/bin/sh", "-c", script, "sh", cwd or "/", *argv]
        # An account that cannot enter this process's folder is no reason to fail.
        done = self._host.run(
            as_account(self._account, inner),
            timeout_seconds=timeout_seconds + _GRACE_SECONDS,
            cwd="/",
            stdin=f"{lines}\n{stdin}",
            until=until,
            stop=self._kill,
        )
        if until:
            done = replace(done, stderr=_TOLD_GROUP.sub("", done.stderr, count=1))
        self._check(done, argv[0], timeout_seconds, cwd)
        return done

    def _check(self, done: Completed, program: str, timeout_seconds: float, cwd: str | None) -> None:
        """Raise the error of a command that was killed or did not start; see `run`."""
        if done.returncode in _KILLED:
            raise CommandTimeout(f"{program} did not end within {timeout_seconds:g} s")
        if done.returncode == _NO_PROGRAM and done.stderr.endswith("hpc-board: no program\n"):
            raise CommandMissing(f"{program} is not in PATH")
        if done.returncode == 1 and done.stderr.startswith("sudo: "):
            raise _refused(self._account, done.stderr)
        if done.returncode == _NO_FOLDER and cwd is not None:
            raise SchedulerError(
                f"{self._account} cannot enter the folder for {program}: {one_line(done.stderr, 200)}",
                hint="Look whether the folder `jobs.folder` of the settings is there, and belongs to this account.",
            )

    def _kill(self, stderr: str) -> None:
        """Kill the command whose standard error this is, as its account; no other account's process can be meant."""
        if told := _TOLD_GROUP.search(stderr):
            argv = as_account(self._account, ["/bin/kill", "-KILL", "--", f"-{told[1]}"])
            with suppress(CommandTimeout, CommandMissing, SchedulerError):
                self._host.run(argv, timeout_seconds=_GRACE_SECONDS, cwd="/")


class SudoFiles(SftpFiles):
    """Files that another account of this machine sees, by OpenSSH's SFTP server under that account."""

    def __init__(
        self, account: str, *, stall_seconds: float = STALL_SECONDS, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        sessions = _SudoSessions(account)
        super().__init__(sessions, stall_seconds=stall_seconds, retry_seconds=retry_seconds, mistrusted=True)


class _Stream:
    """The input and output of a process as one stream, with the methods of a channel that the SFTP client uses."""

    def __init__(self, argv: Sequence[str], stall_seconds: float) -> None:
        ours, theirs = socket.socketpair()
        errors, of_errors = os.pipe()
        with theirs, os.fdopen(of_errors, "wb"):
            try:
                process = subprocess.Popen(
                    list(argv),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=of_errors,
                    cwd="/",
                    env=scrubbed_environment(os.environ),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                os.close(errors)
                raise
        ours.settimeout(stall_seconds)
        self._socket = ours
        self._errors = os.fdopen(errors, "rb")
        self.closed = False
        # The server ends when its input does, and the process needs a `wait`.
        self._finalizer = weakref.finalize(self, _end, ours, self._errors, process)

    def get_name(self) -> str:
        """Return the name of the stream in paramiko's log."""
        return "sudo"

    def recv(self, size: int) -> bytes:
        """Read at most `size` bytes; none at the end."""
        data = self._socket.recv(size)
        self.closed |= not data
        return data

    def send(self, data: bytes) -> int:
        """Send a part of `data`, and return its length."""
        return self._socket.send(data)

    def recv_ready(self) -> bool:
        """Return whether `recv` would not wait."""
        return _is_readable(self._socket.fileno(), 0)

    def close(self) -> None:
        """End the stream, from any thread; a thread that waits for data gets an OSError or the end."""
        self.closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._finalizer()

    def complaint(self) -> str:
        """Return the start of the ended process's output to stderr."""
        if not _is_readable(self._errors.fileno(), _GRACE_SECONDS):
            return ""
        return os.read(self._errors.fileno(), 4096).decode(errors="replace")


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Return whether a descriptor of any number has data or its end within `seconds`."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))


def _end(ours: socket.socket, errors: IO[bytes], process: "subprocess.Popen[bytes]") -> None:
    ours.close()
    errors.close()
    with suppress(PermissionError, ProcessLookupError):
        process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)


class _SudoSession:
    """A session with an SFTP server that runs as the account."""

    def __init__(self, account: str, stream: _Stream) -> None:
        self._account = account
        self._stream = stream

    @cached_property
    def sftp(self) -> "SFTPClient":
        import paramiko

        try:
            # paramiko asks for a channel, and uses the methods of `_Stream`.
            return paramiko.SFTPClient(self._stream)
        except (EOFError, ConnectionError) as error:
            complaint = self._stream.complaint()
            close_quietly(self._stream)
            if complaint.startswith("sudo: "):
                raise _refused(self._account, complaint) from error
            raise
        except BaseException:
            close_quietly(self._stream)
            raise

    @property
    def alive(self) -> bool:
        return not self._stream.closed

    def close(self) -> None:
        self._stream.close()


class _SudoSessions:
    def __init__(self, account: str) -> None:
        self._account = account

    @property
    def name(self) -> str:
        return f"the account {self._account}"

    def open(self, stall_seconds: float) -> _SudoSession:
        server = next((each for each in SFTP_SERVERS if os.access(each, os.X_OK)), None)
        if server is None or shutil.which("sudo") is None:
            raise SchedulerError(
                f"this machine lacks {'sudo' if server else 'the SFTP server of OpenSSH'}",
                hint="Jobs of another account need both: install openssh-sftp-server and sudo.",
            )
        _entry(self._account)
        return _SudoSession(self._account, _Stream(as_account(self._account, [server]), stall_seconds))


def _entry(account: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(account)
    except KeyError:
        raise SchedulerError(
            f"this machine has no account {one_line(account, 80)}",
            hint="Correct `jobs.account` in the settings, or have the account made.",
        ) from None


def _refused(account: str, stderr: str) -> SchedulerError:
    words = one_line(stderr.splitlines()[0].removeprefix("sudo: "), 200)
    own = pwd.getpwuid(os.geteuid()).pw_name
    return SchedulerError(
        f"sudo does not run commands as {account}: {words}",
        hint=f"Have root put this line into /etc/sudoers.d: {own} ALL=({account}) NOPASSWD: ALL",
    )
