"""The columns of standings, for every front end: the command line, the app, the page for a browser and all JSON.

A new column is one entry in `COLUMNS`, beside the field of `Standing` and the query that has its value. The table lies
in `report/` and not beside the boards: reports are drawn from it, the app, the exports and the archive of a deleted
board lie above reports, and imports run downward.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import wide_interval_text
from hpc_board.domain.standing import Mark, MarkKind, Page, Standing
from hpc_board.model.task import ISOLATED
from hpc_board.model.text import one_line
from hpc_board.report.columns import TableColumn, Width, listed_with_places, ordered, reported
from hpc_board.report.formatting import moment_text, score_text, span_text, speedup_text

OVERLAPS = "~"
"""The mark of a statistical tie with the row above."""

Value = str | int | float | bool | datetime | None
"""A JSON value; each document formats moments and texts in its own way."""


class Line(msgspec.Struct, frozen=True):
    """A line of a board: a standing, a mark beside the ranks or a removed run.

    Attributes:
        row: the standing, the mark or the run.
        page: the page of the line, if any.
        reader: the user of the front end.
        own_runs: True if the rows are the reader's runs and not users.
        now: the end of ages.
    """

    row: Standing | Mark | Run
    page: Page | None = None
    reader: str = ""
    own_runs: bool = False
    now: datetime | None = None

    @property
    def speedup(self) -> float | None:
        """Return the speedup over the reference; None without a reference, and for a removed run."""
        return None if self.page is None or isinstance(self.row, Run) else self.page.speedup(self.row.score_s)

    @property
    def is_own(self) -> bool:
        """Return True for the reader's standing, and among the reader's own runs for the one that counts."""
        if not isinstance(self.row, Standing):
            return False
        own = self.page.own if self.page else None
        return own is not None and own.run == self.row.run if self.own_runs else self.row.user == self.reader

    @property
    def at(self) -> datetime:
        """Return the moment of the submission."""
        return self.row.created_at if isinstance(self.row, Run) else self.row.submitted_at


class Document(StrEnum):
    """A JSON document with standings or marks: `show --json`, the marks there, a deleted board."""

    SHOW = "show"
    MARKS = "marks"
    ARCHIVE = "archive"


_WITH_STANDINGS = frozenset({Document.SHOW, Document.ARCHIVE})


class Layout(StrEnum):
    """A layout of the app's list: wide or narrow, with or without intervals."""

    WIDE = "wide"
    NARROW = "narrow"
    WIDE_WITH_INTERVALS = "wide with intervals"
    NARROW_WITH_INTERVALS = "narrow with intervals"


class Emphasis(StrEnum):
    """The weight of a column in the app: like its line, quiet, or quiet except for emulated and removed runs.

    A mark has quiet words under CAUTION, and only warnings under WARNING.
    """

    LINE = "line"
    QUIET = "quiet"
    CAUTION = "caution"
    WARNING = "warning"


class Field(msgspec.Struct, frozen=True):
    """A key of JSON with its value, in these documents, its meaning and the words for its type."""

    key: str
    value: Callable[[Line], Value]
    documents: frozenset[Document] = _WITH_STANDINGS
    meaning: str = ""
    type: str = "text"


class Listed(msgspec.Struct, frozen=True):
    """A column of the app's list, by layout; `text` differs where the app has fewer cells than a report."""

    widths: Mapping[Layout, Width]
    emphasis: Emphasis = Emphasis.QUIET
    text: Callable[[Line], str] | None = None


class Drawn(msgspec.Struct, frozen=True):
    """A column of the page for a browser.

    Attributes:
        title: HTML in place of the column's title.
        css: the classes of the head and the cells; `cell_css` are classes of the cells only.
        text: the text of a cell in place of the column's.
        look: the way in which `standings.html` renders the content, if it is more than text.
    """

    title: str = ""
    css: str = "number"
    cell_css: str = ""
    text: Callable[[Line], str] | None = None
    look: str = ""


class StandingColumn(TableColumn[Line, Listed], frozen=True):
    """A column of standings.

    Attributes:
        fields: its keys in JSON.
        drawn: its place on the page for a browser, if any.
    """

    fields: tuple[Field, ...] = ()
    drawn: Drawn | None = None


def report_columns() -> tuple[TableColumn[Line, Listed], ...]:
    """Return the columns of reports, in their order."""
    return reported(COLUMNS, _REPORT_ORDER)


def listed_columns(layout: Layout) -> tuple[tuple[TableColumn[Line, Listed], Listed, Width], ...]:
    """Return the columns of a layout of the app, in their order, with their widths."""
    return tuple((column, listed, listed.widths[layout]) for column, listed in all_listed() if layout in listed.widths)


def all_listed() -> tuple[tuple[TableColumn[Line, Listed], Listed], ...]:
    """Return the columns of all layouts of the app, in their order."""
    return listed_with_places(COLUMNS, _LISTED_ORDER)


