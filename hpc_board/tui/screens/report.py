"""One run: how it goes while it goes, and its report when it has ended."""

from typing import ClassVar

from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Log, Static

from hpc_board.board import Board
from hpc_board.model.text import printable
from hpc_board.report import run_report
from hpc_board.tui.messages import CancelRequested, OpenStandings, OpenSubmit, RunRead
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.screens.confirm import Confirm
from hpc_board.tui.widgets.blocks import Blocks
from hpc_board.tui.wording import span, state


class ReportScreen(BoardScreen):
    """A run's report and the job's own output; both are read again while the run is in flight."""

    CSS_PATH = "report.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "Log", tooltip="Switch between the report and the job's own output"),
        Binding("c", "cancel", "Cancel", tooltip="Cancel this run, after a question"),
        Binding("b", "standings", "Board", tooltip="Show the board that this run belongs to"),
        Binding("s", "submit", "Submit", tooltip="Submit a file for the same task"),
    ]
    HELP: ClassVar[str] = (
        "While the run is in flight, its progress and its log come in by themselves. The log is the end of the job's "
        "own output, with control characters taken out."
    )

    blocks = getters.query_one(Blocks)
    log_pane = getters.query_one("#log", Log)
    headline = getters.query_one("#headline", Static)

    def __init__(self, board: Board, now: Clock, run: int) -> None:
        super().__init__(board, now)
        self._run_id = run
        self._read: RunRead | None = None
        self._log = ""

    def compose_body(self) -> ComposeResult:
        """The state on one line, the report, and beside or instead of it the log."""
        yield Static(toned("Reading the run …", Tone.MUTED), id="headline", markup=False)
        with Container(id="panes"):
            yield Blocks(id="report")
            yield Log(id="log")

    def on_mount(self) -> None:
        """Read the run."""
        super().on_mount()
        self.title_bar.show_place("Runs", f"Run {self._run_id}")
        self.blocks.focus()
        self.look_again()

    def look_again(self) -> None:
        """Read the run again, unless it has ended."""
        if self._read is None or not self._read.run.state.ended:
            self.ask("run", self._everything, patient=True)
        if self._read is not None:
            self._show_headline(self._read)

    def action_log(self) -> None:
        """Switch between the report and the log."""
        self.set_class(not self.has_class("-log"), "-log")
        (self.log_pane if self.has_class("-log") else self.blocks).focus()

    def action_cancel(self) -> None:
        """Ask whether this run shall be cancelled, and do so."""
        if self._read is None:
            return
        if self._read.run.state.ended:
            self.notify(f"Run {self._run_id} has already ended.", markup=False)
            return

        def act(yes: bool | None) -> None:
            if yes:
                self.ask("cancel", lambda: CancelRequested(self.board.cancel(self._run_id)))

        self.app.push_screen(Confirm(f"Cancel run {self._run_id}?", "Cancel the run", "Keep it"), act)

    def action_standings(self) -> None:
        """Show the board that this run belongs to."""
        if self._read is not None:
            self.post_message(OpenStandings(self._read.run.task, self._read.run.gpu))

    def action_submit(self) -> None:
        """Submit for the same task."""
        self.post_message(OpenSubmit(self._read.run.task if self._read else None))

    def _everything(self) -> RunRead:
        run = self.board.run(self._run_id)
        return RunRead(
            run,
            self.board.result(run.id),
            tuple(self.board.history(run.id)),
            tuple(self.board.progress(run.id)),
            self.board.rank(run),
            self.board.log(run.id),
        )

    @on(RunRead)
    def _show_run(self, event: RunRead) -> None:
        self._read = event
        self._show_headline(event)
        blocks = run_report(event.run, event.result, event.history, event.progress, event.rank, log=event.log)
        self.blocks.show(blocks[1:])
        nothing = "The job has printed nothing." if event.run.state.ended else "The job has printed nothing yet."
        self._show_log(printable(event.log, len(event.log)) or nothing)

    def _show_headline(self, event: RunRead) -> None:
        run = event.run
        word, tone = state(run)
        age = span(self.now() - run.status.at)
        when = f" {age} ago" if run.state.ended else f" for {age}"
        what = toned(f"{run.task} on {run.gpu}, {run.mode}: ")
        self.headline.update(Text.assemble(what, " ", (word, f"bold {tone.value}"), (when, Tone.MUTED.value)))

    def _show_log(self, text: str) -> None:
        if text == self._log:
            return
        if self._log and text.startswith(self._log):
            self.log_pane.write(text[len(self._log) :])
        else:
            self.log_pane.clear()
            self.log_pane.write(text)
        self._log = text

    @on(CancelRequested)
    def _tell_cancelled(self) -> None:
        self.notify(f"Asked the scheduler to cancel run {self._run_id}.", markup=False)
        self.look_again()
