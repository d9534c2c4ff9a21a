"""The board's database file: opened for one transaction, or for all of a session, and created on the way."""

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path, PurePath

import msgspec

from hpc_board.errors import UnreadableError
from hpc_board.store.failures import DAMAGED, ELSEWHERE, creation_error, lacks_locks, lacks_writing, translated
from hpc_board.store.folder import check_own, left_folder
from hpc_board.store.sqlite import Database

APPLICATION_ID = 0x68706362
"""Marks a SQLite file as a board's ("hpcb")."""

VERSION = 1
"""The `user_version` of a file with the tables of the schema."""

MOUNTS = Path("/proc/self/mountinfo")
"""The path of Linux's mount table."""

LOCAL_FILE_SYSTEMS = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems that only one host writes to; every other one counts as shared between hosts."""

BUSY_TIMEOUT_SECONDS = 30.0
_MODE_RETRY_SECONDS = 0.01


class _Session(msgspec.Struct):
    """The connection that a thread keeps between its transactions, if any, to the file of this device and inode."""

    connection: sqlite3.Connection | None = None
    identity: tuple[int, int] | None = None
    busy: bool = False
    pid: int = msgspec.field(default_factory=os.getpid)

    def close(self) -> None:
        if self.connection is not None and self.pid == os.getpid():
            # A process that was forked meanwhile has the same connection, and must not even close it.
            self.connection.close()
            self.connection = None


class DatabaseFile:
    """A door to the database at `path`, which each transaction opens, or within a `session` only the first one.

    `mounts` is the kernel's table of mounts, which decides on the journal mode. Doors with the same `sessions` share
    the connections of their threads' sessions.
    """

    def __init__(
        self,
        path: Path,
        mounts: Path = MOUNTS,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        sessions: threading.local | None = None,
    ) -> None:
        self.path = path
        self.mounts = mounts
        self.busy_timeout_seconds = busy_timeout_seconds
        self.sessions = threading.local() if sessions is None else sessions

    @contextmanager
    def session(self) -> Iterator[None]:
        """Keep the connection open for this thread's transactions, from the first one on; nested sessions are one.

        Between two transactions the connection holds no lock against other writers, a backup or a restore. It does keep
        the write-ahead log in its place: `rest` before a long wait.
        """
        if self._session() is not None:
            yield
            return
        self.sessions.of_thread = _Session()
        try:
            yield
        finally:
            self.rest()
            del self.sessions.of_thread

    def rest(self) -> None:
        """Close the connection of this thread's session, if any, until its next transaction."""
        session = self._session()
        if session is not None and not session.busy:
            session.close()

    def _session(self) -> _Session | None:
        session: _Session | None = getattr(self.sessions, "of_thread", None)
        return session

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """Open the database for one call that sees one state of it, in spite of concurrent writes.

        On a full disk, and in a folder that takes no file, the stored state is read without one.

        Raises:
            StorageError: the database cannot be used.
        """
        with translated(self.path, reading=True), ExitStack() as stack:
            try:
                connection = stack.enter_context(self._connected())
            except sqlite3.OperationalError as error:
                if not lacks_writing(error, self.path) or self._has_journal():
                    raise
                # SQLite makes no file beside one that is taken for unchanging.
                connection = stack.enter_context(closing(self._connect("mode=ro&immutable=1")))
            yield stack.enter_context(_transaction(connection))

    def _has_journal(self) -> bool:
        """Return whether a journal holds changes that the file of the database lacks, or has by half."""
        files = (self.path.with_name(self.path.name + ending) for ending in ("-journal", "-wal"))
        return any(file.exists() and file.stat().st_size for file in files)

    def is_there(self) -> bool:
        """Return whether the database exists and is visible to this user.

        Raises:
            StorageError: it was deleted, and job folders of its runs are left; or other accounts may write it.
        """
        check_own(self.path.parent)
        if os.path.exists(self.path):  # noqa: PTH110 - False, and no error, in a folder that is closed to this user
            return True
        # A new one would give the numbers of its runs again, and their job folders are still there.
        left = left_folder(self.path.parent)
        if left is not None:
            raise UnreadableError(
                f"{self.path}: the database is missing, but {left} is the job folder of one of its runs",
                hint="Put it back, or restore a backup with `hpc-board admin restore FILE`. To start an empty board, "
                f"move {left.parent} aside.",
            )
        return False

    def create(self) -> None:
        """Create an empty database if none exists, also in the place of one that was deleted.

        Raises:
            StorageError: it cannot be created.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                # Not open(): to close any descriptor of the file drops the locks that SQLite holds in another thread.
                os.mknod(self.path, 0o600)
        except OSError as error:
            raise creation_error(self.path, error) from error

    @contextmanager
    def writing(self) -> Iterator[Database]:
        """Open the database for one transaction, alone among all writers; an error undoes all of it.

        Raises:
            StorageError: the database cannot be used.
        """
        with translated(self.path), self._connected() as connection:
            self._set_journal_mode(connection)
            with _transaction(connection, "IMMEDIATE") as db:
                yield db

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
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Connect to the file, or return the connection that this thread's session keeps."""
        session = self._session()
        if session is None or session.busy or session.pid != os.getpid():
            with closing(self._connect()) as connection:
                yield connection
            return
        # Looked up before the file is opened: where another one takes its place in between, the next look tells.
        identity = _identity(self.path)
        if session.identity != identity:
            session.close()
        session.connection, session.identity = session.connection or self._connect(), identity
        session.busy = True
        try:
            yield session.connection
        except sqlite3.Error:
            session.close()
            raise
        finally:
            session.busy = False

    def _connect(self, options: str = "mode=rw") -> sqlite3.Connection:
        """Connect to the file, which is created on the way if it is missing."""
        if not self.is_there():
            self.create()
        uri = f"{self.path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            try:
                connection.execute("PRAGMA schema_version")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or lacks_locks(self.path):
                    raise
            connection.execute(f"PRAGMA busy_timeout = {int(self.busy_timeout_seconds * 1000)}")
            _create_tables(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "DEFERRED") -> Iterator[Database]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield Database(connection)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the database is a board's, of this version; create the tables of an empty one."""
    made_by, version, is_empty = _made_by(Database(connection))
    if is_empty:
        from hpc_board.store.schema import create

        with _transaction(connection, "IMMEDIATE") as db:
            # Another process may have been faster.
            if _made_by(db)[2]:
                create(db)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {VERSION}")
        return
    if made_by != APPLICATION_ID:
        raise UnreadableError(f"{path}: this database was not made by hpc-board", hint=ELSEWHERE)
    if version > VERSION:
        raise UnreadableError(
            f"{path}: the database was made by a newer version of hpc-board",
            hint="Upgrade hpc-board; this version could misread what the newer one stored.",
        )
    if version < VERSION:
        what, hint = DAMAGED
        raise UnreadableError(f"{path}: {what} (it has tables, but no record of their version)", hint=hint)


