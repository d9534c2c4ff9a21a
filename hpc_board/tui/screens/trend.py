"""A user's scores on a board over time."""

from typing import ClassVar

from textual import getters
from textual.app import ComposeResult

from hpc_board.board import Board
from hpc_board.domain.standing import Rows
from hpc_board.report.blocks import Block
from hpc_board.report.histories import history_report
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import Blocks

RUNS_MAX = 200
"""The most runs to read; plot and table have no room for more."""


class TrendScreen(BoardScreen):
    """A user's ranked runs on one board as a plot and a table."""

    CSS_PATH = "trend.tcss"
    HELP: ClassVar[str] = (
        "Each point is a passing ranked run, oldest on the left; the vertical axis is the score on a logarithmic "
        "scale. * is a personal best, o is not. Change is relative to the fastest earlier run."
    )

    blocks = getters.query_one(Blocks)

    def __init__(self, board: Board, now: Clock, task: str, gpu: str, user: str) -> None:
        super().__init__(board, now)
        self._board_of = task, gpu
        self._whose = user

    def compose_body(self) -> ComposeResult:
        """Yield the report."""
        yield Blocks("Trend", id="trend")

    def on_mount(self) -> None:
        """Read the runs."""
        super().on_mount()
        self.title_bar.show_place("Board", *self._board_of, self._whose)
        self.blocks.focus()
        self.look_again()

    def look_again(self) -> None:
        """Read the runs again."""
        (task, gpu), user = self._board_of, self._whose

        def question() -> tuple[Block, ...]:
            pages = self.board.standings.pages(task, [gpu], rows=Rows.NEWEST, limit=RUNS_MAX, user=user)
            return tuple(block for page in pages for block in history_report(task, page, user))

        self.ask("trend", question, self.blocks.show, patient=True)
