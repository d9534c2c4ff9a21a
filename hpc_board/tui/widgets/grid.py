"""A table with fixed columns that keeps selection and scroll position on updates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.geometry import Region
from textual.message import Message
from textual.widgets import DataTable

from hpc_board.report.plain import fitting, narrow
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.themes import has_quiet_rows

GAP = 1
"""The cells between two columns."""

SIDES = 3
"""One cell before the columns, and two for the scrollbar, which must not cover numbers."""

_ROOMY_FROM = 100
"""The least cells of a table whose growing columns take no more of the line than they need."""

_AIR = 16
"""The cells behind the longest cell of a growing column in a table of `_ROOMY_FROM` cells or more, whose other columns
would be far from it else."""

_DRAWN_MAX = 60
"""The most cells of a drawn column."""

_SCREENFUL = 20


class Column(msgspec.Struct, frozen=True):
    """A column of `width` cells.

    `right` aligns it to the right; `grows` gives it the rest of the line, in a wide table as far as its cells need it.
    With `most`, it is as wide as its longest cell, between `width` and `most`. A table narrower than `from_width` cells
    omits it, and so does one whose other columns need its room; the highest `from_width` goes first, and a column
    without one always stays. `cell` returns the cell of an item, and `value` that by which a list that is read as a
    whole is sorted, None for an item that sorts last. A click on the head of a column that has a `value` or `sorts`
    sorts by it, the greatest value first if it `falls`; another click reverses the order. `drawn` makes the text of a
    cell for the width of the column.
    """

    key: str
    label: str
    width: int
    cell: Callable[[Any], Text] | None = None
    value: Callable[[Any], Any] | None = None
    right: bool = False
    grows: bool = False
    from_width: int = 0
    most: int = 0
    sorts: bool = False
    falls: bool = False
    drawn: Callable[[str, int], str] | None = None


class Sorting(msgspec.Struct, frozen=True):
    """The column by which a table is sorted, and whether its values descend."""

    key: str = ""
    descending: bool = False


class Row(msgspec.Struct, frozen=True):
    """A row: its key, its cells by column, and a sign of one cell before them."""

    key: str
    cells: Mapping[str, Text]
    sign: str = ""


class _Line:
    """A row as it is drawn, which takes a tenth of the time of as many cells of Textual's table."""

    def __init__(self, row: Row, segments: Callable[[Row], Iterable[Segment]]) -> None:
        self._row = row
        self._segments = segments

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._segments(self._row)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        # All lines are equally wide: else the table measures all of them again for each one that changes.
        return Measurement(options.max_width, options.max_width)


