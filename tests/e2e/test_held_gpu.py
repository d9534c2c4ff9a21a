"""Held GPUs on the embedded scheduler, through the command line: runners, their runs, their bounds and their cost."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run_hpc_board
from tests.conftest import short_folder
from tests.e2e.boards import HANGING, BoardFiles, board_files
from tests.service import serve_process
from tests.waiting import awaited


def with_settings(files: BoardFiles, **changes: Any) -> BoardFiles:
    """Change the settings of a board."""
    settings = yaml.safe_load(files.settings.read_text())
    files.settings.write_text(yaml.safe_dump({**settings, **changes}))
    return files


def has_ended(board: BoardFiles, runner: int) -> bool:
    return runner not in [each["id"] for each in board.json("status")["runners"]]


class ServedFiles(BoardFiles):
    """A board that commands reach through a service."""

    def words(self, *words: str | Path) -> list[str]:
        return list(map(str, words))


@pytest.fixture
def board(tmp_path: Path) -> Iterator[BoardFiles]:
    """A board with two names for this machine's processor, on which a run takes a minute at most."""
    gpu = {"cluster": "here", "device": "cpu", "time": "00:01:00"}
    files = with_settings(board_files(tmp_path, slurm=False), gpus={"CPU": gpu, "H100": gpu})
    yield files
    for runner in board_runners(files):
        files.run("release", str(runner))
    awaited(lambda: not board_runners(files))


@pytest.fixture(params=["files", "service"])
def either_board(request: pytest.FixtureRequest, board: BoardFiles) -> Iterator[BoardFiles]:
    """The board by its files, and behind a service."""
    if request.param == "files":
        yield board
        return
    with short_folder() as folder, serve_process(board.settings, folder / "s", {**os.environ, **board.environ}):
        yield ServedFiles(board.folder, board.settings, {**board.environ, "HPC_BOARD_SERVICE": str(folder / "s")})


def board_runners(files: BoardFiles) -> list[int]:
    return [runner["id"] for runner in files.json("status")["runners"]]


def completed(board: BoardFiles, command: str) -> list[str]:
    """Return the words that a shell offers behind a command."""
    environ = {"_HPC_BOARD_COMPLETE": "bash_complete", "COMP_WORDS": f"hpc-board {command} ", "COMP_CWORD": "2"}
    environ["HPC_BOARD_CONFIG"] = str(board.settings)
    done = run_hpc_board((), environ={**os.environ, **board.environ, **environ})
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_runs_go_to_a_held_gpu_until_it_is_released_and_a_fresh_one_does_not(either_board: BoardFiles) -> None:
    board = either_board
    held = board.json("hold", "cpu", "--for", "10m", "--wait")
    assert (held["gpu"], held["state"], held["seconds"], held["idle_seconds"]) == ("CPU", "running", 600, 300)
    assert "held by you, 9 min left" in board.run("gpus").stdout
    for place in (1, 2):
        run = board.json("submit", board.kernel(), "--gpu", "CPU", "--wait")["runs"][0]
        assert (run["verdict"], run["runner"], run["job"]["id"]) == ("pass", 1, f"{held['job']['id']}.{place}")
        assert (run["provenance"]["runner_place"], run["fresh"]) == (place, False)
    sent = board.run("submit", board.kernel(HANGING), "--gpu", "CPU")
    assert sent.stdout.rstrip().endswith("at runner 1")
    fresh = board.json("submit", board.kernel(), "--gpu", "CPU", "--fresh")["runs"][0]
    assert (fresh["runner"], fresh["fresh"]) == (None, True)
    (live,) = board.json("status")["runners"]
    assert (live["id"], live["runs"], live["takes_runs"]) == (1, 3, True)
    text = board.run("status").stdout
    assert f"runner 1  CPU held, 9 min left, 3 runs, job {held['job']['id']} on node " in text
    released = board.run("release")
    assert released.stdout.startswith("Runner 1: release requested; it held CPU for ")
    assert board.run("cancel", "3").returncode == 0
    # The only slot of this machine is free once the run in hand has ended.
    assert board.ended(4)["verdict"] == "pass"
    assert "runner" not in board.json("run", "4")["provenance"]
    awaited(lambda: has_ended(board, 1))
    end, begin = board.json("admin", "log")
    assert [(each["action"], each["kind"], each["subject"]) for each in (end, begin)] == [
        ("end", "gpu", "CPU"),
        ("hold", "gpu", "CPU"),
    ]
    assert end["reason"].startswith("released by ")
    assert ", 3 runs" in board.run("admin", "log").stdout


