"""How often a cluster's scheduler is asked, for all clients of a board together."""

import contextlib
import json
import math
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

PATIENCE: Final = 4.0
"""How many times longer than its shortest a pause becomes while nothing changes."""

_GROWTH: Final = 1.5
_JITTER: Final = 0.2
_BYTES_MAX: Final = 4096
_entropy = random.SystemRandom()


@dataclass(frozen=True)
class _Asked:
    """The last question: when, and how long the next one has to wait."""

    at: datetime
    pause_seconds: float


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
        return asked is None or not timedelta(0) <= now - asked.at < timedelta(seconds=asked.pause_seconds)

    def begin(self, now: datetime) -> None:
        """Note that the scheduler is being asked, before it is: one that hangs is not asked again at once.

        Raises:
            OSError: the file cannot be written.
        """
        asked = self._read()
        self._write(_Asked(now, self._poll_seconds if asked is None else asked.pause_seconds))

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
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        if not math.isfinite(pause_seconds):
            return None
        return _Asked(at, min(max(pause_seconds, self._poll_seconds), self._longest_seconds))

    def _write(self, asked: _Asked) -> None:
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        text = json.dumps({"at": asked.at.timestamp(), "pause_seconds": asked.pause_seconds})
        try:
            draft.write_text(text, encoding="ascii")
            draft.replace(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
