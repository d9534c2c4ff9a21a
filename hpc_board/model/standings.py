"""Scores and standings: how times become a rank."""

import math
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import List, Optional, Sequence, Tuple

from hpc_board.model.result import WIDE_INTERVAL, Case
from hpc_board.model.task import ISOLATED, Ranking

_FACTOR_FROM = 2.0
"""From which ratio on a difference is told as a factor and not in percent."""


@dataclass(frozen=True)
class Interval:
    """The bounds between which a score lies, in seconds."""

    low_s: float
    high_s: float

    def is_wide(self, score_s: float) -> bool:
        """Return whether these bounds of the score are too far apart to be left out."""
        return self.high_s - self.low_s > WIDE_INTERVAL * score_s


@dataclass(frozen=True)
class Standing:
    """One row of a board: a user's best passing ranked run, judged by the task's `harness`.

    `interval` is None where the score has none, as on a GPU. `overlaps_above` says that it overlaps the interval of the
    next better row.
    """

    rank: int
    user: str
    score_s: float
    submission: int
    run: int
    submitted_at: datetime
    file_name: str
    trust: str
    emulated: bool = False
    harness: str = ISOLATED
    interval: Optional[Interval] = None
    overlaps_above: bool = False


class Rows(str, Enum):
    """What a row of a page stands for: a user's best run, any run that counts, or one of the reader's.

    The best comes first, but for NEWEST, which has the reader's runs from the newest on; their ranks are those among
    the runs of the page.
    """

    USERS = "users"
    RUNS = "runs"
    OWN = "own"
    NEWEST = "newest"

    __str__ = str.__str__


class MarkKind(str, Enum):
    """What stands on a board beside the ranks: the task's own reference, or something that its author shows."""

    REFERENCE = "reference"
    MILESTONE = "milestone"

    __str__ = str.__str__


@dataclass(frozen=True)
class Mark:
    """A time on a board that has no rank, from the run `run`; `name` says whose it is."""

    kind: MarkKind
    name: str
    score_s: float
    submission: int
    run: int
    submitted_at: datetime
    file_name: str = ""
    trust: str = ""
    emulated: bool = False


@dataclass(frozen=True)
class Page:
    """A part of a board as a reader asked for it: `rows` from the place `offset` on, of `total`.

    `own` is the reader's row among all users, whether it is on the page or not; `marks` are all of the board's, the
    fastest first.
    """

    gpu: str
    version: str
    rows: Tuple[Standing, ...]
    total: int
    offset: int = 0
    own: Optional[Standing] = None
    marks: Tuple[Mark, ...] = ()

    @property
    def reference_s(self) -> Optional[float]:
        """What the task's reference scores, None where that was not measured."""
        return next((mark.score_s for mark in self.marks if mark.kind is MarkKind.REFERENCE), None)

    def speedup(self, score_s: float) -> Optional[float]:
        """How many times as fast as the reference something is that scores `score_s`."""
        return None if self.reference_s is None else self.reference_s / score_s


@dataclass(frozen=True)
class Placing:
    """What a ranked run that passed means on its board.

    `rank` is the place that it holds among `users`, None where its user has a faster one, which took `best_s` and is
    the run `best_run`. `first` says that the user had not passed there before.
    """

    rank: Optional[int]
    users: int
    best_s: float
    best_run: int
    first: bool


@dataclass(frozen=True)
class Version:
    """One version of a task: when somebody first submitted for it, and how many users are on its boards.

    Who is on the boards of several GPUs counts once for each.
    """

    version: str
    added_at: datetime
    entries: int


PLACES_TOLD = 10
"""Down to which rank a run is told its place; below, that it is its user's best."""


def verdict_line(gpu: str, score_s: float, placing: Placing, interval: Optional[Interval] = None) -> str:
    """What a ranked run that passed has come to on the board of `gpu`, in one line without a full stop."""
    rank, time = placing.rank, told_score(score_s, interval)
    if rank is None:
        return f"Successful on {gpu}: {time}, {_behind(score_s, placing)}"
    if rank <= PLACES_TOLD:
        place = {1: "First", 2: "Second", 3: "Third"}.get(rank, f"{rank}th")
        return f"{place} place on {gpu}: {time}"
    what = "First successful submission" if placing.first else "Personal best"
    return f"{what} on {gpu}: {time}, rank {rank} of {placing.users}"


def _behind(score_s: float, placing: Placing) -> str:
    """By how much a run is slower than its user's best."""
    if score_s <= placing.best_s:
        return f"as fast as the own best, which was submitted before (run {placing.best_run})"
    times = score_s / placing.best_s
    slower = f"{times:.3g} times as long as" if times >= _FACTOR_FROM else f"{100 * (times - 1):.2g} % slower than"
    return f"{slower} the own best, {duration_text(placing.best_s * 1e9)} (run {placing.best_run})"


