"""The one seam between the harness and a processor: where tensors live, how a call is timed, how a cache is emptied."""

import ctypes
import math
import mmap
import os
import random
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

_FLUSH_BYTES_MAX = 64 * 2**20
_FLUSH_THREADS_MAX = 4
_CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 0x06
_SHIFT_BYTES = 256
# A prime, so that no usual number of tensors in a call brings each of them to the same place again.
_SHIFTS = 61
# AMD's Infinity Cache of 256 MiB is not part of the L2 cache that PyTorch tells.
_CUDA_FLUSH_BYTES_MIN = 256 * 2**20
_HIP_FLUSH_BYTES_MIN = 512 * 2**20
# The host needs this long for the first launches of a call, and for each input that is put right before it.
_HIDDEN_NS = 200_000
_HIDDEN_INPUT_NS = 20_000
_FILLS_MAX = 32
# Clocks rise during the first tenths of a second of work, and fall again when nothing is asked of the device.
_WARM_NS = 500_000_000
_ALONE_NS = 1_000_000_000
_WARM_FILLS = 16
_RESTS = 21
_REST_FACTOR = 4
_REST_NS_MAX = 50_000
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

    def prepare(self, *, warm: bool = True) -> None:
        """Make ready for a timed call whose inputs have not been shown yet; `warm` may take half a second of work."""

    def empty_caches(self) -> None:
        """Push out of the caches what another process has written for a call that is about to be timed."""

    def place(self, tensor: Any) -> Any:
        """A tensor of the host's memory on this device, at another address than the last one had."""

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """What `call` has returned by the end of its time, and the nanoseconds from its start to that end.

        With `cold`, the caches are pushed empty before. `shown` are the inputs. On a GPU they become what they are at
        the start only, and the value is a copy as of the end: what another stream does before or after is wrong.
        """


class CpuDevice:
    """The node's CPU."""

    name = "cpu"

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def prepare(self, *, warm: bool = True) -> None:
        """Nothing: a core's own caches hold none of the inputs, which another process writes."""

    def empty_caches(self) -> None:
        """Write twice the size of the last-level cache, at most 64 MiB, from as many as four processors."""
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
        """The tensor itself."""
        return tensor

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """What `call` returns, and the nanoseconds it took."""
        del cold, shown
        start = time.perf_counter_ns()
        value = call()
        return value, float(time.perf_counter_ns() - start)


