"""A chart of a board's best time over the days, as SVG that says the same in words."""

import math
from collections.abc import Sequence
from datetime import date

from hpc_board.model.score import duration_text
from hpc_board.model.text import one_line
from hpc_board.store.export import Best
from hpc_board.web.rendering import template

_WIDTH, _HEIGHT = 400, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 24
_TICKS_MAX = 5
_LOGARITHMIC_FROM = 20
"""From which ratio of the first time to the last on the steps of a linear scale could not be told apart."""


def records(days: Sequence[Best]) -> list[Best]:
    """Return those of the days' bests that were the best time so far."""
    found: list[Best] = []
    for best in days:
        if not found or best.score_s < found[-1].score_s:
            found.append(best)
    return found


def chart(found: Sequence[Best], until: date) -> str:
    """Draw the steps of the `records` to the day `until` as SVG; return "" for fewer than two."""
    if len(found) < 2:
        return ""
    first, last = found[0].day, max(until, found[-1].day)
    scale = _Scale(found[-1].score_s, found[0].score_s)

    def x(day: date) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (day - first).days / max(1, (last - first).days)

    def y(score_s: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - scale.share(score_s))

    path = f"M{x(first):.1f} {y(found[0].score_s):.1f}"
    path += "".join(f"H{x(best.day):.1f}V{y(best.score_s):.1f}" for best in found[1:])
    return template("chart.svg").render(
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        words=f"Best time: {_time(found[0])} on {first}, {_time(found[-1])} since {found[-1].day}",
        ticks=[(y(tick), duration_text(tick * 1e9)) for tick in scale.ticks()],
        path=f"{path}H{x(last):.1f}",
        points=[
            (x(best.day), y(best.score_s), f"{_time(best)} by {one_line(best.user)}, {best.day}") for best in found
        ],
        ends=[(x(first), "start", first), (x(last), "end", last)],
    )


def _time(best: Best) -> str:
    return duration_text(best.score_s * 1e9)


class _Scale:
    """A scale that maps times from `low` to `high` into 0 to 1, with a margin above and below."""

    def __init__(self, low: float, high: float) -> None:
        self._logarithmic = high / low > _LOGARITHMIC_FROM
        ends = (self._of(low), self._of(high))
        room = 0.08 * (ends[1] - ends[0])
        self._low, self._high = ends[0] - room, ends[1] + room

    def share(self, score_s: float) -> float:
        return (self._of(score_s) - self._low) / (self._high - self._low)

    def ticks(self) -> list[float]:
        """Return some round numbers between the ends, in ascending order."""
        return self._decades() if self._logarithmic else self._even()

    def _of(self, score_s: float) -> float:
        return math.log10(score_s) if self._logarithmic else score_s

    def _decades(self) -> list[float]:
        first, last = math.floor(self._low), math.ceil(self._high)
        step = max(1, math.ceil((last - first) / _TICKS_MAX))
        return [10.0**power for power in range(first, last + 1, step) if self._low <= power <= self._high]

    def _even(self) -> list[float]:
        rough = (self._high - self._low) / _TICKS_MAX
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
        numbers = range(math.ceil(self._low / step), math.floor(self._high / step) + 1)
        return [number * step for number in numbers if number > 0]
