"""The state of a whole board at a glance: its leaderboards, and its runs in flight."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from hpc_board.domain.run import RunState
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded, moment

# The index that ranks `scores` has each of these columns.
_LEADERBOARDS = """
SELECT gpu, COUNT(*) AS runs, MAX(submitted_at) AS last_at
  FROM scores
 WHERE task = :task AND task_version = :task_version
 GROUP BY gpu
"""

_IN_FLIGHT = """
SELECT submissions.task, events.state, submissions.submitted_at
  FROM in_flight
 CROSS JOIN runs ON runs.id = in_flight.run
 CROSS JOIN submissions ON submissions.id = runs.submission
 CROSS JOIN events ON events.id = (SELECT MAX(newest.id) FROM events AS newest WHERE newest.run = in_flight.run)
"""


class Activity(msgspec.Struct, frozen=True):
    """The activity on a leaderboard: the number of runs that count there, and the submission of the last of them."""

    gpu: str
    runs: int
    last_at: datetime


class InFlight(msgspec.Struct, frozen=True):
    """The runs in flight: their number by state, and the submission of the oldest that does not run yet."""

    by_state: dict[RunState, int]
    oldest_waiting: datetime | None


class OverviewGateway:
    """The queries about a whole board."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def activity(self, task: str, task_version: str) -> tuple[Activity, ...]:
        """Return the leaderboards of a version of a task that have entries, by the name of the GPU."""
        with self._file.reading() as db:
            rows = db.query(_LEADERBOARDS, {"task": task, "task_version": task_version})
            return tuple(decoded(Activity, row) for row in rows)

    def in_flight(self, *, hidden: Collection[str]) -> InFlight:
        """Count the runs in flight, except for those of the tasks in `hidden`."""
        by_state: dict[RunState, int] = {}
        waiting: list[datetime] = []
        with self._file.reading() as db:
            for row in db.query(_IN_FLIGHT):
                if row["task"] in hidden:
                    continue
                state = decoded(RunState, row["state"])
                by_state[state] = by_state.get(state, 0) + 1
                if state.unsent or state is RunState.QUEUED:
                    waiting.append(moment(row["submitted_at"]))
        return InFlight(by_state, min(waiting, default=None))
