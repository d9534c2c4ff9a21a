"""The adversarial suite: each submission ends as it should, and leaves and reaches nothing that it should not."""

import os
import shutil

import pytest

from hpc_board.harness.sandbox import reaches
from hpc_board.model.result import Verdict
from tests.harness.adversarial.attack import Outcome, level, outcome
from tests.harness.adversarial.suite import KERNELS, SUITE, Cheat

pytestmark = pytest.mark.quiet

_SUPERVISOR_BYTES_MAX = 100 * 2**20
_CRASH_SECONDS_MAX = 2.0
_PAID_SHARE_MIN = 0.9


def named(name: str) -> Outcome:
    return outcome(next(cheat for cheat in SUITE if cheat.id == name))


def honest_ns(cheat: Cheat, found: Outcome) -> float:
    """What an honest kernel takes on the task of a cheat: the suite's own where there is one, else the reference."""
    honest = [each for each in SUITE if each.name == "p01_honest_ref" and each.task == cheat.task]
    return outcome(honest[0]).score_ns if honest and "slow" in cheat.task else found.baseline_ns


@pytest.fixture(autouse=True)
def libraries() -> None:
    pytest.importorskip("numpy")


@pytest.mark.parametrize("cheat", SUITE, ids=lambda cheat: cheat.id)
def test_a_cheat_ends_with_its_verdict_and_without_effects(cheat: Cheat) -> None:
    if cheat.task == "tensors":
        pytest.importorskip("torch")
    if cheat.path.suffix == ".cpp" and shutil.which("g++") is None:
        pytest.skip("needs g++")
    if cheat.scratch_bytes and os.geteuid() != 0:
        pytest.skip("only root can make a small disk for certain")
    if not reaches(level(), cheat.isolation):
        pytest.skip(f"stopping it takes isolation {cheat.isolation}, and this node reaches {level()}")
    found = outcome(cheat)
    assert found.result.verdict in cheat.verdicts, found.result.message
    assert found.effects == ()
    if cheat.pays:
        assert found.score_ns > _PAID_SHARE_MIN * honest_ns(cheat, found), found.result.cases[-1].timing
    assert found.supervisor_peak_bytes < _SUPERVISOR_BYTES_MAX


def test_every_submission_is_in_the_table_once_for_each_task() -> None:
    assert {cheat.name for cheat in SUITE} == {path.stem for path in KERNELS.glob("*.*")}
    assert len({cheat.id for cheat in SUITE}) == len(SUITE)


def test_each_submission_says_what_it_tries() -> None:
    assert all(path.read_text().startswith(('"""', "/* ")) for path in KERNELS.glob("*.*"))


def test_the_supervisor_s_memory_is_measured_and_small_whatever_is_printed() -> None:
    peak_bytes = named("p22_stdout_flood").supervisor_peak_bytes
    assert 2**20 < peak_bytes < _SUPERVISOR_BYTES_MAX


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


def test_remembering_answers_makes_no_call_faster() -> None:
    timing = named("p14_hash_cache").result.cases[0].timing
    assert timing is not None
    assert timing.baseline_ns is not None
    assert timing.best_ns > timing.baseline_ns / 10
