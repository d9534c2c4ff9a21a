"""The roofline plot of a run's benchmarks, drawn in characters.

The roof over a case is the peak rate of its device: limited by memory at few operations per byte, by arithmetic at
many.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from hpc_board.domain.comparison import LeaderRun
from hpc_board.model.peaks import Peak, Work, share_of_peak
from hpc_board.model.result import Result, Verdict, device_peak
from hpc_board.model.text import printable
from hpc_board.report.run_words import short_specs
from hpc_board.tui.formatting import listing
from hpc_board.tui.palette import Tone, empty_text, toned

OWN, BEST, REFERENCE = "o", "b", "r"
"""The signs of the points: this run, the best run of its board, the task's reference."""

_TONES = {REFERENCE: Tone.WAITING, BEST: Tone.GOOD, OWN: Tone.OWN}
"""The tones of the points in drawing order: the run's own points are on top."""

_NAMES = {OWN: "this run", BEST: "the best", REFERENCE: "the reference"}
_LABEL = 9
_ROWS_MIN, _ROWS_MAX = 5, 18
_AXIS_LINES = 2
_LEAST, _MOST = 1e-6, 1e60
"""Bounds of operations per byte and per second that all tasks and devices are within."""

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_NUMBERS_MAX = 8
_BRAILLE = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""The bits of a braille character's dots: two columns, lowest dot first."""


class Measured(msgspec.Struct, frozen=True):
    """A benchmark case: the least work of a right call, and the times of calls by sign."""

    number: int
    spec: str
    work: Work
    times_ns: Mapping[str, float] = msgspec.field(default_factory=dict)


def measured(result: Result, best: LeaderRun | None) -> tuple[Measured, ...]:
    """Return the timed cases with known least work, with the best run's times of the same cases."""
    others = {(case.index, case.spec): case for case in best.cases if case.phase != "test"} if best else {}
    found = []
    for case in result.cases:
        if case.phase == "test" or case.timing is None or case.work is None or case.verdict is not Verdict.PASS:
            continue
        other = others.get((case.index, case.spec))
        times = {
            OWN: case.timing.median_ns,
            BEST: other.timing.median_ns if other and other.timing else None,
            REFERENCE: case.timing.baseline_ns,
        }
        known = {sign: time for sign, time in times.items() if time is not None and time > 0}
        if OWN in known and max(case.work.memory_bytes, case.work.operations) > 0:
            found.append(Measured(case.index + 1, case.spec, case.work, known))
    return tuple(found)


class RooflinePane(VerticalScroll):
    """The roofline plot of a run's benchmarks, and a summary in words."""

    _cases: tuple[Measured, ...] = ()
    _peak: Peak | None = None
    _best: LeaderRun | None = None
    _device = ""
    _nothing = ""
    _drawn_size = (0, 0)

    def compose(self) -> ComposeResult:
        self.border_title = "Roof"
        yield Static(id="roofline-text", markup=False)

    @property
    def is_empty(self) -> bool:
        return not self._cases or self._peak is None

    def show(self, result: Result | None, best: LeaderRun | None, *, nothing: str) -> None:
        """Show the cases of this result and of the best run, or the reason for their absence."""
        self._cases = measured(result, best) if result is not None else ()
        self._peak = device_peak(result) if result is not None else None
        self._best = best
        self._device = str(result.provenance.get("gpu_name", "")) if result is not None else ""
        self._nothing = nothing if result is None else _missing(result, self._cases, self._device)
        self._draw()

    def _draw(self) -> None:
        text = self.query_one("#roofline-text", Static)
        text.set_class(self.is_empty, "-empty")
        width, height = self._drawn_size = self.size.width, self.size.height
        if self._peak is None or not self._cases:
            text.update(empty_text(f"{self._nothing}\nPress 2 for the cases."))
            return
        text.update(roofline(self._cases, self._peak, self._best, self._device, width - 3, height))

    def on_resize(self, event: events.Resize) -> None:
        del event
        # The layout after this event sets the size of the inner pane.
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        if (self.size.width, self.size.height) != self._drawn_size:
            self._draw()


