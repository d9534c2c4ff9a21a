"""A template of the settings that cannot be rendered is an error of the settings, whatever goes wrong in it."""

from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.errors import InputError
from hpc_board.model.gpu import Cluster, ContainerRuntime, Device, Gpu, JobContainer, Sandbox, SandboxRuntime
from hpc_board.model.task import Language, Mode, Task, TaskFile, Timeouts
from hpc_board.runs import job_folder
from hpc_board.schedulers.slurm import Request, RequestStyle, with_options
from tests.tui.fake_board import run
from tests.values import replace

TASK = Task("vector_add", Language.PY, "Add two vectors.", (TaskFile("submission.py", None),))
CPU = Gpu("CPU", Cluster("here", "slurm"), Device.CPU, "cpu")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "recursion"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "recursion"),
        ("{{ 'x' * 10**18 }}", "MemoryError"),
        ("{% for a in task %}" * 30 + "{% endfor %}" * 30, "nested blocks"),
        ("{{ nobody }}", "undefined"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ task.foo() }}", "foo"),
        ("{% if %}", "Expected"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_named(tmp_path: Path, template: str, words: str) -> None:
    path = tmp_path / "job.sh.j2"
    path.write_text(template)
    with pytest.raises(InputError, match=words) as refusal:
        job_folder.script(TASK, replace(CPU, template=str(path)), Mode.TEST)
    assert refusal.value.message.startswith(f"{path}: the batch script template cannot be rendered: ")
    assert "gpus.CPU.template" in refusal.value.hint


def test_a_template_that_leaves_the_container_out_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.sh.j2"
    path.write_text("{{ python }} -I -B {{ harness }} supervise {{ facts }}")
    contained = JobContainer(ContainerRuntime.APPTAINER, "/k.sif", (), "gpus.CPU.container")
    gpu = replace(CPU, template=str(path), container=contained)
    with pytest.raises(InputError, match=r"does not start the container that gpus\.CPU\.container requires"):
        job_folder.script(TASK, gpu, Mode.TEST)
    path.write_text('{% include "container.sh.j2" %}\n"${container[@]}" ' + path.read_text())
    assert "apptainer --silent exec" in job_folder.script(TASK, gpu, Mode.TEST).text


def test_a_template_that_starts_no_step_is_refused_where_the_settings_want_one(tmp_path: Path) -> None:
    path = tmp_path / "job.sh.j2"
    path.write_text("{{ python }} -I -B {{ harness }} supervise {{ facts }}")
    gpu = with_options(Gpu("H100", Cluster("main", "slurm"), Device.CUDA, "h100", template=str(path)), gpu_freq="high")
    with pytest.raises(InputError, match=r"does not start the judge by `srun`, as gpus\.H100 requires"):
        job_folder.script(TASK, gpu, Mode.TEST)
    path.write_text("{{ step }} " + path.read_text())
    assert "--gpu-freq=high" in job_folder.script(TASK, gpu, Mode.TEST).text


SCRIPT = """#!/bin/bash -l
#SBATCH --partition=gpu
# a comment

#SBATCH --comment="two words"
  # another
#BB create_persistent
set -u
#SBATCH --hold
"""


def test_an_array_repeats_the_options_of_its_runs_and_runs_their_script_by_its_own_interpreter() -> None:
    array = job_folder.array_script(job_folder.Script(SCRIPT, {"partition": "gpu"}, 60), CPU)
    assert array is not None
    lines = array.text.splitlines()
    assert lines[:4] == [
        "#!/bin/bash",
        "#SBATCH --partition=gpu",
        '#SBATCH --comment="two words"',
        "#BB create_persistent",
    ]
    assert "--hold" not in array.text
    assert lines[-2:] == ['cd "$PWD.$SLURM_ARRAY_TASK_ID" || exit', "exec /bin/bash -l ./job.sh"]


@pytest.mark.parametrize(
    ("shebang", "interpreter"),
    [
        ("#!/bin/sh", "/bin/sh"),
        ("#! /usr/bin/env bash  ", "/usr/bin/env bash"),
        ("#!/usr/bin/env -S bash -l", "/usr/bin/env '-S bash -l'"),
        ("#!/bin/sh $(id);", "/bin/sh '$(id);'"),
    ],
)
def test_an_interpreter_is_called_as_the_kernel_calls_it(shebang: str, interpreter: str) -> None:
    array = job_folder.array_script(job_folder.Script(f"{shebang}\ntrue\n", {}, 60), CPU)
    assert array is not None
    assert array.text.endswith(f"exec {interpreter} ./job.sh\n")


@pytest.mark.parametrize("text", ["", "true\n", "# /bin/sh\n", "#!\n"])
def test_a_script_without_an_interpreter_is_no_task_of_an_array(text: str) -> None:
    assert job_folder.array_script(job_folder.Script(text, {}, 60), CPU) is None


def test_scripts_that_tell_slurm_the_same_go_together_whatever_their_tasks() -> None:
    slurm = replace(CPU, cluster=Cluster("main", "slurm"), time_limit_seconds=600)
    other = replace(TASK, name="other")
    scripts = [job_folder.script(task, slurm, Mode.TEST) for task in (TASK, other)]
    assert scripts[0].text != scripts[1].text
    assert job_folder.array_script(scripts[0], slurm) == job_folder.array_script(scripts[1], slurm)
    longer = job_folder.script(TASK, replace(slurm, time_limit_seconds=1200), Mode.TEST)
    assert job_folder.array_script(longer, slurm) != job_folder.array_script(scripts[0], slurm)


@pytest.mark.parametrize(("mode", "wanted"), [(Mode.RANKED, "judge"), (Mode.BENCHMARK, "")])
def test_the_judges_clock_is_demanded_of_ranked_runs(mode: Mode, wanted: str) -> None:
    gpu = replace(CPU, minimum_clock="judge")
    assert job_folder.facts(run(1, RunState.CREATED, mode=mode), TASK, gpu, code=b"x")["minimum_clock"] == wanted


@pytest.mark.parametrize(
    ("mode", "trust", "wanted"),
    [(Mode.RANKED, "self-run", "S3"), (Mode.TEST, "self-run", ""), (Mode.TEST, "verified", "S3")],
)
def test_isolation_is_demanded_of_ranked_runs_and_of_those_under_another_account(
    mode: Mode, trust: str, wanted: str
) -> None:
    gpu = replace(CPU, minimum_isolation="S3")
    facts = job_folder.facts(replace(run(1, RunState.CREATED, mode=mode), trust=trust), TASK, gpu, code=b"x")
    assert facts["minimum_isolation"] == wanted


SLURM_GPU = with_options(
    Gpu("H100", Cluster("main", "slurm"), Device.CUDA, "h100", modules=("cuda",), env={"A": "1"}),
    request=Request(RequestStyle.GRES, "gpu:h100:1"),
    qos="normal",
)
SEVERAL = replace(TASK, multi_gpu=True, tests=({"world_size": 2},))


@pytest.mark.parametrize("container", [None, *ContainerRuntime])
def test_one_runner_of_an_entry_may_judge_runs_of_any_task_and_mode_and_of_any_time_limit(
    container: ContainerRuntime | None,
) -> None:
    gpu = replace(SLURM_GPU, container=container and JobContainer(container, "/k.sif", (), "gpus.H100.container"))
    longer = replace(TASK, name="other", timeouts=Timeouts(6000, 6000, 6000))
    scripts = [job_folder.script(task, gpu, mode) for task in (TASK, longer) for mode in Mode]
    assert len({script.text for script in scripts}) == len(scripts)
    found = {job_folder.request(script, gpu) for script in scripts}
    assert found == {job_folder.runner_request(gpu)}


@pytest.mark.parametrize(
    "other",
    [
        with_options(SLURM_GPU, account="kernels"),
        with_options(SLURM_GPU, qos="high"),
        with_options(SLURM_GPU, more_constraint="ib"),
        with_options(SLURM_GPU, exclusive=True),
        with_options(SLURM_GPU, sbatch=("--comment=mine",)),
        replace(SLURM_GPU, partition="other"),
        replace(SLURM_GPU, modules=("cuda", "gcc")),
        replace(SLURM_GPU, env={"A": "2"}),
        replace(SLURM_GPU, env={}),
        replace(SLURM_GPU, python="/opt/python"),
        replace(SLURM_GPU, arch="sm_90a"),
        replace(SLURM_GPU, sandbox=Sandbox(SandboxRuntime.BUBBLEWRAP)),
        *(replace(SLURM_GPU, container=JobContainer(runtime, "/k.sif")) for runtime in ContainerRuntime),
        replace(SLURM_GPU, container=JobContainer(ContainerRuntime.ENROOT, "/other.sif")),
    ],
)
def test_a_runner_judges_no_run_that_asks_for_something_else(other: Gpu) -> None:
    assert job_folder.runner_request(other) != job_folder.runner_request(SLURM_GPU)


def test_a_runner_of_one_gpu_judges_no_run_of_several() -> None:
    assert job_folder.request(job_folder.script(SEVERAL, SLURM_GPU, Mode.TEST), SLURM_GPU) != (
        job_folder.runner_request(SLURM_GPU)
    )


def test_a_template_whose_commands_name_the_task_shares_no_runner(tmp_path: Path) -> None:
    path = tmp_path / "job.sh.j2"
    path.write_text("#!/bin/bash\nexport TASK={{ task }}\n{{ python }} -I -B {{ harness }} supervise {{ facts }}\n")
    gpu = replace(SLURM_GPU, template=str(path))
    asked = {job_folder.request(job_folder.script(replace(TASK, name=name), gpu, Mode.TEST), gpu) for name in "ab"}
    assert len(asked | {job_folder.runner_request(gpu)}) == 3


def test_the_script_of_a_runner_has_its_time_limit() -> None:
    script = job_folder.runner_script(SLURM_GPU, 3600)
    assert script.options["time"] == "01:00:00"
    assert script.time_limit_seconds == 3600
    assert "\n# hpc-board: any task on H100, runner\n" in script.text


def test_the_scheduler_puts_no_runner_back_into_its_queue() -> None:
    gpu = with_options(replace(SLURM_GPU, retries=1), sbatch=("--requeue",))
    assert "requeue" in job_folder.script(TASK, gpu, Mode.TEST).options
    assert "no-requeue" in job_folder.runner_script(gpu, 3600).options
    assert job_folder.request(job_folder.script(TASK, gpu, Mode.TEST), gpu) == job_folder.runner_request(gpu)
