"""Waiting in tests for what daemons and other processes bring about."""

import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

WAIT_SECONDS = 60.0


def pauses() -> Iterator[None]:
    """Pause at each step, for longer and longer: a question takes processor time from the awaited processes."""
    seconds = 0.02
    while True:
        time.sleep(seconds)
        yield
        seconds = min(1.5 * seconds, 0.4)


def awaited(
    question: Callable[[], T | None], told: Callable[[], object] = lambda: "", seconds: float = WAIT_SECONDS
) -> T:
    """The first answer that is true; fail with what is `told` if there is none in time."""
    deadline, pause = time.monotonic() + seconds, pauses()
    while not (answer := question()):
        assert time.monotonic() < deadline, f"waited in vain: {told()}"
        next(pause)
    return answer


def ended_writers(reader: int) -> bool:
    """Return whether all processes that have a FIFO open for writing end in time; `reader` is its other end."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            return os.read(reader, 1) == b""
        except BlockingIOError:
            time.sleep(0.05)
    return False
