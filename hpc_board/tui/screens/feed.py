"""The feed: what runs have changed on the boards."""

from typing import ClassVar

from rich.console import Group
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from hpc_board.board import Board
from hpc_board.domain.feed import FeedEntry, FeedKind
from hpc_board.report.feeds import feed_line
from hpc_board.report.formatting import span_text
from hpc_board.tui import targets
from hpc_board.tui.formatting import moment
from hpc_board.tui.messages import Open
from hpc_board.tui.paging import Order, Page, forward
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import BoardScreen, Clock
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

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


_NEWEST: Order[FeedEntry] = Order(lambda entry: entry.id, descending=True)


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

    pane: getters.query_one[ListPane[FeedEntry]] = getters.query_one(ListPane)

    def __init__(self, board: Board, now: Clock, task: str | None = None) -> None:
        super().__init__(board, now)
        self._only = task

    def compose_body(self) -> ComposeResult:
        """The entries, and the selected one in full."""
        kind = Kind(
            _COLUMNS,
            key=lambda entry: str(entry.id),
            cells=self._cells,
            order=_NEWEST,
            details=_details,
            waiting="Reading the feed …",
            nothing=lambda: (
                f"Nothing has changed on {f'the boards of {self._only}' if self._only else 'the boards'} yet."
            ),
        )
        yield ListPane(kind, self._pages, id="feed")

    def on_mount(self) -> None:
        """Read the newest entries."""
        super().on_mount()
        self._show_place()
        self.pane.grid.focus()
        self.look_again()

    def look_again(self) -> None:
        """Read again what is in sight, and what is new."""
        self.read(self.pane)

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
        self._show_place()
        self.pane.forget()
        self.read(self.pane, patient=False)

    @property
    def _selected(self) -> FeedEntry | None:
        return self.pane.selected if self.is_mounted else None

    def _show_place(self) -> None:
        self.title_bar.show_place("Feed", self._only or "all tasks")

    def _pages(self, _: str) -> Page[FeedEntry]:
        task = self._only

        def read(before: int | None, limit: int) -> tuple[FeedEntry, ...]:
            return self.board.standings.feed(task=task, before=before, limit=limit)

        return forward(read, _NEWEST.key)

    @on(ListPane.Chosen)
    def _open(self, event: ListPane.Chosen) -> None:
        self.post_message(Open(targets.Report(event.item.run)))

    def _cells(self, entry: FeedEntry) -> dict[str, Text]:
        own = entry.user == self.board.user
        return {
            "age": toned(span_text(self.now() - entry.at), Tone.MUTED),
            "kind": toned(entry.news.kind, _TONES[entry.news.kind]),
            "line": toned(feed_line(entry), Tone.OWN if own else Tone.PLAIN, 600),
        }


def _details(entry: FeedEntry) -> Group:
    head = toned(f"{moment(entry.at)} · run {entry.run} · submission {entry.submission}", Tone.MUTED)
    return Group(toned(feed_line(entry), _TONES[entry.news.kind], 600), head)
