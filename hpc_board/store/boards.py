"""Leaderboards that users created: one row for each change, the newest of which is the present state.

To read them creates no database, and loads SQLite alone: every command that names a task reads them.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from hpc_board.domain.board_options import BoardOptions, BoardOptionsError, Visibility, deadline_refusal
from hpc_board.domain.user_board import Action, BoardChange, CreatedBoard, DamagedBoard, Entries
from hpc_board.errors import DamagedRowError, InputError, Refused
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.store.database import DatabaseFile
from hpc_board.store.reading import Readable
from hpc_board.store.row_values import RowReader, plain_text, time_text, unreadable

if TYPE_CHECKING:
    from sqlite_utils import Database

Newest = CreatedBoard | BoardChange | DamagedBoard
"""A board, the change that deleted it, or a board of which a row is damaged."""

_VERSION_KEYS = frozenset({"name", "files", "tests", "benchmarks"})
"""The keys of a task's definition that are large and equal for all leaderboards of a version: `tasks` has them."""

_NEWEST = "SELECT MAX(id) AS id FROM boards GROUP BY name ORDER BY name"

_ENTRIES = "SELECT gpu, COUNT(*) AS users FROM bests WHERE task = ? AND task_version = ? GROUP BY gpu ORDER BY gpu"


class NewChange(msgspec.Struct, frozen=True):
    """A change to store; `after` is the newest change of the name that its author has seen, 0 for none.

    `task` is None if the leaderboard is deleted. `leave` is called, in the transaction that stores the change, with the
    number of users on the standings of the old version; it raises to prevent the change.
    """

    name: str
    action: Action
    task: Task | None
    options: BoardOptions = msgspec.field(name="terms")
    by_user: str
    at: datetime
    reason: str
    after: int
    leave: Callable[[tuple[Entries, ...]], object] | None = None


