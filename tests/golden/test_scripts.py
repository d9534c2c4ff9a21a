"""Batch scripts with their sbatch commands, and job folders."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.golden.board import GoldenBoard
from tests.golden.files import FOLDER, Golden
from tests.golden.normal import normal
from tests.golden.tasks import FOR_SCRIPTS, course, lay_out, scan
from tests.values import replace

SETTINGS = """\
board: board
tasks: [tasks]
roles: {admins: [dean]}
clusters:
  main: {scheduler: slurm}
  far:
    scheduler: slurm
    ssh: {host: login2.far.org, user: alice}
    board_folder: /scratch/alice/hpc-board
  here: {scheduler: local}
gpus:
  H100: {cluster: main, partition: h100, request: {style: gres, value: "gpu:h100:1"}}
  full:
    cluster: main
    partition: gpu,spare
    request: {style: gpus, value: "h100:1"}
    arch: sm_90a
    time: "1-02:30:00"
    account: kernels
    qos: normal
    constraint: "ib&nvlink"
    reservation: class
    nodelist: "node[01-08]"
    exclude: node03
    cpus_per_task: 8
    memory: 32G
    exclusive: true
    gpu_freq: high
    modules: [cuda/13.0, gcc/13.2]
    python: /opt/conda/bin/python
    env: {OMP_NUM_THREADS: "8", GREETING: "it's $HOME"}
    sbatch: ["--comment=kernels of mine", "--contiguous"]
    minimum_isolation: S3
    sandbox: {runtime: bubblewrap}
  node: {cluster: main, partition: h100, request: {style: gpus-per-node, value: "1"}}
  task: {cluster: main, partition: h100, request: {style: gpus-per-task, value: "h100:1"}}
  feature: {cluster: main, partition: h100, constraint: ib, request: {style: constraint, value: "h100|h200"}}
  whole: {cluster: main, partition: h100, request: {style: none}}
  apptainer:
    cluster: main
    partition: h100
    env: {NAME: value}
    container: {runtime: apptainer, image: /shared/torch.sif, mounts: [/shared/cutlass, "/shared/data"]}
  pyxis:
    cluster: main
    partition: h100
    env: {NAME: value}
    container: {runtime: pyxis, image: /shared/torch.sqsh, mounts: [/shared/cutlass]}
  enroot:
    cluster: main
    partition: h100
    env: {NAME: value}
    container: {runtime: enroot, image: /shared/torch.sqsh, mounts: [/shared/cutlass]}
  MI300: {cluster: main, partition: amd, device: hip, container: {runtime: apptainer, image: /shared/rocm.sif}}
  X86: {cluster: main, partition: cpu, device: cpu, arch: x86-64-v3, request: {style: none}}
  far: {cluster: far, partition: h100, request: {style: gres, value: "gpu:1"}}
  own: {cluster: main, partition: h100, template: own.sh.j2}
  CPU: {cluster: here}
  local: {cluster: here, device: cuda, env: {NAME: value}, modules: [cuda/13.0]}
