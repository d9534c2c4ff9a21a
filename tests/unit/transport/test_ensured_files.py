"""Files that are put where they miss and removed when they are old: on this machine and by a real OpenSSH server."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.transport import RENEW_SECONDS, Files
from hpc_board.transport.local_files import LocalFiles
from hpc_board.transport.ssh import Connection
from hpc_board.transport.ssh_files import SshFiles
from tests.conftest import short_folder
from tests.slurm.sshd import USER, Sshd, skip_without_sshd

DATA = os.urandom(200_000)


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    skip_without_sshd()
    with short_folder() as folder, Sshd(folder / "d") as running:
        yield running


@pytest.fixture(params=["here", "far"])
def files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    if request.param == "here":
        yield LocalFiles()
        return
    server: Sshd = request.getfixturevalue("server")
    monkeypatch.setenv("HOME", str(server.client_home(tmp_path / "home")))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    connection = Connection(Login("127.0.0.1", USER, server.port))
    yield SshFiles(connection)
    connection.close()


def aged(path: Path, seconds: float) -> Path:
    """Set the time of a file to so many seconds ago."""
    at = time.time() - seconds
    os.utime(path, (at, at), follow_symlinks=False)
    return path


def age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def test_a_file_that_misses_appears_whole_in_a_folder_for_this_account(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "board" / "harness" / "a.pyz"
    assert files.ensure(path, DATA)
    assert path.read_bytes() == DATA
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["a.pyz"]


def test_a_way_over_a_folder_that_misses_as_well_is_made(files: Files, tmp_path: Path) -> None:
    assert files.ensure(tmp_path / "board" / "runs" / ".." / "harness" / "a.pyz", DATA)
    assert sorted(each.name for each in (tmp_path / "board").iterdir()) == ["harness", "runs"]


def test_a_file_that_is_there_is_not_written_again(files: Files, tmp_path: Path) -> None:
    files.ensure(tmp_path / "a", b"first")
    assert not files.ensure(tmp_path / "a", b"other")
    assert (tmp_path / "a").read_bytes() == b"first"


def test_the_time_of_a_file_in_use_is_renewed_once_a_day(files: Files, tmp_path: Path) -> None:
    files.ensure(tmp_path / "a", DATA)
    aged(tmp_path / "a", RENEW_SECONDS - 60)
    assert not files.ensure(tmp_path / "a", DATA)
    assert age(tmp_path / "a") > RENEW_SECONDS / 2
    aged(tmp_path / "a", RENEW_SECONDS + 60)
    assert files.ensure(tmp_path / "a", DATA)
    assert age(tmp_path / "a") < 60


def test_a_part_of_the_file_or_a_link_is_replaced(files: Files, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(DATA)
    (tmp_path / "part").write_bytes(DATA[:-1])
    (tmp_path / "link").symlink_to("other")
    for name in ("part", "link"):
        assert files.ensure(tmp_path / name, DATA[::-1])
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_bytes() == DATA[::-1]
    assert (tmp_path / "other").read_bytes() == DATA


def test_many_that_put_it_at_once_leave_it_whole_and_nothing_beside(files: Files, tmp_path: Path) -> None:
    path, wrong = tmp_path / "harness" / "a", []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            if path.exists() and path.read_bytes() != DATA:
                wrong.append("a part of the file")

    looking = threading.Thread(target=look)
    putting = [threading.Thread(target=files.ensure, args=(path, DATA)) for _ in range(6)]
    for thread in (looking, *putting):
        thread.start()
    for thread in putting:
        thread.join()
    done.set()
    looking.join()
    assert (wrong, [each.name for each in path.parent.iterdir()]) == ([], ["a"])


def test_a_file_that_cannot_be_written_says_why(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"Not a directory|Failure"):
        files.ensure(tmp_path / "file" / "a", DATA)


def test_old_files_with_an_unneeded_name_are_removed(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "harness"
    folder.mkdir()
    for name in ("old", "needed", "young"):
        (folder / name).touch()
    (folder / "link").symlink_to("old")
    (folder / "folder").mkdir()
    for name in ("old", "needed", "link", "folder"):
        aged(folder / name, 100)
    files.remove_unused(folder, 50, lambda name: name != "needed")
    assert files.names(folder) == {"needed", "young", "link", "folder"}
    with pytest.raises(FileNotFoundError):
        files.remove_unused(tmp_path / "none", 50, lambda _: True)


def test_a_host_that_cannot_be_reached_is_told_from_one_that_refuses(
    server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(server.client_home(tmp_path / "home")))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    far = SshFiles(Connection(Login("127.0.0.1", USER, server.port)))
    server.stop()
    try:
        with pytest.raises(SchedulerError, match="cannot be reached"):
            far.ensure(tmp_path / "a", DATA)
        with pytest.raises(OSError, match="cannot be reached"):
            far.remove_unused(tmp_path, 50, lambda _: True)
    finally:
        server.start()
