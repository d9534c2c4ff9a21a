"""The JSON that scripts read: a Struct for each object, whose fields are its keys, each with its meaning.

Keys are added, never renamed or removed. A text from outside is bounded and free of control characters.
`scripts/json_page.py` makes docs/json.md from the Structs. They lie in `report/`, and not beside the boards, because an
object is a form of a value as a block is: a front end passes values of the domain, and prints.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from hpc_board.model.text import one_line

MESSAGE_CHARACTERS_MAX = 16_384
"""The maximum length of a message."""

LINE_CHARACTERS_MAX = 500
"""The maximum length of a reason or a description, which are one line."""

FACT_CHARACTERS_MAX = 2000
"""The maximum length of a text in the report of a node."""

Moment = Annotated[str, Meta(description="moment")]
"""A time in ISO 8601, UTC, to the second."""

Seconds = Annotated[float, Meta(description="seconds")]
Nanoseconds = Annotated[float, Meta(description="nanoseconds")]


class View(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object of JSON; a field that is `UNSET` is not written."""


ViewT = TypeVar("ViewT", bound=View)

MEANINGS = {
    "at": "its time",
    "between_processes": "true where the bounds hold over processes, and not only within one",
    "boards": "its leaderboards, one for each GPU",
    "build": "the output of the compiler",
    "cluster": "its cluster",
    "emulated": "true where a CPU stood in for the GPU",
    "file_name": "the name of the file",
    "findings": "the faults that the tools of mode sanitize found",
    "gpu": "the name of the GPU",
    "harness": "`isolated`, or `task` for a task that judges by itself",
    "kernels": "its kernels with their numbers, those of each case by the time that they took",
    "message": "the explanation of the verdict",
    "mode": "`test`, `benchmark`, `profile`, `sanitize` or `ranked`",
    "profile": "the text of a profile, or the output of the tools of mode sanitize",
    "reason": "the reason",
    "run": "the number of the run",
    "score_s": "the score",
    "shown": "true where the measurements show a difference",
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
    """Return the object of a value: `others`, and its attributes that have the names of the other keys."""
    keys = (key for key in type_.__struct_fields__ if key not in others)
    return type_(**{key: _plain(getattr(value, key)) for key in keys}, **others)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value, LINE_CHARACTERS_MAX)
    if isinstance(value, datetime):
        return moment_of(value)
    return list(map(_plain, value)) if isinstance(value, tuple) else value


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
