"""An agent on a real Slurm: ten steps by the tools of `hpc-board mcp`, at a held node."""

import os
from pathlib import Path

import pytest

from tests.agents import check_tuned, tuned, write_quick_task
from tests.conftest import skip_without
from tests.e2e.boards import board_files
from tests.slurm.lab import SlurmLab

pytestmark = pytest.mark.slurm


def test_an_agent_tunes_a_bundled_kernel_in_ten_steps_on_slurm(tmp_path: Path, slurm_lab: SlurmLab) -> None:
    skip_without("numpy")
    files = board_files(tmp_path, slurm=True, environ={"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]})
    write_quick_task(tmp_path / "tasks")
    client, runs = tuned({**os.environ, **files.environ}, "--config", str(files.settings), gpu="CPU")
    check_tuned(client, runs)
