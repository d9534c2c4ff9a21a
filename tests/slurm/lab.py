"""A real Slurm on this host for tests: started in a folder of its own, gone with the process that started it.

    with SlurmLab(folder) as lab:
        subprocess.run(["sinfo"], env=lab.environment)

    python -m tests.slurm.lab [--accounting] [--chroot] COMMAND ...      # the same for one command

It runs as root or as an ordinary user, and several run side by side. Its daemons are children of a keeper process
that waits for the end of its standard input: when the starting process ends, however it ends, the keeper kills the
daemons, the jobs and whatever else they left behind.
"""

import argparse
import contextlib
import copy
import ctypes
import json
import os
import pwd
import random
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "scontrol")
ACCOUNTING_PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "sacct", "sacctmgr")

NODES = {"h100-1": "gpu:h100:2", "a100-1": "gpu:a100:2", "cpu-1": ""}
"""The nodes and their GPUs; each has a partition of its own, called as the node without its number."""

_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_GROUPS = _GROUPS / "memory"
_CONTROL_GROUPS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
"""
_START_SECONDS = 60.0
_SOCKET_PATH_MAX = 100
_CHROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMMANDS = ("sbatch", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr", "sdiag", "srun")
_PR_SET_CHILD_SUBREAPER = 36
_RPC = re.compile(r"^\s*([A-Z0-9_]+)\s+\(\s*[0-9]+\)\s+count:([0-9]+)", re.MULTILINE)


class LabError(Exception):
    """The lab's Slurm did not start; the message holds the end of the daemons' logs."""


def missing_programs(*, accounting: bool = False) -> list[str]:
    """The programs that a lab needs and this host does not have."""
    names = PROGRAMS + (ACCOUNTING_PROGRAMS if accounting else ())
    return [name for name in names if shutil.which(name, path=_PATH) is None]


def has_memory_groups() -> bool:
    """Return whether this host has control groups of memory, of the first version, in which a lab may make its own."""
    return os.access(_MEMORY_GROUPS / "memory.limit_in_bytes", os.R_OK) and os.access(_MEMORY_GROUPS, os.W_OK)


class SlurmLab:
    """A Slurm cluster of three nodes on this host: partitions `h100` and `a100` with two GPUs each, and `cpu`.

    `folder` is created; its path must be short, as sockets lie in it. `configuration` replaces or adds lines of
    slurm.conf ("MinJobAge" -> "2"), `max_time` is the partitions' time limit. With `accounting`, a database of its own
    and slurmdbd run too, and `sacct` answers. The default partition is `cpu`.

    With `member_of`, a lab with accounting, it is another cluster of that lab's slurmdbd; `configuration` names it.
    With `control_groups` jobs have a limit of memory by the kernel, see `has_memory_groups`.

    `root` is a folder that tests/slurm/chroot.py made: daemons and jobs run within, and see the temporary folder and
    the repository under their own paths. Commands in the lab's `environment` go there too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        configuration: Mapping[str, str] | None = None,
        max_time: str = "INFINITE",
        accounting: bool = False,
        member_of: "SlurmLab | None" = None,
        root: Path | None = None,
        control_groups: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self.root = root
        self._configuration = dict(configuration or {})
        self._max_time = max_time
        self._accounting = accounting
        self._member_of = member_of
        self._dbd_port = 0
        self._control_groups = control_groups
        if control_groups:
            self._configuration = {"TaskPlugin": "task/cgroup", **self._configuration}
        self._keeper: subprocess.Popen[bytes] | None = None
        self.client = "cli"

    def asked_through(self, client: str) -> Self:
        """The same lab, for tests that ask it in this way: `cli` or `pyslurm`."""
        lab = copy.copy(self)
        lab.client = client
        return lab

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Slurm's commands talk to this cluster."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_"))}
        path = _PATH if self.root is None else f"{self.folder / 'bin'}:{_PATH}"
        return kept | {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    @property
    def pyslurm_python(self) -> str:
        """The Python that can import pyslurm and reach this cluster with it."""
        return str(self.folder / "bin" / "pyslurm-python")

    def __enter__(self) -> Self:
        if len(str(self.folder / "munge.sock")) > _SOCKET_PATH_MAX:
            raise LabError(f"{self.folder}: the path is too long for sockets; choose a shorter folder")
        self._write_files()
        program = str(shutil.copy(__file__, self.folder))
        self._keeper = subprocess.Popen(
            self._within([sys.executable if self.root is None else "python3", program, "--keep", str(self.folder)]),
            stdin=subprocess.PIPE,
            env=self._environment_within,
            start_new_session=True,
        )
        if self.root is not None:
            self._write_commands(self._keeper.pid)
        try:
            self._wait_until_idle(self._keeper)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the daemons and the jobs, and wait until nothing of the lab is left."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.close()
            self._keeper.wait()
        if self._control_groups:
            for group in _MEMORY_GROUPS.glob("slurm_*"):
                for below in sorted(group.glob("**/"), reverse=True):
                    with contextlib.suppress(OSError):
                        below.rmdir()

    def run(self, *argv: str) -> str:
        """The standard output of a Slurm command; CalledProcessError if it fails."""
        return subprocess.run(argv, env=self.environment, check=True, capture_output=True, text=True).stdout

    def cancel_jobs(self) -> None:
        """Cancel all jobs of this user and wait until the nodes are free again."""
        self.run("scancel", "--quiet", f"--user={_user_name()}")
        deadline = time.monotonic() + _START_SECONDS
        while listed := self.run("squeue", "--noheader"):
            if time.monotonic() > deadline:
                raise LabError(f"these jobs did not end:\n{listed}")
            time.sleep(0.2)

    def forget_rpcs(self) -> None:
        """Let the controller count from here on what it is asked."""
        self.run("sdiag", "--reset")

    def rpcs(self) -> dict[str, int]:
        """Return the number of each question to the controller since then, by sdiag; that question itself is left out.

        Its nodes' messages are among them ("MESSAGE_EPILOG_COMPLETE", "REQUEST_COMPLETE_BATCH_SCRIPT").
        """
        by_type, _, _ = self.run("sdiag").partition("statistics by user")
        found = {name: int(count) for name, count in _RPC.findall(by_type)}
        found.pop("REQUEST_STATS_INFO", None)
        return found

    def pid(self, daemon: str) -> int:
        """The process id of a daemon: `slurmctld`, `slurmdbd`, or `slurmd.NODE`."""
        return int((self.folder / f"{daemon}.pid").read_text())

    @contextlib.contextmanager
    def stopped(self, daemon: str, *, patient: bool = False) -> Iterator[None]:
        """Have `daemon` neither answer nor end; what is sent to it waits.

        Commands that begin meanwhile give a silent controller up after a second, unless they are `patient`.
        """
        configuration = (self.folder / "slurm.conf").read_text()
        pid = self.pid(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            if daemon == "slurmctld" and not patient:
                self._replace_configuration(re.sub("(?m)^MessageTimeout=.*", "MessageTimeout=1", configuration))
            yield
        finally:
            self._replace_configuration(configuration)
            os.kill(pid, signal.SIGCONT)

    def _replace_configuration(self, text: str) -> None:
        """Write slurm.conf at once: a daemon or a command may read it at any moment."""
        new = self.folder / "slurm.conf.new"
        new.write_text(text)
        new.replace(self.folder / "slurm.conf")

    def start(self, daemon: str) -> None:
        """Start a daemon that has ended once more, on the state that it left; it may take a moment to answer."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.write(f"{daemon}\n".encode())
            self._keeper.stdin.flush()

    @property
    def _environment_within(self) -> dict[str, str]:
        return self.environment if self.root is None else self.environment | {"PATH": _CHROOT_PATH}

    def _within(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` where the lab's Slurm is; it replaces itself by that, so its process id holds.

        The mounts belong to its own namespace, and are gone with the last process in there.
        """
        if self.root is None:
            return argv
        from tests.slurm import chroot

        repository = Path(chroot.__file__).parents[2]
        groups = [*_GROUPS.glob("[!u]*")] if self._control_groups else []
        shared = [Path(tempfile.gettempdir()), self.folder, repository, *([_GROUPS] if groups else []), *groups]
        mounts = chroot.mounts(self.root, shared)
        return ["unshare", "--mount", "sh", "-ec", f"{mounts}; {chroot.ENTER}", str(self.root), *argv]

    def _write_commands(self, keeper_pid: int) -> None:
        """Commands that run where the keeper runs, in the caller's folder if that is visible there."""
        from tests.slurm import chroot

        folder = self.folder / "bin"
        folder.mkdir()
        for name, program in [*((name, name) for name in _COMMANDS), ("pyslurm-python", chroot.PYTHON)]:
            (folder / name).write_text(
                "#!/bin/sh\n"
                f"exec nsenter --target={keeper_pid} --mount --root --wd -- /usr/bin/env 'PATH={_CHROOT_PATH}' "
                f"""sh -c 'cd "$0" 2>/dev/null || cd /; exec "$@"' "$PWD" {program} "$@"\n"""
            )
            (folder / name).chmod(0o755)

    def _wait_until_idle(self, keeper: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS * (3 if self._accounting else 1)
        while time.monotonic() < deadline and keeper.poll() is None:
            answer = subprocess.run(
                ["sinfo", "--noheader", "--Node", "--format=%T"],
                env=self.environment,
                check=False,
                capture_output=True,
                text=True,
            )
            if set(answer.stdout.split()) == {"idle"}:
                return
            time.sleep(0.2)
        raise LabError("Slurm did not start:\n" + "\n".join(self._log_ends()))

    def _log_ends(self) -> Iterator[str]:
        for path in sorted(self.folder.glob("*.log")):
            yield f"--- {path.name}"
            yield from path.read_text(errors="replace").splitlines()[-8:]

    def _write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        member_of = self._member_of
        key.write_bytes(secrets.token_bytes(128) if member_of is None else (member_of.folder / key.name).read_bytes())
        key.chmod(0o400)
        controller_port, database_port, dbd_port, *node_ports = free_ports(3 + len(NODES))
        daemons = {
            "munged": [
                "munged",
                "--foreground",
                "--force",
                f"--key-file={key}",
                *(f"--{name}-file={self.folder / f'munged.{name}'}" for name in ("pid", "log", "seed")),
                f"--socket={self.folder / 'munge.sock'}",
            ]
        }
        if member_of is not None:
            dbd_port = member_of._dbd_port
            member_of.run("sacctmgr", "--immediate", "add", "cluster", self._configuration["ClusterName"])
        self._dbd_port = dbd_port
        if self._accounting:
            daemons |= self._accounting_daemons(database_port, dbd_port)
        configuration = self._slurm_conf(controller_port, dbd_port) | self._configuration
        lines = [f"{name}={value}" for name, value in configuration.items()]
        host = _short_host_name()
        for port, (node, gres) in zip(node_ports, NODES.items(), strict=True):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 "
                f"State=UNKNOWN Feature={node.partition('-')[0]},lab" + (f" Gres={gres}" if gres else "")
            )
            partition = node.partition("-")[0]
            default = "YES" if partition == "cpu" else "NO"
            lines.append(f"PartitionName={partition} Nodes={node} Default={default} MaxTime={self._max_time} State=UP")
            daemons[f"slurmd.{node}"] = ["slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf")]
        daemons["slurmctld"] = ["slurmctld", "-D", "-c", "-f", str(self.folder / "slurm.conf")]
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        if self._control_groups:
            (self.folder / "cgroup.conf").write_text(_CONTROL_GROUPS)
        elif self.root is not None:
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (self.folder / "gres.conf").write_text("\n".join(self._gres_lines()) + "\n")
        (self.folder / "daemons.json").write_text(json.dumps(daemons, indent=1))

    def _slurm_conf(self, controller_port: int, dbd_port: int) -> dict[str, str]:
        user = _user_name()
        folder = self.folder
        accounting = {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(dbd_port),
            "AccountingStoragePass": str(folder / "munge.sock"),
        }
        return {
            "ClusterName": "lab",
            "SlurmctldHost": f"{_short_host_name()}(127.0.0.1)",
            "SlurmctldPort": str(controller_port),
            "SlurmUser": user,
            "SlurmdUser": user,
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder / 'munge.sock'}",
            "CredType": "cred/munge",
            "StateSaveLocation": str(folder / "state"),
            "SlurmdSpoolDir": str(folder / "spool.%n"),
            "SlurmctldPidFile": str(folder / "slurmctld.pid"),
            "SlurmdPidFile": str(folder / "slurmd.%n.pid"),
            "SlurmctldLogFile": str(folder / "slurmctld.log"),
            "SlurmdLogFile": str(folder / "slurmd.%n.log"),
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "MpiDefault": "none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "GresTypes": "gpu",
            "SlurmdParameters": "config_overrides",
            "ReturnToService": "2",
            "KillWait": "2",
            "MinJobAge": "300",
            "MessageTimeout": "5",
            "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1",
        } | (accounting if self._accounting or self._member_of else {})

    def _gres_lines(self) -> Iterator[str]:
        """Fake GPUs: links to character devices, so that Slurm sets CUDA_VISIBLE_DEVICES for them."""
        for node, gres in NODES.items():
            if not gres:
                continue
            name, kind, _ = gres.split(":")
            for index, device in enumerate(("/dev/null", "/dev/zero")):
                (self.folder / f"{node}-{name}{index}").symlink_to(device)
            yield f"NodeName={node} Name={name} Type={kind} File={self.folder}/{node}-{name}[0-1]"

    def _accounting_daemons(self, database_port: int, dbd_port: int) -> dict[str, list[str]]:
        data = self.folder / "database"
        subprocess.run(
            self._within(
                [
                    "mariadb-install-db",
                    "--no-defaults",
                    f"--datadir={data}",
                    f"--user={_user_name()}",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ]
            ),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment_within,
        )
        setup = self.folder / "database.sql"
        setup.write_text(
            "CREATE DATABASE IF NOT EXISTS slurm;\n"
            "CREATE USER IF NOT EXISTS 'lab'@'127.0.0.1' IDENTIFIED BY 'lab';\n"
            "GRANT ALL ON slurm.* TO 'lab'@'127.0.0.1';\n"
        )
        dbd = self.folder / "slurmdbd.conf"
        dbd.touch(mode=0o600)
        dbd.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={self.folder / 'munge.sock'}\nDbdHost=localhost\nDbdAddr=127.0.0.1\n"
            f"DbdPort={dbd_port}\nSlurmUser={_user_name()}\nLogFile={self.folder / 'slurmdbd.log'}\n"
            f"PidFile={self.folder / 'slurmdbd.pid'}\nStorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
            f"StoragePort={database_port}\nStorageUser=lab\nStoragePass=lab\nStorageLoc=slurm\n"
        )
        return {
            "mariadbd": [
                "mariadbd",
                "--no-defaults",
                f"--datadir={data}",
                f"--user={_user_name()}",
                "--bind-address=127.0.0.1",
                f"--port={database_port}",
                f"--socket={self.folder / 'database.sock'}",
                f"--pid-file={self.folder / 'mariadbd.pid'}",
                f"--init-file={setup}",
                "--skip-name-resolve",
                "--innodb-flush-log-at-trx-commit=0",
            ],
            "slurmdbd": ["slurmdbd", "-D"],
        }


