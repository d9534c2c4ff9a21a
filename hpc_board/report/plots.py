"""Plots: axes with series of lines, intervals, points and bars, drawn in text here and as SVG in `web.plots`."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby, pairwise

import msgspec

from hpc_board.report.blocks import Log, Paragraph, Tone

_LABEL = 8
_UPRIGHT, _CORNER, _LEVEL, _TICK = "│└─┴"
_BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of a braille character's dots: two columns, lowest dot first."""

FILLED, HOLLOW = "●", "○"
"""The signs of points in text: of filled ones, and of others beside them."""

LOG_SCALE = "log scale"
"""The text beside the corner of the axes if the upright one is logarithmic."""

_LEAST_RANGE = 1.2
_POINT = "·"
"""The sign of a line's cell on a terminal without braille."""

_STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
"""The round values of a decade, from the coarsest scale on."""

_TICKS_MIN = 3
"""The least ticks for which a coarser scale is taken."""

_BLOCKS = " ▁▂▃▄▅▆▇█"

_Part = tuple[str, Tone]
_Place = tuple[float, float]


class Kind(StrEnum):
    """The form of a series: points joined by a line or by steps, intervals, points, or upright bars."""

    LINE = "line"
    STEPS = "steps"
    INTERVALS = "intervals"
    POINTS = "points"
    BARS = "bars"


class Axis(msgspec.Struct, frozen=True):
    """A linear or logarithmic scale between two values, with texts at some of them.

    Those of a level axis have its ends first and last. SVG has its `title`, if it has one; in text the title of the
    plot has to say as much.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    is_log: bool = False
    title: str = ""

    def share(self, value: float) -> float:
        """Return the place of a value on the scale, 0 at its low end and 1 at the high one; 0.5 on an empty scale."""
        if self.high <= self.low:
            return 0.5
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @classmethod
    def rounded(cls, low: float, high: float, text: Callable[[float], str]) -> "Axis":
        """Return a logarithmic scale with ticks at round values, each with another text.

        Its ends are at least a fifth apart: a change of one percent is no cliff.
        """
        if low < high < _LEAST_RANGE * low:
            wider = math.sqrt(_LEAST_RANGE * low / high)
            low, high = low / wider, high * wider
        ticks = {text(value): value for value in _round_values(low, high)}
        return cls(low, high, tuple((value, each) for each, value in ticks.items()), is_log=True)


def _round_values(low: float, high: float) -> list[float]:
    """Return round values from `low` to `high`: steps of decades, finer ones on a short scale, linear on a shorter."""
    if high <= low:
        return [low]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    for steps in _STEPS:
        every = (float(f"{step}e{decade}") for decade in decades for step in steps)
        values = [value for value in every if low <= value <= high]
        if len(values) >= _TICKS_MIN:
            return values
    most = (high - low) / 2
    decade = math.floor(math.log10(most))
    # The logarithm of a value just below a power of ten is rounded to that of the power.
    step = max(value for value in (float(f"{each}e{decade}") for each in (0.5, 1, 2, 5)) if value <= most)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step) + 1)]


class Series(msgspec.Struct, frozen=True):
    """Points in the order of their first numbers, drawn as one form in one tone.

    Attributes:
        name: the text in the legend, empty to be left out there.
        sign: the sign or the word at its points in text, and the sign of a line in the legend; empty for dots in
            braille. The points with `FILLED` are filled in SVG too.
        is_dotted: True for a line that differs from others without colours.
        bounds: the lower and upper bound of each point of intervals or bars.
        texts: the descriptions of points or bars, which a browser shows.
    """

    kind: Kind
    points: tuple[_Place, ...]
    tone: Tone = Tone.PLAIN
    name: str = ""
    sign: str = ""
    is_dotted: bool = False
    bounds: tuple[_Place, ...] = ()
    texts: tuple[str, ...] = ()


class Plot(msgspec.Struct, frozen=True):
    """A plot; each series is drawn over those before it. `words` tell its message to readers who cannot see it."""

    title: str
    across: Axis
    up: Axis
    series: tuple[Series, ...]
    words: str = ""


def columns_in(width: int) -> int:
    """Return the columns of a plot that takes `width` cells with its labels."""
    return max(10, width - _LABEL - 2)


def _has_braille() -> bool:
    """Return whether this process's terminal shows braille: a console of Linux and an encoding without it do not."""
    encoding = sys.__stdout__.encoding if sys.__stdout__ else "utf-8"
    return os.environ.get("TERM") != "linux" and encoding.lower().startswith("utf")


