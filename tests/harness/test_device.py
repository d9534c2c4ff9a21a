"""The time of a GPU's work, on a device whose every step has a scripted duration."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.device.device import CudaDevice, _Kept
from hpc_board.harness.profile.profilers import ProfiledDevice


class Gpu:
    """PyTorch's CUDA interface over one clock in nanoseconds: work ends when it ends, waiting moves the clock."""

    IDLE_NS = 4_000
    FILL_NS = 60_000
    LAUNCH_NS = 5_000

    def __init__(self) -> None:
        self.now_ns = 0
        self.ends_ns = {"default": 0, "side": 0}
        self.current = "default"
        self.filled: list[int] = []
        self.cuda = self
        self.version = SimpleNamespace(hip=None)
        self.bool = self.uint8 = self.int64 = self.tensor = self.empty_like = None
        self.zeros = self.as_tensor = self.ne = self.mul = self.any = None
        self.Tensor = type("GpuTensor", (Tensor,), {"gpu": self})
        self.nn = SimpleNamespace(Parameter=type("Parameter", (), {}))
        self.Event = type("Event", (Event,), {"gpu": self})
        self._C = SimpleNamespace(
            DisableTorchFunction=self.plainly, _DisableTorchDispatch=nullcontext, _cuda_synchronize=self.come_to_rest
        )
        self.plain = False

    @contextmanager
    def plainly(self) -> Iterator[None]:
        self.plain = True
        yield
        self.plain = False

    def launch(self, default_ns: int, side_ns: int) -> str:
        assert not self.plain, "a submission's own modes stay"
        self.ends_ns = {"default": self.free_at_ns("default") + default_ns, "side": self.now_ns + side_ns}
        return "a value"

    def free_at_ns(self, stream: str) -> int:
        return max(self.now_ns, self.ends_ns[stream])

    def synchronize(self) -> None:
        self._C._cuda_synchronize()

    def come_to_rest(self) -> None:
        self.now_ns = max(self.now_ns + self.IDLE_NS, *self.ends_ns.values())

    def clock(self) -> int:
        return self.now_ns

    def default_stream(self) -> str:
        return "default"

    def current_stream(self) -> str:
        return self.current

    def set_stream(self, stream: str) -> None:
        self.current = stream

    def get_device_properties(self, _index: int) -> SimpleNamespace:
        return SimpleNamespace(L2_cache_size=2**20)

    def empty(self, size: int, *, dtype: None, device: str) -> "Tensor":
        assert (dtype, device) == (None, "cuda")
        assert size == 2**28
        tensor: Tensor = self.Tensor(0)
        return tensor


class Tensor:
    """A tensor that holds its last value from a moment on."""

    dtype = shape = device = property(lambda _: None)
    gpu: Gpu

    def __init__(self, right_from_ns: int) -> None:
        self.right_from_ns = right_from_ns

    def detach(self) -> "Tensor":
        return self

    def numel(self) -> int:
        return 1

    def element_size(self) -> int:
        return 4

    def is_contiguous(self) -> bool:
        return True

    def clone(self) -> str:
        assert self.gpu.plain
        return "right" if self.gpu.free_at_ns(self.gpu.current) >= self.right_from_ns else "stale"

    def fill_(self, _value: int) -> None:
        gpu = self.gpu
        assert gpu.plain
        gpu.now_ns += gpu.LAUNCH_NS
        gpu.ends_ns[gpu.current] = gpu.free_at_ns(gpu.current) + gpu.FILL_NS
        gpu.filled.append(gpu.now_ns)

    copy_ = index_copy_ = index_select = bitwise_xor = to = view = reshape = permute = narrow = chunk = dim = stride = (
        None
    )
    data_ptr = None


class Event:
    gpu: Gpu

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing
        self.at_ns = -1

    def record(self, stream: str | None = None) -> None:
        self.at_ns = self.gpu.free_at_ns(stream or self.gpu.current)

    def synchronize(self) -> None:
        self.gpu.now_ns = max(self.gpu.now_ns, self.at_ns)

    def query(self) -> bool:
        return self.gpu.now_ns >= self.at_ns

    def elapsed_time(self, end: "Event") -> float:
        return (end.at_ns - self.at_ns) / 1e6


def launched(gpu: Gpu, default_ns: int, side_ns: int) -> Tensor:
    gpu.launch(default_ns, side_ns)
    tensor: Tensor = gpu.Tensor(max(gpu.ends_ns.values()))
    return tensor


