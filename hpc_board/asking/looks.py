"""When what runs leave behind is looked at again: job folders on another machine, and all runs in flight."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hpc_board.files import read_bounded, write_whole

LOOK_SECONDS: Final = 1.0
"""The shortest pause between two looks into job folders over SSH."""

LOOK_PATIENCE: Final = 5.0
"""How many times longer than its shortest such a pause becomes while nothing changes."""

_GROWTH: Final = 1.5
_SEEN_MAX: Final = 2000
_BYTES_MAX: Final = 4096
_LOOK_PAUSES: Final = 9.0
_LOOK_PAUSE_SECONDS_MIN: Final = 1.0
_LOOK_PAUSE_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True)
class _Seen:
    """What was there at the last look, when the next one is due, and after which pause."""

    data: bytes
    until: float
    pause_seconds: float


class Looks:
    """What is on another machine and is looked at again and again, by one client: the pauses grow while it stays.

    In between, what was there at the last look is what is there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[int, _Seen] = {}

    def at(self, number: int, look: Callable[[], bytes]) -> bytes:
        """What `look` has found for `number`, now or shortly before."""
        with self._lock:
            seen = self._seen.get(number)
        if seen is not None and self._clock() < seen.until:
            return seen.data
        data = look()
        pause_seconds = LOOK_SECONDS
        if seen is not None and data == seen.data:
            pause_seconds = min(_GROWTH * seen.pause_seconds, LOOK_PATIENCE * LOOK_SECONDS)
        with self._lock:
            if number not in self._seen and len(self._seen) >= _SEEN_MAX:
                self._seen.clear()
            self._seen[number] = _Seen(data, self._clock() + pause_seconds, pause_seconds)
        return data


class Looking:
    """When all runs in flight are looked at again, kept in a file so that all clients of a board share it.

    The longer a look takes, the longer the next one waits: a tenth of the time goes into looking, however many runs
    and clients there are. A file that cannot be used counts as none.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def due(self, now: datetime) -> bool:
        """Whether it is time to look; a clock that was set back does not put that off."""
        try:
            pause_seconds = float(read_bounded(self._file, _BYTES_MAX)) - now.timestamp()
        except (OSError, ValueError):
            return True
        return not 0 < pause_seconds <= _LOOK_PAUSE_SECONDS_MAX

    def settle(self, now: datetime, took_seconds: float) -> None:
        """Note that a look which took so long is over.

        Raises:
            OSError: the file cannot be written.
        """
        pause_seconds = min(_LOOK_PAUSES * took_seconds, _LOOK_PAUSE_SECONDS_MAX)
        # A board with few runs is looked at as often as anybody likes, and needs no file.
        if pause_seconds > _LOOK_PAUSE_SECONDS_MIN:
            write_whole(self._file, str(now.timestamp() + pause_seconds).encode())
