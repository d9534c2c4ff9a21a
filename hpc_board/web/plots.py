"""Plots as SVG: within a page, which has the style, or alone as a file."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from hpc_board.report.plots import FILLED, LOG_SCALE, Axis, Kind, Plot, Series
from hpc_board.web.rendering import asset, template

_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 12, 12, 24
_LINE = 20
_LETTER = 6.5
"""The usual width of a letter."""

_BAR_SHARE = 0.8

_Circle = tuple[float, float, str]
_Bar = tuple[float, float, float, float, str, str]


def svg(plot: Plot, width: int = 400, height: int = 170, *, is_alone: bool = False) -> str:
    """Return a plot as SVG of this size; one that `is_alone` brings its title and its style, light and dark."""
    named = [each for each in reversed(plot.series) if each.name]
    head = _TOP + _LINE * int(is_alone)
    legend = [*_legend(named, head + 8, width)] if len(named) > 1 else []
    top = legend[-1][1] + _LINE - 8 if legend else head
    bottom = height - _BOTTOM - (_LINE if plot.across.title else 0)
    frame = _Frame(plot, width, top, bottom)
    return template("plot.svg").render(
        width=width,
        height=height,
        left=_LEFT,
        below=bottom + 18,
        middle=(top + bottom) / 2,
        titles=(plot.across.title, plot.up.title),
        right=width - _RIGHT,
        words=plot.words,
        title=plot.title,
        style=asset("plot.css") if is_alone else "",
        legend=legend,
        rows=[(frame.y(value), text) for value, text in plot.up.ticks],
        scale=LOG_SCALE if plot.up.is_log else "",
        columns=[*_texts(plot.across, width)],
        series=[frame.drawn(each) for each in plot.series],
    )


class _Frame:
    """The places of a plot's values within its axes."""

    def __init__(self, plot: Plot, width: int, top: int, bottom: int) -> None:
        self._plot, self._top, self._bottom = plot, top, bottom
        self._columns = width - _LEFT - _RIGHT
        places = sorted(x for each in plot.series if each.kind is Kind.BARS for x, _ in each.points)
        gaps = [self.x(after) - self.x(before) for before, after in pairwise(places)]
        self._bar = _BAR_SHARE * min(gaps, default=self._columns)

    def x(self, value: float) -> float:
        return _LEFT + self._columns * self._plot.across.share(value)

    def y(self, value: float) -> float:
        return self._bottom - (self._bottom - self._top) * max(0.0, min(1.0, self._plot.up.share(value)))

    def drawn(self, series: Series) -> tuple[str, str, list[_Circle], list[_Bar]]:
        """Return the class of a series, its path, its circles and its bars."""
        points = [(self.x(x), self.y(y)) for x, y in series.points]
        path = ""
        circles: list[_Circle] = []
        bars: list[_Bar] = []
        match series.kind:
            case Kind.POINTS:
                circles = [(x, y, text) for (x, y), text in zip(points, series.texts, strict=True)]
            case Kind.BARS:
                bars = [*self._bars(series)]
            case Kind.INTERVALS:
                path = "".join(
                    f"M{x:.1f} {self.y(low):.1f}V{self.y(high):.1f}"
                    for (x, _), (low, high) in zip(points, series.bounds, strict=True)
                )
            case Kind.LINE:
                path = f"M{_line(points)}"
            case Kind.STEPS:
                (x, y), *others = points
                path = f"M{x:.1f} {y:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in others)
        return _class(series), path, circles, bars

    def _bars(self, series: Series) -> Iterator[_Bar]:
        for index, ((x, y), text) in enumerate(zip(series.points, series.texts, strict=True)):
            middle, top, interval = self.x(x), self.y(y), ""
            # An unknown interval would look like a narrow one.
            if series.bounds and len(set(series.bounds[index])) > 1:
                low, high = map(self.y, series.bounds[index])
                ends = "".join(f"M{middle - 4:.1f} {end:.1f}h8" for end in (low, high))
                interval = f"M{middle:.1f} {low:.1f}V{high:.1f}{ends}"
            yield middle - self._bar / 2, top, self._bar, self._bottom - top, interval, text


def _line(points: Iterable[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _class(series: Series) -> str:
    dotted, filled = (" dotted" if series.is_dotted else ""), (" filled" if series.sign == FILLED else "")
    return f"{series.kind} {series.tone}{dotted}{filled}"


def _legend(named: Iterable[Series], y: int, width: int) -> Iterator[tuple[float, int, str, bool, str]]:
    """Yield the place, the class, whether it is a line, and the text of each name, in lines from the left."""
    x = float(_LEFT)
    for each in named:
        wide = 18 + _LETTER * len(each.name)
        if x + wide > width:
            x, y = _LEFT, y + _LINE
        yield x, y, _class(each), each.kind in (Kind.LINE, Kind.STEPS, Kind.INTERVALS), each.name
        x += wide + 16


def _texts(across: Axis, width: int) -> Iterator[tuple[float, str]]:
    """Yield the middle and the text of each tick that has room; the ends stay within the axes."""
    end = 0.0
    for value, text in across.ticks:
        half = _LETTER * len(text) / 2
        x = _LEFT + (width - _LEFT - _RIGHT) * across.share(value)
        x = max(_LEFT + half, min(x, width - _RIGHT - half))
        if text and x - half > end:
            yield x, text
            end = x + half + _LETTER
