"""The board of one GPU: its rows, the marks between them, and a summary line."""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Static

from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import full_score_text, wide_interval_text
from hpc_board.domain.standing import Mark, MarkKind, Page, Standing, with_marks
from hpc_board.report.standings import OVERLAPS, Line
from hpc_board.tui import paging
from hpc_board.tui.paging import Order, Part, Span
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.grid import GAP, SIDES, Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane
from hpc_board.tui.widgets.standing_cells import Layout, cells, columns, name_cells

_NARROW_BELOW = 78
_BAR = "bar"
_BARS = {190: 60, 150: 30, 100: 20, 64: 12}
"""The cells of a row's bar by the least width of the pane."""

_EDGES = 2
"""The cells of a pane's left and right edge."""

_SHARE_CELLS = 6
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEGEND = f"{OVERLAPS}: statistical tie with the row above."


class Placed(msgspec.Struct, frozen=True):
    """A row of a board with its position from 0; equal times share a rank, but not a position."""

    place: int
    row: Standing


_BY_PLACE: Order[Placed] = Order(lambda placed: placed.place, identity=lambda placed: placed.row.run, by_place=True)


def _marked_as(row: Standing | Mark | Run) -> int | None:
    """Return the submission whose mark a row shows; the reference has only that of the leader's run."""
    return None if isinstance(row, Mark) and row.kind is MarkKind.REFERENCE else row.submission


def _bar(share: float, cells: int) -> str:
    """Return a bar for a share of the leader's speed, with the share."""
    room = cells - _SHARE_CELLS
    eighths = max(1, round(8 * room * min(1.0, share)))
    bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return f"{bar:<{room}} {100 * share:3.0f} %"


