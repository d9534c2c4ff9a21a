"""The runner of a slot: a process that judges runs with one request in turn, each without a start of its own."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpc_board.files import read_bounded
from hpc_board.harness.processes.zygote import modules_of
from hpc_board.model.job_environment import log_name
from hpc_board.model.runner import FACTS, QUEUE, End, entry_name
from hpc_board.model.runner import Entry as RunnerEntry
from hpc_board.schedulers.local.queue import Entry, Slot
from hpc_board.schedulers.runner_queue import RunnerQueue
from hpc_board.transport.local_files import LocalFiles

_STARTER = "harness.py"
_FACTS_BYTES_MAX = 64 * 2**20
_IDLE_SECONDS = 60
_TIME_LIMIT_SECONDS = 10**9
"""A runner of this machine ends when no run waits for it; without a spooler, after _IDLE_SECONDS."""

_PATIENCE_SECONDS = 60.0
"""The time for a runner to end a run that has to end, and to look for leftovers; after it, the runner is killed."""


class LocalRunner:
    """A runner for `job` and the runs like it; its processes share the descriptor of the `device`'s lock.

    The name of its `folder`, which is beside that of the job since the harness is near, marks its processes.
    `has_judged` says whether it has taken a run.
    """

    def __init__(self, job: Entry, folder: Path, slot: Slot, device: int) -> None:
        self.device = device
        self.has_judged = False
        self._first = job
        self._number = 0
        self._kind = slot.pool.kind
        self.queue = RunnerQueue(LocalFiles(), folder)
        (folder / QUEUE).mkdir(mode=0o700, parents=True)
        own = Path(job.folder)
        facts: dict[str, Any] = json.loads(read_bounded(own / FACTS, _FACTS_BYTES_MAX))
        limits = {"idle_seconds": _IDLE_SECONDS, "time_limit_seconds": _TIME_LIMIT_SECONDS}
        facts["queue"] = {**limits, "modules": self._modules(own)}
        (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")
        for name in (job.script, _STARTER):
            shutil.copyfile(own / name, folder / name)
        runner = Entry(folder.name, job.job_id, str(folder), job.script, _TIME_LIMIT_SECONDS, "", job.environment)
        self._process = started(runner, slot, device)

    def judge(self, job: Entry, unwanted: Callable[[], bool]) -> End | None:
        """Have a run judged, and return its end; None if the runner did not take the run.

        `unwanted` waits for a moment, and returns whether the run is to be cancelled.
        """
        self._number += 1
        folder = Path(job.folder)
        name = entry_name(self._number, folder.name)
        try:
            modules = self._modules(folder)
            self.queue.add(name, RunnerEntry(folder.name, job.job_id, job.seconds, job.seconds, modules))
        except OSError:
            return None
        state, late = "ended", time.monotonic() + job.seconds + _PATIENCE_SECONDS
        while (end := self.queue.end_of(name)) is None and self._process.poll() is None:
            if unwanted() and state == "ended":
                state, late = "cancelled", time.monotonic() + _PATIENCE_SECONDS
                with suppress(OSError):
                    self.queue.stop(name)
            if time.monotonic() >= late:
                state = "timeout" if state == "ended" else state
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        end = end or self.queue.end_of(name)
        if end is None and self.queue.parts([name]).get(name) == QUEUE:
            return None
        self.has_judged = True
        return end or End(state, f"its runner exited with status {self._process.returncode}")

    def serves(self, job: Entry | None) -> bool:
        """Return whether the runner may take a run."""
        return job is not None and job.may_share_runner(self._first) and self._process.poll() is None

    def _modules(self, folder: Path) -> list[str]:
        return modules_of([folder / "submission", folder / "task"], self._kind)


def started(job: Entry, slot: Slot, device: int) -> "subprocess.Popen[bytes]":
    """Start the batch script of a job with the device of its slot, whose lock its processes share.

    Raises:
        OSError: it cannot be started.
        ValueError: its environment cannot be an environment.
    """
    folder = Path(job.folder)
    given = dict(each.partition("=")[::2] for each in job.environment)
    with (folder / log_name(job.job_id)).open("ab") as output:
        return subprocess.Popen(
            ["bash", str(folder / job.script)],
            cwd=folder,
            env={**given, **slot.environment, "SLURM_JOB_ID": job.job_id, "SLURM_JOB_NAME": job.name},
            pass_fds=[device],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
