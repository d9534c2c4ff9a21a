"""Errors of SQLite and the file system on the board's database, as messages that a user can act on."""

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_board.errors import StorageError, UnreadableError
from hpc_board.model.text import one_line
from hpc_board.store.row_values import UndecodableError

_FREE_BYTES_NEEDED = 256 * 1024

_FULL = (
    "there is no space left on the device",
    "Free some space in this file system, or raise your quota, and try again; nothing that was stored is lost.",
)
_LOCKED = (
    "another program kept the database locked",
    "Retry. If it recurs, find a hung hpc-board on this host and on the other login nodes.",
)
_WITHOUT_LOCKS = (
    "its file system has no file locks",
    "On NFS, start the lock service; on Lustre, mount with the option `flock`. Or choose another folder for the board.",
)
_UNWRITABLE = (
    "the database cannot be written",
    "Check the permissions of the file and of its folder, and that the file system is not mounted read-only.",
)
_UNOPENABLE = (
    "the database cannot be opened",
    "Check that the path is right and that you may read and write the file and its folder.",
)
DAMAGED = (
    "the database is damaged",
    "Restore a backup: `hpc-board admin restore FILE`. `sqlite3 board.db .recover` may save newer rows.",
)
_REFUSED = (
    "the database rejected a value",
    "Nothing was stored. This is a bug in hpc-board, or the scheduler printed something unknown: report it.",
)
ELSEWHERE = "Point `board` at another folder, or move the file aside."
_NOT_A_DATABASE = ("this file is not a database", ELSEWHERE)
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
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: _NOT_A_DATABASE,
    sqlite3.SQLITE_IOERR: _INPUT_OUTPUT,
}


UNREADABLE = (sqlite3.Error, UnicodeDecodeError, UndecodableError)
"""The errors of a damaged database: the module sqlite3 also decodes names, which may be no text."""


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
        if failure in (_UNOPENABLE, _INPUT_OUTPUT, _UNWRITABLE) and _is_full(path):
            failure = _FULL
        elif failure == _LOCKED and lacks_locks(path):
            failure = _WITHOUT_LOCKS
        what, hint = failure
        # SQLite may say the same.
        if (said := one_line(str(error), 200)) not in what:
            what += f" ({said})"
        kind = UnreadableError if reading and failure not in (_FULL, _UNWRITABLE) else StorageError
        raise kind(f"{path}: {what}", hint=hint) from error


def _failure(error: Exception) -> tuple[str, str] | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # Of the module sqlite3, this is the error for a text that is not UTF-8.
        return DAMAGED if isinstance(error, (UnicodeDecodeError, UndecodableError, sqlite3.OperationalError)) else None
    if code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
        return DAMAGED  # a row names a missing one
    if code == sqlite3.SQLITE_CONSTRAINT_CHECK:
        return _REFUSED
    if code == sqlite3.SQLITE_ERROR and any(words in str(error) for words in _DAMAGES):
        return DAMAGED
    return _FAILURES.get(code & 0xFF)  # the low byte is the kind, the rest its details


_DAMAGES = ("malformed JSON", "no such table", "no such column")
"""SQLite's messages about a damaged file that have no code of their own."""


def lacks_locks(path: Path) -> bool:
    """Return whether the file system of the database at `path` refuses locks, to SQLite a locked database."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
    return False


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
    # A read-only one has no space either.
    return not space.f_flag & os.ST_RDONLY and space.f_bavail * space.f_frsize < _FREE_BYTES_NEEDED


def creation_error(path: Path, error: OSError) -> StorageError:
    """Return the error to show when the database at `path`, or its folder, could not be created."""
    return StorageError(
        f"{path}: the database cannot be created ({error.strerror})",
        hint="Check that the folder exists or can be created, that you can write to it, and that it has space left.",
    )
