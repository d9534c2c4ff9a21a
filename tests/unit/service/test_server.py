"""The life of a service: its folder, its socket, its end, and messages to its manager."""

import os
import pwd
import resource
import socket
import stat
import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from hpc_board.board.gpus import Gpus
from hpc_board.cli.main import cli
from hpc_board.model.gpu import Gpu
from hpc_board.service.conversation import Bounds
from hpc_board.service.log import ServiceLog
from hpc_board.service.server import Service
from tests.service import serving
from tests.unit.recorded import (
    Recorded,
    recorded,
)
from tests.unit.service.clients import OWNER, ROOT, acting_as, asking, bounded, raw, refusal


@ROOT
@pytest.mark.parametrize(
    ("settings", "words", "told"),
    [
        ("service: /run/board.sock", ["--allow-root"], "sets `service`; it has no board to serve."),
        ("board: board", ["--allow-root"], "no socket path given."),
        ("board: board", [], "running as root"),
    ],
)
def test_a_service_that_cannot_start_says_why(tmp_path: Path, settings: str, words: list[str], told: str) -> None:
    (tmp_path / "own.yaml").write_text(f"{settings}\n")
    done = CliRunner().invoke(cli, ["--config", str(tmp_path / "own.yaml"), "serve", *words])
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True)


@ROOT
def test_a_member_cannot_touch_the_boards_files(board: Recorded, door: Path) -> None:
    with asking(door, "daemon") as member:
        member.runs.list()
    assert stat.S_IMODE((board.folder / "board").stat().st_mode) == 0o700
    with acting_as("daemon"):
        for entry in ("board.db", "runs", "serve.lock"):
            with pytest.raises(PermissionError):
                (board.folder / "board" / entry).stat()


def test_an_answer_under_way_leaves_before_the_service_ends(
    board: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, go_on = folder / "board.sock", threading.Event(), threading.Event()

    def slow(_: object) -> tuple[Gpu, ...]:
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
    assert f"can write to {place}" in refusal(lambda: serving(chosen, path).__enter__()).message


@pytest.mark.parametrize(
    ("socket_name", "words"),
    [("x" * 110, "the service's socket cannot be created: "), ("board.sock", "the board's folder cannot be used: ")],
)
def test_a_place_that_cannot_be_used_is_told(board: Recorded, folder: Path, socket_name: str, words: str) -> None:
    if socket_name == "board.sock":
        (board.board.settings.board / "serve.lock").mkdir(parents=True)
    assert words in refusal(lambda: serving(board.board.settings, folder / socket_name).__enter__()).message


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


def test_a_service_may_open_a_file_for_each_connection(board: Recorded, folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        with bounded(board, folder, Bounds(connections=600)):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft > 600 or soft == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
