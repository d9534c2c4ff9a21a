"""`admin doctor` of a service: by its own account and by participants, whether it runs or not."""

import errno
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hpc_board import __version__, settings
from hpc_board.cli.main import cli
from hpc_board.domain.roles import Role
from hpc_board.service import diagnosis
from hpc_board.service.client import RemoteBoard
from hpc_board.settings import Settings
from hpc_board.store.folder import SERVE_LOCK
from tests.conftest import short_folder
from tests.service import serve_process, serving
from tests.slurm.lab import free_ports

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
    return [line for line in lines if line[1] in ("socket", "service", "version", "unit", "page")]


def loaded(file: Path) -> Settings:
    return settings.load(file, {})


def test_a_service_that_runs_has_no_error(file: Path) -> None:
    with serving(loaded(file), file.parent / "run" / "board.sock"):
        code, lines = doctor(file)
    told = of_service(lines)
    assert (code, {level for level, _, _ in told}) == (0, {"ok"}), lines
    messages = " ".join(message for _, _, message in told)
    assert f"process {os.getpid()} serves {file.parent / 'board'}" in messages
    assert f"the service is hpc-board {__version__}" in messages
    assert "is not under systemd" in messages
    assert f"it answers at {file.parent / 'run' / 'board.http'}" in messages


def test_a_service_that_does_not_run_is_an_error(file: Path) -> None:
    code, lines = doctor(file)
    assert code == 3
    (fault,) = (line for line in lines if line[0] == "error")
    assert fault[1:] == ("service", f"it is not running: {file.parent}/run/board.sock: there is no such socket")


def test_a_process_that_serves_at_another_socket_is_told(file: Path) -> None:
    with serving(loaded(file), file.parent / "run" / "other.sock"):
        code, lines = doctor(file)
    assert code == 3
    assert ("error", "service") in {line[:2] for line in lines}
    assert any(f"process {os.getpid()} serves" in line[2] and "does not answer" in line[2] for line in lines)


def test_a_socket_of_another_board_is_told(file: Path) -> None:
    other = file.with_name("other.yaml")
    other.write_text(file.read_text().replace("board: board", "board: board2"))
    with serving(loaded(other), file.parent / "run" / "board.sock"):
        code, lines = doctor(file)
        assert code == 3
        assert any("serves another board" in line[2] for line in lines if line[0] == "error")
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, file.parent / "board" / SERVE_LOCK],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder:
            assert holder.stdout
            holder.stdout.readline()
            _, lines = doctor(file)
            holder.communicate()
    assert any(f"and process {holder.pid} serves" in line[2] for line in lines if line[0] == "error")


def test_a_place_that_others_may_write_or_cannot_pass_is_told(file: Path) -> None:
    (file.parent / "run").chmod(0o777)
    code, lines = doctor(file)
    assert code == 3
    assert any(line[:2] == ("error", "socket") and "can write" in line[2] for line in lines)
    (file.parent / "run").chmod(0o700)
    _, lines = doctor(file)
    assert ("warning", "socket", f"other accounts cannot enter {file.parent / 'run'}") in lines


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
        assert doctor(None, HPC_BOARD_SERVICE=str(path))[1][0][2].endswith("(from $HPC_BOARD_SERVICE)")
    assert (code, [line[:2] for line in lines]) == (
        0,
        [("ok", "settings"), ("ok", "service"), ("ok", "version"), ("ok", "role")],
    )
    assert lines[0][2] == f"the board of the service at {path} (from --config)"


def test_a_participant_without_a_service_has_an_error_of_it(file: Path) -> None:
    code, lines = doctor(file.with_name("participants.yaml"))
    assert (code, [line[:2] for line in lines]) == (3, [("ok", "settings"), ("error", "service")])
    assert "there is no such socket" in lines[1][2]


def test_another_program_at_the_socket_is_an_error(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(file.parent / "run" / "board.sock"))
        code, lines = doctor(file.with_name("participants.yaml"))
    assert (code, lines[1][:2]) == (3, ("error", "service"))


