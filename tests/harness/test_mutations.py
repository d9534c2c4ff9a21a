"""Each defence is there for a reason: with it switched off, a cheat wins that does not win otherwise."""

import os

import pytest

from hpc_board.harness.confine.sandbox import reaches
from tests.conftest import skip_without
from tests.harness.adversarial.attack import Outcome, level, outcome
from tests.harness.adversarial.mutations import MUTATIONS, Mutation

TRIES = 3
"""The pairs of times that are measured at most: other work on the machine may hide the gain in one."""


@pytest.fixture(autouse=True)
def libraries() -> None:
    skip_without("numpy")


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(mutation, id=mutation.defence, marks=[pytest.mark.quiet] * mutation.needs_quiet)
        for mutation in MUTATIONS
    ],
)
def test_a_cheat_wins_without_the_defence_and_not_with_it(mutation: Mutation) -> None:
    cheat = mutation.submission
    if (cheat.privileged or cheat.scratch_bytes) and os.geteuid() != 0:
        pytest.skip("it takes root to show what this defence is good for")
    if not reaches(level(), cheat.isolation):
        pytest.skip(f"stopping it takes isolation {cheat.isolation}, and this node reaches {level()}")
    pairs: list[tuple[Outcome, Outcome]] = []
    for _ in range(TRIES if mutation.is_timed else 1):
        without_it = mutation.without_it()
        with_it = mutation.with_it() if mutation.is_compared else without_it
        if mutation.is_compared:
            assert with_it.result.verdict in cheat.verdicts, with_it.result.message
            assert with_it.effects == ()
        if mutation.gains(without_it, with_it):
            return
        pairs.append((without_it, with_it))
        outcome.cache_clear()
    pytest.fail(f"{without_it.result.message}, {without_it.effects}: {[(a.score_ns, b.score_ns) for a, b in pairs]}")
