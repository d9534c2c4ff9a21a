"""The blocks that a report is made of."""

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """What a text is to its reader; a front end may show it as a colour, and must not need one."""

    PLAIN = "plain"
    STRONG = "strong"
    GOOD = "good"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True)
class Heading:
    """The line that names what follows."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """One or more sentences, to be wrapped; a newline in it stays."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Column:
    """A column of a table; a `flexible` one may be cut where the table is too wide."""

    title: str
    right: bool = False
    flexible: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under titled columns; `empty` is what to say where there are no rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""


@dataclass(frozen=True)
class Facts:
    """Names with their values, one pair to a line."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Log:
    """What a program printed, line by line, never wrapped."""

    title: str
    text: str


Block = Heading | Paragraph | Table | Facts | Log
