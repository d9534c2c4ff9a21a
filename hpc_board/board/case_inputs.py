"""The inputs of a run's test case, made on this machine by the task's own generator."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpc_board.domain.catalog import require_texts
from hpc_board.domain.run import WholeRun
from hpc_board.errors import BoardError, InputError, Refused
from hpc_board.files import shown_path, user_errors
from hpc_board.model.gpu import Device
from hpc_board.model.inputs import INPUTS, INPUTS_FAULT, INPUTS_FAULT_BYTES_MAX
from hpc_board.model.limits import Limits
from hpc_board.model.result import PUBLIC_PASSED
from hpc_board.model.task import ISOLATED, Task, case_text
from hpc_board.model.text import printable
from hpc_board.task_check.local_job import local_gpu, local_job

if TYPE_CHECKING:
    from hpc_board.board import Board

_END_SECONDS = 60


def write_case_inputs(board: "Board", number: int, case: int, path: Path, *, python: str = sys.executable) -> None:
    """Write the inputs of the test `case`, from 1, of a run into the new file `path`.

    Raises:
        InputError: there is no such test, run or device of the run here, or the file exists or cannot be written.
        Refused: the inputs are secret.
        BoardError: the task's generator does not run on this machine.
    """
    whole = board.runs.whole(number)
    task = board.tasks.get(whole.run.task)
    _check(whole, task, case)
    gpu = local_gpu(board.gpus.get(whole.run.gpu).device, python)
    if path.is_symlink() or path.exists():
        raise InputError(f"{shown_path(path)} already exists", hint="Choose another name.")
    limits = Limits.of_task(task.limits, gpu.device)
    seconds = limits.load_seconds + 2 * limits.judge_seconds + _END_SECONDS
    with local_job(task, gpu) as job:
        written = job.outcome(
            "inputs", str(case - 1), timeout_seconds=seconds, file=INPUTS_FAULT, bytes_max=INPUTS_FAULT_BYTES_MAX
        )
        if fault := msgspec.json.decode(written, type=dict[str, str])["fault"]:
            raise BoardError(f"the inputs of test {case} were not made: {printable(fault)}", hint=_hint(gpu.device))
        with user_errors(path), (job.folder / INPUTS).open("rb") as made, path.open("xb") as file:
            shutil.copyfileobj(made, file)


def _hint(device: Device) -> str:
    if device is Device.CPU:
        return "The task's generator runs on this machine; --python chooses a Python with its libraries."
    return f"The run's GPU makes them: call this on a machine with such a device ({device})."


def _check(whole: WholeRun, task: Task, case: int) -> None:
    """Require that the inputs of a test are public, and are those of the run."""
    require_texts(task)
    if task.harness != ISOLATED:
        raise InputError(
            f"task {task.name} has its own eval, which makes the inputs.",
            hint=f"`hpc-board eval-code {task.name}` shows it.",
        )
    if whole.run.task_version != task.version:
        raise InputError(
            f"task {task.name} has changed since run {whole.run.id}.", hint="Submit the file again, and use that run."
        )
    if not 1 <= case <= len(task.tests):
        raise InputError(
            f"there is no test {case}: task {task.name} has {len(task.tests)}.",
            hint="The inputs of benchmarks are secret: their seeds are drawn for each call.",
        )
    spec = case_text(task.tests[case - 1])
    judged = whole.result.cases if whole.result else ()
    failed = next((each for each in judged if each.phase == "test" and each.spec == spec), None)
    if failed is not None and failed.message.startswith(PUBLIC_PASSED):
        raise Refused(
            f"test {case} failed with a secret seed, and its inputs stay secret.",
            hint="It passed with the public seed: try several seeds on your machine.",
        )
