"""The one seam between the harness and a processor: where tensors live, how a call is timed, how a cache is emptied."""

import ctypes
import mmap
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Protocol, Tuple

_FLUSH_BYTES_MAX = 64 * 2**20
_CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06
_SHIFT_BYTES = 256
_SHIFTS = 16
_IDLE_SYNCHRONIZATIONS = 20
_IDLE_NS_MAX = 50_000


class DeviceMissing(Exception):
    """The node has no such device; the message says what was looked for and what was found."""


class Device(Protocol):
    """A processor on which a submission is called."""

    name: str
    """The name by which PyTorch knows it."""

    def prepare(self) -> None:
        """Make ready for a timed call whose inputs have not been shown yet."""

    def place(self, tensor: Any) -> Any:
        """A tensor of the host's memory on this device, at another address than the last one had."""

    def timed(self, call: Callable[[], Any], *, cold: bool) -> Tuple[Any, float]:
        """What `call` returns, and the nanoseconds from its start to the end of the work it began.

        With `cold`, the caches are pushed empty before.
        """


class CpuDevice:
    """The node's CPU."""

    name = "cpu"

    def __init__(self) -> None:
        self._memory: "mmap.mmap | None" = None

    def prepare(self) -> None:
        """Write twice the size of the last-level cache, at most 64 MiB.

        Inputs come as shared memory that is not touched until the call, so that it stays cold.
        """
        if self._memory is None:
            self._memory = mmap.mmap(-1, min(2 * last_level_cache_bytes(), _FLUSH_BYTES_MAX))
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        ctypes.memset(address, os.getpid() & 0xFF, len(self._memory))

    def place(self, tensor: Any) -> Any:
        """The tensor itself."""
        return tensor

    def timed(self, call: Callable[[], Any], *, cold: bool) -> Tuple[Any, float]:
        """What `call` returns, and the nanoseconds it took."""
        del cold
        start = time.perf_counter_ns()
        value = call()
        return value, float(time.perf_counter_ns() - start)


class CudaDevice:
    """The first visible GPU, through PyTorch's CUDA interface, which ROCm builds offer as well."""

    name = "cuda"

    def __init__(self, torch: Any, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self._torch = torch
        self._event = torch.cuda.Event
        self._synchronize = torch.cuda.synchronize
        self._elapsed_ms = torch.cuda.Event.elapsed_time
        self._placed = 0
        properties = torch.cuda.get_device_properties(0)
        cache_bytes = max(int(getattr(properties, "L2_cache_size", 0)), 32 * 2**20)
        self._memory = torch.empty(2 * cache_bytes, dtype=torch.uint8, device="cuda")
        self._driver = _driver()
        self._synchronize()
        idle_ns = max(self._synchronization_ns() for _ in range(_IDLE_SYNCHRONIZATIONS))
        self._idle_ns = min(2 * idle_ns, _IDLE_NS_MAX)

    def prepare(self) -> None:
        """Take back whatever part of the L2 cache a submission has set aside for itself.

        Lines that are marked as persisting outlive the writing of a buffer; both calls are needed (the limit alone
        keeps the lines that are there, the reset alone lets new ones be marked).
        """
        if self._driver is not None:
            self._driver.cuCtxSetLimit(_CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
            self._driver.cuCtxResetPersistingL2Cache()
        self._synchronize()

    def place(self, tensor: Any) -> Any:
        """A copy on the GPU, 256 bytes further into its memory than that of the tensor before."""
        self._placed = (self._placed + 1) % _SHIFTS
        torch, shift = self._torch, self._placed * _SHIFT_BYTES
        room = torch.empty(shift + tensor.nbytes, dtype=torch.uint8, device="cuda")
        order = sorted(range(tensor.dim()), key=lambda index: (-tensor.stride(index), index))
        plain = tensor.permute(order)
        placed = room[shift:].view(tensor.dtype).view(plain.shape) if tensor.numel() else plain.to("cuda")
        placed.copy_(plain)
        return placed.permute(sorted(range(len(order)), key=lambda index: order[index]))

    def timed(self, call: Callable[[], Any], *, cold: bool) -> Tuple[Any, float]:
        """What `call` returns, and the nanoseconds between two events around it, of all streams.

        With `cold`, twice the size of the L2 cache is written before; as that is still going on while the call is
        queued, the time to launch the kernel is hidden behind it. The second event ends the current stream's work.
        Where the device takes longer to come to rest after it than an idle one does, another stream had work left, and
        an event recorded after the rest counts in its place.
        """
        start, end = self._event(enable_timing=True), self._event(enable_timing=True)
        self._synchronize()
        if cold:
            self._memory.fill_(1)
        start.record()
        value = call()
        end.record()
        end.synchronize()
        if self._synchronization_ns() > self._idle_ns:
            end = self._event(enable_timing=True)
            end.record()
            end.synchronize()
        return value, float(self._elapsed_ms(start, end)) * 1e6

    def _synchronization_ns(self) -> int:
        """How long the host waits until the device has nothing left to do, on any stream."""
        start = self._clock()
        self._synchronize()
        return self._clock() - start


def _driver() -> Any:
    """NVIDIA's driver library; None where there is none (ROCm), or where it knows no persisting L2 cache."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuCtxResetPersistingL2Cache  # noqa: B018 - drivers before CUDA 11 lack it
    except (OSError, AttributeError):
        return None
    return driver


def open_device(kind: str) -> Device:
    """The device of the kind "cuda", "hip" or "cpu"; PyTorch's default device is set to it where it is a GPU.

    Raises:
        DeviceMissing: the node has none, or PyTorch cannot use it.
    """
    if kind == "cpu":
        return CpuDevice()
    try:
        import torch
    except ImportError as error:
        raise DeviceMissing(f"this Python ({sys.executable}) has no PyTorch: {error}") from error
    if not torch.cuda.is_available():
        raise DeviceMissing(_why_no_gpu(torch, kind))
    torch.set_default_device("cuda")
    return CudaDevice(torch)


def _why_no_gpu(torch: Any, kind: str) -> str:
    built = torch.version.cuda or torch.version.hip
    visible = os.environ.get("CUDA_VISIBLE_DEVICES" if kind == "cuda" else "HIP_VISIBLE_DEVICES")
    nodes = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*")) + sorted(
        path.name for path in Path("/dev").glob("kfd")
    )
    return (
        f"no {kind} device can be used on this node: PyTorch {torch.__version__} "
        + (f"is built for {built}" if built else "is a build without GPU support")
        + f"; visible devices: {'not set' if visible is None else repr(visible)}"
        + f"; device files: {', '.join(nodes) or 'none'}"
    )


def last_level_cache_bytes() -> int:
    """The size of the largest CPU cache, by the kernel's own list; 32 MiB where it gives none."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        units = {"K": 2**10, "M": 2**20}
        if text and text[-1] in units and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=32 * 2**20)
