"""Whether a worker's claimed times can be true, by the supervisor's clock and by what the reference's calls cost.

A worker's clock shares its process with the submission, which may stop it, patch it, or do its work outside of it. The
supervisor's clock runs around everything, and so around more than the kernel: the inputs have to be mapped and the
outputs written. What that costs is known from the reference, which is called in just the same way and has no reason to
lie. Beyond that, and a slack for noise, no time may pass that is not claimed.
"""

import statistics
from collections.abc import Sequence

from hpc_board.harness.processes.calls import Called
from hpc_board.model.limits import Limits
from hpc_board.model.measurement import TICK_NS

OVERHEAD_SHARE = 1.3
"""How much larger than the reference's the overhead of a kernel's calls may be."""

WALL_SHARE = 0.05
"""The part of all time that may pass without being claimed, whatever the reference's overhead is."""

HOT_SHARE = 0.5
"""A call with cold caches takes at least this part of one that is made in a row of others, all else being equal."""

_DISTURBED_SHARE = 1.5
_OTHERS_MIN = 0.2
_EQUAL_CLAIMS_MIN = 20
# A steady kernel varies by a thousandth of its time: only above a thousand ticks must that show.
_EQUAL_CLAIM_NS_MIN = 1_000 * TICK_NS


def disturbed(baseline: Sequence[Called], others_processors: float) -> str:
    """In words, that the machine did other things as well while calls were timed; empty if nothing says so.

    Either others kept processors busy, a fifth of one at least, or the reference's calls did not all take the same: the
    second longest by the supervisor's clock took half as long again as their median. That makes everybody's calls
    longer, and nobody's claims true.
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
    """In words, that calls took longer than they claim beyond what the reference's calls do; None if they did not.

    Each element of `called` may be a row of calls, all of the same number; the slack counts once for each. Medians are
    compared, since the median claim is what counts: by a mean, half of the calls could hide what the others don't. The
    reference's rows may be shorter, so its overhead is taken by the call, as the mean of the middle half.
    """
    wall_ns = statistics.median(each.wall_ns for each in called)
    overhead_ns = wall_ns - statistics.median(each.claimed_ns for each in called)
    usual_ns = called[0].calls * _middle_mean([each.overhead_ns / each.calls for each in baseline])
    allowed_ns = OVERHEAD_SHARE * usual_ns + WALL_SHARE * wall_ns + limits.slack_seconds * 1e9
    if overhead_ns <= allowed_ns:
        return None
    return (
        f"its calls took {wall_ns / 1e6:.3f} ms by the supervisor's clock, {overhead_ns / 1e6:.3f} ms more than they "
        f"claim; the reference's calls take {usual_ns / 1e6:.3f} ms beside the kernel, and up to "
        f"{allowed_ns / 1e6:.3f} ms are allowed"
    )


def colder_than_hot(
    cold_median_ns: float,
    burst: Called,
    baseline_cold_ns: Sequence[float],
    baseline: Sequence[Called],
    limits: Limits,
) -> str | None:
    """In words, that single calls claim far less than calls in a row, which find their caches warm; None if not.

    Where the reference is slower in a row (`baseline`) than alone, so may a kernel be: the outputs of a row are all
    kept, and memory that is used for the first time costs more than what the last call gave back.
    """
    hot_ns = burst.claimed_ns / burst.calls
    usual_ns = _middle_mean([each.claimed_ns / each.calls for each in baseline])
    slower = max(1.0, usual_ns / statistics.median(baseline_cold_ns))
    if cold_median_ns * slower >= HOT_SHARE * (hot_ns - limits.launch_seconds * 1e9):
        return None
    return (
        f"a call is claimed to take {cold_median_ns:.0f} ns, but {hot_ns:.0f} ns each when {burst.calls} are made in a "
        f"row; for the reference's calls that makes a factor of {slower:.2g}"
    )


def equal_claims(claimed_ns: Sequence[float]) -> str | None:
    """In words, that all claims of a worker are the same number, as no clock would have it; None if they are not.

    Fewer than 20 claims, or claims of less than 1.024 ms, may be: a clock of 1.024 us has few numbers there.
    """
    if len(claimed_ns) < _EQUAL_CLAIMS_MIN or claimed_ns[0] < _EQUAL_CLAIM_NS_MIN or len(set(claimed_ns)) > 1:
        return None
    return f"all {len(claimed_ns)} calls are claimed to have taken exactly {claimed_ns[0]:.0f} ns"


def drift(before_ns: Sequence[float], after_ns: Sequence[float]) -> float:
    """By which share of the smaller the medians of two groups of the reference's times differ.

    What two ticks of a clock can make of equal times is no difference: each may be read one tick too long or too short.
    """
    one, other = statistics.median(before_ns), statistics.median(after_ns)
    return max(0.0, abs(one - other) - 2 * TICK_NS) / min(one, other)


def _middle_mean(values: Sequence[float]) -> float:
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])
