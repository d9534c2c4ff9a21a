"""When a case counts as measured: how many calls, by how many workers, and how far these may differ.

The harness goes by these rules, and its results are held to them.
"""

import statistics
from typing import Sequence

from hpc_board.model.limits import Limits

_SLOW_CALL_NS = 200e6
_SLOW_CALLS_MIN = 5


def calls_needed(samples_ns: Sequence[float], limits: Limits, workers: int = 1) -> int:
    """The fewest timed calls of one of `workers` that count as a measurement: fewer where a call takes over 200 ms."""
    slow = bool(samples_ns) and statistics.median(samples_ns) > _SLOW_CALL_NS
    needed = min(limits.timed_calls_min, _SLOW_CALLS_MIN) if slow else limits.timed_calls_min
    return -(-needed // workers)


def spread(medians_ns: Sequence[float], *, leaving_out: int = 0) -> float:
    """By which share of their median the medians of several workers differ, without those that make it largest."""
    ordered = sorted(medians_ns)
    kept = len(ordered) - leaving_out
    widths = [ordered[first + kept - 1] - ordered[first] for first in range(leaving_out + 1)]
    return min(widths) / statistics.median(ordered)


def scatters(medians_ns: Sequence[float], limits: Limits, workers: int) -> bool:
    """Whether the medians of a case's workers differ by more than they should.

    Where there are more than the `workers` that measure a case at first, one of them may be an outlier. One alone
    differs from nobody.
    """
    more = len(medians_ns) > workers
    return workers > 1 and spread(medians_ns, leaving_out=1 if more else 0) > limits.spread
