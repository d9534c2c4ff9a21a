"""Whose fault an exception is, as far as PyTorch's words tell: the kernel's, its appetite's, or the device's.

What is raised comes from submissions and tasks, whose exceptions may fail themselves when they are asked what they say.
"""

import re
import sys

from hpc_board.harness.device.device import DeviceMissing
from hpc_board.harness.wire.payload import NoRoom
from hpc_board.model.result import Verdict

_OF_INSTALLATION = {"torch": "PyTorch", "numpy": "NumPy"}
_FROM_DEVICE = re.compile(
    r"(CUDA|HIP)( driver)? error|Triton Error \[(CUDA|HIP)\]|CUDA driver initialization failed"
    r"|No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|NVIDIA driver on your system is too old"
    r"|cudaGetDeviceCount"
)
_OF_KERNEL = re.compile(
    r"illegal (memory access|instruction)|misaligned address|device-side assert|unspecified launch failure"
    r"|invalid (program counter|address space)|hardware stack error|launch timed out",
    re.IGNORECASE,
)
_OF_NODE = re.compile(
    r"busy or unavailable|no (CUDA-capable|ROCm-capable|HIP-capable) device|no (CUDA|HIP) GPUs|no NVIDIA driver"
    r"|\bECC\b|initialization (error|failed)|driver version is insufficient|driver on your system is too old"
    r"|driver combination|forward compatibility|not yet initialized|nvlink|\bMPS\b|device\(s\) is/are|GPU is lost",
    re.IGNORECASE,
)


def fault(error: BaseException) -> Verdict | None:
    """The verdict that `error` calls for wherever it is raised: out of memory, crash or device error; else None."""
    if isinstance(error, DeviceMissing):
        return Verdict.DEVICE_ERROR
    if isinstance(error, (MemoryError, NoRoom)) or type(error).__name__ == "OutOfMemoryError":
        return Verdict.OUT_OF_MEMORY
    text = message_of(error)
    if not _of_accelerator(error, text):
        return None
    if _OF_KERNEL.search(text):
        return Verdict.CRASH
    if _OF_NODE.search(text):
        return Verdict.DEVICE_ERROR
    return Verdict.OUT_OF_MEMORY if "out of memory" in text else None


def lacking(error: BaseException) -> str:
    """The library that this Python lacks although the installation has to provide it; empty where that is not it."""
    cause = error.__cause__ if isinstance(error, DeviceMissing) else error
    return _OF_INSTALLATION.get(str(cause.name), "") if isinstance(cause, ModuleNotFoundError) else ""


def message_of(error: BaseException) -> str:
    """What `error` says, or that it cannot say it."""
    try:
        return str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - its author's code may raise anything
        return "(its message cannot be had: its __str__ fails)"


def _of_accelerator(error: BaseException, text: str) -> bool:
    """Whether PyTorch or Triton reports a device's error; older versions do it with a plain RuntimeError."""
    accelerator_error = getattr(sys.modules.get("torch"), "AcceleratorError", None)
    if accelerator_error is not None and isinstance(error, accelerator_error):
        return True
    return type(error) is RuntimeError and _FROM_DEVICE.search(text) is not None
