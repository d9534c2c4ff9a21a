"""A user's times on a board from one submission to the next, as a plot in text and as a table."""

import math
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

from hpc_board.domain.reference import Reference
from hpc_board.domain.standing import Page, Record, Standing, median_text
from hpc_board.domain.time_change import COMPARED_MAX, WITHIN_NOISE, change_text
from hpc_board.model.score import interval_text
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Heading, Paragraph, Table, Tone
from hpc_board.report.formatting import moment_text, score_text
from hpc_board.report.plots import FILLED, HOLLOW, Axis, Kind, Plot, Series, plot_block

_PLOT_COLUMNS = 78
_PLOT_ROWS = 11
_RUNS_NAMED_MAX = 6
"""The most distances between the runs whose numbers are below a plot."""

NO_RUNS = "No passing ranked runs yet."

_LINES_OF_FEW = 12
"""The lines of a plot with its edges and texts, but for one line a point."""

_LAST_STEP = 2
"""The greatest length of the last step of a board's best time, as a multiple of all before it."""

_MARGIN = 0.03
"""The room beside the first and the last run, as a share of the distance between them."""


def history_report(task: str, page: Page, user: str, records: Sequence[Record] = ()) -> tuple[Block, ...]:
    """Return the ranked runs of `user`, the rows of `page`, in the order of their submissions.

    `records` are those of the board. A page without all runs has the newest ones, and the report says so.
    """
    runs = in_order(page)
    heading = Heading(f"{task} on {page.gpu}: {one_line(user)}")
    if not runs:
        return heading, Paragraph(NO_RUNS)
    notes = page_notes(page)
    report: list[Block] = [heading, Paragraph(notes)] if notes else [heading]
    report += plot_block(history_plot(page, records), _PLOT_COLUMNS, _PLOT_ROWS), _table(runs)
    if len(runs) > COMPARED_MAX:
        report.append(Paragraph(f'Runs before the newest {COMPARED_MAX} never show "{WITHIN_NOISE}".', Tone.QUIET))
    return tuple(report)


def in_order(page: Page) -> list[Standing]:
    """Return the runs of a page in the order of their submissions."""
    return sorted(page.rows, key=lambda row: (row.submitted_at, row.run))


def page_notes(page: Page) -> str:
    """Return the score in the standings, unless the fastest run of a page has it, and the number of runs left out."""
    notes = []
    if page.own is not None and page.rows and page.own.score_s != min(row.score_s for row in page.rows):
        origin = median_text(page.own.runs) or f"run {page.own.run}"
        notes.append(f"In the standings: {score_text(page.own.score_s)}, {origin}.")
    if (left := page.total - len(page.rows)) > 0:
        older = f"{left:,} older {'one' if left == 1 else 'ones'}"
        notes.append(f"The newest {len(page.rows):,} of {page.total:,} runs; {older} left out.")
    return "\n".join(notes)


def _only_words(run: Standing) -> str:
    """Return the score of the only run of a history, with its interval if it is known."""
    known = run.interval and f" (80 % interval: {interval_text(run.interval.low_s * 1e9, run.interval.high_s * 1e9)})"
    return f"One run: {score_text(run.score_s)}{known or ''}"


def plot_lines(count: int, room: int) -> int:
    """Return the lines of the plot of so many points, at most `room`: a few need no high one."""
    return min(room, _LINES_OF_FEW + count)


