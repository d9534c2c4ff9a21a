"""Formatting of benchmark times: their scatter, and the load of the machine."""

import math
from collections.abc import Iterator, Sequence

import msgspec

from hpc_board.domain.time_change import ratio_text
from hpc_board.model.result import BUSY_PROCESSORS, Case, Result, Timing, Verdict
from hpc_board.model.score import duration_text, error_text, interval_text

_ERROR_MAX = 0.1
_CASES_NAMED_MAX = 3
_TUNED = 1.25
"""Ratio of the least speedup of public cases and the largest of hidden ones from which the report gives a reason."""

_CHANGES = "first-touch page faults, threads that wait for each other, changing clock speeds"

BUSY, WIDE, ALONE, STANDARD_ERROR = "busy", "wide_interval", "alone", "standard_error"
THROTTLED, REFERENCE, REPEATS, HIDDEN_CASES = "throttled", "reference", "measured_again", "hidden"
"""The kinds of advice."""


class Advice(msgspec.Struct, frozen=True):
    """A remark on the times of a run: its kind, a text with a remedy, and a few words on noise for one line."""

    kind: str
    text: str
    brief: str = ""


def scatter_name(cases: Sequence[Case]) -> str:
    """Return the name of these cases' measure of scatter: a confidence interval for rows of calls."""
    return "80 % CI" if any(in_rows(case.timing) for case in cases) else "std error"


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


def result_advice(result: Result) -> tuple[Advice, ...]:
    """Return all remarks on a result's times, for JSON and Python; none unless all cases passed."""
    hidden = hidden_ratio_text(result.cases)
    return (*noise_advice(result), *([Advice(HIDDEN_CASES, hidden)] if hidden else []))


def noise_advice(result: Result) -> tuple[Advice, ...]:
    """Return a remark for each cause of noisy times of a result; none unless all cases passed."""
    if any(case.verdict is not Verdict.PASS for case in result.cases):
        return ()
    return tuple(advice([case for case in result.cases if case.phase != "test"], processors_of(result)))


def hidden_ratio_text(cases: Sequence[Case]) -> str:
    """Return how hidden cases compare with public ones; empty if one kind has no speedup, or unless all passed.

    The comparison is that of the geometric means of their speedups. There is a reason only where no time is noisy, and
    each hidden case is slower than all public ones.
    """
    timed = [(case.timing.speedup, case) for case in cases if case.timing and case.timing.speedup]
    public, hidden = ([speedup for speedup, case in timed if case.is_hidden is which] for which in (False, True))
    if not (public and hidden) or any(case.verdict is not Verdict.PASS for case in cases):
        return ""
    ratio = math.exp(math.fsum(map(math.log, public)) / len(public) - math.fsum(map(math.log, hidden)) / len(hidden))
    words = f"{ratio_text(max(ratio, 1 / ratio))} {'slower' if ratio >= 1 else 'faster'}"
    is_tuned = min(public) > _TUNED * max(hidden) and not any(
        case.timing and is_noisy(case.timing) for _, case in timed
    )
    why = ": the kernel may be tuned to the public sizes" if is_tuned else ""
    return f"Hidden cases are {words} against the reference than public ones{why}."


def noise_line(cases: Sequence[Case], processors: int | None) -> str:
    """Return the causes of noisy times on one line; empty without any."""
    causes = ", ".join(each.brief for each in advice(cases, processors) if each.brief)
    return f"Noisy: {causes}." if causes else ""


def is_noisy(timing: Timing) -> bool:
    """Return whether the time of a case is uncertain, so that there is advice on it."""
    return timing.is_wide or timing.is_busy or timing.throttled or timing.reference_is_wide or _has_error(timing)


def _has_error(timing: Timing) -> bool:
    return not in_rows(timing) and timing.err_ns > _ERROR_MAX * timing.mean_ns > 0


