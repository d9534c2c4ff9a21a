"""The blocks of a report."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Tone(StrEnum):
    """The role of a text; a front end may show it as a color.

    A failure is BAD; a result that stands, but is less certain or does not apply everywhere, is UNSURE.
    """

    PLAIN = "plain"
    STRONG = "strong"
    GOOD = "good"
    UNSURE = "unsure"
    BAD = "bad"
    QUIET = "quiet"


class Heading(msgspec.Struct, frozen=True):
    """The title of the blocks that follow."""

    text: str


class Paragraph(msgspec.Struct, frozen=True):
    """One or more sentences, wrapped by the front end; newlines stay.

    The first `toned` characters have the tone, by default all.
    """

    text: str
    tone: Tone = Tone.PLAIN
    toned: int | None = None


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    Attributes:
        title: the title.
        right: True for numbers, which are aligned.
        flexible: True if its cells are cut, down to `least` cells, in a table that is too wide.
        least: the least width of a flexible column.
        leaves: the place in the order in which columns are left out of a table that is still too wide; 0 for never.
        optional: True if `table` leaves it out where all its cells are empty.
        toned: True if its cells have the tones of their rows.
        stays: True for a number that a front end may not leave out, however narrow the table is.
        wraps: True if its cells go on in further lines instead of being cut.
        middle: True if its cells are cut in the middle, as names of C++, whose ends differ.
    """

    title: str
    right: bool = False
    flexible: bool = False
    least: int = 6
    leaves: int = 0
    optional: bool = False
    toned: bool = False
    stays: bool = False
    wraps: bool = False
    middle: bool = False


class Table(msgspec.Struct, frozen=True):
    """Rows under titled columns; `empty` is the text of a table without rows, `tones` has one for each row.

    It may have a `title` above it, and a `note` below it.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""
    tones: tuple[Tone, ...] = ()
    title: str = ""
    note: str = ""


def table(
    values: Sequence[T | None],
    *columns: tuple[Column, Callable[[T], str]] | None,
    empty: str = "",
    tones: tuple[Tone, ...] = (),
    title: str = "",
    note: str = "",
) -> Table:
    """Return a table with a row for each value and a gap for None; each column has the function of its cells."""
    used = [column for column in columns if column is not None]
    gap = ("...", *("" for _ in used[1:]))
    rows = [gap if value is None else tuple(cell(value) for _, cell in used) for value in values]
    kept = [index for index, (column, _) in enumerate(used) if not column.optional or any(row[index] for row in rows)]
    cells = tuple(tuple(row[index] for index in kept) for row in rows)
    return Table(tuple(used[index][0] for index in kept), cells, empty, tones, title, note)


class Facts(msgspec.Struct, frozen=True):
    """Names with their values, one pair to a line."""

    rows: tuple[tuple[str, str], ...]


class Log(msgspec.Struct, frozen=True):
    """Output of a program, never wrapped. `tones` has parts of the text, in their order: begin, end and tone."""

    title: str
    text: str
    tones: tuple[tuple[int, int, Tone], ...] = ()


class Bar(msgspec.Struct, frozen=True):
    """A value as a length: its name, its text, and its share of the longest one; `group` begins a group of bars."""

    name: str
    text: str
    share: float
    tone: Tone = Tone.PLAIN
    group: str = ""


class Bars(msgspec.Struct, frozen=True):
    """Lengths below a title, each with its text; a narrow front end leaves them out, so a table has the texts too."""

    title: str
    rows: tuple[Bar, ...]


Block = Heading | Paragraph | Table | Facts | Log | Bars
