"""The tables behind standings, within the transaction that changes a run or a submission.

`scores` has a row for each run that counts, `entries` one for each code of a user on each board, which is one version
of a task on one GPU, and `bests` the best of these for each user, or for all members of a team, in which equal codes of
members are one. `reference_times` has the time of the reference in each of these runs and those of milestones,
`board_references` the one of each board. All follow from the facts and `teams`, and change with them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from hpc_board.domain.reference import Reference
from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import RUNS_FOR_INTERVAL
from hpc_board.domain.standing import Placing
from hpc_board.store.row_values import decoded
from hpc_board.store.rows import interval_value, row_id
from hpc_board.store.sqlite import Database, Row

if TYPE_CHECKING:
    from hpc_board.domain.feed import Entry

ON_BOARD = "task = :task AND task_version = :task_version AND gpu = :gpu"
OF_USER = f"{ON_BOARD} AND user = :user"
BEST_FIRST = "score_s, submitted_at, run"

RANKED_AS = "COALESCE((SELECT teams.team FROM teams WHERE teams.user = {0} AND teams.task = {1}), {0})"
"""The name under which a user ranks on the boards of a task: that of the team, or else the own one."""

MEMBERS = "SELECT {0} UNION ALL SELECT teams.user FROM teams WHERE teams.task = {1} AND teams.team = {0}"
"""The users who rank under a name on the boards of a task: that user, or the members of that team."""

# Of another user with this score if need be: the members of a team change.
_OF_SCORE = """
SELECT MIN(run) FROM scores AS earlier
 WHERE earlier.task = feed.task AND earlier.task_version = feed.task_version AND earlier.gpu = feed.gpu
   AND earlier.score_s = {score} AND earlier.run <> feed.run
"""
_RUN_OF_SCORE = f"COALESCE(({_OF_SCORE} AND earlier.user IN ({MEMBERS.format('{user}', 'feed.task')})), ({_OF_SCORE}))"

FORMER_RUN = _RUN_OF_SCORE.format(score="feed.former_s", user="feed.user")
"""The run with the score that an entry of the feed improved, if it still counts."""

_BEATEN = "json_extract(feed.news, '$.beaten.{0}')"
BEATEN_RUN = _RUN_OF_SCORE.format(score=_BEATEN.format("score_s"), user=_BEATEN.format("user"))
"""The run with the score that an entry of the feed passed, if it still counts."""

_ENTER = """
INSERT INTO scores (run, submission, task, task_version, gpu, user, entry, score_s, score_low_s, score_high_s,
                    submitted_at)
SELECT run, submission, task, task_version, gpu, user, entry, score_s, score_low_s, score_high_s, submitted_at
  FROM passing_runs WHERE run = :run
"""

_OF_RUN = f"{OF_USER} AND entry = (SELECT entry FROM scores WHERE run = :run)"  # noqa: S608 - our names
_OF_ENTRY = f"{OF_USER} AND entry = :entry"
_IS_SAME_CODE = "id = :one AND tokens_sha256 = (SELECT tokens_sha256 FROM submissions WHERE id = :other)"

_REFERENCE_OF_RUNS = """
SELECT submissions.task, submissions.task_version, runs.gpu, results.reference_s, runs.id AS run
  FROM runs
  JOIN submissions ON submissions.id = runs.submission
  JOIN results ON results.run = runs.id
 WHERE runs.submission = ? AND results.reference_s IS NOT NULL
"""

_REFERENCE_OF_USERS = f"""
WITH placed AS (
    SELECT submissions.user, reference_s,
           ROW_NUMBER() OVER (PARTITION BY submissions.user ORDER BY reference_s) AS place,
           COUNT(*) OVER (PARTITION BY submissions.user) AS runs
      FROM (SELECT reference_s, run FROM reference_times WHERE {ON_BOARD}) AS times
     CROSS JOIN main.runs AS runs ON runs.id = times.run
     CROSS JOIN main.submissions AS submissions ON submissions.id = runs.submission)
