"""The JSON of results: cases with their times, and logs."""

import re
from typing import Any, ClassVar

from msgspec import UNSET, UnsetType

from hpc_board.model.result import Case, Log, Result, case_share, device_peak
from hpc_board.model.text import printable
from hpc_board.report.times import is_noisy, result_advice
from hpc_board.report.views import Lines, Nanoseconds, View, view_of, views_of


class ShareView(View, frozen=True):
    """The share of its device's peak that a case reaches."""

    resource: str
    """`memory` or `arithmetic`: the resource that limits the case"""
    share: float
    """the share of the peak that the case reaches, by its least work"""
    rate: float
    """the peak: bytes or operations per second; of a CPU as `admin check` has measured it"""
    reached: float
    """the rate that the case reaches, by its least work"""


class WrongElementView(View, frozen=True):
    """A wrong element of an output."""

    index: list[int]
    """its index"""
    got: str
    """its value, as text: JSON has no NaN"""
    expected: str
    """the right value"""


class MismatchView(View, frozen=True):
    """The differences between an output and the right one."""

    part: str
    """the part of the output, `output[1]`; empty for the whole"""
    shape: list[int]
    """its shape"""
    elements: int
    """the number of its elements"""
    wrong: int | None
    """the number of wrong ones; `null` if the tolerance of the task's check is unknown"""
    pattern: str
    """the places of the wrong ones in words, such as `the last 37 rows`"""
    largest_absolute: float | None
    """the largest absolute error; `null` if the inputs are secret, or the error is not finite"""
    largest_relative: float | None
    """the largest relative error, likewise"""
    of_tolerance: float | None
    """the largest ratio of a finite error to the tolerance of the task's check; `null` if that is unknown or 0, or the
    inputs are secret"""
    cause: str | None
    """the cause that the values of wrong elements prove: `never_written`, `uninitialized_read` or `overflow`; `null` if
    they prove none, or the inputs are secret"""
    caused: int
    """the number of these elements"""
    places: list[WrongElementView]
    """the first ten wrong elements, or those with the largest errors if `wrong` is `null`; none if the inputs are
    secret"""


class CaseView(View, frozen=True):
    """A case of a result; without a time it ends with `message`."""

    phase: str
    """`test`, `benchmark` or `profile`"""
    index: int
    """the number of the case in its phase, from 0"""
    spec: str
    """the arguments of the case"""
    verdict: str
    """the [verdict](results.md#verdicts) of the case"""
    message: Lines
    samples: int | UnsetType = UNSET
    """the number of timed samples: rows of calls on a CPU, else calls"""
    mean_ns: Nanoseconds | UnsetType = UNSET
    """their mean; a sample counts for at least `bound_ns` here and in the four statistics below"""
    time_ns: Nanoseconds | UnsetType = UNSET
    """the time that counts, at least `bound_ns`: on a CPU the lower quartile of its rows, on a GPU the median"""
    std_ns: Nanoseconds | UnsetType = UNSET
    """the sample standard deviation"""
    err_ns: Nanoseconds | UnsetType = UNSET
    """the standard error of the mean"""
    best_ns: Nanoseconds | UnsetType = UNSET
    """the shortest sample"""
    worst_ns: Nanoseconds | UnsetType = UNSET
    """the longest one"""
    reference_ns: Nanoseconds | UnsetType | None = UNSET
    """the time of the reference by the same statistic, timed in between"""
    reference_low_ns: Nanoseconds | UnsetType | None = UNSET
    """the lower bound of its 80 % confidence interval"""
    reference_high_ns: Nanoseconds | UnsetType | None = UNSET
    """its upper bound"""
    throttled: bool | UnsetType = UNSET
    """true if the GPU had lowered its clocks for its own protection in most calls"""
    repeats: int | UnsetType = UNSET
    """the number of further processes that measured it again, since its interval was wide"""
    low_ns: Nanoseconds | UnsetType | None = UNSET
    """the lower bound of the 80 % confidence interval of `time_ns`; `null` if the task's own eval measured it"""
    high_ns: Nanoseconds | UnsetType | None = UNSET
    """its upper bound"""
    bound_ns: Nanoseconds | UnsetType | None = UNSET
    """the lower bound of a call's time: on a CPU independent of rows, on a GPU the judge's window less `slack_ns`"""
    alone_ns: Nanoseconds | UnsetType | None = UNSET
    """on a CPU the time of the fastest call that was made alone"""
    kernel_clock_ns: Nanoseconds | UnsetType | None = UNSET
    """the median by the kernel's own clock: on a CPU it counts for nothing, on a GPU down to `bound_ns`"""
    busy_processors: float | UnsetType = UNSET
    """the number of processors that others used meanwhile"""
    slack_ns: Nanoseconds | UnsetType | None = UNSET
    """on a GPU the error of the judge's window, the largest gain of a false claim; 0 without a claim or a window"""
    speedup: float | UnsetType | None = UNSET
    """the ratio of `reference_ns` to `time_ns`"""
    speedup_low: float | UnsetType | None = UNSET
    """the lower bound of its 80 % confidence interval; `null` unless both intervals are known"""
    speedup_high: float | UnsetType | None = UNSET
    """its upper bound"""
    noisy: bool | UnsetType = UNSET
    """true if the interval of the time or of the reference is wide, other work used the machine, or the GPU was
    throttled: the run has `advice` on it"""
    samples_ns: list[Nanoseconds] | UnsetType = UNSET
    """the time of every call, with `--samples`, and in `task test`"""
    worker_samples: list[int] | UnsetType = UNSET
    """the number of samples of each process, beside `samples_ns`"""
    of_peak: ShareView | UnsetType = UNSET
    """the share of the device's peak, where the task states the least work and the peak is known"""
    mismatch: MismatchView | UnsetType = UNSET
    """the details of wrong values, where they are known"""
    of_tolerance: float | UnsetType = UNSET
    """the largest ratio of an error to the tolerance of the task's check, from 0 to 1, of a right output to inputs that
    are public; `mismatch` has that of a wrong one"""

    @classmethod
    def of(cls, case: Case, *, samples: bool = False, of_peak: ShareView | UnsetType = UNSET) -> "CaseView":
        """Return the object of a case; `samples` adds the time of every call."""
        numbers: dict[str, Any] = dict.fromkeys((*_TIMING, *_JUDGED, *_SAMPLES), UNSET)
        if timing := case.timing:
            numbers |= {name: getattr(timing, name) for name in _TIMING}
            judged = (*(timing.speedup_bounds or (None, None)), is_noisy(timing))
            numbers |= zip(_JUDGED, judged, strict=True)
            if samples:
                numbers |= {name: list(getattr(timing, name)) for name in _SAMPLES}
        mismatch = UNSET if case.mismatch is None else view_of(MismatchView, case.mismatch)
        of_tolerance = UNSET if case.of_tolerance is None else case.of_tolerance
        return view_of(cls, case, of_peak=of_peak, mismatch=mismatch, of_tolerance=of_tolerance, **numbers)


