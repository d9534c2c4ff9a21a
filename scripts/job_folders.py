"""Job folders for measurements: those that the login side would send, without a board."""

import dataclasses
import json
from pathlib import Path

import msgspec

from hpc_board.domain.run import Run
from hpc_board.harness.bundle import harness_bytes
from hpc_board.model.gpu import Gpu
from hpc_board.model.task import Language, Mode, Ranking, Task, TaskFile
from hpc_board.runs import job_folder
from hpc_board.task_check.local_job import unstored_run


def a_run(task: Task, gpu: Gpu, mode: Mode, file_name: str, harness: bytes = b"") -> Run:
    """A run that no board knows, the same each time but for its moment."""
    run = unstored_run(task, gpu, mode, file_name, harness or harness_bytes())
    return msgspec.structs.replace(run, id=1, submission=1, token="measurement", nonce="", trust="self-run")  # noqa: S106 - a job's name


def written(folder: Path, task: Task, gpu: Gpu, mode: Mode, *, code: str, file_name: str = "submission.py") -> Path:
    """The job folder of a run, written below `folder`."""
    folders = job_folder.Folders(folder)
    folders.ensure_harness(harness_bytes())
    script = job_folder.script(task, gpu, mode).text
    return folders.write(a_run(task, gpu, mode, file_name), task, gpu, script=script, code=code.encode())


def parts(task: Task, gpu: Gpu, mode: Mode, *, code: str, file_name: str, harness: bytes = b"") -> dict[str, str]:
    """The files of a job folder by their names, the batch script and the harness aside."""
    facts = job_folder.facts(a_run(task, gpu, mode, file_name, harness), task, gpu, code=code.encode())
    files = {f"task/{file.name}": file.text for file in task.files if file.text is not None}
    return {job_folder.FACTS: json.dumps(facts, indent=1), f"submission/{task.name_on_node(file_name)}": code, **files}


STDLIB_REFERENCE = """\
import random


def generate_input(size, seed):
    generator = random.Random(seed)
    return [generator.uniform(1, 2) for _ in range(size)]


def ref_kernel(data):
    return [2 * number for number in data]


def check_implementation(data, output):
    return output == ref_kernel(data)
"""
STDLIB_KERNEL = "def custom_kernel(data):\n    return [2 * number for number in data]\n"


def stdlib_task(like: Task) -> Task:
    """A task that imports nothing: the time of an evaluation besides PyTorch."""
    return dataclasses.replace(
        like,
        name="double",
        language=Language.PY,
        files=(TaskFile("submission.py", None), TaskFile("reference.py", STDLIB_REFERENCE)),
        tests=({"size": 10, "seed": 1},),
        benchmarks=({"size": 1000, "seed": 2},),
        ranking_by=Ranking.LAST,
    )
