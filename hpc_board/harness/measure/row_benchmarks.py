"""Benchmarks by the supervisor's clock: the time of rows of calls, minus the row's overhead besides the kernel.

A row has as many calls as take some milliseconds together, each with inputs of its own, all of which are in memory when
the clock starts. No time that the worker reports counts. The overhead of a row is measured with a trusted worker that
goes through a row of its own without the kernel, in turns with the submission's. docs/design/timing.md has the
estimator, its error, and the possible gain of a submission that lies.
"""

import math
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import of_rows
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import Called, CallFailed, OutputsOverlap, secret_seed
from hpc_board.model.measurement import least_of_alone_ns, lower_quartile
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Timing
from hpc_board.model.score import duration_text

_RESIZES_MAX = 6
_ALONE_CALLS = 3
_REFERENCE_SHARE = 4
_ROW_JUDGE_SECONDS = 1.0
"""Time limit for making the inputs of a row and checking its outputs."""

_JUDGE_STEPS = ("make the inputs", "write the inputs", "copy the output", "check the output")


_ONE_BY_ONE = (
    "the kernel returns the same memory each time, so its calls were timed one by one, and each time includes a part "
    "of the harness's own: outputs in new memory are timed many at once"
)
_ALONE = (
    "a call alone took {alone}, a call in a row {in_row}: calls in a row could overlap, so nine tenths of the former "
    "less 0.1 ms count"
)


@dataclass(frozen=True)
class _Row:
    """A row that counts; `wanted` is the number of calls that would fill its time, memory and judge permitting."""

    called: Called
    wanted: int

    @property
    def fullness(self) -> float:
        """Return the share of the overhead to subtract: all of it, but of a row with less than half of its calls."""
        return 1.0 if 2 * self.called.calls >= self.wanted else self.called.calls / self.wanted


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
    passes: list[list[_Row]] = field(default_factory=list)
    alone: list[Called] = field(default_factory=list)
    row_overhead_ns: dict[int, list[float]] = field(default_factory=dict)
    reference: list[Called] = field(default_factory=list)
    reference_calls: int = 1
    one_by_one: bool = False
    judge_seconds: float = 0.0
    busy: list[float] = field(default_factory=list)
    failure: CallFailed | None = None

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""
        rows = [row for each in self.passes for row in each]
        if self.one_by_one:
            return _ONE_BY_ONE if any(row.fullness < 1 for row in rows) else ""
        if not rows or not self.alone:
            return ""
        alone_ns = min(self._alone_ns())
        in_row_ns = lower_quartile([self.call_ns(row.called, row.fullness) for row in rows])
        if least_of_alone_ns([alone_ns]) <= in_row_ns:
            return ""
        return _ALONE.format(alone=duration_text(alone_ns), in_row=duration_text(in_row_ns))

    def call_ns(self, row: Called, fullness: float = 1.0) -> float:
        """Return the time of one call of a row, at least a nanosecond if it cannot be told from the overhead.

        Outputs that are described within the row count with their full cost: if it were subtracted, a worker that
        describes them faster would gain the difference. So the trusted worker's rows count only if it listed addresses
        too, and there is one of a single call in any case. `fullness` is the share of the overhead that is subtracted.
        """
        row_overhead_ns = min(self.row_overhead_ns.get(row.calls if row.by_address else 1) or self.row_overhead_ns[1])
        return max(1.0, (row.wall_ns - row.waited_ns - fullness * row_overhead_ns) / row.calls)

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first row."""
        passes = [[self.call_ns(row.called, row.fullness) for row in each] for each in self.passes if each]
        if not passes:
            return None
        reference = [_trusted_ns(each) / each.calls for each in self.reference]
        claimed = [row.called.claimed_ns / row.called.calls for each in self.passes for row in each]
        return of_rows(
            passes,
            reference,
            claimed,
            floor_ns=1e9 * floor_seconds,
            least_ns=least_of_alone_ns(self._alone_ns()),
            busy=statistics.median(self.busy or [0.0]),
        )

    def _alone_ns(self) -> list[float]:
        """Return the times of calls that were made one by one."""
        rows = (row.called for each in self.passes for row in each)
        return [self.call_ns(each) for each in (*self.alone, *rows) if each.calls == 1]


def _trusted_ns(called: Called) -> float:
    """Return the time of the trusted worker's calls by its own clock, minus its waiting for a processor."""
    return called.claimed_ns - max(0.0, called.waited_ns - called.overhead_ns)


class RowBenchmarks(Passes[Worker, _Measured]):
    """The timed part of an evaluation on a device where all processes of a submission can be stopped.

    `trusted` is a worker with the task's reference, or with no function if the task has none; `alone` stops all other
    processes while it is called.
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
        super().__init__(bench, new_worker, dismiss, say, peak)
        self._trusted = trusted
        self._alone = alone
        self._has_reference = has_reference

    def _measurements(self) -> _Measured:
        return _Measured()

    def _measure(self, worker: Worker, index: int, measured: _Measured, *, again: bool) -> None:
        """Measure one case with one worker: calls alone, then rows, in turns with the trusted worker."""
        rows: list[_Row] = []
        measured.passes.append(rows)
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

    def _fill(self, worker: Worker, index: int, measured: _Measured, rows: list[_Row], count: int) -> None:
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
                rows.append(_Row(row, wanted))
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
        call_bytes = bench.input_bytes[index] + bench.row_output_bytes(index)
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
            if not called.by_address:
                called = self._bench.empty_row(self._trusted, index, 1, number=True)
        measured.row_overhead_ns.setdefault(called.calls, []).append(called.empty_ns)
