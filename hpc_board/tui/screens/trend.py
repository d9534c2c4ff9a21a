"""A user's scores on a board over time."""

from functools import partial
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Standing
from hpc_board.report.histories import NO_RUNS, history_rows, in_order, page_notes, plot_lines
from hpc_board.tui import targets
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.histories import History, drawn_history, read_history
from hpc_board.tui.widgets.list_pane import Kind, ListPane
from hpc_board.tui.widgets.text_pane import SourceView, source_of

_PLOT_SHARE = 0.5
"""The least share of the screen's height for the plot, which also has the lines that the list leaves."""

_BESIDE_ROWS = 8
"""The lines of the screen that are neither rows of the list nor the plot with its edges."""

_FILE_LINES_MIN = 12
"""The least lines for the file of the selected run, with its edges."""

_AXIS_LINES = 2
_SIDES = 4
"""The cells beside the plot: the edges of its panel, and its padding."""

_COLUMNS = (
    Column("submitted", "Submitted", 16),
    Column("score", "Score", 8, right=True),
    Column("best", "", 1),
    Column("change", "Vs fastest", 10, right=True, most=48),
    Column("run", "Run", 6, right=True),
    Column("file", "File", 8, grows=True),
)


class _Listed(msgspec.Struct, frozen=True):
    """A run of the list, with the texts of its cells."""

    run: Standing
    texts: tuple[str, ...]


class TrendScreen(RunScreen):
    """A user's ranked runs on one board, as a plot and a list."""

    BINDINGS: ClassVar[list[BindingType]] = [binding("filter", show=False), binding("edit", show=False)]
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"trend", "cancel"})
    LOADED: ClassVar[tuple[str, ...]] = ("trend",)
    SHOWN_BESIDE: ClassVar[tuple[str, ...]] = (*RunScreen.SHOWN_BESIDE, "code")
    HELP: ClassVar[str] = (
        "Each point is a passing ranked run, the oldest on the left; the vertical axis is the score on a logarithmic "
        "scale. ● is faster than all runs before it, ○ is not. An upright line is the 80 % confidence interval of a "
        "score; the dotted line is the best in the standings, or the reference if that best has always been the "
        "user's. Vs fastest is the change from the fastest earlier run. The list has the newest run first; below a "
        "short one, a wide, high terminal has the file of the selected run. Enter opens the run."
    )

    plot = getters.query_one("#plot", Static)
    pane: getters.query_one[ListPane[_Listed]] = getters.query_one(ListPane)
    code = getters.query_one(SourceView)

    def __init__(self, board: Board, now: Clock, target: targets.Trend) -> None:
        super().__init__(board, now, target)
        self._board_of = target.task, target.gpu
        self._whose = target.user
        self._read: History | None = None

    def compose_body(self) -> ComposeResult:
        task, gpu = self._board_of
        kind = Kind(
            _COLUMNS,
            key=lambda each: str(each.run.run),
            target=lambda each: targets.Report(each.run.run),
            cells=_cells,
            filter_words="words of any column: a run's number, a date or a file",
            searched=lambda each: " ".join(each.texts),
            nothing=lambda: NO_RUNS,
            run=lambda each: each.run.run,
            title=f"{task} on {gpu}: {self._whose}",
        )
        yield Static(id="plot", classes="panel", markup=False)
        yield ListPane(kind, id="trend", grid_id="trend-runs").data_bind(BoardScreen.marked)
        yield Static(id="notes", classes="hint", markup=False)
        yield SourceView("File", view="code")

    def begin(self) -> None:
        self.show_place(f"Trend of {self._whose}")
        self.plot.display = False
        self.query_one("#notes").display = False
        self.pane.grid.focus()

    def fit_body(self) -> None:
        self._draw()

    def look_again(self) -> None:
        question = partial(read_history, self.board, *self._board_of, self._whose)
        self.ask("trend", question, self._show, failed=self.pane.fail, patient=True)

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        listed = self.pane.selected if self.is_mounted else None
        if listed is None:
            return None
        run = listed.run
        return NamedRun(run.run, *self._board_of, self._whose, run.submitter)

    def _show(self, read: History) -> None:
        if read == self._read:
            return
        self._read = read
        page, _ = read
        runs = in_order(page)
        rows = zip(runs, history_rows(runs), strict=True)
        self.pane.show_all(reversed([_Listed(run, texts) for run, texts in rows]))
        notes = self.query_one("#notes", Static)
        notes.update(page_notes(page))
        notes.display = bool(page_notes(page))
        self._draw()

    def _draw(self) -> None:
        runs = self._read[0].rows if self._read else ()
        self.plot.display = bool(runs)
        if self._read and runs:
            height = self.size.height
            room = max(round(_PLOT_SHARE * height), height - len(runs) - _BESIDE_ROWS)
            lines = plot_lines(len(runs), room)
            self.plot.border_title, plot = drawn_history(self._read, self.size.width - _SIDES, lines - _AXIS_LINES)
            self.plot.update(plot)
            has_room = height - lines - len(runs) - _BESIDE_ROWS >= _FILE_LINES_MIN
            self.set_class(has_room and self.has_class("-wide", "-high"), "-code")
            self.pane.set_height(0 if self.has_class("-code") else None)
            self._read_code()

    @on(ListPane.Selected)
    def _read_code(self) -> None:
        """Read the file of the selected run where the list leaves room for it."""
        if self.has_class("-code") and (listed := self.pane.selected) is not None:
            question = partial(source_of, self.board, listed.run.run)
            self.ask("code", question, self.code.show_source, failed=lambda error: self.code.say(error.message))


def _cells(listed: _Listed) -> dict[str, Text]:
    tones = {"best": Tone.GOOD, "submitted": Tone.MUTED, "run": Tone.MUTED, "file": Tone.MUTED}
    return {
        column.key: toned(text, tones.get(column.key, Tone.PLAIN))
        for column, text in zip(_COLUMNS, listed.texts, strict=True)
    }
