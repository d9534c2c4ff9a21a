"""Blocks as plain text."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from hpc_board.model.text import printable
from hpc_board.report.blocks import Bars, Block, Column, Facts, Heading, Log, Paragraph, Table, Tone

_EIGHTHS = "▏▎▍▌▋▊▉"
_GAP = "  "
BARS_FROM = 100
"""The columns of a terminal from which on bars are drawn."""

_GROUP_MAX = 32
_PADDED_MAX = 48
_WRAPPED_MIN = 20
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|[nµm]?s|[KMGT]iB)(?!\w))")
"""The space between a number and its unit, at which no line is broken."""

_HARD_SPACE = "\N{NO-BREAK SPACE}"


def _unpainted(text: str, _tone: Tone) -> str:
    return text


def plain(blocks: Iterable[Block], width: int | None = None, paint: Callable[[str, Tone], str] = _unpainted) -> str:
    """Return the blocks as text that ends with a newline, at most `width` columns wide if possible.

    Without a width nothing is wrapped or cut. `paint` may add colour to a text that has its final width. Control
    characters are replaced once more: headings hold foreign names too.
    """
    parts: list[str] = []
    for block in blocks:
        lines = list(_lines(_printable(block), width, paint))
        parts += lines
        if lines and not isinstance(block, Heading):
            parts.append("")
    return "\n".join(parts).rstrip("\n") + "\n"


def _printable(block: Block) -> Block:
    match block:
        case Heading(text):
            return Heading(_line(text))
        case Paragraph(text):
            return replace(block, text=_text(text))
        case Table(_, rows, empty, _, title, note):
            cells = tuple(tuple(map(_line, row)) for row in rows)
            return replace(block, rows=cells, empty=_line(empty), title=_line(title), note=_text(note))
        case Facts(rows):
            return Facts(tuple((_line(name), _text(value)) for name, value in rows))
        case Log(title, text, tones):
            return Log(_line(title), _text(text), tones)
        case Bars(title, rows):
            return Bars(_line(title), tuple(replace(row, name=_line(row.name), group=_line(row.group)) for row in rows))


def _text(text: str) -> str:
    return text if text.isascii() and text.isprintable() else printable(text, len(text))


def _line(text: str) -> str:
    return text if text.isascii() and text.isprintable() else " ".join(printable(text, len(text)).splitlines())


def _lines(block: Block, width: int | None, paint: Callable[[str, Tone], str]) -> Iterator[str]:
    match block:
        case Heading(text):
            yield paint(text, Tone.STRONG)
        case Paragraph():
            for toned, rest in paragraph_lines(block, width):
                yield (paint(toned, block.tone) if toned else "") + rest
        case Table():
            yield from _table_lines(block, width, paint)
        case Facts(rows):
            longest = max((cells(name) for name, _ in rows), default=0)
            for name, value in rows:
                first, *others = _wrapped(value, _beside(longest, width))
                yield f"{paint(_padded(name, longest), Tone.QUIET)}{_GAP}{first}".rstrip()
                yield from (f"{' ' * (longest + len(_GAP))}{line}" for line in others)
        case Log(title, text, tones):
            if title:
                yield paint(f"--- {title} ---", Tone.QUIET)
            parts, done = [], 0
            for begin, end, tone in tones:
                parts += [text[done:begin], paint(text[begin:end], tone)]
                done = end
            yield from "".join([*parts, text[done:]]).rstrip("\n").splitlines()
        case Bars():
            if width is not None and width >= BARS_FROM:
                yield from (paint(line, tone) for line, tone in bar_lines(block, width))


def bar_lines(bars: Bars, width: int) -> Iterator[tuple[str, Tone]]:
    """Yield the title and the lines of bars in `width` columns, with their tones."""
    texts = [(cut(row.group, _GROUP_MAX), row.name, row.text) for row in bars.rows]
    widths = [max(map(cells, column)) for column in zip(*texts, strict=True)]
    room = width - sum(widths) - 3 * len(_GAP)
    yield bars.title, Tone.STRONG
    for row, (group, name, text) in zip(bars.rows, texts, strict=True):
        head = _GAP.join((_padded(group, widths[0]), _padded(name, widths[1]), f"{text:>{widths[2]}}"))
        yield f"{head}{_GAP}{bar(row.share, room)}", row.tone


def bar(share: float, cells: int) -> str:
    """Return a share of `cells` as a bar, of an eighth of a cell at least."""
    eighths = max(1, round(8 * cells * min(1.0, share)))
    return "█" * (eighths // 8) + _EIGHTHS[: eighths % 8][-1:]


def _beside(used: int, width: int | None) -> int | None:
    """Return the columns for a value beside a name; None, which wraps nothing, if they are too few."""
    left = None if width is None else width - used - len(_GAP)
    return None if left is None or left < _WRAPPED_MIN else left


def paragraph_lines(paragraph: Paragraph, width: int | None, *, break_words: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the lines of a paragraph, each as the part that has its tone and the rest."""
    left = len(paragraph.text) if paragraph.toned is None else paragraph.toned
    for line in _wrapped(paragraph.text, width, break_words=break_words):
        yield line[:left], line[left:]
        left = max(0, left - len(line) - 1)