"""

TEMPLATE = """\
#!/bin/bash
{% for line in directives %}
{{ line }}
{% endfor %}
# {{ task }} {{ gpu }} {{ mode }} {{ device }}
{{ python | quote }} -I -B {{ harness }} supervise {{ facts }} &
wait "$!"
[ -e {{ result }} ] || {{ python | quote }} -I -B {{ harness }} account {{ facts }} "$?"
"""

MODES = ("test", "benchmark", "profile", "ranked")

CASES: Mapping[str, str] = {
    **{f"slurm.{mode}": f"a.py --task sort --gpu H100 --mode {mode}" for mode in MODES},
    **{f"local.{mode}": f"a.py --task sort --gpu CPU --mode {mode}" for mode in MODES},
    **{f"own-eval.{mode}": f"a.py --task histo --gpu H100 --mode {mode}" for mode in MODES},
    **{
        f"gpu.{name}": f"a.py --task sort --gpu {name}"
        for name in ("full", "node", "task", "feature", "whole", "X86", "far", "own", "local")
    },
    **{f"container.{name}": f"a.py --task sort --gpu {name}" for name in ("apptainer", "pyxis", "enroot")},
    "container.rocm": "a.hip --task scan --gpu MI300",
    "language.py": "a.py --task scan --gpu H100 --mode ranked",
    "language.cpp": "a.cpp --task scan --gpu X86 --mode ranked",
    "language.cu": "a.cu --task scan --gpu H100 --mode ranked",
    "language.hip": "a.hip --task scan --gpu MI300 --mode ranked",
    "language.program": "a.cu --task program --gpu H100 --mode ranked",
    **{
        f"several-gpus.{name}": f"a.py --task ring --gpu {name} --mode ranked"
        for name in ("H100", "full", "node", "task")
    },
    "options": "a.py --task sort --gpu full --account mine --qos night --reservation r1 --constraint big|bigger "
    "--time 5 --exclude n[1-2] --nodelist n7 --sbatch --comment=mine --sbatch --nice=100",
    "options.array": "a.py b.py --task sort --gpu feature --array --constraint big --exclude n1",
    "options.local": "a.py --task sort --gpu CPU --time 5",
    "array": "a.py b.py --task sort --gpu H100 --mode ranked --array",
    "array.by-itself": "a.py b.py c.py --task sort --gpu full",
    "array.of-several-gpus": "a.py b.py --task ring --gpu H100 --array",
    "array.none": "a.py b.py c.py --task sort --gpu H100 --no-array",
    "array.two-clusters": "a.py b.py c.py --task sort --gpu H100,CPU",
}


def _more_gpus(board: GoldenBoard) -> GoldenBoard:
    """Add settings with more kinds of GPUs, and tasks that run on all of them."""
    lay_out(board.folder, {"scripts.yaml": SETTINGS, "own.sh.j2": TEMPLATE})
    for name, files in {**FOR_SCRIPTS, "sort": course(100, "Sort.")}.items():
        lay_out(board.folder / "tasks" / name, files)
    everywhere = scan(3)
    everywhere["task.yml"] = everywhere["task.yml"].replace("gpus: [H100, A100]\n", "")
    lay_out(board.folder / "tasks" / "scan", everywhere)
    for name in ("a.py", "b.py", "c.py"):
        lay_out(board.folder, {name: f"# {name}\ndef custom_kernel(data):\n    return data\n"})
    for name in ("a.cpp", "a.cu", "a.hip"):
        lay_out(board.folder, {name: '#include "hpc_board.h"\n'})
    return replace(board, settings="scripts.yaml")


@pytest.fixture(scope="module")
def previewing(made_board: GoldenBoard, tmp_path_factory: pytest.TempPathFactory) -> GoldenBoard:
    """Copy the golden board for all previews, which store nothing and have no limit on GPU time."""
    board = _more_gpus(made_board.copy(tmp_path_factory.mktemp("scripts") / "board"))
    board.run("dean", "admin", "limit", "--gpu-seconds", "none")
    return board


@pytest.mark.parametrize("name", CASES)
def test_a_script_that_would_be_sent_is_what_it_was(golden: Golden, previewing: GoldenBoard, name: str) -> None:
    done = previewing.run("dean", "submit", *CASES[name].split(), "--dry-run", "--json")
    assert done.exit_code == 0, done.stderr
    told = [_told(preview) for preview in json.loads(done.stdout)]
    golden.check(f"scripts/{name}.txt", normal("\n".join(told), previewing.folder))


def _told(preview: Mapping[str, str]) -> str:
    """Return a preview as text: the command, with a line for each argument, and the scripts."""
    command = " \\\n    ".join(preview["command"])
    array = f"==== array ====\n{preview['array']}" if preview["array"] else ""
    title = f"==== {preview['file_name']} on {preview['gpu']} ===="
    return f"{title}\n$ {command}\n{array}==== script ====\n{preview['script']}"


FOLDERS: Mapping[str, str] = {
    "isolated": "a.py --task scan --gpu full --mode ranked",
    "own-eval": "a.py --task ring --gpu H100",
    "container": "a.py --task sort --gpu apptainer --mode profile",
    "compiled": "a.cu --task program --gpu H100 --mode benchmark",
}


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folder_of_a_job_is_what_it_was(golden: Golden, board: GoldenBoard, name: str) -> None:
    board, argv = _more_gpus(board), FOLDERS[name].split()
    previewed = board.run("dean", "submit", *argv, "--dry-run", "--json")
    assert previewed.exit_code == 0, previewed.stderr
    (shown,) = json.loads(previewed.stdout)
    done = board.run("dean", "submit", *argv)
    assert done.exit_code == 0, done.stderr
    (folder,) = board.slurm.sent
    assert (folder / "job.sh").read_text(encoding="utf-8") == shown["script"]
    listing = "\n".join(sorted(_files(folder)))
    facts = (folder / "job.json").read_text(encoding="utf-8")
    golden.check(
        f"scripts/job-folder.{name}.txt",
        normal(f"{listing}\n\njob.json:\n{facts}\n", board.folder),
        served=board.served is not None,
    )


def _files(folder: Path) -> Sequence[str]:
    return [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]


def test_no_file_of_a_script_is_left_over() -> None:
    expected = {f"{name}.txt" for name in CASES} | {f"job-folder.{name}.txt" for name in FOLDERS}
    assert {file.name for file in (FOLDER / "scripts").iterdir()} == expected
