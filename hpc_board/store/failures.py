"""Errors of SQLite and the file system on the board's database, as messages that a user can act on."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from hpc_board.errors import StorageError, UnreadableError
from hpc_board.model.text import one_line
from hpc_board.store.guard import bounded
from hpc_board.store.row_values import unreadable

_FREE_BYTES_NEEDED = 256 * 1024

_FULL = (
    "there is no space left on the device",
    "Free some space in this file system, or raise your quota, and try again; nothing that was stored is lost.",
)
_LOCKED = (
    "another program kept the database locked",
    "Try again. If it stays so, look for an hpc-board that hangs, on this host and on the other login nodes.",
)
_UNWRITABLE = (
    "the database cannot be written",
    "Check the permissions of the file and of its folder, and that the file system is not mounted read-only.",
)
_UNOPENABLE = (
    "the database cannot be opened",
    "Check that the path is right and that you may read and write the file and its folder.",
)
_DAMAGED = (
    "the database is damaged",
    "Restore it from a backup, or move it aside to start an empty board; `sqlite3 FILE .recover` may save the rows.",
)
_ELSEWHERE = "Point `board` at another folder, or move the file aside."
_NOT_A_DATABASE = ("this file is not a database", _ELSEWHERE)
_INTERRUPTED = (
    "a statement on the database did not end in time",
    "Is the file system very slow now? Else another program may have changed it: see `hpc-board admin doctor`.",
)
_INPUT_OUTPUT = (
    "reading or writing the database failed",
    "Check the quota and the health of the file system, and that it supports locks (Lustre: mount option flock).",
)

_FAILURES = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_PROTOCOL: _LOCKED,
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_PERM: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNOPENABLE,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_TOOBIG: _DAMAGED,
    sqlite3.SQLITE_INTERRUPT: _INTERRUPTED,
    sqlite3.SQLITE_NOTADB: _NOT_A_DATABASE,
    sqlite3.SQLITE_IOERR: _INPUT_OUTPUT,
}


UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""The errors of the module sqlite3: it also decodes messages, which may hold a damaged name that is no text."""

_NOT_OURS = ("JSON", "no such table", "no such column")
"""SQLite's messages for a blob in the place of a text, and for tables that a user has changed."""

_NUMBERS = ("id", "run", "submission", "name", "sha256")
"""The columns that tell the rows of a table apart: the first that it has."""

_MISFITS = {
    "TEXT": "typeof({column}) = 'blob' OR NOT is_text(CAST({column} AS BLOB))",
    "INTEGER": "typeof({column}) NOT IN ('integer', 'null')",
    "REAL": "typeof({column}) NOT IN ('real', 'integer', 'null')",
}
"""The conditions of a value that does not fit the type of its column."""

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name IN ('documents', 'partials'), name"
_LOOK_SECONDS = 3.0
_STEPS_BETWEEN_LOOKS = 1000
"""The number of SQLite's instructions between two looks at the clock."""


@contextmanager
def translated(path: Path, *, reading: bool = False) -> Iterator[None]:
    """Translate the failures of SQLite that a user can act on into StorageError; any other one is a bug and passes.

    Raises:
        StorageError: the database at `path` cannot be used; an UnreadableError if the call was only `reading` it.
    """
    try:
        yield
    except UNREADABLE as error:
        failure = _failure(error)
        if failure is None:
            raise
        if failure is _DAMAGED and (found := find_misfit(path)):
            told = unreadable(*found)
            raise UnreadableError(f"{path}: {told.message}", hint=told.hint) from error
        if failure in (_UNOPENABLE, _INPUT_OUTPUT) and _is_full(path):
            failure = _FULL
        what, hint = failure
        # SQLite may say the same.
        if (said := one_line(str(error), 200)) not in what:
            what += f" ({said})"
        kind = UnreadableError if reading and failure not in (_FULL, _UNWRITABLE) else StorageError
        raise kind(f"{path}: {what}", hint=hint) from error


def _failure(error: Exception) -> tuple[str, str] | None:
    if isinstance(error, UnicodeDecodeError):
        return _DAMAGED
    code = getattr(error, "sqlite_errorcode", None)
    if code is None and isinstance(error, sqlite3.OperationalError):
        return _DAMAGED  # Python's error, without a code, for a text that is not UTF-8
    if code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
        return _DAMAGED  # SQLite's error for a row that names a missing one
    if code == sqlite3.SQLITE_CONSTRAINT_TRIGGER:
        return _DAMAGED  # the board's own triggers allow its statements: a foreign one does not
    if code == sqlite3.SQLITE_ERROR and any(words in str(error) for words in _NOT_OURS):
        return _DAMAGED
    return None if code is None else _FAILURES.get(code & 0xFF)  # the low byte is the kind, the rest its details


