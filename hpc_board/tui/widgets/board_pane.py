"""The board of one GPU: its rows with what stands between them, and a line about them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Static

from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, MarkKind, Page, Standing
from hpc_board.model.score import full_score_text, wide_interval_text
from hpc_board.model.task import ISOLATED
from hpc_board.report import OVERLAPS, rank_text, span_text, speedup_text
from hpc_board.tui import paging
from hpc_board.tui.formatting import moment, score, trust
from hpc_board.tui.paging import Order, Part, Span
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import Kind, ListPane

_RANK = Column("rank", "Rank", 5, right=True)
_MARKED_RANK = Column("rank", "Rank", 6, right=True)
_SCORE = Column("score", "Score", 8, right=True)
_SPEEDUP = Column("speedup", "Speedup", 7, right=True)
_INTERVAL = Column("interval", "Interval", 18)
_AGE = Column("age", "Age", 6, right=True)
_WIDE = (
    _RANK,
    Column("user", "User", 12, grows=True),
    _SCORE,
    _SPEEDUP,
    Column("file", "File", 12, grows=True),
    _AGE,
    Column("date", "Submitted", 16, from_width=108),
    Column("run", "Run", 6, right=True, from_width=86),
    Column("trust", "Trust", 18),
)
_NARROW = (_RANK, Column("user", "User", 14, grows=True), _SCORE, _SPEEDUP, _AGE, Column("sure", "Trust", 8))
_WIDE_WITH_INTERVALS = (
    _RANK,
    Column("user", "User", 12, grows=True),
    _SCORE,
    _INTERVAL,
    _SPEEDUP,
    Column("file", "File", 12, grows=True, from_width=96),
    _AGE,
    Column("date", "Submitted", 16, from_width=120),
    Column("run", "Run", 6, right=True, from_width=104),
    Column("sure", "Trust", 8),
)
_NARROW_WITH_INTERVALS = (
    _RANK,
    Column("user", "User", 10, grows=True),
    _SCORE,
    _INTERVAL,
    Column("sure", "Trust", 8),
)
_NARROW_BELOW = 78
_LEGEND = f"{OVERLAPS} cannot be told from the one above."


@dataclass(frozen=True)
class Placed:
    """A row of a board with its place, from 0 on; ranks are shared by equal times, places by none."""

    place: int
    row: Standing


_BY_PLACE: Order[Placed] = Order(lambda placed: placed.place, identity=lambda placed: placed.row.run)


def with_marks(
    rows: Sequence[Placed], marks: Sequence[Mark], *, above: bool, below: bool
) -> Iterator[tuple[int, Standing | Mark]]:
    """Yield the rows with their indexes, and the marks between them where they belong by their times.

    A mark has the index of the row behind it. One that belongs to a part of the board that is unknown, as the board
    goes on `above` or `below`, is left out.
    """
    left = [mark for mark in marks if not above or (rows and mark.score_s >= rows[0].row.score_s)]
    for index, placed in enumerate(rows):
        while left and left[0].score_s < placed.row.score_s:
            yield index, left.pop(0)
        yield index, placed.row
    if not below:
        for mark in left:
            yield max(0, len(rows) - 1), mark


class BoardPane(ListPane[Placed]):
    """The board on `gpu`, as `user` reads it, between the name of the GPU and a line about the board.

    With each part come the page of the board, the user's runs that were removed from it, and whether the rows are the
    user's own runs.
    """

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
            _WIDE,
            key=lambda placed: str(placed.row.run),
            cells=lambda placed: self.cells_of(placed.row),
            order=_BY_PLACE,
            submission=lambda line: line.submission,
        )
        super().__init__(kind, pages, id=id, grid_id=f"{id}-rows")
        self.gpu = gpu
        self.page: Page | None = None
        """What was read last; its rows are only those in sight."""
        self._user = user
        self._now = now
        self._removed: tuple[Run, ...] = ()
        self._own_runs = False
        self._columns: tuple[Column, ...] = _WIDE

    def compose(self) -> ComposeResult:
        """The name of the GPU, the rows, and a line about them."""
        yield Static(toned(self.gpu), classes="gpu", markup=False)
        yield from super().compose()
        yield Static(toned("Asking for the board …", Tone.MUTED), classes="hint", markup=False)

    def on_resize(self) -> None:
        """Take the columns that fit, and read the rows that came into sight."""
        self._fit()
        self.read_on()

    @property
    def has_size(self) -> bool:
        """Whether it is known how many rows fit."""
        return self.grid.size.height > 0

    def span_around(self, row: Standing) -> Span:
        """Return the page whose middle is this row, with what is above and below the screen then."""
        rows = self.grid.screenful
        place = max(0, row.rank - 1 - rows // 2 - rows)
        return Span(3 * rows, after=place - 1 if place else None)

    def show(self, parts: Iterable[Part[Placed]]) -> None:
        """Show pages that were read, and what was read beside them."""
        parts = tuple(parts)
        for part in parts:
            self.page, self._removed, self._own_runs = part.about
        # Speed-ups, and which run counts, are those of the page that was read last.
        self.redraw()
        super().show(parts)
        self._show_about()

    def lines(self) -> Iterator[tuple[int, str, Standing | Mark | Run]]:
        """Yield the rows, the marks between them, and at the end the runs that were removed."""
        window = self.window
        marks = self.page.marks if self.page else ()
        for index, line in with_marks(window.items, marks, above=window.above, below=window.below):
            yield index, f"{line.kind}-{line.run}-{line.name}" if isinstance(line, Mark) else str(line.run), line
        if not window.below:
            for run in self._removed:
                yield max(0, len(window.items) - 1), f"removed-{run.id}", run

    def cells_of(self, line: Standing | Mark | Run) -> dict[str, Text]:
        """Return the cells of a line."""
        if isinstance(line, Mark):
            return self._mark(line, self._now())
        if isinstance(line, Run):
            return self._run(line, self._now())
        return self._standing(line, self._now(), own_runs=self._own_runs)

    def mark_active(self, *, active: bool) -> None:
        """Show whether the keys are about this board."""
        name = toned(self.gpu, Tone.OWN if active else Tone.MUTED)
        self.query_one(".gpu", Static).update(Text.assemble("▸ " if active else "  ", name))

    def prepare(self) -> None:
        """Take the columns that fit the rows."""
        self._fit()

    def _fit(self) -> None:
        columns = self._fitting_columns()
        if columns != self._columns:
            self._columns = columns
            self.grid.set_columns(columns)

    def _fitting_columns(self) -> tuple[Column, ...]:
        rows, is_narrow = [placed.row for placed in self.window.items], self.size.width < _NARROW_BELOW
        wide = any(wide_interval_text(row.score_s, row.interval) for row in rows)
        narrow_columns, wide_columns = (_NARROW_WITH_INTERVALS, _WIDE_WITH_INTERVALS) if wide else (_NARROW, _WIDE)
        chosen: tuple[Column, ...] = narrow_columns if is_narrow else wide_columns
        measured = self.page is not None and self.page.reference_s is not None
        rank = _MARKED_RANK if any(row.overlaps_above for row in rows) else _RANK
        return tuple(rank if column is _RANK else column for column in chosen if column is not _SPEEDUP or measured)

    def _standing(self, row: Standing, now: datetime, *, own_runs: bool) -> dict[str, Text]:
        own = row.user == self._user
        tone = Tone.OWN if own else Tone.PLAIN
        counts = self.page is not None and self.page.own is not None and self.page.own.run == row.run
        name = f"{row.user} (you)" if own else row.user
        if own_runs:
            name, tone = ("counts", Tone.OWN) if counts else ("", Tone.PLAIN)
        brief = "emulated" if row.emulated else row.trust if row.harness == ISOLATED else "own eval"
        return self._cells(
            now,
            rank=toned(rank_text(row), tone),
            user=toned(name, tone),
            score=toned(score(row.score_s), tone),
            interval=toned(wide_interval_text(row.score_s, row.interval), Tone.MUTED),
            speedup=toned(self._speedup(row.score_s), tone),
            file=toned(row.file_name, Tone.MUTED),
            at=row.submitted_at,
            run=row.run,
            trust=toned(trust(row), Tone.WAITING if row.emulated else Tone.MUTED),
            sure=toned(brief, Tone.WAITING if row.emulated else Tone.MUTED),
        )

    def _mark(self, mark: Mark, now: datetime) -> dict[str, Text]:
        milestone = mark.kind is MarkKind.MILESTONE
        words = ", ".join(filter(None, (str(mark.kind) if milestone else "", "emulated" if mark.emulated else "")))
        return self._cells(
            now,
            rank=toned("-", Tone.GOOD),
            user=toned(f"[{mark.name}]", Tone.GOOD),
            score=toned(score(mark.score_s), Tone.GOOD),
            interval=toned(""),
            speedup=toned(self._speedup(mark.score_s), Tone.GOOD),
            file=toned(mark.file_name, Tone.MUTED),
            at=mark.submitted_at if milestone else None,
            run=mark.run,
            trust=toned(words, Tone.MUTED),
            sure=toned("emulated" if mark.emulated else "", Tone.WAITING),
        )

    def _run(self, run: Run, now: datetime) -> dict[str, Text]:
        removal = run.remarks.removal
        why = f"removed: {removal.reason}" if removal else "removed"
        return self._cells(
            now,
            rank=toned("-", Tone.BAD),
            user=toned(f"{run.user} (you)", Tone.BAD),
            score=toned(score(run.score_s), Tone.BAD),
            interval=toned(""),
            speedup=toned(""),
            file=toned(run.file_name, Tone.MUTED),
            at=run.created_at,
            run=run.id,
            trust=toned(why, Tone.BAD),
            sure=toned("removed", Tone.BAD),
        )

    def _cells(self, now: datetime, *, at: datetime | None, run: int, **cells: Text) -> dict[str, Text]:
        age = "" if at is None else span_text(now - at)
        shared = {"age": age, "date": moment(at), "run": str(run)}
        return cells | {key: toned(value, Tone.MUTED) for key, value in shared.items()}

    def _speedup(self, score_s: float) -> str:
        return speedup_text(self.page.speedup(score_s)) if self.page else ""

    def _show_about(self) -> None:
        if self.page is not None:
            about = self._about(self.page, own_runs=self._own_runs)
            legend = any(placed.row.overlaps_above for placed in self.window.items)
            told = Text.assemble(about, (f"\n{_LEGEND}", Tone.MUTED.value)) if legend else about
            self.query_one(".hint", Static).update(told)

    def _about(self, page: Page, *, own_runs: bool) -> Text:
        removed = f" {len(self._removed)} removed." if self._removed else ""
        if not page.total:
            who = "You have no" if own_runs else "Nobody has a"
            return toned(f"{who} passing ranked run on {self.gpu} yet.{removed} Press s to submit one.", Tone.MUTED)
        if own_runs:
            return toned(f"{page.total} {'run' if page.total == 1 else 'runs'} on {self.gpu}.{removed}", Tone.MUTED)
        if page.own is None:
            people = "1 user" if page.total == 1 else f"{page.total:,} users"
            return toned(f"{people} on {self.gpu}.{removed}", Tone.MUTED)
        own = full_score_text(page.own.score_s, page.own.interval)
        where = f"You are {page.own.rank:,} of {page.total:,} on {self.gpu}, with {own}."
        return toned(where + removed, Tone.OWN)