@pytest.mark.parametrize(
    ("default_ns", "side_ns", "elapsed_ns", "value"),
    [
        (30_000, 0, 30_000, "right"),
        (30_000, 20_000, 30_000, "right"),
        (10_000, 500_000, 500_000, "stale"),
        (0, 140_000, 140_000, "stale"),
        (1_000, 2_000, 1_000, "stale"),
        (0, 0, 1, "right"),
    ],
    ids=["alone", "side ends first", "side ends last", "all on the side", "side ends soon after", "nothing"],
)
def test_work_counts_until_all_streams_end_and_the_value_is_that_of_the_default_stream(
    default_ns: int, side_ns: int, elapsed_ns: int, value: str
) -> None:
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)
    found, found_ns = device.timed(lambda: [{"a": launched(gpu, default_ns, side_ns)}], [], cold=False)
    assert (found, round(found_ns)) == ([{"a": value}], elapsed_ns)


def test_a_stream_that_a_call_leaves_as_the_current_one_changes_nothing() -> None:
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)

    def call() -> Tensor:
        tensor = launched(gpu, 30_000, 0)
        gpu.set_stream("side")
        return tensor

    for _ in range(2):
        value, found = device.timed(call, [], cold=False)
        assert (value, round(found)) == ("right", 30_000)
    device.prepare()
    assert gpu.current == "default"


def test_what_a_submission_puts_in_the_place_of_pytorch_s_functions_is_not_called() -> None:
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)
    for kind, names in ((gpu.Tensor, ("clone", "detach", "fill_")), (gpu.Event, ("record", "elapsed_time"))):
        for name in names:
            setattr(kind, name, lambda *_: pytest.fail("a submission was asked"))
    for owner, name in ((gpu, "synchronize"), (gpu, "set_stream"), (gpu, "empty"), (gpu._C, "_cuda_synchronize")):
        setattr(owner, name, lambda *_, **__: pytest.fail("a submission was asked"))
    device.prepare()
    value, found = device.timed(lambda: launched(gpu, 30_000, 0), [], cold=True)
    assert (value, round(found)) == ("right", 30_000)


def test_when_a_call_has_been_timed_nothing_is_left_to_do() -> None:
    gpu = Gpu()
    CudaDevice(gpu, gpu.clock).timed(lambda: gpu.launch(1_000, side_ns=900_000), [], cold=False)
    assert gpu.now_ns >= max(gpu.ends_ns.values())


def test_a_device_is_kept_busy_before_its_first_call_and_after_a_second_without_one() -> None:
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)

    def prepared_ns() -> int:
        start = gpu.now_ns
        device.prepare()
        return gpu.now_ns - start

    device.timed(lambda: gpu.launch(1_000, 0), [], cold=False)
    assert 500_000_000 < prepared_ns() < 510_000_000
    gaps = [later - earlier for earlier, later in zip(gpu.filled, gpu.filled[1:], strict=False)]
    assert max(gaps) <= 16 * gpu.FILL_NS + 2 * gpu.IDLE_NS, "it may not come to rest in between"
    assert prepared_ns() < 1_000_000
    gpu.now_ns += 900_000_000
    device.timed(lambda: gpu.launch(1_000, 0), [], cold=True)
    gpu.now_ns += 900_000_000
    assert prepared_ns() < 1_000_000, "a call is work as well"
    gpu.now_ns += 1_100_000_000
    assert prepared_ns() > 500_000_000


def test_a_profile_does_not_show_the_work_that_raises_the_clocks(tmp_path: Path) -> None:
    gpu = Gpu()
    device = ProfiledDevice(CudaDevice(gpu, gpu.clock), "nvtx", tmp_path)
    device.prepare()
    device.timed(lambda: gpu.launch(1_000, 0), [], cold=True)
    device.prepare()
    assert len(gpu.filled) == 2 + 17 + 2


