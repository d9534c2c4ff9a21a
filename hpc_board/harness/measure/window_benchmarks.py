"""Benchmarks of a GPU by the judge's clock: the time of each call's window, minus that of a window without a call.

The judge's process writes the inputs of a call into the worker's memory, gives the sign that starts it, takes the
outputs, and times all of that by its own events (device/gpu_window.py). No time that the worker reports counts. The
overhead of a window is measured in the same process, before it imports the submission and while no other process of the
submission exists: windows of two processes differ by microseconds. docs/design/timing.md has the estimator and its
error.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.gpu_bench import GpuBench, Made
from hpc_board.harness.measure.gpu_worker import GpuWorker
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import of_rows
from hpc_board.harness.processes.calls import CalledInWindow, CallFailed, MemoryNotShared, secret_seed
from hpc_board.model.measurement import calls_needed, lower_quartile, quartile_interval
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Timing, Verdict
from hpc_board.model.score import duration_text

_OVERHEAD_WINDOWS = 8
_NOTHING_WINDOWS = 3
_REFERENCE_WINDOWS = 5
_CHECKS = 3
_TRIALS = 3
_CLOCK_NS = 300.0
"""Width of an interval that is as narrow as the windows of a quiet GPU make it."""

_WIDE_NS = 1000.0
_SHORT_NS = 20_000.0
"""Difference by which a window is too short to contain the steps of every window."""

_CHANGE_NS_MIN = 20_000.0
"""Least time for two changes of a GPU between processes, 265 us on an H200; a small kernel alone takes 3 us.

Under NVIDIA's Multi-Process Service kernels of several processes run at once, so that there is no change.
"""

_BY_HOST = (
    "the call waits for the GPU itself: its time includes its launches, the processor's work between them, and steps "
    "of the harness"
)


@dataclass
class _Measured:
    """Measurements of one benchmark case.

    `passes` holds the times of each worker's calls, and `reference_ns` those of the reference. `overhead_ns` is the
    overhead of the present worker's windows, and `host_overhead_ns` that of windows in which its processes run: that of
    copies alone, since a submission decides itself which other steps of such a window it takes. `by_host`: the kernel's
    calls need the processor while the GPU works. `busy` is the number of processors that others used during each pass.
    """

    passes: list[list[float]] = field(default_factory=list)
    reference_ns: list[float] = field(default_factory=list)
    overhead_ns: float = 0.0
    host_overhead_ns: float = 0.0
    by_host: bool = False
    busy: list[float] = field(default_factory=list)
    failure: CallFailed | None = None

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""
        return _BY_HOST if self.by_host else ""

    def call_ns(self, call: CalledInWindow) -> float:
        """Return the time of a call, negative if its window is too short for one."""
        return call.window_ns - (self.host_overhead_ns if call.by_host else self.overhead_ns)

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first window."""
        if not self.passes:
            return None
        busy, floor = statistics.median(self.busy or [0.0]), 1e9 * floor_seconds
        return of_rows(self.passes, self.reference_ns, [], floor_ns=floor, least_ns=0.0, busy=busy)


