"""Measure the power of `compare`: the share of differences that it finds, beside Welch's test over processes.

The runs are made by `tests/noisy_runs.py`, with the noise of real ones. The exit code is 1 if a goal is missed.
"""

import math
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board.domain.comparison import compared
from hpc_board.model.result import Case
from hpc_board.model.score import score_of
from hpc_board.model.task import Ranking
from tests.noisy_runs import BUSY, QUIET, STEADY_GPU, Noise, Repeats, always, ranked_run

SEED = 40_961
COMPARISONS = 1000
RATIOS = (1.0, 1.05, 1.1, 1.25)
CASES = (1, 3)
CONDITIONS = {"quiet CPU": QUIET, "busy CPU": BUSY, "steady GPU": STEADY_GPU}

FALSE_MAX = 0.05
FOUND_MIN = {("quiet CPU", 1.1): 0.9, ("quiet CPU", 1.25): 0.95, ("busy CPU", 1.25): 0.95, ("steady GPU", 1.1): 0.9}

REPEATS: dict[str, Repeats] = {
    "never": lambda *_: False,
    "until narrow": always,
    "until narrow or no narrower": lambda before, after: before is None or after.interval < before.interval,
    "until narrow or not a tenth narrower": lambda before, after: (
        before is None or after.interval < 0.9 * before.interval
    ),
}

# Student's t for 95 % in two tails, by degrees of freedom; between two rows, the row with fewer applies.
STUDENT = ((1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (6, 2.447), (8, 2.306), (10, 2.228), (12, 2.179))


def main() -> int:
    """Print the table; 1 if a goal is missed."""
    missed = []
    print(f"| machine | cases | test | {' | '.join(f'{ratio:.2f}x' for ratio in RATIOS)} |")
    print(f"|---|---:|---|{'---:|' * len(RATIOS)}")
    for name, noise in CONDITIONS.items():
        for cases in CASES:
            found = {ratio: shares(noise, cases, ratio) for ratio in RATIOS}
            for index, test in enumerate(("Welch", "`compare`")):
                cells = " | ".join(f"{100 * found[ratio][index]:.1f} %" for ratio in RATIOS)
                print(f"| {name} | {cases} | {test} | {cells} |", flush=True)
            missed += missed_goals(name, cases, {ratio: found[ratio][1] for ratio in RATIOS})
    print(repeats_table())
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(missed))


def shares(noise: Noise, cases: int, ratio: float) -> tuple[float, float]:
    """Return the share of comparisons that show a difference, by Welch's test and by `compare`."""
    chance = random.Random(SEED)  # noqa: S311
    pairs = [(ranked_run(chance, noise, cases, ratio), ranked_run(chance, noise, cases)) for _ in range(COMPARISONS)]
    return (
        statistics.fmean(is_shown_by_welch(one, other) for one, other in pairs),
        statistics.fmean(is_shown(one, other) for one, other in pairs),
    )


def repeats_table() -> str:
    """Return the table of rules by which a wide case is measured again: its rows, and the error of the score.

    The last column is the error of the same number of rows: the rule with the least spends its rows best.
    """
    lines = ["", "| machine | measured again | rows | error | error x sqrt(rows) |", "|---|---|---:|---:|---:|"]
    for name, noise in CONDITIONS.items():
        for rule, repeats in REPEATS.items():
            chance = random.Random(SEED)  # noqa: S311
            alone = replace(noise, runs=0)
            runs = [ranked_run(chance, alone, max(CASES), repeats=repeats) for _ in range(COMPARISONS)]
            timings = [[case.timing for case in cases if case.timing] for cases in runs]
            rows = statistics.fmean(each.samples for found in timings for each in found)
            scores = [math.log(score_of([each.time_ns for each in found], Ranking.GEOM)) for found in timings]
            error = statistics.stdev(scores)
            lines.append(
                f"| {name} | {rule} | {rows:.1f} | {100 * error:.1f} % | {100 * error * math.sqrt(rows):.1f} % |"
            )
    return "\n".join(lines)


def is_shown(one: Sequence[Case], other: Sequence[Case]) -> bool:
    """Return whether `compare` shows a difference of the scores."""
    score = compared(one, other, Ranking.GEOM).score
    return score is not None and score.shown


def is_shown_by_welch(one: Sequence[Case], other: Sequence[Case]) -> bool:
    """Return whether Welch's test shows a difference: of the processes' scores, whose times are medians of few rows."""
    difference, variance, parts = 0.0, 0.0, 0.0
    for sign, cases in ((1, one), (-1, other)):
        timings = [case.timing for case in cases if case.timing]
        difference += sign * math.log(score_of([each.time_ns for each in timings], Ranking.GEOM))
        workers = zip(*(each.worker_medians_ns for each in timings), strict=False)
        logs = [math.log(score_of(each, Ranking.GEOM)) for each in workers]
        # The standard error of a median of many normal values.
        own = math.pi / 2 * statistics.variance(logs) / len(logs)
        variance, parts = variance + own, parts + own**2 / (len(logs) - 1)
    freedom = max(1.0, variance**2 / parts)
    quantile = next(value for least, value in reversed(STUDENT) if least <= freedom + 1e-6)
    return abs(difference) > quantile * math.sqrt(variance)


def missed_goals(name: str, cases: int, found: dict[float, float]) -> list[str]:
    """Return each goal that a condition misses, in words."""
    where = f"on a {name}, in {cases} cases"
    missed = [f"{where}: {found[1.0]:.1%} of equal kernels differ"] if found[1.0] > FALSE_MAX else []
    for (condition, ratio), least in FOUND_MIN.items():
        if condition == name and found[ratio] < least:
            missed.append(f"{where}: {ratio:.2f}x is found in {found[ratio]:.1%} of comparisons")
    return missed


if __name__ == "__main__":
    sys.exit(main())
