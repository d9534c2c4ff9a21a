"""The state machine with a scheduler that misbehaves on demand: no run is doubled, lost, or stuck."""

import json
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

from hpc_board.domain.run import CANCELLED_GRACE, MISSING_GRACE, JobState, JobStatus, Run, RunState, Status
from hpc_board.errors import InputError, SchedulerError, SchedulerRefused
from hpc_board.runs import job_folder
from hpc_board.runs.backoff import SharedPause
from tests.scripted import Scripted
from tests.unit.runs.world import CLUSTER, World, asked_by, cancel, set_clock
from tests.values import replace


def test_a_run_that_a_client_with_other_settings_sends_is_not_ended_for_a_cluster_that_left(world: World) -> None:
    gone = replace(world.advance, schedulers={"other": Scripted()}, clusters={"other": replace(CLUSTER, name="other")})
    run, seen = world.run(), []

    def look(_: object) -> None:
        gone.run_pass()
        seen.append(world.state(run))

    sending = replace(world.advance, schedulers={"main": Scripted(on_submit=look)})
    assert sending.launch([run]) == []
    assert seen == [RunState.SUBMITTING]
    assert world.state(run) is RunState.QUEUED
    gone.run_pass()
    assert "cluster main is no longer in the settings" in world.store.runs.get(run.id).status.reason


def test_who_waits_for_a_run_carries_on_all_of_them_only_when_a_look_at_all_is_due(world: World) -> None:
    runs = [world.run() for _ in range(3)]
    rarely = replace(world.advance, clusters={"main": replace(CLUSTER, poll_seconds=600)})
    rarely.launch(runs)
    assert asked_by(rarely.run_pass()) == {"main"}
    for run in runs:
        world.leave(run, job_folder.PROGRESS, b"{}\n")
    scan = SharedPause(world.folder / "scanned-main", 60)
    scan.begin(datetime.now(UTC), 600)
    assert asked_by(rarely.run_pass([runs[0].id])) == set()
    assert [world.state(run) for run in runs] == [RunState.RUNNING, RunState.QUEUED, RunState.QUEUED]
    scan.begin(datetime.now(UTC) - timedelta(minutes=2), 600)
    rarely.run_pass([runs[0].id])
    assert {world.state(run) for run in runs} == {RunState.RUNNING}


def test_the_pause_after_a_scan_grows_with_its_length(world: World) -> None:
    scanned = world.folder / "scanned-main"
    assert world.advance()
    world.run()
    world.scheduler.on_submit = lambda _: time.sleep(0.2)
    assert world.advance()
    assert json.loads(scanned.read_text())["seconds"] >= 1.8
    assert not SharedPause(scanned, 60).is_over(datetime.now(UTC))


def test_a_run_of_a_cluster_that_left_the_settings_hinders_no_other(world: World) -> None:
    queued, created = world.run(), world.run()
    world.advance.launch([queued])
    gone = replace(world.advance, schedulers={}, clusters={})
    assert gone()
    assert world.state(created) is RunState.ERROR
    assert world.state(queued) is RunState.QUEUED
    assert "cluster main is no longer in the settings" in world.store.runs.get(queued.id).status.reason
    with pytest.raises(InputError, match="cluster main"):
        cancel(gone, queued)


def test_a_cluster_that_is_in_the_settings_again_is_not_called_absent_while_its_scheduler_is_silent(
    world: World,
) -> None:
    run = world.run()
    world.advance.launch([run])
    assert replace(world.advance, schedulers={}, clusters={})()
    assert "cluster main is no longer in the settings" in world.store.runs.get(run.id).status.reason
    world.scheduler.poll_error = SchedulerError("connection refused")
    with pytest.raises(SchedulerError):
        world.advance()
    assert world.store.runs.get(run.id).status.reason == ""


def test_runs_are_cancelled_together(world: World) -> None:
    queued, other, unsent, ended = (world.run() for _ in range(4))
    cancel(world.advance, ended)
    world.advance.launch([queued, other])
    runs = [world.store.runs.get(run.id) for run in (queued, other, unsent, ended)]
    assert world.advance.cancel(runs, "ada") == {}
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token] for run in (queued, other)]
    assert world.state(unsent) is RunState.CANCELLED
    assert all(world.store.runs.get(run.id).status.cancel_requested for run in (queued, other))


def test_a_wish_to_cancel_outlives_a_submission_without_an_answer(world: World) -> None:
    run = world.run()
    world.scheduler.loses_answer = True
    world.scheduler.find_error = SchedulerError("connection refused")
    world.advance.launch([run])
    with pytest.raises(SchedulerError, match="connection refused"):
        cancel(world.advance, run)
    world.scheduler.find_error = None
    world.advance()
    assert world.scheduler.sent == [run.token]
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token]]


