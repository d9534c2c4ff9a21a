"""The reference of a board: one time of the task's own solution, to which every speedup there is relative."""

import math

import msgspec

from hpc_board.domain.score_interval import Interval


class Speedup(msgspec.Struct, frozen=True):
    """The ratio of the reference's time to a score, and the bounds of its 80 % confidence interval, if known."""

    ratio: float
    low: float | None = None
    high: float | None = None


class Reference(msgspec.Struct, frozen=True):
    """The time of the reference on one GPU: the median over the users of the medians of their ranked runs.

    There are `runs` in all, each with a time by the ranking rule. `low_s` and `high_s` are two of the users' medians,
    or of the times of a single user, which enclose the median in 8 of 10 cases however these are distributed (order
    statistics); None below RUNS_FOR_INTERVAL of them.
    """

    median_s: float
    runs: int
    low_s: float | None = None
    high_s: float | None = None

    @property
    def interval(self) -> Interval | None:
        """Return the bounds of the median; None if they are unknown."""
        return None if self.low_s is None or self.high_s is None else Interval(self.low_s, self.high_s)

    def speedup(self, score_s: float, interval: Interval | None = None) -> Speedup:
        """Return the speedup of a score; it has bounds if the score has them.

        Score and reference are independent, so the distances of their bounds add up as squares of logarithms. Below
        RUNS_FOR_INTERVAL they are those of the score alone.
        """
        ratio = self.median_s / score_s
        if interval is None:
            return Speedup(ratio)
        own = self.interval or Interval(self.median_s, self.median_s)
        less = math.hypot(math.log(self.median_s / own.low_s), math.log(interval.high_s / score_s))
        more = math.hypot(math.log(own.high_s / self.median_s), math.log(score_s / interval.low_s))
        return Speedup(ratio, ratio * math.exp(-less), ratio * math.exp(more))


def ratio_of(speedup: Speedup | None) -> float | None:
    """Return the ratio of a speedup; None without one."""
    return None if speedup is None else speedup.ratio


def speedup_keys(speedup: Speedup | None) -> dict[str, float | None]:
    """Return a speedup and its bounds by the names that they have in JSON and in tables."""
    ratio, low, high = (None, None, None) if speedup is None else msgspec.structs.astuple(speedup)
    return {"speedup": ratio, "speedup_low": low, "speedup_high": high}