def _wrapped(text: str, width: int | None, *, break_words: bool = False) -> list[str]:
    """Return the lines of a text, broken at spaces but before a unit.

    A word that is too long, such as a path, stays whole unless `break_words`.
    """
    if width is None:
        return text.splitlines() or [""]
    return [
        piece.replace(_HARD_SPACE, " ")
        for line in text.splitlines() or [""]
        for piece in textwrap.wrap(
            _BEFORE_UNIT.sub(_HARD_SPACE, line), width, break_long_words=break_words, break_on_hyphens=False
        )
        or [""]
    ]


def _table_lines(table: Table, width: int | None, paint: Callable[[str, Tone], str]) -> Iterator[str]:
    if not table.rows:
        if table.empty:
            yield table.empty
        return
    if table.title:
        yield paint(table.title, Tone.STRONG)
    is_cut = width is not None
    kept, widths = _fit(table, width)
    columns = [table.columns[index] for index in kept]
    if any(column.title for column in columns):
        yield paint(_row_line([column.title for column in columns], columns, widths, is_cut=is_cut), Tone.QUIET)
    for row, tone in zip_longest(table.rows, table.tones, fillvalue=Tone.PLAIN):
        shown = [row[index] for index in kept]
        for line in _row_lines(shown, columns, widths) if is_cut else [shown]:
            yield _row_line(line, columns, widths, is_cut=is_cut, paint=paint, tone=tone)
    if table.note:
        yield from ("", *(paint(line, Tone.QUIET) for line in _wrapped(table.note, width)))


def _row_lines(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> Iterable[Sequence[str]]:
    """Return the cells of each line of a row; only columns that wrap have more than one."""
    parts = [
        _wrapped(cell, width, break_words=True) if column.wraps and cell else [cell]
        for cell, column, width in zip(row, columns, widths, strict=True)
    ]
    return zip_longest(*parts, fillvalue="")


def _fit(table: Table, width: int | None) -> tuple[list[int], list[int]]:
    """Return the indexes of the columns that are shown, and their widths.

    A table that is too wide with its least widths loses columns that leave. Then the widest flexible column is narrowed
    until the table fits, and at last any. Without a `width`, one long cell that does not wrap reaches into the next
    columns, and moves no others of its own.
    """
    columns, kept = table.columns, list(range(len(table.columns)))
    full = [max(cells(columns[index].title), *(cells(row[index]) for row in table.rows)) for index in kept]
    if width is None:
        reaching = [column.flexible and not column.wraps for column in columns]
        return kept, [min(each, _PADDED_MAX) if reaches else each for each, reaches in zip(full, reaching, strict=True)]
    least = [min(each, column.least) if column.flexible else each for each, column in zip(full, columns, strict=True)]
    leaving = sorted((index for index in kept if columns[index].leaves), key=lambda index: columns[index].leaves)
    kept = fitting(least, leaving, width)
    widths = [full[index] for index in kept]
    excess = sum(widths) + len(_GAP) * (len(kept) - 1) - width
    narrow(widths, [1] * len(kept), narrow(widths, [least[index] for index in kept], excess))
    return kept, widths


def fitting(widths: Sequence[int], leaving: Iterable[int], room: int, gap: int = len(_GAP)) -> list[int]:
    """Return the indexes of the columns with these widths that a table shows in `room` cells.

    As long as it is too wide, it loses the columns that are `leaving`, in their order, but for those that fit at last.
    """
    gone: list[int] = []

    def fits(gone: Sequence[int]) -> bool:
        kept = [width for index, width in enumerate(widths) if index not in gone]
        return sum(kept) + gap * (len(kept) - 1) <= room

    for index in leaving:
        if fits(gone):
            break
        gone.append(index)
    for index in gone[::-1]:
        if fits(others := [each for each in gone if each != index]):
            gone = others
    return [index for index in range(len(widths)) if index not in gone]


def narrow(widths: list[int], least: Sequence[int], excess: int) -> int:
    """Narrow the widest column by a cell at a time, none below its `least`, and return the excess that is left."""
    while excess > 0:
        wider = [index for index, each in enumerate(widths) if each > least[index]]
        if not wider:
            break
        widths[max(wider, key=widths.__getitem__)] -= 1
        excess -= 1
    return excess


def _row_line(
    row: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    *,
    is_cut: bool,
    paint: Callable[[str, Tone], str] = _unpainted,
    tone: Tone = Tone.PLAIN,
) -> str:
    parts = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        shown = cut(cell, width, middle=column.middle) if is_cut else cell
        space = " " * (width - cells(shown))
        painted = paint(shown, tone) if column.toned and tone is not Tone.PLAIN else shown
        parts.append(f"{space}{painted}" if column.right else f"{painted}{space}")
    return _GAP.join(parts).rstrip()


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """Return the text in at most `width` columns, with "…" for its end or its `middle`."""
    if cells(text) <= width:
        return text
    if text.isascii():
        end = width // 2 if middle else 0
        return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, width - 1).rstrip()}…"


def cells(text: str) -> int:
    """Return the width of the text in columns of a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
