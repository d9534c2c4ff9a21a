"""The claims of a worker that are believed."""

import os
import subprocess
import sys
import time

import pytest

from hpc_board.harness.judge.judge import failed
from hpc_board.harness.measure.consistency import colder_than_hot, disturbed, drift, equal_claims, unclaimed_time
from hpc_board.harness.measure.contention import OtherWork, _own_ticks
from hpc_board.harness.measure.timing import enough, floor_ns, timing
from hpc_board.harness.processes.calls import Called
from hpc_board.model.limits import Limits
from hpc_board.model.peaks import Peak, Work, peak_of
from hpc_board.model.result import Verdict

LIMITS = Limits()
CPU, GPU = Limits.of_task({"launch_seconds": 0}, "cpu"), Limits.of_task({}, "cuda")
MS = 1e6


def calls(claimed_ns: float, wall_ns: float, count: int = 10) -> list[Called]:
    return [Called(1, claimed_ns, wall_ns)] * count


def test_time_that_the_reference_s_calls_take_as_well_need_not_be_claimed() -> None:
    assert unclaimed_time(calls(1 * MS, 11 * MS), calls(5 * MS, 15 * MS), LIMITS) is None


@pytest.mark.parametrize(
    ("wall_ms", "believed"),
    # 1.3 times the reference's 10 ms, 2 ms of slack and 5 % of the wall time may pass beside a claim of 20 ms
    [(36.5, True), (37.5, False)],
)
def test_more_than_that_a_slack_and_a_share_of_all_time_has_to_be_claimed(wall_ms: float, believed: bool) -> None:
    found = unclaimed_time(calls(20 * MS, wall_ms * MS), calls(5 * MS, 15 * MS), LIMITS)
    assert (found is None) is believed


def test_single_interruptions_of_the_machine_prove_nothing() -> None:
    interrupted = [*calls(1 * MS, 2 * MS, 8), *calls(1 * MS, 500 * MS, 2)]
    assert unclaimed_time(interrupted, calls(1 * MS, 2 * MS), LIMITS) is None


@pytest.mark.parametrize(
    ("walls_ms", "others", "words"),
    [
        ([10, 10, 11, 12], 0.1, ""),
        ([10, 10, 11, 90], 0.1, ""),
        ([10, 10, 10, 16, 30], 0.1, "calls of the reference took up to 3 times as long as usual"),
        ([10, 30], 0.1, ""),
        ([10, 10, 11, 12], 0.2, "other work took 0.2 of the processors"),
    ],
)
def test_a_machine_is_disturbed_by_others_or_where_the_reference_s_calls_differ(
    walls_ms: list[float], others: float, words: str
) -> None:
    assert disturbed([Called(1, 1, wall_ms * MS) for wall_ms in walls_ms], others) == words


def test_the_work_of_others_is_told_from_one_s_own() -> None:
    spin = "import time\nwhile time.process_time() < 0.5: pass"
    before = _own_ticks()
    subprocess.run([sys.executable, "-c", spin], check=True)
    assert _own_ticks() - before >= 0.4 * os.sysconf("SC_CLK_TCK")
    others = OtherWork()
    aside = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{spin}"
    subprocess.run([sys.executable, "-c", aside], check=True)
    time.sleep(0.5)
    assert others.processors() > 0.2


def test_in_a_row_the_slack_counts_once() -> None:
    usual = [Called(50, 50 * MS, 60 * MS)]
    assert unclaimed_time([Called(50, 50 * MS, 66 * MS)], usual, LIMITS) is None
    found = unclaimed_time([Called(50, 40 * MS, 66 * MS)], usual, LIMITS)
    assert found is not None
    assert "26.000 ms more than they claim" in found


def test_a_slow_reference_s_shorter_row_tells_what_each_call_of_a_longer_one_may_take() -> None:
    usual = [Called(5, 1000 * MS, 1010 * MS)]
    assert unclaimed_time([Called(50, 50 * MS, 166 * MS)], usual, LIMITS) is None
    assert unclaimed_time([Called(50, 10 * MS, 166 * MS)], usual, LIMITS) is not None


