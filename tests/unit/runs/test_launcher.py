"""The launch of unsent runs, with a scheduler that refuses, is silent or loses its answer: none is sent twice."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from hpc_board.domain.run import JobState, JobStatus, RunState
from hpc_board.errors import AnswerTooLarge, NotAccepting, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.runs.launcher import ATTEMPTS_MAX
from hpc_board.runs.reconciler import Reconciler
from tests.harness.evaluations import a_task
from tests.scripted import Scripted
from tests.unit.runs.world import CLUSTER, GPU, World, cancel, right_result, script_of, set_clock
from tests.values import replace


def test_a_job_that_cannot_be_looked_up_is_not_sent_again(world: World) -> None:
    run = world.run()
    world.scheduler.loses_answer = True
    world.scheduler.find_error = SchedulerError("connection refused")
    world.advance.launch([run])
    for _ in range(2 * ATTEMPTS_MAX):
        world.advance.run_pass()
    assert world.scheduler.sent == [run.token]
    assert world.state(run) is RunState.SUBMITTING
    unclear = world.store.runs.get(run.id).status
    assert (unclear.reason, unclear.source) == ("the scheduler has not confirmed the job", "connection refused")
    assert unclear.unanswered
    world.scheduler.find_error = None
    world.advance()
    assert world.scheduler.sent == [run.token]
    found = world.store.runs.get(run.id).status
    assert (found.job_id, found.reason, found.unanswered) == (world.scheduler.jobs[run.token], "", False)


def test_the_jobs_of_runs_that_one_runner_may_judge_have_one_request_and_a_fresh_run_has_none(world: World) -> None:
    world.advance.launch([world.run(), world.run(Mode.TEST), world.run(fresh=True)])
    first, second, fresh = [job.request for job in world.scheduler.submitted]
    assert first == second != ""
    assert fresh == ""
    other = replace(GPU, env={"GREETING": "hello"})
    replace(world.advance, gpus={"H100": other}).launch([world.run()])
    assert world.scheduler.submitted[-1].request not in (first, "")


def test_accounts_that_are_too_long_leave_one_run_undecided_and_hinder_no_other(world: World) -> None:
    unclear = world.run()
    world.scheduler.loses_answer = True
    world.advance.launch([unclear])
    world.scheduler.loses_answer = False
    world.scheduler.find_error = AnswerTooLarge("the output of sacct exceeds the limit")
    other = world.run()
    world.advance.run_pass()
    assert world.scheduler.sent == [unclear.token, other.token]
    assert [world.state(run) for run in (unclear, other)] == [RunState.SUBMITTING, RunState.QUEUED]


def test_a_job_that_never_arrived_is_sent_again_a_few_times_only(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    for _ in range(2 * ATTEMPTS_MAX):
        world.advance.run_pass()
    assert world.scheduler.sent == [run.token] * ATTEMPTS_MAX
    assert world.state(run) is RunState.ERROR
    created, *tried, ended = world.store.runs.history(run.id)
    counted = [attempt for attempt in range(1, ATTEMPTS_MAX + 1) for _ in ("begun", "unanswered")]
    assert [(status.state, status.attempt) for status in tried] == [(RunState.SUBMITTING, each) for each in counted]
    assert (created.attempt, ended.attempt) == (0, 0)
    assert ended.reason == f"not accepted after {ATTEMPTS_MAX} attempts: Socket timed out"
    assert world.store.runs.get(run.id).status == ended


def test_a_job_without_an_answer_is_looked_up_no_more_often_than_a_queue_is_asked(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    seldom = replace(
        world.advance,
        lookup_delay=timedelta(hours=1),
        clusters={"main": replace(CLUSTER, poll_seconds=3600)},
    )
    seldom.launch([run])
    for _ in range(3):
        seldom()
    assert world.scheduler.looked_up == [run.token]
    replace(seldom, clusters={"main": replace(CLUSTER, poll_seconds=0)})()
    assert world.scheduler.looked_up == [run.token] * 2


def test_a_turn_tells_why_a_run_is_not_sent_after_it_has_carried_on_the_others(world: World) -> None:
    queued = world.run()
    world.advance.launch([queued])
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    unsent = world.run()
    world.scheduler.status = JobStatus(JobState.RUNNING)
    with pytest.raises(SchedulerError, match="Socket timed out"):
        world.advance()
    assert world.state(unsent) is RunState.SUBMITTING
    assert world.state(queued) is RunState.RUNNING


def test_a_run_whose_gpu_has_left_the_settings_ends(world: World) -> None:
    run = world.run()
    (error,) = replace(world.advance, gpus={}).launch([run])
    assert error.message == "GPU H100 is no longer in the settings; rerun it on another one"
    assert world.state(run) is RunState.ERROR


def test_a_damaged_script_ends_its_run_alone(world: World) -> None:
    damaged = world.run()
    with world.store.file.writing() as db:
        db.execute("DROP TRIGGER scripts_stay")
        db.execute("UPDATE scripts SET script = '{}'")
    whole = world.run(Mode.TEST)
    assert world.advance()
    assert world.state(damaged) is RunState.ERROR
    assert world.store.runs.get(damaged.id).status.reason.startswith(
        "the batch script of run 1 in the database is damaged"
    )
    assert world.state(whole) is RunState.QUEUED


def test_a_refusal_hinders_no_turn_since_the_run_itself_tells_it(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerRefused("invalid partition")
    assert world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.store.runs.get(run.id).status.reason == "invalid partition"


def test_a_submission_waits_once_for_a_cluster_that_hangs(
    world: World, beside: tuple[Scripted, Reconciler, list[float]]
) -> None:
    hanging, advance, clock = beside
    runs = [world.run(cluster=name) for name in ("hangs", "hangs", "main", "hangs")]
    errors = advance.launch(runs)
    assert [error.message for error in errors] == ["sbatch did not answer within 60 s"]
    assert (len(hanging.sent), clock[0], world.state(runs[2])) == (1, 60, RunState.QUEUED)


def test_a_passing_fault_of_the_disk_ends_no_run(world: World) -> None:
    run = world.run()
    (world.folder / "runs").write_text("in the way")
    (error,) = world.advance.launch([run])
    assert isinstance(error, StorageError)
    assert world.state(run) is RunState.CREATED
    (world.folder / "runs").unlink()
    world.advance()
    assert world.state(run) is RunState.QUEUED


def test_a_cancelled_submission_that_never_arrived_is_not_sent_again(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    world.advance.launch([run])
    cancel(world.advance, run)
    world.advance()
    assert world.scheduler.sent == [run.token]
    assert world.state(run) is RunState.CANCELLED


@pytest.mark.parametrize(("job_id", "state"), [("7", RunState.FINISHED), ("", RunState.ERROR), ("a b", RunState.ERROR)])
def test_a_job_without_an_answer_that_has_ended_and_is_forgotten_is_not_sent_again(
    world: World, job_id: str, state: RunState
) -> None:
    run = world.run()
    world.scheduler.loses_answer = True
    world.advance.launch([run])
    world.scheduler.jobs.clear()
    world.leave(run, job_folder.RESULT, replace(right_result(run, a_task()), job_id=job_id).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert (ended.state, world.scheduler.sent) == (state, [run.token])
    if state is RunState.FINISHED:
        assert ended.status.job_id == job_id
    else:
        assert "it has no job ID" in ended.status.reason


def test_a_silent_scheduler_gets_no_jobs_during_its_rest(
    world: World, beside: tuple[Scripted, Reconciler, list[float]]
) -> None:
    hanging, advance, clock = beside
    advance.launch([world.run(cluster="hangs")])
    later, other = world.run(cluster="hangs"), world.run(cluster="hangs")
    (error,) = advance.launch([later, other])
    assert error.message == "the scheduler of cluster hangs has not answered since 12:00 UTC"
    assert (len(hanging.sent), clock[0]) == (1, 60)
    for run in (later, other):
        assert (world.state(run), world.store.runs.get(run.id).status.reason) == (RunState.CREATED, error.message)
    clock[0] += 3600
    hanging.submit_error, hanging.on_submit = None, lambda _: None
    hanging.poll_error, hanging.on_poll = None, lambda _: None
    advance.run_pass()
    assert [world.state(run) for run in (later, other)] == [RunState.QUEUED] * 2


def test_a_pass_sends_runs_for_a_minute_and_leaves_the_others_to_the_next_one(
    world: World, beside: tuple[Scripted, Reconciler, list[float]]
) -> None:
    _, advance, clock = beside

    def take_a_while(_: object) -> None:
        clock[0] += 25

    world.scheduler.on_submit = take_a_while
    runs = [world.run() for _ in range(5)]
    advance.run_pass(clusters=["main"])
    assert world.scheduler.sent == [run.token for run in runs[:3]]
    advance.run_pass(clusters=["main"])
    assert world.scheduler.sent == [run.token for run in runs]
    more = [world.run() for _ in range(5)]
    advance.launch(more)
    assert len(world.scheduler.sent) == 10, "a client that submits may have no further pass"


def test_runs_that_wait_for_two_reasons_get_no_row_in_each_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    set_clock(monkeypatch, lambda: now)
    limited = replace(world.advance, runs_per_user=1)
    world.scheduler.submit_error = NotAccepting("the partition does not accept jobs", hint="It is sent later.")
    runs = [world.run() for _ in range(3)]
    limited.launch(runs)
    limited.run_pass()
    rows = [len(world.store.runs.history(run.id)) for run in runs]
    for _ in range(3):
        # The next try is due in the first of two passes.
        now += timedelta(hours=1)
        limited.run_pass()
        limited.run_pass()
    assert [len(world.store.runs.history(run.id)) for run in runs[1:]] == rows[1:]


def test_a_cancellation_is_stored_while_another_client_is_busy(world: World) -> None:
    sent, unsent = world.run(), world.run()
    world.advance.launch([sent])
    with replace(world.advance).locks.of("main", wait_seconds=0) as mine:
        assert mine
        errors = world.advance.cancel([world.store.runs.get(sent.id), unsent], "ada")
    assert [f"The cancellation of run {number} is stored" in error.hint for number, error in errors.items()] == [
        True
    ] * 2
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.advance()
    assert world.scheduler.cancelled == [world.scheduler.jobs[sent.token]]
    assert (world.state(unsent), world.scheduler.sent) == (RunState.CANCELLED, [sent.token])


def test_a_run_is_sent_with_the_script_that_was_stored(world: World) -> None:
    run = world.run()
    gpu = replace(GPU, time_limit_seconds=60)
    replace(world.advance, gpus={"H100": gpu}).launch([run])
    (job,) = world.scheduler.submitted
    stored = msgspec.json.decode(script_of(a_task(), run.mode), type=job_folder.Script)
    assert (job.folder / job.script).read_text() == stored.text
    assert (job.options, job.time_limit_seconds) == (stored.options, stored.time_limit_seconds)
    assert stored.time_limit_seconds != 60
