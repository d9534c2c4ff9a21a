"""Blocks as plain text."""

import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from hpc_board.model.text import printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Log, Paragraph, Table, Tone

_GAP = "  "
_COLUMN_MIN = 6
_PADDED_MAX = 48


def _unpainted(text: str, _tone: Tone) -> str:
    return text


def plain(blocks: Iterable[Block], width: int | None = None, paint: Callable[[str, Tone], str] = _unpainted) -> str:
    """Return the blocks as text that ends with a newline, at most `width` columns wide if possible.

    Without a width nothing is wrapped or cut. `paint` may add colour to a text that has its final width. Control
    characters are replaced once more: headings hold foreign names too.
    """
    parts: list[str] = []
    for block in blocks:
        parts += _lines(_printable(block), width, paint)
        if not isinstance(block, Heading):
            parts.append("")
    return "\n".join(parts).rstrip("\n") + "\n"


def _printable(block: Block) -> Block:
    match block:
        case Heading(text):
            return Heading(_line(text))
        case Paragraph(text, tone):
            return Paragraph(_text(text), tone)
        case Table(columns, rows, empty):
            return Table(columns, tuple(tuple(map(_line, row)) for row in rows), _line(empty))
        case Facts(rows):
            return Facts(tuple((_line(name), _text(value)) for name, value in rows))
        case Log(title, text):
            return Log(_line(title), _text(text))


def _text(text: str) -> str:
    return text if text.isascii() and text.isprintable() else printable(text, len(text))


def _line(text: str) -> str:
    return text if text.isascii() and text.isprintable() else " ".join(printable(text, len(text)).splitlines())


def _lines(block: Block, width: int | None, paint: Callable[[str, Tone], str]) -> Iterator[str]:
    match block:
        case Heading(text):
            yield paint(text, Tone.STRONG)
        case Paragraph(text, tone):
            for line in text.splitlines():
                for piece in textwrap.wrap(line, width) if width else [line]:
                    yield paint(piece, tone)
        case Table():
            yield from _table_lines(block, width, paint)
        case Facts(rows):
            longest = max((_cells(name) for name, _ in rows), default=0)
            for name, value in rows:
                yield f"{paint(_padded(name, longest), Tone.QUIET)}{_GAP}{value}"
        case Log(title, text):
            yield paint(f"--- {title} ---", Tone.QUIET)
            yield from text.rstrip("\n").splitlines()


def _table_lines(table: Table, width: int | None, paint: Callable[[str, Tone], str]) -> Iterator[str]:
    if not table.rows:
        if table.empty:
            yield table.empty
        return
    titles = tuple(column.title for column in table.columns)
    widths = _widths(table, width)
    yield paint(_row_line(titles, table.columns, widths, cut=width is not None), Tone.QUIET)
    for row in table.rows:
        yield _row_line(row, table.columns, widths, cut=width is not None)


def _widths(table: Table, width: int | None) -> list[int]:
    """Return the columns' widths; narrow the widest flexible one until the table fits.

    Without a `width`, one long cell does not move all others of its column: it reaches into what follows.
    """
    widths = [
        max(_cells(column.title), *(_cells(row[index]) for row in table.rows))
        for index, column in enumerate(table.columns)
    ]
    if width is None:
        return [
            min(each, _PADDED_MAX) if column.flexible else each
            for each, column in zip(widths, table.columns, strict=True)
        ]
    flexible = [index for index, column in enumerate(table.columns) if column.flexible]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0 and flexible:
        widest = max(flexible, key=widths.__getitem__)
        if widths[widest] <= _COLUMN_MIN:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


def _row_line(row: tuple[str, ...], columns: tuple[Column, ...], widths: list[int], *, cut: bool) -> str:
    cells = (
        _padded(_cut(cell, width) if cut else cell, width, right=column.right)
        for cell, column, width in zip(row, columns, widths, strict=True)
    )
    return _GAP.join(cells).rstrip()


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - _cells(text))
    return space + text if right else text + space


def _cut(text: str, width: int) -> str:
    if _cells(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _cells(character)
        if used > width - 1:
            break
        kept += character
    return kept + "…"


def _cells(text: str) -> int:
    """Return the width of the text in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )
