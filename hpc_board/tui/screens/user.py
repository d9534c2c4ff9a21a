"""The ranks of a user on all boards, and the user's newest runs."""

from typing import Any, ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.run import Run
from hpc_board.domain.user_page import UserPage, UserRank
from hpc_board.report.formatting import count_text, score_text, span_text, speedup_text
from hpc_board.report.standings import rank_text
from hpc_board.tui import targets
from hpc_board.tui.messages import Open, SideChosen
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import OWN, Line, cells
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_RANKS = (
    Column("task", "Task", 8, most=24),
    Column("gpu", "GPU", 4, most=15),
    Column("rank", "Rank", 5, right=True),
    Column("users", "Of", 5, right=True),
    Column("score", "Score", 8, right=True),
    Column("speedup", "Speedup", 7, right=True),
    Column("behind", "Vs first", 8, right=True, from_width=70),
    Column("file", "File", 8, grows=True, from_width=88),
    Column("run", "Run", 6, right=True, from_width=78),
    Column("age", "Age", 6, right=True),
)
_RUNS = tuple(replace(column, sorts=False) for column in OWN)


class UserScreen(BoardScreen):
    """A user's ranks, above the newest runs."""

    CSS_PATH = "user.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "standings", "Board", tooltip="Show the board of the selected row"),
        Binding("t", "trend", "Trend", tooltip="Show the user's scores over time on that board"),
        Binding("v", "code", "Code", tooltip="Show the file of the selected row, if you may read it"),
        Binding("m", "mark", "Mark", tooltip="Mark the selected row; a second mark compares both"),
    ]
    HELP: ClassVar[str] = (
        "Each rank is that of the user's best run on one board, among the users there. Vs first is the time relative "
        "to that of rank 1. Tab moves between the ranks and the runs. Enter on a rank shows the scores over time, on a "
        "run its report."
    )

    ranks: getters.query_one[ListPane[UserRank]] = getters.query_one("#ranks", ListPane)
    runs: getters.query_one[ListPane[Run]] = getters.query_one("#user-runs", ListPane)
    summary = getters.query_one("#summary", Static)

    def __init__(self, board: Board, now: Clock, target: targets.User) -> None:
        super().__init__(board, now, target)
        self._whose = target.name

    def compose_body(self) -> ComposeResult:
        ranks = Kind(
            _RANKS,
            key=lambda rank: f"{rank.task} {rank.gpu}",
            cells=self._rank_cells,
            nothing=lambda: "No rank yet.",
            submission=lambda rank: rank.row.submission,
            title="Ranks",
        )
        runs: Kind[Run] = Kind(
            _RUNS,
            key=lambda run: str(run.id),
            cells=lambda run: cells(Line(run, now=self.now())),
            nothing=lambda: "No runs yet.",
            submission=lambda run: run.submission,
            title="Newest runs",
        )
        yield Static(toned("Loading the ranks …", Tone.MUTED), id="summary", markup=False)
        with Vertical():
            yield ListPane(ranks, id="ranks").data_bind(BoardScreen.marked)
            yield ListPane(runs, id="user-runs").data_bind(BoardScreen.marked)

    def begin(self) -> None:
        self.show_place(f"User {self._whose}")
        self.ranks.grid.focus()
        self.look_again()

    def look_again(self) -> None:
        user = self._whose
        self.ask("user", lambda: self.board.standings.of_user(user), self._show, patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("standings", "trend", "code", "mark") and self._selected is None:
            return None
        return super().check_action(action, parameters)

    def action_standings(self) -> None:
        if (row := self._selected) is not None:
            self.post_message(Open(targets.Standings(row.task, row.gpu)))

    def action_trend(self) -> None:
        if (row := self._selected) is not None:
            self.post_message(Open(targets.Trend(row.task, row.gpu, self._whose)))

    def action_code(self) -> None:
        if (row := self._selected) is not None:
            self.post_message(Open(targets.Code(_submission(row), row.task)))

    def action_mark(self) -> None:
        if (row := self._selected) is not None:
            self.post_message(SideChosen(_submission(row), row.task))

    @property
    def _selected(self) -> UserRank | Run | None:
        """Return the selected row of the list with the focus."""
        pane: ListPane[Any] = self.runs if self.is_mounted and self.runs.grid.has_focus else self.ranks
        return pane.selected if self.is_mounted else None

    def on_descendant_focus(self) -> None:
        self.refresh_bindings()

    def _show(self, page: UserPage) -> None:
        words = [count_text(len(page.ranks), "rank"), count_text(page.records, "record")]
        if page.runs:
            words.append(f"newest run {span_text(self.now() - page.runs[0].created_at)} ago")
        self.summary.update(toned(" · ".join(words), Tone.OWN if page.user == self.board.user else Tone.PLAIN))
        self.ranks.show_all(page.ranks)
        self.runs.show_all(page.runs)

    def _rank_cells(self, rank: UserRank) -> dict[str, Text]:
        row, first = rank.row, rank.row.rank == 1
        tone = Tone.GOOD if first else Tone.PLAIN
        return {
            "task": toned(rank.task, tone),
            "gpu": toned(f"{rank.gpu} (emulated)" if row.emulated else rank.gpu, tone),
            "rank": toned(rank_text(row), tone),
            "users": toned(rank.users, Tone.MUTED),
            "score": toned(score_text(row.score_s), tone),
            "speedup": toned(speedup_text(rank.speedup), tone),
            "behind": toned("" if first else speedup_text(row.score_s / rank.best_s), Tone.MUTED),
            "file": toned(row.file_name, Tone.MUTED),
            "run": toned(row.run, Tone.MUTED),
            "age": toned(span_text(self.now() - row.submitted_at), Tone.MUTED),
        }

    @on(ListPane.Chosen)
    def _open(self, event: ListPane.Chosen) -> None:
        if isinstance(event.item, Run):
            self.post_message(Open(targets.Report(event.item.id)))
        else:
            self.action_trend()


def _submission(row: UserRank | Run) -> int:
    return row.submission if isinstance(row, Run) else row.row.submission
