"""The judge's windows: requests of the supervisor, carried out on the GPU."""

import os
import socket
from collections.abc import Sequence
from typing import Any

from hpc_board.harness.device.device import CudaDevice, Device
from hpc_board.harness.device.gpu_driver import NotShared
from hpc_board.harness.device.gpu_window import GpuWindow
from hpc_board.harness.wire.channel import Channel, Frame
from hpc_board.harness.wire.payload import write_at
from hpc_board.model.text import printable

_MESSAGE_MAX = 4000


class Windows:
    """The window of the current call, and where its outputs go."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._window: GpuWindow | None = None
        self._outputs: list[int] = []
        self._copy: list[int] = []

    def prepare(self, tensors: Sequence[Any]) -> None:
        """Prepare the inputs of the next window."""
        if isinstance(self._device, CudaDevice):
            self._window = self._window or GpuWindow(self._device)
            self._window.prepare(tensors)

    def share(self, size: int, connection: int) -> None:
        """Send a worker, over a connection to it, a descriptor of new memory for its next call, or the fault."""
        found: Frame = {"type": "pool", "size": 0, "fault": ""}
        descriptors: list[int] = []
        try:
            if not isinstance(self._device, CudaDevice):
                raise NotShared("not a CUDA device")
            self._window = self._window or GpuWindow(self._device)
            descriptor, found["size"] = self._window.new_pool(size)
            descriptors.append(descriptor)
        except NotShared as error:
            found["fault"] = printable(str(error), _MESSAGE_MAX)
        channel = Channel(socket.socket(fileno=os.dup(connection)), takes_fds=False)
        try:
            channel.send(found, descriptors)
        finally:
            channel.close()
            for descriptor in descriptors:
                os.close(descriptor)

    def answer(self, frame: Frame, fds: list[int]) -> Frame:
        """Carry out one step: `window` opens a window, `take` takes its outputs, `await` waits for its end.

        A `window` with a descriptor for the outputs, whose places are known, does all three. The answer has no time
        while the window is open.

        Raises:
            NotShared: the worker has no such memory, or this device shares none.
        """
        window = self._window
        if window is None:
            raise NotShared("not a CUDA device")
        if frame["type"] == "window":
            handles = _of_text(frame["handles"])
            window.release(used=handles)
            if fds:
                self._know_outputs(window, frame, fds)
            window.begin(handles, frame["inputs"], frame["signals"], frame["number"], compared=frame["compared"])
            if not fds:
                return unusable("")
            window.end()
        elif frame["type"] == "take":
            self._know_outputs(window, frame, fds)
            window.end()
        return self._closed(window, frame["seconds"])

    def _know_outputs(self, window: GpuWindow, frame: Frame, fds: list[int]) -> None:
        self._outputs = [at for at, *_ in frame["outputs"]]
        self._forget_copy()
        self._copy.append(os.dup(fds[0]))
        window.know_outputs(_of_text(frame["handles"]), [place for _, *place in frame["outputs"]])

    def _closed(self, window: GpuWindow, seconds: float) -> Frame:
        """Return the window's time and write the outputs to their file; no time if it is still open after `seconds`."""
        elapsed = window.elapsed_ns(seconds)
        if elapsed is None:
            return unusable("")
        found = {**unusable(""), "elapsed_ns": elapsed[0], "copied_ns": elapsed[1]}
        (copy,) = self._copy
        for at, content in zip(self._outputs, window.outputs(), strict=True):
            write_at(copy, at, content)
        self._forget_copy()
        return {**found, "responded": window.responded(), "unchanged": window.unchanged()}

    def release(self) -> None:
        """Unmap the memory of all workers."""
        self._forget_copy()
        if self._window is not None:
            # Twice: the first time keeps the allocations of the last call.
            self._window.release()
            self._window.release()

    def _forget_copy(self) -> None:
        while self._copy:
            os.close(self._copy.pop())


def unusable(fault: str) -> Frame:
    """Return the answer for memory of a worker that cannot be used."""
    text = printable(fault, _MESSAGE_MAX)
    return {
        "type": "windowed",
        "elapsed_ns": None,
        "copied_ns": 0,
        "fault": text,
        "responded": False,
        "unchanged": False,
    }


def _of_text(handles: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(handle) for handle in handles]
