"""The judge's windows: requests of the supervisor, carried out on the GPU."""

import os
from collections.abc import Sequence
from typing import Any

from hpc_board.harness.device.device import CudaDevice, Device
from hpc_board.harness.device.gpu_driver import NotShared
from hpc_board.harness.device.gpu_window import GpuWindow
from hpc_board.harness.wire.channel import Frame
from hpc_board.harness.wire.payload import write_at
from hpc_board.model.text import printable

_MESSAGE_MAX = 4000


class Windows:
    """The window of the current call, and where its outputs go."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._window: GpuWindow | None = None
        self._outputs: list[tuple[int, int]] = []
        self._copy: list[int] = []

    def window(self, frame: Frame, tensors: Sequence[Any], fds: list[int]) -> Frame:
        """Open a window, and close it again if the places of the outputs are known.

        Raises:
            NotShared: the worker has no such memory, or this device shares none.
        """
        if self._window is None:
            if not isinstance(self._device, CudaDevice):
                raise NotShared("the device is none of CUDA")
            self._window = GpuWindow(self._device)
        window, handles = self._window, _of_text(frame["handles"])
        window.release(used=handles)
        if fds:
            self._know_outputs(frame, fds)
        window.begin(tensors, handles, frame["inputs"], frame["signals"], frame["number"])
        if not fds:
            return {"type": "opened"}
        window.end()
        return self.closed(frame["seconds"])

    def take(self, frame: Frame, fds: list[int]) -> Frame:
        """Take the outputs, and return the window's time once it is closed, at the latest after some seconds.

        Raises:
            NotShared: the worker has no such memory.
        """
        self._know_outputs(frame, fds)
        self._opened().end()
        return self.closed(frame["seconds"])

    def _know_outputs(self, frame: Frame, fds: list[int]) -> None:
        self._outputs = [(at, size) for at, _, _, size in frame["outputs"]]
        self._forget_copy()
        self._copy.append(os.dup(fds[0]))
        self._opened().know_outputs(_of_text(frame["handles"]), [place for _, *place in frame["outputs"]])

    def closed(self, seconds: float) -> Frame:
        """Return the window's time and write the outputs to their file; no time if it is still open after `seconds`."""
        window = self._opened()
        elapsed_ns = window.elapsed_ns(seconds)
        found = {**unusable(""), "elapsed_ns": elapsed_ns}
        if elapsed_ns is None:
            return found
        (copy,) = self._copy
        for (at, _), content in zip(self._outputs, window.outputs(), strict=True):
            write_at(copy, at, content)
        self._forget_copy()
        return {**found, "responded": window.responded(), "unchanged": window.unchanged()}

    def release(self) -> None:
        """Unmap the memory of workers."""
        self._forget_copy()
        if self._window is not None:
            self._window.release()

    def _opened(self) -> GpuWindow:
        if self._window is None:
            raise NotShared("no window was opened")
        return self._window

    def _forget_copy(self) -> None:
        while self._copy:
            os.close(self._copy.pop())


def unusable(fault: str) -> Frame:
    """Return the answer for memory of a worker that cannot be used."""
    text = printable(fault, _MESSAGE_MAX)
    return {"type": "windowed", "elapsed_ns": None, "fault": text, "responded": False, "unchanged": False}


def _of_text(handles: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(handle) for handle in handles]
