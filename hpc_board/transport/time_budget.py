"""Time budgets of hosts: the end of a question that takes too long, and the pause after a host did not answer."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from hpc_board.domain.pause import Pause
from hpc_board.errors import SchedulerError

RETRY_SECONDS: Final = 10.0
"""The pause after a host did not answer, or four times the length of the attempt."""


@dataclass
class _Budget:
    """The time for all commands of a block, and its rest."""

    seconds: float
    left_seconds: float


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def time_budget(seconds: float) -> Iterator[None]:
    """Limit the time for all commands of the block together; those within `without_budget` do not count."""
    token = _budget.set(_Budget(seconds, seconds))
    try:
        yield
    finally:
        _budget.reset(token)


@contextmanager
def without_budget() -> Iterator[None]:
    """Give the commands of the block their own time-outs: one that submits a job is not to be killed halfway."""
    token = _budget.set(None)
    try:
        yield
    finally:
        _budget.reset(token)


@contextmanager
def counted(timeout_seconds: float) -> Iterator[float]:
    """Yield the time-out of a command, at most the time that is left for it, and count the time of the block."""
    budget = _budget.get()
    if budget is None:
        yield timeout_seconds
        return
    began = time.monotonic()
    try:
        with without_budget():
            yield min(timeout_seconds, budget.left_seconds)
    finally:
        budget.left_seconds = max(0.0, budget.left_seconds - (time.monotonic() - began))


def time_limit(timeout_seconds: float) -> float:
    """Return the time-out of a command for a message: its own, or the time for all commands if that is shorter."""
    budget = _budget.get()
    return timeout_seconds if budget is None else min(timeout_seconds, budget.seconds)


def has_budget() -> bool:
    """Return whether the time for commands is limited."""
    return _budget.get() is not None


def is_out_of_time() -> bool:
    """Return whether no time is left for commands."""
    budget = _budget.get()
    return budget is not None and budget.left_seconds <= 0


class RetryDelay:
    """A pause after a host did not answer: until its end the same error is raised at once.

    A host that never answers must not take most of the time of a board's other clusters.
    """

    def __init__(self) -> None:
        self._pause = Pause()
        self._error: SchedulerError | None = None

    def check(self) -> None:
        """Raise the error again for which the rest is taken, unless it is over."""
        if self._error is not None and not self._pause.is_over(time.monotonic()):
            raise type(self._error)(self._error.message, hint=self._error.hint)

    def begin(self, error: SchedulerError, tried_since: float, *, at_least_seconds: float = 0.0) -> None:
        """Pause because of `error`, from an attempt that began at that time of the monotonic clock."""
        now = time.monotonic()
        self._error = error
        self._pause = Pause(now, max(RETRY_SECONDS, at_least_seconds, 4 * (now - tried_since)))

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
