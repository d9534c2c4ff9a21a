"""A histogram of the times of calls, drawn with block characters.

Textual's Sparkline would draw a bin without calls as a bar, and has no axes; the plot libraries for Textual are poorly
maintained.
"""

import math
from collections.abc import Sequence

import msgspec
from rich.text import Text

from hpc_board.model.score import duration_text
from hpc_board.tui.palette import Tone

_BLOCKS = " ▁▂▃▄▅▆▇█"
_AXIS = " │"
_BINS_MIN = 8
_TAIL = 2.0
"""The cut-off of outliers, as a multiple of the 95th percentile's distance from the minimum. Outliers are only counted,
as they would compress all other calls into one bar."""


class Histogram(msgspec.Struct, frozen=True):
    """Counts of calls in bins of equal width from `low_ns` to `high_ns`, and the number of slower calls."""

    counts: tuple[int, ...]
    low_ns: float
    high_ns: float
    median_ns: float
    slower: int

    @property
    def median_bin(self) -> int:
        return _bin(self.median_ns, self.low_ns, self.high_ns, len(self.counts))


def bins_of(calls: int) -> int:
    """Return the number of bins that show as many calls; more would show the resolution of the clock."""
    return max(_BINS_MIN, 2 * math.isqrt(calls))


def histogram(samples_ns: Sequence[float], median_ns: float, bins: int) -> Histogram | None:
    """Return the histogram of calls in `bins` bins; None for fewer than two calls.

    `median_ns` is that of the case, made from the medians of its workers; it can differ from that of all calls.
    """
    if len(samples_ns) < 2 or bins < 2:
        return None
    low = min(samples_ns)
    usual = sorted(samples_ns)[int(0.95 * (len(samples_ns) - 1))]
    high = min(max(samples_ns), low + _TAIL * (usual - low)) if usual > low else max(samples_ns)
    drawn = [sample for sample in samples_ns if sample <= high]
    high = max(drawn)
    counts = [0] * bins
    for sample in drawn:
        counts[_bin(sample, low, high, bins)] += 1
    return Histogram(tuple(counts), low, high, median_ns, len(samples_ns) - len(drawn))


def histogram_lines(
    samples_ns: Sequence[float], median_ns: float, width: int, height: int, counted: str = "call"
) -> list[Text]:
    """Return the histogram in lines of at most `width` cells, `height` of them bars; none for fewer than two calls.

    The axes are the number of calls in a bin, and the time. For rows of calls (`counted`), the lower quartile replaces
    the median.
    """
    label = len(str(len(samples_ns))) + len(_AXIS)
    room = max(2, width - label)
    # Equal bars fill the width.
    cells = max(1, round(room / bins_of(len(samples_ns))))
    drawn = histogram(samples_ns, median_ns, room // cells)
    if drawn is None:
        return []
    across = cells * len(drawn.counts)
    bars = [
        Text.assemble(
            (f"{max(drawn.counts) if row == 0 else '':>{label - len(_AXIS)}}{_AXIS}", Tone.MUTED.value),
            (line, Tone.ACCENT.value),
        )
        for row, line in enumerate(_bars(drawn.counts, height, cells))
    ]
    median = cells * drawn.median_bin + cells // 2
    axis = Text.assemble(
        (f"{0:>{label - len(_AXIS)}} └{'─' * median}", Tone.MUTED.value),
        ("┴", Tone.WAITING.value),
        ("─" * (across - median - 1), Tone.MUTED.value),
    )
    low, high = duration_text(drawn.low_ns), duration_text(drawn.high_ns)
    ends = Text(f"{'':>{label}}{low}{high:>{max(len(high) + 1, across - len(low))}}", Tone.MUTED.value)
    name = "median" if counted == "call" else "lower quartile"
    words = f"{counted}s by time; ┴ {name} {duration_text(drawn.median_ns)} of {len(samples_ns)}"
    if drawn.slower:
        words += f"; {drawn.slower} slower, up to {duration_text(max(samples_ns))}"
    return [*bars, axis, ends, Text(words, Tone.MUTED.value)]


def _bin(sample: float, low: float, high: float, count: int) -> int:
    if high <= low:
        return 0
    return min(count - 1, max(0, int((sample - low) / (high - low) * count)))


def _bars(counts: Sequence[int], height: int, cells: int) -> list[str]:
    """Return the lines of the bars, top first, each bar `cells` wide; positive counts are always visible."""
    most = max(counts)
    eighths = [max(1, round(8 * height * count / most)) if count else 0 for count in counts]
    return [
        "".join(cells * _BLOCKS[min(8, max(0, level - 8 * row))] for level in eighths)
        for row in reversed(range(height))
    ]
