"""The GPU of a process of the probe: PyTorch, the driver of the harness, and other functions of NVIDIA's by ctypes.

All times are in microseconds.
"""

import ctypes
import time
from contextlib import suppress
from typing import Any

_SIGNAL_BYTES, _DONE_AT = 256, 64
_DEVICE_MEMORY = 2
_FLUSH_BYTES = 256 * 2**20
_HIDING_FILLS = 14
_ROW_BYTES = 2**16
_FMA_THREADS, _FMA_COUNT = 2**18, 2**20
_ATTRIBUTES = {
    "compute_mode": 20,
    "async_engines": 40,
    "integrated": 18,
    "vmm": 102,
    "posix_descriptors": 103,
    "memory_pools": 115,
}
_SOURCE = """
extern "C" __global__ void fma_chain(const float* x, float* y, int size, int count, int one) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = i < size ? x[i] : 0.0f, factor = -one, summand = one;
    for (int k = 0; k < count; ++k) value = fmaf(value, factor, summand);
    if (i < size) y[i] = value;
}
"""


_SIDE = (
    ("x", ctypes.c_size_t),
    ("y", ctypes.c_size_t),
    ("type", ctypes.c_uint),
    ("host", ctypes.c_void_p),
    ("device", ctypes.c_uint64),
    ("array", ctypes.c_void_p),
    ("pitch", ctypes.c_size_t),
)


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (
        *((f"source_{name}", kind) for name, kind in _SIDE),
        *((f"target_{name}", kind) for name, kind in _SIDE),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class Gpu:
    """The first visible GPU in this process."""

    def __init__(self) -> None:
        import torch

        # From the file with the harness, which is the first folder of modules by now.
        from hpc_board.harness.device.gpu_driver import GpuDriver

        self._torch: Any = torch
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._driver = GpuDriver()
        torch.cuda.init()
        torch.set_default_device("cuda")
        self._stream = torch.cuda.current_stream()
        self._second = torch.cuda.Stream()
        self._memory = torch.ones(_FLUSH_BYTES, dtype=torch.uint8)
        self._kernel: Any = None
        self._x, self._y = torch.rand(_FMA_THREADS), torch.empty(_FMA_THREADS)
        self._numbers = torch.ones(2, dtype=torch.int64)
        self._signals = torch.zeros(_SIGNAL_BYTES, dtype=torch.uint8)
        self._signals_at = 0
        self._shared = 0
        self._kept: list[Any] = []
        # The first use of a kernel loads it, which waits for the GPU.
        with suppress(RuntimeError, OSError, AttributeError):
            self._fma(1)
        self._numbers[0].mul_(3)
        torch.cuda.synchronize()

    def _call(self, function: str, *arguments: Any) -> None:
        error = getattr(self._cuda, function)(*arguments)
        if error:
            raise RuntimeError(f"{function} fails with error {error} of the CUDA driver")

    def attributes(self) -> dict[str, int]:
        """Return attributes of the device by the driver's numbers for them."""
        found, value = {"gpus": self._torch.cuda.device_count()}, ctypes.c_int()
        for name, number in _ATTRIBUTES.items():
            self._call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
            found[name] = value.value
        return found

    def allocate(self, kind: str, size: int) -> list[Any]:
        """Allocate memory, and return its handle with an offset."""
        torch, address = self._torch, ctypes.c_uint64()
        if kind == "async":
            self._call("cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(size), None)
        else:
            torch.cuda.memory._set_allocator_settings(f"expandable_segments:{kind == 'expandable'}")  # noqa: SLF001
            # Larger than the free blocks of the memory that is there.
            self._kept.append(torch.zeros(64 * size, dtype=torch.uint8))
            address.value = self._kept[-1].data_ptr()
        # The zeros must not come after the other process's bytes.
        torch.cuda.synchronize()
        self._shared = address.value
        return self._exported(self._shared)

    def _exported(self, address: int) -> list[Any]:
        handle, offset = self._driver.exported(address)
        return [handle.hex(), offset]

    def _opened(self, handle: str) -> int:
        base, _ = self._driver.opened(bytes.fromhex(handle))
        return base

    def open_and_fill(self, place: list[Any], value: int) -> None:
        """Open another process's memory and write a byte all over its beginning."""
        self._fill(self._opened(place[0]) + place[1], value)

    def _fill(self, address: int, value: int) -> None:
        self._call("cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(value), ctypes.c_size_t(4096))
        self._torch.cuda.synchronize()

    def first_byte(self) -> int:
        """Return the first byte of the memory that this process shares."""
        found = ctypes.c_ubyte()
        self._call("cuMemcpyDtoH_v2", ctypes.byref(found), ctypes.c_uint64(self._shared), ctypes.c_size_t(1))
        return found.value

    def create(self, size: int) -> dict[str, int]:
        """Allocate memory that a descriptor names, map it, and return the descriptor."""
        self._shared, size, descriptor = self._driver.allocated(size)
        self._fill(self._shared, 0)
        return {"descriptor": descriptor, "size": size}

    def import_and_fill(self, descriptor: int, size: int, value: int) -> None:
        """Map the memory of a descriptor and write a byte all over its beginning."""
        self._fill(self._driver.imported(descriptor, size), value)

    def signals(self) -> list[Any]:
        """Clear this process's signals, and return their handle."""
        self._signals.zero_()
        self._torch.cuda.synchronize()
        self._signals_at = self._signals.data_ptr()
        return self._exported(self._signals_at)

    def open_signals(self, place: list[Any]) -> None:
        """Open another process's signals."""
        self._signals_at = self._opened_once(place)

    def _opened_once(self, place: list[Any]) -> int:
        # A process may open an allocation once.
        known = {kept[0]: kept[1] for kept in self._kept if isinstance(kept, tuple)}
        if place[0] not in known:
            self._kept.append((place[0], self._opened(place[0])))
            known[place[0]] = self._kept[-1][1]
        return int(known[place[0]]) + int(place[1])

    def _await(self, stream: Any, offset: int, number: int) -> None:
        self._driver.await_value(stream.cuda_stream, self._signals_at + offset, number)

    def _write(self, stream: Any, offset: int, number: int) -> None:
        self._driver.write_value(stream.cuda_stream, self._signals_at + offset, number)

    def arm(self, number: int, made: str) -> None:
        """Queue work behind a sign: nothing, the response to a challenge, or FMAs; and the flag behind it."""
        self._await(self._stream, 0, number)
        if made == "response":
            self._numbers[0].mul_(3)
        elif made == "fmas":
            self._fma(_FMA_COUNT)
        self._write(self._stream, _DONE_AT, number)

    def idle(self) -> None:
        """Wait until the GPU has done all work of this process."""
        self._torch.cuda.synchronize()

    def window(self, number: int) -> float:
        """Return the time between a sign and the other process's flag; work before it hides the launches."""
        start, end = self._events(2)
        self._flush(_HIDING_FILLS)
        start.record()
        self._write(self._stream, 0, number)
        self._await(self._stream, _DONE_AT, number)
        end.record()
        end.synchronize()
        return self._between(start, end)

    def arm_stream(self, number: int, kind: str, size: int) -> None:
        """Queue a copy, a clearing or a kernel on a stream of its own, which alone waits for the sign."""
        source, target = (self._torch.empty(size, dtype=self._torch.uint8) for _ in range(2))
        source.fill_(1)
        with self._torch.cuda.stream(self._second):
            target.fill_(2)
        self._kept += [source, target]
        self._torch.cuda.synchronize()
        self._await(self._second, 0, number)
        stream = ctypes.c_void_p(self._second.cuda_stream)
        if kind == "memset":
            self._call(
                "cuMemsetD8Async", ctypes.c_uint64(target.data_ptr()), ctypes.c_ubyte(3), ctypes.c_size_t(size), stream
            )
        elif kind == "memcpy2d":
            copy = Copy2D(
                source_type=_DEVICE_MEMORY,
                source_device=source.data_ptr(),
                source_pitch=2 * _ROW_BYTES,
                target_type=_DEVICE_MEMORY,
                target_device=target.data_ptr(),
                target_pitch=2 * _ROW_BYTES,
                width=_ROW_BYTES,
                height=size // _ROW_BYTES // 2,
            )
            self._call("cuMemcpy2DAsync_v2", ctypes.byref(copy), stream)
        else:
            with self._torch.cuda.stream(self._second):
                target.fill_(4)
        self._write(self._second, _DONE_AT, number)

    def window_beside_kernel(self, number: int) -> list[float]:
        """Give a sign, compute for 10 ms, and return the time of that and the time until the other process's flag."""
        start, computed, done = self._events(3)
        self._flush(_HIDING_FILLS)
        start.record()
        self._write(self._stream, 0, number)
        self._second.wait_event(start)
        self._await(self._second, _DONE_AT, number)
        done.record(self._second)
        self._fma(_FMA_COUNT)
        computed.record()
        self._torch.cuda.synchronize()
        return [self._between(start, computed), self._between(start, done)]

    def copies(self, size: int) -> dict[str, list[float]]:
        """Return times of a copy whose source a kernel has just written, and of one from cold caches."""
        source = self._torch.ones(size // 4)
        target = self._torch.empty_like(source)
        found: dict[str, list[float]] = {"warm": [], "cold": []}
        for _ in range(20):
            for name, times in found.items():
                start, end = self._events(2)
                self._flush(_HIDING_FILLS)
                source.mul_(1)
                if name == "cold":
                    self._flush(1)
                start.record()
                target.copy_(source)
                end.record()
                end.synchronize()
                times.append(self._between(start, end))
        return found

    def fmas(self, count: int) -> list[float]:
        """Return the times of kernels with a fixed number of FMAs."""
        times = []
        for _ in range(count):
            start, end = self._events(2)
            start.record()
            self._fma(_FMA_COUNT)
            end.record()
            end.synchronize()
            times.append(self._between(start, end))
        return times

    def busy(self, seconds: float) -> None:
        """Compute for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._fma(_FMA_COUNT)
            self._torch.cuda.synchronize()

    def products(self, seconds: float) -> None:
        """Multiply matrices of bfloat16 for some time."""
        left = self._torch.rand(8192, 8192, dtype=self._torch.bfloat16)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(10):
                self._torch.mm(left, left)
            self._torch.cuda.synchronize()

    def _fma(self, count: int) -> None:
        if self._kernel is None:
            self._kernel = self._torch.cuda._compile_kernel(_SOURCE, "fma_chain")  # noqa: SLF001 - PyTorch has no other
        grid, block = (_FMA_THREADS // 256, 1, 1), (256, 1, 1)
        self._kernel(grid=grid, block=block, args=[self._x, self._y, _FMA_THREADS, count, 1])

    def _flush(self, count: int) -> None:
        for _ in range(count):
            self._memory.fill_(1)

    def _events(self, count: int) -> list[Any]:
        events = [self._torch.cuda.Event(enable_timing=True) for _ in range(count)]
        for event in events:
            event.record()
        return events

    @staticmethod
    def _between(start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) * 1e3