@pytest.mark.parametrize(("fill_ns", "fills"), [(60_000, 17), (199_000, 6), (900_000, 2), (1_000, 32)])
def test_the_caches_are_written_until_the_launch_of_a_call_is_hidden(fill_ns: int, fills: int) -> None:
    gpu = Gpu()
    gpu.FILL_NS = fill_ns
    gpu.LAUNCH_NS = 100
    device = CudaDevice(gpu, gpu.clock)
    device.prepare()
    gpu.filled.clear()
    device.timed(lambda: gpu.launch(1_000, 0), [], cold=True)
    assert len(gpu.filled) == fills
    assert device.fills(inputs=10) == min(32, -(-1_500_000 // fill_ns))
    device.timed(lambda: gpu.launch(1_000, 0), [], cold=False)
    assert len(gpu.filled) == fills


def test_a_fill_that_the_judge_s_own_work_makes_longer_is_measured_again() -> None:
    gpu = Gpu()
    gpu.FILL_NS = 300_000
    device = CudaDevice(gpu, gpu.clock)
    device.prepare()
    assert device.fills(inputs=0) == 4
    gpu.FILL_NS = 60_000
    device.prepare()
    assert device.fills(inputs=0) == 17
    gpu.FILL_NS = 300_000
    device.prepare()
    assert device.fills(inputs=0) == 17


def test_a_host_that_is_slow_to_see_an_idle_device_adds_no_time() -> None:
    gpu = Gpu()
    gpu.IDLE_NS = 90_000
    device = CudaDevice(gpu, gpu.clock)
    _, found = device.timed(lambda: gpu.launch(1_000, 0), [], cold=False)
    assert found == pytest.approx(1_000)


def over_pytorch(torch: Any) -> CudaDevice:
    """A device as far as it can be had without a GPU."""
    device = CudaDevice.__new__(CudaDevice)
    device.kept = _Kept(torch)
    return device


@pytest.mark.torch
@pytest.mark.parametrize("bytes_", [64, 2**23 + 64])
def test_a_copy_holds_what_the_tensor_held_whatever_its_size_and_order(bytes_: int) -> None:
    torch = pytest.importorskip("torch")
    device = over_pytorch(torch)
    for tensor in (torch.arange(bytes_, dtype=torch.uint8), torch.arange(bytes_, dtype=torch.uint8).view(2, -1).T):
        copy = device._as_it_is(torch.nn.Parameter(tensor, requires_grad=False))
        assert torch.equal(copy, tensor)
        assert copy.stride() == tensor.stride()
        tensor.zero_()
        assert copy.any()


@pytest.mark.torch
def test_a_placed_tensor_has_its_values_order_and_type_and_an_address_of_its_own() -> None:
    torch = pytest.importorskip("torch")
    device = over_pytorch(torch)
    device._placed = 0
    rooms = []

    def empty(size: int, *, dtype: Any, device: str) -> Any:
        assert device == "cuda"
        rooms.append(torch.empty(size, dtype=dtype))
        return rooms[-1]

    device.kept.empty = empty
    tensors = [torch.rand(30, 70).T, torch.rand(2, 3, 4).permute(2, 0, 1), torch.rand(()), torch.rand(5) > 0.5]
    for tensor in [*tensors, torch.rand(9).to(torch.float8_e5m2fnuz)]:
        placed = device.place(tensor)
        assert (placed.dtype, placed.shape, placed.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
        assert torch.equal(placed.double(), tensor.double())
        assert placed.data_ptr() - rooms[-1].data_ptr() == 256 * len(rooms)


class OnCpu:
    """The default stream of a GPU and its events, where each call ends before the next one begins."""

    def __init__(self, torch: Any) -> None:
        self.steps: list[str] = []
        kept = self.kept = _Kept(torch)
        kept.synchronize = kept.set_stream = kept.wait = lambda *_: None
        kept.event = lambda **_: None
        kept.record = lambda *_: self.steps.append("event")
        kept.elapsed_ms = lambda *_: 1.0
        kept.index_copy_ = self._noted("blocks", kept.index_copy_)
        kept.fill_ = self._noted("fill", kept.fill_)

    def _noted(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*values: Any) -> Any:
            self.steps.append(step)
            return function(*values)

        return noting


def timed_over_pytorch(torch: Any) -> tuple[CudaDevice, OnCpu]:
    """A device that is prepared, its streams and events apart, whose tensors are PyTorch's own."""
    device, on_cpu = over_pytorch(torch), OnCpu(torch)
    device.kept, device._clock, device.stream = on_cpu.kept, lambda: 0, None
    device._memory, device._fill_ns = torch.zeros(64, dtype=torch.uint8), 550_000.0
    device._warm_at_ns = None
    return device, on_cpu


@pytest.mark.torch
def test_a_cold_call_finds_its_inputs_put_right_after_the_caches_are_emptied() -> None:
    torch = pytest.importorskip("torch")
    device, on_cpu = timed_over_pytorch(torch)
    tensor = torch.rand(100_000)
    before = tensor.clone()
    found = []

    def fill_(memory: Any, value: int) -> None:
        found.append(torch.equal(tensor, before))
        fill(memory, value)

    def call() -> Any:
        on_cpu.steps.append("call")
        found.append(torch.equal(tensor, before))
        return [tensor]

    fill, on_cpu.kept.fill_ = on_cpu.kept.fill_, fill_
    value, elapsed_ns = device.timed(call, {"a": tensor}, cold=True)
    assert on_cpu.steps[3:] == ["blocks", "fill", "fill", "blocks", "event", "call", "event", "event"]
    assert found == [False, False, True]
    assert elapsed_ns == 1e6
    assert device._memory.tolist() == [1] * 64
    tensor.zero_()
    assert torch.equal(value[0], before)


def test_a_device_that_is_not_prepared_cannot_empty_caches_and_says_so() -> None:
    gpu = Gpu()
    device = CudaDevice(gpu, gpu.clock)
    with pytest.raises(RuntimeError, match="prepare"):
        device.timed(lambda: gpu.launch(1_000, 0), [], cold=True)
    assert gpu.filled == []


ACCESSORS = ("numel", "element_size", "dim", "stride", "nbytes", "dtype", "shape", "device", "view", "index_copy_")


@pytest.mark.torch
@pytest.mark.parametrize("name", ACCESSORS)
def test_a_submission_that_patches_a_tensor_s_accessors_leaves_it_spoiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    torch = pytest.importorskip("torch")
    device = over_pytorch(torch)
    tensor = torch.rand(300, 70).T
    before = tensor.clone()
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, name, property(lambda _: pytest.fail("a submission was asked")), raising=False)
        spoiled = device.spoiled(tensor)
    assert len(spoiled) == 1
    assert not torch.equal(tensor, before)


DTYPES = (
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
)


@pytest.mark.torch
def test_what_is_spoiled_is_wrong_everywhere_until_it_is_put_right() -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.rand(100_000), torch.rand(300, 70).T, torch.rand(()), torch.ones(3, dtype=torch.bool)]
    shown = {"a": tensors[:2], "b": (tensors[2], tensors[3], torch.empty(0)), "c": 5}
    before = [tensor.clone() for tensor in tensors]
    spoiled = over_pytorch(torch).spoiled(shown)
    assert len(spoiled) == len(tensors)
    assert not any(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))
    for blocks, places, right in spoiled:
        blocks.index_copy_(0, places, right)
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))


