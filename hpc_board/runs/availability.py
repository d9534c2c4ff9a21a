"""The free GPUs of a cluster, asked for by one client for all."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hpc_board.domain.pause import Pause
from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Availability, Gpu
from hpc_board.runs.backoff import SharedValue
from hpc_board.transport.time_budget import time_budget

WAIT_SECONDS: Final = 2.0
"""The longest wait for an answer: the last known numbers then serve."""

_ANSWERS_BYTES_MAX: Final = 1024 * 1024
_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_KEPT: Final = timedelta(hours=1)
"""The age at which an answer is dropped: an older one belongs to settings that are not used any more."""


class Answer(msgspec.Struct, frozen=True):
    """The availability of some GPUs, in their order, and the time of the question.

    `problem` is the reason why it had no answer: then the availability is that of `known_at`, or unknown.
    """

    asked_at: _Time
    available: tuple[Availability, ...]
    problem: str = ""
    known_at: _Time | None = None


class AvailabilityCache:
    """The free GPUs of one cluster, asked for by one client and kept in a file for the others.

    An answer counts for `poll_seconds`, and for its very GPUs: other settings have an answer of their own. The silence
    of a scheduler is an answer too, with the last known numbers.
    """

    def __init__(self, file: Path, poll_seconds: float, *, lock_seconds: float = WAIT_SECONDS) -> None:
        self._shared = SharedValue(file, dict[str, Answer], _ANSWERS_BYTES_MAX)
        self._poll_seconds = poll_seconds
        self._lock_seconds = lock_seconds

    def answer(self, gpus: Sequence[Gpu], ask: Callable[[Sequence[Gpu]], Sequence[Availability]]) -> Answer:
        """Return the newest answer about `gpus`; one client at a time calls `ask` if it is too old.

        If another client is asking for long, the last answer serves without a wait, however old.

        Raises:
            SchedulerRefused: this machine has no scheduler to ask; other clients do not get this answer.
            SchedulerError: another client has been asking for long, and no earlier answer exists.
            OSError: the file or its lock cannot be written.
        """
        known = _answer_about(gpus, self._shared.read() or {})
        if known is not None and self._is_new(known):
            return known
        with self._shared.locked(self._lock_seconds) as mine:
            answers = self._shared.read() or {}
            known = _answer_about(gpus, answers)
            if known is not None and (self._is_new(known) or not mine):
                return known
            if not mine:
                raise SchedulerError(
                    f"another client has been querying free GPUs for {self._lock_seconds:g} s, without an answer yet",
                    hint="The scheduler is slow or down; try later.",
                )
            new = _new_answer(gpus, ask, known)
            recent = {key: each for key, each in answers.items() if abs(new.asked_at - each.asked_at) < _KEPT}
            self._shared.write(recent | {_question(gpus): new})
            return new

    def _is_new(self, answer: Answer) -> bool:
        return not Pause(answer.asked_at.timestamp(), self._poll_seconds).is_over(datetime.now(UTC).timestamp())


def _question(gpus: Sequence[Gpu]) -> str:
    return hashlib.sha256(repr(tuple(gpus)).encode()).hexdigest()


def _answer_about(gpus: Sequence[Gpu], answers: Mapping[str, Answer]) -> Answer | None:
    found = answers.get(_question(gpus))
    names = [gpu.name for gpu in gpus]
    return found if found is not None and [each.gpu for each in found.available] == names else None


def _new_answer(
    gpus: Sequence[Gpu], ask: Callable[[Sequence[Gpu]], Sequence[Availability]], known: Answer | None
) -> Answer:
    try:
        with time_budget(WAIT_SECONDS):
            available = tuple(ask(gpus))
    except SchedulerRefused:
        raise
    except SchedulerError as error:
        now = datetime.now(UTC)
        if known is None:
            return Answer(now, tuple(Availability(gpu.name) for gpu in gpus), error.message)
        return Answer(now, known.available, error.message, known.known_at)
    now = datetime.now(UTC)
    return Answer(now, available, known_at=now)
