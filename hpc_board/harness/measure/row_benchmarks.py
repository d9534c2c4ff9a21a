"""Benchmarks by the supervisor's clock: the time of rows of calls, minus the row's overhead besides the kernel.

A row has as many calls as take some milliseconds together, each with inputs of its own, all of which are in memory when
the clock starts. No time that the worker reports counts. The overhead of a row is measured with a trusted worker that
goes through a row of its own without the kernel, in turns with the submission's. docs/design/timing.md has the
estimator, its error, and the possible gain of a submission that lies.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import floor_ns, of_rows
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import Called, CallFailed, OutputsOverlap, secret_seed
from hpc_board.model.measurement import least_of_alone_ns
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Case, Timing, Verdict
from hpc_board.model.score import duration_text
from hpc_board.model.task import case_text

_RESIZES_MAX = 6
_MORE_PASSES = 5
_ALONE_CALLS = 3
_REFERENCE_SHARE = 4
_PHASE_SHARE = 0.5
"""Share of a phase's time after which no case is measured again: repetition must not use up the kernel's time."""

_ROW_JUDGE_SECONDS = 1.0
"""Time limit for making the inputs of a row and checking its outputs."""

_JUDGE_STEPS = ("make the inputs", "write the inputs", "copy the output", "check the output")


@dataclass
class _Measured:
    """Measurements of one benchmark case.

    `calls` is the number of calls in a row; `passes` holds the rows of each worker, `alone` the calls made one by one.
    `row_overhead_ns` holds the overhead of rows of each length, the time that they take without the kernel.
    `reference_calls` is the number of calls in a row of the reference. `one_by_one`: the kernel returns the same memory
    each time, so that no two calls can be in a row. `judge_seconds` is the time to make a call's inputs and to check
    its output. `busy` holds the number of processors that others used during each row.
    """

    calls: int = 1
    passes: list[list[Called]] = field(default_factory=list)
    alone: list[Called] = field(default_factory=list)
    row_overhead_ns: dict[int, list[float]] = field(default_factory=dict)
    reference: list[Called] = field(default_factory=list)
    reference_calls: int = 1
    one_by_one: bool = False
    judge_seconds: float = 0.0
    busy: list[float] = field(default_factory=list)
    failure: CallFailed | None = None

    def call_ns(self, row: Called) -> float:
        """Return the time of one call of a row, at least a nanosecond if it cannot be told from the overhead.

        Outputs that are written out within the row count with their full cost: if it were subtracted, a worker that
        writes them faster would gain the difference for each call.
        """
        row_overhead_ns = min(self.row_overhead_ns[row.calls if row.by_address else 1])
        return max(1.0, (row.wall_ns - row.waited_ns - row_overhead_ns) / row.calls)

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first row."""
        passes = [[self.call_ns(row) for row in each] for each in self.passes if each]
        if not passes:
            return None
        reference = [_trusted_ns(each) / each.calls for each in self.reference]
        claimed = [row.claimed_ns / row.calls for each in self.passes for row in each]
        alone = [*self.alone, *(row for each in self.passes for row in each if row.calls == 1)]
        return of_rows(
            passes,
            reference,
            claimed,
            floor_ns=1e9 * floor_seconds,
            least_ns=least_of_alone_ns([self.call_ns(each) for each in alone]),
            busy=statistics.median(self.busy),
        )


def _trusted_ns(called: Called) -> float:
    """Return the time of the trusted worker's calls by its own clock, minus its waiting for a processor."""
    return called.claimed_ns - max(0.0, called.waited_ns - called.overhead_ns)


