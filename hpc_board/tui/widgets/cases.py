"""The cases of a run, with details and a histogram of the selected one."""

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size
from textual.widgets import Static

from hpc_board.domain.comparison import LeaderRun
from hpc_board.domain.run import TimeSoFar
from hpc_board.model.result import Case, Timing, Verdict
from hpc_board.model.score import duration_text
from hpc_board.model.text import printable
from hpc_board.report.case_bars import best_times, case_bars
from hpc_board.report.formatting import speedup_text, telling_line
from hpc_board.report.histograms import calls_in_order, histogram
from hpc_board.report.run_progress import BegunCase
from hpc_board.report.run_words import short_specs, verdict_text, without_verdict
from hpc_board.report.runs import mismatch_blocks, of_tolerance_text
from hpc_board.report.times import in_rows, noise_line, scatter_text
from hpc_board.tui.formatting import packed
from hpc_board.tui.palette import Tone, empty_text, toned
from hpc_board.tui.widgets.blocks import drawn, log_lines, show_text, speedup_cell
from hpc_board.tui.widgets.grid import Column
from hpc_board.tui.widgets.list_pane import DetailsPanel, Kind, ListPane

_BAR_LINES = 24
"""The most lines of a histogram's bars."""

_BESIDE_BARS = 6
"""The lines about a case that are not bars of its histogram."""

_BARS_FROM = 20
"""The least lines for the bars of a case beside the best run's."""

_BOTH_FROM = 80
"""The least cells for the calls in their order beside the histogram."""

_MESSAGE_CHARACTERS_MAX = 8000
_PHASES = "test", "benchmark"
_STATE_TONES = {"running": Tone.ACCENT, "pass": Tone.GOOD}


class _Numbered(msgspec.Struct, frozen=True):
    """A case, judged or begun, its index among all cases of the run, and its short text."""

    index: int
    case: Case | BegunCase
    spec: str

    @property
    def outcome(self) -> Text:
        """Return the verdict, or the state of a case without one."""
        if isinstance(self.case, BegunCase):
            return toned(self.case.state, _STATE_TONES.get(self.case.state, Tone.PLAIN))
        passed = self.case.verdict is Verdict.PASS
        return toned(verdict_text(self.case.verdict), Tone.GOOD if passed else Tone.BAD)


class CasesPane(Container):
    """All cases with their outcomes; of the selected one the message, the times and their histogram.

    A running run has the cases that its harness has begun.
    """

    pane: getters.query_one[ListPane[_Numbered]] = getters.query_one(ListPane)

    _cases: tuple[Case | BegunCase, ...] = ()
    _processors: int | None = None
    _best: LeaderRun | None = None
    has_bars = True
    """False where another panel has the bars of the selected case."""
    _followed = -1
    """The index of the running case that was selected last."""
    _drawn_size = Size(0, 0)

    def compose(self) -> ComposeResult:
        kind = Kind(
            _columns([]),
            key=lambda each: str(each.index),
            cells=_cells,
            details=self._details,
            scrolls=True,
            opens=False,
            title="Cases",
            heading=lambda each: f"{each.case.phase.capitalize()} {each.case.index + 1}",
        )
        nothing = Static(classes="nothing panel", markup=False)
        nothing.border_title = "Cases"
        yield nothing
        yield ListPane(kind, id="case-list", grid_id="cases")

    def show(
        self, cases: Sequence[Case | BegunCase], *, nothing: str, processors: int | None, best: LeaderRun | None
    ) -> None:
        """Show these cases and select the first failed or timed one, or show the text `nothing`.

        The running case is selected until the user selects another one.
        `processors` is the number of processors of their job, if known, and `best` the best run of the board.
        """
        words = self.query_one(".nothing", Static)
        words.display = not cases
        show_text(words, empty_text(nothing))
        self.pane.display = bool(cases)
        if tuple(cases) == self._cases:
            return
        was_running = all(isinstance(case, BegunCase) for case in self._cases)
        is_new = not self._cases or (was_running and all(isinstance(case, Case) for case in cases))
        self._cases, self._processors, self._best = tuple(cases), processors, best
        short = {phase: short_specs(case.spec for case in cases if case.phase == phase) for phase in _PHASES}
        names = {each.names for each in short.values() if each.texts}
        self.pane.grid.set_columns(_columns(cases, names.pop() if len(names) == 1 else ""))
        left = {phase: iter(each.texts) for phase, each in short.items()}
        items = [
            _Numbered(index, case, next(left[case.phase]) if case.phase in left else case.spec)
            for index, case in enumerate(cases)
        ]
        failed = [item for item in items if isinstance(item.case, Case) and item.case.verdict is not Verdict.PASS]
        with_time = [item for item in items if _timing(item.case) is not None]
        running = [item for item in items if isinstance(item.case, BegunCase) and item.case.state == "running"]
        if running and (is_new or (self.pane.selected is not None and self.pane.selected.index == self._followed)):
            wanted, self._followed = running, running[0].index
        else:
            wanted = [*failed, *with_time] if is_new else []
        self.pane.show_all(items, select=str(wanted[0].index) if wanted else None)

    @property
    def selected(self) -> Case | BegunCase | None:
        return None if self.pane.selected is None else self.pane.selected.case

    @property
    def _details_size(self) -> Size:
        return self.query_one(".selected").size

    def _details(self, each: _Numbered) -> RenderableType:
        self._drawn_size = self._details_size
        return _details(each, self._drawn_size, self._processors, self._best, has_bars=self.has_bars)

    @on(DetailsPanel.Resized)
    def _draw_again(self) -> None:
        if self._details_size != self._drawn_size:
            self.pane.redraw_details()


