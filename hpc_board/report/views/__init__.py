"""The JSON that scripts read: a Struct for each object, whose fields are its keys, each with its meaning.

Keys are added, never renamed or removed. A text from outside is bounded and free of control characters.
`scripts/json_page.py` makes docs/json.md from the Structs. They lie in `report/`, and not beside the boards, because an
object is a form of a value as a block is: a front end passes values of the domain, and prints.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from hpc_board.model.text import one_line, printable

MESSAGE_CHARACTERS_MAX = 16_384
"""The maximum length of a message."""

LINE_CHARACTERS_MAX = 500
"""The maximum length of a reason or a description, which are one line."""

FACT_CHARACTERS_MAX = 2000
"""The maximum length of a text in the report of a node."""

Lines = Annotated[str, Meta(description="text", max_length=MESSAGE_CHARACTERS_MAX)]
"""A text of several lines; any other text is made one line."""

Unchanged = Annotated[str, Meta(description="text")]
"""A text whose every character counts."""

Moment = Annotated[str, Meta(description="moment")]
"""A time in ISO 8601, UTC, to the second."""

Seconds = Annotated[float, Meta(description="seconds")]
Nanoseconds = Annotated[float, Meta(description="nanoseconds")]


class View(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of JSON; a field that is `UNSET` is not written.

    `ATTRIBUTES` has the paths of the attributes of a value whose names differ from their keys.
    """

    ATTRIBUTES: ClassVar[Mapping[str, str]] = {}


ViewT = TypeVar("ViewT", bound=View)

MEANINGS = {
    "at": "its time",
    "between_processes": "true if the bounds hold over processes, and not only within one",
    "boards": "its standings, one for each GPU",
    "build": "the output of the compiler",
    "cluster": "its cluster",
    "emulated": "true if a CPU stood in for the GPU",
    "file_name": "the name of the file",
    "findings": "the faults that the tools of mode sanitize found",
    "gpu": "the name of the GPU",
    "harness": "`isolated`, or `task` for a task with its own judge",
    "kernels": "its kernels with their metrics, sorted by time within each case",
    "loops": "the innermost loops of a profiled C++ submission on a CPU, those with the most arithmetic",
    "message": "the explanation of the verdict",
    "mode": "`test`, `benchmark`, `profile`, `sanitize` or `ranked`",
    "profile": "the text of a profile, or the output of the tools of mode sanitize",
    "reason": "the reason",
    "remarks": "the remarks of its compiler on vectorization",
    "run": "the number of the run",
    "score_s": "the score",
    "shown": "true if the measurements show a difference",
    "speedup_high": "its upper bound",
    "speedup_low": "the lower bound of its 95 % confidence interval; `null` without an interval",
    "stderr": "those of its errors",
    "stdout": "the beginning and the end of the kernel's output",
    "submission": "the number of the submission",
    "submitted_at": "the time of the submission",
    "task": "the name of the task",
    "times_s": "the times of the two",
    "user": "the user",
    "version": "its version",
}
"""The meanings of the keys that have none in their Struct."""


def view_of(type_: type[ViewT], value: object, **others: Any) -> ViewT:
    """Return the object of a value: `others`, and the attributes of the value for the other keys.

    Texts are made safe to print, and values become objects, as the types of the keys say; an empty text is None where
    the key may be `null`.
    """
    for key, make in _makers(type_).items():
        if key not in others:
            others[key] = make(_attribute(value, type_.ATTRIBUTES.get(key, key)))
    return type_(**others)


def views_of(type_: type[ViewT], values: Iterable[object]) -> list[ViewT]:
    """Return the objects of values."""
    return [view_of(type_, value) for value in values]


def _attribute(value: Any, path: str) -> Any:
    """Return the attribute at the end of a path; None where one before it is None."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


@cache
def _makers(type_: type[View]) -> dict[str, Callable[[Any], Any]]:
    """Return the functions that make the value of each key from an attribute."""
    hints = get_type_hints(type_, include_extras=True)
    return {key: _maker(hints[key]) for key in type_.__struct_fields__}


def _maker(type_: Any) -> Callable[[Any], Any]:
    members = get_args(type_)
    if NoneType in members:
        made = _maker(members[0])
        return lambda value: None if value in (None, "") else made(value)
    if type_ == Lines:
        return partial(printable, limit=MESSAGE_CHARACTERS_MAX)
    if type_ == Moment:
        return moment_of
    if get_origin(type_) is list:
        made = _maker(members[0])
        return lambda value: list(map(made, value))
    if get_origin(type_) is dict:
        return lambda value: safe(_items_of(value))
    if type_ is str:
        return lambda value: one_line(str(value), LINE_CHARACTERS_MAX)
    return partial(view_of, type_) if isinstance(type_, type) and issubclass(type_, View) else lambda value: value


def _items_of(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping | tuple):
        return dict(value)
    from dataclasses import asdict

    return asdict(value)


def moment_of(at: datetime) -> Moment:
    """Return a time in ISO 8601, UTC, to the second."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment(at: datetime | None) -> Moment | None:
    """Return a time as `moment_of` does; None without one."""
    return None if at is None else moment_of(at)


def safe(value: Any) -> Any:
    """Return a value from a node with all its texts bounded and printable."""
    if isinstance(value, str):
        return one_line(value, FACT_CHARACTERS_MAX)
    if isinstance(value, dict):
        return {one_line(str(key)): safe(each) for key, each in value.items()}
    return [safe(each) for each in value] if isinstance(value, list | tuple) else value
