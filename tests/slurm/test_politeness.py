"""The cost of a board to its cluster, counted by the controller itself."""

import json
import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hpc_board.model.gpu import Cluster
from hpc_board.schedulers import JobKey
from hpc_board.schedulers.slurm.client import SlurmScheduler
from hpc_board.transport import Completed
from hpc_board.transport.this_host import ThisHost
from tests.e2e.boards import HANGING, board_files
from tests.slurm.lab import SlurmLab

pytestmark = pytest.mark.slurm

CLIENTS = 8
_FROM_NODES = ("MESSAGE_EPILOG_COMPLETE", "REQUEST_COMPLETE_BATCH_SCRIPT", "MESSAGE_NODE_REGISTRATION_STATUS")


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


def test_twenty_runs_are_cancelled_with_one_question_about_them_all(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    board = board_files(tmp_path / "board", slurm=True, environ=slurm_lab.environment)
    kernels = [board.kernel(f"{HANGING}# {number}\n", f"k{number}.py") for number in range(20)]
    numbers = [str(each["runs"][0]["id"]) for each in board.json("submit", *kernels, "--gpu", "H100")]
    slurm_lab.forget_rpcs()
    done = board.run("cancel", *numbers)
    asked = slurm_lab.rpcs()
    assert done.stdout.splitlines() == [f"Run {number}: cancel requested." for number in numbers]
    assert (asked.get("REQUEST_JOB_INFO", 0) + asked.get("REQUEST_JOB_USER_INFO", 0), asked["REQUEST_KILL_JOB"]) == (
        1,
        1,
    )
    assert sum(count for name, count in asked.items() if name not in _FROM_NODES) <= 12, asked
    assert {board.ended(int(number))["state"] for number in numbers} == {"cancelled"}


class _AsNobody(ThisHost):
    """The machine on which the commands run as an ordinary account: squeue takes root for no user at all."""

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        return super().run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv], **options)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_poll_asks_for_the_jobs_of_the_own_account_alone(slurm_lab: SlurmLab) -> None:
    cluster = Cluster("main", "slurm")
    scheduler = SlurmScheduler(cluster, _AsNobody(slurm_lab.environment))
    slurm_lab.forget_rpcs()
    scheduler.poll([JobKey("hb-1", "999999", datetime.now(UTC))])
    asked = slurm_lab.rpcs()
    assert asked["REQUEST_JOB_USER_INFO"] == 1
    assert "REQUEST_JOB_INFO" not in asked
