"""The one list of the app: a table read page by page, a field that narrows it down, the selected item in words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.reactive import var
from textual.widgets import Static

from hpc_board.errors import BoardError
from hpc_board.tui.formatting import MARKED
from hpc_board.tui.paging import Order, Page, Part, Span, Window, whole
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.grid import Column, Grid, Row

T = TypeVar("T")

_UNKNOWN = "Nothing is known yet. It is asked again by itself."


class _Edge(Enum):
    """The end of a list that the selection goes to once it has been read."""

    TOP = auto()
    END = auto()


def _no_submission(_: object) -> int | None:
    return None


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """The items of a list: their columns, their order, and what one looks like.

    - `order` may be left out for a list that is read in one go.
    - `details` tell of the selected item below the table; `scrolls` lets the keys scroll them.
    - `filter_words` say what may be typed into the field of a list that has one; `unfit` begins the sentence that no
      item fits the words.
    - `opens` is whether Enter leads from an item to another screen.
    - `waiting` stands below the table until the list has been read, `nothing` where it is empty.
    - `submission` is the number of an item's submission, for the sign of the one that is chosen to be compared.
    """

    columns: Sequence[Column]
    key: Callable[[T], str]
    cells: Callable[[T], Mapping[str, Text]]
    order: Order[T] | None = None
    details: Callable[[T], RenderableType] | None = None
    scrolls: bool = False
    opens: bool = True
    filter_words: str = ""
    unfit: str = "Nothing fits"
    waiting: str = "Reading …"
    nothing: Callable[[], str] = str
    submission: Callable[[Any], int | None] = _no_submission


class ListPane(Vertical, Generic[T]):
    """The list; it shows the pages that it is given, and says when it wants others.

    `pages` returns the page function for the words of the field; a list without it is given its items in one go.
    `reaches_end` has the key for the end go to the last item of all instead of the last one that is known.
    """

    marked: var[int | None] = var(None)
    """The submission that was chosen to be compared."""

    grid = getters.query_one(Grid)

    class Wanted(Message):
        """A wish for the pages that are about to come into sight, or for all of them `anew`."""

        def __init__(self, pane: "ListPane[Any]", *, anew: bool) -> None:
            super().__init__()
            self.pane = pane
            self.anew = anew

    class Narrowed(Message):
        """Other words in the field."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Selected(Message):
        """Another selection, or none any more."""

    class Chosen(Message):
        """An item that the user opened."""

        def __init__(self, item: Any) -> None:
            super().__init__()
            self.item = item

    def __init__(
        self,
        kind: Kind[T],
        pages: Callable[[str], Page[T]] | None = None,
        *,
        id: str,  # noqa: A002 - Textual's name for it
        grid_id: str | None = None,
        words: str = "",
        reaches_end: bool = False,
    ) -> None:
        super().__init__(id=id)
        self.subject = id
        """The subject of the questions for its pages."""
        self.words = words
        self.scope = ""
        """A name that the list is kept to beside the words."""
        self._kind = kind
        self._pages = pages
        self._grid_id = grid_id or f"{id}-grid"
        self._reaches_end = reaches_end
        self._order = kind.order or Order(kind.key)
        self._window = Window(self._order)
        self._turn = 0
        self._is_known = False
        self._is_filling = False
        self._rows: dict[str, Row] = {}
        self._items: dict[str, Any] = {}
        self._indexes: list[int] = []
        self._wanted: str | None = None
        self._edge: _Edge | None = None
        self._told: str | None = None

    def compose(self) -> ComposeResult:
        """The table, the field, and the selected item."""
        yield Grid(self._kind.columns, id=self._grid_id, opens=self._kind.opens)
        if self._kind.filter_words:
            yield FilterLine("/", self._kind.filter_words, id=f"{self.id}-filter")
        if self._kind.details is not None:
            with VerticalScroll(classes="selected", can_focus=self._kind.scrolls):
                yield Static(toned(self._kind.waiting, Tone.MUTED), classes="details", markup=False)

    def on_mount(self) -> None:
        """Notice when other rows come into sight."""
        self.watch(self.grid, "scroll_y", self._scroll, init=False)

    def watch_marked(self, before: int | None, marked: int | None) -> None:
        """Put a sign before the items of the submission that is chosen to be compared."""
        if before != marked:
            self._show_rows()
            self._show_details()

    @property
    def line(self) -> Any:
        """What the selected line is of; None where there is no line."""
        return self._items.get(self.grid.current or "")

    @property
    def selected(self) -> T | None:
        """The selected item, in a list whose lines are its items."""
        return cast("T | None", self.line)

    @property
    def window(self) -> Window[T]:
        """The items that are known."""
        return self._window

    @property
    def count(self) -> str:
        """The place of the selected item and the length of the list: "12/712", or "12/40+" if it may be longer."""
        window = self._window
        is_open = window.total is None and (window.above or window.below)
        length = f"{len(window.items) if window.total is None else window.total}{'+' if is_open else ''}"
        index = next((index for index, key in self._lines_known() if key == self.grid.current), None)
        place = None if index is None else window.place_of(index)
        return length if place is None else f"{place + 1}/{length}"

    @property
    def is_filtering(self) -> bool:
        """Whether the user types into the field."""
        return any(line.display and line.has_focus_within for line in self.query(FilterLine))

    def reading(self) -> tuple[Callable[[], tuple[Part[T], ...]], Callable[[tuple[Part[T], ...]], None]]:
        """Return the question for the pages in sight, to be put in a thread, and the method that takes its answer."""
        if self._pages is None:
            raise RuntimeError(f"the list {self.id} has no pages")
        page = self._pages(self.words)
        spans = self._window.spans(self._first_in_sight, self.grid.screenful)
        return lambda: tuple(page(span) for span in spans), partial(self._take, self._turn)

    def show(self, parts: Iterable[Part[T]]) -> None:
        """Show pages that were read, beside what is known already."""
        read: set[str] = set()
        for part in parts:
            self._window = self._window.with_part(part)
            read |= set(map(self._kind.key, part.items))
        self._show_window(read)

    def show_all(self, items: Iterable[T], *, select: str | None = None) -> None:
        """Show the whole list, and select the item with the key `select`, or keep the selection."""
        self.forget()
        self._wanted = select
        self.show([whole(tuple(items))])

    def fail(self, _: BoardError) -> None:
        """Say that nothing is known, where no page could be read yet."""
        if not self._is_known:
            self._say(_UNKNOWN)

    def forget(self) -> None:
        """Have all pages read anew; what is shown stays until they are there."""
        self._turn += 1
        self._window = Window(self._order)
        self._rows = {}

    def jump(self, begin: Span, *, select: str | None = None) -> None:
        """Have the list read from `begin` on, and the item with the key `select` selected, or the one at that edge."""
        self.forget()
        self._window = replace(self._window, begin=begin)
        self._wanted = select
        self._edge = None if select is not None else _Edge.END if begin.at_end else _Edge.TOP
        self.grid.scroll_home(animate=False)

    def select_once_read(self, key: str) -> None:
        """Select the item with this key if the pages that are read next have it."""
        self._wanted = key

    def redraw_details(self) -> None:
        """Draw the details of the selected item anew."""
        self._show_details()

    def open_filter(self) -> None:
        """Let the user type what the list is to be narrowed down to."""
        self.query_one(FilterLine).open(self.words)

    def narrow(self, words: str, scope: str = "") -> None:
        """Have only those items that fit these words, within a scope."""
        self.words, self.scope = words, scope
        self.forget()
        self.post_message(self.Narrowed(words))
        self.post_message(self.Wanted(self, anew=True))

    def lines(self) -> Iterator[tuple[int, str, Any]]:
        """Yield the lines of the table: the index of the item in the window, the key, and what the line is of."""
        for index, item in enumerate(self._window.items):
            yield index, self._kind.key(item), item

    def prepare(self) -> None:
        """Get ready for the lines of other pages, which are about to be shown."""

    def cells_of(self, line: Any) -> Mapping[str, Text]:
        """Return the cells of a line."""
        return self._kind.cells(line)

    def redraw(self) -> None:
        """Draw every row anew with the next pages, those that are not read again, too."""
        self._rows = {}

    def read_on(self) -> None:
        """Want the pages that are about to come into sight."""
        if self._is_known and self._is_filling and self._window.above:
            return
        if not self._is_known or self._window.lacks(self._first_in_sight, self.grid.screenful):
            self.post_message(self.Wanted(self, anew=False))

    def _scroll(self) -> None:
        if self._is_known:
            self.read_on()

    def _take(self, turn: int, parts: tuple[Part[T], ...]) -> None:
        # Other words may have been typed while the answer was on its way.
        if turn == self._turn:
            self.show(parts)

    def _show_window(self, read: set[str]) -> None:
        self._is_known = True
        lines = list(self.lines())
        self._rows = {
            key: self._rows[key] if key in self._rows and key not in read else Row(key, self.cells_of(line))
            for _, key, line in lines
        }
        self._items = {key: line for _, key, line in lines}
        self._indexes = [index for index, _, _ in lines]
        self.prepare()
        # A table that is filled anew is at its top until it has returned to its place, after the next refresh.
        self._is_filling = True
        self._show_rows(self._key_to_select())
        self.grid.call_after_refresh(self._rest)
        self._show_details()
        self._tell_selection()

    def _show_rows(self, select: str | None = None) -> None:
        marked = self.marked
        self.grid.show((self._signed(key, row, marked) for key, row in self._rows.items()), select=select)

    def _signed(self, key: str, row: Row, marked: int | None) -> Row:
        chosen = marked is not None and self._kind.submission(self._items[key]) == marked
        sign = MARKED if chosen else ""
        return row if row.sign == sign else replace(row, sign=sign)

    def _key_to_select(self) -> str | None:
        wanted, self._wanted = self._wanted, None
        keys = list(self._items)
        if keys and self._edge is _Edge.TOP and not self._window.above:
            wanted, self._edge = keys[0], None
        elif keys and self._edge is _Edge.END and not self._window.below:
            wanted, self._edge = keys[-1], None
        return wanted if wanted in self._items else None

    def _rest(self) -> None:
        self._is_filling = False

    @property
    def _first_in_sight(self) -> int:
        line = min(int(self.grid.scroll_offset.y), len(self._indexes) - 1)
        return self._indexes[line] if line >= 0 else 0

    def _lines_known(self) -> Iterable[tuple[int, str]]:
        return zip(self._indexes, self._items, strict=True)

    def _show_details(self) -> None:
        item = self.selected
        if item is not None and self._kind.details is not None:
            self._say(self._kind.details(item))
        elif item is None and self._is_known:
            wanted = " ".join(filter(None, (self.scope, self.words)))
            words = f"{self._kind.unfit} “{wanted}”. Press / to change the words, Esc to clear them."
            self._say(words if wanted else self._kind.nothing())

    def _say(self, words: RenderableType) -> None:
        for details in self.query(".details").results(Static):
            details.update(toned(words, Tone.MUTED) if isinstance(words, str) else words)

    def _tell_selection(self) -> None:
        """Tell the screen of another selection; its keys may depend on what is shown of the same one, too."""
        if self._told != self.grid.current:
            self._told = self.grid.current
            self.post_message(self.Selected())
        self.screen.refresh_bindings()

    @on(Grid.Highlighted)
    def _select(self, event: Grid.Highlighted) -> None:
        event.stop()
        self._show_details()
        self._tell_selection()

    @on(Grid.Chosen)
    def _choose(self, event: Grid.Chosen) -> None:
        event.stop()
        if event.key in self._items:
            self.post_message(self.Chosen(self._items[event.key]))

    @on(Grid.Top)
    def _go_to_top(self, event: Grid.Top) -> None:
        event.stop()
        if self._window.above:
            self.jump(Span())
            self.post_message(self.Wanted(self, anew=True))

    @on(Grid.Bottom)
    def _go_to_end(self, event: Grid.Bottom) -> None:
        event.stop()
        if self._reaches_end and self._window.below:
            self.jump(Span(at_end=True))
            self.post_message(self.Wanted(self, anew=True))

    @on(FilterLine.Changed)
    def _narrow(self, event: FilterLine.Changed) -> None:
        event.stop()
        self.narrow(event.words, self.scope)

    @on(FilterLine.Closed)
    def _leave_filter(self, event: FilterLine.Closed) -> None:
        event.stop()
        self.grid.focus()
        self.screen.refresh_bindings()
