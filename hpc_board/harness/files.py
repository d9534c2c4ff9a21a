"""Files of a job: written whole or not at all, and opened without trust."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

DRAFT = ".draft-"
"""Prefix of the name of an unfinished file."""


@contextmanager
def whole_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
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
