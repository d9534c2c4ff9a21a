"""The JSON of experiments."""

from hpc_board.domain.experiment import Best, Experiment, Match, Trajectory
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


class TrajectoryView(View, frozen=True):
    """The trajectory of a side on a board."""

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
    def of(cls, trajectory: Trajectory) -> "TrajectoryView":
        by_runs, by_time = (list(map(BestView.of, each)) for each in (trajectory.by_runs, trajectory.by_time))
        return view_of(cls, trajectory, seconds=round(trajectory.seconds, 3), by_runs=by_runs, by_time=by_time)


class MatchView(View, frozen=True):
    """Both sides on a board."""

    task: str
    version: str
    """the newest version of the task that either side has tried"""
    gpu: str
    sides: list[TrajectoryView]
    """the trajectories of the two"""
    score: DifferenceView | None
    """the difference of their bests; `null` unless both have a time"""

    @classmethod
    def of(cls, match: Match) -> "MatchView":
        score = None if match.difference is None else DifferenceView.of(match.difference)
        return view_of(cls, match, sides=list(map(TrajectoryView.of, match.trajectories)), score=score)


class PassAtKView(View, frozen=True):
    """pass@k, the estimated chance that one of k files passes."""

    k: int
    """the number of files"""
    rates: list[float]
    """those of the two sides, the mean over boards"""


class MeanSpeedupView(View, frozen=True):
    """The speedup of the second side over the boards on which both have a time."""

    boards: int
    """their number"""
    speedup: float
    """the geometric mean of the first side's best time to the second's"""
    speedup_low: float | None
    """the lower bound of its 95 % confidence interval over boards, of a single one that of its comparison"""
    speedup_high: float | None
    """its upper bound"""


class ExperimentView(View, frozen=True):
    """An experiment."""

    names: list[str]
    """the names of the two sides"""
    boards: list[MatchView]
    """the boards that both have tried"""
    mean: MeanSpeedupView | None
    """the speedup of the second side; `null` without a board on which both have a time"""
    pass_at_k: list[PassAtKView]
    """the estimates of pass@k, for as many files as each side has on each board"""

    @classmethod
    def of(cls, found: Experiment) -> "ExperimentView":
        """Return the object of an experiment."""
        return cls(
            names=list(found.names),
            boards=list(map(MatchView.of, found.matches)),
            mean=None if found.mean is None else view_of(MeanSpeedupView, found.mean),
            pass_at_k=views_of(PassAtKView, found.pass_at_k),
        )
