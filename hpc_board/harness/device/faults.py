"""Attribution of an exception by its library's message: to the kernel, its memory use, or the device.

Exceptions come from submissions and tasks, and even reading their messages may fail.
"""

import os
import re
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from hpc_board.harness.device.device import DeviceMissing
from hpc_board.harness.wire.payload import NoRoom
from hpc_board.model.device_faults import device_fault
from hpc_board.model.result import Verdict


class Library(NamedTuple):
    """A library by its name and that of its package, with `{cuda}` in place of CUDA's major version."""

    title: str
    package: str


LIBRARIES = {
    "torch": Library("PyTorch", "torch"),
    "numpy": Library("NumPy", "numpy"),
    "triton": Library("Triton", "triton"),
    "helion": Library("Helion", "helion"),
    "cutlass": Library("CuTe DSL", "nvidia-cutlass-dsl[cu{cuda}]"),
    "tilelang": Library("TileLang", "tilelang"),
    "cuda": Library("cuda-bindings", "cuda-bindings"),
    "cuda.bindings": Library("cuda-bindings", "cuda-bindings"),
    "cuda.tile": Library("cuTile", "cuda-tile[tileiras]"),
    "numba": Library("Numba", "numba-cuda[cu{cuda}]"),
    "cupy": Library("CuPy", "cupy-cuda{cuda}x"),
    "jax": Library("JAX", "jax[cuda{cuda}]"),
}
"""The modules that the installation of a job's Python provides or lacks, never a task or a submission."""

_FROM_DEVICE = re.compile(
    r"(CUDA|HIP)( driver)? error|Triton Error \[(CUDA|HIP)\]|CUDA driver initialization failed"
    r"|No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|NVIDIA driver on your system is too old"
    r"|cudaGetDeviceCount"
)
_OF_GPUS = ("cupy", "cupy_backends", "numba", "jax", "jaxlib")
"""The libraries of which any exception may be a device's error; the text says which."""

_OF_KERNEL = re.compile(
    r"illegal (memory access|instruction)|misaligned address|device-side assert|unspecified launch failure"
    r"|invalid (program counter|address space)|hardware stack error|launch timed out"
    r"|CUDA_ERROR_(ILLEGAL_\w+|MISALIGNED_ADDRESS|LAUNCH_FAILED|ASSERT)",
    re.IGNORECASE,
)


def fault(error: BaseException) -> Verdict | None:
    """Return the verdict for `error` independent of its origin: out of memory, crash or device error; else None."""
    if isinstance(error, DeviceMissing):
        return Verdict.DEVICE_ERROR
    if isinstance(error, (MemoryError, NoRoom)) or type(error).__name__ == "OutOfMemoryError":
        return Verdict.OUT_OF_MEMORY
    text = message_of(error)
    if "DefaultCPUAllocator: can't allocate memory" in text:
        return Verdict.OUT_OF_MEMORY
    if not _of_accelerator(error, text):
        return None
    if _OF_KERNEL.search(text):
        return Verdict.CRASH
    if device_fault(text):
        return Verdict.DEVICE_ERROR
    return Verdict.OUT_OF_MEMORY if "out of memory" in text else None


_ASKS_FOR_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|Cannot get CUDA generator|Found no NVIDIA driver"
    r"|No (CUDA|HIP) GPUs are available|from the 'CUDA' backend"
)


def asks_for_gpu(error: BaseException) -> bool:
    """Return whether PyTorch without a GPU refused work for one."""
    return _ASKS_FOR_GPU.search(message_of(error)) is not None


_WITHOUT_CPU = ("triton", "helion", "cutlass", "cuda", "cuda.bindings", "cuda.tile", "cupy")
"""The libraries of which no kernel runs on a CPU, but for Triton's in its interpreter."""


def needs_gpu(module: str) -> bool:
    """Return whether no kernel of a module of `LIBRARIES` runs on this job's CPU, so that installing it is no help."""
    return module in _WITHOUT_CPU and not (module == "triton" and "TRITON_INTERPRET" in os.environ)


def install_command(module: str) -> str:
    """Return the command that installs a module of `LIBRARIES`, for PyTorch's version of CUDA, 13 without PyTorch."""
    torch, package = sys.modules.get("torch"), LIBRARIES[module].package
    version = "13" if torch is None else torch.version.cuda
    if version is None:
        # PyTorch for a CPU, or for AMD's GPUs.
        package = package.partition("[")[0]
    package = package.format(cuda=(version or "13").partition(".")[0])
    return (
        f"{sys.executable} -m pip install '{package}'"
        if "[" in package
        else f"{sys.executable} -m pip install {package}"
    )


def absent() -> list[str]:
    """Return the modules of `LIBRARIES` that this Python does not find."""
    return [module for module in LIBRARIES if not _finds(module)]


def lacking(error: BaseException) -> str:
    """Return the module of `LIBRARIES` that this Python lacks according to `error`; "" for any other error."""
    cause = error.__cause__ if isinstance(error, DeviceMissing) else error
    return str(cause.name) if isinstance(cause, ModuleNotFoundError) and cause.name in LIBRARIES else ""


def unreadable(error: BaseException) -> str:
    """Return the file of this Python's installation that `error` says must not be read; "" for any other error."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str):
        return ""
    folders = {Path(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    return error.filename if folders & set(Path(error.filename).parents) else ""


def message_of(error: BaseException) -> str:
    """Return the message of `error`, or a note that reading it fails."""
    try:
        return str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - its author's code may raise anything
        return "(its message cannot be read: its __str__ fails)"


def _finds(module: str) -> bool:
    package, _, _ = module.rpartition(".")
    if not package:
        return find_spec(module) is not None
    # Not `find_spec(module)`, which imports the package: any worker would end with a broken one.
    around = find_spec(package)
    folders = around.submodule_search_locations if around is not None else None
    return PathFinder.find_spec(module, folders or ()) is not None


def _of_accelerator(error: BaseException, text: str) -> bool:
    """Return whether a library reports a device's error; older versions of PyTorch raise a plain RuntimeError."""
    if type(error).__module__.partition(".")[0] in _OF_GPUS:
        return True
    accelerator_error = getattr(sys.modules.get("torch"), "AcceleratorError", None)
    if accelerator_error is not None and isinstance(error, accelerator_error):
        return True
    return type(error) is RuntimeError and _FROM_DEVICE.search(text) is not None