SELECT AVG(reference_s) AS median_s, runs FROM placed WHERE place IN ((runs + 1) / 2, runs / 2 + 1) GROUP BY user
"""  # noqa: S608 - our names

_OF_CODE = """
SELECT scores.*
  FROM main.submissions AS one
 CROSS JOIN main.submissions AS same
 CROSS JOIN main.scores AS scores ON scores.submission = same.id
 WHERE one.id = :entry AND same.user IN (SELECT value FROM json_each(:members))
   AND same.task = one.task AND same.task_version = one.task_version AND same.tokens_sha256 = one.tokens_sha256
   AND scores.gpu = :gpu AND {counts}
 ORDER BY scores.score_s, scores.submitted_at, scores.run
"""

_TIME_COLUMNS = ("task", "task_version", "gpu", "reference_s", "run")
_SAME_TIME = " AND ".join(f"{column} = :{column}" for column in _TIME_COLUMNS)

_ENTRY_COLUMNS = ("task", "task_version", "gpu", "user", "entry")

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
    entry: int


def placing(db: Database, run: Run) -> Placing | None:
    """Return the placing of a run as `StandingsGateway.placing` does."""
    board = BoardKey(run.task, run.task_version, run.gpu)
    best = best_of(db, board, run.user)
    entry: Row | None = db.row("entries", _OF_RUN, {**board._asdict(), "user": run.user, "run": row_id(run.id)})
    if best is None or entry is None:
        return None
    is_best = db.count("submissions", _IS_SAME_CODE, {"one": best["entry"], "other": entry["entry"]})
    if is_best:
        entry = best
    of_code = _of_code(db, board, _members(db, board.task, entry["user"]), entry["entry"]) if entry["runs"] > 1 else ()
    before = [row for row in of_code if row["run"] < run.id]
    earlier = {**board._asdict(), "user": run.user, "run": run.id}
    former = f"SELECT former_rank, former_s, {FORMER_RUN} AS former_run FROM feed WHERE run = ?"  # noqa: S608
    return Placing(
        rank=rank_of(db, board, best["score_s"]) if is_best else None,
        users=users_of(db, board),
        team="" if best["user"] == run.user else best["user"],
        best_s=best["score_s"],
        best_run=best["run"],
        best_runs=best["runs"],
        median_s=entry["score_s"] if entry["runs"] > 1 else None,
        runs=entry["runs"],
        median_before_s=_median_of(before)["score_s"] if before else None,
        first=db.row("scores", f"{OF_USER} AND run < :run", earlier) is None,
        **next(db.query(former, [row_id(run.id)]), {}),
    )


def board_of(row: Row) -> BoardKey:
    """Return the board of a row of `scores` or `bests`."""
    return BoardKey(row["task"], row["task_version"], row["gpu"])


def _entry_of(row: Row) -> "Entry":
    from hpc_board.domain.feed import Entry

    return decoded(Entry, row)


def reference_of(db: Database, board: BoardKey) -> Reference | None:
    """Return the reference of the board; None if no passing ranked run timed it."""
    row = db.row("board_references", ON_BOARD, board._asdict())
    return None if row is None else decoded(Reference, row)


def ranked_as(db: Database, task: str, user: str) -> str:
    """Return the name under which a user ranks: that of the team on the boards of a task, or else the own one."""
    return str(db.value(f"SELECT {RANKED_AS.format(':user', ':task')}", {"user": user, "task": task}))


def best_of(db: Database, board: BoardKey, user: str) -> Row | None:
    """Return the row of `bests` of a user, or of the user's team, on the board."""
    return db.row("bests", OF_USER, {**board._asdict(), "user": ranked_as(db, board.task, user)})


def rank_of(db: Database, board: BoardKey, score_s: float) -> int:
    """Return the rank of a score on the board: one more than the number of faster users."""
    return 1 + db.count("bests", f"{ON_BOARD} AND score_s < :score_s", {**board._asdict(), "score_s": score_s})


def users_of(db: Database, board: BoardKey) -> int:
    """Return the number of users and teams on the board."""
    return db.count("bests", ON_BOARD, board._asdict())


# Questions of the feed before and after a run enters


def former(db: Database, board: BoardKey, user: str) -> tuple[int, float] | None:
    """Return the rank and the score of a user on the board; None if absent."""
    best = best_of(db, board, user)
    return None if best is None else (rank_of(db, board, best["score_s"]), best["score_s"])


