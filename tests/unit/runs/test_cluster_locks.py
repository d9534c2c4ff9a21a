"""The locks of clusters: one client at a time advances the runs of each."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from hpc_board.domain.run import JobState, JobStatus, RunState, Status
from hpc_board.errors import SchedulerError, StorageError
from tests.scripted import Scripted
from tests.unit.runs.world import (
    CLUSTER,
    World,
    cancel,
)
from tests.values import replace
from tests.waiting import awaited


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
            pytest.raises(StorageError, match="another client has been updating runs"),
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


@pytest.mark.parametrize("name", ["advance.gate.lock", "advance.lock", "advance-main.lock"])
def test_a_cancellation_names_the_lock_that_cannot_be_used(world: World, name: str) -> None:
    run = world.run()
    (world.folder / name).unlink(missing_ok=True)
    (world.folder / name).mkdir()
    (error,) = world.advance.cancel([run], "ada").values()
    assert isinstance(error, StorageError)
    assert f"{world.folder / name}: cannot be written or locked" in error.message


def test_a_client_that_holds_the_board_for_long_hinders_nobody_from_storing_a_submission(world: World) -> None:
    run, unwanted = world.run(), world.run()
    holder = os.open(world.folder / "advance.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert world.advance.launch([run, unwanted]) == []
        assert world.advance() is False
        with pytest.raises(SchedulerError, match="busy with cluster main"):
            cancel(world.advance, unwanted)
    finally:
        os.close(holder)
    assert world.advance()
    assert (world.scheduler.sent, world.state(unwanted)) == ([run.token], RunState.CANCELLED)
