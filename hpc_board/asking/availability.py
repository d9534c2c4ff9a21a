"""What is free of a cluster's GPUs, asked by one client for all."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.files import LOCK_SECONDS, locked, read_bounded, write_whole
from hpc_board.model.gpu import Availability, Gpu

_ANSWERS_BYTES_MAX: Final = 1024 * 1024
_KEPT: Final = timedelta(hours=1)
"""How long an answer is kept: what is older belongs to settings that nobody uses any more."""


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
        lock = self._file.with_name(f"{self._file.name}.lock")
        with locked(lock, wait_seconds=self._lock_seconds) as mine:
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
            write_whole(self._file, msgspec.json.encode(recent | {_question(gpus): new}))
            return new

    def _is_new(self, answer: Answer) -> bool:
        return timedelta(0) <= datetime.now(UTC) - answer.asked_at < timedelta(seconds=self._poll_seconds)

    def _answers(self) -> dict[str, Answer]:
        """The answers in the file, by what was asked."""
        try:
            return msgspec.json.decode(read_bounded(self._file, _ANSWERS_BYTES_MAX), type=dict[str, Answer])
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