def _timing(case: Case | BegunCase) -> Timing | TimeSoFar | None:
    return case.timing if isinstance(case, Case) else case.timed


def _message(case: Case | BegunCase) -> str:
    """Return the main line of a failed case's message without the verdict, which is beside it."""
    if isinstance(case, BegunCase) or case.verdict is Verdict.PASS:
        return ""
    return without_verdict(telling_line(case.message), case.verdict)


def _head(names: str) -> str:
    """Return the head of the cases; the names of several numbers need its room."""
    return names if " x " in names else f"Case: {names}" if names else "Case"


def _columns(cases: Sequence[Case | BegunCase], names: str = "") -> tuple[Column, ...]:
    """Return the columns for these cases, without those of times, the reference or messages if no case has any.

    The head of the last one has the `names` of the numbers that all cases consist of.
    """
    known = [timing for timing in map(_timing, cases) if timing is not None]
    timings = [timing for timing in known if isinstance(timing, Timing)]
    by_rows, has_reference = any(map(in_rows, timings)), any(timing.reference_ns for timing in known)
    scatter = Column("scatter", "80 % CI", 15, most=18) if by_rows else Column("scatter", "Std error", 10, right=True)
    head, has_messages = _head(names), any(map(_message, cases))
    times = (
        Column("time", ("Time" if by_rows else "Median") if timings else "So far", 8, right=True),
        Column("reference", "Ref", 8, right=True, from_width=86 if by_rows else 76) if has_reference else None,
        Column("speedup", "Speedup", 7, right=True, from_width=70) if has_reference else None,
        scatter if timings else None,
        Column("samples", "Samples", 7, right=True, from_width=98)
        if by_rows
        else Column("samples", "Calls", 5, right=True, from_width=64)
        if timings
        else None,
    )
    return (
        Column("number", "#", 3, right=True),
        Column("phase", "Phase", 5, most=9),
        Column("outcome", "Outcome", 7, most=20),
        *(column for column in times if known and column is not None),
        Column("case", head, min(20, len(head)), most=40) if has_messages else Column("case", head, 8, grows=True),
        *[Column("message", "Message", 24, grows=True, from_width=96)] * has_messages,
    )


