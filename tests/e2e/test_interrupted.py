"""Jobs that are ended while they run, on the embedded scheduler and a real Slurm: what they had come to is shown."""

import time
from pathlib import Path
from typing import Any

from hpc_board.domain.run import RunState
from hpc_board.report.run_words import state_text
from tests.e2e.boards import HANGING, BoardFiles, board_files

WORDS = "while test case 1 of 2 ran (size: 3; seed: 1) for "


def await_case(board: BoardFiles, run: int) -> None:
    path = board.folder / "board" / "runs" / str(run) / "progress.jsonl"
    deadline = time.monotonic() + 90
    while not (path.exists() and '"case": 1' in path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def check(board: BoardFiles, shown: dict[str, Any], state: str) -> None:
    assert (shown["state"], shown["verdict"], shown["score_s"], shown["rank"]) == (state, None, None, None)
    assert WORDS in shown["stopped"]
    assert "tests passed: 0 of 2" in shown["stopped"]
    assert shown["provenance"]["interrupted"] == "SIGTERM"
    text = " ".join(board.run("run", str(shown["id"])).stdout.split())
    assert WORDS in text
    assert f"Ended without a result: {state_text(RunState(state))}" in text


def test_a_cancelled_job_of_this_machine_says_where_it_stood(tmp_path: Path) -> None:
    board = board_files(tmp_path, slurm=False)
    (run,) = board.json("submit", board.kernel(HANGING), "--mode", "test")["runs"]
    await_case(board, run["id"])
    assert board.run("cancel", str(run["id"])).returncode == 0
    check(board, board.ended(run["id"]), "cancelled")


def test_a_job_of_this_machine_that_runs_into_its_time_limit_says_where_it_stood(tmp_path: Path) -> None:
    board = board_files(tmp_path, slurm=False)
    board.settings.write_text(
        board.settings.read_text().replace("cluster: here", "cluster: here\n    time: '00:00:10'")
    )
    slow = board.folder / "tasks/double/task.yml"
    slow.write_text(slow.read_text().replace("call_seconds: 3", "call_seconds: 100"))
    (run,) = board.json("submit", board.kernel(HANGING), "--mode", "test")["runs"]
    check(board, board.ended(run["id"]), "timeout")
