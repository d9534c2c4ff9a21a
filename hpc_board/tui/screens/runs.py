"""The list of runs, with a filter and details of the selected run."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import ClassVar

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import BindingType

from hpc_board.board import Board
from hpc_board.domain.run import Cancellation, Progress, Run, RunState
from hpc_board.errors import BoardError, Refused
from hpc_board.report.formatting import moment_text, span_text
from hpc_board.report.run_words import times, trust, why
from hpc_board.report.runs import step_text
from hpc_board.tui import targets
from hpc_board.tui.formatting import since, state
from hpc_board.tui.paging import Page, Part, Span, paged
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import EVERYONE, OWN, Line, cells, run_order
from hpc_board.tui.screens.base import NOTHING_SELECTED, SORT_HELP, BoardScreen, Clock
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import app_binding, bindings
from hpc_board.tui.widgets.blocks import drawn, facts
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane
from hpc_board.tui.widgets.progress_line import RunRead, UsualTimes, read_run
from hpc_board.tui.widgets.text_pane import SourceText, SourceView, source_of

_STEPS_MAX = 16
"""The most running runs whose progress is read at a time, as each is a file."""

_STALE = timedelta(seconds=10)
"""The least age of data that the title shows."""


_CHOSEN = "m on another run compares both; m again unmarks this one"


class RunsScreen(RunScreen):
    """The runs that match the filter; the visible ones are updated about once a second."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("filter", "select", "scope", "sort", "reverse", "select_all"),
        app_binding("cluster"),
    ]
    SHOWS_OUTPUT: ClassVar[bool] = True
    HELP: ClassVar[str] = (
        "queued and running are states of the job, pass and wrong value are verdicts of the judge. lost, error, node "
        "fail and preempted are not the kernel's fault. Age is the time since the last change of state, or since the "
        "end of the job. The filter matches words of task, GPU, state, mode, note, file and user. All words must "
        "match; Enter keeps the filter, Esc clears it. Space selects several runs for c and R. "
        f"{SORT_HELP} States sort as: in flight, passed, failed, stopped. "
        "Runs continue after you quit."
    )

    pane: getters.query_one[ListPane[Line]] = getters.query_one(ListPane)
    code = getters.query_one(SourceView)

    def __init__(self, board: Board, now: Clock, target: targets.Runs) -> None:
        super().__init__(board, now, target)
        self._selected_at_first = target.first
        self._gpu = target.gpu
        self._everyone = target.everyone
        self._opened_at = now()
        self._preview: RunRead | None = None
        self._usual_times: UsualTimes = {}
        self._totals: dict[bool, tuple[int, int]] = {}
        """The newest run and the number of all runs at the last count, of everyone's and of own ones."""

    def compose_body(self) -> ComposeResult:
        if self._gpu is None:
            self._everyone = self.memory.get("runs", self._scope_key, False)
        kind: Kind[Line] = Kind(
            self._columns,
            key=lambda line: str(line.run.id),
            target=lambda line: targets.Report(line.run.id),
            cells=lambda line: cells(line, self.now(), self.board.user),
            details=self._details,
            filter_words="words of any column, the note or the file: h100 wrong float4",
            nothing=self._nothing,
            run=lambda line: line.run.id,
            title="Runs",
            heading=lambda line: f"Run {line.run.id}",
        )
        code = SourceView("File", view="code")
        yield ListPane(kind, self._pages, id="run-list", grid_id="runs", beside=code).data_bind(BoardScreen.marked)

    def begin(self) -> None:
        if self._selected_at_first:
            self.pane.select_once_read(str(self._selected_at_first))
        self._show_scope()
        self.pane.grid.focus()

    def look_again(self) -> None:
        self.read(self.pane)
        self._read_preview()
        self._show_scope()

    def fit_body(self) -> None:
        self._read_preview()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("select", "sort") and self.is_mounted and self.pane.is_empty:
            return False  # the keys that an empty list names need the room
        if action == "cancel":
            return any(not run.state.ended for run in self._chosen)
        if action == "filter" and self.is_mounted and self.pane.is_empty and not self.pane.words:
            return False
        return super().check_action(action, parameters)

    def reason_against(self, action: str) -> str:
        if action in ("select", "toggle_all") and self._selected is None:
            return NOTHING_SELECTED
        if action == "rerun" and self._chosen:
            return next(filter(None, map(self.reason_of_owner, self._chosen)), "")
        return super().reason_against(action)

    def shows(self, target: targets.Target) -> bool:
        return isinstance(self.target, targets.Runs) and replace(self.target, first=None) == target

    def action_back(self) -> None:
        if self.pane.chosen:
            self.pane.unchoose()
        else:
            super().action_back()

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {**super().key_labels, "scope": "Your runs" if self._everyone else "All users"}

    def action_scope(self) -> None:
        self._everyone = not self._everyone
        self.memory.set("runs", self._scope_key, self._everyone)
        self.refresh_bindings()
        self.pane.unchoose()
        self._show_scope()
        self.pane.set_columns(self._columns)
        self.pane.jump(Span())

    @property
    def _scope_key(self) -> str:
        """Return the name under which the scope of the list is remembered, of each board its own."""
        return f"everyone {self.board.address}"

    def action_cancel(self) -> None:
        self.offer_cancel(self._chosen)

    def action_rerun(self) -> None:
        if runs := self._chosen:
            self.offer_again(runs)

    def action_select(self) -> None:
        self.pane.choose()

    def action_toggle_all(self) -> None:
        self.pane.choose_all()

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        return self._selected

    @property
    def _chosen(self) -> list[Run]:
        """Return the runs that Space has selected, or else the one of the current line."""
        chosen = [line.run for line in self.pane.chosen] if self.is_mounted else []
        return chosen or ([self._selected] if self._selected is not None else [])

    @property
    def _selected(self) -> Run | None:
        line = self.pane.selected if self.is_mounted else None
        return None if line is None else line.run

    def _pages(self, words: str) -> Page[Line]:
        everyone, order = self._everyone, run_order(self.pane.sorting)
        # The start of an ended run is final.
        known = {line.run.id: line.started for line in self.pane.window.items if line.run.state.ended}
        left = _STEPS_MAX

        def read(offset: int, limit: int) -> Sequence[Line]:
            nonlocal left
            runs = self.board.runs.list(
                everyone=everyone, gpu=self._gpu, words=words, order=order, offset=offset, limit=limit
            )
            started = known | self.board.runs.started([run.id for run in runs if run.id not in known])
            running = [run.id for run in runs if run.state is RunState.RUNNING][:left]
            left -= len(running)
            steps = self._steps(running)
            return [Line(run, step=steps.get(run.id), started=started.get(run.id)) for run in runs]

        pages = paged(read, lambda: self.board.runs.count(everyone=everyone, gpu=self._gpu, words=words))

        def page(span: Span) -> Part[Line]:
            part = pages(span)
            # Counting the matches of words would read all runs.
            return part if words else replace(part, total=self._total(part.items, everyone=everyone))

        return page

    def _total(self, lines: Sequence[Line], *, everyone: bool) -> int:
        """Return the number of all runs, which is counted again once a page has a newer run."""
        counted, total = self._totals.get(everyone, (0, 0))
        newest = max((line.run.id for line in lines), default=0)
        if newest > counted:
            total = self.board.runs.count(everyone=everyone, gpu=self._gpu)
            self._totals[everyone] = newest, total
        return total

    def _steps(self, running: list[int]) -> dict[int, Progress]:
        """Return the current steps of these runs, without those whose progress file is unreadable."""
        steps: dict[int, Progress] = {}
        for id_ in running:
            try:
                progress = self.board.runs.progress(id_)
            except BoardError:
                continue
            if progress:
                steps[id_] = progress[-1]
        return steps

    @property
    def _columns(self) -> tuple[Column, ...]:
        return EVERYONE if self._everyone else OWN

    @property
    def place(self) -> tuple[str, ...]:
        """Return the path of this screen without the scope of its list; a run just sent asks before this is mounted."""
        return *self.way, "Runs"

    def _show_scope(self) -> None:
        places = ["all users" if self._everyone else "your runs", *([self._gpu] if self._gpu else [])]
        old = self.now() - (self.answered_at(self.pane.subject) or self._opened_at)
        if old >= _STALE and not self.board.served:
            places.append(f"{span_text(old)} old")
        self.show_place("Runs", " · ".join(places))

    def _notify_cancelled(self, answers: Sequence[Cancellation]) -> None:
        self.pane.unchoose()
        super()._notify_cancelled(answers)

    def follow_sent(self, runs: Sequence[Run]) -> None:
        self.pane.select_once_read(str(runs[0].id))
        self.pane.unchoose()
        if self.pane.is_filtered:
            words = f"run {runs[0].id}" if len(runs) == 1 else f"{len(runs)} runs, {runs[0].id} to {runs[-1].id}"
            self.notify(f"Rerun as {words}.")
        self.read(self.pane, patient=False)

    def _nothing(self) -> str:
        whose = "No runs" if self._everyone else "You have no runs"
        where = f" on {self._gpu}" if self._gpu else ""
        return f"{whose}{where} yet.\nPress s to submit a file, or e on Tasks for a starter."

    def _details(self, line: Line) -> RenderableType:
        run, step = line.run, line.step
        word, tone = state(run)
        head = Text.assemble((word, f"bold {tone.value}"), " ", toned(since(run, self.now()), Tone.MUTED))
        lines = [
            ("Marked", _CHOSEN if run.id == self.marked else ""),
            ("Now", step_text(step) if step else ""),
            ("Reason", why(run)),
            ("Note", run.note),
            ("File", f"{run.file_name} · {run.mode} · {run.task} on {run.gpu}"),
            (
                "Job",
                " · ".join(
                    filter(None, [run.status.job_id or "none yet", run.cluster, run.partition, run.status.node])
                ),
            ),
            ("Times", times(run, line.started, self.now())),
            ("Starts", moment_text(run.status.expected_start)),
            ("Evidence", run.status.source if run.status.source != why(run) else ""),
            ("Trust", trust(run) if trust(run) != "self-run" else ""),
        ]
        known = Group(head, facts(lines))
        if self._preview is None or self._preview.run.id != run.id or not self.has_class("-huge"):
            return known
        if self.has_class("-high", "-code"):
            return Group(known, "", drawn(self._preview.outcome(self.board.user, tests=True)))
        halves = Table.grid(padding=(0, 2), expand=True)
        halves.add_column(ratio=2)
        halves.add_column(ratio=3)
        halves.add_row(known, drawn(self._preview.outcome(self.board.user)))
        return halves

    @on(ListPane.Selected)
    def _read_preview(self) -> None:
        """Read the selected run for a huge screen, unless its end is shown already."""
        run = self._selected
        if run is None or not self.has_class("-huge"):
            return
        if self._preview is None or self._preview.run != run or not run.state.ended:
            self.ask("preview", partial(self._read_run, run), self._show_preview, patient=True)

    def _read_run(self, run: Run) -> tuple[RunRead, SourceText]:
        """Return a run with its file, which is empty where it is not shown."""
        file = SourceText("", "")
        with suppress(Refused):
            file = source_of(self.board, run.id) if self.has_class("-high") else file
        return read_run(self.board, run.id, self._usual_times), file

    def _show_preview(self, answer: tuple[RunRead, SourceText]) -> None:
        self._preview, file = answer
        self.set_class(bool(file.text), "-code")
        if file.text:
            self.code.show_source(file)
        preview = self._preview
        self.pane.redraw_details()
        # The selection may have moved since the question.
        if self._selected is not None and self._selected.id != preview.run.id:
            self._read_preview()
