"""Waiting for runs, with a live display where stderr is a terminal."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from hpc_board.cli.printing import remark
from hpc_board.errors import WaitExpired

if TYPE_CHECKING:
    from rich.table import Table

    from hpc_board.board import Board
    from hpc_board.model.run import Run


def follow(board: "Board", ids: Sequence[int], timeout_seconds: float | None) -> "list[Run]":
    """The runs once all have ended. An interrupt ends the waiting alone: the runs go on.

    Raises:
        WaitExpired: `timeout_seconds` are over; the runs go on.
    """
    runs: list[Run] = []
    try:
        with _display(board) as show:
            for runs in board.wait(ids, timeout_seconds=timeout_seconds, say=_remark_problem):
                show(runs)
    except WaitExpired:
        tell_unsent(runs)
        raise
    except KeyboardInterrupt:
        going = [str(run.id) for run in runs if not run.state.ended] or [str(id_) for id_ in ids]
        remark(
            f"Stopped waiting. The runs go on: {', '.join(going)}.\n"
            f"`hpc-board watch {going[0]}` follows one again, `hpc-board cancel {' '.join(going)}` ends them."
        )
        tell_unsent(runs)
        raise
    return runs


def tell_unsent(runs: "Sequence[Run]") -> None:
    """Say on stderr which of the runs are not in a queue yet, why, and what becomes of them."""
    unsent = [run for run in runs if run.state.unsent]
    if not unsent:
        return
    for run in unsent:
        remark(_unsent_line(run))
    ids = [str(run.id) for run in unsent]
    remark(
        f"Stored, and sent as soon as the scheduler answers `hpc-board watch {ids[0]}`, `hpc-board poll` or the open "
        f"app; don't submit again. `hpc-board cancel {' '.join(ids)}` calls it off."
    )


def _unsent_line(run: "Run") -> str:
    from hpc_board.model.text import one_line

    because = f": {one_line(run.status.unanswered, 500)}" if run.status.unanswered else "."
    return f"Run {run.id} on {run.gpu} is not in the queue yet{because}"


class _Show(Protocol):
    def __call__(self, runs: "Sequence[Run]") -> None: ...


@contextmanager
def _display(board: "Board") -> Iterator[_Show]:
    """A way to show runs until the block ends; where stderr is no terminal, it only says what hinders them."""
    if not sys.stderr.isatty():
        yield _Hindrances()
        return
    from rich.console import Console
    from rich.live import Live

    shown: list[tuple[Run, str]] = []

    def show(runs: "Sequence[Run]") -> None:
        shown[:] = [(run, _place(board, run)) for run in runs]

    with Live(
        get_renderable=lambda: _table(shown, datetime.now(UTC)),
        console=Console(stderr=True),
        refresh_per_second=4,
        transient=True,
    ):
        yield show


def _remark_problem(problem: str) -> None:
    remark(f"Still waiting: {problem}")


class _Hindrances:
    """Says of each run once why it cannot be sent."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def __call__(self, runs: "Sequence[Run]") -> None:
        for run in runs:
            if run.status.unanswered and run.id not in self._told:
                self._told.add(run.id)
                remark(f"Still waiting: {_unsent_line(run)}")


def _place(board: "Board", run: "Run") -> str:
    """Where a run is, beyond its state: why it waits, or which case is being worked on."""
    from hpc_board.model.text import one_line
    from hpc_board.report import step_text

    if run.state == "queued":
        return one_line(run.status.reason)
    if run.state.unsent:
        return one_line(run.status.unanswered)
    progress = board.progress(run.id) if run.state == "running" else []
    return step_text(progress[-1]) if progress else ""


def _table(shown: "Sequence[tuple[Run, str]]", now: datetime) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from hpc_board.report import outcome

    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for run, place in shown:
        end = run.status.at if run.state.ended else now
        seconds = max(0, int((end - run.created_at).total_seconds()))
        texts = (f"run {run.id} {run.gpu}", outcome(run), f"{seconds // 60}:{seconds % 60:02}", place)
        table.add_row(*(Text(text) for text in texts))
    return table
