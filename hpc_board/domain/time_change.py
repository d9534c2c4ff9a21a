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


def exceeds(before: float, after: float, spread: float) -> bool:
    """Return whether the ratio of two times is beyond the factor `spread`, within which it may be noise."""
    return max(before, after) / min(before, after) > spread


def change_text(before: float, after: float, spread: float | None = None) -> str:
    """Return the change from the time `before` to `after`: "8.2 % faster", "3.4x slower", "as fast".

    The figure is the ratio of the longer time to the shorter one. With the factor `spread`, within which the ratio is
    true, it has an error: "15.0 % faster (± 3.8 %)", "3.40x slower (± 0.2x)",
    "68 % faster (6 % to 170 %)", or "within noise (4.1 ± 14 %)".
    """
    ratio = max(before, after) / min(before, after)
    how = "faster" if after < before else "slower"
    if spread is None:
        return "as fast" if before == after else f"{_ratio_text(ratio)} {how}"
    half = 100 * (spread - 1)
    if not exceeds(before, after, spread):
        error = (
            f"{figures(100 * (ratio - 1), 2)} ± {figures(half, 2)} %" if half < _HALF_TOLD else "times vary too much"
        )
        return f"{WITHIN_NOISE} ({error})"
    # A half as large as the change reads as noise, and one above 100 % is too asymmetric for one number.
    if half * ratio >= min(100, 100 * (ratio - 1)):
        return f"{_told(ratio, ratio)} {how} ({_told(ratio, ratio / spread)} to {_told(ratio, ratio * spread)})"
    # A figure beside its error has a digit more than in other texts.
    if ratio >= FACTOR_MIN:
        return f"{_three_digits(ratio)}x {how} (± {figures(half * ratio / 100, 2)}x)"
    return f"{_three_digits(100 * (ratio - 1))} % {how} (± {figures(half * ratio, 2)} %)"


def _told(ratio: float, bound: float) -> str:
    """Return a bound of a ratio in the unit of the ratio: a factor from FACTOR_MIN on, else percent."""
    return f"{figures(bound, 2)}x" if ratio >= FACTOR_MIN else f"{figures(100 * (bound - 1), 2)} %"


def _three_digits(value: float) -> str:
    """Return a value to three digits, a last zero among them: "2.00", "14.5", "145"."""
    text = f"{value:#.3g}".rstrip(".")
    return figures(value, 3) if "e" in text else text


def _ratio_text(ratio: float) -> str:
    """Return a ratio of times of at least 1: "0.6 %", "8.2 %", "25 %", "3.4x", "24x"."""
    if ratio >= FACTOR_MIN:
        return f"{ratio:.{1 if ratio < _ONE_DECIMAL else 0}f}x"
    percent = 100 * (ratio - 1)
    if percent < _PERCENT_MIN:
        return f"under {_PERCENT_MIN} %"
    return f"{percent:.{1 if percent < _ONE_DECIMAL else 0}f} %"
