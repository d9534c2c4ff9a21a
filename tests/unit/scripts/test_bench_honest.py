"""The comparison of busy runs with quiet ones, and the goals."""

from types import ModuleType

import pytest

from tests.unit.scripts.loading import script


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("bench_honest")


def missed(bench: ModuleType, *runs: tuple[str, int, int, float | None]) -> list[str]:
    """Return the goals that runs miss, each given by kernel, neighbours, turn and score; None is one that fails."""
    ran = [
        bench.Ran(kernel, neighbours, turn, "pass" if score else "unstable", "", 1.0, score, score and 0.99 * score)
        for kernel, neighbours, turn, score in runs
    ]
    found: list[str] = bench.missed_goals(bench.settings(ran))
    return found


def test_a_turn_has_every_number_of_neighbours_and_is_never_cut(bench: ModuleType) -> None:
    kernels = [bench.Kernel(name, None, None) for name in "abc"]
    planned = bench.plan(kernels, 10)
    assert planned == bench.plan(kernels, 10)
    assert len(planned) == 12
    for turn in range(1, 5):
        runs = [each for each in planned if each.turn == turn]
        assert sorted(each.neighbours for each in runs) == [0, 1, 2]
        assert len({each.kernel.name for each in runs}) == 1


def test_a_busy_run_is_compared_with_the_quiet_one_of_its_turn(bench: ModuleType) -> None:
    drifted = missed(bench, ("a", 0, 1, 100.0), ("a", 1, 1, 104.0), ("a", 0, 2, 50.0), ("a", 1, 2, 51.0))
    assert not any("one neighbour" in each for each in drifted)
    (words,) = missed(bench, ("a", 0, 1, 100.0), ("a", 1, 1, 90.0))
    assert words == "beside one neighbour, a run is 9.1% better than its quiet interval"


def test_a_busy_run_whose_quiet_one_failed_still_counts(bench: ModuleType) -> None:
    words = missed(bench, ("a", 0, 1, None), ("a", 1, 1, 50.0), ("a", 0, 2, 100.0), ("a", 1, 2, 100.0))
    assert any("49.5% better" in each for each in words)
    assert missed(bench, ("a", 1, 1, 50.0)) == ["beside one neighbour, 1 runs have no quiet run of their kernel"]


def test_a_quiet_run_is_compared_with_the_others(bench: ModuleType) -> None:
    words = missed(bench, ("a", 0, 1, 100.0), ("a", 0, 2, 50.0), ("a", 0, 3, 100.0))
    assert any("49.5% better" in each for each in words)
