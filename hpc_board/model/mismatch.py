"""The details of an output with wrong values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hpc_board.model.text import one_line
from hpc_board.model.value import Value

PLACES_MAX = 10
"""Number of wrong elements whose values are listed."""

_DIMENSIONS_MAX = 64
_PATTERN_MAX = 300
_NUMBER_MAX = 64


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
    not finite.
    """

    shape: tuple[int, ...]
    elements: int
    wrong: int | None = None
    pattern: str = ""
    largest_absolute: float | None = None
    largest_relative: float | None = None
    places: tuple[Place, ...] = ()
    part: str = ""

    @staticmethod
    def of(value: Any) -> "Mismatch":
        """Return the mismatch in a JSON object of any origin.

        Raises:
            ValueError: the object is no well-formed mismatch.
        """
        if not isinstance(value, Mapping):
            raise ValueError("a mismatch is not an object")  # noqa: TRY004 - one kind of error for the callers
        try:
            elements, wrong = _count(value["elements"]), value["wrong"]
            return Mismatch(
                shape=_index(value["shape"]),
                elements=elements,
                wrong=None if wrong is None else min(_count(wrong), elements),
                pattern=_text(value["pattern"], _PATTERN_MAX),
                largest_absolute=_error(value["largest_absolute"]),
                largest_relative=_error(value["largest_relative"]),
                places=tuple(map(_place, _items(value["places"], PLACES_MAX))),
                part=_text(value["part"], _NUMBER_MAX),
            )
        except KeyError as error:
            raise ValueError(f"a mismatch lacks {error}") from None


def _place(value: Any) -> Place:
    if not isinstance(value, Mapping):
        raise ValueError("a place is not an object")  # noqa: TRY004
    return Place(_index(value["index"]), _text(value["got"], _NUMBER_MAX), _text(value["expected"], _NUMBER_MAX))


def _items(value: Any, limit: int) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)) or len(value) > limit:
        raise ValueError(f"not a list of at most {limit} items")
    return value


def _index(value: Any) -> tuple[int, ...]:
    return tuple(map(_count, _items(value, _DIMENSIONS_MAX)))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a whole number from 0")
    return value


def _error(value: Any) -> "float | None":
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise ValueError("not a finite number from 0")
    return float(value)


def _text(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")  # noqa: TRY004
    return one_line(value, limit)
