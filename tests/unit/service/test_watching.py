"""Waits for runs: each change is told, to the users who may see it, until the runs have ended."""

import json
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hpc_board.board import Board
from hpc_board.board.runs import Runs
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.run import Run, RunState
from hpc_board.errors import InputError
from hpc_board.runs.reconciler import Reconciler
from hpc_board.service import routes
from hpc_board.service.client import RemoteBoard
from hpc_board.service.conversation import Bounds
from hpc_board.service.passes import Passes
from hpc_board.store.runs import RunGateway
from tests.service import serving
from tests.unit.recorded import (
    Recorded,
    status_of,
)
from tests.unit.service.clients import OWNER, ROOT, acting_as, asking, bounded, raw, refusal
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


def test_the_runs_of_waits_are_read_in_their_users_turns(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = board.add(status_of(RunState.LOST, reason="gone"), user=OWNER)
    at_work: list[int] = []
    peaks: list[int] = []
    whole = Runs.get

    def counted(runs: Runs, id_: int) -> Run:
        at_work.append(id_)
        peaks.append(len(at_work))
        time.sleep(0.05)
        at_work.pop()
        return whole(runs, id_)

    monkeypatch.setattr(Runs, "get", counted)
    path = folder / "board.sock"
    with bounded(board, folder, Bounds(questions_per_user=1)), ExitStack() as stack:
        clients = [stack.enter_context(raw(path)).greeted() for _ in range(4)]
        peaks.clear()  # the service looks at the newest runs when it starts
        for client in clients:
            client.send(json.dumps({"id": 1, "route": "runs.wait", "args": {"ids": [run.id]}}).encode() + b"\n")
        for client in clients:
            assert "event" in client.read()
    assert peaks == [1] * 4


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


def test_a_run_that_vanishes_ends_its_own_wait_alone(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (board.add(status_of(RunState.QUEUED), user=OWNER) for _ in range(2))
    waits = [RemoteBoard(door).runs.wait([run.id], timeout_seconds=60) for run in (first, second)]
    for wait in waits:
        next(wait)
    whole = RunGateway.get

    def gone(self: RunGateway, id_: int) -> Run:
        if id_ == second.id:
            raise InputError(f"there is no run {id_}")
        return whole(self, id_)

    monkeypatch.setattr(RunGateway, "get", gone)
    for run in (second, first):
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="gone"))
    # A pass of the service may come first, which looks for the result of a job that is unknown.
    assert RunState.LOST in (found.state for seen in waits[0] for found in seen)
    with pytest.raises(InputError, match=f"there is no run {second.id}"):
        next(waits[1])


def test_changes_are_told_although_no_run_can_be_advanced(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Reconciler) -> None:
        raise OSError("a stuck file system")

    monkeypatch.setattr(Reconciler, "run_pass", fails)
    run = board.add(status_of(RunState.QUEUED), user=OWNER)
    waiting = RemoteBoard(door).runs.wait([run.id], timeout_seconds=60)
    next(waiting)
    board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="gone"))
    assert [found.state for found in next(waiting)] == [RunState.LOST]


def test_the_waits_of_a_user_have_a_bound_together(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = board.add(status_of(RunState.QUEUED))
    monkeypatch.setattr(routes, "WATCHED_MAX", 3)
    with raw(door) as one, raw(door) as two:
        assert "event" in one.greeted().ask("runs.wait", ids=[run.id, run.id])
        assert "at one time" in two.greeted().ask("runs.wait", ids=[run.id, run.id])["error"]["message"]


@ROOT
def test_a_wait_ends_when_the_board_is_closed_to_its_user(board: Recorded, door: Path) -> None:
    files = Board(board.board.settings, user="games")
    run = board.add(status_of(RunState.QUEUED), user="daemon")
    with ExitStack() as stack:
        with acting_as("nobody"):
            other = stack.enter_context(raw(door)).greeted()
        assert "event" in other.ask("runs.wait", ids=[run.id])
        closed = RequestedOptions(closed=True, members=("daemon",))
        created(files, "vectoradd_py", None, closed)
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="a secret"))
        lines = [other.read()]
        while "event" in lines[-1]:
            lines.append(other.read())
    assert "there is no run" in lines[-1]["error"]["message"]
    assert "a secret" not in json.dumps(lines)
