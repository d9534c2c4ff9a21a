"""The change from one time to another in words, which every page, table and message has from here."""

COMPARED_MAX = 50
"""The number of the newest changes of a list that are compared by their measurements.

A result takes 1 to 10 ms to read, by its samples.
"""

WITHIN_NOISE = "within noise"
"""The words for two times that differ by no more than their scatter."""

FEW_SAMPLES = "uncertain"
"""The word for a change of which the samples are too few to tell its error."""

_HALF_TOLD = 0.5
"""The least half of an interval that is told by its ends: "± 0.95x" reads as a confidence."""

_SPREAD_TOLD = 10
"""The factor from which on the ends of an interval within noise are not told."""

_ONE_DECIMAL, _NO_DECIMAL = 9.995, 99.95
"""The least ratios with one decimal, and with none."""

_TOLD_MIN = 1.005
"""The least ratio that differs from 1 in two decimals."""


def exceeds(before: float, after: float, spread: float) -> bool:
    """Return whether the ratio of two times is beyond the factor `spread`, within which it may be noise."""
    return max(before, after) / min(before, after) > spread


def ratio_text(ratio: float) -> str:
    """Return a ratio of times: "0.55x", "1.08x", "3.40x", "24.3x"."""
    return f"{ratio:.{_decimals(ratio)}f}x"


def change_text(before: float, after: float, spread: float | None = None) -> str:
    """Return the change from the time `before` to `after`: "1.08x faster", "3.40x slower", "as fast".

    The figure is the ratio of the longer time to the shorter one. With the factor `spread`, within which the ratio is
    true, it has an error: "1.15x faster (± 0.04x)", "1.68x faster (1.06x to 2.67x)",
    "within noise (1.04x ± 0.14x)", or, of a large error, "within noise (2.60x faster, 0.87x to 7.80x)".
    """
    ratio = max(before, after) / min(before, after)
    how = "faster" if after < before else "slower"
    if spread is None:
        told = f"under {_TOLD_MIN + 0.005:.2f}x" if ratio < _TOLD_MIN else ratio_text(ratio)
        return "as fast" if before == after else f"{told} {how}"
    half, ends = spread - 1, f"{ratio_text(ratio / spread)} to {ratio_text(ratio * spread)}"
    if not exceeds(before, after, spread):
        wide = ends if spread < _SPREAD_TOLD else f"error of {_SPREAD_TOLD}x or more"
        told = f"{change_text(before, after)}, {wide}" if half >= _HALF_TOLD else f"{ratio_text(ratio)} ± {half:.2f}x"
        return f"{WITHIN_NOISE} ({told})"
    # A half as large as the change reads as noise, and one above the shorter time is too asymmetric for one number.
    if half * ratio >= min(1, ratio - 1):
        return f"{ratio_text(ratio)} {how} ({ends})"
    return f"{ratio_text(ratio)} {how} (± {half * ratio:.{_decimals(ratio)}f}x)"


def _decimals(ratio: float) -> int:
    return 2 if ratio < _ONE_DECIMAL else 1 if ratio < _NO_DECIMAL else 0
