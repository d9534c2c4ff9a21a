"""How long a GPU's work took, on a device whose every step has a scripted duration."""

from typing import Any

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
        self.Event = type("Event", (Event,), {"gpu": self})

    def launch(self, current_ns: int, side_ns: int) -> str:
        self.current_ends_ns = self.now_ns + current_ns
        self.side_ends_ns = self.now_ns + side_ns
        return "a value"

    def synchronize(self) -> None:
        self.now_ns = max(self.now_ns + self.IDLE_NS, self.current_ends_ns, self.side_ends_ns)

    def clock(self) -> int:
        return self.now_ns

    def get_device_properties(self, _index: int) -> None:
        return None

    def empty(self, *_shape: int, **_options: Any) -> None:
        return None


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
    value, found = device.timed(lambda: gpu.launch(current_ns, side_ns), cold=False)
    assert value == "a value"
    return round(found)


def test_work_on_the_current_stream_takes_what_lies_between_its_events() -> None:
    assert elapsed_ns(30_000) == 30_000
    assert elapsed_ns(0) == 0


def test_a_side_stream_that_ends_first_costs_nothing() -> None:
    assert elapsed_ns(30_000, side_ns=20_000) == 30_000


def test_work_left_on_a_side_stream_counts_until_it_ends() -> None:
    assert elapsed_ns(10_000, side_ns=500_000) == 500_000
    assert elapsed_ns(0, side_ns=40_000) == 40_000
