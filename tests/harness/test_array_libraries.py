"""Answers in the arrays of other libraries, by doubles of their protocols: CuPy, Numba and JAX on GPUs have these."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.wire import payload
from hpc_board.harness.wire.payload import PayloadError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import a_task, evaluate

numpy = pytest.importorskip("numpy")

WITH_TORCH = """
import torch

def generate_input(size, seed):
    return torch.arange(size, dtype=torch.float32) + seed

def ref_kernel(data):
    return data + 1

def check_implementation(data, output):
    return torch.equal(output, ref_kernel(data))
"""

WITH_NUMPY = WITH_TORCH.replace("torch.equal", "np.array_equal").replace("import torch", "import numpy as np")
WITH_NUMPY = WITH_NUMPY.replace("torch.", "np.")

KERNEL = """
class ndarray:
    def __init__(self, array):
        self._array = array

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options):
        FAULT
        return self._array.__dlpack__(**options)

def custom_kernel(data):
    return ndarray(data + 1)
"""


class OnlyDlpack:
    """An array that has DLPack alone."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self._array, self._device = array, device
        self.strides = array.strides

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**{name: value for name, value in options.items() if name != "stream"})


class OnlyInterface:
    """An array that has the CUDA array interface alone; its memory is the host's."""

    def __init__(self, array: Any, *, read_only: bool = False, stream: int | None = None) -> None:
        self._interface = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, read_only),
            "strides": None,
            "stream": stream,
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface


class Broken(OnlyDlpack):
    """An array whose library refuses to hand it over."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("it is sharded over two devices")


@pytest.mark.parametrize("reference", [pytest.param(WITH_TORCH, marks=pytest.mark.torch), WITH_NUMPY])
def test_an_answer_by_dlpack_passes(tmp_path: Path, reference: str) -> None:
    result = evaluate(tmp_path, KERNEL.replace("FAULT", ""), a_task(reference), Mode.BENCHMARK).result
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize(
    ("fault", "verdict", "told"),
    [
        (
            "raise BufferError('sharded')",
            Verdict.WRONG_DTYPE,
            "cannot convert the returned submission.ndarray to a tensor: BufferError: sharded",
        ),
        ("return 7", Verdict.WRONG_DTYPE, "cannot convert the returned submission.ndarray to a tensor:"),
        ("raise RuntimeError('CUDA error: out of memory')", Verdict.OUT_OF_MEMORY, "CUDA error: out of memory"),
        ("raise RuntimeError('CUDA error: the GPU is lost')", Verdict.WRONG_DTYPE, "the GPU is lost"),
        ("import os; os.abort()", Verdict.CRASH, ""),
    ],
)
def test_an_answer_that_cannot_be_taken_says_why(tmp_path: Path, fault: str, verdict: Verdict, told: str) -> None:
    result = evaluate(tmp_path, KERNEL.replace("FAULT", fault), a_task(WITH_NUMPY)).result
    assert (result.verdict, told in result.message) == (verdict, True), result.message


@pytest.mark.torch
def test_arrays_of_other_libraries_become_dense_tensors_of_the_same_memory() -> None:
    torch = pytest.importorskip("torch")
    array = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    whole, turned, gaps = payload.dense([OnlyDlpack(array), OnlyDlpack(array.T), OnlyDlpack(array[:, ::2])])
    assert (whole.data_ptr(), turned.data_ptr()) == (array.ctypes.data, array.ctypes.data)
    assert (turned.stride(), gaps.stride()) == ((1, 4), (2, 1))
    assert torch.equal(gaps, torch.from_numpy(array[:, ::2].copy()))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda array: OnlyDlpack(array[::-1]), "OnlyDlpack to a tensor: ValueError: it has a negative stride"),
        (lambda array: OnlyDlpack(array, (2, 0)), "OnlyDlpack to a tensor: "),
        (lambda array: OnlyDlpack(array.astype("datetime64[s]")), "OnlyDlpack to a tensor: BufferError"),
        (Broken, "Broken to a tensor: BufferError: it is sharded over two devices"),
        (lambda array: OnlyInterface(array, read_only=True), "TypeError: the read only flag is not supported"),
    ],
)
def test_an_array_that_pytorch_cannot_take_is_named_with_the_reason(make: Any, told: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    with pytest.raises(PayloadError) as caught:
        payload.dense(make(numpy.arange(4.0)))
    assert told in str(caught.value)
    assert caught.value.__cause__ is not None


def test_memory_of_a_gpu_is_refused_where_values_are_numpy_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(PayloadError, match="it is in the memory of a GPU"):
        payload.dense(OnlyInterface(numpy.arange(4.0)))


@pytest.mark.parametrize(("stream", "awaited"), [(None, []), (1, []), (2, []), (0x7F00, [0x7F00])])
def test_the_stream_of_a_cuda_array_interface_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, stream: int | None, awaited: list[int]
) -> None:
    waits: list[int] = []
    array = numpy.arange(4.0)
    cuda = SimpleNamespace(ExternalStream=lambda address: address)
    cuda.current_stream = lambda: SimpleNamespace(wait_stream=waits.append)
    double = SimpleNamespace(Tensor=type("Tensor", (), {}), as_tensor=lambda _value, **_device: array, cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", double)
    assert numpy.shares_memory(payload.dense(OnlyInterface(array, stream=stream)), array)
    assert waits == awaited
