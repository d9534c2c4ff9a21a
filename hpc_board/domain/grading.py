"""Grading: points for results by rank or by speedup, and the standings of several tasks together."""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from hpc_board.domain.reference import ratio_of
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Mark, Page, Standing
from hpc_board.errors import InputError
from hpc_board.model.score import score_of
from hpc_board.model.task import Ranking
from hpc_board.model.text import one_line

RULE_ENTRIES_MAX = 100
POINTS_MAX = 1_000_000

RULE_WORDS = 'thresholds of the speedup such as "pass: 20, 1x: 50, 2x: 80", or last ranks such as "1: 25, 3: 15, 10: 5"'
"""The forms that `points_rule` reads, as text for users."""

SCORE_WORDS = "points, geomean, sum or fast_P, such as fast_1.5"
"""The scores of a competition, as text for users."""

_ENTRY = re.compile(
    r"(?:pass|(?P<speedup>[0-9]{1,6}(?:\.[0-9]{1,6})?)x|(?P<rank>[1-9][0-9]{0,6}))\s*:\s*"
    r"(?P<points>[0-9]{1,7}(?:\.[0-9]{1,2})?)"
)
_FAST = re.compile(r"fast_([0-9]{1,6}(?:\.[0-9]{1,6})?)")


class Estimate(msgspec.Struct, frozen=True):
    """A number with the bounds of its interval, which equal it where it is certain."""

    value: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """Return whether the number is the same everywhere in the interval."""
        return self.low == self.value == self.high


class BoardResult(msgspec.Struct, frozen=True):
    """The best passing ranked run of a user on one leaderboard.

    `first_rank` and `last_rank` are those that it may have by the intervals of all rows: behind those that are faster
    in any case, and behind those that may be faster. Equal scores share a rank.
    """

    task: str
    gpu: str
    rank: int
    first_rank: int
    last_rank: int
    score_s: float
    submission: int
    run: int
    submitted_at: datetime
    interval: Interval | None = None
    speedup: Estimate | None = None
    emulated: bool = False


class PointsRule(msgspec.Struct, frozen=True):
    """Points for a result: of the last threshold that its speedup reaches, or of the first entry that has its rank.

    `by_speedup` has least speedups, ascending, and `by_rank` last ranks, ascending, each with its points; `passed` are
    the least points of a passing run.
    """

    passed: float = 0
    by_speedup: tuple[tuple[float, float], ...] = ()
    by_rank: tuple[tuple[int, float], ...] = ()

    def of(self, result: BoardResult) -> Estimate:
        """Return the points of a result, with those at the bounds of its interval."""
        if self.by_rank:
            return Estimate(*map(self._of_rank, (result.rank, result.last_rank, result.first_rank)))
        if result.speedup is None:
            return Estimate(self.passed, self.passed, self.passed)
        return Estimate(*map(self._of_speedup, (result.speedup.value, result.speedup.low, result.speedup.high)))

    def _of_rank(self, rank: int) -> float:
        return next((points for last, points in self.by_rank if rank <= last), self.passed)

    def _of_speedup(self, speedup: float) -> float:
        # A mean of several cases is inexact in its last digits.
        rounded = round(speedup, 9)
        return next((points for least, points in reversed(self.by_speedup) if rounded >= least), self.passed)


class ScoreKind(StrEnum):
    """The number by which a competition ranks its users; the most is the best."""

    POINTS = "points"
    GEOMEAN = "geomean"
    SUM = "sum"
    FAST = "fast"


class Scoring(msgspec.Struct, frozen=True):
    """The rules of a competition: its score, the `p` of fast_p, and the points of a task's result."""

    kind: ScoreKind = ScoreKind.GEOMEAN
    p: float = 1.0
    points: PointsRule | None = None

    @property
    def name(self) -> str:
        """Return the name of the score: "points", "geomean", "sum" or "fast_1.5"."""
        return self.fast_name if self.kind is ScoreKind.FAST else str(self.kind)

    @property
    def fast_name(self) -> str:
        """Return the name of the share of tasks with a speedup above `p`: "fast_1.5"."""
        return f"fast_{self.p:g}"


class OverallRow(msgspec.Struct, frozen=True):
    """A user in the overall standings: the numbers of all tasks, and the result of each, None without one.

    A task without a passing run, or slower than its reference, counts as 1x in `geomean`, and as 0 in `sum` without
    one. `overlaps_above` says that the interval of the score overlaps that of the next better row.
    """

    rank: int
    user: str
    score: Estimate
    geomean: Estimate
    sum: Estimate
    fast: Estimate
    passed: int
    results: tuple[BoardResult | None, ...]
    points: Estimate | None = None
    overlaps_above: bool = False


