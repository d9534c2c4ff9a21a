"""The supervisor's processes as it sees them: a channel to each, what they print, and how they end."""

import itertools
import os
import selectors
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.signals import CHILD_GRACE_SECONDS, SIGNALS
from hpc_board.harness.processes.tree import (
    REAP_POLL_SECONDS,
    REAP_SECONDS,
    all_stopped,
    children_by_parent,
    ended,
    signal_all,
)
from hpc_board.harness.wire.channel import Channel, ChannelClosed, ChannelFull, Frame, ProtocolViolation

READ_BYTES = 256 * 1024
"""How much of what a process prints is read at once."""

_EXIT_SECONDS = 2.0
_FREEZE_SPINS = 200
_FREEZE_POLL_SECONDS = 2e-5
_FINISH_POLL_SECONDS = 0.05


class ChildEnded(Exception):
    """The process ended, or closed its channel, before it answered; `how` says it in words.

    `signal` is the signal that ended it, None where none did.
    """

    def __init__(self, how: str, signal_number: int | None = None) -> None:
        super().__init__(how)
        self.how = how
        self.signal = signal_number


class DeadlinePassed(Exception):
    """No answer came in time."""


class PrintedTooMuch(Exception):
    """The process printed more than it may."""


class Child:
    """A process of the harness in a session of its own, connected by a channel.

    What it prints goes to `stdout` and `stderr`, read while its answers are awaited. `pid` is the process that is
    waited for and killed, `worker_pid` the one at the other end of the channel, as seen from here: another one where a
    command started the worker, by the `starters`, which are what stands between the supervisor and the worker. The
    command of one that is `contained` tells by its own status how the worker ended.
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
        self.pid = pid
        self.worker_pid = pid if worker_pid is None else worker_pid
        self.starters = _starters_of(self.worker_pid, pid)
        self._contained = contained
        self._channel = channel
        self._reads = True
        self._limit = printed_bytes_max
        self._status: int | None = None
        self._reaped = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._streams: dict[int, Printed] = {}
        for descriptor, printed in streams:
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)
            self._streams[descriptor] = printed
        self._pidfd = exit_descriptor(pid)
        if self._pidfd is not None:
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> None:
        """Send a frame; that the process has ended, or does not read, shows when its answer is awaited."""
        try:
            self._channel.send(frame, fds)
        except ChannelClosed:
            return
        except ChannelFull:
            self._reads = False

    def answer(self, expected: Sequence[str], deadline: float) -> tuple[Frame, list[int]]:
        """The next frame, of one of the `expected` types, before `deadline` on the monotonic clock.

        Raises:
            ChildEnded: the process is gone, whoever else may hold its channel.
            DeadlinePassed: nothing came in time.
            PrintedTooMuch: its output went over the limit.
            ProtocolViolation: another frame came, or something that is none.
        """
        if not self._reads:
            raise ProtocolViolation("nothing to the point: it does not read what it is sent")
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise DeadlinePassed
            ready = {key.fd for key, _ in self._selector.select(remaining)}
            for descriptor in ready & self._streams.keys():
                self._drain(descriptor)
            if sum(printed.total_bytes for printed in self._streams.values()) > self._limit:
                raise PrintedTooMuch
            if self._channel.fileno() in ready:
                return self._frame(expected)
            if self._pidfd is not None and self._pidfd in ready:
                raise self._ended()

    def _frame(self, expected: Sequence[str]) -> tuple[Frame, list[int]]:
        try:
            frame, fds = self._channel.receive()
        except ChannelClosed:
            raise self._ended() from None
        if frame["type"] not in expected:
            for descriptor in fds:
                os.close(descriptor)
            raise ProtocolViolation(f"a frame of the type {frame['type'][:40]!r} instead of {' or '.join(expected)}")
        return frame, fds

    def _drain(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._streams[descriptor].add(data)
        elif descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        return bool(data)

    def _ended(self) -> ChildEnded:
        if not self._wait(_EXIT_SECONDS):
            return ChildEnded("it closed its channel to the harness")
        code = self._status or 0
        code = signal_told(code) if self._contained else code
        if -code in SIGNALS:
            time.sleep(CHILD_GRACE_SECONDS)
        if code < 0:
            return ChildEnded(f"it was ended by signal {-code} ({_signal_name(-code)})", -code)
        return ChildEnded(f"it exited with status {code}")

    def _wait(self, seconds: float) -> bool:
        """Whether the process has ended within `seconds`; its status is kept, and the process until it is reaped."""
        deadline = time.monotonic() + seconds
        while self._status is None:
            try:
                found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                # Not adopted yet, or reaped elsewhere; in neither case is there a status to be had by waiting.
                found = None
            if found is not None:
                self._status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(REAP_POLL_SECONDS)
        return True

    def freeze(self, deadline: float) -> None:
        """Stop the process with all its threads.

        Raises:
            ChildEnded: it is gone.
            DeadlinePassed: a thread of it had not stopped by then.
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
        # A stop that was before counts no more once the process goes on, so this takes the notice of the one at hand.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
        return True

    def thaw(self) -> None:
        """Let the process go on."""
        signal_all([self.worker_pid], signal.SIGCONT)

    def finish(self, deadline: float) -> int | None:
        """Close the channel, upon which the process ends by itself, and return its exit status; None if it does not."""
        self._selector.unregister(self._channel)
        self._channel.close()
        while time.monotonic() < deadline and sum(each.total_bytes for each in self._streams.values()) <= self._limit:
            ready = {key.fd for key, _ in self._selector.select(_FINISH_POLL_SECONDS)}
            for descriptor in ready & self._streams.keys():
                self._drain(descriptor)
            if self._wait(0):
                return self._status
        return None

    def end(self, patience_seconds: float = REAP_SECONDS) -> None:
        """Kill the process and its session, and take in what it had printed.

        A process that the kernel does not let go in that time (one that waits for a device) is left behind. What a
        signal's exception has cut short is done by the next call; one more than that does nothing.
        """
        if not self._reaped:
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
            if self._wait(patience_seconds):
                # Noted first: from when it is reaped, the id may be another's. What is not, `kill_orphans` reaps.
                self._reaped = True
                with suppress(ChildProcessError):
                    os.waitpid(self.pid, os.WNOHANG)
        for descriptor in list(self._streams):
            for _ in range(64):
                if not self._drain(descriptor):
                    break
            # Forgotten first: a descriptor that is not closed does less harm than another's that is.
            del self._streams[descriptor]
            os.close(descriptor)
        if self._pidfd is not None:
            pidfd, self._pidfd = self._pidfd, None
            os.close(pidfd)
        self._selector.close()
        self._channel.close()


def signal_told(status: int) -> int:
    """The status of a process in a container, by that of the command which runs it: -n for 128 + n, after signal n."""
    return 128 - status if 128 < status < 128 + signal.NSIG else status


def _starters_of(worker: int, command: int) -> list[int]:
    """The processes from a worker's parent up to the command that started it; the worker itself where none did."""
    found = [command]
    if worker == command:
        return found
    parents = {pid: parent for parent, pids in children_by_parent().items() for pid in pids}
    while worker in parents and parents[worker] != command:
        worker = parents[worker]
        found.append(worker)
    return found


def exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None on kernels before 5.3."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
