"""The supervisor's handles of its processes: their output, their end, and the channels to those of the harness."""

import itertools
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hpc_board.harness.processes.crashes import Crash
from hpc_board.harness.processes.libraries import Touched
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.signals import SIGNAL_GRACE_SECONDS, SIGNALS, signal_name
from hpc_board.harness.processes.tree import (
    REAP_POLL_SECONDS,
    REAP_SECONDS,
    all_stopped,
    children_by_parent,
    ended,
    signal_all,
)
from hpc_board.harness.wire.channel import Channel, ChannelClosed, ChannelFull, Frame, ProtocolViolation

_READ_BYTES = 256 * 1024
_LEFT_IN_PIPES = 64
_EXIT_SECONDS = 2.0
_FREEZE_SPINS = 200
_FREEZE_POLL_SECONDS = 2e-5
_FINISH_POLL_SECONDS = 0.05


class ChildEnded(Exception):
    """The process ended, or closed its channel, before it answered; `how` is the description.

    `code` is its exit status, -n for signal n, None if it has closed only its channel.
    """

    def __init__(self, how: str, code: int | None = None) -> None:
        super().__init__(how)
        self.how = how
        self.code = code

    @property
    def signal(self) -> int | None:
        """Return the signal that ended it, None if no signal did."""
        return -self.code if self.code is not None and self.code < 0 else None


class DeadlinePassed(Exception):
    """The process did not answer in time."""


class PrintedTooMuch(Exception):
    """The process printed more than its limit."""


class Process:
    """A process in a session of its own: its output, which is read while the supervisor waits for it, and its end.

    `pipes` has the functions that take the output of each. The command of a `contained` process reports the end of the
    process inside by its own exit status.
    """

    def __init__(self, pid: int, pipes: Mapping[int, Sequence[Callable[[bytes], None]]], *, contained: bool) -> None:
        self.pid = pid
        self._contained = contained
        self._status: int | None = None
        self._reaped = False
        self._selector = selectors.DefaultSelector()
        self._pipes = dict(pipes)
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._pidfd = _exit_descriptor(pid)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def _read(self, seconds: float) -> set[int]:
        """Wait for output, or another event; read the output, and return the descriptors that were ready."""
        ready = {key.fd for key, _ in self._selector.select(seconds)}
        for descriptor in ready & self._pipes.keys():
            self._drain(descriptor)
        return ready

    def _drain(self, descriptor: int) -> bool:
        """Read some of a pipe's content; return whether more may follow."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            for take in self._pipes[descriptor]:
                take(data)
        elif descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        return bool(data)

    def _wait(self, seconds: float) -> bool:
        """Return whether the process has ended within `seconds`; keep its status, and the process until reaped."""
        deadline = time.monotonic() + seconds
        while self._status is None:
            try:
                found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                # Not adopted yet, or reaped elsewhere; in neither case would waiting yield a status.
                found = None
            if found is not None:
                self._status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(REAP_POLL_SECONDS)
        return True

    def _exit_status(self) -> int:
        """Return the status with which the process has ended, -n for signal n."""
        status = self._status or 0
        if self._contained and 128 < status < 128 + signal.NSIG:
            status = 128 - status
        if -status in SIGNALS:
            time.sleep(SIGNAL_GRACE_SECONDS)
        return status

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """Kill the process and its session, and read the rest of its output.

        A process that the kernel does not release in that time (one that waits for a device) is left behind. If a
        signal's exception interrupts this, the next call completes it; further calls do nothing.
        """
        if not self._reaped:
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
            if self._wait(patience_seconds):
                # Recorded first: once the process is reaped, its id may belong to another. `kill_orphans` reaps a
                # process that this misses.
                self._reaped = True
                with suppress(ChildProcessError):
                    os.waitpid(self.pid, os.WNOHANG)
        for descriptor in list(self._pipes):
            for _ in range(_LEFT_IN_PIPES):
                if not self._drain(descriptor):
                    break
            # Forgotten first: a leaked descriptor does less harm than closing another's.
            del self._pipes[descriptor]
            os.close(descriptor)
        if self._pidfd is not None:
            pidfd, self._pidfd = self._pidfd, None
            os.close(pidfd)
        self._selector.close()


@dataclass(frozen=True)
class Prepared:
    """The wall time of a submission's `prepare`, and the memory that its processes held more afterwards."""

    seconds: float = 0.0
    held_bytes: int = 0

    def most(self, other: "Prepared") -> "Prepared":
        """Return the larger value of each."""
        return Prepared(max(self.seconds, other.seconds), max(self.held_bytes, other.held_bytes))


