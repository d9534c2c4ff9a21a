"""The one interface between the harness and a processor: placing tensors, timing calls, emptying caches."""

import ctypes
import math
import mmap
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

_FLUSH_BYTES_MAX = 64 * 2**20
_FLUSH_THREADS_MAX = 4
_CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06
_SHIFT_BYTES = 256
# A prime, so that no usual number of tensors per call gives each of them the same address again.
_SHIFTS = 61
# AMD's Infinity Cache of 256 MiB is not part of the L2 cache size that PyTorch reports.
_CUDA_FLUSH_BYTES_MIN = 256 * 2**20
_HIP_FLUSH_BYTES_MIN = 512 * 2**20
# Host time for the first launches of a call, and for each input that is restored right before it.
_HIDDEN_NS = 1_000_000
_HIDDEN_INPUT_NS = 50_000
_FILLS_MAX = 32
# Clocks rise during the first tenths of a second of work, and fall again when the device is idle.
_WARM_NS = 500_000_000
_ALONE_NS = 1_000_000_000
_WARM_FILLS = 16
_REST_NS_MAX = 100_000
"""Longest synchronization time of a device that counts as idle, ten times that of a host whose caches are warm."""

_BLOCK_BYTES = 64
_SPOILED_BLOCKS = 32
_PARTED_BYTES = 8 * 2**20
_PARTS = 8
_GPUS_LISTED = 16
_LEAST_NS = 1.0
"""Time reported for two events too close to be told apart; it is below every floor."""

_entropy = random.SystemRandom()


_PROTECTING = 0x08 | 0x20 | 0x40 | 0x80
"""nvmlClocksEventReason...: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown.

The power cap (0x04) is missing here: many honest kernels run at it all of the time (nvml.h, "Clocks Event Reasons").
"""


class Throttling:
    """The present state of the GPU with a UUID; where NVML does not report it, `fault` is the reason."""

    def __init__(self, uuid: str) -> None:
        self._library: Any = None
        self._device = ctypes.c_void_p()
        self.fault = ""
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            error = (
                library.nvmlInit_v2()
                or library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(self._device))
                # Some GPUs, such as virtual ones, do not have it.
                or library.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(ctypes.c_ulonglong()))
            )
        except (OSError, AttributeError) as missing:
            self.fault = str(missing)
            return
        if error:
            self.fault = f"NVML error {error}"
        else:
            self._library = library

    def is_active(self) -> bool:
        """Return whether heat, power supply or the board slow the GPU down now."""
        reasons = ctypes.c_ulonglong()
        if self._library is None:
            return False
        # Drivers from 535 on call them events; the older name stays.
        error = self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._device, ctypes.byref(reasons))
        return not error and bool(reasons.value & _PROTECTING)


class DeviceMissing(Exception):
    """The node has no such device; the message says which one was requested and which ones exist."""


class Device(Protocol):
    """A processor on which a submission is called."""

    name: str
    """PyTorch's name of the device."""

    def prepare(self, *, warm: bool = True) -> None:
        """Prepare a timed call whose inputs have not been shown yet; `warm` may take half a second of work."""

    def empty_caches(self) -> None:
        """Evict from the caches the data that another process has written for the next timed call."""

    def place(self, tensor: Any) -> Any:
        """Return a tensor of host memory on this device, at another address than the previous one."""

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """Return the value of `call` at the end of its time, and the nanoseconds from its start to that end.

        With `cold`, the caches are evicted before. `shown` are the inputs. On a GPU they get their values only at the
        start, and the returned value is a copy as of the end: work by another stream before or after gives a wrong
        result.
        """


