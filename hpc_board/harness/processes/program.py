"""A program as a process: confined before it starts, its output read while it runs, all remains removed.

It is a compiler, which reads less than a worker and writes one folder, or a task's own eval together with the
submission, which gives up the same privileges as a worker. The eval keeps a pipe for its report, a folder of files to
read, and a private folder to write. In addition it may write to `/dev/shm`, without which Python's `multiprocessing`
has no locks: to a private one if the system permits that.
"""

import ctypes
import json
import os
import selectors
import signal
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
from hpc_board.harness.processes.child import (
    READ_BYTES,
    DeadlinePassed,
    PrintedTooMuch,
    exit_descriptor,
    signal_told,
)
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.signals import SIGNAL_GRACE_SECONDS, SIGNALS
from hpc_board.harness.processes.tree import REAP_POLL_SECONDS, REAP_SECONDS
from hpc_board.model.text import one_line

_REPORT = "POPCORN_FD"
_POLL_SECONDS = 0.1
_LEFT_IN_PIPES = 64

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


class Program:
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
        self._pipes: dict[int, Sequence[Callable[[bytes], None]]] = {}
        self._selector = selectors.DefaultSelector()
        self._reaped = False
        self._contained = bool(room.prefix)
        parent = 0 if self._contained else os.getpid()
        told = os.pipe()
        adds = [each.add for each in printed]
        writers = [self._pipe(adds[0], *([heard] if heard else [])), *map(self._pipe, adds[1:])]
        reported = [self._pipe(report)] if report else []
        try:
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                [*room.prefix, room.python, "-I", "-B", "-u", str(harness), "program", str(parent)],
                stdin=subprocess.PIPE,
                stdout=stdout or writers[0],
                stderr=writers[-1],
                env=dict(room.environment),
                cwd=room.home,
                pass_fds=(told[1], *reported),
                start_new_session=True,
            )
        finally:
            for descriptor in (told[1], *writers, *reported):
                os.close(descriptor)
        self.pid = self._process.pid
        self._told = told[0]
        self._pidfd = exit_descriptor(self.pid)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)
        order = {
            "told": told[1],
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
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), self._process.stdin as file:
            file.write(json.dumps(order).encode())

    @property
    def seconds(self) -> float:
        """Return the time since its start."""
        return time.monotonic() - self._began

    def _printed_bytes(self) -> int:
        return sum(each.total_bytes for each in self._printed)

    def _pipe(self, *adds: Callable[[bytes], None]) -> int:
        """Return the write end of a pipe whose content goes to all of `adds`."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._pipes[reader] = adds
        self._selector.register(reader, selectors.EVENT_READ)
        return writer

    def told(self, seconds: float = 0.0) -> tuple[str, str]:
        """Return the isolation level with which it has started, and the reason for a failed start.

        Wait that many seconds for its start.
        """
        said, deadline = b"", time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._told, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(self._told, READ_BYTES)
                if not data:
                    break
                said += data
        level, _, error = said.decode(errors="replace").partition(" ")
        return level, one_line(error, 500)

    def wait(self, seconds: float, printed_bytes: int, watch: Callable[[], object]) -> int:
        """Return the status with which the program ends, -n for signal n.

        `watch` is called periodically meanwhile. Processes that the program has started may still run afterwards.

        Raises:
            DeadlinePassed: it did not end within that many seconds of its start.
            PrintedTooMuch: its output exceeded the limit.
        """
        while True:
            ready = {key.fd for key, _ in self._selector.select(_POLL_SECONDS)}
            for descriptor in ready & self._pipes.keys():
                self._drain(descriptor)
            watch()
            status = self._process.poll()
            if status is not None:
                status = signal_told(status) if self._contained else status
                if -status in SIGNALS:
                    time.sleep(SIGNAL_GRACE_SECONDS)
                return status
            if self._printed_bytes() - self._limit_from > printed_bytes:
                raise PrintedTooMuch
            if self.seconds >= seconds:
                raise DeadlinePassed

    def _drain(self, descriptor: int) -> bool:
        """Read some of a pipe's content; return whether more may follow."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(descriptor)
            del self._pipes[descriptor]
            os.close(descriptor)
            return False
        for add in self._pipes[descriptor]:
            add(data)
        return True

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """Kill the program with its session, and read the rest of its pipes.

        Processes that left the session live on below the supervisor, until they are killed.
        """
        if not self._reaped:
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
            deadline = time.monotonic() + patience_seconds
            while self._process.poll() is None and time.monotonic() < deadline:
                time.sleep(REAP_POLL_SECONDS)
            self._reaped = self._process.poll() is not None
        for descriptor in list(self._pipes):
            for _ in range(_LEFT_IN_PIPES):
                if not self._drain(descriptor):
                    break

    def close(self) -> None:
        """Close the descriptors between the supervisor and the program."""
        for descriptor in (*self._pipes, self._told, self._pidfd):
            if descriptor is not None:
                os.close(descriptor)
        self._pipes.clear()
        self._selector.close()
