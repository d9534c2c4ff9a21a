"""Runners of tests: the folder of a runner beside job folders, and its batch script under bash."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hpc_board.harness.processes.zygote import modules_of
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.runner import DONE, QUEUE, STATE, TAKEN, End, Entry, State, decoded, encoded, entry_name
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder
from tests.harness.evaluations import RIGHT, a_task, make_job_folder, running_script
from tests.waiting import awaited

ON_SLURM = Gpu("CPU", Cluster("main", "slurm", allow_root=True), Device.CPU, python=sys.executable)
JOB_ID = "42"


class RunnerFolder:
    """The folder of a runner on a board, whose runs are added before or while it runs."""

    def __init__(self, board: Path, device: Device = Device.CPU, *, gpu: Gpu = ON_SLURM, **queue: Any) -> None:
        self.board = board
        self._device = device
        self._gpu = gpu
        self.folder = board / "runs" / "hb-runner"
        self._queue = {"idle_seconds": 0, "time_limit_seconds": 600, "modules": [], **queue}
        self._number = 0

    def add(
        self,
        submission: str = RIGHT,
        task: Task | None = None,
        mode: Mode = Mode.TEST,
        seconds: int = 120,
        least_seconds: int | None = None,
        **more: Any,
    ) -> Path:
        """Write a run's job folder and its entry, and return the job folder; it needs `seconds` by default."""
        self._number += 1
        job = make_job_folder(
            self.board, submission, task or a_task(), mode, gpu=self._gpu, number=self._number, **more
        )
        if not self.folder.exists():
            self._write(job)
        least = seconds if least_seconds is None else least_seconds
        modules = modules_of([job / "submission", job / "task"], "cpu")
        entry = Entry(job.name, f"{JOB_ID}.{self._number}", seconds, least, modules)
        name = self.name_of(job)
        draft = self.folder / f"{name}.draft"
        draft.write_bytes(encoded(entry))
        draft.rename(self.folder / QUEUE / name)
        return job

    def _write(self, job: Path) -> None:
        (self.folder / QUEUE).mkdir(parents=True)
        facts = json.loads((job / job_folder.FACTS).read_text())
        names = ("format", "device", "environment", "job_environment", "sha256")
        runner = {name: facts[name] for name in names} | {"device": str(self._device), "queue": self._queue}
        (self.folder / job_folder.FACTS).write_text(json.dumps(runner))
        script = job_folder.runner_script(self._gpu, self._queue["time_limit_seconds"])
        (self.folder / job_folder.SCRIPT).write_text(script.text)
        (self.folder / job_folder.HARNESS).write_bytes(job_folder.starter())

    def name_of(self, job: Path) -> str:
        """The name of a run's entry."""
        return entry_name(int(job.name), job.name)

    @contextmanager
    def running(self, prefix: Sequence[str] = (), **environ: str) -> "Iterator[subprocess.Popen[bytes]]":
        """The batch script of the runner, in a session of its own; ended at the end if it is still there."""
        environ = {"TMPDIR": str(self.board), "SLURM_JOB_ID": JOB_ID, **environ}
        with running_script(self.folder, *prefix, **environ) as shell:
            yield shell

    def run(self, **environ: str) -> State:
        """Run the runner to its end, and return its last state."""
        with self.running(**environ) as shell:
            shell.wait(timeout=240)
        return self.state()

    def state(self) -> State:
        """The runner's last description of itself."""
        return decoded((self.folder / QUEUE / STATE).read_bytes(), State)

    def end_of(self, job: Path) -> End | None:
        """The end of a run, None before it."""
        path = self.folder / DONE / self.name_of(job)
        return decoded(path.read_bytes(), End) if path.exists() else None

    def await_taken(self, job: Path) -> None:
        """Wait until the runner has taken a run."""
        awaited((self.folder / TAKEN / self.name_of(job)).exists)

    def await_end_of(self, job: Path) -> End:
        """Wait until a run has ended."""
        awaited(lambda: self.end_of(job) is not None)
        end = self.end_of(job)
        assert end is not None
        return end
