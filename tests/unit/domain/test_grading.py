"""Points by rank and by thresholds, and the standings of several tasks together."""

from collections.abc import Sequence
from itertools import product

import pytest

from hpc_board.domain.grading import (
    BoardResult,
    Estimate,
    OverallRow,
    best_result,
    board_results,
    overall_rows,
    points_rule,
    scoring,
)
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Page, Standing
from hpc_board.errors import InputError
from tests.unit.recorded import AT


def result(task: str, speedup: Sequence[float] | float | None, *, ranks: Sequence[int] = (1, 1, 1)) -> BoardResult:
    """A result with a speedup, which may have bounds, and with the ranks that it may have: the own, first and last."""
    bounds = (speedup, speedup, speedup) if isinstance(speedup, int | float) else speedup
    of_speedup = None if bounds is None else Estimate(*bounds)
    rank, first, last = ranks
    return BoardResult(task, "H100", rank, first, last, 1e-3, 1, 1, AT, speedup=of_speedup)


@pytest.mark.parametrize(
    ("intervals", "ranks"),
    [
        ([(9, 10), (10, 11)], [(1, 1), (1, 2)]),
        ([(9, 10), (10, 10)], [(1, 1), (1, 2)]),
        ([(10, 10), (10, 11)], [(1, 1), (1, 2)]),
        ([(10, 10), (10, 10)], [(1, 1), (1, 1)]),
        ([(9, 10), (9, 10)], [(1, 2), (1, 2)]),
        ([(9, 11), (10, 10)], [(1, 2), (1, 2)]),
        ([(9, 10), (10, 11), (11, 12)], [(1, 1), (1, 2), (2, 3)]),
        ([(9, 10), (10, 10), (10, 10), (10, 11)], [(1, 1), (1, 2), (1, 2), (1, 4)]),
    ],
)
def test_ranks_by_intervals_are_those_of_all_scores_in_them(
    intervals: Sequence[tuple[int, int]], ranks: Sequence[tuple[int, int]]
) -> None:
    rows = [
        Standing(1, f"user{number}", low, number, number, AT, "a.py", "", "", interval=Interval(low, high))
        for number, (low, high) in enumerate(intervals)
    ]
    found = board_results("a", Page("H100", "", tuple(rows), len(rows))).values()
    assert [(each.first_rank, each.last_rank) for each in found] == ranks
    possible = [
        [1 + sum(other < score for other in scores) for score in scores]
        for scores in product(*((low, (low + high) / 2, high) for low, high in intervals))
    ]
    assert [(min(of_row), max(of_row)) for of_row in zip(*possible, strict=True)] == ranks


THRESHOLDS = "pass: 20, 1x: 50, 2x: 80, 4.5x: 100"
RANKS = "1: 25, 3: 15.5, 10: 5"


@pytest.mark.parametrize(
    ("rule", "given", "points"),
    [
        (THRESHOLDS, result("a", None), (20, 20, 20)),
        (THRESHOLDS, result("a", 0.99), (20, 20, 20)),
        (THRESHOLDS, result("a", 1.0), (50, 50, 50)),
        (THRESHOLDS, result("a", 1.9999999999999991), (80, 80, 80)),
        (THRESHOLDS, result("a", 99), (100, 100, 100)),
        (THRESHOLDS, result("a", (2.1, 1.9, 2.3)), (80, 50, 80)),
        (THRESHOLDS, result("a", (4.4, 4.3, 4.6)), (80, 80, 100)),
        (RANKS, result("a", 9, ranks=(1, 1, 2)), (25, 15.5, 25)),
        (RANKS, result("a", 9, ranks=(3, 3, 3)), (15.5, 15.5, 15.5)),
        (RANKS, result("a", 9, ranks=(4, 3, 4)), (5, 5, 15.5)),
        (RANKS, result("a", 9, ranks=(11, 11, 11)), (0, 0, 0)),
        (f"{RANKS},pass:1", result("a", 9, ranks=(11, 11, 11)), (1, 1, 1)),
    ],
)
def test_points_have_the_values_at_both_bounds(rule: str, given: BoardResult, points: Sequence[float]) -> None:
    assert points_rule(rule).of(given) == Estimate(*points)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("", "invalid entry ''"),
        ("2: x", "invalid entry '2: x'"),
        ("0: 5", "invalid entry"),
        ("-1x: 5", "invalid entry"),
        ("1x: 5, 1: 3", "speedups and ranks are mixed"),
        ("1x: 5, 1.0x: 6", "given twice"),
        ("pass: 1, pass: 1", "given twice"),
        ("1x: 50, 2x: 40", "fewer points"),
        ("1: 5, 2: 6", "fewer points"),
        ("pass: 9, 1: 5", "fewer points"),
        ("1x: 1000001", "invalid entry"),
        (",".join(f"{n}: 1" for n in range(1, 102)), "more than 100 entries"),
        ("1x: nan\x1b[31m", "invalid entry '1x: nan"),
    ],
)
def test_a_rule_with_a_fault_is_refused(rule: str, fault: str) -> None:
    with pytest.raises(InputError, match="invalid points: ") as caught:
        points_rule(rule)
    assert fault in caught.value.message
    assert "\x1b" not in caught.value.message


def test_the_gpu_with_the_most_points_counts() -> None:
    slow, fast = result("a", 1.5, ranks=(1, 1, 1)), result("a", 3.0, ranks=(9, 9, 9))
    assert best_result([slow, fast], None) is fast
    assert best_result([slow, fast], points_rule(RANKS)) is slow


def overall(score: str, points: str = "") -> Sequence[OverallRow]:
    of_a = {
        "ada": result("a", (4.0, 3.0, 5.0)),
        "bob": result("a", (2.0, 1.5, 3.5)),
        "eve": result("a", 1.0),
        "mia": result("a", None),
    }
    of_b = {"ada": result("b", 0.5), "bob": result("b", 2.0)}
    return overall_rows([of_a, of_b], scoring(score, points))


@pytest.mark.parametrize(
    ("score", "points", "values", "ranks", "ties"),
    [
        ("geomean", "", (2.0, 2.0, 1.0, 1.0), (1, 1, 3, 3), "ftft"),
        ("sum", "", (4.5, 4.0, 1.0, 0.0), (1, 2, 3, 4), "ftff"),
        ("fast_1", "", (0.5, 1.0, 0.0, 0.0), (2, 1, 3, 3), "ffft"),
        ("fast_2.5", "", (0.5, 0.0, 0.0, 0.0), (1, 2, 2, 2), "fttt"),
        ("", THRESHOLDS, (100, 160, 50, 20), (2, 1, 3, 4), "ffff"),
    ],
)
def test_users_are_ranked_by_the_score_of_the_competition(
    score: str, points: str, values: Sequence[float], ranks: Sequence[int], ties: str
) -> None:
    rows = {row.user: row for row in overall(score, points)}
    found = [rows[user] for user in ("ada", "bob", "eve", "mia")]
    assert [row.score.value for row in found] == pytest.approx(values)
    assert [row.rank for row in found] == list(ranks)
    in_order = sorted(found, key=lambda row: (row.rank, row.user))
    assert "".join("ft"[row.overlaps_above] for row in in_order) == ties
    assert [row.passed for row in found] == [2, 2, 1, 1]
    assert rows["ada"].geomean.low == pytest.approx(3.0**0.5)


@pytest.mark.parametrize(("score", "points"), [("points", ""), ("fastest", ""), ("fast_", ""), ("geomean", "1x")])
def test_a_score_with_a_fault_is_refused(score: str, points: str) -> None:
    with pytest.raises(InputError):
        scoring(score, points)
