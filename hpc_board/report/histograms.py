"""A histogram of the times of calls."""

import math
from collections import Counter
from collections.abc import Sequence

from hpc_board.model.score import duration_text
from hpc_board.report.blocks import Log, Tone
from hpc_board.report.formatting import count_text
from hpc_board.report.plots import Axis, Kind, Plot, Series, columns_in, text_plot

_BINS_MIN = 8
_BAR_CELLS_MAX = 3
_ROWS_MIN = 4
_TAIL = 2.0
"""The cut-off of outliers, as a multiple of the 95th percentile's distance from the minimum. Outliers are only counted,
as they would compress all other calls into one bar."""


def histogram(samples_ns: Sequence[float], time_ns: float, width: int, height: int, counted: str = "call") -> Log:
    """Return the histogram of two calls or more in lines of `width` cells, `height` of them bars.

    `time_ns` is that of the case, made from the medians of its workers; it can differ from that of all calls. For
    rows of calls (`counted`), the lower quartile replaces the median.
    """
    ordered = sorted(samples_ns)
    low, usual = ordered[0], ordered[int(0.95 * (len(ordered) - 1))]
    drawn = [each for each in ordered if usual == low or each <= low + _TAIL * (usual - low)]
    high, columns = drawn[-1], columns_in(width)
    # More bars would show the resolution of the clock, and broader ones would look like more calls.
    wanted = max(_BINS_MIN, 2 * math.isqrt(len(ordered)))
    cells = max(1, min(_BAR_CELLS_MAX, round(columns / wanted)))
    bins = columns // cells if cells < _BAR_CELLS_MAX else min(wanted, columns // cells)

    def bin_of(time_ns: float) -> int:
        return max(0, min(bins - 1, int((time_ns - low) / (high - low) * bins))) if high > low else 0

    counts = Counter(map(bin_of, drawn))
    most = max(counts.values())
    name, of = ("median", "") if counted == "call" else ("lower quartile", " of calls")
    words = (
        f"Times of {count_text(len(ordered), counted)}{of}; ┴ the time that counts, {duration_text(time_ns)} ({name})"
    )
    if slower := len(ordered) - len(drawn):
        words += f"; {slower} slower: up to {duration_text(ordered[-1])}"
    middle = (bin_of(time_ns) + 0.5) / bins
    ticks = (0.0, duration_text(low)), (middle, ""), (1.0, duration_text(high))
    bars = Series(Kind.BARS, tuple(((index + 0.5) / bins, float(counts[index])) for index in range(bins)), Tone.QUIET)
    plot = Plot(words, Axis(0.0, 1.0, ticks), Axis(0.0, most, ((most, str(most)),)), (bars,))
    return text_plot(plot, width - columns + bins * cells, min(height, max(_ROWS_MIN, 2 * most)))