def roofline(
    cases: Sequence[Measured], peak: Peak, best: LeaderRun | None, device: str, width: int, height: int
) -> RenderableType:
    """Return the plot, the summary and the shares of each case, for a pane of this size."""
    head = Text.assemble(
        toned(device, Tone.STRONG),
        f": {_amount(peak.memory_bytes)}B/s of memory, {_amount(peak.operations)}op/s of arithmetic",
    )
    below = [*words(cases, peak, best), Text(""), *_case_lines(cases, peak)]
    # The plot gets the lines that the text leaves; long lines of the text wrap.
    lines = sum(max(1, math.ceil(line.cell_len / max(1, width))) for line in (head, *below))
    rows = max(_ROWS_MIN, min(_ROWS_MAX, height - lines - _AXIS_LINES - 1))
    return Group(head, *roofline_lines(cases, peak, width, rows), *below)


def roofline_lines(cases: Sequence[Measured], peak: Peak, width: int, height: int) -> list[Text]:
    """Return roofs and points in lines of at most `width` cells, `height` of them for the plot.

    The horizontal axis is operations per byte, the vertical one operations per second, both logarithmic.
    """
    points = [
        (intensity, rate, sign)
        for sign in _TONES
        for case in cases
        if case.work.memory_bytes > 0 and sign in case.times_ns
        for intensity in (case.work.operations / case.work.memory_bytes,)
        for rate in (case.work.operations / case.times_ns[sign] * 1e9,)
        # A logarithmic scale has no place for zero or absurd values; the summary below has them.
        if min(intensity, rate) >= _LEAST and max(intensity, rate) <= _MOST
    ]
    if not points:
        return []
    ridge = peak.operations / peak.memory_bytes
    across = max(10, width - _LABEL - 1)
    intensities = [ridge, *(point[0] for point in points)]
    x = _Axis(min(intensities) / 2, max(intensities) * 8, 2 * across)
    y = _Axis(
        min(point[1] for point in points) / 1.5, max(peak.operations, *(point[1] for point in points)), 4 * height
    )
    dots = [[0] * across for _ in range(height)]
    last = None
    for column in range(2 * across):
        place = y.place(min(peak.operations, x.value(column) * peak.memory_bytes))
        # Fill the gaps of a steep slope.
        for dot in range(min(place, place if last is None else last + 1), place + 1):
            if dot >= 0:
                dots[dot // 4][column // 2] |= _DOTS[column % 2][dot % 4]
        last = max(place, -1)
    signs = {(max(0, y.place(rate)) // 4, x.place(intensity) // 2): sign for intensity, rate, sign in points}
    lines = [
        Text.assemble(
            (f"{_label(row, y, height):>{_LABEL - 1}} │", Tone.MUTED.value),
            *(
                (sign, _TONES[sign].value)
                if (sign := signs.get((row, column)))
                else (chr(_BRAILLE + bits) if bits else " ", Tone.MUTED.value)
                for column, bits in enumerate(dots[row])
            ),
        )
        for row in reversed(range(height))
    ]
    corner = x.place(ridge) // 2
    axis = f"{'op/s':>{_LABEL - 1}} └{'─' * corner}┴{'─' * (across - corner - 1)}"
    return [*lines, Text(axis, Tone.MUTED.value), _ends(x, ridge, corner, across)]


def words(cases: Sequence[Measured], peak: Peak, best: LeaderRun | None) -> Iterator[Text]:
    """Yield the summary: the bound of each case, and its share of the peak."""
    yield Text.assemble(
        *(
            part
            for sign in (OWN, BEST, REFERENCE)
            if any(sign in case.times_ns for case in cases)
            for part in ((f"{sign} ", _TONES[sign].value), f"{_named(sign, best)}   ")
        )
    )
    for resource in ("memory", "arithmetic"):
        below = [case for case in cases if _resource(case, peak) == resource]
        if not below:
            continue
        rate = f"{_amount(peak.memory_bytes)}B/s" if resource == "memory" else f"{_amount(peak.operations)}op/s"
        shares = []
        for sign in (OWN, BEST, REFERENCE):
            found = [share for case in below if (share := _share(case, peak, sign)) is not None]
            if found:
                shares.append(f"{_NAMES[sign]} {_range(found)}")
        yield Text(f"{_cases(below)} {resource} bound: of {rate}, {', '.join(shares)}.")


def _case_lines(cases: Sequence[Measured], peak: Peak) -> Iterator[Text]:
    for case, spec in zip(cases, short_specs(case.spec for case in cases).texts, strict=True):
        line = Text.assemble((f"{case.number:>3} {_resource(case, peak):<11}", Tone.MUTED.value))
        for sign in (OWN, BEST, REFERENCE):
            share = _share(case, peak, sign)
            text = "" if share is None else f"{sign} {_percent(share)}"
            line.append(f"{text:<9}", _TONES[sign].value)
        yield line.append_text(toned(spec, Tone.MUTED))


def _missing(result: Result, cases: Sequence[Measured], device: str) -> str:
    """Return the reason why a result has no plot."""
    if cases:
        return f"No roofline: the peak rates of {printable(device) if device else 'this device'} are unknown."
    timed = [case for case in result.cases if case.phase != "test" and case.timing is not None]
    if not any(case.verdict is Verdict.PASS for case in timed):
        return "No roofline: no benchmark passed."
    return "No roofline: the task's reference defines no `minimal_work`."


class _Axis(msgspec.Struct, frozen=True):
    """A logarithmic scale from `low` to `high` with `dots` dots."""

    low: float
    high: float
    dots: int

    def place(self, value: float) -> int:
        """Return the dot of a value, negative for values below the scale."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(self.dots - 1, math.floor(share * (self.dots - 1) + 0.5))

    def value(self, dot: float) -> float:
        """Return the value of a dot."""
        return self.low * math.pow(self.high / self.low, dot / (self.dots - 1))


def _label(row: int, y: _Axis, height: int) -> str:
    """Return the label of a row: the value of the first, the middle and the last one."""
    if row not in (0, height // 2, height - 1):
        return ""
    return _amount(y.value({0: 0.0, height - 1: y.dots - 1.0}.get(row, 4 * row + 1.5))).strip()


def _ends(x: _Axis, ridge: float, corner: int, across: int) -> Text:
    """Return the labels below the axis: left end, ridge, and right end with the unit."""
    left, middle, right = _number(x.low), _number(ridge), f"{_number(x.high)} op/byte"
    begin = max(corner - len(middle) // 2, len(left) + 1)
    line = f"{left:<{begin}}{middle}"
    if len(line) + 1 + len(right) > across:
        right = "op/byte"
    return Text(f"{'':<{_LABEL + 1}}{line}{right:>{max(len(right) + 1, across - len(line))}}", Tone.MUTED.value)


def _named(sign: str, best: LeaderRun | None) -> str:
    if sign == BEST and best is not None:
        return printable(f"the best: {best.user}, run {best.run}")
    return _NAMES[sign]


def _resource(case: Measured, peak: Peak) -> str:
    share = share_of_peak(case.work, peak, 1.0)
    return share.resource if share else ""


def _share(case: Measured, peak: Peak, sign: str) -> float | None:
    time_ns = case.times_ns.get(sign)
    share = share_of_peak(case.work, peak, time_ns) if time_ns is not None else None
    return share.share if share else None


def _cases(cases: Sequence[Measured]) -> str:
    numbers = [case.number for case in cases]
    if len(numbers) == 1:
        return f"Case {numbers[0]} is"
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"Cases {numbers[0]} to {numbers[-1]} are"
    return (
        f"Cases {listing(tuple(map(str, numbers)))} are"
        if len(numbers) <= _NUMBERS_MAX
        else f"{len(numbers)} cases are"
    )


def _range(shares: Sequence[float]) -> str:
    low, high = _percent(min(shares)), _percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 9.95 else f"{percent:.2g} %"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _amount(value: float) -> str:
    """Return a number with a unit prefix: "3.35 T"."""
    step = max(0, min(len(_PREFIXES) - 1, int(math.log10(value) // 3))) if value > 0 else 0
    scaled = value / 1000**step
    return f"{scaled:.3g} {_PREFIXES[step]}" if scaled < 1000 else f"{scaled:.0f} {_PREFIXES[step]}"
