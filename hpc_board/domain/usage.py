"""The memory and the processors that a run has used, beside the amounts that its job asked for."""

import math
from typing import Final

import msgspec

from hpc_board.model.result import (
    CPU_SECONDS,
    CPUS_ASKED,
    ELAPSED_SECONDS,
    MEMORY_ASKED_BYTES,
    MEMORY_PEAK_BYTES,
    Result,
)

CPUS: Final = 2
"""The CPUs that a ranked run of the bundled tasks needs of a job: one for the judge, one for the kernel's process.

They take turns, and a clock that both share disturbs times.
"""

MEMORY_MIB: Final = 4000
"""The memory of judge and kernel on a GPU: both load PyTorch and CUDA, and hold a case's inputs and output."""

CPU_MEMORY_MIB: Final = 2000
"""The memory of judge and kernel without a GPU, twice the sum of their resident pages: shared ones count in both."""

_GIB: Final = 2**30
_RESERVE: Final = 1.25
"""The ratio of an advised amount to a peak: inputs, and the memory of libraries, differ between runs."""

_TIGHT: Final = 0.9
"""The share of the amount that was asked for from which a peak is near to it."""

_COUNT_MAX: Final = 2**53


class Usage(msgspec.Struct, frozen=True):
    """The use of a job by its harness, and the amounts that the job asked for; None where they are unknown."""

    memory_peak_bytes: int | None = None
    memory_asked_bytes: int | None = None
    cpu_seconds: float | None = None
    cpus_asked: int | None = None
    elapsed_seconds: float | None = None
    on_gpu: bool = False

    @property
    def mean_cpus(self) -> float | None:
        """Return the mean number of busy CPUs."""
        if self.cpu_seconds is None or not self.elapsed_seconds:
            return None
        return self.cpu_seconds / self.elapsed_seconds

    @property
    def memory_advice(self) -> str:
        """Return the remedy for a memory that is far from the need; empty for a fitting one."""
        peak, asked = self.memory_peak_bytes, self.memory_asked_bytes
        if not peak or not asked:
            return ""
        least = -(-(MEMORY_MIB if self.on_gpu else CPU_MEMORY_MIB) // 1024)
        enough = max(least, math.ceil(peak * _RESERVE / _GIB))
        if peak >= _TIGHT * asked:
            return f"nearly used up; `memory:  {max(enough, math.ceil(asked / _GIB) + 1)}G` is safe"
        return f"`memory: {enough}G` is enough" if 2 * enough * _GIB <= asked else ""

    @property
    def cpu_advice(self) -> str:
        """Return the remedy for idle CPUs; empty for few, and without a GPU, where their number sets the times."""
        busy, asked = self.mean_cpus, self.cpus_asked
        if not self.on_gpu or busy is None or asked is None:
            return ""
        enough = max(CPUS, math.ceil(busy) + 1)
        return f"`cpus_per_task: {enough}` is enough" if 2 * enough <= asked else ""


def usage_of(result: Result) -> Usage | None:
    """Return the use that a result tells; None if it tells none."""
    told = result.provenance
    found = Usage(
        memory_peak_bytes=_count(told.get(MEMORY_PEAK_BYTES)),
        memory_asked_bytes=_count(told.get(MEMORY_ASKED_BYTES)),
        cpu_seconds=_amount(told.get(CPU_SECONDS)),
        cpus_asked=_count(told.get(CPUS_ASKED)),
        elapsed_seconds=_amount(told.get(ELAPSED_SECONDS)),
        on_gpu=bool(told.get("gpu_name")),
    )
    return None if found.memory_peak_bytes is None and found.cpu_seconds is None else found


def _amount(told: object) -> float | None:
    """Return a number that a job has told, if it can be one of seconds."""
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < _COUNT_MAX:
        return None
    return float(told)


def _count(told: object) -> int | None:
    return told if isinstance(told, int) and _amount(told) is not None and told > 0 else None
