"""The list of the app: a panel that is read page by page, a filter, and a panel about the selected item."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec.structs import replace
from rich.console import RenderableType
from rich.segment import Segment
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.reactive import var
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from hpc_board.errors import BoardError, InputError
from hpc_board.tui.formatting import MARKED, SELECTED
from hpc_board.tui.messages import Open
from hpc_board.tui.paging import Page, Part, Span, Window, whole
from hpc_board.tui.palette import Tone, empty_text, toned
from hpc_board.tui.targets import Target
from hpc_board.tui.widgets.blocks import entitle, set_style, show_text
from hpc_board.tui.widgets.filter_line import FilterLine
from hpc_board.tui.widgets.grid import Column, Grid, Row, Sorting

T = TypeVar("T")

_UNKNOWN = "No data yet. Retrying automatically."
_REFUSED = "No data."
"""The words for a question that no repetition answers, beside its error."""

LOADING = "Loading …"
LOADING_SECONDS = 0.25
"""The wait for the first contents of a page after which the page says so: a text that is gone at once is a flash."""

_SORTED_MAX = 500
"""The first items in another order, among which the list looks for the selected one."""

_EDGE_LINES = 4
"""The lines of a list that are no rows: its edges, its heads, and an empty line."""

_REST_SECONDS = 0.05
"""The time after which the cursor rests; a key that is held down repeats sooner."""


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """The type of a list's items: columns, order, cells and details.

    - `details` returns the text on the selected item below the table; `scrolls` makes it scrollable by keys.
    - `filter_words` is the placeholder of the filter, empty for a list without one. `searched` returns the text of an
      item that the filter of a list without pages searches.
    - `target` returns the target that Enter on an item opens; a list without it posts `Chosen` if it `opens` items.
    - `nothing` returns the text of an empty list.
    - `run` returns the number of an item's run, for the sign of the marked one.
    - `title` is the title of the table's panel, beside which the list counts; `heading` that of the item's panel.
    - `cells` returns the cells of an item by column, for columns that have no function of their own.
    - A list whose columns sort is sorted by the first of them until the user chooses another one.

    The first line of a text for an empty list tells the state, the others the next step.
    """

    columns: Sequence[Column]
    key: Callable[[T], str]
    cells: Callable[[T], Mapping[str, Text]] | None = None
    details: Callable[[T], RenderableType] | None = None
    scrolls: bool = False
    opens: bool = True
    target: Callable[[T], Target] | None = None
    filter_words: str = ""
    searched: Callable[[T], str] = str
    nothing: Callable[[], str] = str
    run: Callable[[Any], int] | None = None
    title: str = ""
    heading: Callable[[T], str] | None = None


class DetailsPanel(VerticalScroll):
    """The panel with the details of the selected item."""

    class Resized(Message):
        """The panel has another size, which the rows of the table beside it may set without the screen's."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())


