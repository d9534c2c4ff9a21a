"""The blocks of a report, drawn for the screen."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from hpc_board import report
from hpc_board.model.text import printable
from hpc_board.tui.palette import Tone

_TONES = {
    report.Tone.PLAIN: Tone.PLAIN,
    report.Tone.STRONG: Tone.STRONG,
    report.Tone.GOOD: Tone.GOOD,
    report.Tone.BAD: Tone.BAD,
    report.Tone.QUIET: Tone.MUTED,
}


class Blocks(VerticalScroll):
    """A report that can be scrolled; showing another version of it keeps the place."""

    _shown: tuple[report.Block, ...] = ()

    def compose(self) -> ComposeResult:
        """The one text that all blocks are drawn into."""
        yield Static(id="blocks", markup=False)

    def show(self, blocks: Sequence[report.Block]) -> None:
        """Show these blocks."""
        if tuple(blocks) != self._shown:
            self._shown = tuple(blocks)
            self.query_one("#blocks", Static).update(Group(*map(_drawn, self._shown)))


def _drawn(block: report.Block) -> RenderableType:
    match block:
        case report.Heading(text):
            return Text(printable(text), f"bold {Tone.ACCENT.value}")
        case report.Paragraph(text, tone):
            return Padding(Text(printable(text), _TONES[tone].value), (0, 0, 1, 0))
        case report.Table():
            return Padding(_table(block), (0, 0, 1, 0))
        case report.Facts(rows):
            return Padding(facts(rows), (0, 0, 1, 0))
        case report.Log(title, text):
            heading = Text(printable(title), f"bold {Tone.ACCENT.value}")
            return Group(heading, Padding(Text(printable(text, len(text))), (0, 0, 1, 0)))


def facts(rows: Sequence[tuple[str, str]]) -> Drawn:
    """Names and their values, a pair to a line; rows without a value are left out."""
    drawn = Drawn.grid(padding=(0, 2, 0, 0))
    drawn.add_column(no_wrap=True, style=Tone.MUTED.value)
    drawn.add_column(overflow="fold")
    for name, value in rows:
        if value:
            drawn.add_row(Text(printable(name)), Text(printable(value)))
    return drawn


def _table(table: report.Table) -> RenderableType:
    if not table.rows:
        return Text(printable(table.empty), Tone.MUTED.value)
    drawn = Drawn(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=Tone.MUTED.value)
    for column in table.columns:
        drawn.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=not column.flexible,
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    return drawn
