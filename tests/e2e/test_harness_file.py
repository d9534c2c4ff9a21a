"""One harness for all jobs of a board: on the embedded scheduler and on a real Slurm."""

from pathlib import Path

import pytest

from tests.e2e.boards import BoardFiles, board_files
from tests.slurm.lab import SlurmLab


def harness(board: BoardFiles) -> Path:
    """Return the one harness file of the board."""
    (file,) = (board.folder / "board" / "harness").iterdir()
    return file


def test_jobs_refuse_a_harness_that_was_exchanged_until_it_is_removed(tmp_path: Path) -> None:
    board = board_files(tmp_path, slurm=False)
    first = board.json("submit", board.kernel(), "--mode", "test", "--wait")["runs"][0]
    assert first["verdict"] == "pass"
    right = harness(board).read_bytes()
    assert first["provenance"]["harness_sha256"] == harness(board).stem
    harness(board).write_bytes(right[::-1])

    refused = board.run("submit", board.kernel(), "--mode", "test", "--wait")
    assert refused.returncode == 3, refused.stderr
    run = board.json("run", "2")
    assert (run["state"], run["verdict"]) == ("error", None)
    words = " ".join(board.run("run", "2").stdout.split())
    assert "remove this file and submit again, it is not the judge" in words
    assert not (board.folder / "board" / "runs" / "2" / "harness.pyz").exists()

    harness(board).unlink()
    assert board.run("submit", board.kernel(), "--mode", "test", "--wait").returncode == 0
    assert harness(board).read_bytes() == right


@pytest.mark.slurm
def test_an_array_and_a_single_run_share_one_on_slurm(slurm_lab: SlurmLab, tmp_path: Path) -> None:
    environ = {"SLURM_CONF": slurm_lab.environment["SLURM_CONF"]}
    board = board_files(tmp_path, slurm=True, environ=environ)
    kernels = [board.kernel(name=f"k{number}.py") for number in range(3)]
    for files in (kernels, kernels[:1]):
        sent = board.json("submit", *files, "--gpu", "H100", "--mode", "test", "--wait")
        runs = [run for each in sent for run in each["runs"]] if isinstance(sent, list) else sent["runs"]
        assert {run["verdict"] for run in runs} == {"pass"}
        assert {run["provenance"]["harness_sha256"] for run in runs} == {harness(board).stem}
    folders = list((board.folder / "board" / "runs").iterdir())
    assert len(folders) == 5, "four runs and the array's own"
    assert not any((folder / "harness.pyz").exists() for folder in folders)
