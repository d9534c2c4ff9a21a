"""The JSON of grades, and of the standings of several tasks together."""

from typing import ClassVar

from hpc_board.report.views import Moment, Seconds, View


class BoardResultView(View, frozen=True):
    """A user's best run on a leaderboard."""

    ATTRIBUTES: ClassVar = {
        "score_low_s": "interval.low_s",
        "score_high_s": "interval.high_s",
        "speedup": "speedup.value",
        "speedup_low": "speedup.low",
        "speedup_high": "speedup.high",
    }
    task: str
    gpu: str
    rank: int
    """the rank; equal scores share one"""
    first_rank: int
    """the best rank that it may have by the intervals of all rows"""
    last_rank: int
    """the worst rank that it may have by the intervals of all rows"""
    score_s: Seconds
    score_low_s: Seconds | None
    """the lower bound of the score's 80 % confidence interval"""
    score_high_s: Seconds | None
    """its upper bound"""
    speedup: float | None
    """the speedup over the reference; `null` if that was not timed"""
    speedup_low: float | None
    """the lower bound of its 80 % confidence interval, that of the score alone for a reference of few runs"""
    speedup_high: float | None
    submission: int
    run: int
    submitted_at: Moment
    emulated: bool


class ScoringView(View, frozen=True):
    """The rules of a competition."""

    name: str
    """the score that ranks: `points`, `geomean`, `sum` or `fast_P`"""
    p: float
    """the speedup of `fast_P`, 1 by default"""


class EstimateView(View, frozen=True):
    """A number with its bounds."""

    value: float
    """the number"""
    low: float
    """the number at the lower bounds of all results"""
    high: float
    """the number at their upper bounds"""


class LateResultView(View, frozen=True):
    """A user's best late run on a task."""

    ATTRIBUTES: ClassVar = {
        "late_s": "mark.late_seconds",
        **{name: f"mark.{name}" for name in ("score_s", "submission", "run", "submitted_at", "emulated")},
    }
    gpu: str
    late_s: Seconds
    """the time by which the submission missed the deadline"""
    score_s: Seconds
    speedup: float | None
    """the speedup over the reference; `null` if that was not timed"""
    submission: int
    run: int
    submitted_at: Moment
    emulated: bool


class TaskGradeView(View, frozen=True):
    """A user's result on a task."""

    task: str
    result: BoardResultView | None
    """the run that counts; `null` without a passing ranked one"""
    late: LateResultView | None
    """the best late run, which has no rank and no points; `null` without one"""
    points: EstimateView | None
    """the points of `result`; `null` without a run or a rule"""
    first_pass_at: Moment | None
    """the time of the first ranked submission that passed"""
    last_submitted_at: Moment | None
    """the time of the newest submission in any mode"""
    team: str | None
    """the [team](boards.md#teams) whose `result`, `late` and `points` these are; `null` for the user's own"""


class GradeView(View, frozen=True):
    """A user's results."""

    user: str
    points: EstimateView | None
    """the sum of the points; `null` without a rule"""
    tasks: list[TaskGradeView]
    """the result on each task"""


class GradesView(View, frozen=True):
    """The grades of users."""

    tasks: list[str]
    """the names of the tasks"""
    rows: list[GradeView]
    """the users, by name"""


class OverallRowView(View, frozen=True):
    """A user or a [team](boards.md#teams) in the overall standings."""

    rank: int
    """the rank by the score; equal scores share one"""
    user: str
    score: EstimateView
    """the number that ranks"""
    geomean: EstimateView
    """the geometric mean of the speedups; a task without a pass, or slower than its reference, counts as 1"""
    sum: EstimateView
    """the sum of the speedups"""
    fast: EstimateView
    """the share of tasks with a speedup above `p`"""
    points: EstimateView | None
    """the sum of the points; `null` without a rule"""
    passed: int
    """the number of tasks with a passing ranked run"""
    overlaps_above: bool
    """true for a [statistical tie](results.md#statistical-ties) with the row above"""
    results: list[BoardResultView | None]
    """the result on each of `tasks`; `null` without a passing ranked run"""


class OverallView(View, frozen=True):
    """The overall standings of a competition."""

    competition: str
    """the name of the competition"""
    title: str | None
    """its title"""
    scoring: ScoringView
    """its rules"""
    tasks: list[str]
    """the names of its tasks"""
    frozen: list[str]
    """those that are frozen for the reader: later submissions of other users are left out"""
    total: int
    """the number of users with a result"""
    rows: list[OverallRowView]
    """the users, best first"""