def ranks(scores: Sequence[float]) -> List[int]:
    """The rank of each of these scores, which are in order: equal ones share a rank and leave a gap behind it."""
    found: List[int] = []
    for index, score in enumerate(scores):
        found.append(found[-1] if index and score == scores[index - 1] else index + 1)
    return found


@dataclass(frozen=True)
class Place:
    """Where a user stands on one board: the rank and the score in seconds of their best passing ranked run."""

    task: str
    task_version: str
    gpu: str
    rank: int
    score_s: float


def score_s(cases: Sequence[Case], ranking_by: Ranking) -> Optional[float]:
    """The score in seconds, from the medians of the benchmark cases; None where there is none to rank.

    Every benchmark case counts for `mean` and `geom` (KernelBot's `compute_score`); a median of zero gives no score,
    since one zero would pull a geometric mean to zero.
    """
    medians = [case.timing.median_ns / 1e9 for case in cases if case.phase == "benchmark" and case.timing]
    if not medians or min(medians) <= 0:
        return None
    return score_of(medians, ranking_by)


def reference_score_s(cases: Sequence[Case], ranking_by: Ranking) -> Optional[float]:
    """What the task's own reference scored beside these cases; None unless it was timed for every benchmark case."""
    timings = [case.timing for case in cases if case.phase == "benchmark"]
    times = [timing.baseline_ns / 1e9 for timing in timings if timing is not None and timing.baseline_ns]
    return score_of(times, ranking_by) if times and len(times) == len(timings) else None


def score_interval(cases: Sequence[Case], ranking_by: Ranking) -> Optional[Interval]:
    """Return the bounds of the score of these cases; None unless every timed benchmark case has an interval."""
    timings = [case.timing for case in cases if case.phase == "benchmark" and case.timing]
    lows = [timing.low_ns / 1e9 for timing in timings if timing.low_ns is not None]
    highs = [timing.high_ns / 1e9 for timing in timings if timing.high_ns is not None]
    if not timings or min(len(lows), len(highs)) < len(timings) or min(*lows, *highs) <= 0:
        return None
    return Interval(score_of(lows, ranking_by), score_of(highs, ranking_by))


def overlaps(low_s: float, better_high_s: float) -> bool:
    """Return whether a score, from `low_s` on, cannot be told from a better one that may take `better_high_s`."""
    return low_s <= better_high_s


def score_of(times: Sequence[float], ranking_by: Ranking) -> float:
    """The score of benchmark cases that took these times, at least one and all positive, in the same unit."""
    if ranking_by is Ranking.LAST:
        return times[-1]
    if ranking_by is Ranking.MEAN:
        return math.fsum(times) / len(times)
    return math.exp(math.fsum(math.log(time) for time in times) / len(times))


def told_score(score_s: float, interval: Optional[Interval]) -> str:
    """Return a score with its unit, and with its interval where that is wide: "2.10 ms (1.90 to 2.40 ms)"."""
    time = duration_text(score_s * 1e9)
    told = wide_interval_text(score_s, interval)
    return f"{time} ({told})" if told else time


def wide_interval_text(score_s: float, interval: Optional[Interval]) -> str:
    """Return the interval of a score as text; empty where there is none or it is narrow."""
    if interval is None or not interval.is_wide(score_s):
        return ""
    return interval_text(interval.low_s * 1e9, interval.high_s * 1e9)


def interval_text(low_ns: float, high_ns: float) -> str:
    """Return an interval of times with its unit: "1.90 to 2.40 ms"."""
    unit, scale = _unit(high_ns)
    # Below a tenth of the unit, too few digits would be left.
    low = duration_text(low_ns) if low_ns < scale / 10 else _three_digits(low_ns / scale)
    return f"{low} to {_three_digits(high_ns / scale)} {unit}"


def duration_text(nanoseconds: float) -> str:
    """A time with three significant digits and its unit."""
    unit, scale = _unit(nanoseconds)
    return f"{_three_digits(nanoseconds / scale)} {unit}"


def error_text(nanoseconds: float, err_ns: float) -> str:
    """Return the error of a time in the unit of that time: "± 0.04 µs"."""
    unit, scale = _unit(nanoseconds)
    return f"± {_three_digits(err_ns / scale)} {unit}"


def _unit(nanoseconds: float) -> Tuple[str, float]:
    """Return the unit in which a time has one to three digits before the point, and its length in nanoseconds."""
    limits = ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6))
    return next(((unit, scale) for limit, unit, scale in limits if nanoseconds < limit), ("s", 1e9))


def _three_digits(value: float) -> str:
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
