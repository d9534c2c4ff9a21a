"""A short tour, with a real submission to a board of its own on this machine."""

from typing import ClassVar

from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.tui.demo import Rehearsal, is_possible
from hpc_board.tui.formatting import score, since, state, why
from hpc_board.tui.messages import TourRun
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import THE_SCHEDULER, BoardScreen, Clock
from hpc_board.tui.widgets.source_view import SourceView

_WELCOME = """\
You write one file with a kernel. It runs on the GPUs of a cluster, under a judge that checks every answer and \
measures every call, and the fastest right one of each user is on the board.

Four screens: Tasks says what there is to write. Submit sends a file. Runs shows how your jobs stand. The board of a \
task shows who is how fast on each GPU.

This takes a minute. Enter goes on, Esc leaves, and it will not come again by itself."""

_THE_FILE = """\
This is the starter of the smallest task there is. Its first line names the task, so nothing else has to be said. On \
the first screen, w writes the starter of any task to a file."""

_WHAT_NOW = """\
On the first screen choose a task and press s to submit a file, r to see your runs, b to see its board, and / to find \
a task. ? says what the keys do wherever you are, and Ctrl+P finds any action by its name.

`hpc-board kernel.py` opens the app with your file in the form; `hpc-board submit kernel.py --wait` does the same \
without the app. Runs go on when you leave.

Enter ends the tour. Ctrl+P, then tour, shows it again."""

_PAGES = (
    ("Welcome to hpc-board", _WELCOME),
    ("1. The file", _THE_FILE),
    ("2. The run", ""),
    ("3. What to do now", _WHAT_NOW),
)
_FILE, _RUN = 1, 2


class TourScreen(BoardScreen):
    """Four pages, one of which sends a kernel and shows what becomes of it."""

    CSS_PATH = "tour.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,right", "turn(1)", "Go on", key_display="⏎", tooltip="Go on"),
        Binding("left", "turn(-1)", "Back a page", key_display="←", tooltip="Go back a page"),
        Binding("escape", "back", "Leave the tour", tooltip="Leave the tour; it does not come again by itself"),
    ]
    HELP: ClassVar[str] = (
        "The submission of the tour goes to a board of its own in a temporary folder; nobody sees it, and it is "
        "removed when you leave the tour."
    )

    text = getters.query_one("#text", Static)
    source = getters.query_one(SourceView)

    def __init__(self, board: Board, now: Clock) -> None:
        super().__init__(board, now)
        self._page = 0
        self._rehearsal = Rehearsal()
        self._run: Run | None = None
        self._said: tuple[str, ...] = ()
        self._rank: int | None = None

    def compose_body(self) -> ComposeResult:
        """The text of a page, and the code on the one that has some."""
        with VerticalScroll(id="page"):
            yield Static(id="text", markup=False)
            yield SourceView(id="code", can_focus=False)

    def on_mount(self) -> None:
        """Show the first page."""
        super().on_mount()
        self.memory.set("tour", "seen", value=True)
        self._show()

    def on_unmount(self) -> None:
        """Remove what the submission left."""
        self.app.run_worker(self._rehearsal.close, thread=True, group="tour")

    def action_turn(self, step: int) -> None:
        """Go to the next page or the one before; past the last one, leave."""
        if self._page + step == len(_PAGES):
            self.action_back()
            return
        self._page = max(0, self._page + step)
        if self._page == _RUN and self._run is None and is_possible():
            self.ask("tour", self._send, patient=True, whom=THE_SCHEDULER)
        self._show()

    def look_again(self) -> None:
        """Ask how the submission stands."""
        if self._run is not None and not self._run.state.ended:
            self.ask("tour", self._look, patient=True, whom=THE_SCHEDULER)

    def settle(self, subject: str) -> None:
        """Say that nothing was sent, where it could not be."""
        if subject == "tour":
            self._show()

    @on(TourRun)
    def _take_run(self, event: TourRun) -> None:
        self._run, self._said, self._rank = event.run, event.said, event.rank
        self._show()

    def _send(self) -> TourRun:
        return TourRun(self._rehearsal.send(), (), None)

    def _look(self) -> TourRun:
        run, progress, rank = self._rehearsal.look()
        return TourRun(run, tuple(_step(line.phase, line.case, line.of) for line in progress), rank)

    def _show(self) -> None:
        title, words = _PAGES[self._page]
        self.title_bar.show_place("Tour", f"{self._page + 1} of {len(_PAGES)}")
        lines = [toned(title, Tone.OWN), Text("")]
        lines += self._run_lines() if self._page == _RUN else [Text(line) for line in words.split("\n")]
        self.text.update(Text("\n").join(lines))
        self.source.display = self._page == _FILE
        if self._page == _FILE:
            self.source.show(self._rehearsal.code(), "py")

    def _run_lines(self) -> list[Text]:
        if not is_possible():
            return [
                Text(
                    "A submission would be sent here, but this Python has no PyTorch, which the bundled tasks need. "
                    "The nodes of your cluster may well have it: their Python is in the settings."
                ),
                Text(""),
                toned("Enter goes on.", Tone.MUTED),
            ]
        intro = Text("The file has gone to the scheduler that is built in, on this machine's CPU, in mode ranked.")
        if self._run is None:
            failed = self.has_failed("tour")
            words = "It could not be sent; the box below says why." if failed else "Sending …"
            return [intro, Text(""), toned(words, Tone.WAITING)]
        word, tone = state(self._run)
        lines = [
            intro,
            Text(""),
            Text.assemble((word, tone.value), "  ", toned(since(self._run, self.now()), Tone.MUTED)),
        ]
        lines += [toned(f"  {line}", Tone.MUTED) for line in self._said[-6:]]
        if not self._run.state.ended:
            return [*lines, Text(""), toned("It takes some seconds. You may go on; nothing waits for you.", Tone.MUTED)]
        if self._run.score_s is not None:
            place = f", rank {self._rank} of 1" if self._rank else ""
            lines += [Text(""), toned(f"{score(self._run.score_s)}{place}", Tone.OWN)]
        elif why(self._run):
            lines += [Text(""), toned(why(self._run), Tone.MUTED, 400)]
        return [*lines, Text(""), toned("Enter goes on.", Tone.MUTED)]


def _step(phase: str, case: int | None, of: int | None) -> str:
    return f"{phase} {case} of {of}" if case is not None and of is not None else phase
