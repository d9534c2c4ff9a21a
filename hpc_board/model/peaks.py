"""Peak bandwidth and throughput of devices, and a call's share of them.

Those of GPUs are from their vendors' data sheets, those of CPUs are measured by `admin check`.
"""

import json
from typing import Any

from hpc_board.model.value import Value

WORK_MAX = 1e30
"""An upper bound of any call's bytes or operations."""


class Work(Value):
    """The minimum work of a right call: bytes moved between memory and processor, arithmetic operations."""

    memory_bytes: float
    operations: float


class Peak(Value):
    """A device's maximum rates per second; `is_measured` for a CPU, whose operations are in float32."""

    memory_bytes: float
    operations: float
    is_measured: bool = False


CPU_PEAKS = "cpu-peaks.json"
"""The file beside the job folders with the peaks of CPUs, which `admin check` writes and jobs read."""

CPU_PEAKS_BYTES_MAX = 2**20


def with_cpu_peak(data: bytes, cpu: str, cpus: int, peak: Peak) -> bytes:
    """Return the contents of CPU_PEAKS with the `peak` of `cpus` processors of a model; damaged ones are lost.

    The highest rates count: other work on a node makes them lower.
    """
    former = cpu_peak(data, cpu, cpus) or peak
    rates = [max(former.memory_bytes, peak.memory_bytes), max(former.operations, peak.operations)]
    return json.dumps(_cpu_peaks(data) | {_cpu_key(cpu, cpus): rates}).encode()


def cpu_peak(data: bytes, cpu: str, cpus: int) -> Peak | None:
    """Return the peak of a job's `cpus` processors of a model by the contents of CPU_PEAKS; None if it is unknown."""
    found = _cpu_peaks(data).get(_cpu_key(cpu, cpus))
    return measured_peak(*found) if isinstance(found, list) and len(found) == 2 else None


def measured_peak(memory_bytes: Any, operations: Any) -> Peak | None:
    """Return a measured peak from values of unknown types; None if one is no rate."""
    if any(type(each) not in (int, float) or not 0 < each <= WORK_MAX for each in (memory_bytes, operations)):
        return None
    return Peak(memory_bytes, operations, is_measured=True)


def _cpu_key(cpu: str, cpus: int) -> str:
    return f"{cpus} x {cpu}"


def _cpu_peaks(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_TERA = 1e12

# Vendors' data sheets: memory bandwidth, and operations at the fastest dense matrix format that the device has.
_PEAKS = {
    "V100": Peak(0.9 * _TERA, 125 * _TERA),
    "T4": Peak(0.32 * _TERA, 260 * _TERA),
    "A10": Peak(0.6 * _TERA, 500 * _TERA),
    "A30": Peak(0.933 * _TERA, 661 * _TERA),
    "A40": Peak(0.696 * _TERA, 599 * _TERA),
    "A100": Peak(2.039 * _TERA, 1248 * _TERA),
    "L4": Peak(0.3 * _TERA, 485 * _TERA),
    "L40": Peak(0.864 * _TERA, 733 * _TERA),
    "L40S": Peak(0.864 * _TERA, 733 * _TERA),
    "H100": Peak(3.938 * _TERA, 1979 * _TERA),
    "GH200": Peak(4.9 * _TERA, 1979 * _TERA),
    "H200": Peak(4.9 * _TERA, 1979 * _TERA),
    "B200": Peak(8.0 * _TERA, 10_000 * _TERA),
    "GB200": Peak(8.0 * _TERA, 10_000 * _TERA),
    "B300": Peak(8.0 * _TERA, 15_000 * _TERA),
    "GB300": Peak(8.0 * _TERA, 15_000 * _TERA),
    "MI250X": Peak(3.3 * _TERA, 383 * _TERA),
    "MI300A": Peak(5.3 * _TERA, 1961 * _TERA),
    "MI300X": Peak(5.3 * _TERA, 2615 * _TERA),
    "MI325X": Peak(6.0 * _TERA, 2615 * _TERA),
    "MI350X": Peak(8.0 * _TERA, 9200 * _TERA),
    "MI355X": Peak(8.0 * _TERA, 10_100 * _TERA),
}


# For models sold with several memories, the variants slower than the fastest, by words in their names; the first match
# counts.
_SLOWER_MEMORIES: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("A100", ("40GB",), 1.555 * _TERA),
    ("A100", ("PCIE",), 1.935 * _TERA),
    ("H100", ("PCIE",), 2.0 * _TERA),
    ("H100", ("HBM3",), 3.35 * _TERA),
    ("H200", (), 4.8 * _TERA),
    ("GH200", ("480GB",), 4.0 * _TERA),
)


def peak_of(device_name: str) -> Peak | None:
    """Return the peak of the device named `device_name` ("NVIDIA H100 80GB HBM3"), None if it is unknown.

    For a model sold with several memories it is the fastest variant's, which no device of that name exceeds.
    """
    return next((_PEAKS[word] for word in _words(device_name) if word in _PEAKS), None)


def own_peak_of(device_name: str) -> Peak | None:
    """Return the peak of this very device, as far as its name identifies its memory variant.

    None if the variant is unknown, and for a part of a device ("NVIDIA A100 80GB PCIe MIG 1g.10gb").
    """
    peak, words = peak_of(device_name), _words(device_name)
    if peak is None or "MIG" in words:
        return None
    for model, told, memory_bytes in _SLOWER_MEMORIES:
        if model in words and all(word in words for word in told):
            return Peak(memory_bytes, peak.operations)
    return peak


def _words(device_name: str) -> tuple[str, ...]:
    return tuple(device_name.upper().replace("-", " ").replace("_", " ").split())


class Share(Value):
    """A call's share of its device's peak: it reaches `reached` per second, `share` of the `rate` of `resource`.

    The resource is the one that takes longer at its peak, "memory" or "arithmetic".
    """

    resource: str
    share: float
    rate: float
    reached: float


def share_of_peak(work: Work, peak: Peak, time_ns: float) -> Share | None:
    """Return the share of a call's time that its minimum work takes at peak; None without work, or time."""
    moving, computing = work.memory_bytes / peak.memory_bytes, work.operations / peak.operations
    if time_ns <= 0 or max(moving, computing) <= 0:
        return None
    if moving >= computing:
        return Share("memory", moving * 1e9 / time_ns, peak.memory_bytes, work.memory_bytes * 1e9 / time_ns)
    return Share("arithmetic", computing * 1e9 / time_ns, peak.operations, work.operations * 1e9 / time_ns)
