"""The rules for a measured case: number of calls, number of workers, and their largest difference.

The harness follows these rules, and its results are checked against them.
"""

import math
import statistics
from collections.abc import Iterable, Sequence

from hpc_board.model.limits import Limits

TICK_NS = 1_024
"""Worst resolution of a clock: CUDA documents 0.5 us between two events, and some devices count in about 1 us."""

_SLOW_CALL_NS = 200e6
_SLOW_CALLS_MIN = 5


def calls_needed(samples_ns: Sequence[float], limits: Limits, workers: int = 1) -> int:
    """Return the minimum of timed calls of one of `workers`; it is smaller if a call takes over 200 ms."""
    slow = bool(samples_ns) and statistics.median(samples_ns) > _SLOW_CALL_NS
    needed = min(limits.timed_calls_min, _SLOW_CALLS_MIN) if slow else limits.timed_calls_min
    return -(-needed // workers)


def spread(medians_ns: Sequence[float], *, leaving_out: int = 0) -> float:
    """Return the relative difference between several workers' medians, without those that make it largest."""
    ordered = sorted(medians_ns)
    kept = len(ordered) - leaving_out
    widths = [ordered[first + kept - 1] - ordered[first] for first in range(leaving_out + 1)]
    return min(widths) / statistics.median(ordered)


def ratio_of_references(pairs: Iterable[tuple[float | None, float | None]]) -> float | None:
    """Return the geometric mean of the ratios of the second time to the first, of the pairs that have both."""
    logs = [math.log(other / one) for one, other in pairs if one and other]
    return math.exp(statistics.fmean(logs)) if logs else None


def conditions(reference: float | None, differ: float) -> float:
    """Return by how much the ratio of the reference's times in two runs exceeds the share `differ`, as a logarithm."""
    return max(0.0, abs(math.log(reference)) - differ) if reference else 0.0


QUARTILE = 0.25
"""Share of rows below the time that counts: other load of a machine makes a row longer, and never shorter."""

_TAIL = 0.1
BOUND_SHARE = 0.95
"""The part of the shorter of two times that bounds a call in a row, for the error of either."""


def lower_quartile(values: Sequence[float]) -> float:
    """Return the lower quartile, interpolated between the two nearest values; the minimum of fewer than two."""
    ordered = sorted(values)
    place = QUARTILE * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def quartile_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values that enclose the true lower quartile in 8 of 10 measurements."""
    return _quantile_interval(values, QUARTILE)


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the values that enclose the true median in 8 of 10 measurements."""
    return _quantile_interval(values, 0.5)


def workers_interval(workers_ns: Sequence[float]) -> tuple[float, float]:
    """Return bounds of the time of all possible workers, right in 8 of 10 measurements; from at least two workers.

    Processes differ by more than their calls do: by memory, clocks and, in windows, overhead. So the number of
    independent values is that of the workers, and their mean is distributed as Student's t.
    """
    count = len(workers_ns)
    half_ns = _STUDENT[min(count - 2, len(_STUDENT) - 1)] * statistics.stdev(workers_ns) / math.sqrt(count)
    mean_ns = statistics.fmean(workers_ns)
    return max(0.0, mean_ns - half_ns), mean_ns + half_ns


def _quantile_interval(values: Sequence[float], share: float) -> tuple[float, float]:
    low, high = quantile_places(len(values), share)
    ordered = sorted(values)
    return ordered[low], ordered[high]


def quantile_places(count: int, share: float) -> tuple[int, int]:
    """Return the places, from 0, of two of `count` sorted values that enclose a quantile in 8 of 10 measurements.

    The `share` of all possible values is below the quantile. The number of values below it is binomial, so no form of
    their distribution is assumed (order statistics: Conover, Practical Nonparametric Statistics, 3.2). A tenth is left
    out at either end, as far as so few values allow.
    """
    low, high, below = 0, count - 1, 0.0
    # Places further from the quantile have a probability under 1e-14.
    first = count * share - 8 * math.sqrt(count * share * (1 - share))
    for place in range(max(0, int(first)), count):
        below += _binomial(count, place, share)
        if below <= _TAIL:
            low = place
        if below >= 1 - _TAIL:
            high = place
            break
    return low, high


def _binomial(count: int, place: int, share: float) -> float:
    """Return the probability that `place` of `count` values are below a quantile; by logarithms, for any count."""
    combinations = math.lgamma(count + 1) - math.lgamma(place + 1) - math.lgamma(count - place + 1)
    return math.exp(combinations + place * math.log(share) + (count - place) * math.log(1 - share))


_STUDENT = (3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350)
"""The 0.9 quantiles of Student's t for 1, 2, ... degrees of freedom."""


def least_of_row_ns(worked_ns: float, alone_ns: float) -> float:
    """Return a lower bound of the time of a call in a row.

    Calls of a row that run at the same time on several processors need as much of the processors as one after the
    other (`worked_ns` a call), and a call alone takes its whole time (`alone_ns`). A kernel with several threads is
    above its time with the former, and a short one with the latter, so the shorter of the two is the bound, less a
    twentieth for the error of either.
    """
    return BOUND_SHARE * max(0.0, min(worked_ns, alone_ns))