class KernelView(View, frozen=True):
    """A kernel of a profiled case, or an operator or function on a CPU; a number that was not measured is `null`."""

    case: int
    """the index of the benchmark case"""
    name: str
    """the name of the kernel"""
    launches: int | None
    """the number of profiled launches"""
    duration_ns: Nanoseconds | None
    """the mean time of a launch"""
    time_share: float | None
    """the share of the profiled time"""
    dram_share: float | None
    """the share of the peak throughput of DRAM, from 0 to 1"""
    sm_share: float | None
    """that of the SMs"""
    tensor_share: float | None
    """the share of cycles in which the tensor cores worked"""
    occupancy: float | None
    """the achieved occupancy: the share of the possible warps that were active"""
    registers: float | None
    """the number of registers of a thread"""
    static_shared_bytes: float | None
    """the static shared memory of a block"""
    dynamic_shared_bytes: float | None
    """the dynamic shared memory of a block"""
    spills: float | None
    """the number of executed instructions of a launch that spill registers to local memory, or load them from there"""
    stalls: dict[str, float]
    """the main reasons for which warps waited, each with the cycles between two instructions"""


class LoopView(View, frozen=True):
    """An innermost loop of a profiled C++ submission on a CPU, with the number of its instructions by kind."""

    line: int
    """the line of the file"""
    function: str
    """the function"""
    instructions: int
    """the number of all"""
    vector_arithmetic: int
    """those that compute with vectors"""
    scalar_arithmetic: int
    """those that compute with one floating-point number"""
    loads: int
    """those that read memory"""
    stores: int
    """those that write memory"""
    vector_bits: int
    """the width of the widest vector; 0 without one"""


class RemarkView(View, frozen=True):
    """A compiler's remark on the vectorization of a profiled C++ submission."""

    ATTRIBUTES: ClassVar = {"vectorized": "is_vectorized"}
    line: int
    """the line of the file"""
    vectorized: bool
    """whether the code there is vectorized"""
    text: str
    """the width of its vectors, or the reason why it has none"""


class UsedView(View, frozen=True):
    """A kind of kernels or a library that a submission used."""

    name: str
    """its [name](tasks.md#means)"""
    kernels: int | None
    """the number of kernels of this kind that a call launched; `null` for a library"""


class SanitizerFindingView(View, frozen=True):
    """A fault that a tool of mode sanitize found; each text may be empty."""

    tool: str
    """the tool: `memcheck`, `racecheck`, `initcheck`, `synccheck` or `asan`"""
    kind: str
    """the fault in the words of the tool"""
    kernel: str
    """the kernel or the function"""
    place: str
    """its file and line"""
    thread: str
    """the first thread"""
    detail: str
    """the address, or the other access"""
    count: int
    """how often the tool found it"""
    warning: bool
    """true if the run does not fail by it"""


_FIELDS = CaseView.__struct_fields__
_TIMING = _FIELDS[_FIELDS.index("samples") : _FIELDS.index("speedup_low")]
"""The fields of a case that are attributes of its `Timing`."""

_JUDGED = ("speedup_low", "speedup_high", "noisy")
_SAMPLES = ("samples_ns", "worker_samples")


def cases_of(result: Result, *, samples: bool = False) -> list[CaseView]:
    """Return the cases of a result, with `of_peak` where the device's peak is known."""
    peak = device_peak(result)
    found = []
    for case in result.cases:
        share = case_share(case, peak)
        of_peak = UNSET if share is None else view_of(ShareView, share)
        found.append(CaseView.of(case, samples=samples, of_peak=of_peak))
    return found


class AdviceView(View, frozen=True):
    """A remark on the times of a run, as the report has it."""

    kind: str
    """`busy`, `wide_interval`, `alone`, `standard_error`, `throttled`, `reference` or `measured_again`"""
    text: str
    """the remark, with a remedy"""


def advice_of(result: Result) -> list[AdviceView]:
    """Return the remarks on the times of a result."""
    return views_of(AdviceView, result_advice(result))


def log_text(log: Log) -> str:
    """Return the text of a log without its control characters."""
    return printable(log.text, len(log.text))


def dense_text(log: Log) -> str:
    """Return the text of a log with tables, with one space in place of several."""
    return re.sub(" {2,}", " ", log_text(log))
