"""Files of a login node, by SFTP over the connection that its commands use."""

import contextlib
import errno
import itertools
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from hpc_board.errors import SchedulerError
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.text import one_line
from hpc_board.transport import ENTRIES_MAX, RENEW_SECONDS, Entry, check_paths, draft_of
from hpc_board.transport.sftp_session import SftpSession
from hpc_board.transport.ssh import Connection
from hpc_board.transport.time_budget import RetryDelay, close_quietly, closed_after

if TYPE_CHECKING:
    from paramiko import SFTPAttributes, SFTPClient

FILE_SECONDS: Final = 120.0
"""The time-out of one query about files, or of one job folder, before the session counts as lost."""

_NAMES_BYTES_MAX = 4 * 1024 * 1024
_DEPTH_MAX = 64

T = TypeVar("T")


class SshFiles:
    """Files that a login node sees; safe to use from several threads, one question at a time.

    After a question without an answer, further questions fail at once with the same error for a while.

    SFTP cannot flush a file to the disk: a host that loses its power in the wrong moment may keep an incomplete folder.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._retry_delay = RetryDelay()
        self._session: SftpSession | None = None

    def write_folder(self, folder: Path, contents: Mapping[str, bytes]) -> None:
        check_paths(folder, contents)
        self._do(lambda sftp: _write_folder(sftp, folder, contents))

    def write(self, path: Path, data: bytes) -> None:
        draft = _draft_beside(path)
        self._ask_server(lambda sftp: _replace(sftp, path, draft, data))

    def ensure(self, path: Path, data: bytes) -> bool:
        draft = _draft_beside(path)
        return self._do(lambda sftp: _ensure(sftp, path, draft, data))

    def entries(self, folder: Path, *, most: int | None = ENTRIES_MAX) -> Sequence[Entry]:
        def read(sftp: "SFTPClient") -> list[Entry]:
            _check_is_folder(sftp, folder)
            return [_entry(each) for each in itertools.islice(_entries(sftp, folder), most or ENTRIES_MAX)]

        return self._ask_server(read)

    def remove(self, path: Path) -> None:
        self._ask_server(lambda sftp: sftp.remove(str(path)))

    def rename(self, source: Path, target: Path) -> None:
        attempts = itertools.count(1)

        def rename(sftp: "SFTPClient") -> None:
            attempt = next(attempts)
            try:
                sftp.posix_rename(str(source), str(target))
            except FileNotFoundError:
                # The first attempt may have lost no more than its answer.
                if attempt == 1 or not _is_there(sftp, target):
                    raise

        self._ask_server(rename)

    def remove_folder(self, folder: Path, *, alone: bool = False) -> None:
        def remove(sftp: "SFTPClient") -> None:
            _remove(sftp, folder)
            if not alone:
                with contextlib.suppress(OSError):
                    sftp.rmdir(str(folder.parent))

        self._ask_server(remove)

    def bytes_in(self, folder: Path) -> int:
        return self._ask_server(lambda sftp: sum(size or 0 for _, size in _below(sftp, folder)))

    def read(self, path: Path, limit: int, *, start: int = 0, end: bool = False) -> bytes:
        return self._ask_server(lambda sftp: _read(sftp, path, limit, start, end))

    def is_file(self, path: Path) -> bool:
        try:
            return self._ask_server(lambda sftp: stat.S_ISREG(sftp.lstat(str(path)).st_mode or 0))
        except OSError:
            return False

    def _ask_server(self, question: "Callable[[SFTPClient], T]") -> T:
        try:
            return self._do(question)
        except SchedulerError as error:
            raise OSError(errno.EHOSTUNREACH, error.message) from error

    def _do(self, question: "Callable[[SFTPClient], T]") -> T:
        """Run `question` and return its answer; a dead session is replaced, once.

        Raises:
            OSError: the server answers with an error.
            SchedulerError: the account cannot be reached, or the connection was lost.
        """
        import paramiko

        words = ""
        with self._lock:
            self._retry_delay.check()
            began = time.monotonic()
            late = threading.Event()
            silent = False
            for _ in range(2):
                try:
                    session = self._opened()
                    with closed_after(FILE_SECONDS, session) as late:
                        return question(session.sftp)
                except NotRegularFileError:
                    raise
                except (OSError, EOFError, paramiko.SSHException, paramiko.SFTPError) as error:
                    silent = late.is_set() or isinstance(error, TimeoutError)
                    if isinstance(error, OSError) and not silent and self._session is not None and self._session.alive:
                        raise OSError(error.errno, _reason(error)) from error
                    words = one_line(str(error) or "it was closed", 100)
                    self._end()
                if late.is_set():
                    break
            if silent:
                silence = self._silence()
                self._retry_delay.begin(silence, began)
                raise silence
        raise SchedulerError(
            f"the connection to {self._connection.name} for files was lost: {words}",
            hint="It is reopened with the next request; nothing is lost.",
        )

    def _silence(self) -> SchedulerError:
        return SchedulerError(
            f"{self._connection.name} did not answer a request for files",
            hint="The file system of the jobs' folder may hang, or a start-up file of the account, such as ~/.bashrc,"
            " may start another program (`exec`). The request is repeated later; nothing is lost.",
        )

    def _opened(self) -> SftpSession:
        """Return the session for files, made anew if there is none."""
        if self._session is None or not self._session.alive:
            self._end()
            self._session = SftpSession(self._connection)
        return self._session

    def _end(self) -> None:
        if self._session is not None:
            close_quietly(self._session)
            self._session = None


def _reason(error: OSError) -> str:
    """Return the host's word for an error; the protocol has a single one for a full disk, a quota and other faults."""
    words = one_line(error.strerror or str(error), 100)
    return f"{words} (SFTP gives no details; the disk or the quota may be full)" if words == "Failure" else words