class Overall(msgspec.Struct, frozen=True):
    """The overall standings of a competition: its tasks by name, and the rows, best first, of `total`.

    `own` are the names of the reader and of the reader's teams; `frozen` are the tasks whose newest submissions of
    others the reader does not see.
    """

    competition: str
    title: str
    scoring: Scoring
    tasks: tuple[str, ...]
    rows: tuple[OverallRow, ...]
    total: int
    own: frozenset[str]
    frozen: tuple[str, ...]


class LateResult(msgspec.Struct, frozen=True):
    """The best late run of a user on one leaderboard, which has no rank and no points."""

    gpu: str
    mark: Mark
    speedup: float | None = None


class TaskGrade(msgspec.Struct, frozen=True):
    """A user's results on a task: the best, the best late one, the points, and the times of submissions.

    Those that the user does not have are None. The results of a member of a `team` are the team's.
    """

    task: str
    result: BoardResult | None = None
    late: LateResult | None = None
    points: Estimate | None = None
    first_pass_at: datetime | None = None
    last_submitted_at: datetime | None = None
    team: str = ""


class Grade(msgspec.Struct, frozen=True):
    """A user's results on each task, and the sum of the points; None without a rule."""

    user: str
    tasks: tuple[TaskGrade, ...]
    points: Estimate | None = None


class Grades(msgspec.Struct, frozen=True):
    """The grades of users, by name, on these tasks."""

    tasks: tuple[str, ...]
    rows: tuple[Grade, ...]


def points_rule(text: str) -> PointsRule:
    """Read a rule in the form of `RULE_WORDS`.

    Raises:
        InputError: it is none, or a better result would get fewer points.
    """
    given = text.split(",")
    if len(given) > RULE_ENTRIES_MAX:
        raise _bad_rule(f"more than {RULE_ENTRIES_MAX} entries")
    passed, speedups, ranks = dict[str, float](), dict[float, float](), dict[int, float]()
    for entry in given:
        found = _ENTRY.fullmatch(entry.strip())
        if found is None or float(found["points"]) > POINTS_MAX:
            raise _bad_rule(f"invalid entry {one_line(entry.strip(), 80)!r}")
        points = float(found["points"])
        if found["rank"]:
            ranks[int(found["rank"])] = points
        elif found["speedup"]:
            speedups[float(found["speedup"])] = points
        else:
            passed["pass"] = points
    if len(passed) + len(speedups) + len(ranks) < len(given):
        raise _bad_rule("an entry is given twice")
    if speedups and ranks:
        raise _bad_rule("speedups and ranks are mixed")
    rule = PointsRule(sum(passed.values()), tuple(sorted(speedups.items())), tuple(sorted(ranks.items())))
    rising = [rule.passed, *(each for _, each in rule.by_speedup), *(each for _, each in reversed(rule.by_rank))]
    if rising != sorted(rising):
        raise _bad_rule("a better result would get fewer points")
    return rule


def _bad_rule(fault: str) -> InputError:
    return InputError(f"invalid points: {fault}.", hint=f"Give {RULE_WORDS}.")


def scoring(score: str, points: str) -> Scoring:
    """Read the score of a competition and its points; without a score, these are it, else the geometric mean.

    Raises:
        InputError: one of them is invalid, or the points are missing.
    """
    rule = points_rule(points) if points else None
    if not score:
        return Scoring(ScoreKind.GEOMEAN if rule is None else ScoreKind.POINTS, points=rule)
    if fast := _FAST.fullmatch(score):
        return Scoring(ScoreKind.FAST, float(fast[1]), rule)
    if score not in (ScoreKind.POINTS, ScoreKind.GEOMEAN, ScoreKind.SUM):
        raise InputError(f"invalid score {one_line(score, 40)!r}.", hint=f"Use {SCORE_WORDS}.")
    if score == ScoreKind.POINTS and rule is None:
        raise InputError("the score is `points`, and there is no rule for them.", hint=f"Give {RULE_WORDS}.")
    return Scoring(ScoreKind(score), points=rule)


