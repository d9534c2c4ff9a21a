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

    Times are relative to the reference's, else to the best run's: its bars are as long in each benchmark, and the one
    that is slow beside it has the longest bar of all.
    """
    name_of_best = best.name if best is not None else ""
    bases = [timing.reference_ns or best_ns or timing.time_ns for _, timing, best_ns in timed]
    longest = max(
        (
            time_ns / base
            for base, (_, timing, best_ns) in zip(bases, timed, strict=True)
            for time_ns in (timing.time_ns, timing.reference_ns, best_ns)
            if time_ns
        ),
        default=1.0,
    )
    rows: list[Bar] = []
    for base, (text, timing, best_ns) in zip(bases, timed, strict=True):
        times = {OWN: timing.time_ns, "reference": timing.reference_ns, name_of_best: best_ns}
        known = {name: time_ns for name, time_ns in times.items() if time_ns}
        of_best = Tone.GOOD if best_ns and best_ns <= timing.time_ns else Tone.QUIET
        tones = {OWN: Tone.STRONG, "reference": Tone.QUIET, name_of_best: of_best}
        rows += [
            Bar(name, duration_text(time_ns), time_ns / base / longest, tones[name], text if name == OWN else "")
            for name, time_ns in known.items()
            if len(known) > 1
        ]
    if rows:
        has_reference = any(timing.reference_ns for _, timing, _ in timed)
        of_reference = "the reference in this run" if has_reference else name_of_best
        has_best = best is not None and any(best_ns for _, _, best_ns in timed)
        whose = f"; {best.name}: {one_line(best.user)}, run {best.run}" if best is not None and has_best else ""
        yield Bars(f"Time of a call, relative to {of_reference}{whose}", tuple(rows))
