"""Long lists, read in parts: a service bounds each answer."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_PART_ROWS = 1_000


def in_parts(read: Callable[[int, list[T]], Sequence[T]], limit: int | None) -> list[T]:
    """Return the first `limit` rows of a list, or all of them; `read` returns a number of rows behind those found."""
    found: list[T] = []
    while True:
        size = _PART_ROWS if limit is None else min(_PART_ROWS, limit - len(found))
        part = read(size, found)
        found += part
        if len(part) < size or len(found) == limit:
            return found
