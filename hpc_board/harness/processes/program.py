"""A program as a process: confined before it starts, its output read while it runs, all remains removed.

It is a compiler, which reads less than a worker and writes one folder, or a task's own eval together with the
submission, which gives up the same privileges as a worker. The eval keeps a pipe for its report, a folder of files to
read, and a private folder to write. In addition it may write to `/dev/shm`, without which Python's `multiprocessing`
has no locks: to a private one if the system permits that.
"""

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.seccomp import deny_outside_effects
from hpc_board.harness.processes.child import DeadlinePassed, PrintedTooMuch, Process
from hpc_board.harness.processes.output import Printed
from hpc_board.model.text import one_line

_REPORT = "POPCORN_FD"
_POLL_SECONDS = 0.1

NOT_STARTED = 113
"""The exit status of a process that could not become its program."""


SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where POSIX has its semaphores

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_SLAVE = 2, 4, 16384, 1 << 19

_libc = ctypes.CDLL(None, use_errno=True)


def own_shared_memory() -> bool:
    """Give this process and its later children an empty `/dev/shm` that ends with the last of them.

    Named semaphores and shared memory lie there, and would outlive their creators.

    Return whether it succeeded: this takes a mount namespace, and without that privilege a user namespace around it. A
    child tries it first, since half of it cannot be undone. This process must have one thread.
    """
    child = os.fork()
    if child == 0:
        worked = False
        try:
            worked = _mounted()
        finally:
            os._exit(0 if worked else 1)
    return os.waitpid(child, 0)[1] == 0 and _mounted()


def _mounted() -> bool:
    if _libc.unshare(_CLONE_NEWNS) != 0 and not _in_user_namespace():
        return False
    # Later mounts inside stay inside; later mounts of the system are visible here too.
    if _libc.mount(None, b"/", None, _MS_REC | _MS_SLAVE, None) != 0:
        return False
    place, flags = SHARED_MEMORY.encode(), _MS_NOSUID | _MS_NODEV
    return bool(_libc.mount(b"tmpfs", place, b"tmpfs", flags, b"mode=1777") == 0)


