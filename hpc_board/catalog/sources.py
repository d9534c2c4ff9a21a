"""Sources of tasks: a folder, a zip, a single reference file, a competition with a folder of problems.

Each source becomes tasks in memory, read as task folders; no temporary file remains.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from hpc_board.catalog import archive, competition, single_file
from hpc_board.catalog.folders import TASK_FILE, task_or_fault
from hpc_board.catalog.imports import formats
from hpc_board.domain.board_options import CompetitionTerms
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.imported import Imported
from hpc_board.domain.user_board import PackedSource
from hpc_board.errors import BoardError, DocumentError, Fault, InputError
from hpc_board.files import is_file, is_folder, read_bytes, temporary_folder
from hpc_board.model.names import NAME, NAME_WORDS, suggestion
from hpc_board.model.task import Task
from hpc_board.model.text import one_line

ENDINGS = (".zip", *competition.ENDINGS, *single_file.ENDINGS, *formats.ENDINGS)
"""The extensions of files that hold tasks."""

Imports = list[Imported | DocumentError]
"""The problems of a source in a foreign format, and the faults of those that cannot be imported."""

_DEPTH_MAX = 4
_FAULTS_SHOWN_MAX = 20
_PROBLEMS = "problems"
_NOT_MEANT = "__MACOSX"


def read(source: Path, problem_set: str | None = None, format_name: str | None = None) -> Catalog:
    """Read the tasks that `source` holds, and the faults of those that cannot be read.

    `source` is the folder of a task, its `task.yml`, a folder of such folders or with a competition in it, a zip of any
    of these, a competition, a single reference file, or a file or folder in one of the formats of `imports`.
    `problem_set` is the name of the competition to read, if a folder or zip holds several; `format_name` that of the
    format to import from, in place of the one that the contents suggest.

    Raises:
        InputError: the source is not readable, holds no task or no such competition, or is none of these.
    """
    if format_name is not None:
        with temporary_folder("hpc-board-task-") as scratch:
            return _laid_out(read_imports(source, format_name), scratch)
    if is_folder(source):
        return _of_folder(source, None, str(source), problem_set=problem_set)
    if problem_set is not None and source.suffix != ".zip":
        raise InputError(
            f"{one_line(str(source), 300)} is a file, not a folder or zip with the competition {problem_set}.",
            hint="Omit --problem-set, or use the folder.",
        )
    if source.name == TASK_FILE:
        return _of_folder(source.parent, None, str(source))
    if source.suffix not in ENDINGS or not is_file(source):
        what = "is not a task folder or task file" if os.path.lexists(source) else "does not exist"
        raise InputError(
            f"{one_line(str(source), 300)} {what}.",
            hint=f"Use a folder with a {TASK_FILE} in it, or a file that ends in {', '.join(ENDINGS)}.",
        )
    if source.suffix in competition.ENDINGS:
        return competition.read_competition(source)
    with temporary_folder("hpc-board-task-") as scratch:
        if source.suffix in formats.ENDINGS:
            return _laid_out(read_imports(source), scratch)
        if source.suffix == ".py" and (problems := list(formats.tasks_in(source))):
            return _laid_out(problems, scratch)
        return _of_file(source, scratch, problem_set)


def read_imports(source: Path, format_name: str | None = None, size_max: int | None = None) -> Imports:
    """Read the problems in a file, a folder or a zip of this format, by default of the first one that knows any.

    Sizes above `size_max`, if it is given, are replaced by it.

    Raises:
        InputError: the source cannot be read, or holds no such problem.
    """
    if format_name is not None and format_name not in formats.FORMATS:
        near = suggestion(format_name, formats.FORMATS)
        raise InputError(
            f"unknown format {one_line(format_name, 80)}.{near}", hint=f"The formats: {', '.join(formats.FORMATS)}."
        )
    if not os.path.lexists(source):
        raise InputError(f"{one_line(str(source), 300)} does not exist.", hint="Check the path.")
    if source.suffix != ".zip" or is_folder(source):
        return _some(formats.tasks_in(source, format_name, size_max), str(source))
    with temporary_folder("hpc-board-task-") as scratch:
        folder = scratch / source.stem
        folder.mkdir()
        archive.unpack(source, folder)
        with told_as(str(folder), str(source)):
            found = _some(formats.tasks_in(folder, format_name, size_max), str(source))
        return [
            with_source_name(each, str(folder), str(source)) if isinstance(each, DocumentError) else each
            for each in found
        ]


def _some(found: Iterable[Imported | DocumentError], shown: str) -> Imports:
    """Return the problems that were found, at least one."""
    problems: Imports = []
    for each in found:
        problems.append(each)
        _check_number(len(problems), shown)
    if not problems:
        raise InputError(
            f"{one_line(shown, 300)} contains no problem in a known format.",
            hint=f"The formats: {', '.join(formats.FORMATS)}. Choose one with --format.",
        )
    return problems


def _laid_out(problems: Imports, scratch: Path) -> Catalog:
    """Return the tasks of imported problems, written as folders to `scratch` and read like any other."""
    found: list[Task | DocumentError] = []
    for number, each in enumerate(problems):
        if isinstance(each, DocumentError):
            found.append(each)
            continue
        folder = scratch / str(number) / each.name
        folder.mkdir(parents=True)
        for name, text in each.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        task = task_or_fault(folder, folder)
        found.append(with_source_name(task, str(folder), str(each.source)) if isinstance(task, DocumentError) else task)
    return _joint_catalog(found)


def names_a_path(source: str) -> bool:
    """Return whether `source` names a folder or a file, and not an existing task."""
    return "/" in source or is_folder(Path(source)) or Path(source).suffix in ENDINGS


def packed(source: str, format_name: str | None = None) -> PackedSource | str:
    """Return the folder or file at the path `source` packed, for a service; the name of a task as it is.

    `format_name` is that of the format to import from.

    Raises:
        InputError: the folder or file cannot be read, is too large, or holds no tasks.
    """
    if format_name is None and not names_a_path(source):
        return source
    return replace(_packed_path(Path(source)), format=format_name)


def _packed_path(path: Path) -> PackedSource:
    """Return the folder or file at `path` packed, as `packed` does."""
    folder = path.parent if path.name == TASK_FILE else path
    if is_folder(folder):
        return PackedSource(f"{folder.resolve().name}.zip", archive.pack(folder))
    data = read_bytes(path, archive.ARCHIVE_BYTES_MAX)
    if path.suffix in ENDINGS and path.suffix not in (*competition.ENDINGS, *formats.ENDINGS):
        return PackedSource(path.name, data)
    raise InputError(
        f"{one_line(str(path), 300)} is not a folder, a zip or a reference file.",
        hint="Use the folder that contains it, or a zip of that folder.",
    )


def packed_competition(path: Path, problem_set: str | None) -> tuple[PackedSource, str | None]:
    """Return the competitions at `path` packed, and the name of the one to read, for a service."""
    if problem_set is None and path.suffix in competition.ENDINGS and path.name != TASK_FILE and is_file(path):
        # The file names tasks beside it: the folder goes, with the name of the file.
        return _packed_path(path.absolute().parent), path.stem
    return _packed_path(path), problem_set


def tasks_without_faults(source: Path, format_name: str | None = None) -> tuple[Task, ...]:
    """Return the tasks that `source` holds, as `read` does, if none has faults.

    Raises:
        InputError: it cannot be read, holds no task, or any of its tasks has faults; all of them are listed.
    """
    found = read(source, format_name=format_name)
    if len(found.faults) == 1:
        raise found.faults[0]
    if found.faults:
        shown = [error.message for error in found.faults[:_FAULTS_SHOWN_MAX]]
        if len(found.faults) > len(shown):
            shown.append(f"{len(found.faults) - len(shown)} more tasks have faults")
        raise InputError("\n".join(shown), hint=found.faults[0].hint)
    return found.tasks


def _of_file(source: Path, scratch: Path, problem_set: str | None) -> Catalog:
    """Return the tasks of a zip or a reference, unpacked to a folder of its name in `scratch`."""
    folder = scratch / source.stem
    folder.mkdir()
    if source.suffix == ".zip":
        archive.unpack(source, folder)
        found = _of_folder(folder, folder, str(source), problem_set=problem_set)
    elif re.fullmatch(NAME, source.stem):
        single_file.lay_out(source, folder)
        found = _of_folder(folder, folder, str(source))
    else:
        raise InputError(
            f"{one_line(str(source), 300)}: the task gets the name of the file, which is not {NAME_WORDS}.",
            hint="Rename the file.",
        )
    faults = tuple(with_source_name(error, str(folder), str(source)) for error in found.faults)
    return replace(found, faults=faults)


@contextmanager
def told_as(folder: str, source: str) -> Iterator[None]:
    """Have the errors of a block name the source in the place of the folder it was unpacked to."""
    try:
        yield
    except DocumentError as error:
        raise with_source_name(error, folder, source) from error
    except BoardError as error:
        error.message = error.message.replace(folder, source)
        raise


def with_source_name(error: DocumentError, folder: str, source: str) -> DocumentError:
    """Return the error with the source's name in the place of the folder it was unpacked to."""
    faults = [Fault(each.path, each.message.replace(folder, source), each.line) for each in error.faults]
    return DocumentError(error.file.replace(folder, source), faults, hint=error.hint)


