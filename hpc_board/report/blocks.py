"""The blocks of a report."""

from enum import StrEnum

import msgspec


class Tone(StrEnum):
    """The role of a text; a front end may show it as a color."""

    PLAIN = "plain"
    STRONG = "strong"
    GOOD = "good"
    BAD = "bad"
    QUIET = "quiet"


class Heading(msgspec.Struct, frozen=True):
    """The title of the blocks that follow."""

    text: str


class Paragraph(msgspec.Struct, frozen=True):
    """One or more sentences, wrapped by the front end; newlines stay."""

    text: str
    tone: Tone = Tone.PLAIN


class Column(msgspec.Struct, frozen=True):
    """A column of a table.

    Attributes:
        title: the title.
        right: True for numbers, which are aligned.
        flexible: True if its cells are cut, down to `least` cells, in a table that is too wide.
        least: the least width of a flexible column.
        leaves: the place in the order in which columns are left out of a table that is still too wide; 0 for never.
        toned: True if its cells have the tones of their rows.
        aligned: True if a table without a width pads a flexible column, too, to its longest cell.
        stays: True for a number that a front end may not leave out, however narrow the table is.
        wraps: True if its cells go on in further lines instead of being cut.
    """

    title: str
    right: bool = False
    flexible: bool = False
    least: int = 6
    leaves: int = 0
    toned: bool = False
    aligned: bool = False
    stays: bool = False
    wraps: bool = False


class Table(msgspec.Struct, frozen=True):
    """Rows under titled columns; `empty` is the text of a table without rows, `tones` has one for each row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""
    tones: tuple[Tone, ...] = ()


class Facts(msgspec.Struct, frozen=True):
    """Names with their values, one pair to a line."""

    rows: tuple[tuple[str, str], ...]


class Log(msgspec.Struct, frozen=True):
    """Output of a program, never wrapped. Each sign in `tones` has a tone."""

    title: str
    text: str
    tones: tuple[tuple[str, Tone], ...] = ()


Block = Heading | Paragraph | Table | Facts | Log