def _made_by(db: Database) -> tuple[int, int, bool]:
    """Return a database's application id and version, and whether it has no tables."""
    # The first question: tables come in one transaction with the other values.
    is_empty = db.row("sqlite_master", "TRUE", ()) is None
    return db.value("PRAGMA application_id"), db.value("PRAGMA user_version"), is_empty


def journal_mode(folder: Path, mounts: Path = MOUNTS) -> str:
    """Return the journal mode for a database in `folder`: "wal" on a local file system, "delete" on any other.

    A write-ahead log lives in memory that all its users share, so it breaks if two hosts open the same file.
    """
    try:
        table = mounts.read_text(errors="surrogateescape")
    except OSError:
        return "delete"
    return "wal" if mounted(table, folder.resolve()).kind in LOCAL_FILE_SYSTEMS else "delete"


class Mount(msgspec.Struct, frozen=True):
    """The type of a file system, and how it is mounted: all options, with commas between them; "" where unknown."""

    kind: str = ""
    options: str = ""


def mounted(mountinfo: str, path: PurePath) -> Mount:
    """Return the file system that holds the absolute `path`, by `mountinfo`.

    The longest mount point above `path` counts, and of several mounts on one point the last, which hides the others.
    """
    depth, found = 0, Mount()
    for line in mountinfo.splitlines():
        mount, separator, source = line.partition(" - ")
        fields, described = mount.split(), source.split()
        if not separator or len(fields) < 6 or not described:
            continue
        point = PurePath(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if path.is_relative_to(point) and len(point.parts) >= depth:
            depth, found = len(point.parts), Mount(described[0], ",".join([fields[5], *described[2:3]]))
    return found
