"""The changes that a service tells: each user what they may see, once for all clients, and again after a loss."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.board import Board
from hpc_board.boards.editor import BoardUser
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.change import Change
from hpc_board.domain.roles import Role
from hpc_board.domain.run import RunState
from hpc_board.errors import BoardError, StorageError
from hpc_board.model.result import Verdict
from hpc_board.runs.reconciler import Reconciler
from hpc_board.service import changes, routes
from hpc_board.service.changes import Viewer
from hpc_board.service.client import RemoteBoard
from hpc_board.service.doors import ServiceError
from hpc_board.store import Store
from hpc_board.store.additions import Addition, AdditionGateway
from hpc_board.store.database import DatabaseFile
from hpc_board.store.readers import Withheld
from tests.service import serving
from tests.unit.recorded import AT, Recorded, result_of, status_of, timed_case
from tests.unit.service.clients import OWNER, ROOT, Raw, acting_as, asking, raw
from tests.unit.store.test_runners import new as new_runner
from tests.values import created
from tests.waiting import awaited

LATER = AT + timedelta(seconds=1)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PAUSE_SECONDS", 0.0)


@contextmanager
def listening_as(path: Path, name: str = OWNER) -> Iterator[Raw]:
    """A client that has been told the first change."""
    with ExitStack() as stack:
        if name == OWNER:
            client = stack.enter_context(raw(path)).greeted()
        else:
            with acting_as(name):
                client = stack.enter_context(raw(path)).greeted()
        assert client.ask(routes.CHANGES)["event"]["anew"]
        yield client


def told(client: Raw) -> Change:
    """The next change."""
    return msgspec.convert(client.read()["event"], Change)


def closed(board: Recorded) -> None:
    """Close the leaderboard of the recorded runs to all but daemon."""
    files = Board(board.board.settings, user="games")
    terms = RequestedOptions(closed=True, members=("daemon",))
    created(files, "vectoradd_py", None, terms)


@ROOT
def test_a_new_state_is_told_to_its_user_by_number_and_to_others_without_one(board: Recorded, door: Path) -> None:
    with listening_as(door, "daemon") as own, listening_as(door, "nobody") as other, listening_as(door, "sys") as none:
        run = board.add(status_of(RunState.QUEUED), user="daemon")
        assert told(own) == Change(runs=(run.id,))
        assert told(other) == Change()
        ranked = board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user="sys")
        change = told(none)  # of a user without a role, who sees only their own runs
        assert (change.runs, change.anew) == ((ranked.id,), False)
        while not change.entry:
            change = told(other)


@ROOT
def test_a_new_state_of_a_runner_is_told_to_its_user_alone(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pass would send the runner's job.
    monkeypatch.setattr(Reconciler, "run_pass", lambda *_: None)
    runners = board.board.context.store.runners
    with listening_as(door, "daemon") as own, listening_as(door, "nobody") as other:
        runner = runners.add(new_runner(user="daemon"), most=1)
        assert told(own) == Change(runners=True)
        runners.record(runner.id, status_of(RunState.ERROR, reason="refused"))
        assert told(own) == Change(runners=True)
        run = board.add(status_of(RunState.LOST), user="nobody")
        assert told(other) == Change(runs=(run.id,))


@ROOT
def test_a_change_on_a_closed_board_reaches_its_members_alone(board: Recorded, door: Path) -> None:
    run, own = board.add(status_of(RunState.QUEUED), user="daemon"), None
    with listening_as(door, "nobody") as other, listening_as(door, "daemon") as member:
        closed(board)
        # The end of its sight is a change that they see.
        assert told(other) == Change()
        seen = {*told(member).runs}
        # On a busy machine, a pass has ended the run already, which has no job.
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="a secret"))
        while run.id not in seen:
            seen |= {*told(member).runs}
        own = board.add(status_of(RunState.QUEUED), user="nobody")
        while (change := told(other)).runs != (own.id,):
            assert change.runs == ()


EVE = frozenset({"eve"})
"""The member of the viewer's team."""


