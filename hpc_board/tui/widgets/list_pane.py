"""The list of the app: a panel that is read page by page, a filter, and a panel about the selected item."""

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
from textual.timer import Timer
from textual.widgets import Static

from hpc_board.errors import BoardError
from hpc_board.tui.formatting import MARKED, SELECTED
from hpc_board.tui.paging import Order, Page, Part, Span, Window, whole
from hpc_board.tui.palette import Tone, empty_text, toned
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.grid import Column, Grid, Row, Sorting

T = TypeVar("T")

_UNKNOWN = "No data yet. Retrying automatically."

_SORTED_MAX = 500
"""The first items in another order, among which the list looks for the selected one."""

_REST_SECONDS = 0.05
"""The time after which the cursor rests; a key that is held down repeats sooner."""


class _Edge(Enum):
    """The end of a list to select once it has been read."""

    TOP = auto()
    END = auto()


def _no_submission(_: object) -> int | None:
    return None


def _no_heading(_: object) -> str:
    return ""


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """The type of a list's items: columns, order, cells and details.

    - `order` is optional for a list that is read as a whole.
    - `details` returns the text on the selected item below the table; `scrolls` makes it scrollable by keys.
    - `filter_words` is the placeholder of the filter, empty for a list without one; `unfit` begins the message that
      no item matches.
    - `opens` is whether Enter opens a screen for an item.
    - `waiting` is the text below the table until the list has been read, `nothing` returns that of an empty list.
    - `submission` returns the number of an item's submission, for the sign of the marked one.
    - `title` is the title of the table's panel, beside which the list counts; `heading` that of the item's panel.
    - A list whose columns sort is sorted by the first of them until the user chooses another one, which the app
      remembers under the name `remembered`. `sorted_by` returns the order of a list that is read page by page; `values`
      has the value of an item in each column of a list that is read as a whole, None for one that sorts last.

    The first line of a text for an empty list tells the state, the others the next step.
    """

    columns: Sequence[Column]
    key: Callable[[T], str]
    cells: Callable[[T], Mapping[str, Text]]
    order: Order[T] | None = None
    details: Callable[[T], RenderableType] | None = None
    scrolls: bool = False
    opens: bool = True
    filter_words: str = ""
    unfit: str = "No row matches"
    waiting: str = "Loading …"
    nothing: Callable[[], str] = str
    submission: Callable[[Any], int | None] = _no_submission
    title: str = ""
    heading: Callable[[T], str] = _no_heading
    remembered: str = ""
    sorted_by: Callable[[Sorting], Order[T]] | None = None
    values: Mapping[str, Callable[[T], Any]] = msgspec.field(default_factory=dict)


