"""Pauses between questions and scans, kept in files that all clients of a board share."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from hpc_board.domain.pause import Moment, Pause
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

THROTTLED_SECONDS: Final = 30.0
"""The shortest rest of a scheduler that asked for fewer questions; it grows with the time since its last answer."""

_CHANGE_SECONDS: Final = 1.0
_JITTER: Final = 0.2
_REST_TIMES: Final = 4.0
_RUNS_MAX: Final = 2000
_BYTES_MAX: Final = 4096

_entropy = random.SystemRandom()

T = TypeVar("T")


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


class SharedPause:
    """A pause of at most `longest_seconds` that all clients of a board share."""

    def __init__(self, file: Path, longest_seconds: float) -> None:
        self._shared = SharedValue(file, Pause)
        self._longest_seconds = longest_seconds

    def is_over(self, now: datetime) -> bool:
        """Return whether there is no pause now."""
        last = self._shared.read() or Pause()
        return replace(last, seconds=min(last.seconds, self._longest_seconds)).is_over(now.timestamp())

    def begin(self, now: datetime, seconds: float) -> None:
        """Pause from now on.

        Raises:
            OSError: the file cannot be written.
        """
        self._shared.write(Pause(now.timestamp(), seconds))


class _Question(msgspec.Struct, frozen=True):
    """The pause after the last question or scan, and the rest of a scheduler that did not answer.

    `silent_since` is the first question without an answer since the last one with an answer.
    """

    pause: Pause
    rest: Pause = Pause()
    silent_since: Moment | None = None


class Backoff:
    """Back-off between queries of one scheduler or scans of its folders, shared by all clients of a board.

    `poll_seconds` is the shortest. A pause grows without news, up to `pause_factor` times that, and no two are alike,
    so that many boards don't ask at the same moment. A client that polls or sends holds the board's lock.
    """

    def __init__(self, file: Path, poll_seconds: float, *, pause_factor: float = PAUSE_FACTOR) -> None:
        self._shared = SharedValue(file, _Question)
        self._poll_seconds = poll_seconds
        self._longest_seconds = pause_factor * poll_seconds

    @property
    def asked_at(self) -> datetime | None:
        """The time of the last question of any client; None if there was none, or it is not known any more."""
        last = self._last()
        return None if last is None else datetime.fromtimestamp(last.pause.at, UTC)

    @property
    def silent_since(self) -> datetime | None:
        """The time of the first question without an answer since the last answer; None after an answer."""
        last = self._last()
        return None if last is None or last.silent_since is None else datetime.fromtimestamp(last.silent_since, UTC)

    def due(self, now: datetime) -> bool:
        """Return whether the next question may be asked."""
        last = self._last()
        return last is None or (last.pause.is_over(now.timestamp()) and last.rest.is_over(now.timestamp()))

    def rests(self, now: datetime) -> bool:
        """Return whether the scheduler gets no commands at all, as it was silent for long."""
        last = self._last()
        return last is not None and not last.rest.is_over(now.timestamp())

    def begin(self, now: datetime) -> None:
        """Record a question before it is asked, so that no client asks a hanging scheduler again at once.

        Raises:
            OSError: the file cannot be written.
        """
        at = now.timestamp()
        with self._alone():
            last = self._last() or _Question(Pause(0, self._poll_seconds))
            rest = Pause() if last.rest.is_over(at) else last.rest
            self._shared.write(replace(last, pause=replace(last.pause, at=at), rest=rest))

    def fail(self, now: datetime, seconds: float, *, throttled: bool = False) -> None:
        """Note that there was no answer after `seconds`; if they were many, a rest of four times as many follows.

        A rest follows also if the scheduler asked for fewer questions. A client that waits holds the cluster's lock.

        Raises:
            OSError: the file cannot be written.
        """
        at = now.timestamp()
        rest = Pause(at, _REST_TIMES * seconds if seconds >= SILENCE_SECONDS else 0.0)
        with self._alone():
            last = self._last() or _Question(Pause(at))
            if throttled:
                rest = replace(rest, seconds=max(rest.seconds, THROTTLED_SECONDS, at - (last.silent_since or at)))
            # A quick failure does not end the rest that a slow one has begun.
            rest = max(rest, last.rest, key=lambda each: each.at + each.seconds)
            silent_since = at - seconds if last.silent_since is None else last.silent_since
            self._shared.write(_Question(self._longer(last.pause, at), rest, silent_since))

    def settle(self, *, news: bool) -> None:
        """Note an answer; the next pause is the shortest after news, and longer without.

        A rest that another client has begun since the question stays.

        Raises:
            OSError: the file cannot be written.
        """
        with self._alone():
            last = self._last()
            if last is not None:
                at = last.pause.at
                pause = Pause(at, self._poll_seconds) if news else self._longer(last.pause, at)
                self._shared.write(_Question(pause, last.rest))

    def _alone(self) -> AbstractContextManager[bool]:
        """Keep other clients from a change between reading and writing: some ask without the board's lock."""
        return self._shared.locked(_CHANGE_SECONDS)

    def _longer(self, pause: Pause, now: float) -> Pause:
        """Return a longer pause than the last one, never shorter than `poll_seconds`, with some jitter."""
        longer = pause.longer(now, self._poll_seconds, self._longest_seconds)
        return replace(longer, seconds=max(self._poll_seconds, longer.seconds * _entropy.uniform(1 - _JITTER, 1)))

    def _last(self) -> _Question | None:
        last = self._shared.read()
        if last is None:
            return None
        seconds = min(max(last.pause.seconds, self._poll_seconds), self._longest_seconds)
        rest = replace(last.rest, seconds=min(last.rest.seconds, REST_SECONDS_MAX))
        return replace(last, pause=replace(last.pause, seconds=seconds), rest=rest)


class ProgressCache:
    """The progress of runs on another machine as one client saw it last; the pauses between looks grow without news."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[int, tuple[bytes, Pause]] = {}

    def at(self, number: int, look: Callable[[], bytes]) -> bytes:
        """Return the result of `look` for run `number`, from now or from shortly before."""
        with self._lock:
            seen, pause = self._seen.get(number, (None, Pause()))
        if seen is not None and not pause.is_over(self._clock()):
            return seen
        data = look()
        with self._lock:
            if number not in self._seen and len(self._seen) >= _RUNS_MAX:
                self._seen.clear()
            last = pause if data == seen else Pause()
            longest = SCAN_PAUSE_FACTOR * SCAN_PAUSE_SECONDS
            self._seen[number] = data, last.longer(self._clock(), SCAN_PAUSE_SECONDS, longest)
        return data
