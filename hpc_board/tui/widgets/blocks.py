"""Blocks of reports, drawn on the screen."""

from collections.abc import Sequence
from itertools import zip_longest

import msgspec
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hpc_board.model.text import printable
from hpc_board.report import blocks
from hpc_board.report.formatting import count_text, speedup_text, speedup_tone
from hpc_board.report.plain import bar_lines, fitting, paragraph_lines
from hpc_board.tui.palette import Tone, plain_text

TONES = {
    blocks.Tone.PLAIN: Tone.PLAIN,
    blocks.Tone.STRONG: Tone.STRONG,
    blocks.Tone.GOOD: Tone.GOOD,
    blocks.Tone.UNSURE: Tone.WAITING,
    blocks.Tone.BAD: Tone.BAD,
    blocks.Tone.QUIET: Tone.MUTED,
}
"""The tones of the app by those of reports."""

_ACRONYMS = {"GPU": "GPU", "GPUS": "GPUs"}
_GAP = 2
_FLEXIBLE_MIN = 12
"""The least width of a flexible column that states no greater one; narrower tables drop other columns."""

_BARS_MIN = 72
"""The least width of bars with their texts."""

_HALVES_MIN = 110
"""The least width of blocks beside others."""

_WIDE_FROM = 200
"""The columns of a terminal that is as wide as they are: none is told to become wider."""

_NUMBERS_MIN = 2
"""The number columns that are kept at any width."""


class Blocks(VerticalScroll):
    """A scrollable report that keeps its scroll position on updates."""

    _shown: tuple[tuple[blocks.Block, ...], ...] = ()

    def __init__(self, title: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id, classes="panel")
        self.border_title = title

    def compose(self) -> ComposeResult:
        yield Static(id="blocks", markup=False)

    def show(self, report: Sequence[blocks.Block], beside: tuple[blocks.Block, ...] = ()) -> None:
        """Show a report, and other blocks beside its headings, or below it where it is narrow."""
        if (shown := (tuple(report), beside)) != self._shown:
            self._shown = shown
            self.query_one("#blocks", Static).update(_Halves(*shown) if beside else drawn(report))


def show_text(place: Static, text: Text) -> None:
    """Show a text, unless it is shown already: Textual would draw its place, which a slow line shows."""
    if place.content != text:
        place.update(text)


def set_style(widget: Widget, name: str, value: object) -> None:
    """Set a style, or clear it with None: Textual would lay out and draw the widget anew also without one to clear."""
    if value is not None or name in widget.styles.inline.get_rules():
        setattr(widget.styles, name, value)


def entitle(panel: Widget, title: Text) -> None:
    """Set the title of a panel, unless it has it already: Textual would draw the whole panel."""
    if panel.border_title != Content.from_rich_text(title).markup:
        panel.border_title = title


def drawn(report: Sequence[blocks.Block]) -> Group:
    """Return these blocks as they are drawn, also as a part of other text."""
    return Group(*map(_drawn, report))


def _drawn(block: blocks.Block) -> RenderableType:
    match block:
        case blocks.Heading(text):
            return Text(printable(text), f"bold {Tone.ACCENT.value}")
        case blocks.Paragraph(text, tone, None):
            return Padding(plain_text(text, TONES[tone]), (0, 0, 1, 0))
        case blocks.Paragraph():
            return Padding(_WrappedParagraph(block), (0, 0, 1, 0))
        case blocks.Table() if block.title:
            note = [blocks.Paragraph(block.note, blocks.Tone.QUIET)] if block.note else []
            return drawn((blocks.Heading(block.title), msgspec.structs.replace(block, title=""), *note))
        case blocks.Table():
            empty = Text(printable(block.empty), Tone.MUTED.value)
            return Padding(_FittingTable(block) if block.rows else empty, (0, 0, 1, 0))
        case blocks.Facts(rows):
            return Padding(facts(rows), (0, 0, 1, 0))
        case blocks.Log(title):
            heading = Text(printable(title), f"bold {Tone.ACCENT.value}")
            return Group(heading, Padding(log_lines(block), (0, 0, 1, 0)))
        case blocks.Bars():
            return _FittingBars(block)


def log_lines(log: blocks.Log) -> Text:
    """Return the lines of a log, its parts in their tones."""
    lines = Text(printable(log.text, len(log.text)))
    for begin, end, tone in log.tones:
        lines.stylize(TONES[tone].value, begin, end)
    return lines