def _read(sftp: "SFTPClient", path: Path, limit: int, start: int, end: bool) -> bytes:
    """Return a part of a regular file, as `Files.read` has it.

    SFTP follows links when it opens a file. Links are refused before; a job that swaps its file for a link at that
    moment has its own user's file read.
    """
    facts = sftp.lstat(str(path))
    _check_is_folder(sftp, path.parent)
    if not stat.S_ISREG(facts.st_mode or 0):
        raise NotRegularFileError(f"{path.name} is not a regular file")
    size = facts.st_size or 0
    first = max(0, size - limit) if end else start
    with sftp.open(str(path), "rb") as file:
        # Not by `readv`: its thread prints a traceback where the connection is lost.
        file.seek(first)
        return bytes(file.read(max(0, min(limit + 1, size - first))))


def _write_folder(sftp: "SFTPClient", folder: Path, contents: Mapping[str, bytes]) -> None:
    if _is_folder(sftp, folder):
        return
    _make_folders(sftp, folder.parent)
    draft = draft_of(folder, contents)
    _remove(sftp, draft)
    try:
        sftp.mkdir(str(draft), 0o700)
        made = {draft}
        for name, data in contents.items():
            path = draft / name
            for parent in reversed(path.relative_to(draft).parents):
                if draft / parent not in made:
                    sftp.mkdir(str(draft / parent), 0o700)
                    made.add(draft / parent)
            _write(sftp, path, data)
        sftp.posix_rename(str(draft), str(folder))
    except TimeoutError:
        raise  # to tidy up would take as long again, and the next attempt does it
    except OSError:
        _remove(sftp, draft)
        raise


def _write(sftp: "SFTPClient", path: Path, data: bytes) -> None:
    with sftp.open(str(path), "wx") as file:
        file.set_pipelined(True)
        file.write(data)
    if sftp.lstat(str(path)).st_size != len(data):
        raise OSError(errno.EIO, f"{path.name} was not written completely")


