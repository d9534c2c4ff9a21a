"""The board's database file: opened for one transaction, or for all of a session, and brought up to date on the way."""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpc_board.store.failures import (
    companion_error,
    creation_error,
    foreign_error,
    foreign_object_error,
    incomplete_error,
    lacks_writing,
    lost_error,
    newer_error,
    translated,
)
from hpc_board.store.folder import check_own, left_folder
from hpc_board.store.guard import TRANSACTION_SECONDS, Deadline, bounded, foreign_object
from hpc_board.store.journal import MOUNTS, journal_mode
from hpc_board.store.reading import Readable, Reader

if TYPE_CHECKING:
    from sqlite_utils import Database


BUSY_TIMEOUT_SECONDS = 30.0
_MODE_RETRY_SECONDS = 0.01


class _Opened(msgspec.Struct):
    """An open connection to the file of this device and inode; `current` is set once the database is up to date."""

    connection: sqlite3.Connection
    deadline: Deadline
    identity: tuple[int, int] | None
    current: bool = False
    db: "Database | None" = None

    def database(self) -> "Database":
        """Return the connection as sqlite_utils has it, for writing."""
        from hpc_board.store.sqlite import Database

        self.db = self.db or Database(self.connection, execute_plugins=False)
        return self.db


class _Session(msgspec.Struct):
    """The connection that a thread keeps between its transactions, if it has one by now."""

    opened: _Opened | None = None
    busy: bool = False
    pid: int = msgspec.field(default_factory=os.getpid)

    def close(self) -> None:
        if self.opened is not None and self.pid == os.getpid():
            # A process that was forked meanwhile has the same connection, and must not even close it.
            self.opened.connection.close()
            self.opened = None


