"""Jobs of no board: the harness on this machine, in a folder that is gone afterwards; trials of a submission."""

import hashlib
import json
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.domain.draft import Source
from hpc_board.domain.result_json import ResultError, decode_result
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.score_interval import score_interval
from hpc_board.errors import BoardError
from hpc_board.files import temporary_folder
from hpc_board.harness.bundle import harness_bytes
from hpc_board.harness.confine.gpu_devices import see_one
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import RESULT_BYTES_MAX, Result
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line
from hpc_board.runs import drafts, job_folder
from hpc_board.schedulers import EMBEDDED
from hpc_board.transport import CommandMissing, CommandTimeout
from hpc_board.transport.this_host import ThisHost

_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_HOME", "ROCM_PATH")
_STDERR_MAX = 2000
_PROGRESS_BYTES_MAX = 2**20
_LOOK_SECONDS = 0.2


def local_gpu(device: Device, python: str) -> Gpu:
    """Return this machine's device of a kind as a board's GPU; the harness runs under the program `python`."""
    return Gpu("CPU" if device is Device.CPU else "GPU", Cluster("here", EMBEDDED), device, python=python)


class LocalJob(msgspec.Struct, frozen=True):
    """A job folder on this machine, and the run that it is for, which is in no store."""

    folder: Path
    run: Run
    gpu: Gpu
    scratch: Path

    def outcome(
        self,
        role: str,
        *arguments: str,
        timeout_seconds: float,
        file: str,
        bytes_max: int,
        say: Callable[[str], object] = lambda _: None,
    ) -> bytes:
        """Run the harness in this `role` and return the `file` that it leaves, of `bytes_max` bytes at most.

        `say` gets each step that the harness reports.

        Raises:
            BoardError: it cannot be started, does not end in time, or leaves nothing that can be read.
        """
        argv = [self.gpu.python, "-I", "-B", job_folder.HARNESS, role, job_folder.FACTS, *arguments]
        env = {"TMPDIR": str(self.scratch), **{key: os.environ[key] for key in _DEVICE_VARIABLES if key in os.environ}}
        # This machine may have several GPUs, and no scheduler gives the job one of them.
        see_one(self.gpu.device, env)
        try:
            with self._followed(say):
                done = ThisHost().run(argv, timeout_seconds=timeout_seconds, cwd=str(self.folder), env=env)
        except (CommandMissing, CommandTimeout) as error:
            raise BoardError(str(error), hint=self._hint) from error
        try:
            data = job_folder.Folders(self.scratch).read(self.run, file, bytes_max)
        except OSError:
            data = b""
        if done.returncode != 0 or not data or len(data) > bytes_max:
            stderr = done.stderr[-_STDERR_MAX:].strip()
            raise BoardError(f"the harness left no result (exit status {done.returncode}):\n{stderr}", hint=self._hint)
        return data

    @contextmanager
    def _followed(self, say: Callable[[str], object]) -> Iterator[None]:
        """Pass the steps in the job's progress file to `say`, until the block ends."""
        ended = threading.Event()
        thread = threading.Thread(target=self._follow, args=(say, ended))
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _follow(self, say: Callable[[str], object], ended: threading.Event) -> None:
        folders, steps, last = job_folder.Folders(self.scratch), 0, False
        while not last:
            last = ended.wait(_LOOK_SECONDS)
            with suppress(FileNotFoundError):
                lines = folders.read(self.run, job_folder.PROGRESS, _PROGRESS_BYTES_MAX).splitlines(keepends=True)
                for line in (line for line in lines[steps:] if line.endswith(b"\n")):
                    steps += 1
                    step = json.loads(line)
                    say(one_line(step["message"]) + (f", {step['case']} of {step['of']}" if step["case"] else ""))

    @property
    def _hint(self) -> str:
        return f"Does {self.gpu.python} start? Choose another one with --python."


@contextmanager
def local_job(
    task: Task, gpu: Gpu, *, mode: Mode = Mode.TEST, file_name: str = "", code: bytes = b""
) -> Iterator[LocalJob]:
    """Prepare a job that evaluates `code` for `task` on this machine, or only checks the task."""
    with temporary_folder("hpc-board-job-") as scratch:
        harness, folders = harness_bytes(), job_folder.Folders(scratch)
        run = unstored_run(task, gpu, mode, file_name or task.submission_name, harness)
        folders.ensure_harness(harness)
        script = job_folder.script(task, gpu, mode).text
        yield LocalJob(folders.write(run, task, gpu, script=script, code=code), run, gpu, scratch)


def unstored_run(task: Task, gpu: Gpu, mode: Mode, file_name: str, harness: bytes) -> Run:
    """Return a run that no board knows, judged by the `harness` with these bytes."""
    status = Status(RunState.CREATED, datetime.now(UTC))
    return Run(
        id=0,
        submission=0,
        task=task.name,
        task_version=task.version,
        user="",
        file_name=file_name,
        gpu=gpu.name,
        cluster=gpu.cluster.name,
        partition="",
        mode=mode,
        token="",
        nonce=secrets.token_hex(16),
        trust="",
        emulated=False,
        created_at=status.at,
        status=status,
        harness_sha256=hashlib.sha256(harness).hexdigest(),
    )


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
        raise BoardError(f"the result of the harness cannot be read: {error}") from error
    interval = None if result.score_s is None else score_interval(result.cases, task.ranking_by)
    run = replace(job.run, verdict=result.verdict, message=result.message, score_s=result.score_s, interval=interval)
    return Trial(run, result)
