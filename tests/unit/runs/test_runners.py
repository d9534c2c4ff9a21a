"""Runners as the login side has them; the tests move the files of their queues as a runner on its node does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.domain.run import NEVER_STARTS, JobState, JobStatus, Retry, Run, RunState
from hpc_board.domain.runner import LEAST_SECONDS, Runner
from hpc_board.domain.runner_rules import HoldTimes, RunnerRules
from hpc_board.errors import NotAccepting, SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Device
from hpc_board.model.result import Verdict
from hpc_board.model.runner import (
    DONE,
    QUEUE,
    RELEASE,
    STATE,
    STOP,
    TAKEN,
    WITHDRAWN,
    End,
    Entry,
    State,
    decoded,
    encoded,
)
from hpc_board.model.task import Mode
from hpc_board.runs import job_folder
from hpc_board.runs.runners import AUTO_IDLE_SECONDS, new_runner
from hpc_board.schedulers import Job
from hpc_board.schedulers.runner_queue import RunnerQueue
from hpc_board.schedulers.slurm import with_options
from hpc_board.schedulers.slurm.kind import SlurmKind
from hpc_board.store.runners import NewRunner
from tests.harness.evaluations import a_task
from tests.unit.runs.world import GPU, HARNESS, cancel, right_result, sha256_of, world_in
from tests.values import replace

RUNNING = JobStatus(JobState.RUNNING, node="n1", source="squeue: RUNNING")


class Held:
    """A runner of ada on the H100 of a scripted cluster."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.world = world_in(folder)
        script = job_folder.runner_script(GPU, changes.pop("seconds", 1800))
        values = {
            "user": "ada",
            "account": "",
            "gpu": "H100",
            "cluster": "main",
            "partition": "gpu",
            "token": "hb-1234567890abcdef",
            "request": job_folder.runner_request(GPU),
            "seconds": script.time_limit_seconds,
            "idle_seconds": 300,
            "gpus": 1,
            "harness_sha256": sha256_of(HARNESS),
            "script": msgspec.json.encode(script).decode(),
            "at": datetime.now(UTC),
        }
        self.new = NewRunner(**{**values, **changes})
        self.world.store.runners.add(self.new, most=9)
        self.folder = folder / "runs" / "hb-1234567890abcdef"

    @property
    def runner(self) -> Runner:
        return self.world.store.runners.get(1)

    def start(self) -> None:
        """Send the runner's job, and have it run."""
        assert self.world.advance.advance_runners("main") == []
        self.world.scheduler.status = RUNNING
        self.world.advance()
        for part in (TAKEN, DONE):
            (self.folder / part).mkdir()

    def submit(self, mode: Mode = Mode.RANKED) -> Run:
        run = self.world.run(mode)
        self.world.advance.launch([run])
        return self.now(run)

    def now(self, run: Run) -> Run:
        return self.world.store.runs.get(run.id)

    def move(self, run: Run, source: str, target: str) -> None:
        (self.folder / source / self.name(run)).rename(self.folder / target / self.name(run))

    def end(self, run: Run, state: str = "ended", reason: str = "exited with status 0") -> None:
        self.move(run, QUEUE, TAKEN)
        (self.folder / DONE / self.name(run)).write_bytes(encoded(End(state, reason)))
        (self.folder / TAKEN / self.name(run)).unlink()

    def retire(self, reason: str) -> None:
        now = datetime.now(UTC).isoformat()
        state = State(now, now, 1, reason)
        (self.folder / QUEUE / STATE).write_bytes(encoded(state))

    def name(self, run: Run) -> str:
        return f"{run.id:08d}.{run.id}"


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """A runner whose job runs."""
    found = Held(tmp_path)
    found.start()
    return found