class CudaDevice:
    """The first visible GPU, through PyTorch's CUDA interface, which ROCm builds offer as well.

    Calls are timed on the default stream, whichever is the current one when they come back: of all streams it alone
    waits for those that were made without `NonBlocking`, and these for it.
    """

    name = "cuda"

    def __init__(self, torch: Any, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        torch.cuda.synchronize()
        self._kept = _Kept(torch)
        self._stream = torch.cuda.default_stream()
        self._flush_bytes = _flush_bytes(torch)
        self._driver = _driver()
        self._placed = 0
        self._memory: Any = None
        self._fill_ns = math.inf
        self._warm_at_ns: int | None = None
        self._rests_ns: deque[int] = deque((self._synchronization_ns() for _ in range(_RESTS)), _RESTS)

    def prepare(self, *, warm: bool = True) -> None:
        """Take back what a submission has set aside of the L2 cache, and keep a device busy whose clocks may be low.

        Lines that are marked as persisting outlive the writing of a buffer; both calls are needed (the limit alone
        keeps the lines that are there, the reset alone lets new ones be marked). With `warm`, the device has half a
        second of work before the first timed call of a process, and where that process has asked nothing of it for a
        second: with clocks that still rise, no two times could be compared.
        """
        kept = self._kept
        if self._driver is not None:
            self._driver.cuCtxSetLimit(_CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))
            self._driver.cuCtxResetPersistingL2Cache()
        kept.set_stream(self._stream)
        with kept.plainly():
            if self._memory is None:
                self._memory = kept.empty(self._flush_bytes, dtype=kept.uint8, device="cuda")
            if warm and (self._warm_at_ns is None or self._clock() - self._warm_at_ns > _ALONE_NS):
                self._warm()
            # The judge may be using the device just now, which makes a fill longer and never shorter.
            self._fill_ns = min(self._fill_ns, self._measured_fill_ns())
        kept.synchronize()
        self._rests_ns.append(self._synchronization_ns())
        if warm:
            self._warm_at_ns = self._clock()

    def empty_caches(self) -> None:
        """Nothing: what is written in the host's memory is in no cache of a GPU."""

    def _warm(self) -> None:
        end_ns = self._clock() + _WARM_NS
        while self._clock() < end_ns:
            for _ in range(_WARM_FILLS):
                self._kept.fill_(self._memory, 1)
            self._kept.synchronize()

    def _measured_fill_ns(self) -> float:
        """How long the device writes the whole buffer, by its own clock."""
        kept = self._kept
        start, end = self._events(2)
        kept.synchronize()
        # The first one hides how long it takes to launch the second.
        kept.fill_(self._memory, 1)
        kept.record(start, self._stream)
        kept.fill_(self._memory, 1)
        kept.record(end, self._stream)
        kept.wait(end)
        return max(_LEAST_NS, float(kept.elapsed_ms(start, end)) * 1e6)

    def _fills(self, inputs: int) -> int:
        """How often the buffer is written so that the host is well ahead of the device when the clock starts."""
        return min(_FILLS_MAX, math.ceil((_HIDDEN_NS + _HIDDEN_INPUT_NS * inputs) / self._fill_ns))

    def _events(self, count: int) -> list[Any]:
        """New events, each recorded once: an event comes to be then, which is not to be part of a time."""
        events = [self._kept.event(enable_timing=True) for _ in range(count)]
        for event in events:
            self._kept.record(event, self._stream)
        return events

    def place(self, tensor: Any) -> Any:
        """A copy on the GPU, 256 bytes further into its memory than that of the tensor before."""
        self._placed = (self._placed + 1) % _SHIFTS
        kept, shift = self._kept, self._placed * _SHIFT_BYTES
        with kept.plainly():
            if not kept.numel(tensor):
                return kept.to(tensor, "cuda")
            nbytes, order = kept.nbytes(tensor), kept.memory_order(tensor)
            room = kept.empty(shift + nbytes, dtype=kept.uint8, device="cuda")
            plain, target = kept.permute(tensor, order), kept.narrow(room, 0, shift, nbytes)
            # As bytes, since some number formats cannot be copied as numbers.
            kept.copy_(target, kept.as_bytes(plain))
            placed = kept.view(kept.view(target, kept.dtype(tensor)), kept.shape(plain))
            return kept.permute(placed, sorted(range(len(order)), key=lambda index: order[index]))

    def timed(self, call: Callable[[], Any], shown: Any, *, cold: bool) -> tuple[Any, float]:
        """What `call` has returned by its second event, and the nanoseconds between two events, of all streams.

        With `cold`, at least twice the size of the L2 cache is written before, and again until 0.2 ms are sure to have
        passed; as that is still going on while the call is queued, the time to launch the kernel is hidden behind it.
        Another stream does not wait for it and could do the work meanwhile: so parts of the inputs are wrong until the
        first event. The second ends the work on the default stream, and the copy of what was returned is queued right
        behind it: work that another stream or thread does later is missing there. Where the device takes longer to come
        to rest than an idle one does, another stream had work left all the same, and an event recorded after the rest
        counts in place of the second. When this returns, the device has nothing left to do.

        Raises:
            RuntimeError: caches are to be emptied, and the device was never prepared, so that nothing could do it.
        """
        kept, stream = self._kept, self._stream
        if cold and self._memory is None:
            raise RuntimeError("no call has cold caches before the device is prepared; call prepare() first")
        kept.set_stream(stream)
        start, end, copied = self._events(3)
        with kept.plainly():
            spoiled = self._spoiled(shown) if cold else []
            kept.synchronize()
            for _ in range(self._fills(len(spoiled)) if cold else 0):
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
        if self._synchronization_ns() > self._rest_ns:
            (end,) = self._events(1)
            kept.wait(end)
        if self._warm_at_ns is not None:
            self._warm_at_ns = self._clock()
        return value, float(kept.elapsed_ms(start, end)) * 1e6 or _LEAST_NS

    @property
    def _rest_ns(self) -> float:
        """What a rest may take before the device counts as busy.

        By the median of the last ones that were idle for certain: a host which is busy now and then makes single ones
        long, and they would excuse as much of every call. A rest cannot be tried again, since by then the device is at
        rest; one that the host makes long costs that call alone, which the median of all calls does not show.
        """
        return min(_REST_FACTOR * statistics.median(self._rests_ns), _REST_NS_MAX)

    def _spoiled(self, value: Any) -> "list[tuple[Any, Any, Any]]":
        """Blocks of each tensor in `value`, the places of those that have been made wrong, and what is right there.

        One half holds numbers that spoil whatever they are part of, the other half what stands elsewhere in the tensor,
        which nobody can tell from what is right.
        """
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return [each for item in value for each in self._spoiled(item)]
        kept = self._kept
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
        """`value` with a copy in place of each tensor, made on the current stream."""
        kept, kind = self._kept, type(value)
        if kind in (kept.tensor_type, kept.parameter_type):
            return self._copy(kept.detach(value))
        if kind in (list, tuple):
            return kind([self._as_it_is(item) for item in value])
        if kind is dict:
            return {key: self._as_it_is(item) for key, item in value.items()}
        return value

    def _copy(self, tensor: Any) -> Any:
        """A copy of a tensor; a large one is copied in parts, whose order nobody knows who would write just ahead."""
        kept = self._kept
        if kept.nbytes(tensor) < _PARTED_BYTES or not kept.is_contiguous(tensor):
            return kept.clone(tensor)
        copy = kept.empty_like(tensor)
        sources, targets = (kept.chunk(kept.view(whole, -1), _PARTS) for whole in (tensor, copy))
        parts = list(zip(targets, sources, strict=True))
        _entropy.shuffle(parts)
        for target, source in parts:
            kept.copy_(target, source)
        return copy

    def _synchronization_ns(self) -> int:
        """How long the host waits until the device has nothing left to do, on any stream."""
        start = self._clock()
        self._kept.synchronize()
        return self._clock() - start


