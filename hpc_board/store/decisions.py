"""Decisions: what admins decided about users, boards and submissions, and what that allows.

The newest row about a subject is in force; nothing is taken back but by another row.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from hpc_board.domain.moderation import (
    BAN,
    BOARD,
    EVERYTHING,
    LIMIT,
    LIMITED_PERIOD,
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
    Limits,
    ban_refusal,
    limit_refusal,
    stop_refusal,
)
from hpc_board.errors import InputError, Refused, StorageError, UnreadableError
from hpc_board.model.names import suggestion
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line
from hpc_board.store import boards, ranking
from hpc_board.store.row_reader import RowReader
from hpc_board.store.rows import decision_row, decision_value, plain_text, row_id, time_text
from hpc_board.store.submissions import NewSubmission, submission

if TYPE_CHECKING:
    from sqlite_utils import Database

_OPPOSITES = {STOP: START, BAN: UNBAN}
"""What holds until it is taken back, and what takes it back."""

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
"""What a change of a board's terms is called in the log."""

# A new board's task still has the deadline and the GPUs of its source, a changed board's those of its terms.
_TERM = "json_extract(json_remove({0}, '$.task.deadline', '$.task.gpus'), '$.{1}')"

# Changes of boards are decisions too, and have a table of their own. Moments are text that sorts as they do; what is
# none comes last.
_LOG = """
SELECT * FROM (
    SELECT action, kind, subject, detail, by_user, at, reason, id, 'decisions' AS of_table,
           2 * id AS number, {place}
      FROM decisions
    UNION ALL
    SELECT action, 'board' AS kind, name AS subject,
           CASE WHEN action = 'update' AND json_valid(terms) AND json_valid(old) THEN rtrim(
               iif(task_version IS NOT old_version, 'new version, ', '') || {differences}, ', ')
           ELSE '' END AS detail,
           by_user, at, reason, id, 'boards' AS of_table, 2 * id + 1 AS number, {place}
      FROM (SELECT *, LAG(terms) OVER changes AS old, LAG(task_version) OVER changes AS old_version
              FROM boards WINDOW changes AS (PARTITION BY name ORDER BY id)))
 WHERE (:user IS NULL OR by_user = :user OR (kind = 'user' AND subject = :user)
        OR (kind = 'submission' AND CAST(subject AS INTEGER) IN (SELECT id FROM submissions WHERE user = :user)))
   AND (:board IS NULL OR (kind = 'board' AND subject = :board)
        OR (kind = 'submission' AND CAST(subject AS INTEGER) IN (SELECT id FROM submissions WHERE task = :board)))
   AND (:before IS NULL OR (place, number) < (
        (SELECT {place} FROM decisions WHERE 2 * id = :before
         UNION ALL SELECT {place} FROM boards WHERE 2 * id + 1 = :before), :before))
   AND {said}
 ORDER BY place DESC, number DESC
 LIMIT :limit
""".replace(
    "{differences}",
    " || ".join(
        f"iif({_TERM.format('terms', key)} IS NOT {_TERM.format('old', key)}, '{word}, ', '')"
        for key, word in _TERMS.items()
    ),
).replace("{place}", "iif(typeof(at) = 'text' AND at LIKE '____-__-__T%+00:00', at, '') AS place")
_NAMES = """
SELECT DISTINCT substr(user, 1, :length) AS user FROM submissions WHERE typeof(user) = 'text' LIMIT 100000
"""
_NAME_CHARACTERS_MAX = 64
"""How much of a name is compared with another one, which takes long for long ones."""

_SAID = """instr(lower(action || char(10) || kind || ' ' || subject || char(10) || by_user || char(10) || reason),
    lower(:{word})) > 0"""

# A rerun is an admin's doing and a milestone is the board's: neither takes anything from its user's limit.
_WITHIN_THE_HOUR = """
  FROM submissions
 WHERE user = :user AND task = :task AND submitted_at > :since AND (mode = 'ranked') = :ranked AND milestone = ''
   AND NOT EXISTS (SELECT 1 FROM remarks WHERE remarks.submission = submissions.id AND remarks.action = :rerun)
"""


def in_force(db: "Database", kind: str, subject: str, *actions: str) -> Decision | None:
    """The newest decision about `subject` that is one of `actions`; None where there is none."""
    marks = ", ".join("?" for _ in actions)
    rows = db.table("decisions").rows_where(
        f"kind = ? AND subject = ? AND action IN ({marks})",
        [kind, plain_text(subject), *actions],
        order_by="id DESC",
        limit=1,
    )
    return next(map(decision_value, rows), None)