class ListPane(Vertical, Generic[T]):
    """A list that shows the pages it is given, and posts `Wanted` for others.

    `pages` returns the page function for the words of the filter; a list without it gets all items at once, and filters
    them by itself. `beside` is a widget beside the details.
    """

    marked: var[int | None] = var(None)
    """The run that is marked for a comparison."""

    grid = getters.query_one(Grid)

    class Wanted(Message):
        """A request for the page close to the visible one, or for the first page of the list `anew`."""

        def __init__(self, pane: "ListPane[Any]", *, anew: bool) -> None:
            super().__init__()
            self.pane = pane
            self.anew = anew

    class Selected(Message):
        """A change of the selection, once the cursor rests."""

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
        id: str,
        grid_id: str | None = None,
        beside: Widget | None = None,
    ) -> None:
        super().__init__(id=id)
        self._beside = beside
        self.subject = id
        """The subject of the questions for its pages."""
        self.words = ""
        self.scope = ""
        """A name that restricts the list in addition to the words."""
        self._unfiltered = ""
        """The length of the list without its filter, "712" or "40+"; empty if it is unknown."""
        self._kind = kind
        self._pages = pages
        self._grid_id = grid_id or f"{id}-grid"
        self._columns = tuple(kind.columns)
        self.sorting = next((Sorting(column.key, column.falls) for column in self._sort_columns), Sorting())
        self._given: tuple[T, ...] = ()
        """The items of a list that is read as a whole, as they were given."""
        self.window = Window(kind.key)
        self._turn = 0
        self._is_known = False
        self._is_narrowing = False
        """True from a change of the words until the list has been read by them."""
        self._rows: dict[str, Row] = {}
        self._items: dict[str, Any] = {}
        self._indexes: list[int] = []
        self._rest: Timer | None = None
        """The timer of a cursor that has just moved."""
        self._details_lines: list[list[Segment]] | None = None
        self._described: str | None = None
        """The row whose details are shown."""
        self._wanted: str | None = None
        self._edge: int | None = 0
        """The index of the item to select once the list has been read, at its top or at its end."""
        self._chosen: dict[str, T] = {}
        """The items that Space has selected; other pages may have them."""

    def compose(self) -> ComposeResult:
        yield Grid(self._columns, id=self._grid_id, opens=self._kind.opens, title=self._kind.title)
        if self._kind.filter_words:
            yield FilterLine(self._kind.filter_words, id=f"{self.id}-filter")
        yield Static(classes="empty", markup=False)
        if self._kind.details is not None:
            with DetailsPanel(classes="selected panel", can_focus=self._kind.scrolls):
                yield Static(toned(LOADING, Tone.MUTED), classes="details", markup=False)
        if self._beside is not None:
            yield self._beside

    def on_mount(self) -> None:
        self.grid.set_sorting(self.sorting)
        self.watch(self.grid, "scroll_y", self.read_on, init=False)
        if self._pages is not None:
            self.set_timer(LOADING_SECONDS, self._show_loading)

    def on_resize(self) -> None:
        self.read_on()

    def watch_marked(self, before: int | None, marked: int | None) -> None:
        if before != marked:
            self._show_rows()
            self.redraw_details()

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
        if self._chosen:
            self._chosen = {}
            self._show_chosen()

    def _show_chosen(self) -> None:
        self._show_rows()
        self._show_title()
        self.screen.refresh_bindings()

    @property
    def length(self) -> str:
        """Return the number of items, "712", or of those read, "40+", if the list may be longer."""
        window = self.window
        if window.total is not None:
            return f"{window.total:,}"
        return f"{window.offset + len(window.items)}{'+' if window.below else ''}"

    @property
    def is_filtered(self) -> bool:
        """Return whether words or a scope restrict the list."""
        return bool(self.words or self.scope)

    @property
    def is_empty(self) -> bool:
        return self._is_known and not self._is_narrowing and not self._items

    @property
    def is_loading(self) -> bool:
        """Return whether the first page of the list, or that of the row to select, has not been read yet."""
        return bool(self.display) and self._pages is not None and (not self._is_known or self._wanted is not None)

    @property
    def is_moving(self) -> bool:
        """Return whether the cursor has just moved, and the details are still those of the row before."""
        return self._rest is not None

    @property
    def is_filtering(self) -> bool:
        return any(line.display and line.has_focus_within for line in self.query(FilterLine))

    def reading(self) -> tuple[Callable[[], Part[T]], Callable[[Part[T]], None]]:
        """Return the question for the visible page, to run in a thread, and the handler of its answer."""
        assert self._pages is not None  # noqa: S101 - a list that is given as a whole is never read
        span = self.window.span(self._first_in_sight, self.grid.screenful)
        return partial(self._pages(self.words), span), partial(self._take, self._turn)

    def _take(self, turn: int, part: Part[T]) -> None:
        # The filter may have changed since the question.
        if turn == self._turn:
            self._is_narrowing = False
            self.show(part)

    def show(self, part: Part[T]) -> None:
        """Show a page in addition to the known items."""
        value = next((column.value for column in self._columns if column.key == self.sorting.key), None)
        if value is not None:
            part = replace(part, items=self._arranged(part.items, value))
        self.window, self._is_known = self.window.with_part(part), True
        read, lines = set(map(self._kind.key, part.items)), list(self.lines())
        known = {key: row for key, row in self._rows.items() if key not in read}
        self._rows = {key: known[key] if key in known else Row(key, self.cells_of(line)) for _, key, line in lines}
        self._items = {key: line for _, key, line in lines}
        self._indexes = [index for index, _, _ in lines]
        self._chosen = {key: self._items.get(key, item) for key, item in self._chosen.items()}
        self.prepare()
        self._show_rows(self._key_to_select())
        if self.is_moving:
            self._show_title()
        else:
            self._show_selected()
        # The page may have been read before the table had its size.
        self.read_on()

    def show_all(self, items: Iterable[T], *, select: str | None = None) -> None:
        """Show the whole list, and select the item with the key `select`, or else keep the selection."""
        self.forget()
        self._given = tuple(items)
        if select is not None:
            self.select_once_read(select)
        self._unfiltered = str(len(self._given))
        words, searched = self.words.casefold().split(), self._kind.searched
        self.show(whole([item for item in self._given if all(word in searched(item).casefold() for word in words)]))

    def _show_loading(self) -> None:
        if not self._is_known and not self.has_class("-empty"):
            self._show_empty(LOADING)

    def fail(self, error: BoardError) -> None:
        """Show that there is no data, if no page has been read yet."""
        if not self._is_known:
            self._show_empty(_REFUSED if type(error) is InputError else _UNKNOWN)

    def forget(self) -> None:
        """Drop all pages to read them again; the shown rows stay until then."""
        self._turn += 1
        self.window = Window(self._kind.key)
        self._rows = {}

    def jump(self, begin: Span, *, select: str | None = None) -> None:
        """Read the list again from `begin` on, and select the item with the key `select`, or else that at the edge."""
        self.forget()
        self.window = replace(self.window, begin=begin)
        self.select_once_read(select)
        self._edge = -1 if begin.at_end else None if begin.offset else 0
        self.grid.scroll_home(animate=False)

    def select_once_read(self, key: str | None) -> None:
        """Select the item with this key if the next page has it."""
        self._wanted = key

    def select(self, key: str | None) -> None:
        """Select the item with this key, if any, in a list that is read as a whole, and end its filter."""
        self.words = self.scope = ""
        self.show_all(self._given, select=key)

    def set_height(self, least: int | None) -> None:
        """Give a list that is read as a whole the height of its rows, `least` or more; None for its usual one."""
        set_style(self, "height", None if least is None else self.needed_height(least))

    def needed_height(self, least: int) -> int:
        """Return the lines for all rows of a list that is read as a whole, `least` or more."""
        return max(least, len(self._given) + _EDGE_LINES)

    def open_filter(self) -> None:
        self.query_one(FilterLine).open(self.words)

    def sort_by_next(self) -> None:
        """Sort by the next column that is shown: an order without an arrow would be a riddle."""
        shown = [column.key for column in self._sort_columns if column.key in self.grid.column_keys]
        if shown:
            here = shown.index(self.sorting.key) if self.sorting.key in shown else -1
            self._sort_by(shown[(here + 1) % len(shown)])

    def sort_reversed(self) -> None:
        self._sort_by(self.sorting.key)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replace the columns, and read the list anew, in its first order if it was sorted by a column that is gone."""
        self._columns = tuple(columns)
        self._unfiltered = ""
        self.grid.set_columns(columns)
        if all(column.key != self.sorting.key for column in self._sort_columns):
            self._sort(self._sort_columns[0])
        elif self._pages is not None:
            self.forget()
            self.post_message(self.Wanted(self, anew=True))

    @property
    def _sort_columns(self) -> tuple[Column, ...]:
        return tuple(column for column in self._columns if column.sorts or column.value)

    def _sort_by(self, key: str) -> None:
        """Sort by a column, or reverse the order if the list is sorted by it."""
        for column in self._sort_columns:
            if column.key == key:
                is_own = self.sorting == Sorting(key, column.falls)
                self._sort(column, reverse=is_own)

    def _sort(self, column: Column, *, reverse: bool = False) -> None:
        """Show the list in another order, and keep the selected item if it is among the first of them."""
        self.sorting = Sorting(column.key, column.falls is not reverse)
        self.grid.set_sorting(self.sorting)
        if self._pages is None:
            self.show_all(self._given, select=self.grid.current)
        else:
            self.jump(Span(limit=_SORTED_MAX), select=self.grid.current)
            self.post_message(self.Wanted(self, anew=True))

    def _arranged(self, items: Sequence[T], value: Callable[[T], Any]) -> tuple[T, ...]:
        """Return the items of a whole list in the order; those with equal values keep that in which they were given."""
        known = sorted((item for item in items if value(item) is not None), key=value, reverse=self.sorting.descending)
        return (*known, *(item for item in items if value(item) is None))

    def narrow(self, words: str, scope: str = "") -> None:
        """Filter the list by these words and a scope, and select the first match; keep the selection without words."""
        if not self.is_filtered and self.window.items:
            self._unfiltered = self.length
        self.words, self.scope = words, scope
        self._chosen = {}
        if self._pages is None:
            self._edge = 0 if words else None
            self.show_all(self._given, select=self._best_match(words) or self.grid.current)
            return
        self._is_narrowing = True
        self.jump(Span(), select=None if words else self.grid.current)
        self.post_message(self.Wanted(self, anew=True))

    def _best_match(self, words: str) -> str | None:
        """Return the key that the words name best: that which equals them, begins with them, or has them."""
        keys = [self.grid.current or "", *map(self._kind.key, self._given)]
        fits = (str.__eq__, str.startswith, str.__contains__)
        found = (key for fit in fits for key in keys if fit(key.casefold(), words.casefold()))
        return next(found, None) if words else None

    def lines(self) -> Iterator[tuple[int, str, Any]]:
        """Yield the lines of the table: index of the item in the window, key, object."""
        for index, item in enumerate(self.window.items):
            yield index, self._kind.key(item), item

    def prepare(self) -> None:
        """Prepare for the lines of other pages before they are shown."""

    def cells_of(self, line: Any) -> Mapping[str, Text]:
        if self._kind.cells is not None:
            return self._kind.cells(line)
        return {column.key: column.cell(line) for column in self._columns if column.cell}

    def redraw_ages(self) -> None:
        """Redraw the rows in sight, whose cells may have ages, and the details."""
        line = self.grid.first_in_sight
        keys = list(self._items)[line : line + self.grid.screenful]
        # The rows of a list that is read anew are gone, and still shown.
        if self.display and keys and all(key in self._rows for key in keys):
            self._rows |= {key: Row(key, self.cells_of(self._items[key])) for key in keys}
            self._show_rows()
            self.redraw_details()

    def redraw(self) -> None:
        """Redraw all rows with the next pages."""
        self._rows = {}

    def read_on(self) -> None:
        """Request the page close to the visible one."""
        if self._pages is not None and self.window.lacks(self._first_in_sight, self.grid.screenful):
            self.post_message(self.Wanted(self, anew=False))

    def _show_rows(self, select: str | None = None) -> None:
        marked = self.marked
        self.grid.show((self._signed(key, row, marked) for key, row in self._rows.items()), select=select)

    def _signed(self, key: str, row: Row, marked: int | None) -> Row:
        run = self._kind.run
        is_marked = marked is not None and run is not None and run(self._items[key]) == marked
        sign = SELECTED if key in self._chosen else MARKED if is_marked else ""
        return row if row.sign == sign else replace(row, sign=sign)

    def _key_to_select(self) -> str | None:
        keys = list(self._items)
        wanted, edge = self._wanted, self._edge
        self._wanted = self._edge = None
        if wanted in keys:
            return wanted
        items = self.window.items
        return self._kind.key(items[edge]) if items and edge is not None else None

    @property
    def _first_in_sight(self) -> int:
        line = min(self.grid.first_in_sight, len(self._indexes) - 1)
        return self._indexes[line] if line >= 0 else 0

    def _show_selected(self) -> None:
        """Show the details of the selected item, and tell of a change."""
        self._stop_rest()
        before, self._described = self._described, self.grid.current
        self.redraw_details()
        if before != self._described:
            self.post_message(self.Selected())
        # They also depend on the item's state.
        self.screen.refresh_bindings()

    def _stop_rest(self) -> None:
        if self._rest is not None:
            self._rest.stop()
            self._rest = None

    def redraw_details(self) -> None:
        item = self.selected
        if item is not None and self._kind.details is not None:
            details, options = self._kind.details(item), self.app.console_options
            lines = self.app.console.render_lines(details, options.update_width(self.size.width))
            # On a slow line, a panel takes longer than its text.
            if lines != self._details_lines:
                self._details_lines = lines
                self.query_one(".details", Static).update(details)
        heading = "" if item is None or self._kind.heading is None else self._kind.heading(item)
        for panel in self.query(".selected"):
            entitle(panel, toned(heading, limit=60))
        nothing = (
            f"No row matches “{self._filter}”.\nPress / to change the filter, Esc to clear it."
            if self.is_filtered
            else self._kind.nothing()
        )
        self._show_empty(nothing if self._is_known and not self._items else "")
        self._show_title()

    def _show_empty(self, words: str) -> None:
        """Show a text in the middle of a list without items; an empty one hides it."""
        self.set_class(bool(words), "-empty")
        show_text(self.query_one(".empty", Static), empty_text(words))

    def _show_title(self) -> None:
        """Show the length of the list and the filter on the panel of the table."""
        title = f"{self._kind.title} {self.length}" if self._kind.title and self._is_known else self._kind.title
        if title and self.is_filtered and self._unfiltered and not self._unfiltered.endswith("+"):
            title += f" of {self._unfiltered}"
        parts = (
            title,
            f"{len(self._chosen)} selected" if self._chosen else "",
            f"filter: {self._filter}" if self.is_filtered else "",
        )
        entitle(self.grid, toned(" · ".join(filter(None, parts))))

    @property
    def _filter(self) -> str:
        return " ".join(filter(None, (self.scope, self.words)))

    @on(Grid.RowHighlighted)
    def _select(self, event: Grid.RowHighlighted) -> None:
        event.stop()
        self._stop_rest()
        # The cursor may have moved since.
        if self._described is None:
            self._show_selected()
        elif self.grid.current != self._described:
            # A cursor that moves on needs no details, which take longer than a frame. Textual never calls a timer that
            # begins late, as on a busy machine, unless it repeats.
            self._rest = self.set_interval(_REST_SECONDS, self._show_selected)

    @on(Grid.RowSelected)
    def _choose(self, event: Grid.RowSelected) -> None:
        event.stop()
        # The event of a table that was just emptied has no key.
        if (item := self._items.get(getattr(event.row_key, "value", ""))) is not None:
            target = self._kind.target
            self.post_message(self.Chosen(item) if target is None else Open(target(item)))

    @on(Grid.HeadClicked)
    def _click_head(self, event: Grid.HeadClicked) -> None:
        event.stop()
        self._sort_by(event.key)

    @on(Grid.Jumped)
    def _go_on(self, event: Grid.Jumped) -> None:
        event.stop()
        if self._pages is not None and (self.window.below if event.to_end else self.window.offset):
            self.jump(Span(at_end=event.to_end))
            self.post_message(self.Wanted(self, anew=True))

    @on(FilterLine.Changed)
    def _narrow(self, event: FilterLine.Changed) -> None:
        self.narrow(event.words, self.scope)
