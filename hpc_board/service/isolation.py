"""The isolation that a served board requires of its nodes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from hpc_board.settings import Settings

if TYPE_CHECKING:
    from hpc_board.board import Board

ISOLATION = "S3"
"""The least isolation of a run on a served board, whose submissions all run under one account."""

_RUNS_MAX = 50


def demanding(settings: Settings) -> Settings:
    """Return `settings` with the isolation ISOLATION for each GPU without a level of its own."""
    gpus = (gpu if gpu.minimum_isolation else replace(gpu, minimum_isolation=ISOLATION) for gpu in settings.gpus)
    return msgspec.structs.replace(settings, gpus=tuple(gpus))


class Shortfall(msgspec.Struct, frozen=True):
    """A GPU whose nodes do not reach the required level, or are not known to: `reached` is "" then."""

    gpu: str
    required: str
    reached: str

    @property
    def effect(self) -> str:
        """The consequence for runs, or a method to find it."""
        if self.reached:
            return "runs there end as infra_error"
        return (
            "the result of the next run there records the level; "
            f"`hpc-board --config SETTINGS admin check {self.gpu}` shows it, and records nothing"
        )


def shortfalls(board: "Board", settings: Settings) -> Iterator[Shortfall]:
    """Yield the shortfall of each GPU by the results of its newest runs; `board` sees every run."""
    for gpu in settings.gpus:
        reached = _reached(board, gpu.name)
        if reached < gpu.minimum_isolation:
            yield Shortfall(gpu.name, gpu.minimum_isolation, reached)


def _reached(board: "Board", gpu: str) -> str:
    """Return the level of the newest run on `gpu` whose result has one; "" without one."""
    for run in board.runs.list(everyone=True, gpu=gpu, limit=_RUNS_MAX):
        result = board.runs.result(run.id)
        level = "" if result is None else result.provenance.get("isolation")
        if isinstance(level, str) and level:
            return level
    return ""