def _in_user_namespace() -> bool:
    """Enter a user namespace with mounts of its own, with user and group mapped to themselves."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return True


def become_program(parent: int) -> None:
    """Read the order from standard input, drop all other privileges, and run the program; this is the role `program`.

    Earlier messages go to the descriptor `told`, which closes when the program has started: the isolation level, or the
    reason for a failed start. It does not start below the order's minimum level. The process ends with its `parent`, or
    for 0 with any parent: a container's first process has another id inside.
    """
    sandbox.die_with_parent(parent or os.getppid())
    order = json.loads(sys.stdin.buffer.read())
    # The command of a container may have closed that descriptor.
    with suppress(OSError):
        os.set_inheritable(order["told"], False)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        sandbox.limit_resources(order["file_bytes"], order["spared_processes"])
        if order["compiles"]:
            landlock = sandbox.confine_compiler(order["readable"], order["home"])
        else:
            if parent:  # a container has a /dev/shm of its own
                own_shared_memory()
            landlock = sandbox.confine(
                [*order["readable"], order["folder"]], [order["home"], SHARED_MEMORY], network=order["network"]
            )
        filtered = deny_outside_effects(network=order["network"], others=[parent] if parent else [])
        level = sandbox.level_of(landlock, filtered=filtered and not (parent and order["network"]))
        _tell(order["told"], level)
        if not sandbox.reaches(level, order["minimum_isolation"]):
            os._exit(NOT_STARTED)
        os.chdir(order["folder"])
        if order["report"]:
            os.environ[_REPORT] = str(order["report"])
        os.execvpe(order["command"][0], order["command"], dict(os.environ))  # noqa: S606 - its own list of arguments
    except Exception as error:  # noqa: BLE001 - the program has not begun, so no error is its own
        _tell(order["told"], f" {error!r}")
        os._exit(NOT_STARTED)


def _tell(descriptor: int, text: str) -> None:
    with suppress(OSError):
        os.write(descriptor, text.encode())


@dataclass(frozen=True)
class Room:
    """Surroundings of a program: the `folder` of its files, its `home` to write, and its other readable folders.

    `environment` is that of its whole command, whose `prefix` is that of the container around it, if any, and `python`
    the interpreter there. One that `compiles` reads no more than a compiler needs. With `network` it may talk to other
    processes by TCP: without a container of its own, the level is then S1. A program does not start below
    `minimum_isolation`.
    """

    folder: Path
    home: Path
    readable: Sequence[str]
    environment: Mapping[str, str]
    prefix: Sequence[str]
    python: str
    file_bytes: int
    compiles: bool = False
    spared_processes: int = 0
    network: bool = False
    minimum_isolation: str = ""


class Program(Process):
    """A running program; `printed` takes standard output and standard error if it holds two streams, else both in one.

    `stdout` is a file that takes standard output instead. `heard` is called with standard output, too, and
    `report` with the contents of a further pipe, whose descriptor the program is told.
    """

    def __init__(
        self,
        command: Sequence[str],
        harness: Path,
        room: Room,
        printed: Sequence[Printed],
        *,
        stdout: BinaryIO | None = None,
        heard: Callable[[bytes], None] | None = None,
        report: Callable[[bytes], None] | None = None,
    ) -> None:
        self._printed = printed
        self._limit_from = self._printed_bytes()
        self._said = bytearray()
        takers: list[list[Callable[[bytes], None]]] = [[self._said.extend]]
        takers += [[each.add] for each in printed]
        takers[1] += [heard] if heard else []
        takers += [[report]] if report else []
        pipes = [os.pipe() for _ in takers]
        told, *writers = (writer for _, writer in pipes)
        self._told = pipes[0][0]
        parent = 0 if room.prefix else os.getpid()
        reported = writers[len(printed) :]
        try:
            self._began = time.monotonic()
            process = subprocess.Popen(
                [*room.prefix, room.python, "-I", "-B", "-u", str(harness), "program", str(parent)],
                stdin=subprocess.PIPE,
                stdout=stdout or writers[0],
                stderr=writers[len(printed) - 1],
                env=dict(room.environment),
                cwd=room.home,
                pass_fds=(told, *reported),
                start_new_session=True,
            )
        finally:
            for _, writer in pipes:
                os.close(writer)
        # From here on it is waited for only by its id.
        process.returncode = 0
        readers = (reader for reader, _ in pipes)
        super().__init__(process.pid, dict(zip(readers, takers, strict=True)), contained=bool(room.prefix))
        order = {
            "told": told,
            "report": reported[0] if reported else 0,
            "folder": str(room.folder),
            "home": str(room.home),
            "readable": list(room.readable),
            "compiles": room.compiles,
            "file_bytes": room.file_bytes,
            "spared_processes": room.spared_processes,
            "network": room.network,
            "minimum_isolation": room.minimum_isolation,
            "command": list(command),
        }
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), process.stdin as file:
            file.write(json.dumps(order).encode())

    @property
    def seconds(self) -> float:
        """Return the time since its start."""
        return time.monotonic() - self._began

    def _printed_bytes(self) -> int:
        return sum(each.total_bytes for each in self._printed)

    def told(self, seconds: float = 0.0) -> tuple[str, str]:
        """Return the isolation level with which it has started, and the reason for a failed start.

        Wait that many seconds for its start.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._told in self._selector.get_map():
            if self._pidfd in self._read(left):
                break
        level, _, error = self._said.decode(errors="replace").partition(" ")
        return level, one_line(error, 500)

    def wait(self, seconds: float, printed_bytes: int, watch: Callable[[], object]) -> int:
        """Return the status with which the program ends, -n for signal n.

        `watch` is called periodically meanwhile. Processes that the program has started may still run afterwards.

        Raises:
            DeadlinePassed: it did not finish within that many seconds of its start.
            PrintedTooMuch: its output exceeded the limit.
        """
        while True:
            self._read(_POLL_SECONDS)
            watch()
            if self._wait(0):
                return self._exit_status()
            if self._printed_bytes() - self._limit_from > printed_bytes:
                raise PrintedTooMuch
            if self.seconds >= seconds:
                raise DeadlinePassed
