"""Standings: ranks over the passing ranked runs of one board, which is one version of a task on one GPU.

Equal scores share a rank and leave a gap behind it; among them, the earlier submission is shown first. `scores` has a
row for each run that counts, `bests` one for each user on each board; both follow from the facts and change with them.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hpc_board.domain.feed import Entry
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, Place, Placing, Rows, Standing, Version, ranks
from hpc_board.store.row_reader import RowReader
from hpc_board.store.rows import mark_value, row_id, run_value, standing_value

if TYPE_CHECKING:
    from sqlite_utils import Database

_ON_BOARD = "task = :task AND task_version = :task_version AND gpu = :gpu"
_OF_USER = f"{_ON_BOARD} AND user = :user"

# CROSS JOIN keeps SQLite to this order: only what is on the page is looked up in the other tables. The row above one is
# found in the index by which `table` is ranked, whether it is on the page or not.
_ROWS = """
SELECT listed.user, listed.score_s, scores.submission, listed.run, listed.submitted_at, submissions.file_name,
       runs.trust, runs.emulated, results.score_low_s, results.score_high_s, above.score_high_s AS above_high_s
  FROM (SELECT user, score_s, submitted_at, run
          FROM {table}
         WHERE {where}
         ORDER BY {order}
         LIMIT :limit OFFSET :offset) AS listed
 CROSS JOIN scores ON scores.run = listed.run
 CROSS JOIN submissions ON submissions.id = scores.submission
 CROSS JOIN runs ON runs.id = listed.run
  LEFT JOIN results ON results.run = listed.run
  LEFT JOIN results AS above ON above.run = (
      SELECT better.run
        FROM {table} AS better
       WHERE {among}
         AND (better.score_s, better.submitted_at, better.run) < (listed.score_s, listed.submitted_at, listed.run)
       ORDER BY better.score_s DESC, better.submitted_at DESC, better.run DESC
       LIMIT 1)
"""

_BEST_FIRST = "score_s, submitted_at, run"
_NEWEST_FIRST = "run DESC"

_BETTER = "SELECT COUNT(*) AS rows FROM {table} WHERE {where} AND score_s < :score_s"

_ENTER = """
INSERT INTO scores (run, submission, task, task_version, gpu, user, score_s, submitted_at)
SELECT run, submission, task, task_version, gpu, user, score_s, submitted_at FROM passing_runs WHERE run = :run
"""

_PODIUM_ROWS = 16
"""How many of the first are looked at; more than three have one of the first three places only where some tie."""

_REMOVED = """
task = :task AND task_version = :task_version AND gpu = :gpu AND user = :user
AND mode = 'ranked' AND verdict = 'pass' AND score_s IS NOT NULL AND removal IS NOT NULL
"""

_VERSION_BEFORE = """
SELECT task_version FROM scores WHERE task = :task AND task_version <> :version ORDER BY run DESC LIMIT 1
"""

_RANKED_FILES = """
SELECT DISTINCT submissions.user, submissions.code_sha256
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id AND runs.gpu = :gpu
  LEFT JOIN results ON results.run = runs.id
 WHERE submissions.task = :task AND submissions.task_version = :version AND submissions.mode = 'ranked'
   AND (results.verdict = 'pass' OR EXISTS (SELECT 1 FROM in_flight WHERE in_flight.run = runs.id))
