"""Runs that go together in a job array: sent by one submission, looked up by one question, never in two arrays."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board.domain.board_options import BoardOptions, Visibility
from hpc_board.domain.run import JobState, JobStatus, Run, RunState
from hpc_board.domain.user_board import Action
from hpc_board.errors import NotAccepting, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.task import Mode, Task
from hpc_board.runs.backoff import Backoff, SharedPause
from hpc_board.runs.clusters import is_throttled
from hpc_board.runs.launcher import ATTEMPTS_MAX
from hpc_board.runs.reconciler import Reconciler
from hpc_board.schedulers import Arrays, Job
from hpc_board.store import Store
from hpc_board.store.boards import NewChange
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.harness.evaluations import a_task
from tests.scripted import Scripted, ScriptedArrays
from tests.unit.runs.world import CODE, HARNESS, cancel, script_of, set_clock, sha256_of, world_in
from tests.values import replace


def refuse(which: Callable[[Job], bool]) -> Callable[[Job], None]:
    """Have a scheduler refuse these jobs."""

    def on_submit(job: Job) -> None:
        if which(job):
            raise SchedulerRefused("Invalid job array specification" if job.indexes else "Invalid partition")

    return on_submit


@dataclass
class ArrayWorld:
    """A board with one scripted cluster that takes arrays."""

    folder: Path
    scheduler: ScriptedArrays
    advance: Reconciler
    store: Store

    def runs(self, count: int = 4, tasks: Sequence[Task] = ()) -> list[Run]:
        """Runs that are made for one array."""
        name = os.urandom(8).hex()
        at = datetime.now(UTC)
        new = []
        for index, task in enumerate(tasks or [a_task()] * count):
            token, script = f"{name}.{index}", script_of(task, Mode.RANKED)
            run = NewRun("H100", "main", "gpu", token, "n", "self-run", False, sha256_of(HARNESS), script=script)
            new.append(NewSubmission(task, "ada", "k.py", CODE, Mode.RANKED, "", at, [run]))
        stored = self.store.submissions.add_all(new, sender=None)
        return [run for _, (run,) in stored]

    def indexes(self) -> list[tuple[int, ...]]:
        """Those of the jobs that were sent."""
        return [tuple(job.indexes) for job in self.scheduler.submitted]

    def states(self, runs: Sequence[Run]) -> list[RunState]:
        return [self.store.runs.get(run.id).state for run in runs]

    def ids(self, runs: Sequence[Run]) -> list[str]:
        return [self.store.runs.get(run.id).status.job_id for run in runs]


@pytest.fixture
def world(tmp_path: Path) -> ArrayWorld:
    plain, scheduler = world_in(tmp_path), ScriptedArrays()
    assert isinstance(scheduler, Arrays)
    return ArrayWorld(tmp_path, scheduler, replace(plain.advance, schedulers={"main": scheduler}), plain.store)


def test_runs_of_an_array_are_sent_at_once_and_each_has_the_id_of_its_task(world: ArrayWorld) -> None:
    runs = world.runs(4)
    assert world.advance.launch(runs) == []
    assert world.scheduler.sent == [runs[0].array]
    (sent,) = world.scheduler.submitted
    assert sent.indexes == [0, 1, 2, 3]
    assert world.ids(runs) == ["101_0", "101_1", "101_2", "101_3"]
    assert 'cd "$PWD.$SLURM_ARRAY_TASK_ID"' in (sent.folder / sent.script).read_text()
    for run in runs:
        assert (world.folder / "runs" / run.token / "job.json").is_file()


def close(world: ArrayWorld, task: Task) -> None:
    options = BoardOptions("ada", visibility=Visibility.CLOSED)
    change = NewChange(task.name, Action.CREATE, task, options, "ada", datetime.now(UTC), "", after=0)
    world.store.boards.change([change])


def test_a_comment_names_open_boards_alone(world: ArrayWorld) -> None:
    exam, practice = a_task(name="exam"), a_task(name="practice")
    close(world, exam)
    for tasks in ([practice, exam], [exam], [exam, exam], [practice, practice]):
        assert world.advance.launch(world.runs(len(tasks), tasks)) == []
    comments = [job.comment for job in world.scheduler.submitted]
    runs = "hpc-board run"
    assert comments == [f"{runs} 1-2, practice", f"{runs} 3", f"{runs} 4-5", f"{runs} 6-7, practice"]


def test_runs_that_a_client_left_behind_are_sent_by_the_next_one_as_the_same_array(world: ArrayWorld) -> None:
    runs, others = world.runs(3), world.runs(2)
    cancel(world.advance, runs[1])
    world.advance()
    assert world.scheduler.sent == [runs[0].array, others[0].array]
    assert world.indexes() == [(0, 2), (0, 1)]
    assert world.states(runs) == [RunState.QUEUED, RunState.CANCELLED, RunState.QUEUED]


def test_an_array_whose_answer_was_lost_is_looked_up_with_one_question_and_taken_over_whole(world: ArrayWorld) -> None:
    runs = world.runs(4)
    world.scheduler.loses_answer = True
    errors = world.advance.launch(runs)
    assert [error.message for error in errors] == ["Socket timed out"] * 4
    assert all(world.store.runs.get(run.id).status.unanswered for run in runs)
    cancel(world.advance, runs[2])
    assert world.scheduler.cancelled == ["101_2"]
    world.scheduler.looked_up.clear()
    world.advance()
    assert len(world.scheduler.looked_up) == 1
    assert world.scheduler.sent == [runs[0].array]
    assert world.ids(runs) == ["101_0", "101_1", "101_2", "101_3"]


def test_an_array_that_never_arrived_is_sent_again_as_it_was_once_it_has_settled(world: ArrayWorld) -> None:
    runs = world.runs(3)
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    patient = replace(world.advance, lookup_delay=timedelta(hours=1))
    for _ in range(3):
        patient.run_pass()
    assert world.scheduler.sent == [runs[0].array]
    for _ in range(2 * ATTEMPTS_MAX):
        world.advance.run_pass()
    assert world.scheduler.sent == [runs[0].array] * ATTEMPTS_MAX
    assert set(world.indexes()) == {(0, 1, 2)}
    assert world.states(runs) == [RunState.ERROR] * 3


def test_an_array_is_not_sent_without_a_run_whose_folder_cannot_be_written(world: ArrayWorld) -> None:
    runs = world.runs(3)
    obstacle = world.folder / "runs" / runs[1].token
    obstacle.parent.mkdir()
    obstacle.write_text("in the way")
    errors = world.advance.launch(runs)
    assert [type(error) for error in errors] == [StorageError] * 3
    assert world.states(runs) == [RunState.CREATED] * 3
    obstacle.unlink()
    world.advance()
    assert world.indexes() == [(0, 1, 2)]


def test_where_arrays_are_refused_each_run_has_a_job_of_its_own(world: ArrayWorld) -> None:
    runs = world.runs(3)
    world.scheduler.on_submit = refuse(lambda job: bool(job.indexes))
    assert world.advance.launch(runs) == []
    assert world.scheduler.sent == [runs[0].array, *(run.token for run in runs)]
    assert world.ids(runs) == ["102", "103", "104"]


def test_an_array_above_the_size_that_the_cluster_takes_goes_as_smaller_ones(world: ArrayWorld) -> None:
    runs = world.runs(8)
    world.scheduler.size = 3
    world.scheduler.on_submit = refuse(lambda job: len(job.indexes) > 3)
    assert world.advance.launch(runs) == []
    assert world.indexes() == [(*range(8),), (0, 1, 2), (0, 1, 2), (0, 1)]
    sent = [world.store.runs.get(run.id) for run in runs]
    assert [run.state for run in sent] == [RunState.QUEUED] * 8
    assert len({run.array for run in sent}) == 3
    assert len({run.nonce for run in sent}) == 8


def test_a_refused_array_waits_until_the_scheduler_tells_how_large_one_may_be(
    world: ArrayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> int:
        raise SchedulerError("scontrol failed: status 1, no message", throttled=True)

    runs = world.runs(4)
    world.scheduler.on_submit = refuse(lambda job: len(job.indexes) > 2)
    monkeypatch.setattr(world.scheduler, "array_size", silent)
    assert world.advance.launch(runs) == []
    assert world.indexes() == [(0, 1, 2, 3)]
    assert world.store.runs.get(runs[0].id).status.reason == (
        "not accepted at the moment: Invalid job array specification; "
        "the scheduler does not tell how large an array may be"
    )
    assert world.states(runs) == [RunState.CREATED] * 4


def test_what_is_refused_alone_as_in_the_array_is_not_tried_for_every_run(world: ArrayWorld) -> None:
    runs = world.runs(5)
    world.scheduler.on_submit = refuse(lambda _: True)
    errors = world.advance.launch(runs)
    assert world.scheduler.sent == [runs[0].array, runs[0].token]
    assert [error.message for error in errors] == ["Invalid partition"] * 5
    assert world.states(runs) == [RunState.ERROR] * 5


def test_a_limit_on_the_number_of_jobs_lets_as_many_in_as_it_allows(world: ArrayWorld) -> None:
    runs = world.runs(4)
    world.scheduler.on_submit = refuse(lambda job: bool(job.indexes) or len(world.scheduler.jobs) >= 2)
    assert len(world.advance.launch(runs)) == 2
    assert world.states(runs) == [RunState.QUEUED, RunState.QUEUED, RunState.ERROR, RunState.ERROR]


def test_a_scheduler_that_falls_silent_after_it_refused_an_array_is_not_waited_for_again_and_again(
    world: ArrayWorld,
) -> None:
    runs = world.runs(4)
    refuse_arrays = refuse(lambda job: bool(job.indexes))

    def on_submit(job: Job) -> None:
        refuse_arrays(job)
        if job.name == runs[1].token:
            raise SchedulerError("Socket timed out")

    world.scheduler.on_submit = on_submit
    assert len(world.advance.launch(runs)) == 3
    assert world.scheduler.sent == [runs[0].array, runs[0].token, runs[1].token]
    world.scheduler.on_submit = refuse_arrays
    world.advance()
    assert world.states(runs) == [RunState.QUEUED] * 4
    assert sorted(world.scheduler.sent) == sorted(
        [runs[0].array, runs[0].array, *(run.token for run in runs), runs[1].token]
    )


def test_runs_that_ask_for_different_things_by_now_are_sent_one_by_one(world: ArrayWorld) -> None:
    long = a_task(name="long", limits={**a_task().limits, "judge_seconds": 3000})
    runs = world.runs(2, [a_task(), long])
    world.advance.launch(runs)
    assert world.scheduler.sent == [run.token for run in runs]


def test_a_scheduler_without_arrays_gets_one_job_after_the_other(world: ArrayWorld) -> None:
    runs, plain = world.runs(2), Scripted()
    without = replace(world.advance, schedulers={"main": plain})
    plain.loses_answer = True
    without.launch(runs)
    assert plain.sent == [runs[0].token]
    plain.loses_answer = False
    without.run_pass()
    assert plain.looked_up == [runs[0].token]
    assert plain.sent == [runs[0].token, runs[1].token]
    assert world.states(runs) == [RunState.QUEUED] * 2


def test_who_watches_a_part_of_an_array_does_not_send_that_part(world: ArrayWorld) -> None:
    others = world.runs()
    rarely = replace(
        world.advance, clusters={name: replace(each, poll_seconds=600) for name, each in world.advance.clusters.items()}
    )
    rarely.launch(others)
    assert rarely.run_pass() is not None
    runs = world.runs()
    SharedPause(world.folder / "scanned-main", 60).begin(datetime.now(UTC), 600)
    rarely.run_pass([run.id for run in runs[2:]])
    assert set(world.states(runs)) == {RunState.CREATED}
    rarely.run_pass()
    assert set(world.states(runs)) == {RunState.QUEUED}
    assert world.indexes() == [(0, 1, 2, 3), (0, 1, 2, 3)]


def test_runs_over_a_limit_wait_for_room_without_a_question_in_each_pass(
    world: ArrayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 1

    def on_submit(job: Job) -> None:
        if job.indexes or len(world.scheduler.jobs) >= room:
            raise NotAccepting("QOSMaxSubmitJobPerUserLimit", hint="It is sent later.", full=True)

    world.scheduler.on_submit = on_submit
    runs = world.runs(4)
    assert world.advance.launch(runs) == []
    assert world.states(runs) == [RunState.QUEUED, RunState.CREATED, RunState.CREATED, RunState.CREATED]
    waiting = world.store.runs.get(runs[3].id).status
    assert waiting.reason == "not accepted at the moment: no room: QOSMaxSubmitJobPerUserLimit"
    assert world.indexes() == [(0, 1, 2, 3), (), ()]
    world.scheduler.status = JobStatus(JobState.PENDING)
    room = 3
    assert world.advance()
    assert len(world.scheduler.submitted) == 3
    later = datetime.now(UTC) + timedelta(hours=1)
    set_clock(monkeypatch, lambda: later)
    assert world.advance()
    assert world.states(runs) == [RunState.QUEUED, RunState.QUEUED, RunState.QUEUED, RunState.CREATED]
    assert world.indexes()[3:] == [(), (), ()]
    cancel(world.advance, runs[3])
    assert world.states(runs)[3] is RunState.CANCELLED


@pytest.mark.parametrize(
    "error",
    [
        NotAccepting("the controller asked to try again later (Rate limit exceeded)", throttled=True),
        NotAccepting("the partition of a limit on the submitted jobs is inactive"),
    ],
    ids=["throttled", "inactive"],
)
def test_an_array_is_not_unrolled_without_an_answer_about_arrays(
    world: ArrayWorld, monkeypatch: pytest.MonkeyPatch, error: NotAccepting
) -> None:
    runs, others = world.runs(), world.runs()
    world.scheduler.submit_error = error
    assert world.advance.launch([*runs, *others]) == []
    assert world.indexes() == [(0, 1, 2, 3)]
    assert world.states(runs) == [RunState.CREATED] * 4
    world.advance()
    assert len(world.scheduler.submitted) == 1
    world.scheduler.submit_error = None
    later = datetime.now(UTC) + timedelta(hours=1)
    set_clock(monkeypatch, lambda: later)
    world.advance()
    assert world.indexes() == [(0, 1, 2, 3)] * 3
    assert world.states([*runs, *others]) == [RunState.QUEUED] * 8


def test_a_controller_that_asks_for_less_gets_no_command_of_any_client(
    world: ArrayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = world.runs(1)
    world.advance.launch([run])
    world.scheduler.poll_error = SchedulerError("squeue failed: status 1, no message", throttled=True)
    later = datetime.now(UTC) + timedelta(minutes=2)
    set_clock(monkeypatch, lambda: later)
    with pytest.raises(SchedulerError, match="no message"):
        world.advance()
    others = world.runs()
    client = replace(world.advance)
    assert len(client.launch(others)) == 1
    client()
    assert (len(world.scheduler.submitted), len(world.scheduler.polled)) == (1, 1)
    assert world.states(others) == [RunState.CREATED] * 4


def test_a_job_that_is_sent_too_soon_begins_a_rest_that_no_answer_of_its_pass_ends(world: ArrayWorld) -> None:
    (running,) = world.runs(1)
    world.advance.launch([running])
    world.runs()
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.scheduler.submit_error = NotAccepting("Rate limit exceeded", throttled=True)
    world.advance()
    assert world.scheduler.polled == []
    assert Backoff(world.folder / "asked-main", 30).rests(datetime.now(UTC))


def test_a_client_that_asks_too_much_during_a_pass_begins_a_rest_that_its_answer_does_not_end(
    world: ArrayWorld,
) -> None:
    (run,) = world.runs(1)
    world.advance.launch([run])
    backoff = Backoff(world.folder / "asked-main", 30)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.scheduler.on_poll = lambda _: backoff.fail(datetime.now(UTC), 0, throttled=True)
    world.advance()
    assert world.states([run]) == [RunState.RUNNING]
    assert backoff.rests(datetime.now(UTC))


@pytest.mark.parametrize("sent", [True, False])
def test_a_cancellation_that_comes_too_soon_begins_a_rest(world: ArrayWorld, *, sent: bool) -> None:
    runs = world.runs()
    world.scheduler.loses_answer = not sent
    world.advance.launch(runs)
    world.scheduler.find_error = world.scheduler.cancel_error = SchedulerError("Rate limit exceeded", throttled=True)
    (error, *_) = world.advance.cancel(runs, "ada").values()
    assert is_throttled(error)
    assert Backoff(world.folder / "asked-main", 30).rests(datetime.now(UTC))


def test_a_gpu_that_takes_no_jobs_is_tried_once_in_a_pass_only(world: ArrayWorld) -> None:
    def on_submit(job: Job) -> None:
        if job.gpu.name == "H100":
            raise NotAccepting("the partition does not accept jobs", hint="It is sent later.")

    world.scheduler.on_submit = on_submit
    runs = [run for _ in range(3) for run in world.runs(1)]
    assert world.advance.launch(runs) == []
    assert world.states(runs) == [RunState.CREATED] * 3
    assert len(world.scheduler.submitted) == 1


def test_tries_in_vain_at_a_limit_do_not_count(world: ArrayWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    set_clock(monkeypatch, lambda: now)
    world.scheduler.submit_error = NotAccepting("a limit is reached")
    (run,) = world.runs(1)
    world.advance.launch([run])
    for _ in range(ATTEMPTS_MAX):
        now += timedelta(hours=1)
        assert world.advance()
    assert len(world.scheduler.submitted) == ATTEMPTS_MAX + 1
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    now += timedelta(hours=1)
    with pytest.raises(SchedulerError, match="timed out"):
        world.advance()
    world.scheduler.submit_error = None
    now += timedelta(hours=1)
    assert world.advance()
    assert world.states([run]) == [RunState.QUEUED]


def test_new_runs_wait_behind_held_ones(world: ArrayWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    set_clock(monkeypatch, lambda: now)
    world.scheduler.submit_error = NotAccepting("a limit is reached", hint="It is sent later.")
    (old,) = world.runs(1)
    world.advance.launch([old])
    world.scheduler.submit_error = None
    (new,) = world.runs(1)
    assert world.advance.launch([new]) == []
    assert world.states([old, new]) == [RunState.CREATED, RunState.CREATED]
    assert world.store.runs.get(new.id).status.reason == world.store.runs.get(old.id).status.reason
    now += timedelta(minutes=1)
    assert world.advance()
    assert world.states([old, new]) == [RunState.QUEUED, RunState.QUEUED]
    assert world.scheduler.sent[1:] == [old.token, new.token]
