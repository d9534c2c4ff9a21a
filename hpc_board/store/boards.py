"""Leaderboards that users created: one row for each change, the newest of which is the present state.

To read them creates no database: every command that names a task reads them.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import msgspec

from hpc_board.domain.board_options import BoardOptions, Visibility, deadline_refusal, is_past
from hpc_board.domain.moderation import RERUN, Sender
from hpc_board.domain.roles import GROUP
from hpc_board.domain.user_board import Action, BoardChange, CreatedBoard, Entries, loss
from hpc_board.errors import InputError, Refused
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import (
    UndecodableError,
    decoded,
    decoded_json,
    encoded_json,
    moment,
    optional_time_text,
    plain_text,
    time_text,
)
from hpc_board.store.sqlite import Database, Row

Newest = CreatedBoard | BoardChange
"""A board, or the change that deleted it."""

_VERSION_KEYS = frozenset({"name", "files", "tests", "benchmarks"})
"""The keys of a task's definition that are large and equal for all leaderboards of a version: `tasks` has them."""

_NEWEST = "SELECT MAX(id) AS id FROM boards GROUP BY name ORDER BY name"

# A rerun is as late as the submission that it repeats.
_MAY_BE_LATE = """
WITH RECURSIVE repeated (id, original) AS (
    SELECT id, id FROM submissions WHERE task = :task
    UNION
    SELECT repeated.id, CAST(remarks.text AS INTEGER)
      FROM repeated
     CROSS JOIN remarks ON remarks.submission = repeated.original AND remarks.action = :rerun)
SELECT submissions.id, submissions.user, MIN(sent.submitted_at) AS sent_at
  FROM repeated
 CROSS JOIN submissions ON submissions.id = repeated.id
 CROSS JOIN submissions AS sent ON sent.id = repeated.original
 WHERE submissions.milestone = ''
 GROUP BY submissions.id
HAVING sent_at > :deadline OR EXISTS (SELECT 1 FROM late WHERE late.submission = submissions.id)
"""

_BOUNDED = f"""
SELECT *
  FROM boards
 WHERE id IN (SELECT id FROM ({_NEWEST}))
   AND (json_extract(terms, '$.anonymous') OR json_extract(terms, '$.freeze_at') IS NOT NULL)
"""  # noqa: S608 - our names

_USERS = "SELECT user FROM submissions WHERE task = :task UNION SELECT user FROM teams WHERE task = :task"

# Those without a team whose first submission in time came after a freeze, and not after the one that replaces it.
_NEW_USERS = """
SELECT user FROM submissions
 WHERE task = :task AND id NOT IN (SELECT submission FROM late)
   AND user NOT IN (SELECT user FROM teams WHERE task = :task)
 GROUP BY user
HAVING MIN(submitted_at) > :former AND (:freeze IS NULL OR MIN(submitted_at) <= :freeze)
"""

_ENTRIES = "SELECT gpu, COUNT(*) AS users FROM bests WHERE task = ? AND task_version = ? GROUP BY gpu ORDER BY gpu"


class NewChange(msgspec.Struct, frozen=True):
    """A change to store; `after` is the newest change of the name that its author has seen, 0 for none.

    `task` is None if the leaderboard is deleted. `senders` are the users with submissions and the members of teams, if
    the options need the groups of users. `reset_by` has the parts of the task that start a new version.
    """

    name: str
    action: Action
    task: Task | None
    options: BoardOptions = msgspec.field(name="terms")
    by_user: str
    at: datetime
    reason: str
    after: int
    senders: Mapping[str, Sender] = {}
    reset_by: tuple[str, ...] = ()