class Grid(DataTable[_Line]):
    """Textual's table with one cell a row: the columns that fit. It keeps the selection on updates.

    Its user opens rows if it `opens` rows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Open", tooltip="Open the selected row", id="list.open"),
        Binding("j", "cursor_down", show=False, id="list.down"),
        Binding("k", "cursor_up", show=False, id="list.up"),
        Binding("home,g", "scroll_top", show=False, id="list.top"),
        Binding("end,G", "scroll_bottom", show=False, id="list.bottom"),
        Binding("ctrl+f", "page_down", show=False, id="list.page_down"),
        Binding("ctrl+b", "page_up", show=False, id="list.page_up"),
        Binding("ctrl+d", "half_page(1)", show=False, id="list.half_page_down"),
        Binding("ctrl+u", "half_page(-1)", show=False, id="list.half_page_up"),
    ]

    class HeadClicked(Message):
        """A click on the head of a column."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Jumped(Message):
        """A jump to the first or last known row; the list may have others before or after it."""

        def __init__(self, *, to_end: bool) -> None:
            super().__init__()
            self.to_end = to_end

    _is_updating = False
    """True while cells of rows are replaced, each of which is drawn afterwards."""

    def __init__(self, columns: Sequence[Column], *, id: str, opens: bool = True, title: str = "") -> None:
        super().__init__(id=id, classes="panel", cursor_type="row", cell_padding=0, zebra_stripes=False)
        self.border_title = toned(title)
        self._opens = opens
        self._all_columns = tuple(columns)
        self._longest: dict[str, int] = {}
        """The longest cell of each column so far; columns do not shrink while a list is filtered."""
        self._sorting = Sorting()
        self._layout: tuple[tuple[Column, int], ...] = ()
        """The columns that have room, and their widths; empty before the table has a width."""
        self._shown: tuple[Row, ...] = ()
        self._selected: str | None = None
        """The key of the row to select once the table has a width."""
        self._next_top: int | None = None
        """The first row in sight after the next refresh; a refilled table is at its top until then."""

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self._set_priority)

    def _set_priority(self) -> None:
        """Keep the tones of the selected row in the themes whose ground of that row they can be read on."""
        self.cursor_foreground_priority = "renderable" if has_quiet_rows(self.app.current_theme) else "css"

    @property
    def current(self) -> str | None:
        """Return the key of the row under the cursor, without a delay by messages."""
        if not self._layout:
            return self._selected
        return self._shown[self.cursor_row].key if 0 <= self.cursor_row < len(self._shown) else None

    @property
    def column_keys(self) -> tuple[str, ...]:
        """Return the keys of the columns that have room."""
        return tuple(column.key for column, _ in self._layout)

    @property
    def screenful(self) -> int:
        """Return the number of rows that fit, or a default before the table has a size."""
        return max(self.size.height - 1, 1) if self.size.height else _SCREENFUL

    @property
    def first_in_sight(self) -> int:
        """Return the index of the first row in sight."""
        return int(self.scroll_offset.y) if self._next_top is None else self._next_top

    @property
    def full_width(self) -> int:
        """Return the width at which no column is omitted or cut."""
        longest = (self._longest.get(column.key, 0) if column.grows else 0 for column in self._all_columns)
        widths = map(max, map(self._wanted, self._all_columns), longest)
        return max(SIDES + sum(width + GAP for width in widths), *(column.from_width for column in self._all_columns))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "select_cursor" and not self._opens:
            return False
        return super().check_action(action, parameters)

    def action_scroll_top(self) -> None:
        super().action_scroll_top()
        self.post_message(self.Jumped(to_end=False))

    def action_scroll_bottom(self) -> None:
        super().action_scroll_bottom()
        self.post_message(self.Jumped(to_end=True))

    def action_half_page(self, by: int) -> None:
        if self._shown:
            row = self.cursor_row + by * max(1, self.screenful // 2)
            self.move_cursor(row=max(0, min(row, len(self._shown) - 1)))

    def show(self, rows: Iterable[Row], *, select: str | None = None) -> None:
        """Show these rows. Select the row `select`, or else keep selection and scroll position.

        A row that does not fit beside the first ones is selected in the middle.
        """
        current, old = select or self.current, self._shown
        known = {row.key: row for row in old}
        self._shown = tuple(_unless_same(row, known.get(row.key)) for row in rows)
        self._note_longest(old)
        layout = self._layout and self._fitting(self.size.width)
        goes_on = bool(old or not self._shown) and [row.key for row in self._shown[: len(old)]] == list(known)
        if layout and layout == self._layout and goes_on and select is None:
            changed = [index for index, before in enumerate(old) if before is not self._shown[index]]
            self._is_updating = True
            for index in changed:
                self.update_cell_at(Coordinate(index, 0), _Line(self._shown[index], self._segments))
            self._is_updating = False
            for index in changed:
                self.refresh_row(index)
            for row in self._shown[len(old) :]:
                self.add_row(_Line(row, self._segments), key=row.key)
        else:
            self._layout = layout
            self._fill(current, centred=select is not None)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw the table anew, unless rows are updated: Textual would draw all of them, which a slow line shows."""
        if self._is_updating:
            return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def watch_virtual_size(self) -> None:
        # Textual may keep an automatic height that it took between the change of the rows and that of this size.
        if self.styles.auto_dimensions:
            self.call_after_refresh(self.refresh, layout=True)

    def set_sorting(self, sorting: Sorting) -> None:
        """Show in its head by which column the table is sorted."""
        if sorting != self._sorting:
            self._sorting = sorting
            self._fill(self.current)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replace the columns, unless they are the same."""
        if tuple(columns) == self._all_columns:
            return
        current, self._all_columns, self._longest = self.current, tuple(columns), {}
        self._note_longest()
        if self._layout:
            self._layout = self._fitting(self.size.width)
            self._fill(current)

    @on(events.Resize)
    def _fit(self) -> None:
        if (width := self.size.width) and (layout := self._fitting(width)) != self._layout:
            current, self._layout = self.current, layout
            self._fill(current)
        elif self._next_top is None:
            # A lower table may have lost the selected row from sight.
            self.call_after_refresh(lambda: self.move_cursor(row=self.cursor_row))

    def _fitting(self, width: int) -> tuple[tuple[Column, int], ...]:
        """Return the columns that fit into `width` cells, and their widths."""
        columns = [column for column in self._all_columns if width >= column.from_width]
        room = width - SIDES - GAP
        leaving = sorted((each for each in columns if each.from_width), key=lambda each: -each.from_width)
        kept = fitting([*map(self._wanted, columns)], map(columns.index, leaving), room, GAP)
        columns = [columns[index] for index in kept]
        widths = [*map(self._wanted, columns)]
        excess = sum(widths) + GAP * (len(widths) - 1) - room
        more = -narrow(widths, [column.width for column in columns], excess) // max(
            1, sum(each.grows for each in columns)
        )
        grown = [each + self._growth(column, more, width) for column, each in zip(columns, widths, strict=True)]
        return tuple((column, max(4, each)) for column, each in zip(columns, grown, strict=True))

    def _growth(self, column: Column, most: int, width: int) -> int:
        if column.drawn:
            return min(most, _DRAWN_MAX - column.width)
        if not column.grows or width < _ROOMY_FROM:
            return most if column.grows else 0
        return min(most, max(0, self._longest.get(column.key, 0) + _AIR - self._wanted(column)))

    def _wanted(self, column: Column) -> int:
        return max(column.width, min(self._longest.get(column.key, 0), column.most))

    def _note_longest(self, known: Iterable[Row] = ()) -> None:
        """Note the longest cells of the rows in addition to those of `known` rows."""
        seen = set(map(id, known))
        rows = [row for row in self._shown if id(row) not in seen]
        for column in self._all_columns:
            if column.most or column.grows:
                # Rows lack the cells of a new column until they are shown anew.
                cells = [row.cells[column.key] for row in rows if column.key in row.cells]
                longest = max((cell.cell_len for cell in cells), default=0)
                self._longest[column.key] = max(self._longest.get(column.key, 0), longest)

    def _head(self, column: Column, width: int) -> Text:
        """Return the head of a column, with an arrow on the side of the free cells if the table is sorted by it."""
        label = column.label
        if column.key == self._sorting.key:
            arrow = "▼" if self._sorting.descending else "▲"
            label = f"{arrow}{label}" if column.right else f"{label}{arrow}"
        return _fitted(Text(label), column, width)

    def _fill(self, select: str | None, *, centred: bool = False) -> None:
        """Show all rows anew, and select one: in the middle, or on its line of the screen; a list at its top stays."""
        if not self._layout:
            self._selected = select
            return
        top, before = self.first_in_sight, self.cursor_row
        keys = [row.key for row in self._shown]
        index = keys.index(select) if select in keys else max(0, min(before, len(keys) - 1))
        if centred:
            self._next_top = 0 if index < self.screenful else index - self.size.height // 2
        else:
            self._next_top = max(0, top + index - before) if top else 0
        self.clear(columns=True)
        heads = (self._head(column, width) for column, width in self._layout)
        self.add_column(Text(" ").append_text(Text(" " * GAP).join(heads)), width=self.size.width)
        for row in self._shown:
            self.add_row(_Line(row, self._segments), key=row.key)
        self.move_cursor(row=index, scroll=False)
        self.call_after_refresh(self._scroll_to_next_top)

    def _scroll_to_next_top(self) -> None:
        top, self._next_top = self._next_top, None
        self.scroll_to(y=top, animate=False, immediate=True)
        self.move_cursor(row=self.cursor_row)

    def _segments(self, row: Row) -> Iterator[Segment]:
        """Yield the sign and the cells of a row as its columns have room for them."""
        yield Segment(row.sign or " ", self.app.console.get_style(Tone.OWN.value) if row.sign else None)
        for column, width in self._layout:
            text = row.cells[column.key]
            if column.drawn and text:
                text = Text(column.drawn(text.plain, width), text.style)
            if text.spans or text.cell_len > width:
                text = _fitted(text, column, width)
            if text.spans:
                yield from text.render(self.app.console)
            else:
                room = " " * (width - text.cell_len)
                padded = f"{room}{text.plain}" if column.right else f"{text.plain}{room}"
                yield Segment(padded, self.app.console.get_style(text.style, default=Style.null()))
            yield Segment(" " * GAP)

    @on(events.Click)
    def _click_head(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is None or place.y >= self.header_height:
            return
        x = place.x - 1
        for column, width in self._layout:
            if 0 <= x < width + GAP:
                self.post_message(self.HeadClicked(column.key))
            x -= width + GAP


def _fitted(text: Text, column: Column, width: int) -> Text:
    cell = text.copy()
    cell.no_wrap = True
    cell.truncate(width, overflow="ellipsis")
    cell.align("right" if column.right else "left", width)
    return cell


def _unless_same(row: Row, known: Row | None) -> Row:
    """Return the `known` row if it looks the same, which is drawn already."""
    if known is None or known is row or known != row:
        return row
    # Texts of different styles are equal.
    return known if all(cell.style == known.cells[key].style for key, cell in row.cells.items()) else row
