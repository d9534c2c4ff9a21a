"""The worker's side of a window: a call that waits in the GPU's queue until the judge has written its inputs."""

from typing import Any

from hpc_board.harness.device.device import CudaDevice
from hpc_board.harness.device.gpu_driver import HANDLE_BYTES, GpuDriver, NotShared
from hpc_board.harness.wire.payload import TooLarge

SIGN_AT, DONE_AT, CHALLENGE_AT, RESPONSE_AT = 0, 64, 128, 192
"""Offsets in the memory of the signals: the flag that starts a call, the flag that ends it, and the two numbers."""

SIGNAL_BYTES = 256
CHALLENGE_FACTOR = 0x9E3779B97F4A7C1
"""The response to a challenge is the challenge times this number, modulo 2^64: a copy engine cannot multiply."""

POOL = bytes(HANDLE_BYTES)
"""The handle of the judge's memory, which has a file descriptor in place of a handle."""

_ALIGNED = 256

Place = tuple[int, int, int]
"""Memory in an exported allocation: index of its handle, offset, size in bytes."""


def pool_bytes(size: int, parts: int) -> int:
    """Return the memory for the signals and for `parts` of inputs and outputs, `size` bytes in all."""
    return SIGNAL_BYTES + size + parts * _ALIGNED


class GpuMemory:
    """GPU memory of another process, in the form that PyTorch makes a tensor of."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


class GpuQueue:
    """The default stream of a worker's GPU, and the memory that the judge reads and writes.

    `handles` lists the allocations that the current call uses: those of the worker, or the one of the judge, the pool.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._kept = kept = device.kept
        self._driver = GpuDriver()
        self._pool: tuple[int, int] | None = None
        self._used = 0
        self._inputs: list[Any] = []
        self._holders: list[Any] = []
        self.handles: list[bytes] = []
        with kept.plainly():
            self._signal_at(kept.zeros(SIGNAL_BYTES, dtype=kept.uint8, device="cuda"))
            # PyTorch loads a kernel at its first use, and the driver waits for an idle device then.
            kept.mul(self._challenge, CHALLENGE_FACTOR, out=self._response)
        kept.synchronize()

    def _signal_at(self, signals: Any) -> None:
        kept = self._kept
        as_number = {at: kept.view(kept.narrow(signals, 0, at, 8), kept.int64) for at in (CHALLENGE_AT, RESPONSE_AT)}
        self._signals, self._challenge, self._response = signals, as_number[CHALLENGE_AT], as_number[RESPONSE_AT]

    def clear(self) -> None:
        """Drop the memory of the last call."""
        self._inputs.clear()
        self._holders.clear()
        self.handles.clear()

    def take_pool(self, descriptor: int, size: int) -> None:
        """Use memory of the judge for the signals, the inputs and the outputs of the next call.

        Raises:
            NotShared: there is none at this descriptor.
        """
        if self._pool is not None:
            self._kept.synchronize()
            last, self._pool = self._pool, None
            self._driver.free(*last)
        self._pool = self._driver.imported(descriptor, size), size
        self._used = 0
        with self._kept.plainly():
            self._signal_at(self._pooled(SIGNAL_BYTES))

    def _pooled(self, size: int) -> Any:
        """Return `size` bytes of the pool."""
        if self._pool is None:
            raise NotShared("the judge shares no memory")
        base, whole = self._pool
        if self._used + size > whole:
            raise TooLarge(f"inputs and output take more than the {whole} bytes for them")
        self._used, start = -(-(self._used + size) // _ALIGNED) * _ALIGNED, base + self._used
        return self._kept.as_tensor(GpuMemory(start, size), device="cuda")

    def reserve(self, tensor: Any) -> Any:
        """Return a tensor on the GPU with the form of a tensor in host memory, and no values yet."""
        kept = self._kept
        with kept.plainly():
            if not kept.numel(tensor):
                return kept.to(tensor, "cuda")
            size = kept.nbytes(tensor)
            room = self._pooled(size) if self._pool else kept.empty(size, dtype=kept.uint8, device="cuda")
            self._inputs.append(room)
            return self._device.shaped_as(room, tensor)

    def inputs(self) -> list[Place]:
        """Return the places of the reserved tensors, in the order in which they were reserved."""
        return [self._place(room)[0] for room in self._inputs]

    def input_addresses(self) -> list[tuple[int, int]]:
        """Return the first address of each reserved tensor, and the address after its last byte."""
        kept = self._kept
        places = [(int(kept.data_ptr(room)), kept.nbytes(room)) for room in self._inputs]
        return [(begin, begin + size) for begin, size in places]

    @property
    def device(self) -> Any:
        """Return PyTorch's name of the GPU."""
        return self._signals.device

    def signals(self) -> Place:
        """Return the place of the signals."""
        return self._place(self._signals)[0]

    def place(self, part: Any) -> Place:
        """Return the place of a block of an answer, or of a copy where the driver cannot share its memory."""
        kept = self._kept
        try:
            found, holder = self._place(part)
        except NotShared:
            if self._pool is None:
                copy = kept.clone(part)
            else:
                copy = self._pooled(kept.nbytes(part))
                kept.copy_(copy, kept.as_bytes(part))
            found, holder = self._place(copy)
        self._holders.append(holder)
        return found

    def _place(self, part: Any) -> tuple[Place, Any]:
        address = int(self._kept.data_ptr(part))
        if self._pool is None:
            handle, offset = self._driver.exported(address)
        else:
            base, whole = self._pool
            handle, offset = POOL, address - base
            if not 0 <= offset < whole:
                raise NotShared("it is not in the judge's memory")
        if handle not in self.handles:
            self.handles.append(handle)
        return (self.handles.index(handle), offset, self._kept.nbytes(part)), part

    def begin(self, number: int, *, challenged: bool) -> None:
        """Let all later work of the default stream wait for the sign with a number; respond if `challenged`."""
        kept, device = self._kept, self._device
        kept.set_stream(device.stream)
        self._driver.await_value(device.stream_address, self._at(SIGN_AT), number)
        if challenged:
            with kept.plainly():
                kept.mul(self._challenge, CHALLENGE_FACTOR, out=self._response)

    def end(self, number: int) -> None:
        """Write the flag with a number once all queued work is done, that of a stream left as the current one too."""
        kept, device = self._kept, self._device
        kept.follow(device.stream)
        kept.set_stream(device.stream)
        self._driver.write_value(device.stream_address, self._at(DONE_AT), number)

    def _at(self, offset: int) -> int:
        return int(self._kept.data_ptr(self._signals)) + offset

    def synchronize(self) -> None:
        """Wait until the GPU is idle; an error of the call's work is raised here."""
        self._kept.synchronize()
