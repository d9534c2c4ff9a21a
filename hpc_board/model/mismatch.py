"""The details of an output with wrong values."""

import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any

from hpc_board.model.text import one_line
from hpc_board.model.value import Value

PLACES_MAX = 10
"""Number of wrong elements whose values are listed."""

_DIMENSIONS_MAX = 64
_PATTERN_MAX = 300
_NUMBER_MAX = 64


class Cause(str, Enum):
    """The cause of wrong elements that their values prove."""

    NEVER_WRITTEN = "never_written"
    UNINITIALIZED_READ = "uninitialized_read"
    OVERFLOW = "overflow"

    __str__ = str.__str__


class Place(Value):
    """An element of an output: its index, and the two values as text, since JSON has no NaN."""

    index: tuple[int, ...]
    got: str
    expected: str


class Mismatch(Value):
    """The differences between an output, or `part` of it, and the right one, which both have `shape`.

    `wrong` is the number of wrong elements by the check's own tolerance, and `pattern` tells where they are; None and
    "" if the tolerance is unknown. The `places` are the first wrong elements, or those with the largest errors if the
    tolerance is unknown; they and the largest errors are left out if the inputs are secret. An error is None if it is
    not finite. `of_tolerance` is the largest ratio of an error to the check's tolerance, above 1, None if that is
    unknown or 0. `caused` is the number of elements whose values prove the `cause`, if the inputs are public.
    """

    shape: tuple[int, ...]
    elements: int
    wrong: int | None = None
    pattern: str = ""
    largest_absolute: float | None = None
    largest_relative: float | None = None
    places: tuple[Place, ...] = ()
    part: str = ""
    of_tolerance: float | None = None
    cause: Cause | None = None
    caused: int = 0

    @staticmethod
    def of(value: Any, at: str = "mismatch") -> "Mismatch":
        """Return the mismatch in a JSON object of any origin, which messages call `at`.

        Raises:
            ValueError: the object is not a well-formed mismatch.
        """
        found = _fields({**_LATER, **value} if isinstance(value, Mapping) else value, _MISMATCH, at)
        if found["wrong"] is not None:
            found["wrong"] = min(found["wrong"], found["elements"])
        return Mismatch(**found)


_Reader = Callable[[Any, str], Any]


def _fields(value: Any, readers: Mapping[str, _Reader], at: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{at} is not an object")  # noqa: TRY004 - one kind of error for the callers
    if missing := [name for name in readers if name not in value]:
        raise ValueError(f"{at} lacks {missing[0]}")
    return {name: read(value[name], f"{at}.{name}") for name, read in readers.items()}


def _list(value: Any, at: str, *, of: _Reader, limit: int) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or len(value) > limit:
        raise ValueError(f"{at} is not a list of at most {limit} items")
    return tuple(of(item, f"{at}[{index}]") for index, item in enumerate(value))


def _count(value: Any, at: str) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{at} is not a whole number from 0")
    return value


def _error(value: Any, at: str) -> "float | None":
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError(f"{at} is not a finite number from 0")
    return float(value)


def _text(value: Any, at: str, *, limit: int = _NUMBER_MAX) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{at} is not a text")  # noqa: TRY004
    return one_line(value, limit)


def _cause(value: Any, at: str) -> "Cause | None":
    if value not in (None, *Cause):
        raise ValueError(f"{at} is not a known cause")
    return None if value is None else Cause(value)


_index = partial(_list, of=_count, limit=_DIMENSIONS_MAX)
_PLACE: Mapping[str, _Reader] = {"index": _index, "got": _text, "expected": _text}
_MISMATCH: Mapping[str, _Reader] = {
    "shape": _index,
    "elements": _count,
    "wrong": lambda value, at: None if value is None else _count(value, at),
    "pattern": partial(_text, limit=_PATTERN_MAX),
    "largest_absolute": _error,
    "largest_relative": _error,
    "places": partial(_list, of=lambda value, at: Place(**_fields(value, _PLACE, at)), limit=PLACES_MAX),
    "part": _text,
    "of_tolerance": _error,
    "cause": _cause,
    "caused": _count,
}
_LATER: Mapping[str, Any] = {"of_tolerance": None, "cause": None, "caused": 0}
"""The values of fields that older results lack."""
