"""Comparison of two measurements of the same cases: the speedup, and its confidence interval.

The interval has three parts, each a share of the time. Rows of a CPU, or processes of a GPU: the 80 % interval of each
time, as the result has it, twice as wide. Runs: two runs of the same file differ by more than their own intervals say,
by RUNS_DIFFER_ROWS or RUNS_DIFFER_CALLS in 19 of 20 pairs. Conditions: the difference of the reference's times beyond
that. docs/design/timing.md has the reasons, and `make bench-power` the shares of differences that are found.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec

from hpc_board.domain.run import Run
from hpc_board.domain.time_change import FEW_SAMPLES, change_text, exceeds
from hpc_board.model.kernels import Kernel
from hpc_board.model.measurement import conditions, median_interval, ratio_of_references, workers_interval
from hpc_board.model.result import TIME_NS_MIN, Case, Result, Timing
from hpc_board.model.score import WIDER, OwnBest, score_of
from hpc_board.model.task import Ranking

RUNS_DIFFER_ROWS = 0.05
"""The share by which 19 of 20 pairs of runs on a CPU differ, however steady each of them is."""

RUNS_DIFFER_CALLS = 0.02
"""The same on a GPU, where no pairs of runs have been measured."""


class Difference(msgspec.Struct, frozen=True):
    """The difference between the times `one_ns` and `other_ns`.

    `speedup` is one / other, and true within a factor of `spread` in 19 of 20 comparisons; that is None with too few
    samples. `repeated` is True if it holds over processes, and not only within one process of each run.
    """

    one_ns: float
    other_ns: float
    spread: float | None = None
    repeated: bool = False

    @property
    def speedup(self) -> float:
        """Return the ratio of the first time to the second."""
        return self.one_ns / self.other_ns

    @property
    def low(self) -> float | None:
        """Return the lower bound of the 95 % confidence interval of the speedup."""
        return None if self.spread is None else self.speedup / self.spread

    @property
    def high(self) -> float | None:
        """Return the upper bound of the 95 % confidence interval of the speedup."""
        return None if self.spread is None else self.speedup * self.spread

    @property
    def shown(self) -> bool:
        """Return whether the measurements show a difference."""
        return self.spread is not None and exceeds(self.one_ns, self.other_ns, self.spread)

    @property
    def text(self) -> str:
        """Return the difference as text: "1.15x faster (± 0.04x)", "within noise (1.04x ± 0.14x)"."""
        text = change_text(self.one_ns, self.other_ns, self.spread)
        return f"{text} ({FEW_SAMPLES})" if self.spread is None else text


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
    reference = ratio_of_references([(a.reference_ns, b.reference_ns) for (_, a), (_, b) in pairs])
    cases = tuple(
        CaseDifference(first.index, first.spec, _difference(_scatter(a), _scatter(b), a.time_ns, b.time_ns, reference))
        for (first, a), (_, b) in pairs
    )
    score = score_difference(measured_score(one, ranking_by), measured_score(other, ranking_by))
    return Comparison(cases, score, reference)


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
        and min((case.timing.time_ns, *case.timing.samples_ns)) > 0
    }


class _Scatter(msgspec.Struct, frozen=True):
    """The uncertainty of a run's time, as shares of it: the half of its 80 % interval, and the difference of runs."""

    half: float
    runs_differ: float
    repeated: bool


def _scatter(timing: Timing) -> _Scatter | None:
    """Return the scatter of a time; None with too few samples, or with none, as a task's own eval reports it."""
    repeated = len(timing.worker_samples) > 1
    if not timing.is_enough:
        return None
    if timing.low_ns is not None and timing.high_ns is not None:
        bounds_ns = timing.low_ns, timing.high_ns
    elif repeated:
        bounds_ns = workers_interval(timing.worker_medians_ns)
    else:
        bounds_ns = median_interval(timing.samples_ns)
    is_of_rows = timing.low_ns is not None and timing.slack_ns is None
    differ = RUNS_DIFFER_ROWS if is_of_rows else RUNS_DIFFER_CALLS
    return _Scatter(_half(timing.time_ns, bounds_ns), differ, repeated)