def drawn_columns() -> tuple[tuple[StandingColumn, Drawn], ...]:
    """Return the columns of the page for a browser, in their order."""
    return tuple((column, column.drawn) for column in ordered(COLUMNS, _DRAWN_ORDER) if column.drawn is not None)


def values(line: Line, document: Document) -> dict[str, Value]:
    """Return the keys of a line in a document, in the order of the table, with their values."""
    return {each.key: each.value(line) for column in COLUMNS for each in column.fields if document in each.documents}


def rank_text(row: Standing) -> str:
    """Return a rank, marked if it is a statistical tie with the rank above."""
    return f"{OVERLAPS}{row.rank}" if row.overlaps_above else str(row.rank)


def trust_text(row: Standing, own: str = "task's own harness") -> str:
    """Return the trust in a time; `own` are the words for a task's own harness."""
    words = (one_line(row.trust), "" if row.harness == ISOLATED else own, "emulated" if row.emulated else "")
    return ", ".join(filter(None, words))


# The texts


def _rank(line: Line) -> str:
    return rank_text(line.row) if isinstance(line.row, Standing) else "-"


def _user(line: Line, counts: str = "counts on the board") -> str:
    match line.row:
        case Mark(name=name):
            return f"[{one_line(name)}]"
        case Run(user=user):
            return f"{one_line(user)} (you)"
        case Standing() if line.own_runs:
            return counts if line.is_own else ""
        case Standing(user=user):
            return one_line(user) + (" (you)" if line.is_own else "")


def _user_alone(line: Line) -> str:
    return one_line(line.row.name if isinstance(line.row, Mark) else line.row.user)


def _interval(line: Line) -> str:
    row = line.row
    return wide_interval_text(row.score_s, row.interval) if isinstance(row, Standing) else ""


def _submitted(line: Line) -> str:
    return _age(line) if line.now or _is_reference(line) else moment_text(line.at)


def _age(line: Line) -> str:
    return "" if line.now is None or _is_reference(line) else span_text(line.now - line.at)


def _is_reference(line: Line) -> bool:
    return isinstance(line.row, Mark) and line.row.kind is MarkKind.REFERENCE


def _trust(line: Line, own: str = "task's own harness") -> str:
    match line.row:
        case Standing() as row:
            return trust_text(row, own)
        case Mark(kind=kind, emulated=emulated):
            words = (str(kind) if kind is MarkKind.MILESTONE else "", "emulated" if emulated else "")
            return ", ".join(filter(None, words))
        case Run(remarks=remarks):
            return f"removed: {one_line(remarks.removal.reason)}" if remarks.removal else "removed"


def _brief_trust(line: Line) -> str:
    match line.row:
        case Run():
            return "removed"
        case Standing() | Mark() as row if row.emulated:
            return "emulated"
        case Standing(harness=harness, trust=trust):
            return one_line(trust) if harness == ISOLATED else "own eval"
    return ""


# The numbers


def _run(line: Line) -> int:
    return line.row.id if isinstance(line.row, Run) else line.row.run


def _score(line: Line) -> float:
    return line.row.score_s or 0.0


def _times_best(line: Line) -> float:
    """Return the ratio to the best of the page, its first row."""
    return _score(line) / line.page.rows[0].score_s if line.page and line.page.rows else 1.0


def _bound(name: str) -> Callable[[Line], Value]:
    def found(line: Line) -> Value:
        interval = line.row.interval if isinstance(line.row, Standing) else None
        return None if interval is None else float(getattr(interval, name))

    return found


def _field(key: str, meaning: str, *documents: Document, type_: str = "text") -> Field:
    """Return the field for the attribute `key` of a row; in all documents with standings, if none are given."""

    def value(line: Line) -> Value:
        found: Value = getattr(line.row, key)
        return found

    return Field(key, value, frozenset(documents) if documents else _WITH_STANDINGS, meaning, type_)


_ALL = (Document.SHOW, Document.MARKS, Document.ARCHIVE)
_UNARCHIVED = (Document.SHOW,)


def _widths(
    wide: Width | None = None,
    narrow: Width | None = None,
    wide_with_intervals: Width | None = None,
    narrow_with_intervals: Width | None = None,
) -> Mapping[Layout, Width]:
    given = zip(Layout, (wide, narrow, wide_with_intervals, narrow_with_intervals), strict=True)
    return {layout: width for layout, width in given if width is not None}


