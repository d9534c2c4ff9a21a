"""A task with an eval of its own, from the command line to its board."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.boards import BoardFiles, board_files
from tests.harness.evaluations import REFERENCE
from tests.harness.evaluations import RIGHT as BODY
from tests.harness.own_evals import EVAL
from tests.slurm.lab import SlurmLab

RIGHT = f"#!POPCORN leaderboard own\n{BODY}"
DOCUMENT: dict[str, Any] = {
    "lang": "py",
    "description": "Double every number.",
    "files": [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "reference.py", "source": "reference.py"},
        {"name": "eval.py", "source": "../eval.py"},
    ],
    "config": {"main": "eval.py"},
    "tests": [{"size": 3, "seed": 1}, {"size": 10, "seed": 2}],
    "benchmarks": [{"size": 100, "seed": 3}, {"size": 200, "seed": 4}],
    "ranking_by": "geom",
    "hpc_board": {"harness": "task"},
}


@pytest.fixture
def board(tmp_path: Path) -> BoardFiles:
    found = board_files(tmp_path, slurm=False)
    folder = tmp_path / "tasks" / "own"
    folder.mkdir()
    (folder / "task.yml").write_text(yaml.safe_dump(DOCUMENT, sort_keys=False))
    (folder / "reference.py").write_text(REFERENCE)
    (tmp_path / "tasks" / "eval.py").write_text(EVAL)
    return found


def test_a_passing_run_is_ranked_and_the_board_says_who_judged_it(board: BoardFiles) -> None:
    sent = board.json("submit", board.kernel(RIGHT), "--mode", "ranked", "--wait")
    (run,) = sent["runs"]
    assert (run["verdict"], run["rank"]) == ("pass", 1)
    shown = board.run("show", "own")
    assert "self-run, task's own harness" in shown.stdout
    (row,) = board.json("show", "own")["boards"][0]["rows"]
    assert (row["harness"], row["trust"]) == ("task", "self-run")
    report = board.run("run", str(run["id"])).stdout
    assert "MEDIAN" not in report
    assert "MEAN" in report
    for mode in ("test", "benchmark", "profile"):
        done = board.run("submit", board.kernel(RIGHT), "--mode", mode, "--wait")
        assert done.returncode == 0, done.stdout
        assert "evaluated by the task's own harness" in done.stdout


RANKS = """
import os
import socket
import sys

assert os.environ["POPCORN_GPUS"] == os.environ["WORLD_SIZE"] == "2"
server = socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
client = socket.create_connection(server.getsockname())
phase, word = ("test", "status: pass") if sys.argv[1] == "test" else ("benchmark", "mean: 1000000")
server.accept()[0].sendall(f"{phase}.0.{word}\\ncheck: pass\\n".encode())
os.write(int(os.environ["POPCORN_FD"]), client.recv(100))
"""


@pytest.mark.slurm
def test_ranks_get_their_gpus_in_one_allocation_of_a_real_slurm(tmp_path: Path, slurm_lab: SlurmLab) -> None:
    board = board_files(tmp_path, slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]})
    folder = tmp_path / "tasks" / "ranks"
    folder.mkdir()
    case = {"world_size": 2, "size": 10}
    document = {**DOCUMENT, "multi_gpu": True, "tests": [case], "benchmarks": [case], "files": DOCUMENT["files"][::2]}
    (folder / "task.yml").write_text(yaml.safe_dump(document, sort_keys=False))
    (tmp_path / "tasks" / "eval.py").write_text(RANKS)
    kernel = board.kernel(RIGHT.replace("leaderboard own", "leaderboard ranks"))
    preview = board.run("submit", kernel, "--gpu", "H100", "--mode", "ranked", "--dry-run")
    assert "#SBATCH --gres=gpu:h100:2\n" in preview.stdout, preview.stderr
    sent = board.json("submit", kernel, "--gpu", "H100", "--mode", "ranked", "--wait")
    (run,) = sent["runs"]
    assert (run["verdict"], run["rank"], run["score_s"]) == ("pass", 1, pytest.approx(0.001)), run