class RowBenchmarks:
    """The timed part of an evaluation on a device where all processes of a submission can be stopped.

    Each of the workers measures every case; if the interval of a case is wider than the limits allow, more workers
    measure it again, within `measure_seconds`. `trusted` is a worker with the task's reference, or with no function if
    the task has none; `alone` stops all other processes while it is called.
    """

    def __init__(
        self,
        bench: Bench,
        new_worker: Callable[[], Worker],
        dismiss: Callable[[Worker], None],
        trusted: Worker,
        say: Say,
        alone: Callable[[], AbstractContextManager[None]],
        *,
        has_reference: bool,
        peak: Peak | None = None,
    ) -> None:
        self._bench = bench
        self._limits = bench.limits
        self._new_worker = new_worker
        self._dismiss = dismiss
        self._trusted = trusted
        self._say = say
        self._alone = alone
        self._has_reference = has_reference
        self._peak = peak
        self._measured: dict[int, _Measured] = {}

    def run(self, first: Worker, workers: int) -> list[Case]:
        """Measure each case with the `first` worker and as many more as `workers` says, and return the results.

        The first case that fails is the last one.
        """
        end = time.monotonic() + min(self._limits.measure_seconds, _PHASE_SHARE * self._bench.phase.seconds)
        every = list(range(len(self._bench.phase.cases)))
        for number in range(1, workers + 1):
            worker = first if number == 1 else self._new_worker()
            self._pass(worker, every, f" (process {number} of {workers})" if workers > 1 else "")
            if self._failed():
                return self.cases()
        for number in range(1, _MORE_PASSES + 1):
            wide = [index for index in every if self._is_wide(index)]
            if not wide or time.monotonic() >= end:
                break
            self._pass(
                self._new_worker(),
                wide,
                f", measuring again: {self._why(wide)}, {number} of {_MORE_PASSES}",
                again=True,
            )
            if self._failed():
                return self.cases()
        self._check_floors()
        return self.cases()

    def _failed(self) -> bool:
        return any(each.failure for each in self._measured.values())

    def _timing(self, index: int) -> Timing | None:
        return self._measured[index].timing(self._limits.floor_seconds)

    def _is_wide(self, index: int) -> bool:
        found = self._timing(index)
        return found is not None and found.interval > self._limits.interval

    def _why(self, wide: Sequence[int]) -> str:
        timings = [self._timing(index) for index in wide]
        return "busy machine" if any(each is not None and each.is_busy for each in timings) else "times differ"

    def _pass(self, worker: Worker, cases: Sequence[int], how: str, *, again: bool = False) -> None:
        """Have one worker measure cases, or measure them `again`, and end it."""
        phase = self._bench.phase
        try:
            for index in cases:
                measured = self._measured.setdefault(index, _Measured())
                self._say(phase.name, index + 1, len(phase.cases), case_text(phase.cases[index]) + how)
                rows: list[Called] = []
                measured.passes.append(rows)
                try:
                    self._measure(worker, index, measured, rows, again=again)
                except CallFailed as error:
                    measured.failure = error
                    return
        finally:
            self._dismiss(worker)

    def _measure(self, worker: Worker, index: int, measured: _Measured, rows: list[Called], *, again: bool) -> None:
        """Measure one case with one worker: calls alone, then rows, in turns with the trusted worker."""
        for _ in range(self._limits.warmup_calls):
            self._bench.call(worker, index, [secret_seed()], timed=True)
        if not again:
            self._call_reference(index, measured)
        self._describe_outputs(index)
        measured.alone.append(self._row(worker, index, measured, 1))
        if measured.calls == 1:
            measured.calls = self._calls(index, measured.call_ns(measured.alone[-1]), measured)
        # If rows have one call, each of them is a call alone.
        for _ in range(0 if again or measured.calls == 1 else _ALONE_CALLS - 1):
            measured.alone.append(self._row(worker, index, measured, 1))
        count = self._limits.rows + again
        try:
            self._fill(worker, index, measured, rows, count)
        except OutputsOverlap:
            measured.one_by_one, measured.calls = True, 1
            rows.clear()
            self._fill(worker, index, measured, rows, count)

    def _fill(self, worker: Worker, index: int, measured: _Measured, rows: list[Called], count: int) -> None:
        """Add rows until `count` exist, each with as many calls as fill its time."""
        resizes = 0
        while len(rows) < count:
            others = OtherWork()
            row = self._row(worker, index, measured, measured.calls)
            wanted = 1 if measured.one_by_one else self._calls(index, measured.call_ns(row), measured)
            if resizes < _RESIZES_MAX and not row.calls / 2 <= wanted <= 2 * row.calls:
                resizes += 1
                measured.calls = wanted
            else:
                rows.append(row)
                measured.busy.append(others.processors())

    def _row(self, worker: Worker, index: int, measured: _Measured, count: int) -> Called:
        """Make a row of calls, right after one that measures the overhead of a row."""
        seeds = [secret_seed() for _ in range(count)]
        row = self._bench.call(
            worker, index, seeds, timed=True, first=lambda: self._call_nothing(index, measured, count)
        )
        steps_ns = self._bench.steps_ns
        measured.judge_seconds = sum(steps_ns.get(step, 0.0) for step in _JUDGE_STEPS) / count / 1e9
        return row

    def _calls(self, index: int, call_ns: float, measured: _Measured) -> int:
        """Return the number of calls of `call_ns` in a row: as many as fill its time, as memory and the judge allow."""
        limits, bench = self._limits, self._bench
        call_bytes = bench.input_bytes[index] + bench.output_bytes(index)
        most = min(limits.row_calls, limits.row_bytes / max(1, call_bytes))
        if measured.judge_seconds:
            most = min(most, _ROW_JUDGE_SECONDS / measured.judge_seconds)
        return max(1, min(int(most), math.ceil(limits.row_seconds * 1e9 / max(1.0, call_ns))))

    def _call_reference(self, index: int, measured: _Measured) -> None:
        """Add a row of the reference; the first of all is not counted, since it may have to warm up."""
        if not self._has_reference:
            return
        with self._alone(), of_the_task():
            if not measured.reference:
                self._reference_row(index, measured)
            measured.reference.append(self._reference_row(index, measured))

    def _reference_row(self, index: int, measured: _Measured) -> Called:
        seeds = [secret_seed() for _ in range(measured.reference_calls)]
        try:
            called = self._bench.call(self._trusted, index, seeds, timed=True)
        except OutputsOverlap:
            called = self._bench.call(self._trusted, index, seeds[:1], timed=True)
        wanted = self._calls(index, called.claimed_ns / called.calls, measured)
        measured.reference_calls = -(-wanted // _REFERENCE_SHARE)
        return called

    def _describe_outputs(self, index: int) -> None:
        """Give the trusted worker the form of the kernel's outputs, so that it hands them over in the same way."""
        with self._alone(), of_the_task():
            self._bench.empty_row(self._trusted, index, 1, described=True)

    def _call_nothing(self, index: int, measured: _Measured, count: int) -> None:
        with self._alone(), of_the_task():
            called = self._bench.empty_row(self._trusted, index, count)
        measured.row_overhead_ns.setdefault(count, []).append(called.empty_ns)

    def _check_floors(self) -> None:
        for index, measured in self._measured.items():
            found = self._timing(index)
            floor = floor_ns(0, self._bench.work.get(index), self._peak)
            if found is not None and found.median_ns < floor:
                words = (
                    f"a call takes {duration_text(found.median_ns)}, less than {duration_text(floor)}, which no right "
                    "call can take on this device"
                )
                measured.failure = CallFailed(Verdict.BELOW_FLOOR, words)

    def cases(self) -> list[Case]:
        """Return the results of each case that at least one worker has measured, or that failed."""
        phase = self._bench.phase
        cases: list[Case] = []
        for index, measured in sorted(self._measured.items()):
            failure = measured.failure
            if not failure and not any(measured.passes):
                continue
            verdict, message = (failure.verdict, failure.message) if failure else (Verdict.PASS, "")
            work, spec = self._bench.work.get(index), case_text(phase.cases[index])
            cases.append(Case(phase.name, index, spec, verdict, message, self._timing(index), work))
            if failure:
                break
        return cases
