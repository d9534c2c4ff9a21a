"""When a case counts as measured: how many calls, by how many workers, and how far these may differ.

The harness goes by these rules, and its results are held to them.
"""

import statistics
from typing import Sequence

from hpc_board.model.limits import Limits

TICK_NS = 1_024
"""What a clock resolves at worst: CUDA documents 0.5 us between two events, and some devices count in about 1 us."""

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
    differs from nobody. What two ticks of a clock can make of equal times is no difference: each may be read one tick
    too long or too short.
    """
    if workers == 1:
        return False
    share = spread(medians_ns, leaving_out=1 if len(medians_ns) > workers else 0)
    return share > limits.spread + 2 * TICK_NS / statistics.median(medians_ns)
