"""Budgets of submissions: runs and GPU-seconds of an entrant or an account within a period."""

import getpass
from datetime import timedelta

import pytest

from hpc_board.domain.budget import Budget, BudgetLeft, budget_of
from hpc_board.domain.clock import utc_now
from hpc_board.domain.draft import SubmissionRequest
from hpc_board.domain.moderation import Period
from hpc_board.domain.origin import Origin
from hpc_board.errors import InputError, Refused
from tests.scripted import Scripted
from tests.unit.recorded import Recorded, call, read
from tests.values import replace, requested

ME = getpass.getuser()

pytestmark = pytest.mark.usefixtures("scheduler")


def request(board: Recorded, entrant: str = "", *, gpus: tuple[str, ...] = ("CPU",)) -> SubmissionRequest:
    board.kernel.write_text(board.kernel.read_text().replace("#!POPCORN gpu CPU\n", ""))
    return replace(requested(board.kernel, gpus=gpus), origin=Origin(entrant))


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        ("50/day", Budget(50)),
        ("50", Budget(50)),
        ("3600s/week", Budget(None, 3600, Period.WEEK)),
        ("50,3600s/hour", Budget(50, 3600, Period.HOUR)),
        ("0/day", Budget(0)),
    ],
)
def test_a_budget_has_runs_gpu_seconds_and_a_period(words: str, budget: Budget) -> None:
    assert budget_of(words) == budget
    assert budget_of(budget.text) == budget


@pytest.mark.parametrize(
    "words", ["", "/day", "s/day", "-1/day", "50/month", "50 runs", "50,", "100001", "3600s,50", "٣"]
)
def test_a_faulty_budget_is_refused(words: str) -> None:
    with pytest.raises(InputError, match="invalid budget"):
        budget_of(words)


def test_a_budget_binds_the_admin_of_a_board_of_its_own(board: Recorded, scheduler: Scripted) -> None:
    submit, budget = board.board.submissions.submit, Budget(3)
    submit([request(board, "agent-b", gpus=("CPU", "H100"))], budget=budget)
    for count, message in ((2, "sent 2 runs within a day, and the budget is 3; these are 2"), (1, "")):
        if message:
            with pytest.raises(Refused, match=f"budget exhausted: {ME}/agent-b has {message}"):
                submit([request(board, "agent-b")] * count, budget=budget)
        else:
            submit([request(board, "agent-b")], budget=budget)
    with pytest.raises(
        Refused, match=f"budget exhausted: {ME}/agent-b has sent 3 runs within a day, and the budget is 3\\."
    ):
        submit([request(board, "agent-b")], budget=budget)
    assert len(scheduler.submitted) == 3


def test_a_budget_counts_the_runs_of_the_entrant_or_all_of_the_account(board: Recorded) -> None:
    submit, left = board.board.submissions.submit, board.board.submissions.budget_left
    submit([request(board, "agent-a"), request(board, "agent-b"), request(board)])
    board.add(user="bob", at=utc_now())
    board.add(origin=Origin("agent-a"), at=utc_now() - timedelta(hours=2))
    board.add(origin=Origin("agent-a"), at=utc_now() - timedelta(days=2))
    assert left(Budget(5), "agent-a") == BudgetLeft(3, None)
    assert left(Budget(5, None, Period.HOUR), "agent-a").runs == 4
    assert left(Budget(5, None, Period.WEEK), "agent-a").runs == 2
    assert left(Budget(9)).runs == 5
    assert left(Budget(1)).runs == 0


def test_several_entrants_of_a_submission_share_the_budget_of_their_account(board: Recorded) -> None:
    submit, budget = board.board.submissions.submit, Budget(3)
    submit([request(board, "agent-a")], budget=budget)
    both = [request(board, "agent-a"), request(board, "agent-b"), request(board, "agent-b")]
    with pytest.raises(Refused, match=f"{ME} has sent 1 run within a day, and the budget is 3; these are 3"):
        submit(both, budget=budget)
    assert len(submit(both[:2], budget=budget)) == 2


def test_a_repeated_key_needs_no_room(board: Recorded) -> None:
    submit = board.board.submissions.submit
    for reused in (False, True):
        (run,) = submit([request(board)], key="one", budget=Budget(1))
        assert run.reused is reused


def test_the_answer_says_what_is_left(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    request(board)
    words = ("submit", board.kernel, "--gpu", "CPU", "--as", "agent-b")
    assert read(board, *words)["budget"] is None
    found = read(board, *words, "--budget", "5,600s/week")
    assert found["budget"] == {"runs": 3, "gpu_seconds": 600.0, "per": "week"}
    monkeypatch.setenv("HPC_BOARD_BUDGET", "3/day")
    done = call(board, *words)
    assert f"Budget of {ME}/agent-b: 0 of 3 runs left per day.\n" in done.stderr
    done = call(board, *words)
    assert (done.exit_code, "budget exhausted" in done.stderr) == (5, True)
    assert call(board, *words, "--budget", "many").exit_code == 2
