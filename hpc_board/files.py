"""Files of this machine: written whole or not at all, read within bounds, locked by one process at a time."""

import fcntl
import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hpc_board.errors import BoardError, InputError
from hpc_board.model.files import NotRegularFileError, open_regular, whole_file
from hpc_board.model.text import one_line

LOCK_SECONDS = 10.0
"""The usual patience with another client that holds a lock."""

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
"""Names of the caller's open streams; to replace one would cut the caller off."""

_LOCK_PAUSE_SECONDS = 0.01


def write_whole(path: Path, data: bytes, *, mode: int | None = 0o600, replace: bool = True) -> None:
    """Write a file whole or not at all, as `whole_file` does.

    Raises:
        FileExistsError: the file exists, and `replace` is not given.
        OSError: it cannot be written.
    """
    with whole_file(path, mode=mode, replace=replace) as file:
        file.write(data)


def write_file(path: Path, data: bytes, *, force: bool, most: int = 0o666) -> None:
    """Write a user's file whole or not at all, as `new_file` does.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    with new_file(path, force=force, most=most) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, *, force: bool, most: int = 0o666) -> Iterator[BinaryIO]:
    """Open a user's file, which gets its name at the end, unless something failed; `force` replaces an older one.

    Its mode is `most` without the bits of the umask.

    A device of characters, a pipe and an open stream get the bytes as from a shell's redirection, and a link leads to
    the file that is written. Nothing but a regular file is ever replaced.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    with user_errors(path):
        mode = _mode(path)
        if mode is not None and (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or str(path).startswith(_STREAMS)):
            with _open_through(path) as file:
                yield file
        elif mode is not None and not stat.S_ISREG(mode):
            raise InputError(
                f"{path} exists and is not a regular file",
                hint="Choose another file with -o; nothing was overwritten.",
            )
        else:
            # Told before the caller's work, and again at its end.
            if not force and (path.is_symlink() or mode is not None):
                raise FileExistsError
            # Without force, a link is an existing file itself.
            target = Path(os.path.realpath(path)) if force else path
            with whole_file(target, mode=None, replace=force, most=most) as file:
                yield file


@contextmanager
def user_errors(path: Path) -> Iterator[None]:
    """Translate the failures to write a user's file.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    try:
        yield
    except FileExistsError as error:
        raise InputError(
            f"{shown_path(path)} already exists", hint="Choose another name, or use --force to overwrite it."
        ) from error
    except OSError as error:
        raise InputError(
            f"{shown_path(path)} cannot be written: {error.strerror}", hint="Choose another file or folder."
        ) from error


def write_new_folder(folder: Path, contents: Mapping[str, str]) -> None:
    """Make a folder with these files, whole or not at all; an existing one is never touched.

    Raises:
        InputError: the name is taken, or the folder cannot be made.
    """
    try:
        folder.mkdir()
    except FileExistsError as error:
        raise InputError(
            f"{shown_path(folder)} already exists", hint="Choose another name; nothing was overwritten."
        ) from error
    except OSError as error:
        raise InputError(
            f"{shown_path(folder)} cannot be created: {error.strerror}", hint="Choose another folder."
        ) from error
    try:
        for name, text in contents.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{folder} cannot be written: {error.strerror}", hint="Choose another folder.") from error


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder that only this account can enter, and remove it with all contents afterwards.

    Raises:
        BoardError: temporary files cannot be written.
    """
    import tempfile

    try:
        # A process started in the folder may still write while it is killed.
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
            yield Path(name).resolve()
    except OSError as error:
        raise BoardError(
            f"temporary files cannot be written: {error.strerror or error}",
            hint="Check the free space, or set TMPDIR to another folder.",
        ) from error


def _mode(path: Path) -> int | None:
    """Return the mode of the file that `path` leads to, None without one."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _open_through(path: Path) -> Iterator[BinaryIO]:
    # Without O_NONBLOCK, a pipe without a reader would hold the command for ever.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        yield file


def read_bounded(path: Path, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file, and one more of a longer one.

    Raises:
        NotRegularFileError: it is something else than a regular file.
        OSError: it does not exist, or cannot be read.
    """
    with open_regular(path) as file:
        return file.read(limit + 1)


