"""A benchmark of a node, in about a second: rates to compare with those of nodes of the same kind."""

import hashlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from hpc_board.model.measurement import spread
from hpc_board.model.node_probe import Speed

_SAMPLES = 7
_HASHED_BYTES = 16 * 2**20
_COPIED_BYTES = 64 * 2**20
_GPU_COPIED_BYTES = 256 * 2**20
_MATRIX = 4096


def cpu_speeds() -> tuple[Speed, ...]:
    """Return the rates of one core at SHA-256, and of copies in memory."""
    hashed, copied = bytes(_HASHED_BYTES), bytearray(_COPIED_BYTES)
    return (
        _speed("sha256", "MB/s", _HASHED_BYTES / 1e6, _timed(lambda: hashlib.sha256(hashed))),
        _speed("copy", "GB/s", 2 * _COPIED_BYTES / 1e9, _timed(lambda: bytes(copied))),
    )


def gpu_speeds(torch: Any) -> tuple[Speed, ...]:
    """Return the rates of the first GPU at products of half-precision matrices, and of copies in its memory."""
    left, right = (torch.randn(_MATRIX, _MATRIX, device="cuda", dtype=torch.float16) for _ in range(2))
    copied = torch.empty(_GPU_COPIED_BYTES, device="cuda", dtype=torch.uint8)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def timed(call: Callable[[], object], calls: int) -> list[float]:
        samples = []
        for _ in range(_SAMPLES + 1):
            begin.record()
            for _ in range(calls):
                call()
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) / 1e3 / calls)
        return samples[1:]  # the first one loads the kernel

    return (
        _speed("matmul", "TFLOP/s", 2 * _MATRIX**3 / 1e12, timed(lambda: left @ right, 20)),
        _speed("copy", "GB/s", 2 * _GPU_COPIED_BYTES / 1e9, timed(copied.clone, 10)),
    )


def _timed(call: Callable[[], object]) -> list[float]:
    samples = []
    for _ in range(_SAMPLES + 1):
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return samples[1:]


def _speed(name: str, unit: str, amount: float, samples_s: Sequence[float]) -> Speed:
    """Return the median rate of samples that handled `amount` each, and their spread without the worst one."""
    return Speed(name, unit, amount / statistics.median(samples_s), spread(samples_s, leaving_out=1))
