"""The interval of a score: its bounds, and their notation."""

from collections.abc import Sequence

import msgspec

from hpc_board.model.result import WIDE_INTERVAL, Case
from hpc_board.model.score import duration_text, interval_text, score_of
from hpc_board.model.task import Ranking

RUNS_FOR_INTERVAL = 4
"""The least number of runs whose shortest and longest time enclose the median in 8 of 10 cases."""


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


def median_score(scores: Sequence[float], intervals: Sequence[Interval | None]) -> tuple[float, Interval | None]:
    """Return the median of the scores of several runs of the same code, sorted, with its interval.

    From RUNS_FOR_INTERVAL runs on, it is two of the scores, by order statistics, which include the differences between
    runs. Of fewer runs it has the medians of their bounds, so it is as wide as that of one run; None if one has none.
    """
    import statistics

    from hpc_board.model.measurement import median_interval

    score_s = statistics.median(scores)
    if len(scores) >= RUNS_FOR_INTERVAL:
        return score_s, Interval(*median_interval(scores))
    known = [each for each in intervals if each is not None]
    if len(known) < len(scores):
        return score_s, None
    lows, highs = [each.low_s for each in known], [each.high_s for each in known]
    return score_s, Interval(statistics.median(lows), statistics.median(highs))


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
