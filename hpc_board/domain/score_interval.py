"""The interval of a score: its bounds, and their notation."""

from collections.abc import Sequence

import msgspec

from hpc_board.model.result import WIDE_INTERVAL, Case
from hpc_board.model.score import duration_text, interval_text, score_of
from hpc_board.model.task import Ranking


class Interval(msgspec.Struct, frozen=True):
    """Lower and upper bound of a score, in seconds."""

    low_s: float
    high_s: float

    def is_wide(self, score_s: float) -> bool:
        """Return whether these bounds of the score are too far apart to be omitted."""
        return self.high_s - self.low_s > WIDE_INTERVAL * score_s


def score_interval(cases: Sequence[Case], ranking_by: Ranking) -> Interval | None:
    """Return the bounds of the score of these cases; None unless every timed benchmark case has an interval."""
    timings = [case.timing for case in cases if case.phase == "benchmark" and case.timing]
    lows = [timing.low_ns / 1e9 for timing in timings if timing.low_ns is not None]
    highs = [timing.high_ns / 1e9 for timing in timings if timing.high_ns is not None]
    if not timings or min(len(lows), len(highs)) < len(timings) or min(*lows, *highs) <= 0:
        return None
    return Interval(score_of(lows, ranking_by), score_of(highs, ranking_by))


def overlaps(low_s: float, better_high_s: float) -> bool:
    """Return whether a score with lower bound `low_s` is indistinguishable from a better one up to `better_high_s`."""
    return low_s <= better_high_s


def full_score_text(score_s: float, interval: Interval | None) -> str:
    """Return a score with its unit, and with its interval if that is wide: "2.10 ms (1.90 to 2.40 ms)"."""
    time = duration_text(score_s * 1e9)
    told = wide_interval_text(score_s, interval)
    return f"{time} ({told})" if told else time


def wide_interval_text(score_s: float, interval: Interval | None) -> str:
    """Return the interval of a score as text; "" if it is missing or narrow."""
    if interval is None or not interval.is_wide(score_s):
        return ""
    return interval_text(interval.low_s * 1e9, interval.high_s * 1e9)
