"""Files of a login node, by a real OpenSSH server on loopback."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.files import NotRegularFileError
from hpc_board.model.gpu import Login
from hpc_board.transport import draft_of
from hpc_board.transport.ssh import Connection, SshHost
from hpc_board.transport.ssh_files import SshFiles
from tests.conftest import short_folder
from tests.slurm.sshd import USER, SlowLink, Sshd, skip_without_sshd

pytestmark = pytest.mark.slow

CONTENTS = {"job.sh": b"#!/bin/bash\n", "task/deep/reference.py": b"x = 1\n", "harness.pyz": os.urandom(400_000)}


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    skip_without_sshd()
    with short_folder() as folder, Sshd(folder / "d") as running:
        yield running


@pytest.fixture
def home(server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = server.client_home(tmp_path / "home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def connection(server: Sshd, home: Path) -> Iterator[Connection]:
    assert home.exists()
    opened = Connection(Login("127.0.0.1", USER, server.port))
    yield opened
    opened.close()


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_appears_whole_with_what_lies_below_it(connection: Connection, tmp_path: Path) -> None:
    folder = tmp_path / "board" / "runs" / "1-hb-0123"
    SshFiles(connection).write_folder(folder, CONTENTS)
    assert files_in(folder) == CONTENTS
    assert (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_folder_that_is_there_stays_as_it_is(connection: Connection, tmp_path: Path) -> None:
    files = SshFiles(connection)
    files.write_folder(tmp_path / "1", {"job.sh": b"first"})
    files.write_folder(tmp_path / "1", {"job.sh": b"second"})
    assert files_in(tmp_path / "1") == {"job.sh": b"first"}


def test_what_an_interrupted_attempt_left_is_removed(connection: Connection, tmp_path: Path) -> None:
    draft = draft_of(tmp_path / "board" / "1", CONTENTS)
    (draft / "task").mkdir(parents=True)
    (draft / "task" / "half").write_text("x")
    (draft / "task" / "link").symlink_to(tmp_path)
    SshFiles(connection).write_folder(tmp_path / "board" / "1", CONTENTS)
    assert files_in(tmp_path / "board") == {f"1/{name}": data for name, data in CONTENTS.items()}


def test_a_link_in_the_place_of_the_draft_is_not_followed(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    draft_of(tmp_path / "1", CONTENTS).symlink_to("other")
    with pytest.raises(OSError, match="Failure"):
        SshFiles(connection).write_folder(tmp_path / "1", CONTENTS)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["kept"]


def test_a_folder_that_cannot_be_written_says_why_and_leaves_nothing(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Failure"):
        SshFiles(connection).write_folder(tmp_path / "file" / "runs" / "1", CONTENTS)
    with pytest.raises(OSError, match="Failure"):
        SshFiles(connection).write_folder(tmp_path / "1", {"a": b"", "./a": b""})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "home"]


@pytest.mark.parametrize("size", [0, 10, 40_000, 1_000_000])
def test_the_beginning_or_the_end_of_a_file_is_read(connection: Connection, tmp_path: Path, size: int) -> None:
    files, path, data = SshFiles(connection), tmp_path / "log", os.urandom(size)
    path.write_bytes(data)
    for limit in (0, 4, 35_000, 2_000_000):
        assert files.read(path, limit) == data[: limit + 1]
        assert files.read(path, limit, end=True) == (data[-limit:] if limit else b"")


def test_what_is_not_there_is_told_from_what_cannot_be_read(
    connection: Connection, server: Sshd, tmp_path: Path
) -> None:
    files = SshFiles(connection)
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "result.json", 100)
    (tmp_path / "file").touch()
    assert files.is_file(tmp_path / "file")
    assert not files.is_file(tmp_path / "result.json")
    server.stop()
    try:
        with pytest.raises(OSError, match="cannot be reached") as unknown:
            files.read(tmp_path / "file", 100)
        assert not isinstance(unknown.value, FileNotFoundError)
        assert unknown.value.strerror is not None
        assert not files.is_file(tmp_path / "file")
        with pytest.raises(SchedulerError, match="cannot be reached"):
            files.write_folder(tmp_path / "1", CONTENTS)
    finally:
        server.start()


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "device"])
def test_what_is_no_regular_file_is_told(connection: Connection, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "result.json"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        (tmp_path / "other").write_text("{}")
        place.symlink_to("other")
    else:
        place = Path("/dev/null")
    with pytest.raises(NotRegularFileError, match="is no regular file"):
        SshFiles(connection).read(place, 100)
    assert not SshFiles(connection).is_file(place)


def test_a_dead_session_is_made_anew_without_a_word(connection: Connection, server: Sshd, tmp_path: Path) -> None:
    files = SshFiles(connection)
    (tmp_path / "result.json").write_bytes(b"{}")
    assert files.read(tmp_path / "result.json", 100) == b"{}"
    server.drop()
    assert files.read(tmp_path / "result.json", 100) == b"{}"


@pytest.mark.usefixtures("home")
def test_what_start_up_files_print_is_no_answer(server: Sshd, tmp_path: Path) -> None:
    noise = server.home / ".bashrc"
    noise.write_text("echo 'Welcome to login2'; printf '\\0\\0\\0\\005'; head -c 20000 /dev/urandom | base64\n")
    connection = Connection(Login("127.0.0.1", USER, server.port))
    try:
        SshFiles(connection).write_folder(tmp_path / "1", CONTENTS)
    finally:
        noise.unlink()
        connection.close()
    assert files_in(tmp_path / "1") == CONTENTS


def test_a_folder_travels_over_a_slow_link_that_breaks_once(server: Sshd, home: Path, tmp_path: Path) -> None:
    with SlowLink(server.port, delay_seconds=0.005, piece_bytes=8000) as link:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line.replace(str(server.port), str(link.port)))
        connection = Connection(Login("127.0.0.1", USER, link.port))
        link.cut_after(150_000)
        SshFiles(connection).write_folder(tmp_path / "runs" / "1", CONTENTS)
        assert link.cuts == 1
        connection.close()
    assert files_in(tmp_path / "runs") == {f"1/{name}": data for name, data in CONTENTS.items()}


def test_a_result_comes_over_a_slow_link_that_breaks_once(server: Sshd, home: Path, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    (tmp_path / "result.json").write_bytes(data)
    with SlowLink(server.port, delay_seconds=0.005, piece_bytes=8000) as link:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line.replace(str(server.port), str(link.port)))
        connection = Connection(Login("127.0.0.1", USER, link.port))
        link.cut_after(150_000)
        assert SshFiles(connection).read(tmp_path / "result.json", 1_000_000) == data
        assert link.cuts == 1
        connection.close()


@pytest.mark.usefixtures("home")
def test_a_file_system_that_hangs_is_left_alone_for_a_while_and_hinders_no_command(
    server: Sshd, connection: Connection, tmp_path: Path
) -> None:
    hangs, started = tmp_path / "hangs", tmp_path / "started"
    hangs.touch()
    startup = server.home / ".bashrc"
    startup.write_text(
        f'case "$BASH_EXECUTION_STRING" in *sftp*) echo x >> {started}; '
        f"while [ -e {hangs} ]; do sleep 0.05; done;; esac\n"
    )
    (tmp_path / "result.json").write_bytes(b"{}")
    files = SshFiles(connection, stall_seconds=0.4, retry_seconds=3600)
    try:
        errors = set()
        for _ in range(3):
            with pytest.raises(OSError, match="did not answer a question about files") as silent:
                files.read(tmp_path / "result.json", 100)
            errors.add(silent.value.strerror)
        with pytest.raises(SchedulerError, match="did not answer") as told:
            files.write_folder(tmp_path / "1", CONTENTS)
        assert "`board_folder` may hang" in told.value.hint
        assert (len(errors), started.read_text()) == (1, "x\nx\n")
        assert SshHost(connection).run(["echo", "in"], timeout_seconds=60).stdout == "in\n"
        assert len(server.sessions()) == 1
        hangs.unlink()
        assert SshFiles(connection).read(tmp_path / "result.json", 100) == b"{}"
    finally:
        hangs.unlink(missing_ok=True)
        startup.unlink()


def test_a_file_server_that_hung_once_is_replaced_without_a_word(
    server: Sshd, connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "result.json").write_bytes(b"{}")
    # Those of the connections of earlier tests may take a moment to end.
    earlier = set(server.file_servers())
    files = SshFiles(connection, stall_seconds=1)
    assert files.read(tmp_path / "result.json", 100) == b"{}"
    (stopped,) = set(server.file_servers()) - earlier
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert files.read(tmp_path / "result.json", 100) == b"{}"
        files.write_folder(tmp_path / "1", CONTENTS)
    finally:
        os.kill(stopped, signal.SIGKILL)
    assert files_in(tmp_path / "1") == CONTENTS


def test_a_file_appears_whole_and_a_folder_goes_with_an_empty_one_above(connection: Connection, tmp_path: Path) -> None:
    files, folder = SshFiles(connection), tmp_path / "checks" / "1"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "kept").touch()
    (folder / "deep" / "link").symlink_to(tmp_path)
    files.write(folder / "answer.json", b"first")
    files.write(folder / "answer.json", b"{}")
    assert (folder / "answer.json").read_bytes() == b"{}"
    assert files.names(folder) == {"answer.json", "deep"}
    with pytest.raises(OSError, match="No such file"):
        files.write(folder / "none" / "answer.json", b"")
    with pytest.raises(FileNotFoundError):
        files.names(folder / "none")
    (tmp_path / "checks" / "2").mkdir()
    files.remove_folder(folder)
    assert files.names(tmp_path / "checks") == {"2"}
    files.remove_folder(tmp_path / "checks" / "2")
    files.remove_folder(tmp_path / "checks" / "2")
    assert files.names(tmp_path) - {"home"} == {"kept"}