def test_half_of_the_calls_cannot_hide_what_the_others_do_not() -> None:
    # 7.1 ms may pass unclaimed; the mean of the middle half is 6.2 ms.
    lies_in_half = [*calls(50 * MS, 50.4 * MS, 9), *calls(40.4 * MS, 50.4 * MS, 11)]
    assert unclaimed_time(lies_in_half, calls(48 * MS, 50 * MS), LIMITS) is not None


def test_claims_that_are_all_the_same_are_no_measurement() -> None:
    assert equal_claims([2 * MS] * 20) is not None
    assert equal_claims([*[2 * MS] * 19, 2 * MS + 1]) is None
    assert equal_claims([99_328.0] * 100) is None, "97 ticks of 1024 ns: a steady kernel stays within one of them"


def test_drift_is_the_share_by_which_medians_differ() -> None:
    assert drift([1 * MS, 1 * MS, 5 * MS], [1.1 * MS, 1.1 * MS, 0.9 * MS]) == pytest.approx(0.1, rel=0.03)
    assert drift([1.1 * MS], [1 * MS]) == drift([1 * MS], [1.1 * MS])


def test_what_the_ticks_of_a_clock_make_of_equal_times_is_no_drift() -> None:
    assert drift([10_240] * 3, [12_288] * 3) == 0
    assert drift([10_240] * 3, [13_312] * 3) == pytest.approx(0.1)


def test_the_median_of_the_workers_medians_counts() -> None:
    found = timing([[1, 2, 3], [10, 11, 12], [4, 5, 600]], [7, 9, 8])
    assert found.time_ns == 5
    assert list(found.worker_samples) == [3, 3, 3]
    assert found.reference_ns == 8
    assert list(found.worker_medians_ns) == [2, 11, 5]


def test_workers_share_the_calls_of_a_case() -> None:
    assert not enough([1 * MS] * 6, 0, LIMITS, 3)
    assert enough([1 * MS] * 7, 0, LIMITS, 3)


def test_nothing_takes_less_than_half_of_what_the_data_sheet_allows() -> None:
    h100 = peak_of("NVIDIA H100 80GB HBM3")
    assert floor_ns(Work(3.938e9, 0), h100) == pytest.approx(0.5e6)
    assert floor_ns(Work(0, 4e12), Peak(1e12, 1e12)) == pytest.approx(2e9)
    assert floor_ns(Work(1e9, 1e9), None) == 0
    assert floor_ns(None, h100) == 0


def test_a_device_whose_data_sheet_is_not_known_has_no_peak() -> None:
    assert peak_of("Some Device 9000") is None


def row(call_ns: float, calls: int = 10) -> Called:
    return Called(calls, call_ns * calls, call_ns * calls + 1000)


def test_a_kernel_that_is_slower_in_a_row_just_as_the_reference_is_tells_the_truth() -> None:
    assert colder_than_hot(2_400, row(4_900), [900, 1000, 1100], [row(1_900)], CPU) is None


def test_a_claim_far_below_what_a_call_in_a_row_takes_is_a_contradiction() -> None:
    words = colder_than_hot(2_100, row(4_900), [900, 1000, 1100], [row(1_000)], CPU)
    assert words is not None
    assert "claimed to take 2100 ns, but 4900 ns each when 10 are made in a row" in words


def test_a_reference_that_is_faster_in_a_row_makes_nothing_stricter() -> None:
    assert colder_than_hot(2_400, row(4_700), [1000], [row(100)], CPU) is None


def test_a_launch_that_nothing_hides_in_a_row_is_no_contradiction_on_a_gpu() -> None:
    assert colder_than_hot(3_000, row(25_000), [2_000], [row(5_000)], GPU) is None
    assert colder_than_hot(3_000, row(25_000), [2_000], [row(5_000)], CPU) is not None
    assert colder_than_hot(3_000, row(500_000), [2_000], [row(5_000)], GPU) is not None


class OutOfMemoryError(RuntimeError):
    """As PyTorch names it."""


def test_a_judge_without_memory_on_the_device_does_not_blame_the_task() -> None:
    assert failed("no inputs", OutOfMemoryError("CUDA out of memory"), "cuda")["verdict"] is Verdict.OUT_OF_MEMORY
    assert failed("no inputs", ValueError("x"), "cuda")["verdict"] is Verdict.TASK_ERROR
