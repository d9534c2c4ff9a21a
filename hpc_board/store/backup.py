"""Copies of a board's database that are whole, and the way back, by SQLite's own backup."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from hpc_board.errors import DamagedRowError, InputError, Refused
from hpc_board.files import publish, user_errors
from hpc_board.model.text import one_line
from hpc_board.store.database import DatabaseFile, check_companions
from hpc_board.store.failures import UNREADABLE, creation_error, translated
from hpc_board.store.folder import DATABASE, job_folder_number, newest_job_folder
from hpc_board.store.guard import bounded
from hpc_board.store.journal import MOUNTS
from hpc_board.store.reading import Readable
from hpc_board.store.row_checks import check_rows

_BUSY_SECONDS = 30.0
_NUMBER_MAX = 2**53
"""Above it JSON has no exact numbers, and SQLite runs out of them in the end."""

_RUNS_SHOWN = 5

_COUNTED = ("submissions", "runs", "in_flight")

Shape = tuple[str, str, str]
"""The type of a database object, its name, and its statement, or for a table its columns."""


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
        with file.reading() as db, closing(sqlite3.connect(draft)) as copy:
            db.conn.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")
        return contents(draft)


class MovedIn(msgspec.Struct, frozen=True):
    """The contents of a database that was moved in, and the GPUs that have runs."""

    contents: Contents
    gpus: tuple[str, ...]


def move_in(source: Path, board: Path, mounts: Path = MOUNTS) -> MovedIn:
    """Copy the database at `source`, of another board or a backup, to the folder `board`, which has none.

    Nothing is written to `source`: other accounts may have written it and the files beside it, and SQLite would obey
    these. The copy alone is checked, so no later change of `source` counts.

    Raises:
        InputError: `source` is no such database, a row could not be in a task file or be written by hpc-board, or
            `board` has a database.
        Refused: runs are in flight, whose jobs belong to other accounts.
        StorageError: the database cannot be written.
    """
    target = board / DATABASE
    if target.exists():
        raise InputError(f"{board} has a database already", hint="Give the folder of a new board.")
    if not source.is_file():
        raise InputError(f"{source}: there is no such file", hint="Give the folder of a board, or a backup.")
    check_companions(source)
    with _draft_of(target, force=False) as copied:
        with _backup_errors(source), _connected(_read_only(source)) as given, _connected(_uri(copied)) as copy:
            given.backup(copy)
        contents(copied, source)
        draft = DatabaseFile(copied, mounts, draft=True)
        with _backup_errors(source), draft.writing() as db:
            _check_copy(db, source, _shapes(copied.parent, mounts))
            going = db.execute("SELECT id, user FROM run_details WHERE id IN (SELECT run FROM in_flight)").fetchall()
            if going:
                shown = ", ".join(f"{number} of {one_line(str(user), 80)}" for number, user in going[:_RUNS_SHOWN])
                raise Refused(
                    f"{len(going)} runs of {source} are in flight: {shown}{', ...' * (len(going) > _RUNS_SHOWN)}",
                    hint="Wait until they have ended, or have them cancelled, by the version that sent them.",
                )
            gpus = db.execute("SELECT DISTINCT gpu FROM runs ORDER BY gpu").fetchall()
            return MovedIn(_contents(db), tuple(gpu for (gpu,) in gpus))


def contents(path: Path, named: Path | None = None) -> Contents:
    """Return the contents of the backup at `path`, which messages name `named`.

    Raises:
        InputError: the file does not exist, is damaged, or is no database of this program.
        StorageError: something that is no file lies where SQLite keeps one beside it.
    """
    from hpc_board.store.schema import APPLICATION_ID, VERSION
    from hpc_board.store.sqlite import Database

    hint = "Give a file that `hpc-board admin backup` wrote."
    if not path.is_file():
        raise InputError(f"{path}: there is no such file", hint=hint)
    check_companions(path)
    told = named or path
    try:
        with _connected(_read_only(path)) as connection:
            db = Database(connection, execute_plugins=False)
            if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise InputError(f"{told}: this is no backup of a board", hint=hint)
            faults = [row[0] for row in db.execute("PRAGMA integrity_check(1)").fetchall()]
            if faults != ["ok"]:
                raise InputError(
                    f"{told}: the backup is damaged: {one_line(str(faults[0]), 200)}", hint="Take another one."
                )
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version < VERSION:
                raise InputError(f"{told}: this is no backup of a board: it has no record of its version", hint=hint)
            if version > VERSION:
                raise InputError(
                    f"{told}: the backup was made by a newer version of hpc-board", hint="Upgrade hpc-board."
                )
            if problem := _schema_problem(db, ()):
                raise InputError(f"{told}: this is no backup of a board: {problem}", hint=hint)
            return _contents(db)
    except UNREADABLE as error:
        raise InputError(
            f"{told}: this is no backup of a board, or a damaged one ({one_line(str(error), 200)})", hint=hint
        ) from error


def restore(file: DatabaseFile, source: Path, kept: Path, *, force: bool) -> tuple[Contents, Contents]:
    """Replace the database by the backup at `source`, after a copy of the present one to `kept`.

    Other processes see one atomic change. The present database's numbers are not given again: their job folders exist.
    A database that was deleted counts as an empty one, whose numbers are those of the job folders that are left.

    Returns:
        The counts of the database before and after.

    Raises:
        InputError: `source` is no backup, one of its rows could not be in a task file or be written by hpc-board, or
            `kept` is there already.
        Refused: runs are in flight, which the backup does not know as such, and `force` is not given.
        StorageError: the database cannot be written.
    """
    new = contents(source)
    with translated(file.path), _folder_beside(file.path) as folder:
        present = file if file.path.exists() else DatabaseFile(Path(folder) / "empty.db", file.mounts)
        with present.reading() as db:
            old, numbers = _contents(db), _numbers(db)
            going = _jobs_in_flight(db)
        left = newest_job_folder(file.path.parent)
        if left is not None:
            numbers["runs"] = max(numbers.get("runs", 0), job_folder_number(left))
        # The copy is brought up to date, and told the numbers, before it becomes the database.
        draft = DatabaseFile(Path(folder) / DATABASE, file.mounts, draft=True)
        with (
            _connected(_read_only(source)) as given,
            _connected(_uri(draft.path)) as copy,
        ):
            given.backup(copy)
        with _backup_errors(source), draft.writing() as db:
            _check_copy(db, source, _shapes(Path(folder), file.mounts))
            # A run that was sent again since has another job.
            known = dict(db.execute("SELECT id, token FROM run_details").fetchall())
            forgotten = {number for number, token in going.items() if known.get(number) != token}
            _raise_numbers(db, numbers)
        if forgotten and not force:
            raise Refused(
                f"the backup does not know {len(forgotten)} of the runs in flight, which would be forgotten",
                hint="Wait until they have ended, or cancel them; --force forgets them, and their jobs go on.",
            )
        backup(present, kept, force=False)
        file.create()
        with _connected(_uri(draft.path)) as copy, _connected(_uri(file.path)) as target:
            copy.backup(target)
    return old, new


def _jobs_in_flight(db: Readable) -> dict[int, str]:
    """Return the names of the present jobs of the runs in flight, by the runs' numbers."""
    statement = "SELECT id, token FROM run_details WHERE id IN (SELECT run FROM in_flight)"
    return dict(db.execute(statement).fetchall())


