"""What a board costs its cluster, counted by the controller itself."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.boards import board_files
from tests.slurm.lab import SlurmLab

pytestmark = pytest.mark.slurm

CLIENTS = 20


def test_the_controller_counts_what_it_is_asked(slurm_lab: SlurmLab) -> None:
    slurm_lab.forget_rpcs()
    for _ in range(3):
        slurm_lab.run("squeue")
    assert slurm_lab.rpcs()["REQUEST_JOB_INFO"] == 3
    slurm_lab.forget_rpcs()
    assert "REQUEST_JOB_INFO" not in slurm_lab.rpcs()


def test_clients_that_ask_what_is_free_at_the_same_time_ask_slurm_once(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    board = board_files(tmp_path / "board", slurm=True)
    board.settings.write_text(board.settings.read_text().replace("poll_seconds: 1", "poll_seconds: 600"))
    slurm_lab.forget_rpcs()
    clients = [
        subprocess.Popen(
            board.command("gpus", "--json"), env=os.environ | slurm_lab.environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(CLIENTS)
    ]
    told = [json.loads(client.communicate()[0]) for client in clients]
    assert [gpu["total"] for gpu in told[0]] == [2, 2, 4, 2]
    assert all(gpus == told[0] for gpus in told)
    asked = slurm_lab.rpcs()
    assert (asked["REQUEST_NODE_INFO"], asked["REQUEST_JOB_INFO"]) == (1, 1)
