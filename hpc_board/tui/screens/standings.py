"""The boards of one task: who is how fast on each GPU."""

from typing import ClassVar

from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static, Tab, Tabs

from hpc_board.board import Board
from hpc_board.model.standings import Standing
from hpc_board.report import span_text
from hpc_board.tui.messages import AllowedGpusArrived, OpenReport, OpenSubmit, StandingsArrived
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.grid import Column, Grid, Row
from hpc_board.tui.wording import moment, score, trust

_COLUMNS = (
    Column("rank", "Rank", 4, right=True),
    Column("user", "User", 14, grows=True),
    Column("score", "Score", 9, right=True),
    Column("file", "File", 16, grows=True),
    Column("age", "Age", 6, right=True),
    Column("date", "Submitted", 16, from_width=100),
    Column("run", "Run", 5, right=True, from_width=70),
    Column("trust", "Trust", 18),
)


class StandingsScreen(BoardScreen):
    """A tab for each GPU, and the standings there; one's own rows are marked."""

    CSS_PATH = "standings.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "submit", "Submit", tooltip="Submit a file for this task"),
        Binding("left,h", "turn(-1)", "Previous GPU", show=False, tooltip="Show the previous GPU's board"),
        Binding("right,l", "turn(1)", "Next GPU", key_display="←→", tooltip="Show the next GPU's board"),
        Binding("o", "own", "Own/all", tooltip="Switch between everyone's best and all your own ranked runs"),
    ]
    HELP: ClassVar[str] = (
        "self-run: the job ran under the participant's own account. verified: it ran under the board's account. "
        "emulated: the kernel ran on a CPU although the board is named after a GPU. own eval: the task's own harness "
        "judged, in the process of the kernel."
    )

    tabs = getters.query_one(Tabs)
    grid = getters.query_one("#standings", Grid)
    note = getters.query_one("#note", Static)

    def __init__(self, board: Board, now: Clock, task: str, gpu: str | None = None) -> None:
        super().__init__(board, now)
        self._task_name = task
        self._gpu = gpu
        self._gpus: tuple[str, ...] = ()
        self._own = False

    def compose_body(self) -> ComposeResult:
        """The GPUs, the rows, and a line about them."""
        yield Tabs(id="gpus")
        yield Grid(_COLUMNS, id="standings")
        yield Static(toned("Asking for the boards …", Tone.MUTED), id="note", markup=False, classes="hint")

    def on_mount(self) -> None:
        """Ask which boards there are."""
        super().on_mount()
        self.title_bar.show_place("Tasks", self._task_name, "Board")
        self.grid.focus()
        task = self._task_name
        self.ask("gpus", lambda: AllowedGpusArrived(task, self.board.allowed_gpus(self.board.task(task))))

    def look_again(self) -> None:
        """Ask for the rows again."""
        self._ask(patient=True)

    def action_turn(self, step: int) -> None:
        """Go to another GPU's board."""
        if step > 0:
            self.tabs.action_next_tab()
        else:
            self.tabs.action_previous_tab()

    def action_own(self) -> None:
        """Switch between the board and all one's own ranked runs."""
        self._own = not self._own
        places = ("Tasks", self._task_name, "Board", "own runs") if self._own else ("Tasks", self._task_name, "Board")
        self.title_bar.show_place(*places)
        self._ask(patient=False)

    def action_submit(self) -> None:
        """Submit for this task."""
        self.post_message(OpenSubmit(self._task_name))

    @on(AllowedGpusArrived)
    def _show_tabs(self, event: AllowedGpusArrived) -> None:
        self._gpus = tuple(gpu.name for gpu in event.gpus)
        if not self._gpus:
            self.note.update(toned("No GPU of the settings is allowed for this task.", Tone.MUTED))
            return
        if self._gpu not in self._gpus:
            self._gpu = self._gpus[0]
        for index, gpu in enumerate(self._gpus):
            self.tabs.add_tab(Tab(Text(gpu).plain, id=f"gpu-{index}"))
        self.tabs.active = f"gpu-{self._gpus.index(self._gpu)}"

    @on(Tabs.TabActivated)
    def _turn_to(self, event: Tabs.TabActivated) -> None:
        self._gpu = self._gpus[int((event.tab.id or "gpu-0").removeprefix("gpu-"))]
        self._ask(patient=False)

    @on(StandingsArrived)
    def _show_rows(self, event: StandingsArrived) -> None:
        if event.gpu != self._gpu or event.own is not self._own:
            return
        self.grid.show(map(self._row, event.rows))
        self.note.update(self._about(event.rows))

    @on(Grid.Chosen)
    def _open(self, event: Grid.Chosen) -> None:
        self.post_message(OpenReport(int(event.key)))

    def _ask(self, *, patient: bool) -> None:
        gpu, own = self._gpu, self._own
        if gpu is None or gpu not in self._gpus:
            return

        def question() -> StandingsArrived:
            rows = self.board.personal(self._task_name, gpu) if own else self.board.standings(self._task_name, gpu)
            return StandingsArrived(gpu, own, tuple(rows))

        self.ask("standings", question, patient=patient)

    def _about(self, rows: tuple[Standing, ...]) -> Text:
        if not rows:
            who = "You have no" if self._own else "Nobody has a"
            return toned(f"{who} passing ranked run on {self._gpu} yet. Press s to submit one.", Tone.MUTED)
        mine = next((row for row in rows if row.user == self.board.user), None)
        if self._own or mine is None:
            return toned(f"{len(rows)} {'run' if len(rows) == 1 else 'runs'} on {self._gpu}.", Tone.MUTED)
        return toned(f"You are {mine.rank} of {len(rows)} on {self._gpu}, with {score(mine.score_s)}.", Tone.OWN)

    def _row(self, row: Standing) -> Row:
        own = row.user == self.board.user
        tone = Tone.OWN if own else Tone.PLAIN
        cells = {
            "rank": toned(row.rank, tone),
            "user": toned(f"{row.user} (you)" if own else row.user, tone),
            "score": toned(score(row.score_s), tone),
            "file": toned(row.file_name, Tone.MUTED),
            "age": toned(span_text(self.now() - row.submitted_at), Tone.MUTED),
            "date": toned(moment(row.submitted_at), Tone.MUTED),
            "run": toned(row.run, Tone.MUTED),
            "trust": toned(trust(row), Tone.WAITING if row.emulated else Tone.MUTED),
        }
        return Row(str(row.run), cells)
