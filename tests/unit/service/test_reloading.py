"""SIGHUP to a service that runs: new settings count for the next question, faulty ones change nothing."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpc_board import settings
from hpc_board.service.client import RemoteBoard
from hpc_board.service.reloading import changed
from tests.conftest import short_folder
from tests.unit.recorded import REPOSITORY
from tests.waiting import awaited

CPU = {"cluster": "here", "device": "cpu"}
BASE: dict[str, Any] = {
    "board": "board",
    "tasks": ["bundled"],
    "clusters": {"here": {"scheduler": "local"}},
    "gpus": {"CPU": CPU},
    "serve": {"socket": "run/board.sock", "runs_per_user": 4},
}


@pytest.fixture
def file() -> Iterator[Path]:
    """The settings file of a served board."""
    with short_folder() as folder:
        (folder / "run").mkdir()
        written(folder / "hpc-board.yaml")
        yield folder / "hpc-board.yaml"


def written(file: Path, **changes: object) -> None:
    file.write_text(yaml.safe_dump({**BASE, **changes}))


Events = Callable[[str], list[dict[str, Any]]]


def holds_hangups(process: "subprocess.Popen[bytes]") -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return bool(int(status.partition("SigBlk:")[2].split()[0], 16) & 1 << signal.SIGHUP - 1)


@contextmanager
def service(
    file: Path, begun: Callable[["subprocess.Popen[bytes]"], object] = lambda _: None, **terminal: Any
) -> Iterator[tuple["subprocess.Popen[bytes]", Events]]:
    """A process that serves, and a function that returns the lines of its log with an event."""
    log = file.parent / "serve.log"
    words = [sys.executable, "-m", "hpc_board", "--config", str(file), "serve", "--allow-root"]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(file.parent)}
    with log.open("wb") as sink:
        process = subprocess.Popen(words, env=environ, stderr=sink, **{"stdin": subprocess.DEVNULL, **terminal})

    def events(name: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["event"] == name]

    try:
        begun(process)
        awaited(lambda: events("serving") or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield process, events
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
        assert not events("fault"), log.read_text()


def names(file: Path) -> list[str]:
    """The GPUs that a client sees."""
    board = RemoteBoard(file.parent / "run" / "board.sock")
    with board.session():
        return [gpu.name for gpu in board.gpus.all()]


def test_a_gpu_is_added_while_the_service_runs_and_faults_change_nothing(file: Path) -> None:
    with service(file) as (process, events):
        assert names(file) == ["CPU"]
        written(file, gpus={"CPU": CPU, "Second": CPU})
        process.send_signal(signal.SIGHUP)
        awaited(lambda: events("reloaded"))
        assert names(file) == ["CPU", "Second"]
        assert "needs_restart" not in events("reloaded")[0]

        file.write_text(file.read_text().replace("scheduler: local", "scheduler: lokal"))
        line = 1 + file.read_text().splitlines().index("    scheduler: lokal")
        process.send_signal(signal.SIGHUP)
        (told,) = awaited(lambda: events("not reloaded"))
        assert any(fault.startswith(f"{file}:{line}: clusters.here.scheduler: ") for fault in told["faults"]), told
        assert names(file) == ["CPU", "Second"]

        file.unlink()
        process.send_signal(signal.SIGHUP)
        awaited(lambda: len(events("not reloaded")) == 2)
        assert "the settings file does not exist" in events("not reloaded")[1]["faults"][0]
        file.write_text("service: /elsewhere.sock\n")
        process.send_signal(signal.SIGHUP)
        awaited(lambda: len(events("not reloaded")) == 3)
        assert names(file) == ["CPU", "Second"]


def test_a_hangup_before_the_service_serves_is_taken_once_it_does(file: Path) -> None:
    def hang_up(process: "subprocess.Popen[bytes]") -> None:
        while process.poll() is None and not (file.parent / "run" / "board.sock").exists():
            if holds_hangups(process):
                process.send_signal(signal.SIGHUP)
                return
        pytest.fail("the program never held a SIGHUP back")

    with service(file, hang_up) as (process, events):
        awaited(lambda: events("reloaded"))
        assert process.poll() is None
        assert not holds_hangups(process)


@pytest.mark.parametrize("words", [["serve", "--stdio", "--socket", "/nowhere"], ["--config", "serve", "list"]])
def test_a_hangup_ends_what_is_no_service(words: list[str]) -> None:
    code = (
        "import signal, sys; from hpc_board.__main__ import main\n"
        "try: main()\n"
        "except BaseException: print(signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False", done.stderr


def test_what_counts_from_a_start_alone_is_named_and_the_rest_is_taken(file: Path) -> None:
    with service(file) as (process, events):
        more = {"socket": "run/other.sock", "runs_per_user": 1, "web": "127.0.0.1:8080"}
        written(file, board="elsewhere", serve=more, gpus={"Only": CPU})
        process.send_signal(signal.SIGHUP)
        (told,) = awaited(lambda: events("reloaded"))
        assert told["needs_restart"] == ["board", "serve.socket", "serve.web"]
        assert names(file) == ["Only"]
        assert not (file.parent / "elsewhere").exists()


def test_the_account_of_jobs_stays_until_a_restart(file: Path) -> None:
    slurm = {"clusters": {"here": {"scheduler": "slurm"}}, "gpus": {"CPU": {**CPU, "partition": "cpu"}}}
    written(file, **slurm)
    before = settings.load(file, {})
    written(file, **slurm, jobs={"account": "hpcboard-run", "folder": "/srv/jobs"})
    read = settings.load(file, {})
    assert {cluster.account for cluster in read.clusters} == {"hpcboard-run"}
    taken, waiting = changed(before, read)
    assert (taken.clusters, taken.gpus, waiting) == (before.clusters, before.gpus, ("jobs",))
    assert changed(read, read) == (read, ())


def test_unknown_names_of_roles_are_in_the_log_at_the_start_and_after_a_reload(file: Path) -> None:
    def warned() -> list[str]:
        return [line["text"] for line in events("warning") if line["text"].startswith("roles:")]

    absent = "hpc-board-absent"
    written(file, roles={"admins": [absent], "participants": ["root"]})
    with service(file) as (process, events):
        assert warned() == ["roles: roles.admins: unknown on this machine: hpc-board-absent"]
        written(file, roles={"participants": ["root", f"@{absent}", absent]})
        process.send_signal(signal.SIGHUP)
        awaited(lambda: len(warned()) > 1)
        assert warned()[1:] == [f"roles: roles.participants: unknown on this machine: @{absent}, {absent}"]


def test_the_end_of_its_terminal_ends_the_service(file: Path) -> None:
    mine, its = pty.openpty()
    with service(file, stdin=its, start_new_session=True, preexec_fn=take_terminal) as (process, events):
        os.close(its)
        process.send_signal(signal.SIGHUP)
        awaited(lambda: events("reloaded"))
        os.close(mine)
        assert process.wait(60) == 0
        assert events("stopped")


def take_terminal() -> None:
    """Make standard input the controlling terminal of this new session."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
