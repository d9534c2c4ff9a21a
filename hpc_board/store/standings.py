"""Standings: ranks over the passing ranked runs of one board, which is one version of a task on one GPU.

Equal scores share a rank and leave a gap behind it; among them, the earlier submission is shown first.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hpc_board.domain.moderation import RERUN
from hpc_board.domain.origin import author_of
from hpc_board.domain.reference import Reference
from hpc_board.domain.roles import GROUP
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, Place, Placing, Record, Rows, Standing, Version, ranks
from hpc_board.domain.user_page import UserRank
from hpc_board.model.task import Task
from hpc_board.store import ranking
from hpc_board.store.boards import teams_of
from hpc_board.store.database import DatabaseFile
from hpc_board.store.ranking import BEST_FIRST, OF_USER, ON_BOARD, BoardKey
from hpc_board.store.row_values import decoded, plain_text
from hpc_board.store.rows import mark_value, reference_value, row_id, run_value, standing_value
from hpc_board.store.sqlite import Database, Row

if TYPE_CHECKING:
    from hpc_board.domain.feed import FeedEntry

# CROSS JOIN keeps SQLite to this order, so that it reads the other tables for the rows of the page only. The index that
# ranks `table` has the row above, on the page or not.
_ROWS = """
SELECT listed.*, scores.submission, scores.user AS submitter, submissions.file_name, submissions.entrant, runs.trust,
       runs.emulated,
       (SELECT json_group_array(user) FROM (SELECT teams.user FROM teams
          WHERE teams.task = listed.task AND teams.team = listed.user ORDER BY teams.user)) AS members,
       (SELECT better.score_high_s
          FROM {table} AS better
         WHERE {among}
           AND (better.score_s, better.submitted_at, better.run) < (listed.score_s, listed.submitted_at, listed.run)
         ORDER BY better.score_s DESC, better.submitted_at DESC, better.run DESC
         LIMIT 1) AS above_high_s
  FROM (SELECT task, task_version, gpu, user, entry, score_s, score_low_s, score_high_s, submitted_at, run,
               {runs} AS runs
          FROM {table}
         WHERE {where}
         ORDER BY {order}
         LIMIT :limit OFFSET :offset) AS listed
 CROSS JOIN scores ON scores.run = listed.run
 CROSS JOIN submissions ON submissions.id = scores.submission
 CROSS JOIN runs ON runs.id = listed.run
"""

# An entry that several entrants of a user share is of each of them; each has a run of their own for it.
_ENTRANTS = f"""
WITH placed AS (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY user, entrant ORDER BY {BEST_FIRST}, is_median DESC) AS place
      FROM (SELECT scores.run, scores.submission, scores.user, entries.entry, entries.score_s, entries.score_low_s,
                   entries.score_high_s, entries.submitted_at, entries.runs, scores.run = entries.run AS is_median,
                   (SELECT entrant FROM submissions WHERE submissions.id = scores.submission) AS entrant
              FROM scores
             CROSS JOIN entries USING (task, task_version, gpu, user, entry)
             WHERE {ON_BOARD})),
     ranked AS (
    SELECT *, RANK() OVER (ORDER BY score_s) AS rank, LAG(score_high_s) OVER (ORDER BY {BEST_FIRST}) AS above_high_s
      FROM placed
     WHERE place = 1)
SELECT ranked.*, ranked.user AS submitter, '[]' AS members,
       (SELECT file_name FROM submissions WHERE submissions.id = ranked.submission) AS file_name,
       runs.trust, runs.emulated
  FROM ranked
 CROSS JOIN runs ON runs.id = ranked.run
 ORDER BY ranked.score_s, ranked.submitted_at, ranked.run
"""  # noqa: S608 - our names

_NEWEST_FIRST = "run DESC"

_OF_MEMBERS = f"{ON_BOARD} AND user IN ({ranking.MEMBERS.format(':user', ':task')})"

_RECORDS_MAX = 1_000
"""The maximum number of records of a board: each is a point of a page's plot, and a user may send many."""

_OF_ENTRANT = f"""
{OF_USER} AND EXISTS (SELECT 1 FROM submissions WHERE submissions.id = submission AND submissions.entrant = :entrant)
"""  # noqa: S608 - our names

