"""The board of one GPU: its rows, the marks between them, and a summary line."""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from rich.text import Text
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Static

from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import full_score_text
from hpc_board.domain.standing import Mark, Page, Record, Standing, with_marks
from hpc_board.model.task import ISOLATED
from hpc_board.model.text import one_line
from hpc_board.report.formatting import score_text
from hpc_board.report.histories import plot_lines, records_plot
from hpc_board.report.plots import text_plot
from hpc_board.report.standings import OVERLAPS, Line, restriction_words
from hpc_board.tui import paging
from hpc_board.tui.formatting import listing, speed_text
from hpc_board.tui.paging import Part, Span
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.blocks import entitle, log_lines, show_text, speedup_cell
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_NARROW_BELOW = 78
"""The cells of a pane below which its rows have the trust in one word."""

_BAR = "bar"
PLOT_LINES_MIN = 12
_BESIDE_ROWS = 6
"""The lines of a pane that are neither rows nor its plot."""

_LEGEND = f"{OVERLAPS}: statistical tie with the row above."


class BoardPane(ListPane[Standing]):
    """The board on `gpu` for `user`, with the GPU's name as its title, and a summary and a plot of its records below.

    Each part carries the page of the board, the user's runs that do not count, the records, and whether the rows are
    the user's own runs. The plot takes the lines that the rows leave.
    """

    class Shown(Message):
        """Other rows, or another size, on which the text and the plot below the boards depend."""

    def __init__(
        self,
        gpu: str,
        user: str,
        pages: Callable[[str], paging.Page[Standing]],
        now: Callable[[], datetime],
        *,
        id: str,
    ) -> None:
        kind = Kind[Standing](
            _columns([]),
            key=lambda row: str(row.run),
            filter_words="words of user or file: ada float4",
            run=lambda row: row.run,
            nothing=self._nothing,
            title=gpu,
        )
        super().__init__(kind, pages, id=id, grid_id=f"{id}-rows")
        self.gpu = gpu
        self.page: Page | None = None
        """The last page read; its rows are those around the visible ones, or with a filter all."""
        self._user = user
        self._now = now
        self._uncounted: tuple[Run, ...] = ()
        self.records: tuple[Record, ...] = ()
        """The records of the board that was read last, unless it is too long for a plot."""
        self._own_runs = False
        self._fastest_s = math.inf
        self._shown: tuple[Part[Standing], str] | None = None
        """The last page read, and the words of the filter."""

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield Static(classes="hint", markup=False)
        records = Static(classes="records panel", markup=False)
        records.display = False
        yield records

    def on_resize(self) -> None:
        self.prepare()
        self.post_message(self.Shown())

    def span_around(self, place: int) -> Span:
        """Return the page with the row at this position in the middle, and a screenful above and below."""
        rows = self.grid.screenful
        return Span(3 * rows, max(0, place - rows // 2 - rows))

    def narrow(self, words: str, scope: str = "") -> None:
        """Filter the board; without words, keep the selected row in its place."""
        row = self.line
        super().narrow(words, scope)
        if not words and isinstance(row, Standing):
            self.jump(self.span_around(row.rank - 1), select=str(row.run))

    def show(self, part: Part[Standing]) -> None:
        before, self._shown = self._shown, (part, self.words)
        if self._shown == before:
            super().show(part)
            return
        if self._own_runs != part.about[-1]:
            self._fastest_s = math.inf
        self.page, self._uncounted, self.records, self._own_runs = part.about
        page: Page = part.about[0]
        self._unfiltered = f"{page.total:,}"
        self._fastest_s = min(
            self._fastest_s, *(row.score_s for row in page.rows), *(mark.score_s for mark in page.marks), math.inf
        )
        # Speed-ups and marks of all rows depend on the last page.
        self.redraw()
        super().show(part)
        self.post_message(self.Shown())

    def lines(self) -> Iterator[tuple[int, str, Standing | Mark | Run]]:
        window = self.window
        marks = self.page.marks if self.page and not self.words else ()
        for index, line in with_marks(window.items, marks, above=window.offset > 0, below=window.below):
            yield index, f"{line.kind}-{line.run}-{line.name}" if isinstance(line, Mark) else str(line.run), line
        if not window.below and not self.words:
            for run in self._uncounted:
                yield max(0, len(window.items) - 1), f"uncounted-{run.id}", run

    def cells_of(self, line: Standing | Mark | Run) -> dict[str, Text]:
        shown, score_s = self._line(line), line.score_s
        share = str(self._fastest_s / score_s) if score_s and self._fastest_s < math.inf else ""
        return {**_cells(shown), _BAR: toned(share, Tone.OWN if shown.is_own else Tone.MUTED)}

    def prepare(self) -> None:
        marks = self.page.marks if self.page else ()
        rows: tuple[Standing | Mark | Run, ...] = (*self.window.items, *marks, *self._uncounted)
        lines = [*map(self._line, rows)]
        self.grid.set_columns(_columns(lines, self.size.width, own_runs=self._own_runs))

    def _line(self, row: Standing | Mark | Run) -> Line:
        return Line(row, self.page, self._user, own_runs=self._own_runs, now=self._now())

    @property
    def room(self) -> int:
        """Return the lines that the rows leave."""
        return self.size.height - self.grid.row_count - _BESIDE_ROWS

    @property
    def wanted(self) -> int:
        """Return the lines of the plot, if they have room."""
        return plot_lines(len(self.records), self.room)

    def show_below(self, found: tuple[str, ...], lines: int, span: tuple[datetime, datetime] | None) -> None:
        """Show the reader's place, the legend, and the plot of the records if there are several and `lines` for it.

        `span` is that of the plots of all boards in sight; None if none of them has a record.
        A filter that no row matches names the GPUs where it `found` any.
        """
        if self.page is None:
            return
        legend = any(row.overlaps_above for row in self.window.items)
        more = [*restriction_words(self.page), *([_LEGEND] if legend else [])]
        if self.words and found and not self.window.items:
            more.append(f"“{self.words}” is on {listing(found)}.")
        text = Text.assemble(self._about(self.page), *((f"\n{line}", Tone.MUTED.value) for line in more))
        show_text(self.query_one(".hint", Static), text)
        plot = self.query_one(".records", Static)
        plot.display = len(self.records) > 1 and lines >= PLOT_LINES_MIN
        if plot.display and span is not None:
            # The panel has an edge on each side, the plot an axis with its texts.
            picture = records_plot(self.records, span, reference=self.page.reference)
            drawn = text_plot(picture, self.size.width - 4, lines - 4)
            plot.styles.height = lines
            entitle(plot, toned(drawn.title))
            show_text(plot, log_lines(drawn))

    def _nothing(self) -> str:
        whose = "You have no results" if self._own_runs else "No results"
        return f"{whose} on {self.gpu} yet.\nPress s to submit a file, or e on Tasks for a starter."

    def _about(self, page: Page) -> Text:
        removed = sum(run.remarks.removal is not None for run in self._uncounted)
        counts = (removed, "removed"), (len(self._uncounted) - removed, "late")
        uncounted = "".join(f" {count} {word}." for count, word in counts if count)
        if not page.total:
            return toned(uncounted.strip(), Tone.MUTED)
        if self._own_runs:
            return toned(f"{page.total} {'run' if page.total == 1 else 'runs'} on {self.gpu}.{uncounted}", Tone.MUTED)
        if page.own is None:
            people = "1 user" if page.total == 1 else f"{page.total:,} users"
            return toned(f"{people} on {self.gpu}.{uncounted}", Tone.MUTED)
        own = full_score_text(page.own.score_s, page.own.interval)
        where = f"You are {page.own.rank:,} of {page.total:,} on {self.gpu}, with {own}."
        return toned(where + uncounted, Tone.OWN)


def _columns(lines: Sequence[Line], width: int = 0, *, own_runs: bool = False) -> tuple[Column, ...]:
    """Return the columns of a pane of this width, without those that tell nothing about any of the lines.

    These are intervals and speedups where no line has any, remarks without a caution and files that are alike in all
    lines. Rank, user, score, speedup and remark stay on narrow terminals; an interval leaves after the age, the bar and
    the rest.
    """
    remarks = {line.remark() for line in lines if not isinstance(line.row, Mark) or line.row.emulated}
    has_remark = len(remarks) > 1 or not remarks <= {line.row.trust for line in lines if isinstance(line.row, Standing)}
    files = [line.row.file_name for line in lines if isinstance(line.row, Standing)]
    ties = any(line.rank.startswith(OVERLAPS) for line in lines)
    has_intervals = any(line.interval for line in lines)
    is_narrow = width < _NARROW_BELOW
    remark = (
        Column("brief remark", "Remark", 8) if is_narrow or has_intervals else Column("remark", "Remark", 8, most=18)
    )
    found = (
        Column("rank", "Rank", 6 if ties else 5, right=True),
        Column("user", "" if own_runs else "User", 10, most=26),
        Column("score", "Score", 8, right=True),
        Column("interval", "80 % CI", 18, from_width=45) if has_intervals else None,
        Column("runs", "Runs", 4, right=True, from_width=55) if any(line.runs for line in lines) else None,
        Column("speedup", "Speedup", 7, right=True) if any(line.speedup for line in lines) else None,
        Column("file", "File", 9, from_width=62, most=32) if len(files) == 1 or len(set(files)) > 1 else None,
        Column("age", "Age", 6, right=True, from_width=50),
        Column("submitted", "Submitted", 16, from_width=108),
        Column("run", "Run", 6, right=True, from_width=86),
        remark if has_remark else None,
        Column(_BAR, "Speed", 12, grows=True, from_width=51, drawn=speed_text),
    )
    return tuple(column for column in found if column is not None)


def _cells(line: Line) -> dict[str, Text]:
    row = line.row
    match row:
        case Run():
            tone = warning = caution = Tone.BAD
        case Mark():
            tone, warning, caution = Tone.MUTED, Tone.WAITING, Tone.MUTED
        case Standing(emulated=emulated, rank=rank):
            tone = Tone.OWN if line.is_own else Tone.GOOD if rank == 1 else Tone.PLAIN
            warning = caution = Tone.WAITING if emulated else Tone.MUTED
    return {
        "rank": toned(line.rank, tone),
        "user": toned(line.user(), tone),
        "score": toned(score_text(row.score_s), tone),
        "runs": toned(line.runs, Tone.MUTED),
        "interval": toned(line.interval, Tone.MUTED if isinstance(row, Standing) else Tone.PLAIN),
        "speedup": speedup_cell(line.ratio, tone),
        "file": toned(row.file_name, Tone.MUTED),
        "age": toned(line.age, Tone.MUTED),
        "submitted": toned(line.date, Tone.MUTED),
        "run": toned(line.run, Tone.MUTED),
        "remark": toned(line.remark("own eval"), caution),
        "brief remark": toned(_brief_remark(row), warning),
    }


def _brief_remark(row: Standing | Mark | Run) -> str:
    match row:
        case Run(remarks=remarks):
            return "removed" if remarks.removal else "late"
        case Standing() | Mark() if row.emulated:
            return "emulated"
        case Standing(harness=harness, trust=trust):
            return one_line(trust) if harness == ISOLATED else "own eval"
    return ""