def test_a_runner_is_one_job_with_an_empty_queue(held: Held) -> None:
    (job,) = held.world.scheduler.submitted
    assert (job.name, job.folder, job.comment) == (held.runner.token, held.folder, "hpc-board runner 1")
    assert job.options["time"] == "00:30:00"
    assert (held.runner.state, held.runner.status.job_id, held.runner.status.node) == (RunState.RUNNING, "101", "n1")
    assert held.runner.started_at is not None
    assert sorted(path.name for path in (held.folder / QUEUE).iterdir()) == [".folder"]


def test_a_runner_holds_as_many_gpus_as_its_runs_have() -> None:
    entries = [GPU, replace(GPU, device=Device.CPU), replace(GPU, name="CPU", device=Device.CPU)]
    assert [new_runner(each, "ada", "", HoldTimes(600, 60), "a" * 64).gpus for each in entries] == [1, 0, 0]


def test_a_run_of_its_user_with_its_request_goes_to_a_runner_and_not_to_the_scheduler(held: Held) -> None:
    run = held.submit(Mode.TEST)
    assert (run.state, run.status.runner, run.status.job_id) == (RunState.QUEUED, 1, "101.1")
    assert run.status.reason == "waits at runner 1"
    assert held.world.scheduler.sent == [held.runner.token]
    entry = decoded((held.folder / QUEUE / held.name(run)).read_bytes(), Entry)
    assert (entry.job, entry.job_id, entry.least_seconds) == ("1", "101.1", LEAST_SECONDS)
    assert entry.modules == ["torch"]

    held.move(run, QUEUE, TAKEN)
    held.world.advance()
    assert (held.now(run).state, held.now(run).status.node) == (RunState.RUNNING, "n1")
    whole = right_result(run, a_task())
    tests = tuple(case for case in whole.cases if case.phase == "test")
    result = replace(whole, job_id="101.1", mode="test", cases=tests)
    held.world.leave(run, job_folder.RESULT, result.to_json().encode())
    held.world.advance()
    ended = held.now(run)
    assert (ended.verdict, ended.status.runner, ended.status.job_id) == (Verdict.PASS, 1, "101.1")
    # The scheduler was asked for the runner's job only.
    assert set(held.world.scheduler.polled) == {(held.runner.token,)}
    assert held.runner.runs == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"user": "bob"},
        {"account": "jobs"},
        {"request": "0" * 64},
        {"harness_sha256": "0" * 64},
        {"seconds": LEAST_SECONDS},
    ],
    ids=str,
)
def test_a_run_that_a_runner_may_not_judge_has_a_job_of_its_own(tmp_path: Path, changes: dict[str, Any]) -> None:
    held = Held(tmp_path)
    held.world.store.runners.record(1, replace(held.runner.status, state=RunState.QUEUED, job_id="7"))
    other = Held(tmp_path / "other", **changes)
    other.world.store.runners.record(1, replace(other.runner.status, state=RunState.QUEUED, job_id="7"))
    (held.folder / QUEUE).mkdir(parents=True)
    assert (held.submit().status.runner, other.submit().status.runner) == (1, None)


def test_a_run_goes_to_the_runner_with_the_fewest_runs(held: Held) -> None:
    held.world.store.runners.add(replace(held.new, token="hb-2"), most=9)
    second = held.world.store.runners.get(2)
    held.world.store.runners.record(2, replace(second.status, state=RunState.QUEUED, job_id="900"))
    (held.folder.with_name("hb-2") / QUEUE).mkdir(parents=True)
    runs = [held.world.run(Mode.TEST) for _ in range(4)]
    held.world.advance.launch(runs)
    assert sorted(str(held.now(run).status.runner) for run in runs) == ["1", "1", "2", "2"]


