"""The overall standings of a competition."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from rich.text import Text
from textual import getters
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.grading import Overall, OverallRow
from hpc_board.report import blocks
from hpc_board.report.grading import overall_remarks, overall_table, overall_title
from hpc_board.tui import targets
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import USER_KEY, BoardScreen, Clock
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_LEAVES_FROM = 50
"""The least cells of a list with the first column that leaves it; each further one needs a cell more."""

_CELLS_MAX = 30


class CompetitionScreen(BoardScreen):
    """The users of a competition by their score over all its tasks."""

    BINDINGS: ClassVar[list[BindingType]] = [binding("mine", "Go to your row"), binding("filter"), USER_KEY]
    LOADED: ClassVar[tuple[str, ...]] = ("overall",)
    HELP: ClassVar[str] = (
        "The first column after the user is the score that ranks, over all tasks of the competition that you may see. "
        "geomean is the geometric mean of the speedups, a task without a pass counting as 1x; fast_P is the share of "
        "tasks with a speedup above P; Passed counts the tasks with a passing ranked run. The other columns are the "
        "speedups on the tasks. ~: statistical tie with the row above. Enter opens the user's ranks."
    )

    pane: getters.query_one[ListPane[OverallRow]] = getters.query_one(ListPane)
    about = getters.query_one("#about", Static)

    def __init__(self, board: Board, now: Clock, target: targets.Competition) -> None:
        super().__init__(board, now, target)
        self._competition = target.name
        self._cells: Mapping[str, Mapping[str, Text]] = {}
        """The cells of each user."""
        self._mine: str | None = None
        """The row of the reader, or of the first of the reader's teams."""

    def compose_body(self) -> ComposeResult:
        kind: Kind[OverallRow] = Kind(
            (Column("1", "User", 12, grows=True),),
            key=lambda row: row.user,
            target=lambda row: targets.User(row.user),
            cells=lambda row: self._cells[row.user],
            filter_words="part of a user's name",
            searched=lambda row: row.user,
            nothing=lambda: "No results yet.",
            title="Overall standings",
        )
        yield Static(toned("Loading the standings …", Tone.MUTED), id="about", markup=False)
        yield ListPane(kind, id="overall")

    def begin(self) -> None:
        self.show_place(f"Competition {self._competition}")
        self.pane.grid.focus()

    def look_again(self) -> None:
        self.ask("overall", lambda: self.board.standings.overall(self._competition), self._show, patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key of the own row for a user without any."""
        if action == "mine" and self._mine is None:
            return False
        return super().check_action(action, parameters)

    @property
    def user_in_hand(self) -> str | None:
        return self.pane.selected.user if self.is_mounted and self.pane.selected else None

    def action_mine(self) -> None:
        if self._mine is not None:
            self.pane.select(self._mine)

    def _show(self, overall: Overall) -> None:
        table = overall_table(overall, str.capitalize)
        self._mine = next((row.user for row in overall.rows if row.user in overall.own), None)
        self._cells = {
            row.user: {
                str(index): toned(text, Tone.OWN if row.user in overall.own else Tone.PLAIN)
                for index, text in enumerate(texts)
            }
            for row, texts in zip(overall.rows, table.rows, strict=True)
        }
        lines = f"{overall_title(overall)}, ranked by {overall.scoring.name}", *overall_remarks(overall)
        self.about.update(toned(" ".join(lines), Tone.MUTED, 500))
        self.pane.grid.set_columns(tuple(_columns(table)))
        self.pane.show_all(overall.rows)
        self.refresh_bindings()


def _columns(table: blocks.Table) -> Iterator[Column]:
    for index, column in enumerate(table.columns):
        yield Column(
            str(index),
            column.title,
            max(len(column.title), column.least if column.flexible else 0),
            right=column.right,
            grows=column.flexible,
            from_width=_LEAVES_FROM + index if column.leaves else 0,
            most=0 if column.flexible else _CELLS_MAX,
        )
