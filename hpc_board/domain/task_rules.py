"""Rules for the values of a task, the same for a task file and for a definition in the database.

The author of a backup can write any definition into a database.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from hpc_board.domain.board_options import YEAR_MAX, YEAR_MIN
from hpc_board.model.names import NAME, NAME_WORDS
from hpc_board.model.task import ISOLATED, OWN, CaseValue, Language, MeansRule, Milestone, Task, TaskFile
from hpc_board.model.text import one_line

FILE_BYTES_MAX = 1_000_000
TASK_BYTES_MAX = 8_000_000
FILES_MAX = 1_000
TIMEOUT_SECONDS_MAX = 86_400

CASE_KEY = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
"""The regular expression of an argument's name in a case."""

MILESTONE_NAME = r"[^\W_][\w .,+/()-]{0,39}"
"""The regular expression of a milestone's name."""

_LIST_DEPTH_MAX = 4
_SHOWN_CHARACTERS = 80


def is_plain_path(name: str) -> bool:
    """Return whether `name` is a path that stays below its folder, on any system."""
    path = PurePosixPath(name)
    if not name.isprintable() or "\\" in name or len(name) > 255 or path.is_absolute():
        return False
    return bool(path.parts) and ".." not in path.parts


def is_plain_name(name: str) -> bool:
    """Return whether `name` is that of a file or folder in one folder, without a way to another one."""
    return "/" not in name and "\0" not in name and name not in ("", ".", "..")


class Layout:
    """The paths of files that can exist together in one folder."""

    def __init__(self) -> None:
        self._files: set[PurePosixPath] = set()
        self._folders: set[PurePosixPath] = set()

    def add(self, name: str) -> bool:
        """Add a file; return False if another file has its path, or is or needs a folder in its place."""
        path = PurePosixPath(name)
        if path in self._files or path in self._folders or not self._files.isdisjoint(path.parents):
            return False
        self._files.add(path)
        self._folders.update(path.parents)
        return True


ARGUMENTS_MAX = 32
"""The maximum number of arguments of a case."""

_ARGUMENT_BYTES_MAX = 1000
"""The maximum length of an argument as text: a case is sent between the harness's processes in one message."""


def case_value(value: Any, depth: int = 0) -> CaseValue:
    """Return a value of a case in the harness's form.

    Raises:
        ValueError: it is of another kind, or out of bounds.
    """
    if not depth and len(str(value).encode(errors="replace")) > _ARGUMENT_BYTES_MAX:
        raise ValueError(f"expected at most {_ARGUMENT_BYTES_MAX:,} bytes")
    match value:
        case bool():
            return value
        case int():
            if not -(2**63) <= value < 2**63:
                raise ValueError("expected a whole number of at most 64 bits")
            return value
        case float():
            if not math.isfinite(value):
                raise ValueError("expected a finite number")
            return value
        case str():
            if "\n" in value or "\t" in value:
                raise ValueError("expected text on one line, without tabs")
            return value
        case list() | tuple() if depth < _LIST_DEPTH_MAX:
            return tuple(case_value(item, depth + 1) for item in value)
    raise ValueError("expected a number, true or false, text, or a list of these")