# The rows of a user, or of the user's teams.
_OF_RANKED = f"""
user IN (SELECT :user UNION ALL SELECT teams.team FROM teams WHERE teams.user = :user)
AND user = {ranking.RANKED_AS.format(":user", "bests.task")}
"""  # noqa: S608 - our names
_OF_RANKED_ON = f"{_OF_RANKED} AND (task, task_version) IN (SELECT key, value FROM json_each(:versions))"  # noqa: S608
_ON_SAME_BOARD = "better.task = listed.task AND better.task_version = listed.task_version AND better.gpu = listed.gpu"

_FEED_OF_MEMBER = """
(feed.user = :user OR (feed.task, feed.user) IN (SELECT teams.task, teams.team FROM teams WHERE teams.user = :user))
"""

# One statement for all ranks of a user: an index finds the best score of each leaderboard, and counts.
_RANKS_OF_USER = """
SELECT own.*, reference.median_s, reference.runs AS reference_runs, reference.low_s, reference.high_s,
       (SELECT MIN(score_s) FROM bests WHERE {of_board}) AS best_s,
       (SELECT COUNT(*) FROM bests WHERE {of_board}) AS users,
       (SELECT COUNT(*) FROM bests WHERE {of_board} AND bests.score_s < own.score_s) AS faster
  FROM ({rows}) AS own
  LEFT JOIN board_references AS reference ON reference.task = own.task
        AND reference.task_version = own.task_version AND reference.gpu = own.gpu
 ORDER BY own.task, own.gpu
"""
_OWN_BOARD = "bests.task = own.task AND bests.task_version = own.task_version AND bests.gpu = own.gpu"

_USERS = """
SELECT DISTINCT user FROM (SELECT task, user FROM bests UNION ALL SELECT task, user FROM teams)
 WHERE task IN (SELECT value FROM json_each(:tasks)) AND instr(lower(user), lower(:part)) > 0
 ORDER BY user
 LIMIT :limit
"""

# From the table itself: the view of a reader has no index to name, and no freeze concerns an author's milestone.
_MILESTONES = """
SELECT submissions.milestone, submissions.id AS submission, submissions.submitted_at, submissions.file_name,
       runs.id AS run, runs.trust, runs.emulated, results.score_s
  FROM main.submissions INDEXED BY milestones
 CROSS JOIN runs ON runs.submission = submissions.id
  JOIN results ON results.run = runs.id
 WHERE submissions.task = :task AND submissions.task_version = :task_version AND submissions.milestone <> ''
   AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)
   AND runs.gpu = :gpu AND results.verdict = 'pass' AND results.score_s IS NOT NULL
"""

# The best late run of each user or team; MIN chooses the row of the other columns, too.
_LATE = f"""
SELECT {ranking.RANKED_AS.format("submissions.user", "submissions.task")} AS name,
       submissions.id AS submission, submissions.submitted_at, submissions.file_name,
       runs.id AS run, runs.trust, runs.emulated, MIN(results.score_s) AS score_s, late.due_at, 'late' AS kind
  FROM late
 CROSS JOIN submissions ON submissions.id = late.submission
 CROSS JOIN runs ON runs.submission = submissions.id
  JOIN results ON results.run = runs.id
 WHERE submissions.task = :task AND submissions.task_version = :task_version AND submissions.mode = 'ranked'
   AND NOT EXISTS (SELECT 1 FROM removed WHERE removed.submission = submissions.id)
   AND runs.gpu = :gpu AND results.verdict = 'pass' AND results.score_s IS NOT NULL
 GROUP BY name
"""  # noqa: S608 - our names

_VERSIONS = """
SELECT version,
       (SELECT MIN(submitted_at) FROM submissions
         WHERE submissions.task = tasks.name AND task_version = tasks.version) AS added_at,
       (SELECT COUNT(*) FROM bests WHERE bests.task = tasks.name AND task_version = tasks.version) AS entries
  FROM tasks
 WHERE name = :task
"""

_UNCOUNTED = """
task = :task AND task_version = :task_version AND gpu = :gpu AND user = :user
AND mode = 'ranked' AND verdict = 'pass' AND score_s IS NOT NULL AND (removal IS NOT NULL OR due_at IS NOT NULL)
"""

_VERSION_BEFORE = """
SELECT task_version FROM scores WHERE task = :task AND task_version <> :version ORDER BY run DESC LIMIT 1
"""

