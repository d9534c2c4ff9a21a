"""A job that asks a served board: on its node there is the cluster's munge, and no way to the service's socket."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hpc_board.domain.service_address import MungeListener
from hpc_board.settings import load
from tests.conftest import short_folder
from tests.e2e.boards import board_files
from tests.service import serving
from tests.slurm.lab import SlurmLab, free_ports
from tests.slurm.sshd import USER
from tests.unit.recorded import REPOSITORY

pytestmark = pytest.mark.slurm


def test_a_job_reaches_the_board_by_the_munge_of_its_cluster(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    munge_socket = slurm_lab.folder / "munge.sock"
    (port,) = free_ports(1)
    settings = load(board_files(tmp_path / "board", slurm=False).settings, {"XDG_STATE_HOME": str(tmp_path)})
    listener = MungeListener("127.0.0.1", port, str(munge_socket))
    environ = {
        **os.environ,
        **slurm_lab.environment,
        "PYTHONPATH": str(REPOSITORY),
        "HPC_BOARD_SERVICE": f"munge://{USER}@127.0.0.1:{port}?socket={munge_socket}",
    }
    command = ["srun", "--partition=cpu", sys.executable, "-m", "hpc_board", "list", "--json"]
    with short_folder() as folder, serving(msgspec.structs.replace(settings, munge=listener), folder / "board.sock"):
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
        )
    assert done.returncode == 0, done.stderr
    assert "double" in [each["name"] for each in json.loads(done.stdout)]
