"""Patience with hosts: the end of a question that takes too long, and the pause after a host did not answer."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from hpc_board.errors import SchedulerError

RETRY_SECONDS: Final = 10.0
"""The pause after a host did not answer, or four times the length of the attempt."""


class RetryDelay:
    """A pause after a host did not answer: until its end the same error is raised at once.

    A host that never answers must not take most of the time of a board's other clusters.
    """

    def __init__(self, shortest_seconds: float = RETRY_SECONDS) -> None:
        self._shortest_seconds = shortest_seconds
        self._until = -math.inf
        self._error: SchedulerError | None = None

    def check(self) -> None:
        """Raise the error again for which the rest is taken, unless it is over."""
        if self._error is not None and time.monotonic() < self._until:
            raise type(self._error)(self._error.message, hint=self._error.hint)

    def begin(self, error: SchedulerError, tried_since: float, *, at_least_seconds: float = 0.0) -> None:
        """Pause because of `error`, from an attempt that began at that time of the monotonic clock."""
        now = time.monotonic()
        self._error = error
        self._until = now + max(self._shortest_seconds, at_least_seconds, 4 * (now - tried_since))

    def end(self) -> None:
        """End the pause, as the host has answered."""
        self._error = None


class Closable(Protocol):
    """A resource that blocks on a host until it is closed: a connection, or a session on one."""

    def close(self) -> object:
        """Close the resource, from any thread."""


def close_quietly(what: Closable) -> None:
    """Close `what`, from any thread; that its connection breaks meanwhile is as good."""
    import paramiko

    with contextlib.suppress(EOFError, OSError, paramiko.SSHException):
        what.close()


@contextmanager
def closed_after(seconds: float, what: Closable) -> Iterator[threading.Event]:
    """Close `what` if the block takes longer than `seconds`, however it waits; the event says that this happened."""
    with ended_after(seconds, lambda: close_quietly(what)) as late:
        yield late


@contextmanager
def ended_after(seconds: float, end: Callable[[], object]) -> Iterator[threading.Event]:
    """Call `end` from another thread if the block takes longer than `seconds`; the event says that this happened."""
    late = threading.Event()

    def run_out() -> None:
        late.set()
        end()

    timer = threading.Timer(seconds, run_out)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
