"""Files of a job: written whole or not at all; opened, read and copied without trust."""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hpc_board.model.text import printable

DRAFT = ".draft-"
"""Prefix of the name of an unfinished file."""

_KEPT_BYTES_MAX = 64 * 2**20
_COPY_BYTES = 2**20


@contextmanager
def whole_file(path: Path, mode: int = 0o640) -> Iterator[BinaryIO]:
    """Open a draft that gets the name `path` at the end: a crash at any point leaves the old file or the new one.

    Raises:
        OSError: the file cannot be written.
    """
    draft = path.with_name(f"{DRAFT}{os.urandom(8).hex()}")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            # Some file systems have one mode alone, and refuse to change it.
            if mode != stat.S_IMODE(os.fstat(file.fileno()).st_mode):
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        draft.rename(path)
    finally:
        with suppress(OSError):
            draft.unlink()


def write_files(folder: Path, texts: Mapping[str, bytes]) -> None:
    """Write new files with these `texts`, by their paths in a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; never follow a link, never wait for a pipe or a device.

    Raises:
        OSError: the path is not a regular file, does not exist, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    except OSError:
        os.close(descriptor)
        raise


def head_of(path: Path, limit: int) -> str:
    """Return the first `limit` bytes of a regular file as text that is safe to show; "" if it is missing."""
    file = _opened(path)
    if file is None:
        return ""
    with file:
        return printable(file.read(limit).decode("utf-8", errors="replace"), limit)


def keep(source: Path, target: Path, room_bytes: int) -> int:
    """Copy a regular file to an unused path and return its size; 0 if it is missing, or exceeds 64 MiB or the room."""
    file = _opened(source)
    if file is None:
        return 0
    limit, done = min(room_bytes, _KEPT_BYTES_MAX), 0
    if not 0 < os.fstat(file.fileno()).st_size <= limit:
        file.close()
        return 0
    try:
        with file, target.open("xb") as copy:
            # A file may grow while it is copied.
            while done < limit and (data := file.read(min(_COPY_BYTES, limit - done))):
                done += copy.write(data)
    except FileExistsError:
        return 0
    except OSError:
        target.unlink(missing_ok=True)
        return 0
    return done


def _opened(path: Path) -> BinaryIO | None:
    """Open a file, unless it is a link, a folder, a device or a pipe."""
    try:
        return open_regular(path)
    except OSError:
        return None