def _draft_beside(path: Path) -> Path:
    """Return where a file is written before it gets its name: one place for all attempts of one question."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")


def _replace(sftp: "SFTPClient", path: Path, draft: Path, data: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        sftp.remove(str(draft))
    _write(sftp, draft, data)
    sftp.posix_rename(str(draft), str(path))


def _ensure(sftp: "SFTPClient", path: Path, draft: Path, data: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError):
        facts = sftp.lstat(str(path))
        if stat.S_ISREG(facts.st_mode or 0) and facts.st_size == len(data):
            if time.time() - (facts.st_mtime or 0) < RENEW_SECONDS:
                return False
            sftp.utime(str(path), None)
            return True
    _make_folders(sftp, path.parent)
    _replace(sftp, path, draft, data)
    return True


def _is_folder(sftp: "SFTPClient", path: Path) -> bool:
    try:
        return stat.S_ISDIR(sftp.stat(str(path)).st_mode or 0)
    except FileNotFoundError:
        return False


def _is_there(sftp: "SFTPClient", path: Path) -> bool:
    try:
        sftp.lstat(str(path))
    except FileNotFoundError:
        return False
    return True


def _make_folders(sftp: "SFTPClient", path: Path) -> None:
    if _is_folder(sftp, path):
        return
    if path != path.parent:
        _make_folders(sftp, path.parent)
    try:
        sftp.mkdir(str(path), 0o700)
    except OSError:
        # Another client may have made it in the same moment; SFTP does not say which error this was.
        if not _is_folder(sftp, path):
            raise


def _remove(sftp: "SFTPClient", folder: Path) -> None:
    """Remove the files of an interrupted attempt; a link in their place is not followed."""
    try:
        if not stat.S_ISDIR(sftp.lstat(str(folder)).st_mode or 0):
            return
    except OSError:
        return
    folders = [folder]
    for path, size in _below(sftp, folder):
        if size is None:
            folders.append(path)
        else:
            sftp.remove(str(path))
    for path in reversed(folders):
        sftp.rmdir(str(path))


def _below(sftp: "SFTPClient", folder: Path) -> Iterator[tuple[Path, int | None]]:
    """Yield all entries below a folder, each file with its size, each folder without one before its own entries.

    Links are not followed.
    """
    count, left = 1, [folder]
    while left:
        path = left.pop()
        if count > ENTRIES_MAX or len(path.relative_to(folder).parts) > _DEPTH_MAX:
            raise OSError(errno.ELOOP, f"{folder.name} has too many nested folders")
        for entry in _entries(sftp, path):
            if stat.S_ISDIR(entry.st_mode or 0):
                count += 1
                left.append(path / entry.filename)
                yield path / entry.filename, None
            else:
                yield path / entry.filename, entry.st_size or 0


def _check_is_folder(sftp: "SFTPClient", folder: Path) -> None:
    """Require that a path is a folder itself, and no link to one.

    Raises:
        NotADirectoryError: it is not.
    """
    if not stat.S_ISDIR(sftp.lstat(str(folder)).st_mode or 0):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder.name} is a link")


def _entries(sftp: "SFTPClient", folder: Path) -> "Iterator[SFTPAttributes]":
    """Yield the entries of a folder.

    Raises:
        OSError: they are too many, or their names too long together; the session ends, since a server could send them
            without end.
    """
    size = 0
    for number, entry in enumerate(sftp.listdir_iter(str(folder), read_aheads=1)):
        size += len(entry.filename)
        if number == ENTRIES_MAX or size > _NAMES_BYTES_MAX:
            sftp.close()
            raise OSError(errno.EOVERFLOW, f"{folder.name} has too many entries")
        yield entry


def _entry(found: "SFTPAttributes") -> Entry:
    mode = found.st_mode or 0
    if not stat.S_ISREG(mode):
        return Entry(found.filename, is_folder=stat.S_ISDIR(mode))
    return Entry(found.filename, size=found.st_size or 0, modified_at=found.st_mtime or 0)
