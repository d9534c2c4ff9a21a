"""What is said of runs that somebody stops waiting for."""

from dataclasses import replace

import pytest

from hpc_board.cli.follow import tell_unsent
from hpc_board.model.run import RunState, Status
from tests.unit.recorded import AT
from tests.unit.test_report import run_of

UNANSWERED = Status(
    RunState.SUBMITTING, AT, reason="not confirmed", evidence="sbatch \x1b[31mtimed out", unanswered=True
)


def test_a_run_that_the_scheduler_did_not_answer_waits_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unsent([run_of(RunState.SUBMITTING, status=UNANSWERED), run_of(RunState.QUEUED, id=13)])
    what, next_ = capsys.readouterr().err.splitlines()
    assert what == "Run 12 on H100 is not in the queue yet: sbatch timed out"
    assert next_ == (
        "Stored, and sent as soon as the scheduler answers `hpc-board watch 12`, `hpc-board poll` or the app: "
        "don't submit again. `hpc-board cancel 12` calls it off."
    )


def test_a_run_that_nobody_has_sent_yet_waits_for_no_scheduler(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unsent([run_of(RunState.CREATED)])
    what, next_ = capsys.readouterr().err.splitlines()
    assert what == "Run 12 on H100 is not in the queue yet."
    assert next_.startswith("Stored; the next `hpc-board watch 12`, `hpc-board poll` or the app sends it: ")


def test_a_cancelled_run_that_nobody_can_find_is_not_announced_as_sent_later(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_unsent([run_of(RunState.SUBMITTING, status=replace(UNANSWERED, cancel_requested=True))])
    what, next_ = capsys.readouterr().err.splitlines()
    assert what == "Run 12 on H100 is not in the queue yet: sbatch timed out"
    assert next_ == (
        "Cancelled as soon as the scheduler answers `hpc-board watch 12`, `hpc-board poll` or the app: run 12."
    )
