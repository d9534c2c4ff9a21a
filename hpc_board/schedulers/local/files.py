"""Files of the queue: read with suspicion."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpc_board.errors import StorageError
from hpc_board.files import NotRegularFileError, open_regular
from hpc_board.schedulers.local.records import RECORD_BYTES_MAX, DamagedRecord


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """Translate the errors of the files inside into a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{error.filename or path}: the local scheduler cannot use it: {error.strerror or error}",
            hint=f"Check that you may write {path} and that its disk is not full.",
        ) from error


def own_file(path: Path) -> bytes | None:
    """Return the bytes of a record, None if the file is missing.

    Raises:
        DamagedRecord: it is not a plain file that this user owns, or too long to be a record.
        OSError: it cannot be read now.
    """
    try:
        with open_regular(path) as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.geteuid() or facts.st_size > RECORD_BYTES_MAX:
                raise DamagedRecord(f"{path}: not a record of this user")
            return file.read(RECORD_BYTES_MAX)
    except FileNotFoundError:
        return None
    except (NotRegularFileError, NotADirectoryError, PermissionError) as error:
        raise DamagedRecord(f"{path}: {error}") from error
