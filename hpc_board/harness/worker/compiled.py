"""Compiled submissions in the worker: a library's function as a callable that takes a task's values.

`hpc_board.h` is the C side of these declarations. All arguments of a call are laid out before the clock starts; the
timed part is one call through ctypes.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hpc_board.harness.wire import payload
from hpc_board.harness.wire.poison import WORKSPACE_POISONED_BYTES_MAX, WORKSPACE_WORD
from hpc_board.model.task import ENTRY
from hpc_board.model.text import with_article

ABI = 1
WORKSPACE_ENTRY = "hpc_workspace_bytes"
PREPARE_ENTRY = "hpc_prepare"
CRASH_ENTRY = "hpc_board_report_crashes"
DIMENSIONS_MAX = 8

DTYPES = {name: number for number, name in enumerate(payload.ITEM_BYTES, 1)}
"""Values of `hpc_dtype` in hpc_board.h, by the names of PyTorch and NumPy."""

_LINE_BUFFERED = 1

_TENSORS = ("tensor", "array")
_NUMBERS = ("bool", "int", "float")


class KernelFailed(Exception):
    """A submission's function returned a nonzero status."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("shape", ctypes.c_int64 * DIMENSIONS_MAX),
        ("stride", ctypes.c_int64 * DIMENSIONS_MAX),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    )


class _Context(ctypes.Structure):
    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("abi", ctypes.c_int32),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("reals", ctypes.POINTER(ctypes.c_double)),
        ("n_reals", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("state", ctypes.c_void_p),
    )


class CompiledKernel:
    """A library's function, and the workspace and the prepared state that it keeps from call to call."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._entry = getattr(library, ENTRY)
        self._entry.restype = ctypes.c_int
        self._workspace_entry = getattr(library, WORKSPACE_ENTRY, None)
        if self._workspace_entry is not None:
            self._workspace_entry.restype = ctypes.c_int64
        self._prepare_entry: Any = getattr(library, PREPARE_ENTRY, None)
        self._fixed: tuple[Any, ...] = ()
        self._state = ctypes.c_void_p()
        self._workspace: tuple[int, Any] | None = None
        self._asked: dict[bytes, int] = {}

    @property
    def prepares(self) -> bool:
        """Return whether the library has a function for fixed inputs."""
        return self._prepare_entry is not None

    def keep_state(self, device: int, *fixed: Any) -> None:
        """Have the library prepare fixed inputs for its next calls; their memory stays until it prepares others."""
        tensors, params, reals = _parts(fixed)
        context = _context(reals, device)
        numbers = (ctypes.c_int64 * len(params))(*params), ctypes.c_int(len(params))
        status = self._prepare_entry(*_laid_out(tensors), *numbers, ctypes.byref(context), ctypes.byref(self._state))
        if status != 0:
            raise KernelFailed(f"{PREPARE_ENTRY} returned {status}")
        self._fixed = fixed

    def prepared(self, data: Any, outputs: Any, device: int = -1) -> Callable[[], Any]:
        """Return a call of the function with all arguments laid out; the call returns `outputs`.

        Laying out reads only forms and addresses of tensors and arrays, so their values may be written later.
        """
        tensors, params, reals = _parts(data)
        written, _, _ = _parts(outputs)
        context = _context(reals, device, self._state)
        shared = (
            *_laid_out(tensors),
            *_laid_out(written),
            (ctypes.c_int64 * len(params))(*params),
            ctypes.c_int(len(params)),
            ctypes.byref(context),
        )
        workspace = self._given_workspace(shared, context, device)
        # The raw pointers do not keep the inputs and the workspace alive; the call does.
        return partial(_called, self._entry, shared, outputs, (data, workspace))

    def _given_workspace(self, arguments: tuple[Any, ...], context: _Context, device: int) -> Any:
        """Allocate the workspace that the submission requests, and put it into the context of its call."""
        size = 0 if self._workspace_entry is None else self._workspace_bytes(self._workspace_entry, arguments, context)
        if size == 0:
            return None
        if self._workspace is None or self._workspace[0] < size:
            self._workspace = size, _memory(size, device)
        memory = self._workspace[1]
        begin = ctypes.c_char.from_buffer(memory) if device < 0 else None
        context.workspace = memory.data_ptr() if begin is None else ctypes.addressof(begin)
        context.workspace_bytes = size
        return memory

    def _workspace_bytes(self, entry: Any, arguments: tuple[Any, ...], context: _Context) -> int:
        """Return the requested size of the workspace, only from the forms of inputs and outputs, never their memory.

        The request is not timed, and the submission could search memory for inputs that it is not given, if they are
        there by then. So it is asked once for the same forms and numbers, not for every call.
        """
        given, n_given, written, n_written, params, *rest = arguments
        forms = _forms_of(given), _forms_of(written)
        numbers = ctypes.string_at(context.reals, context.n_reals * ctypes.sizeof(ctypes.c_double))
        counts = f"{len(given)} {len(written)} {len(params)}".encode()
        same = b"".join([*map(bytes, (*forms, params)), numbers, counts])
        if same not in self._asked:
            size = int(entry(forms[0], n_given, forms[1], n_written, params, *rest))
            if size < 0:
                raise KernelFailed(f"{WORKSPACE_ENTRY} returned {size}")
            self._asked[same] = size
        return self._asked[same]


def _called(entry: Any, arguments: tuple[Any, ...], outputs: Any, _held: tuple[Any, ...]) -> Any:
    status = entry(*arguments)
    if status != 0:
        raise KernelFailed(f"{ENTRY} returned {status}")
    return outputs


def _forms_of(tensors: Any) -> Any:
    """Return a copy of an array of descriptors without the addresses."""
    forms = type(tensors)(*tensors)
    for form in forms:
        form.data = None
    return forms


def open_kernel(path: Path, crash: int | None = None) -> CompiledKernel:
    """Load the library at `path`, run its constructors, and return its function; make its output line-buffered.

    A library in C++ reports its crash to the descriptor `crash`.

    Raises:
        OSError: the library cannot be loaded.
    """
    libc = ctypes.CDLL(None)
    # A worker is killed in the end, and output in a full buffer of the library's C code would be lost with it.
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, 0)
    library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
    report = getattr(library, CRASH_ENTRY, None)
    if report is not None and crash is not None:
        report(crash)
    return CompiledKernel(library)


def inputs_fault(inputs: payload.Node, name: str = "data") -> str:
    """Return the reason why compiled submissions cannot be given inputs of this form; "" if they can."""
    for node, place in payload.leaves_of(inputs, name):
        if node["k"] not in (*_TENSORS, *_NUMBERS):
            return f"{place} is {with_article(node['k'])}, which compiled submissions cannot be given"
        if len(node.get("shape", ())) > DIMENSIONS_MAX:
            return f"{place} has more than {DIMENSIONS_MAX} dimensions, which compiled submissions cannot be given"
    return ""


def form_fault(inputs: payload.Node, answer: payload.Node) -> str:
    """Return the reason why a task with values of these forms cannot take compiled submissions; "" if it can."""
    fault = inputs_fault(inputs)
    if fault:
        return fault
    tensors = list(payload.leaves_of(answer, "the reference's answer"))
    for node, place in tensors:
        if node["k"] not in _TENSORS or len(node["shape"]) > DIMENSIONS_MAX:
            fault = (
                f"is {with_article(node['k'])}"
                if node["k"] not in _TENSORS
                else f"has more than {DIMENSIONS_MAX} dimensions"
            )
            return f"{place} {fault}; compiled submissions write tensors and arrays of at most {DIMENSIONS_MAX}"
    return "" if tensors else "the reference's answer holds no tensor or array for a compiled submission to write"


def _parts(value: Any) -> tuple[list[Any], list[int], list[float]]:
    """Return a value's tensors and arrays, its integers and booleans, and its other numbers, each in order."""
    tensors: list[Any] = []
    params: list[int] = []
    reals: list[float] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += reversed(list(item.values()))
        elif isinstance(item, (list, tuple)):
            waiting += reversed(item)
        elif isinstance(item, int):
            params.append(int(item))
        elif isinstance(item, float):
            reals.append(item)
        else:
            tensors.append(item)
    return tensors, params, reals


