"""Statistics of repeated calls, the rule when enough have been measured, and the lower bound of an honest time."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from hpc_board.model.limits import Limits
from hpc_board.model.measurement import (
    calls_needed,
    lower_quartile,
    median_interval,
    quartile_interval,
    workers_interval,
)
from hpc_board.model.peaks import Peak, Work
from hpc_board.model.result import Timing

_CLOCK_NS = 300.0
"""Width of an interval that is as narrow as the times of a quiet GPU make it."""

_SHARE_OF_PEAK = 0.5
"""A floor is half of the time at peak: data sheets are incomplete, and a floor must never be wrong."""


def timing(
    passes: Sequence[Sequence[float]],
    reference_ns: Sequence[float] = (),
    *,
    bound_ns: float = 0.0,
    throttled: bool = False,
) -> Timing:
    """Return the statistics of each worker's samples, for at least one worker; `reference_ns` is the reference's.

    The time is the median of the workers' own medians; all other values are of all samples together, each of which
    counts for at least `bound_ns`. The error is that of the mean, std / sqrt(n).
    """
    samples_ns = [sample for each in passes for sample in each]
    counted_ns = [max(bound_ns, sample) for sample in samples_ns]
    deviation = statistics.stdev(counted_ns) if len(counted_ns) > 1 else 0.0
    bounds_ns = median_interval(reference_ns) if len(reference_ns) > 1 else (None, None)
    return Timing(
        samples=len(samples_ns),
        mean_ns=statistics.fmean(counted_ns),
        time_ns=max(bound_ns, statistics.median(statistics.median(each) for each in passes if each)),
        std_ns=deviation,
        err_ns=deviation / math.sqrt(len(samples_ns)),
        best_ns=min(counted_ns),
        worst_ns=max(counted_ns),
        samples_ns=tuple(samples_ns),
        worker_samples=tuple(len(each) for each in passes if each),
        reference_ns=statistics.median(reference_ns) if reference_ns else None,
        reference_low_ns=bounds_ns[0],
        reference_high_ns=bounds_ns[1],
        throttled=throttled,
    )


def of_rows(
    passes: Sequence[Sequence[float]],
    reference_ns: Sequence[float],
    claimed_ns: Sequence[float],
    *,
    floor_ns: float,
    bound_ns: float,
    alone_ns: float | None = None,
    busy: float,
) -> Timing:
    """Return the statistics of the rows of each worker, each as the time of one call.

    The time that counts is the lower quartile of all rows, or `floor_ns` or `bound_ns` if that is more; that of the
    reference is the lower quartile of its rows. If calls alone give `bound_ns`, the interval reaches from the rows to
    that.
    """
    bound_ns = max(floor_ns, bound_ns)
    samples_ns = [sample for each in passes for sample in each]
    found, (low_ns, high_ns) = lower_quartile(samples_ns), quartile_interval(samples_ns)
    references_ns = quartile_interval(reference_ns) if len(reference_ns) > 1 else (None, None)
    return replace(
        timing(passes, bound_ns=bound_ns),
        reference_ns=lower_quartile(reference_ns) if reference_ns else None,
        reference_low_ns=references_ns[0],
        reference_high_ns=references_ns[1],
        time_ns=max(found, bound_ns),
        low_ns=max(low_ns, floor_ns),
        high_ns=max(high_ns, bound_ns),
        bound_ns=bound_ns,
        alone_ns=alone_ns,
        kernel_clock_ns=statistics.median(claimed_ns) if claimed_ns else None,
        busy_processors=busy,
    )


def of_two_clocks(
    claims: Sequence[Sequence[float]],
    windows: Sequence[Sequence[float]],
    reference_ns: Sequence[float],
    *,
    floor_ns: float,
    slack_ns: float = 0.0,
    busy: float = 0.0,
    throttled: bool = False,
) -> Timing:
    """Return the statistics of the calls of each worker by its own clock, which the windows of the judge bound.

    `windows` are those of each worker less their overhead, and `slack_ns` is their error. Without claims, as for calls
    that need the processor, the windows are the times; without windows nothing bounds the claims. The interval is that
    of the workers, or that of the calls of a single worker.
    """
    allowed_ns = slack_ns if claims else 0.0
    bound_ns = statistics.median(map(statistics.median, windows)) - allowed_ns if windows else 0.0
    by_window = not claims or bound_ns > statistics.median(map(statistics.median, claims))
    counted = [[time_ns - allowed_ns for time_ns in each] for each in windows] if by_window else claims
    medians_ns = [statistics.median(each) for each in counted]
    if len(medians_ns) > 1:
        low_ns, high_ns = workers_interval(medians_ns)
    else:
        low_ns, high_ns = median_interval(counted[0])
        if by_window:
            # The overhead of one process is uncertain; those of several differ as their times do.
            low_ns, high_ns = low_ns - slack_ns, high_ns + slack_ns
    time_ns = max(floor_ns, statistics.median(medians_ns))
    least_ns = max(floor_ns, bound_ns) if claims else floor_ns
    return replace(
        timing(claims or windows, reference_ns, bound_ns=least_ns, throttled=throttled),
        time_ns=time_ns,
        low_ns=max(floor_ns, min(time_ns, low_ns)),
        high_ns=max(time_ns, high_ns),
        bound_ns=least_ns,
        kernel_clock_ns=statistics.median(map(statistics.median, claims)) if claims else None,
        slack_ns=allowed_ns,
        busy_processors=busy,
    )


def is_wide(times_ns: Sequence[float], share: float) -> bool:
    """Return whether several times of the same work are too far apart: by more than `share` of their median."""
    low_ns, high_ns = median_interval(times_ns)
    return high_ns - low_ns > share * statistics.median(times_ns)


def enough(times_ns: Sequence[float], seconds: float, limits: Limits, workers: int, *, throttled: int = 0) -> bool:
    """Return whether the calls of one of `workers` tell the time of one, or `seconds` of wall time are too many.

    `throttled` more calls are left out if there are enough others.
    """
    count, needed = len(times_ns) + throttled, calls_needed(times_ns, limits, workers)
    if count < needed:
        return False
    if workers * count >= limits.timed_calls_max or workers * seconds >= limits.case_seconds:
        return True
    if len(times_ns) < needed:
        return False
    low_ns, high_ns = median_interval(times_ns)
    return high_ns - low_ns <= max(_CLOCK_NS, limits.relative_error * statistics.median(times_ns))


def floor_ns(work: Work | None, peak: Peak | None) -> float:
    """Return the minimum time of a call in nanoseconds: half of the work's time at peak; 0 if one is unknown."""
    if work is None or peak is None:
        return 0.0
    seconds = max(work.memory_bytes / peak.memory_bytes, work.operations / peak.operations)
    return _SHARE_OF_PEAK * seconds * 1e9
