"""The JSON of experiments."""

from hpc_board.domain.experiment import Best, Course, Experiment, Match
from hpc_board.report.views import Seconds, View, view_of, views_of
from hpc_board.report.views.standings import DifferenceView


class BestView(View, frozen=True):
    """A run that was faster than all before it."""

    run: int
    score_s: Seconds
    runs: int
    """the number of the side's runs on the board until then, this one included, in the order of submission"""
    seconds: Seconds
    """the time from the side's first submission there to the end of the run"""

    @classmethod
    def of(cls, best: Best) -> "BestView":
        return view_of(cls, best, seconds=round(best.seconds, 3))


class CourseView(View, frozen=True):
    """The course of a side on a board."""

    name: str
    """the name of the side"""
    runs: int
    """the number of its runs that have ended"""
    seconds: Seconds
    """the time from its first submission to the end of the last of these"""
    files: int
    """the number of its distinct files with a verdict in mode test, benchmark or ranked"""
    passed: int
    """the number of these that passed in each of their runs"""
    by_runs: list[BestView]
    """its bests in the order of submission; the last is the best of all"""
    by_time: list[BestView]
    """its bests in the order of their ends"""

    @classmethod
    def of(cls, course: Course) -> "CourseView":
        by_runs, by_time = (list(map(BestView.of, each)) for each in (course.by_runs, course.by_time))
        return view_of(cls, course, seconds=round(course.seconds, 3), by_runs=by_runs, by_time=by_time)


class MatchView(View, frozen=True):
    """Both sides on a board."""

    task: str
    version: str
    """the newest version of the task that either side has tried"""
    gpu: str
    sides: list[CourseView]
    """the courses of the two"""
    score: DifferenceView | None
    """the difference of their bests; `null` unless both have a time"""

    @classmethod
    def of(cls, match: Match) -> "MatchView":
        score = None if match.difference is None else DifferenceView.of(match.difference)
        return view_of(cls, match, sides=list(map(CourseView.of, match.courses)), score=score)


class PassShareView(View, frozen=True):
    """The estimated chance that one of several files passes, pass@k."""

    k: int
    """the number of files"""
    shares: list[float]
    """the chances of the two sides, the mean over boards"""


class SpeedupView(View, frozen=True):
    """The speedup of the second side over the boards on which both have a time."""

    boards: int
    """their number"""
    ratio: float
    """the geometric mean of the first side's best time to the second's"""
    low: float | None
    """the lower bound of its 95 % confidence interval over boards, of a single one that of its comparison"""
    high: float | None
    """its upper bound"""


class ExperimentView(View, frozen=True):
    """An experiment."""

    names: list[str]
    """the names of the two sides"""
    boards: list[MatchView]
    """the boards that both have tried"""
    speedup: SpeedupView | None
    """the speedup of the second side; `null` without a board on which both have a time"""
    passes: list[PassShareView]
    """the shares of passes, for as many files as each side has on each board"""

    @classmethod
    def of(cls, found: Experiment) -> "ExperimentView":
        """Return the object of an experiment."""
        return cls(
            names=list(found.names),
            boards=list(map(MatchView.of, found.matches)),
            speedup=None if found.speedup is None else view_of(SpeedupView, found.speedup),
            passes=views_of(PassShareView, found.passes),
        )
