"""Results: the harness's findings about one run, as they travel from the node in `result.json`."""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from hpc_board.model.kernels import Kernel, Used
from hpc_board.model.loops import Loop, Remark
from hpc_board.model.mismatch import Mismatch
from hpc_board.model.peaks import Peak, Share, Work, measured_peak, own_peak_of, share_of_peak
from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.model.task import HIDDEN
from hpc_board.model.value import Value, made

RESULT_BYTES_MAX = 32 * 1024 * 1024
"""Size limit of a `result.json` that is read."""

TEXT_MAX = 256 * 1024
TIME_NS_MIN, TIME_NS_MAX = 1e-3, 1e18
"""The least and the greatest time of a call in a result: a picosecond, and 30 years. 0 stands for none."""


SAMPLES_MIN = 3
"""The samples of one worker from which on its times can be compared."""

WIDE_INTERVAL = 0.1
"""Share of a time from which its interval is shown beside it."""

AUDITED, JUDGE, WORKER = "audited", "judge", "worker"
"""The clocks of a GPU: the worker's within the bounds of the judge's windows, the judge's, or only the worker's."""

INTERRUPTED = "interrupted"
"""The fact in a result's provenance that names the signal which told its job to end."""

STOPPED = "stopped"
"""The fact in a result's provenance that says why its benchmark ended before all of its measurements."""

LONGEST_CALL = "longest_call_seconds"
"""The fact in the provenance of a run in mode test with the longest processor time of a call."""

CPU_PEAK_FACTS = ("peak_memory_bytes_per_s", "peak_operations_per_s")
"""The facts in a result's provenance with the measured peaks of its processors, on a CPU."""

MEMORY_PEAK_BYTES = "memory_peak_bytes"
MEMORY_ASKED_BYTES = "memory_asked_bytes"
CPU_SECONDS = "cpu_seconds"
CPUS_ASKED = "cpus_asked"
ELAPSED_SECONDS = "elapsed_seconds"
USAGE = (MEMORY_PEAK_BYTES, MEMORY_ASKED_BYTES, CPU_SECONDS, CPUS_ASKED, ELAPSED_SECONDS)
"""The facts in a result's provenance about the use of a job; each may be missing."""

SCRATCH_UNWRITABLE = "the node's folder for scratch files and caches of compilers cannot be written"
"""Words for a job whose scratch folder takes no file, though the submission has not filled it."""

LIBRARY_LACKING = "which the submission imports"
"""Part of the message about a library that a submission uses and the job's Python lacks."""

NEEDS_GPU = "this job has no GPU, and the task asks for one"
"""The beginning of the message of a job on a CPU whose task needs a GPU."""

LIBRARY_MISSING = "which the task needs: install it there"
"""Part of every message about a library missing in a job's Python, by which reports recognize this fault."""

USES_ONE = "the task uses one"
"""Part of the message of a job that sees several GPUs, by which reports recognize this fault."""

UNCAUGHT = "uncaught exception"
"""Part of the message of a crash by an exception that a compiled submission threw."""

BUSY_PROCESSORS = 0.1
"""Number of processors used by others from which a machine counts as busy."""


class Verdict(str, Enum):
    """The end of a finished run: a closed set. A failed kernel is a result, not an error of ours."""

    PASS = "pass"  # noqa: S105
    WRONG_SHAPE = "wrong_shape"
    WRONG_DTYPE = "wrong_dtype"
    WRONG_VALUE = "wrong_value"
    WRONG_NONFINITE = "wrong_nonfinite"
    WRONG_ALIASED = "wrong_aliased"
    MUTATED_INPUT = "mutated_input"
    COMPILE_ERROR = "compile_error"
    COMPILE_TIMEOUT = "compile_timeout"
    LOAD_ERROR = "load_error"
    EXCEPTION = "exception"
    CRASH = "crash"
    DEVICE_ERROR = "device_error"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    PROTOCOL_VIOLATION = "protocol_violation"
    LATE_WRITE = "late_write"
    TIMING_INCONSISTENT = "timing_inconsistent"
    BELOW_FLOOR = "below_floor"
    UNSTABLE = "unstable"
    TASK_ERROR = "task_error"
    INFRA_ERROR = "infra_error"

    __str__ = str.__str__

    @property
    def blames_kernel(self) -> bool:
        """Return whether the submission is the cause, rather than the task or the machine."""
        return self not in _BLAMELESS

    @property
    def quotes_code(self) -> bool:
        """Return whether the message may quote the submission: a line, the name of its file, or its own words."""
        return self not in _IN_OWN_WORDS


_BLAMELESS = (Verdict.PASS, Verdict.DEVICE_ERROR, Verdict.UNSTABLE, Verdict.TASK_ERROR, Verdict.INFRA_ERROR)