def history_plot(page: Page, records: Sequence[Record], zone: tzinfo | None = None) -> Plot:
    """Return the plot of the runs of a page: the slower the higher, with intervals.

    Both lines have scores of the standings, where code has the median of its runs: the user's, and the board's best.
    The task's reference takes the place of a best that has always been the user's. Days are those of the time zone,
    None for that of this process.
    """
    runs = in_order(page)
    lead, last = _leads(runs, records)
    steps = _own_scores(runs)
    if {record.user for record in records} <= {runs[0].user}:
        lead = []
    reference = [] if lead or page.reference is None else [(at, page.reference.median_s) for at in (0.0, last)]
    points = [(float(index), run.score_s) for index, run in enumerate(runs)]
    told = [f"{score_text(run.score_s)}, run {run.run}, {_day(run.submitted_at, zone)}" for run in runs]
    are_new = bests(runs)
    new = [point for point, is_new in zip(points, are_new, strict=True) if is_new]
    known = {
        at: (run.interval.low_s, run.interval.high_s) for at, run in zip(points, runs, strict=True) if run.interval
    }
    values = [score_s for _, score_s in (*points, *lead, *reference)] + [
        end_s for ends in known.values() for end_s in ends
    ]
    days = [_day(run.submitted_at, zone) for run in (runs[0], runs[-1])]
    named = sorted({*range(0, len(runs), math.ceil(len(runs) / _RUNS_NAMED_MAX)), len(runs) - 1})
    numbers = (f"{'' if index else 'run '}{runs[index].run}" for index in named)
    begin, end = -_MARGIN * last, (1 + _MARGIN) * last
    across = Axis(begin, end, ((begin, ""), *zip(map(float, named), numbers, strict=True), (end, "")))
    intervals = Series(Kind.INTERVALS, tuple(known), Tone.QUIET, "80 % interval", bounds=tuple(known.values()))
    return Plot(
        "Score",
        across,
        Axis.rounded(min(values), max(values), score_text),
        (
            *([intervals] if known else []),
            *([Series(Kind.STEPS, tuple(lead), name="leader", is_dotted=True)] if lead else []),
            *([_reference(reference)] if reference else []),
            Series(Kind.STEPS, (*steps, (last, steps[-1][1])), Tone.GOOD, "user"),
            *(
                Series(
                    Kind.POINTS,
                    tuple(point for point, each in zip(points, are_new, strict=True) if each == is_new),
                    tone,
                    name,
                    FILLED if is_new else HOLLOW,
                    texts=tuple(text for text, each in zip(told, are_new, strict=True) if each == is_new),
                )
                for is_new, tone, name in ((False, Tone.QUIET, "slower"), (True, Tone.GOOD, "fastest yet"))
                if is_new in are_new
            ),
        ),
        f"{one_line(runs[0].user)} on {days[1]}: fastest {score_text(new[-1][1])} of {len(runs)} runs, "
        f"first {score_text(new[0][1])} on {days[0]}"
        if len(runs) > 1
        else _only_words(runs[0]),
    )


def records_span(boards: Iterable[Sequence[Record]], until: datetime) -> tuple[datetime, datetime]:
    """Return the begin of the plots of these boards, their first record, and the end: `until`, or an earlier moment.

    The steps have at least a third of the width, however long the last one has lasted.

    Raises:
        ValueError: no board has a record.
    """
    moments = [record.at for records in boards for record in records]
    first, last = min(moments), max(moments)
    latest = last + _LAST_STEP * (last - first) if last > first else until
    return first, max(min(until, latest), last)


def records_plot(
    records: Sequence[Record],
    span: tuple[datetime, datetime],
    zone: tzinfo | None = None,
    reference: Reference | None = None,
) -> Plot:
    """Return the plot of a board's best time in a span, see `records_span`."""
    first, last = records[0], records[-1]
    points = tuple((record.at.timestamp(), record.score_s) for record in records)
    told = tuple(f"{score_text(each.score_s)} by {one_line(each.user)}, {_day(each.at, zone)}" for each in records)
    begin_s, end_s = (moment.timestamp() for moment in span)
    begin, end = _ends(*span, zone)
    line = [] if reference is None else [(at, reference.median_s) for at in (begin_s, end_s)]
    scores = [last.score_s, first.score_s, *(score_s for _, score_s in line)]
    change = f"{score_text(first.score_s)} → " if len(records) > 1 else ""
    return Plot(
        f"Best time {change}{score_text(last.score_s)}",
        Axis(begin_s, end_s, ((begin_s, begin), (end_s, end))),
        Axis.rounded(min(scores), max(scores), score_text),
        (
            *([_reference(line)] if line else []),
            Series(Kind.STEPS, (*points, (end_s, last.score_s)), Tone.GOOD),
            Series(Kind.POINTS, points, Tone.GOOD, sign=FILLED, texts=told),
        ),
        f"Best time: {score_text(first.score_s)} on {_day(first.at, zone)}, "
        f"{score_text(last.score_s)} since {_day(last.at, zone)}",
    )