class Child(Process):
    """A process of the harness, connected by a channel.

    `pid` is the process to wait for and to kill; `worker_pid` is the peer of the channel, in this process's pid
    namespace. They differ if a command started the worker: then the `launchers` are the processes from that command
    down to the worker's parent. `lacking` has a message for each library that a worker's Python lacks, as it said
    before it imported anything of the submission; once it `imports_submission`, its word may be the submission's. The
    handlers of a worker report its `crash`. A submission that `prepares` gets fixed inputs before its calls; `prepared`
    has the most that this took. `mapped` are the known libraries in its memory on a GPU, and `touched` the parts of
    their code that it has read on a CPU, before it imports anything of the submission.
    """

    def __init__(
        self,
        pid: int,
        channel: Channel,
        streams: Sequence[tuple[int, Printed]],
        *,
        printed_bytes_max: int,
        worker_pid: int | None = None,
        contained: bool = False,
    ) -> None:
        super().__init__(pid, {descriptor: [printed.add] for descriptor, printed in streams}, contained=contained)
        self.worker_pid = pid if worker_pid is None else worker_pid
        self.launchers = _launchers_of(self.worker_pid, pid)
        self.lacking: Mapping[str, str] = {}
        self.crash: Crash | None = None
        self.imports_submission = False
        self.prepares = False
        self.prepared = Prepared()
        self.mapped: frozenset[str] = frozenset()
        self.touched: frozenset[Touched] = frozenset()
        self._channel = channel
        self._reads = True
        self._printed = [printed for _, printed in streams]
        self._limit = printed_bytes_max
        self._selector.register(channel, selectors.EVENT_READ)

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> None:
        """Send a frame; a process that has ended or does not read is noticed by the next `answer`."""
        try:
            self._channel.send(frame, fds)
        except ChannelClosed:
            return
        except ChannelFull:
            self._reads = False

    def answer(self, expected: Sequence[str], deadline: float) -> Frame:
        """Return the next frame, of one of the `expected` types, before `deadline` on the monotonic clock.

        Raises:
            ChildEnded: the process is gone, even if another process still holds its channel.
            DeadlinePassed: no frame came in time.
            PrintedTooMuch: the process's output exceeded the limit.
            ProtocolViolation: the frame is malformed or of another type.
        """
        if not self._reads:
            raise ProtocolViolation("no frame, and it does not read the frames sent to it")
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise DeadlinePassed
            ready = self._read(remaining)
            if self._prints_too_much():
                raise PrintedTooMuch
            if self._channel.fileno() in ready:
                return self._frame(expected)
            if self._pidfd is not None and self._pidfd in ready:
                raise self._ended()

    def _frame(self, expected: Sequence[str]) -> Frame:
        try:
            frame, _ = self._channel.receive()
        except ChannelClosed:
            raise self._ended() from None
        if frame["type"] not in expected:
            raise ProtocolViolation(f"a frame of the type {frame['type'][:40]!r} instead of {' or '.join(expected)}")
        return frame

    def _prints_too_much(self) -> bool:
        return sum(each.total_bytes for each in self._printed) > self._limit

    def _ended(self) -> ChildEnded:
        if not self._wait(_EXIT_SECONDS):
            return ChildEnded("it closed its channel to the harness")
        code = self._exit_status()
        if code < 0:
            return ChildEnded(f"it was killed by signal {-code} ({signal_name(-code)})", code)
        return ChildEnded(f"it exited with status {code}", code)

    def end_of(self, error: ChildEnded) -> str:
        """Return the end of the process in words, with the place of a crash."""
        return error.how + (self.crash.words() if self.crash is not None and error.signal else "")

    def freeze(self, deadline: float) -> None:
        """Stop the process with all its threads.

        Raises:
            ChildEnded: the process is gone.
            DeadlinePassed: a thread had not stopped by then.
        """
        for polls in itertools.count():
            if polls % _FREEZE_SPINS == 0:
                signal_all([self.worker_pid], signal.SIGSTOP)
            if self._stopped():
                return
            if time.monotonic() >= deadline:
                raise DeadlinePassed
            if polls >= _FREEZE_SPINS:
                time.sleep(_FREEZE_POLL_SECONDS)
            else:
                os.sched_yield()

    def _stopped(self) -> bool:
        if self.worker_pid != self.pid:
            if ended(self.worker_pid):
                raise self._ended()
            return all_stopped(self.worker_pid)
        try:
            found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return all_stopped(self.pid)
        if found is None:
            return False
        if found.si_code != os.CLD_STOPPED:
            raise self._ended()
        # A stop before the process continued no longer counts, so this consumes the notification of the current stop.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
        return True

    def thaw(self) -> None:
        """Continue the process."""
        signal_all([self.worker_pid], signal.SIGCONT)

    def finish(self, deadline: float) -> int | None:
        """Close the channel, upon which the process ends by itself, and return its exit status.

        None if the process does not end by the deadline.
        """
        self._selector.unregister(self._channel)
        self._channel.close()
        while time.monotonic() < deadline and not self._prints_too_much():
            self._read(_FINISH_POLL_SECONDS)
            if self._wait(0):
                return self._status
        return None

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """End the process, and close its channel."""
        super().end(patience_seconds)
        self._channel.close()
        if self.crash is not None:
            self.crash.close()
            self.crash = None


def _launchers_of(worker: int, command: int) -> list[int]:
    """Return the processes from a worker's parent up to the command that started it.

    Without such a command, return the worker itself.
    """
    found = [command]
    if worker == command:
        return found
    parents = {pid: parent for parent, pids in children_by_parent().items() for pid in pids}
    while worker in parents and parents[worker] != command:
        worker = parents[worker]
        found.append(worker)
    return found


def _exit_descriptor(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None on kernels before 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