_IN_OWN_WORDS = (
    *(Verdict.PASS, Verdict.WRONG_VALUE, Verdict.WRONG_NONFINITE, Verdict.WRONG_ALIASED, Verdict.MUTATED_INPUT),
    *(Verdict.LATE_WRITE, Verdict.TIMING_INCONSISTENT, Verdict.BELOW_FLOOR, Verdict.UNSTABLE),
)
"""The verdicts whose messages have the judge's own words alone."""


HIDDEN_MESSAGE = "the inputs and the messages of hidden cases are not shown"
"""Message of a hidden case that failed."""

OUTPUT_DROPPED = "hidden_output"
"""The fact in a result's provenance that says that output of the kernel is missing."""

PUBLIC_PASSED = "passed with the public seed, failed with a secret one"
"""Beginning of the message of a case that passes only with the public seed."""


class Timing(Value):
    """The time of a call in one case, and the statistics of its samples, all times in nanoseconds.

    `time_ns` is the time that counts, from `low_ns` to `high_ns` in 8 of 10 measurements; the bounds are None if they
    are unknown, as for times that a task's own eval reports. `samples` is the number of timed samples of several
    workers, one after the other, and `worker_samples` that of each. `mean_ns`, `best_ns` and `worst_ns` are theirs,
    `std_ns` is the sample standard deviation (n - 1), and `err_ns` the standard error of the mean; a sample counts for
    at least `bound_ns` in these five. `reference_ns` is the time of the reference by the same statistic, with its
    interval, None without such calls. `throttled`: the GPU had lowered its clocks for its own protection in most calls.
    `repeats` is the number of workers that measured the case again, since its interval was wide.

    On a device where a submission can be stopped, a sample is the time of one call of a row by the supervisor's clock,
    and `time_ns` is the lower quartile of the samples, but at least `bound_ns`, a lower bound that does not depend on
    rows. `alone_ns` is the time of the fastest call that was made alone. `kernel_clock_ns` is the median by the
    worker's own clock, which counts for nothing; `busy_processors` is the number of processors that others used
    meanwhile.

    On a GPU the samples are calls, and `time_ns` is the median of the workers' medians. With the judge's windows
    `slack_ns` is the error of a window, and the largest gain of a false claim: `time_ns` is the larger one of
    `kernel_clock_ns` and `bound_ns`, the judge's window less its overhead and the slack. Without `kernel_clock_ns` the
    samples are windows, and no slack is subtracted. Without windows it is 0, and nothing bounds a false claim.
    """

    samples: int
    mean_ns: float
    time_ns: float
    std_ns: float
    err_ns: float
    best_ns: float
    worst_ns: float
    samples_ns: tuple[float, ...]
    worker_samples: tuple[int, ...] = ()
    reference_ns: float | None = None
    throttled: bool = False
    low_ns: float | None = None
    high_ns: float | None = None
    bound_ns: float | None = None
    alone_ns: float | None = None
    kernel_clock_ns: float | None = None
    busy_processors: float = 0.0
    slack_ns: float | None = None
    reference_low_ns: float | None = None
    reference_high_ns: float | None = None
    repeats: int = 0

    @property
    def interval(self) -> float:
        """Return the width of the interval as a share of the time that counts; 0 without an interval."""
        if self.low_ns is None or self.high_ns is None or not self.time_ns:
            return 0.0
        return (self.high_ns - self.low_ns) / self.time_ns

    @property
    def is_wide(self) -> bool:
        """Return whether the interval is too wide to be omitted."""
        return self.interval > WIDE_INTERVAL

    @property
    def is_busy(self) -> bool:
        """Return whether others used the machine meanwhile."""
        return self.busy_processors >= BUSY_PROCESSORS

    @property
    def speedup(self) -> float | None:
        """Return the ratio of the reference's time to a call's; None if the reference was not measured."""
        return self.reference_ns / self.time_ns if self.reference_ns and self.time_ns else None

    @property
    def is_enough(self) -> bool:
        """Return whether the samples are enough to compare the time with that of another run."""
        return len(self.samples_ns) >= SAMPLES_MIN or (bool(self.samples_ns) and len(self.worker_samples) > 1)

    @property
    def is_bounded(self) -> bool:
        """Return whether the bound counts, and not the samples: each is shorter."""
        return bool(self.samples) and self.bound_ns == self.best_ns == self.worst_ns

    @property
    def reference_is_wide(self) -> bool:
        """Return whether the interval of the reference is too wide to be omitted."""
        if not self.reference_ns or self.reference_low_ns is None or self.reference_high_ns is None:
            return False
        return self.reference_high_ns - self.reference_low_ns > WIDE_INTERVAL * self.reference_ns

    @property
    def speedup_bounds(self) -> tuple[float, float] | None:
        """Return the 80 % confidence interval of the speedup; None unless both intervals are known."""
        known = self.low_ns, self.high_ns, self.reference_low_ns, self.reference_high_ns
        if not all(known) or not self.speedup:
            return None
        low_ns, high_ns, reference_low_ns, reference_high_ns = (each or 0.0 for each in known)
        reference_ns = self.reference_ns or 0.0
        less = math.hypot(math.log(reference_ns / reference_low_ns), math.log(high_ns / self.time_ns))
        more = math.hypot(math.log(reference_high_ns / reference_ns), math.log(self.time_ns / low_ns))
        return self.speedup * math.exp(-less), self.speedup * math.exp(more)

    @property
    def worker_samples_ns(self) -> tuple[tuple[float, ...], ...]:
        """Return the samples of each worker."""
        samples, begin = [], 0
        for count in self.worker_samples or (self.samples,):
            samples.append(self.samples_ns[begin : begin + count])
            begin += count
        return tuple(samples)

    @property
    def worker_medians_ns(self) -> tuple[float, ...]:
        """Return the median of each worker's samples."""
        import statistics

        return tuple(map(statistics.median, self.worker_samples_ns))


