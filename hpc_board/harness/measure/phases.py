"""The phases of an evaluation: tests, and the benchmarks of a GPU, whose work no signal stops.

The benchmarks of a CPU are in row_benchmarks.py. Every mode makes the same calls; only their number and their seeds
differ. A worker can tell the timed ones, and gains nothing by it: every output is checked.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from hpc_board.harness.measure.bench import Bench, floor_failure, results
from hpc_board.harness.measure.consistency import colder_than_hot, disturbed, drift, equal_claims, unclaimed_time
from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.timing import enough, timing
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import Called, CallFailed, OutputsOverlap, public_seed, secret_seed
from hpc_board.harness.processes.tree import thread_count
from hpc_board.model.limits import MORE_WORKERS, Limits
from hpc_board.model.measurement import calls_needed, scatters
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Case, Timing, Verdict, secretly_failed
from hpc_board.model.task import case_text

_ATTEMPTS = 3
_PAUSE_SECONDS = 2.0
_ROW_CALLS_MIN = 2
_entropy = random.SystemRandom()

Say = Callable[[str, int | None, int | None, str], None]
"""Callback for progress: a phase, the number of a case from 1, the number of cases, and a message."""


def tested(bench: Bench, worker: Worker, say: Say, *, secret: bool, ranked: bool) -> Iterator[Case]:
    """Yield the verdict of each case, called with the task's own seed and, if `secret`, again with a secret one.

    The message of a case that passes with the first seed alone says so, and the consequence for a `ranked` run. A case
    that ends the worker is the last one.
    """
    phase = bench.phase
    for index, case in enumerate(phase.cases):
        say(phase.name, index + 1, len(phase.cases), case_text(case))
        message, verdict, lost, details = "", Verdict.PASS, False, None
        try:
            message = bench.call(worker, index, [public_seed(case)]).message
            if secret:
                _call_secretly(bench, worker, index, ranked=ranked)
        except CallFailed as error:
            verdict, message, lost, details = error.verdict, error.message, error.worker_lost, error.mismatch
        yield Case(phase.name, index, case_text(case), verdict, message, mismatch=details)
        if lost or verdict is Verdict.TASK_ERROR:
            break


def _call_secretly(bench: Bench, worker: Worker, index: int, *, ranked: bool) -> None:
    try:
        bench.call(worker, index, [secret_seed()])
    except CallFailed as error:
        if error.verdict.blames_kernel:
            error.message = secretly_failed(error.message, ranked=ranked)
        raise


@dataclass
class _Measured:
    """Measurements of one benchmark case: each worker's samples, and the reference's calls, single and in rows.

    Every call of `rows` is made; of `long_rows`, as long as a kernel's, only the first.
    """

    passes: list[list[float]] = field(default_factory=list)
    baseline: list[Called] = field(default_factory=list)
    rows: list[Called] = field(default_factory=list)
    long_rows: list[Called] = field(default_factory=list)
    noisy: bool = False
    failure: CallFailed | None = None

    def timing(self) -> Timing | None:
        passes = [each for each in self.passes if each]
        return timing(passes, self.baseline_ns, noisy=self.noisy) if passes else None

    @property
    def baseline_ns(self) -> list[float]:
        return [each.claimed_ns for each in self.baseline]

    @property
    def longest_rows(self) -> list[Called]:
        return _longest(self.rows)

    @property
    def overhead_rows(self) -> list[Called]:
        """Return the rows that show the overhead of a kernel's row, the time besides the kernel."""
        return _longest(self.rows + self.long_rows)


