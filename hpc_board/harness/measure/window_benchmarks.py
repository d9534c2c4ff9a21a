"""Benchmarks of a GPU by two clocks: the worker's own events, and the windows of the judge, which bound them.

A worker times its calls as the field does: by events, with cold caches. That is exact for an honest kernel, and proves
nothing of another one. The judge's process also encloses calls in windows between its own events
(device/gpu_window.py): no submission makes them shorter, and they are exact within some microseconds. The time that
counts is the worker's claim, but at least the window's time less that error, the slack. The overhead of a window is
measured in the same process, before it imports the submission and while no other process of the submission exists:
windows of two processes differ by microseconds. docs/design/timing.md has the estimator and its error.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hpc_board.harness.measure.contention import OtherWork
from hpc_board.harness.measure.crew import Crew
from hpc_board.harness.measure.gpu_bench import GpuBench, Made
from hpc_board.harness.measure.gpu_worker import GpuWorker
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.phases import Say, of_the_task
from hpc_board.harness.measure.timing import enough, is_wide, of_two_clocks
from hpc_board.harness.processes.calls import CalledInWindow, CallFailed, MemoryNotShared, NoWindow, secret_seed
from hpc_board.model.measurement import calls_needed
from hpc_board.model.peaks import Peak
from hpc_board.model.result import AUDITED, JUDGE, WORKER, Timing, Verdict
from hpc_board.model.score import duration_text

_OVERHEAD_WINDOWS = 8
_NOTHING_WINDOWS = 3
_REFERENCE_CALLS = 5
_AUDIT_WINDOWS = 8
_CHECKS = 3
_TRIALS = 3
_SHORT_NS = 20_000.0
"""Difference by which a window is too short to contain the steps of every window."""

SLACK_NS = 1000.0
SLACK_SHARE = 0.02
"""Least error of a window, in nanoseconds and as a share of its time."""

_EXCESS_NS_MAX = 5000.0
"""Longest time by which a call in a window may take longer for its cold address translation and code."""

SCATTER_NS_MAX = 5000.0
"""Difference between windows without a call up to which they bound any time."""

_OUTPUT_SHARE_MAX = 0.1
"""Largest share of a call's time that the copying of its output within a window may take."""

_CHANGE_NS_MIN = 20_000.0
"""Least time for two changes of a GPU between processes, 265 us on an H200; a small kernel alone takes 3 us.

Under NVIDIA's Multi-Process Service kernels of several processes run at once, so that there is no change.
"""

_BY_HOST = (
    "the call synchronizes with the GPU itself: its time includes its launches, the host's work between them, and "
    "steps of the harness"
)


@dataclass(frozen=True)
class _Overhead:
    """The time of a window without a call, and the longest time to copy such outputs behind it.

    `output_ns` is the time to copy the known output within a window, to memory of the judge.
    """

    window_ns: float = 0.0
    copied_ns: float = 0.0
    output_ns: float = 0.0

    def call_ns(self, call: CalledInWindow) -> float:
        """Return the time of a call, negative if its window is too short for one.

        Work that goes on behind the window makes the copying of the outputs longer, and counts.
        """
        return call.window_ns - self.window_ns + max(0.0, call.copied_ns - self.copied_ns)