"""


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


class Listed(NamedTuple):
    """What a page of a board is made of, as it was at one moment."""

    rows: tuple[Standing, ...]
    total: int
    own: Standing | None
    milestones: tuple[Mark, ...]
    leading: Standing | Mark | None


# What is on a board


def listed(db: "Database", board: BoardKey, rows: Rows, user: str, *, limit: int | None, offset: int) -> Listed:
    """A page of `rows` of the board as of `standings`, with how many there are, the user's row and the milestones.

    `leading` is the best run of the board, or the fastest milestone where there is none.
    """
    if rows is Rows.USERS:
        found, total = standings(db, *board, limit=limit, offset=offset), count_users(db, *board)
    elif rows is Rows.RUNS:
        found, total = all_runs(db, *board, limit=limit, offset=offset), count_runs(db, *board)
    else:
        listing = newest if rows is Rows.NEWEST else personal
        found = listing(db, *board, user, limit=limit, offset=offset)
        total = count_runs(db, *board, user)
    # Among all runs, a rank counts runs and not users.
    own = None if rows is Rows.RUNS else standing_of(db, *board, user)
    marks = milestones(db, *board)
    first = next(iter(standings(db, *board, limit=1)), None)
    return Listed(found, total, own, marks, first or next(iter(marks), None))


def standings(
    db: "Database", task: str, task_version: str, gpu: str, *, limit: int | None = None, offset: int = 0
) -> tuple[Standing, ...]:
    """The best run of each user on the board, best first: `limit` of them from the place `offset` on, 0 the first."""
    return _page(db, "bests", _ON_BOARD, BoardKey(task, task_version, gpu)._asdict(), limit, offset)


def all_runs(
    db: "Database", task: str, task_version: str, gpu: str, *, limit: int | None = None, offset: int = 0
) -> tuple[Standing, ...]:
    """Every run that counts on the board, ranked among all of them, best first; a page of them as of `standings`."""
    return _page(db, "scores", _ON_BOARD, BoardKey(task, task_version, gpu)._asdict(), limit, offset)


def personal(
    db: "Database", task: str, task_version: str, gpu: str, user: str, *, limit: int | None = None, offset: int = 0
) -> tuple[Standing, ...]:
    """The runs of one user on the board, ranked among themselves, best first; a page of them as of `standings`."""
    given = {**BoardKey(task, task_version, gpu)._asdict(), "user": user}
    return _page(db, "scores", _OF_USER, given, limit, offset)


def newest(
    db: "Database", task: str, task_version: str, gpu: str, user: str, *, limit: int | None = None, offset: int = 0
) -> tuple[Standing, ...]:
    """The runs of one user on the board, the newest first, at most `limit` of them, ranked among these."""
    given = {**BoardKey(task, task_version, gpu)._asdict(), "user": user}
    bounds = {"limit": -1 if limit is None else limit, "offset": offset}
    rows = list(db.query(_rows("scores", _OF_USER, order=_NEWEST_FIRST), {**given, **bounds}))
    scores = sorted(RowReader(row, "scores", "run").score() for row in rows)
    places = dict(zip(scores, ranks(scores), strict=True))
    return tuple(standing_value(row, places[row["score_s"]]) for row in rows)


def standing_of(db: "Database", task: str, task_version: str, gpu: str, user: str) -> Standing | None:
    """The row of one user on the board; None where they are not on it."""
    board = BoardKey(task, task_version, gpu)
    given = {**board._asdict(), "user": user, "limit": 1, "offset": 0}
    for row in db.query(_rows("bests", _OF_USER, among=_ON_BOARD), given):
        return standing_value(row, _rank_of(db, board, row["score_s"]))
    return None


def places(db: "Database", user: str) -> tuple[Place, ...]:
    """Where a user stands on every board with a run of theirs that counts, of whatever version of its task."""
    rows = [(_board_of(row), _score_of(row)) for row in db.table("bests").rows_where("user = ?", [user])]
    return tuple(Place(*board, _rank_of(db, board, score_s), score_s) for board, score_s in rows)


def at_rank(db: "Database", task: str, task_version: str, gpu: str, rank: int) -> tuple[Standing, ...]:
    """Those who have this rank on the board, the earlier submission first; nobody where it is in a gap or too large."""
    board = BoardKey(task, task_version, gpu)
    at = standings(db, *board, limit=1, offset=rank - 1)
    if not at or at[0].rank != rank:
        return ()
    where = f"{_ON_BOARD} AND score_s = :score_s"
    given = {**board._asdict(), "score_s": at[0].score_s, "limit": -1, "offset": 0}
    return tuple(standing_value(row, rank) for row in db.query(_rows("bests", where, among=_ON_BOARD), given))


def count_users(db: "Database", task: str, task_version: str, gpu: str) -> int:
    """How many users are on the board."""
    return db.table("bests").count_where(_ON_BOARD, BoardKey(task, task_version, gpu)._asdict())


def count_runs(db: "Database", task: str, task_version: str, gpu: str, user: str | None = None) -> int:
    """How many runs count on the board, of everybody or of one user."""
    given: dict[str, Any] = BoardKey(task, task_version, gpu)._asdict()
    if user is None:
        return db.table("scores").count_where(_ON_BOARD, given)
    return db.table("scores").count_where(_OF_USER, {**given, "user": user})


def milestones(db: "Database", task: str, task_version: str, gpu: str) -> tuple[Mark, ...]:
    """The newest passing run of each milestone on the board, the fastest first."""
    rows = db.query(
        """
        SELECT submissions.milestone, submissions.id AS submission, submissions.submitted_at, submissions.file_name,
               runs.id AS run, runs.trust, runs.emulated, results.score_s
          FROM submissions INDEXED BY milestones
         CROSS JOIN runs ON runs.submission = submissions.id
          JOIN results ON results.run = runs.id
         WHERE submissions.task = :task AND submissions.task_version = :task_version AND submissions.milestone <> ''
           AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)
           AND runs.gpu = :gpu AND results.verdict = 'pass' AND results.score_s IS NOT NULL
        """,
        BoardKey(task, task_version, gpu)._asdict(),
    )
    newest = {row["milestone"]: row for row in sorted(rows, key=lambda row: int(row["run"]))}
    return tuple(sorted(map(mark_value, newest.values()), key=lambda mark: mark.score_s))


def versions(db: "Database", task: str) -> tuple[Version, ...]:
    """Every version of the task for which somebody has submitted, the one that came last first."""
    rows = db.query(
        """
        SELECT version,
               (SELECT MIN(submitted_at) FROM submissions
                 WHERE submissions.task = tasks.name AND task_version = tasks.version) AS first_at,
               (SELECT COUNT(*) FROM bests WHERE bests.task = tasks.name AND task_version = tasks.version) AS entries
          FROM tasks
         WHERE name = :task
        """,
        {"task": task},
    )
    # A board brings its version along before anybody submits for it.
    found = [
        Version(row["version"], RowReader(row, "submissions of version", "version").moment("first_at"), row["entries"])
        for row in rows
        if row["first_at"] is not None
    ]
    return tuple(sorted(found, key=lambda each: each.added_at, reverse=True))


def _rows(table: str, where: str, *, among: str | None = None, order: str = _BEST_FIRST) -> str:
    """Return the question for rows of `table`; the one above each is that of those `among` which they are ranked."""
    return _ROWS.format(table=table, where=where, among=among or where, order=order)


def _page(
    db: "Database", table: str, where: str, given: Mapping[str, Any], limit: int | None, offset: int
) -> tuple[Standing, ...]:
    bounds = {"limit": -1 if limit is None else limit, "offset": offset}
    rows = list(db.query(_rows(table, where), {**given, **bounds}))
    if not rows:
        return ()
    # Ranks on the page follow from the place of its first row, and that one's from those before it.
    first_s = rows[0]["score_s"]
    ahead = offset
    if offset:
        ((ahead,),) = db.execute(_BETTER.format(table=table, where=where), {**given, "score_s": first_s}).fetchall()
    found = ranks([row["score_s"] for row in rows])
    return tuple(
        standing_value(row, ahead + 1 if row["score_s"] == first_s else offset + rank)
        for row, rank in zip(rows, found, strict=True)
    )


# What a run means there


def rank(db: "Database", run: Run) -> int | None:
    """The rank that the run holds on its board; None unless it is its user's best one there."""
    board = BoardKey(run.task, run.task_version, run.gpu)
    best = _best(db, board, run.user)
    return _rank_of(db, board, best["score_s"]) if best is not None and best["run"] == run.id else None


