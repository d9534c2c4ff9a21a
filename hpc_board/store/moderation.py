"""Moderation: deciding about users, boards and submissions, the log of decisions, notes, and views for admins."""

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from hpc_board.domain.admin_views import HourCount
from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    LIMIT,
    NEWEST_DECISION_FIRST,
    NOTE,
    NOTES_MAX,
    READMIT,
    REMOVE,
    RERUN,
    START,
    STOP,
    SUBMISSION,
    UNBAN,
    USER,
    Decision,
    Limits,
    LogColumn,
    LogOrder,
)
from hpc_board.errors import InputError
from hpc_board.model.names import suggestion
from hpc_board.store import decisions, ranking
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded, moment, plain_text, time_text
from hpc_board.store.rows import row_id
from hpc_board.store.sqlite import Row
from hpc_board.store.submissions import stored_submission

_OPPOSITES = {STOP: START, BAN: UNBAN}
"""Each decision that holds until it is revoked, and the one that revokes it."""

_SWITCHED_ON = """
SELECT * FROM decisions AS decided
 WHERE kind = :kind AND action = :on
   AND id = (SELECT MAX(id) FROM decisions AS newest
              WHERE newest.kind = decided.kind AND newest.subject = decided.subject AND newest.action IN (:on, :off))
 ORDER BY subject
"""

_TERMS = {
    "deadline": "deadline",
    "gpus": "GPUs",
    "visibility": "visibility",
    "members": "members",
    "code_shown": "code shown",
    "creator": "creator",
    "task": "task",
}
"""The log's name of a change of a leaderboard's options."""

# A new board's task still has the deadline and the GPUs of its source, a changed board's those of its terms.
_TERM = "json_extract(json_remove({0}, '$.task.deadline', '$.task.gpus'), '$.{1}')"

# Changes of boards are decisions too, and have a table of their own.
_LOG = """
WITH log AS (SELECT *, {value} AS value FROM (
    SELECT action, kind, subject, detail, by_user, at, reason, 2 * id AS number FROM decisions
    UNION ALL
    SELECT action, 'board' AS kind, name AS subject,
           CASE WHEN action = 'update' AND old IS NOT NULL THEN rtrim(
               iif(task_version IS NOT old_version, 'new version, ', '') || {differences}, ', ')
           ELSE '' END AS detail,
           by_user, at, reason, 2 * id + 1 AS number
      FROM (SELECT *, LAG(terms) OVER changes AS old, LAG(task_version) OVER changes AS old_version
              FROM boards WINDOW changes AS (PARTITION BY name ORDER BY id)))),
     past AS (SELECT value, at, number FROM log WHERE number = :before)
SELECT * FROM log
 WHERE (:user IS NULL OR by_user = :user OR (kind = 'user' AND subject = :user)
        OR (kind = 'submission' AND CAST(subject AS INTEGER) IN (SELECT id FROM submissions WHERE user = :user)))
   AND (:board IS NULL OR (kind = 'board' AND subject = :board)
        OR (kind = 'submission' AND CAST(subject AS INTEGER) IN (SELECT id FROM submissions WHERE task = :board)))
   AND (:before IS NULL OR value {beyond} (SELECT value FROM past)
        OR (value = (SELECT value FROM past) AND (at, number) {older} (SELECT at, number FROM past)))
   AND {said}
 ORDER BY value {direction}, at {age}, number {age}
 LIMIT :limit
""".replace(
    "{differences}",
    " || ".join(
        f"iif({_TERM.format('terms', key)} IS NOT {_TERM.format('old', key)}, '{word}, ', '')"
        for key, word in _TERMS.items()
    ),
)

# A word that all have leaves the order to the moments; numbers of submissions are in the order of numbers.
_LOG_VALUES = {
    LogColumn.AGE: "''",
    LogColumn.BY: "by_user",
    LogColumn.ACTION: "action",
    LogColumn.ABOUT: "iif(kind = 'submission', printf('submission %20d', subject), kind || ' ' || subject)",
}

_PARTICIPANTS = "SELECT DISTINCT user FROM submissions LIMIT 100000"

_SAID = """instr(lower(action || char(10) || kind || ' ' || subject || char(10) || by_user || char(10) || reason),
    lower(:{word})) > 0"""