def board_results(task: str, page: Page) -> dict[str, BoardResult]:
    """Return the results of the users on a page with all rows of a leaderboard."""
    found, bounds = {}, [row.interval or Interval(row.score_s, row.score_s) for row in page.rows]
    lows, highs = sorted(each.low_s for each in bounds), sorted(each.high_s for each in bounds)
    for row, own in zip(page.rows, bounds, strict=True):
        found[row.user] = BoardResult(
            task,
            page.gpu,
            row.rank,
            1 + bisect_left(highs, own.low_s),
            # Its own low bound is one of these.
            1 + bisect_left(lows, own.high_s) - (own.low_s < own.high_s),
            row.score_s,
            row.submission,
            row.run,
            row.submitted_at,
            row.interval,
            _speedup(page, row),
            row.emulated,
        )
    return found


def _speedup(page: Page, row: Standing) -> Estimate | None:
    """Return the speedup of a row over the reference; None if that was not timed."""
    found = page.speedup(row)
    return None if found is None else Estimate(found.ratio, found.low or found.ratio, found.high or found.ratio)


def best_results(task: str, pages: Iterable[Page], rule: PointsRule | None) -> dict[str, BoardResult]:
    """Return the result of each user that counts for a task, of pages with all rows of its leaderboards."""
    found: dict[str, list[BoardResult]] = {}
    for page in pages:
        for user, result in board_results(task, page).items():
            found.setdefault(user, []).append(result)
    return {user: best_result(results, rule) for user, results in found.items()}


def late_results(pages: Iterable[Page]) -> dict[str, LateResult]:
    """Return the late run of each user with the highest speedup, or without any the fastest one."""
    late = [LateResult(page.gpu, mark, ratio_of(page.speedup(mark))) for page in pages for mark in page.late]
    late.sort(key=lambda each: (each.speedup or 0.0, -each.mark.score_s))
    return {each.mark.name: each for each in late}


def best_result(results: Iterable[BoardResult], rule: PointsRule | None) -> BoardResult:
    """Return the result of a task that counts: on the GPU with the most points, then with the highest speedup."""

    def worth(result: BoardResult) -> tuple[float, float, int]:
        points = 0.0 if rule is None else rule.of(result).value
        return points, 0.0 if result.speedup is None else result.speedup.value, -result.rank

    return max(results, key=worth)


def overall_rows(results: Collection[Mapping[str, BoardResult]], scored: Scoring) -> tuple[OverallRow, ...]:
    """Return the overall standings of the users with a result, the best first; `results` has those of each task."""
    users = {user for of_task in results for user in of_task}
    rows = [_overall_row(user, [of_task.get(user) for of_task in results], scored) for user in users]
    rows.sort(key=lambda row: (-row.score.value, row.user))
    ranked: list[OverallRow] = []
    for place, row in enumerate(rows, start=1):
        above = ranked[-1] if ranked else None
        rank = above.rank if above is not None and above.score.value == row.score.value else place
        overlaps = above is not None and row.score.high >= above.score.low
        ranked.append(msgspec.structs.replace(row, rank=rank, overlaps_above=overlaps))
    return tuple(ranked)


def _overall_row(user: str, results: Sequence[BoardResult | None], scored: Scoring) -> OverallRow:
    speedups = [None if result is None else result.speedup for result in results]
    rule = scored.points
    points = None if rule is None else total([rule.of(result) for result in results if result is not None])
    sums, means, fast = (
        _joint(function, speedups)
        for function in (
            math.fsum,
            lambda found: score_of([max(1.0, each) for each in found], Ranking.GEOM),
            lambda found: sum(each > scored.p for each in found) / len(found),
        )
    )
    by_kind = {ScoreKind.GEOMEAN: means, ScoreKind.SUM: sums, ScoreKind.FAST: fast}
    if points is not None:
        by_kind[ScoreKind.POINTS] = points
    passed = sum(result is not None for result in results)
    return OverallRow(0, user, by_kind[scored.kind], means, sums, fast, passed, tuple(results), points)


def _joint(function: Callable[[Sequence[float]], float], speedups: Sequence[Estimate | None]) -> Estimate:
    """Return a rising function of the speedups of all tasks, with its values at all lower and all upper bounds."""
    known = [each or Estimate(0.0, 0.0, 0.0) for each in speedups]
    bounds = ([each.value for each in known], [each.low for each in known], [each.high for each in known])
    return Estimate(*map(function, bounds))


def total(points: Sequence[Estimate]) -> Estimate:
    """Return the sum of points, with the sums of their bounds."""
    return Estimate(
        math.fsum(each.value for each in points),
        math.fsum(each.low for each in points),
        math.fsum(each.high for each in points),
    )
