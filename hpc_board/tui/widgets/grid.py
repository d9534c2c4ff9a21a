"""A table with fixed columns that keeps selection and scroll position on updates."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.reactive import var
from textual.widgets import DataTable

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


class _Line:
    """A row as it is drawn, which takes a tenth of the time of as many cells of Textual's table."""

    def __init__(self, row: Row, segments: Callable[[Row], Iterable[Segment]]) -> None:
        self._row = row
        self._segments = segments

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._segments(self._row)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(options.max_width, options.max_width)


class Grid(DataTable[_Line]):
    """Textual's table with one cell a row: the columns that fit. It keeps the selection on updates.

    It posts changes of the selection, and rows that the user opens if it `opens` rows.
    """

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
        super().__init__(id=id, classes="panel", cursor_type="row", cell_padding=0, zebra_stripes=False)
        self.border_title = toned(title)
        self._opens = opens
        self._all_columns = tuple(columns)
        self._longest: dict[str, int] = {}
        """The longest cell of each column so far; columns do not shrink while a list is filtered."""
        self._sorting = Sorting()
        self._layout: tuple[tuple[str, int], ...] = ()
        self._to_right: frozenset[str] = frozenset()
        """The columns that are aligned to the right."""
        self._shown: tuple[Row, ...] = ()
        self._current: str | None = None

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
            for index, (before, row) in enumerate(zip(old, self._shown, strict=False)):
                if before is not row:
                    self.update_cell_at(Coordinate(index, 0), _Line(row, self._segments))
            for row in self._shown[len(old) :]:
                self.add_row(_Line(row, self._segments), key=row.key)
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
        with self.prevent(DataTable.RowHighlighted):
            self.clear(columns=True)
            heads = (self._head(labels[key], width) for key, width in self._layout)
            self.add_column(Text(" ").append_text(Text(" " * GAP).join(heads)), width=self.size.width)
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
                self.add_row(_Line(row, self._segments), key=row.key)
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
        self.move_cursor(row=self.cursor_row)

    def _segments(self, row: Row) -> Iterator[Segment]:
        """Yield the sign and the cells of a row as its columns have room for them."""
        yield Segment(row.sign or " ", self.app.console.get_style(Tone.OWN.value) if row.sign else None)
        for key, width in self._layout:
            text = row.cells[key]
            if text.spans or text.cell_len > width:
                yield from self._fitted(text, key, width).render(self.app.console)
            else:
                room = " " * (width - text.cell_len)
                padded = f"{room}{text.plain}" if key in self._to_right else f"{text.plain}{room}"
                yield Segment(padded, self.app.console.get_style(text.style, default=Style.null()))
            yield Segment(" " * GAP)

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

    @on(events.Click)
    def _click_head(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        if place is None or place.y >= self.header_height:
            return
        x = place.x - 1
        sorts = {column.key for column in self._all_columns if column.sorts}
        for key, width in self._layout:
            if 0 <= x < width + GAP and key in sorts:
                self.post_message(self.HeadClicked(key))
            x -= width + GAP

    @on(DataTable.RowSelected)
    def _on_row_selected(self, event: DataTable.RowSelected) -> None:
        event.stop()
        # The event of a table that was just emptied has no key.
        key = getattr(event.row_key, "value", None)
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
