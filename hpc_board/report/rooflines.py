"""The roofline of a run: its benchmarks below the peak of their device, as a plot and as a table.

The roof is limited by memory at few operations per byte, by arithmetic at many.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hpc_board.domain.comparison import LeaderRun
from hpc_board.model.peaks import Peak, Work, share_of_peak
from hpc_board.model.result import Result, Verdict, device_peak
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Column, Paragraph, Tone, table
from hpc_board.report.formatting import amount_text
from hpc_board.report.plots import Axis, Kind, Plot, Series, text_plot
from hpc_board.report.run_words import short_specs

OWN, BEST, REFERENCE = "●", "◆", "○"
"""The signs of the points: this run, rank 1 of its board, the task's reference."""

_TONES = {REFERENCE: Tone.PLAIN, BEST: Tone.GOOD, OWN: Tone.STRONG}
"""The tones of the points in drawing order: the run's own points are on top."""

_ROWS_MIN, _ROWS_MAX = 5, 40
_BESIDE_PLOT = 8
"""The lines of the report that are neither the plot's nor those of the cases."""

_WITHOUT_POINTS = "The task states only bytes or only operations: the shares are of that peak alone, and have no plot."

_LEAST, _MOST = 1e-6, 1e60
"""Bounds of operations per byte and per second that all tasks and devices are within."""


class Measured(msgspec.Struct, frozen=True):
    """A benchmark case: the least work of a right call, and the times of calls by sign."""

    number: int
    spec: str
    work: Work
    times_ns: Mapping[str, float]


def measured(result: Result, best: LeaderRun | None = None) -> tuple[Measured, ...]:
    """Return the timed cases with known least work, with the best run's times of the same cases."""
    others = {(case.index, case.spec): case for case in best.cases if case.phase != "test"} if best else {}
    found = []
    for case in result.cases:
        if case.phase == "test" or case.timing is None or case.work is None or case.verdict is not Verdict.PASS:
            continue
        other = others.get((case.index, case.spec))
        times = {
            OWN: case.timing.time_ns,
            BEST: other.timing.time_ns if other and other.timing else None,
            REFERENCE: case.timing.reference_ns,
        }
        known = {sign: time for sign, time in times.items() if time is not None and time > 0}
        if OWN in known and max(case.work.memory_bytes, case.work.operations) > 0:
            found.append(Measured(case.index + 1, case.spec, case.work, known))
    return tuple(found)


def has_roofline(result: Result) -> bool:
    """Return whether the peaks of the device and the least work of a case are known."""
    return device_peak(result) is not None and bool(measured(result))


def roofline_report(result: Result, best: LeaderRun | None, width: int, height: int) -> tuple[Block, ...]:
    """Return the roofline for a pane of this size; nothing without one, see `has_roofline`."""
    cases, peak = measured(result, best), device_peak(result)
    name = "cpu" if peak is not None and peak.is_measured else "gpu_name"
    device = one_line(str(result.provenance.get(name, "")))
    if peak is None or not cases:
        return ()
    rows = max(_ROWS_MIN, min(_ROWS_MAX, height - _BESIDE_PLOT - len(cases)))
    specs = short_specs(case.spec for case in cases).texts
    shares = table(
        [*zip(cases, specs, strict=True)],
        (Column("#", right=True), lambda row: str(row[0].number)),
        (Column("BOUND"), lambda row: _bound(row[0], peak)),
        (Column("THIS RUN", right=True), lambda row: _share(row[0], peak, OWN)),
        (Column(best.name.upper() if best else "", right=True, optional=True), lambda row: _share(row[0], peak, BEST)),
        (Column("REFERENCE", right=True, optional=True), lambda row: _share(row[0], peak, REFERENCE)),
        (Column("CASE", flexible=True), lambda row: row[1]),
    )
    plot = roofline_plot(cases, peak, best)
    if plot is None:
        return Paragraph(f"{device}: {', '.join(_ceilings(peak))}"), Paragraph(_WITHOUT_POINTS), shares
    return Paragraph(device), text_plot(plot, width, rows), shares


def roofline_plot(cases: Sequence[Measured], peak: Peak, best: LeaderRun | None) -> Plot | None:
    """Return the roof and the points; None without points.

    The horizontal axis is operations per byte, the vertical one operations per second, both logarithmic.
    """
    points = {sign: tuple(_points(cases, sign)) for sign in _TONES}
    intensities = [intensity for found in points.values() for intensity, _ in found]
    rates = [rate for found in points.values() for _, rate in found]
    if not rates:
        return None
    ridge = peak.operations / peak.memory_bytes
    left, right = min(ridge, *intensities) / 2, max(ridge, *intensities) * 8
    low, high = min(left * peak.memory_bytes, *rates) / 1.5, max(peak.operations, *rates)
    # The text of a ceiling is beside its line: a tenth of the height above the level one, and below the other.
    beside = (high / low) ** 0.1
    high *= beside**2
    middle = math.sqrt(left * ridge)
    memory, arithmetic = _ceilings(peak)
    gaps = tuple((rate, max(rate, min(peak.operations, at * peak.memory_bytes))) for at, rate in points[OWN])
    names = {
        OWN: "this run",
        BEST: one_line(f"{best.name}: {best.user}, run {best.run}") if best else "",
        REFERENCE: "the reference",
    }
    across = Axis.rounded(left, right, _number).ticks
    up = Axis.rounded(low, high, lambda rate: amount_text(rate).strip()).ticks
    return Plot(
        "",
        Axis(left, right, ((left, ""), *across, (right, "op/byte")), is_log=True),
        Axis(low, high, (*up, (low, "op/s")), is_log=True),
        (
            Series(Kind.INTERVALS, points[OWN], Tone.QUIET, is_dotted=True, bounds=gaps),
            Series(Kind.LINE, ((left, left * peak.memory_bytes), (ridge, peak.operations), (right, peak.operations))),
            Series(Kind.POINTS, ((middle, middle * peak.memory_bytes / beside),), Tone.QUIET, sign=memory),
            Series(Kind.POINTS, ((ridge, peak.operations * beside),), Tone.QUIET, sign=arithmetic),
            *(Series(Kind.POINTS, points[sign], _TONES[sign], names[sign], sign) for sign in _TONES if points[sign]),
        ),
    )


def _points(cases: Sequence[Measured], sign: str) -> Iterator[tuple[float, float]]:
    """Yield the operations per byte and per second of the cases that have both."""
    for case in cases:
        if case.work.memory_bytes > 0 and sign in case.times_ns:
            point = case.work.operations / case.work.memory_bytes, case.work.operations / case.times_ns[sign] * 1e9
            # A logarithmic scale has no place for zero or absurd values; the table has their shares.
            if min(point) >= _LEAST and max(point) <= _MOST:
                yield point


def _ceilings(peak: Peak) -> tuple[str, str]:
    return f"{amount_text(peak.memory_bytes)}B/s of memory", f"{amount_text(peak.operations)}op/s of arithmetic"


def _bound(case: Measured, peak: Peak) -> str:
    share = share_of_peak(case.work, peak, 1.0)
    return share.resource if share else ""


def _share(case: Measured, peak: Peak, sign: str) -> str:
    time_ns = case.times_ns.get(sign)
    share = share_of_peak(case.work, peak, time_ns) if time_ns is not None else None
    if share is None:
        return ""
    percent = 100 * share.share
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"