def _of_folder(folder: Path, root: Path | None, shown: str, depth: int = 0, problem_set: str | None = None) -> Catalog:
    """Read the tasks of a folder, whose files lie in `root`.

    Without one they lie in the folder of the competition that names the task or one beside it, else in the parent of a
    single task's folder.
    """
    try:
        if problem_set is None and (folder / TASK_FILE).is_file():
            return _joint_catalog([task_or_fault(folder, root or competition.root_of(folder.resolve().parent))])
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith((".", _NOT_MEANT)))
        competitions = [each for each in entries if each.suffix in competition.ENDINGS and each.is_file()]
        competitions = [each for each in competitions if competition.is_competition(each)]
        folders = [entry for entry in entries if entry.is_dir()]
        holders = [entry for entry in folders if (entry / TASK_FILE).is_file()]
    except OSError as error:
        raise InputError(
            f"{one_line(shown, 300)} cannot be read: {error.strerror}.", hint="Check the permissions of the folder."
        ) from error
    if problem_set is not None and (competitions or not folders):
        competitions = _competitions_called(problem_set, competitions, shown)
    if competitions:
        found: list[Task | DocumentError] = []
        terms, warnings = dict[str, CompetitionTerms](), list[str]()
        for each in competitions:
            try:
                catalog = competition.read_competition(each)
            except DocumentError as error:
                found.append(error)
            else:
                found += [*catalog.tasks, *catalog.faults]
                terms = {**catalog.competitions, **terms}
                warnings += catalog.warnings
            _check_number(len(found), shown)
        return replace(_joint_catalog(found), competitions=terms, warnings=tuple(warnings))
    if holders and problem_set is None:
        _check_number(len(holders), shown)
        common = root or competition.root_of(folder) or folder
        return _joint_catalog([task_or_fault(each, common) for each in holders])
    inner = [each for each in folders if each.name == _PROBLEMS] or folders
    if problems := [] if problem_set is not None else list(formats.tasks_in(folder)):
        _check_number(len(problems), shown)
        with temporary_folder("hpc-board-task-") as scratch:
            return _laid_out(problems, scratch)
    if len(inner) != 1 or depth == _DEPTH_MAX:
        raise InputError(
            f"{one_line(shown, 300)} contains no task: {TASK_FILE} is missing.",
            hint=f"Use a folder with a {TASK_FILE}, or a zip of one; `hpc-board task new NAME` writes one.",
        )
    return _of_folder(inner[0], root or folder, shown, depth + 1, problem_set)