class BoardPane(ListPane[Placed]):
    """The board on `gpu` for `user`, with the GPU's name as its title and a summary below.

    Each part carries the page of the board, the user's removed runs, and whether the rows are the user's own runs.
    """

    class Searched(Message):
        """Other words of a search."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(
        self,
        gpu: str,
        user: str,
        pages: Callable[[str], paging.Page[Placed]],
        now: Callable[[], datetime],
        *,
        id: str,  # noqa: A002 - Textual's name for it
    ) -> None:
        kind = Kind(
            columns(Layout.WIDE),
            key=lambda placed: str(placed.row.run),
            cells=lambda placed: self.cells_of(placed.row),
            order=_BY_PLACE,
            filter_words="search users and files; Enter keeps the words, then n and N move",
            submission=_marked_as,
            nothing=self._nothing,
            title=gpu,
        )
        super().__init__(kind, pages, id=id, grid_id=f"{id}-rows")
        self.gpu = gpu
        self.page: Page | None = None
        """The last page read; its rows are only the visible ones."""
        self._user = user
        self._now = now
        self._removed: tuple[Run, ...] = ()
        self._own_runs = False
        self._fastest_s = math.inf
        self._bar_cells = 0
        self._columns = columns(Layout.WIDE)

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Static(toned("Loading the board …", Tone.MUTED), classes="hint", markup=False)

    def on_resize(self) -> None:
        self._fit()
        self.read_on()

    @property
    def has_size(self) -> bool:
        """Return whether the number of visible rows is known."""
        return self.grid.size.height > 0

    def span_around(self, place: int) -> Span:
        """Return the page with the row at this position in the middle, and a screenful above and below."""
        rows = self.grid.screenful
        first = max(0, place - rows // 2 - rows)
        return Span(3 * rows, after=first - 1 if first else None)

    def narrow(self, words: str, scope: str = "") -> None:
        del scope
        self.post_message(self.Searched(words))

    def show(self, parts: Iterable[Part[Placed]]) -> None:
        parts = tuple(parts)
        for part in parts:
            if self._own_runs != part.about[-1]:
                self._fastest_s = math.inf
            self.page, self._removed, self._own_runs = part.about
            self._fastest_s = min(self._fastest_s, *(placed.row.score_s for placed in part.items), math.inf)
        # Speed-ups and marks of all rows depend on the last page.
        self.redraw()
        super().show(parts)
        self._show_about()

    def lines(self) -> Iterator[tuple[int, str, Standing | Mark | Run]]:
        window = self.window
        marks = self.page.marks if self.page else ()
        rows = [placed.row for placed in window.items]
        for index, line in with_marks(rows, marks, above=window.above, below=window.below):
            yield index, f"{line.kind}-{line.run}-{line.name}" if isinstance(line, Mark) else str(line.run), line
        if not window.below:
            for run in self._removed:
                yield max(0, len(window.items) - 1), f"removed-{run.id}", run

    def cells_of(self, line: Standing | Mark | Run) -> dict[str, Text]:
        shown = self._line(line)
        found = cells(shown)
        score_s = line.score_s
        found[_BAR] = Text()
        if self._bar_cells and score_s and self._fastest_s < math.inf:
            bar = _bar(self._fastest_s / score_s, self._bar_cells)
            found[_BAR] = Text(bar, (Tone.ACCENT if shown.is_own else Tone.MUTED).value)
        return found

    def prepare(self) -> None:
        self._fit()

    def _fit(self) -> None:
        bar_cells, fitting = self._bar_cells, self._fitting_columns()
        if fitting != self._columns:
            self._columns = fitting
            self.grid.set_columns(fitting)
        if bar_cells != self._bar_cells:
            self.redraw_known()

    def _fitting_columns(self) -> tuple[Column, ...]:
        rows, is_narrow = [placed.row for placed in self.window.items], self.size.width < _NARROW_BELOW
        lines = [*map(self._line, rows), *map(self._line, self.page.marks if self.page else ())]
        wide, narrow = Layout.WIDE, Layout.NARROW
        if any(wide_interval_text(row.score_s, row.interval) for row in rows):
            wide, narrow = Layout.WIDE_WITH_INTERVALS, Layout.NARROW_WITH_INTERVALS
        found = columns(narrow if is_narrow else wide, lines)
        if self._own_runs:
            found = tuple(replace(each, label="Remark") if each.key == "user" else each for each in found)
        if any(row.overlaps_above for row in rows):
            found = tuple(replace(each, width=each.width + 1) if each.key == "rank" else each for each in found)
        # Only a huge terminal has room for bars, and no bar cuts a name or takes the place of the ages.
        names = max((name_cells(line) for line in lines), default=0)
        staying = [each for each in found if not each.from_width or each.key == "age"]
        kept = [max(each.width, names if each.key == "user" else 0) + GAP for each in staying]
        room = self.size.width - _EDGES - SIDES - sum(kept) - GAP
        bars = (
            bar
            for least, bar in _BARS.items()
            if self.size.width >= least and room >= bar and rows and self.screen.has_class("-huge")
        )
        self._bar_cells = next(bars, 0)
        return (*found, Column(_BAR, "Of top speed", self._bar_cells)) if self._bar_cells else found

    def _line(self, row: Standing | Mark | Run) -> Line:
        return Line(row, self.page, self._user, own_runs=self._own_runs, now=self._now())

    def _show_about(self) -> None:
        if self.page is not None:
            about = self._about(self.page, own_runs=self._own_runs)
            legend = any(placed.row.overlaps_above for placed in self.window.items)
            text = Text.assemble(about, (f"\n{_LEGEND}", Tone.MUTED.value)) if legend else about
            self.query_one(".hint", Static).update(text)

    def _nothing(self) -> str:
        whose = "You have no results" if self._own_runs else "No results"
        return f"{whose} on {self.gpu} yet.\nPress s to submit."

    def _about(self, page: Page, *, own_runs: bool) -> Text:
        removed = f" {len(self._removed)} removed." if self._removed else ""
        if not page.total:
            return toned(removed.strip(), Tone.MUTED)
        if own_runs:
            return toned(f"{page.total} {'run' if page.total == 1 else 'runs'} on {self.gpu}.{removed}", Tone.MUTED)
        if page.own is None:
            people = "1 user" if page.total == 1 else f"{page.total:,} users"
            return toned(f"{people} on {self.gpu}.{removed}", Tone.MUTED)
        own = full_score_text(page.own.score_s, page.own.interval)
        where = f"You are {page.own.rank:,} of {page.total:,} on {self.gpu}, with {own}."
        return toned(where + removed, Tone.OWN)
