"""The task folders of the settings: found, and read only where their files have changed.

Tasks that were read are kept in memory, and for later commands in a file of the board's folder.
"""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path

import msgspec

from hpc_board import __version__
from hpc_board.domain.catalog import Catalog
from hpc_board.errors import DocumentError, Fault
from hpc_board.files import is_folder, write_whole
from hpc_board.model.names import NAME
from hpc_board.model.task import Task

TASK_FILE = "task.yml"
KNOWN_BYTES_MAX = 64 * 1024 * 1024
"""The maximum size of cached task folders: the sizes of files, and `_PATH_BYTES` for each of them."""

SETTLED_SECONDS = 2.0
"""For how long a file has to have stayed as it is before it can be told by its stamps whether it was changed."""

HINT = "Correct these lines of the task file."
"""The remedy for faults of a task file."""

ABOVE_HINT = "Or keep the file beside the task's folder, and give the folder above both: `hpc-board create {} FOLDER`."
"""The remedy for a file above the task's folder that is not there, with the place of the task's name."""

_PATH_BYTES = 500
_TASKS_BYTES_MAX = 8 * 1024 * 1024
_FILE_BYTES_MAX = _TASKS_BYTES_MAX + 4096
_READERS = ("catalog/folders.py", "catalog/contract.py", "domain/task_rules.py", "model/task.py", "yaml_document.py")


class _Stamp(msgspec.Struct, frozen=True, array_like=True):
    """The values of a file's status that change with it; no user can set back `changed_ns`."""

    device: int
    number: int
    bytes: int
    modified_ns: int
    changed_ns: int


class _Remembered(msgspec.Struct, frozen=True):
    """A task, where its folder led to, and the stamps of all its files, taken before they were read."""

    task: Task
    real_folder: str
    stamps: Mapping[str, _Stamp]

    @property
    def weight(self) -> int:
        return sum(stamp.bytes + _PATH_BYTES for stamp in self.stamps.values())


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A remembered task in the file; `task` is its definition, which is decoded if its files are as they were."""

    folder: str
    root: str | None
    real_folder: str
    stamps: dict[str, _Stamp]
    task: msgspec.Raw


class _File(msgspec.Struct, frozen=True):
    """The file's content; `reader` tells the program that read the tasks from another version of it."""

    reader: str
    tasks: list[_Kept]


_Place = tuple[Path, Path | None]
"""A task's folder, and the one that its files may not leave."""


