"""The inspector: what a probe job reports of the machine that it runs on."""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.harness.bundle import harness_bytes
from hpc_board.harness.confine.sandbox import landlock_abi, level_of
from hpc_board.model.node_probe import ANSWER, GREETING, Greeting, NodeProbe
from hpc_board.runs.job_folder import FACTS, RESULT
from hpc_board.schedulers.slurm.kind import SLURM

NVIDIA_SMI = """\
#!/bin/sh
echo "NVIDIA H100 80GB HBM3, GPU-0, 570.1, Disabled, 81559, 345, 1980, 2619, Default"
printf 'NVIDIA H100 80GB HBM3, GPU-1, 570.1, Disabled, 81559, [N/A], \\033[31m, 2619, Prohibited\\n'
echo "No devices were found"
"""

HARNESS = "harness.pyz"


def started(
    folder: Path, *, answer_seconds: float = 0, python: str = sys.executable, **facts: Any
) -> "subprocess.Popen[bytes]":
    """The harness as a batch script starts it under `python`, with `bin` first on the search path."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / HARNESS).write_bytes(harness_bytes())
    inspect = {"nonce": "n", "answer_seconds": answer_seconds}
    job = {"format": 1, "inspect": inspect, "job_environment": asdict(SLURM.job_environment), "sandbox": None}
    job.update({"device": "cuda", **facts})
    (folder / FACTS).write_text(json.dumps(job))
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