class WindowBenchmarks(Passes[GpuWorker, _Measured]):
    """The timed part of an evaluation on a GPU whose memory several processes can share.

    `trusted` is a worker with the task's reference, or with no function if the task has none. `new_worker` starts one
    that waits before it imports the submission, which `load` has it do.
    """

    def __init__(
        self,
        bench: GpuBench,
        new_worker: Callable[[], GpuWorker],
        dismiss: Callable[[GpuWorker], None],
        trusted: GpuWorker,
        say: Say,
        load: Callable[[GpuWorker], None],
        *,
        has_reference: bool,
        peak: Peak | None = None,
    ) -> None:
        super().__init__(bench, new_worker, dismiss, say, peak)
        self._gpu = bench
        self._trusted = trusted
        self._load = load
        self._has_reference = has_reference

    def _measurements(self) -> _Measured:
        return _Measured()

    def check(self) -> None:
        """Check, with windows of the trusted worker, that this GPU has them and computes for one process at a time.

        No process of the submission may exist.

        Raises:
            MemoryNotShared: it has none for a case, or computes for several processes at once.
            CallFailed: the reference does not pass.
        """
        least_ns: dict[Made, float] = {}
        for index in range(len(self._bench.phase.cases)):
            with of_the_task():
                self._known_output(index)
            for made in (Made.NOTHING, Made.RESPONSE):
                count = _CHECKS if index == 0 else 1
                windows_ns = [self._overhead_ns(self._trusted, index, made) for _ in range(count)]
                least_ns.setdefault(made, min(windows_ns))
        change_ns = least_ns[Made.RESPONSE] - least_ns[Made.NOTHING]
        if change_ns < _CHANGE_NS_MIN:
            message = f"a kernel takes {change_ns / 1e3:.0f} us, less than a change between processes: is MPS in use?"
            raise MemoryNotShared(message)

    def _overhead_ns(self, worker: GpuWorker, index: int, made: Made) -> float:
        """Return the time of a window without a call, of a worker that has imported nothing of a submission."""
        try:
            return self._gpu.window(worker, index, secret_seed(), made).window_ns
        except MemoryNotShared:
            raise
        except CallFailed as error:
            verdict = Verdict.OUT_OF_MEMORY if error.verdict is Verdict.OUT_OF_MEMORY else Verdict.TASK_ERROR
            message = f"a window without a call fails: {error.verdict}: {error.message}"
            raise CallFailed(verdict, message, worker_lost=True) from error

    def _overheads_ns(self, worker: GpuWorker, index: int) -> float:
        """Return the overhead of a worker's windows; the first one is not counted, since PyTorch allocates memory."""
        windows_ns = [self._overhead_ns(worker, index, Made.RESPONSE) for _ in range(1 + _OVERHEAD_WINDOWS)]
        return lower_quartile(windows_ns[1:])

    def _known_output(self, index: int) -> None:
        """Make sure that an output of the case exists, which the trusted worker can return."""
        if self._has_reference and not self._bench.output_bytes(index):
            for _ in range(self._limits.warmup_calls):
                self._bench.call(self._trusted, index, [secret_seed()], timed=True)

    def _begin(self, cases: Sequence[int]) -> GpuWorker:
        """Return a new worker, after the overheads of its windows and times of the reference were measured."""
        self._gpu.release_windows()
        for index in cases:
            measured = self._measured.setdefault(index, self._measurements())
            self._known_output(index)
            if self._has_reference:
                self._time_reference(index, measured)
        worker = self._new_worker()
        try:
            for index in cases:
                measured = self._measured[index]
                measured.overhead_ns = self._overheads_ns(worker, index)
                nothing_ns = (self._overhead_ns(worker, index, Made.NOTHING) for _ in range(_NOTHING_WINDOWS))
                measured.host_overhead_ns = min(nothing_ns)
            self._load(worker)
        except BaseException:
            self._dismiss(worker)
            raise
        return worker

    def _time_reference(self, index: int, measured: _Measured) -> None:
        """Add times of the reference, unless its calls wait for the GPU themselves; the first one is not counted."""
        overhead_ns, start = self._overheads_ns(self._trusted, index), time.monotonic()
        with of_the_task():
            self._gpu.window(self._trusted, index, secret_seed())
            for _ in range(_REFERENCE_WINDOWS):
                found = self._gpu.window(self._trusted, index, secret_seed())
                if not found.by_host:
                    measured.reference_ns.append(max(1.0, found.window_ns - overhead_ns))
                if time.monotonic() - start > self._limits.baseline_seconds:
                    break

    def _measure(self, worker: GpuWorker, index: int, measured: _Measured, *, again: bool) -> None:
        """Measure one case with one worker: calls that warm up, then one window for each call."""
        del again
        for _ in range(self._limits.warmup_calls):
            self._bench.call(worker, index, [secret_seed()], timed=True)
        trials = [self._gpu.window(worker, index, secret_seed(), by_host=measured.by_host) for _ in range(_TRIALS)]
        measured.by_host = measured.by_host or sum(each.by_host for each in trials) > _TRIALS / 2
        times_ns: list[float] = []
        others, start = OtherWork(), time.monotonic()
        while not self._enough(times_ns, time.monotonic() - start):
            call = self._gpu.window(worker, index, secret_seed(), by_host=measured.by_host)
            times_ns.append(measured.call_ns(call))
        shortest_ns = lower_quartile(times_ns)
        if shortest_ns < -_SHORT_NS:
            message = f"a window with a call is {duration_text(-shortest_ns)} shorter than one without a call"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        measured.passes.append([max(1.0, time_ns) for time_ns in times_ns])
        measured.busy.append(others.processors())

    def _enough(self, times_ns: Sequence[float], seconds: float) -> bool:
        """Return whether a worker's windows of a case tell its time, or `seconds` of wall time are too many."""
        limits, count = self._limits, len(times_ns)
        if count < calls_needed(times_ns, limits, self._workers):
            return False
        if self._workers * count >= limits.timed_calls_max or self._workers * seconds >= limits.case_seconds:
            return True
        low_ns, high_ns = quartile_interval(times_ns)
        return high_ns - low_ns <= max(_CLOCK_NS, limits.relative_error * lower_quartile(times_ns))

    def _is_wide(self, index: int) -> bool:
        """Return whether more workers have to measure a case, for another reason than the clock's own resolution."""
        found = self._timing(index)
        return found is not None and found.interval * found.median_ns > max(
            _WIDE_NS, self._limits.interval * found.median_ns
        )
