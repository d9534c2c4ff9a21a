import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState, Status
from hpc_board.domain.runner import Runner
from hpc_board.errors import InputError, Refused
from hpc_board.store import Store
from hpc_board.store.runners import NewRunner
from tests.unit.recorded import REPOSITORY
from tests.values import replace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def later(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def new(job: str = "hb-1", user: str = "alice") -> NewRunner:
    return NewRunner(
        user=user,
        account="",
        gpu="H100",
        cluster="main",
        partition="gpu-h100",
        token=job,
        request="a" * 64,
        seconds=1800,
        idle_seconds=300,
        gpus=1,
        harness_sha256="b" * 64,
        script='{"text": "#!/bin/bash"}',
        at=NOON,
    )


def moved(store: Store, runner: Runner, state: RunState, minutes: float, **more: object) -> Runner:
    store.runners.record(runner.id, replace(runner.status, state=state, at=later(minutes), **more))
    return store.runners.get(runner.id)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "board.db")


def test_two_clients_at_once_hold_a_gpu_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from hpc_board.store import Store; from tests.unit.store.test_runners import new\n"
        "store = Store(Path(sys.argv[1])); sys.stdout.write('0\\n'); sys.stdout.flush(); sys.stdin.readline()\n"
        "for user in 'abcdefghijklmnopqrst':\n"
        "    held = store.runners.add(new(f'hb-{user}{sys.argv[2]}', user), unless_held=True)\n"
        "    sys.stdout.write(f'{held.id} {held.reused}\\n')\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "board.db")]
    clients = [
        subprocess.Popen([*command, number], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
        for number in "12"
    ]
    for client in clients:
        assert client.stdout
        assert client.stdout.readline() == "0\n"
    for client in clients:
        assert client.stdin
        client.stdin.write("\n")
        client.stdin.flush()
    found = [client.communicate()[0].split("\n") for client in clients]
    for one, other in zip(*found, strict=True):
        assert one.split()[:1] == other.split()[:1]
        assert one == other == "" or {one.split()[1], other.split()[1]} == {"True", "False"}
    assert [runner.id for runner in Store(tmp_path / "board.db").runners.live()] == [*range(1, 21)]


def test_a_gpu_that_is_to_be_released_is_held_again(store: Store) -> None:
    first = store.runners.add(new(), unless_held=True)
    assert store.runners.add(new("hb-2"), most=1, unless_held=True) == replace(first, reused=True)
    store.runners.request_end(first.id, "released")
    second = store.runners.add(new("hb-3"), most=1, unless_held=True)
    assert (second.id, second.reused) == (2, False)


def test_a_runner_is_live_until_its_end(store: Store) -> None:
    runner = store.runners.add(new(), most=1)
    assert (runner.state, runner.takes_runs, runner.left_seconds(later(9))) == (RunState.CREATED, False, 1800)
    assert store.runs.has_in_flight()
    runner = moved(store, runner, RunState.QUEUED, 1, job_id="7")
    assert (runner.takes_runs, runner.ends_at, runner.held_seconds(later(9))) == (True, None, 0.0)
    runner = moved(store, runner, RunState.RUNNING, 2)
    assert (runner.ends_at, runner.left_seconds(later(12)), runner.held_seconds(later(12))) == (later(32), 1200, 600)
    assert store.runners.live() == store.runners.live("main") == (runner,)
    runner = moved(store, runner, RunState.FINISHED, 20, reason="it was idle for 300 s")
    assert (runner.held_seconds(later(99)), runner.takes_runs) == (18 * 60, False)
    assert (store.runners.live(), store.runners.newest(9), store.runs.has_in_flight()) == ((), (runner,), False)
    assert not store.runners.record(runner.id, Status(RunState.RUNNING, later(21)))
    assert store.runners.ended(["hb-1", "hb-2"], later(21)) == {"hb-1"}
    assert store.runners.ended(["hb-1"], later(19)) == frozenset()


def test_a_user_holds_no_more_runners_than_permitted(store: Store) -> None:
    runner = store.runners.add(new(), most=1)
    with pytest.raises(
        Refused, match=r"you hold H100 already \(runner 1\), and the limit of this board is 1 at a time"
    ):
        store.runners.add(new("hb-2"), most=1)
    store.runners.add(new("hb-3", "bob"), most=1)
    moved(store, runner, RunState.CANCELLED, 1)
    assert store.runners.add(new("hb-2"), most=1).user == "alice"


def test_the_request_to_end_a_runner_stays_with_it(store: Store) -> None:
    runner = store.runners.add(new(), most=1)
    before = moved(store, runner, RunState.QUEUED, 1, job_id="7")
    asked = store.runners.request_end(runner.id, "released by alice")
    assert (asked.status.cancel_requested, asked.status.reason, asked.takes_runs) == (True, "released by alice", False)
    # A client that has read the runner before the request.
    running = moved(store, before, RunState.RUNNING, 2)
    assert (running.status.cancel_requested, running.status.reason) == (True, "released by alice")
    ended = moved(store, before, RunState.FINISHED, 3, reason="it was released")
    assert (ended.status.cancel_requested, ended.status.reason) == (True, "released by alice")
    assert store.runners.request_end(runner.id, "again").status == ended.status


def test_a_fault_explains_the_end_of_a_runner_that_is_to_end(store: Store) -> None:
    runner = store.runners.add(new(), most=1)
    moved(store, runner, RunState.RUNNING, 1, job_id="7")
    store.runners.request_end(runner.id, "released by alice")
    assert moved(store, runner, RunState.NODE_FAIL, 2, reason="n1 is down").status.reason == "n1 is down"


def test_the_same_status_is_stored_once(store: Store) -> None:
    runner = store.runners.add(new(), most=1)
    moved(store, runner, RunState.QUEUED, 1, job_id="7", reason="Priority")
    moved(store, runner, RunState.QUEUED, 1, job_id="7", reason="Priority")
    with store.file.reading() as db:
        assert len([*db.rows("runner_events", "TRUE", ())]) == 2


def test_a_runner_that_does_not_exist_is_named(store: Store) -> None:
    with pytest.raises(InputError, match="there is no runner 3"):
        store.runners.get(3)