# One pass over the index that ranks `entries`: one that was submitted before all faster ones was a record.
_RECORDS = f"""
SELECT submitted_at AS at, {ranking.RANKED_AS.format("listed.user", "listed.task")} AS user, score_s, run
  FROM (SELECT task, submitted_at, user, score_s, run, entry,
               MIN(entry) OVER (ORDER BY score_s, submitted_at, run
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS faster
          FROM entries
         WHERE {ON_BOARD}
           AND (NOT EXISTS (SELECT 1 FROM teams WHERE teams.task = :task)
             OR NOT EXISTS (SELECT 1 FROM teams
                              JOIN bests ON bests.user = teams.team AND bests.task = entries.task
                                        AND bests.task_version = entries.task_version AND bests.gpu = entries.gpu
                             WHERE teams.task = entries.task AND teams.user = entries.user
                               AND entries.score_s < bests.score_s))) AS listed
 WHERE faster IS NULL OR entry < faster
"""  # noqa: S608 - our names

_RANKED_FILES = """
SELECT DISTINCT submissions.user, submissions.code_sha256
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id AND runs.gpu = :gpu
  LEFT JOIN results ON results.run = runs.id
 WHERE submissions.task = :task AND submissions.task_version = :version AND submissions.mode = 'ranked'
   AND (results.verdict = 'pass' OR EXISTS (SELECT 1 FROM in_flight WHERE in_flight.run = runs.id))
"""


_SUBMITTERS = """
SELECT user, MAX(submitted_at) AS last_submitted_at,
       (SELECT MIN(scores.submitted_at) FROM scores
         WHERE scores.user = submissions.user AND task = :task AND task_version = :task_version) AS first_pass_at
  FROM submissions
 WHERE task = :task AND task_version = :task_version AND milestone = ''
   AND NOT EXISTS (SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)
 GROUP BY user
"""


# The index that ranks `scores` has each of these columns.
_LEADERBOARDS = """
SELECT gpu, COUNT(*) AS runs, MAX(submitted_at) AS last_at
  FROM scores
 WHERE task = :task AND task_version = :task_version
 GROUP BY gpu
"""


class Activity(msgspec.Struct, frozen=True):
    """The activity on a leaderboard: the number of runs that count there, and the submission of the last of them."""

    gpu: str
    runs: int
    last_at: datetime


class Submitter(msgspec.Struct, frozen=True):
    """A user's own submissions to a version of a task: the newest one, and the first ranked one that passed."""

    user: str
    last_submitted_at: datetime
    first_pass_at: datetime | None


class Listed(NamedTuple):
    """A page of a board as of one moment.

    Attributes:
        rows: the standings on the page.
        total: the number of rows on all pages.
        own: the row of the reader, or of their best entrant; None among all runs, where a rank counts runs.
        milestones: the board's milestones, the fastest first.
        reference: the task's reference there.
    """

    rows: tuple[Standing, ...]
    total: int
    own: Standing | None
    milestones: tuple[Mark, ...]
    reference: Reference | None


