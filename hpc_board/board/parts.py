"""Long lists, read in parts: a service bounds each answer."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_PART_ROWS = 1_000


def in_parts(read: Callable[[int, T | None], Sequence[T]], limit: int | None) -> list[T]:
    """Return the first `limit` rows of a list, or all of them; `read` returns as many rows as asked behind a row."""
    found: list[T] = []
    while True:
        size = _PART_ROWS if limit is None else min(_PART_ROWS, limit - len(found))
        part = read(size, found[-1] if found else None)
        found += part
        if len(part) < size or len(found) == limit:
            return found
