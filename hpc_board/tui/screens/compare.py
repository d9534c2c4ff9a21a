"""Two submissions beside each other: the times of each case on every GPU."""

from typing import ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from hpc_board.board import Board
from hpc_board.report.blocks import Block, Paragraph
from hpc_board.report.comparisons import comparison_report
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import Blocks


class CompareScreen(BoardScreen):
    """The second of two submissions beside the first, on every GPU where both were timed."""

    CSS_PATH = "compare.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "swap", "Swap", tooltip="Put the first beside the second"),
    ]
    HELP: ClassVar[str] = (
        "The submission chosen last stands beside the one chosen first. ± is half of a 95 % confidence interval; where "
        "it holds 0, no difference is shown."
    )

    times = getters.query_one("#times", Blocks)

    def __init__(self, board: Board, now: Clock, one: int, other: int) -> None:
        super().__init__(board, now)
        self._sides = one, other

    def compose_body(self) -> ComposeResult:
        """Yield the times."""
        yield Blocks(id="times")

    def on_mount(self) -> None:
        """Read both."""
        super().on_mount()
        self.times.show([Paragraph("Reading both submissions …")])
        self.times.focus()
        self._ask()

    def settle(self, subject: str) -> None:
        """Say that there is nothing to see."""
        if self.has_failed(subject):
            self.times.show([Paragraph("The times are not shown.")])

    def action_swap(self) -> None:
        """Let the first be the second."""
        one, other = self._sides
        self._sides = other, one
        self._ask()

    def _ask(self) -> None:
        one, other = self._sides
        self.title_bar.show_place("Compare", f"{other} beside {one}")

        def question() -> list[Block]:
            blocks: list[Block] = []
            for each in self.board.submissions.compare(one, other):
                blocks += comparison_report(each.runs, each.results, each.comparison)
            return blocks

        self.ask("compare", question, self.times.show)