def _user_name() -> str:
    return pwd.getpwuid(os.getuid()).pw_name


def _short_host_name() -> str:
    return socket.gethostname().partition(".")[0]


def free_ports(count: int) -> list[int]:
    """Return ports without a listener, below those that the kernel gives to outgoing connections."""
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            probe = stack.enter_context(socket.socket())
            port = random.randrange(20000, 32000)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def _keep(folder: Path) -> None:
    """Run the lab's daemons until standard input ends, then leave nothing behind.

    As a child subreaper this process inherits the orphans of its descendants, job steps among them, so that all of
    them are found in the end. It has to reap them: Slurm takes a step for alive as long as its process is listed.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    daemons: dict[str, list[str]] = json.loads((folder / "daemons.json").read_text())
    try:
        for name, argv in daemons.items():
            _wait_until_ready(name, folder, _started(name, argv, folder))
        while asked := _asked_to_start():
            for name in asked.split():
                # slurmctld's -c drops the state that it saved.
                _started(name, [word for word in daemons[name] if word != "-c"], folder)
            _reap()
    finally:
        _kill_descendants()


def _started(name: str, argv: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.out.log").open("ab") as log:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder)


def _asked_to_start() -> str:
    """The names of daemons that standard input asks for, a space if it asks for none now; empty at its end."""
    return os.read(0, 4096).decode() if select.select([0], [], [], 0.1)[0] else " "


def _wait_until_ready(name: str, folder: Path, child: subprocess.Popen[bytes]) -> None:
    """Wait for what the next daemon needs of this one; the lab itself waits for the nodes to be idle."""
    ready = {
        "munged": ["munge", "--no-input", f"--socket={folder / 'munge.sock'}"],
        "mariadbd": ["mariadb", "--no-defaults", f"--socket={folder / 'database.sock'}", "-e", "USE slurm"],
        "slurmdbd": ["sacctmgr", "--immediate", "add", "cluster", "lab"],
    }.get(name)
    deadline = time.monotonic() + _START_SECONDS
    while ready and child.poll() is None and time.monotonic() < deadline:
        if subprocess.run(ready, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.1)


def _kill_descendants() -> None:
    """Kill daemons and jobs alike: nothing that they would save is needed any more."""
    while remaining := _descendants(os.getpid()):
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
        _reap()


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants(ancestor: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: list[int] = []
    generation = [ancestor]
    while generation:
        generation = [pid for pid, parent in parents.items() if parent in generation]
        found += generation
    return found


def main() -> int:
    """Run one command with a lab around it, and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.slurm.lab", description=main.__doc__)
    parser.add_argument("--keep", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--accounting", action="store_true", help="run slurmdbd too, so that sacct answers")
    parser.add_argument("--chroot", action="store_true", help="run the Slurm that tests/slurm/chroot.py installed")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.keep:
        _keep(options.keep)
        return 0
    if not options.command:
        parser.error("a command is missing")
    root = None
    if options.chroot:
        from tests.slurm import chroot

        if hindrance := chroot.hindrance():
            parser.error(hindrance)
        root = chroot.folder()
    with tempfile.TemporaryDirectory(prefix="slurm-lab-") as folder:
        Path(folder).chmod(0o755)
        with SlurmLab(Path(folder) / "lab", accounting=options.accounting, root=root) as lab:
            return subprocess.run(options.command, env=lab.environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
