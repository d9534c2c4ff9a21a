"""Grades and the standings of several tasks together, as tables."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

from hpc_board.domain.grading import (
    BoardResult,
    Estimate,
    Grades,
    LateResult,
    Overall,
    OverallRow,
    TaskGrade,
)
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Heading, Paragraph, Table, Tone, table
from hpc_board.report.formatting import (
    count_text,
    full_speedup_text,
    late_text,
    moment_text,
    score_text,
    speedup_text,
    speedup_tone,
)
from hpc_board.report.standings import OVERLAPS_MEANING, rank_text

_UNCERTAIN = "Points such as 80 (50 to 100) depend on noise: the interval of the result includes a threshold."

Cell = str | int | float | datetime | None


def points_text(points: Estimate | None) -> str:
    """Return points, with those at the bounds of the interval where they differ: "80 (50 to 100)"."""
    if points is None:
        return ""
    return f"{points.value:g}" if points.is_certain else f"{points.value:g} ({points.low:g} to {points.high:g})"


def _speedup_text(speedup: Estimate | None) -> str:
    return "" if speedup is None else full_speedup_text(speedup.value, speedup.low, speedup.high)


def grades_report(grades: Grades) -> Iterator[Block]:
    """Yield a table of the results on each task, and one of the points on all."""
    with_points = any(row.points is not None for row in grades.rows)
    for index, task in enumerate(grades.tasks):
        rows = [(row.user, row.tasks[index]) for row in grades.rows]
        yield Heading(one_line(task))
        yield table(
            rows,
            (Column("USER", flexible=True, least=12), lambda row: one_line(row[0])),
            (Column("TEAM", optional=True), lambda row: one_line(row[1].team)),
            (Column("POINTS", right=True), lambda row: points_text(row[1].points)) if with_points else None,
            (Column("SPEEDUP", right=True, toned=True), _of_result(lambda result: _speedup_text(result.speedup), "-")),
            (Column("BEST", right=True), _of_result(lambda result: score_text(result.score_s))),
            (Column("RANK", right=True), _of_result(lambda result: str(result.rank))),
            (Column("GPU", flexible=True, leaves=1), _of_result(lambda result: one_line(result.gpu))),
            (Column("LATE", optional=True), lambda row: _late_text(row[1].late)),
            (Column("FIRST PASS", leaves=2), lambda row: moment_text(row[1].first_pass_at)),
            (Column("LAST SUBMISSION", leaves=3), lambda row: moment_text(row[1].last_submitted_at)),
            empty="No members.",
            tones=tuple(_tone(grade) for _, grade in rows),
        )
    if with_points and len(grades.tasks) > 1:
        yield Heading("All tasks")
        yield table(
            grades.rows,
            (Column("USER", flexible=True, least=12), lambda row: one_line(row.user)),
            (Column("POINTS", right=True), lambda row: points_text(row.points)),
            (Column("PASSED", right=True), lambda row: str(sum(grade.result is not None for grade in row.tasks))),
        )
    if any(row.points is not None and not row.points.is_certain for row in grades.rows):
        yield Paragraph(_UNCERTAIN, Tone.QUIET)


def _of_result(cell: Callable[[BoardResult], str], nothing: str = "") -> Callable[[tuple[str, TaskGrade]], str]:
    return lambda row: nothing if row[1].result is None else cell(row[1].result)


def _late_text(late: LateResult | None) -> str:
    """Return the speedup, or else the score, of a late run and its delay: "2.31x, late by 3 h"."""
    if late is None:
        return ""
    return f"{speedup_text(late.speedup) or score_text(late.mark.score_s)}, {late_text(late.mark.late_seconds)}"


def _tone(grade: TaskGrade) -> Tone:
    speedup = None if grade.result is None else grade.result.speedup
    return speedup_tone(None if speedup is None else speedup.value)


def grade_rows(grades: Grades) -> Iterator[Sequence[Cell]]:
    """Yield the lines of a table for spreadsheets: the names of the columns, then a line for each user."""
    of_points = ("points", "points_low", "points_high")
    of_task = (
        *("gpu", "rank", "score_s", "score_low_s", "score_high_s", "speedup", "speedup_low", "speedup_high"),
        *(*of_points, "first_pass_at", "last_submitted_at", "submission", "run"),
        *("late_s", "late_score_s", "late_speedup", "late_run", "team"),
    )
    yield "user", *of_points, *(f"{task}.{name}" for task in grades.tasks for name in of_task)
    for row in grades.rows:
        yield row.user, *_bounds(row.points), *(cell for grade in row.tasks for cell in _cells(grade))


def _cells(grade: TaskGrade) -> Iterator[Cell]:
    result = grade.result
    interval = None if result is None else result.interval
    yield from (None, None, None) if result is None else (result.gpu, result.rank, result.score_s)
    yield from (None, None) if interval is None else (interval.low_s, interval.high_s)
    yield from _bounds(None if result is None else result.speedup)
    yield from (*_bounds(grade.points), grade.first_pass_at, grade.last_submitted_at)
    yield from (None, None) if result is None else (result.submission, result.run)
    late = grade.late
    yield from (None,) * 4 if late is None else (late.mark.late_seconds, late.mark.score_s, late.speedup, late.mark.run)
    yield grade.team


def _bounds(number: Estimate | None) -> tuple[float | None, ...]:
    return (None, None, None) if number is None else (number.value, number.low, number.high)


def overall_report(overall: Overall) -> Iterator[Block]:
    """Yield the overall standings of a competition."""
    yield Heading(overall_title(overall))
    yield overall_table(overall)
    for remark in overall_remarks(overall):
        yield Paragraph(remark, Tone.QUIET)


def overall_title(overall: Overall) -> str:
    """Return the title of a competition with the number of its tasks: "Practice: 3 tasks"."""
    return f"{one_line(overall.title or overall.competition)}: {count_text(len(overall.tasks), 'task')}"


def overall_remarks(overall: Overall) -> Iterator[str]:
    """Yield the number of users if some are not shown, the frozen tasks, and the meaning of the marks of ties."""
    if overall.total > len(overall.rows):
        yield f"{len(overall.rows)} of {count_text(overall.total, 'user')}."
    if overall.frozen:
        yield f"Frozen: {', '.join(map(one_line, overall.frozen))}; later submissions of other users are not shown."
    if any(row.overlaps_above for row in overall.rows):
        yield OVERLAPS_MEANING


def overall_table(overall: Overall, head: Callable[[str], str] = str.upper) -> Table:
    """Return the table of overall standings: the score that ranks, the others, and each task.

    `head` makes titles of the names of all columns but those of tasks.
    """
    rules = overall.scoring
    scores: dict[str, Callable[[OverallRow], str]] = {
        "sum": lambda row: _speedup_text(row.sum),
        "points": lambda row: points_text(row.points),
        "geomean": lambda row: _speedup_text(row.geomean),
        rules.fast_name: lambda row: f"{100 * row.fast.value:.0f} %",
    }
    ranking = scores.pop(rules.name)
    others = {name: cell for name, cell in scores.items() if name != "sum" and (name != "points" or rules.points)}
    return table(
        overall.rows,
        (Column(head("rank"), right=True), rank_text),
        (
            Column(head("user"), flexible=True, least=12),
            lambda row: one_line(row.user) + " (you)" * (row.user in overall.own),
        ),
        (Column(head(rules.name), right=True), ranking),
        *((Column(head(name), right=True, leaves=3), cell) for name, cell in others.items()),
        (Column(head("passed"), right=True), lambda row: str(row.passed)),
        *(
            (Column(one_line(task, 20), right=True, leaves=2), partial(_task_cell, index=index))
            for index, task in enumerate(overall.tasks)
        ),
        empty="No results yet.",
    )


def _task_cell(row: OverallRow, index: int) -> str:
    result = row.results[index]
    return "-" if result is None else speedup_text(None if result.speedup is None else result.speedup.value) or "pass"
