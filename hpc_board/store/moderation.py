"""Moderation: deciding about users, boards and submissions, the log of decisions, notes, and views for admins."""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from hpc_board.domain.admin_views import SentCount
from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    EVERYTHING,
    LIMIT,
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
    Category,
    Decision,
    GpuLimit,
    Limits,
    Link,
)
from hpc_board.errors import InputError
from hpc_board.store import decisions, ranking, usage
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded, encoded_json, moment, plain_text, time_text
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
    "maintainers": "maintainers",
    "competition": "competition",
    "late_seconds": "late submissions",
    "freeze_at": "freeze",
    "anonymous": "anonymous",
    "teams": "teams",
    "creator": "creator",
    "task": "task",
}
"""The log's name of a change of a leaderboard's options."""

# A new board's task still has the deadline and the GPUs of its source, a changed board's those of its terms.
_TERM = "json_extract(json_remove({0}, '$.task.deadline', '$.task.gpus'), '$.{1}')"

_EXTENDED = """
    SELECT group_concat(DISTINCT json_extract(value, '$.user'))
      FROM (SELECT value
              FROM (SELECT value FROM json_each(terms, '$.extensions')
                    UNION ALL SELECT value FROM json_each(old, '$.extensions'))
             GROUP BY value
            HAVING count(*) = 1)
"""

# Changes of boards are decisions too, and so are runners; they have tables of their own. The log leaves out the hash of
# a link's secret.
_LOG = """
WITH log AS (
    SELECT action, kind, subject, iif(action = 'link', substr(detail, 66), detail) AS detail,
           by_user, at, reason, 4 * id AS number
      FROM decisions
    UNION ALL
    SELECT action, 'board' AS kind, name AS subject,
           CASE WHEN action = 'update' AND old IS NOT NULL THEN rtrim(
               iif(task_version IS NOT old_version, 'new version, ', '') || {differences}, ', ')
           ELSE '' END AS detail,
           by_user, at, reason, 4 * id + 1 AS number
      FROM (SELECT *, LAG(terms) OVER changes AS old, LAG(task_version) OVER changes AS old_version
              FROM boards WINDOW changes AS (PARTITION BY name ORDER BY id))
    UNION ALL
    SELECT 'hold' AS action, 'gpu' AS kind, gpu AS subject,
           json_object('runner', id, 'seconds', seconds) AS detail,
           user AS by_user, created_at AS at, '' AS reason, 4 * id + 2 AS number
      FROM runners
    UNION ALL
    SELECT 'end' AS action, 'gpu' AS kind, gpu AS subject,
           json_object('runner', id, 'seconds', seconds, 'runs', runs, 'held_seconds',
               coalesce(min(seconds, CAST(round(86400 * (julianday(at) - julianday(started_at))) AS INTEGER)), 0))
               AS detail,
           user AS by_user, at, reason, 4 * id + 3 AS number
      FROM runner_details
     WHERE NOT EXISTS (SELECT 1 FROM live_runners WHERE runner = id))
SELECT * FROM log
 WHERE (:user IS NULL OR by_user = :user OR (kind = 'user' AND subject = :user)
        OR (kind = 'submission' AND CAST(subject AS INTEGER) IN (SELECT id FROM submissions WHERE user = :user)))
   AND (:board IS NULL OR (kind = 'board' AND subject = :board)
        OR (kind = 'submission' AND CAST(subject AS INTEGER) IN (SELECT id FROM submissions WHERE task = :board)))
 ORDER BY at DESC, number DESC
 LIMIT :limit OFFSET :offset
""".replace(
    "{differences}",
    " || ".join(
        f"iif({_TERM.format('terms', key)} IS NOT {_TERM.format('old', key)}, '{word}, ', '')"
        for key, word in _TERMS.items()
    )
    + f" || coalesce('extensions of ' || ({_EXTENDED}) || ', ', '')",
)

# Each name is found in an index after the previous name, without reading a user's submissions.
_NEXT = """(
    SELECT MIN(name) FROM (
        SELECT MIN(user) AS name FROM submissions WHERE user > {last}
        UNION ALL
        SELECT MIN(subject) AS name FROM decisions WHERE kind = 'user' AND subject > {last}))"""
_PEOPLE = f"""
WITH RECURSIVE people (name) AS (
    SELECT {_NEXT.format(last="''")}
    UNION ALL
    SELECT {_NEXT.format(last="people.name")} FROM people WHERE name IS NOT NULL)
SELECT name, (SELECT submitted_at FROM submissions
               WHERE id = (SELECT MAX(id) FROM submissions AS own WHERE own.user = name)) AS newest_at
  FROM people
 WHERE instr(lower(name), lower(:part)) > 0
 LIMIT :limit
"""  # noqa: S608 - all parts are constants