def viewer(
    name: str, role: Role = Role.PARTICIPANT, hidden: str = "", before: str = "", frozen: Sequence[str] = ()
) -> Viewer:
    names = frozenset(filter(None, [hidden])), frozenset(filter(None, [before]))
    return Viewer(BoardUser(name, frozenset(), role), *names, dict.fromkeys(frozen, Withheld(AT, None, EVE, {})))


@pytest.mark.parametrize(
    ("who", "addition", "seen"),
    [
        (viewer("ada"), Addition(task="sort", entry=3), True),
        (viewer("ada", hidden="sort"), Addition(task="sort", entry=3), False),
        (viewer("ada", hidden="sort"), Addition(user="ada", task="sort", run=1), True),
        (viewer("ada", hidden="sort", before="sort"), Addition(task="sort", terms=True), False),
        (viewer("ada", hidden="sort"), Addition(task="sort", terms=True), True),
        (viewer("ada", before="sort"), Addition(task="sort", terms=True), True),
        (viewer("ada", Role.NONE), Addition(user="bob", task="sort", run=1), False),
        (viewer("ada"), Addition(user="bob"), False),  # a ban of another
        (viewer("bob"), Addition(user="bob"), True),
        (viewer("ada"), Addition(), False),
        (viewer("ada", Role.ADMIN, hidden="sort"), Addition(), True),
        (viewer("ada", Role.NONE), Addition(everyone=True), True),
        (viewer("ada", frozen=["sort"]), Addition(user="bob", task="sort", run=1, at=AT), True),
        (viewer("ada", frozen=["sort"]), Addition(user="bob", task="sort", run=1, at=LATER), False),
        (viewer("ada", frozen=["sort"]), Addition(task="sort", entry=3, at=LATER), False),
        (viewer("ada", frozen=["sort"]), Addition(user="ada", task="sort", run=1, at=LATER), True),
        (viewer("ada", frozen=["sort"]), Addition(user="eve", task="sort", run=1, at=LATER), True),
        (viewer("ada", hidden="sort", frozen=["sort"]), Addition(user="eve", task="sort", run=1, at=LATER), False),
        (viewer("ada", frozen=["sort"]), Addition(user="bob", task="scan", run=1, at=LATER), True),
        (viewer("ada", frozen=["sort"]), Addition(task="sort", terms=True), True),
    ],
)
def test_a_new_row_is_seen_by_those_whom_it_concerns(who: Viewer, addition: Addition, seen: bool) -> None:
    assert who.sees(addition) == seen
    assert (who.change([addition], []) is not None) == seen


@ROOT
@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.QUEUED])
def test_a_run_in_flight_is_told_from_time_to_time_and_is_no_fact(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch, state: RunState
) -> None:
    # The scheduler would say that it has no such job.
    monkeypatch.setattr(Reconciler, "run_pass", lambda *_: None)
    monkeypatch.setattr(changes, "_pause", lambda _: 0.0)
    run = board.add(status_of(state), user=OWNER)
    with listening_as(door, "nobody") as other, listening_as(door) as own:
        for _ in range(2):
            assert told(own) == Change(runs=(run.id,), facts=False)
        if state is RunState.RUNNING:
            assert told(other) == Change(facts=False)
        else:
            noted = board.add(status_of(RunState.LOST), user="nobody")
            assert told(other) == Change(runs=(noted.id,))


def test_a_question_that_writes_is_told_without_a_pass(board: Recorded, folder: Path) -> None:
    run = board.add(status_of(RunState.LOST, reason="gone"), user=OWNER)
    path = folder / "board.sock"
    with serving(board.board.settings, path) as service:
        service._passes._threads._pause_seconds = 3600
        with listening_as(path) as client, asking(path) as remote:
            remote.submissions.note(run.submission, "mine")
            assert told(client).facts


