"""The way of one file, counted: from `submit` to sbatch, and from the result of its job to the standings.

docs/architecture.md lists the stations. The bounds are a little above what was reached, so that no station comes back
unnoticed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpc_board.model.result import Verdict
from tests.e2e.boards import BoardFiles, board_files
from tests.slurm.lab import SlurmLab
from tests.waiting import awaited

pytestmark = pytest.mark.slurm

SUBMIT = {"modules": 88, "functions": 575, "calls": 2420, "transactions": 12, "renderings": 1, "commands": 1}
COLLECT = {"modules": 69, "functions": 385, "calls": 1870, "transactions": 13, "renderings": 0, "commands": 0}


def entered(board: BoardFiles, *words: str | Path) -> dict[str, int]:
    """Run a command, and return the numbers of what it entered."""
    report = board.folder / "report.json"
    subprocess.run(
        [sys.executable, "-m", "tests.slurm.traced_client", report, *board.words(*words)],
        env={**os.environ, **board.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    found: dict[str, int] = json.loads(report.read_text())
    return found


def test_the_stations_of_a_file_are_no_more_than_were_reached(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    board = board_files(tmp_path / "board", slurm=True, environ=slurm_lab.environment)
    kernel = board.kernel()
    # The first submission makes the database.
    board.run("submit", kernel, "--gpu", "CPU")
    found = entered(board, "submit", kernel, "--gpu", "CPU", "--mode", "ranked")
    assert {name: found[name] for name in SUBMIT if found[name] > SUBMIT[name]} == {}

    runs = tmp_path / "board" / "board" / "runs"
    awaited(lambda: all((runs / number / "result.json").exists() for number in ("1", "2")))
    found = entered(board, "poll")
    assert board.json("run", "2")["verdict"] == Verdict.PASS
    assert {name: found[name] for name in COLLECT if found[name] > COLLECT[name]} == {}