class StandingsGateway:
    """The standings of all boards, and the feed of their changes.

    `limit` and `offset` choose a page: that many rows from this place on, 0 the first.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    # A board

    def list(
        self, task: str, task_version: str, gpu: str, *, limit: int | None = None, offset: int = 0
    ) -> tuple[Standing, ...]:
        """Return the best entry of each user or team on one board, best first."""
        with self._file.reading() as db:
            return _of_users(db, BoardKey(task, task_version, gpu), limit, offset)

    def page(
        self,
        task: str,
        task_version: str,
        gpu: str,
        rows: Rows,
        user: str,
        *,
        limit: int | None = None,
        offset: int = 0,
    ) -> Listed:
        """Return a page of one board for the reader `user`."""
        board = BoardKey(task, task_version, gpu)
        with self._file.reading() as db:
            own = None
            if rows is Rows.USERS:
                found = _of_users(db, board, limit, offset)
                total = db.count("bests", ON_BOARD, board._asdict())
            elif rows is Rows.ENTRANTS:
                entrants = _of_entrants(db, board)
                found, total = entrants[offset:][:limit], len(entrants)
                own = next((row for row in entrants if row.user == user), None)
            elif rows is Rows.RUNS:
                found = _page(db, "scores", ON_BOARD, board._asdict(), limit, offset)
                total = db.count("scores", ON_BOARD, board._asdict())
            else:
                whose, given = _whose(board, user)
                if rows is Rows.NEWEST:
                    found = _newest(db, whose, given, limit, offset)
                else:
                    found = _page(db, "scores", whose, given, limit, offset)
                total = db.count("scores", whose, given)
            if rows not in (Rows.RUNS, Rows.ENTRANTS):
                own = _row_of(db, board, user)
            return Listed(found, total, own, _milestones(db, board), ranking.reference_of(db, board))

    def reference(self, task: str, task_version: str, gpu: str) -> Reference | None:
        """Return the task's reference on one board; None if no passing ranked run timed it."""
        with self._file.reading() as db:
            return ranking.reference_of(db, BoardKey(task, task_version, gpu))

    def late(self, task: str, task_version: str, gpu: str) -> tuple[Mark, ...]:
        """Return the best late run of each user or team on one board."""
        with self._file.reading() as db:
            return tuple(decoded(Mark, row) for row in db.query(_LATE, BoardKey(task, task_version, gpu)._asdict()))

    def records(self, task: str, task_version: str, gpu: str) -> tuple[Record, ...]:
        """Return the newest entries that were the fastest of one board when first submitted, the oldest one first.

        A member's score that is better than the team's is none: the code's median over all members is slower.
        """
        with self._file.reading() as db:
            rows = db.query(_RECORDS, BoardKey(task, task_version, gpu)._asdict())
            return tuple(sorted((decoded(Record, row) for row in rows), key=lambda each: -each.score_s)[-_RECORDS_MAX:])

    def at_rank(self, task: str, task_version: str, gpu: str, rank: int) -> tuple[Standing, ...]:
        """Return the users with this rank on one board, the earlier submission first; none in a gap behind a tie."""
        board = BoardKey(task, task_version, gpu)
        with self._file.reading() as db:
            at = _of_users(db, board, 1, rank - 1)
            if not at or at[0].rank != rank:
                return ()
            where = f"{ON_BOARD} AND score_s = :score_s"
            given = {**board._asdict(), "score_s": at[0].score_s, "limit": -1, "offset": 0}
            return tuple(standing_value(row, rank) for row in db.query(_rows("bests", where, among=ON_BOARD), given))

    def uncounted(self, task: str, task_version: str, gpu: str, user: str) -> tuple[Run, ...]:
        """Return the passing ranked runs of `user` on one board that were removed or are late, newest first."""
        given = {"task": task, "task_version": task_version, "gpu": gpu, "user": user}
        with self._file.reading() as db:
            return tuple(map(run_value, db.rows("run_details", _UNCOUNTED, given, order="id DESC")))

    def ranked_files(self, task: str, version: str, gpu: str) -> frozenset[tuple[str, str]]:
        """Return the user and the sha256 of every file that has passed ranked on one board or is on its way to."""
        with self._file.reading() as db:
            rows = db.query(_RANKED_FILES, {"task": task, "version": version, "gpu": gpu})
            return frozenset((row["user"], row["code_sha256"]) for row in rows)

    def teams(self, task: str) -> dict[str, str]:
        """Return the team of each member of one on the boards of a task."""
        with self._file.reading() as db:
            return teams_of(db, task)

    def own_teams(self, user: str) -> dict[str, str]:
        """Return the team of a user by task."""
        with self._file.reading() as db:
            return {row["task"]: row["team"] for row in db.rows("teams", "user = ?", [user])}

    def submitters(self, task: str, task_version: str) -> tuple[Submitter, ...]:
        """Return the users with own submissions to a version of a task."""
        with self._file.reading() as db:
            rows = db.query(_SUBMITTERS, {"task": task, "task_version": task_version, "rerun": RERUN})
            return tuple(decoded(Submitter, row) for row in rows)

    # The versions of a task

    def versions(self, task: str) -> tuple[Version, ...]:
        """Return every version of a task that has submissions, the latest first."""
        with self._file.reading() as db:
            # A board brings its version along before it has submissions.
            rows = db.query(_VERSIONS, {"task": task})
            found = [decoded(Version, row) for row in rows if row["added_at"] is not None]
        return tuple(sorted(found, key=lambda each: each.added_at, reverse=True))

    def version_before(self, task: str, version: str) -> str | None:
        """Return the version of a task, other than this one, in which the newest run was ranked."""
        with self._file.reading() as db:
            rows = db.query(_VERSION_BEFORE, {"task": task, "version": version})
            return next((row["task_version"] for row in rows), None)

    def activity(self, task: str, task_version: str) -> tuple[Activity, ...]:
        """Return the leaderboards of a version of a task that have entries, by the name of the GPU."""
        with self._file.reading() as db:
            rows = db.query(_LEADERBOARDS, {"task": task, "task_version": task_version})
            return tuple(decoded(Activity, row) for row in rows)

    # A run, and a user

    def placing(self, run: Run) -> Placing | None:
        """Return the placing of a run on its board; None if it does not count there."""
        with self._file.reading() as db:
            return ranking.placing(db, run)

    def places(self, user: str) -> tuple[Place, ...]:
        """Return the places of a user on every board, for all versions of its task."""
        with self._file.reading() as db:
            bests = [(ranking.board_of(row), row["score_s"]) for row in db.rows("bests", _OF_RANKED, {"user": user})]
            return tuple(
                Place(*board, ranking.rank_of(db, board, score_s), ranking.users_of(db, board), score_s)
                for board, score_s in bests
            )

    def of_user(self, user: str, tasks: Collection[Task]) -> tuple[UserRank, ...]:
        """Return the rows of a user on the leaderboards of these tasks, by task and GPU."""
        versions = json.dumps({task.name: task.version for task in tasks})
        known = {task.name: task for task in tasks}
        with self._file.reading() as db:
            rows = _rows("bests", _OF_RANKED_ON, among=_ON_SAME_BOARD, order="task, gpu")
            ranks_of_user = _RANKS_OF_USER.format(rows=rows, of_board=_OWN_BOARD)
            given = {"user": plain_text(user), "versions": versions, "limit": -1, "offset": 0}
            return tuple(_user_rank(row, known[row["task"]]) for row in db.query(ranks_of_user, given))

    def of_entrants(self, user: str, tasks: Collection[Task]) -> tuple[UserRank, ...]:
        """Return the rows of a user's entrants, ranked among all entrants, on the leaderboards of these tasks."""
        known, found = {task.name: task for task in tasks}, list[UserRank]()
        with self._file.reading() as db:
            for row in [*db.rows("bests", _OF_RANKED, {"user": plain_text(user)}, order="task, gpu")]:
                board, task = ranking.board_of(row), known.get(row["task"])
                if task is not None and task.version == board.task_version:
                    rows, reference = _of_entrants(db, board), ranking.reference_of(db, board)
                    best_s, own = rows[0].score_s, (each for each in rows if each.user == user)
                    judged = (replace(each, harness=task.harness) for each in own)
                    found += [UserRank(task.name, board.gpu, each, len(rows), best_s, reference) for each in judged]
        return tuple(found)

    def users(self, tasks: Collection[str], part: str, limit: int) -> tuple[str, ...]:
        """Return the users with a rank in one of these tasks whose names contain `part`, by name, at most `limit`."""
        given = {"tasks": json.dumps(sorted(tasks)), "part": plain_text(part), "limit": limit}
        with self._file.reading() as db:
            return tuple(row["user"] for row in db.query(_USERS, given))

    def feed(
        self,
        *,
        task: str | None = None,
        gpu: str | None = None,
        user: str | None = None,
        before: int | None = None,
        limit: int = 50,
        offset: int = 0,
        among: Collection[str] | None = None,
    ) -> "tuple[FeedEntry, ...]":
        """Return the changes of standings by runs that still count, newest first.

        Only entries older than the entry number `before`, and of the tasks in `among`, are returned, the first `offset`
        ones left out.
        """
        from hpc_board.store import feed

        author, entrant = (None, None) if user is None else author_of(user)
        given: dict[str, Any] = {"task": task, "gpu": gpu}
        filters = {column: value for column, value in given.items() if value is not None}
        conditions = [f"feed.{column} = :{column}" for column in filters]
        if entrant is not None:
            conditions.append("submissions.entrant = :entrant")
            filters["entrant"] = plain_text(entrant)
        if before is not None:
            conditions.append("feed.id < :before")
            filters["before"] = row_id(before)
        if among is not None:
            # The sign keeps SQLite from collecting all entries of these tasks before it takes the newest.
            conditions.append("+feed.task IN (SELECT value FROM json_each(:among))")
            filters["among"] = json.dumps(sorted(among))
        with self._file.reading() as db:
            if author is not None:
                filters["user"] = plain_text(author)
                # An index has the entries of one name in their order.
                is_member = db.row("teams", "user = :user", filters) is not None
                conditions.append(_FEED_OF_MEMBER if is_member else "feed.user = :user")
            where = " AND ".join(conditions) or "TRUE"
            statement = feed.ENTRIES.format(former=ranking.FORMER_RUN, beaten=ranking.BEATEN_RUN, where=where)
            rows = db.query(statement, {**filters, "limit": limit, "offset": row_id(offset)})
            return tuple(map(feed.entry, rows))


