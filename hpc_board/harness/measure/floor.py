"""The time below which nothing honest can be: what a clock resolves, and what a device can move and compute."""

from hpc_board.model.peaks import Peak, Work

_SHARE_OF_PEAK = 0.5
"""A floor is half of what the peak would allow: data sheets leave things out, and a floor must never be wrong."""


def floor_ns(floor_seconds: float, work: Work | None, peak: Peak | None) -> float:
    """The fewest nanoseconds that a call can take: a clock's own floor, and half of the peak's time for the work."""
    seconds = floor_seconds
    if work is not None and peak is not None:
        seconds = max(
            seconds,
            _SHARE_OF_PEAK * work.memory_bytes / peak.memory_bytes,
            _SHARE_OF_PEAK * work.operations / peak.operations,
        )
    return seconds * 1e9
