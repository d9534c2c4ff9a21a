"""Files of a login node, by a real OpenSSH server on loopback."""

import os
import signal
from pathlib import Path

import paramiko
import pytest

from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Login
from hpc_board.transport import sftp_session, ssh_files, time_budget
from hpc_board.transport.ssh import Connection, SshHost
from hpc_board.transport.ssh_files import SshFiles
from tests.conftest import short_folder
from tests.slurm.sshd import USER, SlowLink, Sshd
from tests.waiting import awaited

pytestmark = pytest.mark.slow

CONTENTS = {"job.sh": b"#!/bin/bash\n", "task/deep/reference.py": b"x = 1\n", "harness.pyz": os.urandom(400_000)}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sftp_session, "STALL_SECONDS", 1.0)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_not_there_is_told_from_what_cannot_be_read(
    connection: Connection, server: Sshd, tmp_path: Path
) -> None:
    files = SshFiles(connection)
    (tmp_path / "file").touch()
    assert files.is_file(tmp_path / "file")
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


@pytest.mark.parametrize(
    ("startup", "words"),
    [
        ("exec bash\n", "did not answer a request for files"),
        ("exit 3\n", "offers no SFTP: the session ended immediately"),
        ("echo closed; exit 3\n", "offers no SFTP: closed"),
    ],
)
@pytest.mark.usefixtures("home", "impatient")
def test_a_start_up_file_that_leads_elsewhere_is_told(
    server: Sshd, connection: Connection, tmp_path: Path, startup: str, words: str
) -> None:
    (server.home / ".bashrc").write_text(startup)
    try:
        with pytest.raises(SchedulerError, match=words) as told:
            SshFiles(connection).ensure(tmp_path / "file", b"")
    finally:
        (server.home / ".bashrc").unlink()
    assert "start-up file" in told.value.hint


@pytest.mark.usefixtures("home")
def test_a_session_that_ends_before_it_is_greeted_is_told(
    server: Sshd, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = paramiko.Channel.invoke_subsystem

    def begun_slowly(channel: paramiko.Channel, subsystem: str) -> None:
        begin(channel, subsystem)
        awaited(lambda: channel.closed)

    monkeypatch.setattr(paramiko.Channel, "invoke_subsystem", begun_slowly)
    (server.home / ".bashrc").write_text("echo closed; exit 3\n")
    try:
        with pytest.raises(SchedulerError, match="offers no SFTP: closed"):
            SshFiles(connection).ensure(tmp_path / "file", b"")
    finally:
        (server.home / ".bashrc").unlink()


def test_a_server_without_sftp_is_told(home: Path, tmp_path: Path) -> None:
    with short_folder() as folder, Sshd(folder / "d", sftp=False) as bare:
        bare.client_home(home)
        connection = Connection(Login("127.0.0.1", USER, bare.port))
        assert SshHost(connection).run(["echo", "in"], timeout_seconds=60).stdout == "in\n"
        with pytest.raises(SchedulerRefused, match="offers no SFTP: its server rejected") as told:
            SshFiles(connection).ensure(tmp_path / "file", b"")
        assert "`Subsystem sftp`" in told.value.hint
        connection.close()


def test_folders_without_an_end_are_told(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_files, "ENTRIES_MAX", 5)
    monkeypatch.setattr(ssh_files, "_DEPTH_MAX", 3)
    (tmp_path / "deep" / "1" / "2" / "3" / "4" / "5").mkdir(parents=True)
    for number in range(6):
        (tmp_path / "wide" / str(number)).mkdir(parents=True)
    for name, words in (("deep", "has too many nested folders"), ("wide", "was lost: .*wide has too many entries")):
        with pytest.raises(OSError, match=words):
            SshFiles(connection).bytes_in(tmp_path / name)


def test_a_folder_travels_over_a_slow_link_that_breaks_once(server: Sshd, home: Path, tmp_path: Path) -> None:
    with SlowLink(server.port, delay_seconds=0.005, piece_bytes=8000) as link:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line.replace(str(server.port), str(link.port)))
        connection = Connection(Login("127.0.0.1", USER, link.port))
        link.cut_after(150_000)
        SshFiles(connection).write_folder(tmp_path / "runs" / "1", CONTENTS)
        assert link.cuts == 1
        connection.close()
    assert files_in(tmp_path / "runs") == {f"1/{name}": data for name, data in CONTENTS.items()}


def test_a_file_whose_renaming_loses_its_answer_is_renamed(server: Sshd, home: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "1").touch()
    with SlowLink(server.port, delay_seconds=0.005, piece_bytes=8000) as link:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line.replace(str(server.port), str(link.port)))
        connection = Connection(Login("127.0.0.1", USER, link.port))
        files = SshFiles(connection)
        assert files.is_file(tmp_path / "1")
        link.cut_after(1)
        files.rename(tmp_path / "1", tmp_path / "taken" / "1")
        assert link.cuts == 1
        assert files.is_file(tmp_path / "taken" / "1")
        with pytest.raises(FileNotFoundError):
            files.rename(tmp_path / "1", tmp_path / "taken" / "1")
        connection.close()


@pytest.mark.usefixtures("home", "impatient")
def test_a_file_system_that_hangs_is_left_alone_for_a_while_and_hinders_no_command(
    server: Sshd, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, started = tmp_path / "hangs", tmp_path / "started"
    hangs.touch()
    startup = server.home / ".bashrc"
    startup.write_text(
        f'case "$BASH_EXECUTION_STRING" in *sftp*) echo x >> {started}; '
        f"while [ -e {hangs} ]; do sleep 0.05; done;; esac\n"
    )
    (tmp_path / "result.json").write_bytes(b"{}")
    monkeypatch.setattr(time_budget, "RETRY_SECONDS", 3600)
    files = SshFiles(connection)
    try:
        errors = set()
        for _ in range(3):
            with pytest.raises(OSError, match="did not answer a request for files") as silent:
                files.read(tmp_path / "result.json", 100)
            errors.add(silent.value.strerror)
        with pytest.raises(SchedulerError, match="did not answer") as told:
            files.write_folder(tmp_path / "1", CONTENTS)
        assert "the jobs' folder may hang" in told.value.hint
        assert (len(errors), started.read_text()) == (1, "x\nx\n")
        assert SshHost(connection).run(["echo", "in"], timeout_seconds=60).stdout == "in\n"
        assert len(server.sessions()) == 1
        hangs.unlink()
        assert SshFiles(connection).read(tmp_path / "result.json", 100) == b"{}"
    finally:
        hangs.unlink(missing_ok=True)
        startup.unlink()


@pytest.mark.usefixtures("impatient")
def test_a_file_server_that_hung_once_is_replaced_without_a_word(
    server: Sshd, connection: Connection, tmp_path: Path
) -> None:
    (tmp_path / "result.json").write_bytes(b"{}")
    # Those of the connections of earlier tests may take a moment to end.
    earlier = set(server.file_servers())
    files = SshFiles(connection)
    assert files.read(tmp_path / "result.json", 100) == b"{}"
    (stopped,) = set(server.file_servers()) - earlier
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert files.read(tmp_path / "result.json", 100) == b"{}"
        files.write_folder(tmp_path / "1", CONTENTS)
    finally:
        os.kill(stopped, signal.SIGKILL)
    assert files_in(tmp_path / "1") == CONTENTS
