"""Plots in text: rows of signs within axes, on logarithmic scales."""

import math
from collections.abc import Mapping, Sequence

_LABEL = 8
_BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of a braille character's dots: two columns, lowest dot first."""


AXES = _UPRIGHT, _CORNER, _LEVEL, _TICK = "│└─┴"
"""The signs of the axes; a tick is on the level one."""


def columns_in(width: int) -> int:
    """Return the columns of a plot that takes `width` cells with its labels."""
    return max(10, width - _LABEL - 2)


def cell_of(value: float, low: float, high: float, cells: int) -> int:
    """Return the cell of a value on a scale from `low` to `high`, negative below it; the middle of an empty scale."""
    return round((math.log(value / low) / math.log(high / low) if high > low else 0.5) * (cells - 1))


def value_at(cell: float, low: float, high: float, cells: int) -> float:
    """Return the value of a cell on a scale from `low` to `high`."""
    return low * math.pow(high / low, cell / (cells - 1))


def dotted(heights: Sequence[int], rows: int) -> list[list[str]]:
    """Return the rows of a rising line in dots, two by four to a cell; a negative height is below the rows."""
    bits = [[0] * (len(heights) // 2) for _ in range(rows)]
    before = heights[0]
    for column, height in enumerate(heights):
        # Fill the gaps of a steep slope.
        for dot in range(max(0, min(height, before + 1)), height + 1):
            bits[dot // 4][column // 2] |= _DOTS[column % 2][dot % 4]
        before = height
    return [[chr(_BRAILLE + each) if each else " " for each in row] for row in reversed(bits)]


def framed(rows: Sequence[Sequence[str]], labels: Mapping[int, str], ticks: Sequence[tuple[int, str]]) -> str:
    """Return the rows of a plot, top first, within axes.

    `labels` are texts beside rows. `ticks` are columns with texts below them: the left end, marked ones, the right end.
    A text between the ends is left out if it has no room.
    """
    (_, feet), *marked, (_, right) = ticks
    width = len(rows[0])
    level = [_LEVEL] * width
    for column, text in marked:
        level[column] = _TICK
        begin = max(column - len(text) // 2, len(feet) + 1)
        if begin + len(text) + len(right) < width:
            feet = f"{feet:<{begin}}{text}"
    lines = [f"{labels.get(number, ''):>{_LABEL}} {_UPRIGHT}{''.join(row)}".rstrip() for number, row in enumerate(rows)]
    margin = " " * _LABEL
    feet += f"{right:>{max(len(right) + 1, width - len(feet))}}" if right else ""
    return "\n".join([*lines, f"{margin} {_CORNER}{''.join(level)}", f"{margin}  {feet}"])