class Benchmarks:
    """The timed part of an evaluation on a GPU, by the worker's claims and the rules of consistency.py.

    Each of the workers measures every case, and in between the reference is called in a worker of its own: its times
    show whether the machine was steady, and the overhead of a call besides the kernel. `alone` stops all other
    processes meanwhile, since otherwise a submission that keeps the node busy would be excused for much.
    """

    def __init__(
        self,
        bench: Bench,
        new_worker: Callable[[], Worker],
        dismiss: Callable[[Worker], None],
        baseline: Worker | None,
        say: Say,
        alone: Callable[[], AbstractContextManager[None]],
        others: Callable[[], int],
        *,
        peak: Peak | None = None,
    ) -> None:
        self._bench = bench
        self._limits = bench.limits
        self._new_worker = new_worker
        self._dismiss = dismiss
        self._baseline = baseline
        self._say = say
        self._alone = alone
        self._others = others
        self._peak = peak
        self._copied = False
        self._measured: dict[int, _Measured] = {}

    def run(self, first: Worker | None, workers: int) -> list[Case]:
        """Return the times of each case, from as many workers as `workers` says; see `Limits`.

        The `first` one exists by now, unless it is None. The first case that fails is the last one.
        """
        for number in range(1, workers + 1):
            worker = first if first is not None and number == 1 else self._new_worker()
            self._pass(worker, number, workers)
            if self._failed():
                return self.cases()
        if self._scattered(workers):
            for number in range(workers + 1, workers + MORE_WORKERS + 1):
                self._pass(self._new_worker(), number, workers)
                if self._failed():
                    return self.cases()
        for index in self._scattered(workers):
            self._measured[index].noisy = True
        self._check_floors()
        return self.cases()

    def _failed(self) -> bool:
        return any(each.failure for each in self._measured.values())

    def _scattered(self, workers: int) -> list[int]:
        """Return the cases whose workers differ by more than the limit; `workers` is the initial number of workers."""
        medians = {index: [statistics.median(each) for each in of.passes] for index, of in self._measured.items()}
        return [index for index, each in medians.items() if scatters(each, self._limits, workers)]

    def _pass(self, worker: Worker, number: int, workers: int) -> None:
        """Have one worker measure every case, and end it."""
        cases = self._bench.phase.cases
        try:
            for index, case in enumerate(cases):
                measured = self._measured.setdefault(index, _Measured())
                of_workers = f" (process {number} of {max(number, workers)})" if workers > 1 else ""
                self._say(self._bench.phase.name, index + 1, len(cases), case_text(case) + of_workers)
                measured.passes.append([])
                try:
                    self._measure(worker, index, measured, workers)
                except CallFailed as error:
                    measured.failure = error
                    return
                except BaseException:
                    del measured.passes[-1]
                    raise
        finally:
            self._dismiss(worker)

    def _measure(self, worker: Worker, index: int, measured: _Measured, workers: int) -> None:
        """Time one case in one worker; measure a suspicious result again before believing it.

        Among its timed calls, each worker makes one row: a lie that one rule would miss must pass the other in the same
        process.
        """
        limits, bench = self._limits, self._bench
        for attempt in range(1, _ATTEMPTS + 1):
            samples_ns = measured.passes[-1] = []
            other_work = OtherWork()
            before = self._baseline_calls(index, measured)
            warm = [bench.call(worker, index, [secret_seed()], timed=True) for _ in range(limits.warmup_calls)]
            warm_ns = [each.claimed_ns for each in warm]
            crowd = self._process_counts(worker)
            called: list[Called] = []
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
            if problem is None and not _drifted(before, after, limits):
                return
            if attempt == _ATTEMPTS:
                if problem is not None:
                    raise problem
                # The reference differs from itself, and so may the kernel: its times are right, and uncertain.
                measured.noisy = True
            elif problem is None or problem.verdict is Verdict.UNSTABLE:
                # The machine's disturbance may soon be over.
                time.sleep(attempt * _PAUSE_SECONDS)

    def _process_counts(self, worker: Worker) -> tuple[int, int]:
        """Return the number of a worker's threads, and of the processes that it has left anywhere."""
        return thread_count(worker.child.worker_pid), self._others()

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
                median_ns, row, measured.baseline_ns, rows, self._limits
            )
            words = words and f"in a row of {row.calls} calls: {words}"
        if words is None:
            return None
        doing = disturbed(baseline, other_work.processors())
        if doing:
            return CallFailed(Verdict.UNSTABLE, f"the machine was busy with other things ({doing}): {words}")
        return CallFailed(Verdict.TIMING_INCONSISTENT, words, worker_lost=True)

    def _baseline_calls(self, index: int, measured: _Measured) -> list[Called]:
        """Return a few calls of the reference; none if the task has no reference to call."""
        called: list[Called] = []
        if self._baseline is None:
            return called
        with self._alone(), of_the_task():
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
        fewer = max(_ROW_CALLS_MIN, self._burst_calls(index, statistics.median(measured.baseline_ns)))
        with self._alone(), of_the_task():
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
        call_bytes = self._bench.input_bytes.get(index, 0) + self._bench.answer_bytes(index)
        by_bytes = limits.burst_bytes / max(1, call_bytes)
        by_time = limits.burst_seconds * 1e9 / max(1.0, call_ns)
        return int(min(limits.burst_calls, by_bytes, by_time))

    def _check_floors(self) -> None:
        for index, measured in self._measured.items():
            work, floor_seconds = self._bench.work.get(index), self._limits.floor_seconds
            measured.failure = measured.failure or floor_failure(measured.timing(), work, floor_seconds, self._peak)

    def cases(self) -> list[Case]:
        """Return the results of each case that at least one worker has measured, or that failed."""
        measured = {index: (each.timing(), each.failure, "") for index, each in self._measured.items()}
        return results(self._bench.phase, self._bench.work, measured)


def _longest(rows: Sequence[Called]) -> list[Called]:
    longest = max((each.calls for each in rows), default=0)
    return [each for each in rows if each.calls == longest]


@contextmanager
def of_the_task() -> Iterator[None]:
    """Blame every failure within this block on the reference, and so on the task."""
    try:
        yield
    except CallFailed as error:
        if error.verdict is Verdict.INFRA_ERROR:
            raise
        message = f"the reference itself does not pass: {error.verdict}: {error.message}"
        raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True) from error


def _not_credible(called: Sequence[Called], crowd: tuple[int, int], grown: tuple[int, int]) -> CallFailed | None:
    """Return a failure for claims that no clock and no honest kernel would produce under any load of the machine."""
    words = equal_claims([each.claimed_ns for each in called])
    if words is None and (grown[0] > crowd[0] or grown[1] > crowd[1]):
        words = (
            f"the timed calls left work to others: {crowd[0]} threads and {crowd[1]} processes before them, "
            f"{grown[0]} and {grown[1]} after"
        )
    return None if words is None else CallFailed(Verdict.TIMING_INCONSISTENT, words, worker_lost=True)


def _drifted(before: Sequence[Called], after: Sequence[Called], limits: Limits) -> bool:
    """Return whether the reference's times before and after show that the machine changed its speed."""
    if min(len(before), len(after)) < limits.baseline_calls:
        return False
    return drift([each.claimed_ns for each in before], [each.claimed_ns for each in after]) > limits.drift
