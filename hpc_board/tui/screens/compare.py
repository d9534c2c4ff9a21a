"""The comparison of two submissions: the times of each case on every GPU."""

from typing import ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from hpc_board.board import Board
from hpc_board.report.blocks import Block, Paragraph
from hpc_board.report.comparisons import comparison_report
from hpc_board.tui import targets
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import Blocks


class CompareScreen(BoardScreen):
    """The comparison of a submission with another one, on every GPU where both were timed."""

    CSS_PATH = "compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("O", "swap", "Swap", tooltip="Swap the two submissions"),
    ]
    HELP: ClassVar[str] = (
        "Compares the submission marked last with the one marked first. ± is half the width of the 95 % confidence "
        "interval; if the interval includes 0, the difference is within noise."
    )

    times = getters.query_one("#times", Blocks)

    def __init__(self, board: Board, now: Clock, target: targets.Compare) -> None:
        super().__init__(board, now, target)
        self._sides = target.first, target.second

    def compose_body(self) -> ComposeResult:
        yield Blocks("Times", id="times")

    def begin(self) -> None:
        self.times.show([Paragraph("Loading both submissions …")])
        self.times.focus()
        self._ask()

    def settle(self, subject: str) -> None:
        if self.has_failed(subject):
            self.times.show([Paragraph("The times are not shown.")])

    def action_swap(self) -> None:
        one, other = self._sides
        self._sides = other, one
        self._ask()

    def _ask(self) -> None:
        one, other = self._sides
        self.show_place("Compare", f"{one} with {other}")

        def question() -> list[Block]:
            blocks: list[Block] = []
            for each in self.board.submissions.compare(one, other):
                blocks += comparison_report(each.runs, each.results, each.comparison)
            return blocks

        self.ask("compare", question, self.times.show)
