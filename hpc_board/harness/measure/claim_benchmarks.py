"""Benchmarks of a GPU that rest only on the worker's claims, within the rules of consistency.py.

No signal stops a GPU's work, and this GPU has no windows of the judge.
"""

import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.consistency import colder_than_hot, disturbed, drift, equal_claims, unclaimed_time
from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.crew import Crew
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import enough, of_two_clocks
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import Called, CallFailed, OutputsOverlap, secret_seed
from hpc_board.harness.processes.tree import thread_count
from hpc_board.model.limits import Limits
from hpc_board.model.measurement import TICK_NS, calls_needed
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Timing, Verdict

_ATTEMPTS = 3
_PAUSE_SECONDS = 2.0
_ROW_CALLS_MIN = 2
_DRIFTED = "the reference's time before and after the calls differed by {percent:.0f} %: the machine was not steady"
_entropy = random.SystemRandom()


@dataclass
class _Measured:
    """Measurements of one benchmark case: each worker's samples, and the reference's calls, single and in rows.

    Every call of `rows` is made; of `long_rows`, as long as a kernel's, only the first. `drift` is the relative change
    of the reference's time during a worker's calls, if it was too large in every attempt.
    """

    passes: list[list[float]] = field(default_factory=list)
    baseline: list[Called] = field(default_factory=list)
    rows: list[Called] = field(default_factory=list)
    long_rows: list[Called] = field(default_factory=list)
    drift: float = 0.0
    failure: CallFailed | None = None

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""
        return _DRIFTED.format(percent=100 * self.drift) if self.drift else ""

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first call."""
        return of_two_clocks(self.passes, [], self.reference_ns, floor_ns=1e9 * floor_seconds) if self.passes else None

    @property
    def reference_ns(self) -> list[float]:
        return [each.claimed_ns for each in self.baseline]

    @property
    def longest_rows(self) -> list[Called]:
        return _longest(self.rows)

    @property
    def overhead_rows(self) -> list[Called]:
        """Return the rows that show the overhead of a kernel's row, the time besides the kernel."""
        return _longest(self.rows + self.long_rows)