def text_plot(plot: Plot, width: int, height: int) -> Log:
    """Return the plot in lines of `width` cells, `height` of them above the axis.

    Lines are of dots in braille; on a terminal without braille they are of points, and intervals are left out.
    """
    braille = _has_braille()
    columns = columns_in(width)
    bars = max((len(each.points) for each in plot.series if each.kind is Kind.BARS), default=1)
    columns -= columns % min(bars, columns)
    cells: list[list[_Part]] = [[(" ", Tone.PLAIN)] * columns for _ in range(height)]
    for series in plot.series:
        for row, column, sign in _signs(series, plot, columns, height, braille=braille):
            if 0 <= row < height and 0 <= column < columns:
                line = cells[height - 1 - row]
                line[column] = _over(line[column][0], sign), series.tone
    labels = {height - 1 - _row(plot, value, height, braille=braille): text for value, text in plot.up.ticks}
    rows: list[list[_Part]] = [
        [(f"{labels.get(number, '')[:_LABEL]:>{_LABEL}} ", Tone.PLAIN), (_UPRIGHT, Tone.QUIET), *_parts(row)]
        for number, row in enumerate(cells)
    ]
    ticks = [(round(plot.across.share(value) * (columns - 1)), text) for value, text in plot.across.ticks]
    drawn = [each for each in plot.series if each.name and (braille or each.kind is not Kind.INTERVALS)]
    legend = [f"{_key(each, braille=braille)} {each.name}" for each in reversed(drawn)]
    return _log(
        ": ".join(filter(None, (plot.title, "   ".join(legend)))),
        [*rows, *_foot(ticks, columns, LOG_SCALE if plot.up.is_log else "")],
    )


def plot_block(plot: Plot, width: int, height: int) -> Log | Paragraph:
    """Return the plot in text, or its words if all points are at one place of the level axis."""
    places = {x for series in plot.series for x, _ in series.points}
    return text_plot(plot, width, height) if len(places) > 1 else Paragraph(plot.words)


def _log(title: str, lines: Iterable[Sequence[_Part]]) -> Log:
    text, tones = "", []
    for parts in lines:
        for part, tone in parts:
            if tone is not Tone.PLAIN:
                tones.append((len(text), len(text) + len(part), tone))
            text += part
        text += "\n"
    return Log(title, text.rstrip("\n"), tuple(tones))


def _parts(row: Sequence[_Part]) -> Iterator[_Part]:
    """Join neighbours of the same tone, without the blanks at the end."""
    width = max((index + 1 for index, (sign, _) in enumerate(row) if sign != " "), default=0)
    for tone, cells in groupby(row[:width], lambda cell: cell[1]):
        yield "".join(sign for sign, _ in cells), tone


