"""The worker's side of a window: a call that waits in the GPU's queue until the judge has written its inputs."""

from typing import Any

from hpc_board.harness.device.device import CudaDevice
from hpc_board.harness.device.gpu_driver import GpuDriver, NotShared

SIGN_AT, DONE_AT, CHALLENGE_AT, RESPONSE_AT = 0, 64, 128, 192
"""Offsets in the memory of the signals: the flag that starts a call, the flag that ends it, and the two numbers."""

SIGNAL_BYTES = 256
CHALLENGE_FACTOR = 0x9E3779B97F4A7C1
"""The response to a challenge is the challenge times this number, modulo 2^64: a copy engine cannot multiply."""

Place = tuple[int, int, int]
"""Memory in an exported allocation: index of its handle, offset, size in bytes."""


class GpuQueue:
    """The default stream of a worker's GPU, and the memory that the judge reads and writes.

    `handles` lists the allocations that the current call uses.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._kept = device.kept
        self._driver = GpuDriver()
        kept = self._kept
        with kept.plainly():
            self._signals = kept.zeros(SIGNAL_BYTES, dtype=kept.uint8, device="cuda")
            as_number = {
                at: kept.view(kept.narrow(self._signals, 0, at, 8), kept.int64) for at in (CHALLENGE_AT, RESPONSE_AT)
            }
        self._challenge, self._response = as_number[CHALLENGE_AT], as_number[RESPONSE_AT]
        self._inputs: list[Any] = []
        self._holders: list[Any] = []
        self.handles: list[bytes] = []
        # PyTorch loads a kernel at its first use, and the driver waits for an idle device then.
        with kept.plainly():
            kept.mul(self._challenge, CHALLENGE_FACTOR, out=self._response)
        kept.synchronize()

    def clear(self) -> None:
        """Drop the memory of the last call."""
        self._inputs.clear()
        self._holders.clear()
        self.handles.clear()

    def reserve(self, tensor: Any) -> Any:
        """Return a tensor on the GPU with the form of a tensor in host memory, and no values yet."""
        kept = self._kept
        with kept.plainly():
            if not kept.numel(tensor):
                return kept.to(tensor, "cuda")
            room = kept.empty(kept.nbytes(tensor), dtype=kept.uint8, device="cuda")
            self._inputs.append(room)
            return self._device.shaped_as(room, tensor)

    def inputs(self) -> list[Place]:
        """Return the places of the reserved tensors, in the order in which they were reserved."""
        return [self._place(room)[0] for room in self._inputs]

    def signals(self) -> Place:
        """Return the place of the signals."""
        return self._place(self._signals)[0]

    def place(self, part: Any) -> Place:
        """Return the place of a part of an output, or of a copy where the driver cannot share its memory."""
        try:
            found, holder = self._place(part)
        except NotShared:
            found, holder = self._place(self._kept.clone(part))
        self._holders.append(holder)
        return found

    def _place(self, part: Any) -> tuple[Place, Any]:
        handle, offset = self._driver.exported(self._kept.data_ptr(part))
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