def test_a_cancelled_run_that_nobody_can_find_stays_a_cancelled_one(world: World) -> None:
    run = world.run()
    world.scheduler.loses_answer = True
    world.scheduler.find_error = SchedulerError("connection refused")
    world.advance.launch([run])
    with pytest.raises(SchedulerError):
        cancel(world.advance, run)
    for hindered in (world.store.runs.get(run.id).status, _status_after_a_turn(world, run)):
        assert hindered.state is RunState.SUBMITTING
        assert hindered.reason.startswith("cancel requested by ada at ")
        assert hindered.unanswered
        assert hindered.cancel_requested


def test_a_cancelled_run_says_who_requested_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.run()
    world.advance.launch([run])
    cancel(world.advance, run)
    world.scheduler.status = JobStatus(JobState.COMPLETING)
    world.advance()
    world.scheduler.status = JobStatus(JobState.CANCELLED, source="squeue: CANCELLED (Resources)")
    assert _status_after_a_turn(world, run).state is RunState.COLLECTING
    set_clock(monkeypatch, lambda: datetime.now(UTC) + timedelta(hours=1))
    ended = _status_after_a_turn(world, run)
    assert ended.state is RunState.CANCELLED
    assert ended.reason.startswith("cancel requested by ada at ")


def _status_after_a_turn(world: World, run: Run) -> Status:
    world.advance.run_pass()
    return world.store.runs.get(run.id).status


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_a_wish_to_cancel_a_job_that_cannot_be_reached_is_stored_said_so_and_done_later(
    world: World, state: JobState
) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.cancel_error = SchedulerError("squeue failed", hint="nothing was changed; try again later")
    with pytest.raises(SchedulerError, match="squeue failed") as caught:
        cancel(world.advance, run)
    assert f"The cancellation of run {run.id} is stored" in caught.value.hint
    assert "nothing has changed" not in caught.value.hint
    world.scheduler.status = JobStatus(state, reason="Priority")
    with pytest.raises(SchedulerError, match="squeue failed"):
        world.advance()
    assert world.store.runs.get(run.id).status.reason.startswith("cancel requested by ada at ")
    world.scheduler.cancel_error = None
    world.advance()
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token]]


def test_a_wish_to_cancel_without_the_schedulers_commands_says_what_they_lack_as_well(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.cancel_error = SchedulerRefused("squeue cannot be run", hint="Run hpc-board on a login node.")
    with pytest.raises(SchedulerRefused) as caught:
        cancel(world.advance, run)
    assert caught.value.hint.startswith(f"Run hpc-board on a login node. The cancellation of run {run.id} is stored")


def test_a_job_cannot_call_off_its_cancellation(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    cancel(world.advance, run)
    shutil.rmtree(job_folder.folder(world.folder, run.id))
    world.scheduler.status = JobStatus(JobState.MISSING)
    world.advance()
    since = datetime.now(UTC) - MISSING_GRACE
    world.store.runs.record(run.id, replace(world.store.runs.get(run.id).status, ended_in_queue_at=since))
    world.advance()
    assert world.state(run) is RunState.CANCELLED


def test_an_unwanted_job_that_an_answer_lacks_is_cancelled_when_it_is_listed_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.cancel_error = SchedulerError("Socket timed out")
    with pytest.raises(SchedulerError):
        cancel(world.advance, run)
    world.scheduler.cancel_error = None
    world.scheduler.status = JobStatus(JobState.MISSING)
    world.advance()
    set_clock(monkeypatch, lambda: datetime.now(UTC) + CANCELLED_GRACE / 2)
    world.advance()
    assert world.state(run) is RunState.COLLECTING
    world.scheduler.status = JobStatus(JobState.PENDING)
    world.advance()
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token]]


@pytest.mark.parametrize("unwanted", [False, True])
def test_accounts_that_never_answer_keep_no_run_that_is_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch, unwanted: bool
) -> None:
    run = world.run()
    world.advance.launch([run])
    silent = JobStatus(JobState.UNKNOWN, source="squeue: not listed; sacct failed: Access denied", unlisted=True)
    world.scheduler.status = silent
    world.advance()
    world.scheduler.status = replace(silent, source="squeue: not listed; sacct did not answer within 2 s")
    world.advance()
    known = world.store.runs.get(run.id).status
    assert (known.state, known.source) == (RunState.QUEUED, silent.source)
    if unwanted:
        cancel(world.advance, run)
    world.advance()
    set_clock(monkeypatch, lambda: datetime.now(UTC) + MISSING_GRACE)
    world.advance()
    assert world.state(run) is (RunState.CANCELLED if unwanted else RunState.QUEUED)


def test_a_run_whose_folder_was_removed_is_followed_and_cancelled(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    shutil.rmtree(job_folder.folder(world.folder, run.id))
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.advance()
    assert world.state(run) is RunState.RUNNING
    cancel(world.advance, run)
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token]]


def test_a_wish_to_cancel_says_when_it_was_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.run()
    world.advance.launch([run])
    since = world.store.runs.get(run.id).status.at
    set_clock(monkeypatch, lambda: datetime(2026, 5, 1, 13, 3, 9, tzinfo=UTC))
    cancel(world.advance, run)
    status = world.store.runs.history(run.id)[-1]
    assert (status.reason, status.at) == ("cancel requested by ada at 13:03:09 UTC", since)