def test_a_runner_that_retires_takes_no_run_and_gives_its_queue_back(held: Held) -> None:
    first, second = held.submit(Mode.TEST), held.submit(Mode.TEST)
    held.move(first, QUEUE, TAKEN)
    held.retire("the run has left 2 processes that cannot be ended")
    held.world.advance()
    assert (held.runner.state, held.runner.takes_runs) == (RunState.COLLECTING, False)
    assert held.now(first).state is RunState.RUNNING
    sent_again = held.now(second)
    assert (sent_again.status.runner, sent_again.status.job_id, sent_again.retry) == (None, "102", 0)
    assert held.world.scheduler.sent == [held.runner.token, second.token]
    assert (held.folder / WITHDRAWN / held.name(second)).exists()
    history = held.world.store.runs.history(second.id)
    assert "runner 1 ended before it: the run has left 2 processes" in " ".join(status.reason for status in history)
    assert held.submit(Mode.TEST).status.runner is None


@pytest.mark.parametrize(
    ("news", "runner", "run"),
    [
        (JobState.CANCELLED, RunState.CANCELLED, RunState.CANCELLED),
        (JobState.TIMEOUT, RunState.TIMEOUT, RunState.TIMEOUT),
        (JobState.NODE_FAIL, RunState.NODE_FAIL, RunState.NODE_FAIL),
        (JobState.PREEMPTED, RunState.PREEMPTED, RunState.PREEMPTED),
        (JobState.ENDED, RunState.ERROR, RunState.ERROR),
    ],
)
def test_the_run_in_hand_ends_as_its_runner_does_and_those_behind_go_elsewhere(
    held: Held, monkeypatch: pytest.MonkeyPatch, news: JobState, runner: RunState, run: RunState
) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    monkeypatch.setattr("hpc_board.domain.run.CANCELLED_GRACE", timedelta(0))
    first, second = held.submit(Mode.TEST), held.submit(Mode.TEST)
    held.move(first, QUEUE, TAKEN)
    held.world.advance()
    held.world.scheduler.status = JobStatus(news, "101", "the reason", source=f"sacct: {news}")
    held.world.advance()
    assert (held.runner.state, held.runner.status.reason) == (runner, "the reason")
    held.world.scheduler.status = None
    held.world.advance()
    ended = held.now(first)
    assert (ended.state, ended.status.reason) == (run, "its runner ended: the reason")
    assert held.now(second).status.job_id == "102"


def test_a_run_that_died_with_its_runner_is_sent_again_where_the_settings_say_so(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    gpus = {"H100": replace(GPU, retries=1)}
    held.world.advance = replace(held.world.advance, gpus=gpus)
    run = held.submit(Mode.TEST)
    held.move(run, QUEUE, TAKEN)
    held.world.advance()
    held.world.scheduler.status = JobStatus(JobState.NODE_FAIL, "101", node="n1")
    held.world.advance()
    held.world.scheduler.status = None
    held.world.advance()
    held.world.advance()
    again = held.now(run)
    assert (again.state, again.retry, again.status.runner, again.status.job_id) == (RunState.QUEUED, 1, None, "102")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (End("ended", "killed by signal 9"), RunState.ERROR),
        (End("timeout", "ran into its time limit of 600 s"), RunState.TIMEOUT),
        (End("node_fail", "the scheduler has restarted its runner"), RunState.NODE_FAIL),
        (End("anything", "x"), RunState.NODE_FAIL),
    ],
    ids=str,
)
def test_a_run_without_a_result_ends_as_the_runner_says(
    held: Held, monkeypatch: pytest.MonkeyPatch, end: End, state: RunState
) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    run = held.submit(Mode.TEST)
    held.end(run, end.state, end.reason)
    held.world.advance()
    assert (held.now(run).state, held.now(run).status.reason) == (state, end.reason)


def test_a_run_whose_runner_had_too_little_time_is_sent_again(held: Held) -> None:
    aside, begun = held.submit(Mode.TEST), held.submit(Mode.TEST)
    held.move(aside, QUEUE, WITHDRAWN)
    held.end(begun, "time_over", "the time of its runner was over")
    held.retire("its time is over")
    held.world.advance()
    first, second = held.now(aside), held.now(begun)
    assert (first.status.job_id, first.token, first.status.runner) == ("102", aside.token, None)
    # The runner may have written into the folder of the other one.
    assert (second.status.job_id, second.retry, second.status.runner) == ("103", 1, None)
    assert second.token != begun.token
    assert second.nonce != begun.nonce