# The `+` keeps SQLite from the index by user, which saves the sorting but reads every submission.
_SENT = """
SELECT submissions.user, submissions.task AS board, iif(submissions.mode = 'ranked', 'ranked', 'other') AS category,
       COUNT(*) AS submissions,
       SUM(submissions.milestone = '' AND NOT EXISTS (
           SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)) AS limited,
       SUM((SELECT COUNT(*) FROM runs WHERE runs.submission = submissions.id)) AS runs
  FROM submissions
 WHERE submitted_at > :since
 GROUP BY +submissions.user, submissions.task, category
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
        """Return the limits of boards, by name, each with the decision that set them."""
        with self._file.reading() as db:
            return tuple(decisions.limits(db))

    def gpu_limit(self) -> tuple[Decision, GpuLimit] | None:
        """Return the limit of the board on GPU time with the decision that set it; None if it has none."""
        with self._file.reading() as db:
            return decisions.gpu_limit(db)

    def gpu_seconds(self, users: Collection[str], since: datetime) -> dict[str, float]:
        """Return the GPU-seconds of each of these users since that time, as a limit counts them."""
        with self._file.reading() as db:
            return {user: usage.gpu_seconds(db, user, since) for user in users}

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

    def set_limits(
        self, board: str, asked: Sequence[Limits], kept: Collection[Category], by_user: str, at: datetime
    ) -> tuple[Limits, ...]:
        """Give a board new limits, but those of `kept` categories, and return them."""
        with self._file.writing() as db:
            known = {each.subject: each for _, each in decisions.limits(db, board)}
            new = []
            for each in asked:
                present = known.get(each.subject, Limits())
                ranked, other = ((present if category in kept else each).of(category) for category in Category)
                limits = msgspec.structs.replace(each, ranked=ranked, other=other)
                new.append(limits)
                # Limits that stay as they are keep their decision.
                if limits != known.get(each.subject, msgspec.structs.replace(each, ranked=None, other=None)):
                    decisions.decide(db, Decision(LIMIT, BOARD, board, by_user, at, detail=encoded_json(limits)))
            return tuple(new)

    def links(self) -> tuple[Link, ...]:
        """Return the links to boards that were not revoked, expired ones too."""
        with self._file.reading() as db:
            return tuple(decisions.links(db))

    def add(self, decision: Decision) -> None:
        """Append a decision."""
        with self._file.writing() as db:
            decisions.decide(db, decision)

    def set_gpu_limit(self, limit: GpuLimit, by_user: str, at: datetime) -> None:
        """Give the board this limit on GPU time."""
        with self._file.writing() as db:
            decisions.decide(db, Decision(LIMIT, EVERYTHING, "", by_user, at, detail=encoded_json(limit)))

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
                        f"submission {number} was already removed by {before.by_user}.",
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
                        hint="`hpc-board admin log` lists the removed ones, `hpc-board run ID` shows the submission "
                        "of a run.",
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
                    f"submission {submission} has {NOTES_MAX} notes, which is the limit.",
                    hint="Notes cannot be changed; add it to another submission.",
                )
            row = {"submission": submission, "action": NOTE, "text": plain_text(text), "by_user": plain_text(by_user)}
            db.insert("remarks", {**row, "at": time_text(at)})

    def log(self, *, user: str | None, board: str | None, limit: int, offset: int = 0) -> tuple[Decision, ...]:
        """Return the newest decisions, changes of boards, and begins and ends of runners, newest first.

        Only those by or about `user` or their submissions, and about `board` or submissions to it.
        """
        with self._file.reading() as db:
            given = {"user": user, "board": board, "limit": limit, "offset": row_id(offset)}
            return tuple(map(_decision, db.query(_LOG, given)))

    # Users

    def people(self, *, limit: int = -1, part: str = "") -> dict[str, datetime | None]:
        """Return users with submissions or decisions, by name, each with the time of the last submission.

        At most `limit` of them, by default all, whose names contain `part`.
        """
        with self._file.reading() as db:
            rows = db.query(_PEOPLE, {"limit": limit, "part": plain_text(part)})
            return {row["name"]: row["newest_at"] and moment(row["newest_at"]) for row in rows}

    def sent_since(self, since: datetime) -> tuple[SentCount, ...]:
        """Count the submissions of each user after `since` to each board."""
        with self._file.reading() as db:
            return tuple(
                decoded(SentCount, row) for row in db.query(_SENT, {"since": time_text(since), "rerun": RERUN})
            )


def _decision(row: Row) -> Decision:
    return decoded(Decision, row)
