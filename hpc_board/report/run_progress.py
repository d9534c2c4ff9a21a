"""The progress of a running run: its finished cases among all, and the time left."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from hpc_board.domain.run import Progress
from hpc_board.model.task import Mode, Task
from hpc_board.report.run_words import place_text

_PHASES = {
    Mode.TEST: ("test",),
    Mode.BENCHMARK: ("benchmark",),
    Mode.PROFILE: ("profile",),
    Mode.RANKED: ("test", "benchmark"),
}
"""The phases with cases, in their order."""


class RunProgress(msgspec.Struct, frozen=True):
    """The number of finished cases `done` among `total`, and the current step in words."""

    done: int
    total: int
    step: str


def case_counts(task: Task) -> dict[str, int]:
    """Return the number of a task's cases by phase."""
    benchmarks = len(task.benchmarks)
    return {"test": len(task.tests), "benchmark": benchmarks, "profile": benchmarks}


def run_progress(mode: Mode, progress: Sequence[Progress], counts: Mapping[str, int]) -> RunProgress | None:
    """Return a run's progress by the lines of its harness; None before its first line.

    `counts` are those of the task, which the progress corrects: the task may have changed since.
    """
    if not progress:
        return None
    known = {**counts, **{step.phase: step.of for step in progress if step.of is not None and step.of > 0}}
    phases = _PHASES[mode]
    done = 0
    for step in progress:
        if step.phase in phases and step.case is not None:
            before = sum(known.get(phase, 0) for phase in phases[: phases.index(step.phase)])
            # Benchmarks in rows begin again with the first case.
            done = max(done, before + step.case - 1)
    total = sum(known.get(phase, 0) for phase in phases)
    return RunProgress(min(max(done, 0), total), total, place_text(progress[-1]))


def time_left(ran: timedelta | None, usual: timedelta | None) -> timedelta | None:
    """Return the time left of a run if it takes its usual time; None if that is over or unknown."""
    if ran is None or usual is None or ran >= usual:
        return None
    return usual - ran