def task_faults(task: Task) -> Iterator[str]:
    """Yield the faults for which a task file with these values would be refused."""
    if not _is_name(task.name):
        yield f"the name {_shown(task.name)} is not {NAME_WORDS}"
    if task.language not in (Language.PY, Language.CU):
        yield f"the language {task.language} is not py or cu"
    yield from _file_faults(task.files)
    yield from _case_faults("test", task.tests)
    yield from _case_faults("benchmark", task.benchmarks)
    yield from _case_faults("hidden test", task.hidden_tests)
    yield from _case_faults("hidden benchmark", task.hidden_benchmarks)
    timeouts = task.timeouts
    for seconds in (timeouts.test_seconds, timeouts.benchmark_seconds, timeouts.ranked_seconds):
        if not 1 <= seconds <= TIMEOUT_SECONDS_MAX:
            yield f"the timeout {seconds} is not between 1 and {TIMEOUT_SECONDS_MAX} seconds"
    for gpu in task.gpus:
        if not _is_name(gpu):
            yield f"the GPU {_shown(gpu)} is not {NAME_WORDS}"
    if task.deadline is not None and (task.deadline.tzinfo is None or not YEAR_MIN <= task.deadline.year <= YEAR_MAX):
        yield "the deadline has no time zone, or an invalid year"
    if task.adapter and task.text(task.adapter) is None:
        yield f"the adapter {_shown(task.adapter)} is not one of its files"
    if task.limits:
        from hpc_board.model.limits import limit_faults

        yield from limit_faults(task.limits).values()
    if task.flags:
        from hpc_board.model.build_flags import flag_fault

        yield from (f"the flag {_shown(flag)} {fault}" for flag in task.flags if (fault := flag_fault(flag)))
    yield from _milestone_faults(task.milestones)
    yield from _means_faults(task.means)
    if task.harness == OWN:
        from hpc_board.model.eval_program import eval_program

        yield from (f"{key} {message}" for key, message in eval_program(task)[1])
    elif task.harness != ISOLATED:
        yield f"the harness {_shown(task.harness)} is not {ISOLATED} or {OWN}"


def _file_faults(files: Sequence[TaskFile]) -> Iterator[str]:
    if len(files) > FILES_MAX:
        yield f"too many files: {len(files)} (limit {FILES_MAX})"
        return
    layout, total = Layout(), 0
    for file in files:
        if not is_plain_path(file.name):
            yield f'the file name {_shown(file.name)} is not a relative path without ".."'
        elif not layout.add(file.name):
            yield f"duplicate file name {_shown(file.name)}"
        size = len((file.text or "").encode(errors="replace"))
        total += size
        if size > FILE_BYTES_MAX:
            yield f"the file {_shown(file.name)} exceeds the limit of {FILE_BYTES_MAX:,} bytes"
    if total > TASK_BYTES_MAX:
        yield f"its files exceed the limit of {TASK_BYTES_MAX:,} bytes"
    submissions = sum(file.text is None for file in files)
    if submissions != 1:
        yield f"expected one file for the submission, found {submissions}"


def _case_faults(kind: str, cases: Sequence[Mapping[str, CaseValue]]) -> Iterator[str]:
    for index, case in enumerate(cases):
        if len(case) > ARGUMENTS_MAX:
            yield f"the {kind} {index} has {len(case)} arguments (limit {ARGUMENTS_MAX})"
        for key, value in case.items():
            if not re.fullmatch(CASE_KEY, key):
                yield f"the {kind} {index} has the key {_shown(key)}, which is not a valid argument name"
            try:
                case_value(value)
            except ValueError as error:
                yield f"the {kind} {index} has an invalid {_shown(key)}: {error}"


def _milestone_faults(milestones: Sequence[Milestone]) -> Iterator[str]:
    for milestone in milestones:
        if not re.fullmatch(MILESTONE_NAME, milestone.name):
            yield f"the milestone {_shown(milestone.name)} has an invalid name"
        if not is_plain_name(milestone.file_name):
            yield f"the milestone {_shown(milestone.name)} has the file name {_shown(milestone.file_name)}"
        for gpu in milestone.exclude_gpus:
            if not _is_name(gpu):
                yield f"the GPU {_shown(gpu)} of a milestone is not {NAME_WORDS}"


def _means_faults(rule: MeansRule) -> Iterator[str]:
    if names := (*rule.require, *rule.forbid):
        from hpc_board.model.means import KINDS

        yield from (f"the means {_shown(name)} is unknown" for name in names if name not in KINDS)


def _is_name(name: str) -> bool:
    return re.fullmatch(NAME, name) is not None


def _shown(text: str) -> str:
    return f'"{one_line(text, _SHOWN_CHARACTERS)}"'
