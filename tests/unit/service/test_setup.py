"""`admin init --serve`: folders, settings of both sides, units and steps; nothing that is there is changed."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpc_board import settings
from hpc_board.accounts import user_name
from hpc_board.cli.main import cli
from hpc_board.domain.run import RunState
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from hpc_board.service.next_steps import ForRoot, numbers, own_steps, service_name
from hpc_board.service.setup import become
from tests.conftest import short_folder
from tests.unit.recorded import recorded, result_of, status_of, timed_case
from tests.unit.service.clients import acting_as
from tests.unit.users import NEEDS_ROOT

ME = user_name(os.geteuid())


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a path that is short enough for a socket, and that other accounts may pass."""
    with short_folder() as folder:
        yield folder


def run(*argv: str | Path) -> Result:
    # No command of Slurm is found there.
    return CliRunner().invoke(cli, ["admin", "init", *map(str, argv)], env={"PATH": "/nowhere"})


def served(board: Path, *argv: str | Path) -> Result:
    return run(board, "--serve", "--user", ME, *argv)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_a_new_board_has_all_that_its_service_and_its_participants_need(place: Path, umask: int) -> None:
    board, folder = place / "board", place / "board-service"
    before = os.umask(umask)
    try:
        done = served(board)
    finally:
        os.umask(before)
    assert done.exit_code == 0, done.output
    read = settings.load(folder / "hpc-board.yaml", {})
    assert (read.board, read.socket, read.runs_per_user) == (board, folder / "board.sock", 4)
    assert [gpu.name for gpu in read.gpus][-1] == "CPU"
    assert settings.load(folder / "participants.yaml", {}).service == folder / "board.sock"
    assert (mode(board), mode(folder), mode(folder / "hpc-board.yaml")) == (0o700, 0o755, 0o600)
    for file in ("participants.yaml", f"systemd/user/hpc-board-{place.name}.service"):
        assert mode(folder / file) == 0o644
        assert mode((folder / file).parent) == 0o755


