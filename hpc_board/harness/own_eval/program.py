"""A task's own eval as a process: confined before it starts, its output read while it runs, all remains removed.

The eval and the submission are one program here, so this process gives up the same privileges as a worker. It keeps a
pipe for its report, a folder of files to read, and a private folder to write. In addition it may write to `/dev/shm`,
without which Python's `multiprocessing` has no locks: to a private one if the system permits that.
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

from hpc_board.harness.confine import sandbox
from hpc_board.harness.confine.seccomp import deny_outside_effects
from hpc_board.harness.own_eval.report import Ended, Report, Scores
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.harness.processes.child import READ_BYTES, exit_descriptor, signal_told
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.signals import SIGNAL_GRACE_SECONDS, SIGNALS
from hpc_board.harness.processes.tree import REAP_POLL_SECONDS, REAP_SECONDS, reap_orphans
from hpc_board.model.result import Verdict
from hpc_board.model.text import one_line

_REPORT = "POPCORN_FD"
_POLL_SECONDS = 0.1
_LEFT_IN_PIPES = 64
_NOT_STARTED = 113


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
    os.set_inheritable(order["told"], False)
    if not order["apart"]:  # a container has a /dev/shm of its own
        own_shared_memory()
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        sandbox.limit_resources(order["file_bytes"], order["spared_processes"])
        os.environ.update(order["environment"])  # before: it names the job's GPUs
        landlock = sandbox.confine(order["readable"], order["writable"], network=order["network"])
        filtered = deny_outside_effects(network=order["network"], others=[parent] if parent else [])
        level = sandbox.level_of(landlock, filtered=filtered and (order["apart"] or not order["network"]))
        os.write(order["told"], level.encode())
        if not sandbox.reaches(level, order["minimum_isolation"]):
            os._exit(_NOT_STARTED)
        os.chdir(order["folder"])
        os.execvpe(order["command"][0], order["command"], dict(os.environ))  # noqa: S606 - its own list of arguments
    except OSError as error:
        os.write(order["told"], f" {error}".encode())
        os._exit(_NOT_STARTED)


@dataclass(frozen=True)
class Room:
    """Surroundings of a program: the `folder` of its files, its `home` to write, and its other readable folders.

    `prefix` is the command of the container around it, if any, and `python` the interpreter there. With `network` it
    may talk to other processes by TCP: without a container of its own, the level is then S1. A program does not start
    below `minimum_isolation`.
    """

    folder: Path
    home: Path
    readable: Sequence[str]
    environment: Mapping[str, str]
    file_bytes: int
    spared_processes: int
    prefix: Sequence[str] = ()
    python: str = sys.executable
    network: bool = False
    minimum_isolation: str = ""


class Program:
    """A running program, with its `report`, its output, and the `scores` in that output."""

    def __init__(
        self, command: Sequence[str], harness: Path, room: Room, stdout: Printed, stderr: Printed, *, reports: bool
    ) -> None:
        self.scores = Scores()
        self.report = Report()
        self._stderr, self._stderr_from = stderr, stderr.total_bytes
        self._limit_from = stdout.total_bytes + stderr.total_bytes
        self._printed = (stdout, stderr)
        self._pipes: dict[int, Sequence[Callable[[bytes], None]]] = {}
        self._selector = selectors.DefaultSelector()
        self._reaped = False
        told, writers = os.pipe(), [self._pipe(stdout.add, self.scores.add), self._pipe(stderr.add)]
        if reports:
            writers.append(self._pipe(self.report.add))
        self._contained = bool(room.prefix)
        parent = 0 if self._contained else os.getpid()
        try:
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                [*room.prefix, room.python, "-I", "-B", "-u", str(harness), "program", str(parent)],
                stdin=subprocess.PIPE,
                stdout=writers[0],
                stderr=writers[1],
                env=dict(room.environment),
                cwd=room.home,
                pass_fds=(told[1], *writers[2:]),
                start_new_session=True,
            )
        finally:
            for descriptor in (told[1], *writers):
                os.close(descriptor)
        self.pid = self._process.pid
        self._pidfd = exit_descriptor(self.pid)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)
        order = {
            "told": told[1],
            "environment": {_REPORT: str(writers[2])} if reports else {},
            "file_bytes": room.file_bytes,
            "spared_processes": room.spared_processes,
            "readable": [*room.readable, str(room.folder)],
            "writable": [str(room.home), SHARED_MEMORY],
            "folder": str(room.folder),
            "network": room.network,
            "minimum_isolation": room.minimum_isolation,
            "apart": self._contained,
            "command": list(command),
        }
        self._order(order)
        self._told = told[0]

    def _pipe(self, *adds: Callable[[bytes], None]) -> int:
        """Return the write end of a pipe whose content goes to all of `adds`."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._pipes[reader] = adds
        self._selector.register(reader, selectors.EVENT_READ)
        return writer

    def _order(self, order: Mapping[str, object]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError), self._process.stdin as file:
            file.write(json.dumps(order).encode())

    def level(self, seconds: float) -> str:
        """Return the isolation level with which the program has started.

        Raises:
            CallFailed: it could not be started within that many seconds.
        """
        said, deadline = b"", time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._told, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                data = os.read(self._told, READ_BYTES)
                if not data:
                    break
                said += data
            else:
                raise CallFailed(Verdict.INFRA_ERROR, f"the task's eval was not started within {seconds:g} s")
        level, _, error = said.decode(errors="replace").partition(" ")
        if error or not level:
            message = one_line(error, 500) or "its process ended before"
            raise CallFailed(Verdict.INFRA_ERROR, f"the task's eval cannot be started: {message}")
        return level

    def ended(self, seconds: float, printed_bytes: int, watch: Callable[[], None]) -> Ended:
        """Wait until the program ends; stop it after that many seconds, or when its output exceeds the limit.

        `watch` is called periodically meanwhile. Processes that the program has started may still run afterwards.
        """
        deadline = self._began + seconds
        while True:
            ready = {key.fd for key, _ in self._selector.select(_POLL_SECONDS)}
            for descriptor in ready & self._pipes.keys():
                self._drain(descriptor)
            reap_orphans([self.pid])
            watch()
            status = self._process.poll()
            now = time.monotonic()
            if status is not None:
                status = signal_told(status) if self._contained else status
                if -status in SIGNALS:
                    time.sleep(SIGNAL_GRACE_SECONDS)
                return Ended(status, now - self._began)
            if self.report.too_large:
                return Ended(0, now - self._began)
            if sum(each.total_bytes for each in self._printed) - self._limit_from > printed_bytes:
                message = f"it printed more than {printed_bytes} bytes"
                return Ended(0, now - self._began, Verdict.OUTPUT_LIMIT, message)
            if now >= deadline:
                message = f"the task's eval did not end within {seconds:g} s, and was stopped"
                return Ended(0, now - self._began, Verdict.TIMEOUT, message)

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
        self.report.end()
        self.scores.end()

    def close(self) -> None:
        """Close the descriptors between the supervisor and the program."""
        for descriptor in (*self._pipes, self._told, self._pidfd):
            if descriptor is not None:
                os.close(descriptor)
        self._pipes.clear()
        self._selector.close()

    def last_words(self) -> str:
        """Return the last line of the program's standard error, "" if it is empty."""
        if self._stderr.total_bytes == self._stderr_from:
            return ""
        log = self._stderr.log()
        lines = [line for line in (log.tail or log.head).splitlines() if line.strip()]
        return one_line(lines[-1], 500) if lines else ""
