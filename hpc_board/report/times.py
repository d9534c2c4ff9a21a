"""How the times of cases are told: how well each is known, and what the machine did meanwhile."""

from collections.abc import Iterator, Sequence

from hpc_board.model.measurement import BUSY_PROCESSORS
from hpc_board.model.result import Case, Result, Timing
from hpc_board.model.score import error_text, interval_text

_ERROR_MAX = 0.1
_CASES_NAMED_MAX = 3
_CHANGES = "memory that is touched first, threads that wait for each other, a processor that changes its speed"


def scatter_name(cases: Sequence[Case]) -> str:
    """Return what the measure of scatter of these cases is called: that of a row is an interval."""
    return "interval" if any(in_rows(case.timing) for case in cases) else "std error"


def in_rows(timing: Timing | None) -> bool:
    """Return whether rows of calls were timed, and not single calls."""
    return timing is not None and timing.low_ns is not None


def scatter_text(timing: Timing) -> str:
    """Return how well a time is known: its interval, else the standard error of the mean; empty for a single call."""
    if timing.low_ns is not None and timing.high_ns is not None:
        return interval_text(timing.low_ns, timing.high_ns)
    return error_text(timing.mean_ns, timing.err_ns) if timing.runs > 1 else ""


def processors_of(result: Result) -> int | None:
    """Return how many processors the job of a result had; None where it does not say."""
    told = result.provenance.get("cpus")
    return told if isinstance(told, int) and told > 0 else None


def other_work_text(cases: Sequence[Case], processors: int | None) -> str:
    """Return what others used of the machine while these cases were timed; empty where that is next to nothing."""
    used = max((case.timing.busy_processors for case in cases if case.timing), default=0.0)
    if used < BUSY_PROCESSORS:
        return ""
    whole = f" of {processors}" if processors else ""
    return f"other work used {used:.1f}{whole} processors"


def advice(cases: Sequence[Case], processors: int | None) -> Iterator[str]:
    """Yield a sentence on each cause of uncertain times, with what helps; nothing where all are well known."""
    other_work = other_work_text(cases, processors)
    if other_work:
        yield (
            f"{other_work[0].upper()}{other_work[1:]} while this was timed: submit again when the node is quiet, or "
            "ask for the node alone (`exclusive: true` in the settings)."
        )
    timed = [(case, case.timing) for case in cases if case.timing]
    wide = [(timing.interval, case.index + 1) for case, timing in timed if timing.is_wide and not timing.is_busy]
    if wide:
        yield (
            f"The times vary: the interval is as wide as {_named(wide, '')}. No other work was seen, so the calls "
            f"may differ by themselves: {_CHANGES}. Submit again to see whether it stays so."
        )
    errors = [
        (timing.err_ns / timing.mean_ns, case.index + 1)
        for case, timing in timed
        if not in_rows(timing) and timing.err_ns > _ERROR_MAX * timing.mean_ns > 0
    ]
    if errors:
        yield (
            f"The times vary: the standard error is {_named(errors, '±')}. Other work on the machine may be the cause, "
            "or calls that differ by themselves: submit again to see whether it stays so."
        )
    noisy = [str(case.index + 1) for case, timing in timed if timing.noisy and not in_rows(timing)]
    if noisy:
        yield (
            f"The processes of {'benchmark' if len(noisy) == 1 else 'benchmarks'} {', '.join(noisy)} differ by more "
            "than the task's `spread`: submit again to see which of their times stays."
        )


def _named(shares: Sequence[tuple[float, int]], sign: str) -> str:
    """Return shares with the benchmarks that they belong to, or the largest one where they are many."""
    if len(shares) <= _CASES_NAMED_MAX:
        return ", ".join(f"{sign}{100 * share:.0f} % for benchmark {number}" for share, number in shares)
    return f"up to {sign}{100 * max(shares)[0]:.0f} % in {len(shares)} benchmarks"
