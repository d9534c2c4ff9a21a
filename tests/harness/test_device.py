"""How long a GPU's work took, on a device whose every step has a scripted duration."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.device import CudaDevice


class Gpu:
    """PyTorch's CUDA interface over one clock in nanoseconds: work ends when it ends, waiting moves the clock."""

    IDLE_NS = 4_000

    def __init__(self) -> None:
        self.now_ns = 0
        self.current_ends_ns = 0
        self.side_ends_ns = 0
        self.cuda = self
        self.uint8 = None
        self.Tensor = Tensor
        self.nn = SimpleNamespace(Parameter=type("Parameter", (), {}))
        self.Event = type("Event", (Event,), {"gpu": self})

    def launch(self, current_ns: int, side_ns: int) -> str:
        self.current_ends_ns = self.now_ns + current_ns
        self.side_ends_ns = self.now_ns + side_ns
        return "a value"

    def synchronize(self) -> None:
        self.now_ns = max(self.now_ns + self.IDLE_NS, self.current_ends_ns, self.side_ends_ns)

    def clock(self) -> int:
        return self.now_ns


class Tensor:
    """A tensor that holds its last value from a moment on."""

    nbytes = 4

    def __init__(self, gpu: Gpu, right_from_ns: int) -> None:
        self.gpu = gpu
        self.right_from_ns = right_from_ns

    def detach(self) -> "Tensor":
        return self

    def is_contiguous(self) -> bool:
        return True

    def clone(self) -> str:
        return "right" if max(self.gpu.now_ns, self.gpu.current_ends_ns) >= self.right_from_ns else "stale"


class Event:
    gpu: Gpu

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at_ns = -1

    def record(self) -> None:
        self.at_ns = max(self.gpu.now_ns, self.gpu.current_ends_ns)

    def synchronize(self) -> None:
        self.gpu.now_ns = max(self.gpu.now_ns, self.at_ns)

    def elapsed_time(self, end: "Event") -> float:
        return (end.at_ns - self.at_ns) / 1e6


def elapsed_ns(current_ns: int, side_ns: int = 0) -> int:
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)
    value, found = device.timed(lambda: gpu.launch(current_ns, side_ns), [], cold=False)
    assert value == "a value"
    return round(found)


def test_work_on_the_current_stream_takes_what_lies_between_its_events() -> None:
    assert elapsed_ns(30_000) == 30_000


def test_a_side_stream_that_ends_first_costs_nothing() -> None:
    assert elapsed_ns(30_000, side_ns=20_000) == 30_000


def test_work_left_on_a_side_stream_counts_until_it_ends() -> None:
    assert elapsed_ns(10_000, side_ns=500_000) == 500_000
    assert elapsed_ns(0, side_ns=40_000) == 40_000


def returned(call: Callable[[Gpu], Any]) -> Any:
    gpu = Gpu()
    return CudaDevice(gpu, gpu.clock).timed(lambda: call(gpu), [], cold=False)[0]


def launched(gpu: Gpu, current_ns: int, side_ns: int) -> Tensor:
    gpu.launch(current_ns, side_ns)
    return Tensor(gpu, gpu.now_ns + max(current_ns, side_ns))


def test_what_the_current_stream_has_done_is_in_the_value() -> None:
    assert returned(lambda gpu: launched(gpu, 30_000, 0)) == "right"
    assert returned(lambda gpu: [launched(gpu, 5_000, 0), {"a": launched(gpu, 30_000, 20_000)}]) == [
        "right",
        {"a": "right"},
    ]


def test_what_another_stream_does_later_is_missing_in_the_value_however_soon_it_ends() -> None:
    assert returned(lambda gpu: launched(gpu, 1_000, side_ns=2_000)) == "stale"
    assert returned(lambda gpu: (launched(gpu, 1_000, side_ns=2_000),)) == ("stale",)


def test_two_events_that_cannot_be_told_apart_make_a_time_that_is_not_zero() -> None:
    assert elapsed_ns(0) == 1


@pytest.mark.torch
@pytest.mark.parametrize("bytes_", [64, 2**23 + 64])
def test_a_copy_holds_what_the_tensor_held_whatever_its_size_and_order(bytes_: int) -> None:
    torch = pytest.importorskip("torch")
    device = CudaDevice.__new__(CudaDevice)
    device._torch, device._clone = torch, torch.Tensor.clone
    for tensor in (torch.arange(bytes_, dtype=torch.uint8), torch.arange(bytes_, dtype=torch.uint8).view(2, -1).T):
        copy = device._as_it_is(torch.nn.Parameter(tensor, requires_grad=False))
        assert torch.equal(copy, tensor)
        assert copy.stride() == tensor.stride()
        tensor.zero_()
        assert copy.any()


@pytest.mark.torch
def test_what_is_spoiled_is_wrong_everywhere_until_it_is_put_right() -> None:
    torch = pytest.importorskip("torch")
    device = CudaDevice.__new__(CudaDevice)
    device._torch = torch
    tensors = [torch.rand(100_000), torch.rand(300, 70).T, torch.rand(()), torch.ones(3, dtype=torch.bool)]
    shown = {"a": tensors[:2], "b": (tensors[2], tensors[3], torch.empty(0)), "c": 5}
    before = [tensor.clone() for tensor in tensors]
    spoiled = device._spoiled(shown)
    assert len(spoiled) == len(tensors)
    assert not any(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))
    for blocks, places, right in spoiled:
        blocks.index_copy_(0, places, right)
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))