def test_another_version_and_a_missing_role_are_warnings(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(loaded(file), file.parent / "run" / "board.sock"):
        monkeypatch.setattr(diagnosis, "__version__", "0.0.1")
        monkeypatch.setattr(RemoteBoard, "role", Role.NONE)
        code, lines = doctor(file.with_name("participants.yaml"))
    assert code == 0
    assert [line[:2] for line in lines[2:]] == [("warning", "version"), ("warning", "role")]
    assert f"the service is hpc-board {__version__}, but this is 0.0.1" in lines[2][2]


def told_by(lines: list[tuple[str, str, str]], subject: str, words: str) -> list[str]:
    """The levels of the lines on a subject that have these words."""
    return [level for level, each, message in lines if each == subject and words in message]


def test_settings_that_the_service_has_not_read_yet_are_told_until_it_reads_them(file: Path) -> None:
    words = "was changed at"
    with serving(loaded(file), file.parent / "run" / "board.sock") as service:
        assert told_by(doctor(file)[1], "settings", words) == []
        os.utime(file, (time.time() + 1, time.time() + 1))
        assert told_by(doctor(file)[1], "settings", words) == ["warning"]
        told = " ".join(CliRunner().invoke(cli, ["--config", str(file), "admin", "doctor"]).output.split())
        assert f"kill -HUP {os.getpid()}. For `board`, `jobs` and most keys of `serve`, restart it instead." in told
        service._reload()
        os.utime(file, (time.time() - 60, time.time() - 60))
        assert told_by(doctor(file)[1], "settings", words) == []


def test_a_service_without_gpus_of_its_own_is_told_at_its_start_and_by_doctor(file: Path) -> None:
    lines: list[str] = []
    with serving(loaded(file), file.parent / "run" / "board.sock", lines=lines):
        pass
    assert [each["text"] for each in map(json.loads, lines) if each["event"] == "warning" and "gpus" in each["text"]]
    assert told_by(doctor(file)[1], "gpus", "jobs run on this machine itself") == ["warning"]
    file.write_text(file.read_text() + "clusters: {here: {scheduler: local}}\ngpus: {CPU: {cluster: here}}\n")
    assert told_by(doctor(file)[1], "gpus", "") == []


def with_slurm(file: Path) -> Path:
    """Give the board a GPU whose Python has no path, and return a folder with another Python of that name."""
    gpus = "gpus: {CPU: {cluster: here, partition: p, request: {style: none}, device: cpu}}\n"
    file.write_text(f"{file.read_text()}clusters: {{here: {{scheduler: slurm, allow_root: true}}}}\n{gpus}")
    other = file.parent / "bin"
    other.mkdir()
    (other / "python3").symlink_to(sys.executable)
    return other


def test_a_python_that_the_service_finds_elsewhere_than_the_shell_is_told(file: Path) -> None:
    other = with_slurm(file)
    environ = {**os.environ, "PATH": f"{other}:{os.environ['PATH']}"}
    with serve_process(file, file.parent / "run" / "board.sock", environ):
        _, told = doctor(file)
        assert told_by(told, "gpu CPU", f"`python3` is {other / 'python3'} for the service") == ["warning"]
        _, told = doctor(file, PATH=environ["PATH"])
        assert told_by(told, "gpu CPU", "for the service") == []


# The page


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def of_page(lines: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    return [(level, message) for level, subject, message in lines if subject == "page"]


def with_web(file: Path, port: int, **more: str) -> Path:
    """The settings with the page on TCP, in a file beside them."""
    document = yaml.safe_load(file.read_text())
    document["serve"] |= {"web": f"127.0.0.1:{port}", **more}
    other = file.with_name("web.yaml")
    other.write_text(yaml.safe_dump(document))
    return other


@pytest.mark.parametrize("name", [None, "boards.site.org"])
def test_the_page_is_asked_for_by_its_name(file: Path, port: int, name: str | None) -> None:
    config = with_web(file, port, **({} if name is None else {"web_host": name}))
    with serving(loaded(config), file.parent / "run" / "board.sock"):
        code, lines = doctor(config)
    at = f"127.0.0.1:{port}"
    assert (code, of_page(lines)) == (
        0,
        [
            ("ok", f"it answers at {file.parent / 'run' / 'board.http'}"),
            ("ok", f"it answers at {at} to requests for {name or at}"),
        ],
    )


@pytest.mark.parametrize(("listens", "host"), [("0.0.0.0", socket.AF_INET), ("[::]", socket.AF_INET6)])  # noqa: S104
def test_an_address_of_all_interfaces_is_reached_from_this_machine(
    file: Path, port: int, listens: str, host: socket.AddressFamily
) -> None:
    with socket.socket(host) as probe:
        if probe.connect_ex(("127.0.0.1" if host == socket.AF_INET else "::1", port)) == errno.EADDRNOTAVAIL:
            pytest.skip("this machine has no such address")
    config = with_web(file, port)
    config.write_text(config.read_text().replace(f"127.0.0.1:{port}", f"'{listens}:{port}'"))
    with serving(loaded(config), file.parent / "run" / "board.sock"):
        code, lines = doctor(config)
    assert (code, of_page(lines)[1][0]) == (0, "ok")


def test_settings_of_the_page_that_the_service_does_not_know_yet_are_told(file: Path, port: int) -> None:
    with serving(loaded(file), file.parent / "run" / "board.sock"):
        code, lines = doctor(with_web(file, port))
    assert (code, of_page(lines)[1]) == (3, ("error", f"127.0.0.1:{port}: Connection refused"))
    with serving(loaded(with_web(file, port)), file.parent / "run" / "board.sock"):
        code, lines = doctor(with_web(file, port, web_host="boards.site.org"))
    assert (code, of_page(lines)[1]) == (
        3,
        ("error", f"127.0.0.1:{port}: the page rejects the name boards.site.org"),
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n", "another program answers there"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "another program answers there"),
        (b"", "another program answers there"),
        (b"\x1b[31m\xff" * 100_000, "another program answers there"),
        (b"HTTP/1.1 500 X\r\nServer: hpc-board\r\n\r\n", "it answers with status 500"),
        (None, "no answer in time"),
        (b"a byte at a time", "no answer in time"),
    ],
)
def test_another_answer_at_the_address_is_told_and_never_shown(
    file: Path, answer: bytes | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time = told != "no answer in time"
    monkeypatch.setattr(diagnosis, "_LOOK_SECONDS", 30.0 if in_time else 0.5)
    with ExitStack() as stack:
        other = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = other.getsockname()[1]

        def respond() -> None:
            found = stack.enter_context(other.accept()[0])
            found.recv(4096)
            with suppress(OSError):
                if answer is None:
                    return
                for piece in [answer] if in_time else [answer[at : at + 1] for at in range(len(answer))]:
                    found.sendall(piece)
                    time.sleep(0 if in_time else 0.2)
                found.shutdown(socket.SHUT_RDWR)

        stack.enter_context(serving(loaded(file), file.parent / "run" / "board.sock"))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        done = pool.submit(respond)
        code, lines = doctor(with_web(file, port))
        done.result(30)
    assert (code, of_page(lines)[1]) == (3, ("error", f"127.0.0.1:{port}: {told}"))
