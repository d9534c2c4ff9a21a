"""Leaderboards that users created: their history, and planned changes of them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from hpc_board.domain.board_options import (
    UNCHANGED,
    BoardOptions,
    RequestedOptions,
    extension_words,
    late_words,
    moment_words,
)
from hpc_board.model.task import CaseValue, Task, Timeouts
from hpc_board.model.text import one_line

_TERMS = (
    *("deadline", "gpus", "visibility", "members", "code_shown", "maintainers", "competition"),
    *("extensions", "late_seconds", "freeze_at", "anonymous", "teams"),
)
_NOT_LISTED = (
    *("members", "code shown", "maintainers", "competition"),
    *("extensions", "late", "freeze", "anonymous", "teams"),
)
_NOT_COMPARED = ("name", "deadline", "gpus", "warnings", "published_version")
_SHOWN_CHARACTERS = 120


class Action(StrEnum):
    """The kind of a change of a leaderboard."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class BoardChange(msgspec.Struct, frozen=True):
    """One change of a board; `task_version` is None for a deletion."""

    id: int
    name: str
    action: Action
    task_version: str | None
    options: BoardOptions = msgspec.field(name="terms")
    by_user: str
    at: datetime
    reason: str = ""


class CreatedBoard(msgspec.Struct, frozen=True):
    """A leaderboard that a user created: its newest change, and its task with the board's name, deadline and GPUs."""

    change: BoardChange
    task: Task

    @property
    def name(self) -> str:
        """Return the leaderboard's name, which is its task's."""
        return self.change.name

    @property
    def options(self) -> BoardOptions:
        """Return the leaderboard's options."""
        return self.change.options


class Entries(msgspec.Struct, frozen=True):
    """The number of users with a passing ranked run for one version of a task on a GPU."""

    gpu: str
    users: int


class Difference(msgspec.Struct, frozen=True):
    """One difference of a change; `restarts` is True if earlier times are no longer comparable."""

    what: str
    before: str
    after: str
    restarts: bool = False


class Plan(msgspec.Struct, frozen=True):
    """A planned change of a leaderboard; `before` is its present state.

    `left` and `joined` are the standings of the old and the new task version. `shadows` is True if the
    leaderboard replaces a task of the settings' folders with its name, `shows_names` if it ends the pseudonyms of a
    deleted one. `unfit_gpus` is a sentence about named GPUs that run none of the task's languages, "" without any.
    """

    name: str
    action: Action
    options: BoardOptions = msgspec.field(name="terms")
    task: Task | None = None
    before: CreatedBoard | None = None
    differences: tuple[Difference, ...] = ()
    left: tuple[Entries, ...] = ()
    joined: tuple[Entries, ...] = ()
    after_change: int = 0
    shadows: bool = False
    shows_names: bool = False
    unfit_gpus: str = ""

    @property
    def reset_by(self) -> tuple[str, ...]:
        """Return the parts of the task that start new standings, none if the present ones stay."""
        return tuple(each.what for each in self.differences if each.restarts)

    @property
    def needs_force(self) -> bool:
        """Return whether a user would lose a rank."""
        return self.action is Action.UPDATE and bool(self.left)


class Synced(msgspec.Struct, frozen=True):
    """The outcome of one task of a competition: `result` is created, updated, unchanged, skipped or error."""

    name: str
    result: str
    reason: str = ""
    plan: Plan | None = None

    @property
    def stored(self) -> bool:
        """Return whether the plan changes the database."""
        return self.plan is not None and self.result in ("created", "updated")


class PackedSource(msgspec.Struct, frozen=True):
    """The source of tasks as one file: a zip, a competition or a reference, with its name.

    `format` is the format to import from, in place of the one that the contents suggest.
    """

    file_name: str
    data: bytes
    format: str | None = None


class BoardRequest(msgspec.Struct, frozen=True, tag=True):
    """A request for plans: to create leaderboards, or to change the one called `name` with `update`.

    `source` is a packed one, the name of an existing task, or a path, which a service does not read; an update may have
    none. A creation with a `name` has one task.
    """

    source: PackedSource | str | None = None
    name: str | None = None
    options: RequestedOptions = UNCHANGED
    update: bool = False


class SyncRequest(msgspec.Struct, frozen=True, tag=True):
    """A request to make the leaderboards those of a competition; `problem_set` is its name in a `source` of several.

    A deadline in `options` wins over those of the competition. `force` also resets standings with ranks.
    """

    source: PackedSource | str
    problem_set: str | None = None
    options: RequestedOptions = UNCHANGED
    force: bool = False


