"""Benchmarks by the supervisor's clock: the time of rows of calls, minus the row's overhead besides the kernel.

A row has as many calls as take some milliseconds together, each with inputs of its own, all of which are in memory when
the clock starts. No time that the worker reports counts. The overhead of a row is measured with a trusted worker that
goes through a row of its own without the kernel, in turns with the submission's. docs/design/timing.md has the
estimator, its error, and the possible gain of a submission that lies.
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.crew import Crew
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import of_rows
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import Called, CallFailed, OutputsOverlap, secret_seed
from hpc_board.harness.wire.form import BLOCKS_MAX
from hpc_board.model.measurement import BOUND_SHARE, least_of_row_ns, lower_quartile, quartile_interval
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Timing, Verdict
from hpc_board.model.score import duration_text

_RESIZES_MAX = 6
_ALONE_CALLS = 3
_ALONE_CALLS_BOUND = 9
"""Number of calls alone of all workers together where these count: in each mode, the fastest is one of as many."""

_REFERENCE_ROWS = 3
"""Number of rows of the reference, of all workers together; twice as many where they differ."""

_REFERENCE_SHARE = 4
_ROW_JUDGE_SECONDS = 1.0
"""Time limit for making the inputs of a row and checking its outputs."""

_JUDGE_STEPS = ("generate the inputs", "write the inputs", "copy the output", "check the output")


FULL_SHARE = 0.2
"""Share of a row's time from which on all of its overhead is subtracted."""

_ONE_BY_ONE = (
    "the kernel returns the same memory each time, so its calls were timed one by one, and each time includes a part "
    "of the harness's own: outputs in new memory are timed many at once"
)
_TOGETHER = "calls may overlap: {in_row} each back to back; the time is {share:.0f} % of {whose}, {bound}"