class TaskCache:
    """A cache of tasks for all threads: a task is read again only when one of its files has changed.

    Folders with faults are read each time: not every reason is one that their files show. `file` keeps the tasks for
    other processes; it lies in a folder in which this account alone writes.
    """

    def __init__(self, clock: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self._clock = clock
        self._file = file
        self._lock = threading.Lock()
        self._remembered: dict[_Place, _Remembered] = {}
        self._weight = 0
        self._kept: dict[_Place, _Kept] | None = None
        self._outdated = False

    def task_or_fault(self, folder: Path, root: Path | None = None) -> Task | DocumentError:
        """Return the result of `folders.task_or_fault`, from the cache if it is current."""
        place, real_folder = (folder, root), os.path.realpath(folder)
        with self._lock:
            remembered = self._remembered.get(place)
            kept = None if remembered else self._from_file().get(place)
        known = remembered or kept
        if known is not None and known.real_folder == real_folder and _are_current(known.stamps):
            task = remembered.task if remembered else _decoded(kept)
            if task is not None:
                self._remember(place, _Remembered(task, real_folder, known.stamps))
                return task
        return self._read(place, real_folder)

    def _read(self, place: _Place, real_folder: str) -> Task | DocumentError:
        from hpc_board.catalog import folders

        stamps: dict[str, _Stamp | None] = {}
        settled_ns = int((self._clock() - SETTLED_SECONDS) * 1e9)
        task = folders.task_or_fault(*place, lambda path: stamps.setdefault(str(path), _stamp(str(path))))
        # A writer that writes twice within one tick of the file system's clock leaves the same stamp twice.
        sound = {path: stamp for path, stamp in stamps.items() if stamp and stamp.changed_ns <= settled_ns}
        settled = isinstance(task, Task) and len(sound) == len(stamps)
        new = _Remembered(task, real_folder, sound) if isinstance(task, Task) and settled else None
        with self._lock:
            self._outdated |= self._from_file().pop(place, None) is not None
        self._remember(place, new)
        return task

    def _remember(self, place: _Place, new: _Remembered | None) -> None:
        with self._lock:
            former = self._remembered.pop(place, None)
            self._weight -= former.weight if former else 0
            if new and new.weight + self._weight <= KNOWN_BYTES_MAX:
                self._remembered[place] = new
                self._weight += new.weight

    def forget_others(self, places: Collection[_Place]) -> None:
        """Drop the tasks outside of these folders."""
        with self._lock:
            self._remembered = {place: each for place, each in self._remembered.items() if place in places}
            self._weight = sum(each.weight for each in self._remembered.values())
            kept = self._from_file()
            self._kept = {place: each for place, each in kept.items() if place in places}
            self._outdated |= len(self._kept) < len(kept)

    def save(self) -> None:
        """Write the file if it lacks a task that it has room for, or has one too many.

        A board without a folder has no file.
        """
        with self._lock:
            kept = self._from_file()
            new = {place: each for place, each in self._remembered.items() if place not in kept}
            if self._file is None or not (new or self._outdated) or not is_folder(self._file.parent):
                return
            entries = [*kept.values(), *_encoded(new)]
            sizes = accumulate(len(msgspec.json.encode(each)) + 1 for each in entries)
            chosen = [each for each, size in zip(entries, sizes, strict=True) if size < _TASKS_BYTES_MAX]
            if len(chosen) == len(kept) and not self._outdated:
                return
            self._kept, self._outdated = {_place(each): each for each in chosen}, False
        with suppress(OSError):
            write_whole(self._file, msgspec.json.encode(_File(_reader(), chosen)))

    def _from_file(self) -> dict[_Place, _Kept]:
        """Return the tasks of the file, which is read once; none from a damaged one, or one of another program."""
        if self._kept is None:
            self._kept = {}
            with suppress(OSError, ValueError, RecursionError):
                content = None if self._file is None else msgspec.json.decode(_own_bytes(self._file), type=_File)
                if content and content.reader == _reader():
                    self._kept = {_place(each): each for each in content.tasks}
        return self._kept


def _reader() -> str:
    """Return a text that differs where another version of this program may read the same files in another way."""
    package = Path(__file__).parents[1]
    return " ".join([__version__, *(str((package / name).stat().st_mtime_ns) for name in _READERS)])


def _own_bytes(file: Path) -> bytes:
    """Return the content of a file in which no other account can have written.

    Raises:
        OSError: there is none.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        own = status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not (own and stat.S_ISREG(status.st_mode) and status.st_size <= _FILE_BYTES_MAX):
            raise OSError(f"{file} is no file of this account")
        return opened.read()


def _encoded(remembered: Mapping[_Place, _Remembered]) -> Iterator[_Kept]:
    """Yield tasks for the file, without those that JSON cannot hold."""
    from hpc_board.store.task_rows import task_definition

    for (folder, root), each in remembered.items():
        definition = msgspec.Raw(task_definition(each.task).encode())
        kept = _Kept(str(folder), None if root is None else str(root), each.real_folder, dict(each.stamps), definition)
        with suppress(ValueError):
            msgspec.json.encode(kept)
            if _decoded(kept) == each.task:
                yield kept


def _place(kept: _Kept) -> _Place:
    return Path(kept.folder), None if kept.root is None else Path(kept.root)


def _decoded(kept: _Kept | None) -> Task | None:
    from hpc_board.store.task_rows import task_of

    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None if kept is None else task_of(msgspec.json.decode(kept.task))
    return None


def _are_current(stamps: Mapping[str, _Stamp]) -> bool:
    return all(_stamp(path) == stamp for path, stamp in stamps.items())


def _stamp(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes longer to make than to ask
    except (OSError, ValueError):
        return None
    return _Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def tasks(folders: Sequence[Path], known: TaskCache | None = None) -> Catalog:
    """Return the tasks of `folders`, each of them a task's folder or a folder of such, sorted by name.

    A folder with faults does not hide the others. Of two tasks with the same name the first one counts. The cache
    `known` supplies unchanged tasks, and holds the tasks found now afterwards.
    """
    known = known or TaskCache()
    looked_at: set[_Place] = set()
    found: dict[str, Task] = {}
    origins: dict[str, Path] = {}
    faults = []
    for entry in folders:
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
                message = f'the name "{task.name}" belongs to {origins[task.name]} already'
                faults.append(DocumentError(str(folder / TASK_FILE), [Fault("name", message)], hint=HINT))
    known.forget_others(looked_at)
    known.save()
    return Catalog(tuple(found[name] for name in sorted(found)), tuple(faults))


def task_called(name: str, folders: Sequence[Path], known: TaskCache) -> Task | None:
    """Return the task called `name` from the folder of that name in `folders`, without reading any other folder.

    None does not prove that the task is missing: its folder may have another name, or faults.
    """
    if not re.fullmatch(NAME, name):
        return None
    for entry in folders:
        try:
            single = _has_task(entry)
            folder = entry if single else entry / name
            if folder.name != name or not _has_task(folder):
                continue
        except OSError:
            continue
        task = known.task_or_fault(folder, None if single else entry)
        known.save()
        if isinstance(task, Task) and task.name == name:
            return task
    return None


def _has_task(folder: Path) -> bool:
    return (folder / TASK_FILE).is_file()


def unreadable(path: Path, error: OSError) -> DocumentError:
    """Return the fault of a folder that cannot be read."""
    return DocumentError(
        str(path), [Fault("", f"cannot be read: {error.strerror}")], hint="Check the permissions of the folder."
    )
