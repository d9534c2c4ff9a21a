"""A judge or a worker as the supervisor sees it: a process, a channel, and what it prints."""

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, Mapping, Sequence, Tuple

from hpc_board.harness.channel import ChannelClosed, ChannelFull, Frame, ProtocolViolation, pair
from hpc_board.harness.printed import Printed

_READ_BYTES = 256 * 1024
_EXIT_SECONDS = 2.0
_REAP_SECONDS = 5.0
_REAP_POLL_SECONDS = 0.01


class ChildEnded(Exception):
    """The process ended, or closed its channel, before it answered; `how` says it in words."""

    def __init__(self, how: str, *, signalled: bool) -> None:
        super().__init__(how)
        self.how = how
        self.signalled = signalled


class DeadlinePassed(Exception):
    """No answer came in time."""


class PrintedTooMuch(Exception):
    """The process printed more than it may."""


class Child:
    """A process of the harness in a session of its own, connected by a channel.

    What it prints goes to `stdout` and `stderr`, read while its answers are awaited.
    """

    def __init__(
        self,
        role: str,
        harness: Path,
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdout: Printed,
        stderr: Printed,
        printed_bytes_max: int,
    ) -> None:
        self._channel, theirs = pair(takes_fds=role == "judge")
        self._reads = True
        self._limit = printed_bytes_max
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-u", str(harness), role, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._streams: Dict[int, Printed] = {}
        for stream, printed in ((self._process.stdout, stdout), (self._process.stderr, stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ)
                self._streams[stream.fileno()] = printed

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> None:
        """Send a frame; that the process has ended, or does not read, shows when its answer is awaited."""
        try:
            self._channel.send(frame, fds)
        except ChannelClosed:
            return
        except ChannelFull:
            self._reads = False

    def answer(self, expected: Sequence[str], deadline: float) -> Tuple[Frame, List[int]]:
        """The next frame, of one of the `expected` types, before `deadline` on the monotonic clock.

        Raises:
            ChildEnded: the process is gone.
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
            for descriptor in ready - {self._channel.fileno()}:
                self._drain(descriptor)
            if sum(printed.total_bytes for printed in self._streams.values()) > self._limit:
                raise PrintedTooMuch
            if self._channel.fileno() in ready:
                return self._frame(expected)

    def _frame(self, expected: Sequence[str]) -> Tuple[Frame, List[int]]:
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
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._streams[descriptor].add(data)
        elif descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)
        return bool(data)

    def _ended(self) -> ChildEnded:
        try:
            status = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return ChildEnded("it closed its channel to the harness", signalled=False)
        if status < 0:
            return ChildEnded(f"it was ended by signal {-status} ({_signal_name(-status)})", signalled=True)
        return ChildEnded(f"it exited with status {status}", signalled=False)

    def end(self) -> None:
        """Kill the process and its session, and take in what it had printed.

        A process that the kernel does not let go within 5 s (one that waits for a device) is left behind.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_SECONDS)
        for descriptor in list(self._streams):
            for _ in range(64):
                if not self._drain(descriptor):
                    break
        self._selector.close()
        self._channel.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def kill_orphans(keep: Sequence[int]) -> int:
    """Kill every descendant but `keep`, and return how many are still there after 5 s.

    Those of dead workers have become children of this subreaper.
    """
    deadline = time.monotonic() + _REAP_SECONDS
    while True:
        orphans = [pid for pid in _children() if pid not in keep]
        if not orphans or time.monotonic() >= deadline:
            return len(orphans)
        for pid in orphans:
            with suppress(ProcessLookupError, ChildProcessError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_REAP_POLL_SECONDS)


def _children() -> List[int]:
    children: List[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                children.append(int(entry.name))
    return children
