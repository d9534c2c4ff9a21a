"""The isolation and the clock that a served board requires of its nodes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.result import JUDGE
from hpc_board.settings import Settings

if TYPE_CHECKING:
    from hpc_board.board import Board

ISOLATION = "S3"
"""The least isolation of a run on a served board, whose submissions all run under one account."""

_RUNS_MAX = 50


def demanding(settings: Settings) -> Settings:
    """Return `settings` with the isolation ISOLATION for each GPU without a level, and the judge's clock for CUDA."""
    return msgspec.structs.replace(settings, gpus=tuple(map(_demanding, settings.gpus)))


def _demanding(gpu: Gpu) -> Gpu:
    clock = gpu.minimum_clock or (JUDGE if gpu.device is Device.CUDA else "")
    return replace(gpu, minimum_isolation=gpu.minimum_isolation or ISOLATION, minimum_clock=clock)


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
