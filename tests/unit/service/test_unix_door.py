"""The socket of a service on its own machine: faults of its path, and sockets of impostors."""

import os
import pwd
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from hpc_board.errors import BoardError, InputError
from hpc_board.service.client import RemoteBoard
from hpc_board.service.peers import check_place
from tests.service import serving
from tests.unit.recorded import (
    Recorded,
)
from tests.unit.service.clients import OWNER, ROOT, acting_as, refusal
from tests.waiting import awaited


@ROOT
@pytest.mark.parametrize(
    ("place", "words", "opens"),
    [
        ("nowhere/run/board.sock", "there is no folder FOLDER/nowhere.", False),
        ("file/board.sock", "FOLDER/file is not a folder.", False),
        ("file", "this is a file, not a socket.", False),
        ("closed", "this is a folder, not a socket.", False),
        ("", "this is a folder, not a socket.", False),
        ("link", "there is no folder FOLDER/nowhere.", False),
        ("closed/board.sock", "this account cannot enter FOLDER/closed.", True),
        ("closed/run/board.sock", "this account cannot enter FOLDER/closed.", True),
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


def test_a_place_without_a_folder_is_told(folder: Path) -> None:
    with pytest.raises(InputError, match=f"{folder}/none: No such file or directory"):
        check_place(folder / "none" / "board.sock", os.geteuid())


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
    assert "could impersonate it" in error.message


@ROOT
def test_an_impostor_in_a_sticky_folder_is_not_trusted(folder: Path) -> None:
    folder.chmod(0o1777)
    path = folder / "board.sock"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as impostor:
        with acting_as("daemon"):
            impostor.bind(str(path))
            impostor.listen()
        assert "could impersonate it" in refusal(RemoteBoard(path).runs.list).message


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
        assert ("Permission denied" if protected else "could impersonate it") in error.message