def test_what_is_there_stays_as_it_is_and_is_told(place: Path) -> None:
    board, folder = place / "board", place / "board-service"
    assert served(board).exit_code == 0
    (folder / "participants.yaml").write_text("service: /elsewhere\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = served(board)
    assert done.exit_code == 0, done.output
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert f"Kept participants' settings: {folder / 'participants.yaml'}" in done.stderr
    assert "Settings written" not in done.stderr


@NEEDS_ROOT
def test_an_account_that_cannot_serve_is_told(place: Path) -> None:
    with acting_as("daemon"), pytest.raises(InputError, match=r"only root can set up .*, but this is daemon"):
        become("bin")
    program = "import sys; from hpc_board.service.setup import become; sys.executable = '/nowhere/python'; "
    done = subprocess.run(
        [sys.executable, "-c", f"{program} become('daemon')"], capture_output=True, text=True, check=False
    )
    assert "daemon cannot run /nowhere/python" in done.stderr
    (place / "file").touch()
    told = served(place / "board", "--socket", place / "file" / "folder" / "board.sock").output
    assert f"{place}/file/folder cannot be created: Not a directory" in told


def test_a_personal_board_with_its_settings_becomes_a_served_one(place: Path) -> None:
    board, file = place / "board", place / "hpc-board.yaml"
    assert run(board, "-o", file).exit_code == 0
    board.chmod(0o755)
    (board / "board.db").touch()
    before = file.read_text()
    done = served(board, "-o", file)
    assert done.exit_code == 0, done.output
    assert (file.read_text(), mode(board), (board / "board.db").exists()) == (before, 0o700, True)
    lines = f"Add these lines to {file}:\nserve:\n  socket: {place}/board-service/board.sock\n"
    assert done.stdout.startswith(f"1. {lines}")
    file.write_text(f"{before}serve:\n  socket: {place}/board-service/board.sock\n")
    assert "Add these lines" not in served(board, "-o", file).stdout


def test_the_steps_are_commands_and_json_has_them(place: Path) -> None:
    done = served(place / "a board", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    lines = [line for step in document["steps"] for line in step["lines"]]
    quoted = f"'{place}/a board-service/hpc-board.yaml'"
    assert any(line.endswith(f"--config {quoted} admin check") for line in lines)
    assert any(line.endswith(f"--config {quoted} admin doctor") for line in lines)
    commands = [line for line in lines if line.startswith(("env", "tmux")) or "* * * *" in line]
    assert len(commands) == (2 if os.geteuid() == 0 else 4)
    assert all(f"env PATH=/usr/local/bin:/usr/bin:/bin {Path(sys.executable).parent}" in line for line in commands)
    assert all(each["made"] for each in document["things"])
    assert not any(each["made"] for each in json.loads(served(place / "a board", "--json").stdout)["things"])
    printed = served(place / "a board").stdout
    assert printed.startswith("1. ")
    assert "\n".join(["", *lines, ""]) in re.sub(r"\n\d+[a-z]?\. .*", "", f"\n{printed}")
    assert document["steps"][0]["number"] == "1"


def test_ways_to_the_same_end_share_a_number(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/home/me/.config")
    texts = ForRoot("name", "unit", "service: x")
    steps = [*own_steps(place, place / "b.sock", place, "client", "serve", texts)]
    assert numbers(steps) == ["1", "2a", "2b", "2c", "2d", "3", "4a", "4b", "5"]
    assert steps[-1].lines[0].endswith("/participants.yaml /home/me/.config/hpc-board/config.yaml")


@pytest.mark.parametrize(
    ("board", "name"),
    [
        ("/srv/kernels/board", "hpc-board-kernels"),
        ("/srv/course 26/hpc-board", "hpc-board"),
        ("/srv/hpc-board-2", "hpc-board-2"),
        ("/srv/a 'b' $HOME `id`%i", "hpc-board-a-b-HOME-id-i"),
        ("/srv/" + "x" * 200, "hpc-board-" + "x" * 60),
        ("/board", "hpc-board"),
        ("/srv/äöü", "hpc-board"),
    ],
)
def test_a_service_has_the_name_of_its_board(board: str, name: str) -> None:
    assert service_name(Path(board)) == name


def test_a_service_in_tmux_leaves_its_error_in_the_log_that_the_step_shows(place: Path) -> None:
    """The line for tmux, with a shell in the place of tmux."""
    steps = own_steps(
        place, place / "b.sock", place, "client", "ls /no/such/place", ForRoot("name", "unit", "service: x")
    )
    (lines,) = (step.lines for step in steps if "tmux" in step.what)
    subprocess.run(["/bin/sh", "-c", shlex.split(lines[0])[-1]], check=False)
    shown = subprocess.run(["/bin/sh", "-c", lines[1]], check=True, capture_output=True, text=True)
    assert "/no/such/place" in shown.stdout


def test_a_socket_elsewhere_gets_its_folder(place: Path) -> None:
    assert served(place / "board", "--socket", place / "run" / "b.sock").exit_code == 0
    assert mode(place / "run") == 0o755
    assert settings.load(place / "board-service" / "participants.yaml", {}).service == place / "run" / "b.sock"


def test_a_folder_that_keeps_participants_from_the_socket_is_the_first_step(place: Path) -> None:
    (place / "home").mkdir(mode=0o700)
    done = served(place / "home" / "board")
    assert f"\nchmod o+x {place / 'home'}\n" in done.stdout


def test_steps_of_root_carry_the_texts_that_they_install(place: Path) -> None:
    name = "a 'b' $HOME `id` HPC_BOARD_UNIT"
    etc, folder = place / "etc", place / f"{name}-service"
    done = served(place / name, "--json")
    assert done.exit_code == 0, done.output
    # No change of the account's files after root has read the steps gets into those of root.
    for path in [each for each in folder.rglob("*") if each.is_file()]:
        path.unlink()
        path.symlink_to("/etc/shadow")
    lines = [line for step in json.loads(done.stdout)["steps"] for line in step["lines"]]
    assert not [line for line in lines if "/etc/" in line and str(folder) in line]
    system_unit = "systemd/system/hpc-board-a-b-HOME-id-HPC_BOARD_UNIT.service"
    for target in (system_unit, "hpc-board/config.yaml"):
        (etc / target).parent.mkdir(parents=True)
        (etc / target).write_text("older")
        start = next(number for number, line in enumerate(lines) if f" /etc/{target} " in line)
        mark = shlex.split(lines[start].replace("<<", " "))[-1]
        end = lines.index(mark, start)
        assert mark not in "".join(lines[start + 1 : end])
        text = "\n".join(lines[start : end + 1]).replace(f" /etc/{target}", f" {etc / target}")
        subprocess.run(["/bin/sh"], input=text, text=True, check=True)
        assert mode(etc / target) == 0o644
    unit = (etc / system_unit).read_text()
    assert f"\nUser={ME}\n" in unit
    assert unit.endswith("\nWantedBy=multi-user.target\n")
    assert str(folder / "hpc-board.yaml").replace("$", "$$") in unit
    assert settings.load(etc / "hpc-board/config.yaml", {}).service == folder / "board.sock"


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--socket", "/tmp/" + 110 * "x"], 2, "is too long for a socket"),
        (["--socket", "/tmp/x\x1b.sock"], 2, "contains unprintable characters"),
        (["--force"], 2, "--serve and --force are mutually exclusive"),
        (["--user", "no-such-account"], 2, "unknown account no-such-account"),
        (["--user", "no\0account"], 2, "unknown account no"),
        (["-o", "other.yaml"], 2, "its board is not"),
        (["-o", "client.yaml"], 2, "its board is not"),
        (["-o", "mine.yaml", "--socket", "other.sock"], 2, "mine.yaml already exists, but its socket is"),
        (["--socket", "shared/board.sock"], 2, "accounts other than the service's can write"),
    ],
)
def test_what_does_not_fit_is_refused_and_writes_no_file(
    place: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(place)
    (place / "other.yaml").write_text("board: /elsewhere\n")
    (place / "client.yaml").write_text("service: /elsewhere\n")
    (place / "mine.yaml").write_text("board: board\nserve: {socket: mine.sock}\n")
    (place / "shared").mkdir()
    (place / "shared").chmod(0o777)
    before = [path for path in sorted(place.rglob("*")) if path.is_file()]
    done = served(place / "board", *argv)
    assert (done.exit_code, words in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert [path for path in sorted(place.rglob("*")) if path.is_file()] == before


@NEEDS_ROOT
def test_root_has_to_name_the_account_of_the_service(place: Path) -> None:
    done = run(place / "board", "--serve")
    assert (done.exit_code, "running as root" in done.stderr) == (2, True)
    assert list(place.iterdir()) == []


def test_options_of_a_service_belong_to_a_service(place: Path) -> None:
    assert run(place / "board", "--user", ME).exit_code == 2
    assert list(place.iterdir()) == []


def test_a_board_moves_in_from_another_folder(place: Path) -> None:
    former = recorded(place / "former")
    former.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-5)
    former.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-5, gpu="H100-SXM")
    folder = former.board.settings.board
    done = served(place / "board", "--from", folder)
    assert done.exit_code == 0, done.output
    told = " ".join(done.stderr.split())
    assert f"The board has 2 submissions and 2 runs of {folder}, which is unchanged." in told
    assert "The settings have no entry for H100-SXM." in told
    assert f"chmod 700 {folder}" in done.stdout
    again = served(place / "board", "--from", folder)
    assert (again.exit_code, "already has a database" in again.stderr) == (2, True)
    itself = served(place / "board", "--from", place / "board")
    assert (itself.exit_code, "is the new board itself" in itself.stderr) == (2, True)


def test_init_leaves_no_database_where_the_settings_cannot_be_written(place: Path) -> None:
    recorded(place / "former").add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-5)
    former = place / "former" / "board"
    (place / "file").write_text("")
    done = served(place / "board", "--from", former, "-o", place / "file" / "hpc-board.yaml")
    assert (done.exit_code, "cannot be written: Not a directory" in done.stderr) == (2, True), done.output
    assert not [*(place / "board").iterdir()]
    done = served(place / "board", "--from", former)
    assert done.exit_code == 0, done.output


def test_a_board_that_does_not_move_in_is_refused_before_any_file_is_made(place: Path) -> None:
    former = recorded(place / "former")
    run = former.add(status_of(RunState.QUEUED))
    done = served(place / "board", "--from", former.board.settings.board)
    assert (done.exit_code, f"are in flight: {run.id} of" in done.stderr) == (5, True)
    assert not [*(place / "board").iterdir(), *(place / "board-service").iterdir()]
    (place / "empty").mkdir()
    done = served(place / "board", "--from", place / "empty")
    assert (done.exit_code, "no such file" in done.stderr) == (2, True)