def _reference(places: Sequence[tuple[float, float]]) -> Series:
    return Series(Kind.LINE, tuple(places), Tone.QUIET, "reference", is_dotted=True)


def _day(at: datetime, zone: tzinfo | None) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d}"


def _ends(first: datetime, last: datetime, zone: tzinfo | None) -> tuple[str, str]:
    """Return the texts of both ends of an axis: days, or also the times of day within one day."""
    begin, end = _day(first, zone), _day(last, zone)
    if begin != end:
        return begin, end
    return f"{first.astimezone(zone):%Y-%m-%d %H:%M}", f"{last.astimezone(zone):%H:%M}"


def _leads(runs: Sequence[Standing], records: Sequence[Record]) -> tuple[list[tuple[float, float]], float]:
    """Return the steps of the board's best among the runs, and the end of the scale, on which the runs are 0, 1, ...

    Records between two runs are placed by their times; those after the last of several runs have a step of their own.
    """
    moments = [run.submitted_at for run in runs]
    if len(runs) > 1 and records and records[-1].at > moments[-1]:
        moments.append(records[-1].at)
    last = len(moments) - 1.0
    steps = {}
    for record in records:
        after = bisect_right(moments, record.at)
        if 0 < after < len(moments):
            earlier, later = moments[after - 1 : after + 1]
            steps[after - 1 + (record.at - earlier) / (later - earlier)] = record.score_s
        else:
            steps[last if after else 0.0] = record.score_s
    if records:
        steps[last] = records[-1].score_s
    return list(steps.items()), last


def _own_scores(runs: Sequence[Standing]) -> list[tuple[float, float]]:
    """Return the steps of a user's best score among the runs; as in records, code has it from its first run on."""
    scores: dict[int, list[float]] = {}
    for run in runs:
        scores.setdefault(run.entry, []).append(run.score_s)
    found: list[tuple[float, float]] = []
    for index, run in enumerate(runs):
        score_s = statistics.median(scores[run.entry])
        if not found or score_s < found[-1][1]:
            found.append((float(index), score_s))
    return found


def bests(runs: Sequence[Standing]) -> list[bool]:
    """Return for each of the runs, in order, whether it is faster than all before it."""
    found: list[bool] = []
    fastest = math.inf
    for run in runs:
        found.append(run.score_s < fastest)
        fastest = min(fastest, run.score_s)
    return found


def history_rows(runs: Sequence[Standing]) -> list[tuple[str, ...]]:
    """Return the cells of each run, in order: moment, score, sign of the fastest so far, change, number, file."""
    fastest = math.inf
    rows: list[tuple[str, ...]] = []
    for run, best in zip(runs, bests(runs), strict=True):
        change = "" if fastest == math.inf else change_text(fastest, run.score_s, run.change_spread)
        rows.append(
            (
                moment_text(run.submitted_at),
                score_text(run.score_s),
                FILLED if best else "",
                change,
                str(run.run),
                one_line(run.file_name),
            )
        )
        fastest = min(fastest, run.score_s)
    return rows


def _table(runs: Sequence[Standing]) -> Table:
    columns = (
        Column("SUBMITTED"),
        Column("SCORE", right=True),
        Column(""),
        Column("VS FASTEST", right=True),
        Column("RUN", right=True),
        Column("FILE", flexible=True),
    )
    # A single run is faster than no other.
    kept = [index for index, column in enumerate(columns) if column.title or len(runs) > 1]
    rows = tuple(tuple(row[index] for index in kept) for row in history_rows(runs))
    return Table(tuple(columns[index] for index in kept), rows)