def runs_of_code(db: Database, counted: Score) -> int:
    """Return the number of runs that count with the code of a run, by its user or the members of the team."""
    members = _members(db, counted.board.task, ranked_as(db, counted.board.task, counted.user))
    return len(_of_code(db, counted.board, members, counted.entry))


def podium(db: Database, board: BoardKey) -> "tuple[Entry, ...]":
    """Return the first users of the board in order, with all who have one of the first three places."""
    rows = db.rows("bests", ON_BOARD, board._asdict(), order=BEST_FIRST, limit=_PODIUM_ROWS)
    return tuple(map(_entry_of, rows))


def passed_by(db: Database, board: BoardKey, score_s: float, former_s: float | None) -> "Entry | None":
    """Return the user directly behind `score_s` on the board and not behind `former_s`, if any."""
    given = {**board._asdict(), "score_s": score_s, "former_s": 1e300 if former_s is None else former_s}
    where = f"{ON_BOARD} AND score_s > :score_s AND score_s <= :former_s"
    return next(map(_entry_of, db.rows("bests", where, given, order=BEST_FIRST, limit=1)), None)


# Keeping `scores` and `bests`


def score(db: Database, run: int) -> Score | None:
    """Return the score with which a finished run counts on its board; None if it does not count."""
    row = db.row("passing_runs", "run = ? AND milestone = ''", [run])
    return None if row is None else Score(run, board_of(row), row["user"], row["entry"])


def enter(db: Database, counted: Score) -> None:
    """Add a run to those that count."""
    db.execute(_ENTER, {"run": counted.run})
    _choose(db, counted.board, counted.user, counted.entry)


def withdraw(db: Database, submission: int) -> None:
    """Remove the runs of a submission from those that count, and compute the scores of their users anew."""
    rows = list(db.rows("scores", "submission = ?", [submission]))
    db.delete("scores", "submission = ?", [submission])
    for board, user, entry in {(board_of(row), row["user"], row["entry"]) for row in rows}:
        _choose(db, board, user, entry)
    for row in list(db.query(_REFERENCE_OF_RUNS, [submission])):
        db.delete("reference_times", _SAME_TIME, row)
        _choose_reference(db, board_of(row))


def readmit(db: Database, submission: int) -> None:
    """Restore the runs of a submission that `withdraw` removed, if `passing_runs` has them."""
    for row in list(db.rows("passing_runs", "submission = ?", [submission])):
        if not row["milestone"] and not db.count("scores", "run = ?", [row["run"]]):
            enter(db, Score(row["run"], board_of(row), row["user"], row["entry"]))
        enter_reference(db, row["run"])


def _choose(db: Database, board: BoardKey, user: str, entry: int) -> None:
    """Compute an entry of a user anew, and choose the best one."""
    of_user = {**board._asdict(), "user": user}
    given = {**of_user, "entry": entry}
    db.delete("entries", _OF_ENTRY, given)
    for row in entry_rows(db.rows("scores", _OF_ENTRY, given, order=BEST_FIRST)):
        db.insert("entries", row)
    _choose_best(db, board, ranked_as(db, board.task, user))


def _choose_best(db: Database, board: BoardKey, ranked: str) -> None:
    """Choose the best entry of a user without a team, or of the members of a team."""
    db.delete("bests", OF_USER, {**board._asdict(), "user": ranked})
    best = best_of_members(db, board, _members(db, board.task, ranked))
    if best is not None:
        db.insert("bests", {**best, "user": ranked})


def _members(db: Database, task: str, ranked: str) -> list[str]:
    """Return the users who rank under a name: the members of a team, or a user without one."""
    members = [row["user"] for row in db.rows("teams", "task = ? AND team = ?", [task, ranked])]
    if not members and ranked_as(db, task, ranked) == ranked:
        members = [ranked]
    return members


def best_of_members(
    db: Database, board: BoardKey, members: Sequence[str], *, entries: str = "entries", counts: str = "TRUE"
) -> Row | None:
    """Return the best entry of a user, or of the members of a team, whose equal codes are one entry; None without any.

    `entries` is their table, and `counts` the condition on the rows of `scores`.
    """
    best: Row | None = None
    # An index has the entries of one user in their order.
    of_each = (db.rows(entries, OF_USER, {**board._asdict(), "user": user}, order=BEST_FIRST) for user in members)
    for row in merge(*of_each, key=_place):
        # The median of a code over all members is no better than the best one of a member.
        if best is not None and _place(best) <= _place(row):
            break
        found = row
        if len(members) > 1:
            runs = _of_code(db, board, members, row["entry"], counts)
            found = {**row, "entry": min(run["entry"] for run in runs), **_median_of(runs)}
        best = min(found, best or found, key=_place)
    return best


