"""The files that somebody has submitted from this machine, and the folders that they lie in."""

from pathlib import Path

from hpc_board.files import is_file, is_folder
from hpc_board.tui.choice import Choice
from hpc_board.tui.preferences import Memory

_FILES_MAX = 20
_FOLDERS_MAX = 8


def remember(file: Path, memory: Memory) -> None:
    """Put `file` at the head of the remembered ones."""
    known = memory.get("submit", "files", ())
    path = str(_absolute(file))
    memory.set("submit", "files", (path, *(each for each in known if each != path))[:_FILES_MAX])


def recent_folders(memory: Memory) -> tuple[Path, ...]:
    """The folders of the remembered files that are still there, the last one first."""
    folders = dict.fromkeys(Path(file).parent for file in memory.get("submit", "files", ()))
    return tuple(folder for folder in folders if is_folder(folder))[:_FOLDERS_MAX]


def file_called(name: str, choice: Choice, memory: Memory) -> Path | None:
    """The file with this name that is chosen or was submitted last; None where there is none any more."""
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