def _competitions_called(name: str, competitions: list[Path], shown: str) -> list[Path]:
    """Return the competition among `competitions` whose file has this name, with or without its extension.

    Raises:
        InputError: no such competition exists; the message offers the nearest name.
    """
    found = [each for each in competitions if name in (each.stem, each.name)]
    if not found:
        names = [each.stem for each in competitions]
        raise InputError(
            f"{one_line(shown, 300)} contains no competition {one_line(name, 80)}.{suggestion(name, names)}",
            hint=f"It contains: {', '.join(map(one_line, names)) or 'none'}.",
        )
    return found


def _check_number(tasks: int, shown: str) -> None:
    if tasks > competition.TASKS_MAX:
        raise InputError(
            f"{one_line(shown, 300)} contains more than {competition.TASKS_MAX} tasks.",
            hint="Split them into several parts.",
        )


def _joint_catalog(found: Iterable[Task | DocumentError]) -> Catalog:
    """Join the catalogs; of two tasks with one name the first counts."""
    tasks: dict[str, Task] = {}
    faults: list[DocumentError] = []
    for each in found:
        if isinstance(each, DocumentError):
            faults.append(each)
        elif each.name in tasks:
            faults.append(DocumentError(each.name, [Fault("name", "is used by two tasks")], hint="Rename one of them."))
        else:
            tasks[each.name] = each
    return Catalog(tuple(tasks.values()), tuple(faults))
