"""Remarks on runs at the end of a wait."""

from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from hpc_board.board import Board
from hpc_board.cli.follow import _detail, _remark_blocked, _text, report_unsent
from hpc_board.domain.run import Progress, Run, RunState, Status, TimeSoFar
from tests.unit.recorded import AT
from tests.unit.report.test_report import run_of
from tests.values import replace

UNANSWERED = Status(RunState.SUBMITTING, AT, reason="not confirmed", source="sbatch \x1b[31mtimed out", unanswered=True)


SENDERS = "`hpc-board watch 12`, `hpc-board poll` or the app"


@pytest.mark.parametrize(
    ("run", "reason", "next_step"),
    [
        (
            run_of(RunState.SUBMITTING, status=UNANSWERED),
            ": sbatch timed out",
            f"Stored; {SENDERS} will send it. Do not submit it again. `hpc-board cancel 12` cancels it.",
        ),
        (
            run_of(RunState.CREATED),
            ".",
            f"Stored; {SENDERS} will send it. Do not submit it again. `hpc-board cancel 12` cancels it.",
        ),
        (
            run_of(RunState.SUBMITTING, status=replace(UNANSWERED, cancel_requested=True)),
            ": sbatch timed out",
            f"Cancel requested: run 12, completed by {SENDERS} once the scheduler answers.",
        ),
    ],
)
def test_report_unsent_has_the_reason_and_the_next_step(
    capsys: pytest.CaptureFixture[str], run: Run, reason: str, next_step: str
) -> None:
    report_unsent([run, run_of(RunState.QUEUED, id=13)], served=False)
    assert capsys.readouterr().err.splitlines() == [f"Run 12 on H100 is not queued yet{reason}", next_step]


def test_one_reason_of_several_runs_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run_of(RunState.SUBMITTING, status=UNANSWERED, id=id_) for id_ in range(12, 18)]
    report_unsent([*runs, run_of(RunState.SUBMITTING, status=UNANSWERED, id=18, gpu="A100")], served=True)
    *lines, _ = capsys.readouterr().err.splitlines()
    assert lines == [
        "Runs 12, 13, 14, 15, 16, 17 on H100 are not queued yet: sbatch timed out",
        "Run 18 on A100 is not queued yet: sbatch timed out",
    ]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (60, "run 12  H100  running  1:07  test 3 of 9"),
        (28, "run 12  H100  running  1:07"),
        (22, "run 12  running  1:07"),
    ],
)
def test_a_narrow_terminal_keeps_number_state_and_time_of_a_run(width: int, line: str) -> None:
    now = AT + timedelta(seconds=67)
    assert _text([(run_of(RunState.RUNNING), "test 3 of 9")], now, width).plain == line


def test_a_run_without_a_detail_is_shown() -> None:
    assert _text([(run_of(RunState.QUEUED), "")], AT, 80).plain == "run 12  H100  queued  0:00"


def test_the_progress_of_a_run_fits_one_line_without_sizes_and_seed() -> None:
    message = "rows: 8192; columns: 2570; steps: 128; seed: 4244 (process 1 of 3)"
    step = Progress("2030-05-17T12:00:00Z", "benchmark", 2, 3, message)
    running = run_of(RunState.RUNNING)
    board = cast("Board", SimpleNamespace(runs=SimpleNamespace(progress={running.id: [step]}.get)))
    text = _text([(running, _detail(board, running))], AT + timedelta(seconds=67), 80)
    assert text.plain == "run 12  H100  running  1:07  round 1 of 3, benchmark 2 of 3"


def test_the_wait_for_a_run_has_the_time_so_far_until_it_is_cancelled() -> None:
    step = Progress("x", "benchmark", 1, 1, "size: 1 (process 2 of 5)", TimeSoFar(1, 901_000.0))
    running = run_of(RunState.RUNNING)
    board = cast("Board", SimpleNamespace(runs=SimpleNamespace(progress={running.id: [step]}.get)))
    assert _detail(board, running) == "round 2 of 5, benchmark 1 of 1, 901 µs so far"
    cancelled = replace(running, status=replace(running.status, cancel_requested=True))
    assert _detail(board, cancelled) == ""
    assert "cancelling" in _text([(cancelled, "")], AT, 80).plain


WHY = "will never start: no node of the partition has the requested resources; cancel it (PartitionConfig)"


def waiting(reason: str) -> Run:
    return run_of(RunState.QUEUED, status=Status(RunState.QUEUED, AT, job_id="7", reason=reason))


def test_a_run_that_will_never_start_is_told_once_and_not_one_that_waits(capsys: pytest.CaptureFixture[str]) -> None:
    reported: set[int] = set()
    for reason in ("waiting for resources (Resources)", WHY, WHY):
        _remark_blocked(reported, [waiting(reason)])
    assert capsys.readouterr().err == f"Still waiting: Run 12 on H100 {WHY}\n"


def test_a_run_that_is_to_be_cancelled_is_not_said_to_wait_in_vain() -> None:
    assert waiting(WHY).never_starts == WHY
    assert not replace(waiting(WHY), status=replace(waiting(WHY).status, cancel_requested=True)).never_starts


@pytest.mark.parametrize("width", [80, 50])
def test_the_reason_of_a_wait_is_wrapped_and_takes_nothing_from_number_gpu_and_state(width: int) -> None:
    lines = _text([(waiting(WHY), WHY)], AT + timedelta(seconds=67), width).plain.splitlines()
    assert lines[0].startswith("run 12  H100  queued  1:07  will never")
    assert " ".join(line[len("run 12  H100  queued  1:07  ") :].strip() for line in lines) == WHY
