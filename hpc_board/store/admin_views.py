"""What admins look at: who there is, a page at a time, and what was sent within a while."""

import json
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from hpc_board.domain.admin_views import HourCount
from hpc_board.domain.moderation import RERUN, Category, Decision
from hpc_board.store import decisions
from hpc_board.store.row_reader import RowReader
from hpc_board.store.rows import plain_text, time_text

if TYPE_CHECKING:
    from sqlite_utils import Database

# Each name is looked up behind the one before it: a user's submissions are not read, however many there are.
_NEXT = """(
    SELECT MIN(name) FROM (
        SELECT MIN(user) AS name FROM submissions WHERE user > {last}
        UNION ALL
        SELECT MIN(subject) AS name FROM decisions WHERE kind = 'user' AND subject > {last}))"""
_NAMES = f"""
WITH RECURSIVE people (name) AS (
    SELECT {_NEXT.format(last=":after")}
    UNION ALL
    SELECT {_NEXT.format(last="people.name")} FROM people WHERE name IS NOT NULL)
SELECT name FROM people WHERE typeof(name) = 'text' AND instr(lower(name), lower(:part)) > 0 LIMIT :limit
"""  # noqa: S608 - all parts are constants

# The `+` keep SQLite from the indexes by user, which spare it the sorting but have it read whatever was ever sent.
_SENT = """
SELECT submissions.user, submissions.task, submissions.mode = 'ranked' AS is_ranked, COUNT(*) AS submissions,
       SUM(submissions.milestone = '' AND NOT EXISTS (
           SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)) AS limited,
       SUM((SELECT COUNT(*) FROM runs WHERE runs.submission = submissions.id)) AS runs
  FROM submissions
 WHERE submitted_at > :since {of_users}
 GROUP BY +submissions.user, submissions.task, is_ranked
"""
_OF_USERS = "AND +user IN (SELECT value FROM json_each(:users))"

_NEWEST = "SELECT id, submitted_at FROM submissions WHERE user = ? ORDER BY id DESC LIMIT 1"


def names(db: "Database", *, after: str, limit: int, part: str) -> tuple[str, ...]:
    """Who has submitted or was decided about, by name: at most `limit` that come after `after` and have `part`."""
    given = {"after": plain_text(after), "limit": limit, "part": plain_text(part)}
    # The name may be of either table; both have it as a text.
    return tuple(RowReader(row, "submissions of user", "name").text("name") for row in db.query(_NAMES, given))


def sent_since(db: "Database", since: datetime, users: Collection[str] | None = None) -> tuple[HourCount, ...]:
    """What was sent after `since`, by everybody or by these `users`, to each board."""
    # SQLite finds no index by a condition that may be empty.
    statement = _SENT.format(of_users="" if users is None else _OF_USERS)
    given = {"since": time_text(since), "rerun": RERUN, "users": json.dumps(sorted(users or ()))}
    return tuple(
        HourCount(
            RowReader(row, "submissions of user", "user").text("user"),
            RowReader(row, "submissions of user", "user").text("task"),
            Category.RANKED if row["is_ranked"] else Category.OTHER,
            row["submissions"],
            row["limited"],
            row["runs"],
        )
        for row in db.query(statement, given)
    )


def standing_of(db: "Database", user: str, now: datetime) -> tuple[Decision | None, datetime | None]:
    """The ban of `user` that holds at the time `now`, and when they submitted last."""
    newest = [RowReader(row, "submissions").moment("submitted_at") for row in db.query(_NEWEST, [user])]
    return decisions.banned(db, user, now), next(iter(newest), None)
