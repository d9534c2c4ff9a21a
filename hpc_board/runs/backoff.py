"""Back-off: growing pauses between questions and scans, kept in files that all clients of a board share."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from hpc_board.files import locked, read_bounded, write_whole

PAUSE_FACTOR: Final = 4.0
"""The longest pause between questions to a scheduler, as a multiple of the shortest one."""

REST_SECONDS_MAX: Final = 600.0
"""The longest rest of a scheduler that did not answer."""

SILENCE_SECONDS: Final = 1.0
"""The time without an answer from which on a scheduler counts as silent and gets a rest."""

SCAN_PAUSE_SECONDS: Final = 1.0
"""The shortest pause between two looks into job folders over SSH."""

SCAN_PAUSE_FACTOR: Final = 5.0
"""The longest pause between two such looks, as a multiple of the shortest one."""

_GROWTH: Final = 1.5
_JITTER: Final = 0.2
_REST_TIMES: Final = 4.0
_RUNS_MAX: Final = 2000
_BYTES_MAX: Final = 4096
_SCAN_PAUSES: Final = 9.0
_SCAN_PAUSE_SECONDS_MIN: Final = 1.0
_SCAN_PAUSE_SECONDS_MAX: Final = 60.0

_entropy = random.SystemRandom()

T = TypeVar("T")
_Moment = Annotated[float, msgspec.Meta(ge=0, le=4_102_444_800)]
"""A time as seconds since 1970; one after the year 2100 is damage."""


class SharedValue(Generic[T]):
    """A small value in a JSON file that all clients of a board share; a file that cannot be used counts as none."""

    def __init__(self, file: Path, type_: type[T], bytes_max: int = _BYTES_MAX) -> None:
        self._file = file
        self._decoder = msgspec.json.Decoder(type_)
        self._bytes_max = bytes_max

    def read(self) -> T | None:
        """Return the value, None without one."""
        try:
            return self._decoder.decode(read_bounded(self._file, self._bytes_max))
        except (OSError, msgspec.DecodeError, RecursionError):
            return None

    def write(self, value: T) -> None:
        """Replace the value.

        Raises:
            OSError: the file cannot be written.
        """
        write_whole(self._file, msgspec.json.encode(value))

    def locked(self, wait_seconds: float) -> AbstractContextManager[bool]:
        """Hold the lock beside the file; False if another client held it for `wait_seconds`.

        Raises:
            OSError: the lock cannot be made.
        """
        return locked(self._file.with_name(f"{self._file.name}.lock"), wait_seconds=wait_seconds)


class _Pause(msgspec.Struct, frozen=True):
    """The last question or scan, the pause after it, and the rest of a silent scheduler.

    `silent_since` is the first question without an answer since the last one with an answer.
    """

    at: _Moment
    pause_seconds: float
    rest_seconds: float = 0.0
    silent_since: _Moment | None = None


class Backoff:
    """Back-off between queries of one scheduler or scans of its folders, shared by all clients of a board.

    `poll_seconds` is the shortest. A pause grows without news, up to `pause_factor` times that, and no
    two are alike, so that many boards don't ask at the same moment. A client that asks or sends holds the board's lock.
    """

    def __init__(self, file: Path, poll_seconds: float, *, pause_factor: float = PAUSE_FACTOR) -> None:
        self._shared = SharedValue(file, _Pause)
        self._poll_seconds = poll_seconds
        self._pause_factor = pause_factor

    @property
    def asked_at(self) -> datetime | None:
        """The time of the last question of any client; None if there was none, or it is not known any more."""
        last = self._last()
        return None if last is None else datetime.fromtimestamp(last.at, UTC)

    @property
    def silent_since(self) -> datetime | None:
        """The time of the first question without an answer since the last answer; None after an answer."""
        last = self._last()
        return None if last is None or last.silent_since is None else datetime.fromtimestamp(last.silent_since, UTC)

    def due(self, now: datetime) -> bool:
        """Return whether the next question may be asked; a clock that was set back does not put that off."""
        last = self._last()
        return last is None or not _within(now, last.at, max(last.pause_seconds, last.rest_seconds))

    def rests(self, now: datetime) -> bool:
        """Return whether the scheduler gets no commands at all, as it was silent for long."""
        last = self._last()
        return last is not None and _within(now, last.at, last.rest_seconds)

    def begin(self, now: datetime) -> None:
        """Record a question before it is asked, so that no client asks a hanging scheduler again at once.

        Raises:
            OSError: the file cannot be written.
        """
        last = self._last() or _Pause(now.timestamp(), self._poll_seconds)
        self._shared.write(_Pause(now.timestamp(), last.pause_seconds, silent_since=last.silent_since))

    def fail(self, now: datetime, seconds: float) -> None:
        """Note that there was no answer after `seconds`; if they were many, a rest of four times as many follows.

        The board's lock is held meanwhile, and the board may have other clusters.

        Raises:
            OSError: the file cannot be written.
        """
        last = self._last()
        rest_seconds = _REST_TIMES * seconds if seconds >= SILENCE_SECONDS else 0.0
        if last is None:
            self._shared.write(_Pause(now.timestamp(), self._poll_seconds, rest_seconds, now.timestamp()))
        else:
            # A quick failure does not end the rest that a slow one has begun.
            left = last.rest_seconds - max(0.0, now.timestamp() - last.at)
            silent_since = last.at if last.silent_since is None else last.silent_since
            self._shared.write(_Pause(now.timestamp(), self._next_pause(last), max(rest_seconds, left), silent_since))

    def settle(self, *, news: bool) -> None:
        """Note an answer; the next pause is the shortest after news, and longer without.

        Raises:
            OSError: the file cannot be written.
        """
        last = self._last()
        if last is not None:
            pause_seconds = self._poll_seconds if news else self._next_pause(last)
            self._shared.write(_Pause(last.at, pause_seconds))

    def _next_pause(self, last: _Pause) -> float:
        """Return a longer pause than the last one, never shorter than `poll_seconds`, with some jitter."""
        longer = _longer(last.pause_seconds, self._poll_seconds, self._pause_factor)
        return max(self._poll_seconds, longer * _entropy.uniform(1 - _JITTER, 1))

    def _last(self) -> _Pause | None:
        last = self._shared.read()
        if last is None:
            return None
        pause_seconds = min(max(last.pause_seconds, self._poll_seconds), self._pause_factor * self._poll_seconds)
        return _Pause(last.at, pause_seconds, min(last.rest_seconds, REST_SECONDS_MAX), last.silent_since)


class NextScan:
    """The time of the next scan of all runs in flight, shared by all clients of a board.

    The longer a scan takes, the longer the next one waits: scans take a tenth of the time, for any number of runs and
    clients.
    """

    def __init__(self, file: Path) -> None:
        self._shared = SharedValue(file, _Pause)

    def due(self, now: datetime) -> bool:
        """Return whether it is time to scan; a clock that was set back does not put that off."""
        last = self._shared.read()
        return last is None or not _within(now, last.at, min(last.pause_seconds, _SCAN_PAUSE_SECONDS_MAX))

    def settle(self, now: datetime, took_seconds: float) -> None:
        """Note the end of a scan that took so long.

        Raises:
            OSError: the file cannot be written.
        """
        pause_seconds = min(_SCAN_PAUSES * took_seconds, _SCAN_PAUSE_SECONDS_MAX)
        # A board with few runs is scanned as often as clients like, and needs no file.
        if pause_seconds > _SCAN_PAUSE_SECONDS_MIN:
            self._shared.write(_Pause(now.timestamp(), pause_seconds))


class _Progress(msgspec.Struct, frozen=True):
    """The progress of a run at the last look, the time of the next look, and the pause before it."""

    data: bytes
    until: float
    pause_seconds: float


class ProgressCache:
    """The progress of runs on another machine as one client saw it last; the pauses between looks grow without news."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[int, _Progress] = {}

    def at(self, number: int, look: Callable[[], bytes]) -> bytes:
        """Return the result of `look` for run `number`, from now or from shortly before."""
        with self._lock:
            seen = self._seen.get(number)
        if seen is not None and self._clock() < seen.until:
            return seen.data
        data = look()
        pause_seconds = SCAN_PAUSE_SECONDS
        if seen is not None and data == seen.data:
            pause_seconds = _longer(seen.pause_seconds, SCAN_PAUSE_SECONDS, SCAN_PAUSE_FACTOR)
        with self._lock:
            if number not in self._seen and len(self._seen) >= _RUNS_MAX:
                self._seen.clear()
            self._seen[number] = _Progress(data, self._clock() + pause_seconds, pause_seconds)
        return data


def _longer(pause_seconds: float, shortest_seconds: float, pause_factor: float) -> float:
    """Return the pause that follows one without news, at most `pause_factor` times the shortest."""
    return min(_GROWTH * max(pause_seconds, shortest_seconds), pause_factor * shortest_seconds)


def _within(now: datetime, at: float, seconds: float) -> bool:
    return 0 <= now.timestamp() - at < seconds