def _check_copy(db: Readable, source: Path, shapes: Sequence[Shape]) -> None:
    """Check the schema, and each row that decides about jobs: definitions, boards, and names of runs and jobs.

    Raises:
        InputError: the schema is not that of `shapes`, or a row holds a value that hpc-board does not write.
    """
    problem = _schema_problem(db, shapes)
    if not problem and max(_numbers(db).values(), default=0) > _NUMBER_MAX:
        problem = "the numbers of its rows are used up"
    if problem:
        raise InputError(
            f"{source}: this is no backup of a board: {problem}",
            hint="Give a file that `hpc-board admin backup` wrote.",
        )
    try:
        check_rows(db)
    except DamagedRowError as error:
        raise InputError(f"{source}: {error.message}", hint="Take another backup.") from error


@contextmanager
def _folder_beside(path: Path) -> Iterator[str]:
    try:
        with TemporaryDirectory(prefix=".restore.", dir=path.parent) as folder:
            yield folder
    except OSError as error:
        raise creation_error(path, error) from error


def _uri(path: Path) -> str:
    return path.absolute().as_uri()


def _read_only(path: Path) -> str:
    return f"{_uri(path)}?mode=ro"


def _connected(uri: str) -> "closing[sqlite3.Connection]":
    return closing(bounded(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)))


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


def _contents(db: Readable) -> Contents:
    return Contents(*(db.table(name).count for name in _COUNTED))


@contextmanager
def _backup_errors(source: Path) -> Iterator[None]:
    """Translate failures that no other error explains: `source` is no backup."""
    try:
        yield
    except UNREADABLE as error:
        raise InputError(
            f"{source}: this is no backup of a board, or a damaged one ({one_line(str(error), 200)})",
            hint="Give a file that `hpc-board admin backup` wrote.",
        ) from error


def _shapes(folder: Path, mounts: Path) -> tuple[Shape, ...]:
    """Return the tables, views and triggers of a new database."""
    with DatabaseFile(folder / "new.db", mounts).reading() as db:
        return tuple(_shapes_in(db))


def _shapes_in(db: Readable) -> Iterator[Shape]:
    found = db.execute("SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'view', 'trigger')")
    for kind, name, sql in found.fetchall():
        if kind == "table":
            columns = db.execute("SELECT name FROM pragma_table_info(?) ORDER BY name", [name]).fetchall()
            yield kind, name, " ".join(str(column) for (column,) in columns)
        else:
            yield kind, name, " ".join(str(sql).split())


def _schema_problem(db: Readable, wanted: Sequence[Shape]) -> str:
    """Return the first difference from this program's schema, "" for none; with no `wanted` shapes, missing tables.

    Additional tables are harmless. An additional view or trigger would run its statements in every command.
    """
    found = set(_shapes_in(db))
    tables = {name for kind, name, _ in found if kind == "table"}
    needed = {name for kind, name, _ in wanted if kind == "table"} or set(_COUNTED)
    if missing := sorted(needed - tables):
        return f"it has no table {missing[0]}"
    for shape in wanted:
        if shape not in found:
            return f"its {shape[0]} {shape[1]} is not that of a board"
    for kind, name, _ in sorted(found - set(wanted)) if wanted else ():
        if kind != "table":
            return f"it has a {kind} of its own, {one_line(name, 80)}"
    return ""


def _numbers(db: Readable) -> dict[str, int]:
    found = db.execute("SELECT name, CAST(seq AS INTEGER) FROM sqlite_sequence").fetchall()
    return {name: int(last) for name, last in found}


def _raise_numbers(db: Readable, numbers: dict[str, int]) -> None:
    """Set each table's next row number above those that are given here."""
    present = _numbers(db)
    for name, last in numbers.items():
        if name not in present:
            db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", [name, last])
        elif present[name] < last:
            db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [last, name])