def _half(time_ns: float, bounds_ns: tuple[float, float]) -> float:
    """Return the half of an interval as a share of the time: the square root of the mean square of its sides."""
    low_ns, high_ns = (max(TIME_NS_MIN, each) for each in bounds_ns)
    sides = max(0.0, math.log(time_ns / low_ns)), max(0.0, math.log(high_ns / time_ns))
    return math.hypot(*sides) / math.sqrt(2)


def _difference(
    one: _Scatter | None, other: _Scatter | None, one_ns: float, other_ns: float, reference: float | None
) -> Difference:
    if one is None or other is None:
        return Difference(one_ns, other_ns)
    differ = max(one.runs_differ, other.runs_differ)
    scatter = math.hypot(WIDER * one.half, WIDER * other.half, differ)
    spread = math.exp(scatter + conditions(reference, differ))
    return Difference(one_ns, other_ns, spread, one.repeated and other.repeated)


def _scatter_of_scores(timings: Sequence[Timing], ranking_by: Ranking) -> _Scatter | None:
    """Return the scatter of a score, to first order: other load, or a slow process, may meet all cases of a run."""
    if ranking_by is Ranking.LAST or len(timings) == 1:
        return _scatter(timings[-1])
    found = [each for each in map(_scatter, timings) if each is not None]
    if len(found) < len(timings):
        return None
    whole = math.fsum(timing.time_ns for timing in timings)
    shares = [timing.time_ns / whole if ranking_by is Ranking.MEAN else 1 / len(timings) for timing in timings]
    return _Scatter(
        math.fsum(share * each.half for share, each in zip(shares, found, strict=True)),
        max(each.runs_differ for each in found),
        all(each.repeated for each in found),
    )


class MeasuredScore(msgspec.Struct, frozen=True):
    """The score of a run over the benchmark cases `indices`, with its scatter, None where that is unknown.

    `references_ns` are the reference's times of these cases, each None where it was not measured.
    """

    indices: tuple[int, ...]
    score_ns: float
    scatter: _Scatter | None
    references_ns: tuple[float | None, ...] = ()


def measured_score(cases: Sequence[Case], ranking_by: Ranking) -> MeasuredScore | None:
    """Return the score of a run as it is compared with another one; None without timed cases."""
    timed = _timed(cases)
    if not timed:
        return None
    indices = tuple(sorted(timed))
    timings = [timed[index][1] for index in indices]
    score_ns = score_of([each.time_ns for each in timings], ranking_by)
    references_ns = tuple(each.reference_ns for each in timings)
    return MeasuredScore(indices, score_ns, _scatter_of_scores(timings, ranking_by), references_ns)


def score_difference(one: MeasuredScore | None, other: MeasuredScore | None) -> Difference | None:
    """Compare the scores of two runs; None unless both timed the same cases."""
    if one is None or other is None or one.indices != other.indices:
        return None
    reference = ratio_of_references(zip(one.references_ns, other.references_ns, strict=True))
    return _difference(one.scatter, other.scatter, one.score_ns, other.score_ns, reference)


def own_best(best: Run, cases: Sequence[Case], ranking_by: Ranking) -> OwnBest | None:
    """Return the rule by which another run is slower than a user's best one with these cases; None with few samples."""
    score = measured_score(cases, ranking_by)
    if score is None or score.scatter is None:
        return None
    differ, score_s = score.scatter.runs_differ, score.score_ns / 1e9
    bound_s = score_s * math.exp(WIDER * score.scatter.half + differ)
    return OwnBest(best.id, score_s, bound_s, differ, score.references_ns)


class LeaderRun(msgspec.Struct, frozen=True):
    """The run that others are shown beside: its user and cases, and its `name`, a rank or "best before"."""

    run: int
    user: str
    cases: tuple[Case, ...] = ()
    name: str = "rank 1"