def decide(db: "Database", decision: Decision) -> None:
    """Append a decision."""
    db.table("decisions").insert(decision_row(decision))


def stopped(db: "Database") -> Decision | None:
    """The decision to take no submissions, if it holds."""
    return _switched_on(in_force(db, EVERYTHING, "", STOP, START), STOP)


def banned(db: "Database", user: str, now: datetime) -> Decision | None:
    """The decision to ban `user`, if it holds at the time `now`."""
    ban = _switched_on(in_force(db, USER, user, BAN, UNBAN), BAN)
    return ban if ban is not None and not _is_over(ban, now) else None


def _switched_on(newest: Decision | None, on: str) -> Decision | None:
    return newest if newest is not None and newest.action == on else None


def _is_over(ban: Decision, now: datetime) -> bool:
    return ban.ends_at is not None and ban.ends_at <= now


def bans(db: "Database", now: datetime) -> tuple[Decision, ...]:
    """The bans that hold at the time `now`, by user."""
    rows = db.query(_SWITCHED_ON, {"kind": USER, "on": BAN, "off": UNBAN})
    return tuple(ban for ban in map(decision_value, rows) if not _is_over(ban, now))


def switch(db: "Database", decision: Decision) -> bool:
    """Append a decision to ban, unban, stop or start, and say whether it was stored: what holds already is not."""
    ends = decision.action in _OPPOSITES.values()
    pair = next(pair for pair in _OPPOSITES.items() if decision.action in pair)
    before = in_force(db, decision.kind, decision.subject, *pair)
    if before is not None and not before.readable:
        # What nobody can read holds no longer than until it is replaced.
        holds = False
    elif before is None or _is_over(before, decision.at):
        holds = ends
    else:
        # A ban with another end is another ban.
        holds = (before.action, before.detail) == (decision.action, decision.detail)
    if not holds:
        decide(db, decision)
    return not holds


def knows(db: "Database", user: str) -> bool:
    """Whether `user` has ever submitted."""
    return bool(db.table("submissions").count_where("user = ?", [plain_text(user)]))


def nearest_user(db: "Database", user: str) -> str:
    """A sentence that offers the participant whose name is most like `user`; empty where none is."""
    names = [row["user"] for row in db.query(_NAMES, {"length": _NAME_CHARACTERS_MAX})]
    return suggestion(user, names)


def limits_of(db: "Database", task: str) -> Limits:
    """The limits of a board."""
    decision = in_force(db, BOARD, task, LIMIT)
    return Limits() if decision is None else _limits(decision)


def limits(db: "Database") -> tuple[tuple[Decision, Limits], ...]:
    """The boards that have limits, by name, each with the decision that gave it them.

    Whose limits cannot be read takes nothing, as `check_limit` has it.
    """
    rows = db.query(_SWITCHED_ON, {"kind": BOARD, "on": LIMIT, "off": LIMIT})
    found = ((decision, _limits_or_closed(decision)) for decision in map(decision_value, rows))
    return tuple((decision, each) for decision, each in found if each != Limits())


def _limits_or_closed(decision: Decision) -> Limits:
    try:
        return _limits(decision)
    except UnreadableError:
        return Limits(0, 0)


def _limits(decision: Decision) -> Limits:
    try:
        return Limits.from_json(decision.detail)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(
            f"the limits of {one_line(decision.subject)} in `decisions` cannot be read: {error}",
            hint="The database was changed by another program; `hpc-board admin limit` gives the board new limits.",
        ) from error


def check_open(db: "Database", user: str, now: datetime, *, admin: bool) -> Decision | None:
    """Pass if `user` may submit at all at the time `now`; a stop that does not hold for them, an admin, is returned.

    Raises:
        Refused: the board takes no submissions, or none of theirs.
    """
    stop = stopped(db)
    if stop is not None and not admin:
        raise Refused(stop_refusal(stop), hint="Runs in flight go on: `hpc-board runs` shows yours.")
    ban = banned(db, user, now)
    if ban is not None:
        raise Refused(ban_refusal(ban), hint=f"{ban.by_user} decided so; your runs in flight go on.")
    return stop


