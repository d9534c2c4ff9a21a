"""The service at its socket: who may ask for what, and what becomes of those who keep to no rule."""

import base64
import ctypes
import dataclasses
import io
import json
import os
import pwd
import resource
import select
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from click.testing import Result as Done
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpc_board.board import Board
from hpc_board.board import submissions as submissions_module
from hpc_board.board.administration import Administration
from hpc_board.board.gpus import Gpus
from hpc_board.board.runs import Runs
from hpc_board.board.submissions import SOURCES_MAX
from hpc_board.catalog import archive as archive_module
from hpc_board.cli.main import cli
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.roles import Role
from hpc_board.domain.run import JobState, JobStatus, Run, RunState
from hpc_board.errors import BoardError, InputError, Refused, SchedulerError
from hpc_board.model.result import Log, Verdict
from hpc_board.runs.reconciler import Reconciler
from hpc_board.schedulers import JobKey
from hpc_board.schedulers.local.client import LocalScheduler
from hpc_board.service import answers as service_answers
from hpc_board.service import client as client_module
from hpc_board.service import routes, wire
from hpc_board.service.answers import ROWS_MAX, Answers
from hpc_board.service.client import RemoteBoard
from hpc_board.service.conversation import Bounds
from hpc_board.service.isolation import demanding, shortfalls
from hpc_board.service.log import ServiceLog
from hpc_board.service.passes import Passes
from hpc_board.service.server import Service
from hpc_board.store.runs import RunGateway
from tests.service import serving
from tests.unit.recorded import (
    KERNEL,
    SETTINGS,
    TASK,
    Recorded,
    full_device,
    recorded,
    result_of,
    status_of,
    timed_case,
)
from tests.waiting import awaited

OWNER = pwd.getpwuid(os.geteuid()).pw_name
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
REFERENCE = "SECRET_OF_THE_REFERENCE"


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board with a task that has a secret, and an admin who is not its owner."""
    made = recorded(tmp_path)
    made.settings.write_text(SETTINGS + "roles: {admins: [games], creators: [bin], participants: [daemon, nobody]}\n")
    reference = made.folder / "tasks" / "narrow" / "reference.py"
    reference.write_text(f"# {REFERENCE}\n{reference.read_text()}")
    return made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account can enter, with a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def door(board: Recorded, folder: Path) -> Iterator[Path]:
    """The socket of a service of the board."""
    with serving(board.board.settings, folder / "board.sock"):
        yield folder / "board.sock"


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Have this thread alone be the account `name`, as the kernel sees it."""
    set_uids = 117  # setresuid of this thread; Python's own function changes all threads
    libc = ctypes.CDLL(None, use_errno=True)

    def be(uid: int) -> None:
        assert libc.syscall(set_uids, ctypes.c_long(-1), ctypes.c_long(uid), ctypes.c_long(-1)) == 0

    before = os.geteuid()
    be(0)
    be(pwd.getpwnam(name).pw_uid)
    try:
        yield
    finally:
        be(0)
        be(before)