def _context(reals: list[float], device: int, state: ctypes.c_void_p | None = None) -> _Context:
    # The null stream is the default stream, on which a GPU's calls are timed.
    numbers = (ctypes.c_double * len(reals))(*reals)
    return _Context(None, device, ABI, None, 0, numbers, len(reals), 0, state)


def _laid_out(tensors: list[Any]) -> tuple[Any, ctypes.c_int]:
    """Return tensors as a function takes them: an array of descriptors, and its length."""
    return (_Tensor * len(tensors))(*map(_described, tensors)), ctypes.c_int(len(tensors))


def _described(value: Any) -> _Tensor:
    dtype = str(value.dtype).rpartition(".")[2]
    if hasattr(value, "data_ptr"):
        address, strides = int(value.data_ptr()), list(value.stride())
    else:
        address, strides = int(value.ctypes.data), [step // value.itemsize for step in value.strides]
    dimensions = ctypes.c_int64 * DIMENSIONS_MAX
    return _Tensor(address, dimensions(*value.shape), dimensions(*strides), len(value.shape), DTYPES[dtype])


def _memory(size: int, device: int) -> Any:
    if device < 0:
        try:
            memory = mmap.mmap(-1, size)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"no memory for a workspace of {size} bytes") from error
        poisoned = min(size, WORKSPACE_POISONED_BYTES_MAX)
        memory[:poisoned] = (WORKSPACE_WORD.to_bytes(4, "little") * -(-poisoned // 4))[:poisoned]
        return memory
    torch: Any = sys.modules["torch"]
    return torch.empty(size, dtype=torch.uint8, device="cuda")
