"""The adversarial suite: each submission ends as it should, and leaves and reaches nothing that it should not."""

import os
import shutil
from dataclasses import replace

import pytest

from hpc_board.harness.confine.sandbox import reaches
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.conftest import skip_without
from tests.harness.adversarial.attack import Outcome, level, outcome
from tests.harness.adversarial.suite import KERNELS, SUITE, Cheat

_SUPERVISOR_BYTES_MAX = 100 * 2**20
_CRASH_SECONDS_MAX = 2.0
_PAID_SHARE_MIN = 0.9
_TRIES = 4


def named(name: str) -> Outcome:
    return outcome(next(cheat for cheat in SUITE if cheat.id == name))


def pays(cheat: Cheat, found: Outcome) -> bool:
    """Return whether a cheat has nine tenths of an honest kernel's time in its score, in one of a few tries.

    A virtual machine can be half as slow again for seconds, whatever runs in it: so each try is held to what was
    honest in the same run and just after it, and a cheat that gains does so in every try.
    """
    honest = [
        replace(each, mode=Mode.BENCHMARK) for each in SUITE if "_honest_" in each.name and each.task == cheat.task
    ]
    for number in range(_TRIES):
        tried = found if number == 0 else outcome.__wrapped__(cheat)
        # The reference's time comes with each run; an honest kernel's takes a run of its own.
        if "slow reference" not in cheat.task and tried.score_ns > _PAID_SHARE_MIN * tried.reference_ns:
            return True
        if any(tried.score_ns > _PAID_SHARE_MIN * outcome.__wrapped__(each).score_ns for each in honest):
            return True
    return False


@pytest.fixture(autouse=True)
def libraries() -> None:
    skip_without("numpy")


@pytest.mark.parametrize(
    "cheat",
    [pytest.param(cheat, id=cheat.id, marks=[pytest.mark.quiet] * cheat.needs_quiet) for cheat in SUITE],
)
def test_a_cheat_ends_with_its_verdict_and_without_effects(cheat: Cheat) -> None:
    if cheat.task == "tensors":
        skip_without("torch")
    if cheat.path.suffix == ".cpp" and shutil.which("g++") is None:
        pytest.skip("needs g++")
    if cheat.scratch_bytes and os.geteuid() != 0:
        pytest.skip("only root can make a small disk for certain")
    if not reaches(level(), cheat.isolation):
        pytest.skip(f"stopping it takes isolation {cheat.isolation}, and this node reaches {level()}")
    found = outcome(cheat)
    assert found.result.verdict in cheat.verdicts, found.result.message
    assert found.effects == ()
    assert not cheat.pays or found.result.verdict is not Verdict.PASS or pays(cheat, found)
    assert found.supervisor_peak_bytes < _SUPERVISOR_BYTES_MAX


def test_every_submission_is_in_the_table_once_for_each_task() -> None:
    assert {cheat.name for cheat in SUITE} == {path.stem for path in KERNELS.glob("*.*")}
    assert len({cheat.id for cheat in SUITE}) == len(SUITE)


def test_each_submission_says_what_it_tries() -> None:
    assert all(path.read_text().startswith(('"""', "/* ")) for path in KERNELS.glob("*.*"))


def test_the_supervisor_s_memory_is_measured_and_small_whatever_is_printed() -> None:
    peak_bytes = named("p22_stdout_flood").supervisor_peak_bytes
    assert 2**20 < peak_bytes < _SUPERVISOR_BYTES_MAX


@pytest.mark.quiet
@pytest.mark.parametrize("name", ["p23_segv_case3", "x06_channel_held_after_crash"])
def test_a_crash_is_known_at_once_and_names_its_signal_and_case(name: str) -> None:
    found = named(name)
    case = 3 if name == "p23_segv_case3" else 1
    assert found.last_case_seconds < _CRASH_SECONDS_MAX
    assert "SIGSEGV" in found.result.message
    assert found.result.message.startswith(f"test case {case} ")
    assert [each.verdict for each in found.result.cases] == [Verdict.PASS] * (case - 1) + [Verdict.CRASH]


def test_cases_after_one_that_hangs_are_not_blamed() -> None:
    cases = named("p24_hang").result.cases
    assert [case.verdict for case in cases] == [Verdict.PASS, Verdict.TIMEOUT]
    assert "did not return within 3 s" in cases[1].message


@pytest.mark.quiet
def test_remembering_answers_makes_no_call_faster() -> None:
    timing = named("p14_hash_cache").result.cases[0].timing
    assert timing is not None
    assert timing.reference_ns is not None
    assert timing.best_ns > timing.reference_ns / 10
