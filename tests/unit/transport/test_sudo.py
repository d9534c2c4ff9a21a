"""Another account of this machine that wants to harm the one of the service."""

import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.transport import sftp_files, sudo
from hpc_board.transport.sudo import SudoFiles, SudoHost, rules
from tests.accounts import command_as, needs_accounts
from tests.conftest import short_folder
from tests.sudo import command_with_rules, skip_without_sudo
from tests.waiting import awaited

HOSTILE = """
import os, struct, sys, time
def read(size):
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            sys.exit()
        data += more
    return data
def write(data):
    data = memoryview(struct.pack(">I", len(data)) + data)
    while data:
        data = data[os.write(1, data):]
def text(data):
    return struct.pack(">I", len(data)) + data
page = struct.pack(">I", 5000) + b"".join(text(b"%d" % i) + text(b"") + struct.pack(">I", 0) for i in range(5000))
while True:
    question = read(struct.unpack(">I", read(4))[0])
    kind, number = question[0], question[1:5]
    time.sleep(SECONDS)
    if kind == 1:
        write(bytes([2]) + struct.pack(">I", 3))
    elif kind in (7, 17):
        write(bytes([105]) + number + struct.pack(">IQI", 5, 10, 0o40755))
    elif kind in (3, 11):
        write(bytes([102]) + number + text(b"h"))
    elif kind == 12:
        write(bytes([104]) + number + page)
    else:
        write(bytes([101]) + number + struct.pack(">I", 0) + text(b"") + text(b""))
"""
"""A server whose folders have entries without end, and that waits before each answer."""


@pytest.fixture(autouse=True)
def needs_sudo() -> None:
    skip_without_sudo()


def hostile(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
    server = folder / "sftp-server"
    server.write_text(f"#!{sys.executable}\nSECONDS = {seconds}\n{HOSTILE}")
    server.chmod(0o755)
    monkeypatch.setattr(sudo, "SFTP_SERVERS", (str(server),))


def test_a_folder_without_end_is_an_error_and_takes_no_more_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(tmp_path, monkeypatch)
    files = SudoFiles("root")
    for _ in range(2):
        with pytest.raises(OSError, match="too many entries"):
            files.names(tmp_path)
        with pytest.raises(OSError, match="too many entries"):
            files.remove_unused(tmp_path, 1, lambda _: True)
        with pytest.raises(OSError, match="too many entries"):
            files.remove_folder(tmp_path)


def test_a_server_that_answers_slowly_is_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(tmp_path, monkeypatch, seconds=0.15)
    files = SudoFiles("root", stall_seconds=0.2, retry_seconds=3600)
    assert not files.is_file(tmp_path / "a")
    with pytest.raises(OSError, match="did not answer"):
        files.names(tmp_path)


def test_folders_in_one_another_without_end_are_an_error(tmp_path: Path) -> None:
    deep = tmp_path / "d"
    for _ in range(sftp_files._DEPTH_MAX + 2):
        deep.mkdir()
        deep /= "d"
    with pytest.raises(OSError, match="too many folders"):
        SudoFiles("root").remove_folder(tmp_path / "d")


def test_a_harness_of_the_right_size_with_another_text_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = SudoFiles("root"), tmp_path / "judge.pyz"
    path.write_bytes(bytes(100))
    assert files.ensure(path, b"x" * 100)
    assert path.read_bytes() == b"x" * 100
    path.write_bytes(bytes(100))
    assert not files.ensure(path, b"x" * 100)
    monkeypatch.setattr(sftp_files, "_COMPARED_SECONDS", 0.0)
    assert files.ensure(path, b"x" * 100)
    assert path.read_bytes() == b"x" * 100


def test_tokens_of_this_account_stay_with_it() -> None:
    environ = {
        "PATH": "/usr/bin:/bin",
        "SLURM_JWT": "a token",
        "KRB5CCNAME": "a ticket",
        "SLURM_CONF": "/etc/slurm.conf",
    }
    told = SudoHost("root", environ).run(["env"], timeout_seconds=30).stdout
    assert "SLURM_CONF=/etc/slurm.conf" in told
    assert "a token" not in told
    assert "a ticket" not in told


STOPPED = """
import sys, time
from hpc_board.transport import CommandStopped
from hpc_board.transport.sudo import SudoHost

script = f"echo $$ > {sys.argv[2]}/pid; echo 'no room, sleeping and retrying' >&2; exec sleep 600"
began = time.monotonic()
try:
    SudoHost(sys.argv[1]).run(["sh", "-c", script], timeout_seconds=600, until=["sleeping and retrying"])
except CommandStopped:
    print(time.monotonic() - began)
"""


@needs_accounts
def test_a_command_of_an_account_that_takes_no_signals_is_stopped_at_once() -> None:
    service, jobs = "games", "sys"
    with short_folder() as folder:
        folder.chmod(0o777)
        command = [sys.executable, "-c", STOPPED, jobs, str(folder)]
        command = command_with_rules(rules(service, jobs), command_as(pwd.getpwnam(service).pw_uid, 0o022, [], command))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert float(done.stdout) < 30, done.stderr
        status = Path(f"/proc/{(folder / 'pid').read_text().strip()}/status")
        awaited(lambda: not status.exists() or "State:\tZ" in status.read_text())
