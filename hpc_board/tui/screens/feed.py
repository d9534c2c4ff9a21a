"""The feed: what runs have changed on the boards."""

from functools import partial
from typing import ClassVar

from rich.console import Group
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from hpc_board.board import Board
from hpc_board.domain.feed import FeedEntry, FeedKind
from hpc_board.report import feed_line, span_text
from hpc_board.tui import targets
from hpc_board.tui.formatting import moment
from hpc_board.tui.messages import Open
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.grid import Column, Grid, Row

_COLUMNS = (
    Column("age", "Age", 6, right=True),
    Column("kind", "What", 6),
    Column("line", "", 30, grows=True),
)
_TONES = {
    FeedKind.RECORD: Tone.GOOD,
    FeedKind.PODIUM: Tone.ACCENT,
    FeedKind.FIRST: Tone.PLAIN,
    FeedKind.BEST: Tone.MUTED,
}


class FeedScreen(BoardScreen):
    """What has changed, newest first; older entries are read as they come into sight."""

    CSS_PATH = "feed.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "standings", "Board", tooltip="Show the board that the selected entry is about"),
        Binding("f", "filter", "This task/all", tooltip="Show the task of the selected entry alone, or all tasks"),
    ]
    HELP: ClassVar[str] = (
        "record: the best time of a board. podium: one of the first three places. first: somebody's first pass there. "
        "best: somebody's personal best. Ranks are those of the moment. Enter opens the run."
    )

    grid = getters.query_one("#feed", Grid)
    details = getters.query_one("#details", Static)

    def __init__(self, board: Board, now: Clock, task: str | None = None) -> None:
        super().__init__(board, now)
        self._only = task
        self._entries: tuple[FeedEntry, ...] | None = None
        self._is_whole = False

    def compose_body(self) -> ComposeResult:
        """The entries, and the selected one in full."""
        yield Grid(_COLUMNS, id="feed")
        yield Static(toned("Reading the feed …", Tone.MUTED), id="details", markup=False)

    def on_mount(self) -> None:
        """Read the newest entries."""
        super().on_mount()
        self._show_place()
        self.grid.focus()
        self.watch(self.grid, "scroll_y", self._read_on, init=False)
        self.look_again()

    def look_again(self) -> None:
        """Ask for what is new, and go on at the end where that is in sight."""
        self._ask(self._due, patient=True)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what is about an entry only where one is selected."""
        if action == "standings" and self._selected is None:
            return None
        if action == "filter" and self._only is None and self._selected is None:
            return None
        return super().check_action(action, parameters)

    def action_standings(self) -> None:
        """Show the board that the selected entry is about."""
        if (entry := self._selected) is not None:
            self.post_message(Open(targets.Standings(entry.task, entry.gpu)))

    def action_filter(self) -> None:
        """Show one task alone, or all."""
        if self._only is not None:
            self._only = None
        elif (entry := self._selected) is not None:
            self._only = entry.task
        self._entries, self._is_whole = None, False
        self._show_place()
        self._ask(None, patient=False)

    @property
    def _selected(self) -> FeedEntry | None:
        return next((entry for entry in self._entries or () if str(entry.id) == self.grid.current), None)

    def _show_place(self) -> None:
        self.title_bar.show_place("Feed", self._only or "all tasks")

    @property
    def _due(self) -> int | None:
        """The entry whose elders are about to come into sight; None where they are known, or there are none."""
        entries = self._entries
        if not entries or self._is_whole or len(entries) - self.grid.scroll_offset.y >= 2 * self.grid.screenful:
            return None
        return entries[-1].id

    def _read_on(self) -> None:
        """Read the entries that have come into sight, before the next look would."""
        if (last := self._due) is not None:
            self._ask(last, patient=True)

    def _ask(self, before: int | None, *, patient: bool) -> None:
        task, limit = self._only, 2 * self.grid.screenful

        def question() -> tuple[FeedEntry, ...]:
            return self.board.feed(task=task, before=before, limit=limit)

        self.ask("feed", question, partial(self._show, before, limit), patient=patient)

    def _show(self, before: int | None, limit: int, entries: tuple[FeedEntry, ...]) -> None:
        known = self._entries or ()
        is_last = len(entries) < limit
        if before is None:
            oldest = 0 if is_last else entries[-1].id
            touches = any(entry.id >= oldest for entry in known)
            older = tuple(entry for entry in known if entry.id < oldest) if touches else ()
            self._is_whole = is_last or (self._is_whole and bool(older))
            self._entries = (*entries, *older)
        elif known and known[-1].id == before:
            self._is_whole = is_last
            self._entries = (*known, *entries)
        self.grid.show([self._row(entry) for entry in self._entries or ()])
        self._show_details()

    @on(Grid.Highlighted)
    def _show_details(self) -> None:
        self.refresh_bindings()
        entry = self._selected
        if entry is not None:
            head = toned(f"{moment(entry.at)} · run {entry.run} · submission {entry.submission}", Tone.MUTED)
            self.details.update(Group(toned(feed_line(entry), _TONES[entry.news.kind], 600), head))
        elif self._entries is not None:
            where = f"the boards of {self._only}" if self._only else "the boards"
            self.details.update(toned(f"Nothing has changed on {where} yet.", Tone.MUTED))

    @on(Grid.Chosen)
    def _open(self) -> None:
        if (entry := self._selected) is not None:
            self.post_message(Open(targets.Report(entry.run)))

    def _row(self, entry: FeedEntry) -> Row:
        own = entry.user == self.board.user
        cells = {
            "age": toned(span_text(self.now() - entry.at), Tone.MUTED),
            "kind": toned(entry.news.kind, _TONES[entry.news.kind]),
            "line": toned(feed_line(entry), Tone.OWN if own else Tone.PLAIN, 600),
        }
        return Row(str(entry.id), cells)
