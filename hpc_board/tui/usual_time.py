"""The number of a run's cases and its usual time, from its task and from earlier runs."""

from collections.abc import Mapping
from datetime import timedelta
from statistics import median

import msgspec

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from hpc_board.report.run_progress import case_counts, tools_of

_EARLIER_MAX = 9
"""The number of earlier runs whose median is the usual time."""


class UsualTime(msgspec.Struct, frozen=True):
    """The cases of a run's task by phase, and the usual time of its user's runs like it; None without any."""

    counts: Mapping[str, int]
    usual: timedelta | None = None


def usual_time_of(board: Board, run: Run) -> UsualTime:
    """Return the usual time of a run by the user's earlier passing runs in its mode on its GPU."""
    try:
        counts = case_counts(board.tasks.get(run.task), run.mode, tools_of(run))
    except BoardError:
        counts = {}  # a task that has been removed
    found = board.runs.list(
        user=run.user, task=run.task, gpu=run.gpu, mode=run.mode, verdict=Verdict.PASS, limit=_EARLIER_MAX
    )
    earlier = [each for each in found if each.ended_at is not None and each.task_version == run.task_version]
    started = board.runs.started([each.id for each in earlier])
    times = [
        (each.ended_at - started[each.id]).total_seconds()
        for each in earlier
        if each.ended_at is not None and each.id in started
    ]
    return UsualTime(counts, timedelta(seconds=max(0.0, median(times))) if times else None)
