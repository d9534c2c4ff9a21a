"""What the rules that bound claimed times say to honest and to dishonest claims."""

from hpc_board.harness.calls import Called
from hpc_board.harness.consistency import colder_than_hot
from hpc_board.harness.judge import _failed
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict

CPU, GPU = Limits.of_task({}, "cpu"), Limits.of_task({}, "cuda")


def row(call_ns: float, calls: int = 10) -> Called:
    return Called(calls, call_ns * calls, call_ns * calls + 1000)


def test_a_kernel_that_is_slower_in_a_row_just_as_the_reference_is_tells_the_truth() -> None:
    assert colder_than_hot(2_400, row(4_900), [900, 1000, 1100], [row(1_900)], CPU) is None


def test_a_claim_far_below_what_a_call_in_a_row_takes_is_a_contradiction() -> None:
    words = colder_than_hot(2_400, row(4_900), [900, 1000, 1100], [row(1_000)], CPU)
    assert words is not None
    assert "claimed to take 2400 ns, but 4900 ns each when 10 are made in a row" in words


def test_a_reference_that_is_faster_in_a_row_makes_nothing_stricter() -> None:
    assert colder_than_hot(2_400, row(4_700), [1000], [row(100)], CPU) is None


def test_a_launch_that_nothing_hides_in_a_row_is_no_contradiction_on_a_gpu() -> None:
    assert colder_than_hot(3_000, row(25_000), [2_000], [row(5_000)], GPU) is None
    assert colder_than_hot(3_000, row(25_000), [2_000], [row(5_000)], CPU) is not None
    assert colder_than_hot(3_000, row(500_000), [2_000], [row(5_000)], GPU) is not None


class OutOfMemoryError(RuntimeError):
    """As PyTorch names it."""


def test_a_judge_without_memory_on_the_device_does_not_blame_the_task() -> None:
    assert _failed("no inputs", OutOfMemoryError("CUDA out of memory"))["verdict"] is Verdict.OUT_OF_MEMORY
    assert _failed("no inputs", ValueError("x"))["verdict"] is Verdict.TASK_ERROR
