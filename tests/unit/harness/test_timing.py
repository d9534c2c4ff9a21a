"""When enough calls have been timed, and what their times come to."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.domain.score_interval import Interval, full_score_text, score_interval
from hpc_board.harness.measure.timing import enough, of_rows, of_two_clocks, timing
from hpc_board.model.limits import Limits, limit_faults
from hpc_board.model.measurement import calls_needed, spread
from hpc_board.model.result import Case, Timing, Verdict
from hpc_board.model.score import duration_text, interval_text, least_score_s, score_s
from hpc_board.model.task import Ranking
from tests.unit.recorded import row_case

LIMITS = Limits()


@pytest.mark.parametrize(
    ("measured", "ranking_by", "least_s"),
    [({}, Ranking.MEAN, 1e-7), ({0: 3e-3}, Ranking.MEAN, 1e-3 + 2e-7 / 3), ({0: 1e-3}, Ranking.LAST, 1e-7)],
)
def test_the_least_score_has_the_floor_for_cases_that_are_not_measured(
    measured: dict[int, float], ranking_by: Ranking, least_s: float
) -> None:
    cases = [
        row_case(index, low_ns=1e9 * each, time_ns=1e9 * each, high_ns=1e9 * each) for index, each in measured.items()
    ]
    assert least_score_s(cases, 3, 1e-7, ranking_by) == pytest.approx(least_s)


def test_an_effort_is_the_width_of_the_interval_at_which_measuring_ends() -> None:
    found = [LIMITS.with_effort(each).interval for each in ("normal", "quick", "2.5", "100")]
    assert found == [LIMITS.interval, 0.2, 0.025, 1]


@given(st.lists(st.floats(1, 1e9), min_size=1, max_size=50))
def test_the_statistics_are_those_of_the_samples(samples: list[float]) -> None:
    found = timing([samples])
    assert found.samples == len(samples)
    assert found.best_ns <= found.time_ns <= found.worst_ns
    assert found.mean_ns == pytest.approx(sum(samples) / len(samples))
    assert found.samples_ns == tuple(samples)
    if len(samples) > 1:
        assert found.err_ns == pytest.approx(statistics.stdev(samples) / len(samples) ** 0.5)


def test_no_speed_of_a_submission_makes_fewer_calls_than_the_floor_count() -> None:
    assert not enough([1e6] * (LIMITS.timed_calls_min - 1), 1000, LIMITS, 1)
    assert enough([1e6] * LIMITS.timed_calls_min, 1000, LIMITS, 1)


def test_slow_calls_need_only_five() -> None:
    assert calls_needed([300e6], LIMITS) == 5
    assert calls_needed([100e6], LIMITS) == LIMITS.timed_calls_min


def test_calls_end_a_case_once_the_interval_of_their_median_is_narrow() -> None:
    calls_ns = [1e6, 1.004e6] * 10
    assert enough(calls_ns, 1, LIMITS, 1)
    assert not enough([*calls_ns, *[1.2e6] * 20], 1, LIMITS, 1)


def test_scattered_times_go_on_until_the_cap() -> None:
    scattered = [1e6, 3e6] * 99
    assert not enough(scattered, 1, LIMITS, 1)
    assert enough([*scattered, 1e6, 3e6], 1, LIMITS, 1)


def test_throttled_calls_are_left_out_until_the_time_is_over() -> None:
    assert not enough([1e6] * 19, 1, LIMITS, 1, throttled=100)
    assert enough([1e6] * 20, 1, LIMITS, 1, throttled=100)
    assert enough([1e6] * 19, LIMITS.case_seconds, LIMITS, 1, throttled=1)


def test_workers_differ_by_a_share_of_their_median() -> None:
    assert spread([2, 11, 5]) == pytest.approx(9 / 5)
    assert spread([7]) == 0


def test_a_worker_that_is_left_out_is_the_one_that_differs_most() -> None:
    assert spread([100, 101, 102, 103, 160], leaving_out=1) == pytest.approx(3 / 102)
    assert spread([40, 101, 102, 103, 104], leaving_out=1) == pytest.approx(3 / 102)


def case(time_ns: float, phase: str = "benchmark") -> Case:
    times = Timing(3, time_ns, time_ns, 0, 0, time_ns, time_ns, (time_ns,) * 3)
    return Case(phase, 0, "", Verdict.PASS, timing=times)


@pytest.mark.parametrize(("ranking", "score"), [(Ranking.LAST, 8.0), (Ranking.MEAN, 5.0), (Ranking.GEOM, 4.0)])
def test_the_score_follows_the_task_s_ranking(ranking: Ranking, score: float) -> None:
    assert score_s([case(2e9), case(8e9)], ranking) == pytest.approx(score)


def test_a_case_of_no_time_gives_no_score() -> None:
    assert score_s([case(0), case(8e9)], Ranking.GEOM) is None
    assert score_s([], Ranking.GEOM) is None


@pytest.mark.parametrize(
    ("ranking", "bounds"), [(Ranking.LAST, (8, 18)), (Ranking.MEAN, (5, 13.5)), (Ranking.GEOM, (4, 162**0.5))]
)
def test_the_interval_of_a_score_follows_the_task_s_ranking(ranking: Ranking, bounds: tuple[float, float]) -> None:
    cases = [row_case(0, low_ns=2e9, high_ns=9e9), row_case(1, low_ns=8e9, high_ns=18e9), case(5e9, "test")]
    found = score_interval(cases, ranking)
    assert found is not None
    assert (found.low_s, found.high_s) == pytest.approx(bounds)


def test_a_score_of_which_a_case_has_no_interval_has_none() -> None:
    assert score_interval([row_case(), case(2e9)], Ranking.LAST) is None
    assert score_interval([row_case(low_ns=0.0)], Ranking.GEOM) is None
    assert score_interval([row_case(low_ns=5e-324)], Ranking.GEOM) is None
    assert score_interval([], Ranking.GEOM) is None


@pytest.mark.parametrize(
    ("low_ns", "high_ns", "text"),
    [
        (1.9e6, 2.4e6, "1.90 to 2.40 ms"),
        (0.95e6, 1.05e6, "0.95 to 1.05 ms"),
        (9.5e3, 1.05e6, "9.50 µs to 1.05 ms"),
        (95, 105, "95.0 to 105 ns"),
        (2e9, 3e12, "2.00 to 3000 s"),
    ],
)
def test_an_interval_has_one_unit_where_that_leaves_digits(low_ns: float, high_ns: float, text: str) -> None:
    assert interval_text(low_ns, high_ns) == text


def test_an_interval_is_told_beside_its_score_where_it_is_wide() -> None:
    assert full_score_text(2.1e-3, Interval(1.9e-3, 2.4e-3)) == "2.10 ms (1.90 to 2.40 ms)"
    assert full_score_text(2e-3, Interval(1.96e-3, 2.05e-3)) == "2.00 ms"
    assert full_score_text(2e-3, None) == "2.00 ms"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        *((999, "999 ns"), (2_345, "2.35 µs"), (45_678, "45.7 µs"), (456_780, "457 µs"), (5e6, "5.00 ms")),
        *((3e9, "3.00 s"), (999_600, "1.00 ms"), (9_996, "10.0 µs"), (99.96e6, "100 ms"), (999.4e3, "999 µs")),
    ],
)
def test_a_time_is_shown_with_three_digits_and_its_unit(nanoseconds: float, text: str) -> None:
    assert duration_text(nanoseconds) == text


def test_every_wrong_limit_of_a_task_is_named() -> None:
    faults = limit_faults({"call_second": 3, "timed_calls_min": 0, "case_seconds": float("nan"), "load_seconds": 5})
    assert set(faults) == {"call_second", "timed_calls_min", "case_seconds"}


def test_of_rows_the_lower_quartile_counts_and_no_less_than_the_floor_and_calls_alone() -> None:
    rows = [[10.0, 12.0, 11.0], [50.0, 10.5, 60.0]]
    found = of_rows(rows, [30.0, 20.0, 90.0], [1.0, 2.0], floor_ns=1, bound_ns=0, busy=0.5)
    assert found.time_ns == pytest.approx(10.625)
    assert (found.low_ns, found.high_ns) == (10, 12)
    assert (found.worker_samples, found.reference_ns, found.kernel_clock_ns, found.is_busy) == ((3, 3), 25, 1.5, True)
    assert (found.reference_low_ns, found.reference_high_ns, found.reference_is_wide) == (20, 90, True)
    slow = of_rows(rows, [], [1.0], floor_ns=1, bound_ns=20, busy=0)
    assert (slow.time_ns, slow.low_ns, slow.high_ns, slow.bound_ns, slow.is_busy) == (20, 10, 20, 20, False)
    assert (slow.best_ns, slow.worst_ns, slow.is_bounded, found.is_bounded) == (20, 60, False, False)
    tiny = of_rows(rows, [], [1.0], floor_ns=100, bound_ns=0, busy=0)
    assert (tiny.time_ns, tiny.low_ns, tiny.high_ns) == (100, 100, 100)


TIMES = st.lists(st.lists(st.floats(1, 1e9), min_size=1, max_size=9), min_size=1, max_size=5)


@given(TIMES, st.floats(0, 1e9))
def test_the_time_lies_between_the_best_and_the_worst_and_within_its_interval(
    rows: list[list[float]], b: float
) -> None:
    for found in (of_rows(rows, [], [], floor_ns=0, bound_ns=b, busy=0), two_clocks(rows, [[max(1.0, b)]])):
        assert found.best_ns <= found.time_ns <= found.worst_ns
        assert (found.low_ns or 0) <= found.time_ns <= (found.high_ns or 0)


def test_a_time_by_calls_alone_is_not_above_the_longest_that_a_call_takes() -> None:
    found = of_rows([[151_000.0, 153_000.0, 280_151.0]], [], [], floor_ns=0, bound_ns=349_858.0, busy=0)
    assert (found.time_ns, found.best_ns, found.worst_ns, found.mean_ns) == (349_858.0,) * 4
    assert found.is_bounded
    assert found.samples_ns == (151_000.0, 153_000.0, 280_151.0)


def test_the_interval_of_a_speedup_has_those_of_both_times() -> None:
    found = of_rows([[100.0, 100.0, 125.0]], [400.0, 400.0, 800.0], [], floor_ns=0, bound_ns=0, busy=0)
    assert found.speedup == pytest.approx(4)
    assert found.speedup_bounds == pytest.approx((4 / 1.25, 8))
    assert of_rows([[100.0]], [400.0], [], floor_ns=0, bound_ns=0, busy=0).speedup_bounds is None


def two_clocks(claims: list[list[float]], windows: list[list[float]], slack_ns: float = 1.0) -> Timing:
    return of_two_clocks(claims, windows, [30.0], slack_ns=slack_ns, floor_ns=1, busy=0, throttled=False)


def test_a_claim_within_the_bound_of_the_windows_counts() -> None:
    found = two_clocks([[20.0, 21.0, 22.0], [19.0, 20.0, 20.5], [22.0, 22.0, 23.0]], [[21.5], [20.0], [22.5]])
    assert (found.time_ns, found.kernel_clock_ns, found.bound_ns, found.slack_ns) == (21, 21, 20.5, 1)
    assert list(found.samples_ns) == [20, 21, 22, 19, 20, 20.5, 22, 22, 23]
    half_ns = 1.886 / 3**0.5
    assert (found.low_ns, found.high_ns) == pytest.approx((21 - half_ns, 21 + half_ns), abs=1e-3)


def test_a_claim_gains_no_more_than_the_slack() -> None:
    found = two_clocks([[0.1], [0.1], [0.1]], [[20.0, 400.0, 20.0], [21.0], [22.0]], slack_ns=2.0)
    assert (found.time_ns, found.kernel_clock_ns, found.bound_ns) == (19, 0.1, 19)
    assert (found.low_ns or 0) < 19 < (found.high_ns or 0)


def test_windows_count_where_no_claim_does() -> None:
    found = two_clocks([], [[20.0, 22.0, 21.0]], slack_ns=3.0)
    assert (found.time_ns, found.kernel_clock_ns, found.bound_ns, found.slack_ns) == (21, None, 1, 0)
    assert (found.low_ns, found.high_ns) == (17, 25), "the overhead of a single process is uncertain"


def test_the_interval_of_a_single_worker_is_that_of_its_calls() -> None:
    found = two_clocks([[float(number) for number in range(1, 22)]], [[11.0]])
    assert (found.time_ns, found.low_ns, found.high_ns) == (11, 8, 14)


def test_the_floor_bounds_both_clocks() -> None:
    assert two_clocks([[0.2]], [[0.3]]).time_ns == 1
    assert two_clocks([], [[0.3]]).time_ns == 1
