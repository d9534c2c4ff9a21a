"""Files of the queue: read with suspicion."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_board.errors import StorageError
from hpc_board.schedulers.local.records import RECORD_BYTES_MAX, DamagedRecord

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