def _cells(each: _Numbered) -> dict[str, Text]:
    case, timing = each.case, _timing(each.case)
    judged = timing if isinstance(timing, Timing) else None
    return {
        "number": toned(case.index + 1, Tone.MUTED),
        "phase": toned(case.phase, Tone.MUTED),
        "outcome": each.outcome,
        "time": toned(duration_text(timing.time_ns) if timing else ""),
        "reference": toned(duration_text(timing.reference_ns) if timing and timing.reference_ns else "", Tone.MUTED),
        "speedup": speedup_cell(timing.speedup if timing else None),
        "scatter": toned(scatter_text(judged) if judged else "", Tone.MUTED),
        "samples": toned(judged.samples if judged else "", Tone.MUTED),
        "case": toned(each.spec),
        "message": toned(_message(case), Tone.MUTED),
    }


def _details(
    each: _Numbered, size: Size, processors: int | None, best: LeaderRun | None, *, has_bars: bool
) -> RenderableType:
    case, width = each.case, size.width
    head = Text.assemble((f"{case.phase} {case.index + 1}: ", Tone.STRONG.value), each.outcome)
    head.append("  ").append_text(toned(case.spec, Tone.MUTED, 1000))
    parts: list[RenderableType] = [head]
    bars = []
    if (timed := _timing(case)) is not None and has_bars and size.height >= _BARS_FROM:
        bars = [*case_bars([(each.spec, timed, best_times([case], best).get(case.index))], best)]
    if isinstance(case, BegunCase):
        so_far = [Text(packed([case.so_far, *_against(case.timed)], width))] if case.timed else []
        return Group(head, *so_far, drawn(bars))
    if case.message.strip():
        message = printable(case.message, _MESSAGE_CHARACTERS_MAX).strip("\n")
        parts.append(Text(message, "" if case.verdict is Verdict.PASS else Tone.BAD.value))
    if case.of_tolerance is not None:
        parts.append(Text(of_tolerance_text(case.of_tolerance).capitalize()))
    if case.mismatch is not None:
        parts.append(drawn(tuple(mismatch_blocks(case.mismatch))))
    if case.timing is not None:
        timing = case.timing
        parts.append(_times(timing, width))
        if noise := noise_line([case], processors):
            parts.append(toned(f"{noise} See Evidence.", Tone.WAITING))
        parts.append(drawn(bars))
        if len(timing.samples_ns) > 1:
            parts.append(_samples(timing, width, size.height - sum(len(each.rows) + 2 for each in bars)))
    return Group(*parts)


def _samples(timing: Timing, width: int, height: int) -> RenderableType:
    """Return the histogram of a case's samples, and beside it the samples in their order if both have room."""
    counted = "sample" if in_rows(timing) and timing.slack_ns is None else "call"
    lines, has_both = max(1, min(_BAR_LINES, height - _BESIDE_BARS)), width >= _BOTH_FROM
    room = (width - 6) // 2 if has_both else max(2, width - 3)
    pictures = [histogram(timing.samples_ns, timing.time_ns, room, lines, counted)]
    if has_both:
        pictures.append(calls_in_order(timing, room, pictures[0].text.count("\n") - 1, counted))
    beside = Table.grid(padding=(0, 3, 0, 0))
    beside.add_row(*(Text(picture.title, f"bold {Tone.ACCENT.value}") for picture in pictures))
    beside.add_row(*map(log_lines, pictures))
    return beside


def _times(timing: Timing, width: int) -> Text:
    time, rowed = duration_text(timing.time_ns), in_rows(timing)
    scatter = scatter_text(timing)
    words = [
        f"time {time}" if rowed else f"median {time}",
        "" if rowed else f"mean {duration_text(timing.mean_ns)}",
        f"{'80 % CI' if rowed else 'std error'} {scatter}" if scatter else "",
        *_against(timing),
    ]
    return Text(packed(words, width))


def _against(timing: Timing | TimeSoFar) -> tuple[str, ...]:
    """Return the reference's time and the speedup over it; nothing without a reference."""
    if not timing.reference_ns:
        return ()
    return f"reference {duration_text(timing.reference_ns)}", f"speedup {speedup_text(timing.speedup)}"
