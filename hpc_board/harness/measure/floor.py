"""The lower bound of an honest time: a clock's resolution, and the device's peak throughput."""

from hpc_board.model.peaks import Peak, Work

_SHARE_OF_PEAK = 0.5
"""A floor is half of the time at peak: data sheets are incomplete, and a floor must never be wrong."""


def floor_ns(floor_seconds: float, work: Work | None, peak: Peak | None) -> float:
    """Return the minimum time of a call in nanoseconds: a clock's own floor, and half of the work's time at peak."""
    seconds = floor_seconds
    if work is not None and peak is not None:
        seconds = max(
            seconds,
            _SHARE_OF_PEAK * work.memory_bytes / peak.memory_bytes,
            _SHARE_OF_PEAK * work.operations / peak.operations,
        )
    return seconds * 1e9