def test_members_of_an_array_that_come_back_from_a_runner_get_new_names(held: Held) -> None:
    run = held.world.run(Mode.TEST)
    held.world.store.runs.retry_each({run.id: Retry("hb-77.3", "n", run.status)})
    held.world.advance.launch([held.now(run)])
    run = held.now(run)
    assert (run.array, run.status.runner) == ("hb-77", 1)
    (held.folder / QUEUE / f"{run.id:08d}.hb-77.3").rename(held.folder / WITHDRAWN / f"{run.id:08d}.hb-77.3")
    held.world.advance()
    assert (held.now(run).status.runner, held.now(run).array) == (None, "")


def test_a_cancelled_run_leaves_the_queue_or_is_ended_by_its_runner(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.domain.run.CANCELLED_GRACE", timedelta(0))
    waiting, running = held.submit(Mode.TEST), held.submit(Mode.TEST)
    held.move(running, QUEUE, TAKEN)
    cancel(held.world.advance, waiting)
    cancel(held.world.advance, running)
    assert held.now(waiting).state is RunState.CANCELLED
    assert (held.folder / WITHDRAWN / held.name(waiting)).exists()
    assert (held.folder / QUEUE / f"{held.name(running)}{STOP}").exists()
    assert held.world.scheduler.cancelled == []
    (held.folder / TAKEN / held.name(running)).unlink()
    (held.folder / DONE / held.name(running)).write_bytes(encoded(End("cancelled", "cancelled while it ran")))
    held.world.advance()
    assert held.now(running).state is RunState.CANCELLED


@pytest.mark.parametrize("is_written", [False, True])
def test_a_client_that_dies_while_it_gives_a_run_to_a_runner_neither_loses_nor_doubles_it(
    held: Held, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    class Killed(BaseException):
        pass

    add = RunnerQueue.add

    def killed(queue: RunnerQueue, name: str, entry: Entry) -> None:
        if is_written:
            add(queue, name, entry)
        raise Killed

    monkeypatch.setattr(RunnerQueue, "add", killed)
    with pytest.raises(Killed):
        held.submit(Mode.TEST)
    monkeypatch.undo()
    held.world.advance()
    held.world.advance()
    run = held.world.store.runs.get(1)
    assert (run.state, run.status.runner) == (RunState.QUEUED, 1)
    assert [path.name for path in (held.folder / QUEUE).glob("0*")] == [held.name(run)]
    assert held.world.scheduler.sent == [held.runner.token]


def test_a_released_runner_ends_by_itself_or_is_cancelled_while_it_waits(held: Held, tmp_path: Path) -> None:
    run = held.submit(Mode.TEST)
    held.world.store.runners.request_end(1, "released by ada")
    assert held.world.advance.advance_runners("main") == []
    assert (held.folder / QUEUE / RELEASE).exists()
    assert held.world.scheduler.cancelled == []
    held.world.advance()
    assert held.now(run).status.runner is None
    held.retire("it was released")
    held.world.scheduler.status = JobStatus(JobState.ENDED, "101", source="sacct: COMPLETED")
    held.world.advance()
    assert (held.runner.state, held.runner.status.reason) == (RunState.FINISHED, "released by ada")

    waiting = Held(tmp_path / "other")
    waiting.world.advance.advance_runners("main")
    waiting.world.store.runners.request_end(1, "released by ada")
    waiting.world.advance.advance_runners("main")
    assert waiting.world.scheduler.cancelled == ["101"]
    waiting.world.scheduler.status = JobStatus(JobState.PENDING, "101", reason="Priority")
    waiting.world.advance()
    assert (waiting.runner.state, waiting.runner.status.reason) == (RunState.QUEUED, "released by ada")
    waiting.world.scheduler.status = JobStatus(JobState.CANCELLED, "101", reason="cancelled while it waited")
    waiting.world.advance()
    assert (waiting.runner.state, waiting.runner.status.reason) == (RunState.CANCELLED, "released by ada")

    unsent = Held(tmp_path / "third")
    unsent.world.store.runners.request_end(1, "released by ada")
    unsent.world.advance()
    assert (unsent.runner.state, unsent.world.scheduler.sent) == (RunState.CANCELLED, [])


def test_a_refused_runner_ends_and_its_error_is_raised(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.world.scheduler.submit_error = SchedulerRefused("invalid partition", hint="Choose another one.")
    (error,) = held.world.advance.advance_runners("main")
    assert error.message == "invalid partition"
    status = held.runner.status
    assert (status.state, status.reason, status.source) == (RunState.ERROR, "invalid partition", "Choose another one.")


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_runner_without_an_answer_is_looked_up_and_never_sent_twice(tmp_path: Path, is_taken: bool) -> None:
    held = Held(tmp_path)
    if is_taken:
        held.world.scheduler.loses_answer = True
    else:
        held.world.scheduler.submit_error = SchedulerError("Socket timed out")
    (error,) = held.world.advance.advance_runners("main")
    assert error.message == "Socket timed out"
    assert str(held.runner.state) == "submitting"
    held.world.scheduler.submit_error, held.world.scheduler.loses_answer = None, False
    assert held.submit(Mode.TEST).status.runner is None
    held.world.advance()
    assert held.runner.state is (RunState.QUEUED if is_taken else RunState.ERROR)
    assert held.world.scheduler.sent.count(held.runner.token) == 1


def test_a_runner_that_outlives_its_job_is_told_to_end(held: Held) -> None:
    held.world.scheduler.status = JobStatus(JobState.CANCELLED, "101")
    held.world.advance()
    assert held.runner.state is RunState.CANCELLED
    assert (held.folder / QUEUE / RELEASE).exists()


def test_a_silent_scheduler_ends_no_runner_and_a_run_goes_to_it_still(held: Held) -> None:
    held.world.scheduler.poll_error = SchedulerError("squeue did not answer")
    with pytest.raises(SchedulerError):
        held.world.advance()
    assert held.runner.state is RunState.RUNNING
    assert held.submit(Mode.TEST).status.runner == 1


def test_what_a_runner_writes_is_bounded_and_never_trusted(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    run = held.submit(Mode.TEST)
    held.move(run, QUEUE, TAKEN)
    (held.folder / TAKEN / held.name(run)).unlink()
    (held.folder / DONE / held.name(run)).write_bytes(b"[" * 100_000)
    (held.folder / QUEUE / STATE).write_bytes(b'{"retired": "\\u001b[31m"}')
    held.world.advance()
    assert (held.runner.state, held.now(run).state) == (RunState.RUNNING, RunState.ERROR)
    held.retire("\x1b[31mred" + "x" * 1000)
    held.world.advance()
    assert "\x1b" not in held.runner.status.reason
    assert len(held.runner.status.reason) <= 200


class OfBoard:
    """A board that starts runners by itself, at most two for the H100, while runs wait."""

    def __init__(self, folder: Path, *, served: bool) -> None:
        folder.mkdir(exist_ok=True)
        world = world_in(folder)
        self.world = replace(
            world, advance=replace(world.advance, runner_rules=RunnerRules(auto=2), served=served, runs_per_user=None)
        )

    def submit(self, count: int, *, fresh: bool = False) -> list[Run]:
        runs = [self.world.run(Mode.TEST, fresh=fresh) for _ in range(count)]
        self.world.advance.launch(runs)
        return [self.world.store.runs.get(run.id) for run in runs]

    def at_runners(self, runs: list[Run]) -> list[int | None]:
        return [self.world.store.runs.get(run.id).status.runner for run in runs]


def test_a_board_starts_runners_for_waiting_runs_and_gives_them_all_of_them(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=False)
    assert board.at_runners(board.submit(2)) == [None, None]
    assert board.at_runners(board.submit(3, fresh=True)) == [None] * 3
    assert board.at_runners(board.submit(5)) == [1] * 5
    assert sorted(filter(None, board.at_runners(board.submit(7)))) == [1, 2, 2, 2, 2, 2, 2]
    runner = board.world.store.runners.get(1)
    assert (runner.user, runner.account, runner.seconds, runner.idle_seconds) == ("", "ada", 3600, AUTO_IDLE_SECONDS)
    assert len(board.world.store.runners.live()) == 2


def test_a_served_board_gives_its_runners_few_runs_ahead(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=True)
    runs = board.submit(9)
    assert board.at_runners(runs) == [1, 2, 1, 2, *[None] * 5]
    behind = board.world.store.runs.get(runs[-1].id)
    assert (behind.state, behind.status.reason) == (RunState.CREATED, "waits for a place at runner 1, 2")
    rows = len(board.world.store.runs.history(behind.id))
    board.world.advance()
    assert board.at_runners(runs) == [1, 2, 1, 2, *[None] * 5]
    assert len(board.world.store.runs.history(behind.id)) == rows
    board.world.store.runs.move(board.world.store.runs.get(runs[0].id), RunState.CANCELLED)
    board.world.advance()
    assert board.at_runners(runs)[4:] == [1, *[None] * 4]
    # The scheduler has had two jobs in all.
    assert len(board.world.scheduler.sent) == 2


def test_a_refused_runner_of_a_board_leaves_its_runs_to_jobs_of_their_own(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=True)

    def refuse(job: Job) -> None:
        if job.comment.startswith("hpc-board runner"):
            raise SchedulerRefused("time limit too long")

    board.world.scheduler.on_submit = refuse
    runs = board.submit(4)
    assert [(run.status.runner, run.state) for run in runs] == [(None, RunState.QUEUED)] * 4
    board.submit(4)
    # It is tried again after a while.
    assert board.world.scheduler.sent.count(board.world.store.runners.get(1).token) == 1
    assert len(board.world.store.runners.newest(9)) == 1


def test_a_board_starts_another_runner_after_one_that_died(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=False)
    board.submit(3)
    board.world.scheduler.status = JobStatus(JobState.ENDED, "101", "NonZeroExitCode")
    board.world.advance()
    assert board.world.store.runners.get(1).state is RunState.ERROR
    board.world.scheduler.status = None
    board.submit(3)
    assert [runner.id for runner in board.world.store.runners.live()] == [2]


def test_a_board_cancels_its_runner_that_never_starts_and_starts_none_until_the_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = OfBoard(tmp_path, served=False)
    board.submit(3)
    reason = f"{NEVER_STARTS}: no node can satisfy the request"
    board.world.scheduler.status = JobStatus(JobState.PENDING, "101", reason=reason)
    board.world.advance()
    board.world.advance()
    assert board.world.scheduler.cancelled == ["101"]
    board.world.scheduler.status = JobStatus(JobState.CANCELLED, "101", reason="cancelled")
    board.world.advance()
    runner = board.world.store.runners.get(1)
    assert (runner.state, runner.status.reason) == (RunState.CANCELLED, reason)
    board.world.scheduler.status = None
    assert board.at_runners(board.submit(3)) == [None] * 3
    monkeypatch.setattr("hpc_board.runs.runners.utc_now", lambda: datetime.now(UTC) + timedelta(minutes=59))
    assert board.at_runners(board.submit(3)) == [None] * 3
    monkeypatch.setattr("hpc_board.runs.runners.utc_now", lambda: datetime.now(UTC) + timedelta(minutes=61))
    assert board.at_runners(board.submit(3)) == [2] * 3
    monkeypatch.undo()


def test_a_board_starts_a_runner_of_changed_settings_beside_one_that_never_started(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=False)
    board.submit(3)
    never = JobStatus(JobState.PENDING, "101", reason=f"{NEVER_STARTS}: its partition was removed")
    board.world.scheduler.status = never
    board.world.advance()
    board.world.scheduler.status = None
    changed = replace(GPU, partition="other")
    board.world.advance = replace(board.world.advance, gpus={GPU.name: changed})
    text = msgspec.json.encode(job_folder.script(a_task(), changed, Mode.TEST)).decode()
    runs = [board.world.run(Mode.TEST, script=text) for _ in range(3)]
    board.world.advance.launch(runs)
    assert board.at_runners(runs) == [2] * 3


def test_a_held_gpu_keeps_a_users_runs_from_waiting_for_the_boards_runners(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.start()
    held.world.advance = replace(held.world.advance, runner_rules=RunnerRules(auto=2), served=True)
    runs = [held.world.run(Mode.TEST) for _ in range(5)]
    held.world.advance.launch(runs)
    assert [held.now(run).status.runner for run in runs] == [1] * 5


def test_users_take_turns_at_a_runner_of_a_served_board(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=True)
    board.world.advance = replace(board.world.advance, runner_rules=RunnerRules(auto=1))
    first = board.submit(6)
    assert board.at_runners(first) == [1, 1, *[None] * 4]
    late = board.world.run(Mode.TEST, user="bob")
    board.world.advance.launch([late])
    assert board.at_runners([late]) == [None]
    board.world.store.runs.move(board.world.store.runs.get(first[0].id), RunState.CANCELLED)
    board.world.advance()
    assert board.at_runners([late, *first[2:]]) == [1, *[None] * 4]


def test_a_released_runner_that_began_since_the_last_question_keeps_its_run(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.world.advance.advance_runners("main")
    run = held.submit(Mode.TEST)
    (held.folder / TAKEN).mkdir()
    held.move(run, QUEUE, TAKEN)
    held.retire("")
    held.world.store.runners.request_end(1, "released by ada")
    held.world.advance.advance_runners("main")
    assert held.world.scheduler.cancelled == []
    assert (held.folder / QUEUE / RELEASE).exists()


def test_a_run_goes_to_a_held_gpu_though_the_scheduler_accepts_no_job_or_rests(held: Held) -> None:
    held.world.scheduler.submit_error = NotAccepting("QOSMaxSubmitJobPerUserLimit", full=True)
    fresh = held.world.run(Mode.TEST, fresh=True)
    held.world.advance.launch([fresh])
    assert held.now(fresh).status.reason.startswith("not accepted at the moment")
    assert held.submit(Mode.TEST).status.runner == 1
    held.world.advance._table.note_silence("main", 100)
    assert held.submit(Mode.TEST).status.runner == 1


def test_a_runner_that_is_missing_from_one_answer_keeps_its_queue(held: Held) -> None:
    run = held.submit(Mode.TEST)
    held.world.scheduler.status = JobStatus(JobState.MISSING)
    held.world.advance()
    held.world.advance()
    assert (held.runner.state, held.now(run).status.runner) == (RunState.RUNNING, 1)
    held.world.scheduler.status = RUNNING
    held.world.advance()
    assert (held.runner.status.ended_in_queue_at, held.now(run).status.runner) == (None, 1)


def test_a_runner_whose_end_the_scheduler_never_tells_is_given_up(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpc_board.domain.run.MISSING_GRACE", timedelta(0))
    held.retire("it was idle for 300 s")
    held.world.scheduler.status = JobStatus(JobState.UNKNOWN, "101", unlisted=True, source="sacct did not answer")
    held.world.advance()
    assert (held.runner.state, held.runner.status.reason) == (RunState.FINISHED, "it was idle for 300 s")


def test_the_times_of_a_runner_that_no_client_has_seen_are_its_own(tmp_path: Path) -> None:
    held = Held(tmp_path, at=datetime.now(UTC) - timedelta(hours=1))
    held.world.advance.advance_runners("main")
    began = held.runner.created_at + timedelta(minutes=1)
    ended = began + timedelta(minutes=5)
    state = State(began.isoformat(), ended.isoformat(), 3, "it was idle for 300 s")
    (held.folder / QUEUE / STATE).write_bytes(encoded(state))
    held.world.scheduler.status = JobStatus(JobState.ENDED, "101", source="sacct: COMPLETED")
    held.world.advance()
    assert (held.runner.state, held.runner.started_at, held.runner.status.at) == (RunState.FINISHED, began, ended)
    assert held.runner.held_seconds(ended + timedelta(hours=8)) == 300
    assert held.world.store.moderation.gpu_seconds(["ada"], began) == {"ada": 300}


def test_a_runner_whose_folder_cannot_be_written_is_not_sent_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(tmp_path)

    def unreachable(*_: object) -> None:
        raise SchedulerError("the login node does not answer")

    monkeypatch.setattr(job_folder.Folders, "write_runner", unreachable)
    (error,) = held.world.advance.advance_runners("main")
    assert error.message == "the login node does not answer"
    assert (held.runner.state, held.runner.status.reason) == (RunState.CREATED, error.message)
    assert held.world.scheduler.sent == []


def test_runs_that_a_runner_may_not_judge_do_not_wait_for_it(tmp_path: Path) -> None:
    board = OfBoard(tmp_path, served=True)
    assert board.at_runners(board.submit(3)) == [1, 1, None]
    script = job_folder.script(a_task(), with_options(GPU, sbatch=("--gres=gpu:h100:2",)), Mode.TEST)
    others = [board.world.run(Mode.TEST, script=msgspec.json.encode(script).decode()) for _ in range(3)]
    board.world.advance.launch(others)
    assert [board.world.store.runs.get(run.id).state for run in others] == [RunState.QUEUED] * 3
    assert board.at_runners(others) == [None] * 3


def test_coming_back_from_a_runner_takes_no_retry_of_the_user(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlurmKind, "result_grace", timedelta(0))
    held.world.advance = replace(held.world.advance, gpus={"H100": replace(GPU, retries=1)})
    run = held.submit(Mode.TEST)
    held.end(run, "time_over", "the time of its runner was over")
    held.world.advance()
    assert (held.now(run).retry, held.now(run).failures) == (1, 0)
    held.world.scheduler.status = JobStatus(JobState.NODE_FAIL, node="n1")
    held.world.advance()
    held.world.advance()
    assert (held.now(run).retry, held.now(run).failures) == (2, 1)


def test_an_unwritable_queue_keeps_no_other_job_from_its_cancellation(held: Held) -> None:
    at_runner, fresh = held.submit(Mode.TEST), held.world.run(Mode.TEST, fresh=True)
    held.world.advance.launch([fresh])
    held.move(at_runner, QUEUE, TAKEN)
    (held.folder / QUEUE / f"{held.name(at_runner)}{STOP}").mkdir()
    errors = held.world.advance.cancel([held.now(at_runner), held.now(fresh)], "ada")
    assert held.world.scheduler.cancelled == [held.now(fresh).status.job_id]
    assert "the queue of runner 1 cannot be written" in errors[at_runner.id].message


def test_a_folder_that_is_filled_hides_no_run(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpc_board.schedulers.runner_queue.ENTRIES_MAX", 3)
    run = held.submit(Mode.TEST)
    for number in range(5):
        (held.folder / QUEUE / f"x{number}").touch()
    held.world.advance()
    assert (held.now(run).state, held.now(run).status.runner) == (RunState.QUEUED, 1)
    held.move(run, QUEUE, TAKEN)
    held.world.advance()
    assert held.now(run).state is RunState.RUNNING


def test_one_silence_ends_the_sending_of_runners(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.world.store.runners.add(replace(held.new, token="hb-2"), most=9)
    held.world.scheduler.submit_error = SchedulerError("sbatch did not answer")
    assert len(held.world.advance.advance_runners("main")) == 1
    assert len(held.world.scheduler.sent) == 1
    assert held.world.advance.silent_since("main") is not None
