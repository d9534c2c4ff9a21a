"""Experiments: the runs of two entrants, or of two tags, compared on the boards that both have tried.

A board is a version of a task on a GPU. Times are those of its runs in mode benchmark or ranked. A sample is a
distinct file of a side, however many runs it has.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from hpc_board.domain.comparison import Difference
from hpc_board.domain.run import Run
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode

SAMPLED = (Mode.TEST, Mode.BENCHMARK, Mode.RANKED)
"""The modes that decide whether a file is right."""

COUNTS = (1, 2, 5, 10, 20, 50, 100)
"""The numbers of samples for which pass@k is estimated."""

_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Half widths of the 95 % interval of Student's t by degrees of freedom, from one on; more have the last."""


class Best(msgspec.Struct, frozen=True):
    """A run that was faster than all before it: its number and score, the runs and the seconds until then.

    The runs are counted in the order of their submission, and the seconds from the first submission to the run's end.
    """

    run: int
    score_s: float
    runs: int
    seconds: float


class Trajectory(msgspec.Struct, frozen=True):
    """The trajectory of one side on one board.

    Attributes:
        name: the name of the side.
        runs: the number of its runs that have ended.
        seconds: the time from its first submission to the end of the last of these.
        files: the number of its samples.
        passed: the number of those that passed in each of their runs.
        by_runs: its bests in the order of submission.
        by_time: its bests in the order of their ends.
    """

    name: str
    runs: int
    seconds: float
    files: int
    passed: int
    by_runs: tuple[Best, ...]
    by_time: tuple[Best, ...]

    @property
    def best(self) -> Best | None:
        """Return the fastest run; None without a timed one."""
        return self.by_runs[-1] if self.by_runs else None


class Match(msgspec.Struct, frozen=True):
    """Both sides on one board; the difference is that of their bests, None unless both have one."""

    task: str
    version: str
    gpu: str
    trajectories: tuple[Trajectory, Trajectory]
    difference: Difference | None = None


class PassAtK(msgspec.Struct, frozen=True):
    """The probability that one of `k` files passes: the mean over boards, for both sides."""

    k: int
    rates: tuple[float, float]


class MeanSpeedup(msgspec.Struct, frozen=True):
    """The geometric mean over boards of the first side's best time to the second's, and its 95 % interval.

    The interval is that of the boards as a sample of all such boards; it is None for a single one.
    """

    boards: int
    speedup: float
    speedup_low: float | None = None
    speedup_high: float | None = None


class Experiment(msgspec.Struct, frozen=True):
    """Two sides by name, and their matches by task and GPU."""

    names: tuple[str, str]
    matches: tuple[Match, ...]

    @property
    def pass_at_k(self) -> tuple[PassAtK, ...]:
        """Return the estimates of pass@k for as many samples as each side has on each board."""
        most = min(each.files for match in self.matches for each in match.trajectories)
        return tuple(PassAtK(count, (self._rate(0, count), self._rate(1, count))) for count in COUNTS if count <= most)

    def _rate(self, side: int, count: int) -> float:
        trajectories = [match.trajectories[side] for match in self.matches]
        return statistics.fmean(pass_at_k(each.files, each.passed, count) for each in trajectories)

    @property
    def mean(self) -> MeanSpeedup | None:
        """Return the speedup of the second side over the boards on which both have a time; None without one."""
        differences = [match.difference for match in self.matches if match.difference is not None]
        if not differences:
            return None
        logs = [math.log(each.speedup) for each in differences]
        mean, count = statistics.fmean(logs), len(logs)
        if count == 1:
            return MeanSpeedup(1, math.exp(mean), differences[0].low, differences[0].high)
        half = _STUDENT[min(count - 2, len(_STUDENT) - 1)] * statistics.stdev(logs) / math.sqrt(count)
        return MeanSpeedup(count, math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def pass_at_k(samples: int, passed: int, count: int) -> float:
    """Return the estimated probability that one of `count` samples passes, pass@k.

    It is the unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code" (2021): one less the
    share of all choices of `count` of the samples in which none passed.
    """
    return 1 - math.comb(samples - passed, count) / math.comb(samples, count)


Key = tuple[str, str]
"""The names of a task and a GPU."""


def by_board(runs: Iterable[Run]) -> dict[Key, list[Run]]:
    """Return runs that have ended, oldest first, by task and GPU; milestones are left out."""
    found: dict[Key, list[Run]] = {}
    for run in sorted(runs, key=lambda each: each.id):
        if run.state.ended and not run.milestone:
            found.setdefault((run.task, run.gpu), []).append(run)
    return found


def newest_versions(runs: Iterable[Run]) -> Mapping[str, str]:
    """Return the newest version of each task in these runs."""
    return {run.task: run.task_version for run in sorted(runs, key=lambda each: each.id)}


def trajectory(name: str, runs: Sequence[Run]) -> Trajectory:
    """Return the trajectory of a side with these ended runs on one board, at least one, oldest first."""
    begin = runs[0].created_at
    timed = [
        Best(run.id, run.score_s, number, (_end(run) - begin).total_seconds())
        for number, run in enumerate(runs, start=1)
        if run.score_s is not None
    ]
    blamed: dict[str, bool] = {}
    for run in runs:
        if (
            run.mode in SAMPLED
            and run.verdict is not None
            and (run.verdict is Verdict.PASS or run.verdict.blames_kernel)
        ):
            blamed[run.code_sha256] = blamed.get(run.code_sha256, False) or run.verdict is not Verdict.PASS
    return Trajectory(
        name=name,
        runs=len(runs),
        seconds=max((_end(run) - begin).total_seconds() for run in runs),
        files=len(blamed),
        passed=sum(not each for each in blamed.values()),
        by_runs=_bests(timed),
        by_time=_bests(sorted(timed, key=lambda each: each.seconds)),
    )


def _end(run: Run) -> datetime:
    return max(run.created_at, run.ended_at or run.status.at)


def _bests(timed: Iterable[Best]) -> tuple[Best, ...]:
    found: list[Best] = []
    for each in timed:
        if not found or each.score_s < found[-1].score_s:
            found.append(each)
    return tuple(found)
