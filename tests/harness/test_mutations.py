"""Each defence is there for a reason: with it switched off, a cheat wins that does not win otherwise."""

import os

import pytest

from hpc_board.harness.confine.sandbox import reaches
from tests.conftest import skip_without
from tests.harness.adversarial.attack import level
from tests.harness.adversarial.mutations import MUTATIONS, Mutation


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
    without_it = mutation.without_it()
    with_it = mutation.with_it() if mutation.is_compared else without_it
    if mutation.is_compared:
        assert with_it.result.verdict in cheat.verdicts, with_it.result.message
        assert with_it.effects == ()
    assert mutation.gains(without_it, with_it), (without_it.result.message, without_it.effects)
