"""The container in which a whole job is judged: what its batch script asks for, and what becomes of the job.

Apptainer and Enroot are played by programs that take their options and make namespaces by themselves.
"""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpc_board.model.gpu import Cluster, ContainerRuntime, Device, Gpu, JobContainer
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder
from tests.harness.containers import needs_containers, play
from tests.harness.evaluations import REFERENCE, RIGHT, a_task, await_step, make_job_folder, result_in
from tests.harness.harness_file import edited
from tests.harness.runners import RunnerFolder
from tests.harness.test_runner import KILLS_ITS_RUNNER, WITHOUT_LANDLOCK

SETTING = "gpus.CPU.container"
PLAYED = [ContainerRuntime.APPTAINER, ContainerRuntime.ENROOT]

LOOKS_AROUND = (
    REFERENCE
    + """
import os
from pathlib import Path

def made_here(size, seed, make=generate_input):
    data = Path(os.environ["DATA"])
    assert (data / "values").read_text() == "given"
    assert not (data.parent / "elsewhere").exists()
    assert os.environ["GREETING"] == "of the settings"
    assert "CUDA_HOME" not in os.environ
    return make(size, seed)

generate_input = made_here
"""
)
"""A task whose judge, which sees more than a kernel does, looks at what is around it."""


@dataclass
class Site:
    """A node on which a program plays `runtime`, with a folder that the settings mount and one that they don't."""

    folder: Path
    runtime: ContainerRuntime
    python: str = sys.executable
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("data", "elsewhere", "scratch"):
            (self.folder / name).mkdir()
        (self.folder / "data" / "values").write_text("given")
        (self.folder / "kernels").touch()
        self.programs = play(self.runtime, self.folder / "bin")

    @property
    def image(self) -> str:
        return str(self.folder / "kernels") if self.runtime is ContainerRuntime.APPTAINER else "kernels"

    @property
    def gpu(self) -> Gpu:
        data = str(self.folder / "data")
        return Gpu(
            "CPU",
            Cluster("here", "local"),
            Device.CPU,
            container=JobContainer(self.runtime, self.image, (data,), SETTING),
            python=self.python,
            env={"GREETING": "of the settings", "DATA": data, **self.environ},
        )

    def job(self, source: str = RIGHT, task: Task | None = None) -> Path:
        return make_job_folder(self.folder / "board", source, task or a_task(LOOKS_AROUND), Mode.TEST, gpu=self.gpu)

    def shell(self, job: Path, **environ: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", job_folder.SCRIPT],
            cwd=job,
            env={
                "PATH": f"{self.programs}:/usr/bin:/bin",
                "TMPDIR": str(self.folder / "scratch"),
                "SLURM_JOB_ID": "42",
                "CUDA_HOME": "/of/the/node",
                **environ,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def printed(self, job: Path) -> list[str]:
        """Return the output of the job until it has ended without a result."""
        shell = self.shell(job)
        output, _ = shell.communicate(timeout=120)
        assert shell.returncode == 1
        assert not (job / job_folder.RESULT).exists()
        return output.splitlines()


@needs_containers
@pytest.mark.parametrize("runtime", PLAYED)
def test_a_kernel_is_judged_where_only_the_job_the_scratch_folder_and_mounts_are(
    tmp_path: Path, runtime: ContainerRuntime
) -> None:
    site = Site(tmp_path, runtime)
    job = site.job()
    shell = site.shell(job)
    output, _ = shell.communicate(timeout=240)
    assert shell.returncode == 0, output
    result = result_in(job)
    assert result.verdict is Verdict.PASS, f"{result.message}\n{output}"
    assert result.provenance["container"] == f"{runtime}, {site.image}"
    assert result.job_id == "42"
    assert not list((tmp_path / "scratch").iterdir())


@needs_containers
@pytest.mark.parametrize("runtime", PLAYED)
def test_a_container_finds_the_judge_where_a_link_leads_to_the_job_folders(
    tmp_path: Path, runtime: ContainerRuntime
) -> None:
    (tmp_path / "roomy" / "runs").mkdir(parents=True)
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "runs").symlink_to(tmp_path / "roomy" / "runs")
    site = Site(tmp_path, runtime)
    job = site.job()
    shell = site.shell(job, PWD=str(job))
    output, _ = shell.communicate(timeout=240)
    assert shell.returncode == 0, output
    assert result_in(job).verdict is Verdict.PASS


@needs_containers
@pytest.mark.parametrize("runtime", PLAYED)
def test_a_runner_in_a_container_judges_runs_in_the_job_folders_beside_its_own(
    tmp_path: Path, runtime: ContainerRuntime
) -> None:
    site = Site(tmp_path, runtime)
    runner = RunnerFolder(tmp_path / "board", gpu=site.gpu)
    jobs = [runner.add(RIGHT, a_task(LOOKS_AROUND)) for _ in range(2)]
    shell = site.shell(runner.folder)
    output, _ = shell.communicate(timeout=240)
    assert shell.returncode == 0, output
    for place, job in enumerate(jobs, 1):
        result = result_in(job)
        assert result.verdict is Verdict.PASS, f"{result.message}\n{output}"
        assert (result.provenance["container"], result.provenance["runner_place"]) == (
            f"{runtime}, {site.image}",
            place,
        )
    assert runner.state().retired == "it was idle for 0 s"
    assert not list((tmp_path / "scratch").iterdir())


@needs_containers
@pytest.mark.parametrize("runtime", PLAYED)
def test_a_killed_runner_in_a_container_leaves_a_result_in_the_folder_of_its_run(
    tmp_path: Path, runtime: ContainerRuntime
) -> None:
    site = Site(tmp_path, runtime)
    runner = RunnerFolder(tmp_path / "board", gpu=site.gpu)
    job = runner.add(KILLS_ITS_RUNNER, a_task(LOOKS_AROUND), harness=edited((WITHOUT_LANDLOCK,)))
    shell = site.shell(runner.folder)
    output, _ = shell.communicate(timeout=240)
    assert shell.returncode == 128 + signal.SIGKILL, output
    assert result_in(job).verdict is Verdict.CRASH, output
    assert not list((tmp_path / "scratch").iterdir())


def test_a_judge_that_is_gone_is_told_by_the_last_line(tmp_path: Path) -> None:
    site = Site(tmp_path, ContainerRuntime.APPTAINER)
    job = site.job()
    shutil.rmtree(tmp_path / "board" / "harness")
    assert site.printed(job)[-1] == f"hpc-board: {SETTING}: no judge lies beside the job folders"


@needs_containers
@pytest.mark.parametrize("runtime", PLAYED)
def test_a_job_in_a_container_that_is_told_to_end_says_where_it_stood(
    tmp_path: Path, runtime: ContainerRuntime
) -> None:
    site = Site(tmp_path, runtime)
    hangs = "import time\ndef custom_kernel(data):\n    time.sleep(60)\n"
    job = site.job(hangs, a_task(limits={"first_call_seconds": 60, "test_call_seconds": 60, "call_seconds": 60}))
    shell = site.shell(job)
    try:
        await_step(job, "test", 1)
        os.kill(shell.pid, signal.SIGTERM)
        shell.communicate(timeout=60)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    result = result_in(job)
    assert result.interrupted, result.message
    assert "while test case 1 of 3 ran" in result.message
    assert not list((tmp_path / "scratch").iterdir())


@needs_containers
@pytest.mark.parametrize("runtime", PLAYED)
def test_an_image_without_python_is_told_by_the_last_line(tmp_path: Path, runtime: ContainerRuntime) -> None:
    site = Site(tmp_path, runtime, python="/opt/image/python3")
    runner = RunnerFolder(tmp_path / "board", gpu=site.gpu)
    runner.add()
    for folder in (site.job(), runner.folder):
        assert site.printed(folder)[-1] == (
            f"hpc-board: {SETTING}: no judge came up in {site.image}; "
            "it takes Python 3.10 or newer as /opt/image/python3"
        )


@pytest.mark.parametrize("runtime", PLAYED)
def test_a_node_without_the_program_is_told_so(tmp_path: Path, runtime: ContainerRuntime) -> None:
    site = Site(tmp_path, runtime)
    (site.programs / runtime).unlink()
    assert site.printed(site.job()) == [f"hpc-board: {SETTING}: this node has no {runtime} in PATH"]


def test_a_node_whose_srun_has_no_pyxis_is_told_so(tmp_path: Path) -> None:
    site = Site(tmp_path, ContainerRuntime.PYXIS)
    (site.programs / "srun").write_text("#!/bin/sh\necho '  --comment=name'\n")
    assert site.printed(site.job()) == [f"hpc-board: {SETTING}: srun on this node has no pyxis"]


def test_a_node_without_the_image_is_told_so(tmp_path: Path) -> None:
    site = Site(tmp_path, ContainerRuntime.APPTAINER)
    (tmp_path / "kernels").unlink()
    assert site.printed(site.job()) == [f"hpc-board: {SETTING}: this node has no image {tmp_path}/kernels"]


@pytest.mark.parametrize("name", ["a b", "a:b", "a,b", "a\\b"])
def test_a_folder_that_no_option_can_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    site = Site(tmp_path / name, ContainerRuntime.APPTAINER)
    (line,) = site.printed(site.job())
    assert line.startswith(f"hpc-board: {SETTING}: no space, colon, comma or backslash may be in {tmp_path}/{name}/")


@pytest.mark.parametrize(("device", "option"), [(Device.CUDA, " --nv\n"), (Device.HIP, " --rocm\n")])
def test_apptainer_is_told_whose_gpus_there_are(device: Device, option: str) -> None:
    gpu = Gpu("X", Cluster("here", "local"), device, container=JobContainer(ContainerRuntime.APPTAINER, "/k.sif"))
    assert option in job_folder.probe_script(gpu).text


def test_what_is_compiled_in_an_image_is_not_kept(tmp_path: Path) -> None:
    job = Site(tmp_path, ContainerRuntime.ENROOT).job()
    assert '"build_cache": ""' in (job / job_folder.FACTS).read_text()
