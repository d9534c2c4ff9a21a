"""The conversations of clients with a service: any line gets an answer, and no client keeps out another."""

import json
import select
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from hpc_board.service import wire
from hpc_board.service.answers import ROWS_MAX, Answers
from hpc_board.service.conversation import Bounds
from tests.unit.recorded import (
    Recorded,
)
from tests.unit.service.clients import ROOT, Raw, acting_as, asking, bounded, raw
from tests.waiting import awaited


@ROOT
def test_an_account_without_a_name_is_refused(door: Path) -> None:
    with acting_as(61001), raw(door) as client:
        client.send(wire.HELLO + b"\n")
        answer = client.read()
    assert answer["error"]["message"] == "unknown user ID 61001 on this machine."


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"id": 1, "route": "runs.nonsense"}, "unknown route"),
        ({"id": 1, "route": "runs.__init__"}, "unknown route"),
        ({"id": 1, "route": "runs.get", "args": {"run": "1"}}, "invalid request"),
        ({"id": 1, "route": "runs.get", "args": {}}, "invalid request"),
        ({"id": 1, "route": "runs.get", "args": {"run": 1, "user": "ada"}}, "invalid request"),
        ({"id": 1, "route": "runs.list", "args": {"limit": ROWS_MAX + 1}}, "too many rows"),
        ({"id": 1, "route": "runs.get_each", "args": {"runs": "1"}}, "invalid request"),
    ],
)
def test_a_question_that_does_not_fit_is_refused_and_the_next_one_answered(
    door: Path, line: dict[str, object], words: str
) -> None:
    with raw(door) as client:
        client.greeted().send(json.dumps(line).encode() + b"\n")
        assert words in client.read()["error"]["message"]
        assert "value" in client.ask("runs.list")


@ROOT
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
    # A creator's lines may be longer.
    with acting_as("daemon"), raw(door) as client:
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
    assert "use different protocols" in message


def test_questions_that_are_sent_at_once_are_answered_in_turn(door: Path) -> None:
    with raw(door) as client:
        client.greeted()
        client.send(b"".join(b'{"id":%d,"route":"runs.list","args":{}}\n' % number for number in range(50)))
        assert [client.read()["id"] for _ in range(50)] == list(range(50))


@pytest.mark.parametrize("number", ["-1", str(2**64), str(2**70), "1" * 4000])
def test_a_number_that_no_answer_can_have_is_refused(door: Path, number: str) -> None:
    with raw(door) as client:
        client.greeted().send(b'{"id":%s,"route":"runs.list"}\n' % number.encode())
        assert client.read()["error"]["kind"] == "InputError"


def test_a_client_that_says_nothing_is_let_go(board: Recorded, folder: Path) -> None:
    with bounded(board, folder, Bounds(hello_seconds=0.3)), raw(folder / "board.sock") as silent:
        awaited(lambda: hung_up(silent))


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
def test_a_creator_sends_one_long_line_at_a_time(door: Path) -> None:
    piece = b"x" * 2**20
    with acting_as("bin"), raw(door) as one, raw(door) as two:
        for client in (one, two):
            client.greeted().socket.settimeout(1)
        one.send(piece * 8)
        with pytest.raises(TimeoutError):
            two.send(piece * 8)
