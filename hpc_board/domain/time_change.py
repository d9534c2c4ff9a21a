"""The change from one time to another in words, which every page, table and message has from here."""

from hpc_board.model.score import figures

FACTOR_MIN = 1.995
"""The least ratio of two times that is told as a factor, such as 2.0x; a smaller one is told in percent."""

COMPARED_MAX = 50
"""The number of the newest changes of a list that are compared by their measurements.

A result takes 1 to 10 ms to read, by its samples.
"""

WITHIN_NOISE = "within noise"
"""The words for two times that differ by no more than their scatter."""

_HALF_TOLD = 50
"""The least half of an interval, in percent, that is only told to be too wide: "± 95 %" reads as a confidence."""

_PERCENT_MIN = 0.1
_ONE_DECIMAL = 9.95
"""The least figure that is told without a decimal: it is 10 when rounded."""

_TWO_DECIMALS, _THREE_DIGITS = 9.995, 99.95
"""The least figures that have three digits with one decimal, and with none."""


def exceeds(before: float, after: float, spread: float) -> bool:
    """Return whether the ratio of two times is beyond the factor `spread`, within which it may be noise."""
    return max(before, after) / min(before, after) > spread


def change_text(before: float, after: float, spread: float | None = None) -> str:
    """Return the change from the time `before` to `after`: "8.2 % faster", "3.4x slower", "as fast".

    The figure is the ratio of the longer time to the shorter one. With the factor `spread`, within which the ratio is
    true, it has an error: "15.0 % faster (± 3.8 %)", "3.4x slower (± 0.2x)",
    "68 % faster (6 % to 170 %)", or "within noise (4 ± 14 %)".
    """
    ratio = max(before, after) / min(before, after)
    how = "faster" if after < before else "slower"
    if spread is None:
        return "as fast" if before == after else f"{_ratio_text(ratio)} {how}"
    half = 100 * (spread - 1)
    if not exceeds(before, after, spread):
        error = f"error of {_HALF_TOLD} % or more"
        if half < _HALF_TOLD:
            error = f"{_to_digits_of(figures(half, 2), 100 * (ratio - 1))} ± {figures(half, 2)} %"
        return f"{WITHIN_NOISE} ({error})"
    # A half as large as the change reads as noise, and one above 100 % is too asymmetric for one number.
    if half * ratio >= min(100, 100 * (ratio - 1)):
        return f"{_told(ratio, ratio)} {how} ({_told(ratio, ratio / spread)} to {_told(ratio, ratio * spread)})"
    if ratio >= FACTOR_MIN:
        error = figures(half * ratio / 100, 2)
        return f"{_to_digits_of(error, ratio)}x {how} (± {error}x)"
    error = figures(half * ratio, 2)
    return f"{_to_digits_of(error, 100 * (ratio - 1))} % {how} (± {error} %)"


def _told(ratio: float, bound: float) -> str:
    """Return a bound of a ratio in the unit of the ratio: a factor from FACTOR_MIN on, else percent."""
    return f"{figures(bound, 2)}x" if ratio >= FACTOR_MIN else f"{figures(100 * (bound - 1), 2)} %"


def _to_digits_of(error: str, value: float) -> str:
    """Return a value to the last decimal of its error, and to three digits at most: "2.00", "14.5", "34"."""
    decimals = 2 if value < _TWO_DECIMALS else 1 if value < _THREE_DIGITS else 0
    return f"{value:.{min(decimals, len(error.partition('.')[2]))}f}"


def _ratio_text(ratio: float) -> str:
    """Return a ratio of times of at least 1: "0.6 %", "8.2 %", "25 %", "3.4x", "24x"."""
    if ratio >= FACTOR_MIN:
        return f"{ratio:.{1 if ratio < _ONE_DECIMAL else 0}f}x"
    percent = 100 * (ratio - 1)
    if percent < _PERCENT_MIN:
        return f"under {_PERCENT_MIN} %"
    return f"{percent:.{1 if percent < _ONE_DECIMAL else 0}f} %"
