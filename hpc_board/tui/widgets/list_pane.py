"""A long list that is read as far as it is seen, a field that narrows it down, and the selected item in words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.console import RenderableType
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Static

from hpc_board.tui.listing import Listing, Part, Span
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.grid import Column, Grid, Row

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What a list is of: its columns, how an item is known and sorted, and what it looks like.

    `filter_words` say in the field what may be typed there, `nothing` that there are none.
    """

    columns: Sequence[Column]
    key: Callable[[T], str]
    order: Callable[[T], Any]
    row: Callable[[T], Row]
    details: Callable[[T], RenderableType]
    filter_words: str
    nothing: str


class ListPane(Vertical, Generic[T]):
    """The list; it shows what it is given and says which part of it has to be read."""

    class Wanted(Message):
        """Another part has come into sight, or the words have changed, so that all is to be read anew."""

        def __init__(self, pane: "ListPane[Any]", *, anew: bool) -> None:
            super().__init__()
            self.pane = pane
            self.anew = anew

    class Selected(Message):
        """Another item is selected, or the field was left."""

    class Chosen(Message):
        """The user opened the selected item."""

    def __init__(self, kind: Kind[T], *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.words = ""
        self.scope = ""
        """A name that the list is kept to beside the words."""
        self._kind = kind
        self._listing = Listing(kind.order)
        self._is_known = False
        self._rows: dict[str, Row] = {}
        self._items: dict[str, T] = {}

    def compose(self) -> ComposeResult:
        """The table, the field, and the selected item."""
        yield Grid(self._kind.columns, id=f"{self.id}-grid")
        yield FilterLine("/", self._kind.filter_words, id=f"{self.id}-filter")
        with VerticalScroll(classes="selected", can_focus=False):
            yield Static(toned("Reading …", Tone.MUTED), classes="details", markup=False)

    def on_mount(self) -> None:
        """Notice when other rows come into sight."""
        self.watch(self.grid, "scroll_y", self._read_on, init=False)

    @property
    def grid(self) -> Grid:
        """The table."""
        return self.query_one(Grid)

    @property
    def selected(self) -> T | None:
        """The selected item."""
        return self._items.get(self.grid.current or "")

    @property
    def is_filtering(self) -> bool:
        """Whether one types in the field."""
        line = self.query_one(FilterLine)
        return bool(line.display and line.has_focus_within)

    def spans(self) -> list[Span[T]]:
        """What to read: the rows in sight and as many below them, and the first ones where they are not in sight."""
        return self._listing.spans(self.grid.scroll_offset.y, self.grid.screenful)

    def show(self, parts: Iterable[Part[T]]) -> None:
        """Show what was read, beside what is known already."""
        read: set[str] = set()
        for part in parts:
            self._listing = self._listing.with_part(part)
            read |= set(map(self._kind.key, part.items))
        self._is_known = True
        known = {self._kind.key(item): item for item in self._listing.items}
        self._rows = {
            key: self._rows[key] if key in self._rows and key not in read else self._kind.row(item)
            for key, item in known.items()
        }
        self._items = known
        self.grid.show(self._rows.values())
        self._show_details()

    def forget(self) -> None:
        """Have all read anew; what is shown stays until that is there."""
        self._listing = Listing(self._kind.order)
        self._rows = {}

    def tell_unknown(self) -> None:
        """Say that nothing is known where the first question has failed."""
        if not self._is_known:
            self.query_one(".details", Static).update(
                toned("Nothing is known yet. It is asked again by itself.", Tone.MUTED)
            )

    def open_filter(self) -> None:
        """Let the user type what the list is to be narrowed down to."""
        self.query_one(FilterLine).open(self.words)

    def narrow(self, words: str, scope: str = "") -> None:
        """Have only what fits these words, within a scope."""
        self.words, self.scope = words, scope
        self.forget()
        self.post_message(self.Wanted(self, anew=True))

    def _read_on(self) -> None:
        if self._is_known and not self._listing.reaches(self.grid.scroll_offset.y + 2 * self.grid.size.height):
            self.post_message(self.Wanted(self, anew=False))

    def _show_details(self) -> None:
        details = self.query_one(".details", Static)
        if (item := self.selected) is not None:
            details.update(self._kind.details(item))
        elif self._is_known:
            wanted = " ".join(filter(None, (self.scope, self.words)))
            words = f"Nothing fits “{wanted}”. Press / to change the words, Esc to clear them."
            details.update(toned(words if wanted else self._kind.nothing, Tone.MUTED))
        self.post_message(self.Selected())

    @on(Grid.Highlighted)
    def _select(self, event: Grid.Highlighted) -> None:
        event.stop()
        self._show_details()

    @on(Grid.Chosen)
    def _choose(self, event: Grid.Chosen) -> None:
        event.stop()
        self.post_message(self.Chosen())

    @on(FilterLine.Changed)
    def _narrow(self, event: FilterLine.Changed) -> None:
        event.stop()
        self.narrow(event.words, self.scope)

    @on(FilterLine.Closed)
    def _leave_filter(self, event: FilterLine.Closed) -> None:
        event.stop()
        self.grid.focus()
        self.post_message(self.Selected())
