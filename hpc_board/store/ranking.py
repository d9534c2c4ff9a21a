"""The tables behind standings, within the transaction that changes a run or a submission.

`scores` has a row for each run that counts, `bests` one for each user on each board, which is one version of a task on
one GPU; both follow from the facts and change with them.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc_board.domain.run import Run
from hpc_board.domain.standing import Placing
from hpc_board.store.reading import Readable
from hpc_board.store.row_values import RowReader
from hpc_board.store.rows import row_id

if TYPE_CHECKING:
    from sqlite_utils import Database

    from hpc_board.domain.feed import Entry

ON_BOARD = "task = :task AND task_version = :task_version AND gpu = :gpu"
OF_USER = f"{ON_BOARD} AND user = :user"

BETTER = "SELECT COUNT(*) AS rows FROM {table} WHERE {where} AND score_s < :score_s"

FORMER_RUN = """
(SELECT MIN(run) FROM scores AS earlier
  WHERE earlier.task = feed.task AND earlier.task_version = feed.task_version AND earlier.gpu = feed.gpu
    AND earlier.user = feed.user AND earlier.score_s = feed.former_s AND earlier.run <> feed.run)
"""
"""The run that an entry of the feed improved, if it still counts."""

_ENTER = """
INSERT INTO scores (run, submission, task, task_version, gpu, user, score_s, submitted_at)
SELECT run, submission, task, task_version, gpu, user, score_s, submitted_at FROM passing_runs WHERE run = :run
"""

_PODIUM_ROWS = 16
"""The number of first rows that are read; more than three users share the first three places only in a tie."""


class BoardKey(NamedTuple):
    """One version of a task on one GPU."""

    task: str
    task_version: str
    gpu: str


class Score(NamedTuple):
    """A run that counts on its board."""

    run: int
    board: BoardKey
    user: str
    score_s: float


def placing(db: Readable, run: Run) -> Placing | None:
    """Return the placing of a run as `StandingsGateway.placing` does."""
    board = BoardKey(run.task, run.task_version, run.gpu)
    best = best_of(db, board, run.user)
    if best is None or not db.table("scores").count_where("run = ?", [row_id(run.id)]):
        return None
    earlier = {**board._asdict(), "user": run.user, "run": run.id}
    before = db.table("scores").rows_where(f"{OF_USER} AND run < :run", earlier, limit=1)
    select = f"*, {FORMER_RUN} AS former_run"
    entry = next(iter(db.table("feed").rows_where("run = ?", [row_id(run.id)], select=select)), None)
    told = None if entry is None else RowReader(entry, "feed")
    return Placing(
        rank=rank_of(db, board, best["score_s"]) if best["run"] == run.id else None,
        users=db.table("bests").count_where(ON_BOARD, board._asdict()),
        best_s=best["score_s"],
        best_run=RowReader(best, "bests of run", "run").integer("run"),
        first=next(before, None) is None,
        former_rank=told.integer("former_rank") if told and told.has("former_rank") else None,
        former_s=told.score("former_s") if told and told.has("former_s") else None,
        former_run=told.integer("former_run") if told and told.has("former_run") else None,
    )


def board_of(row: Mapping[str, Any]) -> BoardKey:
    """Return the board of a row of `scores` or `bests`."""
    found = RowReader(row, "scores", "run")
    return BoardKey(found.text("task"), found.text("task_version"), found.text("gpu"))


def score_of(row: Mapping[str, Any]) -> float:
    """Return the score of a row of `bests`."""
    return RowReader(row, "bests of run", "run").score()


def _entry_of(row: Mapping[str, Any]) -> "Entry":
    from hpc_board.domain.feed import Entry

    return Entry(RowReader(row, "bests of run", "run").text("user"), score_of(row))


def best_of(db: Readable, board: BoardKey, user: str) -> Mapping[str, Any] | None:
    """Return the row of `bests` of a user on the board, with a readable score."""
    given = {**board._asdict(), "user": user}
    row = next(iter(db.table("bests").rows_where(OF_USER, given)), None)
    if row is not None:
        score_of(row)
    return row


def rank_of(db: Readable, board: BoardKey, score_s: float) -> int:
    """Return the rank of a score on the board: one more than the number of faster users."""
    given = {**board._asdict(), "score_s": score_s}
    ((faster,),) = db.execute(BETTER.format(table="bests", where=ON_BOARD), given).fetchall()
    return 1 + int(faster)


# Questions of the feed before and after a run enters


def former(db: Readable, board: BoardKey, user: str) -> tuple[int, float] | None:
    """Return the rank and the score of a user on the board; None if absent."""
    best = best_of(db, board, user)
    return None if best is None else (rank_of(db, board, best["score_s"]), best["score_s"])


def podium(db: Readable, board: BoardKey) -> "tuple[Entry, ...]":
    """Return the first users of the board in order, with all who have one of the first three places."""
    rows = db.table("bests").rows_where(
        ON_BOARD, board._asdict(), order_by="score_s, submitted_at, run", limit=_PODIUM_ROWS
    )
    return tuple(map(_entry_of, rows))


def passed_by(db: Readable, board: BoardKey, score_s: float, former_s: float | None) -> "Entry | None":
    """Return the user directly behind `score_s` on the board and not behind `former_s`, if any."""
    rows = db.table("bests").rows_where(
        f"{ON_BOARD} AND score_s > :score_s AND score_s <= :former_s",
        {**board._asdict(), "score_s": score_s, "former_s": float("inf") if former_s is None else former_s},
        order_by="score_s, submitted_at, run",
        limit=1,
    )
    return next(map(_entry_of, rows), None)


# Keeping `scores` and `bests`


def score(db: Readable, run: int) -> Score | None:
    """Return the score with which a finished run counts on its board; None if it does not count."""
    for row in db.view("passing_runs").rows_where("run = ?", [run]):
        found = RowReader(row, "runs", "run", {"user": ("submissions", "submission"), "score_s": ("results", "run")})
        return Score(run, board_of(row), found.text("user"), found.score())
    return None


def enter(db: "Database", counted: Score) -> None:
    """Add a run to those that count."""
    db.execute(_ENTER, {"run": counted.run})
    _choose_best(db, counted.board, counted.user)


def withdraw(db: "Database", submission: int) -> None:
    """Remove the runs of a submission from those that count; their user's next best runs take their places."""
    rows = list(db.table("scores").rows_where("submission = ?", [submission]))
    db.table("scores").delete_where("submission = ?", [submission])
    for board, user in _boards(rows):
        _choose_best(db, board, user)


def readmit(db: "Database", submission: int) -> None:
    """Restore the runs of a submission that `withdraw` removed, if `passing_runs` has them."""
    for row in list(db.view("passing_runs").rows_where("submission = ?", [submission])):
        if not db.table("scores").count_where("run = ?", [row["run"]]):
            board = board_of(row)
            enter(db, Score(row["run"], board, row["user"], row["score_s"]))


def _choose_best(db: "Database", board: BoardKey, user: str) -> None:
    given = {**board._asdict(), "user": user}
    db.table("bests").delete_where(OF_USER, given)
    best = db.table("scores").rows_where(OF_USER, given, order_by="score_s, submitted_at, run", limit=1)
    for row in list(best):
        kept = {column: row[column] for column in ("run", "score_s", "submitted_at")}
        db.table("bests").insert({**given, **kept})


def _boards(rows: Iterable[Mapping[str, Any]]) -> set[tuple[BoardKey, str]]:
    return {(board_of(row), row["user"]) for row in rows}
