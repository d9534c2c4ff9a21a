"""The change from one time to another in words, which every page, table and message has from here."""

FACTOR_MIN = 1.995
"""The least ratio of two times that is told as a factor, such as 2.0x; a smaller one is told in percent."""

COMPARED_MAX = 50
"""The number of the newest changes of a list that are compared by their measurements.

A result takes 1 to 10 ms to read, by its samples.
"""

NO_DIFFERENCE = "no difference shown"
"""The words for two times that differ by no more than their scatter."""

_PERCENT_MIN = 0.1
_ONE_DECIMAL = 9.95
"""The least figure that is told without a decimal: it is 10 when rounded."""


def change_text(before: float, after: float, *, shown: bool | None = None) -> str:
    """Return the change from the time `before` to `after`: "8.2 % faster", "25 % slower", "3.4x faster", "as fast".

    The figure is the ratio of the longer time to the shorter one. `shown` says whether the measurements show a
    difference; None where nothing is known of their scatter.
    """
    if shown is False:
        return NO_DIFFERENCE
    if before == after:
        return "as fast"
    ratio = max(before, after) / min(before, after)
    return f"{_ratio_text(ratio)} {'faster' if after < before else 'slower'}"


def _ratio_text(ratio: float) -> str:
    """Return a ratio of times of at least 1: "0.6 %", "8.2 %", "25 %", "3.4x", "24x"."""
    if ratio >= FACTOR_MIN:
        return f"{ratio:.{1 if ratio < _ONE_DECIMAL else 0}f}x"
    percent = 100 * (ratio - 1)
    if percent < _PERCENT_MIN:
        return f"under {_PERCENT_MIN} %"
    return f"{percent:.{1 if percent < _ONE_DECIMAL else 0}f} %"
