"""Runs that are sent again after a fault of the cluster: each job has a name, a nonce and a folder of its own."""

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import JobState, JobStatus, Run, RunState
from hpc_board.errors import NotAccepting, QueueFull, SchedulerError
from hpc_board.model.result import Verdict
from hpc_board.runs import job_folder, launcher
from hpc_board.runs.launcher import ATTEMPTS_MAX
from hpc_board.schedulers import Job
from hpc_board.schedulers.slurm.kind import SlurmKind
from hpc_board.store.runs import RunGateway
from tests.harness.evaluations import a_task
from tests.scripted import ScriptedArrays
from tests.unit.runs.test_reconciler_arrays import ArrayWorld
from tests.unit.runs.world import World, cancel, right_result, set_clock, world_in
from tests.values import replace

PREEMPTED = JobStatus(JobState.PREEMPTED, source="squeue: PREEMPTED")


def with_retries(world: World, retries: int) -> World:
    gpus = {"H100": replace(world.advance.gpus["H100"], retries=retries)}
    return replace(world, advance=replace(world.advance, gpus=gpus))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A board that sends runs again twice, and waits for no results."""
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    return with_retries(world_in(tmp_path), 2)


@pytest.fixture
def arrays(world: World) -> ArrayWorld:
    scheduler = ScriptedArrays()
    return ArrayWorld(world.folder, scheduler, replace(world.advance, schedulers={"main": scheduler}), world.store)


def now(world: World, run: Run) -> Run:
    return world.store.runs.get(run.id)


def failed(world: World, run: Run, status: JobStatus = PREEMPTED) -> Run:
    """The run after its job ended in this way, before its next job is sent."""
    world.scheduler.status = status
    world.advance()
    return now(world, run)


def passes(world: World, run: Run, job: Run) -> None:
    """Leave a right result of `run` as its job `job` was sent."""
    folders = job_folder.Folders(world.folder)
    result = replace(right_result(run, a_task()), nonce=job.nonce, job_id=job.status.job_id)
    (folders.of(job) / job_folder.RESULT).write_text(json.dumps(asdict(result)))


@pytest.mark.parametrize("state", [JobState.PREEMPTED, JobState.NODE_FAIL])
def test_a_run_whose_job_the_cluster_failed_is_sent_again_as_another_job(world: World, state: JobState) -> None:
    first = world.run()
    world.advance.launch([first])
    first = now(world, first)
    waiting = failed(world, first, JobStatus(state, node="n1", source="squeue: over"))
    assert (waiting.state, waiting.retry, waiting.status.job_id) == (RunState.CREATED, 1, "")
    assert waiting.status.reason == f"retry 1 of 2 after {state} on n1"
    assert waiting.status.source.startswith("squeue: over")
    assert waiting.token != first.token
    assert waiting.nonce != first.nonce
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.advance()
    second = now(world, first)
    assert world.scheduler.sent == [first.token, second.token]
    assert job_folder.Folders(world.folder).of(second) != job_folder.Folders(world.folder).of(first)
    facts = json.loads((job_folder.Folders(world.folder).of(second) / "job.json").read_text())
    assert facts["nonce"] == second.nonce
    # The first job goes on where the cluster no longer sees it.
    passes(world, first, first)
    world.advance()
    assert now(world, first).state is RunState.RUNNING
    passes(world, first, second)
    world.advance()
    assert (now(world, first).state, now(world, first).verdict) == (RunState.FINISHED, Verdict.PASS)
    assert sum(status.state.ended for status in world.store.runs.history(first.id)) == 1


def test_a_result_of_an_earlier_job_in_the_folder_of_the_later_one_is_refused(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    first = now(world, run)
    failed(world, run)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.advance()
    result = replace(right_result(run, a_task()), nonce=first.nonce, job_id=first.status.job_id)
    folder = job_folder.Folders(world.folder).of(now(world, run))
    (folder / job_folder.RESULT).write_text(json.dumps(asdict(result)))
    world.advance()
    assert now(world, run).state is RunState.ERROR
    assert "it belongs to another run" in now(world, run).status.reason


def test_a_run_is_sent_again_no_more_often_than_the_settings_say_and_ends_once(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.status = PREEMPTED
    for _ in range(8):
        world.advance()
    ended = now(world, run)
    assert (ended.state, ended.retry, len(set(world.scheduler.sent))) == (RunState.PREEMPTED, 2, 3)
    assert [status.reason for status in world.store.runs.history(run.id) if status.reason.startswith("retry")] == [
        "retry 1 of 2 after preempted",
        "retry 2 of 2 after preempted",
    ]


def test_each_job_that_ran_and_failed_is_one_try(world: World) -> None:
    thrice = with_retries(world, 3)
    run = thrice.run()
    thrice.advance.launch([run])
    reasons = []
    for _ in range(4):
        failed(thrice, run, JobStatus(JobState.PENDING, restarts=0))
        failed(thrice, run, JobStatus(JobState.RUNNING, restarts=0))
        reasons.append(failed(thrice, run, replace(PREEMPTED, restarts=0)).status.reason)
    assert reasons[:3] == [f"retry {tries} of 3 after preempted" for tries in (1, 2, 3)]
    assert (now(thrice, run).state, now(thrice, run).retry) == (RunState.PREEMPTED, 3)


def test_a_job_whose_launch_failed_without_a_requeue_is_no_try_less(world: World) -> None:
    once = with_retries(world, 1)
    run = once.run()
    once.advance.launch([run])
    unlaunched = JobStatus(JobState.ENDED, restarts=0, launch_failed=True)
    assert failed(once, run, unlaunched).retry == 1
    failed(once, run, JobStatus(JobState.PENDING, restarts=0))
    assert failed(once, run, unlaunched).state is RunState.NODE_FAIL


def test_a_requeue_by_the_scheduler_is_a_try_and_one_too_many_ends_the_run(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    for restarts in (0, 1, 2):
        waiting = failed(world, run, JobStatus(JobState.PENDING, reason="waiting", restarts=restarts))
        told = f"retry {restarts} of 2 by the scheduler; waiting" if restarts else "waiting"
        assert (waiting.state, waiting.status.reason) == (RunState.QUEUED, told)
        assert failed(world, run, JobStatus(JobState.RUNNING, restarts=restarts)).state is RunState.RUNNING
    assert not world.scheduler.cancelled
    over = failed(world, run, JobStatus(JobState.PENDING, reason="waiting", restarts=3))
    assert over.status.reason == "the scheduler requeued its job 3 times, but `retries` allows 2"
    assert world.scheduler.cancelled == [over.status.job_id]
    ended = failed(world, run, JobStatus(JobState.CANCELLED, restarts=3))
    assert (ended.state, ended.status.reason, ended.retry) == (RunState.PREEMPTED, over.status.reason, 0)
    assert world.scheduler.sent == [run.token]


def test_a_job_that_one_answer_lacked_was_not_put_back(world: World) -> None:
    once = with_retries(world, 1)
    run = once.run()
    once.advance.launch([run])
    for status in (
        JobStatus(JobState.PENDING, reason="waiting", restarts=0),
        JobStatus(JobState.MISSING),
        JobStatus(JobState.PENDING, reason="waiting", restarts=0),
        JobStatus(JobState.RUNNING, restarts=0),
    ):
        failed(once, run, status)
    back = failed(once, run, JobStatus(JobState.PENDING, reason="waiting", restarts=1))
    assert (back.state, back.status.reason) == (RunState.QUEUED, "retry 1 of 1 by the scheduler; waiting")
    assert world.scheduler.cancelled == []


def test_a_held_job_that_was_put_back_still_says_that_it_never_starts(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    held = failed(world, run, JobStatus(JobState.PENDING, reason="will never start while it is held", restarts=1))
    assert held.never_starts == "will never start while it is held; retry 1 of 2 by the scheduler"


def test_a_job_over_its_retries_that_the_scheduler_forgets_is_sent_no_further_time(
    world: World,
) -> None:
    run = world.run()
    world.advance.launch([run])
    failed(world, run, JobStatus(JobState.PENDING, restarts=3))
    for status in (JobStatus(JobState.MISSING), JobStatus(JobState.MISSING)):
        ended = failed(world, run, status)
    assert (ended.state, ended.retry, world.scheduler.sent) == (RunState.PREEMPTED, 0, [run.token])


def test_requeues_and_further_jobs_are_counted_together(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    for status in (
        JobStatus(JobState.RUNNING, restarts=0),
        JobStatus(JobState.PENDING, restarts=1),
        JobStatus(JobState.RUNNING, restarts=1),
    ):
        failed(world, run, status)
    again = failed(world, run, replace(PREEMPTED, restarts=1))
    assert (again.retry, again.status.reason) == (1, "retry 2 of 2 after preempted")
    failed(world, run, JobStatus(JobState.RUNNING, restarts=0))
    assert failed(world, run, replace(PREEMPTED, restarts=0)).state is RunState.PREEMPTED
    assert len(world.scheduler.sent) == 2


@pytest.mark.parametrize("seen", [JobState.PENDING, JobState.RUNNING])
def test_a_job_that_is_held_after_a_failed_launch_has_had_no_further_try(world: World, seen: JobState) -> None:
    once = with_retries(world, 1)
    run = once.run()
    once.advance.launch([run])
    # Slurm calls a job running while its prolog runs.
    failed(once, run, JobStatus(seen))
    words = "will never start: it could not be launched"
    held = JobStatus(JobState.PENDING, reason=words, restarts=1, launch_failed=True)
    assert failed(once, run, held).status.reason == words
    again = failed(once, run, held)
    assert (again.retry, again.status.reason) == (1, "retry 1 of 1 after node_fail: the job could not be launched")


def test_a_job_that_a_site_requeues_without_retries_goes_on(world: World) -> None:
    patient = with_retries(world, 0)
    run = patient.run()
    patient.advance.launch([run])
    seen = failed(patient, run, JobStatus(JobState.PENDING, reason="waiting", restarts=7))
    assert (seen.state, seen.status.reason, world.scheduler.cancelled) == (RunState.QUEUED, "waiting", [])


@pytest.mark.parametrize(
    "state", [JobState.TIMEOUT, JobState.OUT_OF_MEMORY, JobState.ENDED, JobState.CANCELLED, JobState.MISSING]
)
def test_other_ends_are_final(world: World, state: JobState, monkeypatch: pytest.MonkeyPatch) -> None:
    for grace in ("MISSING_GRACE", "CANCELLED_GRACE"):
        monkeypatch.setattr(f"hpc_board.domain.run.{grace}", timedelta(0))
    run = world.run()
    world.advance.launch([run])
    ended = failed(world, run, JobStatus(state))
    assert ended.state.ended
    assert ended.retry == 0


def test_a_run_that_is_to_be_cancelled_is_not_sent_again(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    cancel(world.advance, run)
    assert failed(world, run).state is RunState.PREEMPTED
    assert len(world.scheduler.sent) == 1


class KilledError(BaseException):
    """The end of a client at this place."""


@pytest.mark.parametrize("place", ["before the retry is stored", "after it is stored", "after the job is sent"])
def test_a_client_that_is_killed_while_it_sends_a_run_again_loses_and_doubles_nothing(
    world: World, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.status = PREEMPTED
    if place == "after the job is sent":
        world.advance()
        world.scheduler.loses_answer = True
        world.scheduler.find_error = SchedulerError("down")
        with pytest.raises(SchedulerError):
            world.advance()
        world.scheduler.loses_answer, world.scheduler.find_error = False, None
    else:
        with monkeypatch.context() as patch:
            store = RunGateway.retry_each

            def die(self: RunGateway, retries: object) -> set[int]:
                if place == "after it is stored":
                    store(self, retries)  # type: ignore[arg-type]
                raise KilledError

            patch.setattr(RunGateway, "retry_each", die)
            with pytest.raises(KilledError):
                world.advance()
    world.scheduler.status = JobStatus(JobState.RUNNING)
    if place == "before the retry is stored":
        assert now(world, run).state is RunState.QUEUED
        world.scheduler.status = PREEMPTED
        world.advance()
        world.scheduler.status = JobStatus(JobState.RUNNING)
    world.advance()
    world.advance()
    running = now(world, run)
    assert (running.state, running.retry) == (RunState.RUNNING, 1)
    assert world.scheduler.sent == [run.token, running.token]


def test_a_job_that_the_scheduler_still_holds_is_cancelled_before_the_next_one_is_sent(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.cancel_error = SchedulerError("Socket timed out")
    world.scheduler.status = PREEMPTED
    with pytest.raises(SchedulerError):
        world.advance()
    assert now(world, run).state is RunState.QUEUED
    world.scheduler.cancel_error = None
    assert failed(world, run).retry == 1
    assert world.scheduler.cancelled == ["101"]


def test_a_job_that_is_held_since_it_could_not_be_launched_is_sent_again(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    held = JobStatus(JobState.PENDING, reason="will never start: it could not be launched", launch_failed=True)
    assert failed(world, run, held).state is RunState.QUEUED
    again = failed(world, run, held)
    assert (again.retry, again.status.reason) == (1, "retry 1 of 2 after node_fail: the job could not be launched")
    assert world.scheduler.cancelled == ["101"]
    # Killed between the cancellation and the retry, a client finds a cancelled job.
    other = world.run()
    world.advance.launch([other])
    failed(world, other, held)
    assert failed(world, other, JobStatus(JobState.CANCELLED)).retry == 1


def test_a_cancelled_job_whose_script_never_began_for_its_prolog_is_a_failed_node(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    run = world.run()
    world.advance.launch([run])
    world.leave(run, "slurm-101.out", b"Error running slurm prolog: 1\n")
    collecting = failed(world, run, JobStatus(JobState.CANCELLED, "101", node="n1", source="squeue: CANCELLED"))
    assert collecting.status.reason == "the node's prolog failed (Error running slurm prolog: 1)"
    # A script that began was cancelled; its output does not matter.
    world.leave(run, job_folder.PROGRESS, b"")
    assert failed(world, run, JobStatus(JobState.CANCELLED)).status.reason == ""


def test_an_unanswered_question_for_the_node_of_a_cancelled_job_ends_no_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[SchedulerError | str] = [
        SchedulerError("sinfo did not answer"),
        "the node's prolog failed (n1 is drained)",
    ]

    def prolog_failure(_: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, SchedulerError):
            raise answer
        return answer

    monkeypatch.setattr(world.scheduler, "prolog_failure", prolog_failure, raising=False)
    run = world.run()
    world.advance.launch([run])
    cancelled = JobStatus(JobState.CANCELLED, "101", node="n1", source="squeue: CANCELLED")
    assert failed(world, run, cancelled).state is RunState.QUEUED
    assert failed(world, run, cancelled).status.reason.endswith("the node's prolog failed (n1 is drained)")


def test_three_tasks_of_an_array_that_fail_together_are_an_array_again(arrays: ArrayWorld) -> None:
    runs = arrays.runs(4)
    arrays.advance.launch(runs)
    arrays.scheduler.on_poll = lambda _: None
    arrays.scheduler.status = PREEMPTED
    arrays.advance()
    again = [arrays.store.runs.get(run.id) for run in runs]
    assert {run.array for run in again} != {runs[0].array}
    assert [run.array_index for run in again] == [0, 1, 2, 3]
    assert len({run.array for run in again}) == 1
    arrays.scheduler.status = JobStatus(JobState.RUNNING)
    arrays.advance()
    assert arrays.scheduler.sent == [runs[0].array, again[0].array]
    assert arrays.states(runs) == [RunState.RUNNING] * 4
    arrays.scheduler.status = None


# A cluster that has no room for a job


def test_a_run_waits_for_a_full_cluster_and_is_looked_up_before_it_is_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "HELD_SECONDS", 0)
    world.scheduler.submit_error = QueueFull("MaxJobCount")
    run = world.run()
    assert world.advance.launch([run]) == []
    for _ in range(2 * ATTEMPTS_MAX):
        world.advance()
    waiting = now(world, run)
    assert waiting.state is RunState.SUBMITTING
    assert waiting.status.reason == "not accepted at the moment: no room: MaxJobCount"
    assert len(world.scheduler.looked_up) >= 2 * ATTEMPTS_MAX
    world.scheduler.submit_error = None
    world.advance()
    assert now(world, run).state is RunState.QUEUED


def test_a_submission_without_an_answer_is_not_taken_for_an_unsent_one_when_another_finds_no_room(
    world: World,
) -> None:
    unclear, other = world.run(), world.run()
    world.scheduler.loses_answer = True
    world.advance.launch([unclear])
    world.scheduler.loses_answer = False

    def refuse(_: Job) -> None:
        raise NotAccepting("a limit is reached")

    world.scheduler.on_submit = refuse
    assert now(world, unclear).state is RunState.SUBMITTING
    world.advance.launch([other, unclear])
    assert now(world, unclear).state in (RunState.SUBMITTING, RunState.QUEUED)
    world.advance()
    assert now(world, unclear).state is RunState.QUEUED
    assert world.scheduler.sent.count(unclear.token) == 1


def test_a_throttled_array_that_is_refused_goes_one_by_one_as_many_as_may_run(arrays: ArrayWorld) -> None:
    def refuse(job: Job) -> None:
        if job.indexes:
            assert job.max_running == 2
            raise NotAccepting("a limit on the submitted jobs", full=True)

    arrays.scheduler.on_submit = refuse
    runs = throttled(arrays, arrays.runs(4), "2")
    arrays.advance.launch(runs)
    assert arrays.states(runs) == [RunState.QUEUED] * 2 + [RunState.CREATED] * 2
    assert arrays.store.runs.get(runs[3].id).status.reason == "2 of its array run at a time"
    arrays.scheduler.status = JobStatus(JobState.RUNNING)
    arrays.advance()
    assert arrays.states(runs) == [RunState.RUNNING] * 2 + [RunState.CREATED] * 2


def test_a_throttle_holds_after_a_limit_too(arrays: ArrayWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Job) -> None:
        raise NotAccepting("a limit on the submitted jobs", full=True)

    arrays.scheduler.on_submit = refuse
    runs = throttled(arrays, arrays.runs(4), "2")
    arrays.advance.launch(runs)
    assert arrays.states(runs) == [RunState.CREATED] * 4
    arrays.scheduler.on_submit = lambda _: None
    set_clock(monkeypatch, lambda: datetime.now(UTC) + timedelta(hours=1))
    arrays.advance()
    arrays.advance()
    assert arrays.states(runs).count(RunState.QUEUED) == 2


def throttled(world: ArrayWorld, runs: list[Run], most: str) -> list[Run]:
    """The runs with the option max-running."""
    with closing(sqlite3.connect(world.store.file.path)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'runs_stay'").fetchone()
        db.execute("DROP TRIGGER runs_stay")
        db.execute("UPDATE runs SET options = ?", [json.dumps({"max_running": most})])
        db.execute(trigger)
        db.commit()
    return [world.store.runs.get(run.id) for run in runs]
