"""The ranks of a user on all boards, and the user's newest runs."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import ClassVar

from msgspec.structs import replace
from rich.console import Group, RenderableType
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.origin import By
from hpc_board.domain.reference import ratio_of
from hpc_board.domain.roles import GROUP
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Page
from hpc_board.domain.user_page import UserPage, UserRank
from hpc_board.report.formatting import count_text, score_text, span_text, speedup_text
from hpc_board.report.standings import board_report, rank_text
from hpc_board.tui import targets
from hpc_board.tui.formatting import state
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.run_cells import EVERYONE, OWN, Line, cells
from hpc_board.tui.screens.base import SORT_HELP, BoardScreen, Clock
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.blocks import drawn, entitle, speedup_cell
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.histories import History, drawn_history, read_history
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_RANKS: tuple[Column, ...] = (
    Column("task", "Task", 8, value=lambda rank: (rank.task, rank.gpu), most=24),
    Column("gpu", "GPU", 4, value=lambda rank: rank.gpu, most=15),
    Column("team", "Team", 5, value=lambda rank: rank.row.user if rank.row.is_team else None, most=16),
    Column("rank", "Rank", 5, value=lambda rank: rank.row.rank, right=True),
    Column("users", "Of", 5, value=lambda rank: rank.users, right=True, falls=True),
    Column("score", "Score", 8, value=lambda rank: rank.row.score_s, right=True),
    Column("speedup", "Speedup", 8, value=lambda rank: ratio_of(rank.speedup), right=True, falls=True),
    Column("behind", "Vs rank 1", 9, value=lambda rank: rank.row.score_s / rank.best_s, right=True, from_width=70),
    Column("file", "File", 8, grows=True, from_width=88),
    Column("run", "Run", 6, value=lambda rank: rank.row.run, right=True, from_width=78, falls=True),
    Column("age", "Age", 6, value=lambda rank: rank.row.submitted_at, right=True, falls=True),
)
_AROUND_LINES_MIN = 10
_AROUND_ROWS_MAX = 11
_BESIDE_ROWS = 5
"""The lines of that board beside its rows: its head, the gap before an own row, that row, a mark, an error's line."""

_BESIDE_AROUND = 5
"""The lines of the screen beside its lists and that board: title, summary, keys, and the edges of its panel."""

_AROUND_SIDES = 4
"""The cells beside the plot; its panel has no width before it is first shown."""

_BESIDE_HISTORY = 7
"""The lines of that board beside its ranks, with marks, and the title of the plot below it."""

_RANKS_LINES_MIN = 6


