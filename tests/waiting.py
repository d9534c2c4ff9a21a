"""Waiting in tests for what daemons and other processes bring about."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_SECONDS = 60.0


def awaited(question: Callable[[], T | None]) -> T:
    """The first answer that is true; fail if there is none in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (answer := question()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
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