class ListPane(Vertical, Generic[T]):
    """A list that shows the pages it is given, and posts `Wanted` for others.

    `pages` returns the page function for the words of the filter; a list without it gets all items at once.
    """

    marked: var[int | None] = var(None)
    """The submission that is marked for a comparison."""

    grid = getters.query_one(Grid)

    class Wanted(Message):
        """A request for the pages close to the visible ones, or for all of them `anew`."""

        def __init__(self, pane: "ListPane[Any]", *, anew: bool) -> None:
            super().__init__()
            self.pane = pane
            self.anew = anew

    class Selected(Message):
        """A change of the selection, once the cursor rests."""

    class Sorted(Message):
        """An order that the user chose: the column, and whether it is the reverse of the column's own."""

        def __init__(self, remembered: str, column: str, *, reverse: bool) -> None:
            super().__init__()
            self.remembered = remembered
            self.column = column
            self.reverse = reverse

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
    ) -> None:
        super().__init__(id=id)
        self.subject = id
        """The subject of the questions for its pages."""
        self.words = ""
        self.scope = ""
        """A name that restricts the list in addition to the words."""
        self.unfiltered = ""
        """The length of the list without its filter, "712" or "40+"; empty if it is unknown."""
        self.remark = ""
        """The end of the title, such as the place of a match among all."""
        self._kind = kind
        self._pages = pages
        self._grid_id = grid_id or f"{id}-grid"
        self._columns = tuple(kind.columns)
        self._sorting = self._first_sorting
        self._given: tuple[T, ...] = ()
        """The items of a list that is read as a whole, as they were given."""
        self._order = self._order_by_sorting
        self._window = Window(self._order)
        self._turn = 0
        self._is_known = False
        self._is_narrowing = False
        """True from a change of the words until the list has been read by them."""
        self._is_filling = False
        self._rows: dict[str, Row] = {}
        self._items: dict[str, Any] = {}
        self._indexes: list[int] = []
        self._index_of: dict[str, int] = {}
        """The index of a line's item in the window, by the line's key."""
        self._rest: Timer | None = None
        """The timer of a cursor that has just moved."""
        self._described: str | None = None
        """The row whose details are shown."""
        self._heading = ""
        self._wanted: str | None = None
        self._is_wanted_above = False
        """True if the wanted item is selected only beside the first one."""
        self._edge: _Edge | None = None
        self._reported: str | None = None
        self._chosen: dict[str, T] = {}
        """The items that Space has selected; other pages may have them."""

    def compose(self) -> ComposeResult:
        yield Grid(self._columns, id=self._grid_id, opens=self._kind.opens, title=self._kind.title)
        if self._kind.filter_words:
            yield FilterLine("/", self._kind.filter_words, id=f"{self.id}-filter")
        yield Static(classes="empty", markup=False)
        if self._kind.details is not None:
            with VerticalScroll(classes="selected panel", can_focus=self._kind.scrolls):
                yield Static(toned(self._kind.waiting, Tone.MUTED), classes="details", markup=False)

    def on_mount(self) -> None:
        self.grid.set_sorting(self._sorting)
        self.watch(self.grid, "scroll_y", self._scroll, init=False)
        self.watch(self.grid, "is_fitted", self._select_wanted, init=False)

    def watch_marked(self, before: int | None, marked: int | None) -> None:
        if before != marked:
            self._show_rows()
            self._show_details()

    @property
    def line(self) -> Any:
        """Return the object of the selected line, if any."""
        return self._items.get(self.grid.current or "")

    @property
    def selected(self) -> T | None:
        """Return the selected item of a list whose lines are its items."""
        return cast("T | None", self.line)

    @property
    def chosen(self) -> tuple[T, ...]:
        """Return the items that Space has selected, in the order of their selection."""
        return tuple(self._chosen.values())

    def choose(self) -> None:
        """Select the item of the current line for an action on several, or unselect it, and go to the next line."""
        key, item = self.grid.current, self.selected
        if key is None or item is None:
            return
        if self._chosen.pop(key, None) is None:
            self._chosen[key] = item
        self._show_chosen()
        self.grid.action_cursor_down()

    def choose_all(self) -> None:
        """Select all known items, or none if they are selected."""
        items = {key: item for key, item in self._items.items() if key not in self._chosen}
        self._chosen = {**self._chosen, **items} if items else {}
        self._show_chosen()

    def unchoose(self) -> None:
        """Unselect all items."""
        if self._chosen:
            self._chosen = {}
            self._show_chosen()

    def _show_chosen(self) -> None:
        self._show_rows()
        self._show_title()
        self.screen.refresh_bindings()

    @property
    def window(self) -> Window[T]:
        """Return the known items."""
        return self._window

    @property
    def count(self) -> str:
        """Return the position of the selected item and the length: "12/712", or "12/40+" if the list may be longer."""
        return self.length if self.place is None else f"{self.place + 1}/{self.length}"

    @property
    def length(self) -> str:
        """Return the number of items, "712", or of those read, "40+", if the list may be longer."""
        window = self._window
        if window.total is not None:
            return str(window.total)
        return f"{len(window.items)}{'+' if window.above or window.below else ''}"

    @property
    def place(self) -> int | None:
        """Return the position of the selected item in the list, from 0; None if unknown."""
        index = self._index_of.get(self.grid.current or "")
        return None if index is None else self._window.place_of(index)

    @property
    def is_filtered(self) -> bool:
        """Return whether words or a scope restrict the list."""
        return bool(self.words or self.scope)

    @property
    def is_empty(self) -> bool:
        return self._is_known and not self._is_narrowing and not self._items

    @property
    def is_moving(self) -> bool:
        """Return whether the cursor has just moved, and the details are still those of the row before."""
        return self._rest is not None

    @property
    def is_filtering(self) -> bool:
        """Return whether the filter has the focus."""
        return any(line.display and line.has_focus_within for line in self.query(FilterLine))

    def reading(self) -> tuple[Callable[[], Sequence[Part[T]]], Callable[[Sequence[Part[T]]], None]]:
        """Return the question for the visible pages, to run in a thread, and the handler of its answer."""
        if self._pages is None:
            raise RuntimeError(f"the list {self.id} has no pages")
        page = self._pages(self.words)
        spans = self._window.spans(self._first_in_sight, self.grid.screenful)
        return lambda: [page(span) for span in spans], partial(self._take, self._turn)

    def show(self, parts: Iterable[Part[T]]) -> None:
        """Show pages in addition to the known items."""
        read: set[str] = set()
        for part in parts:
            arranged = replace(part, items=self._arranged(part.items)) if self._kind.values else part
            self._window = self._window.with_part(arranged)
            read |= set(map(self._kind.key, part.items))
        self._show_window(read)

    def show_all(self, items: Iterable[T], *, select: str | None = None) -> None:
        """Show the whole list, and select the item with the key `select`, or else keep the selection."""
        self.forget()
        self._wanted, self._is_wanted_above = select, False
        self._given = tuple(items)
        self.show([whole(self._given)])

    def fail(self, _: BoardError) -> None:
        """Show that there is no data, if no page has been read yet."""
        if not self._is_known:
            self._show_empty(_UNKNOWN)

    def forget(self) -> None:
        """Drop all pages to read them again; the shown rows stay until then."""
        self._turn += 1
        self._window = Window(self._order)
        self._rows = {}

    def jump(self, begin: Span, *, select: str | None = None) -> None:
        """Read the list again from `begin` on, and select the item with the key `select`, or else that at the edge."""
        self.forget()
        self._window = replace(self._window, begin=begin)
        self._wanted, self._is_wanted_above = select, False
        self._edge = _Edge.END if begin.at_end else _Edge.TOP if begin.after is None else None
        self.grid.scroll_home(animate=False)

    def select_once_read(self, key: str, *, beside_first: bool = False) -> None:
        """Select the item with this key if the next pages have it; `beside_first` only if it fits beside the first."""
        self._wanted, self._is_wanted_above = key, beside_first

    def _select_wanted(self) -> None:
        """Select the wanted item once the table has its size, if the list has been read before."""
        if self._is_known and self._wanted is not None:
            self._show_rows(self._key_to_select())

    def redraw_details(self) -> None:
        """Redraw the details of the selected item."""
        self._show_details()

    def open_filter(self) -> None:
        self.query_one(FilterLine).open(self.words)

    @property
    def remembered(self) -> str:
        """Return the name under which the app remembers the order; empty for a list with one order."""
        return self._kind.remembered

    @property
    def sorting(self) -> Sorting:
        """Return the column by which the list is sorted, and its direction."""
        return self._sorting

    def sort_by_next(self) -> None:
        """Sort by the next column."""
        # An order without an arrow would be a riddle.
        known = [column for column in self._sort_columns if column.key in self.grid.column_keys]
        if not known:
            return
        here = next((place for place, column in enumerate(known) if column.key == self._sorting.key), -1)
        self._sort(known[(here + 1) % len(known)])

    def sort_reversed(self) -> None:
        """Reverse the order."""
        self._sort_by(self._sorting.key)

    def restore_sorting(self, column: str, *, reverse: bool) -> None:
        """Begin with an order that the user chose earlier, if the list has this column."""
        for each in self._sort_columns:
            if each.key == column:
                self._sorting = Sorting(each.key, each.falls is not reverse)
                self._order = self._order_by_sorting
                self._window = Window(self._order)
                self.grid.set_sorting(self._sorting)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replace the columns, and read the list anew, in its first order if it was sorted by a column that is gone."""
        self._columns = tuple(columns)
        self.unfiltered = ""
        self.grid.set_columns(columns)
        if all(column.key != self._sorting.key for column in self._sort_columns):
            self._sort(self._sort_columns[0])
        else:
            self.forget()
            self.post_message(self.Wanted(self, anew=True))

    @property
    def _sort_columns(self) -> tuple[Column, ...]:
        return tuple(column for column in self._columns if column.sorts)

    @property
    def _first_sorting(self) -> Sorting:
        return next((Sorting(column.key, column.falls) for column in self._sort_columns), Sorting())

    @property
    def _order_by_sorting(self) -> Order[T]:
        if self._kind.sorted_by is not None:
            return self._kind.sorted_by(self._sorting)
        return self._kind.order or Order(self._kind.key)

    def _sort_by(self, key: str) -> None:
        """Sort by a column, or reverse the order if the list is sorted by it."""
        for column in self._sort_columns:
            if column.key == key:
                is_own = self._sorting == Sorting(key, column.falls)
                self._sort(column, reverse=is_own)

    def _sort(self, column: Column, *, reverse: bool = False) -> None:
        """Show the list in another order, and keep the selected item if it is among the first of them."""
        self._sorting = Sorting(column.key, column.falls is not reverse)
        self._order = self._order_by_sorting
        self.grid.set_sorting(self._sorting)
        if self._pages is None:
            self.show_all(self._given, select=self.grid.current)
        else:
            self.jump(Span(limit=_SORTED_MAX), select=self.grid.current)
            self.post_message(self.Wanted(self, anew=True))
        self.post_message(self.Sorted(self._kind.remembered, column.key, reverse=reverse))

    def _arranged(self, items: Iterable[T]) -> tuple[T, ...]:
        """Return the items of a whole list in the order; those with equal values keep that in which they were given."""
        value = self._kind.values[self._sorting.key]
        valued = [(value(item), item) for item in items]
        known = [each for each in valued if each[0] is not None]
        known.sort(key=lambda each: each[0], reverse=self._sorting.descending)
        return tuple(item for _, item in (*known, *(each for each in valued if each[0] is None)))

    def narrow(self, words: str, scope: str = "") -> None:
        """Filter the list by these words and a scope, and select the first match; keep the selection without words."""
        if not self.is_filtered and self._window.items:
            self.unfiltered = self.length
        self.words, self.scope = words, scope
        self._is_narrowing = True
        self._chosen = {}
        self.jump(Span(), select=None if words else self.grid.current)
        self.post_message(self.Wanted(self, anew=True))

    def lines(self) -> Iterator[tuple[int, str, Any]]:
        """Yield the lines of the table: index of the item in the window, key, object."""
        for index, item in enumerate(self._window.items):
            yield index, self._kind.key(item), item

    def prepare(self) -> None:
        """Prepare for the lines of other pages before they are shown."""

    def cells_of(self, line: Any) -> Mapping[str, Text]:
        """Return the cells of a line."""
        return self._kind.cells(line)

    def redraw_ages(self) -> None:
        """Redraw the rows in sight, whose cells may have ages, and the details."""
        line = max(0, int(self.grid.scroll_offset.y))
        keys = list(self._items)[line : line + self.grid.screenful]
        # The rows of a list that is read anew are gone, and still shown.
        if self.display and keys and all(key in self._rows for key in keys):
            self._rows |= {key: Row(key, self.cells_of(self._items[key])) for key in keys}
            self._show_rows()
            self._show_details()

    def redraw(self) -> None:
        """Redraw all rows with the next pages."""
        self._rows = {}

    def redraw_known(self) -> None:
        """Redraw all known rows at once."""
        self._rows = {key: Row(key, self.cells_of(line)) for key, line in self._items.items()}
        self._show_rows()

    def read_on(self) -> None:
        """Request the pages close to the visible ones."""
        if self._is_known and self._is_filling and self._window.above:
            return
        if not self._is_known or self._window.lacks(self._first_in_sight, self.grid.screenful):
            self.post_message(self.Wanted(self, anew=False))

    def _scroll(self) -> None:
        if self._is_known:
            self.read_on()

    def _take(self, turn: int, parts: Sequence[Part[T]]) -> None:
        # The filter may have changed since the question.
        if turn == self._turn:
            self._is_narrowing = False
            self.show(parts)

    def _show_window(self, read: set[str]) -> None:
        self._is_known = True
        lines = list(self.lines())
        known = {key: row for key, row in self._rows.items() if key not in read}
        self._rows = {key: known[key] if key in known else Row(key, self.cells_of(line)) for _, key, line in lines}
        self._items = {key: line for _, key, line in lines}
        self._indexes = [index for index, _, _ in lines]
        self._index_of = {key: index for index, key, _ in lines}
        self._chosen = {key: self._items.get(key, item) for key, item in self._chosen.items()}
        self.prepare()
        # A refilled table is at its top until the next refresh restores its position.
        self._is_filling = True
        self._show_rows(self._key_to_select())
        self.grid.call_after_refresh(self._end_filling)
        if self.is_moving:
            self._show_title()
        else:
            self._show_selected()

    def _show_rows(self, select: str | None = None) -> None:
        marked = self.marked
        self.grid.show((self._signed(key, row, marked) for key, row in self._rows.items()), select=select)

    def _signed(self, key: str, row: Row, marked: int | None) -> Row:
        is_marked = marked is not None and self._kind.submission(self._items[key]) == marked
        sign = SELECTED if key in self._chosen else MARKED if is_marked else ""
        return row if row.sign == sign else replace(row, sign=sign)

    def _key_to_select(self) -> str | None:
        if self._is_wanted_above and not self.grid.is_fitted:
            return None  # the room for rows is unknown
        wanted, self._wanted = self._wanted, None
        keys = list(self._items)
        if wanted in keys[: self.grid.screenful if self._is_wanted_above else None]:
            found = wanted
        elif keys and self._edge is _Edge.TOP and not self._window.above:
            found = keys[0]
        elif keys and self._edge is _Edge.END and not self._window.below:
            found = keys[-1]
        else:
            return None
        self._edge = None
        return found

    def _end_filling(self) -> None:
        self._is_filling = False
        # The first page may have been read before the table had its size; the screen may have closed since.
        window = self._window
        if self.query(Grid) and window.below and len(window.items) < self.grid.screenful:
            self.read_on()

    @property
    def _first_in_sight(self) -> int:
        line = min(int(self.grid.scroll_offset.y), len(self._indexes) - 1)
        return self._indexes[line] if line >= 0 else 0

    def _show_selected(self) -> None:
        """Show the details of the selected item, and tell of a change."""
        self._stop_rest()
        self._described = self.grid.current
        self._show_details()
        self._post_selection()

    def _stop_rest(self) -> None:
        if self._rest is not None:
            self._rest.stop()
            self._rest = None

    def _show_details(self) -> None:
        item = self.selected
        if item is not None and self._kind.details is not None:
            self.query_one(".details", Static).update(self._kind.details(item))
        self._show_heading("" if item is None else self._kind.heading(item))
        nothing = (
            f"{self._kind.unfit} “{self._filter}”.\nPress / to change the filter, Esc to clear it."
            if self.is_filtered
            else self._kind.nothing()
        )
        self._show_empty(nothing if self._is_known and not self._items else "")
        self._show_title()

    def _show_empty(self, words: str) -> None:
        """Show a text in the middle of a list without items; an empty one hides it."""
        self.set_class(bool(words), "-empty")
        self.query_one(".empty", Static).update(empty_text(words))

    def _show_title(self) -> None:
        """Show the position in the list and the filter on the panel of the table."""
        title = f"{self._kind.title} {self.count}" if self._kind.title and self._is_known else self._kind.title
        # The number of matches is unknown while more may follow.
        if title and self.is_filtered and self.unfiltered and not self.length.endswith("+"):
            title += f" of {self.unfiltered}"
        parts = (
            title,
            f"{len(self._chosen)} selected" if self._chosen else "",
            f"filter: {self._filter}" if self.is_filtered else "",
            self.remark,
        )
        self.grid.border_title = toned(" · ".join(filter(None, parts)))

    @property
    def _filter(self) -> str:
        return " ".join(filter(None, (self.scope, self.words)))

    def _show_heading(self, heading: str) -> None:
        if heading != self._heading:
            self._heading = heading
            for panel in self.query(".selected"):
                panel.border_title = toned(heading, limit=60)

    def _post_selection(self) -> None:
        """Post a change of the selection; refresh the bindings, which also depend on the item's state."""
        if self._reported != self.grid.current:
            self._reported = self.grid.current
            self.post_message(self.Selected())
        self.screen.refresh_bindings()

    @on(Grid.Highlighted)
    def _select(self, event: Grid.Highlighted) -> None:
        event.stop()
        if self._described is None:
            self._show_selected()
            return
        # A cursor that moves on needs no details, which take longer than a frame.
        self._stop_rest()
        if event.key != self._described:
            self._rest = self.set_timer(_REST_SECONDS, self._show_selected)

    @on(Grid.Chosen)
    def _choose(self, event: Grid.Chosen) -> None:
        event.stop()
        if event.key in self._items:
            self.post_message(self.Chosen(self._items[event.key]))

    @on(Grid.HeadClicked)
    def _click_head(self, event: Grid.HeadClicked) -> None:
        event.stop()
        self._sort_by(event.key)

    @on(Grid.Top)
    def _go_to_top(self, event: Grid.Top) -> None:
        event.stop()
        if self._window.above:
            self.jump(Span())
            self.post_message(self.Wanted(self, anew=True))

    @on(Grid.Bottom)
    def _go_to_end(self, event: Grid.Bottom) -> None:
        event.stop()
        if self._window.below and self._pages is not None:
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
