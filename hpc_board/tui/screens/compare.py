"""Two submissions beside each other: the times of each case, and what differs in their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.errors import Refused
from hpc_board.model.text import one_line, printable
from hpc_board.report import Block, Paragraph, comparison_report
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.source_difference import source_difference
from hpc_board.tui.widgets.blocks import Blocks
from hpc_board.tui.widgets.sections import Sections

_PAGES = (("times", "Times"), ("files", "Files"))
_LINE_CHARACTERS_MAX = 1_000


@dataclass(frozen=True)
class _Comparison:
    """Two submissions side by side: their times, and the lines that differ in their files, or why not."""

    blocks: tuple[Block, ...]
    difference: tuple[str, ...]
    refused: str


class CompareScreen(BoardScreen):
    """The second of two submissions beside the first, on every GPU where both were timed."""

    CSS_PATH = "compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "show('times')", "Times", tooltip="Show the times of each case"),
        Binding("2", "show('files')", "Files", tooltip="Show what differs in the files"),
        Binding("x", "swap", "Swap", tooltip="Put the first beside the second"),
    ]
    HELP: ClassVar[str] = (
        "The submission chosen last stands beside the one chosen first. ± is half of a 95 % confidence interval; where "
        "it holds 0, no difference is shown. In the files, - is the first and + the second."
    )

    sections = getters.query_one(Sections)
    times = getters.query_one("#times", Blocks)
    files = getters.query_one("#files", VerticalScroll)
    text = getters.query_one("#difference", Static)

    def __init__(self, board: Board, now: Clock, one: int, other: int) -> None:
        super().__init__(board, now)
        self._sides = one, other
        self._page = "times"

    def compose_body(self) -> ComposeResult:
        """The names of the pages, and the pages."""
        yield Sections(_PAGES, id="pages")
        with Container(id="panes"):
            yield Blocks(id="times")
            with VerticalScroll(id="files"):
                yield Static(toned("Reading both submissions …", Tone.MUTED), id="difference", markup=False)

    def on_mount(self) -> None:
        """Read both."""
        super().on_mount()
        self.action_show("times")
        self._ask()

    def settle(self, subject: str) -> None:
        """Say that there is nothing to see."""
        if self.has_failed(subject):
            self.times.show([Paragraph("The times are not shown.")])
            self.text.update(toned("The files are not shown.", Tone.MUTED))

    def action_show(self, page: str) -> None:
        """Open a page."""
        self._page = page
        self.times.display = page == "times"
        self.files.display = page == "files"
        self.sections.show(page)
        (self.times if page == "times" else self.files).focus()

    def action_swap(self) -> None:
        """Let the first be the second."""
        one, other = self._sides
        self._sides = other, one
        self._ask()

    @on(Sections.Chosen)
    def _turn(self, event: Sections.Chosen) -> None:
        self.action_show(event.name)

    def _ask(self) -> None:
        one, other = self._sides
        self.title_bar.show_place("Compare", f"{other} beside {one}")

        def question() -> _Comparison:
            blocks: list[Block] = []
            for each in self.board.compare(one, other):
                blocks += comparison_report(each.runs, each.results, each.comparison)
            try:
                return _Comparison(tuple(blocks), _difference(self.board, (one, other)), "")
            except Refused as error:
                return _Comparison(tuple(blocks), (), error.message)

        self.ask("compare", question, self._show)

    def _show(self, event: _Comparison) -> None:
        self.times.show(event.blocks)
        if event.refused:
            self.text.update(toned(f"The files are not shown: {event.refused}", Tone.MUTED, 400))
        elif not event.difference:
            self.text.update(toned("The two files are the same.", Tone.MUTED))
        else:
            self.text.update(_coloured(event.difference))


def _difference(board: Board, sides: tuple[int, int]) -> tuple[str, ...]:
    (name, data), (other_name, other_data) = (board.code(side) for side in sides)
    names = f"{sides[0]} {one_line(name)}", f"{sides[1]} {one_line(other_name)}"
    return source_difference(names, (data.decode(errors="replace"), other_data.decode(errors="replace")))


def _coloured(lines: Sequence[str]) -> Text:
    text = Text(no_wrap=False)
    for number, line in enumerate(lines):
        tone = Tone.STRONG if number < 2 else _TONES.get(line[:1], Tone.PLAIN)
        text.append(f"{printable(line, _LINE_CHARACTERS_MAX)}\n", tone.value)
    return text


_TONES = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.ACCENT, "\\": Tone.MUTED}