@dataclass
class _Measured:
    """Measurements of one benchmark case.

    `claims` holds the times of each worker's calls by its own clock, `windows` those by the judge's, and `reference_ns`
    those of the reference by its own. `overhead` is the overhead of the present worker's windows, and `host_overhead`
    that of windows in which its processes run: only that of copies, since a submission decides itself which other
    steps of such a window it takes. `overheads_ns` are those of all processes so far, `subtracted_ns` those of the
    workers whose windows there are, and `drift_ns` is the change of
    the trusted worker's from the begin to the end, None if it is unknown. `excess_ns` is the time by which the
    reference takes longer in a window. `by_host`: the kernel's calls need the processor while the GPU works. `busy` is
    the number of processors that others used during each pass, and `throttled` says that the GPU protected itself in
    most calls of one.
    """

    claims: list[list[float]] = field(default_factory=list)
    windows: list[list[float]] = field(default_factory=list)
    reference_ns: list[float] = field(default_factory=list)
    overhead: _Overhead = field(default_factory=_Overhead)
    host_overhead: _Overhead = field(default_factory=_Overhead)
    overheads_ns: list[float] = field(default_factory=list)
    subtracted_ns: list[float] = field(default_factory=list)
    drift_ns: float | None = None
    excess_ns: float = 0.0
    by_host: bool = False
    busy: list[float] = field(default_factory=list)
    throttled: bool = False
    failure: CallFailed | None = None

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""
        found = None if self.by_host else self.timing(0.0)
        if found is None or found.kernel_clock_ns is None or found.kernel_clock_ns >= found.time_ns:
            return _BY_HOST if self.by_host else ""
        return (
            f"the kernel's own clock shows {duration_text(found.kernel_clock_ns)}; the judge's lower bound is "
            f"{duration_text(found.time_ns)} ({duration_text(self.slack_ns)} of slack already deducted)"
        )

    @property
    def scatter_ns(self) -> float:
        """Return the difference between the overheads of this run's processes."""
        return max(self.overheads_ns) - min(self.overheads_ns) if self.overheads_ns else 0.0

    @property
    def slack_ns(self) -> float:
        """Return the time by which the window of an honest call may be too long."""
        window_ns = statistics.median(map(statistics.median, self.windows)) if self.windows else 0.0
        least_ns = max(SLACK_NS, SLACK_SHARE * window_ns, self.scatter_ns, min(_EXCESS_NS_MAX, self.excess_ns))
        return least_ns + self.overhead.output_ns

    @property
    def is_loose(self) -> bool:
        """Return whether windows contain a copying that a submission can avoid, and that is a large part of a call."""
        found = self.timing(0.0)
        output_ns = 0.0 if self.by_host else self.overhead.output_ns
        return found is not None and output_ns > _OUTPUT_SHARE_MAX * found.time_ns

    def call_ns(self, call: CalledInWindow) -> float:
        """Return the time of a call in a window; see `_Overhead`."""
        return (self.host_overhead if call.by_host else self.overhead).call_ns(call)

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first window."""
        if not self.windows:
            return None
        # One overhead for all: a submission that made a later worker's longer would gain by it, and by its scatter.
        least_ns = 0.0 if self.by_host else min(self.overheads_ns, default=0.0)
        windows = [
            [time_ns + (0.0 if self.by_host else overhead_ns - least_ns) for time_ns in each]
            for each, overhead_ns in zip(self.windows, self.subtracted_ns, strict=True)
        ]
        return of_two_clocks(
            [] if self.by_host else self.claims,
            windows,
            self.reference_ns,
            slack_ns=self.slack_ns,
            floor_ns=1e9 * floor_seconds,
            busy=statistics.median(self.busy or [0.0]),
            throttled=self.throttled,
        )


class WindowBenchmarks(Passes[GpuWorker, _Measured]):
    """The timed part of an evaluation on a GPU whose memory several processes can share."""

    _interval_ns_min = 1000.0

    def __init__(self, bench: GpuBench, crew: Crew[GpuWorker], say: Say, peak: Peak | None = None) -> None:
        super().__init__(bench, crew, say, peak)
        self._gpu = bench
        crew.check_gone()
        self._trusted = crew.trusted_worker()
        self._throttled_calls = 0
        self._drift_fault = ""

    def facts(self) -> dict[str, Any]:
        """Return the provenance of the times: the clock, the reason if it is only the judge's, and its drift."""
        by_host = [str(index + 1) for index, each in self._measured.items() if each.by_host]
        loose = [str(index + 1) for index, each in self._measured.items() if each.is_loose]
        drifts_ns = [each.drift_ns for each in self._measured.values() if each.drift_ns is not None]
        facts: dict[str, Any] = {**super().facts(), "clock": JUDGE if by_host else AUDITED}
        if drifts_ns:
            facts["clock_drift_ns"] = max(drifts_ns, key=abs)
        if self._drift_fault:
            facts["clock_drift"] = f"unknown: {self._drift_fault}"
        if loose:
            facts["clock"] = WORKER
            facts["clock_reason"] = (
                "in a submission container, outputs are copied within the judge's windows, which takes over "
                f"{_OUTPUT_SHARE_MAX:.0%} of the time of benchmark case {', '.join(loose)}"
            )
        elif by_host:
            facts["clock_reason"] = (
                f"the calls of benchmark case {', '.join(by_host)} synchronize with the GPU themselves"
            )
        if self._throttled_calls:
            facts["throttled_calls"] = self._throttled_calls
        return facts

    def _measurements(self) -> _Measured:
        return _Measured()

    def check(self) -> None:
        """Check, with windows of the trusted worker, that this GPU has them and computes for one process at a time.

        No process of the submission may exist. If the judge cannot use memory of the worker, as across namespaces of
        processes, the worker uses memory of the judge.

        Raises:
            NoWindow: it has none for a case, or computes for several processes at once.
        """
        try:
            self._try_windows()
        except MemoryNotShared as error:
            # The queue of this worker's GPU may wait for a sign that the judge cannot give.
            self._crew.dismiss(self._trusted)
            self._trusted = self._crew.trusted_worker()
            self._gpu.pooled = True
            try:
                self._try_windows()
            except MemoryNotShared as other:
                reasons = dict.fromkeys((error.message, other.message))
                raise NoWindow("; ".join(reasons)) from other

    def close(self) -> None:
        """End the trusted worker, and release the memory of windows."""
        self._crew.dismiss(self._trusted)
        self._gpu.release_windows()

    def _try_windows(self) -> None:
        least_ns: dict[Made, float] = {}
        for place, index in enumerate(self._bench.phase.indices):
            for made in (Made.NOTHING, Made.RESPONSE, Made.OUTPUT):
                count = _CHECKS if place == 0 else 1
                windows = [self._empty_window(self._trusted, index, made) for _ in range(count)]
                least_ns.setdefault(made, min(each.window_ns for each in windows))
        change_ns = least_ns[Made.RESPONSE] - least_ns[Made.NOTHING]
        if change_ns < _CHANGE_NS_MIN:
            message = f"a kernel takes {change_ns / 1e3:.0f} us, less than a change between processes: is MPS in use?"
            raise NoWindow(message)

    def _empty_window(self, worker: GpuWorker, index: int, made: Made) -> CalledInWindow:
        """Return a window without a call, of a worker that has imported nothing of a submission."""
        try:
            return self._gpu.window(worker, index, secret_seed(), made)
        except NoWindow:
            raise
        except CallFailed as error:
            of_node = error.verdict in (Verdict.OUT_OF_MEMORY, Verdict.DEVICE_ERROR, Verdict.INFRA_ERROR)
            verdict = error.verdict if of_node else Verdict.TASK_ERROR
            message = f"a window without a call fails: {error.verdict}: {error.message}"
            raise CallFailed(verdict, message, worker_lost=True) from error

    def _overhead(self, worker: GpuWorker, index: int) -> _Overhead:
        """Return the overhead of a worker's windows; the first one is not counted, since PyTorch allocates memory."""
        windows = [self._empty_window(worker, index, Made.OUTPUT) for _ in range(1 + _OVERHEAD_WINDOWS)][1:]
        window_ns = statistics.median(each.window_ns for each in windows)
        copied_ns = max(each.copied_ns for each in windows)
        if not self._gpu.pooled:
            return _Overhead(window_ns, copied_ns)
        # A kernel that writes its output into the judge's memory needs no copy within the window.
        plain = [self._empty_window(worker, index, Made.RESPONSE).window_ns for _ in range(_OVERHEAD_WINDOWS)]
        plain_ns = statistics.median(plain)
        return _Overhead(plain_ns, copied_ns, max(0.0, window_ns - plain_ns))

    def _nothing_ns(self, worker: GpuWorker, index: int) -> float:
        return min(self._empty_window(worker, index, Made.NOTHING).window_ns for _ in range(_NOTHING_WINDOWS))

    def _begin(self, cases: Sequence[int]) -> GpuWorker:
        """Return a new worker, after the overheads of its windows were measured, and once the reference's times."""
        self._gpu.release_windows()
        for index in cases:
            measured = self._measured.setdefault(index, self._measurements())
            if not measured.overheads_ns:
                self._time_reference(index, measured)
        worker = self._crew.waiting_worker()
        try:
            for index in cases:
                measured = self._measured[index]
                measured.overhead = self._overhead(worker, index)
                measured.overheads_ns.append(measured.overhead.window_ns)
                measured.host_overhead = replace(measured.overhead, window_ns=self._nothing_ns(worker, index))
            self._crew.load(worker)
        except BaseException:
            self._crew.dismiss(worker)
            raise
        return worker

    def _time_reference(self, index: int, measured: _Measured) -> None:
        """Measure the trusted worker's overhead, and the reference by both clocks; first calls are not counted.

        A reference that waits for the GPU itself says nothing of windows.
        """
        overhead, start = self._overhead(self._trusted, index), time.monotonic()
        measured.overheads_ns.append(overhead.window_ns)
        windows_ns: list[float] = []
        if not self._crew.has_reference:
            return
        with of_the_task():
            for number in range(1 + 2 * _REFERENCE_CALLS):
                window = self._gpu.window(self._trusted, index, secret_seed())
                claim = self._bench.call(self._trusted, index, [secret_seed()], timed=True)
                if number > 0:
                    measured.reference_ns.append(claim.claimed_ns)
                    windows_ns += [] if window.by_host else [overhead.call_ns(window) - overhead.output_ns]
                if number > 0 and time.monotonic() - start > self._limits.baseline_seconds:
                    break
                if number >= _REFERENCE_CALLS and not is_wide(measured.reference_ns, self._limits.interval):
                    break
        if windows_ns:
            measured.excess_ns = statistics.median(windows_ns) - statistics.median(measured.reference_ns)

    def _measure(self, worker: GpuWorker, index: int, measured: _Measured, *, again: bool) -> None:
        """Measure one case with one worker: calls that warm up, calls by its own clock, then calls in windows."""
        del again
        for _ in range(self._limits.warmup_calls):
            self._bench.call(worker, index, [secret_seed()], timed=True)
        trials = [self._window(worker, index, measured) for _ in range(_TRIALS)]
        if not measured.windows:
            # Once for all workers: their times have to be of one kind.
            measured.by_host = sum(each.by_host for each in trials) > _TRIALS / 2
        others, claims_ns = OtherWork(), list[float]()
        if not measured.by_host:
            claims_ns = self._repeated(measured, partial(self._claim, worker, index))
        windowed = partial(self._windowed, worker, index, measured)
        windows_ns = self._repeated(measured, windowed, None if measured.by_host else _AUDIT_WINDOWS)
        if statistics.median(windows_ns) < -_SHORT_NS:
            short = duration_text(-statistics.median(windows_ns))
            message = f"a window with a call is {short} shorter than one without a call"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        if claims_ns:
            measured.claims.append(claims_ns)
        measured.windows.append([max(1.0, time_ns) for time_ns in windows_ns])
        measured.subtracted_ns.append(measured.overhead.window_ns)
        measured.busy.append(others.processors())

    def _window(self, worker: GpuWorker, index: int, measured: _Measured) -> CalledInWindow:
        return self._gpu.window(worker, index, secret_seed(), by_host=measured.by_host)

    def _windowed(self, worker: GpuWorker, index: int, measured: _Measured) -> tuple[float, bool]:
        window = self._window(worker, index, measured)
        return measured.call_ns(window), window.throttled

    def _claim(self, worker: GpuWorker, index: int) -> tuple[float, bool]:
        called = self._bench.call(worker, index, [secret_seed()], timed=True)
        return max(1.0, called.claimed_ns), called.throttled

    def _repeated(
        self, measured: _Measured, call: Callable[[], tuple[float, bool]], count: int | None = None
    ) -> list[float]:
        """Return the times of `count` calls, or of as many as tell the time of one.

        Calls on a throttled GPU are left out if enough others remain.
        """
        limits, workers, start = self._limits, self._workers, time.monotonic()
        all_ns: list[float] = []
        times_ns: list[float] = []
        while (
            len(all_ns) < count
            if count
            else not enough(times_ns, time.monotonic() - start, limits, workers, throttled=len(all_ns) - len(times_ns))
        ):
            time_ns, throttled = call()
            all_ns.append(time_ns)
            times_ns += [] if throttled else [time_ns]
        self._throttled_calls += len(all_ns) - len(times_ns)
        if len(times_ns) < (count // 2 if count else calls_needed(all_ns, limits, workers)):
            measured.throttled = True
            return all_ns
        return times_ns

    def _conclude(self) -> None:
        """Measure the trusted worker's overhead again, and fail the cases for which windows are too uncertain."""
        self._gpu.release_windows()
        # A finished measurement stands, also if the trusted worker's time is over by now, or if it fails.
        try:
            for index, measured in self._measured.items():
                measured.overheads_ns.append(self._overhead(self._trusted, index).window_ns)
                measured.drift_ns = measured.overheads_ns[-1] - measured.overheads_ns[0]
        except CallFailed as error:
            self._drift_fault = error.message
        for index, measured in self._measured.items():
            found = self._timing(index)
            allowed_ns = max(SCATTER_NS_MAX, self._limits.interval * found.time_ns if found else 0.0)
            if measured.scatter_ns > allowed_ns:
                words = f"the judge's overhead varied by {duration_text(measured.scatter_ns)} during this run"
                measured.failure = CallFailed(Verdict.UNSTABLE, f"{words}; another process may be using the GPU")
        super()._conclude()
