"""Jobs in containers of pyxis on a real Slurm: a program takes pyxis' options and calls Slurm's own srun."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hpc_board.model.gpu import ContainerRuntime
from hpc_board.model.result import Verdict
from hpc_board.settings import load
from tests.e2e.boards import HANGING, BoardFiles, board_files
from tests.harness.containers import needs_containers, play
from tests.harness.evaluations import result_in
from tests.harness.runners import RunnerFolder
from tests.slurm.lab import SlurmLab
from tests.waiting import awaited

pytestmark = [pytest.mark.slurm, needs_containers]


@pytest.fixture
def board(tmp_path: Path, slurm_lab: SlurmLab) -> BoardFiles:
    programs = play(ContainerRuntime.PYXIS, tmp_path / "bin")
    (tmp_path / "scratch").mkdir()
    environ = {"SLURM_CONF": slurm_lab.environment["SLURM_CONF"], "PATH": f"{programs}:{os.environ['PATH']}"}
    board = board_files(tmp_path, slurm=True, environ=environ)
    settings = yaml.safe_load(board.settings.read_text())
    settings["gpus"]["CPU"] |= {
        "container": {"runtime": "pyxis", "image": "kernels", "mounts": [str(tmp_path / "tasks")]},
        "cpus_per_task": 2,
        "env": {"TMPDIR": str(tmp_path / "scratch"), "GREETING": "of the settings"},
    }
    board.settings.write_text(yaml.safe_dump(settings))
    return board


def test_a_kernel_is_ranked_in_a_step_of_srun(board: BoardFiles) -> None:
    sent = board.json("submit", board.kernel(), "--gpu", "CPU", "--mode", "ranked", "--wait")
    run = board.json("run", str(sent["runs"][0]["id"]))
    assert (run["state"], run["verdict"]) == ("finished", "pass"), run
    assert run["provenance"]["container"] == "pyxis, kernels"
    assert run["job"]["node"] == "cpu-1"


def test_a_runner_judges_runs_in_the_job_folders_beside_its_own(board: BoardFiles) -> None:
    environ = {**os.environ, **board.environ}
    (gpu,) = (gpu for gpu in load(board.settings, environ).gpus if gpu.name == "CPU")
    runner = RunnerFolder(board.folder / "board", gpu=gpu)
    jobs = [runner.add(), runner.add()]
    command = ["sbatch", "--wait", "--chdir", str(runner.folder), str(runner.folder / "job.sh")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for place, job in enumerate(jobs, 1):
        result = result_in(job)
        assert result.verdict is Verdict.PASS, result.message
        assert (result.provenance["container"], result.provenance["runner_place"]) == ("pyxis, kernels", place)


@pytest.mark.parametrize("to_shell_alone", [False, True])
def test_a_step_that_is_told_to_end_still_says_where_it_stood(board: BoardFiles, to_shell_alone: bool) -> None:
    sent = board.json("submit", board.kernel(HANGING), "--gpu", "CPU", "--mode", "test")
    number = str(sent["runs"][0]["id"])
    # A job runs before its judge does, which has nothing to say when it is told to end by then.
    progress = board.folder / "board" / "runs" / number / "progress.jsonl"
    awaited(lambda: progress.is_file() and '"phase": "test"' in progress.read_text())
    how = ["--batch", "--signal=TERM"] if to_shell_alone else []
    subprocess.run(["scancel", *how, sent["runs"][0]["job"]["id"]], env={**os.environ, **board.environ}, check=True)
    run = board.ended(int(number))
    assert run["provenance"]["interrupted"] == "SIGTERM"
    assert not list((board.folder / "scratch").iterdir())


def test_an_image_is_proven_by_a_probe_job(board: BoardFiles) -> None:
    done = board.run("admin", "check", "CPU")
    assert done.returncode == 0, done.stdout
    assert "pyxis started kernels" in done.stdout
    settings = yaml.safe_load(board.settings.read_text())
    settings["gpus"]["CPU"]["python"] = "/opt/image/python3"
    board.settings.write_text(yaml.safe_dump(settings))
    done = board.run("admin", "check", "CPU")
    assert done.returncode == 3
    said = " ".join(done.stdout.split())
    assert "no judge came up in kernels; it takes Python 3.10 or newer as /opt/image/python3" in said
    assert "gpus.CPU.container" in said
