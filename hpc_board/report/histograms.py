"""The times of calls as pictures: a histogram, and the calls in their order."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from hpc_board.model.result import Timing
from hpc_board.model.score import duration_text
from hpc_board.report.blocks import Log, Tone
from hpc_board.report.formatting import count_text
from hpc_board.report.plots import Axis, Kind, Plot, Series, columns_in, text_plot

_BINS_MIN = 8
_BAR_CELLS_MAX = 6
_ROWS_MIN = 4
_TAIL = 2.0
"""The cut-off of outliers, as a multiple of the 95th percentile's distance from the minimum. Outliers are only counted,
as they would compress all other calls into one bar."""


def histogram(samples_ns: Sequence[float], time_ns: float, width: int, height: int, counted: str = "call") -> Log:
    """Return the histogram of two calls or more in lines of `width` cells, `height` of them bars.

    `time_ns` is that of the case, made from the medians of its workers; it can differ from that of all calls. For
    samples of several calls (`counted`), the lower quartile replaces the median.
    """
    ordered = sorted(samples_ns)
    low, high = ordered[0], _cut_off(ordered)
    drawn = [each for each in ordered if each <= high]
    columns = columns_in(width)
    # More bars would show the resolution of the clock, and broader ones would look like more calls.
    wanted = max(_BINS_MIN, 2 * math.isqrt(len(ordered)))
    cells = max(1, min(_BAR_CELLS_MAX, round(columns / wanted)))
    bins = columns // cells if cells < _BAR_CELLS_MAX else min(wanted, columns // cells)

    def bin_of(time_ns: float) -> int:
        return max(0, min(bins - 1, int((time_ns - low) / (high - low) * bins))) if high > low else 0

    counts = Counter(map(bin_of, drawn))
    most = max(counts.values())
    time, ends = duration_text(time_ns), (duration_text(low), duration_text(high))
    words = f"Times of {count_text(len(ordered), counted)}; ┴ {_statistic(counted)} {time}"
    if slower := len(ordered) - len(drawn):
        words += f"; {slower} slower: up to {duration_text(ordered[-1])}"
    middle = (bin_of(time_ns) + 0.5) / bins
    ticks = (0.0, ends[0]), (middle, "" if time in ends else time), (1.0, ends[1])
    places = [((index + 0.5) / bins, float(counts[index])) for index in range(bins)]
    that = [(place, count if place == middle else 0.0) for place, count in places]
    bars = Series(Kind.BARS, tuple(places), Tone.QUIET), Series(Kind.BARS, tuple(that), Tone.GOOD)
    plot = Plot(words, Axis(0.0, 1.0, ticks), Axis(0.0, most, ((most, f"n = {most}"),)), bars)
    return text_plot(plot, width - columns + bins * cells, min(height, max(_ROWS_MIN, 2 * most)))


def calls_in_order(timing: Timing, width: int, height: int, counted: str = "call") -> Log:
    """Return the times of two calls or more in their order, as dots in lines of `width` cells, `height` of them above.

    A drift is that of clocks or caches. A short mark on the axis is at the first call of each process but the first.
    """
    samples_ns = timing.samples_ns
    low, high, last = min(samples_ns), _cut_off(sorted(samples_ns)), len(samples_ns) - 1.0
    usual = tuple((float(place), time_ns) for place, time_ns in enumerate(samples_ns) if time_ns <= high)
    slower = tuple((float(place), high) for place, time_ns in enumerate(samples_ns) if time_ns > high)
    begins = [float(place) for place in accumulate(map(len, timing.worker_samples_ns[:-1]))]
    across = Axis(0.0, last, ((0.0, "1"), (last, str(len(samples_ns)))))
    up = Axis(low, high, ((low, duration_text(low)), (high, duration_text(high))))
    middle = min(high, max(low, timing.time_ns))
    processes = Series(
        Kind.INTERVALS,
        tuple((x, low) for x in begins),
        Tone.QUIET,
        "process",
        bounds=((low, low + (high - low) / height),) * len(begins),
    )
    # A single dot is hard to see; many calls need the resolution of dots.
    sign = "•" if len(samples_ns) <= columns_in(width) else ""
    series = (
        *([processes] if begins else []),
        Series(Kind.LINE, ((0.0, middle), (last, middle)), Tone.GOOD, _statistic(counted), is_dotted=True),
        Series(Kind.POINTS, usual, sign=sign),
        *([Series(Kind.POINTS, slower, Tone.UNSURE, "slower", "▲")] if slower else []),
    )
    return text_plot(Plot(f"{counted.capitalize()}s in order", across, up, series), width, height)


def _statistic(counted: str) -> str:
    """Return the name of the statistic that is the time of a case."""
    return "median" if counted == "call" else "lower quartile"


def _cut_off(ordered: Sequence[float]) -> float:
    """Return the longest of these times, in ascending order, that is not an outlier."""
    low, usual = ordered[0], ordered[int(0.95 * (len(ordered) - 1))]
    return max(each for each in ordered if usual == low or each <= low + _TAIL * (usual - low))
