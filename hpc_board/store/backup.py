"""Copies of a board's database that are whole, and the way back, by SQLite's own backup."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hpc_board.errors import InputError, Refused
from hpc_board.store.database import DatabaseFile, group_umask
from hpc_board.store.failures import creation_error, translated

if TYPE_CHECKING:
    from sqlite_utils import Database

_BUSY_SECONDS = 30.0
_COUNTED = ("submissions", "runs", "in_flight")


@dataclass(frozen=True)
class Contents:
    """What a database holds: counts of rows, and of the runs how many have not ended."""

    submissions: int
    runs: int
    in_flight: int


def backup(file: DatabaseFile, target: Path, *, force: bool) -> Contents:
    """Write a copy of the database to `target`, as it is at one moment, while others may go on writing.

    The copy is one file that needs no journal beside it, and only its owner may read it.

    Raises:
        InputError: `target` is there and `force` is not given, or cannot be written.
        StorageError: the database cannot be read.
    """
    with _draft_of(target, force=force) as draft:
        with file.reading() as db, closing(sqlite3.connect(draft)) as copy:
            db.conn.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        return contents(draft)


def contents(path: Path) -> Contents:
    """What is in the backup at `path`, if it is one.

    Raises:
        InputError: there is no such file, it is damaged, or it is no database of this program's.
    """
    from hpc_board.store.library import Database
    from hpc_board.store.migrations import APPLICATION_ID, MIGRATIONS, STEP_NAMES

    hint = "Give a file that `hpc-board admin backup` wrote."
    if not path.is_file():
        raise InputError(f"{path}: there is no such file", hint=hint)
    try:
        with _connected(f"{path.absolute().as_uri()}?mode=ro") as connection:
            db = Database(connection, execute_plugins=False)
            if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise InputError(f"{path}: this is no backup of a board", hint=hint)
            faults = [row[0] for row in db.execute("PRAGMA integrity_check(1)").fetchall()]
            if faults != ["ok"]:
                raise InputError(f"{path}: the backup is damaged: {faults[0]}", hint="Take another one.")
            if not {step.name for step in MIGRATIONS.applied(db)} <= STEP_NAMES:
                raise InputError(
                    f"{path}: the backup was made by a newer version of hpc-board", hint="Upgrade hpc-board."
                )
            return _contents(db)
    except sqlite3.Error as error:
        raise InputError(f"{path}: this is no backup of a board, or a damaged one ({error})", hint=hint) from error


def restore(file: DatabaseFile, source: Path, kept: Path, *, force: bool) -> tuple[Contents, Contents]:
    """Put the backup at `source` in the database's place, after a copy of the present one to `kept`.

    To everybody else the change happens at one moment. Numbers that the present database has given are not given again:
    their job folders exist.

    Returns:
        What the database held before, and what it holds now.

    Raises:
        InputError: `source` is no backup, or `kept` is there already.
        Refused: runs are in flight, which the backup does not know as such, and `force` is not given.
        StorageError: the database cannot be written.
    """
    new = contents(source)
    with file.reading() as db:
        old, numbers = _contents(db), _numbers(db)
        going = {row[0] for row in db.execute("SELECT run FROM in_flight").fetchall()}
    with translated(file.path), _folder_beside(file.path) as folder:
        # The copy is brought up to date, and told the numbers, before it becomes the database.
        draft = DatabaseFile(Path(folder) / "board.db", file.mounts)
        with (
            _connected(f"{source.absolute().as_uri()}?mode=ro") as given,
            _connected(draft.path.absolute().as_uri()) as copy,
        ):
            given.backup(copy)
        with draft.writing() as db:
            forgotten = going - {row[0] for row in db.execute("SELECT id FROM runs").fetchall()}
            _raise_numbers(db, numbers)
        if forgotten and not force:
            raise Refused(
                f"the backup does not know {len(forgotten)} of the runs in flight, which would be forgotten",
                hint="Wait until they have ended, or cancel them; --force forgets them, and their jobs go on.",
            )
        backup(file, kept, force=False)
        with (
            group_umask(file.path.parent),
            _connected(draft.path.absolute().as_uri()) as copy,
            _connected(file.path.absolute().as_uri()) as target,
        ):
            copy.backup(target)
    return old, new


@contextmanager
def _folder_beside(path: Path) -> Iterator[str]:
    try:
        with TemporaryDirectory(prefix=".restore.", dir=path.parent) as folder:
            yield folder
    except OSError as error:
        raise creation_error(path, error) from error


def _connected(uri: str) -> "closing[sqlite3.Connection]":
    return closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS))


@contextmanager
def _draft_of(target: Path, *, force: bool) -> Iterator[Path]:
    """A file beside `target` that takes its place at the end, unless something failed."""
    try:
        if not force and target.exists():
            raise FileExistsError
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            draft = Path(folder) / "board.db"
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield draft
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            if force:
                draft.replace(target)
            else:
                target.hardlink_to(draft)
    except FileExistsError as error:
        raise InputError(f"{target} is there already", hint="Give another name, or --force to overwrite it.") from error
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}", hint="Give another file.") from error


def _contents(db: "Database") -> Contents:
    return Contents(*(db.table(name).count for name in _COUNTED))


def _numbers(db: "Database") -> dict[str, int]:
    return {name: int(last) for name, last in db.execute("SELECT name, seq FROM sqlite_sequence").fetchall()}


def _raise_numbers(db: "Database", numbers: dict[str, int]) -> None:
    """Have the next row of each table get a number above those that are given here."""
    present = _numbers(db)
    for name, last in numbers.items():
        if name not in present:
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [name, last])
        elif present[name] < last:
            db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [last, name])
