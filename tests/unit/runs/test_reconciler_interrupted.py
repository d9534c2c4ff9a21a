"""Runs whose jobs were told to end: the scheduler says how they ended, and what they had is kept but never ranked."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hpc_board.domain.run import JobState, JobStatus, Run, RunState, Status
from hpc_board.model.result import Case, Result, Verdict
from hpc_board.report.plain import plain
from hpc_board.report.run_words import state_text
from hpc_board.report.runs import run_report, run_summary
from hpc_board.runs import job_folder
from tests.harness.evaluations import a_task
from tests.unit.runs.world import World, right_result
from tests.values import replace

MESSAGE = "stopped by SIGTERM after 12.0 s, while benchmark case 1 of 2 ran (size: 100) for 3.0 s; tests passed: 1 of 3"


def partial(run: Run, **changes: Any) -> Result:
    whole = right_result(run, a_task())
    values: dict[str, Any] = {
        "verdict": Verdict.INFRA_ERROR,
        "message": MESSAGE,
        "cases": (Case("test", 0, "size: 3; seed: 1", Verdict.PASS),),
        "provenance": {**whole.provenance, "interrupted": "SIGTERM"},
    }
    return replace(whole, **{**values, **changes})


def running(world: World) -> Run:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.status = JobStatus(JobState.RUNNING, source="squeue: RUNNING")
    world.advance()
    return run


@pytest.mark.parametrize(
    ("news", "state"),
    [
        (JobState.CANCELLED, RunState.CANCELLED),
        (JobState.TIMEOUT, RunState.TIMEOUT),
        (JobState.PREEMPTED, RunState.PREEMPTED),
        (JobState.ENDED, RunState.ERROR),
    ],
)
def test_the_scheduler_says_how_an_interrupted_run_ended_and_what_it_had_is_kept(
    world: World, news: JobState, state: RunState
) -> None:
    run = running(world)
    left = partial(run)
    world.leave(run, job_folder.RESULT, left.to_json().encode())
    world.advance()
    assert world.state(run) is RunState.RUNNING

    world.scheduler.status = JobStatus(news, source=f"squeue: {news}")
    world.advance()

    ended = world.store.runs.get(run.id)
    assert ended.state is state
    assert (ended.verdict, ended.score_s, world.store.standings.placing(ended)) == (None, None, None)
    assert world.store.runs.result(run.id) == left
    assert "no result file" not in ended.status.source
    assert world.store.standings.list(run.task, run.task_version, run.gpu) == ()
    text = plain(run_report(ended, left, world.store.runs.history(run.id)))
    assert f"Ended without a result: {state_text(state)}" in text
    assert MESSAGE in " ".join(text.split())
    assert "Tests (case: size)" in text
    assert MESSAGE in " ".join(plain(run_summary(ended, left)).split())


@pytest.mark.parametrize("asked", [False, True])
def test_a_job_that_slurm_cancels_for_its_memory_ran_out_of_it(world: World, asked: bool) -> None:
    run = running(world)
    if asked:
        world.store.runs.request_end([run.id], "cancel requested by ada")
    world.leave(run, job_folder.RESULT, partial(run).to_json().encode())
    words = b"[2026-11-25T22:18:58.104] error: StepId=2.0 exceeded memory limit (271572992 > 157286400), being killed\n"
    world.leave(run, f"slurm-{world.store.runs.get(run.id).status.job_id}.out", words)
    world.scheduler.status = JobStatus(JobState.CANCELLED, source="squeue: CANCELLED")
    world.advance()
    ended = world.store.runs.get(run.id)
    if asked:
        assert ended.state is RunState.CANCELLED
    else:
        assert ended.state is RunState.OUT_OF_MEMORY
        assert ended.status.reason == "it used 259 MiB of memory, but its limit is 150 MiB"
    assert world.store.runs.result(run.id) is not None


def test_a_job_that_is_still_listed_is_waited_for(world: World) -> None:
    run = running(world)
    world.leave(run, job_folder.RESULT, partial(run).to_json().encode())
    world.scheduler.status = JobStatus(JobState.COMPLETING)
    world.advance()
    assert world.state(run) is RunState.COLLECTING
    world.scheduler.status = JobStatus(JobState.MISSING)
    world.advance()
    assert world.state(run) is RunState.COLLECTING


def test_what_an_earlier_attempt_had_come_to_explains_nothing_of_the_next_one(world: World) -> None:
    run = running(world)
    world.leave(run, job_folder.RESULT, partial(run).to_json().encode())
    world.scheduler.status = JobStatus(JobState.NODE_FAIL, source="squeue: NODE_FAIL, restart 1", restarts=1)
    world.advance()
    assert world.state(run) is RunState.COLLECTING
    world.leave(run, job_folder.RESULT, partial(run, restart_count=1).to_json().encode())
    world.advance()
    assert world.state(run) is RunState.NODE_FAIL


def test_a_job_that_nobody_knows_any_more_and_that_was_interrupted_says_both(world: World) -> None:
    run = running(world)
    left = partial(run)
    world.leave(run, job_folder.RESULT, left.to_json().encode())
    world.scheduler.status = JobStatus(JobState.MISSING, source="squeue: not listed")
    world.advance()
    evidence = world.store.runs.get(run.id).status.source
    assert evidence == "squeue: not listed; result.json belongs to a job that was stopped"


def test_a_result_that_passed_and_was_interrupted_is_not_accepted(world: World) -> None:
    run = running(world)
    whole = right_result(run, a_task())
    forged = replace(whole, provenance={**whole.provenance, "interrupted": "SIGTERM"})
    world.leave(run, job_folder.RESULT, forged.to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.state is RunState.ERROR
    assert "it reports the run as both passed and interrupted" in ended.status.reason


def test_a_partial_result_of_another_run_ends_it_as_any_other_would(world: World) -> None:
    run = running(world)
    world.leave(run, job_folder.RESULT, replace(partial(run), nonce="another").to_json().encode())
    world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.store.runs.result(run.id) is None


def test_a_run_is_stopped_only_with_what_its_own_job_left(world: World) -> None:
    run = running(world)
    at = datetime.now(UTC)
    left = partial(run)
    with pytest.raises(ValueError, match="is not running"):
        world.store.runs.stop(run.id, Status(RunState.RUNNING, at), left)
    with pytest.raises(ValueError, match="is not finished"):
        world.store.runs.stop(run.id, Status(RunState.FINISHED, at), left)
    cancelled = Status(RunState.CANCELLED, at)
    with pytest.raises(ValueError, match="not a partial result"):
        world.store.runs.stop(run.id, cancelled, replace(left, run=run.id + 1))
    with pytest.raises(ValueError, match="not a partial result"):
        world.store.runs.stop(run.id, cancelled, right_result(run, a_task()))
    assert world.store.runs.stop(run.id, cancelled, left)
    assert not world.store.runs.stop(run.id, cancelled, left)
    assert not world.store.runs.finish(run.id, Status(RunState.FINISHED, at), right_result(run, a_task()), 1e-6)
