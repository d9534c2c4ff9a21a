"""The parts of the tables of columns: a column, its place in reports and the app, and the order of all columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from hpc_board.report.blocks import Column, Table, Tone

_GAP = "..."


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
LineT = TypeVar("LineT")
ListedT = TypeVar("ListedT")


class TableColumn(msgspec.Struct, Generic[LineT, ListedT], frozen=True):
    """A column of a table of lines.

    Attributes:
        key: the name of the column.
        title: the title; reports print it in capitals.
        text: the text of a cell, safe to print.
        right: True for numbers, which are aligned right.
        flexible: True if a table that is too wide may cut its cells, down to `least` cells.
        least: the least width of a flexible column.
        leaves: the place in the order in which columns are left out of a table that is still too wide; 0 for never.
        toned: True if its cells have the tones of their lines.
        optional: True if the column is omitted when all its cells are empty.
        in_report: True if the command line shows it.
        listed: its place in the app, if any.
    """

    key: str
    title: str = ""
    text: Callable[[LineT], str] = lambda _: ""
    right: bool = False
    flexible: bool = False
    least: int = 6
    leaves: int = 0
    toned: bool = False
    optional: bool = False
    in_report: bool = True
    listed: ListedT | None = None

    def in_use(self, lines: Iterable[LineT]) -> bool:
        """Return False for an optional column without a text in any of the lines."""
        return not self.optional or any(map(self.text, lines))


def ordered(columns: Iterable[T], order: Sequence[str]) -> tuple[T, ...]:
    """Return the columns in this order of their keys, the others behind them as the table has them."""
    return tuple(sorted(columns, key=lambda column: order.index(column.key) if column.key in order else len(order)))


def reported(
    columns: Iterable[TableColumn[LineT, ListedT]], order: Sequence[str]
) -> tuple[TableColumn[LineT, ListedT], ...]:
    """Return the columns of reports in this order of their keys."""
    return ordered((column for column in columns if column.in_report), order)


def listed_with_places(
    columns: Iterable[TableColumn[LineT, ListedT]], order: Sequence[str]
) -> tuple[tuple[TableColumn[LineT, ListedT], ListedT], ...]:
    """Return the columns of the app in this order of their keys, with their places."""
    return tuple((column, column.listed) for column in ordered(columns, order) if column.listed is not None)


def columns_table(
    columns: Iterable[TableColumn[LineT, Any]],
    lines: Sequence[LineT | None],
    titles: Mapping[str, str] | None = None,
    *,
    ages: bool = False,
    empty: str = "",
    tones: tuple[Tone, ...] = (),
) -> Table:
    """Return the lines under the columns that have something; None is a gap.

    `titles` replaces titles by the keys of their columns. With `ages`, the cells of `submitted` are ages.
    """
    shown = [line for line in lines if line is not None]
    used = [column for column in columns if column.in_use(shown)]
    renamed = {**(titles or {}), **({"submitted": "Age"} if ages else {})}
    return Table(
        tuple(
            Column(
                renamed.get(column.key, column.title).upper(),
                column.right or (ages and column.key == "submitted"),
                column.flexible,
                column.least,
                column.leaves,
                column.toned,
            )
            for column in used
        ),
        tuple(
            (_GAP, *("" for _ in used[1:])) if line is None else tuple(column.text(line) for column in used)
            for line in lines
        ),
        empty,
        tones,
    )
