"""The progress of a running run by the lines of its harness."""

from datetime import timedelta

import pytest

from hpc_board.domain.run import Progress
from hpc_board.model.task import Mode
from hpc_board.report.run_progress import RunProgress, run_progress, time_left

_COUNTS = {"test": 4, "benchmark": 3, "profile": 3}


def _steps(*steps: tuple[str, int | None, int | None]) -> list[Progress]:
    return [Progress("2030-05-17T12:00:00Z", phase, case, of, "") for phase, case, of in steps]


@pytest.mark.parametrize(
    ("mode", "steps", "expected"),
    [
        (Mode.RANKED, [("load", None, None)], RunProgress(0, 7, "load")),
        (Mode.RANKED, [("test", 1, 4)], RunProgress(0, 7, "test 1 of 4")),
        (Mode.RANKED, [("test", 4, 4), ("benchmark", 2, 3)], RunProgress(5, 7, "benchmark 2 of 3")),
        (Mode.TEST, [("test", 3, 4)], RunProgress(2, 4, "test 3 of 4")),
        (Mode.BENCHMARK, [("benchmark", 3, 3)], RunProgress(2, 3, "benchmark 3 of 3")),
        (Mode.PROFILE, [("profile", 2, 3)], RunProgress(1, 3, "profile 2 of 3")),
    ],
)
def test_cases_of_all_phases_of_a_mode_count(
    mode: Mode, steps: list[tuple[str, int | None, int | None]], expected: RunProgress
) -> None:
    assert run_progress(mode, _steps(*steps), _COUNTS) == expected


def test_a_run_without_a_line_has_no_progress() -> None:
    assert run_progress(Mode.RANKED, (), _COUNTS) is None


def test_the_harness_knows_the_cases_better_than_the_task_of_today() -> None:
    assert run_progress(Mode.RANKED, _steps(("test", 2, 6), ("benchmark", 1, 2)), _COUNTS) == RunProgress(
        6, 8, "benchmark 1 of 2"
    )


def test_the_bar_stays_where_benchmarks_in_rows_begin_again() -> None:
    steps = _steps(("test", 4, 4), ("benchmark", 3, 3), ("benchmark", 1, 3))
    assert run_progress(Mode.RANKED, steps, _COUNTS) == RunProgress(6, 7, "benchmark 1 of 3")


@pytest.mark.parametrize("case", [-5, 0, 10**9])
def test_impossible_numbers_of_a_node_stay_on_the_bar(case: int) -> None:
    found = run_progress(Mode.RANKED, _steps(("benchmark", case, 3)), _COUNTS)
    assert found is not None
    assert 0 <= found.done <= found.total


def test_the_time_left_is_the_rest_of_the_usual_time() -> None:
    second = timedelta(seconds=1)
    assert time_left(56 * second, 80 * second) == 24 * second
    assert time_left(80 * second, 80 * second) is None
    assert time_left(None, 80 * second) is None
    assert time_left(56 * second, None) is None
