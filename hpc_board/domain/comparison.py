"""Comparison of two measurements of the same cases: the speedup, and its confidence interval.

A process is the independent unit: its calls share their memory and their clocks. So if both runs have several workers,
Welch's t interval compares the logarithms of their medians (B. L. Welch, Biometrika 34, 1947). A single worker gives
only the scatter of its own calls, for a score that of all cases by the propagation of errors. The statistic is the
median, as everywhere else: its standard error over n values is sqrt(pi / 2) s / sqrt(n) for many normal values, and
less for few, so that the intervals of few processes are rather too wide.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from hpc_board.domain.run import Run
from hpc_board.domain.time_change import FACTOR_MIN, NO_DIFFERENCE, change_text
from hpc_board.model.kernels import Kernel
from hpc_board.model.result import Case, Result, Timing
from hpc_board.model.score import figures, score_of
from hpc_board.model.task import Ranking

# Student's t for 95 % in two tails, by degrees of freedom; between two rows, the row with fewer applies.
_T_QUANTILES = (
    (1, 12.706),
    (2, 4.303),
    (3, 3.182),
    (4, 2.776),
    (5, 2.571),
    (6, 2.447),
    (7, 2.365),
    (8, 2.306),
    (9, 2.262),
    (10, 2.228),
    (12, 2.179),
    (15, 2.131),
    (20, 2.086),
    (30, 2.042),
    (60, 2.000),
    (120, 1.980),
)

_ROUNDING = 1e-6
_HALF_TOLD = 50
"""The least half of an interval, in percent, that is only told to be too wide: "± 95 %" reads as a confidence."""


class Difference(msgspec.Struct, frozen=True):
    """The difference between the times `one_ns` and `other_ns`.

    `speedup` is one / other, with the bounds of its 95 % confidence interval, which are None with too few samples.
    `repeated` is True if the bounds hold over processes, and not only within one process of each run.
    """

    one_ns: float
    other_ns: float
    speedup: float
    low: float | None = None
    high: float | None = None
    repeated: bool = False

    @property
    def shown(self) -> bool:
        """Return whether the measurements show a difference."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def has_interval(self) -> bool:
        """Return whether the scatter of both times is known."""
        return self.low is not None and self.high is not None

    @property
    def text(self) -> str:
        """Return the difference as text: "15 % faster (± 3.8 %)", "3.4x slower (± 0.2x)", "no difference shown".

        All figures are relative to the smaller time.
        """
        if self.low is None or self.high is None:
            return f"{change_text(self.one_ns, self.other_ns)} (too few samples)"
        half = 100 * (math.sqrt(self.high / self.low) - 1)
        if not self.shown:
            return f"{NO_DIFFERENCE} ({f'± {figures(half, 2)} %' if half < _HALF_TOLD else 'too much scatter'})"
        factor, least, most = (
            (self.speedup, self.low, self.high) if self.speedup > 1 else (1 / self.speedup, 1 / self.high, 1 / self.low)
        )
        how = "faster" if self.speedup > 1 else "slower"
        # Above 100 % the interval is too asymmetric for one number on both sides.
        if half * factor >= 100:
            return f"{figures(factor, 2)}x {how} ({figures(least, 2)}x to {figures(most, 2)}x)"
        # A figure beside its error has a digit more than in other texts.
        if factor >= FACTOR_MIN:
            return f"{_three_digits(factor)}x {how} (± {figures(half * factor / 100, 2)}x)"
        return f"{_three_digits(100 * (factor - 1))} % {how} (± {figures(half * factor, 2)} %)"


def _three_digits(value: float) -> str:
    """Return a value to three digits, a last zero among them: "2.00", "14.5", "145"."""
    text = f"{value:#.3g}".rstrip(".")
    return figures(value, 3) if "e" in text else text


class CaseDifference(msgspec.Struct, frozen=True):
    """One benchmark case in both runs."""

    index: int
    spec: str
    difference: Difference


class KernelPair(msgspec.Struct, frozen=True):
    """A kernel of a profiled case in both runs; None in one without it."""

    case: int
    kernels: tuple[Kernel | None, Kernel | None]


class Comparison(msgspec.Struct, frozen=True):
    """The common benchmark cases of two runs, and their scores if both have one."""

    cases: tuple[CaseDifference, ...]
    score: Difference | None
    reference: float | None
    """The time of the reference in the other run, in units of one: the difference of the machines."""


class Compared(msgspec.Struct, frozen=True):
    """A run of each submission on one GPU, their results, and the difference of their times."""

    runs: tuple[Run, Run]
    results: tuple[Result, Result]
    comparison: Comparison

    @property
    def gpu(self) -> str:
        """The GPU of both runs."""
        return self.runs[0].gpu


def compared(one: Sequence[Case], other: Sequence[Case], ranking_by: Ranking) -> Comparison:
    """Compare the cases of the second run with those of the first."""
    timed_one, timed_other = _timed(one), _timed(other)
    common = sorted(set(timed_one) & set(timed_other))
    pairs = [(timed_one[index], timed_other[index]) for index in common]
    cases = tuple(
        CaseDifference(first.index, first.spec, _difference(_sides(a), _sides(b), a.median_ns, b.median_ns))
        for (first, a), (_, b) in pairs
    )
    references = [b.baseline_ns / a.baseline_ns for (_, a), (_, b) in pairs if a.baseline_ns and b.baseline_ns]
    return Comparison(
        cases,
        score_difference(measured_score(one, ranking_by), measured_score(other, ranking_by)),
        math.exp(statistics.fmean(map(math.log, references))) if references else None,
    )