class CpuDevice:
    """The node's CPU, whose own caches hold none of the inputs: another process writes them."""

    name = "cpu"

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def prepare(self, *, warm: bool = True) -> None:
        pass

    def empty_caches(self) -> None:
        if self._memory is None:
            self._memory = mmap.mmap(-1, min(2 * last_level_cache_bytes(), _FLUSH_BYTES_MAX))
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        count = min(len(os.sched_getaffinity(0)), _FLUSH_THREADS_MAX)
        part, value = len(self._memory) // count, os.getpid() & 0xFF
        parts = [(address + number * part, value, part) for number in range(count)]
        started = []
        for each in parts:
            writer = threading.Thread(target=ctypes.memset, args=each)
            try:
                writer.start()
            except RuntimeError:
                ctypes.memset(*each)  # the node has no room for another thread
            else:
                started.append(writer)
        for writer in started:
            writer.join()

    def place(self, tensor: Any) -> Any:
        return tensor

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        del cold, shown
        start = time.perf_counter_ns()
        value = call()
        return value, float(time.perf_counter_ns() - start)


class CudaDevice:
    """The first visible GPU, through PyTorch's CUDA interface, which ROCm builds offer as well.

    Calls are timed on the default stream, even if another one is current when they return: of all streams only it
    waits for those created without `NonBlocking`, and these wait for it.
    """

    name = "cuda"

    def __init__(self, torch: Any, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        torch.cuda.synchronize()
        self.kept = _Kept(torch)
        self.stream = torch.cuda.default_stream()
        self.stream_address = int(getattr(self.stream, "cuda_stream", 0))
        least = _HIP_FLUSH_BYTES_MIN if torch.version.hip else _CUDA_FLUSH_BYTES_MIN
        self._flush_bytes = max(2 * int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)), least)
        self._driver = _driver()
        self._placed = 0
        self._memory: Any = None
        self._fill_ns = math.inf
        self._warm_at_ns: int | None = None

    def prepare(self, *, warm: bool = True) -> None:
        kept = self.kept
        if self._driver is not None:
            # Persisting lines survive the writing of a buffer. The limit alone keeps existing ones, the reset alone
            # permits new ones.
            self._driver.cuCtxSetLimit(_CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
            self._driver.cuCtxResetPersistingL2Cache()
        kept.set_stream(self.stream)
        with kept.plainly():
            if self._memory is None:
                self._memory = kept.empty(self._flush_bytes, dtype=kept.uint8, device="cuda")
            if warm and (self._warm_at_ns is None or self._clock() - self._warm_at_ns > _ALONE_NS):
                self._warm()
            # The judge may be using the device at this moment, which makes a fill longer and never shorter.
            self._fill_ns = min(self._fill_ns, self._measured_fill_ns())
        kept.synchronize()
        if warm:
            self._warm_at_ns = self._clock()

    def empty_caches(self) -> None:
        pass  # data written to host memory is in no cache of a GPU

    def _warm(self) -> None:
        end_ns = self._clock() + _WARM_NS
        while self._clock() < end_ns:
            for _ in range(_WARM_FILLS):
                self.kept.fill_(self._memory, 1)
            self.kept.synchronize()

    def _measured_fill_ns(self) -> float:
        """Return the device's time to write the whole buffer, by its own clock."""
        kept = self.kept
        start, end = self.events(2)
        kept.synchronize()
        # The first fill hides the launch time of the second.
        kept.fill_(self._memory, 1)
        kept.record(start, self.stream)
        kept.fill_(self._memory, 1)
        kept.record(end, self.stream)
        kept.wait(end)
        return max(_LEAST_NS, float(kept.elapsed_ms(start, end)) * 1e6)

    def fills(self, inputs: int) -> int:
        """Return the number of buffer fills that keep the host well ahead of the device when the clock starts."""
        return min(_FILLS_MAX, math.ceil((_HIDDEN_NS + _HIDDEN_INPUT_NS * inputs) / self._fill_ns))

    def events(self, count: int) -> list[Any]:
        """Return new events, each recorded once: the first record creates the event, outside of any measured time."""
        events = [self.kept.event(enable_timing=True) for _ in range(count)]
        for event in events:
            self.kept.record(event, self.stream)
        return events

    def place(self, tensor: Any) -> Any:
        """Return a copy on the GPU, 256 bytes further into its memory than the previous tensor's."""
        self._placed = (self._placed + 1) % _SHIFTS
        kept, shift = self.kept, self._placed * _SHIFT_BYTES
        with kept.plainly():
            if not kept.numel(tensor):
                return kept.to(tensor, "cuda")
            nbytes, order = kept.nbytes(tensor), kept.memory_order(tensor)
            room = kept.empty(shift + nbytes, dtype=kept.uint8, device="cuda")
            target = kept.narrow(room, 0, shift, nbytes)
            # As bytes, since some number formats cannot be copied as numbers.
            kept.copy_(target, kept.as_bytes(kept.permute(tensor, order)))
            return self.shaped_as(target, tensor)

    def shaped_as(self, room: Any, tensor: Any) -> Any:
        """Return the bytes of `room`, as many as those of a dense tensor, in that tensor's type, shape and order."""
        kept = self.kept
        order = kept.memory_order(tensor)
        placed = kept.view(kept.view(room, kept.dtype(tensor)), kept.shape(kept.permute(tensor, order)))
        return kept.permute(placed, sorted(range(len(order)), key=lambda index: order[index]))

    def flat(self, tensor: Any) -> Any:
        """Return the numbers of a tensor of any device on this one, as one dense row."""
        kept = self.kept
        with kept.plainly():
            return kept.reshape(kept.to(kept.detach(tensor), "cuda"), -1)

    def flush(self, count: int) -> None:
        """Queue `count` fills of the buffer that is twice as large as the L2 cache."""
        for _ in range(count):
            self.kept.fill_(self._memory, 1)

    def used(self) -> None:
        """Note that the device has just worked, so that its clocks are high."""
        self._warm_at_ns = self._clock()

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """Time a call as docs/design/judge.md, "One timed call", says; the device is idle afterwards."""
        kept, stream = self.kept, self.stream
        if cold and self._memory is None:
            raise RuntimeError("no call has cold caches before the device is prepared; call prepare() first")
        kept.set_stream(stream)
        start, end, copied = self.events(3)
        with kept.plainly():
            spoiled = self.spoiled(shown) if cold else []
            kept.synchronize()
            for _ in range(self.fills(len(spoiled)) if cold else 0):
                kept.fill_(self._memory, 1)
            for blocks, places, right in spoiled:
                kept.index_copy_(blocks, 0, places, right)
        kept.record(start, stream)
        value = call()
        kept.record(end, stream)
        kept.set_stream(stream)
        with kept.plainly():
            value = self._as_it_is(value)
        kept.record(copied, stream)
        kept.wait(copied)
        if self._synchronization_ns() > _REST_NS_MAX:
            (end,) = self.events(1)
            kept.wait(end)
        if self._warm_at_ns is not None:
            self._warm_at_ns = self._clock()
        return value, float(kept.elapsed_ms(start, end)) * 1e6 or _LEAST_NS

    def spoiled(self, value: Any) -> "list[tuple[Any, Any, Any]]":
        """Return blocks of each tensor in `value`, their spoiled places, and the right content there.

        One half holds numbers that spoil every result they enter; the other half holds data from elsewhere in the
        tensor, indistinguishable from right data.
        """
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return [each for item in value for each in self.spoiled(item)]
        kept = self.kept
        if type(value) is not kept.tensor_type or not kept.numel(value):
            return []
        nbytes, dtype, device = kept.nbytes(value), kept.dtype(value), kept.device(value)
        flat = kept.as_bytes(kept.permute(value, kept.memory_order(value)))
        width = min(_BLOCK_BYTES, nbytes)
        count = nbytes // width
        blocks = kept.view(kept.narrow(flat, 0, 0, count * width), (count, width))
        sample = _entropy.sample(range(count), min(_SPOILED_BLOCKS, count))
        places, elsewhere = (
            kept.tensor(indices, dtype=kept.int64, device=device)
            for indices in (sample, [_entropy.randrange(count) for _ in sample])
        )
        right, wrong = kept.index_select(blocks, 0, places), kept.index_select(blocks, 0, elsewhere)
        half = (len(sample) + 1) // 2
        worthless: Any
        if dtype is kept.bool:
            worthless = kept.bitwise_xor(kept.narrow(right, 0, 0, half), 1)
        else:
            numbers = _worthless(dtype, kept.element_size(value), width)
            worthless = kept.tensor(list(numbers), dtype=kept.uint8, device=device)
        kept.copy_(kept.narrow(wrong, 0, 0, half), worthless)
        kept.index_copy_(blocks, 0, places, wrong)
        return [(blocks, places, right)]

    def _as_it_is(self, value: Any) -> Any:
        """Return `value` with a copy in place of each tensor, made on the current stream."""
        kept, kind = self.kept, type(value)
        if kind in (kept.tensor_type, kept.parameter_type):
            return self._copy(kept.detach(value))
        if kind in (list, tuple):
            return kind([self._as_it_is(item) for item in value])
        if kind is dict:
            return {key: self._as_it_is(item) for key, item in value.items()}
        return value

    def _copy(self, tensor: Any) -> Any:
        """Return a copy of a tensor, a large one copied in parts.

        Their order is unpredictable to a writer that would write just ahead of the copy.
        """
        kept = self.kept
        if kept.nbytes(tensor) < _PARTED_BYTES or not kept.is_contiguous(tensor):
            return kept.clone(tensor)
        copy = kept.empty_like(tensor)
        parts = self.parts(tensor, copy)
        _entropy.shuffle(parts)
        for source, target in parts:
            kept.copy_(target, source)
        return copy

    def parts(self, source: Any, target: Any) -> list[tuple[Any, Any]]:
        """Return the pairs of parts in which a dense tensor is copied to another: a large one has eight."""
        kept = self.kept
        if kept.nbytes(source) < _PARTED_BYTES:
            return [(source, target)]
        sources, targets = (kept.chunk(kept.view(whole, -1), _PARTS) for whole in (source, target))
        return list(zip(sources, targets, strict=True))

    def _synchronization_ns(self) -> int:
        """Return the host's waiting time until the device is idle on all streams."""
        start = self._clock()
        self.kept.synchronize()
        return self._clock() - start


class _Kept:
    """PyTorch functions that a device needs, captured before a submission could replace them.

    This excludes a submission's patches of PyTorch, deliberate or not. Code that searches the process's memory finds
    this object: the supervisor's clock bounds its gain.
    """

    def __init__(self, torch: Any) -> None:
        cuda, tensor = torch.cuda, torch.Tensor
        self.event = cuda.Event
        self.record, self.wait = cuda.Event.record, cuda.Event.synchronize
        self.elapsed_ms, self.query = cuda.Event.elapsed_time, cuda.Event.query
        native = torch._C  # noqa: SLF001 - these functions have no public name
        # PyTorch's own function looks this one up at each call; CPU builds lack it.
        self.synchronize = getattr(native, "_cuda_synchronize", cuda.synchronize)
        self.set_stream = cuda.set_stream
        self._current_stream = cuda.current_stream
        self._no_functions, self._no_dispatch = native.DisableTorchFunction, native._DisableTorchDispatch  # noqa: SLF001
        self.tensor_type, self.parameter_type = tensor, torch.nn.Parameter
        self.bool, self.uint8, self.int64 = torch.bool, torch.uint8, torch.int64
        self.tensor, self.empty, self.empty_like = torch.tensor, torch.empty, torch.empty_like
        self.zeros, self.as_tensor, self.ne, self.mul = torch.zeros, torch.as_tensor, torch.ne, torch.mul
        self.any = torch.any
        self.data_ptr = tensor.data_ptr
        self.fill_, self.copy_, self.index_copy_ = tensor.fill_, tensor.copy_, tensor.index_copy_
        self.index_select, self.bitwise_xor = tensor.index_select, tensor.bitwise_xor
        self.clone, self.detach, self.to, self.is_contiguous = (
            tensor.clone,
            tensor.detach,
            tensor.to,
            tensor.is_contiguous,
        )
        self.view, self.reshape, self.permute = tensor.view, tensor.reshape, tensor.permute
        self.narrow, self.chunk = tensor.narrow, tensor.chunk
        self.numel, self.element_size = tensor.numel, tensor.element_size
        self._dim, self._stride = tensor.dim, tensor.stride
        # Attributes of a tensor, as functions.
        self.dtype, self.shape, self.device = tensor.dtype.__get__, tensor.shape.__get__, tensor.device.__get__

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Enter a context in which no mode sees the calls.

        Neither a submission's mode, nor that of the default device, which costs the host more than the call itself.
        """
        with self._no_functions(), self._no_dispatch():
            yield

    def follow(self, stream: Any) -> None:
        """Let a stream wait for the work that the current stream has by now."""
        current = self._current_stream()
        if current != stream:
            stream.wait_stream(current)

    def nbytes(self, tensor: Any) -> int:
        """Return the size of a tensor's numbers in bytes."""
        return int(self.numel(tensor) * self.element_size(tensor))

    def memory_order(self, tensor: Any) -> list[int]:
        """Return the dimensions of a dense tensor from the slowest to the fastest in memory."""
        return sorted(range(self._dim(tensor)), key=lambda index: (-self._stride(tensor, index), index))

    def as_bytes(self, tensor: Any) -> Any:
        """Return the bytes of a tensor as one row."""
        return self.view(self.reshape(tensor, -1), self.uint8)


def _worthless(dtype: Any, element_size: int, width: int) -> bytes:
    """Return `width` bytes of numbers that spoil a sum or a product, and in turns a minimum or a maximum.

    NaN alone is not enough: `fmaxf` and similar functions ignore it, so other calls get numbers near the ends of the
    type's range.
    """
    size = element_size // (2 if dtype.is_complex else 1)
    if dtype.is_floating_point or dtype.is_complex:
        # NaN, or the lowest number of a format without it; then a number near either end of every format.
        numbers = [b"\xff" * size, b"\x7b" * size, b"\x7b" * (size - 1) + b"\xfb"]
    elif dtype.is_signed:
        numbers = [b"\x7f" * size, b"\x80" * size]
    else:
        numbers = [b"\xff" * size, b"\0" * size]
    return _entropy.choice(numbers) * (width // size)


def _driver() -> Any:
    """Return NVIDIA's driver library; None if it is missing (ROCm) or does not support a persisting L2 cache."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuCtxResetPersistingL2Cache  # noqa: B018 - drivers before CUDA 11 lack it
    except (OSError, AttributeError):
        return None
    return driver


def open_device(kind: str) -> Device:
    """Return the device of the kind "cuda", "hip" or "cpu"; a GPU becomes PyTorch's default device.

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
    # Landlock hides the folder's list from a confined process, and not the existence of each file.
    names = (*(f"nvidia{number}" for number in range(_GPUS_LISTED)), "nvidiactl", "kfd")
    nodes = [name for name in names if Path("/dev", name).exists()]
    return (
        f"no {kind} device can be used on this node: PyTorch {torch.__version__} "
        + (f"is built for {built}" if built else "was built without GPU support")
        + f"; visible devices: {'not set' if visible is None else repr(visible)}"
        + f"; device files: {', '.join(nodes) or 'none'}"
        + (f"; {_fault_of_start(torch)}" if built else "")
    )


def _fault_of_start(torch: Any) -> str:
    """Return the error with which PyTorch cannot start the GPU's runtime, on one line."""
    try:
        torch.cuda.init()
    except Exception as error:  # noqa: BLE001 - PyTorch raises many types
        return " ".join(str(error).split())[:300]
    return "PyTorch finds no device"


def last_level_cache_bytes() -> int:
    """Return the size of the largest CPU cache as the kernel lists it; 32 MiB if it lists none."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        units = {"K": 2**10, "M": 2**20}
        if text and text[-1] in units and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * units[text[-1]])
    return max(sizes, default=32 * 2**20)