def check_limit(db: "Database", user: str, task: str, mode: Mode, new: int, now: datetime) -> None:
    """Pass if `user` may send `new` more submissions in this mode to the board of `task`.

    Raises:
        Refused: they have sent too many within the hour.
    """
    category = Category.of(mode)
    limit = limits_of(db, task).of(category)
    if limit is None:
        return
    given = {
        "user": plain_text(user),
        "task": task,
        "since": time_text(now - LIMITED_PERIOD),
        "ranked": int(category is Category.RANKED),
        "rerun": RERUN,
    }
    ((count,),) = db.execute(f"SELECT COUNT(*) {_WITHIN_THE_HOUR}", given).fetchall()
    enough = {**given, "enough": max(0, limit - new + 1)}
    rows = db.execute(f"SELECT submitted_at {_WITHIN_THE_HOUR} ORDER BY submitted_at DESC LIMIT :enough", enough)
    newest = [RowReader({"submitted_at": at}, "submissions").moment("submitted_at") for (at,) in rows.fetchall()]
    refusal = limit_refusal(task, category, limit, newest, count, new, now)
    if refusal:
        raise Refused(refusal, hint="`hpc-board admin limits` lists the limits of all boards.")


def check_all(db: "Database", new: Sequence[NewSubmission]) -> None:
    """Pass if these submissions of people who are no admins, which are about to be stored, may be.

    Raises:
        Refused: the board takes none, none of these users', or not so many; or a task's own was deleted or is over.
    """
    for user, at in {each.user: each.at for each in new}.items():
        check_open(db, user, at, admin=False)
    alike: dict[tuple[str, str, Category], list[NewSubmission]] = {}
    for each in new:
        alike.setdefault((each.user, each.task.name, Category.of(each.mode)), []).append(each)
    for (user, task, _), members in alike.items():
        check_limit(db, user, task, members[0].mode, len(members), members[0].at)
    for each in new:
        boards.check_takes(db, each.task, each.at, of_settings=each.of_settings)


def set_limits(db: "Database", board: str, change: Callable[[Limits], Limits], by_user: str, at: datetime) -> Limits:
    """Give a board the limits that `change` makes of those that it has, and return them."""
    try:
        present = limits_of(db, board)
    except StorageError:
        # What nobody can read holds no longer than until it is replaced.
        present = Limits()
    limits = change(present)
    decide(db, Decision(LIMIT, BOARD, board, by_user, at, detail=limits.to_json()))
    return limits


def remove(db: "Database", numbers: Collection[int], by_user: str, at: datetime, reason: str) -> None:
    """Take submissions out of the standings, all of them or none.

    Raises:
        InputError: there is no such submission, or one is removed already.
    """
    for number in numbers:
        found = submission(db, number)
        before = _switched_on(in_force(db, SUBMISSION, str(found.id), REMOVE, READMIT), REMOVE)
        if before is not None:
            raise InputError(
                f"submission {number} was removed already, by {before.by_user}.",
                hint=f"`hpc-board admin readmit {number}` puts it back into the standings.",
            )
        decide(db, Decision(REMOVE, SUBMISSION, str(found.id), by_user, at, reason))
        db.table("removed").insert({"submission": found.id})
        ranking.withdraw(db, found.id)


def readmit(db: "Database", numbers: Collection[int], by_user: str, at: datetime, reason: str) -> None:
    """Put removed submissions back into the standings, all of them or none.

    Raises:
        InputError: there is no such submission, or one is not removed.
    """
    for number in numbers:
        found = submission(db, number)
        if not is_removed(db, found.id):
            raise InputError(
                f"submission {number} is not removed.",
                hint="`hpc-board admin log` lists what was, `hpc-board run ID` tells the submission of a run.",
            )
        decide(db, Decision(READMIT, SUBMISSION, str(found.id), by_user, at, reason))
        db.table("removed").delete(found.id)
        ranking.readmit(db, found.id)


def is_removed(db: "Database", number: int) -> bool:
    """Whether the submission does not count."""
    return bool(db.table("removed").count_where("submission = ?", [row_id(number)]))


def log(
    db: "Database",
    *,
    user: str | None,
    board: str | None,
    limit: int,
    before: int | None = None,
    words: Sequence[str] = (),
) -> tuple[Decision, ...]:
    """What was decided, newest first: by or about `user` or their submissions, and about `board` or those to it.

    `before` is the number of a decision; those older than it are found. All of `words` are somewhere in them.
    """
    given = {"user": user, "board": board, "limit": limit, "before": None if before is None else row_id(before)}
    said = {f"word{place}": plain_text(word) for place, word in enumerate(words)}
    statement = _LOG.format(said=" AND ".join(_SAID.format(word=name) for name in said) or "TRUE")
    rows = db.query(statement, {**given, **said})
    return tuple(replace(decision_value(row), number=row["number"]) for row in rows)
