"""The judge's side of a window: it writes the inputs of a call, starts it, takes its outputs, and times all of that.

All clocks are events of the judge's own process, which no submission reaches. The first one precedes the writing of
the inputs, the second one follows a kernel of the judge behind the call's end, and the third one the copying of the
outputs. One GPU computes for one process at a time: so all work of a call lies before the second event, or makes the
copying longer. docs/design/timing.md has the steps.
"""

import random
import time
from collections.abc import Sequence
from typing import Any

from hpc_board.harness.device.device import CudaDevice
from hpc_board.harness.device.gpu_driver import GpuDriver, NotShared
from hpc_board.harness.device.gpu_queue import (
    CHALLENGE_AT,
    CHALLENGE_FACTOR,
    DONE_AT,
    POOL,
    RESPONSE_AT,
    SIGN_AT,
    SIGNAL_BYTES,
    GpuMemory,
    Place,
)

_BUSY_SECONDS = 0.005
_POLL_SECONDS = 0.0002
_entropy = random.SystemRandom()


class GpuWindow:
    """The windows of a judge, one at a time, and the opened memory of workers."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._kept = device.kept
        self._driver = GpuDriver()
        self._opened: dict[bytes, tuple[int, int]] = {}
        self._pool: tuple[int, int] | None = None
        self._used: set[bytes] = set()
        self._sources: list[Any] = []
        self._spoiled: list[Any] = []
        self._repairs: list[list[tuple[Any, Any, Any]]] = []
        self._targets: list[Any] = []
        self._places: list[Any] = []
        self._taken: list[Any] = []
        self._challenge = 0
        self._response: Any = None
        self._compared = False
        self._changes: list[Any] = []
        self._events: list[Any] = []

    def new_pool(self, size: int) -> tuple[int, int]:
        """Allocate memory for the next call of a worker; return a file descriptor of it, to be closed, and its size.

        Raises:
            NotShared: the driver has no such memory.
            OutOfMemoryError: too little is free.
        """
        self._free_pool()
        address, size, descriptor = self._driver.allocated(size)
        self._pool = address, size
        return descriptor, size

    def _free_pool(self) -> None:
        if self._pool is not None:
            self._targets, self._places = [], []
            self._driver.free(*self._pool)
            self._pool = None

    def prepare(self, tensors: Sequence[Any]) -> None:
        """Prepare the inputs of the next window: the right ones, and those with wrong blocks, which it repairs."""
        kept, device = self._kept, self._device
        sources = [device.flat(tensor) for tensor in tensors]
        device.prepare()
        with kept.plainly():
            self._sources = [kept.as_bytes(source) for source in sources]
            spoiled = [kept.clone(source) for source in sources]
            self._repairs = [device.spoiled(copy) for copy in spoiled]
            self._spoiled = [kept.as_bytes(copy) for copy in spoiled]

    def know_outputs(self, handles: Sequence[bytes], outputs: Sequence[Place]) -> None:
        """Map the memory of the outputs, and allocate as much for their copies: both may wait for the GPU.

        Raises:
            NotShared: the worker has no such memory.
        """
        self._places = [self._at(handles, place) for place in outputs]
        with self._kept.plainly():
            self._taken = [self._kept.empty_like(place) for place in self._places]

    def begin(
        self, handles: Sequence[bytes], inputs: Sequence[Place], signals: Place, number: int, *, compared: bool
    ) -> None:
        """Write the inputs into a worker's memory and give the sign with a number; all of it is queued.

        Before the clock starts the device is kept busy, which hides the launches and keeps its clocks high. Blocks of
        each input are wrong until the caches have been emptied: a copy engine, which works beside the judge's kernels,
        would copy them early. The inputs are `compared` at the end.

        Raises:
            NotShared: the worker has no such memory.
        """
        kept, device, stream = self._kept, self._device, self._device.stream
        if [size for _, _, size in inputs] != list(map(kept.nbytes, self._sources)) or signals[2] != SIGNAL_BYTES:
            raise NotShared("the memory for the inputs has another size than the inputs")
        self._targets = [self._at(handles, place) for place in inputs]
        memory = self._at(handles, signals)
        address = int(kept.data_ptr(memory))
        self._compared = compared
        with kept.plainly():
            repairs = []
            for target, repaired in zip(self._targets, self._repairs, strict=True):
                for blocks, places, right in repaired:
                    count, width = kept.shape(blocks)
                    wide = kept.view(kept.narrow(target, 0, 0, count * width), (count, width))
                    repairs.append((wide, places, right))
            self._challenge = _entropy.getrandbits(62)
            challenge = kept.tensor([self._challenge], dtype=kept.int64, device="cuda")
            place = kept.view(kept.narrow(memory, 0, CHALLENGE_AT, 8), kept.int64)
            self._response = kept.view(kept.narrow(memory, 0, RESPONSE_AT, 8), kept.int64)
            self._events = device.events(3)
            kept.synchronize()
            device.flush(device.fills(len(inputs) + len(self._places)))
            kept.record(self._events[0], stream)
            for target, source in zip(self._targets, self._spoiled, strict=True):
                kept.copy_(target, source)
            device.flush(1)
            for wide, places, right in repairs:
                kept.index_copy_(wide, 0, places, right)
            kept.copy_(place, challenge)
        self._driver.write_value(device.stream_address, address + SIGN_AT, number)
        self._driver.await_value(device.stream_address, address + DONE_AT, number)

    def end(self) -> None:
        """Stop the clock once the worker's flag says that the outputs are there, and copy them; all of it is queued.

        Before the clock stops, a kernel of the judge takes the response: the GPU has turned to the judge by then. The
        copies come after it, since an output that the kernel has left in a cache is copied faster than another one.
        """
        kept, stream = self._kept, self._device.stream
        with kept.plainly():
            self._response = kept.mul(self._response, 1)
            kept.record(self._events[1], stream)
            pairs = zip(self._places, self._taken, strict=True)
            parts = [part for place, copy in pairs for part in self._device.parts(place, copy)]
            _entropy.shuffle(parts)
            for source, target in parts:
                kept.copy_(target, source)
            kept.record(self._events[2], stream)
            compared = zip(self._targets, self._sources, strict=True) if self._compared else ()
            # At once: later work of the worker's GPU could restore the inputs.
            self._changes = [kept.any(kept.ne(target, source)) for target, source in compared]

    def elapsed_ns(self, seconds: float) -> tuple[float, float] | None:
        """Return the times of the window and of the copying behind it; None if these are not over in `seconds`."""
        kept = self._kept
        start, end, copied = self._events
        begun = time.monotonic()
        while not kept.query(copied):
            waited = time.monotonic() - begun
            if waited > seconds:
                return None
            if waited > _BUSY_SECONDS:
                time.sleep(_POLL_SECONDS)
        self._device.used()
        return float(kept.elapsed_ms(start, end)) * 1e6, float(kept.elapsed_ms(end, copied)) * 1e6

    def responded(self) -> bool:
        """Return whether the worker's GPU has multiplied the challenge within the window."""
        found = int(self._response.item()) % 2**64
        return found == self._challenge * CHALLENGE_FACTOR % 2**64

    def unchanged(self) -> bool:
        """Return whether the worker's inputs still held the right values at the end."""
        return not any(change.item() for change in self._changes)

    def outputs(self) -> list[Any]:
        """Return the bytes of the outputs in host memory, in their order."""
        return [taken.cpu() for taken in self._taken]

    def release(self, used: Sequence[bytes] = ()) -> None:
        """Unmap the memory of workers, except the allocations that this call or the last one uses.

        A mapping keeps memory that the worker has freed. Without a call, the judge's own memory goes as well.
        """
        if not used:
            self._free_pool()
            self._sources, self._spoiled, self._repairs = [], [], []
        self._targets, self._places, self._taken, self._changes, self._response = [], [], [], [], None
        for handle in self._opened.keys() - self._used - set(used):
            base, _ = self._opened.pop(handle)
            self._driver.close(base)
        self._used = set(used)

    def _at(self, handles: Sequence[bytes], place: Place) -> Any:
        """Return a tensor of the bytes at a place in a worker's memory."""
        index, offset, size = place
        handle = handles[index]
        if handle == POOL and self._pool is not None:
            base, whole = self._pool
        else:
            self._used.add(handle)
            if handle not in self._opened:
                self._opened[handle] = self._driver.opened(handle)
            base, whole = self._opened[handle]
        if not 0 <= offset <= offset + size <= whole or not size:
            raise NotShared(f"{size} bytes at {offset} of an allocation of {whole}")
        return self._kept.as_tensor(GpuMemory(base + offset, size), device="cuda")
