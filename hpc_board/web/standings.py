"""The standings of a leaderboard as a table for a browser: rows with marks between them, facts, and a chart."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from hpc_board.domain.board_options import utc_words
from hpc_board.domain.grading import Overall
from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import wide_interval_text
from hpc_board.domain.standing import Mark, Page, Record, Standing, median_text, with_marks
from hpc_board.model.score import duration_text
from hpc_board.model.task import ISOLATED, Task
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Table
from hpc_board.report.formatting import RANKING_WORDS, count_text, score_text, speedup_text
from hpc_board.report.grading import overall_remarks, overall_table, overall_title
from hpc_board.report.histories import history_plot, records_plot, records_span
from hpc_board.report.standings import OVERLAPS_MEANING, mark_text, rank_text, restriction_words
from hpc_board.report.tasks import first_sentence
from hpc_board.web.plots import svg

TREND_MAX = 200
"""The maximum number of runs in the plot of a user's scores."""

ROWS_MAX = 100
"""The maximum number of places of a leaderboard on a page."""

_SAID_MAX = 500
"""The maximum length of a note on a page."""

_KINDS = {1: "first", 2: "second", 3: "third"}


class Row(msgspec.Struct, frozen=True):
    """A row of a table; `ratio` is that of its time to the best one, `speed` the inverse in percent, up to 100.

    `below` are lines below the name. `kind` is the class of the row, one of the first three ranks or "beside" them.
    `run` is the number of its run, and `at` the time of its submission; the reference has neither.
    """

    kind: str
    rank: str
    name: str
    time: str
    interval: str
    ratio: str
    speed: float
    run: int | None
    notes: Sequence[str]
    below: Sequence[str]
    at: datetime | None


class BoardTable(msgspec.Struct, frozen=True):
    """The table of a task on a GPU; `chart` is SVG, or empty, and `trends` has the names of users with their plots."""

    gpu: str
    facts: str
    chart: str
    rows: Sequence[Row]
    remarks: Sequence[str]
    trends: Sequence[tuple[str, str]] = ()


class OverallTable(msgspec.Struct, frozen=True):
    """The overall standings of a competition: the title, and the table of the text report."""

    title: str
    table: Table
    remarks: Sequence[str]

    @classmethod
    def of(cls, overall: Overall) -> "OverallTable":
        """Return the table of overall standings."""
        return cls(overall_title(overall), overall_table(overall, head=str.capitalize), [*overall_remarks(overall)])


class Section(msgspec.Struct, frozen=True):
    """A task's head on a page: its name, the first sentence of its description, and its ranking."""

    name: str
    description: str
    ranked_by: str
    deadline: datetime | None

    @classmethod
    def of(cls, task: Task) -> "Section":
        """Return the head of a task."""
        sentence = one_line(first_sentence(task.description), 500)
        return cls(one_line(task.name), sentence, f"Ranked by {RANKING_WORDS[task.ranking_by]}.", task.deadline)


def board_table(
    task: Task,
    found: Page,
    records: Sequence[Record],
    at: datetime,
    said: Mapping[int, Run] = MappingProxyType({}),
) -> BoardTable:
    """Return the table of a page of standings, which has rows, as of the time `at`.

    `said` are the runs in the rows, if their users' remarks are shown.
    """
    more = found.total - len(found.rows)
    remarks = (
        *restriction_words(found, utc_words),
        f"and {count_text(more, 'more user')}" if more > 0 else "",
        OVERLAPS_MEANING if any(row.overlaps_above for row in found.rows) else "",
    )
    return BoardTable(
        one_line(found.gpu),
        _facts(task, found),
        svg(records_plot(records, records_span([records], at), UTC, found.reference)) if len(records) > 1 else "",
        list(rows(found, said)),
        [*filter(None, remarks)],
    )


def trend(found: Page, records: Sequence[Record]) -> str:
    """Return the plot of the scores of one user's newest runs as SVG; empty for fewer than two."""
    return svg(history_plot(found, records, UTC)) if len(found.rows) > 1 else ""


def rows(found: Page, said: Mapping[int, Run] = MappingProxyType({})) -> Iterator[Row]:
    """Yield the rows of a board, with the marks in the order of their times."""
    # A mark that is slower than all that is shown may be faster than a row that is not.
    for _, row in with_marks(found.rows, found.marks, below=len(found.rows) != found.total):
        yield _mark(found, row) if isinstance(row, Mark) else _row(found, row, said.get(row.run))


def _facts(task: Task, found: Page) -> str:
    """Return the facts about a leaderboard beside its name."""
    best_s = found.rows[0].score_s
    speedup = found.speedup(found.rows[0])
    return ", ".join(
        filter(
            None,
            (
                count_text(found.total, "user"),
                f"best {duration_text(best_s * 1e9)}",
                f"{speedup_text(speedup.ratio)} as fast as the reference" if speedup else "",
                "" if task.harness == ISOLATED else "evaluated by the task's own harness",
            ),
        )
    )


def _row(found: Page, row: Standing, run: Run | None) -> Row:
    again = run.remarks.rerun if run else None
    notes = (
        "verified" if row.trust == "verified" else "",
        "emulated" if row.emulated else "",
        f"rerun by {one_line(again.by_user)}" if again else "",
        median_text(row.runs),
    )
    return Row(
        kind=_KINDS.get(row.rank, ""),
        rank=rank_text(row),
        name=one_line(row.shown_name(entrants=True)),
        time=score_text(row.score_s),
        interval=wide_interval_text(row.score_s, row.interval),
        ratio=_ratio(found, row.score_s),
        speed=_speed(found, row.score_s),
        run=row.run,
        notes=[*filter(None, notes)],
        below=[*filter(None, (one_line(row.file_name), _notes_of(run)))],
        at=row.submitted_at,
    )


def _mark(found: Page, mark: Mark) -> Row:
    """Return a row without a rank."""
    notes = (mark_text(mark), "emulated" if mark.emulated else "")
    return Row(
        kind="beside",
        rank="",
        name=one_line(mark.name),
        time=score_text(mark.score_s),
        interval="",
        ratio=_ratio(found, mark.score_s),
        speed=_speed(found, mark.score_s),
        run=mark.run,
        notes=[*filter(None, notes)],
        below=[*filter(None, (one_line(mark.file_name),))],
        at=mark.submitted_at,
    )


def _ratio(found: Page, score_s: float) -> str:
    return f"{score_s / found.rows[0].score_s:.2f}" if found.rows else "1.00"


def _speed(found: Page, score_s: float) -> float:
    return min(100.0, 100 * found.rows[0].score_s / score_s) if found.rows else 100.0


def _notes_of(run: Run | None) -> str:
    """Join all remarks of a run's user on it."""
    if run is None:
        return ""
    words = [run.note, *(note.text for note in run.remarks.notes)]
    return "; ".join(filter(None, (one_line(each, _SAID_MAX) for each in words)))