class _Kept:
    """What a device needs of PyTorch, as it was before a submission could put something else in its place.

    It keeps out what a submission patches in PyTorch, on purpose or not. Code that looks for this object in the memory
    of its process finds it: what that gains, the supervisor's clock bounds.
    """

    def __init__(self, torch: Any) -> None:
        cuda, tensor = torch.cuda, torch.Tensor
        self.event = cuda.Event
        self.record, self.wait = cuda.Event.record, cuda.Event.synchronize
        self.elapsed_ms = cuda.Event.elapsed_time
        native = torch._C  # noqa: SLF001 - what is kept from there has no other name
        # PyTorch's own function looks this one up at each call; CPU builds lack it.
        self.synchronize = getattr(native, "_cuda_synchronize", cuda.synchronize)
        self.set_stream = cuda.set_stream
        self._no_functions, self._no_dispatch = native.DisableTorchFunction, native._DisableTorchDispatch  # noqa: SLF001
        self.tensor_type, self.parameter_type = tensor, torch.nn.Parameter
        self.bool, self.uint8, self.int64 = torch.bool, torch.uint8, torch.int64
        self.tensor, self.empty, self.empty_like = torch.tensor, torch.empty, torch.empty_like
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
        """A context in which no mode sees the calls.

        Neither a submission's, nor that of the default device, which costs the host more than the call itself.
        """
        with self._no_functions(), self._no_dispatch():
            yield

    def nbytes(self, tensor: Any) -> int:
        """The bytes of a tensor's numbers."""
        return int(self.numel(tensor) * self.element_size(tensor))

    def memory_order(self, tensor: Any) -> list[int]:
        """The dimensions of a dense tensor from the slowest to the fastest in memory."""
        return sorted(range(self._dim(tensor)), key=lambda index: (-self._stride(tensor, index), index))

    def as_bytes(self, tensor: Any) -> Any:
        """The bytes of a tensor in one row."""
        return self.view(self.reshape(tensor, -1), self.uint8)


def _worthless(dtype: Any, element_size: int, width: int) -> bytes:
    """`width` bytes of numbers of a type that spoil a sum or a product, and now a minimum, now a maximum.

    NaN alone would not do: `fmaxf` and its like leave it out, so other calls have numbers near the type's ends instead.
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


def _flush_bytes(torch: Any) -> int:
    least = _HIP_FLUSH_BYTES_MIN if torch.version.hip else _CUDA_FLUSH_BYTES_MIN
    return max(2 * int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)), least)


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