class Case(Value):
    """One case of one phase ("test" or "benchmark"): its verdict, and its times if it was timed.

    `work` is the minimum work of a right call, if the task declares it and the case was timed. `mismatch` has the
    details of wrong values; `of_tolerance` is the largest ratio of an error in a right output to the check's
    tolerance, None if the tolerance is unknown or the inputs are secret.
    """

    phase: str
    index: int
    spec: str
    verdict: Verdict
    message: str = ""
    timing: Timing | None = None
    work: Work | None = None
    mismatch: Mismatch | None = None
    of_tolerance: float | None = None

    @property
    def is_hidden(self) -> bool:
        """Return whether this is a hidden case of the task."""
        return self.spec.startswith(HIDDEN)


class Log(Value):
    """A process's output: the beginning and the end, and the number of bytes left out between them."""

    head: str = ""
    tail: str = ""
    omitted_bytes: int = 0

    @property
    def text(self) -> str:
        """Return head and tail as one text, with a line about the omitted bytes."""
        if not self.omitted_bytes:
            return self.head + self.tail
        return f"{self.head}\n[... {self.omitted_bytes} bytes left out ...]\n{self.tail}"


class Result(Value):
    """The result of one run on one node.

    `build` is the compiler's output, empty if none ran. `provenance` holds flat facts (text, numbers, booleans) on the
    machine, the tools and the hashes of the inputs. `profile` is the report of a run in mode `profile`, `kernels` are
    the numbers in it, and `loops` and `remarks` tell the vectorization of a C++ submission on a CPU; in mode `sanitize`
    it is the output of the tools, and `findings` are the faults in it. All are empty in any other mode. `means` are the
    kinds of kernels and the libraries that the submission used, as far as they are known.
    """

    run: int
    nonce: str
    mode: str
    verdict: Verdict
    message: str
    cases: tuple[Case, ...]
    score_s: float | None = None
    job_id: str = ""
    restart_count: int = 0
    started_at: str = ""
    ended_at: str = ""
    stdout: Log = Log()
    stderr: Log = Log()
    build: Log = Log()
    provenance: Mapping[str, Any] = made(default_factory=dict)
    profile: Log = Log()
    kernels: tuple[Kernel, ...] = ()
    findings: tuple[SanitizerFinding, ...] = ()
    loops: tuple[Loop, ...] = ()
    remarks: tuple[Remark, ...] = ()
    means: tuple[Used, ...] = ()

    @property
    def interrupted(self) -> bool:
        """Return whether the job was told to end before it was done, so that this is a partial result."""
        return bool(self.provenance.get(INTERRUPTED))

    def to_json(self) -> str:
        """Return this result as the text of `result.json`."""
        import json
        from dataclasses import asdict

        return json.dumps(asdict(self), allow_nan=False, indent=1)


def device_peak(result: Result) -> Peak | None:
    """Return the peak of a result's device; None if it is unknown, or the job had only a part of the device."""
    if str(result.provenance.get("gpu_mig_mode_current", "")).casefold() == "enabled":
        return None
    return measured_peak(*map(result.provenance.get, CPU_PEAK_FACTS)) or own_peak_of(
        str(result.provenance.get("gpu_name", ""))
    )


def case_share(case: Case, peak: Peak | None) -> Share | None:
    """Return the share of the device's peak that a case reaches; None if either is unknown."""
    if case.timing is None or case.work is None or peak is None:
        return None
    return share_of_peak(case.work, peak, case.timing.time_ns)


def secretly_failed(message: str, *, ranked: bool) -> str:
    """Return the message for a case that passed with its public seed and failed with a secret one by `message`."""
    return f"{PUBLIC_PASSED}{'; the run is not ranked' if ranked else ''}: {message}"
