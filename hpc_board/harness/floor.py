"""The time below which nothing honest can be: what a clock resolves, and what a device can move and compute."""

from dataclasses import dataclass
from typing import Optional

_SHARE_OF_PEAK = 0.5
"""A floor is half of what the peak would allow: data sheets leave things out, and a floor must never be wrong."""


WORK_MAX = 1e30
"""More bytes or operations than any call has."""


@dataclass(frozen=True)
class Work:
    """The least that a right call has to do: bytes moved between memory and processor, arithmetic operations."""

    memory_bytes: float
    operations: float


@dataclass(frozen=True)
class Peak:
    """What a device can do at most, per second."""

    memory_bytes: float
    operations: float


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


def peak_of(device_name: str) -> Optional[Peak]:
    """The peak of the device that calls itself `device_name` ("NVIDIA H100 80GB HBM3"), None where it is not known."""
    words = device_name.upper().replace("-", " ").replace("_", " ").split()
    return next((_PEAKS[word] for word in words if word in _PEAKS), None)


def floor_ns(floor_seconds: float, work: Optional[Work], peak: Optional[Peak]) -> float:
    """The fewest nanoseconds that a call can take: a clock's own floor, and half of the peak's time for the work."""
    seconds = floor_seconds
    if work is not None and peak is not None:
        seconds = max(
            seconds,
            _SHARE_OF_PEAK * work.memory_bytes / peak.memory_bytes,
            _SHARE_OF_PEAK * work.operations / peak.operations,
        )
    return seconds * 1e9
