"""The terminal app: it opens screens, follows the runs in flight, and tells the screen in front that time passes."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from hpc_board.board import Board
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from hpc_board.model.run import Run
from hpc_board.tui.choice import Choice
from hpc_board.tui.messages import (
    Beat,
    Chosen,
    Followed,
    OpenReport,
    OpenRuns,
    OpenSent,
    OpenStandings,
    OpenSubmit,
    Pulse,
)
from hpc_board.tui.palette import THEME
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.screens.help import HelpScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.terminal import TerminalDriver
from hpc_board.tui.wording import score, state

BEAT_SECONDS = 1.0
"""How often the screen in front looks at the board again."""

FOLLOW_SECONDS = 2.0
"""How long the app rests before it carries the runs in flight on again."""

WARNING_SECONDS = 20.0
"""How long a warning stays, as it is given once."""


def run(board: Board, file: Path | None = None) -> None:
    """Open the app on `board`, with the form for `file` if one is given, until the user leaves.

    Raises:
        SystemExit: the app ended by a fault of its own.
    """
    app = BoardApp(board, file)
    app.run()
    if app.return_code:
        raise SystemExit(app.return_code)


class BoardApp(App[None]):
    """The app around one Board; `now` is its clock."""

    TITLE = "hpc-board"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Help", key_display="?/F1", tooltip="Show what the keys do here"),
        Binding("question_mark", "help", show=False),
        Binding("ctrl+q", "quit", "Quit", key_display="^q", tooltip="Leave (q too, where you cannot type); runs go on"),
        Binding("q", "quit", show=False),
    ]

    def __init__(
        self,
        board: Board,
        file: Path | None = None,
        *,
        now: Clock = lambda: datetime.now(UTC),
        beat_seconds: float = BEAT_SECONDS,
        follow_seconds: float = FOLLOW_SECONDS,
    ) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._board = board
        self._now = now
        self._beat_seconds = beat_seconds
        self._follow_seconds = follow_seconds
        self._pulse = Pulse()
        self._choice = Choice()
        self._file = file
        self.register_theme(THEME)
        self.theme = THEME.name

    def on_mount(self) -> None:
        """Open the first screen and begin to follow the runs."""
        self._board.warn = self._tell_warning
        self._open(TasksScreen(self._board, self._now))
        if self._file is not None:
            self._choice = Choice(folder=self._file.parent, file=self._file)
            self._open(SubmitScreen(self._board, self._now, self._choice))
        self.set_interval(self._beat_seconds, self._beat)
        self._follow()

    def action_help(self) -> None:
        """Show what the keys do on the screen in front."""
        screen = self.screen
        if isinstance(screen, BoardScreen):
            keys = [
                (self.get_key_display(active.binding), active.binding.tooltip or active.binding.description)
                for active in screen.active_bindings.values()
                if active.binding.tooltip
            ]
            self.push_screen(HelpScreen(screen.HELP, keys))

    async def action_quit(self) -> None:
        """Leave, and say what goes on."""
        runs = self._pulse.in_flight
        if runs:
            names = ", ".join(map(str, runs))
            what = f"Run {names} goes on." if len(runs) == 1 else f"Runs {names} go on."
            self.exit(message=f"{what} `hpc-board runs` shows how they stand.")
        else:
            self.exit()

    @on(OpenSubmit)
    def _open_submit(self, event: OpenSubmit) -> None:
        if event.task is not None and event.task != self._choice.task:
            self._choice = Choice(folder=self._choice.folder, task=event.task)
        self._open(SubmitScreen(self._board, self._now, self._choice), above_tasks=True)

    @on(OpenRuns)
    def _open_runs(self) -> None:
        self._open(RunsScreen(self._board, self._now), above_tasks=True)

    @on(OpenSent)
    def _open_sent(self, event: OpenSent) -> None:
        self._open(RunsScreen(self._board, self._now, event.runs[0]), above_tasks=True)
        if len(event.runs) == 1:
            self._open(ReportScreen(self._board, self._now, event.runs[0]))

    @on(OpenReport)
    def _open_report(self, event: OpenReport) -> None:
        self._open(ReportScreen(self._board, self._now, event.run))

    @on(OpenStandings)
    def _open_standings(self, event: OpenStandings) -> None:
        self._open(StandingsScreen(self._board, self._now, event.task, event.gpu))

    @on(Chosen)
    def _remember(self, event: Chosen) -> None:
        self._choice = event.choice

    def _open(self, screen: Screen[None], *, above_tasks: bool = False) -> None:
        while above_tasks and not isinstance(self.screen, TasksScreen):
            self.pop_screen()
        self.push_screen(screen)
        screen.post_message(Beat(self._pulse))

    def _beat(self) -> None:
        # While the app is closing, its screens are gone before its timers are.
        if self.screen_stack:
            self.screen.post_message(Beat(self._pulse))

    @work(thread=True, exclusive=True, group="follow")
    def _follow(self) -> None:
        """Carry the runs on; the answer asks for the next turn."""
        self.post_message(_followed(self._board, self._pulse))

    @on(Followed)
    def _take_pulse(self, event: Followed) -> None:
        # As above: what was on its way when the app closed has nobody to tell.
        if not self.screen_stack:
            return
        self._pulse = event.pulse
        for ended, rank in event.ended:
            if not (isinstance(self.screen, ReportScreen) and self.screen.run_id == ended.id):
                self._tell_end(ended, rank)
        self._beat()
        self.set_timer(self._follow_seconds, self._follow)

    def _tell_warning(self, text: str) -> None:
        self.notify(text, title="Warning", severity="warning", timeout=WARNING_SECONDS, markup=False)

    def _tell_end(self, run: Run, rank: int | None) -> None:
        word, _ = state(run)
        parts = [f"{run.task} on {run.gpu}: {word}", score(run.score_s), f"rank {rank}" if rank else ""]
        self.notify(
            ", ".join(filter(None, parts)),
            title=f"Run {run.id}",
            severity="information" if run.verdict is Verdict.PASS else "warning",
            markup=False,
        )


def _followed(board: Board, before: Pulse) -> Followed:
    """The runs carried on as far as they go; what could not be found out stays as it was."""
    failure = None
    try:
        board.advance(before.in_flight)
    except BoardError as error:
        failure = error
    try:
        runs = board.runs()
        in_flight = [run for run in runs if not run.state.ended]
        ended = [(run, board.rank(run)) for run in runs if run.id in before.in_flight and run.state.ended]
        asked = [at for cluster in {run.cluster for run in in_flight} if (at := board.asked_at(cluster))]
    except BoardError as error:
        return Followed(dataclasses.replace(before, failure=error), ())
    pulse = Pulse(tuple(run.id for run in in_flight), min(asked, default=None), failure)
    return Followed(pulse, tuple(ended))
