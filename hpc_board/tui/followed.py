"""The runs in flight, carried on a step at a time."""

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hpc_board.errors import BoardError, SchedulerError
from hpc_board.tui.messages import RunsState

if TYPE_CHECKING:
    from hpc_board.board import Board
    from hpc_board.domain.run import Run

TOLD_MAX = 5
"""Of how many runs that end at once each has words of its own."""


class Followed(msgspec.Struct, frozen=True):
    """The state of the runs in flight after one step; `ended` are the runs that ended in it, with their ranks."""

    pulse: RunsState
    ended: "tuple[tuple[Run, int | None], ...]"


def followed(board: "Board", before: RunsState) -> Followed:
    """Carry the runs on as far as they go; what could not be found out stays as it was `before`."""
    failure = None
    try:
        board.runs.advance(before.in_flight)
    except BoardError as error:
        failure = error
    try:
        runs = board.runs.followed(before.in_flight)
        in_flight = [run for run in runs if not run.state.ended]
        over = [run for run in runs if run.state.ended]
        # A toast has a rank; where so many have ended that there is one for all of them, nobody sees it.
        ended = [(run, board.standings.rank(run) if len(over) <= TOLD_MAX else None) for run in over]
        clusters = {run.cluster for run in in_flight}
        asked = [at for cluster in clusters if (at := board.runs.asked_at(cluster))]
        silent = [at for cluster in clusters if (at := board.runs.silent_since(cluster))]
    except BoardError as error:
        return Followed(replace(before, failure=error), ())
    # One that is silent is left alone for a while, in which there is nothing new to say of it.
    if failure is None and silent and isinstance(before.failure, SchedulerError):
        failure = before.failure
    ids = tuple(run.id for run in in_flight)
    pulse = RunsState(ids, min(asked, default=None), failure, min(silent, default=None))
    return Followed(pulse, tuple(ended))
