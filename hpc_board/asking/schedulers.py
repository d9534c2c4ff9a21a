"""When a scheduler is asked again: rarely while nothing changes, and not for a while after it was silent."""

import json
import math
import random
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from hpc_board.files import read_bounded, write_whole

PATIENCE: Final = 4.0
"""How many times longer than its shortest a pause becomes while nothing changes."""

REST_SECONDS_MAX: Final = 600.0
"""How long a scheduler that did not answer is left alone at the most."""

SILENCE_SECONDS: Final = 1.0
"""From how long on a question without an answer counts as silence, after which a scheduler is left alone."""

_GROWTH: Final = 1.5
_REST_TIMES: Final = 4.0
_JITTER: Final = 0.2
_BYTES_MAX: Final = 4096

_entropy = random.SystemRandom()


@dataclass(frozen=True)
class _Asked:
    """The last question: when, how long the next one has to wait, and how long nothing is to be sent either.

    `silent_since` is the first question without an answer since the last one that had one.
    """

    at: datetime
    pause_seconds: float
    rest_seconds: float = 0.0
    silent_since: datetime | None = None


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

    @property
    def silent_since(self) -> datetime | None:
        """When the scheduler was first asked in vain since it last answered anybody; None where it last answered."""
        asked = self._read()
        return None if asked is None else asked.silent_since

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
        pause_seconds = self._poll_seconds if asked is None else asked.pause_seconds
        self._write(_Asked(now, pause_seconds, silent_since=None if asked is None else asked.silent_since))

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
        silent_since = now if before is None else before.silent_since or before.at
        self._write(_Asked(now, pause_seconds, max(rest_seconds, left), silent_since))

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
            values = json.loads(read_bounded(self._file, _BYTES_MAX))
            at, pause_seconds = datetime.fromtimestamp(values["at"], UTC), float(values["pause_seconds"])
            rest_seconds = float(values["rest_seconds"])
            silent = values.get("silent_since")
            silent_since = None if silent is None else datetime.fromtimestamp(silent, UTC)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        if not math.isfinite(pause_seconds + rest_seconds):
            return None
        pause_seconds = min(max(pause_seconds, self._poll_seconds), self._longest_seconds)
        return _Asked(at, pause_seconds, min(rest_seconds, REST_SECONDS_MAX), silent_since)

    def _write(self, asked: _Asked) -> None:
        silent_since = asked.silent_since and asked.silent_since.timestamp()
        text = json.dumps({**asdict(asked), "at": asked.at.timestamp(), "silent_since": silent_since})
        write_whole(self._file, text.encode())


def _within(now: datetime, at: datetime, seconds: float) -> bool:
    return timedelta(0) <= now - at < timedelta(seconds=seconds)
