"""Formatting of benchmark times: their scatter, and the load of the machine."""

from collections.abc import Iterator, Sequence

from hpc_board.model.result import BUSY_PROCESSORS, Case, Result, Timing
from hpc_board.model.score import error_text, interval_text

_ERROR_MAX = 0.1
_CASES_NAMED_MAX = 3
_CHANGES = "first-touch page faults, threads that wait for each other, changing clock speeds"


def scatter_name(cases: Sequence[Case]) -> str:
    """Return the name of these cases' measure of scatter: an interval for rows of calls."""
    return "interval" if any(in_rows(case.timing) for case in cases) else "std error"


def in_rows(timing: Timing | None) -> bool:
    """Return whether the judge of hpc-board has measured a time, and not a task's own eval: it has an interval."""
    return timing is not None and timing.low_ns is not None


def scatter_text(timing: Timing) -> str:
    """Return the scatter of a time: its interval, else the standard error of the mean; empty for a single call."""
    if timing.low_ns is not None and timing.high_ns is not None:
        return interval_text(timing.low_ns, timing.high_ns)
    return error_text(timing.mean_ns, timing.err_ns) if timing.samples > 1 else ""


def processors_of(result: Result) -> int | None:
    """Return the number of processors of a result's job; None if unknown."""
    told = result.provenance.get("cpus")
    return told if isinstance(told, int) and told > 0 else None


def advice(cases: Sequence[Case], processors: int | None) -> Iterator[str]:
    """Yield a sentence with a remedy for each cause of noisy times."""
    used = max((case.timing.busy_processors for case in cases if case.timing), default=0.0)
    if used >= BUSY_PROCESSORS:
        whole = f" of {processors}" if processors else ""
        yield (
            f"Busy machine: other work used {used:.1f}{whole} processors during timing. Rerun it when the node is "
            "idle, or ask the board's admin for whole nodes (`exclusive: true`)."
        )
    timed = [(case, case.timing) for case in cases if case.timing]
    wide = [(timing.interval, case.index + 1) for case, timing in timed if timing.is_wide and not timing.is_busy]
    if wide:
        yield (
            f"Noisy timing: interval of {_named(wide, '')}, without other work on the machine. Possible causes: "
            f"{_CHANGES}. Rerun it to confirm."
        )
    errors = [
        (timing.err_ns / timing.mean_ns, case.index + 1)
        for case, timing in timed
        if not in_rows(timing) and timing.err_ns > _ERROR_MAX * timing.mean_ns > 0
    ]
    if errors:
        yield (
            f"Noisy timing: standard error of {_named(errors, '±')} (busy machine or unstable kernel). "
            "Rerun it to confirm."
        )
    throttled = [str(case.index + 1) for case, timing in timed if timing.noisy]
    if throttled:
        yield (
            f"Throttled GPU: thermal or power limits lowered its clocks in most calls of {_benchmarks(throttled)}. "
            "Rerun it to confirm."
        )


def _benchmarks(numbers: Sequence[str]) -> str:
    return f"{'benchmark' if len(numbers) == 1 else 'benchmarks'} {', '.join(numbers)}"


def _named(shares: Sequence[tuple[float, int]], sign: str) -> str:
    """Return shares with their benchmarks, or only the largest of many."""
    if len(shares) <= _CASES_NAMED_MAX:
        return ", ".join(f"{sign}{100 * share:.0f} % for benchmark {number}" for share, number in shares)
    return f"up to {sign}{100 * max(shares)[0]:.0f} % in {len(shares)} benchmarks"