def _of_code(db: Database, board: BoardKey, members: Sequence[str], entry: int, counts: str = "TRUE") -> Sequence[Row]:
    """Return the rows of `scores` of these users with the code of an entry, the fastest first."""
    given = {"entry": entry, "gpu": board.gpu, "members": json.dumps(members)}
    return list(db.query(_OF_CODE.format(counts=counts), given))


def _place(row: Row) -> tuple[float, str, int]:
    return row["score_s"], row["submitted_at"], row["run"]


def set_team(db: Database, task: str, user: str, team: str) -> None:
    """Have a user rank as a member of `team` on the boards of a task, or alone if it is empty."""
    former, now = ranked_as(db, task, user), team or user
    if former == now:
        return
    db.delete("teams", "user = ? AND task = ?", [user, task])
    if team:
        db.insert("teams", {"user": user, "task": task, "team": team})
    for board in {board_of(row) for row in db.rows("entries", "task = ? AND user = ?", [task, user])}:
        for ranked in (former, now):
            _choose_best(db, board, ranked)


def entry_rows(scores: Iterable[Row]) -> Iterator[Row]:
    """Yield the row of `entries` for each entry in these rows of `scores`, where it is together, fastest run first."""
    for entry, runs in groupby(scores, key=lambda row: {column: row[column] for column in _ENTRY_COLUMNS}):
        yield {**entry, **_median_of(list(runs))}


def _median_of(runs: Sequence[Row]) -> Row:
    """Return the columns of an entry with these runs, the fastest first."""
    # An entry of one run, as nearly all are, needs no statistics.
    if len(runs) == 1:
        columns = ("run", "score_s", "score_low_s", "score_high_s", "submitted_at")
        return {**{column: runs[0][column] for column in columns}, "runs": 1}
    from hpc_board.domain.score_interval import median_score

    scores = [row["score_s"] for row in runs]
    score_s, interval = median_score(scores, list(map(interval_value, runs)))
    return {
        "run": runs[(len(runs) - 1) // 2]["run"],
        "score_s": score_s,
        "score_low_s": interval and interval.low_s,
        "score_high_s": interval and interval.high_s,
        "submitted_at": min(row["submitted_at"] for row in runs),
        "runs": len(runs),
    }


# Keeping `reference_times` and `board_references`


def enter_reference(db: Database, run: int) -> None:
    """Add the time of the reference in a run to those of its board, if `passing_runs` has one."""
    row = db.row("passing_runs", "run = ? AND reference_s IS NOT NULL", [run])
    if row is not None and not db.count("reference_times", _SAME_TIME, row):
        db.insert("reference_times", {column: row[column] for column in _TIME_COLUMNS})
        _choose_reference(db, board_of(row))


def _choose_reference(db: Database, board: BoardKey) -> None:
    """Compute the reference of a board anew."""
    db.delete("board_references", ON_BOARD, board._asdict())
    if (row := reference_row(db, board)) is not None:
        db.insert("board_references", row)


def reference_row(db: Database, board: BoardKey) -> Row | None:
    """Return the reference of a board: a user with many runs counts as much as one with a single run; None without."""
    # Reading the standings needs no statistics.
    import statistics

    from hpc_board.model.measurement import median_interval

    given = board._asdict()
    of_users = list(db.query(_REFERENCE_OF_USERS, given))
    if not of_users:
        return None
    times = [row["median_s"] for row in of_users]
    if len(times) == 1:
        times = [row["reference_s"] for row in db.rows("reference_times", ON_BOARD, given)]
    low_s, high_s = median_interval(times) if len(times) >= RUNS_FOR_INTERVAL else (None, None)
    columns = {"median_s": statistics.median(times), "low_s": low_s, "high_s": high_s}
    return {**given, **columns, "runs": sum(row["runs"] for row in of_users)}
