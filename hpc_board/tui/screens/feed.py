"""The feed: recent changes of the standings."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from rich.console import Group
from textual import getters
from textual.app import ComposeResult
from textual.binding import BindingType

from hpc_board.board import Board
from hpc_board.domain.feed import FeedEntry, FeedKind
from hpc_board.domain.run import Run
from hpc_board.report.feeds import feed_change, feed_line
from hpc_board.report.formatting import moment_text, score_text, span_text
from hpc_board.tui import targets
from hpc_board.tui.paging import Page, paged, whole
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.screens.base import NOTHING_SELECTED, BoardScreen, Clock
from hpc_board.tui.screens.run_keys import NamedRun, RunScreen
from hpc_board.tui.verbs import binding
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_WORDS = {
    FeedKind.RECORD: ("record", Tone.GOOD),
    FeedKind.PODIUM: ("podium", Tone.ACCENT),
    FeedKind.FIRST: ("first pass", Tone.PLAIN),
    FeedKind.BEST: ("best", Tone.MUTED),
}
_NOISE = ("tied 1st", Tone.PLAIN)
"""The word for a best time that beats the former one by no more than noise."""

_FILTERED_MAX = 1000
"""The newest entries among which a filter looks, as each update of its list reads all of them."""


class FeedScreen(RunScreen):
    """The changes of the standings, newest first; older entries are read while the user scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding("scope", "Switch between the selected entry's task and all tasks"),
        binding("filter"),
    ]
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"cancel"})
    HELP: ClassVar[str] = (
        "record: the best time in the standings; tied 1st: the best time, within noise of the previous one. podium: "
        "a top-three rank. first pass: a user's first pass on the board. best: a user's personal best. Was is the "
        "previous best time, or the user's own previous score. "
        f"Ranks are those at the time of the change. The filter looks at the newest {_FILTERED_MAX:,} changes. Enter "
        "opens the run."
    )

    pane: getters.query_one[ListPane[FeedEntry]] = getters.query_one(ListPane)

    def __init__(self, board: Board, now: Clock, target: targets.Feed) -> None:
        super().__init__(board, now, target)
        self._only = target.task

    def compose_body(self) -> ComposeResult:
        kind: Kind[FeedEntry] = Kind(
            self._columns(),
            key=lambda entry: str(entry.id),
            target=lambda entry: targets.Report(entry.run),
            details=self._details,
            filter_words="words of event, user, task or GPU: record h100",
            run=lambda entry: entry.run,
            nothing=lambda: (
                f"No changes to the standings{f' of {self._only}' if self._only else ''} yet.\n"
                "Press s to submit a file in mode ranked."
            ),
            title="Feed",
            heading=lambda entry: f"Run {entry.run}",
        )
        yield ListPane(kind, self._pages, id="feed").data_bind(BoardScreen.marked)

    def begin(self) -> None:
        self._show_place()
        self.pane.grid.focus()

    def look_again(self) -> None:
        self.read(self.pane)

    def reason_against(self, action: str) -> str:
        if action == "scope" and self._only is None and self._selected is None:
            return NOTHING_SELECTED
        return super().reason_against(action)

    @property
    def key_labels(self) -> Mapping[str, str]:
        return {**super().key_labels, "scope": "All tasks" if self._only else "This task"}

    def action_scope(self) -> None:
        if self._only is not None:
            self._only = None
        elif (entry := self._selected) is not None:
            self._only = entry.task
        self._show_place()
        self.refresh_bindings()
        self.pane.forget()
        self.read(self.pane, patient=False)

    @property
    def run_in_hand(self) -> Run | NamedRun | None:
        if (entry := self._selected) is None:
            return None
        return NamedRun(entry.run, entry.task, entry.gpu, entry.user, entry.submitter)

    @property
    def _selected(self) -> FeedEntry | None:
        return self.pane.selected if self.is_mounted else None

    @property
    def place(self) -> tuple[str, ...]:
        return super().place[:-1]

    def _show_place(self) -> None:
        self.show_place("Feed", self._only or "all tasks")

    def _pages(self, words: str) -> Page[FeedEntry]:
        task, feed = self._only, self.board.standings.feed

        if words:
            newest = partial(feed, task=task, limit=_FILTERED_MAX)
            return lambda _: whole([entry for entry in newest() if _matches(entry, words)])
        return paged(lambda offset, limit: feed(task=task, offset=offset, limit=limit))

    def _columns(self) -> tuple[Column, ...]:
        return (
            Column("age", "Age", 6, lambda each: toned(span_text(self.now() - each.at), Tone.MUTED), right=True),
            Column("kind", "Event", 6, lambda each: toned(_word(each)[0], _tone(each)), most=10),
            Column(
                "user", "User", 8, lambda each: toned(each.author, Tone.OWN if each.is_own else Tone.PLAIN), most=16
            ),
            Column("task", "Task", 8, lambda each: toned(each.task), most=24),
            Column(
                "gpu", "GPU", 4, lambda each: toned(f"{each.gpu} (emulated)" if each.emulated else each.gpu), most=15
            ),
            Column("score", "Score", 8, lambda each: toned(score_text(each.news.score_s)), right=True),
            Column("was", "Was", 8, lambda each: toned(score_text(each.news.replaced_s), Tone.MUTED), right=True),
            Column("change", "Change", 24, lambda each: toned(feed_change(each), limit=600), grows=True, from_width=96),
        )

    def _details(self, entry: FeedEntry) -> Group:
        head = toned(f"{moment_text(entry.at)} · run {entry.run} · submission {entry.submission}", Tone.MUTED)
        return Group(toned(feed_line(entry), _tone(entry), 600), head)


def _matches(entry: FeedEntry, words: str) -> bool:
    text = f"{_word(entry)[0]} {entry.author} {entry.task} {entry.gpu}".casefold()
    return all(word in text for word in words.casefold().split())


def _tone(entry: FeedEntry) -> Tone:
    return Tone.WAITING if entry.beats_own else _word(entry)[1]


def _word(entry: FeedEntry) -> tuple[str, Tone]:
    """Return the word and the tone of an event: the first time of a board is a first pass."""
    news = entry.news
    if news.kind is FeedKind.RECORD and news.replaced_s is not None and not entry.beats_record:
        return _NOISE
    return _WORDS[FeedKind.FIRST if news.is_first else news.kind]
