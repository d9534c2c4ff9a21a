"""Files of this machine: written whole or not at all."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hpc_board.errors import InputError

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
"""Names of the caller's open streams; to replace one would cut the caller off."""


def write_whole(path: Path, data: bytes, *, mode: int | None = 0o600, replace: bool = True) -> None:
    """Write a file whole or not at all, as `whole_file` does.

    Raises:
        FileExistsError: the file exists, and `replace` is not given.
        OSError: it cannot be written.
    """
    with whole_file(path, mode=mode, replace=replace) as file:
        file.write(data)


@contextmanager
def whole_file(
    path: Path, *, mode: int | None = 0o600, replace: bool = True, folder: int | None = None
) -> Iterator[IO[bytes]]:
    """Open a draft that gets the name `path` at the end: a crash at any point leaves the old file or the new one.

    The file has `mode` whatever the umask; None leaves its mode to the umask. A relative `path` begins at the open
    `folder`, if one is given.

    Raises:
        FileExistsError: the file exists, and `replace` is not given.
        OSError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            # Some file systems know one mode alone, and refuse to change it.
            if mode is not None and mode != stat.S_IMODE(os.fstat(descriptor).st_mode):
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        # The draft is closed by now: closing a named database would drop SQLite's locks on it in other threads.
        publish(draft, path, replace=replace, folder=folder)
    finally:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)


def publish(draft: Path, path: Path, *, replace: bool, folder: int | None = None) -> None:
    """Give a finished draft its name, in place of an older file if `replace`.

    Raises:
        FileExistsError: the file exists, and `replace` is not given.
        OSError: the draft cannot have that name.
    """
    if replace:
        os.replace(draft, path, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.link(draft, path, src_dir_fd=folder, dst_dir_fd=folder)


def write_file(path: Path, data: bytes, *, force: bool) -> None:
    """Write a user's file whole or not at all, as `new_file` does.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    with new_file(path, force=force) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Open a user's file, which gets its name at the end, unless something failed; `force` replaces an older one.

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
                f"{path} is there already and is no regular file",
                hint="Give the name of a file with -o; what is there stays as it is.",
            )
        else:
            # Told before the caller's work, and again at its end.
            if not force and (path.is_symlink() or mode is not None):
                raise FileExistsError
            # Without force, a link is an existing file itself.
            target = Path(os.path.realpath(path)) if force else path
            with whole_file(target, mode=None, replace=force) as file:
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
        raise InputError(f"{path} is there already", hint="Give another name, or --force to overwrite it.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", hint="Give another file or folder.") from error


def write_new_folder(folder: Path, contents: Mapping[str, str]) -> None:
    """Make a folder with these files, whole or not at all; an existing one is never touched.

    Raises:
        InputError: the name is taken, or the folder cannot be made.
    """
    try:
        folder.mkdir()
    except FileExistsError as error:
        raise InputError(
            f"{folder} is there already", hint="Give another name; what is there stays as it is."
        ) from error
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}", hint="Give another place.") from error
    try:
        for name, text in contents.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{folder} cannot be written: {error.strerror}", hint="Give another place.") from error


def _mode(path: Path) -> int | None:
    """Return the mode of the file that `path` leads to, None without one."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _open_through(path: Path) -> Iterator[IO[bytes]]:
    # Without O_NONBLOCK, a pipe without a reader would hold the command for ever.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        yield file