def test_a_held_gpu_ends_when_it_is_idle_and_its_cost_is_told_once(board: BoardFiles) -> None:
    board.run("hold", "CPU", "--idle", "1s", "--wait")
    awaited(lambda: "ended: it was idle for 1 s" in board.run("status").stdout)
    assert "runner 1" not in board.run("status").stdout
    assert board.run("release").stderr.startswith("error: you hold no GPU.")
    assert board.run("release", "1").returncode == 2


def test_the_runs_of_a_submission_may_hold_their_gpu(either_board: BoardFiles) -> None:
    board = either_board
    refused = board.run("submit", board.kernel(), "--gpu", "CPU,H100", "--hold", "10m")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--hold requires runs on one GPU; these are on CPU, H100." in refused.stderr
    scripts = board.json("submit", board.kernel(), "--gpu", "H100", "--hold", "10m", "--dry-run")
    assert ["# hpc-board: any task on H100, runner\n" in each["script"] for each in scripts] == [True, False]
    for number in (1, 2):
        done = board.run("submit", board.kernel(), "--gpu", "H100", "--hold", "10m", "--wait")
        assert (done.returncode, "at runner 1\n" in done.stdout) == (0, True), done.stderr
        assert ("Runner 1: H100 requested for 10 min" in done.stderr) is (number == 1)
    assert board_runners(board) == [1]


def test_a_run_with_another_request_than_the_held_gpu_has_a_job_of_its_own(board: BoardFiles) -> None:
    board.run("hold", "CPU", "--for", "10m", "--wait")
    gpu = {"cluster": "here", "device": "cpu", "time": "00:01:00", "env": {"GREETING": "hello"}}
    with_settings(board, gpus={"CPU": gpu, "H100": gpu})
    done = board.run("submit", board.kernel(), "--gpu", "CPU", "--hold", "10m")
    assert done.returncode == 0, done.stderr
    differs = "the job options or the settings differ from those of runner 1, or it could take no further run"
    assert f"Run 1 has its own job on CPU: {differs}. `hpc-board release 1` frees that GPU." in done.stderr
    assert board_runners(board) == [1]
    board.run("release")
    assert board.ended(1)["verdict"] == "pass"


def test_the_settings_bound_held_gpus(board: BoardFiles) -> None:
    for words, code, message in (
        (("--for", "2h"), 2, "a GPU cannot be held for 2h: choose 5m to 1h."),
        (("--idle", "10m"), 2, "a GPU cannot be held for 10m without a run: choose 1s to 5m."),
        (("--for", "30"), 2, "'30' is not a length of time. Use hours, minutes and seconds: 30m, 1h30m, 90s."),
        (("--timeout", "3"), 2, "--timeout requires --wait."),
        (("--wait", "--dry-run"), 2, "--dry-run and --wait are mutually exclusive."),
    ):
        done = board.run("hold", "CPU", *words)
        assert (done.returncode, done.stdout, message in done.stderr) == (code, "", True), done.stderr
    assert board.run("hold", "H200").returncode == 2
    with_settings(board, runners={"per_user": 0})
    done = board.run("submit", board.kernel(), "--gpu", "CPU", "--hold", "5m")
    assert (done.returncode, "turn holding off: `runners.per_user` is 0." in done.stderr) == (5, True)
    assert board.json("runs") == []


def test_several_runners_are_told_apart(board: BoardFiles) -> None:
    with_settings(board, runners={"per_user": 2})
    assert board.run("hold", "CPU", "--wait").returncode == 0
    waiting = board.run("hold", "H100", "--wait", "--timeout", "0")
    assert (waiting.returncode, "runner 2 has no H100 after 0 s" in waiting.stderr) == (4, True)
    third = board.run("hold", "CPU")
    assert (third.returncode, "and the limit of this board is 2 at a time" in third.stderr) == (5, True)
    assert completed(board, "release") == ["2", "1", "H100", "CPU"]
    assert completed(board, "hold") == ["CPU", "H100"]
    unnamed = board.run("release")
    assert (unnamed.returncode, unnamed.stdout) == (2, "")
    assert "you have several runners: 1 (CPU), 2 (H100)." in unnamed.stderr
    assert board.run("release", "A100").stderr.startswith('error: you hold no GPU "A100".')
    by_name = board.run("release", "h100", "9")
    assert by_name.stdout.startswith("Runner 2")
    assert (by_name.returncode, "there is no runner 9" in by_name.stderr) == (2, True)
    awaited(lambda: has_ended(board, 2))
    (ended,) = [each for each in board.json("admin", "log") if each["action"] == "end"]
    assert ended["subject"] == "H100"
    assert [runner["gpu"] for runner in board.json("release", "1")] == ["CPU"]