def _of_users(db: Database, board: BoardKey, limit: int | None, offset: int) -> tuple[Standing, ...]:
    return _page(db, "bests", ON_BOARD, board._asdict(), limit, offset)


def _of_entrants(db: Database, board: BoardKey) -> tuple[Standing, ...]:
    return tuple(standing_value(row, row["rank"]) for row in db.query(_ENTRANTS, board._asdict()))


def _whose(board: BoardKey, user: str) -> tuple[str, dict[str, Any]]:
    """Return the condition on the runs of a user, an entrant, as in "ada/agent-b", or a team, and its values."""
    author, entrant = author_of(user)
    # An index has the runs of one user in their order.
    of_name = _OF_MEMBERS if author.startswith(GROUP) else OF_USER
    return of_name if entrant is None else _OF_ENTRANT, {**board._asdict(), "user": author, "entrant": entrant}


def _newest(db: Database, whose: str, given: Mapping[str, Any], limit: int | None, offset: int) -> tuple[Standing, ...]:
    """Return the newest runs of one user or entrant on the board, ranked among these."""
    bounded = {**given, "limit": -1 if limit is None else limit, "offset": offset}
    rows = list(db.query(_rows("scores", whose, order=_NEWEST_FIRST), bounded))
    scores = sorted(row["score_s"] for row in rows)
    places = dict(zip(scores, ranks(scores), strict=True))
    return tuple(standing_value(row, places[row["score_s"]]) for row in rows)


