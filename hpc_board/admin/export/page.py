"""The standings as one page for a browser: one file without external resources, with all data escaped."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import IO

import msgspec

from hpc_board import __version__
from hpc_board.admin.export.chart import chart, records
from hpc_board.admin.export.rendering import template
from hpc_board.boards.pages import page
from hpc_board.domain.run import Run
from hpc_board.domain.standing import Mark, MarkKind, Page, Rows, Standing
from hpc_board.model.score import duration_text, wide_interval_text
from hpc_board.model.task import ISOLATED, Ranking, Task
from hpc_board.model.text import one_line
from hpc_board.report.formatting import count_text, speedup_text
from hpc_board.report.standing_columns import Drawn, Line, drawn_columns
from hpc_board.report.standings import OVERLAPS_MEANING
from hpc_board.report.tables import first_sentence
from hpc_board.store import Store
from hpc_board.store.export import Best, RankedBoard

ROWS_MAX = 100
"""The maximum number of places of a leaderboard on the page."""

_SAID_MAX = 500
"""The maximum length of a note on the page."""

_PIECES = 500
"""The number of pieces of the page in one write."""

_HERE = Path(__file__).parent

_CODE = re.compile("`([^`]+)`")
"""The pattern of code in descriptions in Markdown."""

_RANKED_BY = {
    Ranking.LAST: "Ranked by the last benchmark.",
    Ranking.MEAN: "Ranked by the mean of the benchmarks.",
    Ranking.GEOM: "Ranked by the geometric mean of the benchmarks.",
}


class _Cell(msgspec.Struct, frozen=True):
    """A cell of a column; `order` is its sort key."""

    drawn: Drawn
    order: str | float
    text: str


class _Row(msgspec.Struct, frozen=True):
    """A row of a table: its cells, and optionally lines `below` the name and the interval of the time.

    `kind` is the class of the row, "first" or "beside" the ranks.
    """

    kind: str
    cells: Sequence[_Cell]
    notes: Sequence[str]
    below: Sequence[str]
    interval: str
    at: datetime


class _Board(msgspec.Struct, frozen=True):
    """The table of a task on a GPU; `chart` is SVG, or empty."""

    gpu: str
    facts: str
    chart: str
    rows: Sequence[_Row]
    remarks: Sequence[str]


class _Section(msgspec.Struct, frozen=True):
    """A task on the page with its boards; `task` is None of one that has left the settings.

    Every second part of `description` is code.
    """

    name: str
    task: Task | None
    description: Sequence[str]
    ranked_by: str
    boards: Iterable[_Board]


def write(sink: IO[bytes], store: Store, tasks: Mapping[str, Task], ranked: Sequence[RankedBoard], at: datetime) -> int:
    """Write the page of the `ranked` boards with present versions, and return their number.

    Raises:
        StorageError: the database cannot be read.
    """
    chosen = _chosen(ranked, tasks)
    count = sum(map(len, chosen.values()))
    style, script = _asset("page.css"), _asset("page.js")
    drawn = template("page.html").stream(
        policy=(
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=style,
        script=script,
        counts=f"{count_text(len(chosen), 'task')}, {count_text(count, 'board')}",
        at=at,
        names=[one_line(name) for name in chosen],
        columns=drawn_columns(),
        # Each section is read while it is written, so that memory holds one board at a time.
        sections=(_section(name, tasks.get(name), boards, store, at) for name, boards in chosen.items()),
        version=__version__,
    )
    drawn.enable_buffering(_PIECES)
    drawn.dump(sink, encoding="utf-8")
    return count


def _chosen(ranked: Sequence[RankedBoard], tasks: Mapping[str, Task]) -> dict[str, list[RankedBoard]]:
    """Return the boards by task: of its present version, or of the newest one if the task has left the settings."""
    chosen = {}
    for name, of_task in groupby(ranked, key=lambda key: key.task):
        boards = list(of_task)
        task = tasks.get(name)
        version = boards[-1].task_version if task is None else task.version
        chosen[name] = [board for board in boards if board.task_version == version]
    return chosen


def _section(name: str, task: Task | None, keys: Sequence[RankedBoard], store: Store, at: datetime) -> _Section:
    description = "" if task is None else one_line(first_sentence(task.description), 500)
    return _Section(
        one_line(name),
        task,
        _CODE.split(description) if description else (),
        "" if task is None else _RANKED_BY[task.ranking_by],
        _boards(task, keys, store, at),
    )


def _boards(task: Task | None, keys: Sequence[RankedBoard], store: Store, at: datetime) -> Iterator[_Board]:
    for key in keys:
        shown = task or store.submissions.task(key.task, key.task_version)
        found = page(store, shown, shown, key.gpu, "", rows=Rows.USERS, limit=ROWS_MAX, offset=0)
        if found.rows:
            said = store.runs.numbered([row.run for row in found.rows])
            yield _board(shown, found, said, store.export.bests_by_day(key.task, key.task_version, key.gpu), at)


def _board(task: Task, found: Page, said: Mapping[int, Run], days: Sequence[Best], at: datetime) -> _Board:
    more = found.total - len(found.rows)
    remarks = (
        f"and {count_text(more, 'more user')}" if more > 0 else "",
        OVERLAPS_MEANING if any(row.overlaps_above for row in found.rows) else "",
    )
    return _Board(
        one_line(found.gpu),
        _facts(task, found),
        chart(records(days), at.astimezone(UTC).date()),
        list(_rows(found, said)),
        [*filter(None, remarks)],
    )


def _facts(task: Task, found: Page) -> str:
    """Return the facts about a leaderboard beside its name."""
    best_s = found.rows[0].score_s
    speedup = found.speedup(best_s)
    return ", ".join(
        filter(
            None,
            (
                count_text(found.total, "user"),
                f"best {duration_text(best_s * 1e9)}",
                f"{speedup_text(speedup)} as fast as the reference" if speedup else "",
                "" if task.harness == ISOLATED else "judged by the task's own harness",
            ),
        )
    )


def _rows(found: Page, said: Mapping[int, Run] = MappingProxyType({})) -> Iterator[_Row]:
    """Yield the rows of a board, with the marks in the order of their times.

    `said` are the runs in the rows, which have the remarks on them.
    """
    marks = list(found.marks)
    for index, row in enumerate(found.rows):
        while marks and marks[0].score_s < row.score_s:
            mark = marks.pop(0)
            yield _mark(Line(mark, found, above=index), mark)
        yield _row(Line(row, found), row, said.get(row.run))
    if len(found.rows) == found.total:
        for mark in marks:
            yield _mark(Line(mark, found, above=found.total), mark)


def _row(line: Line, row: Standing, run: Run | None) -> _Row:
    again = run.remarks.rerun if run else None
    notes = (
        "verified" if row.trust == "verified" else "",
        "emulated" if row.emulated else "",
        f"sent again by {one_line(again.by_user)}" if again else "",
    )
    return _Row(
        kind="first" if row.rank == 1 else "",
        cells=_cells(line),
        notes=[*filter(None, notes)],
        below=[*filter(None, (one_line(row.file_name), _said(run)))],
        interval=wide_interval_text(row.score_s, row.interval),
        at=row.submitted_at.astimezone(UTC),
    )


def _mark(line: Line, mark: Mark) -> _Row:
    """Return a row without a rank, sorted behind the rows above it."""
    notes = ("" if mark.kind is MarkKind.REFERENCE else str(mark.kind), "emulated" if mark.emulated else "")
    return _Row(
        kind="beside",
        cells=_cells(line),
        notes=[*filter(None, notes)],
        below=[*filter(None, (one_line(mark.file_name),))],
        interval="",
        at=mark.submitted_at.astimezone(UTC),
    )


def _cells(line: Line) -> Sequence[_Cell]:
    return [_Cell(drawn, drawn.order(line), (drawn.text or column.text)(line)) for column, drawn in drawn_columns()]


def _said(run: Run | None) -> str:
    """Join all remarks of a run's user on it."""
    if run is None:
        return ""
    words = [run.note, *(note.text for note in run.remarks.notes)]
    return "; ".join(filter(None, (one_line(each, _SAID_MAX) for each in words)))


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the name of an inline style or script in the page's content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