class BoardGateway:
    """The boards that users made, as one row for each change of one.

    `newest` and `changes` look at the file as it is: they make no database and bring none up to date.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def newest(self, known: Mapping[int, Newest] | None = None) -> dict[int, Newest]:
        """Return the newest change of each board, also a deletion, by its number, in the order of names.

        A damaged row is the fault of its board alone.

        Changes in `known` are not read again, since a change is immutable.
        """
        known = known or {}
        with self._file.existing() as connection:
            if connection is None or not _has_boards(connection):
                return {}
            numbers = [row["id"] for row in _rows(connection, _NEWEST)]
            kept = {number: each for number, each in known.items() if not isinstance(each, DamagedBoard)}
            return {number: kept.get(number) or _board(connection, number) for number in numbers}

    def is_closed(self, name: str) -> bool:
        """Return whether the newest board of this name, also a deleted one, is closed; a damaged one may have been."""
        with self._file.existing() as connection:
            if connection is None or not _has_boards(connection):
                return False
            try:
                rows = _rows(connection, "SELECT * FROM boards WHERE name = ? ORDER BY id DESC LIMIT 1", name)
                return any(_change(row).options.visibility is Visibility.CLOSED for row in rows)
            except DamagedRowError:
                return True

    def changes(self, name: str) -> tuple[BoardChange, ...]:
        """Return the changes of all boards of this name, oldest first."""
        with self._file.existing() as connection:
            if connection is None or not _has_boards(connection):
                return ()
            rows = _rows(connection, "SELECT * FROM boards WHERE name = ? ORDER BY id", name)
            return tuple(map(_change, rows))

    def entries(self, task: str, version: str) -> tuple[Entries, ...]:
        """Count the users with a rank for this version of a task, by GPU, without creating a database."""
        if not self._file.is_there():
            return ()
        with self._file.reading() as db:
            return _entries(db, task, version)

    def change(self, new: Sequence[NewChange]) -> None:
        """Store changes of boards, each with the version of its task; all or none.

        Raises:
            InputError: another user has changed one of the boards since its author looked at it.
            Refused: users are on standings that one leaves, as its `leave` says.
        """
        with self._file.writing() as db:
            for each in new:
                _add(db, each)


def _entries(db: Readable, task: str, version: str) -> tuple[Entries, ...]:
    return tuple(Entries(row["gpu"], row["users"]) for row in db.query(_ENTRIES, [task, version]))


def check_takes(db: Readable, task: Task, at: datetime, *, of_settings: bool) -> None:
    """Check that the newest change of the board of `task`, if any, allows submissions at the time `at`.

    `of_settings` says that the settings have a task in the place of a deleted leaderboard.

    Raises:
        Refused: its board was deleted, or its deadline has passed.
    """
    deadline = task.deadline
    for row in db.query("SELECT * FROM boards WHERE name = ? ORDER BY id DESC LIMIT 1", [task.name]):
        newest = _change(row)
        if newest.task_version is not None:
            deadline = newest.options.deadline
        elif not of_settings:
            raise Refused(
                f"the board {task.name} takes no submissions any more: it was deleted by {one_line(newest.by_user)}.",
                hint="`hpc-board list` shows the tasks that are open.",
            )
    if deadline is not None and at > deadline:
        raise Refused(deadline_refusal(task.name, deadline, at), hint="`hpc-board list` shows the tasks that are open.")


def _add(db: "Database", new: NewChange) -> None:
    import json

    from hpc_board.store.task_rows import task_definition

    for row in db.query("SELECT * FROM boards WHERE name = ? ORDER BY id DESC LIMIT 1", [new.name]):
        if row["id"] != new.after:
            raise InputError(
                f"the board {new.name} was changed by {row['by_user']} in this moment ({row['action']}).",
                hint="Look at it, and try again if you still want to.",
            )
        if new.leave is not None and row["task_version"] is not None:
            new.leave(_entries(db, new.name, row["task_version"]))
    moment = time_text(new.at)
    document = new.options.to_json()
    if new.task is not None:
        definition = json.loads(task_definition(new.task))
        document["task"] = {key: value for key, value in definition.items() if key not in _VERSION_KEYS}
        version = {"name": new.name, "version": new.task.version, "definition": json.dumps(definition)}
        db.table("tasks").insert({**version, "added_at": moment}, ignore=True)
    db.table("boards").insert(
        {
            "name": new.name,
            "action": new.action.value,
            "task_version": None if new.task is None else new.task.version,
            "terms": json.dumps(document),
            "by_user": plain_text(new.by_user),
            "at": moment,
            "reason": plain_text(new.reason),
        }
    )


def _has_boards(connection: sqlite3.Connection) -> bool:
    """Return whether the table exists: it is missing from an older program's database and from an empty one."""
    return bool(_rows(connection, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'boards'"))


def _rows(connection: sqlite3.Connection, statement: str, *values: str | int) -> list[dict[str, Any]]:
    cursor = connection.execute(statement, values)
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _board(connection: sqlite3.Connection, number: int) -> Newest:
    (row,) = _rows(connection, "SELECT * FROM boards WHERE id = ?", number)
    change: BoardChange | None = None
    try:
        change = _change(row)
        return change if change.task_version is None else _created(connection, row, change)
    except DamagedRowError as error:
        return DamagedBoard(
            number,
            one_line(str(row["name"]), 80),
            error.message,
            error.hint,
            None if change is None else change.options,
        )


def check_board_row(db: Readable, row: Mapping[str, Any]) -> None:
    """Check a row of `boards`, and that its version of a task can be read with the values of the row.

    Raises:
        DamagedRowError: it cannot be read.
    """
    change = _change(row)
    if change.task_version is not None:
        _created(db.conn, row, change)


def _created(connection: sqlite3.Connection, row: Mapping[str, Any], change: BoardChange) -> CreatedBoard:
    with _readable(row):
        own = dict(_terms(row).get("task", {}))
    return CreatedBoard(change, _task(connection, change, own))


def _change(row: Mapping[str, Any]) -> BoardChange:
    found = RowReader(row, "boards")
    with _readable(row):
        document = _terms(row)
        document.pop("task", None)
        terms = BoardOptions.from_json(document)
    return BoardChange(
        found.integer("id"),
        found.name("name"),
        found.word(Action, "action"),
        found.text("task_version") if found.has("task_version") else None,
        terms,
        found.text("by_user"),
        found.moment("at"),
        found.text("reason"),
    )


def _terms(row: Mapping[str, Any]) -> dict[str, Any]:
    import json

    document: dict[str, Any] = json.loads(RowReader(row, "boards").text("terms"))
    return document


@contextmanager
def _readable(row: Mapping[str, Any]) -> Iterator[None]:
    """Translate the errors from a row of `boards` that hpc-board did not write: other programs can write any."""
    try:
        yield
    except (BoardOptionsError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        what = f"{one_line(str(error), 200)}. Was it written by a newer hpc-board? Then upgrade this one"
        raise unreadable("boards", f"{row['id']}, about {row['name']},", what) from error


def _task(connection: sqlite3.Connection, change: BoardChange, own: Mapping[str, Any]) -> Task:
    """Return the task of a leaderboard: that of its version, with the leaderboard's own values."""
    from dataclasses import replace

    from hpc_board.store.task_rows import task_value

    where = "SELECT name, definition FROM tasks WHERE name = ? AND version = ?"
    for row in _rows(connection, where, change.name, change.task_version or ""):
        task = task_value(row, {**own, "name": change.name})
        return replace(task, deadline=change.options.deadline, gpus=change.options.gpus, warnings=())
    raise unreadable("boards", str(change.id), f"no row of `tasks` has its task_version {change.task_version}")
