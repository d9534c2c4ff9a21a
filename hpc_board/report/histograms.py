"""A histogram of the times of calls."""

import math
from collections import Counter
from collections.abc import Sequence

from hpc_board.model.score import duration_text
from hpc_board.report.blocks import Log, Tone
from hpc_board.report.formatting import count_text
from hpc_board.report.plots import AXES, columns_in, framed

_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS_MIN = 8
_TAIL = 2.0
"""The cut-off of outliers, as a multiple of the 95th percentile's distance from the minimum. Outliers are only counted,
as they would compress all other calls into one bar."""


def histogram(samples_ns: Sequence[float], median_ns: float, width: int, height: int, counted: str = "call") -> Log:
    """Return the histogram of two calls or more in lines of `width` cells, `height` of them bars.

    `median_ns` is that of the case, made from the medians of its workers; it can differ from that of all calls. For
    rows of calls (`counted`), the lower quartile replaces the median.
    """
    ordered = sorted(samples_ns)
    low, usual = ordered[0], ordered[int(0.95 * (len(ordered) - 1))]
    drawn = [each for each in ordered if usual == low or each <= low + _TAIL * (usual - low)]
    high, columns = drawn[-1], columns_in(width)
    # Equal bars fill the width; more of them would show the resolution of the clock.
    cells = max(1, round(columns / max(_BINS_MIN, 2 * math.isqrt(len(ordered)))))
    bins = columns // cells

    def bin_of(time_ns: float) -> int:
        return max(0, min(bins - 1, int((time_ns - low) / (high - low) * bins))) if high > low else 0

    counts = Counter(map(bin_of, drawn))
    most = max(counts.values())
    # A bin with calls is always visible.
    eighths = [max(1, round(8 * height * counts[index] / most)) if counts[index] else 0 for index in range(bins)]
    rows = [
        "".join(cells * _BLOCKS[min(8, max(0, level - 8 * row))] for level in eighths)
        for row in reversed(range(height))
    ]
    median = cells * bin_of(median_ns) + cells // 2
    name, of = ("median", "") if counted == "call" else ("lower quartile", " of calls")
    words = f"Times of {count_text(len(ordered), counted)}{of}; ┴ {name}: {duration_text(median_ns)}"
    if slower := len(ordered) - len(drawn):
        words += f"; {slower} slower: up to {duration_text(ordered[-1])}"
    ticks = [(0, duration_text(low)), (median, ""), (cells * bins - 1, duration_text(high))]
    return Log(words, framed(rows, {0: str(most)}, ticks), tuple((sign, Tone.QUIET) for sign in AXES))
