"""Times of repeated calls: when enough have been measured, and what they come to."""

import math
import statistics
from typing import Sequence

from hpc_board.model.limits import Limits
from hpc_board.model.result import Timing

_SLOW_CALL_NS = 200e6
_SLOW_CALLS_MIN = 5


def timing(samples_ns: Sequence[float]) -> Timing:
    """The statistics of at least one sample; the error is that of the mean, std / sqrt(n)."""
    deviation = statistics.stdev(samples_ns) if len(samples_ns) > 1 else 0.0
    return Timing(
        runs=len(samples_ns),
        mean_ns=statistics.fmean(samples_ns),
        median_ns=statistics.median(samples_ns),
        std_ns=deviation,
        err_ns=deviation / math.sqrt(len(samples_ns)),
        best_ns=min(samples_ns),
        worst_ns=max(samples_ns),
        samples_ns=tuple(samples_ns),
    )


def calls_needed(samples_ns: Sequence[float], limits: Limits) -> int:
    """The fewest timed calls that count as a measurement: fewer where a call takes longer than 200 ms."""
    slow = bool(samples_ns) and statistics.median(samples_ns) > _SLOW_CALL_NS
    return min(limits.timed_calls_min, _SLOW_CALLS_MIN) if slow else limits.timed_calls_min


def enough(samples_ns: Sequence[float], case_seconds: float, limits: Limits) -> bool:
    """Whether to stop timing a case, `case_seconds` of wall time after its first timed call."""
    count = len(samples_ns)
    if count < calls_needed(samples_ns, limits):
        return False
    total_seconds = math.fsum(samples_ns) / 1e9
    if count >= limits.timed_calls_max or case_seconds >= limits.case_seconds:
        return True
    if total_seconds >= limits.timed_seconds:
        return True
    stats = timing(samples_ns)
    return total_seconds >= limits.timed_seconds_min and stats.err_ns <= limits.relative_error * stats.mean_ns
