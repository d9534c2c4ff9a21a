"""The state machine with a scheduler that misbehaves on demand: no run is doubled, lost, or stuck."""

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.domain.result_checks import is_model
from hpc_board.domain.run import RESULT_GRACE, UNREADABLE, JobState, JobStatus, Run, RunState, Status
from hpc_board.errors import DamagedRowError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Case, Result, Timing, Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.runs import cluster_table, job_folder, job_polling, job_results, launcher, reconciler, statuses
from hpc_board.runs.backoff import NextScan
from hpc_board.runs.launcher import ATTEMPTS_MAX
from hpc_board.runs.reconciler import Pass, Reconciler
from hpc_board.schedulers.scripted import Scripted
from hpc_board.store import NewRun, NewSubmission, Store
from hpc_board.store.runs import RunGateway
from hpc_board.transport.local_files import LocalFiles
from tests.conftest import short_folder
from tests.harness.evaluations import a_task
from tests.values import replace
from tests.waiting import awaited

HARNESS = b"the harness"
CODE = b"def custom_kernel(data): ...\n"
CLUSTER = Cluster("main", "slurm", poll_seconds=0)


@dataclass
class World:
    """A board with one scripted cluster."""

    folder: Path
    scheduler: Scripted
    advance: Reconciler
    store: Store

    def run(self, mode: Mode = Mode.RANKED, task: Task | None = None, cluster: str = "main") -> Run:
        _, (run,) = self.store.submissions.add(
            NewSubmission(
                task=task or a_task(),
                user="ada",
                file_name="k.py",
                code=CODE,
                mode=mode,
                note="",
                at=datetime.now(UTC),
                runs=[
                    NewRun("H100", cluster, "gpu", os.urandom(8).hex(), "n", "self-run", False, _sha256(HARNESS)),
                ],
            )
        )
        return run

    def state(self, run: Run) -> RunState:
        return self.store.runs.get(run.id).state

    def leave(self, run: Run, name: str, data: bytes) -> None:
        (job_folder.folder(self.folder, run.id) / name).write_bytes(data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_in(tmp_path)


def world_in(folder: Path) -> World:
    scheduler = Scripted()
    gpu = Gpu("H100", CLUSTER, Device.CUDA, partition="gpu", python=sys.executable)
    store = Store(folder / "board.db")
    advance = Reconciler(
        folder=folder,
        store=store,
        schedulers={"main": scheduler},
        clusters={"main": CLUSTER},
        gpus={"H100": gpu},
        harness=lambda: HARNESS,
        lookup_delay=timedelta(0),
        lock_seconds=0.2,
    )
    return World(folder, scheduler, advance, store)


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


def redefine(world: World, task: str, **values: Any) -> None:
    """Change the definition of a task in the database, as another program can."""
    with closing(sqlite3.connect(world.store.file.path)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'tasks_stay'").fetchone()
        (definition,) = db.execute("SELECT definition FROM tasks WHERE name = ?", [task]).fetchone()
        db.execute("DROP TRIGGER tasks_stay")
        db.execute(
            "UPDATE tasks SET definition = ? WHERE name = ?", [json.dumps({**json.loads(definition), **values}), task]
        )
        db.execute(trigger)
        db.commit()


def test_a_run_whose_task_is_damaged_ends_unsent_and_hinders_no_other(world: World) -> None:
    damaged, sound = world.run(task=a_task(name="damaged")), world.run()
    redefine(world, "damaged", limits={"no_such_limit": 1})
    assert world.advance()
    assert world.scheduler.sent == [sound.token]
    ended = world.store.runs.get(damaged.id)
    assert ended.state is RunState.ERROR
    assert "row damaged of `tasks` in the database cannot be read: no_such_limit is no limit" in ended.explanation


def test_a_sent_run_whose_task_is_damaged_says_so_and_hinders_no_other(world: World) -> None:
    task = a_task(name="damaged")
    damaged, sound = world.run(task=task), world.run()
    assert world.advance()
    redefine(world, "damaged", limits={"no_such_limit": 1})
    for run in (damaged, sound):
        result = replace(right_result(run, task), job_id=world.scheduler.jobs[run.token])
        world.leave(run, job_folder.RESULT, result.to_json().encode())
    assert world.advance()
    assert world.state(sound) is RunState.FINISHED
    assert world.state(damaged) is RunState.QUEUED
    world.scheduler.status = JobStatus(JobState.ENDED, source="squeue: COMPLETED")
    for _ in range(3):
        world.advance()
    waiting = world.store.runs.get(damaged.id)
    assert waiting.state is RunState.COLLECTING
    assert "result.json cannot be compared with its task: row damaged of `tasks`" in waiting.explanation
    assert len(world.store.runs.history(damaged.id)) == 4
    redefine(world, "damaged", limits=dict(task.limits))
    assert world.advance()
    assert world.state(damaged) is RunState.FINISHED


def test_a_damaged_run_stays_as_it_is_and_hinders_no_other(world: World) -> None:
    damaged, sound = world.run(), world.run()
    with closing(sqlite3.connect(world.store.file.path)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'runs_stay'").fetchone()
        db.execute("DROP TRIGGER runs_stay")
        db.execute("UPDATE runs SET token = '../../x' WHERE id = ?", [damaged.id])
        db.execute(trigger)
        db.commit()
    turn = world.advance.run_pass()
    assert turn is not None
    assert [type(error) for error in turn.errors] == [DamagedRowError]
    assert "row 1 of `runs` in the database cannot be read: its token is '../../x'" in turn.errors[0].message
    assert world.scheduler.sent == [sound.token]
    assert not (world.folder.parent / "x").exists()
    with pytest.raises(DamagedRowError):
        world.advance()


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


def test_a_submission_under_way_is_left_alone_until_it_has_settled(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    patient = replace(world.advance, lookup_delay=timedelta(hours=1))
    for _ in range(3):
        patient.run_pass()
    assert world.scheduler.sent == [run.token]


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


def test_a_refusal_ends_the_run_and_is_told(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerRefused("invalid partition")
    (error,) = world.advance.launch([run])
    assert isinstance(error, SchedulerRefused)
    assert world.state(run) is RunState.ERROR


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


def test_a_turn_tells_that_the_folder_of_a_job_cannot_be_written(world: World) -> None:
    run = world.run()
    (world.folder / "runs").mkdir()
    (world.folder / "runs" / str(run.id)).write_text("in the way")
    with pytest.raises(StorageError, match="the job folder cannot be written"):
        world.advance()
    assert world.state(run) is RunState.CREATED


def test_a_refusal_hinders_no_turn_since_the_run_itself_tells_it(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerRefused("invalid partition")
    assert world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.store.runs.get(run.id).status.reason == "invalid partition"


def test_a_turn_says_which_schedulers_it_asked(world: World) -> None:
    run = world.run()
    seldom = replace(world.advance, clusters={"main": replace(CLUSTER, poll_seconds=3600)})
    seldom.launch([run])
    asked = [turn.asked for turn in (seldom.run_pass(), seldom.run_pass()) if turn]
    assert asked == [{"main"}, set()]


def test_news_of_many_runs_that_go_on_are_stored_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [world.run() for _ in range(20)]
    world.advance.launch(runs)
    world.scheduler.status = JobStatus(JobState.PENDING, source="squeue: PENDING (Priority)", reason="Priority")
    stored: list[int] = []
    record_each = RunGateway.record_each

    def counted(runs: RunGateway, statuses: Mapping[int, Status]) -> set[int]:
        stored.append(len(statuses))
        return record_each(runs, statuses)

    monkeypatch.setattr(RunGateway, "record_each", counted)
    assert world.advance()
    assert stored == [20]
    assert {world.store.runs.get(run.id).status.source for run in runs} == {"squeue: PENDING (Priority)"}


class Counting(LocalFiles):
    """Files of this machine that count the looks at them."""

    def __init__(self) -> None:
        self.looks = 0

    def read(self, path: Path, limit: int, *, end: bool = False) -> bytes:
        self.looks += 1
        return super().read(path, limit, end=end)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_folder_on_another_machine_is_looked_into_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    clock = [datetime(2026, 5, 1, tzinfo=UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run, task, files = world.run(), a_task(), Counting()
    folders = job_folder.Folders(world.folder, files, "board_folder" if elsewhere else "board")
    clusters = {"main": replace(CLUSTER, poll_seconds=3600)}
    advances = [replace(world.advance, folders={"main": folders}, clusters=clusters) for _ in range(3)]
    advances[0].launch([run])

    def looks(seconds: float) -> int:
        before, until = files.looks, clock[0] + timedelta(seconds=seconds)
        while clock[0] < until:
            for advance in advances:
                advance.run_pass()
            clock[0] += timedelta(seconds=0.5)
        return files.looks - before

    if elsewhere:
        assert 2 <= looks(5) <= 5
        looks(30)
        assert 8 <= looks(40) <= 11
    else:
        assert looks(5) >= 30
    (folders.of(run) / job_folder.PROGRESS).write_bytes(b"{}\n")
    looks(5.5)
    assert world.state(run) is RunState.RUNNING
    (folders.of(run) / job_folder.RESULT).write_bytes(right_result(run, task).to_json().encode())
    looks(5.5)
    assert world.state(run) is RunState.FINISHED


def test_a_scheduler_with_nothing_new_is_asked_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime(2026, 5, 1, tzinfo=UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run = world.run()
    patient = replace(world.advance, clusters={"main": replace(CLUSTER, scheduler="slurm", poll_seconds=10)})
    patient.launch([run])
    world.scheduler.status = JobStatus(JobState.PENDING)

    def asked(seconds: int) -> int:
        found = 0
        for _ in range(seconds):
            clock[0] += timedelta(seconds=1)
            turn = patient.run_pass()
            found += turn is not None and "main" in turn.asked
        return found

    assert 6 <= asked(200) <= 12, "pauses of 10 s that grow to 40 s"
    assert 4 <= asked(200) <= 7, "pauses of up to 40 s"
    world.scheduler.status = JobStatus(JobState.RUNNING)
    while world.state(run) is RunState.QUEUED:
        asked(1)
    assert asked(10) == 1, "a change makes the next pause short"


def hanging_scheduler(clock: list[float]) -> Scripted:
    """A scheduler that takes a minute of `clock` for not answering."""

    def hang(_: object) -> None:
        clock[0] += 60

    return Scripted(
        on_submit=hang,
        submit_error=SchedulerError("sbatch did not answer within 60 s"),
        on_poll=hang,
        poll_error=SchedulerError("squeue did not answer within 60 s"),
    )


@pytest.fixture
def beside(world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Scripted, Reconciler, list[float]]:
    """A board that has a cluster `hangs` beside `main`, and its clock."""
    clock, noon = [0.0], datetime(2026, 5, 1, 12, tzinfo=UTC)
    set_clock(monkeypatch, lambda: noon + timedelta(seconds=clock[0]))
    for module in (reconciler, launcher, job_polling):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    hanging = hanging_scheduler(clock)
    advance = replace(
        world.advance,
        schedulers={"main": world.scheduler, "hangs": hanging},
        clusters={"main": CLUSTER, "hangs": replace(CLUSTER, name="hangs", poll_seconds=15)},
    )
    return hanging, advance, clock


@pytest.mark.slow
def test_a_cluster_that_hangs_takes_one_time_out_from_the_others_and_is_then_left_alone(
    world: World, beside: tuple[Scripted, Reconciler, list[float]]
) -> None:
    hanging, advance, clock = beside
    queued = world.run(cluster="hangs")
    world.store.runs.record(queued.id, Status(RunState.QUEUED, queued.created_at, job_id="7"))
    unsent = [world.run(cluster="hangs") for _ in range(20)]
    near = world.run()
    world.scheduler.status = JobStatus(JobState.PENDING)
    advance.run_pass()
    assert world.state(near) is RunState.QUEUED
    assert (len(hanging.sent), len(hanging.polled)) == (1, 1)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    while clock[0] < 120 + 4 * 60 - 2:
        advance.run_pass()
        clock[0] += 1
    assert world.state(near) is RunState.RUNNING
    assert (len(hanging.sent), len(hanging.polled)) == (1, 1)
    clock[0] += 2
    advance.run_pass()
    assert (len(hanging.sent), len(hanging.polled)) == (2, 2)
    assert [world.state(run) for run in unsent].count(RunState.CREATED) == 19


def test_a_submission_waits_once_for_a_cluster_that_hangs(
    world: World, beside: tuple[Scripted, Reconciler, list[float]]
) -> None:
    hanging, advance, clock = beside
    runs = [world.run(cluster=name) for name in ("hangs", "hangs", "main", "hangs")]
    errors = advance.launch(runs)
    assert [error.message for error in errors] == ["sbatch did not answer within 60 s"]
    assert (len(hanging.sent), clock[0], world.state(runs[2])) == (1, 60, RunState.QUEUED)


def test_a_cluster_that_hangs_delays_no_client_of_another(world: World) -> None:
    hangs, go_on = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        hangs.set()
        go_on.wait(60)

    hanging = Scripted(on_poll=hang)
    advance = replace(
        world.advance,
        schedulers={"hangs": hanging, "main": world.scheduler},
        clusters={"hangs": replace(CLUSTER, name="hangs"), "main": CLUSTER},
    )
    queued, near, gone = world.run(cluster="hangs"), world.run(), world.run(cluster="gone")
    world.store.runs.record(queued.id, Status(RunState.QUEUED, queued.created_at, job_id="7"))
    world.scheduler.status = JobStatus(JobState.RUNNING)
    stuck = threading.Thread(target=advance.run_pass, kwargs={"clusters": ["hangs"]})
    stuck.start()
    try:
        assert hangs.wait(60)
        assert advance.launch([near]) == []
        turn = advance.run_pass()
        assert turn is not None
        assert turn.clusters == turn.asked == {"main"}
        assert world.state(near) is RunState.RUNNING
        cancel(advance, near)
        with pytest.raises(SchedulerError, match="busy with cluster hangs"):
            cancel(advance, queued)
        with (
            pytest.raises(StorageError, match="another client has been advancing runs"),
            replace(advance, lock_seconds=0.1).locks.all(),
        ):
            pass
    finally:
        go_on.set()
        stuck.join()
    assert world.state(gone) is RunState.ERROR
    with advance.locks.all():
        assert advance.run_pass() is None


def test_a_client_that_needs_the_board_alone_has_its_turn_among_sixteen_busy_clusters(world: World) -> None:
    """Each question ends when another has begun, so that the common lock is free only for a client that is let in."""
    names = [f"c{number}" for number in range(16)]
    lock, end, let_in = threading.Lock(), threading.Event(), threading.Event()
    asked: list[str] = []

    def ask(_: object) -> None:
        with lock:
            asked.append("")
            mine = len(asked)
        while len(asked) == mine and not end.is_set() and not let_in.is_set():
            end.wait(0.001)

    advance = replace(
        world.advance,
        schedulers={name: Scripted(on_poll=ask) for name in names},
        clusters={name: replace(CLUSTER, name=name) for name in names},
        lock_seconds=10,
    )
    for name in names:
        run = world.run(cluster=name)
        world.store.runs.record(run.id, Status(RunState.QUEUED, run.created_at, job_id="7"))

    def turns(name: str) -> None:
        while not end.is_set():
            if advance.run_pass(clusters=[name]) is None:
                let_in.set()
                end.wait(0.01)

    threads = [threading.Thread(target=turns, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    try:
        awaited(lambda: len(asked) > 2 * len(names))
        with advance.locks.all():
            assert advance.run_pass() is None
    finally:
        end.set()
        for thread in threads:
            thread.join()


def block(lock: Path, obstacle: str) -> None:
    """Put something in the place of a lock file that cannot be locked."""
    if obstacle == "folder":
        lock.mkdir()
    else:
        os.mkfifo(lock)


@pytest.mark.parametrize("obstacle", ["folder", "pipe"])
def test_a_broken_lock_of_one_cluster_keeps_no_run_of_another_from_its_way(world: World, obstacle: str) -> None:
    block(world.folder / "advance-broken.lock", obstacle)
    advance = replace(
        world.advance,
        schedulers={"broken": Scripted(), "main": world.scheduler},
        clusters={"broken": replace(CLUSTER, name="broken"), "main": CLUSTER},
    )
    stuck, near, later = world.run(cluster="broken"), world.run(), world.run()
    (error,) = advance.launch([stuck, near])
    assert "advance-broken.lock: cannot be written or locked" in error.message
    assert world.state(near) is RunState.QUEUED
    with pytest.raises(StorageError, match=r"advance-broken\.lock"):
        advance()
    assert (world.state(later), world.state(stuck)) == (RunState.QUEUED, RunState.CREATED)
    turn = advance.run_pass()
    assert turn is not None
    assert turn.clusters == {"main"}
    assert [str(each) for each in turn.errors] == [str(error)]
    with pytest.raises(StorageError, match=r"advance-broken\.lock"):
        advance.launch([stuck])


def test_a_broken_lock_of_a_cluster_that_left_the_settings_hinders_no_run(world: World) -> None:
    block(world.folder / "advance-gone.lock", "folder")
    gone, near = world.run(cluster="gone"), world.run()
    turn = world.advance.run_pass()
    assert turn is not None
    assert ["advance-gone.lock" in error.message for error in turn.errors] == [True]
    assert (world.state(near), world.state(gone)) == (RunState.QUEUED, RunState.CREATED)


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
    assert "no longer have cluster main" in world.store.runs.get(run.id).status.reason


def asked_by(turn: Pass | None) -> frozenset[str]:
    """The clusters that a pass asked, none of which failed."""
    assert turn is not None
    assert not turn.errors
    assert all(poll.answered and poll.took_seconds >= 0 for poll in turn.polls)
    assert {poll.cluster for poll in turn.polls} <= turn.asked
    return turn.asked


def test_who_waits_for_a_run_carries_on_all_of_them_only_when_a_look_at_all_is_due(world: World) -> None:
    runs = [world.run() for _ in range(3)]
    rarely = replace(world.advance, clusters={"main": replace(CLUSTER, poll_seconds=600)})
    rarely.launch(runs)
    assert asked_by(rarely.run_pass()) == {"main"}
    for run in runs:
        world.leave(run, job_folder.PROGRESS, b"{}\n")
    scan = NextScan(world.folder / "scanned-main")
    scan.settle(datetime.now(UTC), 600)
    assert asked_by(rarely.run_pass([runs[0].id])) == set()
    assert [world.state(run) for run in runs] == [RunState.RUNNING, RunState.QUEUED, RunState.QUEUED]
    scan.settle(datetime.now(UTC) - timedelta(minutes=2), 600)
    rarely.run_pass([runs[0].id])
    assert {world.state(run) for run in runs} == {RunState.RUNNING}


def test_whoever_may_ask_a_scheduler_asks_for_all_runs(world: World) -> None:
    runs = [world.run() for _ in range(2)]
    world.advance.launch(runs)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    NextScan(world.folder / "scanned-main").settle(datetime.now(UTC), 600)
    assert asked_by(world.advance.run_pass([runs[0].id])) == {"main"}
    assert {world.state(run) for run in runs} == {RunState.RUNNING}


def test_a_run_of_a_cluster_that_left_the_settings_hinders_no_other(world: World) -> None:
    queued, created = world.run(), world.run()
    world.advance.launch([queued])
    gone = replace(world.advance, schedulers={}, clusters={})
    assert gone()
    assert world.state(created) is RunState.ERROR
    assert world.state(queued) is RunState.QUEUED
    assert "no longer have cluster main" in world.store.runs.get(queued.id).status.reason
    with pytest.raises(InputError, match="cluster main"):
        cancel(gone, queued)


def test_a_crash_on_a_cluster_that_left_the_settings_is_taken_and_hinders_no_other(world: World) -> None:
    task = a_task()
    run, other = world.run(task=task), world.run(task=task)
    world.advance.launch([run])
    crash = replace(right_result(run, task), verdict=Verdict.CRASH, message="killed", score_s=None, cases=())
    world.leave(run, job_folder.RESULT, crash.to_json().encode())
    gone = replace(world.advance, schedulers={}, clusters={})
    assert gone()
    assert (world.state(run), world.state(other)) == (RunState.FINISHED, RunState.ERROR)


def test_runs_are_cancelled_together(world: World) -> None:
    queued, other, unsent, ended = (world.run() for _ in range(4))
    cancel(world.advance, ended)
    world.advance.launch([queued, other])
    runs = [world.store.runs.get(run.id) for run in (queued, other, unsent, ended)]
    assert world.advance.cancel(runs, "ada") == {}
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token] for run in (queued, other)]
    assert world.state(unsent) is RunState.CANCELLED
    assert all(world.store.runs.get(run.id).status.cancel_requested for run in (queued, other))


@pytest.mark.parametrize("name", ["advance.gate.lock", "advance.lock", "advance-main.lock"])
def test_a_cancellation_names_the_lock_that_cannot_be_used(world: World, name: str) -> None:
    run = world.run()
    (world.folder / name).unlink(missing_ok=True)
    (world.folder / name).mkdir()
    (error,) = world.advance.cancel([run], "ada").values()
    assert isinstance(error, StorageError)
    assert f"{world.folder / name}: cannot be written or locked" in error.message


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


def _status_after_a_turn(world: World, run: Run) -> Status:
    world.advance.run_pass()
    return world.store.runs.get(run.id).status


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.RUNNING])
def test_a_wish_to_cancel_a_job_that_cannot_be_reached_is_stored_said_so_and_done_later(
    world: World, state: JobState
) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.cancel_error = SchedulerError("squeue failed", hint="nothing has changed, try later")
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
    since = datetime.now(UTC) - timedelta(minutes=1)
    world.store.runs.record(run.id, replace(world.store.runs.get(run.id).status, ended_in_queue_at=since))
    world.advance()
    assert world.state(run) is RunState.CANCELLED


def test_a_cancelled_submission_that_never_arrived_is_not_sent_again(world: World) -> None:
    run = world.run()
    world.scheduler.submit_error = SchedulerError("Socket timed out")
    world.advance.launch([run])
    cancel(world.advance, run)
    world.advance()
    assert world.scheduler.sent == [run.token]
    assert world.state(run) is RunState.CANCELLED


def test_a_wish_to_cancel_that_met_a_silent_scheduler_is_repeated_until_the_job_ends(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.scheduler.cancel_error = SchedulerError("Socket timed out")
    with pytest.raises(SchedulerError):
        cancel(world.advance, run)
    world.scheduler.status = JobStatus(JobState.RUNNING)
    with pytest.raises(SchedulerError, match="Socket timed out"):
        world.advance()
    assert world.state(run) is RunState.RUNNING
    world.scheduler.cancel_error = None
    world.advance()
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token]]
    world.scheduler.status = JobStatus(JobState.COMPLETING)
    world.advance()
    assert len(world.scheduler.cancelled) == 1


def test_a_job_that_ended_without_a_result_says_what_it_printed_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.run()
    world.advance.launch([run])
    world.leave(run, "slurm-101.out", b"starting\nmodule load failed: \x1b[31mcuda\n \n")
    world.scheduler.status = JobStatus(JobState.ENDED, source="squeue: FAILED (NonZeroExitCode)")
    world.advance()
    waiting = world.store.runs.get(run.id).status.source
    assert waiting == "squeue: FAILED (NonZeroExitCode)"
    set_clock(monkeypatch, lambda: datetime.now(UTC) + RESULT_GRACE)
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.state is RunState.ERROR
    assert ended.status.source.startswith("squeue: FAILED (NonZeroExitCode); no result file after 60 s, since ")
    words = ended.status.source.partition("; its output ends with ")[2]
    assert "module load failed: " in words
    assert "\x1b" not in words


def test_a_run_whose_folder_was_removed_is_followed_and_cancelled(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    shutil.rmtree(job_folder.folder(world.folder, run.id))
    world.scheduler.status = JobStatus(JobState.RUNNING)
    world.advance()
    assert world.state(run) is RunState.RUNNING
    cancel(world.advance, run)
    assert world.scheduler.cancelled == [world.scheduler.jobs[run.token]]


def test_a_client_that_holds_the_board_for_long_hinders_nobody_from_storing_a_submission(world: World) -> None:
    run = world.run()
    holder = os.open(world.folder / "advance.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert world.advance.launch([run]) == []
        assert world.advance() is False
        with pytest.raises(SchedulerError, match="busy with cluster main"):
            cancel(world.advance, run)
    finally:
        os.close(holder)
    assert world.advance()
    assert world.scheduler.sent == [run.token]


def test_a_passing_fault_of_the_disk_ends_no_run(world: World) -> None:
    run = world.run()
    (world.folder / "runs").write_text("in the way")
    (error,) = world.advance.launch([run])
    assert isinstance(error, StorageError)
    assert world.state(run) is RunState.CREATED
    (world.folder / "runs").unlink()
    world.advance()
    assert world.state(run) is RunState.QUEUED


def test_a_state_keeps_the_time_of_its_beginning_when_its_reason_changes(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    since = world.store.runs.get(run.id).status.at
    world.scheduler.status = JobStatus(JobState.PENDING, reason="Priority")
    world.advance()
    status = world.store.runs.get(run.id).status
    assert (status.state, status.reason, status.at) == (RunState.QUEUED, "Priority", since)


def test_a_wish_to_cancel_says_when_it_was_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.run()
    world.advance.launch([run])
    since = world.store.runs.get(run.id).status.at
    set_clock(monkeypatch, lambda: datetime(2026, 5, 1, 13, 3, 9, tzinfo=UTC))
    cancel(world.advance, run)
    status = world.store.runs.history(run.id)[-1]
    assert (status.reason, status.at) == ("cancel requested by ada at 13:03:09 UTC", since)


def set_clock(monkeypatch: pytest.MonkeyPatch, clock: Callable[[], datetime]) -> None:
    """Have the reconciler and its parts see the time of `clock`."""
    for module in (reconciler, launcher, job_polling, job_results, cluster_table, statuses):
        monkeypatch.setattr(module, "utc_now", clock)


def cancel(advance: Reconciler, run: Run) -> None:
    """Cancel a run in ada's name, and raise the error, if any."""
    for error in advance.cancel([run], "ada").values():
        raise error


def timing(*samples_ns: float) -> Timing:
    middle = sorted(samples_ns)[len(samples_ns) // 2]
    ends = min(samples_ns), max(samples_ns)
    return Timing(len(samples_ns), middle, middle, 0, 0, *ends, samples_ns, (1,) * len(samples_ns))


def right_result(run: Run, task: Task) -> Result:
    """The result of a run in which everything passed."""
    tests = [Case("test", index, text(case), Verdict.PASS) for index, case in enumerate(task.tests)]
    benchmarks = [
        Case("benchmark", index, text(case), Verdict.PASS, timing=timing(1990.0, 2000.0, 2010.0))
        for index, case in enumerate(task.benchmarks)
    ]
    provenance = {
        "harness_sha256": _sha256(HARNESS),
        "task_sha256": task.version,
        "submission_sha256": _sha256(CODE),
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "node": "n1",
    }
    return Result(
        run=run.id,
        nonce="n",
        mode="ranked",
        verdict=Verdict.PASS,
        message="",
        cases=(*tests, *benchmarks),
        job_id="101",
        provenance=provenance,
    )


SCATTERED = (2e5, 2e5, 3e5, 4e5, 2e5)


def text(case: Mapping[str, Any]) -> str:
    return "; ".join(f"{key}: {value}" for key, value in case.items())


def test_a_right_result_is_taken_scored_and_ranked(world: World) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert (ended.state, ended.verdict, ended.status.node) == (RunState.FINISHED, Verdict.PASS, "n1")
    assert ended.score_s == pytest.approx(2e-6)
    assert world.store.standings.rank(ended) == 1


def test_a_score_is_stored_with_its_interval(world: World) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    result = right_result(run, task)
    rows = timing(*(1990.0, 2000.0, 2010.0) * 3)
    told = replace(rows, median_ns=1990.0, worker_runs=(3, 3, 3), low_ns=1990.0, high_ns=2010.0, least_ns=0.0)
    cases = tuple(replace(case, timing=case.timing and told) for case in result.cases)
    world.leave(run, job_folder.RESULT, replace(result, cases=cases).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.message == ""
    assert ended.score_s == pytest.approx(1.99e-6)
    assert ended.interval is not None
    assert (ended.interval.low_s, ended.interval.high_s) == pytest.approx((1.99e-6, 2.01e-6))


def first_case(result: Result, **changes: Any) -> Result:
    return replace(result, cases=(replace(result.cases[0], **changes), *result.cases[1:]))


@pytest.mark.parametrize("said", ["now", "2020-01-01T00:00:00Z"])
def test_the_end_of_the_job_is_settled_when_its_result_is_collected(world: World, said: str) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    end = datetime.now(UTC).isoformat() if said == "now" else said
    world.leave(run, job_folder.RESULT, replace(right_result(run, task), ended_at=end).to_json().encode())
    world.advance()
    (listed,) = world.store.runs.list()
    assert listed.state is RunState.FINISHED
    assert listed.ended_at == (datetime.fromisoformat(end) if said == "now" else None)


def last_case(result: Result, **changes: Any) -> Result:
    return replace(result, cases=(*result.cases[:-1], replace(result.cases[-1], **changes)))


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        (lambda result: first_case(result, verdict=Verdict.WRONG_VALUE), "test case 1 did not pass"),
        (lambda result: replace(result, cases=result.cases[:-1]), "benchmark cases are not those that were sent"),
        (lambda result: replace(result, cases=result.cases[1:]), "test cases are not those that were sent"),
        (lambda result: first_case(result, spec="size: 1; seed: 1"), "test cases are not those that were sent"),
        (lambda result: last_case(result, timing=None), "are no times"),
        (lambda result: last_case(result, timing=replace(timing(1000.0, 2000.0, 3000.0), median_ns=1)), "are no times"),
        (lambda result: last_case(result, timing=replace(timing(1000.0), runs=100)), "are no times"),
        (lambda result: with_times(result, 2000.0), "was measured by 1 processes, and not by 3 or 5"),
        (lambda result: with_times(result, *[2000.0] * 4), "was measured by 4 processes, and not by 3 or 5"),
        (lambda result: with_times(result, 1e5, 2e5, 3e5), "3 processes that differ by 100.0 %, and not by 2"),
        (
            lambda result: with_times(result, *SCATTERED),
            "not marked as noisy, and its processes differ by more than 5 %",
        ),
        (lambda result: with_times(result, 990.0, 990.0, 990.0), "a median of 990 ns, and 1000 ns are the least"),
        (lambda result: replace(result, job_id="999"), "it comes from job 999"),
        (lambda result: replace(result, nonce="other"), "belongs to another run"),
        (lambda result: replace(result, run=99), "belongs to another run"),
        (lambda result: with_fact(result, "gpu_name", "Tesla T4"), "its GPU was Tesla T4"),
        (lambda result: with_fact(result, "submission_sha256", "0"), "another submission"),
        (lambda result: with_fact(result, "harness_sha256", "0"), "another harness"),
    ],
)
def test_a_result_that_contradicts_itself_or_what_was_sent_is_not_accepted(
    world: World, forged: Callable[[Result], Result], words: str
) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, forged(right_result(run, task)).to_json().encode())
    world.advance()
    ended = world.store.runs.get(run.id)
    assert ended.state is RunState.ERROR
    assert words in ended.status.reason
    assert world.store.standings.rank(ended) is None


@pytest.mark.parametrize(
    "times",
    [timing(2e5, 2e5, 3e5, 2e5, 2.01e5), replace(timing(*SCATTERED), noisy=True)],
    ids=["one of five is an outlier", "marked as noisy"],
)
def test_times_of_two_more_processes_are_accepted(world: World, times: Timing) -> None:
    run, task = world.run(), a_task()
    world.advance.launch([run])
    result = last_case(right_result(run, task), timing=times)
    world.leave(run, job_folder.RESULT, result.to_json().encode())
    world.advance()
    assert world.state(run) is RunState.FINISHED, world.store.runs.get(run.id).status.reason


def test_a_benchmark_run_is_measured_by_one_process(world: World) -> None:
    run, task = world.run(Mode.BENCHMARK), a_task()
    world.advance.launch([run])
    result = right_result(run, task)
    one = replace(timing(2000.0, 2000.0, 2000.0), worker_runs=(3,))
    cases = tuple(replace(case, timing=one) for case in result.cases if case.phase == "benchmark")
    world.leave(run, job_folder.RESULT, replace(result, mode="benchmark", cases=cases).to_json().encode())
    world.advance()
    assert world.state(run) is RunState.FINISHED, world.store.runs.get(run.id).status.reason


def test_too_few_calls_are_no_measurement(world: World) -> None:
    task = a_task(limits={"timed_calls_min": 4})
    run = world.run(task=task)
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())
    world.advance()
    assert "was timed 1 times in a process, and 2 times are the least" in world.store.runs.get(run.id).status.reason


def with_times(result: Result, *samples_ns: float) -> Result:
    return last_case(result, timing=timing(*samples_ns))


def with_fact(result: Result, name: str, value: str) -> Result:
    return replace(result, provenance={**result.provenance, name: value})


@pytest.mark.parametrize("data", [b"{", b"[" * 100_000, b'{"run": 1}', b"\xff", b"null"])
def test_what_is_no_result_ends_the_run_and_nothing_else(world: World, data: bytes) -> None:
    run, other = world.run(), world.run()
    world.advance.launch([run, other])
    world.leave(run, job_folder.RESULT, data)
    world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.state(other) is RunState.QUEUED


def test_a_result_that_is_too_large_to_store_ends_its_run_and_nothing_else(world: World) -> None:
    huge = a_task(tests=tuple({"size": 3, "seed": seed} for seed in range(22)))
    run, other = world.run(task=huge), world.run()
    world.advance.launch([run, other])
    result = right_result(run, huge)
    cases = tuple(replace(case, message="é" * (256 * 1024)) for case in result.cases)
    text_ = json.dumps(json.loads(replace(result, cases=cases).to_json()), ensure_ascii=False)
    world.leave(run, job_folder.RESULT, text_.encode())
    world.advance()
    assert world.state(run) is RunState.ERROR
    assert world.state(other) is RunState.QUEUED


def test_an_empty_result_is_one_that_is_not_visible_yet(world: World) -> None:
    run = world.run()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, b"")
    world.advance()
    assert world.state(run) is RunState.QUEUED


@pytest.mark.parametrize("in_settings", [True, False])
def test_a_result_that_cannot_be_read_adds_one_row_and_not_one_in_every_turn(world: World, in_settings: bool) -> None:
    run = world.run()
    world.advance.launch([run])
    folder = job_folder.folder(world.folder, run.id)
    shutil.rmtree(folder)
    folder.write_text("a file in the place of the job's folder")
    world.scheduler.status = JobStatus(JobState.RUNNING, source="squeue: RUNNING")
    advance = world.advance if in_settings else replace(world.advance, schedulers={})
    advance()
    before = world.store.runs.history(run.id)
    assert before[-1].source.endswith("result.json cannot be read now: Not a directory")
    for _ in range(3):
        advance()
    assert world.store.runs.history(run.id) == before


def test_a_run_whose_folder_cannot_be_read_for_hours_ends_with_its_result(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime.now(UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())
    folder = job_folder.folder(world.folder, run.id)
    folder.rename(folder.with_name("away"))
    folder.write_text("a file in the place of the job's folder")
    world.scheduler.status = JobStatus(JobState.ENDED, source="squeue: COMPLETED")
    for _ in range(5):
        world.advance()
        clock[0] += timedelta(hours=1)
        assert world.state(run) is RunState.COLLECTING
    assert world.store.runs.get(run.id).status.reason == UNREADABLE
    folder.unlink()
    folder.with_name("away").rename(folder)
    world.advance()
    assert world.state(run) is RunState.FINISHED


def test_a_result_that_comes_while_the_scheduler_is_asked_is_not_taken_for_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime.now(UTC)]
    set_clock(monkeypatch, lambda: clock[0])
    run, task = world.run(), a_task()
    world.advance.launch([run])
    world.scheduler.status = JobStatus(JobState.ENDED)
    world.advance()
    clock[0] += RESULT_GRACE

    def leave_result(_: object) -> None:
        world.leave(run, job_folder.RESULT, right_result(run, task).to_json().encode())

    world.scheduler.on_poll = leave_result
    world.advance()
    world.advance()
    assert world.state(run) is RunState.FINISHED


def test_a_folder_is_no_progress_and_progress_puts_a_run_forward_once(world: World) -> None:
    folder_, file_ = world.run(), world.run()
    world.advance.launch([folder_, file_])
    (job_folder.folder(world.folder, folder_.id) / job_folder.PROGRESS).mkdir()
    world.leave(file_, job_folder.PROGRESS, b"{}\n")
    world.advance()
    assert [world.state(run) for run in (folder_, file_)] == [RunState.QUEUED, RunState.RUNNING]
    world.scheduler.status = JobStatus(JobState.PENDING, source="squeue: PENDING")
    world.advance()
    before = [world.store.runs.history(run.id) for run in (folder_, file_)]
    for _ in range(3):
        world.advance()
    assert [world.store.runs.history(run.id) for run in (folder_, file_)] == before


def test_files_that_are_none_and_a_changed_job_file_neither_block_nor_crash(world: World) -> None:
    runs = [world.run() for _ in range(3)]
    world.advance.launch(runs)
    folders = [job_folder.folder(world.folder, run.id) for run in runs]
    os.mkfifo(folders[0] / job_folder.RESULT)
    (folders[1] / job_folder.RESULT).symlink_to("/etc/passwd")
    (folders[2] / job_folder.FACTS).unlink()
    os.mkfifo(folders[2] / job_folder.FACTS)
    world.leave(runs[2], job_folder.RESULT, json.dumps([]).encode())
    turning = threading.Thread(target=world.advance, daemon=True)
    turning.start()
    turning.join(20)
    assert not turning.is_alive()
    assert [world.state(run) for run in runs] == [RunState.ERROR] * 3


@pytest.mark.parametrize(
    ("gpu", "device", "fits"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("h100-pcie", "NVIDIA H100 PCIe", True),
        ("A100-40", "NVIDIA A100-SXM4-40GB", True),
        ("A100", "Tesla T4", False),
        ("H100", "NVIDIA H200", False),
        ("L40", "NVIDIA L4", False),
        ("GH200", "NVIDIA GH200 480GB", True),
        ("MI300X", "AMD Instinct MI300X", True),
        ("gpu-big", "NVIDIA H100 80GB HBM3", True),
    ],
)
def test_a_device_is_compared_with_the_name_of_its_board(gpu: str, device: str, fits: bool) -> None:
    assert is_model(gpu, device) is fits


@pytest.mark.root
def test_a_job_folder_that_its_job_has_closed_hinders_no_other_run() -> None:
    if os.geteuid() != 0:
        pytest.skip("to become another user takes root")
    with short_folder() as folder:
        os.chown(folder, 65534, 65534)
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os._exit(0 if _carries_on_beside_a_closed_folder(folder) else 1)
        assert os.waitpid(child, 0)[1] == 0


def _carries_on_beside_a_closed_folder(folder: Path) -> bool:
    world = world_in(folder)
    closed, other = world.run(), world.run()
    world.advance.launch([closed, other])
    path = job_folder.folder(folder, closed.id)
    path.chmod(0)
    world.scheduler.status = JobStatus(JobState.ENDED)
    carried = world.advance()
    path.chmod(0o700)
    told = " ".join(status.source for status in world.store.runs.history(closed.id))
    return carried and "cannot be read now" in told and world.state(other) is RunState.COLLECTING