@pytest.mark.torch
@pytest.mark.parametrize("name", DTYPES)
def test_spoiled_numbers_of_any_type_are_worthless_to_what_they_are_part_of(name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    found = set()
    for _ in range(40):
        tensor = torch.ones(4096).to(dtype)
        ((_, places, right),) = over_pytorch(torch).spoiled(tensor)
        wide = tensor.to(torch.complex128 if dtype.is_complex else torch.float64)
        wrong = wide[wide != 1]
        assert places.shape == (32,)
        assert wrong.numel() == 16 * right.shape[1] // tensor.element_size()
        found.add(str(wrong[0].item()))
    numbers = [complex(each.replace("nan", "inf")).real for each in found]
    if dtype is torch.bool:
        assert numbers == [0]
        assert set(tensor.view(torch.uint8).tolist()) == {0, 1}, "no other byte is a truth value"
    elif dtype.is_floating_point or dtype.is_complex:
        assert len(found) == 3
        assert max(numbers) > 150
        assert min(numbers) < -150
    else:
        assert max(numbers) > 0.99 * torch.iinfo(dtype).max
        assert min(numbers) <= 0.99 * torch.iinfo(dtype).min


@pytest.mark.torch
def test_half_of_what_is_spoiled_holds_numbers_from_elsewhere_in_the_tensor() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(100_000, dtype=torch.int64)
    over_pytorch(torch).spoiled(tensor)
    moved = tensor[(tensor != torch.arange(100_000)) & (tensor >= 0) & (tensor < 100_000)]
    assert moved.numel() >= 14 * 8, "16 blocks of 8, but for those that happened to be drawn for themselves"


@pytest.mark.torch
def test_no_mode_of_a_submission_sees_what_a_device_does_with_tensors() -> None:
    torch = pytest.importorskip("torch")
    device, _ = timed_over_pytorch(torch)
    seen: list[Any] = []

    class Watching(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined] # PyTorch may be absent
        def __torch_function__(self, function: Any, _types: Any, arguments: Any = (), named: Any = None) -> Any:
            seen.append(function)
            return function(*arguments, **(named or {}))

    class Deeper(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined] # as above
        def __torch_dispatch__(self, function: Any, _types: Any, arguments: Any = (), named: Any = None) -> Any:
            seen.append(function)
            return function(*arguments, **(named or {}))

    tensor = torch.rand(100_000)
    before = tensor.clone()
    for mode in (Watching, Deeper):
        with mode():
            torch.ones(2).fill_(3)
            assert seen, mode
            seen.clear()
            value, _ = device.timed(lambda: tensor, {"a": tensor}, cold=True)
            assert seen == [], mode
        assert torch.equal(value, before)
