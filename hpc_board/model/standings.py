"""Scores and standings: how times become a rank."""

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence

from hpc_board.model.result import Case
from hpc_board.model.task import ISOLATED, Ranking


@dataclass(frozen=True)
class Standing:
    """One row of a board: a user's best passing ranked run, judged by the task's `harness`."""

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


def score_s(cases: Sequence[Case], ranking_by: Ranking) -> Optional[float]:
    """The score in seconds, from the medians of the benchmark cases; None where there is none to rank.

    Every benchmark case counts for `mean` and `geom` (KernelBot's `compute_score`); a median of zero gives no score,
    since one zero would pull a geometric mean to zero.
    """
    medians = [case.timing.median_ns / 1e9 for case in cases if case.phase == "benchmark" and case.timing]
    if not medians or min(medians) <= 0:
        return None
    return score_of(medians, ranking_by)


def score_of(times: Sequence[float], ranking_by: Ranking) -> float:
    """The score of benchmark cases that took these times, at least one and all positive, in the same unit."""
    if ranking_by is Ranking.LAST:
        return times[-1]
    if ranking_by is Ranking.MEAN:
        return math.fsum(times) / len(times)
    return math.exp(math.fsum(math.log(time) for time in times) / len(times))


def duration_text(nanoseconds: float, err_ns: Optional[float] = None) -> str:
    """A time with three significant digits and its unit, "12.3 ± 0.04 µs" where an error is given."""
    limits = ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6), (math.inf, "s", 1e9))
    unit, scale = next(((unit, scale) for limit, unit, scale in limits if nanoseconds < limit), ("s", 1e9))
    value = nanoseconds / scale
    if err_ns is None:
        return f"{_three_digits(value)} {unit}"
    return f"{_three_digits(value)} ± {_three_digits(err_ns / scale)} {unit}"


def _three_digits(value: float) -> str:
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