def placing(db: "Database", run: Run) -> Placing | None:
    """What the run means on its board; None where it does not count there."""
    board = BoardKey(run.task, run.task_version, run.gpu)
    best = _best(db, board, run.user)
    if best is None or not db.table("scores").count_where("run = ?", [row_id(run.id)]):
        return None
    earlier = {**board._asdict(), "user": run.user, "run": run.id}
    before = db.table("scores").rows_where(f"{_OF_USER} AND run < :run", earlier, limit=1)
    return Placing(
        rank=_rank_of(db, board, best["score_s"]) if best["run"] == run.id else None,
        users=count_users(db, *board),
        best_s=best["score_s"],
        best_run=best["run"],
        first=next(before, None) is None,
    )


def _board_of(row: Mapping[str, Any]) -> BoardKey:
    found = RowReader(row, "scores", "run")
    return BoardKey(found.text("task"), found.text("task_version"), found.text("gpu"))


def _score_of(row: Mapping[str, Any]) -> float:
    return RowReader(row, "bests of run", "run").score()


def _entry_of(row: Mapping[str, Any]) -> Entry:
    return Entry(RowReader(row, "bests of run", "run").text("user"), _score_of(row))


def _best(db: "Database", board: BoardKey, user: str) -> Mapping[str, Any] | None:
    given = {**board._asdict(), "user": user}
    row = next(iter(db.table("bests").rows_where(_OF_USER, given)), None)
    if row is not None:
        _score_of(row)
    return row


