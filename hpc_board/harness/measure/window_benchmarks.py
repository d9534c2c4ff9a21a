"""Benchmarks of a GPU by the judge's clock: the time of each call's window, minus that of a window without a call.

The judge's process writes the inputs of a call into the worker's memory, gives the sign that starts it, takes the
outputs, and times all of that by its own events (device/gpu_window.py). No time that the worker reports counts. The
overhead of a window is that of a trusted worker's. It is measured while no process of the submission exists, since work
that such a process leaves on a GPU would lengthen it, and again between the submission's calls; the shorter one counts.
docs/design/timing.md has the estimator and its error.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.gpu_bench import GpuBench, Made
from hpc_board.harness.measure.gpu_worker import GpuWorker
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import of_rows
from hpc_board.harness.processes.calls import CallFailed, secret_seed
from hpc_board.model.measurement import lower_quartile, quartile_interval
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Timing, Verdict

_OVERHEAD_WINDOWS = 10
_BETWEEN_WINDOWS = 2
_BETWEEN_CALLS = 7
_HOST_WINDOWS = 5
_REFERENCE_WINDOWS = 8
_CLOCK_NS = 300.0
"""Width of an interval that is as narrow as the windows of a quiet GPU make it."""

_WIDE_NS = 1000.0
_BY_HOST = (
    "the call waits for the GPU itself: its time includes its launches, the processor's work between them, and the "
    "GPU's change to its process and back"
)
_CHECKS = 3
_CHANGE_NS_MIN = 20_000.0
"""Least time for two changes of a GPU between processes, 265 us on an H200; a small kernel alone takes 3 us.

Under NVIDIA's Multi-Process Service kernels of several processes run at once, so that there is no change.
"""

_TRIES = 3
"""Number of calls that may wait for the GPU themselves before the case is measured by the host."""


@dataclass
class _Measured:
    """Measurements of one benchmark case.

    `passes` holds the windows of each worker, `overhead_ns` the windows without a call, `between_ns` those between the
    submission's, `host_overhead_ns` those of calls made by the host, `reference_ns` those of the reference. `by_host`:
    the kernel's calls need the processor while the GPU works. `busy` is the number of processors that others used
    during each pass.
    """

    passes: list[list[float]] = field(default_factory=list)
    overhead_ns: list[float] = field(default_factory=list)
    between_ns: list[float] = field(default_factory=list)
    host_overhead_ns: list[float] = field(default_factory=list)
    reference_ns: list[float] = field(default_factory=list)
    by_host: bool = False
    busy: list[float] = field(default_factory=list)
    failure: CallFailed | None = None

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""
        return _BY_HOST if self.by_host else ""

    def call_ns(self, window_ns: float) -> float:
        """Return the time of the call in a window, at least a nanosecond."""
        if self.by_host:
            overhead_ns = min(self.host_overhead_ns)
        else:
            overhead_ns = min(lower_quartile(each) for each in (self.overhead_ns, self.between_ns) if each)
        return max(1.0, window_ns - overhead_ns)

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first window."""
        passes = [[self.call_ns(window) for window in each] for each in self.passes if each]
        if not passes:
            return None
        overhead_ns = lower_quartile(self.overhead_ns)
        reference = [max(1.0, window - overhead_ns) for window in self.reference_ns]
        floor = 1e9 * floor_seconds
        return of_rows(passes, reference, [], floor_ns=floor, least_ns=0.0, busy=statistics.median(self.busy or [0.0]))