class Raw:
    """A client that sends bytes of its choice."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def greeted(self) -> "Raw":
        self.send(wire.HELLO + b"\n")
        assert self.read()["user"]
        return self

    def read(self) -> Any:
        line = self.file.readline()
        return json.loads(line) if line else None

    def ask(self, route: str, **args: object) -> Any:
        self.send(json.dumps({"id": 7, "route": route, "args": args}).encode() + b"\n")
        return self.read()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextmanager
def raw(path: Path) -> Iterator[Raw]:
    with closing(Raw(path)) as client:
        yield client


@contextmanager
def asking(path: Path, name: str = OWNER) -> Iterator[RemoteBoard]:
    """The board as the account `name` reaches it through the socket."""
    with acting_as(name) if name != OWNER else closing(socket.socket()):
        board = RemoteBoard(path)
        with board.session():
            yield board


def refusal(question: Callable[[], object]) -> BoardError:
    with pytest.raises(BoardError) as found:
        question()
    return found.value


# The user of a conversation


@ROOT
def test_the_user_is_the_account_that_the_kernel_names_and_has_its_role(door: Path) -> None:
    roles = {"games": Role.ADMIN, "bin": Role.CREATOR, "daemon": Role.PARTICIPANT, "sys": Role.NONE}
    for name, role in roles.items():
        with asking(door, name) as board:
            assert (board.user, board.role) == (name, role)


@ROOT
@pytest.mark.parametrize("route", routes.ROUTES)
def test_a_role_below_the_routes_least_one_is_refused_before_anything_runs(door: Path, route: str) -> None:
    below = {Role.ADMIN: "bin", Role.CREATOR: "daemon", Role.PARTICIPANT: "sys"}
    least = routes.ROUTES[route].role
    if least is Role.NONE:
        return
    with acting_as(below[least]), raw(door) as client:
        # The arguments do not even fit: the role comes first.
        answer = client.greeted().ask(route, nonsense=1)
    assert answer["error"]["kind"] == "Refused"
    own = "sys has none" if least is Role.PARTICIPANT else f"{below[least]}'s is "
    assert f"that takes the role {least}, and {own}" in answer["error"]["message"]
    assert route not in answer["error"]["message"]


@ROOT
def test_the_runs_code_and_results_of_another_are_out_of_reach(board: Recorded, door: Path) -> None:
    run = board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user="daemon")
    waiting = board.add(status_of(RunState.QUEUED), user="daemon")
    with asking(door, "nobody") as other:
        assert isinstance(refusal(lambda: other.submissions.code(run.submission)), Refused)
        assert isinstance(refusal(lambda: other.runs.cancel(waiting.id)), Refused)
        assert isinstance(refusal(lambda: other.submissions.note(run.submission, "mine")), Refused)
        assert isinstance(refusal(lambda: other.submissions.draft_again(run.id)), Refused)
    with asking(door, "sys") as stranger:
        for question in (stranger.runs.get, stranger.runs.whole, stranger.runs.log, stranger.runs.result):
            assert isinstance(refusal(partial(question, run.id)), Refused)
    with asking(door, "daemon") as own:
        assert own.submissions.code(run.submission) == ("kernel.py", KERNEL.encode())


@ROOT
@pytest.mark.parametrize(("admins", "name"), [("[]", OWNER), ('["@staff", games, bin]', "games")])
def test_a_user_without_a_role_is_told_whom_to_ask_for_it(
    board: Recorded, folder: Path, admins: str, name: str
) -> None:
    board.settings.write_text(SETTINGS + f'roles: {{admins: {admins}, participants: ["@hpc-board-absent"]}}\n')
    path, kernel = folder / "board.sock", folder / "kernel.py"
    kernel.write_text(KERNEL)
    with serving(board.board.settings, path), asking(path, "daemon") as other:
        error = refusal(lambda: other.submissions.draft(kernel))
    assert error.message == "you may not use this board: that takes the role participant, and daemon has none."
    assert error.hint == f"Ask the service's admin, {name}, for the role participant."


@ROOT
def test_a_board_that_is_closed_to_a_user_does_not_exist_for_them(board: Recorded, door: Path) -> None:
    files = Board(board.board.settings, user="games")
    plans = files.leaderboards.plan_creation("vectoradd_py", None, RequestedOptions(closed=True, members=("daemon",)))
    files.leaderboards.carry_out(plans)
    run = board.add(status_of(RunState.QUEUED), user="daemon")
    with asking(door, "daemon") as member:
        assert member.tasks.get("vectoradd_py").name == "vectoradd_py"
    with asking(door, "nobody") as other:
        assert "unknown task" in refusal(lambda: other.tasks.get("vectoradd_py")).message
        assert "there is no run" in refusal(lambda: other.runs.get(run.id)).message
        assert "there is no run" in refusal(lambda: list(other.runs.wait([run.id]))).message
        for question in (
            other.submissions.get,
            other.submissions.code,
            other.runs.get,
            other.runs.log,
            other.runs.cancel,
            partial(other.submissions.note, text="mine"),
            partial(other.submissions.compare, other=98),
        ):
            hidden, missing = (refusal(partial(question, number)) for number in (run.id, 98))
            told = f"{hidden.message} {hidden.hint}".replace(f" {run.id}", " 98")
            assert told == f"{missing.message} {missing.hint}"


@ROOT
def test_a_member_cannot_touch_the_boards_files(board: Recorded, door: Path) -> None:
    with asking(door, "daemon") as member:
        member.runs.list()
    assert stat.S_IMODE((board.folder / "board").stat().st_mode) == 0o700
    with acting_as("daemon"):
        for entry in ("board.db", "runs", "serve.lock"):
            with pytest.raises(PermissionError):
                (board.folder / "board" / entry).stat()


@ROOT
def test_an_account_without_a_name_is_refused(door: Path) -> None:
    libc = ctypes.CDLL(None)
    assert libc.syscall(117, ctypes.c_long(-1), ctypes.c_long(61001), ctypes.c_long(-1)) == 0
    try:
        with raw(door) as client:
            client.send(wire.HELLO + b"\n")
            answer = client.read()
    finally:
        libc.syscall(117, ctypes.c_long(-1), ctypes.c_long(0), ctypes.c_long(-1))
    assert answer["error"]["message"] == "this machine has no account with the number 61001."


def test_a_wrong_path_is_told_with_the_key_or_the_variable_that_names_it(tmp_path: Path) -> None:
    wrong = tmp_path / "nowhere" / "board.sock"
    plain, other = tmp_path / "plain.yaml", tmp_path / "other.yaml"
    plain.write_text(f"service: {wrong}\n")
    other.write_text("service: nowhere/board.sock\n")
    for words, environ, origin in (
        (("--config", str(plain)), {}, f"`service` in {plain}"),
        (("--config", str(other)), {}, f"`service` in {other}"),
        ((), {"HPC_BOARD_SERVICE": str(wrong)}, "$HPC_BOARD_SERVICE"),
    ):
        done = CliRunner().invoke(cli, [*words, "runs"], env=environ)
        assert done.exit_code == 3
        told = " ".join(done.stderr.split())
        assert f"there is no folder {wrong.parent}." in told
        assert f"which {origin} names," in told


# Texts that stay


def test_no_text_of_a_tasks_files_leaves_the_service(door: Path) -> None:
    with raw(door) as client:
        client.greeted()
        answers = [client.ask("tasks.catalog"), client.ask("tasks.get", name="narrow")]
    assert REFERENCE not in json.dumps(answers)
    assert '"reference.py"' in json.dumps(answers)


def command(door: Path, *words: str) -> Done:
    environ = {"HPC_BOARD_SERVICE": str(door)}
    return CliRunner().invoke(cli, words, env=environ, catch_exceptions=False)


@pytest.mark.parametrize(
    "words",
    [
        ("task", "check", "narrow"),
        ("task", "test", "narrow", "--submission", __file__),
        ("task", "narrow", "--file", "reference.py"),
        ("eval-code", "own"),
    ],
)
def test_a_command_that_needs_the_texts_of_a_task_says_that_the_service_keeps_them(
    board: Recorded, door: Path, words: tuple[str, ...]
) -> None:
    own = board.folder / "tasks" / "own"
    own.mkdir()
    (own / "task.yml").write_text(
        TASK.replace("gpus: [H100]", "hpc_board: {harness: task}").replace("reference", "eval")
    )
    (own / "eval.py").write_text(f"# {REFERENCE}\n")
    done = command(door, *words)
    assert done.exit_code == 2
    assert f"the texts of {'own' if 'own' in words else 'narrow'}'s files stay with the service" in done.stderr


@ROOT
def test_the_output_of_anothers_run_is_refused_with_the_exit_code_of_a_refusal(board: Recorded, door: Path) -> None:
    run = board.add(result=result_of(Verdict.PASS, timed_case(), stdout="a secret"), score_s=1e-3, user="daemon")
    with acting_as("nobody"):
        done = command(door, "run", str(run.id), "--log")
    assert (done.exit_code, "a secret" in done.output) == (5, False)
    assert "daemon and admins alone may read the output" in done.stderr


def test_the_files_of_a_task_are_shown_to_be_with_the_service(door: Path) -> None:
    shown = command(door, "task", "narrow").stdout
    assert "reference.py   with the service\n" in shown
    assert "submission.py  your submission\n" in shown


def test_a_task_from_the_service_has_the_version_that_its_files_give(board: Recorded, door: Path) -> None:
    with asking(door) as remote:
        assert remote.tasks.get("narrow").version == board.board.tasks.get("narrow").version


def test_every_route_has_a_schema_on_both_sides() -> None:
    for route in routes.ROUTES:
        msgspec.json.Decoder(routes.arguments_type(route))
        msgspec.json.Decoder(routes.answer_type(route), dec_hook=lambda _, value: value)


# Lines that do not fit


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"id": 1, "route": "runs.nonsense"}, "has no route"),
        ({"id": 1, "route": "runs.__init__"}, "has no route"),
        ({"id": 1, "route": "runs.get", "args": {"run": "1"}}, "does not fit"),
        ({"id": 1, "route": "runs.get", "args": {}}, "does not fit"),
        ({"id": 1, "route": "runs.get", "args": {"run": 1, "user": "ada"}}, "does not fit"),
        ({"id": 1, "route": "runs.list", "args": {"limit": ROWS_MAX + 1}}, "at most"),
        ({"id": 1, "route": "runs.wait", "args": {"ids": "1"}}, "does not fit"),
    ],
)
def test_a_question_that_does_not_fit_is_refused_and_the_next_one_answered(
    door: Path, line: dict[str, object], words: str
) -> None:
    with raw(door) as client:
        client.greeted().send(json.dumps(line).encode() + b"\n")
        assert words in client.read()["error"]["message"]
        if line["route"] != "runs.wait":
            assert "value" in client.ask("runs.list")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b'{"protocol":1,"user":"root"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"protocol":1}\n' + b'{"id":1,"route":"runs.list","args":{},"user":"root"}\n',
        b'{"protocol":1}\n' + b"x" * (wire.REQUEST_BYTES_MAX + 1) + b"\n",
    ],
)
def test_a_line_that_no_client_sends_ends_the_connection_with_a_sentence(door: Path, data: bytes) -> None:
    with raw(door) as client:
        with suppress(BrokenPipeError, ConnectionResetError):
            client.send(data)
        with suppress(ConnectionResetError):
            lines = client.file.read().splitlines()
            assert json.loads(lines[-1])["error"]["kind"] == "InputError"
    with raw(door) as other:
        assert "value" in other.greeted().ask("runs.list")


def test_another_protocol_names_both_versions(door: Path) -> None:
    with raw(door) as client:
        client.send(b'{"protocol": 99, "version": "9.9"}\n')
        message = client.read()["error"]["message"]
    assert "9.9" in message
    assert "do not speak the same protocol" in message


def test_questions_that_are_sent_at_once_are_answered_in_turn(door: Path) -> None:
    with raw(door) as client:
        client.greeted()
        client.send(b"".join(b'{"id":%d,"route":"runs.list","args":{}}\n' % number for number in range(50)))
        assert [client.read()["id"] for _ in range(50)] == list(range(50))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_route_is_asked_the_service_has_no_fault(door: Path, data: st.DataObject) -> None:
    route = data.draw(st.sampled_from([*routes.ROUTES, routes.WAIT, routes.CHANGES]))
    streams = {routes.WAIT: routes.Wait, routes.CHANGES: routes.ChangesArguments}
    names = (streams[route] if route in streams else routes.arguments_type(route)).__struct_fields__
    args = data.draw(st.dictionaries(st.sampled_from([*names, "x"]), JSON, max_size=4))
    with raw(door) as client:  # `serving` fails at a fault in the service's log
        answer = client.greeted().ask(route, **args)
        assert answer is None or answer["id"] == 7


# Clients that do not behave


def bounded(board: Recorded, folder: Path, bounds: Bounds) -> Any:
    return serving(board.board.settings, folder / "board.sock", bounds)


def test_a_client_that_sends_a_byte_at_a_time_is_let_go(board: Recorded, folder: Path) -> None:
    with bounded(board, folder, Bounds(hello_seconds=0.3, line_seconds=0.3)), raw(folder / "board.sock") as slow:
        began = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < began + 30:
                slow.send(b" ")
                time.sleep(0.05)
        assert time.monotonic() < began + 30
        with raw(folder / "board.sock") as other:
            assert "value" in other.greeted().ask("runs.list")


def test_connections_that_nobody_uses_are_closed_and_the_client_does_not_notice(board: Recorded, folder: Path) -> None:
    with bounded(board, folder, Bounds(idle_seconds=0.2)), asking(folder / "board.sock") as remote:
        for _ in range(3):
            assert remote.runs.list() == ()
            time.sleep(0.5)


@ROOT
def test_one_users_connections_leave_room_for_others(board: Recorded, folder: Path) -> None:
    path = folder / "board.sock"
    with bounded(board, folder, Bounds(connections_per_user=3)):
        with acting_as("daemon"):
            held = [Raw(path).greeted() for _ in range(3)]
            with raw(path) as more:
                assert "too many connections" in more.read()["error"]["message"]
        with asking(path, "nobody") as other:
            assert other.runs.list() == ()
        for client in held:
            client.close()
        with acting_as("daemon"):
            awaited(lambda: answers(path))


def answers(path: Path) -> bool:
    with raw(path) as client:
        client.send(wire.HELLO + b"\n")
        return "user" in (client.read() or {})


# Waiting


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
    hanging, go_on, turn = threading.Event(), threading.Event(), Passes._turn

    def hang(service: Passes, cluster: str) -> Any:
        if cluster == "far":
            hanging.set()
            go_on.wait(60)
        return turn(service, cluster)

    monkeypatch.setattr(Passes, "_turn", hang)
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


# Life


def test_an_answer_under_way_leaves_before_the_service_ends(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, go_on = folder / "board.sock", threading.Event(), threading.Event()

    def slow(_: object) -> tuple[()]:
        asked.set()
        assert go_on.wait(30)
        return ()

    monkeypatch.setattr(Gpus, "all", slow)
    with serving(board.board.settings, path) as service, raw(path) as client, raw(path) as idle:
        idle.greeted()
        client.greeted().send(b'{"id":7,"route":"gpus.all","args":{}}\n')
        assert asked.wait(30)
        service.stop()
        assert idle.read() is None
        go_on.set()
        assert client.read() == {"id": 7, "value": []}
        assert client.read() is None


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_service_that_does_not_serve_takes_an_end(board: Recorded, folder: Path, moment: str) -> None:
    service = Service(board.board.settings, folder / "board.sock", log=ServiceLog(lambda _: None))
    service.stop()
    service.run()
    if moment == "after":
        service.stop()
    assert not (folder / "board.sock").exists()


@contextmanager
def logged(board: Recorded, path: Path) -> Iterator[list[dict[str, Any]]]:
    """Serve the board at `path`, with faults if need be, and yield the lines of its log."""
    lines: list[dict[str, Any]] = []
    log = ServiceLog(lambda line: lines.append(json.loads(line)))
    service, ready = Service(board.board.settings, path, log=log), threading.Event()
    thread = threading.Thread(target=service.run, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(60)
        yield lines
    finally:
        service.stop()
        thread.join(60)


@pytest.mark.parametrize(("route", "args"), [("admin.export", {"form": "csv"}), ("runs.wait", {"ids": [1]})])
def test_a_fault_in_a_stream_is_answered_and_logged(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch, route: str, args: dict[str, Any]
) -> None:
    def faulty(*_: object, **__: object) -> None:
        raise ValueError("a fault")

    board.add(status_of(RunState.QUEUED))
    monkeypatch.setattr(Administration, "export", faulty)
    monkeypatch.setattr(Runs, "get", faulty)
    path = folder / "board.sock"
    with logged(board, path) as log, raw(path) as client:
        assert "the service failed" in client.greeted().ask(route, **args)["error"]["message"]
    (fault,) = [line for line in log if line["event"] == "fault"]
    assert (fault["uid"], fault["route"]) == (os.geteuid(), route)
    assert "ValueError: a fault" in fault["traceback"]


@ROOT
def test_a_refused_file_is_in_the_log(board: Recorded, folder: Path) -> None:
    path = folder / "board.sock"
    with logged(board, path) as log, acting_as("bin"), raw(path) as client:
        assert client.greeted().ask("admin.backup")["error"]["kind"] == "Refused"
    assert [line["uid"] for line in log if line["event"] == "refused"] == [pwd.getpwnam("bin").pw_uid]


# Sockets


@pytest.mark.usefixtures("door")
def test_a_second_service_of_a_board_is_refused(board: Recorded, folder: Path) -> None:
    error = refusal(lambda: serving(board.board.settings, folder / "other.sock").__enter__())
    assert "another process serves" in error.message


def test_a_service_does_not_take_the_socket_of_another(door: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = recorded(tmp_path_factory.mktemp("other"))
    assert "another service listens" in refusal(lambda: serving(other.board.settings, door).__enter__()).message
    with asking(door) as remote:
        assert remote.runs.list() == ()


def test_the_socket_of_a_killed_service_is_replaced(board: Recorded, folder: Path) -> None:
    stale = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stale.bind(str(folder / "board.sock"))
    stale.close()
    with serving(board.board.settings, folder / "board.sock"), asking(folder / "board.sock") as remote:
        assert remote.runs.list() == ()
    assert not (folder / "board.sock").exists()


def test_a_service_that_is_not_there_is_said(folder: Path) -> None:
    error = refusal(RemoteBoard(folder / "board.sock").runs.list)
    assert "hpc-board serve" in error.hint
    assert error.exit_code == 3


@ROOT
@pytest.mark.parametrize(
    ("place", "words", "opens"),
    [
        ("nowhere/run/board.sock", "there is no folder FOLDER/nowhere.", False),
        ("file/board.sock", "FOLDER/file is no folder.", False),
        ("file", "this is a file, and no socket.", False),
        ("closed", "this is a folder, and no socket.", False),
        ("", "this is a folder, and no socket.", False),
        ("link", "there is no folder FOLDER/nowhere.", False),
        ("closed/board.sock", "this account may not enter FOLDER/closed.", True),
        ("closed/run/board.sock", "this account may not enter FOLDER/closed.", True),
    ],
)
@pytest.mark.parametrize("user", ["nobody", OWNER])
def test_a_wrong_path_of_a_socket_is_told_with_its_fault_and_its_origin(
    folder: Path, place: str, words: str, opens: bool, user: str
) -> None:
    (folder / "closed" / "run").mkdir(parents=True)
    (folder / "closed").chmod(0o700)
    (folder / "file").touch()
    (folder / "link").symlink_to("nowhere/board.sock")
    origin = "$HPC_BOARD_SERVICE"
    with acting_as(user):
        error = refusal(RemoteBoard(folder / place, origin=origin).runs.list)
    if user == OWNER and opens:
        words, opens = "there is no such socket.", False
        assert "hpc-board serve" in error.hint
    else:
        assert f"Compare the path, which {origin} names, with the one that the board's admin gave" in error.hint
    assert error.message == f"{folder / place}: {words.replace('FOLDER', str(folder))}"
    assert (f"`chmod o+x {folder}/closed`" in error.hint) == opens
    assert ("chmod" in error.hint) == opens


@pytest.mark.parametrize("question", [lambda board: board.runs.list(), lambda board: list(board.runs.wait([1]))])
def test_a_service_that_is_silent_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, question: Callable[[RemoteBoard], object]
) -> None:
    monkeypatch.setattr(client_module, "ANSWER_SECONDS", 0.2)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as silent:
        silent.bind(str(folder / "board.sock"))
        silent.listen()
        error = refusal(lambda: question(RemoteBoard(folder / "board.sock")))
    assert (error.exit_code, error.title) == (3, "The service did not answer")
    assert "no answer within 0.2 s" in error.message


def test_a_client_waits_for_its_turn_while_the_queue_of_connections_is_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tries = folder / "board.sock", list[int]()
    sleep = time.sleep

    def counted(seconds: float) -> None:
        if threading.current_thread().name == "asking":
            tries.append(1)
        sleep(seconds)

    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(str(path))
        listening.listen(0)
        with suppress(BlockingIOError):
            while True:
                first = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                first.setblocking(False)
                first.connect(str(path))
        monkeypatch.setattr(time, "sleep", counted)
        found: list[BoardError] = []
        thread = threading.Thread(target=lambda: found.append(refusal(RemoteBoard(path).runs.list)), name="asking")
        thread.start()
        awaited(lambda: len(tries) > 2)
        listening.settimeout(30)
        while thread.is_alive():
            with suppress(TimeoutError):
                listening.accept()[0].close()
            listening.settimeout(0.2)
        thread.join()
    assert "temporarily unavailable" not in found[0].message


@ROOT
@pytest.mark.parametrize(("owner", "mode"), [("daemon", 0o755), (OWNER, 0o775), (OWNER, 0o1777)])
def test_a_socket_where_another_account_could_have_put_it_is_not_trusted(
    board: Recorded, folder: Path, owner: str, mode: int
) -> None:
    place = folder / "place"
    place.mkdir()
    with serving(board.board.settings, place / "board.sock"):
        os.chown(place, pwd.getpwnam(owner).pw_uid, -1)
        place.chmod(mode)
        error = refusal(RemoteBoard(place / "board.sock").runs.list)
        place.chmod(0o700)
        os.chown(place, 0, -1)
    assert isinstance(error, InputError)
    assert "could answer in its place" in error.message


@ROOT
def test_an_impostor_in_a_sticky_folder_is_not_trusted(folder: Path) -> None:
    folder.chmod(0o1777)
    path = folder / "board.sock"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as impostor:
        with acting_as("daemon"):
            impostor.bind(str(path))
            impostor.listen()
        assert "could answer in its place" in refusal(RemoteBoard(path).runs.list).message


def test_a_folder_of_another_account_is_not_served(board: Recorded, folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    (board.folder / "board").mkdir()
    os.chown(board.folder / "board", 1, -1)
    error = refusal(lambda: serving(board.board.settings, folder / "board.sock").__enter__())
    assert "belongs to daemon, and a board belongs to one account" in error.message


def test_the_credentials_of_a_peer_are_those_of_unix_7() -> None:
    one, other = socket.socketpair()
    with one, other:
        told = struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    assert told == (os.getpid(), os.geteuid(), os.getegid())


# Trust


def test_every_run_of_a_served_board_is_verified(board: Recorded, door: Path) -> None:
    with asking(door) as remote:
        (run,) = remote.submissions.submit(remote.submissions.draft(board.kernel))
        assert run.trust == "verified"
        remote.runs.cancel(run.id)


def test_an_admin_is_warned_once_of_a_board_that_is_stopped(board: Recorded, door: Path) -> None:
    board.board.moderation.stop("a pause")
    done = command(door, "submit", str(board.kernel), "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("The board takes no submissions at present") == 1


@ROOT
def test_a_cancelled_job_is_said_to_be_the_services(door: Path, folder: Path) -> None:
    kernel = folder / "slow.py"
    kernel.write_text(f"{KERNEL}\nimport time\n\ntime.sleep(600)\n")
    with asking(door, "daemon") as remote:
        (run,) = remote.submissions.submit(remote.submissions.draft(kernel))
        assert run.account == OWNER
        done = command(door, "cancel", str(run.id))
        assert done.stdout == f"Run {run.id}: cancel requested; the service cancels its job.\n"
        assert [*remote.runs.wait([run.id], timeout_seconds=60)][-1][0].state is RunState.CANCELLED


# Leaderboards


@pytest.fixture
def source(folder: Path) -> Path:
    """A task folder that every account can read."""
    folder = folder / "doubling"
    folder.mkdir()
    (folder / "task.yml").write_text(TASK.replace("gpus: [H100]\n", "tests: [{size: 1, seed: 2}]\n"))
    (folder / "reference.py").write_text("def generate_input(size, seed):\n    return 0\n\n\nref_kernel = abs\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("a secret of the creator")
    return folder


@ROOT
def test_a_creator_makes_changes_and_deletes_a_board_through_the_service(
    board: Recorded, door: Path, source: Path
) -> None:
    with asking(door, "bin") as creator:
        plans = creator.leaderboards.plan_creation(str(source))
        assert creator.leaderboards.list() == ()
        creator.leaderboards.carry_out(plans, reason="for the course")
        assert [made.options.creator for made in creator.leaderboards.list()] == ["bin"]
        plan = creator.leaderboards.plan_update("doubling", options=RequestedOptions(closed=True))
        creator.leaderboards.carry_out([plan])
        assert creator.leaderboards.get("doubling").options.visibility == "closed"  # type: ignore[union-attr]
        with asking(door, "daemon") as other:
            assert isinstance(refusal(lambda: other.leaderboards.delete("doubling")), Refused)
        kept = creator.leaderboards.delete("doubling", reason="over")
    assert kept.is_relative_to(board.folder / "board")
    assert board.board.leaderboards.list() == ()


@ROOT
def test_a_plan_that_another_user_has_overtaken_is_not_carried_out(door: Path, source: Path) -> None:
    with asking(door, "bin") as creator:
        creator.leaderboards.carry_out(creator.leaderboards.plan_creation(str(source)))
        plan = creator.leaderboards.plan_update("doubling", options=RequestedOptions(closed=True))
    with asking(door, "games") as admin:
        admin.leaderboards.carry_out(
            [admin.leaderboards.plan_update("doubling", options=RequestedOptions(gpus=("CPU",)))]
        )
    with acting_as("bin"), creator.session():
        error = refusal(lambda: creator.leaderboards.carry_out([plan]))
    assert "has changed since this was planned" in error.message


@ROOT
def test_a_faulty_source_is_told_by_its_own_name(door: Path, source: Path) -> None:
    (source / "task.yml").write_text("files: 1\n")
    with asking(door, "bin") as creator:
        error = refusal(lambda: creator.leaderboards.plan_creation(str(source)))
    assert error.message.startswith("doubling.zip/task.yml:\n")
    assert "line 1: files: expected a list" in error.message


@pytest.mark.parametrize(
    ("source", "words"),
    [("./nope", "nope: there is no such file."), ("./nope.yaml", "nope.yaml: there is no such file.")],
)
def test_a_source_that_is_not_there_is_said(door: Path, source: str, words: str) -> None:
    done = command(door, "create", source)
    assert done.exit_code == 2
    assert words in done.stderr


OF_FILES = [
    ("admin", "check"),
    ("admin", "check", "--each-node"),
    ("admin", "restore", "x.db"),
    ("admin", "restore", "x.db", "--yes"),
]


@pytest.mark.parametrize("words", OF_FILES)
def test_a_command_on_the_boards_own_files_says_that_a_client_has_none(door: Path, words: tuple[str, ...]) -> None:
    done = command(door, *words)
    assert done.exit_code != 0
    assert "this command needs the board's own settings and files" in done.output
    assert "admin." not in done.output
    assert f"`hpc-board --config SETTINGS admin {words[1]}" in " ".join(done.output.split())


@ROOT
@pytest.mark.parametrize("name", ["../x.zip", "/etc/x.zip", "a/b.zip", "", "x" * 300 + ".zip", "x\n.zip"])
def test_a_packed_source_has_a_plain_name(door: Path, name: str) -> None:
    with acting_as("bin"), raw(door) as client:
        packed = {"file_name": name, "data": ""}
        answer = client.greeted().ask("leaderboards.plan_requested", request={"source": packed})
    assert "is no name of a file" in answer["error"]["message"]


@ROOT
@pytest.mark.parametrize("path", ["/etc/passwd.py", "../../etc", "./hpc-board.yaml"])
def test_a_creator_names_tasks_and_no_paths_of_the_service(door: Path, path: str) -> None:
    with acting_as("bin"), raw(door) as client:
        answer = client.greeted().ask("leaderboards.plan_requested", request={"source": path})
    assert "is no name of a task" in answer["error"]["message"]


@ROOT
def test_an_archive_that_climbs_out_of_its_folder_is_refused(door: Path, board: Recorded) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("../../escaped", "x")
    packed = {"file_name": "x.zip", "data": base64.b64encode(data.getvalue()).decode()}
    with acting_as("bin"), raw(door) as client:
        answer = client.greeted().ask("leaderboards.plan_requested", request={"source": packed})
    assert answer["error"]["kind"] == "DocumentError"
    assert not list(board.folder.rglob("escaped"))


def test_a_packed_folder_has_no_hidden_files_and_no_links(source: Path) -> None:
    (source / "link.py").symlink_to("/etc/passwd")
    with zipfile.ZipFile(io.BytesIO(archive_module.pack(source))) as packed:
        assert packed.namelist() == ["reference.py", "task.yml"]


# Files


def test_an_export_through_the_service_is_that_of_the_files(board: Recorded, door: Path) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    own, sent = io.BytesIO(), io.BytesIO()
    written = board.board.admin.export("csv", with_code=True).write(own)
    with asking(door) as remote:
        assert remote.admin.export("csv", with_code=True).write(sent) == written
    assert sent.getvalue() == own.getvalue()


def test_a_backup_through_the_service_is_a_database(board: Recorded, door: Path, tmp_path: Path) -> None:
    board.add(status_of(RunState.QUEUED))
    with asking(door) as remote:
        contents = remote.admin.backup(tmp_path / "copy.db")
        assert "is there already" in refusal(lambda: remote.admin.backup(tmp_path / "copy.db")).message
    assert contents.runs == 1
    assert (tmp_path / "copy.db").read_bytes().startswith(b"SQLite format 3")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600, "it holds all users' code"


@ROOT
def test_files_of_the_whole_board_are_for_admins(door: Path) -> None:
    with asking(door, "bin") as creator:
        assert isinstance(refusal(lambda: creator.admin.export("json").write(io.BytesIO())), Refused)
        creator.admin_views.boards()  # the connection goes on
    with asking(door, "games") as admin:
        admin.admin.export("json").write(io.BytesIO())


def test_a_full_disk_of_the_client_is_its_own_error(board: Recorded, door: Path) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    with asking(door) as remote, full_device().open("wb", buffering=0) as full:
        with pytest.raises(OSError, match="No space left"):
            remote.admin.export("json").write(full)
        assert len(remote.runs.list()) == 1


# Cost


MODULES_MAX = 190
"""The maximum number of modules of `hpc-board runs` with a service, those of a bare Python included."""


@pytest.mark.parametrize("by", ["variable", "settings"])
@pytest.mark.parametrize("command", [("runs",), ("list",), ("show", "narrow")])
def test_a_client_that_asks_loads_neither_the_store_nor_schedulers(
    board: Recorded, door: Path, command: tuple[str, ...], by: str
) -> None:
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); import runpy; "
    program += "runpy.run_module('hpc_board', run_name='__main__')"
    settings = board.folder / "participant.yaml"
    settings.write_text(f"# the lab's\nservice: {door}\n")
    environ = {**board.environ(), "HPC_BOARD_CONFIG": str(settings)}
    if by == "variable":
        environ["HPC_BOARD_SERVICE"] = str(door)
    done = subprocess.run(
        [sys.executable, "-c", program, *command], env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "hpc_board.service.client" in loaded
    heavy = {
        "sqlite3",
        "sqlite_utils",
        "yaml",
        "paramiko",
        "jinja2",
        "asyncio",
        "rich",
        "textual",
        "cryptography",
    }
    assert not loaded & heavy
    if command == ("runs",):
        # Libraries load these; with them, the command would cost more than six times a bare Python.
        assert not loaded & {"ast", "dataclasses", "selectors", "socket", "typing_extensions"}
        assert len(loaded) <= MODULES_MAX
    doors = {name for name in loaded if name.startswith("hpc_board.service.doors.")}
    assert doors == {"hpc_board.service.doors.unix"}
    if by == "variable":
        assert "hpc_board.domain.service_address" not in loaded
    packages = ("store", "schedulers", "transport", "harness", "settings", "catalog", "runs")
    assert not [name for name in loaded if name.split(".")[:2] in [["hpc_board", package] for package in packages]]


# The service's manager and its nodes


def test_the_manager_is_told_that_clients_can_connect_and_that_the_service_lives(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(folder / "notify"))
        with serving(board.board.settings, folder / "board.sock"):
            told = {manager.recv(100) for _ in range(3)}
        assert {b"READY=1", b"WATCHDOG=1"} <= told
        while (last := manager.recv(100)) == b"WATCHDOG=1":
            pass
    assert last == b"STOPPING=1"


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
    assert [found.state for found in next(waits[0])] == [RunState.LOST]
    with pytest.raises(InputError, match=f"there is no run {second.id}"):
        next(waits[1])


def test_a_socket_that_is_removed_while_the_service_runs_is_in_the_log(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    path = folder / "board.sock"
    with serving(board.board.settings, path) as service:
        monkeypatch.setattr(service._passes, "_log", lambda _, **details: told.append(details.get("problem")))
        path.unlink()
        awaited(lambda: any("board.sock is gone" in str(problem) for problem in told))


def test_a_silent_scheduler_is_in_the_log_once_and_so_is_its_next_answer(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent, asked, outage = threading.Event(), [0], ["not advanced", "answers again"]

    def ask(_: LocalScheduler, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        asked[0] += 1
        if silent.is_set():
            raise SchedulerError(f"no answer to question {asked[0]}")
        return {job.name: JobStatus(JobState.PENDING) for job in jobs}

    monkeypatch.setattr(LocalScheduler, "poll", ask)
    board.add(status_of(RunState.QUEUED), user=OWNER)
    lines: list[str] = []

    def told() -> list[str]:
        return [event for event in (json.loads(line)["event"] for line in lines) if event in outage]

    with serving(board.board.settings, folder / "board.sock", lines=lines):
        for before in ([], outage):
            silent.set()
            until = asked[0] + 4
            awaited(lambda: asked[0] >= until)  # noqa: B023 - called in this round
            assert told() == [*before, "not advanced"]
            silent.clear()
            awaited(lambda: told() == [*before, *outage])  # noqa: B023 - called in this round


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


def test_a_served_board_demands_isolation_unless_a_gpu_names_its_own_level(board: Recorded) -> None:
    text = board.settings.read_text().replace("device: cpu}", "device: cpu, minimum_isolation: S1}")
    board.settings.write_text(text)
    found = {gpu.name: gpu.minimum_isolation for gpu in demanding(board.board.settings).gpus}
    assert found == {"CPU": "S3", "H100": "S1"}


def test_a_gpu_whose_newest_runs_fell_short_of_the_level_is_named_at_the_start(board: Recorded, folder: Path) -> None:
    wanted = demanding(board.board.settings)
    assert [each.gpu for each in shortfalls(board.board, wanted)] == ["CPU", "H100"]
    lines: list[str] = []
    with serving(board.board.settings, folder / "board.sock", lines=lines):
        pass
    logged = [each for each in map(json.loads, lines) if each["event"] == "isolation not recorded yet"]
    assert [each["gpu"] for each in logged] == ["CPU", "H100"]
    assert logged[0]["effect"].startswith("the result of the next run there records the level; ")
    assert "`hpc-board --config SETTINGS admin check CPU` shows it, and records nothing" in logged[0]["effect"]
    for gpu, level in (("CPU", "S2"), ("CPU", "S4"), ("H100", "S3"), ("H100", "S2")):
        found = dataclasses.replace(result_of(Verdict.INFRA_ERROR), provenance={"isolation": level})
        board.add(gpu=gpu, user="mae", result=found)
    # A run without a result tells nothing.
    board.add(status_of(RunState.CREATED), gpu="H100")
    (told,) = shortfalls(board.board, wanted)
    assert (told.gpu, told.required, told.reached) == ("H100", "S3", "S2")
    assert told.effect == "runs there end as infra_error"


@ROOT
def test_a_user_who_floods_is_refused_and_others_are_not(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions_module, "UNFINISHED_MAX", 2)
    for _ in range(2):
        board.add(status_of(RunState.QUEUED), user="daemon")
    source = {"file_name": "k.py", "text": KERNEL}
    request = {"source": source, "task": "vectoradd_py", "gpus": ["CPU"], "mode": "test"}
    outcomes = {}
    for user in ("daemon", "bin"):
        with acting_as(user), raw(door) as client:
            outcomes[user] = client.greeted().ask("submissions.submit_requests", requests=[request])
    assert outcomes["daemon"]["error"]["kind"] == "Refused"
    assert "you have 2 runs that have not ended" in outcomes["daemon"]["error"]["message"]
    assert len(outcomes["bin"]["value"]) == 1


# Attacks: texts and files that stay


@ROOT
@pytest.mark.parametrize("name", [".", "..", "tasks", "hidden.py", "course.yaml"])
def test_a_creators_name_of_a_task_is_no_path_in_the_services_folder(
    board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(board.folder)
    (board.folder / "hidden.py").write_text((board.folder / "tasks" / "narrow" / "reference.py").read_text())
    (board.folder / "course.yaml").write_text("name: x\nproblems: [{name: y, directory: tasks/narrow}]\n")
    with acting_as("bin"), raw(door) as client:
        answer = client.greeted().ask("leaderboards.plan_requested", request={"source": name})
    assert "unknown task" in answer["error"]["message"]


@ROOT
def test_a_packed_task_file_reads_nothing_beside_it(door: Path, folder: Path) -> None:
    (folder / "hidden.py").write_text("x")
    text = TASK.replace("source: reference.py", f"source: ../{folder.name}/hidden.py")
    packed = {"file_name": "task.yml", "data": base64.b64encode(text.encode()).decode()}
    with acting_as("bin"), raw(door) as client:
        answer = client.greeted().ask("leaderboards.plan_requested", request={"source": packed})
    assert answer["error"]["message"].endswith(f" {folder.name}/hidden.py: there is no such file.")


@ROOT
def test_the_output_of_a_run_is_its_owners_and_the_admins(board: Recorded, door: Path) -> None:
    output = Log("a line of the kernel")
    result = dataclasses.replace(
        result_of(Verdict.PASS, timed_case()), stdout=output, stderr=output, build=output, profile=output
    )
    run = board.add(result=result, score_s=1e-3, user="daemon")
    clusters = board.board.context.clusters
    log = clusters.folders_on(run.cluster).of(run) / clusters.log_names(run.cluster, run.status.job_id)[0]
    log.parent.mkdir(parents=True)
    log.write_text(output.text)
    for name, shown in (("daemon", True), ("games", True), ("nobody", False)):
        with acting_as(name), raw(door) as client:
            client.greeted()
            for route in ("runs.result", "runs.whole", "runs.log"):
                answer = client.ask(route, run=run.id)
                assert "value" in answer
                assert (output.text in json.dumps(answer)) == shown, (name, route)


@ROOT
def test_a_made_up_run_shows_no_ranks_of_a_board_that_is_closed_to_the_user(board: Recorded, door: Path) -> None:
    files = Board(board.board.settings, user="games")
    plans = files.leaderboards.plan_creation("vectoradd_py", None, RequestedOptions(closed=True, members=("daemon",)))
    files.leaderboards.carry_out(plans)
    run = board.add(status_of(RunState.QUEUED), user="daemon")
    forged = msgspec.json.decode(wire.encoded(msgspec.structs.replace(run, user="nobody")))
    with acting_as("nobody"), raw(door) as client:
        client.greeted()
        for route in ("standings.rank", "standings.placing"):
            assert "there is no run" in client.ask(route, run=forged)["error"]["message"]


# Attacks: clients that exhaust the service


def hung_up(client: Raw) -> bool:
    waiting = select.poll()
    waiting.register(client.socket, 0)  # POLLHUP is always told
    return bool(waiting.poll(0))


def test_a_client_that_reads_no_answer_is_let_go_with_its_answers(board: Recorded, folder: Path) -> None:
    path = folder / "board.sock"
    with bounded(board, folder, Bounds(line_seconds=0.5)), raw(path) as silent:
        silent.greeted().send(b'{"id":1,"route":"tasks.catalog"}\n' * 200)
        awaited(lambda: hung_up(silent))


@ROOT
def test_the_unread_answers_of_one_user_are_no_more_than_their_questions_at_one_time(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answer = Answers.answer

    def counted(each: Answers, uid: int, user: str, request: wire.Request) -> list[wire.Reply]:
        if request.route == "tasks.catalog":
            asked.append(user)
            return [wire.Reply(request.id, value=msgspec.Raw(b'"' + b"x" * 2**22 + b'"'))]
        return answer(each, uid, user, request)

    monkeypatch.setattr(Answers, "answer", counted)
    path = folder / "board.sock"
    with bounded(board, folder, Bounds()), ExitStack() as stack:
        with acting_as("daemon"):
            silent = [stack.enter_context(raw(path)).greeted() for _ in range(6)]
            for client in silent:
                client.send(b'{"id":1,"route":"tasks.catalog"}\n')
        with asking(path, "nobody") as other:
            awaited(lambda: len(asked) == 2)
            assert other.runs.list() == ()
        assert len(asked) == 2
        for client in silent:
            client.close()


@ROOT
def test_one_users_waits_leave_threads_for_others(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, entered = threading.Event(), []
    watched = Answers.watched

    def holding(each: Answers, user: str, ids: Any) -> Any:
        entered.append(user)
        assert held.wait(60)
        return watched(each, user, ids)

    monkeypatch.setattr(Answers, "watched", holding)
    path = folder / "board.sock"
    with bounded(board, folder, Bounds()), ExitStack() as stack:
        stack.callback(held.set)
        with acting_as("daemon"):
            for _ in range(20):
                stack.enter_context(raw(path)).greeted().send(b'{"id":1,"route":"runs.wait","args":{"ids":[1]}}\n')
        awaited(lambda: len(entered) >= 2)
        with asking(path, "nobody") as other:
            assert other.runs.list() == ()
        assert len(entered) == 2
        held.set()


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
        files.leaderboards.carry_out(files.leaderboards.plan_creation("vectoradd_py", None, closed))
        board.board.context.store.runs.record(run.id, status_of(RunState.LOST, reason="a secret"))
        lines = [other.read()]
        while "event" in lines[-1]:
            lines.append(other.read())
    assert "there is no run" in lines[-1]["error"]["message"]
    assert "a secret" not in json.dumps(lines)


@ROOT
def test_a_creator_sends_one_long_line_at_a_time(door: Path) -> None:
    piece = b"x" * 2**20
    with acting_as("bin"), raw(door) as one, raw(door) as two:
        for client in (one, two):
            client.greeted().socket.settimeout(1)
        one.send(piece * 8)
        with pytest.raises(TimeoutError):
            two.send(piece * 8)


def test_a_gpu_that_is_named_a_thousand_times_has_one_page(door: Path) -> None:
    with raw(door) as client:
        answer = client.greeted().ask("standings.pages", task="narrow", gpus=["H100"] * 1000)
        assert len(answer["value"]) == 1


def test_a_question_has_a_bounded_number_of_sources_and_of_bytes_in_its_answer(
    door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"file_name": "kernel.py", "text": KERNEL}
    with raw(door) as client:
        many = client.greeted().ask("submissions.draft_sources", sources=[source] * (SOURCES_MAX + 1))
        assert "at most" in many["error"]["message"]
        monkeypatch.setattr(service_answers, "ANSWER_BYTES_MAX", 1000)
        large = client.ask("submissions.draft_sources", sources=[source] * 5)
        assert "the answer has over 1,000 bytes" in large["error"]["message"]


@pytest.mark.parametrize("question", ["started", "cancel_each", "followed"])
def test_a_question_has_a_bounded_number_of_runs(door: Path, question: str) -> None:
    with asking(door) as board:
        ask: Callable[..., object] = getattr(board.runs, question)
        ask(list(range(10, 30)))
        assert f"at most {ROWS_MAX:,}" in refusal(lambda: ask(list(range(10, 11 + ROWS_MAX)))).message


OUT_OF_UTC = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize("moment", [OUT_OF_UTC, OUT_OF_UTC.replace(tzinfo=None)])
def test_a_time_that_is_none_in_utc_is_refused_at_every_route_that_takes_one(door: Path, moment: datetime) -> None:
    with asking(door) as board:
        for question in (
            partial(board.admin.prune, moment),
            partial(board.admin.statistics, since=moment),
            lambda: board.admin.export("csv", since=moment).write(io.BytesIO()),
        ):
            assert moment.isoformat() in refusal(question).message


def test_a_cluster_that_is_not_in_the_settings_was_never_asked(door: Path) -> None:
    with asking(door, "daemon") as board:
        assert board.runs.asked_at("../board") is None
        assert board.runs.silent_since("gone") is None


@pytest.mark.parametrize("limit", [-1, -(2**60), ROWS_MAX + 1])
@pytest.mark.parametrize("route", ["runs.list", "standings.feed", "moderation.decisions", "admin_views.people"])
def test_a_list_has_a_limit_that_sql_takes_for_one(door: Path, route: str, limit: int) -> None:
    with raw(door) as client:
        assert "rows at once" in client.greeted().ask(route, limit=limit)["error"]["message"]


def test_a_list_without_a_limit_has_the_services(board: Recorded, door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("daemon", "nobody"):
        board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user=user)
    monkeypatch.setattr(service_answers, "ROWS_MAX", 1)
    with raw(door) as client:
        (page,) = client.greeted().ask("standings.pages", task="vectoradd_py", gpus=["CPU"])["value"]
    assert (page["total"], len(page["rows"])) == (2, 1)


def test_a_service_may_open_a_file_for_each_connection(board: Recorded, folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        with bounded(board, folder, Bounds(connections=600)):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft > 600 or soft == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("number", ["-1", str(2**64), str(2**70), "1" * 4000])
def test_a_number_that_no_answer_can_have_is_refused(door: Path, number: str) -> None:
    with raw(door) as client:
        client.greeted().send(b'{"id":%s,"route":"runs.list"}\n' % number.encode())
        assert client.read()["error"]["kind"] == "InputError"


@ROOT
@pytest.mark.parametrize(("owner", "mode"), [("daemon", 0o755), (OWNER, 0o775), (OWNER, 0o757)])
@pytest.mark.parametrize("entry", ["board", "board.sock"])
def test_a_service_does_not_start_where_another_account_could_replace_its_files(
    board: Recorded, folder: Path, owner: str, mode: int, entry: str
) -> None:
    place = folder / "place"
    (place / "inner").mkdir(parents=True)
    os.chown(place, pwd.getpwnam(owner).pw_uid, -1)
    place.chmod(mode)
    path, chosen = folder / "board.sock", board.board.settings
    if entry == "board":
        chosen = msgspec.structs.replace(chosen, board=place / "inner" / "board")
    else:
        path = place / "inner" / "board.sock"
    assert f"may write {place}" in refusal(lambda: serving(chosen, path).__enter__()).message


@ROOT
def test_a_link_of_another_account_leads_to_no_socket_that_is_trusted(board: Recorded, folder: Path) -> None:
    folder.chmod(0o1777)
    (folder / "inner").mkdir(mode=0o755)
    with serving(board.board.settings, folder / "inner" / "board.sock"):
        with acting_as("daemon"):
            (folder / "link").symlink_to(folder / "inner")
        error = refusal(RemoteBoard(folder / "link" / "board.sock").runs.list)
        # A kernel that protects links follows none that another account made in such a folder.
        protected = Path("/proc/sys/fs/protected_symlinks").read_text().strip() != "0"
        assert ("Permission denied" if protected else "could answer in its place") in error.message
