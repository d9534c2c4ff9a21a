"""Kernels of a profile: the numbers that a profiler measured of each kernel of a case."""

import re

from hpc_board.model.value import Value

LIBRARY = "kernel.so"
"""The file of a compiled submission, also in the rows of perf."""

PERF_ROW = re.compile(r"^ +(\d{1,3}\.\d\d)% .{0,400}? (\S{1,200}) +\[[.k]\] (.+)$", re.MULTILINE)
"""A row of `perf report`: percent, library and function."""

KERNELS_MAX = 400
"""Largest number of kernels in a result."""

KERNELS_OF_CASE_MAX = 20
"""Largest number of kernels of one case; those that took the most time are kept."""

NAME_CHARACTERS_MAX = 200
STALLS_MAX = 3

MEANS_MAX = 40
"""Largest number of means in a result."""

MEANS_CHARACTERS_MAX = 40


class Kernel(Value):
    """A kernel of a profiled case; on a CPU an operator or a function. A number that was not measured is None.

    `case` is the index of the benchmark case, `launches` the number of profiled launches, `duration_ns` their mean
    time, and `time_share` the part of the profiled time. The other shares are those of the device's peak, `occupancy`
    is the share of its warps that were active. `spills` are the executed instructions that move registers to local
    memory or back, in one launch. `stalls` are the reasons for which a warp waited the most cycles between two
    instructions, with their number.
    """

    case: int
    name: str
    launches: int | None = None
    duration_ns: float | None = None
    time_share: float | None = None
    dram_share: float | None = None
    sm_share: float | None = None
    tensor_share: float | None = None
    occupancy: float | None = None
    registers: float | None = None
    static_shared_bytes: float | None = None
    dynamic_shared_bytes: float | None = None
    spills: float | None = None
    stalls: tuple[tuple[str, float], ...] = ()


METRICS = Kernel.__match_args__[3:-1]
"""The names of a kernel's numbers besides the count of its launches."""


class Used(Value):
    """A kind of kernels with the number of kernels that a call launched, or a library with None."""

    name: str
    kernels: int | None = None