def _row_of(db: Database, board: BoardKey, user: str) -> Standing | None:
    given = {**board._asdict(), "user": ranking.ranked_as(db, board.task, user), "limit": 1, "offset": 0}
    for row in db.query(_rows("bests", OF_USER, among=ON_BOARD), given):
        return standing_value(row, ranking.rank_of(db, board, row["score_s"]))
    return None


def _user_rank(row: Row, task: Task) -> UserRank:
    standing = standing_value(row, row["faster"] + 1)
    return UserRank(
        task=task.name,
        gpu=row["gpu"],
        row=replace(standing, harness=task.harness),
        users=row["users"],
        best_s=row["best_s"],
        reference=reference_value(row),
    )


def _milestones(db: Database, board: BoardKey) -> tuple[Mark, ...]:
    """Return the newest passing run of each milestone on the board, the fastest first."""
    rows = sorted(db.query(_MILESTONES, board._asdict()), key=lambda row: int(row["run"]))
    newest = {row["milestone"]: row for row in rows}
    return tuple(sorted(map(mark_value, newest.values()), key=lambda mark: mark.score_s))


def _rows(table: str, where: str, *, among: str | None = None, order: str = BEST_FIRST) -> str:
    """Return the query for rows of `table`, each with the one above it of those `among` which it is ranked."""
    runs = "1" if table == "scores" else "runs"
    return _ROWS.format(table=table, runs=runs, where=where, among=among or where, order=order)


def _page(
    db: Database, table: str, where: str, given: Mapping[str, Any], limit: int | None, offset: int
) -> tuple[Standing, ...]:
    bounds = {"limit": -1 if limit is None else limit, "offset": offset}
    rows = list(db.query(_rows(table, where), {**given, **bounds}))
    if not rows:
        return ()
    # Ranks on the page follow from the place of its first row, and that one's from those before it.
    first_s = rows[0]["score_s"]
    ahead = offset
    if offset:
        ahead = db.count(table, f"{where} AND score_s < :score_s", {**given, "score_s": first_s})
    found = ranks([row["score_s"] for row in rows])
    return tuple(
        standing_value(row, ahead + 1 if row["score_s"] == first_s else offset + rank)
        for row, rank in zip(rows, found, strict=True)
    )
