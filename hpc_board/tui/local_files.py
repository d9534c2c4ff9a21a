"""The user's own file of a task or a run, for the editor."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.errors import InputError
from hpc_board.files import is_file, read_bytes, write_file

_COPIES_MAX = 100


def of_starter(path: Path, text: str) -> tuple[Path, bool]:
    """Return `path`, and whether it is new: the starter is written there unless the user has that file.

    Raises:
        InputError: the path is no regular file, or cannot be written.
    """
    if is_file(path):
        return path, False
    if os.path.lexists(path):
        raise InputError(f"{path} is no file.", hint="Press W and give another path.")
    write_file(path, text.encode(), force=False)
    return path, True


def of_run(number: int, name: str, code: bytes, known: Sequence[Path]) -> tuple[Path, bool]:
    """Return a file with the code of a run, and whether it is new.

    The file is the first of the `known` ones with that name and these contents, or else a copy under a new name in the
    current folder.

    Raises:
        InputError: the copy cannot be written.
    """
    here, named = Path(name), _named(name, known)
    parts = ["", *(f"-{each}" for each in range(2, _COPIES_MAX + 1))]
    copies = [here.with_name(f"{here.stem}-run{number}{part}{here.suffix}") for part in parts]
    for path in (*named, here, *copies):
        if _holds(path, code):
            return path, False
    for path in copies:
        if not os.path.lexists(path):
            write_file(path, code, force=False)
            return path, True
    raise InputError(f"{copies[0]} and {_COPIES_MAX - 1} more copies exist.", hint="Remove some of them.")


def submitted_as(name: str, sha256: str, known: Sequence[Path], sent: Sequence[Path]) -> Path | None:
    """Return the user's file of a run, as it is now; None if it is gone or not known to be that of the run.

    The file is the first of the `known` ones, or the one in the current folder, with that name and the contents
    submitted then, or else the first of those `sent` with these contents, which may have changed since.
    """
    files = (*_named(name, known), Path(name))
    same = (path for path in files if hashlib.sha256(_contents(path) or b"").hexdigest() == sha256)
    return next(same, None) or next((path for path in _named(name, sent) if is_file(path)), None)


def _named(name: str, known: Sequence[Path]) -> list[Path]:
    """Return the known files with this name, one in the current folder by its name alone."""
    # A field of the form cuts the end of a long path.
    here = Path(name)
    return [here if path == here.absolute() else path for path in known if path.name == name]


def _holds(path: Path, code: bytes) -> bool:
    return _contents(path) == code


def _contents(path: Path) -> bytes | None:
    try:
        return read_bytes(path, SOURCE_BYTES_MAX) if is_file(path) else None
    except InputError:
        return None
