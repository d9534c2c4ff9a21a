"""Runners in words, and the runs that went to them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.run import RunState, Status
from hpc_board.domain.runner import Runner
from hpc_board.model.result import Verdict
from hpc_board.report.plain import plain
from hpc_board.report.run_table import remarks_text
from hpc_board.report.runners import runner_text, runners_facts
from hpc_board.report.runs import run_evidence, run_report, run_summary
from hpc_board.report.views.runs import RunnerView
from tests.unit.recorded import Recorded, recorded, result_of, status_of, timed_case
from tests.values import replace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def a_runner(state: RunState, *, started: float | None = None, at: float = 0, runs: int = 0, **more: Any) -> Runner:
    """Return a runner on H100 that was asked for at noon, with these moments in seconds from then."""
    status = Status(state, later(at), **{"job_id": "4711", **more}, runner=3)
    started_at = None if started is None else later(started)
    return Runner(
        3, "ada", "H100", "main", "gpu", "hb-1", "a" * 64, 1800, 300, "b" * 64, NOON, status, "", started_at, runs
    )


PRIORITY = "waiting behind jobs of higher priority (Priority)"


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        (a_runner(RunState.CREATED, job_id=""), "H100 requested for 30 min, not queued yet"),
        (
            a_runner(RunState.SUBMITTING, job_id="", source="sbatch did not answer within 60 s"),
            "H100 requested for 30 min, not queued yet: sbatch did not answer within 60 s",
        ),
        (
            a_runner(RunState.QUEUED, reason=PRIORITY, expected_start=later(1500), runs=1),
            f"H100 requested for 30 min, queued: {PRIORITY}, expected start in 15 min, 1 run, job 4711",
        ),
        (
            a_runner(RunState.QUEUED, reason="released by ada", cancel_requested=True),
            "H100 requested for 30 min, ending: released by ada, job 4711",
        ),
        (
            a_runner(RunState.RUNNING, started=246, node="n3", runs=7),
            "H100 held, 24 min left, 7 runs, job 4711 on node n3",
        ),
        (a_runner(RunState.RUNNING, started=-1155, node="n3"), "H100 held, 45 s left, 0 runs, job 4711 on node n3"),
        (
            a_runner(RunState.RUNNING, started=0, node="n3", runs=7, reason="released by ada", cancel_requested=True),
            "H100 held, ending: released by ada, 7 runs, job 4711 on node n3",
        ),
        (
            a_runner(RunState.COLLECTING, started=0, node="n3", runs=7, reason="it was idle for 300 s"),
            "H100 held, ending: it was idle for 300 s, 7 runs, job 4711 on node n3",
        ),
        (
            a_runner(RunState.FINISHED, started=0, at=1443, runs=17, reason="it was idle for 300 s"),
            "held H100 for 24 min 3 s, 17 runs; ended: it was idle for 300 s",
        ),
        (
            a_runner(RunState.NODE_FAIL, started=0, at=60, runs=1, reason="n3 is down"),
            "held H100 for 1 min, 1 run; node failure: n3 is down",
        ),
        (
            a_runner(RunState.CANCELLED, reason="scancel by root"),
            "never held H100; cancelled: scancel by root",
        ),
        (
            a_runner(RunState.CANCELLED, reason="released by ada", cancel_requested=True),
            "never held H100; ended: released by ada",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_runner_says_what_it_holds_or_has_cost(runner: Runner, words: str) -> None:
    assert runner_text(runner, later(600)) == words


def test_a_name_from_a_node_cannot_paint_the_terminal() -> None:
    runner = a_runner(RunState.RUNNING, started=0, node="n3\x1b[31m", reason="r\x1b[31m", cancel_requested=True)
    assert "\x1b" not in plain([runners_facts([runner], NOON)])


def test_the_object_of_a_runner_has_its_times() -> None:
    live = RunnerView.of(a_runner(RunState.RUNNING, started=60, node="n3", runs=2), later(600))
    assert (live.held_seconds, live.left_seconds, live.ends_at) == (540, 1260, "2026-03-01T12:31:00Z")
    assert (live.takes_runs, live.ended_at, live.job.id, live.job.node) == (True, None, "4711", "n3")
    ended = RunnerView.of(a_runner(RunState.FINISHED, started=60, at=300, reason="its time is over"), later(600))
    assert (ended.held_seconds, ended.left_seconds, ended.ended_at) == (240, None, "2026-03-01T12:05:00Z")
    waiting = RunnerView.of(a_runner(RunState.QUEUED), later(600))
    assert (waiting.held_seconds, waiting.left_seconds, waiting.started_at) == (0, 1800, None)


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    return recorded(tmp_path)


def test_a_run_names_its_runner_wherever_its_job_is_named(board: Recorded) -> None:
    run = board.add(status_of(RunState.RUNNING, job_id="4711.1"))
    run = replace(run, status=replace(run.status, runner=3))
    assert remarks_text(run) == "at runner 3"
    text = plain(run_report(run, None))
    assert "job        4711.1, at runner 3\n" in text
    assert "job                4711.1, at runner 3\n" in plain(run_evidence(run, [run.status]))
    ended = replace(run, status=replace(run.status, state=RunState.FINISHED), verdict=Verdict.PASS)
    assert remarks_text(ended) == ""
    told = plain(run_summary(ended, result_of(Verdict.PASS, timed_case())))
    assert "self-run · node n1 · job 4711.1 · at runner 3\n" in told


def test_a_run_without_a_runner_names_none(board: Recorded) -> None:
    run = board.add(status_of(RunState.RUNNING))
    assert "runner" not in plain(run_report(run, None)) + plain(run_evidence(run, [run.status])) + remarks_text(run)
    assert "job        104, separate: --fresh\n" in plain(run_report(replace(run, fresh=True), None))