def kernel_pairs(results: tuple[Result, Result]) -> tuple[KernelPair, ...]:
    """Pair the kernels of two profiles by case and name; the only kernel of a case in both is the same by any name."""
    one, other = ({(each.case, each.name): each for each in reversed(result.kernels)} for result in results)
    pairs = []
    for case in sorted({case for case, _ in (*one, *other)}):
        first, second = ({name: each for (at, name), each in side.items() if at == case} for side in (one, other))
        if len(first) == len(second) == 1:
            pairs.append(KernelPair(case, (next(iter(first.values())), next(iter(second.values())))))
            continue
        names = sorted({*first, *second}, key=lambda name: -max(_time_share(first, name), _time_share(second, name)))
        pairs += [KernelPair(case, (first.get(name), second.get(name))) for name in names]
    return tuple(pairs)


def _time_share(kernels: Mapping[str, Kernel], name: str) -> float:
    return kernels[name].time_share or 0 if name in kernels else 0


def _timed(cases: Sequence[Case]) -> "dict[int, tuple[Case, Timing]]":
    return {
        case.index: (case, case.timing)
        for case in cases
        if case.phase == "benchmark"
        and case.timing is not None
        and min(case.timing.samples_ns, default=case.timing.median_ns) > 0
    }


class _Side(msgspec.Struct, frozen=True):
    """The variance of the logarithm of a run's time, and its degrees of freedom."""

    variance: float
    freedom: float
    repeated: bool


def _sides(timing: Timing) -> _Side | None:
    """Return the statistics of a time; none without samples, as a task's own eval reports it."""
    if not timing.samples_ns:
        return None
    medians = timing.worker_medians_ns
    return _side(medians, repeated=True) if len(medians) > 1 else _of_calls(timing.samples_ns)


def _of_calls(samples: Sequence[float]) -> _Side | None:
    return _side(samples, repeated=False) if len(samples) > 2 else None


def _side(values: Sequence[float], *, repeated: bool) -> _Side:
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    # statistics.variance computes with fractions, and takes many times as long for a thousand calls.
    variance = math.pi / 2 * math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1) / len(logs)
    return _Side(variance, len(logs) - 1, repeated)


def _difference(one: _Side | None, other: _Side | None, one_ns: float, other_ns: float) -> Difference:
    if one is None or other is None:
        return Difference(one_ns, other_ns, one_ns / other_ns)
    variance = one.variance + other.variance
    half = _quantile(one, other) * math.sqrt(variance) if variance else 0.0
    speedup, spread = one_ns / other_ns, math.exp(half)
    return Difference(one_ns, other_ns, speedup, speedup / spread, speedup * spread, one.repeated and other.repeated)


def _quantile(one: _Side, other: _Side) -> float:
    """Return Student's t at the degrees of freedom of Welch and Satterthwaite."""
    freedom = max(1.0, _freedom([one, other]) + _ROUNDING)
    return next(value for least, value in reversed(_T_QUANTILES) if least <= freedom)


def _freedom(sides: Sequence[_Side]) -> float:
    parts = sum(side.variance**2 / side.freedom for side in sides)
    return sum(side.variance for side in sides) ** 2 / parts if parts else 1.0


def _side_of_scores(timings: Sequence[Timing], ranking_by: Ranking) -> _Side | None:
    if ranking_by is Ranking.LAST or len(timings) == 1:
        return _sides(timings[-1])
    if not all(timing.samples_ns for timing in timings):
        return None
    workers: list[Sequence[float]] = [timing.worker_medians_ns for timing in timings]
    if min(map(len, workers)) == 1:
        return _side_of_cases(timings, ranking_by)
    # All cases have the first workers; further ones measured only the cases that scattered.
    return _side([score_of(medians, ranking_by) for medians in zip(*workers, strict=False)], repeated=True)


def _side_of_cases(timings: Sequence[Timing], ranking_by: Ranking) -> _Side | None:
    """Return the statistics of a score by those of its cases, whose calls are independent within a process.

    To first order, the variance of the score's logarithm is the sum over the cases', each times the square of the
    case's share of the score.
    """
    sides = [_sides(timing) for timing in timings]
    whole = sum(timing.median_ns for timing in timings)
    parts = []
    for side, timing in zip(sides, timings, strict=True):
        if side is None:
            return None
        share = timing.median_ns / whole if ranking_by is Ranking.MEAN else 1 / len(timings)
        parts.append(_Side(share**2 * side.variance, side.freedom, repeated=False))
    return _Side(sum(part.variance for part in parts), _freedom(parts), repeated=False)


class MeasuredScore(msgspec.Struct, frozen=True):
    """The score of a run over the benchmark cases `indices`, with its scatter, None where that is unknown."""

    indices: tuple[int, ...]
    score_ns: float
    scatter: _Side | None


def measured_score(cases: Sequence[Case], ranking_by: Ranking) -> MeasuredScore | None:
    """Return the score of a run as it is compared with another one; None without timed cases."""
    timed = _timed(cases)
    if not timed:
        return None
    indices = tuple(sorted(timed))
    timings = [timed[index][1] for index in indices]
    score_ns = score_of([each.median_ns for each in timings], ranking_by)
    return MeasuredScore(indices, score_ns, _side_of_scores(timings, ranking_by))


def score_difference(one: MeasuredScore | None, other: MeasuredScore | None) -> Difference | None:
    """Compare the scores of two runs; None unless both timed the same cases."""
    if one is None or other is None or one.indices != other.indices:
        return None
    return _difference(one.scatter, other.scatter, one.score_ns, other.score_ns)


class LeaderRun(msgspec.Struct, frozen=True):
    """The best run of a board: its user and cases."""

    run: int
    user: str
    cases: tuple[Case, ...] = ()
