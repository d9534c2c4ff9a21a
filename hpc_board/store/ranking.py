"""Standings: ranks over the passing ranked runs of one board, which is one version of a task on one GPU.

Equal scores share a rank and leave a gap behind it; among them, the earlier submission is shown first.
"""

from typing import TYPE_CHECKING

from hpc_board.model.run import Run
from hpc_board.model.standings import Standing
from hpc_board.store.rows import standing_value

if TYPE_CHECKING:
    from sqlite_utils import Database

_STANDINGS = """
SELECT RANK() OVER (ORDER BY score_s) AS rank, *
  FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user ORDER BY score_s, submitted_at, run) AS place
          FROM passing_runs
         WHERE task = :task AND task_version = :task_version AND gpu = :gpu)
 WHERE place = 1
 ORDER BY rank, submitted_at, run
"""

_PERSONAL = """
SELECT RANK() OVER (ORDER BY score_s) AS rank, *
  FROM passing_runs
 WHERE task = :task AND task_version = :task_version AND gpu = :gpu AND user = :user
 ORDER BY rank, submitted_at, run
"""

_BETTER_USERS = """
SELECT COUNT(DISTINCT user) AS users
  FROM passing_runs
 WHERE task = :task AND task_version = :task_version AND gpu = :gpu AND score_s < :score_s
"""


def standings(db: "Database", task: str, task_version: str, gpu: str) -> tuple[Standing, ...]:
    """The best run of each user on the board, best first."""
    board = {"task": task, "task_version": task_version, "gpu": gpu}
    return tuple(standing_value(row) for row in db.query(_STANDINGS, board))


def personal(db: "Database", task: str, task_version: str, gpu: str, user: str) -> tuple[Standing, ...]:
    """All the runs of one user on the board, ranked among themselves, best first."""
    board = {"task": task, "task_version": task_version, "gpu": gpu}
    return tuple(standing_value(row) for row in db.query(_PERSONAL, {**board, "user": user}))


def rank(db: "Database", run: Run) -> int | None:
    """The rank that the run holds on its board; None unless it is its user's best one there."""
    own = personal(db, run.task, run.task_version, run.gpu, run.user)
    if not own or own[0].run != run.id:
        return None
    board = {"task": run.task, "task_version": run.task_version, "gpu": run.gpu}
    (better,) = db.query(_BETTER_USERS, {**board, "score_s": own[0].score_s})
    return 1 + int(better["users"])