def open_followed(path: Path) -> BinaryIO:
    """Open a user's regular file for reading, through links too; raises the errors of `open_regular`."""
    return open_regular(path, follow=True)


def read_bytes(path: Path, bytes_max: int, open_: Callable[[Path], BinaryIO] = open_followed) -> bytes:
    """Return the contents of a user's regular file of at most `bytes_max` bytes; never waits for a pipe or a device.

    `open_` opens the file.

    Raises:
        InputError: it does not exist, is not a regular file, unreadable or too large.
    """
    try:
        with open_(path) as file:
            data = file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if len(data) > bytes_max:
        raise InputError(f"{shown_path(path)} is too large (limit {bytes_max:,} bytes).", hint="Make the file smaller.")
    return data


def _unreadable(path: Path, error: OSError | ValueError) -> InputError:
    """Return the error for a user's file that `error` kept from being read."""
    name = shown_path(path)
    match error:
        case FileNotFoundError():
            return InputError(f"{name}: no such file.", hint="Check the path.")
        case NotRegularFileError() if is_folder(path):
            return InputError(f"{name} is a folder, not a file.", hint="Give the path of a file in it.")
        case NotRegularFileError():
            return InputError(f"{name} is not a regular file.", hint="Give the path of an ordinary file.")
        case PermissionError():
            return InputError(f"{name}: permission denied.", hint=f"Try: ls -l '{name}'")
        case OSError():
            return InputError(f"{name} cannot be read: {error.strerror}.", hint="Check the path.")
    return InputError(f"{name} is not a path: {error}.", hint="Check the path.")


def shown_path(path: Path) -> str:
    """Return a path for a message, on one line."""
    return one_line(str(path), 300)


def read_text(path: Path, bytes_max: int, open_: Callable[[Path], BinaryIO] = open_followed) -> str:
    """Return the text of a user's regular UTF-8 file of at most `bytes_max` bytes, which `open_` opens.

    Raises:
        InputError: it does not exist, is not a regular file, unreadable, too large, or not UTF-8 text.
    """
    return decoded(read_bytes(path, bytes_max, open_), shown_path(path))


def decoded(data: bytes, source: str) -> str:
    """Return the text in `data`; `source` is the place that it comes from, safe to print.

    Raises:
        InputError: it is not UTF-8 text.
    """
    if b"\0" in data:
        raise InputError(
            f"{source} contains a NUL byte at offset {data.index(0)}: is it a binary file?",
            hint="Use a text file in UTF-8.",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"could not decode {source}, is it UTF-8? The byte at offset {error.start} is not.",
            hint="Save the file in UTF-8.",
        ) from error


def is_folder(path: Path) -> bool:
    """Return whether `path` leads to a folder, as far as can be seen; never raises."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Return whether `path` leads to a regular file, as far as can be seen; never raises."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


@contextmanager
def locked(path: Path, *, wait_seconds: float = 0.0, shared: bool = False) -> Iterator[bool]:
    """Hold a lock file, one thread of one process at a time; False if others held it for `wait_seconds`.

    `shared` is that of `take_lock`.

    Raises:
        OSError: the file cannot be opened, or its file system has no such locks.
    """
    descriptor = take_lock(path, wait_seconds=wait_seconds, shared=shared)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def take_lock(path: Path, *, wait_seconds: float = 0.0, shared: bool = False) -> int | None:
    """Return a descriptor that holds a lock file until all its copies are closed; None if others held it for so long.

    Several may hold it `shared`, as long as none holds it otherwise.

    Raises:
        OSError: the file cannot be opened or is not a regular file, or its file system has no such locks.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    taken = False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularFileError(f"{path.name} is not a regular file")
        taken = lock_descriptor(descriptor, wait_seconds=wait_seconds, shared=shared)
    finally:
        if not taken:
            os.close(descriptor)
    return descriptor if taken else None


def lock_descriptor(descriptor: int, *, wait_seconds: float = 0.0, shared: bool = False) -> bool:
    """Lock an open file until its descriptor is closed; return False if others held it for `wait_seconds`.

    Raises:
        OSError: its file system has no such locks.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if math.isinf(wait_seconds):
        fcntl.flock(descriptor, how)
        return True
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return True
