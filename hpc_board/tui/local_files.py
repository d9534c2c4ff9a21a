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


def of_run(number: int, name: str, code: bytes, known: Sequence[Path], sent: Sequence[Path]) -> tuple[Path, bool]:
    """Return the file of a run as `submitted_as` finds it, or else a new copy of its code, and whether it is new.

    Raises:
        InputError: the copy cannot be written.
    """
    if (file := submitted_as(number, name, hashlib.sha256(code).hexdigest(), known, sent)) is not None:
        return file, False
    copies = _copies(number, name)
    for path in copies:
        if not os.path.lexists(path):
            write_file(path, code, force=False)
            return path, True
    raise InputError(f"{copies[0]} and {_COPIES_MAX - 1} more copies exist.", hint="Remove some of them.")


def submitted_as(number: int, name: str, sha256: str, known: Sequence[Path], sent: Sequence[Path]) -> Path | None:
    """Return the user's file of a run, as it is now; None if it is gone or not known to be that of the run.

    The file is the first of the `known` ones, or the one in the current folder, with that name and the contents
    submitted then, or a copy in the current folder with these contents. Otherwise, it is the first of those `sent`
    with these contents that has the name of the run's file or of its copies; it may have changed since.
    """
    copies = _copies(number, name)
    files = (*_named([name], known), Path(name), *copies)
    same = (path for path in files if hashlib.sha256(_contents(path) or b"").hexdigest() == sha256)
    former = _named([name, *(copy.name for copy in copies)], sent)
    return next(same, None) or next((path for path in former if is_file(path)), None)


def _copies(number: int, name: str) -> list[Path]:
    """Return the paths for copies of a run's file, in the current folder."""
    here = Path(name)
    parts = ["", *(f"-{each}" for each in range(2, _COPIES_MAX + 1))]
    return [here.with_name(f"{here.stem}-run{number}{part}{here.suffix}") for part in parts]


def _named(names: Sequence[str], known: Sequence[Path]) -> list[Path]:
    """Return the known files with one of these names, one in the current folder by its name alone."""
    # A field of the form cuts the end of a long path.
    return [Path(path.name) if path == Path(path.name).absolute() else path for path in known if path.name in names]


def _contents(path: Path) -> bytes | None:
    try:
        return read_bytes(path, SOURCE_BYTES_MAX) if is_file(path) else None
    except InputError:
        return None
