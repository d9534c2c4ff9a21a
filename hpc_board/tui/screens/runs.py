"""The runs: a live table, and the selected one in words."""

from dataclasses import replace
from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.model.run import Run
from hpc_board.tui.messages import OpenReport, OpenStandings, OpenSubmit, RunsArrived
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import facts
from hpc_board.tui.widgets.grid import Column, Grid, Row
from hpc_board.tui.wording import MODE_WORDS, age, moment, score, since, state, trust, why

_RUNS_MAX = 200

_COLUMNS = (
    Column("id", "Run", 5, right=True),
    Column("user", "User", 9),
    Column("task", "Task", 12),
    Column("gpu", "GPU", 7),
    Column("mode", "Mode", 6, from_width=70),
    Column("state", "State", 13),
    Column("why", "Why", 10, grows=True),
    Column("score", "Score", 8, right=True),
    Column("age", "Age", 6, right=True, from_width=78),
)


class RunsScreen(BoardScreen):
    """The newest runs, looked up again about once a second."""

    CSS_PATH = "runs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", "Cancel", tooltip="Cancel the selected run, after a question"),
        Binding("s", "submit", "Submit", tooltip="Submit a file for the task of the selected run"),
        Binding("b", "standings", "Board", tooltip="Show the board of the selected run"),
        Binding("a", "everyone", "Own/all", tooltip="Switch between your own runs and everyone's"),
    ]
    HELP: ClassVar[str] = (
        "queued and running are the scheduler's words, pass and wrong value are the judge's. lost, error, node fail "
        "and preempted are not the kernel's fault. Age counts from the last change of state, or from the job's end. "
        "The runs go on when you leave."
    )

    grid = getters.query_one("#runs", Grid)
    details = getters.query_one("#details", Static)

    def __init__(self, board: Board, now: Clock, selected: int | None = None) -> None:
        super().__init__(board, now)
        self._wanted = selected
        self._everyone = False
        self._runs: dict[str, Run] | None = None

    def compose_body(self) -> ComposeResult:
        """The table, and beside or below it the selected run."""
        with Container(id="panes"):
            yield Grid(self._columns(), id="runs")
            with VerticalScroll(id="selected", can_focus=False):
                yield Static(toned("Reading the runs …", Tone.MUTED), id="details", markup=False)

    def on_mount(self) -> None:
        """Read the runs."""
        super().on_mount()
        self._show_scope()
        self.grid.focus()
        self.look_again()

    def look_again(self) -> None:
        """Read the runs again."""
        self._ask(patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to cancel only what has not ended; the key keeps its place while the selection moves."""
        if action == "cancel" and (self._selected is None or self._selected.state.ended):
            return None
        return super().check_action(action, parameters)

    def action_everyone(self) -> None:
        """Switch between one's own runs and everyone's."""
        self._everyone = not self._everyone
        self._show_scope()
        self.grid.set_columns(self._columns())
        self._ask(patient=False)

    def action_standings(self) -> None:
        """Show the board that the selected run belongs to."""
        if (run := self._selected) is not None:
            self.post_message(OpenStandings(run.task, run.gpu))

    def action_submit(self) -> None:
        """Submit for the task of the selected run."""
        run = self._selected
        self.post_message(OpenSubmit(run.task if run else None))

    def action_cancel(self) -> None:
        """Ask whether the selected run shall be cancelled, and do so."""
        if (run := self._selected) is not None:
            self.offer_cancel(run)

    @property
    def _selected(self) -> Run | None:
        return (self._runs or {}).get(self.grid.current or "")

    def _ask(self, *, patient: bool) -> None:
        everyone = self._everyone

        def question() -> RunsArrived:
            return RunsArrived(everyone, self.board.runs(everyone=everyone, limit=_RUNS_MAX))

        self.ask("runs", question, patient=patient)

    def _columns(self) -> list[Column]:
        if not self._everyone:
            return [column for column in _COLUMNS if column.key != "user"]
        return [replace(column, from_width=88) if column.key == "mode" else column for column in _COLUMNS]

    def _show_scope(self) -> None:
        self.title_bar.show_place("Runs", "everyone" if self._everyone else "own")

    @on(RunsArrived)
    def _show_runs(self, event: RunsArrived) -> None:
        if event.everyone is not self._everyone:
            return
        self._runs = {str(run.id): run for run in event.runs}
        wanted, self._wanted = self._wanted, None
        self.grid.show(map(self._row, event.runs), select=None if wanted is None else str(wanted))
        self._show_details()

    @on(Grid.Highlighted)
    def _show_details(self) -> None:
        run = self._selected
        self.refresh_bindings()
        if run is not None:
            self.details.update(self._details(run))
        elif self._runs is not None:
            whose = "Nobody has" if self._everyone else "You have"
            self.details.update(toned(f"{whose} no runs yet. Press s to submit a file.", Tone.MUTED))

    @on(Grid.Chosen)
    def _open(self, event: Grid.Chosen) -> None:
        self.post_message(OpenReport(int(event.key)))

    def _row(self, run: Run) -> Row:
        word, tone = state(run)
        own = run.user == self.board.user
        cells = {
            "id": toned(run.id, Tone.MUTED),
            "user": toned(run.user, Tone.OWN if own else Tone.PLAIN),
            "task": toned(run.task),
            "gpu": toned(run.gpu),
            "mode": toned(MODE_WORDS[run.mode], Tone.MUTED),
            "state": toned(word, tone),
            "why": toned(why(run), Tone.MUTED),
            "score": toned(score(run.score_s)),
            "age": toned(age(run, self.now()), Tone.MUTED),
        }
        return Row(str(run.id), cells)

    def _details(self, run: Run) -> Group:
        word, tone = state(run)
        head = Text.assemble((word, f"bold {tone.value}"), " ", toned(since(run, self.now()), Tone.MUTED))
        lines = [
            ("Why", why(run)),
            ("Note", run.note),
            ("File", f"{run.file_name} · {run.mode} · {run.task} on {run.gpu}"),
            (
                "Job",
                " · ".join(
                    filter(None, [run.status.job_id or "none yet", run.cluster, run.partition, run.status.node])
                ),
            ),
            ("Starts", moment(run.status.expected_start)),
            ("Evidence", run.status.evidence if run.status.evidence != why(run) else ""),
            ("Trust", trust(run)),
        ]
        return Group(head, facts(lines))
