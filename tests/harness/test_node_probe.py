"""The inspector: what a probe job reports of the machine that it runs on."""

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.admin.probe import bundled_starters
from hpc_board.harness import node_probe
from hpc_board.harness.bundle import harness_bytes
from hpc_board.harness.confine.sandbox import landlock_abi, level_of
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.node_probe import ANSWER, GREETING, Greeting, NodeProbe
from hpc_board.runs.job_folder import FACTS, RESULT, probe_facts
from hpc_board.schedulers.slurm.kind import SLURM

NVIDIA_SMI = """\
#!/bin/sh
echo "NVIDIA H100 80GB HBM3, GPU-0, 570.1, Disabled, 81559, 345, 1980, 2619, Default"
printf 'NVIDIA H100 80GB HBM3, GPU-1, 570.1, Disabled, 81559, [N/A], \\033[31m, 2619, Prohibited\\n'
echo "No devices were found"
"""

HARNESS = "harness.pyz"
GPU = Gpu("CPU", Cluster("here", "local"), Device.CPU)


def started(
    folder: Path,
    *,
    answer_seconds: float = 0,
    python: str = sys.executable,
    starters: dict[str, str] | None = None,
    **facts: Any,
) -> "subprocess.Popen[bytes]":
    """The harness as a batch script starts it under `python`, with `bin` first on the search path."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / HARNESS).write_bytes(harness_bytes())
    job = {**probe_facts(GPU, "n", answer_seconds, "", starters=starters or {}), "allow_root": True, **facts}
    (folder / FACTS).write_text(json.dumps({**job, "job_environment": asdict(SLURM.job_environment)}))
    return subprocess.Popen(
        [python, "-I", "-B", HARNESS, "supervise", FACTS],
        cwd=folder,
        env={"PATH": f"{folder}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"},
    )


def report(folder: Path) -> NodeProbe:
    return msgspec.json.decode((folder / RESULT).read_bytes(), type=NodeProbe)


def test_a_report_says_what_the_job_runs_under(tmp_path: Path) -> None:
    assert started(tmp_path).wait(120) == 0
    found = report(tmp_path)
    assert (found.nonce, found.job_id, found.node) == ("n", "7", "n1")
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.isolation in ("S1", level_of(landlock_abi(), filtered=True))
    assert found.scratch_free_bytes > 0
    assert bool(found.torch.version) != bool(found.torch.error)
    assert (found.greeted_at > 0, found.answered_at) == (True, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["bin", HARNESS, FACTS, RESULT, GREETING])


def test_the_time_of_an_answer_is_that_by_the_clock_of_the_node(tmp_path: Path) -> None:
    process = started(tmp_path, answer_seconds=60)
    while not (tmp_path / GREETING).exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    at = time.time()
    (tmp_path / ANSWER).write_text("{}")
    assert process.wait(120) == 0
    found = report(tmp_path)
    assert found.greeted_at == msgspec.json.decode((tmp_path / GREETING).read_bytes(), type=Greeting).at
    assert found.greeted_at + 0.2 < at <= found.answered_at < at + 30


def test_every_gpu_that_the_driver_lists_is_reported_and_no_other_line(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    assert started(tmp_path).wait(120) == 0
    first, second = report(tmp_path).gpus
    assert (first.name, first.uuid, first.driver, first.mig) == ("NVIDIA H100 80GB HBM3", "GPU-0", "570.1", "Disabled")
    assert (first.memory, first.clock_sm, first.clock_sm_max, first.clock_memory) == ("81559", "345", "1980", "2619")
    assert (second.clock_sm, second.clock_sm_max) == ("[N/A]", " [31m")
    assert (first.compute_mode, second.compute_mode) == ("Default", "Prohibited")


@pytest.mark.skipif(not landlock_abi(), reason="this kernel has no Landlock")
def test_a_library_that_links_to_where_a_judge_must_not_read_is_missing_as_in_a_run(tmp_path: Path) -> None:
    venv, elsewhere, work = tmp_path / "venv", tmp_path / "cache" / "torch.py", tmp_path / "job"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (packages,) = venv.glob("lib/python3*/site-packages")
    elsewhere.parent.mkdir()
    work.mkdir()
    elsewhere.write_text("")
    (packages / "torch.py").symlink_to(elsewhere)
    assert started(work, python=str(venv / "bin" / "python")).wait(120) == 0
    torch = report(work).torch
    assert (torch.version, torch.unreadable) == ("", str(packages / "torch.py"))
    assert torch.error.startswith("PermissionError")


ADDS = "def custom_kernel(data):\n    return data[0] + data[1]\n"
STARTERS = {
    "PyTorch": f"import torch\n{ADDS}",
    "wrong": "import torch\ndef custom_kernel(data):\n    return data[0]\n",
    "away": f"import away.deeper\n{ADDS}",
    "raises": "def custom_kernel(data):\n    raise ValueError('no \\x1b[31mplace')\n",
    "crashes": "import os\ndef custom_kernel(data):\n    os.abort()\n",
    "talks": f"print('x' * 100_000)\n{ADDS}",
    "reads": "from pathlib import Path\nPath('SECRET').read_text()\n",
}


@pytest.mark.torch
def test_each_language_is_tried_as_a_submission_that_is_confined(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("seen")
    starters = {**STARTERS, "reads": STARTERS["reads"].replace("SECRET", str(secret))}
    assert started(tmp_path, starters=starters).wait(240) == 0
    found = {each.name: each for each in report(tmp_path).languages}
    assert list(found) == list(STARTERS)
    assert {name for name, each in found.items() if not (each.missing or each.error)} == {"PyTorch", "talks"}
    assert found["PyTorch"].seconds > 0
    assert (found["away"].missing, found["away"].error) == ("away", "")
    assert found["wrong"].error.endswith("its answer is wrong")
    assert "ValueError: no" in found["raises"].error
    assert "it was killed by signal 6 (SIGABRT)" in found["crashes"].error
    if landlock_abi():
        assert found["reads"].error.startswith("PermissionError")


def test_a_starter_that_hangs_holds_the_probe_for_its_time_limit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_probe, "_STARTER_SECONDS", 5)
    monkeypatch.setattr(node_probe, "_STARTERS_SECONDS", 5)
    (tmp_path / HARNESS).write_bytes(harness_bytes())
    starters = {"hangs": "import time\ntime.sleep(600)\n", "late": ADDS}
    job = {**probe_facts(GPU, "n", 0, "", starters=starters), "allow_root": True}
    hangs, late = node_probe._languages(job, tmp_path / HARNESS, tmp_path)
    assert hangs.error == "it left no result within 5 s"
    assert late.error == "not tried: those before it took 5 s"


@pytest.mark.skipif(shutil.which("g++", path="/usr/bin:/bin") is None, reason="needs g++")
def test_compilers_are_tried_under_their_confinement(tmp_path: Path) -> None:
    include = '#include "/tmp/none.h"\n'
    starters = {name: bundled_starters()[name] for name in ("C++", "CUDA")}
    assert started(tmp_path, starters=starters).wait(240) == 0
    good, without = report(tmp_path).languages
    assert (good.missing, good.error) == ("", "")
    if shutil.which("nvcc", path="/usr/bin:/bin") is None:
        assert "no nvcc in PATH" in without.missing
    (tmp_path / RESULT).unlink()
    assert started(tmp_path, starters={"C++": include + starters["C++"]}).wait(240) == 0
    (bad,) = report(tmp_path).languages
    assert bad.error.startswith("g++ exited with status 1: ")
    assert "/tmp/none.h" in bad.error


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")
def test_a_language_whose_threads_abort_at_exit_runs(tmp_path: Path) -> None:
    source = (
        "import jax\n@jax.jit\ndef add(a, b):\n    return a + b\n"
        "def custom_kernel(data):\n    return add(*map(jax.numpy.from_dlpack, data))\n"
    )
    assert started(tmp_path, starters={"JAX": source}).wait(240) == 0
    (found,) = report(tmp_path).languages
    assert (found.missing, found.error) == ("", "")


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize("emulated", [True, False])
def test_the_starter_in_triton_runs_where_a_cpu_stands_in_for_a_gpu(tmp_path: Path, emulated: bool) -> None:
    starters = {"Triton": bundled_starters()["Triton"]}
    assert started(tmp_path, starters=starters, emulated=emulated).wait(240) == 0
    (found,) = report(tmp_path).languages
    assert (not found.error) is emulated, found.error


def test_a_container_that_the_node_cannot_make_is_reported(tmp_path: Path) -> None:
    sandbox = {"runtime": "apptainer", "image": "/none.sif", "setting": "gpus.X.sandbox"}
    assert started(tmp_path, sandbox=sandbox).wait(120) == 0
    found = report(tmp_path)
    assert found.sandbox == ""
    assert "gpus.X.sandbox" in found.sandbox_error


@pytest.mark.parametrize("status", ["0", "137"])
def test_a_probe_that_left_no_report_is_accounted_for_by_its_exit_status_alone(tmp_path: Path, status: str) -> None:
    process = started(tmp_path)
    process.kill()
    process.wait()
    (tmp_path / RESULT).unlink(missing_ok=True)
    done = subprocess.run([sys.executable, "-I", HARNESS, "account", FACTS, status], cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert not (tmp_path / RESULT).exists()
