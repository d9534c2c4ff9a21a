"""Files of the queue: read with suspicion, locked for as long as somebody holds them open."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_board.errors import SchedulerError, StorageError
from hpc_board.schedulers.local.records import RECORD_BYTES_MAX, DamagedRecord

_LOCK_PAUSE_SECONDS = 0.01
_NO_PLAIN_FILE = (errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES)


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """What goes wrong with the files inside is a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{error.filename or path}: the local scheduler cannot use it: {error.strerror or error}",
            hint=f"Check that you may write {path} and that its disk is not full.",
        ) from error


def own_file(path: Path) -> bytes | None:
    """The bytes of a record, None where there is no file.

    Raises:
        DamagedRecord: it is not a plain file that this user owns, or too long to be a record.
        OSError: it cannot be read now.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NO_PLAIN_FILE:
            raise DamagedRecord(f"{path}: {error.strerror}") from error
        raise
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_size > RECORD_BYTES_MAX:
            raise DamagedRecord(f"{path}: not a record of this user")
        return os.read(descriptor, RECORD_BYTES_MAX)
    finally:
        os.close(descriptor)


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """A descriptor that holds the lock file until it and all its copies are closed; None if somebody holds it.

    Several may hold it `shared`, as long as nobody holds it otherwise.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path, patience_seconds: float) -> Iterator[None]:
    """The lock file held, by one thread of one process at a time.

    Raises:
        SchedulerError: somebody else held it for `patience_seconds`.
    """
    deadline = time.monotonic() + patience_seconds
    while (descriptor := try_lock(path)) is None:
        if time.monotonic() > deadline:
            raise SchedulerError(
                f"{path}: another process has held this lock for {patience_seconds:.0f} s",
                hint="Look for a stopped hpc-board (`jobs`, `ps`), and let it go on or end it.",
            )
        time.sleep(_LOCK_PAUSE_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)
