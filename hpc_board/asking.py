"""How often a scheduler is asked, and files and runs are looked at, for all clients of a board together."""

import contextlib
import fcntl
import hashlib
import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Availability, Gpu

PATIENCE: Final = 4.0
"""How many times longer than its shortest a pause becomes while nothing changes."""

REST_SECONDS_MAX: Final = 600.0
"""How long a scheduler that did not answer is left alone at the most."""

SILENCE_SECONDS: Final = 1.0
"""From how long on a question without an answer counts as silence, after which a scheduler is left alone."""

LOCK_SECONDS: Final = 10.0
"""How long to wait for another client that asks at this moment."""

LOOK_SECONDS: Final = 1.0
"""The shortest pause between two looks into job folders over SSH."""

LOOK_PATIENCE: Final = 5.0
"""How many times longer than its shortest such a pause becomes while nothing changes."""

_GROWTH: Final = 1.5
_REST_TIMES: Final = 4.0
_JITTER: Final = 0.2
_BYTES_MAX: Final = 4096
_SEEN_MAX: Final = 2000
_ANSWERS_BYTES_MAX: Final = 1024 * 1024
_LOCK_LOOK_SECONDS: Final = 0.05
_LOOK_PAUSES: Final = 9.0
_LOOK_PAUSE_SECONDS_MIN: Final = 1.0
_LOOK_PAUSE_SECONDS_MAX: Final = 60.0
_KEPT: Final = timedelta(hours=1)
"""How long an answer is kept: what is older belongs to settings that nobody uses any more."""

_entropy = random.SystemRandom()


@dataclass(frozen=True)
class _Asked:
    """The last question: when, how long the next one has to wait, and how long nothing is to be sent either."""

    at: datetime
    pause_seconds: float
    rest_seconds: float = 0.0


