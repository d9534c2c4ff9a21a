"""The user's recently submitted files with their contents' hashes, and their folders."""

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from hpc_board.errors import BoardError
from hpc_board.files import is_folder
from hpc_board.tui.preferences import Memory, state_file

_FILES_MAX = 20
_SENT_MAX = 50
_FOLDERS_MAX = 8


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
    paths = [(str(_absolute(file)), sha256(code).hexdigest()) for file, code in sent]
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
