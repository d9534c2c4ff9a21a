"""The plot of a user's scores on a board over time."""

from rich.text import Text

from hpc_board.board import Board
from hpc_board.domain.standing import Page, Record, Rows
from hpc_board.report.blocks import Log
from hpc_board.report.histories import history_plot
from hpc_board.report.plots import plot_block
from hpc_board.tui.widgets.blocks import log_lines

RUNS_MAX = 200
"""The most runs to read; plot and list have no room for more."""

History = tuple[Page, tuple[Record, ...]]


def read_history(board: Board, task: str, gpu: str, user: str) -> History:
    """Return the newest ranked runs of a user on a board, and the board's records."""
    (page,) = board.standings.pages(task, [gpu], rows=Rows.NEWEST, limit=RUNS_MAX, user=user)
    return page, board.standings.records(task, gpu)


def drawn_history(history: History, width: int, height: int) -> tuple[str, Text]:
    """Return the plot of a history with its title, or the words for a single run."""
    page, records = history
    plot = history_plot(page, records)
    block = plot_block(plot, width, height)
    return (block.title, log_lines(block)) if isinstance(block, Log) else (plot.title, Text(block.text))
