"""Trying a submission against a task that is on no board, on this machine."""

import sys

import msgspec
from msgspec.structs import replace

from hpc_board.domain.draft import Source
from hpc_board.domain.result_json import ResultError, decode_result
from hpc_board.domain.run import Run
from hpc_board.domain.score_interval import score_interval
from hpc_board.errors import BoardError
from hpc_board.model.gpu import Device
from hpc_board.model.result import RESULT_BYTES_MAX, Result
from hpc_board.model.task import Mode, Task
from hpc_board.runs import drafts, job_folder
from hpc_board.task_check.local_job import local_gpu, local_job

_END_SECONDS = 60
"""The time for the harness to end and write, besides the time limit of such a job."""


class Trial(msgspec.Struct, frozen=True):
    """A submission that was judged: the run, which is in no store, and its result."""

    run: Run
    result: Result


def try_out(
    source: Source, task: Task, mode: Mode, *, device: Device = Device.CPU, python: str = sys.executable
) -> Trial:
    """Judge `source` as a job of a board would; its header, the task's GPUs and its deadline do not count.

    Raises:
        InputError: the submission does not fit the task, the device or the mode.
        BoardError: the harness cannot be started, or left no result.
    """
    gpu = local_gpu(device, python)
    drafts.check_fit(source, task, (gpu,), mode)
    seconds = job_folder.time_limit_seconds(task, gpu, mode) + _END_SECONDS
    with local_job(task, gpu, mode=mode, file_name=source.file_name, code=source.data) as job:
        data = job.outcome("supervise", timeout_seconds=seconds, file=job_folder.RESULT, bytes_max=RESULT_BYTES_MAX)
    try:
        result = decode_result(data)
    except ResultError as error:
        raise BoardError(f"what the harness left cannot be read: {error}") from error
    interval = None if result.score_s is None else score_interval(result.cases, task.ranking_by)
    run = replace(job.run, verdict=result.verdict, message=result.message, score_s=result.score_s, interval=interval)
    return Trial(run, result)