@dataclass
class _Measured:
    """Measurements of one benchmark case.

    `row_seconds` is the time that a row should take. `calls` is the number of calls in a row; `passes` holds the rows
    of each worker, `alone` the calls made one by one. `empty` holds the rows of the trusted worker without a kernel, by
    their number of calls. `reference_calls` is the number of calls in a row of the reference. `one_by_one`: the kernel
    returns the same memory each time, so that no two calls can be in a row. `judge_seconds` is the time to make a
    call's inputs and to check its output. `busy` holds the number of processors that others used during each row.
    """

    row_seconds: float
    calls: int = 1
    passes: list[list[Called]] = field(default_factory=list)
    alone: list[Called] = field(default_factory=list)
    empty: dict[int, list[Called]] = field(default_factory=dict)
    reference: list[Called] = field(default_factory=list)
    reference_calls: int = 1
    one_by_one: bool = False
    judge_seconds: float = 0.0
    busy: list[float] = field(default_factory=list)
    failure: CallFailed | None = None

    @property
    def references_ns(self) -> list[float]:
        """Return the time of a call in each row of the reference."""
        return [_trusted_ns(each) / each.calls for each in self.reference]

    @property
    def rows(self) -> list[Called]:
        """Return the rows of all workers."""
        return [row for each in self.passes for row in each]

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""
        if self.one_by_one:
            return _ONE_BY_ONE if any(self._fullness(row) < 1 for row in self.rows) else ""
        if not self.rows or not self.is_bounded:
            return ""
        bound, in_row = map(duration_text, (self.bound_ns(), lower_quartile(list(map(self.call_ns, self.rows)))))
        whose = "the CPU time of a call" if self._worked_ns() < self._alone_ns() else "a single call"
        return (
            ""
            if bound == in_row
            else _TOGETHER.format(bound=bound, whose=whose, in_row=in_row, share=100 * BOUND_SHARE)
        )

    @property
    def is_bounded(self) -> bool:
        """Return whether the time is that of the bound, and not that of the rows."""
        return self.bound_ns() > lower_quartile(list(map(self.call_ns, self.rows)))

    def call_ns(self, row: Called) -> float:
        """Return the time of one call of a row, at least a nanosecond if it cannot be told from the overhead."""
        beside_ns = self._fullness(row) * self._overhead_ns(row)
        return max(1.0, (row.wall_ns - row.waited_ns - beside_ns) / row.calls)

    def _fullness(self, row: Called) -> float:
        """Return the share of the overhead to subtract: all of it, but for a row that is short for its overhead."""
        kernel_ns = max(0.0, row.wall_ns - row.waited_ns - self._overhead_ns(row))
        return min(1.0, kernel_ns / (FULL_SHARE * self.row_seconds * 1e9))

    def _overhead_ns(self, row: Called) -> float:
        return min(each.empty_ns for each in self._empty(row))

    def _empty(self, row: Called) -> list[Called]:
        """Return the rows without a kernel that show the overhead of a row.

        Answers that are written out within the row count with their full cost: if it were subtracted, a worker that
        writes them faster would gain the difference.
        """
        return self.empty.get(row.calls if row.by_blocks else 1) or self.empty[1]

    def bound_ns(self) -> float:
        """Return a lower bound of a call's time: calls of a row may run at the same time on several processors.

        Then the processors work for longer than the row takes, and a call alone takes longer than one of the row.
        """
        return least_of_row_ns(self._worked_ns(), self._alone_ns())

    def _worked_ns(self) -> float:
        """Return the run time of the whole submission for a call of a row; infinite if it is unknown."""
        worked = [
            (row.processor_ns - min((each.work_ns for each in self._empty(row) if each.is_counted), default=0.0))
            / row.calls
            for row in self.rows
            if row.is_counted
        ]
        return lower_quartile(worked) if worked else math.inf

    def _alone_ns(self) -> float:
        """Return the time of the fastest call that was made alone, with the run time of the harness around it."""
        idle_ns = min((each.idle_ns for each in self.empty.get(1, ()) if each.is_counted), default=0.0)
        alone = [each for each in (*self.alone, *self.rows) if each.calls == 1]
        return max(0.0, min((each.wall_ns - each.waited_ns - idle_ns for each in alone), default=0.0))

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first row."""
        if not self.rows:
            return None
        return of_rows(
            [list(map(self.call_ns, each)) for each in self.passes if each],
            self.references_ns,
            [row.claimed_ns / row.calls for row in self.rows],
            floor_ns=1e9 * floor_seconds,
            bound_ns=self.bound_ns(),
            alone_ns=self._alone_ns(),
            busy=statistics.median(self.busy or [0.0]),
        )


def _trusted_ns(called: Called) -> float:
    """Return the time of the trusted worker's calls by its own clock, minus its waiting for a processor."""
    return called.claimed_ns - max(0.0, called.waited_ns - called.overhead_ns)


