"""A job that is judged in a real Apptainer, on the Slurm that `make slurm-chroot` brings."""

import pytest
import yaml

from tests.conftest import short_folder
from tests.e2e.boards import RIGHT, WRONG, board_files
from tests.slurm import chroot
from tests.slurm.lab import SlurmLab

pytestmark = pytest.mark.slurm


def test_a_job_is_judged_in_a_real_apptainer() -> None:
    if hindrance := chroot.hindrance():
        pytest.skip(hindrance)
    if not (chroot.folder() / chroot.IMAGE.lstrip("/")).exists():
        pytest.skip("the folder of the newer Slurm has no Apptainer: `make slurm-chroot` adds it")
    with short_folder() as folder, SlurmLab(folder / "lab", root=chroot.folder()) as lab:
        board = board_files(folder / "board", slurm=True, environ=lab.environment)
        settings = yaml.safe_load(board.settings.read_text())
        container = {"runtime": "apptainer", "image": chroot.IMAGE}
        settings["gpus"]["H100"] |= {"python": "/usr/bin/python3", "container": container}
        board.settings.write_text(yaml.safe_dump(settings))
        right = board.json("submit", board.kernel(RIGHT), "--gpu", "H100", "--mode", "ranked", "--wait")["runs"][0]
        wrong = board.json("submit", board.kernel(WRONG), "--gpu", "H100", "--mode", "test", "--wait")["runs"][0]
        told = board.json("run", str(right["id"]))
        log = board.run("run", str(right["id"])).stdout + board.run("run", str(right["id"]), "--log").stdout
    assert (right["verdict"], right["rank"]) == ("pass", 1), log
    assert wrong["verdict"] == "wrong_value"
    assert told["provenance"]["container"] == f"apptainer, {chroot.IMAGE}"
    # The image has another Python than the node around it.
    assert told["provenance"]["python"].startswith("3.13")
    assert told["usage"]["memory_peak_bytes"] > 2**20
