"""The task folders of the settings: found, and read again only where their files have changed."""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpc_board.catalog import folders
from hpc_board.catalog.folders import HINT, TASK_FILE, unreadable
from hpc_board.domain.catalog import Catalog
from hpc_board.errors import DocumentError, Fault
from hpc_board.model.names import NAME
from hpc_board.model.task import Task

SETTLED_SECONDS = 2.0
"""For how long a file has to have stayed as it is before it can be told by its stamps whether it was changed."""

_Place = tuple[Path, Path | None]
"""A task's folder, and the one that its files may not leave."""

_Stamp = tuple[int, ...]
"""The values of a file's status that change with it: the last one, the time of the change, can be set back by none."""


class _Remembered(NamedTuple):
    """A task, where its folder led to, and the stamps of all its files, taken before they were read."""

    task: Task
    real_folder: str
    stamps: Mapping[str, _Stamp]


class TaskCache:
    """A cache of tasks for all threads: a task is read again only when one of its files has changed.

    Folders with faults are read each time: not every reason is one that their files show.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._remembered: dict[_Place, _Remembered] = {}

    def task_or_fault(self, folder: Path, root: Path | None = None) -> Task | DocumentError:
        """Return the result of `folders.task_or_fault`, from the cache if it is current."""
        place, real_folder = (folder, root), os.path.realpath(folder)
        known = self._remembered.get(place)
        if known and known.real_folder == real_folder and all(_stamp(path) == at for path, at in known.stamps.items()):
            return known.task
        stamps: dict[str, _Stamp | None] = {}
        settled_ns = int((self._clock() - SETTLED_SECONDS) * 1e9)
        task = folders.task_or_fault(folder, root, lambda path: stamps.setdefault(str(path), _stamp(str(path))))
        # A writer that writes twice within one tick of the file system's clock leaves the same stamp twice.
        settled = {path: stamp for path, stamp in stamps.items() if stamp and stamp[-1] <= settled_ns}
        if isinstance(task, Task) and len(settled) == len(stamps):
            self._remembered[place] = _Remembered(task, real_folder, settled)
        else:
            self._remembered.pop(place, None)
        return task

    def keep(self, places: set[_Place]) -> None:
        """Drop the tasks outside of these folders."""
        self._remembered = {place: each for place, each in [*self._remembered.items()] if place in places}


def _stamp(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes longer to make than to ask
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def tasks(places: Sequence[Path], known: TaskCache | None = None) -> Catalog:
    """Return the tasks of `places`, each of them a task's folder or a folder of such, sorted by name.

    A folder with faults does not hide the others. Of two tasks with the same name the first one counts. The cache
    `known` supplies unchanged tasks, and holds the tasks found now afterwards.
    """
    known = known or TaskCache()
    looked_at: set[_Place] = set()
    found: dict[str, Task] = {}
    origins: dict[str, Path] = {}
    faults = []
    for entry in places:
        try:
            single = _has_task(entry)
            candidates = [entry] if single else sorted(entry.iterdir())
        except OSError as error:
            faults.append(unreadable(entry, error))
            continue
        for folder in candidates:
            try:
                if not _has_task(folder):
                    continue
            except OSError as error:
                faults.append(unreadable(folder / TASK_FILE, error))
                continue
            root = None if single else entry
            looked_at.add((folder, root))
            task = known.task_or_fault(folder, root)
            if isinstance(task, DocumentError):
                faults.append(task)
                continue
            if task.name not in found:
                found[task.name], origins[task.name] = task, folder
            elif origins[task.name].resolve() != folder.resolve():
                message = f'the name "{task.name}" is already used by {origins[task.name]}'
                faults.append(DocumentError(str(folder / TASK_FILE), [Fault("name", message)], hint=HINT))
    known.keep(looked_at)
    return Catalog(tuple(found[name] for name in sorted(found)), tuple(faults))


def task_called(name: str, places: Sequence[Path], known: TaskCache) -> Task | None:
    """Return the task called `name` from the folder of that name in `places`, without reading any other folder.

    None does not prove that the task is missing: its folder may have another name, or faults.
    """
    if not re.fullmatch(NAME, name):
        return None
    for entry in places:
        try:
            single = _has_task(entry)
            folder = entry if single else entry / name
            if folder.name != name or not _has_task(folder):
                continue
        except OSError:
            continue
        task = known.task_or_fault(folder, None if single else entry)
        if isinstance(task, Task) and task.name == name:
            return task
    return None


def _has_task(folder: Path) -> bool:
    return (folder / TASK_FILE).is_file()
