"""The wait for runs, with a live display if stderr is a terminal."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from hpc_board.board import Board
from hpc_board.cli.global_options import is_quiet
from hpc_board.cli.output import remark
from hpc_board.domain.run import Run
from hpc_board.errors import WaitExpired
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Column, table
from hpc_board.report.plain import plain
from hpc_board.report.run_words import outcome, place_text

if TYPE_CHECKING:
    from rich.text import Text


def follow(board: Board, ids: Sequence[int], timeout_seconds: float | None) -> list[Run]:
    """Wait until all runs have ended, and return them. An interrupt ends the wait, not the runs.

    Raises:
        WaitExpired: `timeout_seconds` are over; the runs go on.
    """
    runs = [board.runs.get(id_) for id_ in ids]
    reported: dict[int, str] = {}
    try:
        with _display(board, reported) as show:
            for runs in board.runs.wait(ids, timeout_seconds=timeout_seconds, say=_remark_problem):
                show(runs)
    except WaitExpired:
        _report_never_starting(runs, reported)
        report_unsent(runs, reported, served=board.served)
        raise
    except KeyboardInterrupt:
        remark("Stopped waiting.")
        _report_never_starting(runs, reported)
        _report_in_flight([run for run in runs if not run.state.ended and not run.state.unsent])
        report_unsent(runs, reported, served=board.served)
        raise
    return runs


def _report_never_starting(runs: Sequence[Run], reported: Mapping[int, str]) -> None:
    """Report runs that will never start, each with its reason, except those in `reported`."""
    for run in runs:
        if run.never_starts and reported.get(run.id) != run.never_starts:
            remark(_never_starts_line(run))


def _never_starts_line(run: Run) -> str:
    return f"Run {run.id} on {run.gpu} {one_line(run.never_starts, 500)}"


def _report_in_flight(runs: Sequence[Run]) -> None:
    if runs:
        ids = [str(run.id) for run in runs]
        remark(
            f"The runs go on: {', '.join(ids)}.\n"
            f"`hpc-board watch {ids[0]}` follows a run, `hpc-board cancel {' '.join(ids)}` cancels them."
        )


def report_unsent(runs: Sequence[Run], reported: Mapping[int, str] = MappingProxyType({}), *, served: bool) -> None:
    """Report on stderr the runs that are not queued yet, each with its reason, and their next step.

    `reported` maps numbers of runs to reasons that were reported before.
    """
    unsent = [run for run in runs if run.state.unsent]
    for run in unsent:
        remark(_unsent_line(run, because=reported.get(run.id) != run.blocked_by))
    _report_stored([run for run in unsent if not run.status.cancel_requested], served=served)
    _report_cancelled([run for run in unsent if run.status.cancel_requested], served=served)


def _unsent_line(run: Run, *, because: bool = True) -> str:
    reason = f": {one_line(run.blocked_by, 500)}" if because and run.blocked_by else "."
    return f"Run {run.id} on {run.gpu} is not queued yet{reason}"


def _report_stored(runs: Sequence[Run], *, served: bool) -> None:
    """Report who sends unsent runs: the service, or commands of a client."""
    if not runs:
        return
    ids = [str(run.id) for run in runs]
    when = " once the scheduler answers" if any(run.status.unanswered for run in runs) else ""
    remark(
        f"Stored; {_senders(ids[0], served=served)} sends it{when}: do not submit again. "
        f"`hpc-board cancel {' '.join(ids)}` cancels it."
    )


def _senders(id_: object, *, served: bool) -> str:
    return "the service" if served else f"`hpc-board watch {id_}`, `hpc-board poll` or the app"


def _report_cancelled(runs: Sequence[Run], *, served: bool) -> None:
    """Report cancelled runs whose job the scheduler has not confirmed yet."""
    if runs:
        ids = ", ".join(str(run.id) for run in runs)
        senders = _senders(runs[0].id, served=served)
        remark(
            f"Cancel requested: run {ids}. {senders[0].upper()}{senders[1:]} completes it once the scheduler answers."
        )


class _Show(Protocol):
    def __call__(self, runs: Sequence[Run]) -> None: ...


@contextmanager
def _display(board: Board, reported: dict[int, str]) -> Iterator[_Show]:
    """Yield a function that shows runs until the block ends.

    Without a terminal on stderr it only reports runs that are blocked, and adds their reasons to `reported`.
    """
    if is_quiet() or not sys.stderr.isatty():
        yield _BlockedRuns(reported)
        return
    from rich.console import Console
    from rich.live import Live

    shown: list[tuple[Run, str]] = []

    def show(runs: Sequence[Run]) -> None:
        shown[:] = [(run, _detail(board, run)) for run in runs]

    console = Console(stderr=True)
    with Live(
        get_renderable=lambda: _text(shown, datetime.now(UTC), console.width),
        console=console,
        refresh_per_second=4,
        transient=True,
    ):
        yield show


def _remark_problem(problem: str) -> None:
    remark(f"Still waiting: {problem}")


class _BlockedRuns:
    """A reporter of runs that cannot be sent or will never start, each once."""

    def __init__(self, reported: dict[int, str]) -> None:
        self._reported = reported

    def __call__(self, runs: Sequence[Run]) -> None:
        for run in runs:
            if run.blocked_by and run.id not in self._reported:
                self._reported[run.id] = run.blocked_by
                remark(f"Still waiting: {_unsent_line(run)}")
        _report_never_starting(runs, self._reported)
        self._reported.update({run.id: run.never_starts for run in runs if run.never_starts})


def _detail(board: Board, run: Run) -> str:
    """Return the detail of a run's state: the reason for its wait, or the number of its current case."""
    if run.state == "queued":
        return one_line(run.status.reason)
    if run.state.unsent:
        return one_line(run.blocked_by)
    progress = board.runs.progress(run.id) if run.state == "running" else []
    return place_text(progress[-1]) if progress else ""


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
