"""Files that the clients of a board share: locked by one at a time."""

import fcntl
import time
from typing import Final

LOCK_SECONDS: Final = 10.0
"""How long to wait for another client that has the lock at this moment."""

_LOCK_LOOK_SECONDS: Final = 0.05


def locked(descriptor: int, wait_seconds: float) -> bool:
    """Lock an open file, and say whether that was possible before `wait_seconds` were over; closing it ends the lock.

    Raises:
        OSError: its file system has no such locks.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_LOOK_SECONDS)
        else:
            return True
