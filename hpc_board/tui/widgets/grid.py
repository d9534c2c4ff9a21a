"""A table with fixed columns that keeps selection and scroll position on updates."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import ClassVar, Self

import msgspec
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.widgets import DataTable
from textual.widgets.data_table import RowKey

from hpc_board.tui.palette import Tone, toned

GAP = 1
"""The cells between two columns."""

SIDES = 3
"""One cell before the columns, and two for the scrollbar, which must not cover numbers."""

_ROOMY_FROM = 100
"""The least cells of a table whose growing columns take no more of the line than they need."""

_AIR = 16
"""The cells behind the longest cell of a growing column in a table of `_ROOMY_FROM` cells or more, whose other columns
would be far from it else."""

_SCREENFUL = 20

_DRAWN_MAX = 1_000
"""The most rows that are kept as they were drawn: several screens of them."""


class Column(msgspec.Struct, frozen=True):
    """A column of `width` cells.

    `right` aligns it to the right; `grows` gives it the rest of the line, in a wide table as far as its cells need it.
    With `most`, it is as wide as its longest cell, between `width` and `most`. A table narrower than `from_width` cells
    omits it, and so does one whose other columns need its room; the highest `from_width` goes first, and a column
    without one always stays. A click on the head of a column that `sorts` sorts by it, the greatest value first if it
    `falls`; another click reverses the order.
    """

    key: str
    label: str
    width: int
    right: bool = False
    grows: bool = False
    from_width: int = 0
    most: int = 0
    sorts: bool = False
    falls: bool = False


class Sorting(msgspec.Struct, frozen=True):
    """The column by which a table is sorted, and whether its values descend."""

    key: str = ""
    descending: bool = False


class Row(msgspec.Struct, frozen=True):
    """A row: its key, its cells by column, and a sign of one cell before them."""

    key: str
    cells: Mapping[str, Text]
    sign: str = ""


class Grid(DataTable[Text]):
    """A table that posts changes of the selection, and rows that the user opens if it `opens` rows."""

    is_fitted: var[bool] = var(False)
    """True once the table has a width, and thus columns and rows."""

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

    class Highlighted(Message):
        """A change of the selected row; None for an empty table."""

        def __init__(self, key: str | None) -> None:
            super().__init__()
            self.key = key

    class Chosen(Message):
        """A row that the user opened."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class HeadClicked(Message):
        """A click on the head of a column that sorts."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Top(Message):
        """A jump to the first known row; the list may have rows before it."""

    class Bottom(Message):
        """A jump to the last known row; the list may have rows after it."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        id: str,  # noqa: A002 - Textual's name for it
        opens: bool = True,
        title: str = "",
    ) -> None:
        self._title = ""
        self._draws_edge_alone = False
        super().__init__(id=id, classes="panel", cursor_type="row", cell_padding=0, zebra_stripes=False)
        self.entitle(title)
        self._opens = opens
        self._all_columns = tuple(columns)
        self._longest: dict[str, int] = {}
        """The longest cell of each column so far; columns do not shrink while a list is filtered."""
        self._sorting = Sorting()
        self._drawn: dict[Hashable, tuple[Row, Strip]] = {}
        """The lines of rows that have been drawn, by the row's key and its look."""
        self._layout: tuple[tuple[str, int], ...] = ()
        self._to_right: frozenset[str] = frozenset()
        """The columns that are aligned to the right."""
        self._shown: tuple[Row, ...] = ()
        self._current: str | None = None
        self._has_same_columns = False
        """True if the size of the table was computed with its present columns."""
        self._ground = Style.null()

    @property
    def current(self) -> str | None:
        """Return the key of the row under the cursor, without a delay by messages."""
        if not self._layout:
            return self._current
        return self._shown[self.cursor_row].key if 0 <= self.cursor_row < len(self._shown) else None

    @property
    def column_keys(self) -> tuple[str, ...]:
        """Return the keys of the columns that have room."""
        return tuple(key for key, _ in self._layout)

    @property
    def screenful(self) -> int:
        """Return the number of rows that fit, or a default before the table has a size."""
        return max(self.size.height - 1, 1) if self.size.height else _SCREENFUL

    @property
    def full_width(self) -> int:
        """Return the width at which no column is omitted or cut."""
        return SIDES + sum(self._wanted(column) + GAP for column in self._all_columns)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "select_cursor" and not self._opens:
            return False
        return super().check_action(action, parameters)

    def entitle(self, title: str) -> None:
        """Set the title of the panel."""
        if title != self._title:
            self._title = title
            self._draws_edge_alone = True
            self.border_title = toned(title)
            self._draws_edge_alone = False

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw the table, or after a change of its title, which the cursor's position is a part of, its edge alone."""
        if self._draws_edge_alone:
            left, top = self.content_offset
            regions = (Region(-left, -top, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def action_scroll_top(self) -> None:
        super().action_scroll_top()
        self.post_message(self.Top())

    def action_scroll_bottom(self) -> None:
        super().action_scroll_bottom()
        self.post_message(self.Bottom())

    def action_half_page(self, by: int) -> None:
        if self._shown:
            row = self.cursor_row + by * max(1, self.screenful // 2)
            self.move_cursor(row=max(0, min(row, len(self._shown) - 1)))

    def show(self, rows: Iterable[Row], *, select: str | None = None) -> None:
        """Show these rows. Select the row `select`, or else keep selection and scroll position.

        A row that does not fit beside the first ones is selected in the middle.
        """
        current = self.current
        old, known = self._shown, {row.key: row for row in self._shown}
        self._shown = tuple(_unless_same(row, known.get(row.key)) for row in rows)
        keys, begin = [row.key for row in self._shown], list(known)
        goes_on = bool(old) and keys[: len(old)] == begin
        self._note_longest(old)
        if not self._layout:
            self._current = select or current
        elif (layout := self._fitting(self.size.width)) != self._layout:
            self._layout = layout
            self._rebuild(select or current, anew=select is not None)
        elif goes_on and select is None:
            for row in self._shown[len(old) :]:
                self.add_row(key=row.key)
            self._redraw_changed(old)
        else:
            self._refill(select or current, anew=select is not None)

    def set_sorting(self, sorting: Sorting) -> None:
        """Show in its head by which column the table is sorted."""
        if sorting != self._sorting:
            self._sorting = sorting
            if self._layout:
                self._rebuild(self.current)

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Replace the columns."""
        layout, heads = self._layout, [column.label for column in self._all_columns]
        self._all_columns = tuple(columns)
        self._longest = {}
        self._note_longest()
        self._fit()
        # Columns of other names with the same widths have the same layout.
        if layout and layout == self._layout and heads != [column.label for column in columns]:
            self._rebuild(self.current)

    def notify_style_update(self) -> None:
        self._drawn.clear()
        super().notify_style_update()

    def _update_dimensions(self, new_rows: Iterable[RowKey]) -> None:
        """Compute the height of the table; the columns have their widths, and each row has one line.

        More rows out of sight change the scrollbar alone. Textual lays the whole screen out after any change.
        """
        del new_rows
        size = Size(self.virtual_size.width, self.header_height + len(self._shown))
        if min(size.height, self.virtual_size.height) > self.size.height > 0 and self._has_same_columns:
            self.set_reactive(Grid.virtual_size, size)
            self._scroll_update(size)
        else:
            self._has_same_columns = True
            super()._update_dimensions(())

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines in sight; they have one ground, which Textual looks for at each of them."""
        self._ground = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        return self._render_line(y if y < self.header_height else y + top, left, left + self.size.width, self._ground)

    def _render_line(self, y: int, x1: int, x2: int, base_style: Style) -> Strip:
        """Return a line of the table.

        Textual draws every cell in sight anew after each move of the cursor, and wraps and pads it: most of the time of
        a key in a list. Here each row is drawn once for each of its looks, and without the places of its cells, which
        are as costly as its colours: `_note_place` finds the one under the mouse.
        """
        index = y - self.header_height
        if not 0 <= index < len(self._shown):
            return super()._render_line(y, x1, x2, base_style)
        row, width = self._shown[index], self.size.width
        has_cursor = index == self.cursor_row and self.show_cursor
        has_mouse = index == self.hover_row and self._show_hover_cursor
        key = (row.key, index, has_cursor, has_mouse, base_style, x1, x2, width, self._pseudo_class_state)
        known = self._drawn.get(key)
        if known is not None and known[0] is row:
            return known[1]
        if len(self._drawn) >= _DRAWN_MAX:
            self._drawn.clear()
        component, post = self._get_styles_to_render_cell(
            False,
            False,
            False,
            has_mouse,
            has_cursor,
            self.show_cursor,
            self._show_hover_cursor,
            self.cursor_foreground_priority == "css",
            self.cursor_background_priority == "css",
        )
        style = base_style + component
        drawn = list(Segment.apply_style(chain.from_iterable(self._segments(row)), style, post))
        spare = width - Segment.get_line_length(drawn)
        # A strip has seven caches, which take longer than its words.
        drawn = list(Segment.simplify([*drawn, Segment(" " * spare, style)] if spare > 0 else drawn))
        strip = Strip(drawn, max(width, width - spare))
        if spare < 0 or x1 > 0:
            strip = strip.crop(x1, x2).adjust_cell_length(width, base_style)
        self._drawn[key] = (row, strip)
        return strip

    def _segments(self, row: Row) -> Iterator[list[Segment]]:
        """Yield the segments of each cell of a row: one line, with the gap to the next cell."""
        yield [Segment(row.sign or " ", self.app.console.get_style(Tone.OWN.value) if row.sign else None)]
        for key, width in self._layout:
            text = row.cells[key]
            if text.spans or text.cell_len > width:
                text = self._fitted(text, key, width)
            if text.spans:
                words = list(text.render(self.app.console))
            else:
                room = " " * (width - text.cell_len)
                padded = f"{room}{text.plain}" if key in self._to_right else f"{text.plain}{room}"
                words = [Segment(padded, self.app.console.get_style(text.style, default=Style.null()))]
            yield [*words, Segment(" " * GAP)]

    @on(events.MouseMove)
    @on(events.Click)
    def _note_place(self, event: events.MouseEvent) -> None:
        """Tell Textual the row under the mouse, and the column of the cursor: rows are whole. The head has its own."""
        place = event.get_content_offset(self)
        if place is None or place.y < self.header_height:
            return
        row = place.y - self.header_height + self.scroll_offset.y
        if row < len(self._shown):
            event.style += Style.from_meta({"row": row, "column": self.cursor_column})

    @on(events.Resize)
    def _fit(self) -> None:
        width = self.size.width
        if not width:
            return
        layout = self._fitting(width)
        if layout != self._layout:
            current, self._layout = self.current, layout
            self._rebuild(current)
            self.is_fitted = True

    def _fitting(self, width: int) -> tuple[tuple[str, int], ...]:
        """Return the columns that fit into `width` cells, and their widths."""
        columns = [column for column in self._all_columns if width >= column.from_width]
        wanted = {column.key: self._wanted(column) for column in columns}

        def spare() -> int:
            return width - SIDES - sum(wanted[column.key] + GAP for column in columns)

        while spare() < 0 and any(column.from_width for column in columns):
            columns.remove(max(columns, key=lambda column: column.from_width))
        while spare() < 0 and (cut := [each for each in columns if wanted[each.key] > each.width]):
            wanted[max(cut, key=lambda column: wanted[column.key]).key] -= 1
        more = spare() // max(1, sum(column.grows for column in columns))
        return tuple((each.key, max(4, wanted[each.key] + self._growth(each, more, width))) for each in columns)

    def _growth(self, column: Column, most: int, width: int) -> int:
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
                longest = max((row.cells[column.key].cell_len for row in rows), default=0)
                self._longest[column.key] = max(self._longest.get(column.key, 0), longest)

    def _rebuild(self, current: str | None, *, anew: bool = False) -> None:
        labels = {column.key: column for column in self._all_columns}
        self._to_right = frozenset(column.key for column in self._all_columns if column.right)
        self._drawn.clear()
        self._has_same_columns = False
        with self.prevent(DataTable.RowHighlighted):
            self.clear(columns=True)
            self.add_column("", key="edge", width=1)
            for key, width in self._layout:
                self.add_column(self._head(labels[key], width), key=key, width=width + GAP)
        self._refill(current, anew=anew)

    def _head(self, column: Column, width: int) -> Text:
        """Return the head of a column, with an arrow on the side of the free cells if the table is sorted by it."""
        label = column.label
        if column.key == self._sorting.key:
            arrow = "▼" if self._sorting.descending else "▲"
            label = f"{arrow}{label}" if column.right else f"{label}{arrow}"
        return self._fitted(Text(label), column.key, width)

    def _refill(self, select: str | None, *, anew: bool = False) -> None:
        top, before = self.scroll_offset.y, self.cursor_row
        with self.prevent(DataTable.RowHighlighted):
            self.clear()
            for row in self._shown:
                self.add_row(key=row.key)
            keys = [row.key for row in self._shown]
            index = keys.index(select) if select in keys else max(0, min(before, len(keys) - 1))
            if keys:
                self.move_cursor(row=index, scroll=False)
        self._note(keys[index] if keys else None)
        # The selected row stays on its line of the screen; a list at its top stays there.
        y = top + index - before if top else 0
        if anew:
            y = 0 if index < self.screenful else max(0, index - self.size.height // 2)
        self.call_after_refresh(self._return_to, y)

    def _return_to(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, immediate=True)
        self._scroll_cursor_into_view()

    def _redraw_changed(self, old: tuple[Row, ...]) -> None:
        """Draw the rows in sight that differ from the `old` ones at their places."""
        first = max(0, self.scroll_offset.y)
        last = first + self.screenful
        for index, (before, row) in enumerate(zip(old[first:last], self._shown[first:last], strict=False), start=first):
            if before is not row:
                self.refresh_row(index)

    def _fitted(self, text: Text, key: str, width: int) -> Text:
        cell = text.copy()
        cell.no_wrap = True
        cell.truncate(width, overflow="ellipsis")
        cell.align("right" if key in self._to_right else "left", width)
        return cell

    def _note(self, key: str | None) -> None:
        if key != self._current:
            self._current = key
            self.post_message(self.Highlighted(key))

    @on(DataTable.RowHighlighted)
    def _on_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        event.stop()
        # The cursor may have moved since.
        self._note(self.current)

    @on(DataTable.HeaderSelected)
    def _on_header_selected(self, event: DataTable.HeaderSelected) -> None:
        event.stop()
        key = event.column_key.value
        if any(column.key == key and column.sorts for column in self._all_columns):
            self.post_message(self.HeadClicked(str(key)))

    @on(DataTable.RowSelected)
    def _on_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        key = _value(event.row_key)
        if key is not None:
            self.post_message(self.Chosen(key))


def _unless_same(row: Row, known: Row | None) -> Row:
    """Return the `known` row if it looks the same, which is drawn already."""
    if known is None or known is row:
        return row
    if known.sign != row.sign or known.cells.keys() != row.cells.keys():
        return row
    is_same = all(_is_same(cell, known.cells[key]) for key, cell in row.cells.items())
    return known if is_same else row


def _is_same(cell: Text, known: Text) -> bool:
    return cell is known or (cell.plain == known.plain and cell.style == known.style and cell.spans == known.spans)


def _value(key: RowKey | None) -> str | None:
    """Return the key of a row; None for the event of a table just emptied."""
    return None if key is None else key.value
