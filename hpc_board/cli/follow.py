"""The wait for runs, with a live display if stderr is a terminal."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from hpc_board.board import Board
from hpc_board.cli.global_options import is_quiet
from hpc_board.cli.output import remark
from hpc_board.domain.run import Run
from hpc_board.errors import WaitExpired
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Column, table
from hpc_board.report.plain import plain
from hpc_board.report.run_progress import time_so_far
from hpc_board.report.run_words import outcome, place_text

if TYPE_CHECKING:
    from rich.text import Text


_STOPS = "\nCtrl-C stops the wait; the runs continue."


def follow(
    board: Board, ids: Sequence[int], timeout_seconds: float | None, ended: Callable[[Run], object] = lambda _: None
) -> list[Run]:
    """Wait until all runs have ended, and return them; `ended` is called with each. An interrupt ends the wait alone.

    Raises:
        WaitExpired: `timeout_seconds` are over; the runs go on.
    """
    runs, told = board.runs.get_each(ids), set[int]()
    try:
        with _display(board) as show:
            for runs in board.runs.wait(ids, timeout_seconds=timeout_seconds, say=_remark_problem):
                show(runs)
                for run in runs:
                    if run.state.ended and run.id not in told:
                        told.add(run.id)
                        ended(run)
    except WaitExpired:
        report_unsent(runs, served=board.served)
        raise
    except KeyboardInterrupt:
        remark("Stopped waiting.")
        report_unsent(runs, served=board.served)
        if going := [str(run.id) for run in runs if not run.state.ended and not run.state.unsent]:
            remark(
                f"The runs continue: {', '.join(going)}.\n"
                f"`hpc-board watch {' '.join(going)}` waits again, `hpc-board cancel {' '.join(going)}` cancels them."
            )
        raise
    return runs


def watch_hint(ids: Sequence[int]) -> str:
    """Return the command that waits for these runs."""
    return f"`hpc-board watch {' '.join(map(str, ids))}` waits for {'them' if ids[1:] else 'it'}."


def report_unsent(runs: Sequence[Run], *, served: bool) -> None:
    """Report the runs that are not queued yet or will never start, each reason once, and their next step."""
    for line in _blocked_lines(runs):
        remark(line)
    unsent = [run for run in runs if run.state.unsent]
    stored = [str(run.id) for run in unsent if not run.status.cancel_requested]
    cancelled = [str(run.id) for run in unsent if run.status.cancel_requested]
    if stored:
        senders = _senders(stored[0], served=served)
        remark(
            f"Stored; {senders} will send it. Do not submit it again. `hpc-board cancel {' '.join(stored)}` cancels it."
        )
    if cancelled:
        senders = _senders(cancelled[0], served=served)
        remark(f"Cancel requested: run {', '.join(cancelled)}, completed by {senders} once the scheduler answers.")


def _blocked_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a line for the runs on a GPU that are not queued yet or will never start for one reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        if run.state.unsent or run.never_starts:
            alike.setdefault((run.gpu, run.blocked_by, run.never_starts), []).append(str(run.id))
    for (gpu, blocked_by, never_starts), numbers in alike.items():
        one = len(numbers) == 1
        told = f"{'Run' if one else 'Runs'} {', '.join(numbers)} on {gpu}"
        if never_starts:
            yield f"{told} {one_line(never_starts, 500)}"
        else:
            reason = f": {one_line(blocked_by, 500)}" if blocked_by else "."
            yield f"{told} {'is' if one else 'are'} not queued yet{reason}"


def _senders(id_: str, *, served: bool) -> str:
    return "the service" if served else f"`hpc-board watch {id_}`, `hpc-board poll` or the app"


@contextmanager
def _display(board: Board) -> Iterator[Callable[[Sequence[Run]], None]]:
    """Yield a function that shows runs until the block ends; without a terminal it reports those that are blocked."""
    if is_quiet() or not sys.stderr.isatty():
        yield partial(_remark_blocked, set())
        return
    from rich.console import Console
    from rich.live import Live

    shown: list[tuple[Run, str]] = []

    def show(runs: Sequence[Run]) -> None:
        shown[:] = [(run, _detail(board, run)) for run in runs]

    console = Console(stderr=True)
    with Live(
        get_renderable=lambda: _text(shown, datetime.now(UTC), console.width).append(_STOPS),
        console=console,
        refresh_per_second=4,
        transient=True,
    ):
        yield show


def _remark_problem(problem: str) -> None:
    remark(f"Still waiting: {problem}")


def _remark_blocked(reported: set[int], runs: Sequence[Run]) -> None:
    """Report each run that is blocked once."""
    new = [run for run in runs if run.id not in reported and (run.blocked_by or run.never_starts)]
    reported.update(run.id for run in new)
    for line in _blocked_lines(new):
        _remark_problem(line)


def _detail(board: Board, run: Run) -> str:
    """Return the detail of a run's state: the reason for its wait, or the number of its current case."""
    if run.state == "queued":
        return one_line(run.status.reason)
    if run.state.unsent:
        return one_line(run.blocked_by)
    is_told = run.state == "running" and not run.status.cancel_requested
    progress = board.runs.progress(run.id) if is_told else []
    return ", ".join(filter(None, (place_text(progress[-1]), time_so_far(progress)))) if progress else ""


def _text(shown: Sequence[tuple[Run, str]], now: datetime, width: int) -> "Text":
    """Return runs with their details, on a narrow terminal without these, then without the GPUs."""
    from rich.text import Text

    runs = table(
        shown,
        (Column(""), lambda each: f"run {each[0].id}"),
        (Column("", leaves=2), lambda each: each[0].gpu),
        (Column(""), lambda each: outcome(each[0])),
        (Column(""), lambda each: _elapsed(each[0], now)),
        (Column("", flexible=True, least=8, leaves=1, wraps=True), lambda each: each[1]),
    )
    return Text(plain([runs], width).rstrip("\n"), no_wrap=True)


def _elapsed(run: Run, now: datetime) -> str:
    end = (run.ended_at or run.status.at) if run.state.ended else now
    seconds = max(0, int((end - run.created_at).total_seconds()))
    return f"{seconds // 60}:{seconds % 60:02}"