class Asking:
    """The pauses between questions to one scheduler, kept in a file so that all clients of a board share them.

    `poll_seconds` is the shortest. A pause grows while answers bring nothing new, up to `patience` times that, and no
    two are alike, so that many boards don't ask at the same moment. Who asks or sends holds the board's lock; a file
    that cannot be used counts as none.
    """

    def __init__(self, file: Path, poll_seconds: float, *, patience: float = PATIENCE) -> None:
        self._file = file
        self._poll_seconds = poll_seconds
        self._longest_seconds = patience * poll_seconds

    @property
    def asked_at(self) -> datetime | None:
        """When the scheduler was last asked by anybody; None if never, or if nobody knows any more."""
        asked = self._read()
        return None if asked is None else asked.at

    def due(self, now: datetime) -> bool:
        """Whether the scheduler may be asked again; a clock that was set back does not put that off."""
        asked = self._read()
        return asked is None or not _within(now, asked.at, max(asked.pause_seconds, asked.rest_seconds))

    def rests(self, now: datetime) -> bool:
        """Whether the scheduler is left alone altogether, as it was silent for long."""
        asked = self._read()
        return asked is not None and _within(now, asked.at, asked.rest_seconds)

    def begin(self, now: datetime) -> None:
        """Note that the scheduler is being asked, before it is: one that hangs is not asked again at once.

        Raises:
            OSError: the file cannot be written.
        """
        asked = self._read()
        self._write(_Asked(now, self._poll_seconds if asked is None else asked.pause_seconds))

    def fail(self, now: datetime, seconds: float) -> None:
        """Note that there was no answer after so many seconds; if they were many, a rest of four times as many follows.

        Whoever asks holds the board's lock meanwhile, and the board may have other clusters.

        Raises:
            OSError: the file cannot be written.
        """
        before = self._read()
        self.settle(news=False)
        asked = self._read()
        pause_seconds = self._poll_seconds if asked is None else asked.pause_seconds
        rest_seconds = _REST_TIMES * seconds if seconds >= SILENCE_SECONDS else 0.0
        # A quick failure does not end the rest that a slow one has begun.
        left = 0.0 if before is None else before.rest_seconds - max(0.0, (now - before.at).total_seconds())
        self._write(_Asked(now, pause_seconds, max(rest_seconds, left)))

    def settle(self, *, news: bool) -> None:
        """Note whether the answer brought anything new; without, the next pause is longer.

        Raises:
            OSError: the file cannot be written.
        """
        asked = self._read()
        if asked is not None:
            longer = min(self._longest_seconds, _GROWTH * max(asked.pause_seconds, self._poll_seconds))
            pause = self._poll_seconds if news else longer
            self._write(_Asked(asked.at, max(self._poll_seconds, pause * _entropy.uniform(1 - _JITTER, 1))))

    def _read(self) -> _Asked | None:
        try:
            with self._file.open("rb") as file:
                values = json.loads(file.read(_BYTES_MAX))
            at, pause_seconds = datetime.fromtimestamp(values["at"], UTC), float(values["pause_seconds"])
            rest_seconds = float(values["rest_seconds"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        if not math.isfinite(pause_seconds + rest_seconds):
            return None
        pause_seconds = min(max(pause_seconds, self._poll_seconds), self._longest_seconds)
        return _Asked(at, pause_seconds, min(rest_seconds, REST_SECONDS_MAX))

    def _write(self, asked: _Asked) -> None:
        text = json.dumps({**asdict(asked), "at": asked.at.timestamp()})
        _replace(self._file, text.encode())


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


def _within(now: datetime, at: datetime, seconds: float) -> bool:
    return timedelta(0) <= now - at < timedelta(seconds=seconds)


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
            with self._file.open("rb") as file:
                pause_seconds = float(file.read(_BYTES_MAX)) - now.timestamp()
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
            _replace(self._file, str(now.timestamp() + pause_seconds).encode())


@dataclass(frozen=True)
class Answer:
    """What a cluster had of some GPUs, in their order, when it was asked; `problem` says why that is not known."""

    asked_at: Annotated[datetime, msgspec.Meta(tz=True)]
    available: tuple[Availability, ...]
    problem: str = ""


class SharedAvailability:
    """What is free on one cluster, asked by one client and kept in a file for the others.

    An answer counts for `poll_seconds`, and for the very GPUs that it is about: other settings have one of their own.
    That a scheduler does not answer is an answer too. A file that cannot be read counts as none.
    """

    def __init__(self, file: Path, poll_seconds: float, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self._file = file
        self._poll_seconds = poll_seconds
        self._lock_seconds = lock_seconds

    def answer(self, gpus: Sequence[Gpu], ask: Callable[[Sequence[Gpu]], Sequence[Availability]]) -> Answer:
        """The newest answer about `gpus`; `ask` is called where it is too old, by one client at a time.

        While another client asks for long, its answer is not waited for and the last one serves, however old.

        Raises:
            SchedulerRefused: there is no scheduler to ask here, which nobody else is told.
            SchedulerError: another client has been asking for long, and there is no earlier answer.
            OSError: the file or its lock cannot be written.
        """
        known = _answer_about(gpus, self._answers())
        if known is not None and self._is_new(known):
            return known
        with self._lock() as mine:
            answers = self._answers()
            known = _answer_about(gpus, answers)
            if known is not None and (self._is_new(known) or not mine):
                return known
            if not mine:
                raise SchedulerError(
                    f"another client has been asking what is free for {self._lock_seconds:g} s, without an answer yet",
                    hint="The scheduler is slow or down; try later.",
                )
            new = _new_answer(gpus, ask)
            recent = {key: each for key, each in answers.items() if abs(new.asked_at - each.asked_at) < _KEPT}
            _replace(self._file, msgspec.json.encode(recent | {_question(gpus): new}))
            return new

    @contextlib.contextmanager
    def _lock(self) -> Iterator[bool]:
        file = self._file.with_name(f"{self._file.name}.lock")
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield locked(descriptor, self._lock_seconds)
        finally:
            os.close(descriptor)

    def _is_new(self, answer: Answer) -> bool:
        return timedelta(0) <= datetime.now(UTC) - answer.asked_at < timedelta(seconds=self._poll_seconds)

    def _answers(self) -> dict[str, Answer]:
        """The answers in the file, by what was asked."""
        try:
            with self._file.open("rb") as file:
                return msgspec.json.decode(file.read(_ANSWERS_BYTES_MAX), type=dict[str, Answer])
        except (OSError, msgspec.DecodeError, RecursionError):
            return {}


def _question(gpus: Sequence[Gpu]) -> str:
    return hashlib.sha256(repr(tuple(gpus)).encode()).hexdigest()


def _answer_about(gpus: Sequence[Gpu], answers: Mapping[str, Answer]) -> Answer | None:
    found = answers.get(_question(gpus))
    names = [gpu.name for gpu in gpus]
    return found if found is not None and [each.gpu for each in found.available] == names else None


def _new_answer(gpus: Sequence[Gpu], ask: Callable[[Sequence[Gpu]], Sequence[Availability]]) -> Answer:
    try:
        available, problem = ask(gpus), ""
    except SchedulerRefused:
        raise
    except SchedulerError as error:
        available, problem = [Availability(gpu.name) for gpu in gpus], error.message
    return Answer(datetime.now(UTC), tuple(available), problem)


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


def _replace(file: Path, data: bytes) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
