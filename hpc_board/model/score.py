"""Scores: one number from the times of benchmark cases, and the notation of times."""

import math
from collections.abc import Sequence

from hpc_board.model.result import Case, Timing
from hpc_board.model.task import Ranking
from hpc_board.model.value import Value

WIDER = 1.75
"""The factor from the half of an 80 % interval to that of a 95 % one: 1.53 for many normal values, and more for few."""


def score_s(cases: Sequence[Case], ranking_by: Ranking) -> float | None:
    """Return the score in seconds from the times of the benchmark cases; None without a score to rank.

    Every benchmark case counts for `mean` and `geom` (KernelBot's `compute_score`); a time of zero gives no score,
    since one zero would pull a geometric mean to zero.
    """
    times = [case.timing.time_ns / 1e9 for case in cases if case.phase == "benchmark" and case.timing]
    if not times or min(times) <= 0:
        return None
    return score_of(times, ranking_by)


def least_score_s(cases: Sequence[Case], count: int, floor_s: float, ranking_by: Ranking) -> float:
    """Return a lower bound of the score of `count` benchmark cases, of which `cases` were measured so far.

    It is the score of the lower bounds of their 95 % intervals, and of `floor_s`, the least that a call takes, for
    others and those of too few samples.
    """
    lows_ns = {case.index: _low_ns(case.timing) for case in cases if case.timing is not None}
    return score_of([max(floor_s, lows_ns.get(index, 0.0) / 1e9) for index in range(count)], ranking_by)


def _low_ns(timing: Timing) -> float:
    if not timing.is_enough or not timing.low_ns or not timing.high_ns:
        return 0.0
    return timing.time_ns / math.pow(max(timing.time_ns / timing.low_ns, timing.high_ns / timing.time_ns), WIDER)


class OwnBest(Value):
    """A user's best run, which ends another one of theirs as soon as that is slower.

    A score above `bound_s` is slower, unless the times of the reference in the two runs differ by more than the share
    `differ`; `references_ns` are those of each benchmark case, None where it was not timed.
    """

    run: int
    score_s: float
    bound_s: float
    differ: float
    references_ns: tuple[float | None, ...]


def is_slower(cases: Sequence[Case], best: OwnBest, least_s: float) -> bool:
    """Return whether a run of these `cases`, whose score is at least `least_s`, is slower, as `compare` says."""
    # A list of scores needs none of these rules.
    from hpc_board.model.measurement import conditions, ratio_of_references

    pairs = [(best.references_ns[case.index], case.timing.reference_ns) for case in cases if case.timing is not None]
    return least_s > best.bound_s * math.exp(conditions(ratio_of_references(pairs), best.differ))


def reference_score_s(cases: Sequence[Case], ranking_by: Ranking) -> float | None:
    """Return the score of the task's own reference for these cases; None unless every benchmark case timed it."""
    timings = [case.timing for case in cases if case.phase == "benchmark"]
    times = [timing.reference_ns / 1e9 for timing in timings if timing is not None and timing.reference_ns]
    return score_of(times, ranking_by) if times and len(times) == len(timings) else None


def score_of(times: Sequence[float], ranking_by: Ranking) -> float:
    """Return the score of benchmark cases with these times, at least one and all positive, in the same unit."""
    if ranking_by is Ranking.LAST:
        return times[-1]
    if ranking_by is Ranking.MEAN:
        return math.fsum(times) / len(times)
    return math.exp(math.fsum(math.log(time) for time in times) / len(times))


def interval_text(low_ns: float, high_ns: float) -> str:
    """Return an interval of times with its unit: "1.90 to 2.40 ms"."""
    unit, scale = _unit(high_ns)
    # Below a tenth of the unit, too few digits would be left.
    low = duration_text(low_ns) if low_ns < scale / 10 else _three_digits(low_ns / scale)
    return f"{low} to {_three_digits(high_ns / scale)} {unit}"


def duration_text(nanoseconds: float) -> str:
    """Return a time with three significant digits and its unit."""
    unit, scale = _unit(nanoseconds)
    return f"{_three_digits(nanoseconds / scale)} {unit}"


def error_text(nanoseconds: float, err_ns: float) -> str:
    """Return the error of a time in the unit of that time: "± 0.04 µs"."""
    unit, scale = _unit(nanoseconds)
    return f"± {_three_digits(err_ns / scale)} {unit}"


def figures(value: float, digits: int) -> str:
    """Format `value` to as many significant digits, without an exponent: "140", "0.99"."""
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text else text


def _unit(nanoseconds: float) -> tuple[str, float]:
    """Return the unit in which a time has one to three digits before the point, and its length in nanoseconds."""
    limits = ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6))
    rounded = float(f"{nanoseconds:.3g}")
    return next(((unit, scale) for limit, unit, scale in limits if rounded < limit), ("s", 1e9))


def _three_digits(value: float) -> str:
    rounded = float(f"{value:.3g}")
    if rounded < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if rounded < 100 else f"{value:.0f}"
