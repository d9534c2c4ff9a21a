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
    """A column of a table; a `flexible` one is cut if the table is too wide."""

    title: str
    right: bool = False
    flexible: bool = False


class Table(msgspec.Struct, frozen=True):
    """Rows under titled columns; `empty` is the text of a table without rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""


class Facts(msgspec.Struct, frozen=True):
    """Names with their values, one pair to a line."""

    rows: tuple[tuple[str, str], ...]


class Log(msgspec.Struct, frozen=True):
    """Output of a program, never wrapped."""

    title: str
    text: str


Block = Heading | Paragraph | Table | Facts | Log
