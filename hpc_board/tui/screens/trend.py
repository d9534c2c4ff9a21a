"""How somebody got where they are on a board."""

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
"""How many runs are read: the plot has no room for more, and a table of more is nothing to look at."""


class TrendScreen(BoardScreen):
    """The times of a user on one board from one ranked run to the next, as a plot and as a table."""

    CSS_PATH = "trend.tcss"
    HELP: ClassVar[str] = (
        "Each point is a ranked run that passed, from left to right; the slower the higher, on a logarithmic scale. "
        "* was faster than all before it, o was not. Change is against the fastest one before."
    )

    blocks = getters.query_one(Blocks)

    def __init__(self, board: Board, now: Clock, task: str, gpu: str, user: str) -> None:
        super().__init__(board, now)
        self._board_of = task, gpu
        self._whose = user

    def compose_body(self) -> ComposeResult:
        """The report."""
        yield Blocks(id="trend")

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
