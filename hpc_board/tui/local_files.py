"""The user's own files of tasks and runs, and those submitted last by board and contents."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.errors import BoardError, InputError
from hpc_board.files import is_file, read_bytes, write_file
from hpc_board.model.task import Task, Template, language_of
from hpc_board.tui.preferences import Memory, state_file

if TYPE_CHECKING:
    from hpc_board.domain.service_address import SshAddress

_COPIES_MAX = 100
_SENT_MAX = 50


def starter_file(memory: Memory, task: Task) -> Path:
    """Return the path of the user's file for a task: in the current folder, else beside the last written starter."""
    here = Path(starter_name(task))
    return here if is_file(here) else Path(memory.get("tasks", "folder", "")) / here


def starter_name(task: Task) -> str:
    """Return the name of the user's file for a task, with the extension of its first template's language."""
    endings = (Template(name).language.extensions[0] for name in task.templates)
    return task.name + next(endings, Path(task.submission_name).suffix)


def starter_text(task: Task, file_name: str) -> str:
    """Return the starter of a task for a file of this name: the first of the task's templates in its language.

    Raises:
        InputError: the task has no template, or none in that language.
    """
    from hpc_board.catalog.template import starter, template_name

    language = language_of(file_name)
    fitting = (name for name in task.templates if language in (None, Template(name).language))
    return starter(task, next(fitting, None) or template_name(task, None, file_name))


def of_task(path: Path, task: Task) -> tuple[Path, bool]:
    """Return `path`, and whether it is new: the task's starter is written there unless the user has that file.

    Raises:
        InputError: the path is not a regular file, or cannot be written, or as `starter_text` has it.
    """
    if is_file(path):
        return path, False
    if os.path.lexists(path):
        raise InputError(f"{path} is not a file.", hint="Press W and enter another path.")
    write_file(path, starter_text(task, path.name).encode(), force=False)
    return path, True


def is_for(path: Path, task: str) -> bool:
    """Return whether a file can be submitted, and has no header that names another task."""
    from hpc_board.runs.drafts import header, read_source

    try:
        return header(read_source(path)).leaderboard in (None, task)
    except InputError:
        return False


def of_run(number: int, name: str, code: bytes, sent: Sequence[Path]) -> tuple[Path, bool]:
    """Return the file of a run as `submitted_as` finds it, or else a new copy of its code, and whether it is new.

    Raises:
        InputError: the copy cannot be written.
    """
    if (file := submitted_as(number, name, hashlib.sha256(code).hexdigest(), sent)) is not None:
        return file, False
    copies = _copies(number, name)
    for path in copies:
        if not os.path.lexists(path):
            write_file(path, code, force=False)
            return path, True
    raise InputError(f"{copies[0]} and {_COPIES_MAX - 1} more copies exist.", hint="Remove some of them.")


def submitted_as(number: int, name: str, sha256: str, sent: Sequence[Path]) -> Path | None:
    """Return the user's file of a run, as it is now; None if it is gone or not known to be that of the run.

    The file is the one in the current folder with that name and the contents submitted then, or a copy there with these
    contents. Otherwise, it is the first of those `sent` with these contents that has the name of the run's file or of
    its copies, one in the current folder before all others; it may have changed since.
    """
    own = [Path(name), *_copies(number, name)]
    same = (path for path in own if hashlib.sha256(contents(path) or b"").hexdigest() == sha256)
    names = {path.name for path in own}
    former = [_brief(path) for path in sent if path.name in names]
    former.sort(key=Path.is_absolute)
    return next(same, None) or next((path for path in former if is_file(path)), None)


def _copies(number: int, name: str) -> list[Path]:
    """Return the paths for copies of a run's file, in the current folder."""
    here = Path(name)
    parts = ["", *(f"-{each}" for each in range(2, _COPIES_MAX + 1))]
    return [here.with_name(f"{here.stem}-run{number}{part}{here.suffix}") for part in parts]


def is_elsewhere(path: Path) -> bool:
    """Return whether a file is named by its whole path, and is not in the current folder."""
    return _brief(path).is_absolute()


def _brief(path: Path) -> Path:
    """Return the path of a file, its name alone for one in the current folder: a field cuts the end of a long path."""
    return Path(path.name) if path == _absolute(Path(path.name)) else path


def saved_state(path: Path) -> tuple[int | None, bytes | None]:
    """Return the time of the last change of a file and its contents, of which a save changes at least one."""
    try:
        changed_ns = path.stat().st_mtime_ns
    except (OSError, ValueError):
        changed_ns = None
    return changed_ns, contents(path)


def contents(path: Path) -> bytes | None:
    """Return the contents of a file; None if it is unreadable, not a regular file, or too large to submit."""
    try:
        return read_bytes(path, SOURCE_BYTES_MAX)
    except InputError:
        return None


def remember_sent(memory: Memory, board: "Path | SshAddress", *sent: tuple[Path, bytes]) -> None:
    """Remember files with the contents that were submitted to the board at this address, for `sent_as`.

    The memory is written at once, if it can be: other programs of the user write into it, too.
    """
    paths = [(str(_absolute(file)), hashlib.sha256(code).hexdigest()) for file, code in sent]
    lines = [f"{_sent_key(board, digest)} {path}" for path, digest in paths if path.isprintable()]
    known = memory.read_again("submit", "sent", ())
    memory.set("submit", "sent", tuple(dict.fromkeys((*lines, *known)))[:_SENT_MAX])
    with suppress(BoardError):
        memory.flush()


def remember_submission(environ: Mapping[str, str], board: "Path | SshAddress", *sent: tuple[Path, bytes]) -> None:
    """Let the app of this user find the files of a submission, if its memory can be written."""
    remember_sent(Memory(state_file(environ)), board, *sent)


def sent_as(memory: Memory, board: "Path | SshAddress", digest: str) -> tuple[Path, ...]:
    """Return the files that this board got with contents of this sha256, or copied from a run, the latest first."""
    key = _sent_key(board, digest)
    sent = (line.partition(" ") for line in memory.read_again("submit", "sent", ()))
    return tuple(Path(path) for known, _, path in sent if known == key)


def _sent_key(board: "Path | SshAddress", digest: str) -> str:
    return hashlib.sha256(os.fsencode(f"{board} {digest}")).hexdigest()


def _absolute(file: Path) -> Path:
    try:
        return file.absolute()
    except FileNotFoundError:
        return file