class ClaimBenchmarks(Passes[Worker, _Measured]):
    """The timed part of an evaluation on a GPU, by the worker's claims.

    Before and after each worker's calls the trusted one calls the reference, if the task has one: its times show
    whether the machine was steady, and the overhead of a call besides the kernel. All other processes are stopped
    meanwhile, since otherwise a submission that keeps the node busy would be excused for much.
    """

    def __init__(self, bench: Bench, crew: Crew[Worker], say: Say, peak: Peak | None = None) -> None:
        super().__init__(bench, crew, say, peak)
        self._baseline = crew.trusted_worker() if crew.has_reference else None
        self._copied = False

    _interval_ns_min = 2 * TICK_NS

    def _measurements(self) -> _Measured:
        return _Measured()

    def _measure(self, worker: Worker, index: int, measured: _Measured, *, again: bool) -> None:
        """Time one case in one worker; measure a suspicious result again before believing it.

        Among its timed calls, each worker makes one row: a lie that one rule would miss must pass the other in the same
        process.
        """
        del again
        limits, bench, workers = self._limits, self._bench, self._workers
        for attempt in range(1, _ATTEMPTS + 1):
            other_work = OtherWork()
            before = self._baseline_calls(index, measured)
            warm = [bench.call(worker, index, [secret_seed()], timed=True) for _ in range(limits.warmup_calls)]
            warm_ns = [each.claimed_ns for each in warm]
            crowd = self._process_counts(worker)
            called: list[Called] = []
            samples_ns: list[float] = []
            row: Called | None = None
            row_after = _entropy.randrange(calls_needed(warm_ns, limits, workers))
            start = time.monotonic()
            while not enough(samples_ns, time.monotonic() - start, limits, workers):
                if len(called) == row_after:
                    row = self._row(worker, index, measured, samples_ns or warm_ns, again=attempt > 1)
                called.append(bench.call(worker, index, [secret_seed()], timed=True))
                samples_ns.append(called[-1].claimed_ns)
            if self._burst_calls(index, statistics.median(samples_ns)) > 2 * (row.calls if row else 1):
                row = self._row(worker, index, measured, samples_ns, again=True)
            grown = self._process_counts(worker)
            after = self._baseline_calls(index, measured)
            problem = _not_credible(called, crowd, grown)
            problem = problem or self._unclaimed(called, before + after, row, measured, other_work)
            changed = _drift(before, after, limits)
            if problem is None and not changed:
                break
            if attempt == _ATTEMPTS:
                if problem is not None:
                    raise problem
                # The reference differs from itself, and so may the kernel: its times are right, and uncertain.
                measured.drift = max(measured.drift, changed)
            elif problem is None or problem.verdict is Verdict.UNSTABLE:
                # The machine's disturbance may soon be over.
                time.sleep(attempt * _PAUSE_SECONDS)
        measured.passes.append(samples_ns)

    def _process_counts(self, worker: Worker) -> tuple[int, int]:
        return thread_count(worker.child.worker_pid), self._crew.others()

    def _unclaimed(
        self,
        called: Sequence[Called],
        baseline: Sequence[Called],
        row: Called | None,
        measured: _Measured,
        other_work: OtherWork,
    ) -> CallFailed | None:
        """Return a failure if the claims of one worker are inconsistent with the elapsed time, else None."""
        if not baseline:
            return None
        words = unclaimed_time(called, baseline, self._limits)
        if words is None and row is not None:
            rows = measured.longest_rows
            median_ns = statistics.median(each.claimed_ns for each in called)
            words = unclaimed_time([row], measured.overhead_rows, self._limits) or colder_than_hot(
                median_ns, row, measured.reference_ns, rows, self._limits
            )
            words = words and f"in a row of {row.calls} calls: {words}"
        if words is None:
            return None
        doing = disturbed(baseline, other_work.processors())
        if doing:
            return CallFailed(Verdict.UNSTABLE, f"the machine was busy with other work ({doing}): {words}")
        return CallFailed(Verdict.TIMING_INCONSISTENT, words, worker_lost=True)

    def _baseline_calls(self, index: int, measured: _Measured) -> list[Called]:
        """Return a few calls of the reference; none if the task has no reference to call."""
        called: list[Called] = []
        if self._baseline is None:
            return called
        with self._crew.alone(), of_the_task():
            # The first call's time is not counted: it may have to warm the device up.
            called.append(self._bench.call(self._baseline, index, [secret_seed()], timed=True))
            start = time.monotonic()
            while (
                len(called) < self._limits.baseline_calls and time.monotonic() - start < self._limits.baseline_seconds
            ):
                called.append(self._bench.call(self._baseline, index, [secret_seed()], timed=True))
        measured.baseline += called
        return called

    def _row(
        self, worker: Worker, index: int, measured: _Measured, claimed_ns: Sequence[float], *, again: bool
    ) -> Called | None:
        """Make calls in a row, which spreads a call's overhead over many; and the reference's, if none is as long yet.

        A slow reference makes fewer calls: the row of a kernel must not become short for that reason, or a lie hides in
        the slack. Nor must the overhead of a short row of the reference be multiplied, since most of it is spent once
        for a whole row; so a long row is made as well, in which one call is made. If the kernel keeps one buffer for
        its outputs, these are copied between the calls, as are the reference's.
        """
        count = self._burst_calls(index, statistics.median(claimed_ns))
        if self._baseline is None or count < _ROW_CALLS_MIN:
            return None
        known = max((each.calls for each in measured.overhead_rows), default=0)
        # A worker that claims to be slow must not get the short row by which the others are excused.
        if again or known < count:
            self._baseline_row(self._baseline, index, measured, count)
        row = self._called_in_row(worker, index, count)
        if not measured.rows:
            self._baseline_row(self._baseline, index, measured, count)
        return row

    def _baseline_row(self, baseline: Worker, index: int, measured: _Measured, count: int) -> None:
        fewer = max(_ROW_CALLS_MIN, self._burst_calls(index, statistics.median(measured.reference_ns)))
        with self._crew.alone(), of_the_task():
            measured.rows.append(self._called_in_row(baseline, index, min(count, fewer)))
            if fewer < count:
                measured.long_rows.append(self._called_in_row(baseline, index, count, made=1))

    def _called_in_row(self, worker: Worker, index: int, count: int, made: int | None = None) -> Called:
        """Make calls in a row; once a row has lost outputs, copy them in all rows, and forget older rows."""
        seeds = [secret_seed() for _ in range(count)]
        try:
            return self._bench.call(worker, index, seeds, timed=True, cold=False, copied=self._copied, made=made)
        except OutputsOverlap:
            self._copied = True
            for each in self._measured.values():
                each.rows.clear()
                each.long_rows.clear()
            return self._called_in_row(worker, index, count, made)

    def _burst_calls(self, index: int, call_ns: float) -> int:
        limits = self._limits
        by_bytes = limits.burst_bytes / self._bench.call_bytes(index)
        by_time = limits.burst_seconds * 1e9 / max(1.0, call_ns)
        return int(min(limits.burst_calls, by_bytes, by_time))


def _longest(rows: Sequence[Called]) -> list[Called]:
    longest = max((each.calls for each in rows), default=0)
    return [each for each in rows if each.calls == longest]


def _not_credible(called: Sequence[Called], crowd: tuple[int, int], grown: tuple[int, int]) -> CallFailed | None:
    """Return a failure for claims that no clock and no honest kernel would produce under any load of the machine."""
    words = equal_claims([each.claimed_ns for each in called])
    if words is None and (grown[0] > crowd[0] or grown[1] > crowd[1]):
        words = (
            f"the timed calls delegated work: {crowd[0]} threads and {crowd[1]} processes before them, "
            f"{grown[0]} and {grown[1]} after"
        )
    return None if words is None else CallFailed(Verdict.TIMING_INCONSISTENT, words, worker_lost=True)


def _drift(before: Sequence[Called], after: Sequence[Called], limits: Limits) -> float:
    """Return the relative change of the reference's time; 0 for one within the limit, or from too few calls."""
    if min(len(before), len(after)) < limits.baseline_calls:
        return 0.0
    changed = drift([each.claimed_ns for each in before], [each.claimed_ns for each in after])
    return changed if changed > limits.drift else 0.0
