"""Waiting for runs, with a live display where stderr is a terminal."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from hpc_board.cli.output import remark
from hpc_board.errors import WaitExpired

if TYPE_CHECKING:
    from rich.table import Table

    from hpc_board.board import Board
    from hpc_board.domain.run import Run


_PLACE_CELLS_MIN = 8
_PLACE = 4


def follow(board: "Board", ids: Sequence[int], timeout_seconds: float | None) -> "list[Run]":
    """The runs once all have ended. An interrupt ends the waiting alone: the runs go on.

    Raises:
        WaitExpired: `timeout_seconds` are over; the runs go on.
    """
    runs = [board.runs.get(id_) for id_ in ids]
    told: dict[int, str] = {}
    try:
        with _display(board, told) as show:
            for runs in board.runs.wait(ids, timeout_seconds=timeout_seconds, say=_remark_problem):
                show(runs)
    except WaitExpired:
        _tell_never_starts(runs, told)
        tell_unsent(runs, told)
        raise
    except KeyboardInterrupt:
        remark("Stopped waiting.")
        _tell_never_starts(runs, told)
        _tell_going([run for run in runs if not run.state.ended and not run.state.unsent])
        tell_unsent(runs, told)
        raise
    return runs


def _tell_never_starts(runs: "Sequence[Run]", told: Mapping[int, str]) -> None:
    """Say of runs that will never start why, unless `told` has it by the run's number."""
    for run in runs:
        if run.never_starts and told.get(run.id) != run.never_starts:
            remark(_never_starts_line(run))


def _never_starts_line(run: "Run") -> str:
    from hpc_board.model.text import one_line

    return f"Run {run.id} on {run.gpu} {one_line(run.never_starts, 500)}"


def _tell_going(runs: "Sequence[Run]") -> None:
    if runs:
        ids = [str(run.id) for run in runs]
        remark(
            f"The runs go on: {', '.join(ids)}.\n"
            f"`hpc-board watch {ids[0]}` follows one again, `hpc-board cancel {' '.join(ids)}` ends them."
        )


def tell_unsent(runs: "Sequence[Run]", told: Mapping[int, str] = MappingProxyType({})) -> None:
    """Say on stderr which of the runs are not in a queue yet, why, and what becomes of them.

    `told` has by number the runs of which somebody has read already why, and the reason.
    """
    unsent = [run for run in runs if run.state.unsent]
    for run in unsent:
        remark(_unsent_line(run, because=told.get(run.id) != run.blocked_by))
    _tell_wanted([run for run in unsent if not run.status.cancel_requested])
    _tell_cancelled([run for run in unsent if run.status.cancel_requested])


def _unsent_line(run: "Run", *, because: bool = True) -> str:
    from hpc_board.model.text import one_line

    reason = f": {one_line(run.blocked_by, 500)}" if because and run.blocked_by else "."
    return f"Run {run.id} on {run.gpu} is not queued yet{reason}"


def _tell_wanted(runs: "Sequence[Run]") -> None:
    """Say of unsent runs who sends them."""
    if not runs:
        return
    ids = [str(run.id) for run in runs]
    if any(run.status.unanswered for run in runs):
        when = (
            f"Stored, and sent as soon as the scheduler answers `hpc-board watch {ids[0]}`, `hpc-board poll` or the app"
        )
    else:
        when = f"Stored; the next `hpc-board watch {ids[0]}`, `hpc-board poll` or the app sends it"
    remark(f"{when}: don't submit again. `hpc-board cancel {' '.join(ids)}` calls it off.")


def _tell_cancelled(runs: "Sequence[Run]") -> None:
    """Say of runs whose job nobody has found yet when it ends."""
    if runs:
        ids = ", ".join(str(run.id) for run in runs)
        remark(
            f"Cancelled as soon as the scheduler answers `hpc-board watch {runs[0].id}`, `hpc-board poll` or the app: "
            f"run {ids}."
        )


class _Show(Protocol):
    def __call__(self, runs: "Sequence[Run]") -> None: ...


@contextmanager
def _display(board: "Board", told: dict[int, str]) -> Iterator[_Show]:
    """A way to show runs until the block ends; where stderr is no terminal, it only says what hinders them.

    What it says there is added to `told`, by the run's number.
    """
    if not sys.stderr.isatty():
        yield _Hindrances(told)
        return
    from rich.console import Console
    from rich.live import Live

    shown: list[tuple[Run, str]] = []

    def show(runs: "Sequence[Run]") -> None:
        shown[:] = [(run, _place(board, run)) for run in runs]

    console = Console(stderr=True)
    with Live(
        get_renderable=lambda: _table(shown, datetime.now(UTC), console.width),
        console=console,
        refresh_per_second=4,
        transient=True,
    ):
        yield show


def _remark_problem(problem: str) -> None:
    remark(f"Still waiting: {problem}")


class _Hindrances:
    """Says of each run once why it cannot be sent, and once why it will never start."""

    def __init__(self, told: dict[int, str]) -> None:
        self._told = told

    def __call__(self, runs: "Sequence[Run]") -> None:
        for run in runs:
            if run.blocked_by and run.id not in self._told:
                self._told[run.id] = run.blocked_by
                remark(f"Still waiting: {_unsent_line(run)}")
        _tell_never_starts(runs, self._told)
        self._told.update({run.id: run.never_starts for run in runs if run.never_starts})


def _place(board: "Board", run: "Run") -> str:
    """Where a run is, beyond its state: why it waits, or which case is being worked on."""
    from hpc_board.model.text import one_line
    from hpc_board.report.runs import step_text

    if run.state == "queued":
        return one_line(run.status.reason)
    if run.state.unsent:
        return one_line(run.blocked_by)
    progress = board.runs.progress(run.id) if run.state == "running" else []
    return step_text(progress[-1]) if progress else ""


def _table(shown: "Sequence[tuple[Run, str]]", now: datetime, width: int) -> "Table":
    """One row for each run; a narrow terminal has its number, state and time before its place and its GPU."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rows = [_row(run, place, now) for run, place in shown]
    kept = [max((cell_len(row[index]) for row in rows), default=0) + 1 for index in range(4)]
    columns = [0, 1, 2, 3, _PLACE]
    for dispensable, needed in ((_PLACE, sum(kept) + _PLACE_CELLS_MIN), (1, sum(kept) - 1)):
        if needed > width:
            columns.remove(dispensable)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        if column == _PLACE:
            table.add_column(overflow="fold", ratio=1)
        else:
            table.add_column(no_wrap=True, overflow="ellipsis", min_width=min(kept[column] - 1, width))
    for row in rows:
        table.add_row(*(Text(row[column]) for column in columns))
    return table


def _row(run: "Run", place: str, now: datetime) -> tuple[str, str, str, str, str]:
    from hpc_board.report.run_columns import outcome

    end = (run.ended_at or run.status.at) if run.state.ended else now
    seconds = max(0, int((end - run.created_at).total_seconds()))
    return f"run {run.id}", run.gpu, outcome(run), f"{seconds // 60}:{seconds % 60:02}", place