class RowBenchmarks(Passes[Worker, _Measured]):
    """The timed part of an evaluation on a device where all processes of a submission can be stopped."""

    def __init__(self, bench: Bench, crew: Crew[Worker], say: Say, peak: Peak | None = None) -> None:
        super().__init__(bench, crew, say, peak)
        self._trusted = crew.trusted_worker()

    def _measurements(self) -> _Measured:
        return _Measured(self._limits.row_seconds)

    def _measure(self, worker: Worker, index: int, measured: _Measured, *, again: bool) -> None:
        """Measure one case with one worker: calls alone, then rows, in turns with the trusted worker."""
        rows: list[Called] = []
        measured.passes.append(rows)
        for _ in range(self._limits.warmup_calls):
            # Written out, so that the task's check sees the answer as it is.
            self._bench.call(worker, index, [secret_seed()])
        self._call_reference(index, measured, again=again)
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
        for _ in range(0 if again or measured.calls == 1 else -(-_ALONE_CALLS_BOUND // self._workers) - _ALONE_CALLS):
            if not measured.is_bounded:
                break
            measured.alone.append(self._row(worker, index, measured, 1))

    def _fill(self, worker: Worker, index: int, measured: _Measured, rows: list[Called], count: int) -> None:
        """Add rows until `count` exist, each with as many calls as fill its time."""
        resizes = 0
        while len(rows) < count:
            others = OtherWork()
            row = self._row(worker, index, measured, measured.calls)
            wanted = self._calls(index, measured.call_ns(row), measured)
            fits = measured.one_by_one or row.calls / 2 <= wanted <= 2 * row.calls
            if resizes < _RESIZES_MAX and not fits:
                resizes += 1
                measured.calls = wanted
            else:
                rows.append(row)
                measured.busy.append(others.processors())

    def _row(self, worker: Worker, index: int, measured: _Measured, count: int) -> Called:
        """Make a row of calls, right after one that measures the overhead of a row."""
        row = self._timed(worker, index, count, lambda: self._call_nothing(index, measured, count))
        steps_ns = self._bench.steps_ns
        measured.judge_seconds = sum(steps_ns.get(step, 0.0) for step in _JUDGE_STEPS) / count / 1e9
        return row

    def _timed(self, worker: Worker, index: int, count: int, first: Callable[[], None] | None = None) -> Called:
        """Make a row of calls; repeat one whose answers have another shape than the known form.

        The shape of a right answer may depend on the inputs: in calls that are not timed the judge compares it with the
        reference's.
        """
        bench, seeds = self._bench, [secret_seed() for _ in range(count)]
        try:
            return bench.call(worker, index, seeds, timed=True, first=first)
        except CallFailed as error:
            if error.verdict is not Verdict.WRONG_SHAPE:
                raise
            bench.call(worker, index, seeds)
            return bench.call(worker, index, [secret_seed() for _ in range(count)], timed=True, first=first)

    def _calls(self, index: int, call_ns: float, measured: _Measured) -> int:
        """Return the number of calls of `call_ns` in a row: as many as fill its time, as memory and the judge allow."""
        limits, bench = self._limits, self._bench
        row_bytes = min(limits.row_bytes, limits.value_bytes)
        most = min(limits.row_calls, row_bytes / bench.call_bytes(index), BLOCKS_MAX // bench.blocks(index))
        if measured.judge_seconds:
            most = min(most, _ROW_JUDGE_SECONDS / measured.judge_seconds)
        return max(1, min(int(most), math.ceil(limits.row_seconds * 1e9 / max(1.0, call_ns))))

    def _call_reference(self, index: int, measured: _Measured, *, again: bool) -> None:
        """Add rows of the reference, more if they differ.

        The first of all is not counted, since it may have to warm up. Other load of the machine may disturb all rows of
        one moment, so each worker begins with some.
        """
        if not self._crew.has_reference:
            return
        start = time.monotonic()
        count = 0 if again else -(-_REFERENCE_ROWS // self._workers)
        with self._crew.alone(), of_the_task():
            if not measured.reference:
                self._reference_row(index, measured)
            for number in range(2 * max(1, count)):
                late = time.monotonic() - start > self._limits.baseline_seconds
                if number >= count and (late or not self._reference_differs(measured)):
                    break
                measured.reference.append(self._reference_row(index, measured))

    def _reference_differs(self, measured: _Measured) -> bool:
        times_ns = measured.references_ns
        low_ns, high_ns = quartile_interval(times_ns)
        return len(times_ns) > 1 and high_ns - low_ns > self._limits.interval * lower_quartile(times_ns)

    def _reference_row(self, index: int, measured: _Measured) -> Called:
        try:
            called = self._timed(self._trusted, index, measured.reference_calls)
        except OutputsOverlap:
            called = self._timed(self._trusted, index, 1)
        wanted = self._calls(index, called.claimed_ns / called.calls, measured)
        measured.reference_calls = -(-wanted // _REFERENCE_SHARE)
        return called

    def _call_nothing(self, index: int, measured: _Measured, count: int) -> None:
        with self._crew.alone(), of_the_task():
            called = self._bench.empty_row(self._trusted, index, count)
        measured.empty.setdefault(called.calls, []).append(called)