def find_misfit(path: Path, *, seconds: float = _LOOK_SECONDS) -> tuple[str, str, str] | None:
    """Return a table, a row, and the value in it that does not fit its column; None if all fit.

    Each table is read once, the large ones last, until these `seconds` are over.
    """
    with suppress(*UNREADABLE), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        bounded(db)
        db.create_function("is_text", 1, _is_text, deterministic=True)
        deadline = time.monotonic() + seconds
        db.set_progress_handler(lambda: time.monotonic() >= deadline, _STEPS_BETWEEN_LOOKS)
        for (table,) in db.execute(_TABLES).fetchall():
            kinds = {name: kind for _, name, kind, *_ in db.execute(f"PRAGMA table_info({table})")}
            number = next((name for name in _NUMBERS if name in kinds), "NULL")
            cases = [
                f"WHEN {_MISFITS[kind].format(column=column)} THEN '{column}'"
                for column, kind in kinds.items()
                if kind in _MISFITS
            ]
            if cases:
                query = f"SELECT CAST({number} AS BLOB), CASE {' '.join(cases)} END AS misfit FROM {table}"  # noqa: S608 - names of its own
                for row, column in db.execute(f"{query} WHERE misfit IS NOT NULL LIMIT 1"):
                    kind = kinds[column].lower()
                    return table, (row or b"?").decode("utf-8", "replace"), f"its {column} is no {kind}"
    return None


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def lacks_writing(error: sqlite3.Error, path: Path) -> bool:
    """Return whether SQLite failed since it could write no file beside the database at `path`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY):
        return True
    opened_or_read = code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)
    return opened_or_read and (_is_full(path) or not os.access(path.parent, os.W_OK))


def _is_full(path: Path) -> bool:
    try:
        space = os.statvfs(path.parent)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < _FREE_BYTES_NEEDED


def creation_error(path: Path, error: OSError) -> StorageError:
    """Return the error to show when the database at `path`, or its folder, could not be created."""
    return StorageError(
        f"{path}: the database cannot be created ({error.strerror})",
        hint="Check that the folder exists or can be made, that you may write there, and that it has space left.",
    )


def companion_error(file: Path, owner: int) -> UnreadableError:
    """Return the error for a user's file at a path that SQLite uses beside a database."""
    return UnreadableError(
        f"{file} is no file, and the database cannot be used beside it: user {owner} has put it there",
        hint="Have it removed by them, or by the owner of the board.",
    )


def foreign_error(path: Path) -> UnreadableError:
    """Return the error to show for a database at `path` that belongs to another program."""
    return UnreadableError(f"{path}: this database was not made by hpc-board", hint=_ELSEWHERE)


def incomplete_error(path: Path) -> UnreadableError:
    """Return the error to show for a board's database at `path` that has lost the record of its version."""
    what, hint = _DAMAGED
    return UnreadableError(f"{path}: {what} (it has tables, and no record of their version)", hint=hint)


def foreign_object_error(path: Path, kind: str, name: str) -> UnreadableError:
    """Return the error to show for a database with a trigger or a view that hpc-board has not made."""
    shown = one_line(name, 80)
    return UnreadableError(
        f"{path}: {_DAMAGED[0]}: it has a {kind} of its own, {shown}, whose statements would run in each command",
        hint=f"Remove it: sqlite3 FILE 'DROP {kind.upper()} {shown}'. Or move the file aside, and restore a backup: "
        "`hpc-board admin restore FILE`.",
    )


def lost_error(path: Path, folder: Path) -> UnreadableError:
    """Return the error to show for a database that was deleted, while the job `folder` of one of its runs is left."""
    return UnreadableError(
        f"{path}: the database is missing, but {folder} is the job folder of one of its runs",
        hint="Put it back, or restore a backup with `hpc-board admin restore FILE`. To start an empty board, move "
        f"{folder.parent} aside.",
    )


def newer_error(path: Path) -> UnreadableError:
    """Return the error to show for a database at `path` that a newer hpc-board has changed."""
    return UnreadableError(
        f"{path}: the database was made by a newer version of hpc-board",
        hint="Upgrade hpc-board; this version could misread what the newer one stored.",
    )