def test_waiting_clients_cause_no_question_of_their_own(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[str] = Counter()
    looks: list[int] = []
    reading, since = DatabaseFile.reading, AdditionGateway.since

    def counted(how: Any) -> Any:
        def read(file: DatabaseFile) -> Any:
            reads[threading.current_thread().name.partition("_")[0]] += 1
            return how(file)

        return read

    def looked(gateway: AdditionGateway, marks: Any) -> Any:
        looks.append(1)
        return since(gateway, marks)

    with ExitStack() as stack:
        clients = [stack.enter_context(listening_as(door)) for _ in range(30)]
        monkeypatch.setattr(AdditionGateway, "since", looked)
        awaited(lambda: len(looks) > 3)
        monkeypatch.setattr(DatabaseFile, "reading", counted(reading))
        reads.clear()
        looks.clear()
        awaited(lambda: len(looks) > 3)
        assert reads["question"] == 0
        assert reads["changes"] <= len(looks) + 1
        board.add(status_of(RunState.QUEUED), user=OWNER)
        for client in clients:
            told(client)


def test_a_service_without_listeners_reads_no_changes(door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening_as(door):
        pass
    looks: list[int] = []
    look, marks = changes.Changes._read_changes, AdditionGateway.marks

    def looked(service: changes.Changes) -> None:
        looks.append(1)
        look(service)

    monkeypatch.setattr(changes.Changes, "_read_changes", looked)
    awaited(lambda: len(looks) > 2)
    monkeypatch.setattr(AdditionGateway, "marks", lambda _: pytest.fail("read"))
    monkeypatch.setattr(AdditionGateway, "since", lambda *_: pytest.fail("read"))
    looks.clear()
    awaited(lambda: len(looks) > 2)
    monkeypatch.setattr(AdditionGateway, "marks", marks)


def test_another_database_is_a_change_of_everything(board: Recorded, tmp_path: Path) -> None:
    board.add(status_of(RunState.QUEUED))
    full, empty = board.board.context.store, Store(tmp_path / "empty.db")
    marks = full.additions.marks()
    assert full.additions.since(marks) == (marks, ())
    assert empty.additions.since(marks)[1] is None


def test_a_stream_has_no_arguments(door: Path) -> None:
    with raw(door) as client:
        assert "invalid request" in client.greeted().ask(routes.CHANGES, user="ada")["error"]["message"]


def test_a_lost_service_is_told_once_and_the_next_one_from_the_beginning(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.service.client._PAUSE_SECONDS_MAX", 0.05)
    path, seen = folder / "board.sock", list[Change | BoardError]()
    going, tries = threading.Event(), []
    connect = RemoteBoard(path)
    stream = connect._connection.stream

    def tried(*args: Any) -> Any:
        tries.append(1)
        return stream(*args)

    monkeypatch.setattr(connect._connection, "stream", tried)

    def listen() -> None:
        for change in connect.changes(lambda: not going.is_set()):
            seen.append(change)

    thread = threading.Thread(target=listen)
    with serving(board.board.settings, path):
        thread.start()
        awaited(lambda: bool(seen))
    awaited(lambda: len(tries) > 3)
    assert [type(each) for each in seen[-1:]] == [ServiceError]
    assert sum(isinstance(each, BoardError) for each in seen) == 1
    count = len(seen)
    with serving(board.board.settings, path):
        awaited(lambda: len(seen) > count)
        going.set()
        thread.join(30)
    assert not thread.is_alive()
    assert seen[count] == Change(anew=True)


def test_a_board_of_files_tells_nothing(board: Recorded) -> None:
    assert list(board.board.changes(lambda: True)) == []


@ROOT
def test_a_change_at_a_look_that_failed_is_told_by_the_next_one(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, faults = changes.Changes._viewers_of, [StorageError("database is locked")]

    def fails_once(self: changes.Changes, users: Collection[str]) -> dict[str, Viewer]:
        if faults:
            raise faults.pop()
        return whole(self, users)

    with listening_as(door, "nobody") as client:
        monkeypatch.setattr(changes.Changes, "_viewers_of", fails_once)
        board.add(status_of(RunState.QUEUED), user="nobody")
        change = told(client)
        assert change.anew or change.runs
        assert not faults
