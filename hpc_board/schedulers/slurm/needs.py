"""The CPUs and the memory that a ranked run of the bundled tasks needs of a job."""

from typing import Final

CPUS: Final = 2
"""One for the judge, one for the kernel's process: they take turns, and a clock that both share disturbs times."""

MEMORY_MIB: Final = 4000
"""The memory of judge and kernel on a GPU: both load PyTorch and CUDA, and hold a case's inputs and output."""

CPU_MEMORY_MIB: Final = 2000
"""The memory of judge and kernel without a GPU, twice the sum of their resident pages: shared ones count in both."""

_UNITS: Final = {"K": 1 / 1024, "M": 1, "": 1, "G": 1024, "T": 1024**2}


def mebibytes(memory: str) -> int | None:
    """Return the MiB of a value of sbatch's --mem; None for 0, which is all memory of the node."""
    unit = memory[-1].upper() if memory[-1:].isalpha() else ""
    return int(int(memory.removesuffix(memory[-1]) if unit else memory) * _UNITS[unit]) or None
