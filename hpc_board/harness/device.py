"""The one seam between the harness and a processor: where tensors live, how a call is timed, how a cache is emptied."""

import ctypes
import mmap
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, Callable, List, Protocol, Tuple

_FLUSH_BYTES_MAX = 64 * 2**20
_CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06
_SHIFT_BYTES = 256
# A prime, so that no usual number of tensors in a call brings each of them to the same place again.
_SHIFTS = 61
# What hides the launch of a kernel behind the writing, and what holds more than AMD's Infinity Cache of 256 MiB, which
# is not part of the L2 cache that PyTorch tells.
_CUDA_FLUSH_BYTES_MIN = 256 * 2**20
_HIP_FLUSH_BYTES_MIN = 512 * 2**20
_IDLE_SYNCHRONIZATIONS = 20
_IDLE_NS_MAX = 50_000
_BLOCK_BYTES = 64
_SPOILED_BLOCKS = 32
_PARTED_BYTES = 8 * 2**20
_PARTS = 8
_LEAST_NS = 1.0
"""What counts where two events are too near to each other to be told apart; it is below every floor."""

_entropy = random.SystemRandom()


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

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> Tuple[Any, float]:
        """What `call` has returned by the end of its time, and the nanoseconds from its start to that end.

        With `cold`, the caches are pushed empty before. `shown` are the inputs. On a GPU they become what they are at
        the start only, and the value is a copy as of the end: what another stream does before or after is wrong.
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

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> Tuple[Any, float]:
        """What `call` returns, and the nanoseconds it took."""
        del cold, shown
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
        self._clone = torch.Tensor.clone
        self._placed = 0
        self._memory: Any = None
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
        if self._memory is None:
            self._memory = self._torch.empty(self._flush_bytes(), dtype=self._torch.uint8, device="cuda")
        self._synchronize()

    def _flush_bytes(self) -> int:
        torch = self._torch
        least = _HIP_FLUSH_BYTES_MIN if torch.version.hip else _CUDA_FLUSH_BYTES_MIN
        return max(2 * int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)), least)

    def place(self, tensor: Any) -> Any:
        """A copy on the GPU, 256 bytes further into its memory than that of the tensor before."""
        self._placed = (self._placed + 1) % _SHIFTS
        torch, shift = self._torch, self._placed * _SHIFT_BYTES
        room = torch.empty(shift + tensor.nbytes, dtype=torch.uint8, device="cuda")
        if not tensor.numel():
            return tensor.to("cuda")
        order, plain = _memory_order(tensor), _in_memory_order(tensor)
        # As bytes, since some number formats cannot be copied as numbers.
        room[shift:].copy_(plain.reshape(-1).view(torch.uint8))
        placed = room[shift:].view(tensor.dtype).view(plain.shape)
        return placed.permute(sorted(range(len(order)), key=lambda index: order[index]))

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> Tuple[Any, float]:
        """What `call` has returned by its second event, and the nanoseconds between two events, of all streams.

        With `cold`, at least twice the size of the L2 cache is written before; as that is still going on while the call
        is queued, the time to launch the kernel is hidden behind it. Another stream does not wait for it and could do
        the work meanwhile: so parts of the inputs are wrong until the first event. The second ends the current
        stream's work, and the copy of what was returned is queued right behind it: work that another stream or thread
        does later is missing there. Where the device takes longer to come to rest than an idle one does, another
        stream had work left all the same, and an event recorded after the rest counts in place of the second.
        """
        start, end, copied = (self._event(enable_timing=True) for _ in range(3))
        # An event comes to be when it is first recorded, which is not to be part of the time.
        for event in (start, end, copied):
            event.record()
        spoiled = self._spoiled(shown) if cold else []
        self._synchronize()
        if cold:
            self._memory.fill_(1)
        for blocks, places, right in spoiled:
            blocks.index_copy_(0, places, right)
        start.record()
        value = call()
        end.record()
        value = self._as_it_is(value)
        copied.record()
        copied.synchronize()
        if self._synchronization_ns() > self._idle_ns:
            end = self._event(enable_timing=True)
            end.record()
            end.synchronize()
        return value, float(self._elapsed_ms(start, end)) * 1e6 or _LEAST_NS

    def _spoiled(self, value: Any) -> "List[Tuple[Any, Any, Any]]":
        """Blocks of each tensor in `value`, the places of those that have been made wrong, and what is right there."""
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return [each for item in value for each in self._spoiled(item)]
        if type(value) is not self._torch.Tensor or not value.numel():
            return []
        flat = _in_memory_order(value).reshape(-1).view(self._torch.uint8)
        width = min(_BLOCK_BYTES, len(flat))
        blocks = flat[: len(flat) // width * width].view(-1, width)
        sample = _entropy.sample(range(len(blocks)), min(_SPOILED_BLOCKS, len(blocks)))
        places = self._torch.tensor(sample, device=flat.device)
        right = blocks[places]
        blocks[places] = right ^ (1 if value.dtype is self._torch.bool else 0xFF)
        return [(blocks, places, right)]

    def _as_it_is(self, value: Any) -> Any:
        """`value` with a copy in place of each tensor, made on the current stream."""
        torch, kind = self._torch, type(value)
        if kind in (torch.Tensor, torch.nn.Parameter):
            return self._copy(torch.Tensor.detach(value))
        if kind in (list, tuple):
            return kind([self._as_it_is(item) for item in value])
        if kind is dict:
            return {key: self._as_it_is(item) for key, item in value.items()}
        return value

    def _copy(self, tensor: Any) -> Any:
        """A copy of a tensor; a large one is copied in parts, whose order nobody knows who would write just ahead."""
        if tensor.nbytes < _PARTED_BYTES or not tensor.is_contiguous():
            return self._clone(tensor)
        copy = self._torch.empty_like(tensor)
        parts = list(zip(copy.view(-1).chunk(_PARTS), tensor.view(-1).chunk(_PARTS), strict=True))
        _entropy.shuffle(parts)
        for target, source in parts:
            target.copy_(source)
        return copy

    def _synchronization_ns(self) -> int:
        """How long the host waits until the device has nothing left to do, on any stream."""
        start = self._clock()
        self._synchronize()
        return self._clock() - start


def _memory_order(tensor: Any) -> List[int]:
    """The dimensions of a dense tensor from the slowest to the fastest in memory."""
    return sorted(range(tensor.dim()), key=lambda index: (-tensor.stride(index), index))


def _in_memory_order(tensor: Any) -> Any:
    """The same dense tensor with its dimensions as they lie in memory."""
    return tensor.permute(_memory_order(tensor))


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
