"""The user's recently submitted files, and their folders."""

from pathlib import Path

from hpc_board.files import is_file, is_folder
from hpc_board.tui.choice import Choice
from hpc_board.tui.preferences import Memory

_FILES_MAX = 20
_FOLDERS_MAX = 8


def remember(file: Path, memory: Memory) -> None:
    """Put `file` first in the list of recent files."""
    known = memory.get("submit", "files", ())
    path = str(_absolute(file))
    memory.set("submit", "files", (path, *(each for each in known if each != path))[:_FILES_MAX])


def recent_folders(memory: Memory) -> tuple[Path, ...]:
    """Return the existing folders of recent files, the latest first."""
    folders = dict.fromkeys(Path(file).parent for file in memory.get("submit", "files", ()))
    return tuple(folder for folder in folders if is_folder(folder))[:_FOLDERS_MAX]


def file_called(name: str, choice: Choice, memory: Memory) -> Path | None:
    """Return the chosen or latest submitted file with this name; None if there is none, or no longer."""
    known = [Path(file) for file in memory.get("submit", "files", ())]
    for file in (*([choice.file] if choice.file else []), *known):
        if file.name == name and is_file(file):
            return file
    return None


def _absolute(file: Path) -> Path:
    try:
        return file.absolute()
    except FileNotFoundError:
        return file