def facts(rows: Sequence[tuple[str, str]]) -> Drawn:
    """Return names with values, one per line, without those that have no value."""
    drawn = Drawn.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True, style=Tone.MUTED.value)
    drawn.add_column(overflow="fold")
    for name, value in rows:
        if value:
            drawn.add_row(Text(printable(name)), plain_text(value))
    return drawn


def speedup_cell(speedup: float | None, tone: Tone = Tone.PLAIN) -> Text:
    """Return the cell of a speedup over the reference, in its own tone below 1; empty if it is unknown."""
    is_slow = speedup_tone(speedup) is blocks.Tone.BAD
    return Text(speedup_text(speedup), (Tone.BAD if is_slow else tone).value)


class _Halves(msgspec.Struct, frozen=True):
    """Blocks beside others where both have room, else above them; those before the first heading have all the width."""

    left: tuple[blocks.Block, ...]
    right: tuple[blocks.Block, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width < _HALVES_MIN:
            yield drawn((*self.left, *self.right))
            return
        above = next(index for index, block in enumerate(self.left) if isinstance(block, blocks.Heading))
        yield drawn(self.left[:above])
        halves = Drawn.grid(padding=(0, _GAP, 0, 0), expand=True)
        halves.add_column(ratio=1)
        halves.add_column(ratio=1)
        halves.add_row(drawn(self.left[above:]), drawn(self.right))
        yield halves


class _WrappedParagraph(msgspec.Struct, frozen=True):
    """A paragraph wrapped at spaces but before a unit, which Rich does even at hard spaces."""

    paragraph: blocks.Paragraph

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        paragraph = msgspec.structs.replace(self.paragraph, text=printable(self.paragraph.text, 65_536))
        for toned, rest in paragraph_lines(paragraph, options.max_width, break_words=True):
            yield Text.assemble((toned, TONES[paragraph.tone].value), rest)


class _FittingTable(msgspec.Struct, frozen=True):
    """A table that drops whole number columns which do not fit, since a cut number would be wrong, and says so.

    It drops those that leave, in their order, then the last ones first, and keeps the first two numbers. It wraps
    flexible columns instead.
    """

    table: blocks.Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = self._kept(options.max_width)
        columns = tuple(self.table.columns[index] for index in kept)
        rows = tuple(tuple(row[index] for index in kept) for row in self.table.rows)
        yield _drawn_table(blocks.Table(columns, rows, tones=self.table.tones))
        more = len(self.table.columns) - len(kept)
        if more and options.size.width < _WIDE_FROM:
            yield Text(f"{count_text(more, 'column')} hidden. Widen the terminal.", Tone.MUTED.value)

    def _kept(self, width: int) -> list[int]:
        columns = self.table.columns
        first = [
            index for _, index in sorted((each.leaves, index) for index, each in enumerate(columns) if each.leaves)
        ]
        numbers = [index for index, each in enumerate(columns) if each.right and not each.leaves][_NUMBERS_MIN:]
        leaving = (*first, *(index for index in reversed(numbers) if not columns[index].stays))
        return fitting([*map(self._least_width, range(len(columns)))], leaving, width)

    def _least_width(self, index: int) -> int:
        table, column = self.table, self.table.columns[index]
        width = max(cell_len(text) for text in (column.title, *(row[index] for row in table.rows)))
        return min(width, max(_FLEXIBLE_MIN, column.least)) if column.flexible else width


class _FittingBars(msgspec.Struct, frozen=True):
    """Bars with an empty line below; nothing where they have no room."""

    bars: blocks.Bars

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _BARS_MIN:
            (title, _), *lines = bar_lines(self.bars, options.max_width)
            yield Text(printable(title), f"bold {Tone.ACCENT.value}")
            yield from (Text(printable(line), TONES[tone].value) for line, tone in lines)
            yield Text()


def _head(title: str) -> str:
    """Return the head of a column as the app's lists have it; reports have it in capitals, but for names of files."""
    if not title.isupper():
        return title
    words = " ".join(_ACRONYMS.get(word, word.lower()) for word in title.split())
    return words[:1].upper() + words[1:]


def _drawn_table(table: blocks.Table) -> Drawn:
    drawn = Drawn(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=Tone.MUTED.value)
    for column in table.columns:
        drawn.add_column(
            Text(_head(column.title)),
            justify="right" if column.right else "left",
            no_wrap=not column.flexible,
            overflow="fold",
        )
    for row, tone in zip_longest(table.rows, table.tones, fillvalue=blocks.Tone.PLAIN):
        tones = [TONES[tone].value if column.toned else "" for column in table.columns]
        drawn.add_row(*(Text(printable(cell), style) for cell, style in zip(row, tones, strict=True)))
    return drawn
