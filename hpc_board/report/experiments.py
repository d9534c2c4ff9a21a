"""An experiment as blocks: the trajectories of both sides, their differences, and plots of their bests."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import count

from msgspec.structs import replace

from hpc_board.domain.experiment import Best, Experiment, Match, Trajectory
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Heading, Paragraph, Table, Tone, table
from hpc_board.report.formatting import count_text, score_text, speedup_text
from hpc_board.report.plots import FILLED, HOLLOW, Axis, Kind, Plot, Series, plot_block

_PLOT_COLUMNS = 78
_PLOT_ROWS = 9
_TICKS = 5
_RUNS_MAX = 10
"""The runs up to which each one has a tick."""

_POINTS_MAX = 400
_SECONDS_MAX = 120
_MINUTES_MAX = 180
_BOARDS_MIN = 3
"""The boards from which on the report has the interval of their mean: that of two may be 0 to millions."""

_TONES = Tone.PLAIN, Tone.GOOD

_Points = tuple[tuple[float, float], ...]


class Over(StrEnum):
    """The axis of a plot of bests: the runs so far, or the time since the first submission."""

    RUNS = "runs"
    TIME = "time"

    def bests(self, trajectory: Trajectory) -> tuple[Best, ...]:
        """Return the bests of a trajectory in the order of the axis."""
        return trajectory.by_runs if self is Over.RUNS else trajectory.by_time

    def place(self, best: Best) -> float:
        """Return the place of a best on the axis."""
        return float(best.runs) if self is Over.RUNS else best.seconds

    def end(self, trajectory: Trajectory) -> float:
        """Return the end of a trajectory on the axis."""
        return float(trajectory.runs) if self is Over.RUNS else trajectory.seconds


def experiment_report(found: Experiment) -> tuple[Block, ...]:
    """Return an experiment: bests over runs and time, trajectories, differences with intervals, and pass@k."""
    plots = [plot for over in Over if (plot := experiment_plot(found, over))]
    return (
        Heading(f"{found.names[0]} vs. {found.names[1]}: {count_text(len(found.matches), 'board')}"),
        *(plot_block(plot, _PLOT_COLUMNS, _PLOT_ROWS) for plot in plots),
        _trajectories_table(found),
        *_difference_blocks(found),
        *_pass_blocks(found),
    )


def _trajectories_table(found: Experiment) -> Table:
    rows = [(match, trajectory) for match in found.matches for trajectory in match.trajectories]
    return table(
        rows,
        (Column("TASK", flexible=True, least=12), lambda row: one_line(row[0].task)),
        (Column("GPU", flexible=True), lambda row: one_line(row[0].gpu)),
        (Column("SIDE", flexible=True, least=10), lambda row: row[1].name),
        (Column("RUNS", right=True), lambda row: str(row[1].runs)),
        (Column("FILES", right=True), lambda row: str(row[1].files)),
        (Column("PASSED", right=True), lambda row: str(row[1].passed)),
        (Column("BEST", right=True, stays=True), lambda row: score_text(row[1].best.score_s if row[1].best else None)),
        (Column("AT RUN", right=True), lambda row: str(row[1].best.runs) if row[1].best else ""),
        (Column("AFTER", right=True), lambda row: _seconds(row[1].by_time[-1].seconds) if row[1].by_time else ""),
    )


def _seconds(seconds: float) -> str:
    """Return a time: "90 s", "72 min", "5.2 h"."""
    unit_seconds, unit = _unit(seconds)
    return f"{seconds / unit_seconds:.{1 if unit == 'h' else 0}f} {unit}"


def _difference_blocks(found: Experiment) -> Iterator[Block]:
    one, other = found.names
    matches = [match for match in found.matches if match.difference is not None]
    if not matches or (mean := found.mean) is None:
        yield Paragraph("No board has a time of both; only runs in mode benchmark or ranked have one.")
        return
    yield table(
        [(match, match.difference) for match in matches if match.difference is not None],
        (Column("TASK", flexible=True, least=12), lambda row: one_line(row[0].task)),
        (Column("GPU", flexible=True), lambda row: one_line(row[0].gpu)),
        (Column("SPEEDUP", right=True, stays=True), lambda row: speedup_text(row[1].speedup)),
        (Column("CHANGE", flexible=True, least=14, wraps=True), lambda row: row[1].text),
    )
    intervals = [match.difference.spread is not None for match in matches if match.difference is not None]
    interval = "CHANGE has its 95 % confidence interval" if any(intervals) else "few samples give no interval"
    yield Paragraph(f"SPEEDUP is that of {other} over {one}; {interval}.", Tone.QUIET)
    if mean.boards > 1:
        bounds = f"{speedup_text(mean.speedup_low)} to {speedup_text(mean.speedup_high)}, 95 % confidence interval"
        yield Paragraph(
            f"Geometric mean of {mean.boards} boards: {other} is {speedup_text(mean.speedup)} as fast as {one} "
            f"({'too few boards for an interval' if mean.boards < _BOARDS_MIN else f'{bounds} over boards'})."
        )


def _pass_blocks(found: Experiment) -> Iterator[Block]:
    if passes := found.pass_at_k:
        yield table(
            [0, 1],
            (Column("SIDE", flexible=True, least=10), lambda side: found.names[side]),
            *((Column(f"PASS@{each.k}", right=True), _percent_of(each.rates)) for each in passes),
        )
        yield Paragraph("PASS@k is the chance that one of k files passes, estimated from all files.", Tone.QUIET)


def _percent_of(rates: tuple[float, float]) -> Callable[[int], str]:
    return lambda side: f"{100 * rates[side]:.0f} %"


def experiment_plot(found: Experiment, over: Over) -> Plot | None:
    """Return the best score so far of both sides; over several boards, the geometric mean relative to the best of both.

    It has the boards on which both have a time, and is None without one.
    """
    matches = [match for match in found.matches if match.difference is not None]
    if not matches:
        return None
    curves = [_curve(matches, side, over) for side in (0, 1)]
    places, values = ([each[axis] for curve in curves for each in curve] for axis in (0, 1))
    text = score_text if len(matches) == 1 else lambda ratio: f"{ratio:.2f}x"
    where = (
        f"{one_line(matches[0].task)} on {one_line(matches[0].gpu)}"
        if len(matches) == 1
        else f"relative to the best of both, mean of {len(matches)} boards"
    )
    series = []
    # The first side is drawn last: the legend has it first, and its dots do not hide the other's line.
    for curve, name, tone in reversed([*zip(curves, found.names, _TONES, strict=True)]):
        sign = FILLED if tone is Tone.GOOD else HOLLOW
        lower = tuple(point for index, point in enumerate(curve) if index == 0 or point[1] < curve[index - 1][1])
        told = tuple(f"{name}: {text(value)}, {_place_text(place, over)}" for place, value in lower)
        series += [
            Series(Kind.STEPS, curve, tone, name, sign, is_dotted=sign == HOLLOW),
            Series(Kind.POINTS, lower, tone, sign=sign, texts=told),
        ]
    ends = [f"{name} {text(curve[-1][1])}" for name, curve in zip(found.names, curves, strict=True)]
    across = _across(min(0.0, *places) if over is Over.TIME else 1.0, max(places), over)
    up = Axis.rounded(min(values), max(values), text)
    return Plot(
        f"Best score over {over}, {where}",
        replace(across, title="runs" if over is Over.RUNS else "time since the first submission"),
        replace(up, title="best score" if len(matches) == 1 else "relative score"),
        tuple(series),
        f"Best score over {over}, {where}: {', '.join(ends)}",
    )


def _across(low: float, high: float, over: Over) -> Axis:
    high = max(high, low + 1)
    if over is Over.TIME:
        return _over_time(low, high)
    count_of_ticks = _TICKS if high - low >= _RUNS_MAX else round(high - low) + 1
    numbers = sorted({round(low + (high - low) * index / (count_of_ticks - 1)) for index in range(count_of_ticks)})
    return Axis(low, high, tuple((float(number), f"run {number}") for number in numbers))


def _over_time(low: float, high: float) -> Axis:
    """Return an axis of time in the unit of its end, with ticks at round steps, the last one at or after the end."""
    unit_seconds, unit = _unit(high)
    steps = (digit * 10**power for power in count(-1) for digit in (1, 2, 5))
    step = next(step for step in steps if step * unit_seconds * _TICKS >= high - low)
    first = math.floor(low / (step * unit_seconds))
    last = math.ceil(high / (step * unit_seconds))
    ticks = tuple((each * step * unit_seconds, f"{each * step:g} {unit}") for each in range(first, last + 1))
    return Axis(ticks[0][0], ticks[-1][0], ticks)


def _unit(seconds: float) -> tuple[float, str]:
    """Return the unit of a time, in seconds and as a word."""
    if seconds < _SECONDS_MAX:
        return 1, "s"
    return (60, "min") if seconds < _MINUTES_MAX * 60 else (3600, "h")


def _place_text(place: float, over: Over) -> str:
    return f"run {place:.0f}" if over is Over.RUNS else f"after {_seconds(place)}"


def _curve(matches: Sequence[Match], side: int, over: Over) -> _Points:
    """Return the steps of a side: its best on a single board, or the mean of those relative to the best of both."""
    trajectories = [match.trajectories[side] for match in matches]
    leads = [min(each.best.score_s for each in match.trajectories if each.best) for match in matches]
    if len(matches) == 1:
        leads = [1.0]
    bests = [over.bests(trajectory) for trajectory in trajectories]
    begin = max(over.place(each[0]) for each in bests)
    places = sorted({begin, *(over.place(best) for each in bests for best in each if over.place(best) > begin)})
    step = -(-len(places) // _POINTS_MAX)
    points = []
    for place in places[::step]:
        held = [[best for best in each if over.place(best) <= place][-1].score_s for each in bests]
        logs = [math.log(score_s / lead) for score_s, lead in zip(held, leads, strict=True)]
        points.append((place, math.exp(statistics.fmean(logs))))
    end = max(begin, *(over.end(trajectory) for trajectory in trajectories))
    last = math.exp(
        statistics.fmean(math.log(each[-1].score_s / lead) for each, lead in zip(bests, leads, strict=True))
    )
    return (*points, (end, last))
