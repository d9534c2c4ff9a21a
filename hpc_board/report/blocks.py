"""The blocks of a report."""

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """The role of a text; a front end may show it as a color."""

    PLAIN = "plain"
    STRONG = "strong"
    GOOD = "good"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(frozen=True)
class Heading:
    """The title of the blocks that follow."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """One or more sentences, wrapped by the front end; newlines stay."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Column:
    """A column of a table; a `flexible` one is cut if the table is too wide."""

    title: str
    right: bool = False
    flexible: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under titled columns; `empty` is the text of a table without rows."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""


@dataclass(frozen=True)
class Facts:
    """Names with their values, one pair to a line."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Log:
    """Output of a program, never wrapped."""

    title: str
    text: str


Block = Heading | Paragraph | Table | Facts | Log
