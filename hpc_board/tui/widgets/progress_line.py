"""The line with a run's progress: a bar over its cases and the time left, or the reason why it waits."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import median

import msgspec
from msgspec.structs import asdict
from rich.text import Text
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.comparison import LeaderRun
from hpc_board.domain.run import Progress, Run, RunState, WholeRun
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.report.blocks import Block
from hpc_board.report.formatting import span_text
from hpc_board.report.run_progress import RunProgress, case_counts, run_progress, time_left, tools_of
from hpc_board.report.run_words import JUDGED, ran, start_text, why
from hpc_board.report.runs import run_outcome
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.blocks import show_text

_BAR_CELLS_MIN, _BAR_CELLS_MAX = 8, 40
_BAR_SHARE = 0.25
"""The share of the line that the bar takes, within its bounds."""


_EARLIER_MAX = 9
"""The number of earlier runs whose median is the usual time."""


class UsualTime(msgspec.Struct, frozen=True):
    """The cases of a run's task by phase, and the usual time of its user's runs like it; None without any."""

    counts: Mapping[str, int]
    usual: timedelta | None = None


class RunRead(WholeRun, frozen=True, kw_only=True):
    """A run with its progress and its log; while it is running, also with its start and its usual time."""

    progress: tuple[Progress, ...]
    log: str
    started: datetime | None
    usual_time: UsualTime

    def outcome(
        self, reader: str, *, logs: bool = True, tables: bool = True, tests: bool = False, best: LeaderRun | None = None
    ) -> tuple[Block, ...]:
        """Return the first part of the report, see `run_outcome`."""
        of_run = self.run, self.result, self.history, self.progress, self.placing
        return run_outcome(*of_run, log=self.log, logs=logs, tables=tables, tests=tests, reader=reader, best=best)


UsualTimes = dict[tuple[str, Mode], UsualTime]
"""The usual times that a screen has read, by GPU and mode."""


def read_run(board: Board, number: int, usual_times: UsualTimes) -> RunRead:
    """Return all of a run; its usual time is read once, and kept in `usual_times`."""
    whole = board.runs.whole(number)
    like, is_running = (whole.run.gpu, whole.run.mode), whole.run.state is RunState.RUNNING
    if is_running and like not in usual_times:
        usual_times[like] = usual_time_of(board, whole.run)
    return RunRead(
        **asdict(whole),
        progress=tuple(board.runs.progress(number)),
        log=board.runs.log(number),
        started=board.runs.started([number]).get(number) if is_running else None,
        usual_time=usual_times.get(like, UsualTime({})),
    )


def usual_time_of(board: Board, run: Run) -> UsualTime:
    """Return the usual time of a run by the user's earlier passing runs in its mode on its GPU."""
    try:
        counts = case_counts(board.tasks.get(run.task), run.mode, tools_of(run))
    except BoardError:
        counts = {}  # a task that has been removed
    found = board.runs.list(
        user=run.user, task=run.task, gpu=run.gpu, mode=run.mode, verdict=Verdict.PASS, limit=_EARLIER_MAX
    )
    ended = {each.id: each.ended_at for each in found if each.task_version == run.task_version}
    started = board.runs.started([*ended])
    times = [(at - started[number]).total_seconds() for number, at in ended.items() if at and number in started]
    return UsualTime(counts, timedelta(seconds=max(0.0, median(times))) if times else None)


class ProgressLine(Static):
    """The progress of a run in flight, hidden for one that has ended."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self.display = False

    def show(self, read: RunRead, now: datetime) -> None:
        words = self._words(read, now)
        self.display = words is not None
        if words is not None:
            show_text(self, words)

    def _words(self, read: RunRead, now: datetime) -> Text | None:
        run, progress, usual_time = read.run, read.progress, read.usual_time
        if run.status.cancel_requested:
            return None
        if run.state is RunState.QUEUED:
            return _waiting(run, now)
        if run.state is not RunState.RUNNING or (found := run_progress(run.mode, progress, usual_time.counts)) is None:
            return None
        time = ran(run, read.started, now)
        left = time_left(time, usual_time.usual)
        step, remark = found.step, ""
        if progress[-1].phase == JUDGED:
            step = ""
        elif left is not None:
            remark = f"usually {span_text(left)} more"
        cells = int(_BAR_SHARE * (self.size.width or self.app.size.width))
        line = bar(found, max(_BAR_CELLS_MIN, min(cells, _BAR_CELLS_MAX)))
        for part, tone in ((f"{found.done}/{found.total}", Tone.STRONG), (remark, Tone.MUTED), (step, Tone.PLAIN)):
            if part:
                line.append("  ").append_text(toned(part, tone))
        return line


def bar(found: RunProgress, cells: int) -> Text:
    """Return a bar of this many cells; heavy and light lines tell done from left without colours."""
    full = round(cells * found.done / found.total) if found.total else 0
    return Text.assemble(("━" * full, Tone.ACCENT.value), ("─" * (cells - full), Tone.MUTED.value))


def _waiting(run: Run, now: datetime) -> Text:
    """Return the reason for the wait, which has the place in the queue where the scheduler tells it, and the start."""
    at = run.status.expected_start
    start = "" if at is None else f"start {at.astimezone():%H:%M}, {start_text(at, now)}"
    reason = why(run).removeprefix("waiting ")
    words = " · ".join(filter(None, (reason, start)))
    waiting = "Waiting" if not words else "Waiting " if reason != why(run) else "Waiting: "
    return Text.assemble((waiting, Tone.WAITING.value), toned(words))
