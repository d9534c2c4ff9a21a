"""Grades and the standings of several tasks together, as tables."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from hpc_board.domain.grading import Estimate, Grades, Overall, OverallRow, ScoreKind, Scoring, TaskGrade
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Heading, Paragraph, Tone, table
from hpc_board.report.formatting import count_text, moment_text, score_text, speedup_text, speedup_tone
from hpc_board.report.standings import OVERLAPS, OVERLAPS_MEANING

_UNCERTAIN = "Points such as 80 (50 to 100) depend on noise: the interval of the result includes a threshold."

Cell = str | int | float | datetime | None


def points_text(points: Estimate | None) -> str:
    """Return points, with those at the bounds of the interval where they differ: "80 (50 to 100)"."""
    if points is None:
        return ""
    return f"{points.value:g}" if points.is_certain else f"{points.value:g} ({points.low:g} to {points.high:g})"


def speedup_estimate_text(speedup: Estimate | None) -> str:
    """Return a speedup with its interval: "2.31x (2.25x to 2.38x)"."""
    if speedup is None:
        return ""
    bounds = f" ({speedup_text(speedup.low)} to {speedup_text(speedup.high)})"
    return speedup_text(speedup.value) + ("" if speedup.is_certain else bounds)


def grades_report(grades: Grades) -> Iterator[Block]:
    """Yield a table of the results on each task, and one of the points on all."""
    with_points = any(row.points is not None for row in grades.rows)
    for index, task in enumerate(grades.tasks):
        rows = [(row.user, row.tasks[index]) for row in grades.rows]
        yield Heading(one_line(task))
        yield table(
            rows,
            (Column("USER", flexible=True, least=12), lambda row: one_line(row[0])),
            (Column("POINTS", right=True), lambda row: points_text(row[1].points)) if with_points else None,
            (Column("SPEEDUP", right=True, toned=True), lambda row: _of_result(row[1], "speedup")),
            (Column("BEST", right=True), lambda row: _of_result(row[1], "score")),
            (Column("RANK", right=True), lambda row: _of_result(row[1], "rank")),
            (Column("GPU", flexible=True, leaves=1), lambda row: _of_result(row[1], "gpu")),
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


def _of_result(grade: TaskGrade, what: str) -> str:
    result = grade.result
    if result is None:
        return "-" if what == "speedup" else ""
    texts = {
        "speedup": speedup_estimate_text(result.speedup),
        "score": score_text(result.score_s),
        "rank": str(result.rank),
        "gpu": one_line(result.gpu),
    }
    return texts[what]


def _tone(grade: TaskGrade) -> Tone:
    speedup = None if grade.result is None else grade.result.speedup
    return speedup_tone(None if speedup is None else speedup.value)


def grade_rows(grades: Grades) -> Iterator[Sequence[Cell]]:
    """Yield the lines of a table for spreadsheets: the names of the columns, then a line for each user."""
    of_points = ("points", "points_low", "points_high")
    of_task = (
        *("gpu", "rank", "score_s", "score_low_s", "score_high_s", "speedup", "speedup_low", "speedup_high"),
        *(*of_points, "first_pass_at", "last_submitted_at", "submission", "run"),
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


def _bounds(number: Estimate | None) -> tuple[float | None, ...]:
    return (None, None, None) if number is None else (number.value, number.low, number.high)


def score_estimate_text(score: Estimate, scoring: Scoring) -> str:
    """Return the score of a row in overall standings, in the unit of its kind, without its interval."""
    if scoring.kind is ScoreKind.POINTS:
        return f"{score.value:g}"
    return f"{100 * score.value:.0f} %" if scoring.kind is ScoreKind.FAST else speedup_text(score.value)


def overall_rank_text(row: OverallRow) -> str:
    """Return the rank in overall standings, marked if it is a statistical tie with the row above."""
    return f"{OVERLAPS}{row.rank}" if row.overlaps_above else str(row.rank)


def overall_report(overall: Overall, user: str) -> Iterator[Block]:
    """Yield the overall standings of a competition for the reader `user`, with the speedup on each task."""
    rules = overall.scoring
    others = {
        "points": (rules.points is not None, lambda row: points_text(row.points)),
        "geomean": (True, lambda row: speedup_estimate_text(row.geomean)),
        rules.fast_name: (True, lambda row: f"{100 * row.fast.value:.0f} %"),
    }
    yield Heading(f"{one_line(overall.title or overall.competition)}: {count_text(len(overall.tasks), 'task')}")
    yield table(
        overall.rows,
        (Column("RANK", right=True), overall_rank_text),
        (Column("USER", flexible=True, least=12), lambda row: one_line(row.user) + " (you)" * (row.user == user)),
        (Column(rules.name.upper(), right=True), lambda row: score_estimate_text(row.score, rules)),
        *(
            (Column(name.upper(), right=True, leaves=3), cell)
            for name, (shown, cell) in others.items()
            if shown and name != rules.name
        ),
        (Column("PASSED", right=True), lambda row: str(row.passed)),
        *(
            (Column(one_line(task, 20), right=True, leaves=2), partial(_task_cell, index=index))
            for index, task in enumerate(overall.tasks)
        ),
        empty="No results yet.",
    )
    if overall.total > len(overall.rows):
        yield Paragraph(f"{len(overall.rows)} of {count_text(overall.total, 'user')}.", Tone.QUIET)
    if any(row.overlaps_above for row in overall.rows):
        yield Paragraph(OVERLAPS_MEANING, Tone.QUIET)


def _task_cell(row: OverallRow, index: int) -> str:
    result = row.results[index]
    return "-" if result is None else speedup_text(None if result.speedup is None else result.speedup.value) or "pass"