def advice(cases: Sequence[Case], processors: int | None) -> Iterator[Advice]:
    """Yield a remark with a remedy for each cause of noisy times."""
    used = max((case.timing.busy_processors for case in cases if case.timing), default=0.0)
    if used >= BUSY_PROCESSORS:
        whole = f" of {processors}" if processors else ""
        yield Advice(
            BUSY,
            f"Busy machine: other work used {used:.1f}{whole} processors during timing. Rerun it when the node is "
            "idle, or ask the board's admin for whole nodes (`exclusive: true`).",
            f"other programs used {used:.1f}{whole} processors",
        )
    timed = [(case, case.timing) for case in cases if case.timing]
    quiet = [(case, timing) for case, timing in timed if timing.is_wide and not timing.is_busy]
    wide = [(timing.interval, case.index + 1) for case, timing in quiet if not timing.is_bounded]
    if wide:
        yield Advice(
            WIDE,
            f"Noisy timing: interval of {_named(wide, '')}, without other work on the machine. Possible causes: "
            f"{_CHANGES}. Rerun it to confirm.",
            f"interval of {_largest(wide)}",
        )
    alone = [(timing.interval, case.index + 1) for case, timing in quiet if timing.is_bounded]
    if alone:
        yield Advice(
            ALONE,
            f"Calls may overlap: interval of {_named(alone, '')}, from calls back to back to a single call, whose "
            "longer time is the score. More work in a call, or fewer threads, narrows it.",
            f"overlapping calls with an interval of {_largest(alone)}",
        )
    errors = [(timing.err_ns / timing.mean_ns, case.index + 1) for case, timing in timed if _has_error(timing)]
    if errors:
        yield Advice(
            STANDARD_ERROR,
            f"Noisy timing: standard error of {_named(errors, '±')} (busy machine or unstable kernel). "
            "Rerun it to confirm.",
            f"standard error of ±{_largest(errors)}",
        )
    throttled = [str(case.index + 1) for case, timing in timed if timing.throttled]
    if throttled:
        yield Advice(
            THROTTLED,
            f"Throttled GPU: thermal or power limits lowered its clocks in most calls of {_benchmarks(throttled)}. "
            "Rerun it to confirm.",
            "throttled GPU",
        )
    disturbed = [(case.index + 1, timing) for case, timing in timed if timing.reference_is_wide]
    if disturbed:
        times = [f"{number}, {_reference_text(timing)}" for number, timing in disturbed[:_CASES_NAMED_MAX]]
        more = len(disturbed) - len(times)
        yield Advice(
            REFERENCE,
            f"Noisy reference: its time in benchmark {'; '.join(times)}{f'; and {more} more' if more else ''}. The "
            "speedup is as uncertain; the score is not. Rerun it to confirm.",
            "the reference's own time is noisy",
        )
    repeated = [(timing.repeats, str(case.index + 1)) for case, timing in timed if timing.repeats]
    if repeated:
        most = max(repeated)[0]
        yield Advice(
            REPEATS,
            f"Measured again: {_benchmarks([number for _, number in repeated])}, by "
            f"{'one more process' if most == 1 else f'up to {most} more processes'}, since "
            f"{'other work used the machine' if used >= BUSY_PROCESSORS else 'the times differed'}.",
        )


def _reference_text(timing: Timing) -> str:
    bounds = interval_text(timing.reference_low_ns or 0.0, timing.reference_high_ns or 0.0)
    return f"{duration_text(timing.reference_ns or 0.0)} ({bounds})"


def _benchmarks(numbers: Sequence[str]) -> str:
    return f"{'benchmark' if len(numbers) == 1 else 'benchmarks'} {', '.join(numbers)}"


def _named(shares: Sequence[tuple[float, int]], sign: str) -> str:
    """Return shares with their benchmarks, or only the largest of many."""
    if len(shares) <= _CASES_NAMED_MAX:
        return ", ".join(f"{sign}{100 * share:.0f} % for benchmark {number}" for share, number in shares)
    return f"up to {sign}{_largest(shares)} in {len(shares)} benchmarks"


def _largest(shares: Sequence[tuple[float, int]]) -> str:
    return f"{100 * max(shares)[0]:.0f} %"
