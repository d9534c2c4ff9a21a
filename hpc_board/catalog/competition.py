"""Competitions: a YAML document in KernelBot's form that names problems, each in a folder beside it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from hpc_board.catalog.folders import TASK_FILE, Name, deadline, task_or_fault
from hpc_board.domain.board_options import CompetitionTerms
from hpc_board.domain.catalog import Catalog
from hpc_board.domain.grading import scoring
from hpc_board.errors import DocumentError, InputError
from hpc_board.files import is_file, read_text
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import DOCUMENT_BYTES_MAX

ENDINGS = (".yaml", ".yml")
"""The extensions of a competition's file."""

TASKS_MAX = 200
"""The maximum number of tasks from one source: each may hold megabytes."""

_ABOVE_MAX = 4
_FILES_MAX = 64
"""The most folders above a task that are searched for its competition, and the most files in each."""

_HINT = "Correct these lines of the competition."
_PROBLEMS = re.compile(r"^[\"']?problems[\"']?\s*:", re.MULTILINE)
_STAND_INS: dict[str, Any] = {"problems": []}


class ProblemEntry(msgspec.Struct, frozen=True):
    """One of `problems:`; keys that are not known are ignored with a warning."""

    directory: str
    """The task's folder, relative to that of the competition."""
    name: Name
    """The name of the task in this competition."""
    deadline: str | None = None
    """The last moment to submit; else the competition's."""
    gpus: list[Name] = []
    """The GPUs that the task may run on; else those of its `task.yml`."""


class CompetitionDocument(msgspec.Struct, frozen=True):
    """A whole competition; keys that are not known are ignored with a warning."""

    problems: list[ProblemEntry]
    """The tasks."""
    name: str = ""
    """The title of the competition."""
    description: str = ""
    """The description of the competition."""
    deadline: str | None = None
    """The last moment to submit for problems that name none."""
    score: str = ""
    """The score of the overall standings: `points`, `geomean`, `sum` or `fast_P`; a key of hpc-board's own."""
    points: str | dict[str, float] = ""
    """The points of a task's result, by speedup or rank: `"1x: 50, 2x: 80"` or a mapping; a key of hpc-board's own."""


def is_competition(path: Path) -> bool:
    """Return whether a file looks like a competition, even with faults."""
    try:
        return _PROBLEMS.search(read_text(path, DOCUMENT_BYTES_MAX)) is not None
    except InputError:
        return False


def root_of(folder: Path) -> Path | None:
    """Return the nearest folder above `folder` with a competition that names a folder in it, else None.

    Problems of one competition share files, and these lie in the competition's folder.
    """
    real = folder.resolve()
    for above in real.parents[:_ABOVE_MAX]:
        try:
            files = sorted(each for each in above.iterdir() if each.suffix in ENDINGS and each.is_file())
        except OSError:
            return None
        for file in files[:_FILES_MAX]:
            if is_competition(file) and any(_lies_in(above / each, real) for each in directories(file)):
                return above
    return None


def directories(path: Path) -> list[str]:
    """Return the folders that a competition names; none if it has faults."""
    try:
        document = Document.read(path, hint=_HINT)
        section = document.value(CompetitionDocument, _STAND_INS)
    except InputError:
        return []
    return [problem.directory for problem in section.problems[:TASKS_MAX]]


def read_competition(path: Path) -> Catalog:
    """Read the tasks of the competition at `path`, with its names, deadlines and GPUs.

    Their files lie in the competition's folder. A problem with faults does not hide the others.

    Raises:
        InputError: the file cannot be read, is not YAML, or has faults in its rules, which concern all tasks.
    """
    document = Document.read(path, hint=_HINT)
    section = document.value(CompetitionDocument, _STAND_INS)
    terms = _terms(path, document, section)
    until = deadline(document, ("deadline",), section.deadline)
    root = path.resolve().parent
    found: dict[str, Task] = {}
    faults: list[DocumentError] = []
    if len(section.problems) > TASKS_MAX:
        document.fault(("problems",), f"expected at most {TASKS_MAX} problems, found {len(section.problems):,}")
    for index, problem in enumerate(section.problems[:TASKS_MAX]):
        place = ("problems", index)
        own_until = deadline(document, (*place, "deadline"), problem.deadline) or until
        folder = root / problem.directory
        if problem.name in found:
            document.fault((*place, "name"), f'duplicate name "{problem.name}"')
        elif not _lies_in(folder, root):
            document.fault((*place, "directory"), f'"{one_line(problem.directory)}" is outside {root}')
        elif not is_file(folder / TASK_FILE):
            document.fault((*place, "directory"), f'"{one_line(problem.directory)}" has no {TASK_FILE} in it')
        else:
            task = task_or_fault(folder, root)
            if isinstance(task, DocumentError):
                faults.append(task)
            else:
                changes: dict[str, Any] = {"gpus": tuple(problem.gpus)} if problem.gpus else {}
                changes |= {"deadline": own_until} if own_until else {}
                found[problem.name] = replace(task, name=problem.name, **changes)
    try:
        document.check()
    except DocumentError as error:
        faults.insert(0, error)
    warnings = tuple(f"{path.name}: {warning}" for warning in document.warnings)
    return Catalog(tuple(found.values()), tuple(faults), competitions=dict.fromkeys(found, terms), warnings=warnings)


def _terms(path: Path, document: Document, section: CompetitionDocument) -> CompetitionTerms:
    """Return the name and the rules of a competition.

    Raises:
        DocumentError: the rules have faults.
    """
    points = section.points
    if not isinstance(points, str):
        points = ", ".join(f"{key}: {value:g}" for key, value in points.items())
    for key, given in (("points", ("", points)), ("score", (section.score, points))):
        try:
            scoring(*given)
        except InputError as error:
            document.fault((key,), f"{error.message} {error.hint}")
    if any(fault.path.startswith(("points", "score")) for fault in document.faults):
        document.check()
    return CompetitionTerms(path.stem, one_line(section.name, 200), section.score, points)


def _lies_in(folder: Path, root: Path) -> bool:
    try:
        return folder.resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        return False
