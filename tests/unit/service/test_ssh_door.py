"""The door over SSH, with a real sshd: one login, a relay, and a sentence for each way to fail."""

import os
import pwd
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from hpc_board.cli.main import cli
from hpc_board.domain.service_address import SshAddress
from hpc_board.errors import BoardError
from hpc_board.service import wire
from hpc_board.service.client import RemoteBoard
from hpc_board.service.doors import ServiceError
from tests.accounts import command_as, needs_accounts
from tests.service import serving
from tests.slurm.sshd import USER, Sshd, running_master, skip_without_sshd
from tests.unit.recorded import REPOSITORY, Recorded, recorded
from tests.unit.service.clients import OWNER, refusal
from tests.values import requested
from tests.waiting import awaited

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).parent / "hpc-board"


@pytest.fixture(scope="module")
def host() -> Iterator[Sshd]:
    """A host whose sessions have the tests' hpc-board, and not in their PATH."""
    skip_without_sshd()
    with (
        tempfile.TemporaryDirectory(prefix="hb-") as name,
        Sshd(Path(name) / "d", {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"}) as running,
    ):
        yield running


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    return recorded(tmp_path)


@pytest.fixture
def address(host: Sshd, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshAddress:
    """The address of the socket `folder`/board.sock for a client with a home of its own."""
    monkeypatch.setenv("HOME", str(host.client_home(tmp_path / "client")))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (host.home / ".bashrc").unlink(missing_ok=True)
    return SshAddress("127.0.0.1", str(folder / "board.sock"), USER, host.port, str(PROGRAM))


@pytest.fixture
def door(board: Recorded, folder: Path, address: SshAddress) -> Iterator[SshAddress]:
    """The address of a service that runs."""
    with serving(board.board.settings, folder / "board.sock"):
        yield address


def failure(address: SshAddress) -> BoardError:
    remote = RemoteBoard(address)
    with remote.session():
        return refusal(remote.runs.list)


def test_all_connections_of_a_process_share_one_login(door: SshAddress, host: Sshd) -> None:
    remote = RemoteBoard(door)
    with remote.session():
        threads = [threading.Thread(target=remote.tasks.catalog) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(remote._connection._idle) > 1
        assert len(host.sessions()) == 1
        assert remote.user == OWNER
    awaited(lambda: not host.sessions())


def test_a_running_master_serves_all_connections(door: SshAddress, host: Sshd, tmp_path: Path) -> None:
    ssh = tmp_path / "client" / ".ssh"
    (ssh / "id_ed25519").unlink()
    with running_master(host, ssh):
        remote = RemoteBoard(door)
        with remote.session():
            assert remote.runs.list() == ()
            assert len(host.sessions()) == 1
        error = failure(msgspec.structs.replace(door, command="hpc-board"))
        assert "127.0.0.1 cannot run hpc-board" in error.message


def words_of(command_line: Path) -> bytes:
    """The words of a process, without those of one that has ended meanwhile."""
    with suppress(OSError):
        return command_line.read_bytes()
    return b""


def test_relays_end_with_their_client_and_with_the_service(
    board: Recorded, folder: Path, address: SshAddress, host: Sshd
) -> None:
    def relays() -> list[Path]:
        return [each for each in Path("/proc").glob("[0-9]*/cmdline") if address.path.encode() in words_of(each)]

    remote = RemoteBoard(address)
    with serving(board.board.settings, folder / "board.sock"):
        remote.runs.list()
        assert relays()
    awaited(lambda: not relays() and not any(line.is_open() for line in remote._connection._idle))
    with serving(board.board.settings, folder / "board.sock"):
        with remote.session():
            remote.runs.list()
            assert relays()
        awaited(lambda: not relays())
        remote.runs.list()
        host.drop()
        awaited(lambda: not relays())
        # A question in the moment of the loss fails, and the next one has a login of its own.
        with suppress(ServiceError):
            remote.runs.list()
        remote.runs.list()
        remote._connection.close()


def test_a_wait_is_told_of_a_connection_that_is_lost(door: SshAddress, board: Recorded, host: Sshd) -> None:
    remote = RemoteBoard(door)
    slow = board.folder / "slow.py"
    slow.write_text(f"{board.kernel.read_text()}\nimport time\n\ntime.sleep(600)\n")
    (run,) = remote.submissions.submit([requested(slow)])
    waiting = remote.runs.wait([run.id])
    next(waiting)
    host.drop()
    error = refusal(lambda: list(waiting))
    assert isinstance(error, ServiceError)
    assert "the connection to 127.0.0.1 was lost" in error.message
    assert f"`hpc-board watch {run.id}` waits for them again" in error.hint
    remote.runs.cancel_each([run.id])
    assert [*remote.runs.wait([run.id], timeout_seconds=60)][-1][0].state.ended
    remote._connection.close()


# Faults


def test_a_connection_that_breaks_while_a_question_is_sent_is_told(door: SshAddress) -> None:
    remote = RemoteBoard(door)

    def asked() -> None:
        with remote._connection._line() as line:
            line._stream._link.transport.sock.shutdown(socket.SHUT_WR)  # type: ignore[union-attr]
            line.ask("runs.list", {})

    assert "the connection to 127.0.0.1 was lost" in refusal(asked).message
    remote._connection.close()


def test_a_host_without_hpc_board_is_told_how_an_address_names_it(door: SshAddress) -> None:
    error = failure(msgspec.structs.replace(door, command="hpc-board"))
    assert (error.exit_code, "127.0.0.1 cannot run hpc-board" in error.message) == (2, True)
    assert "?command=/path/to/hpc-board" in error.hint


def test_a_command_that_is_no_hpc_board_is_said(door: SshAddress) -> None:
    error = failure(msgspec.structs.replace(door, command="/usr/bin/false"))
    assert isinstance(error, ServiceError)
    assert error.message == "127.0.0.1 did not start `/usr/bin/false serve --stdio`: it exited with status 1"


def test_a_socket_that_is_not_there_is_said_by_its_host(address: SshAddress) -> None:
    error = failure(address)
    assert error.exit_code == 3
    assert error.message.startswith(f"{address.path} on ")
    assert "there is no such socket" in error.message
    assert "hpc-board serve" in error.hint


def test_start_up_files_that_print_are_named_with_their_text(door: SshAddress, host: Sshd) -> None:
    (host.home / ".bashrc").write_text("printf 'Welcome to \\033[31mfar'\n")
    error = failure(door)
    (host.home / ".bashrc").unlink()
    assert error.exit_code == 2
    assert error.message == "127.0.0.1 printed 'Welcome to far' instead of the service's answer."
    assert ".bashrc" in error.hint


def test_a_login_that_is_refused_is_said(door: SshAddress, tmp_path: Path) -> None:
    (tmp_path / "client" / ".ssh" / "id_ed25519").unlink()
    error = failure(door)
    assert isinstance(error, ServiceError)
    assert "rejected the login" in error.message


# The relay


def relay(path: Path, data: bytes) -> "subprocess.CompletedProcess[bytes]":
    words = [sys.executable, "-m", "hpc_board", "serve", "--stdio", "--socket", str(path)]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(words, input=data, capture_output=True, timeout=60, env=environ, check=False)


def test_the_relay_carries_what_the_service_says_last(door: SshAddress) -> None:
    done = relay(Path(door.path), b"GET / HTTP/1.1\r\n\r\n")
    answer = msgspec.json.decode(done.stdout, type=wire.Reply)
    assert answer.error is not None
    assert (done.returncode, "invalid Hello" in answer.error.message) == (0, True)


@needs_accounts
def test_the_service_knows_the_account_of_the_relay(door: SshAddress) -> None:
    account = pwd.getpwnam("daemon")
    words = [sys.executable, "-m", "hpc_board", "serve", "--stdio", "--socket", door.path]
    done = subprocess.run(
        command_as(account.pw_uid, 0o022, [], words),
        input=wire.HELLO + b"\n",
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "USER": "root", "LOGNAME": "root"},
        check=True,
    )
    assert msgspec.json.decode(done.stdout, type=wire.Welcome).user == "daemon"


def test_the_relay_needs_a_socket_and_no_terminal(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["serve", "--stdio"])
    assert (done.exit_code, "needs the service's socket" in done.stderr) == (2, True)
    ours, theirs = os.openpty()
    words = [sys.executable, "-m", "hpc_board", "serve", "--stdio", "--socket", str(folder / "s")]
    shown = subprocess.run(
        words,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "its input is a terminal" in shown.stderr
