"""The parts of the tables of columns: their places in the app, their keys in JSON, and their order."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec


class Width(msgspec.Struct, frozen=True):
    """The cells of a column in the app, left out below `from_width` cells for the whole list.

    With `most`, the column is as wide as its longest cell, between `cells` and `most`.
    """

    cells: int
    grows: bool = False
    from_width: int = 0
    most: int = 0


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


T = TypeVar("T", bound=_Keyed)


def ordered(columns: Iterable[T], order: Sequence[str]) -> tuple[T, ...]:
    """Return the columns in this order of their keys, the others behind them as the table has them."""
    return tuple(sorted(columns, key=lambda column: order.index(column.key) if column.key in order else len(order)))
