"""Updates of the runs in flight."""

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hpc_board.errors import BoardError, SchedulerError
from hpc_board.tui.messages import RunsState

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.run import Run

NOTIFIED_MAX = 5
"""The most runs ending at once that have a notification each."""


class Followed(msgspec.Struct, frozen=True):
    """The state of the runs in flight after an update; `ended` are the runs that ended in it, with their ranks."""

    runs_state: RunsState
    ended: "tuple[tuple[Run, int | None], ...]"


def followed(board: "Board", before: RunsState) -> Followed:
    """Update the runs in flight and return their new state; on an error, the state `before` with the error."""
    failure = None
    try:
        board.runs.advance(before.in_flight)
    except BoardError as error:
        failure = error
    try:
        runs = board.runs.followed(before.in_flight)
        in_flight = [run for run in runs if not run.state.ended]
        over = [run for run in runs if run.state.ended]
        # Only a notification of a single run shows its rank.
        ended = [(run, board.standings.rank(run) if len(over) <= NOTIFIED_MAX else None) for run in over]
        clusters = {run.cluster for run in in_flight}
        asked = [at for cluster in clusters if (at := board.runs.asked_at(cluster))]
        silent = [at for cluster in clusters if (at := board.runs.silent_since(cluster))]
    except BoardError as error:
        return Followed(replace(before, failure=error), ())
    # During the back-off of a silent scheduler its last failure holds.
    if failure is None and silent and isinstance(before.failure, SchedulerError):
        failure = before.failure
    ids = tuple(run.id for run in in_flight)
    runs_state = RunsState(ids, min(asked, default=None), failure, min(silent, default=None))
    return Followed(runs_state, tuple(ended))
