"""Additions: the rows that a board has gained since a mark, and whom they concern."""

from datetime import datetime

import msgspec

from hpc_board.domain.moderation import BOARD, EVERYTHING, USER
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded
from hpc_board.store.sqlite import Database

_TABLES = ("events", "feed", "remarks", "boards", "decisions", "runner_events")

_MARKS = f"SELECT {', '.join(f'(SELECT MAX(id) FROM {table})' for table in _TABLES)}"  # noqa: S608 - names of tables

_EVENTS = """
SELECT submissions.user, submissions.task, submissions.submitted_at AS at, events.run, runs.cluster
  FROM events
  JOIN runs ON runs.id = events.run
  JOIN submissions ON submissions.id = runs.submission
 WHERE events.id > ? AND events.id <= ?
"""
_FEED = "SELECT task, id AS entry, at FROM feed WHERE id > ? AND id <= ?"
_REMARKS = """
SELECT submissions.user, submissions.task, submissions.submitted_at AS at
  FROM remarks
  JOIN submissions ON submissions.id = remarks.submission
 WHERE remarks.id > ? AND remarks.id <= ?
"""
_BOARDS = "SELECT name FROM boards WHERE id > ? AND id <= ?"
_DECISIONS = "SELECT kind, subject FROM decisions WHERE id > ? AND id <= ?"
_RUNNERS = """
SELECT runners.user, runners.id AS runner
  FROM runner_events
  JOIN runners ON runners.id = runner_events.runner
 WHERE runner_events.id > ? AND runner_events.id <= ?
"""

Marks = tuple[int, ...]
"""The newest rows of the tables, by their order: equal ones mean that a reader sees no change."""


class Addition(msgspec.Struct, frozen=True):
    """A new row, which concerns a `user`, and those who may see the leaderboard `task`.

    Without both it concerns only admins; with `everyone`, all. `run` and its `cluster` are those of a new state, and so
    is `runner`; `entry` is the number of an entry of the feed; `terms` is true for a change of the leaderboard itself.
    `at` is the time of the submission or of the entry.
    """

    user: str = ""
    task: str = ""
    run: int = 0
    cluster: str = ""
    runner: int = 0
    entry: int = 0
    terms: bool = False
    at: datetime | None = None
    everyone: bool = False


class AdditionGateway:
    """The additions to a board. Its facts are appended, so the newest row of each table is a mark of its state."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def marks(self) -> Marks:
        """Return the present marks."""
        with self._file.reading() as db:
            return _marks(db)

    def since(self, marks: Marks) -> tuple[Marks, tuple[Addition, ...] | None]:
        """Return the present marks and the rows since `marks`; None if it is another database, as after a restore."""
        with self._file.reading() as db:
            now = _marks(db)
            if now == marks:
                return now, ()
            if any(new < old for new, old in zip(now, marks, strict=True)):
                return now, None
            return now, _additions(db, dict(zip(_TABLES, zip(marks, now, strict=True), strict=True)))


def _marks(db: Database) -> Marks:
    (row,) = db.execute(_MARKS).fetchall()
    return tuple(number or 0 for number in row)


def _additions(db: Database, spans: dict[str, tuple[int, int]]) -> tuple[Addition, ...]:
    found = [decoded(Addition, row) for row in db.query(_EVENTS, spans["events"])]
    found += [decoded(Addition, row) for row in db.query(_FEED, spans["feed"])]
    found += [decoded(Addition, row) for row in db.query(_REMARKS, spans["remarks"])]
    found += [Addition(task=row["name"], terms=True) for row in db.query(_BOARDS, spans["boards"])]
    found += [_of_decision(row["kind"], row["subject"]) for row in db.query(_DECISIONS, spans["decisions"])]
    found += [Addition(**row) for row in db.query(_RUNNERS, spans["runner_events"])]
    return tuple(dict.fromkeys(found))


def _of_decision(kind: str, subject: str) -> Addition:
    return Addition(
        user=subject if kind == USER else "", task=subject if kind == BOARD else "", everyone=kind == EVERYTHING
    )