class BoardGateway:
    """The boards that users made, as one row for each change of one."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def newest(self, known: Mapping[int, Newest] | None = None) -> dict[int, Newest]:
        """Return the newest change of each board, also a deletion, by its number, in the order of names.

        Changes in `known` are not read again, since a change is immutable.
        """
        known = known or {}
        if not self._file.is_there():
            return {}
        with self._file.reading() as db:
            numbers = [row["id"] for row in db.query(_NEWEST)]
            return {number: known.get(number) or _board(db, number) for number in numbers}

    def changes(self, name: str) -> tuple[BoardChange, ...]:
        """Return the changes of all boards of this name, oldest first."""
        if not self._file.is_there():
            return ()
        with self._file.reading() as db:
            return tuple(map(_change, db.rows("boards", "name = ?", [name], order="id")))

    def entries(self, task: str, version: str) -> tuple[Entries, ...]:
        """Count the users with a rank for this version of a task, by GPU, without creating a database."""
        if not self._file.is_there():
            return ()
        with self._file.reading() as db:
            return _entries(db, task, version)

    def users(self, name: str) -> frozenset[str]:
        """Return the users with submissions to a board, or with a team there."""
        with self._file.reading() as db:
            return _users(db, name)

    def change(self, new: Sequence[NewChange], *, force: bool = False) -> dict[str, tuple[Entries, ...]]:
        """Store changes of boards, each with the version of its task; all or none.

        Submissions become late or timely by the new deadlines of their users, and users join and leave teams.

        Returns:
            The number of users on the standings that each change resets, by the name of its board.

        Raises:
            InputError: another user has changed one of the boards since its author looked at it, or has submitted to it
                without being among its senders.
            Refused: a change resets standings with users, and `force` is false.
        """
        left: dict[str, tuple[Entries, ...]] = {}
        with self._file.writing() as db:
            for each in new:
                former = _newest(db, each.name)
                _check_seen(db, each, former)
                version = None if former is None else former["task_version"]
                if version is not None and each.task is not None and each.task.version != version:
                    left[each.name] = _entries(db, each.name, version)
                    if left[each.name] and not force:
                        raise Refused(
                            loss(each.name, each.reset_by, left[each.name]),
                            hint="Use --force; the standings of the old version are kept.",
                        )
                _add(db, each)
                before = None if former is None or version is None else _change(former).options
                deadlines = each.options.deadline, each.options.extensions
                if each.task is not None and (before is None or (before.deadline, before.extensions) != deadlines):
                    _mark_late_anew(db, each)
                _set_teams(db, each, before)
        return left


def is_closed(db: Database, name: str) -> bool:
    """Return whether the newest board of this name, also a deleted one, is closed."""
    row = _newest(db, name)
    return row is not None and _change(row).options.visibility is Visibility.CLOSED


def bounded(db: Database) -> tuple[BoardChange, ...]:
    """Return the newest changes of the boards that are frozen at a time or anonymous, also of deleted ones."""
    return tuple(map(_change, db.query(_BOUNDED)))


def teams_of(db: Database, name: str) -> dict[str, str]:
    """Return the team of each member of one on the boards of this name."""
    return {row["user"]: row["team"] for row in db.rows("teams", "task = ?", [name])}


def pseudonym_key(db: Database) -> str:
    """Return the secret that pseudonyms derive from."""
    row = db.row("secrets", "TRUE", ())
    if row is None:
        raise UndecodableError("the database lacks the secret of pseudonyms")
    return decoded(str, row["pseudonym_key"])


def _newest(db: Database, name: str) -> Row | None:
    return db.row("boards", "name = ?", [name], order="id DESC")


def _entries(db: Database, task: str, version: str) -> tuple[Entries, ...]:
    return tuple(decoded(Entries, row) for row in db.query(_ENTRIES, [task, version]))


def apply_terms(db: Database, submission: int, name: str, user: str, sender: Sender | None, at: datetime) -> None:
    """Mark a new submission of `user` to a board as late if it comes after their deadline, or else set their team.

    After a freeze the teams stay: who left and joined them would tell who submitted.
    """
    # Lists of tasks read boards, and need no ranks.
    from hpc_board.store import ranking

    row = _newest(db, name)
    if row is not None and row["task_version"] is not None:
        options = _change(row).options
        due_at = options.deadline_of(user, () if sender is None else sender.groups)
        if due_at is not None and is_past(due_at, at):
            # It changes no other's rank, as one that left a team would.
            db.insert("late", {"submission": submission, "due_at": time_text(due_at)})
        elif sender is not None and options.teams and not is_past(options.freeze_at, at):
            ranking.set_team(db, name, user, options.team_of(user, sender.groups, sender.role))


def _set_teams(db: Database, new: NewChange, before: BoardOptions | None) -> None:
    """Set the team of each user with submissions to a board, and of each sender; a deleted board has none.

    With the same teams as `before`, it is set for those alone who manage the board now and did not, or the reverse, and
    for those whose first submission a freeze no longer withholds: the groups of others may have ended.
    """
    from hpc_board.store import ranking

    joining: set[str] = set()
    if before is not None and before.freeze_at is not None:
        freezes = {"former": time_text(before.freeze_at), "freeze": optional_time_text(new.options.freeze_at)}
        joining = {row["user"] for row in db.query(_NEW_USERS, {"task": new.name, **freezes})}
    for user in _users(db, new.name) | new.senders.keys():
        sender = new.senders.get(user, Sender())
        who = user, sender.groups, sender.role
        if (
            before is None
            or new.task is None
            or before.teams != new.options.teams
            or user in joining
            or before.managed_by(*who) != new.options.managed_by(*who)
        ):
            ranking.set_team(db, new.name, user, new.options.team_of(*who))


def _users(db: Database, name: str) -> frozenset[str]:
    return frozenset(row["user"] for row in db.query(_USERS, {"task": name}))


def _mark_late_anew(db: Database, new: NewChange) -> None:
    """Mark the submissions to a board that are late by its new options, and no others."""
    # Lists of tasks read boards, and need no ranks.
    from hpc_board.store import ranking

    deadline = "" if new.options.deadline is None else time_text(new.options.deadline)
    # A group that has ended has its extension, as the members of its team had it.
    teams = {row["user"]: row["team"].removeprefix(GROUP) for row in db.rows("teams", "task = ?", [new.name])}
    for row in list(db.query(_MAY_BE_LATE, {"task": new.name, "deadline": deadline, "rerun": RERUN})):
        user = row["user"]
        due_at = new.options.deadline_of(user, {*new.senders.get(user, Sender()).groups, teams.get(user, "")})
        is_late = due_at is not None and is_past(due_at, moment(row["sent_at"]))
        db.delete("late", "submission = ?", [row["id"]])
        if is_late and due_at is not None:
            db.insert("late", {"submission": row["id"], "due_at": time_text(due_at)})
            ranking.withdraw(db, row["id"])
        else:
            ranking.readmit(db, row["id"])


def check_takes(db: Database, task: Task, user: str, sender: Sender, at: datetime, deleted: Collection[str]) -> None:
    """Check that the newest change of the board of `task`, if any, allows submissions of `user` at the time `at`.

    `deleted` are the boards that were deleted before the submission was drafted: their names are tasks of the settings.

    Raises:
        Refused: its board was deleted, or its deadline has passed.
    """
    deadline = task.deadline
    if row := _newest(db, task.name):
        newest, teams = _change(row), tuple[str, ...]()
        if newest.task_version is not None:
            deadline = newest.options.closes_at(user, sender.groups)
            teams = newest.options.teams_of(sender.groups)
        elif task.name not in deleted:
            raise Refused(
                f"the board {task.name} no longer accepts submissions: it was deleted by {one_line(newest.by_user)}.",
                hint="`hpc-board list` shows the tasks that are open.",
            )
        if len(teams) > 1 and not newest.options.managed_by(user, sender.groups, sender.role):
            raise Refused(
                f"you are in several teams of the board {task.name}: {', '.join(teams)}.",
                hint=f"Ask {one_line(newest.options.creator)}, its creator, to remove you from all but one.",
            )
    if deadline is not None and is_past(deadline, at):
        raise Refused(deadline_refusal(task.name, deadline, at), hint="`hpc-board list` shows the tasks that are open.")


def _check_seen(db: Database, new: NewChange, former: Row | None) -> None:
    """Check that the author of a change has seen the newest one, and all users whose terms depend on their groups.

    Raises:
        InputError: another user was faster.
    """
    if former is not None and former["id"] != new.after:
        raise InputError(
            f"the board {new.name} was just changed by {former['by_user']} ({former['action']}).",
            hint="Review it and retry.",
        )
    if new.options.needs_groups and new.task is not None and (unseen := _users(db, new.name) - new.senders.keys()):
        raise InputError(f"{', '.join(sorted(unseen))} just submitted to the board {new.name}.", hint="Retry.")


def _add(db: Database, new: NewChange) -> None:
    from hpc_board.store.task_rows import task_definition

    at = time_text(new.at)
    document = msgspec.to_builtins(new.options)
    if new.task is not None:
        definition = task_definition(new.task)
        own = msgspec.json.decode(definition)
        document["task"] = {key: value for key, value in own.items() if key not in _VERSION_KEYS}
        version = {"name": new.name, "version": new.task.version, "definition": definition, "added_at": at}
        db.insert("tasks", version, ignore=True)
    db.insert(
        "boards",
        {
            "name": new.name,
            "action": new.action.value,
            "task_version": None if new.task is None else new.task.version,
            "terms": encoded_json(document),
            "by_user": plain_text(new.by_user),
            "at": at,
            "reason": plain_text(new.reason),
        },
    )


def _board(db: Database, number: int) -> Newest:
    row = next(db.rows("boards", "id = ?", [number]))
    change = _change(row)
    return change if change.task_version is None else created_board(db, row)


def created_board(db: Database, row: Row) -> CreatedBoard:
    """Return the board of a change, with its task: that of its version, with the board's own values."""
    from dataclasses import replace

    from hpc_board.store.task_rows import task_value

    change = _change(row)
    own = decoded(dict[str, object], decoded_json(dict[str, object], row["terms"]).get("task", {}))
    version = db.row("tasks", "name = ? AND version = ?", [change.name, change.task_version])
    if version is None:
        raise UndecodableError(f"the board {change.name} lacks its version")
    task = task_value(version, {**own, "name": change.name})
    return CreatedBoard(change, replace(task, deadline=change.options.deadline, gpus=change.options.gpus, warnings=()))


def _change(row: Row) -> BoardChange:
    return decoded(BoardChange, {**row, "terms": decoded_json(dict[str, object], row["terms"])})