class WindowBenchmarks(Passes[GpuWorker, _Measured]):
    """The timed part of an evaluation on a GPU whose memory several processes can share.

    `trusted` is a worker with the task's reference, or with no function if the task has none; `alone` stops all other
    processes while it is called.
    """

    def __init__(
        self,
        bench: GpuBench,
        new_worker: Callable[[], GpuWorker],
        dismiss: Callable[[GpuWorker], None],
        trusted: GpuWorker,
        say: Say,
        alone: Callable[[], AbstractContextManager[None]],
        *,
        has_reference: bool,
        peak: Peak | None = None,
    ) -> None:
        super().__init__(bench, new_worker, dismiss, say, peak)
        self._gpu = bench
        self._trusted = trusted
        self._alone = alone
        self._has_reference = has_reference

    def _measurements(self) -> _Measured:
        return _Measured()

    def check(self) -> None:
        """Check, with windows of the trusted worker, that this GPU has them and computes for one process at a time.

        Raises:
            CallFailed: it has none, or computes for several at once; the message is the reason.
        """
        with of_the_task():
            self._known_output(0)
            least_ns = {
                made: min(self._gpu.window(self._trusted, 0, secret_seed(), made).window_ns for _ in range(_CHECKS))
                for made in (Made.NOTHING, Made.RESPONSE)
            }
        change_ns = least_ns[Made.RESPONSE] - least_ns[Made.NOTHING]
        if change_ns < _CHANGE_NS_MIN:
            message = f"a kernel takes {change_ns / 1e3:.0f} us, less than a change between processes: is MPS in use?"
            raise CallFailed(Verdict.DEVICE_ERROR, message)

    def _known_output(self, index: int) -> None:
        """Make sure that an output of the case exists, which the trusted worker can return."""
        if self._has_reference and not self._bench.output_bytes(index):
            for _ in range(self._limits.warmup_calls):
                self._bench.call(self._trusted, index, [secret_seed()], timed=True)

    def _before_pass(self, cases: Sequence[int]) -> None:
        """Measure the overhead of a window, and the reference, while no process of the submission exists."""
        self._gpu.release_windows()
        with of_the_task():
            for index in cases:
                measured = self._measured.setdefault(index, self._measurements())
                self._known_output(index)
                # The first window of a case is not counted: PyTorch allocates its memory.
                self._gpu.window(self._trusted, index, secret_seed(), Made.RESPONSE)
                self._add_overheads(index, measured.overhead_ns, _OVERHEAD_WINDOWS)
                for _ in range(_HOST_WINDOWS):
                    found = self._gpu.window(self._trusted, index, secret_seed(), Made.NOTHING, by_host=True)
                    measured.host_overhead_ns.append(found.window_ns)
                if self._has_reference:
                    self._gpu.window(self._trusted, index, secret_seed())
                    for _ in range(_REFERENCE_WINDOWS):
                        found = self._gpu.window(self._trusted, index, secret_seed())
                        measured.reference_ns.append(found.window_ns)

    def _add_overheads(self, index: int, overheads_ns: list[float], count: int) -> None:
        """Add the times of windows in which a trusted worker responds to the challenge and returns a known output."""
        windows = (self._gpu.window(self._trusted, index, secret_seed(), Made.RESPONSE) for _ in range(count))
        overheads_ns += [found.window_ns for found in windows]

    def _measure(self, worker: GpuWorker, index: int, measured: _Measured, *, again: bool) -> None:
        """Measure one case with one worker: calls that warm up, then one window for each call."""
        del again
        windows_ns: list[float] = []
        for _ in range(self._limits.warmup_calls):
            self._bench.call(worker, index, [secret_seed()], timed=True)
        others, tries = OtherWork(), 0
        self._gpu.window(worker, index, secret_seed(), by_host=measured.by_host)
        start = time.monotonic()
        while not self._enough(measured, windows_ns, time.monotonic() - start):
            if len(windows_ns) % _BETWEEN_CALLS == 0:
                with self._alone(), of_the_task():
                    self._add_overheads(index, measured.between_ns, _BETWEEN_WINDOWS)
            found = self._gpu.window(worker, index, secret_seed(), by_host=measured.by_host)
            if found.by_host and not measured.by_host:
                tries += 1
                if tries == _TRIES:
                    # All windows of a case are of one kind.
                    measured.by_host = True
                    measured.passes.clear()
                    windows_ns.clear()
                continue
            windows_ns.append(found.window_ns)
        measured.passes.append(windows_ns)
        measured.busy.append(others.processors())

    def _enough(self, measured: _Measured, windows_ns: Sequence[float], seconds: float) -> bool:
        """Return whether a worker's windows of a case tell its time, or `seconds` of wall time are too many."""
        limits, count = self._limits, self._workers * len(windows_ns)
        if count < limits.timed_calls_min:
            return False
        if count >= limits.timed_calls_max or self._workers * seconds >= limits.case_seconds:
            return True
        times_ns = [measured.call_ns(each) for each in windows_ns]
        low_ns, high_ns = quartile_interval(times_ns)
        return high_ns - low_ns <= max(_CLOCK_NS, limits.relative_error * lower_quartile(times_ns))

    def _is_wide(self, index: int) -> bool:
        """Return whether more workers have to measure a case, for another reason than the clock's own resolution."""
        found = self._timing(index)
        if found is None:
            return False
        return found.interval * found.median_ns > max(_WIDE_NS, self._limits.interval * found.median_ns)
