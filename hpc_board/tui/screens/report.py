"""One run: how it goes while it goes, and its report when it has ended."""

from typing import ClassVar

from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Log, Static

from hpc_board.board import Board
from hpc_board.report import nothing_printed, run_logs, run_report
from hpc_board.tui.messages import OpenStandings, OpenSubmit, RunRead
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.blocks import Blocks
from hpc_board.tui.wording import since, state


class ReportScreen(BoardScreen):
    """A run's report and what it printed; both are read again while the run is in flight."""

    CSS_PATH = "report.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "Log", tooltip="Switch between the report and what was printed"),
        Binding("c", "cancel", "Cancel", tooltip="Cancel this run, after a question"),
        Binding("b", "standings", "Board", tooltip="Show the board that this run belongs to"),
        Binding("s", "submit", "Submit", tooltip="Submit a file for the same task"),
    ]
    HELP: ClassVar[str] = (
        "While the run is in flight, its progress and its log come in by themselves. The log has what the kernel "
        "printed and the end of what the batch script printed, without control characters."
    )

    blocks = getters.query_one(Blocks)
    log_pane = getters.query_one("#log", Log)
    headline = getters.query_one("#headline", Static)

    def __init__(self, board: Board, now: Clock, run: int) -> None:
        super().__init__(board, now)
        self.run_id = run
        self._read: RunRead | None = None
        self._log = ""

    def compose_body(self) -> ComposeResult:
        """The state on one line, the report, and beside or instead of it the log."""
        yield Static(toned("Reading the run …", Tone.MUTED), id="headline", markup=False)
        with Container(id="panes"):
            yield Blocks(id="report")
            with Vertical(id="printed"):
                yield Static(id="nothing", markup=False)
                yield Log(id="log")

    def on_mount(self) -> None:
        """Read the run."""
        super().on_mount()
        self.title_bar.show_place("Runs", f"Run {self.run_id}")
        self.blocks.focus()
        self.look_again()

    def look_again(self) -> None:
        """Read the run again, unless it has ended."""
        if self._read is None or not self._read.run.state.ended:
            self.ask("run", self._everything, patient=True)
        if self._read is not None:
            self._show_headline(self._read)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to cancel only what has not ended."""
        if action == "cancel" and (self._read is None or self._read.run.state.ended):
            return False
        return super().check_action(action, parameters)

    def action_back(self) -> None:
        """Leave the log where it hides the report, or the report."""
        if self.has_class("-log", "-narrow"):
            self.action_log()
        else:
            super().action_back()

    def action_log(self) -> None:
        """Switch between the report and the log; one that still grows opens at its end."""
        self.toggle_class("-log")
        if not self.has_class("-log"):
            self.blocks.focus()
            return
        self.log_pane.focus()
        if self._read is not None and not self._read.run.state.ended:
            self.call_after_refresh(self.log_pane.scroll_end, animate=False)

    def action_cancel(self) -> None:
        """Ask whether this run shall be cancelled, and do so."""
        if self._read is not None:
            self.offer_cancel(self._read.run)

    def action_standings(self) -> None:
        """Show the board that this run belongs to."""
        if self._read is not None:
            self.post_message(OpenStandings(self._read.run.task, self._read.run.gpu))

    def action_submit(self) -> None:
        """Submit for the same task."""
        self.post_message(OpenSubmit(self._read.run.task if self._read else None))

    def _everything(self) -> RunRead:
        run = self.board.run(self.run_id)
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
        self.refresh_bindings()
        self._show_headline(event)
        blocks = run_report(event.run, event.result, event.history, event.progress, event.rank, log=event.log)
        self.blocks.show(blocks[1:])
        logs = run_logs(event.result, event.log)
        text = "\n".join(f"── {log.title}\n{log.text.rstrip()}\n" for log in logs)
        nothing = self.query_one("#nothing", Static)
        nothing.display = not text
        nothing.update(nothing_printed(event.run))
        self._show_log(text, from_top=event.run.state.ended)

    def _show_headline(self, event: RunRead) -> None:
        run = event.run
        word, tone = state(run)
        what = toned(f"{run.task} on {run.gpu}, {run.mode}: ")
        age = toned(since(run, self.now()), Tone.MUTED)
        self.headline.update(Text.assemble(what, " ", (word, f"bold {tone.value}"), " ", age))

    def _show_log(self, text: str, *, from_top: bool) -> None:
        """Show this text and follow it while its end is in sight; one that is complete at first is read `from_top`."""
        if text == self._log:
            return
        pane = self.log_pane
        follow = pane.is_vertical_scroll_end and not (from_top and not self._log)
        if self._log and text.startswith(self._log):
            pane.write(text[len(self._log) :], scroll_end=False)
        else:
            pane.clear().write(text, scroll_end=False)
        self._log = text
        if follow:
            # Only after the next layout is the end where the new lines are.
            self.call_after_refresh(pane.scroll_end, animate=False)
