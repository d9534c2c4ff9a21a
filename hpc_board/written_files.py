"""Files that a command writes for its user."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from hpc_board.errors import InputError

_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
"""Names of what the caller has open already; to replace it would cut the caller off."""


def write_file(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file whole or not at all, as `new_file` does.

    Raises:
        InputError: the file is there, or cannot be written.
    """
    with new_file(path, force=force) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A file to write that takes its place at the end, unless something failed; `force` lets it replace one.

    A device of characters, a pipe and an open stream get the bytes as from a shell's redirection, and a link leads to
    the file that is written. Nothing but a regular file is ever replaced.

    Raises:
        InputError: the file is there, or cannot be written.
    """
    try:
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
            if path.is_symlink() or mode is not None:
                _check_replaced(force=force)
            # Without force, the link itself is what is there already.
            with _whole(Path(os.path.realpath(path)) if force else path, replace=force) as file:
                yield file
    except FileExistsError as error:
        raise InputError(f"{path} is there already", hint="Give another name, or --force to overwrite it.") from error
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}", hint="Give another file or folder with -o."
        ) from error


def _check_replaced(*, force: bool) -> None:
    """Pass if what is there may be replaced; asked before all the work is done, and again when it is."""
    if not force:
        raise FileExistsError


def write_new_folder(folder: Path, contents: Mapping[str, str]) -> None:
    """Make a folder with these files in it, whole or not at all; nothing that is there already is touched.

    Raises:
        InputError: something of that name is there, or the folder cannot be made.
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
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"{folder} cannot be written: {error.strerror}", hint="Give another place.") from error


def _mode(path: Path) -> int | None:
    """What kind of file `path` leads to; None where there is none yet."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _open_through(path: Path) -> Iterator[IO[bytes]]:
    # Without O_NONBLOCK, a pipe that nobody reads would hold the command for ever.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        os.set_blocking(descriptor, True)
        yield file


@contextmanager
def _whole(path: Path, *, replace: bool) -> Iterator[IO[bytes]]:
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        draft = Path(file.name)
        try:
            yield file
            file.flush()
            # A temporary file is its owner's alone; this one becomes an ordinary file.
            draft.chmod(0o666 & ~_umask())
            if replace:
                draft.replace(path)
            else:
                path.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)


def _umask() -> int:
    """The mask that this process gives to new files; reading it means setting it for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
