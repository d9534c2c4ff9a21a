"""Evaluations by the real harness file: a job folder, the zipapp, and the processes that it starts."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.domain.result_json import decode_result
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.harness.confine.sandbox import landlock_abi
from hpc_board.model.gpu import Cluster, Device, Gpu, Sandbox
from hpc_board.model.result import Result
from hpc_board.model.task import Language, Mode, Ranking, Task, TaskFile, Timeouts
from hpc_board.runs import job_folder
from tests.harness.harness_file import harness_file
from tests.waiting import awaited

REFERENCE = """
import random

def generate_input(size, seed):
    rng = random.Random(seed)
    return [rng.uniform(1, 2) for _ in range(size)]

def ref_kernel(data):
    return [2 * x for x in data]

def check_implementation(data, output):
    for index, (got, expected) in enumerate(zip(output, ref_kernel(data))):
        if not abs(got - expected) < 1e-9:
            return False, f"at {index}: {got} instead of {expected}"
    return True, ""
"""
"""A task of only the standard library, so that an evaluation starts in milliseconds."""

RIGHT = "def custom_kernel(data):\n    return [2 * x for x in data]\n"
"""The right answer to that task."""

ARRAYS = """
import numpy as np

def generate_input(size, seed):
    return np.random.default_rng(seed).random(size) + 1

def ref_kernel(data):
    return 2 * data

def check_implementation(data, output):
    return bool((output == 2 * data).all()), "wrong"
"""
"""The same task with arrays."""

QUICK = {
    "timed_calls_min": 3,
    "timed_calls_max": 5,
    "warmup_calls": 1,
    "call_seconds": 3,
    "first_call_seconds": 3,
    "burst_calls": 5,
    "slack_seconds": 0.1,
    "rows": 1,
    "row_seconds": 0.001,
    "row_calls": 5,
    "measure_seconds": 0,
}


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation, and the files that it left."""

    folder: Path
    status: int
    output: str
    result: Result


def a_task(reference: str = REFERENCE, **changes: Any) -> Task:
    """A task that doubles numbers, or the one that `reference` and `changes` describe."""
    values: dict[str, Any] = {
        "name": "double",
        "language": Language.PY,
        "description": "Double every number.",
        "files": (TaskFile("submission.py", None), TaskFile("reference.py", reference), TaskFile("task.py", "X = 1\n")),
        "tests": ({"size": 3, "seed": 1}, {"size": 10, "seed": 2}, {"size": 1, "seed": 3}),
        "benchmarks": ({"size": 100, "seed": 4}, {"size": 1000, "seed": 5}),
        "ranking_by": Ranking.GEOM,
        "timeouts": Timeouts(60, 60, 60),
        "limits": QUICK,
    }
    return Task(**{**values, **changes})


def make_job_folder(
    folder: Path,
    submission: str,
    task: Task,
    mode: Mode,
    device: Device = Device.CPU,
    *,
    file_name: str = "k.py",
    arch: str = "",
    harness: bytes = b"",
    sandbox: Sandbox | None = None,
    gpu: Gpu | None = None,
    options: JobOptions = NO_OPTIONS,
    number: int = 7,
) -> Path:
    """A job folder as the login side writes it, for `gpu` where one is given."""
    gpu = gpu or Gpu("CPU", Cluster("here", "local"), device, python=sys.executable, arch=arch, sandbox=sandbox)
    status, harness = Status(RunState.CREATED, datetime.now(UTC)), harness or harness_file()
    run = Run(
        id=number,
        submission=1,
        task=task.name,
        task_version=task.version,
        user="ada",
        file_name=file_name,
        gpu=gpu.name,
        cluster="here",
        partition="",
        mode=mode,
        token="hb-test",
        nonce="a nonce",
        trust="self-run",
        emulated=False,
        created_at=status.at,
        status=status,
        harness_sha256=hashlib.sha256(harness).hexdigest(),
        options=options,
    )
    folders = job_folder.Folders(folder)
    folders.ensure_harness(harness)
    return folders.write(run, task, gpu, script=job_folder.script(task, gpu, run.mode).text, code=submission.encode())


def evaluate(
    folder: Path,
    submission: str,
    task: Task | None = None,
    mode: Mode = Mode.TEST,
    device: Device = Device.CPU,
    environ: dict[str, str] | None = None,
    *,
    file_name: str = "k.py",
    arch: str = "",
    harness: bytes = b"",
    sandbox: Sandbox | None = None,
    gpu: Gpu | None = None,
    options: JobOptions = NO_OPTIONS,
) -> Evaluation:
    """Run the batch script of a job under bash, as a scheduler does, and read what it left."""
    task = task or a_task()
    job = make_job_folder(
        folder,
        submission,
        task,
        mode,
        device,
        file_name=file_name,
        arch=arch,
        harness=harness,
        sandbox=sandbox,
        gpu=gpu,
        options=options,
    )
    done = subprocess.run(
        ["bash", job_folder.SCRIPT],
        cwd=job,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "42", **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=240,
        check=False,
    )
    assert (job / job_folder.RESULT).exists(), f"no result; the job printed:\n{done.stdout}"
    return Evaluation(job, done.returncode, done.stdout, result_in(job))


def result_in(folder: Path) -> Result:
    """The result that a job has left in its folder."""
    return decode_result((folder / job_folder.RESULT).read_bytes())


def judged_in(folder: Path, *prefix: str, **environ: str) -> Result:
    """Run the job of a folder by a command that begins with `prefix`, and return its result."""
    command, environ = [*prefix, "bash", job_folder.SCRIPT], {"PATH": os.environ["PATH"], **environ}
    subprocess.run(command, cwd=folder, env=environ, timeout=120, check=True)
    return result_in(folder)


@contextmanager
def running_script(folder: Path, *prefix: str, **environ: str) -> "Iterator[subprocess.Popen[bytes]]":
    """The batch script of a folder by a command that begins with `prefix`, in a session that ends with the block."""
    command, environ = [*prefix, "bash", job_folder.SCRIPT], {"PATH": os.environ["PATH"], **environ}
    shell = subprocess.Popen(command, cwd=folder, env=environ, start_new_session=True)
    try:
        yield shell
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()


def progress(folder: Path) -> list[dict[str, Any]]:
    """The lines of the progress file, none before there is one."""
    path = folder / job_folder.PROGRESS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def await_step(folder: Path, phase: str, case: int) -> None:
    """Wait for a case to begin."""
    awaited(lambda: any((line["phase"], line["case"]) == (phase, case) for line in progress(folder)))


_CONFINING = """
import os, sys
ROOT = {root!r}
sys.path.insert(0, ROOT)
from hpc_board.harness.confine import sandbox
"""


def said_confined(source: str, *words: object, **environ: str) -> str:
    """The output of a Python program that confines itself by the harness's `sandbox`; the harness is in `ROOT`."""
    if landlock_abi() < 1:
        pytest.skip("this kernel has no Landlock")
    program = _CONFINING.format(root=str(Path(__file__).parents[2])) + source
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