class DatabaseFile:
    """A door to the database at `path`, which each transaction opens, or within a `session` only the first one.

    `mounts` is the kernel's table of mounts, which decides on the journal mode. The statements of one transaction may
    take `transaction_seconds`. A `draft` of another file may have a schema of its own.
    """

    def __init__(
        self,
        path: Path,
        mounts: Path = MOUNTS,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        *,
        transaction_seconds: float = TRANSACTION_SECONDS,
        draft: bool = False,
    ) -> None:
        self.path = path
        self.mounts = mounts
        self.busy_timeout_seconds = busy_timeout_seconds
        self.transaction_seconds = transaction_seconds
        self.draft = draft
        self._of_thread = threading.local()

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the connection open for this thread's transactions, from the first one on; nested sessions are one.

        Between two transactions the connection holds no lock against other writers, a backup or a restore. It does keep
        the write-ahead log in its place: `rest` before a long wait.
        """
        if self._session() is not None:
            yield
            return
        self._of_thread.session = _Session()
        try:
            yield
        finally:
            self.rest()
            del self._of_thread.session

    def rest(self) -> None:
        """Close the connection of this thread's session, if any, until its next transaction."""
        session = self._session()
        if session is not None and not session.busy:
            session.close()

    def _session(self) -> _Session | None:
        session: _Session | None = getattr(self._of_thread, "session", None)
        return session

    @contextmanager
    def reading(self) -> Iterator[Readable]:
        """Open the database for one call that sees one state of it, in spite of concurrent writes.

        On a full disk, and in a folder that takes no file, the stored state is read without one.

        Raises:
            StorageError: the database cannot be used.
        """
        with translated(self.path, reading=True), ExitStack() as stack:
            try:
                opened = stack.enter_context(self._opened())
            except sqlite3.OperationalError as error:
                if not lacks_writing(error, self.path) or self._has_companions():
                    raise
                opened = stack.enter_context(self._unchanging())
                _bring_up_to_date(opened, self.path, self.transaction_seconds, draft=self.draft)
            stack.enter_context(self._transaction(opened))
            yield Reader(opened.connection)

    def _has_companions(self) -> bool:
        """Return whether a journal holds changes that the file of the database lacks, or has by half."""
        files = (self.path.with_name(self.path.name + ending) for ending in ("-journal", "-wal"))
        return any(file.exists() and file.stat().st_size for file in files)

    @contextmanager
    def _unchanging(self) -> Iterator[_Opened]:
        """Connect to a file that is taken for unchanging, so that SQLite makes no other file beside it."""
        opened = self._connect(options="mode=ro&immutable=1")
        with closing(opened.connection):
            yield opened

    def is_there(self) -> bool:
        """Return whether the database exists and is visible to this user.

        Raises:
            StorageError: it was deleted, and job folders of its runs are left; or other accounts may write it.
        """
        check_own(self.path.parent)
        if os.path.exists(self.path):  # noqa: PTH110 - False, and no error, in a folder that is closed to this user
            return True
        _check_not_lost(self.path)
        return False

    def create(self) -> None:
        """Create an empty database if none exists, also in the place of one that was deleted.

        Raises:
            StorageError: it cannot be created.
        """
        _create_missing(self.path)

    @contextmanager
    def existing(self) -> Iterator[sqlite3.Connection | None]:
        """Open an existing database in its present schema, for one consistent read; None if it does not exist.

        Nothing is created or migrated, so tables may be missing.

        Raises:
            StorageError: the database cannot be used.
        """
        if not self.is_there():
            yield None
            return
        check_companions(self.path)
        with translated(self.path, reading=True), ExitStack() as stack:
            try:
                connection = stack.enter_context(self._looking(self._connected()))
            except sqlite3.OperationalError as error:
                if not lacks_writing(error, self.path) or self._has_companions():
                    raise
                connection = stack.enter_context(self._looking(self._unchanging()))
            yield connection

    @contextmanager
    def _looking(self, connected: AbstractContextManager[_Opened]) -> Iterator[sqlite3.Connection]:
        """Begin a transaction in which nothing is created or migrated; its first read has happened."""
        with connected as opened:
            opened.connection.execute("BEGIN")
            opened.deadline.start(self.transaction_seconds)
            try:
                opened.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
                yield opened.connection
            finally:
                opened.connection.rollback()

    @contextmanager
    def writing(self) -> Iterator["Database"]:
        """Open the database for one transaction, alone among all writers; an error undoes all of it.

        Raises:
            StorageError: the database cannot be used.
        """
        with translated(self.path), self._opened() as opened:
            self._set_journal_mode(opened.connection)
            with self._transaction(opened, "IMMEDIATE"):
                yield opened.database()

    def _transaction(self, opened: _Opened, kind: str = "DEFERRED") -> AbstractContextManager[None]:
        return _transaction(opened, self.transaction_seconds, kind)

    def _set_journal_mode(self, connection: sqlite3.Connection) -> None:
        """Set the journal mode that the database's file system supports.

        SQLite does not wait for other connections when the mode changes, but fails at once with "database is locked";
        so this function waits.
        """
        wanted = journal_mode(self.path.parent, self.mounts).lower()
        deadline = time.monotonic() + self.busy_timeout_seconds
        while connection.execute("PRAGMA journal_mode").fetchone()[0] != wanted:
            try:
                connection.execute(f"PRAGMA journal_mode = {wanted}").fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(_MODE_RETRY_SECONDS)
            else:
                # Changed, or kept by a file system that does not bear the wanted one.
                return

    @contextmanager
    def _opened(self) -> Iterator[_Opened]:
        self.is_there()
        _create_missing(self.path)
        check_companions(self.path)
        with self._connected() as opened:
            if not opened.current:
                opened.connection.execute("PRAGMA foreign_keys = ON")
                _bring_up_to_date(opened, self.path, self.transaction_seconds, draft=self.draft)
                opened.current = True
            yield opened

    @contextmanager
    def _connected(self) -> Iterator[_Opened]:
        """Connect to the existing file, or return the connection that this thread's session keeps."""
        session = self._session()
        if session is None or session.busy or session.pid != os.getpid():
            opened = self._connect()
            with closing(opened.connection):
                yield opened
            return
        if session.opened is not None and session.opened.identity != _identity(self.path):
            session.close()
        session.opened = session.opened or self._connect()
        session.busy = True
        try:
            yield session.opened
        except sqlite3.Error:
            session.close()
            raise
        finally:
            session.busy = False

    def _connect(self, options: str = "mode=rw") -> _Opened:
        # Looked up before the file is opened: where another one takes its place in between, the next look tells.
        identity = _identity(self.path)
        _check_regular(self.path)
        uri = f"{self.path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(uri, uri=True, timeout=self.busy_timeout_seconds, isolation_level=None)
        return _Opened(bounded(connection), Deadline(connection), identity)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_regular(path: Path) -> None:
    """Check that the database is no folder, pipe, socket or device, on some of which SQLite waits for ever.

    Raises:
        sqlite3.OperationalError: it is.
    """
    if path.exists() and not path.is_file():
        error = sqlite3.OperationalError("it is not a regular file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        raise error


@contextmanager
def _transaction(opened: _Opened, seconds: float, kind: str = "DEFERRED") -> Iterator[None]:
    connection = opened.connection
    # The wait for another writer has a bound of its own.
    opened.deadline.start(float("inf"))
    connection.execute(f"BEGIN {kind}")
    opened.deadline.start(seconds)
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def check_companions(path: Path) -> None:
    """Check that the paths of SQLite's own files hold no other kind of file: SQLite would block on a pipe for ever."""
    for ending in ("-journal", "-wal", "-shm"):
        file = path.with_name(path.name + ending)
        with suppress(OSError):
            status = file.lstat()
            if not stat.S_ISREG(status.st_mode):
                raise companion_error(file, status.st_uid)


def _check_not_lost(path: Path) -> None:
    """Check that a missing database was not deleted while the board was in use.

    A new one would give the numbers of its runs again, and their job folders, with code and results, are still there.
    """
    found = left_folder(path.parent)
    if found is not None:
        raise lost_error(path, found)


def _create_missing(path: Path) -> None:
    try:
        if path.exists():
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not open(): closing any descriptor of the file drops the locks that SQLite holds in another thread.
        os.mknod(path, 0o600)
    except FileExistsError:
        if not path.parent.is_dir():
            raise creation_error(path, NotADirectoryError(0, f"{path.parent} is not a folder")) from None
    except OSError as error:
        raise creation_error(path, error) from error


def _bring_up_to_date(opened: _Opened, path: Path, seconds: float, *, draft: bool) -> None:
    """Check that the database is a board's, of this version; create the tables of an empty one."""
    from hpc_board.store.schema import APPLICATION_ID, VERSION, create, known_statements

    reader = Reader(opened.connection)
    with _transaction(opened, seconds):
        made_by, version, is_empty = _made_by(reader)
        foreign = foreign_object(reader, known_statements()) if version == VERSION and not draft else None
    if is_empty:
        with _transaction(opened, seconds, "IMMEDIATE"):
            # Another process may have been faster.
            if _made_by(reader)[2]:
                create(opened.connection)
        return
    if made_by != APPLICATION_ID:
        raise foreign_error(path)
    if version > VERSION:
        raise newer_error(path)
    if version < VERSION:
        raise incomplete_error(path)
    if foreign is not None:
        raise foreign_object_error(path, *foreign)


def _made_by(reader: Reader) -> tuple[int, int, bool]:
    """Return a database's application id and version, and whether it has no tables."""
    made_by, version = (reader.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    return made_by, version, reader.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
