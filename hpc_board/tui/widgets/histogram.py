"""How often a call took how long, drawn in blocks of characters.

Small enough to need no library for plots: those that there are for Textual are not kept up with their own parts.
"""

import math
from collections.abc import Sequence

import msgspec
from rich.text import Text

from hpc_board.model.score import duration_text
from hpc_board.tui.palette import Tone

_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS_MIN = 8
_BIN_CELLS_MAX = 3
_TAIL = 2.0
"""Calls so many times farther from the fastest one than nineteen of twenty are counted in words: drawn, they would
press all others into one bar."""


class Histogram(msgspec.Struct, frozen=True):
    """Counts of calls in bins of equal width from `low_ns` to `high_ns`, and how many were slower than all of them."""

    counts: tuple[int, ...]
    low_ns: float
    high_ns: float
    median_ns: float
    slower: int

    @property
    def median_bin(self) -> int:
        """The bin in which the median lies."""
        return _bin(self.median_ns, self.low_ns, self.high_ns, len(self.counts))


def histogram(samples_ns: Sequence[float], median_ns: float, bins: int) -> Histogram | None:
    """The histogram of some calls in at most so many bins; None of fewer than two calls.

    `median_ns` is that of the case, which is made of its workers' medians and need not be that of all calls.
    """
    if len(samples_ns) < 2 or bins < 2:
        return None
    low = min(samples_ns)
    usual = sorted(samples_ns)[int(0.95 * (len(samples_ns) - 1))]
    high = min(max(samples_ns), low + _TAIL * (usual - low)) if usual > low else max(samples_ns)
    drawn = [sample for sample in samples_ns if sample <= high]
    high = max(drawn)
    # More bins than the calls can fill would show gaps between the values that a clock has, not between the times.
    count = max(2, min(bins, max(_BINS_MIN, 2 * math.isqrt(len(samples_ns)))))
    counts = [0] * count
    for sample in drawn:
        counts[_bin(sample, low, high, count)] += 1
    return Histogram(tuple(counts), low, high, median_ns, len(samples_ns) - len(drawn))


def histogram_lines(
    samples_ns: Sequence[float], median_ns: float, width: int, height: int, counted: str = "call"
) -> list[Text]:
    """The histogram in lines of at most `width` cells, `height` of them for the bars; none of fewer than two calls.

    What is `counted` may be rows of calls too, of which the lower quartile is given in the place of the median.
    """
    drawn = histogram(samples_ns, median_ns, width)
    if drawn is None:
        return []
    cells = max(1, min(_BIN_CELLS_MAX, width // len(drawn.counts)))
    across = cells * len(drawn.counts)
    bars = [Text(line, Tone.ACCENT.value) for line in _bars(drawn.counts, height, cells)]
    median = cells * drawn.median_bin + cells // 2
    axis = Text.assemble(
        ("─" * median, Tone.MUTED.value), ("┴", Tone.WAITING.value), ("─" * (across - median - 1), Tone.MUTED.value)
    )
    low, high = duration_text(drawn.low_ns), duration_text(drawn.high_ns)
    ends = Text(f"{low}{high:>{max(len(high) + 1, across - len(low))}}", Tone.MUTED.value)
    name = "median" if counted == "call" else "lower quartile"
    words = f"┴ {name} {duration_text(drawn.median_ns)} of {len(samples_ns)} {counted}s"
    if drawn.slower:
        words += f"; {drawn.slower} slower, up to {duration_text(max(samples_ns))}"
    return [*bars, axis, ends, Text(words, Tone.MUTED.value)]


def _bin(sample: float, low: float, high: float, count: int) -> int:
    if high <= low:
        return 0
    return min(count - 1, max(0, int((sample - low) / (high - low) * count)))


def _bars(counts: Sequence[int], height: int, cells: int) -> list[str]:
    """The bars from their tops down, each `cells` wide; a count above zero is never drawn as nothing."""
    most = max(counts)
    eighths = [max(1, round(8 * height * count / most)) if count else 0 for count in counts]
    return [
        "".join(cells * _BLOCKS[min(8, max(0, level - 8 * row))] for level in eighths)
        for row in reversed(range(height))
    ]
