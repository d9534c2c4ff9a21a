"""The user's own files of tasks and runs, and those submitted last with the hashes of their contents."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.errors import BoardError, InputError
from hpc_board.files import is_file, is_folder, read_bytes, write_file
from hpc_board.tui.preferences import Memory, state_file

_COPIES_MAX = 100
_FILES_MAX = 20
_SENT_MAX = 50
_FOLDERS_MAX = 8


def of_starter(path: Path, text: str) -> tuple[Path, bool]:
    """Return `path`, and whether it is new: the starter is written there unless the user has that file.

    Raises:
        InputError: the path is not a regular file, or cannot be written.
    """
    if is_file(path):
        return path, False
    if os.path.lexists(path):
        raise InputError(f"{path} is not a file.", hint="Press W and enter another path.")
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
    same = (path for path in files if hashlib.sha256(contents(path) or b"").hexdigest() == sha256)
    former = _named([name, *(copy.name for copy in copies)], sent)
    return next(same, None) or next((path for path in former if is_file(path)), None)


def _copies(number: int, name: str) -> list[Path]:
    """Return the paths for copies of a run's file, in the current folder."""
    here = Path(name)
    parts = ["", *(f"-{each}" for each in range(2, _COPIES_MAX + 1))]
    return [here.with_name(f"{here.stem}-run{number}{part}{here.suffix}") for part in parts]


def _named(names: Sequence[str], known: Sequence[Path]) -> list[Path]:
    """Return the known files with one of these names, one in the current folder only by its name."""
    # A field of the form cuts the end of a long path.
    return [Path(path.name) if path == Path(path.name).absolute() else path for path in known if path.name in names]


def contents(path: Path) -> bytes | None:
    """Return the contents of a file; None if it is unreadable, not a regular file, or too large to submit."""
    try:
        return read_bytes(path, SOURCE_BYTES_MAX)
    except InputError:
        return None


def remember(memory: Memory, *files: Path) -> None:
    """Put these files first in the list of recent files; a path with control characters is left out."""
    paths = [path for file in files if (path := str(_absolute(file))).isprintable()]
    known = memory.read_again("submit", "files", ())
    memory.set("submit", "files", tuple(dict.fromkeys((*paths, *known)))[:_FILES_MAX])


def remember_sent(memory: Memory, *sent: tuple[Path, bytes]) -> None:
    """Remember files with the contents that were submitted, by which `sent_as` finds the file of a run.

    The memory is written at once, if it can be: other programs of the user write into it, too.
    """
    remember(memory, *(file for file, _ in sent))
    paths = [(str(_absolute(file)), hashlib.sha256(code).hexdigest()) for file, code in sent]
    lines = [f"{digest} {path}" for path, digest in paths if path.isprintable()]
    known = memory.read_again("submit", "sent", ())
    memory.set("submit", "sent", tuple(dict.fromkeys((*lines, *known)))[:_SENT_MAX])
    with suppress(BoardError):
        memory.flush()


def remember_submission(environ: Mapping[str, str], *sent: tuple[Path, bytes]) -> None:
    """Let the app of this user find the files of a submission, if its memory can be written."""
    remember_sent(Memory(state_file(environ)), *sent)


def known_files(memory: Memory) -> tuple[Path, ...]:
    """Return the recent files, the latest first."""
    return tuple(Path(file) for file in memory.read_again("submit", "files", ()))


def sent_as(memory: Memory, digest: str) -> tuple[Path, ...]:
    """Return the files that were submitted with contents of this sha256, or copied from a run, the latest first."""
    sent = (line.split(" ", 1) for line in memory.read_again("submit", "sent", ()) if " " in line)
    return tuple(Path(path) for known, path in sent if known == digest)


def recent_folders(memory: Memory) -> tuple[Path, ...]:
    """Return the existing folders of recent files, the latest first."""
    folders = dict.fromkeys(file.parent for file in known_files(memory))
    return tuple(folder for folder in folders if is_folder(folder))[:_FOLDERS_MAX]


def _absolute(file: Path) -> Path:
    try:
        return file.absolute()
    except FileNotFoundError:
        return file
