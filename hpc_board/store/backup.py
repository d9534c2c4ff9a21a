"""Copies of a board's database that are whole, and the way back, by SQLite's own backup."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from hpc_board.errors import InputError, Refused
from hpc_board.files import user_errors
from hpc_board.model.files import publish
from hpc_board.model.text import one_line
from hpc_board.store.database import APPLICATION_ID, MOUNTS, VERSION, DatabaseFile
from hpc_board.store.failures import UNREADABLE, creation_error, translated
from hpc_board.store.folder import DATABASE, job_folder_number, newest_job_folder
from hpc_board.store.sqlite import Database

_BUSY_SECONDS = 30.0
_VALUE_BYTES_MAX = 64 * 1024 * 1024
"""Above the size of every value that hpc-board writes; another account may have written a larger one."""

_NUMBER_MAX = 2**53
"""Above it JSON has no exact numbers, and SQLite runs out of them in the end."""

_NUMBERED = (
    *("submissions", "runs", "events", "runners", "runner_events"),
    *("boards", "decisions", "remarks", "feed"),
)
_GOING_SHOWN = 5
_HINT = "Give a file written by `hpc-board admin backup`."


class Contents(msgspec.Struct, frozen=True):
    """The contents of a database: counts of rows, and the number of runs that have not ended."""

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
        with file.reading() as db, _connected(draft) as copy:
            db.connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        return contents(draft)


class MovedIn(msgspec.Struct, frozen=True):
    """The contents of a database that was moved in, and the GPUs that have runs."""

    contents: Contents
    gpus: tuple[str, ...]


@contextmanager
def moving_in(source: Path, board: Path, mounts: Path = MOUNTS) -> Iterator[MovedIn]:
    """Copy the database at `source`, of another board or a backup, to the folder `board`, which has none.

    The copy gets its place when the block ends; an error in the block leaves no database. Nothing is written to
    `source`: other accounts may have written it and the files beside it, and SQLite would obey these. Only the copy
    is checked, so no later change of `source` counts.

    Raises:
        InputError: `source` is not such a database or is damaged, or `board` has a database.
        Refused: runs are in flight or GPUs are held, and the jobs belong to other accounts.
        StorageError: the database cannot be written.
    """
    target = board / DATABASE
    if target.exists():
        raise InputError(f"{board} already has a database", hint="Give the folder of a new board.")
    with _draft_of(target, force=False) as copied:
        found = _copy(source, copied)
        with DatabaseFile(copied, mounts).writing() as db:
            _check_none_going(db, source)
            gpus = db.execute("SELECT DISTINCT gpu FROM runs ORDER BY gpu").fetchall()
        yield MovedIn(found, tuple(gpu for (gpu,) in gpus))


def contents(path: Path, named: Path | None = None) -> Contents:
    """Return the contents of the copy at `path`, of a database that messages name `named`.

    Raises:
        InputError: the file does not exist, is damaged, or is not a database of this program.
    """
    told = named or path
    if not path.is_file():
        raise InputError(f"{told}: no such file", hint=_HINT)
    try:
        # Not mode=ro, for which SQLite leaves out the checks of columns.
        with _connected(path) as connection:
            db = Database(connection)
            if db.value("PRAGMA application_id") != APPLICATION_ID:
                raise InputError(f"{told}: this is not a backup of a board", hint=_HINT)
            if db.value("PRAGMA user_version") > VERSION:
                raise InputError(
                    f"{told}: the backup was made by a newer version of hpc-board", hint="Upgrade hpc-board."
                )
            fault = _fault(db)
            if fault:
                raise InputError(f"{told}: the backup is damaged ({one_line(fault, 200)})", hint=_HINT)
            return Contents(*map(db.count, Contents.__struct_fields__))
    except UNREADABLE as error:
        raise InputError(f"{told}: the backup is damaged ({one_line(str(error), 200)})", hint=_HINT) from error


def _fault(db: Database) -> str:
    """Return the first fault of a database, in its schema or a value; "" without any.

    Files, scripts and tasks are checked when they are read.
    """
    from hpc_board.store.schema import create

    with closing(sqlite3.connect(":memory:")) as new:
        create(Database(new))
        wanted, present = _objects(Database(new)), _objects(db)
    # The statements of a view or a trigger run in every command that uses its table; an index may refuse its rows.
    foreign = {each for each in present - wanted if each[0] != "table"}
    for kind, name, _ in sorted((wanted - present) | foreign):
        return f"its {kind} {name} is not that of a board"
    if db.value("PRAGMA user_version") != VERSION:
        return "it has no record of its version"
    if (found := db.value("PRAGMA quick_check(1)")) != "ok":
        return str(found)
    last = [db.value(f"SELECT MAX(id) FROM {table}") or 0 for table in _NUMBERED]  # noqa: S608 - our names
    if max(*last, *_numbers(db).values()) > _NUMBER_MAX:
        return "the numbers of its rows are used up"
    if (found := db.execute("PRAGMA foreign_key_check").fetchone()) is not None:
        return f"a row of {found[0]} refers to a missing row of {found[2]}"
    return ""


def _objects(db: Database) -> set[tuple[str, str, str]]:
    """Return the type, the name and the statement of each table, view, index and trigger."""
    found = db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    return {(str(kind), str(name), str(sql)) for kind, name, sql in found}


def _copy(source: Path, target: Path) -> Contents:
    """Copy a backup, and return the contents of the copy, which is checked: no later change of `source` counts."""
    if not source.is_file():
        raise InputError(f"{source}: no such file", hint=_HINT)
    try:
        with _connected(source, "?mode=ro") as given, _connected(target) as copy:
            given.backup(copy)
    except UNREADABLE as error:
        raise InputError(f"{source}: the backup is damaged ({one_line(str(error), 200)})", hint=_HINT) from error
    return contents(target, source)


def restore(file: DatabaseFile, source: Path, kept: Path, *, force: bool) -> tuple[Contents, Contents]:
    """Replace the database by the backup at `source`, after a copy of the present one to `kept`.

    Other processes see one atomic change. The present database's numbers are not given again: their job folders exist.
    A database that was deleted counts as an empty one, whose numbers are those of the job folders that are left.

    Returns:
        The counts of the database before and after.

    Raises:
        InputError: `source` is not a backup or is damaged, or `kept` is there already.
        Refused: runs are in flight or GPUs are held, which the backup does not know, and `force` is not given.
        StorageError: the database cannot be written.
    """
    with translated(file.path), _folder_beside(file.path) as folder:
        present = file if file.path.exists() else DatabaseFile(folder / "empty.db", file.mounts)
        with present.reading() as db:
            old, numbers, going = (
                Contents(*map(db.count, Contents.__struct_fields__)),
                _numbers(db),
                _tokens(db, _GOING),
            )
        left = newest_job_folder(file.path.parent)
        if left is not None:
            numbers["runs"] = max(numbers.get("runs", 0), job_folder_number(left))
        # The copy is told the numbers before it becomes the database.
        draft = folder / DATABASE
        new = _copy(source, draft)
        with DatabaseFile(draft, file.mounts).writing() as db:
            # A run that was sent again since has another job.
            forgotten = going - _tokens(db, "SELECT token FROM run_details UNION ALL SELECT token FROM runners")
            _raise_numbers(db, numbers)
        if forgotten and not force:
            raise Refused(
                f"the backup does not contain {len(forgotten)} of the jobs in flight, which would be dropped",
                hint="Wait until they have ended, or cancel or release them; --force drops them, and their jobs keep "
                "running.",
            )
        backup(present, kept, force=False)
        file.create()
        with _connected(draft) as copy, _connected(file.path) as target:
            copy.backup(target)
    return old, new


_GOING = """
SELECT token FROM run_details WHERE id IN (SELECT run FROM in_flight)
UNION ALL SELECT token FROM runners WHERE id IN (SELECT runner FROM live_runners)
"""
"""The names of the present jobs of runs in flight and of runners, which are unique for all time."""


def _tokens(db: Database, statement: str) -> set[str]:
    return {token for (token,) in db.execute(statement).fetchall()}


def _check_none_going(db: Database, source: Path) -> None:
    """Check that no run of the database is in flight, and that no runner holds a GPU.

    Raises:
        Refused: some are.
    """
    for kind, state, end, table, going in (
        ("runs", "are in flight", "cancel", "run_details", "SELECT run FROM in_flight"),
        ("runners", "hold GPUs", "release", "runners", "SELECT runner FROM live_runners"),
    ):
        rows = db.execute(f"SELECT id, user FROM {table} WHERE id IN ({going})").fetchall()  # noqa: S608 - our names
        if rows:
            shown = ", ".join(f"{number} of {one_line(str(user), 80)}" for number, user in rows[:_GOING_SHOWN])
            raise Refused(
                f"{len(rows)} {kind} of {source} {state}: {shown}{', ...' * (len(rows) > _GOING_SHOWN)}",
                hint=f"Wait until they have ended, or {end} them, with the version that sent them.",
            )


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    try:
        with TemporaryDirectory(prefix=".restore.", dir=path.parent) as folder:
            yield Path(folder)
    except OSError as error:
        raise creation_error(path, error) from error


def _connected(path: Path, options: str = "") -> "closing[sqlite3.Connection]":
    connection = sqlite3.connect(f"{path.absolute().as_uri()}{options}", uri=True, timeout=_BUSY_SECONDS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
    return closing(connection)


@contextmanager
def _draft_of(target: Path, *, force: bool) -> Iterator[Path]:
    """Yield a file beside `target` that replaces it at the end, unless the block raises."""
    with user_errors(target):
        if not force and target.exists():
            raise FileExistsError
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
            draft = Path(folder) / DATABASE
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield draft
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            publish(draft, target, replace=force)


def _numbers(db: Database) -> dict[str, int]:
    found = db.execute("SELECT name, CAST(seq AS INTEGER) FROM sqlite_sequence").fetchall()
    return {name: int(last) for name, last in found}


def _raise_numbers(db: Database, numbers: dict[str, int]) -> None:
    """Set each table's next row number above those that are given here."""
    present = _numbers(db)
    for name, last in numbers.items():
        if name not in present:
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [name, last])
        elif present[name] < last:
            db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [last, name])
