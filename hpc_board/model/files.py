"""Files written whole or not at all, and regular files opened without trust, on either side."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, *, mode: int | None = 0o600, replace: bool = True, most: int = 0o666) -> Iterator[BinaryIO]:
    """Open a draft that gets the name `path` at the end: a crash at any point leaves the old file or the new one.

    The file has `mode` whatever the umask; None leaves its mode to the umask, which takes from `most`.

    Raises:
        FileExistsError: the file exists, and `replace` is not given.
        OSError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, most if mode is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            # Some file systems know only one mode, and refuse to change it.
            if mode is not None and mode != stat.S_IMODE(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        # The draft is closed by now: closing a named database would drop SQLite's locks on it in other threads.
        publish(draft, path, replace=replace)
    finally:
        with suppress(OSError):
            draft.unlink()


def publish(draft: Path, path: Path, *, replace: bool) -> None:
    """Give a finished draft its name, in place of an older file if `replace`.

    Raises:
        FileExistsError: the file exists, and `replace` is not given.
        OSError: the draft cannot have that name.
    """
    if replace:
        draft.replace(path)
    else:
        path.hardlink_to(draft)


class NotRegularFileError(OSError):
    """A link, folder, device, pipe or socket in the place of a file."""


def open_regular(path: Path, *, follow: bool = False) -> BinaryIO:
    """Open a regular file for reading; never waits for a pipe or a device, and follows a link only if told to.

    Raises:
        NotRegularFileError: it is something else.
        OSError: it does not exist, or cannot be read.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO or (error.errno == errno.ELOOP and not follow):
            raise NotRegularFileError(f"{path.name} is not a regular file") from error
        raise
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.fdopen(descriptor, "rb")
        raise NotRegularFileError(f"{path.name} is not a regular file")
    except OSError:
        os.close(descriptor)
        raise
