"""`admin doctor` of a service: by its own account and by participants, whether it runs or not."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hpc_board import __version__, settings
from hpc_board.cli.main import cli
from hpc_board.domain.roles import Role
from hpc_board.service import LOCK, diagnosis
from hpc_board.service.client import RemoteBoard
from hpc_board.settings import Settings
from tests.conftest import short_folder
from tests.service import serve_process, serving

HOLDER = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"


@pytest.fixture
def file() -> Iterator[Path]:
    """The settings file of a served board."""
    with short_folder() as folder:
        path = folder / "hpc-board.yaml"
        document = {"board": "board", "tasks": ["bundled"], "serve": {"socket": "run/board.sock"}}
        path.write_text(yaml.safe_dump(document))
        (folder / "run").mkdir()
        (folder / "board").mkdir(mode=0o700)
        (folder / "participants.yaml").write_text("service: run/board.sock\n")
        yield path


def doctor(config: Path | None, **environ: str) -> tuple[int, list[tuple[str, str, str]]]:
    words = [] if config is None else ["--config", str(config)]
    done = CliRunner().invoke(cli, [*words, "admin", "doctor", "--json"], env=environ)
    return done.exit_code, [(each["level"], each["subject"], each["message"]) for each in json.loads(done.stdout)]


def of_service(lines: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [line for line in lines if line[1] in ("socket", "service", "version", "unit")]


def loaded(file: Path) -> Settings:
    return settings.load(file, {})


def test_a_service_that_runs_has_no_problem(file: Path) -> None:
    with serving(loaded(file), file.parent / "run" / "board.sock"):
        code, lines = doctor(file)
    told = of_service(lines)
    assert (code, {level for level, _, _ in told}) == (0, {"ok"}), lines
    messages = " ".join(message for _, _, message in told)
    assert f"process {os.getpid()} serves {file.parent / 'board'}" in messages
    assert f"the service is hpc-board {__version__}" in messages
    assert "was not started by systemd" in messages


def test_a_service_that_does_not_run_is_a_problem(file: Path) -> None:
    code, lines = doctor(file)
    assert code == 3
    (problem,) = (line for line in lines if line[0] == "problem")
    assert problem[1:] == ("service", f"it is not running: {file.parent}/run/board.sock: No such file or directory")


def test_a_process_that_serves_at_another_socket_is_told(file: Path) -> None:
    with serving(loaded(file), file.parent / "run" / "other.sock"):
        code, lines = doctor(file)
    assert code == 3
    assert ("problem", "service") in {line[:2] for line in lines}
    assert any(f"process {os.getpid()} serves" in line[2] and "does not answer" in line[2] for line in lines)


def test_a_socket_of_another_board_is_told(file: Path) -> None:
    other = file.with_name("other.yaml")
    other.write_text(file.read_text().replace("board: board", "board: board2"))
    with serving(loaded(other), file.parent / "run" / "board.sock"):
        code, lines = doctor(file)
        assert code == 3
        assert any("serves another board" in line[2] for line in lines if line[0] == "problem")
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, file.parent / "board" / LOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout
            holder.stdout.readline()
            _, lines = doctor(file)
            holder.communicate()
    assert any(f"and process {holder.pid} serves" in line[2] for line in lines if line[0] == "problem")


def test_a_place_that_others_may_write_or_cannot_pass_is_told(file: Path) -> None:
    (file.parent / "run").chmod(0o777)
    code, lines = doctor(file)
    assert code == 3
    assert any(line[:2] == ("problem", "socket") and "may write" in line[2] for line in lines)
    (file.parent / "run").chmod(0o700)
    _, lines = doctor(file)
    assert ("warning", "socket", f"other accounts cannot pass {file.parent / 'run'}") in lines


@pytest.mark.parametrize(
    ("environ", "level", "words"),
    [
        ({"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "300000000"}, "ok", "after 300 s of silence"),
        ({"NOTIFY_SOCKET": "/nowhere"}, "warning", "systemd does not watch the service"),
    ],
)
def test_the_watchdog_of_a_unit_is_told(file: Path, environ: dict[str, str], level: str, words: str) -> None:
    with serve_process(file, file.parent / "run" / "board.sock", {**os.environ, **environ}):
        _, lines = doctor(file)
    (told,) = (line for line in lines if line[1] == "unit")
    assert (told[0], words in told[2]) == (level, True)


def test_a_participant_examines_the_way_to_the_service(file: Path) -> None:
    path = file.parent / "run" / "board.sock"
    with serving(loaded(file), path):
        code, lines = doctor(file.with_name("participants.yaml"))
        assert doctor(None, HPC_BOARD_SERVICE=str(path))[1][0][2].endswith("(by $HPC_BOARD_SERVICE)")
    assert (code, [line[:2] for line in lines]) == (
        0,
        [("ok", "settings"), ("ok", "service"), ("ok", "version"), ("ok", "role")],
    )
    assert lines[0][2] == f"the board is that of the service at {path} (by --config)"


def test_a_participant_without_a_service_has_a_problem_with_it(file: Path) -> None:
    code, lines = doctor(file.with_name("participants.yaml"))
    assert (code, [line[:2] for line in lines]) == (3, [("ok", "settings"), ("problem", "service")])
    assert "No such file or directory" in lines[1][2]


def test_another_program_at_the_socket_is_a_problem(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(file.parent / "run" / "board.sock"))
        code, lines = doctor(file.with_name("participants.yaml"))
    assert (code, lines[1][:2]) == (3, ("problem", "service"))


def test_another_version_and_a_missing_role_are_warnings(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(loaded(file), file.parent / "run" / "board.sock"):
        monkeypatch.setattr(diagnosis, "__version__", "0.0.1")
        monkeypatch.setattr(RemoteBoard, "role", Role.NONE)
        code, lines = doctor(file.with_name("participants.yaml"))
    assert code == 0
    assert [line[:2] for line in lines[2:]] == [("warning", "version"), ("warning", "role")]
    assert f"the service is hpc-board {__version__}, and this is 0.0.1" in lines[2][2]
