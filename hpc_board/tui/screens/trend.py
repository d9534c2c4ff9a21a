"""A user's scores on a board over time."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events, getters
from textual.app import ComposeResult

from hpc_board.board import Board
from hpc_board.domain.standing import Page, Rows
from hpc_board.report.histories import LINES, history_report
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import Blocks

RUNS_MAX = 200
"""The most runs to read; plot and table have no room for more."""


_PLOT_SHARE = 0.6
"""The share of the screen's height for the plot; the table follows."""


class TrendScreen(BoardScreen):
    """A user's ranked runs on one board as a plot and a table."""

    CSS_PATH = "trend.tcss"
    HELP: ClassVar[str] = (
        "Each point is a passing ranked run, the oldest on the left; the vertical axis is the score on a logarithmic "
        "scale. ● is a personal best, ○ is not. Vs best is relative to the fastest earlier run."
    )

    blocks = getters.query_one(Blocks)

    def __init__(self, board: Board, now: Clock, task: str, gpu: str, user: str) -> None:
        super().__init__(board, now)
        self._board_of = task, gpu
        self._whose = user
        self._pages: Sequence[Page] = ()

    def compose_body(self) -> ComposeResult:
        """Yield the report."""
        yield Blocks("Trend", id="trend")

    def on_mount(self) -> None:
        """Read the runs."""
        super().on_mount()
        self.title_bar.show_place("Board", *self._board_of, self._whose)
        self.blocks.focus()
        self.look_again()

    def on_resize(self, event: events.Resize) -> None:
        """Draw the plot in the new size."""
        super().on_resize(event)
        self.call_after_refresh(self._draw)

    def look_again(self) -> None:
        """Read the runs again."""
        (task, gpu), user = self._board_of, self._whose

        def question() -> Sequence[Page]:
            return self.board.standings.pages(task, [gpu], rows=Rows.NEWEST, limit=RUNS_MAX, user=user)

        self.ask("trend", question, self._show, patient=True)

    def _show(self, pages: Sequence[Page]) -> None:
        self._pages = pages
        self._draw()

    def _draw(self) -> None:
        width, height = self.blocks.scrollable_content_region.size
        width -= 1  # its right edge
        task, _ = self._board_of
        reports = (
            history_report(task, page, self._whose, width, round(_PLOT_SHARE * height), LINES) for page in self._pages
        )
        self.blocks.show([block for report in reports for block in report])
