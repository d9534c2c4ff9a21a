"""The board of one GPU: its rows with what stands between them, and a line about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from rich.text import Text
from textual import getters
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, MarkKind, Page, Standing
from hpc_board.model.score import told_score, wide_interval_text
from hpc_board.model.task import ISOLATED
from hpc_board.report import OVERLAPS, rank_text, span_text, speedup_text
from hpc_board.tui.board_rows import BoardRows, lines
from hpc_board.tui.formatting import MARKED, moment, score, trust
from hpc_board.tui.palette import Tone, toned
from hpc_board.tui.widgets.grid import Column, Grid, Row

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


class BoardPane(Vertical):
    """A page or more of the board on `gpu`, as `user` reads it; it keeps what it was shown."""

    grid = getters.query_one(Grid)

    class Sized(Message):
        """The pane has another size, or its first one: now it is known how many rows it shows."""

        def __init__(self, pane: "BoardPane") -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, gpu: str, user: str, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.gpu = gpu
        self.page: Page | None = None
        """What was read last; its rows are only those in sight."""
        self._user = user
        self._rows = BoardRows()
        self._removed: tuple[Run, ...] = ()
        self._known: Mapping[str, Standing | Mark | Run] = {}
        self._lines: list[Row] = []
        self._marked: int | None = None
        self._places: list[int] = []
        self._columns: tuple[Column, ...] = _WIDE
        self._wanted: int | None = None
        self._from_top = False
        self._filling = False

    def compose(self) -> ComposeResult:
        """The name of the GPU, the rows, and a line about them."""
        yield Static(toned(self.gpu), classes="gpu", markup=False)
        yield Grid(_WIDE, id=f"{self.id}-rows")
        yield Static(toned("Asking for the board …", Tone.MUTED), classes="hint", markup=False)

    def on_resize(self) -> None:
        """Take the columns that fit."""
        self._fit()
        self.post_message(self.Sized(self))

    @property
    def selected(self) -> Standing | Mark | Run | None:
        """What the selected line stands for."""
        return self._known.get(self.grid.current or "")

    @property
    def has_size(self) -> bool:
        """Whether it is known how many rows fit."""
        return self.grid.size.height > 0

    @property
    def needs_more(self) -> bool:
        """Whether rows that are not known are about to come into sight."""
        first, height = self._first_in_sight, self._height
        return (
            bool(self._rows.rows)
            and not self._filling
            and (
                (not self._rows.is_whole and self._rows.end - first < 2 * height)
                or (self._rows.start > 0 and first - self._rows.start < height // 2)
            )
        )

    def span(self) -> tuple[int, int]:
        """What to read: from which place on, and how many rows: those in sight, and as many below and above them."""
        first, height = self._first_in_sight, self._height
        if self._rows.start and first - self._rows.start < height:
            return max(0, first - height), 3 * height
        return first, 2 * height

    def forget(self, place: int = 0, select: int | None = None) -> None:
        """Read other rows, from this place on, and select this run among them, or the first row."""
        self._rows = BoardRows(place)
        self._places = []
        self._wanted = select
        self._from_top = select is None
        self.grid.scroll_home(animate=False)

    @property
    def begins_above(self) -> bool:
        """Whether the board has rows before the first one that is known."""
        return self._rows.start > 0

    def place_of(self, row: Standing) -> int:
        """From which place on to read so that this row stands in the middle."""
        return max(0, row.rank - 1 - self._height // 2)

    def show(self, page: Page, removed: Sequence[Run], now: datetime, *, own_runs: bool) -> None:
        """Show what was read in the place of what it covers."""
        self.page = page
        self._removed = tuple(removed)
        self._rows = self._rows.with_page(page)
        shown: list[tuple[int, Row]] = []
        known: dict[str, Standing | Mark | Run] = {}
        for place, line in lines(self._rows, page.marks):
            key = f"{line.kind}-{line.run}-{line.name}" if isinstance(line, Mark) else str(line.run)
            known[key] = line
            row = self._mark(line, now) if isinstance(line, Mark) else self._standing(line, now, own_runs=own_runs)
            shown.append((place, Row(key, row)))
        if self._rows.is_whole:
            for run in self._removed:
                key = f"removed-{run.id}"
                known[key] = run
                shown.append((self._rows.end, Row(key, self._run(run, now))))
        self._known = known
        self._places = [place for place, _ in shown]
        wanted, self._wanted = None if self._wanted is None else str(self._wanted), None
        if self._from_top and shown and not self.begins_above:
            wanted, self._from_top = shown[0][1].key, False
        # A table that is filled anew is at its top until it has returned to its place, after the next refresh.
        self._filling = True
        self._fit()
        self._lines = [row for _, row in shown]
        self._show_lines(wanted if wanted in known else None)
        self.grid.call_after_refresh(self._rest)
        legend = any(row.overlaps_above for row in self._rows.rows)
        about = self._about(page, own_runs=own_runs)
        told = Text.assemble(about, (f"\n{_LEGEND}", Tone.MUTED.value)) if legend else about
        self.query_one(".hint", Static).update(told)

    def show_mark(self, submission: int | None) -> None:
        """Put a sign before the rows of this submission, which is chosen to be compared."""
        self._marked = submission
        self._show_lines()

    def mark_active(self, *, active: bool) -> None:
        """Show whether the keys are about this board."""
        name = toned(self.gpu, Tone.OWN if active else Tone.MUTED)
        self.query_one(".gpu", Static).update(Text.assemble("▸ " if active else "  ", name))

    def _show_lines(self, select: str | None = None) -> None:
        chosen = {key for key, line in self._known.items() if line.submission == self._marked}
        self.grid.show((replace(row, sign=MARKED if row.key in chosen else "") for row in self._lines), select=select)

    def _rest(self) -> None:
        self._filling = False

    @property
    def _height(self) -> int:
        return max(self.grid.size.height - 1, 1)

    @property
    def _first_in_sight(self) -> int:
        line = min(self.grid.scroll_offset.y, len(self._places) - 1)
        return self._places[line] if line >= 0 else self._rows.start

    def _fit(self) -> None:
        columns = self._fitting_columns()
        if columns != self._columns:
            self._columns = columns
            self.grid.set_columns(columns)

    def _fitting_columns(self) -> tuple[Column, ...]:
        rows, is_narrow = self._rows.rows, self.size.width < _NARROW_BELOW
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
        own = told_score(page.own.score_s, page.own.interval)
        where = f"You are {page.own.rank:,} of {page.total:,} on {self.gpu}, with {own}."
        return toned(where + removed, Tone.OWN)