COLUMNS: tuple[StandingColumn, ...] = (
    StandingColumn(
        "rank",
        "Rank",
        _rank,
        right=True,
        fields=(_field("rank", "the rank; equal scores share one", type_="integer"),),
        listed=Listed(dict.fromkeys(Layout, Width(5)), Emphasis.LINE),
        drawn=Drawn(text=lambda line: rank_text(line.row) if isinstance(line.row, Standing) else ""),
    ),
    StandingColumn(
        "user",
        "User",
        _user,
        flexible=True,
        least=12,
        fields=(_field("user", "the user"),),
        listed=Listed(
            dict.fromkeys(Layout, Width(10, grows=True, most=26)),
            Emphasis.LINE,
            lambda line: _user(line, "counts"),
        ),
        drawn=Drawn(css="user", text=_user_alone, look="name"),
    ),
    StandingColumn(
        "score",
        "Score",
        lambda line: score_text(line.row.score_s),
        right=True,
        fields=(_field("score_s", "the score", *_ALL, type_="seconds"),),
        listed=Listed(dict.fromkeys(Layout, Width(8)), Emphasis.LINE),
        drawn=Drawn(title="Time", cell_css="time", look="time"),
    ),
    StandingColumn(
        "ratio",
        "Times best",
        lambda line: f"{_times_best(line):.2f}",
        in_report=False,
        drawn=Drawn(title="&times; best", css="number ratio"),
    ),
    StandingColumn(
        "submission",
        "Submission",
        lambda _: "",
        in_report=False,
        fields=(_field("submission", "the number of the submission", *_ALL, type_="integer"),),
    ),
    StandingColumn(
        "run",
        "Run",
        lambda line: str(_run(line)),
        right=True,
        fields=(_field("run", "the number of the run", *_ALL, type_="integer"),),
        listed=Listed(_widths(Width(6, from_width=86), wide_with_intervals=Width(6, from_width=104))),
        drawn=Drawn(css="number run", look="run"),
    ),
    StandingColumn(
        "submitted",
        "Submitted",
        _submitted,
        fields=(_field("submitted_at", "the time of the submission", *_ALL, type_="moment"),),
        listed=Listed(
            _widths(Width(16, from_width=108), wide_with_intervals=Width(16, from_width=120)),
            # The age has a column of its own.
            text=lambda line: "" if _is_reference(line) else moment_text(line.at),
        ),
        drawn=Drawn(css="when", look="moment"),
    ),
    StandingColumn(
        "age",
        "Age",
        _age,
        right=True,
        in_report=False,
        listed=Listed(_widths(Width(6), Width(6, from_width=50), Width(6), Width(6, from_width=62))),
    ),
    StandingColumn(
        "file",
        "File",
        lambda line: one_line(line.row.file_name),
        flexible=True,
        least=9,
        leaves=1,
        fields=(_field("file_name", "the name of the file", *_ALL),),
        listed=Listed(
            _widths(
                Width(12, from_width=70, most=32),
                Width(9, grows=True, from_width=62),
                Width(12, from_width=96, most=32),
            )
        ),
    ),
    StandingColumn(
        "trust",
        "Trust",
        _trust,
        flexible=True,
        least=8,
        fields=(
            _field("trust", "`self-run` or `verified`", *_UNARCHIVED),
            _field("emulated", "true where a CPU stood in for the GPU", *_UNARCHIVED, Document.MARKS, type_="boolean"),
            _field("harness", "`isolated`, or `task` for a task that judges by itself", Document.SHOW),
        ),
        listed=Listed(_widths(Width(8, most=18)), Emphasis.CAUTION, lambda line: _trust(line, "own eval")),
    ),
    StandingColumn(
        "brief trust",
        "Trust",
        _brief_trust,
        in_report=False,
        listed=Listed(
            _widths(None, Width(8), Width(8), Width(8)),
            Emphasis.WARNING,
        ),
    ),
    StandingColumn(
        "speedup",
        "Speedup",
        lambda line: speedup_text(line.speedup),
        right=True,
        optional=True,
        fields=(
            Field(
                "speedup",
                lambda line: line.speedup,
                frozenset({Document.SHOW, Document.MARKS}),
                "the speedup over the reference; `null` where that was not timed",
                "number or `null`",
            ),
        ),
        listed=Listed(_widths(Width(7), Width(7), Width(7)), Emphasis.LINE),
    ),
    StandingColumn(
        "interval",
        "Interval",
        _interval,
        optional=True,
        fields=(
            Field(
                "score_low_s",
                _bound("low_s"),
                frozenset(_UNARCHIVED),
                "the lower bound of the score's 80 % confidence interval",
                "seconds or `null`",
            ),
            Field("score_high_s", _bound("high_s"), frozenset(_UNARCHIVED), "its upper bound", "seconds or `null`"),
        ),
        listed=Listed(_widths(None, None, Width(18), Width(18))),
    ),
    StandingColumn(
        "overlap",
        "Overlap",
        lambda _: "",
        in_report=False,
        fields=(
            _field(
                "overlaps_above",
                "true for a [statistical tie](standings.md#statistical-ties) with the row above",
                *_UNARCHIVED,
                type_="boolean",
            ),
        ),
    ),
)
"""Every column of standings, in the order of the keys of JSON; keys are added, never renamed."""

_REPORT_ORDER = ("rank", "user", "score", "interval", "speedup", "run", "file", "submitted", "trust")
_LISTED_ORDER = (
    *("rank", "user", "score", "interval", "speedup", "file", "age", "submitted", "run", "trust", "brief trust"),
)
_DRAWN_ORDER = ("rank", "user", "score", "ratio", "submitted", "run")