def differences(before: Task, after: Task, old: BoardOptions, new: BoardOptions) -> tuple[Difference, ...]:
    """Return the differences between a leaderboard's present and its new task and options."""
    return (*_of_tasks(before, after), *_of_terms(old, new))


def loss(name: str, reset_by: Sequence[str], left: Sequence[Entries]) -> str:
    """Describe the loss of ranks on a board whose standings are `reset_by` parts of the task, with users in `left`."""
    who = ", ".join(f"{each.gpu}: {each.users}" for each in left)
    return f"the standings of {name} would be reset ({', '.join(reset_by)}), and they contain users ({who})."


def change_summary(change: BoardChange, before: BoardChange | None) -> str:
    """Summarize an update against the change `before` it; return "" for other changes.

    An option that listings do not show is given with its new value.
    """
    if change.action is not Action.UPDATE or before is None:
        return ""
    told = [
        f"{each.what}: {each.after}" if each.what in _NOT_LISTED else each.what
        for each in _of_terms(before.options, change.options)
    ]
    if change.task_version != before.task_version:
        told.insert(0, "task, standings reset")
    return "; ".join(told) or "task, standings kept"


def _of_tasks(before: Task, after: Task) -> Iterator[Difference]:
    from dataclasses import fields, replace

    for field in fields(Task):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if field.name in _NOT_COMPARED:
            continue
        # Equal numbers, as 10, 10.0 and True can be, have different versions.
        restarts = replace(before, **{field.name: new}).version != before.version
        if restarts or _plain(old) != _plain(new):
            yield Difference(field.name.replace("_", " "), *_shown(field.name, old, new), restarts)


def _of_terms(old: BoardOptions, new: BoardOptions) -> Iterator[Difference]:
    for name in _TERMS:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            word = name.removesuffix("_seconds").removesuffix("_at").replace("_", " ")
            yield Difference(word, _term(name, before), _term(name, after))


def _term(name: str, value: Any) -> str:
    if name in ("deadline", "freeze_at"):
        return moment_words(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "late_seconds":
        return late_words(value)
    if name == "extensions":
        return ", ".join(extension_words(each) for each in value) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(one_line, value)) or ("all" if name == "gpus" else "none")
    return "none" if value is None else one_line(str(value).replace("_", " "), _SHOWN_CHARACTERS)


def _shown(name: str, old: Any, new: Any) -> tuple[str, str]:
    """Return short texts of the two values."""
    if name == "files":
        return _files({file.name: file.text for file in old}, {file.name: file.text for file in new})
    if name == "templates":
        return _files(old, new)
    if name in ("tests", "benchmarks"):
        return _cases(old), _cases(new)
    if name in ("hidden_tests", "hidden_benchmarks"):
        return str(len(old)), f"{len(new)}, changed"
    if name == "description":
        return f"{len(old)} characters", f"{len(new)} characters"
    if isinstance(old, Timeouts):
        return _seconds(old), _seconds(new)
    return _words(old), _words(new)


def _files(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the files that differ; a dash for a side without any."""
    changed = [name for name in {**old, **new} if old.get(name, ...) != new.get(name, ...)]
    sides = ([one_line(name) for name in changed if name in side] for side in (old, new))
    before, after = (one_line(", ".join(names), _SHOWN_CHARACTERS) or "-" for names in sides)
    return before, f"{after}, changed" if set(changed) & set(old) & set(new) else after


def _cases(cases: tuple[Mapping[str, CaseValue], ...]) -> str:
    texts = "; ".join(", ".join(f"{key}={value}" for key, value in case.items()) for case in cases)
    return one_line(f"{len(cases)}: {texts}", _SHOWN_CHARACTERS)


def _seconds(timeouts: Timeouts) -> str:
    return f"{timeouts.test_seconds}, {timeouts.benchmark_seconds} and {timeouts.ranked_seconds} s"


def _words(value: Any) -> str:
    from dataclasses import is_dataclass

    if isinstance(value, Mapping):
        value = dict(value)
    elif isinstance(value, tuple):
        value = ", ".join(str(getattr(item, "name", item) if is_dataclass(item) else item) for item in value)
    return one_line(str(value), _SHOWN_CHARACTERS) or "none"


def _plain(value: Any) -> Any:
    """Return a value in its form after a round trip through the database, where tuples become lists."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value
