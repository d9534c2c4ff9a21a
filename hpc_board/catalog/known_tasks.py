"""The task folders of the settings: found, and parsed again only where their files have changed."""

import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpc_board.catalog import folders
from hpc_board.catalog.folders import HINT, TASK_FILE, unreadable
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.task_rules import FILE_BYTES_MAX
from hpc_board.errors import DocumentError, Fault, InputError
from hpc_board.files import read_text
from hpc_board.model.names import NAME
from hpc_board.model.task import Task

_Place = tuple[Path, Path | None]
"""A task's folder, and the one that its files may not leave."""


class _Remembered(NamedTuple):
    """A task, where its folder led to, and the texts of all its files."""

    task: Task
    real_folder: str
    texts: Mapping[Path, str]


class TaskCache:
    """A cache of tasks for all threads: a task is parsed again only when the text of one of its files has changed."""

    def __init__(self) -> None:
        self._remembered: dict[_Place, _Remembered] = {}
        self._parsing = threading.Lock()

    def task_or_fault(self, folder: Path, root: Path | None = None) -> Task | DocumentError:
        """Return the result of `folders.task_or_fault`, from the cache if it is current."""
        place = folder, root
        if (task := self._current(place)) is not None:
            return task
        # Another thread may have waited for the same task: it is parsed once.
        with self._parsing:
            if (task := self._current(place)) is not None:
                return task
            real_folder, texts = os.path.realpath(folder), dict[Path, str]()
            found = folders.task_or_fault(folder, root, texts)
            if isinstance(found, Task):
                self._remembered[place] = _Remembered(found, real_folder, texts)
            else:
                self._remembered.pop(place, None)
            return found

    def _current(self, place: _Place) -> Task | None:
        known = self._remembered.get(place)
        if known is None or known.real_folder != os.path.realpath(place[0]):
            return None
        return known.task if all(_has(path, text) for path, text in known.texts.items()) else None

    def keep(self, places: set[_Place]) -> None:
        """Drop the tasks outside of these folders."""
        self._remembered = {place: each for place, each in [*self._remembered.items()] if place in places}


def _has(path: Path, text: str) -> bool:
    try:
        return read_text(path, FILE_BYTES_MAX) == text
    except (InputError, OSError):
        return False


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
