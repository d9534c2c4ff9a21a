"""Plausibility of a worker's claimed times, by the supervisor's clock and the overhead of the reference's calls.

A worker's clock shares its process with the submission, which may stop it, patch it, or do its work outside of it. The
supervisor's clock runs around the whole call, and so around more than the kernel: the inputs have to be mapped and the
outputs written. The reference gives the cost of that: it is called in exactly the same way and has no reason to lie.
Beyond that cost, and a slack for noise, no unclaimed time may pass.
"""

import statistics
from collections.abc import Sequence

from hpc_board.harness.processes.calls import Called
from hpc_board.model.limits import Limits
from hpc_board.model.measurement import TICK_NS

OVERHEAD_SHARE = 1.3
"""Largest ratio of the overhead of a kernel's calls to that of the reference's."""

WALL_SHARE = 0.05
"""Share of the total time that may pass unclaimed, independent of the reference's overhead."""

HOT_SHARE = 0.5
"""A call with cold caches takes at least this share of a call in a row of others, all else being equal."""

_DISTURBED_SHARE = 1.5
_OTHERS_MIN = 0.2
_EQUAL_CLAIMS_MIN = 20
# A steady kernel varies by a thousandth of its time: only above a thousand ticks must that show.
_EQUAL_CLAIM_NS_MIN = 1_000 * TICK_NS


def disturbed(baseline: Sequence[Called], others_processors: float) -> str:
    """Return a message if the machine did other work while calls were timed; "" without evidence of it.

    The evidence: other processes kept processors busy, a fifth of one at least, or the reference's calls did not all
    take the same time: the second longest by the supervisor's clock took at least half as long again as their median.
    Both make every submission's calls longer, and no false claim true.
    """
    if others_processors >= _OTHERS_MIN:
        return f"other work took {others_processors:.2g} of the processors"
    walls_ns = sorted(each.wall_ns / each.calls for each in baseline)
    if len(walls_ns) > 2 and walls_ns[-2] >= _DISTURBED_SHARE * statistics.median(walls_ns):
        return (
            f"calls of the reference took up to {walls_ns[-1] / statistics.median(walls_ns):.2g} times as long as usual"
        )
    return ""


def unclaimed_time(called: Sequence[Called], baseline: Sequence[Called], limits: Limits) -> str | None:
    """Return a message if calls took longer than they claim, beyond the overhead of the reference's calls; else None.

    Each element of `called` may be a row of calls, all of the same number; the slack counts once for each. Medians are
    compared, since the median claim is the score: by a mean, half of the calls could hide the excess of the others. The
    reference's rows may be shorter, so its overhead is taken per call, as the mean of the middle half.
    """
    wall_ns = statistics.median(each.wall_ns for each in called)
    overhead_ns = wall_ns - statistics.median(each.claimed_ns for each in called)
    usual_ns = called[0].calls * _middle_mean([each.overhead_ns / each.calls for each in baseline])
    allowed_ns = OVERHEAD_SHARE * usual_ns + WALL_SHARE * wall_ns + limits.slack_seconds * 1e9
    if overhead_ns <= allowed_ns:
        return None
    return (
        f"its calls took {wall_ns / 1e6:.3f} ms by the supervisor's clock, {overhead_ns / 1e6:.3f} ms more than they "
        f"claim; the overhead of the reference's calls is {usual_ns / 1e6:.3f} ms, and up to "
        f"{allowed_ns / 1e6:.3f} ms is allowed"
    )


def colder_than_hot(
    cold_median_ns: float,
    burst: Called,
    baseline_cold_ns: Sequence[float],
    baseline: Sequence[Called],
    limits: Limits,
) -> str | None:
    """Return a message if single calls claim far less than calls in a row, which find warm caches; else None.

    If the reference is slower in a row (`baseline`) than alone, a kernel may be so too: the outputs of a row are all
    kept, and memory used for the first time costs more than memory that the last call freed.
    """
    hot_ns = burst.claimed_ns / burst.calls
    usual_ns = _middle_mean([each.claimed_ns / each.calls for each in baseline])
    slower = max(1.0, usual_ns / statistics.median(baseline_cold_ns))
    if cold_median_ns * slower >= HOT_SHARE * (hot_ns - limits.launch_seconds * 1e9):
        return None
    return (
        f"a call is claimed to take {cold_median_ns:.0f} ns, but {hot_ns:.0f} ns each when {burst.calls} are made in a "
        f"row; for the reference's calls the factor is {slower:.2g}"
    )


def equal_claims(claimed_ns: Sequence[float]) -> str | None:
    """Return a message if all claims of a worker are the same number, which no clock would show; else None.

    Fewer than 20 claims, or claims below 1.024 ms, may be equal: a clock with ticks of 1.024 us has few distinct values
    there.
    """
    if len(claimed_ns) < _EQUAL_CLAIMS_MIN or claimed_ns[0] < _EQUAL_CLAIM_NS_MIN or len(set(claimed_ns)) > 1:
        return None
    return f"all {len(claimed_ns)} calls are claimed to have taken exactly {claimed_ns[0]:.0f} ns"


def drift(before_ns: Sequence[float], after_ns: Sequence[float]) -> float:
    """Return the relative difference between the medians of two groups of the reference's times, by the smaller one.

    A difference that two ticks of a clock can cause is ignored: each time may be read one tick too long or too short.
    """
    one, other = statistics.median(before_ns), statistics.median(after_ns)
    return max(0.0, abs(one - other) - 2 * TICK_NS) / min(one, other)


def _middle_mean(values: Sequence[float]) -> float:
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])
