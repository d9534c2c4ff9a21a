"""The time that counts, how well it is known, and what calls that were made one by one say of it."""

import math
import random
import statistics

import pytest

from hpc_board.model.measurement import least_of_row_ns, lower_quartile, quartile_interval, workers_interval


@pytest.mark.parametrize(
    ("values", "quartile"), [([5.0], 5.0), ([1.0, 2.0], 1.25), ([4.0, 1.0, 3.0, 2.0, 5.0], 2.0), ([7.0] * 9, 7.0)]
)
def test_the_lower_quartile_lies_between_values_in_proportion(values: list[float], quartile: float) -> None:
    assert lower_quartile(values) == pytest.approx(quartile)


def test_what_disturbs_most_rows_does_not_move_the_lower_quartile_far() -> None:
    assert lower_quartile([10.0, 10.1, 10.2, 10.1] + [30.0] * 8) < 10.3


@pytest.mark.parametrize("count", [6, 9, 18, 40])
def test_the_interval_holds_the_quartile_of_all_rows_in_eight_of_ten_measurements(count: int) -> None:
    generator = random.Random(7)
    true = -math.log(0.75)
    held = sum(
        low <= true <= high
        for low, high in (quartile_interval([generator.expovariate(1) for _ in range(count)]) for _ in range(4000))
    )
    assert 0.78 < held / 4000 < 0.97


def test_of_two_rows_the_interval_is_their_range() -> None:
    assert quartile_interval([3.0, 1.0]) == (1.0, 3.0)
    assert quartile_interval([3.0]) == (3.0, 3.0)


def test_more_rows_make_the_interval_narrower() -> None:
    generator = random.Random(3)
    few, many = ([generator.gauss(100, 1) for _ in range(count)] for count in (9, 60))
    widths = [high - low for low, high in (quartile_interval(few), quartile_interval(many))]
    assert widths[0] > 0.5 * widths[1] > 0
    assert quartile_interval(many)[1] < 100.5


def test_the_work_and_a_call_alone_bound_the_calls_of_a_row() -> None:
    assert least_of_row_ns(-1.0, 5e3) == 0
    assert least_of_row_ns(math.inf, 4e6) == least_of_row_ns(4e6, 5e6) == pytest.approx(3.8e6)


def test_thousands_of_values_have_an_interval_too() -> None:
    low, high = quartile_interval(range(5000))
    assert 1200 < low < 1250 < high < 1300


@pytest.mark.parametrize("between_ns", [500.0, 1000.0, 2000.0])
@pytest.mark.parametrize("workers", [3, 5])
def test_the_interval_of_workers_that_differ_holds_the_time_of_all_in_eight_of_ten_runs(
    workers: int, between_ns: float
) -> None:
    generator = random.Random(11)
    held = 0
    for _ in range(2000):
        offsets_ns = [generator.gauss(0, between_ns) for _ in range(workers)]
        times_ns = [[20e3 + each + generator.gauss(0, 300) for _ in range(7)] for each in offsets_ns]
        low_ns, high_ns = workers_interval([statistics.median(each) for each in times_ns])
        held += low_ns <= 20e3 <= high_ns
    assert 0.77 < held / 2000 < 0.83
