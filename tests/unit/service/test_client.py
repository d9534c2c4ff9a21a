"""The board behind a service, as a client has it: commands and files go through it, and faults of the way are told."""

import io
import socket
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpc_board.catalog import archive as archive_module
from hpc_board.catalog.sources import packed
from hpc_board.cli.main import cli
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.run import RunState
from hpc_board.domain.user_board import BoardRequest
from hpc_board.errors import Refused
from hpc_board.model.result import Verdict
from hpc_board.service import client as client_module
from hpc_board.service import wire
from hpc_board.service.client import Connection, RemoteBoard
from tests.unit.recorded import (
    KERNEL,
    TASK,
    Recorded,
    full_device,
    result_of,
    status_of,
    timed_case,
)
from tests.unit.service.clients import OWNER, ROOT, asking, command, refusal
from tests.values import requested, updated


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


def test_a_service_that_is_not_there_is_said(folder: Path) -> None:
    error = refusal(RemoteBoard(folder / "board.sock").runs.list)
    assert "hpc-board serve" in error.hint
    assert error.exit_code == 3


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


def test_an_endless_line_of_a_service_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "REPLY_BYTES_MAX", 100_000)
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as endless:
        endless.bind(str(folder / "board.sock"))
        endless.listen()

        def answer() -> None:
            with suppress(OSError), endless.accept()[0] as client:
                while True:
                    client.sendall(bytes(65536))

        thread = threading.Thread(target=answer)
        thread.start()
        error = refusal(RemoteBoard(folder / "board.sock").runs.list)
        thread.join(60)
    assert "the service sent a line that is too long" in error.message


@ROOT
@pytest.mark.parametrize(
    ("text", "words"),
    [("\udcff", "invalid text"), ("x" * 3_000_000, "the request is too large: 3,000,0")],
)
def test_a_text_that_cannot_be_sent_is_told(door: Path, text: str, words: str) -> None:
    with asking(door, "daemon") as remote:
        assert words in refusal(lambda: remote.submissions.note(1, text)).message
        assert remote.runs.list() == ()


def test_an_admin_is_warned_once_of_a_board_that_is_stopped(board: Recorded, door: Path) -> None:
    board.board.moderation.stop("a pause")
    done = command(door, "submit", str(board.kernel), "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("The board is closed to submissions") == 1


@ROOT
def test_a_cancelled_job_is_said_to_be_the_services(door: Path, folder: Path) -> None:
    kernel = folder / "slow.py"
    kernel.write_text(f"{KERNEL}\nimport time\n\ntime.sleep(600)\n")
    with asking(door, "daemon") as remote:
        (run,) = remote.submissions.submit([requested(kernel)])
        assert run.account == OWNER
        done = command(door, "cancel", str(run.id))
        assert done.stdout == f"Run {run.id}: cancel requested; the service cancels its job.\n"
        assert [*remote.runs.wait([run.id], timeout_seconds=60)][-1][0].state is RunState.CANCELLED


@pytest.fixture
def source(folder: Path) -> Path:
    """A task folder that every account can read."""
    folder = folder / "doubling"
    folder.mkdir()
    (folder / "task.yml").write_text(TASK.replace("gpus: [H100]\n", "tests: [{size: 1, seed: 2}]\n"))
    (folder / "reference.py").write_text(
        "def generate_input(size, seed):\n    return 0\n\n\nref_kernel = check_implementation = abs\n"
    )
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("a secret of the creator")
    return folder


@ROOT
def test_a_creator_makes_changes_and_deletes_a_board_through_the_service(
    board: Recorded, door: Path, source: Path
) -> None:
    with asking(door, "bin") as creator:
        request = BoardRequest(packed(str(source)))
        (plan,) = creator.leaderboards.plan(request)
        assert creator.leaderboards.list() == ()
        creator.leaderboards.carry_out(request, {plan.name: plan.after_change}, reason="for the course")
        assert [made.options.creator for made in creator.leaderboards.list()] == ["bin"]
        updated(creator, "doubling", options=RequestedOptions(closed=True))
        assert creator.leaderboards.get("doubling").options.visibility == "closed"  # type: ignore[union-attr]
        with asking(door, "daemon") as other:
            assert isinstance(refusal(lambda: other.leaderboards.delete("doubling")), Refused)
        kept = creator.leaderboards.delete("doubling", reason="over")
    assert kept.is_relative_to(board.folder / "board")
    assert board.board.leaderboards.list() == ()


def test_a_connection_in_use_is_closed_after_its_answer(door: Path) -> None:
    connection = Connection(door, lambda _: None)
    with connection._line() as line:
        connection.close()
        assert line.is_open()
    assert line._stream._socket.fileno() == -1  # type: ignore[union-attr]


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
    assert "this command requires the board's own settings and files" in done.output
    assert "admin." not in done.output
    assert f"`hpc-board --config SETTINGS admin {words[1]}" in " ".join(done.output.split())


def test_a_packed_folder_has_no_hidden_files_and_no_links(source: Path) -> None:
    (source / "link.py").symlink_to("/etc/passwd")
    with zipfile.ZipFile(io.BytesIO(archive_module.pack(source))) as packed:
        assert packed.namelist() == ["reference.py", "task.yml"]


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
        assert "already exists" in refusal(lambda: remote.admin.backup(tmp_path / "copy.db")).message
    assert contents.runs == 1
    assert (tmp_path / "copy.db").read_bytes().startswith(b"SQLite format 3")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600, "it holds all users' code"


def test_a_full_disk_of_the_client_is_its_own_error(board: Recorded, door: Path) -> None:
    board.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3)
    with asking(door) as remote, full_device().open("wb", buffering=0) as full:
        with pytest.raises(OSError, match="No space left"):
            remote.admin.export("json").write(full)
        assert len(remote.runs.list()) == 1


MODULES_MAX = 200
"""The maximum number of modules of `hpc-board runs` with a service, those of a bare Python included."""


@pytest.mark.parametrize("command", [("runs",), ("list",), ("show", "narrow")])
def test_a_client_that_asks_loads_neither_the_store_nor_schedulers(
    board: Recorded, door: Path, command: tuple[str, ...]
) -> None:
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); import runpy; "
    program += "runpy.run_module('hpc_board', run_name='__main__')"
    environ = {**board.environ(), "HPC_BOARD_SERVICE": str(door)}
    done = subprocess.run(
        [sys.executable, "-c", program, *command], env=environ, capture_output=True, text=True, timeout=120, check=True
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "hpc_board.service.client" in loaded
    heavy = {
        "sqlite3",
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
        assert len(loaded) <= MODULES_MAX
    doors = {name for name in loaded if name.startswith("hpc_board.service.doors.")}
    assert doors == {"hpc_board.service.doors.unix"}
    assert "hpc_board.domain.service_address" not in loaded
    packages = ("store", "schedulers", "transport", "harness", "settings", "catalog", "runs")
    assert not [name for name in loaded if name.split(".")[:2] in [["hpc_board", package] for package in packages]]


@pytest.mark.parametrize(
    "address", ["munge://hpc-board@login1:7411", "localhost:27411", "run/board.sock", "~/board.sock"]
)
def test_a_variable_that_is_no_address_is_named(address: str) -> None:
    done = CliRunner().invoke(cli, ["runs"], env={"HPC_BOARD_SERVICE": address})
    assert done.exit_code == 2
    assert "$HPC_BOARD_SERVICE: expected the full path of a socket, or ssh://" in done.stderr
    assert f'found "{address}"' in done.stderr