# Each name is found in an index after the previous name, without reading a user's submissions.
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
SELECT name FROM people WHERE instr(lower(name), lower(:part)) > 0 LIMIT :limit
"""  # noqa: S608 - all parts are constants

# The `+` keep SQLite from the indexes by user, which save the sorting but read every submission.
_SENT = """
SELECT submissions.user, submissions.task AS board, iif(submissions.mode = 'ranked', 'ranked', 'other') AS category,
       COUNT(*) AS submissions,
       SUM(submissions.milestone = '' AND NOT EXISTS (
           SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)) AS limited,
       SUM((SELECT COUNT(*) FROM runs WHERE runs.submission = submissions.id)) AS runs
  FROM submissions
 WHERE submitted_at > :since {of_users}
 GROUP BY +submissions.user, submissions.task, category
"""
_OF_USERS = "AND +user IN (SELECT value FROM json_each(:users))"

_NEWEST_OF_EACH = """
SELECT value AS user, submissions.id, submissions.submitted_at
  FROM json_each(:users)
  JOIN submissions ON submissions.id = (SELECT MAX(id) FROM submissions AS own WHERE own.user = value)
"""


class ModerationGateway:
    """The decisions of a board's admins, the notes of its users, and the users whom decisions are about."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    # Admission

    def check_open(self, user: str, now: datetime, *, admin: bool) -> Decision | None:
        """Check that `user` may submit at the time `now`; return a stop that does not apply to them, an `admin`.

        Raises:
            Refused: the board takes no submissions, or none of theirs.
        """
        with self._file.reading() as db:
            return decisions.check_open(db, user, now, admin=admin)

    def stopped(self) -> Decision | None:
        """Return the decision to take no submissions, if it is in force."""
        with self._file.reading() as db:
            return decisions.stopped(db)

    def bans(self, now: datetime) -> tuple[Decision, ...]:
        """Return the bans in force at the time `now`, by user."""
        with self._file.reading() as db:
            rows = db.query(_SWITCHED_ON, {"kind": USER, "on": BAN, "off": UNBAN})
            return tuple(ban for ban in map(_decision, rows) if not decisions.is_over(ban, now))

    def limits(self) -> tuple[tuple[Decision, Limits], ...]:
        """Return the boards that have limits, by name, each with the decision that gave it them."""
        with self._file.reading() as db:
            rows = db.query(_SWITCHED_ON, {"kind": BOARD, "on": LIMIT, "off": LIMIT})
            found = [(decision, decisions.limits_in(decision)) for decision in map(_decision, rows)]
        return tuple((decision, each) for decision, each in found if each != Limits())

    # Deciding

    def switch(self, decision: Decision) -> bool:
        """Append a decision to ban, unban, stop or start. Return False, without a change, if it holds already."""
        ends = decision.action in _OPPOSITES.values()
        pair = next(pair for pair in _OPPOSITES.items() if decision.action in pair)
        with self._file.writing() as db:
            before = decisions.in_force(db, decision.kind, decision.subject, *pair)
            if before is None or decisions.is_over(before, decision.at):
                holds = ends
            else:
                # A ban with another end is another ban.
                holds = (before.action, before.detail) == (decision.action, decision.detail)
            if not holds:
                decisions.decide(db, decision)
            return not holds

    def set_limits(self, board: str, change: Callable[[Limits], Limits], by_user: str, at: datetime) -> Limits:
        """Give a board the limits that `change` makes of its present ones, and return them."""
        with self._file.writing() as db:
            limits = change(decisions.limits_of(db, board))
            decisions.decide(db, Decision(LIMIT, BOARD, board, by_user, at, detail=limits.to_json()))
            return limits

    def remove(self, numbers: Collection[int], by_user: str, at: datetime, reason: str) -> None:
        """Take submissions out of the standings, all of them or none.

        Raises:
            InputError: a submission does not exist, or is removed already.
        """
        with self._file.writing() as db:
            for number in numbers:
                found = stored_submission(db, number)
                newest = decisions.in_force(db, SUBMISSION, str(found.id), REMOVE, READMIT)
                before = decisions.switched_on(newest, REMOVE)
                if before is not None:
                    raise InputError(
                        f"submission {number} was removed already, by {before.by_user}.",
                        hint=f"`hpc-board admin readmit {number}` puts it back into the standings.",
                    )
                decisions.decide(db, Decision(REMOVE, SUBMISSION, str(found.id), by_user, at, reason))
                db.insert("removed", {"submission": found.id})
                ranking.withdraw(db, found.id)

    def readmit(self, numbers: Collection[int], by_user: str, at: datetime, reason: str) -> None:
        """Put removed submissions back into the standings, all of them or none.

        Raises:
            InputError: a submission does not exist, or is not removed.
        """
        with self._file.writing() as db:
            for number in numbers:
                found = stored_submission(db, number)
                if not db.count("removed", "submission = ?", [found.id]):
                    raise InputError(
                        f"submission {number} is not removed.",
                        hint="`hpc-board admin log` lists what was, `hpc-board run ID` tells the submission of a run.",
                    )
                decisions.decide(db, Decision(READMIT, SUBMISSION, str(found.id), by_user, at, reason))
                db.delete("removed", "submission = ?", [found.id])
                ranking.readmit(db, found.id)

    def add_note(self, submission: int, text: str, by_user: str, at: datetime) -> None:
        """Append a note to those of a submission.

        Raises:
            InputError: the submission has as many as it may have.
        """
        with self._file.writing() as db:
            if db.count("remarks", "submission = ? AND action = ?", [submission, NOTE]) >= NOTES_MAX:
                raise InputError(
                    f"submission {submission} has {NOTES_MAX} notes, and may not have more.",
                    hint="Notes are never changed; put it on another submission.",
                )
            row = {"submission": submission, "action": NOTE, "text": plain_text(text), "by_user": plain_text(by_user)}
            db.insert("remarks", {**row, "at": time_text(at)})

    def log(
        self,
        *,
        user: str | None,
        board: str | None,
        limit: int,
        before: int | None = None,
        words: Sequence[str] = (),
        order: LogOrder = NEWEST_DECISION_FIRST,
    ) -> tuple[Decision, ...]:
        """Return decisions and changes of boards.

        Args:
            user: only those by or about this user or their submissions.
            board: only those about this board or submissions to it.
            limit: at most this many.
            before: the number of a decision; only those after it in the order, by default older ones.
            words: only those that contain all of these.
            order: the order, newest first by default.
        """
        given = {"user": user, "board": board, "limit": limit, "before": None if before is None else row_id(before)}
        said = {f"word{place}": plain_text(word) for place, word in enumerate(words)}
        value, oldest_first = _LOG_VALUES[order.by], order.descending and order.by is LogColumn.AGE
        statement = _LOG.format(
            said=" AND ".join(_SAID.format(word=name) for name in said) or "TRUE",
            value=value,
            direction="DESC" if order.descending else "ASC",
            beyond="<" if order.descending else ">",
            age="ASC" if oldest_first else "DESC",
            older=">" if oldest_first else "<",
        )
        with self._file.reading() as db:
            return tuple(map(_decision, db.query(statement, {**given, **said})))

    # Users

    def knows_user(self, user: str) -> bool:
        """Return whether `user` has ever submitted."""
        with self._file.reading() as db:
            return db.count("submissions", "user = ?", [plain_text(user)]) > 0

    def nearest_user(self, user: str) -> str:
        """Return a sentence that offers the participant with the nearest name to `user`; empty if none is near."""
        with self._file.reading() as db:
            names = [row["user"] for row in db.query(_PARTICIPANTS)]
        return suggestion(user, names)

    def user_names(self, *, after: str, limit: int, part: str) -> tuple[str, ...]:
        """Return users with submissions or decisions: at most `limit` names that follow `after` and contain `part`."""
        given = {"after": plain_text(after), "limit": limit, "part": plain_text(part)}
        with self._file.reading() as db:
            return tuple(row["name"] for row in db.query(_NAMES, given))

    def last_sent(self, users: Collection[str]) -> dict[str, datetime]:
        """Return the time of the last submission of each of these users who has one."""
        with self._file.reading() as db:
            rows = db.query(_NEWEST_OF_EACH, {"users": json.dumps(sorted(users))})
            return {row["user"]: moment(row["submitted_at"]) for row in rows}

    def sent_since(self, since: datetime, users: Collection[str] | None = None) -> tuple[HourCount, ...]:
        """Count the submissions after `since` to each board, of all users or of these."""
        # SQLite finds no index by a condition that may be empty.
        statement = _SENT.format(of_users="" if users is None else _OF_USERS)
        given = {"since": time_text(since), "rerun": RERUN, "users": json.dumps(sorted(users or ()))}
        with self._file.reading() as db:
            return tuple(decoded(HourCount, row) for row in db.query(statement, given))


def _decision(row: Row) -> Decision:
    return decoded(Decision, row)