def _foot(ticks: Sequence[tuple[int, str]], columns: int, scale: str) -> Iterator[list[_Part]]:
    """Yield the level axis beside the word on the upright one's scale, and the texts below it.

    A text between the ends is left out if it has no room.
    """
    (_, feet), *marked, (_, right) = ticks
    level = [_LEVEL] * columns
    for column, text in marked:
        level[column] = _TICK
        begin = max(column - len(text) // 2, len(feet) + 1)
        if begin + len(text) + len(right) < columns:
            feet = f"{feet:<{begin}}{text}"
    yield [(f"{scale:>{_LABEL + 1}}{_CORNER}{''.join(level)}", Tone.QUIET)]
    feet += f"{right:>{max(len(right) + 1, columns - len(feet))}}" if right else ""
    yield [(f"{'':{_LABEL + 2}}{feet}", Tone.PLAIN)]


def _key(series: Series, *, braille: bool) -> str:
    """Return the sign of a series in the legend."""
    if series.kind is Kind.INTERVALS:
        return "⡇"
    return series.sign or (("⠂⠂" if series.is_dotted else "⠒⠒") if braille else _POINT)


def _signs(series: Series, plot: Plot, columns: int, height: int, *, braille: bool) -> Iterator[tuple[int, int, str]]:
    """Yield the signs of a series by row from the lowest on, and by column."""
    if series.kind is Kind.BARS:
        wide = columns // len(series.points)
        for index, (_, value) in enumerate(series.points):
            # A bar of any length is always visible.
            eighths = max(1, round(8 * height * plot.up.share(value))) if value > plot.up.low else 0
            for row in range(-(-eighths // 8)):
                # Bars of several cells have a gap between them.
                for column in range(index * wide, (index + 1) * wide - (wide > 1)):
                    yield row, column, _BLOCKS[min(8, eighths - 8 * row)]
        return
    beside, above = (2, 4) if braille else (1, 1)
    if series.sign and series.kind is Kind.POINTS:
        for x, y in series.points:
            column = round(plot.across.share(x) * (columns * beside - 1)) // beside
            for place, sign in enumerate(series.sign, min(column, columns - len(series.sign))):
                yield _row(plot, y, height, braille=braille), place, sign
        return
    if series.kind is Kind.INTERVALS and not braille:
        return
    dots = [(row, column) for column, rows in _columns(series, plot, columns * beside, height * above) for row in rows]
    for row, column in dots[:: 2 if series.is_dotted and braille else 1]:
        yield row // above, column // beside, chr(_BRAILLE + _DOTS[column % 2][row % 4]) if braille else _POINT


def _over(before: str, sign: str) -> str:
    """Return a sign drawn over another one: dots of braille leave those of the lines below."""
    dots = [ord(each) - _BRAILLE for each in (before, sign)]
    return chr(_BRAILLE | dots[0] | dots[1]) if all(0 <= each <= 0xFF for each in dots) else sign


def _row(plot: Plot, value: float, height: int, *, braille: bool) -> int:
    """Return the row of a value, in which a line through it has its dot."""
    above = 4 if braille else 1
    return round(plot.up.share(value) * (height * above - 1)) // above


def _columns(series: Series, plot: Plot, columns: int, height: int) -> Iterator[tuple[int, range]]:
    """Yield the columns of dots of a line, of points or of intervals, each with the rows to fill."""

    def placed(points: Iterable[_Place]) -> list[_Place]:
        # Far beyond the rows, a line of any slope leaves them.
        return [
            (plot.across.share(x) * (columns - 1), max(-height, min(2 * height, plot.up.share(y) * (height - 1))))
            for x, y in points
        ]

    if series.kind is Kind.INTERVALS:
        for (x, _), ends in zip(series.points, series.bounds, strict=True):
            (column, low), (_, high) = placed((x, end) for end in ends)
            # The left dots of a cell, like the sign in the legend.
            yield round(column) // 2 * 2, range(max(0, round(low)), min(height, round(high) + 1))
        return
    if series.kind is Kind.POINTS:
        for column, row in placed(series.points):
            yield round(column), range(round(row), round(row) + 1)
        return
    before = None
    for column, row in sorted(_curve(placed(series.points), steps=series.kind is Kind.STEPS).items()):
        last = row if before is None else before
        # Fill the gaps of a steep slope.
        yield column, range(max(0, min(row, last + 1)), min(height, max(row, last - 1) + 1))
        before = row


def _curve(places: Sequence[_Place], *, steps: bool = False) -> dict[int, int]:
    """Return the row of each column from the first to the last of these places."""
    found: dict[int, int] = {}
    for (x, y), (next_x, next_y) in pairwise(places):
        for column in range(round(x), round(next_x)):
            share = 0 if steps else max(0, min(1, (column - x) / (next_x - x)))
            found[column] = round(y + share * (next_y - y))
    x, y = places[-1]
    found[round(x)] = round(y)
    return found
