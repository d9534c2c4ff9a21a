"""Waits for runs: each change is told, to the users who may see it, until the runs have ended."""

import threading
from pathlib import Path
from typing import Any

import pytest

from hpc_board.board import Board
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.run import RunState
from hpc_board.errors import WaitExpired
from hpc_board.runs.reconciler import Reconciler
from hpc_board.service.client import RemoteBoard
from hpc_board.service.passes import Passes
from tests.service import serving
from tests.unit.recorded import AT, Recorded, status_of
from tests.unit.service.clients import OWNER, ROOT, acting_as, asking, refusal
from tests.values import created


def test_a_wait_is_told_each_change_and_ends_with_the_run(board: Recorded, door: Path) -> None:
    run = board.add(status_of(RunState.QUEUED), user=OWNER)
    store = board.board.context.store
    seen: list[RunState] = []
    with asking(door) as remote:
        for runs in remote.runs.wait([run.id], timeout_seconds=60):
            seen.append(runs[0].state)
            if len(seen) == 1:
                store.runs.record(run.id, status_of(RunState.LOST, reason="gone"))
    assert seen[0] in (RunState.QUEUED, RunState.COLLECTING)
    assert seen[-1] is RunState.LOST


def test_a_wait_for_no_runs_ends_at_once(door: Path) -> None:
    with asking(door) as remote:
        assert list(remote.runs.wait([], timeout_seconds=60)) == [[]]


def test_a_wait_ends_in_its_time(board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The scheduler would say that it has no such job.
    monkeypatch.setattr(Reconciler, "run_pass", lambda *_: None)
    run = board.add(status_of(RunState.QUEUED), user=OWNER)
    with asking(door) as remote, pytest.raises(WaitExpired, match=f"not finished after 0.1 s: run {run.id}"):
        list(remote.runs.wait([run.id], timeout_seconds=0.1))


def test_a_wait_is_told_of_changes_while_another_cluster_hangs(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = board.settings.read_text()
    board.settings.write_text(text.replace("clusters:\n", "clusters:\n  far: {scheduler: local}\n"))
    run = board.add(status_of(RunState.QUEUED), user=OWNER)
    hanging, go_on, turn = threading.Event(), threading.Event(), Passes._run_pass

    def hang(service: Passes, cluster: str) -> Any:
        if cluster == "far":
            hanging.set()
            go_on.wait(60)
        return turn(service, cluster)

    monkeypatch.setattr(Passes, "_run_pass", hang)
    path = folder / "board.sock"
    with serving(board.board.settings, path), asking(path) as remote:
        try:
            assert hanging.wait(60)
            states = (runs[0].state for runs in remote.runs.wait([run.id], timeout_seconds=60))
            assert RunState.COLLECTING in states, "the queue of this machine has no such job"
        finally:
            go_on.set()


def test_a_wait_for_a_service_that_ends_says_so(board: Recorded, folder: Path) -> None:
    run = board.add(status_of(RunState.QUEUED))
    path = folder / "board.sock"
    with serving(board.board.settings, path) as service, asking(path) as remote:
        waiting = remote.runs.wait([run.id])
        next(waiting)
        threading.Timer(0.2, service.stop).start()
        error = refusal(lambda: list(waiting))
    assert (error.exit_code, error.title) == (3, "The service did not answer")
    assert "closed the connection" in error.message


def test_changes_are_told_although_no_run_can_be_advanced(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Reconciler) -> None:
        raise OSError("a stuck file system")

    monkeypatch.setattr(Reconciler, "run_pass", fails)
    run = board.add(status_of(RunState.QUEUED), user=OWNER)
    with asking(door) as remote:
        waiting = remote.runs.wait([run.id], timeout_seconds=60)
        next(waiting)
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="gone"))
        assert [found.state for found in next(waiting)] == [RunState.LOST]


def test_a_wait_says_once_that_the_scheduler_is_silent(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reconciler, "silent_since", lambda *_: AT)
    run = board.add(status_of(RunState.QUEUED), user=OWNER)
    said: list[str] = []
    with asking(door) as remote:
        waiting = remote.runs.wait([run.id], timeout_seconds=60, say=said.append)
        next(waiting)
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="gone"))
        list(waiting)
    assert said == [f"the scheduler of cluster here has not answered since {AT:%H:%M} UTC"]


@ROOT
def test_a_wait_for_a_run_of_another_user_ends_when_the_board_is_closed(board: Recorded, door: Path) -> None:
    files = Board(board.board.settings, user="games")
    run = board.add(status_of(RunState.QUEUED), user="daemon")
    remote = RemoteBoard(door)
    with remote.session():
        # A connection belongs to the user who opened it.
        with acting_as("nobody"):
            waiting = remote.runs.wait([run.id], timeout_seconds=60)
            assert [found.id for found in next(waiting)] == [run.id]
        created(files, "vectoradd_py", None, RequestedOptions(closed=True, members=("daemon",)))
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="a secret"))
        error = refusal(lambda: list(waiting))
    assert f"there is no run {run.id}" in error.message
