"""The times of benchmarks as bars: this run's, the reference's, and those of rank 1 of the board."""

from collections.abc import Iterator, Mapping, Sequence

from hpc_board.domain.comparison import LeaderRun
from hpc_board.domain.run import TimeSoFar
from hpc_board.model.result import Case, Timing
from hpc_board.model.score import duration_text
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Bar, Bars, Tone
from hpc_board.report.run_progress import BegunCase

OWN = "this run"


def best_times(cases: Sequence[Case | BegunCase], best: LeaderRun | None) -> Mapping[int, float]:
    """Return the times of the best run in nanoseconds, by the index of those of `cases` that it has, too."""
    specs = {case.index: case.spec for case in cases}
    return {
        case.index: case.timing.time_ns
        for case in (best.cases if best else ())
        if case.phase == "benchmark" and case.timing is not None and specs.get(case.index) == case.spec
    }


def case_bars(
    timed: Sequence[tuple[str, Timing | TimeSoFar, float | None]], best: LeaderRun | None = None
) -> Iterator[Bars]:
    """Yield the bars of benchmarks, each with its text, its times and the best run's; none where all stand alone.

    The longest bar of each benchmark has the whole width.
    """
    name_of_best = best.name if best is not None else ""
    rows: list[Bar] = []
    for text, timing, best_ns in timed:
        times = {OWN: timing.time_ns, "reference": timing.reference_ns, name_of_best: best_ns}
        known = {name: time_ns for name, time_ns in times.items() if time_ns}
        of_best = Tone.GOOD if best_ns and best_ns <= timing.time_ns else Tone.QUIET
        tones = {OWN: Tone.STRONG, "reference": Tone.QUIET, name_of_best: of_best}
        longest_ns = max(known.values(), default=0.0)
        rows += [
            Bar(name, duration_text(time_ns), time_ns / longest_ns, tones[name], text if name == OWN else "")
            for name, time_ns in known.items()
            if len(known) > 1
        ]
    if rows:
        of_reference = "; reference: in this run" if any(timing.reference_ns for _, timing, _ in timed) else ""
        has_best = best is not None and any(best_ns for _, _, best_ns in timed)
        whose = f"; {best.name}: {one_line(best.user)}, run {best.run}" if best is not None and has_best else ""
        yield Bars(f"Time of a call, each benchmark to its own scale{of_reference}{whose}", tuple(rows))
