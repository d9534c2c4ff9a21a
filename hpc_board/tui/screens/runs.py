"""The runs: a live table that can be narrowed down, and the selected one in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.run import Progress, Run, RunState
from hpc_board.errors import BoardError
from hpc_board.report import span_text, step_text
from hpc_board.tui import targets
from hpc_board.tui.formatting import MARKED, MODE_WORDS, age, moment, score, since, state, trust, why
from hpc_board.tui.listing import Listing, Part, Span
from hpc_board.tui.messages import Open, SideChosen
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_words import ran, span, times, waited, why_now
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.grid import Column, Grid, Row

_STEPS_MAX = 16
"""Of how many running runs at most the progress is read at a time: each of them is a file."""

_STALE = timedelta(seconds=10)
"""From when on the age of what is shown stands beside it."""

_CHOSEN = "m on another run compares the two, m on this one takes it back"

_COLUMNS = (
    Column("id", "Run", 5, right=True),
    Column("user", "User", 9),
    Column("task", "Task", 12),
    Column("gpu", "GPU", 7),
    Column("mode", "Mode", 6, from_width=70),
    Column("state", "State", 13),
    Column("why", "Why", 10, grows=True),
    Column("wait", "Waited", 6, right=True, from_width=96),
    Column("ran", "Ran", 6, right=True, from_width=96),
    Column("score", "Score", 8, right=True),
    Column("age", "Age", 6, right=True, from_width=78),
)
_FROM_WIDTH_WITH_USER = {"mode": 88, "wait": 108, "ran": 108}


_NOTHING_READ: Listing[Run] = Listing(lambda run: -run.id)


@dataclass(frozen=True)
class _RunsRead:
    """Parts of the runs that fit a filter, the progress of those that run, and the starts of all."""

    everyone: bool
    words: str
    parts: tuple[Part[Run], ...]
    progress: Mapping[int, Progress]
    started: Mapping[int, datetime]


class RunsScreen(BoardScreen):
    """The runs that fit the filter, looked up again about once a second as far as they are in sight."""

    CSS_PATH = "runs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", "Cancel", tooltip="Cancel the selected run, after a question"),
        Binding("s", "submit", "Submit", tooltip="Submit a file for the task of the selected run"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="Narrow the list down to what you type"),
        Binding("r", "resubmit", "Again", tooltip="Send the selected run's file again, after a question"),
        Binding("a", "everyone", "Own/all", tooltip="Switch between your own runs and everyone's"),
        Binding("b", "standings", "Board", tooltip="Show the board of the selected run"),
        Binding("p", "cluster", "Cluster", tooltip="Show the GPUs as the schedulers have them"),
        Binding("w", "watch", "Watch", show=False, tooltip="Test the file of the selected run whenever it is saved"),
        Binding("y", "copy", "Copy", show=False, tooltip="Copy the number of the selected run"),
        Binding("m", "mark", "Mark", show=False, tooltip="Choose the selected run to compare it, then another one"),
    ]
    HELP: ClassVar[str] = (
        "queued and running are the scheduler's words, pass and wrong value are the judge's. lost, error, node fail "
        "and preempted are not the kernel's fault. Age counts from the last change of state, or from the job's end. "
        "The filter takes words of task, GPU, state, mode, note, file and user. All have to fit; Enter keeps them, Esc "
        "clears them. The runs go on when you leave."
    )

    grid = getters.query_one("#runs", Grid)
    details = getters.query_one("#details", Static)
    filter_line = getters.query_one(FilterLine)

    def __init__(
        self,
        board: Board,
        now: Clock,
        selected: int | None = None,
        *,
        gpu: str | None = None,
        everyone: bool = False,
    ) -> None:
        super().__init__(board, now)
        self._wanted = selected
        self._gpu = gpu
        self._words, self._everyone = "", everyone
        self._listing = _NOTHING_READ
        self._is_known = False
        self._runs: dict[str, Run] = {}
        self._rows: dict[str, Row] = {}
        self._progress: Mapping[int, Progress] = {}
        self._started: dict[int, datetime] = {}
        self._answered_at = now()

    def compose_body(self) -> ComposeResult:
        """The table, the filter's field, and below it the selected run."""
        if self._gpu is None:
            self._everyone = self.memory.get("runs", "everyone", False)
            self._words = self.memory.get("runs", "filter", "")
        with Container(id="panes"):
            yield Grid(self._columns(), id="runs")
            yield FilterLine("/", "words of any column, the note or the file: h100 wrong float4", id="filter")
            with VerticalScroll(id="selected", can_focus=False):
                yield Static(toned("Reading the runs …", Tone.MUTED), id="details", markup=False)

    def on_mount(self) -> None:
        """Read the runs."""
        super().on_mount()
        if self._wanted is None:
            self._wanted = self.memory.get("runs", "selected", 0) or None
        self._show_scope()
        self.grid.focus()
        self.watch(self.grid, "scroll_y", self._read_on, init=False)
        self.look_again()

    def look_again(self) -> None:
        """Read again the runs that are in sight."""
        self._ask(patient=True)
        self._show_scope()

    def settle(self, subject: str) -> None:
        """Say that nothing is known where the first question has failed."""
        if not self._is_known and not self._runs and self.has_failed(subject):
            self.details.update(toned("Nothing is known yet. It is asked again by itself.", Tone.MUTED))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to cancel only what has not ended; the key keeps its place while the selection moves."""
        if action == "cancel" and (self._selected is None or self._selected.state.ended):
            return None
        if action == "filter" and any(field.display for field in self.query(FilterLine)):
            return False
        if action in ("resubmit", "watch", "copy", "mark") and self._selected is None:
            return None
        return super().check_action(action, parameters)

    def action_back(self) -> None:
        """Clear the filter, or leave."""
        if self._words:
            self._narrow_to("")
        else:
            super().action_back()

    def action_everyone(self) -> None:
        """Switch between one's own runs and everyone's."""
        self._everyone = not self._everyone
        self.memory.set("runs", "everyone", self._everyone)
        self.grid.set_columns(self._columns())
        self._begin_anew()

    def action_filter(self) -> None:
        """Narrow the list down to what one types."""
        self.filter_line.open(self._words)

    def action_standings(self) -> None:
        """Show the board that the selected run belongs to."""
        if (run := self._selected) is not None:
            self.post_message(Open(targets.Standings(run.task, run.gpu)))

    def action_submit(self) -> None:
        """Submit for the task of the selected run."""
        run = self._selected
        self.post_message(Open(targets.Submit(run.task if run else None)))

    def action_cluster(self) -> None:
        """Show the GPUs as the schedulers have them."""
        self.post_message(Open(targets.Cluster()))

    def action_watch(self) -> None:
        """Test the selected run's file whenever it is saved."""
        if (run := self._selected) is not None:
            self.post_message(Open(targets.Watch(run.file_name, run.task, (run.gpu,))))

    def action_mark(self) -> None:
        """Choose the selected run's submission to be compared."""
        if (run := self._selected) is not None:
            self.post_message(SideChosen(run.submission, run.task))

    def action_copy(self) -> None:
        """Copy the number of the selected run."""
        if (run := self._selected) is not None:
            self.app.copy_to_clipboard(str(run.id))
            self.notify(f"Copied {run.id}.", markup=False)

    def action_cancel(self) -> None:
        """Ask whether the selected run shall be cancelled, and do so."""
        if (run := self._selected) is not None:
            self.offer_cancel(run)

    def action_resubmit(self) -> None:
        """Ask whether the selected run's file shall be sent again, and do so."""
        if (run := self._selected) is not None:
            self.offer_again(run, self._show_sent)

    @property
    def _selected(self) -> Run | None:
        return self._runs.get(self.grid.current or "")

    def _begin_anew(self) -> None:
        """Ask for other runs than before; what was shown stays until they are there."""
        self._listing, self._is_known = _NOTHING_READ, False
        self._show_scope()
        self._ask(patient=False)

    def _ask(self, *, patient: bool) -> None:
        everyone, words = self._everyone, self._words
        spans = self._listing.spans(self.grid.scroll_offset.y, self.grid.screenful)
        known = set(self._started)

        def question() -> _RunsRead:
            parts = tuple(Part(span, self._read(everyone, words, span)) for span in spans)
            shown = {run.id: run for part in parts for run in part.items}
            running = [id_ for id_, run in shown.items() if run.state is RunState.RUNNING]
            # When a run began that has ended does not change any more.
            unknown = [id_ for id_, run in shown.items() if not run.state.ended or id_ not in known]
            started = self.board.started(unknown)
            return _RunsRead(everyone, words, parts, self._steps(running[:_STEPS_MAX]), started)

        self.ask("runs", question, self._show_runs, patient=patient)

    def _read(self, everyone: bool, words: str, span: Span[Run]) -> tuple[Run, ...]:
        before = None if span.after is None else span.after.id
        return self.board.runs(everyone=everyone, gpu=self._gpu, words=words, limit=span.limit, before=before)

    def _steps(self, running: list[int]) -> dict[int, Progress]:
        """The last word of the harness of each of these runs; a file that cannot be read is no news."""
        steps: dict[int, Progress] = {}
        for id_ in running:
            try:
                told = self.board.progress(id_)
            except BoardError:
                continue
            if told:
                steps[id_] = told[-1]
        return steps

    def _columns(self) -> list[Column]:
        if not self._everyone:
            return [column for column in _COLUMNS if column.key != "user"]
        return [
            replace(column, from_width=_FROM_WIDTH_WITH_USER.get(column.key, column.from_width)) for column in _COLUMNS
        ]

    def _show_scope(self) -> None:
        places = ["everyone" if self._everyone else "own", *([self._gpu] if self._gpu else [])]
        if self._words:
            places.append(f"/{self._words}")
        if (old := self.now() - self._answered_at) >= _STALE:
            places.append(f"{span_text(old)} old")
        self.title_bar.show_place("Runs", " · ".join(places))

    @on(FilterLine.Changed)
    def _narrow(self, event: FilterLine.Changed) -> None:
        self._narrow_to(event.words)

    def _narrow_to(self, words: str) -> None:
        self._words = words
        self.memory.set("runs", "filter", words)
        self._begin_anew()

    @on(FilterLine.Closed)
    def _leave_filter(self) -> None:
        self.grid.focus()
        self.refresh_bindings()

    def _show_runs(self, event: _RunsRead) -> None:
        if (event.everyone, event.words) != (self._everyone, self._words):
            return
        self._answered_at = self.now()
        for part in event.parts:
            self._listing = self._listing.with_part(part)
        anew, self._is_known = not self._is_known, True
        self._progress = event.progress
        self._started |= event.started
        self._runs = {str(run.id): run for run in self._listing.items}
        read = {run.id for part in event.parts for run in part.items}
        self._rows = {
            key: row if (row := self._rows.get(key)) is not None and run.id not in read and not anew else self._row(run)
            for key, run in self._runs.items()
        }
        wanted, self._wanted = self._wanted, None
        self._show_table(str(wanted) if str(wanted) in self._rows else None)
        self._show_details()

    def show_mark(self) -> None:
        """Put a sign before the runs of the submission that is chosen to be compared."""
        self._show_table()
        self._show_details()

    def _show_table(self, select: str | None = None) -> None:
        marked = self.marked
        self.grid.show(
            (
                replace(row, sign=MARKED if marked is not None and self._runs[key].submission == marked else "")
                for key, row in self._rows.items()
            ),
            select=select,
        )

    def _read_on(self) -> None:
        """Read the rows that have come into sight, before the next look would."""
        if self._is_known and not self._listing.reaches(self.grid.scroll_offset.y + 2 * self.grid.size.height):
            self._ask(patient=True)

    def _show_sent(self, runs: Sequence[Run]) -> None:
        self._wanted = runs[0].id
        self.notify(f"Sent again as run {runs[0].id}.", markup=False)
        self._ask(patient=False)

    @on(Grid.Highlighted)
    def _show_details(self) -> None:
        run = self._selected
        self.refresh_bindings()
        if run is not None:
            self.memory.set("runs", "selected", run.id)
            self.details.update(self._details(run))
        elif self._is_known:
            self.details.update(toned(self._nothing, Tone.MUTED))

    @property
    def _nothing(self) -> str:
        if self._words:
            return f"No run fits “{self._words}”. Press / to change the words, Esc to clear them."
        whose = "Nobody has" if self._everyone else "You have"
        where = f" on {self._gpu}" if self._gpu else ""
        return f"{whose} no runs{where} yet. Press s to submit a file; w on Tasks writes a starter."

    @on(Grid.Chosen)
    def _open(self, event: Grid.Chosen) -> None:
        self.post_message(Open(targets.Report(int(event.key))))

    def _row(self, run: Run) -> Row:
        word, tone = state(run)
        own = run.user == self.board.user
        now, started = self.now(), self._started.get(run.id)
        cells = {
            "id": toned(run.id, Tone.MUTED),
            "user": toned(run.user, Tone.OWN if own else Tone.PLAIN),
            "task": toned(run.task),
            "gpu": toned(run.gpu),
            "mode": toned(MODE_WORDS[run.mode], Tone.MUTED),
            "state": toned(word, tone),
            "why": toned(why_now(run, self._progress.get(run.id)), Tone.MUTED),
            "wait": toned(span(waited(run, started, now)), Tone.MUTED),
            "ran": toned(span(ran(run, started, now)), Tone.MUTED),
            "score": toned(score(run.score_s)),
            "age": toned(age(run, now), Tone.MUTED),
        }
        return Row(str(run.id), cells)

    def _details(self, run: Run) -> Group:
        word, tone = state(run)
        head = Text.assemble((word, f"bold {tone.value}"), " ", toned(since(run, self.now()), Tone.MUTED))
        step = self._progress.get(run.id)
        lines = [
            ("Chosen", _CHOSEN if run.submission == self.marked else ""),
            ("Now", step_text(step) if step else ""),
            ("Why", why(run)),
            ("Note", run.note),
            ("File", f"{run.file_name} · {run.mode} · {run.task} on {run.gpu}"),
            (
                "Job",
                " · ".join(
                    filter(None, [run.status.job_id or "none yet", run.cluster, run.partition, run.status.node])
                ),
            ),
            ("Times", times(run, self._started.get(run.id), self.now())),
            ("Starts", moment(run.status.expected_start)),
            ("Evidence", run.status.source if run.status.source != why(run) else ""),
            ("Trust", trust(run)),
        ]
        return Group(head, facts(lines))