def _rank_of(db: "Database", board: BoardKey, score_s: float) -> int:
    """The rank of a score on the board: how many users are faster, and one."""
    given = {**board._asdict(), "score_s": score_s}
    ((faster,),) = db.execute(_BETTER.format(table="bests", where=_ON_BOARD), given).fetchall()
    return 1 + int(faster)


# What the feed asks before and after a run enters


def former(db: "Database", board: BoardKey, user: str) -> tuple[int, float] | None:
    """The rank and the score of a user on the board; None where they are not on it."""
    best = _best(db, board, user)
    return None if best is None else (_rank_of(db, board, best["score_s"]), best["score_s"])


def podium(db: "Database", board: BoardKey) -> tuple[Entry, ...]:
    """The first users of the board in order, with all who have one of the first three places."""
    rows = db.table("bests").rows_where(
        _ON_BOARD, board._asdict(), order_by="score_s, submitted_at, run", limit=_PODIUM_ROWS
    )
    return tuple(map(_entry_of, rows))


def passed_by(db: "Database", board: BoardKey, score_s: float, former_s: float | None) -> Entry | None:
    """Who stands directly behind `score_s` on the board and not behind `former_s`; None where that is nobody."""
    rows = db.table("bests").rows_where(
        f"{_ON_BOARD} AND score_s > :score_s AND score_s <= :former_s",
        {**board._asdict(), "score_s": score_s, "former_s": float("inf") if former_s is None else former_s},
        order_by="score_s, submitted_at, run",
        limit=1,
    )
    return next(map(_entry_of, rows), None)


# What is not on a board


def removed_runs(db: "Database", task: str, task_version: str, gpu: str, user: str) -> tuple[Run, ...]:
    """The passing ranked runs of `user` on the board that do not count because they were removed, newest first."""
    board = {"task": task, "task_version": task_version, "gpu": gpu, "user": user}
    rows = db.view("run_details").rows_where(_REMOVED, board, order_by="id DESC")
    return tuple(run_value(row) for row in rows)


def version_before(db: "Database", task: str, version: str) -> str | None:
    """The version of a task, other than `version`, that the newest run was ranked in; None where there is none."""
    rows = db.query(_VERSION_BEFORE, {"task": task, "version": version})
    return next((str(row["task_version"]) for row in rows), None)


def ranked_files(db: "Database", task: str, version: str, gpu: str) -> frozenset[tuple[str, str]]:
    """The user and the sha256 of every file that has passed ranked on the board, or is on its way to."""
    rows = db.query(_RANKED_FILES, {"task": task, "version": version, "gpu": gpu})
    return frozenset((row["user"], row["code_sha256"]) for row in rows)


# Keeping `scores` and `bests`


def score(db: "Database", run: int) -> Score | None:
    """The score with which a finished run counts on its board; None where it does not."""
    for row in db.view("passing_runs").rows_where("run = ?", [run]):
        found = RowReader(row, "runs", "run", {"user": ("submissions", "submission"), "score_s": ("results", "run")})
        return Score(run, _board_of(row), found.text("user"), found.score())
    return None


def enter(db: "Database", counted: Score) -> None:
    """Let a run count."""
    db.execute(_ENTER, {"run": counted.run})
    _choose_best(db, counted.board, counted.user)


def withdraw(db: "Database", submission: int) -> None:
    """Let the runs of a submission count no more; each board has its user's next best one."""
    rows = list(db.table("scores").rows_where("submission = ?", [submission]))
    db.table("scores").delete_where("submission = ?", [submission])
    for board, user in _boards(rows):
        _choose_best(db, board, user)


def readmit(db: "Database", submission: int) -> None:
    """Let the runs of a submission count again that `withdraw` took out, as far as `passing_runs` has them."""
    for row in list(db.view("passing_runs").rows_where("submission = ?", [submission])):
        if not db.table("scores").count_where("run = ?", [row["run"]]):
            board = _board_of(row)
            enter(db, Score(row["run"], board, row["user"], row["score_s"]))


def _choose_best(db: "Database", board: BoardKey, user: str) -> None:
    given = {**board._asdict(), "user": user}
    db.table("bests").delete_where(_OF_USER, given)
    best = db.table("scores").rows_where(_OF_USER, given, order_by="score_s, submitted_at, run", limit=1)
    for row in list(best):
        kept = {column: row[column] for column in ("run", "score_s", "submitted_at")}
        db.table("bests").insert({**given, **kept})


def _boards(rows: Iterable[Mapping[str, Any]]) -> set[tuple[BoardKey, str]]:
    return {(_board_of(row), row["user"]) for row in rows}