class UserScreen(RunScreen):
    """A user's ranks, above the newest runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding("scope", "Switch between the ranks of the user and those of each entrant"),
        binding("filter", "Filter the list with the focus as you type"),
        binding("sort", "Sort the ranks by the next column"),
        binding("reverse", "Reverse the order of the ranks"),
        binding("panel"),
    ]
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"user"})
    LOADED: ClassVar[tuple[str, ...]] = ("user",)
    HELP: ClassVar[str] = (
        "Each rank is that of the user's best run in the standings of one GPU, among the users there, or an entrant's "
        "among the entrants. Vs rank 1 is the time relative to the best one. Tab moves between ranks and runs. Enter "
        "on a rank shows the scores over time, on a run its report. A high terminal shows the board around the "
        f"selected rank. {SORT_HELP}"
    )

    ranks: getters.query_one[ListPane[UserRank]] = getters.query_one("#ranks", ListPane)
    runs: getters.query_one[ListPane[Run]] = getters.query_one("#user-runs", ListPane)
    summary = getters.query_one("#summary", Static)
    around = getters.query_one("#around", Static)

    def __init__(self, board: Board, now: Clock, target: targets.User) -> None:
        super().__init__(board, now, target)
        self._whose = target.name
        self._by = By.ACCOUNT
        self._has_entrants = False
        self._started: Mapping[int, datetime] = {}
        """The starts of the newest runs, by number."""

    def compose_body(self) -> ComposeResult:
        ranks = Kind(
            _RANKS,
            key=lambda rank: f"{rank.task} {rank.gpu} {rank.row.entrant}",
            cells=self._rank_cells,
            nothing=lambda: "No rank yet.",
            filter_words="words of task, GPU or file: matmul h100",
            searched=lambda rank: f"{rank.task} {rank.gpu} {rank.row.entrant} {rank.row.file_name}",
            run=lambda rank: rank.row.run,
            title="Ranks",
        )
        columns = EVERYONE if self._whose.startswith(GROUP) else OWN
        runs: Kind[Run] = Kind(
            tuple(replace(column, sorts=False) for column in columns),
            key=lambda run: str(run.id),
            target=lambda run: targets.Report(run.id),
            cells=lambda run: cells(Line(run, started=self._started.get(run.id)), self.now()),
            nothing=lambda: "No runs yet.",
            filter_words="words of task, GPU, mode, state, note or file: h100 wrong",
            searched=lambda run: (
                f"{run.task} {run.gpu} {run.mode} {state(run)[0]} {run.note} {run.file_name} {run.user}"
            ),
            run=lambda run: run.id,
            title="Newest runs",
        )
        yield Static(toned("Loading the ranks …", Tone.MUTED), id="summary", markup=False)
        with Vertical():
            yield ListPane(ranks, id="ranks").data_bind(BoardScreen.marked)
            yield ListPane(runs, id="user-runs").data_bind(BoardScreen.marked)
            yield Static(id="around", classes="panel", markup=False)

    def begin(self) -> None:
        self.show_place(f"User {self._whose}")
        self.around.display = False
        self.ranks.grid.focus()

    def fit_body(self) -> None:
        self._ask_board()

    def look_again(self) -> None:
        user, by = self._whose, self._by

        def question() -> tuple[UserPage, Mapping[int, datetime]]:
            page = self.board.standings.of_user(user, by)
            return page, self.board.runs.started([run.id for run in page.runs])

        self.ask("user", question, self._show, patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the key of entrants for a user without any."""
        return self._has_entrants if action == "scope" else super().check_action(action, parameters)

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {**super().key_labels, "scope": "Entrants" if self._by is By.ACCOUNT else "User"}

    def action_scope(self) -> None:
        self._by = By.ENTRANT if self._by is By.ACCOUNT else By.ACCOUNT
        self.refresh_bindings()
        self.look_again()

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        """Return the run of the selected row of the list with the focus."""
        if not self.is_mounted:
            return None
        if self.focused is self.runs.grid:
            return self.runs.selected
        rank = self.ranks.selected
        if rank is None:
            return None
        row = rank.row
        return NamedRun(row.run, rank.task, rank.gpu, row.user, row.submitter)

    def _show(self, answer: tuple[UserPage, Mapping[int, datetime]]) -> None:
        page, self._started = answer
        words = [count_text(len(page.ranks), "rank")]
        if page.records:
            words.append(count_text(page.records, "record"))
        if page.runs:
            words.append(f"newest run {span_text(self.now() - page.runs[0].created_at)} ago")
        self._has_entrants |= any(
            (*(rank.row.entrant for rank in page.ranks), *(run.origin.entrant for run in page.runs))
        )
        self.refresh_bindings()
        self.summary.update(toned(" · ".join(words), Tone.OWN if page.user == self.board.user else Tone.PLAIN))
        has_teams = any(rank.row.is_team for rank in page.ranks)
        self.ranks.grid.set_columns([column for column in _RANKS if has_teams or column.key != "team"])
        self.ranks.show_all(page.ranks)
        self.ranks.set_height(_RANKS_LINES_MIN)
        self.runs.show_all(page.runs)
        self._ask_board()

    @property
    def _lines_left(self) -> int:
        """Return the lines that the lists leave to the board of the selected rank."""
        panes = (pane.needed_height(_RANKS_LINES_MIN) for pane in (self.ranks, self.runs))
        return self.size.height - sum(panes) - _BESIDE_AROUND

    @on(ListPane.Selected)
    def _ask_board(self) -> None:
        """Show the rows around the selected rank, and its user's scores over time, if the lists leave room."""
        rank, lines = self.ranks.selected, self._lines_left
        self.around.display = rank is not None and lines >= _AROUND_LINES_MIN
        self.runs.set_height(_RANKS_LINES_MIN if self.around.display else None)
        if rank is not None and self.around.display:
            rows = min(lines - _BESIDE_ROWS, _AROUND_ROWS_MAX)
            self.ask("around", partial(self._read_around, rank, rows), self._draw)

    def _read_around(self, rank: UserRank, rows: int) -> tuple[UserRank, Page, History]:
        first = max(0, min(rank.row.rank - 1 - rows // 2, rank.users - rows))
        (page,) = self.board.standings.pages(rank.task, [rank.gpu], limit=rows, offset=first)
        return rank, page, read_history(self.board, rank.task, rank.gpu, rank.row.user)

    def _draw(self, around: tuple[UserRank, Page, History]) -> None:
        rank, page, history = around
        entitle(self.around, toned(f"Board {rank.task} on {rank.gpu}"))
        _, table, *_ = board_report(rank.task, page, self.board.user, now=self.now())
        shown: list[RenderableType] = [drawn([table])]
        lines = self._lines_left - len(page.rows) - _BESIDE_HISTORY
        if len(history[0].rows) > 1 and lines >= _AROUND_LINES_MIN:
            title, plot = drawn_history(history, self.size.width - _AROUND_SIDES, lines)
            shown += ["", toned(title, Tone.ACCENT), plot]
        self.around.update(Group(*shown))

    def _rank_cells(self, rank: UserRank) -> dict[str, Text]:
        row, first = rank.row, rank.row.rank == 1
        tone = Tone.GOOD if first and rank.users > 1 else Tone.PLAIN
        return {
            "task": toned(rank.task, tone),
            "gpu": toned(f"{rank.gpu} (emulated)" if row.emulated else rank.gpu, tone),
            "team": toned(row.user if row.is_team else "", tone),
            "rank": toned(rank_text(row), tone),
            "users": toned(rank.users, Tone.MUTED),
            "score": toned(score_text(row.score_s), tone),
            "speedup": speedup_cell(ratio_of(rank.speedup), tone),
            "behind": toned("" if first else speedup_text(row.score_s / rank.best_s), Tone.MUTED),
            "file": toned(": ".join(filter(None, (row.entrant, row.file_name))), Tone.MUTED),
            "run": toned(row.run, Tone.MUTED),
            "age": toned(span_text(self.now() - row.submitted_at), Tone.MUTED),
        }

    @on(ListPane.Chosen)
    def _open(self) -> None:
        self.action_trend()
