"""The client of the third scheduler: a folder with the id of each job that has run."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpc_board.domain.run import JobState, JobStatus
from hpc_board.model.gpu import Availability, Gpu
from hpc_board.model.job_environment import log_name
from hpc_board.schedulers import Job, JobKey


class AtOnceScheduler:
    """A scheduler whose queue is never longer than the job that is being submitted."""

    def __init__(self, shell: str, folder: Path) -> None:
        self._shell = shell
        self._folder = folder

    def command(self, job: Job) -> Sequence[str]:
        return [self._shell, str(job.folder / job.script)]

    def submit(self, job: Job) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        job_id = f"job{len(list(self._folder.iterdir()))}"
        with (job.folder / log_name(job_id)).open("wb") as output:
            subprocess.run(
                self.command(job),
                cwd=job.folder,
                env={"PATH": os.environ["PATH"], "AT_ONCE_JOB": job_id, "AT_ONCE_NODE": "here"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=120,
                check=False,
            )
        (self._folder / job.name).write_text(job_id)
        return job_id

    def find(self, job: JobKey) -> str | None:
        file = self._folder / job.name
        return file.read_text() if file.exists() else None

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        return {job.name: JobStatus(JobState.ENDED, job.job_id, source="at once: over") for job in jobs}

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        del jobs

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        return [Availability(gpu.name, 1, 1, 0, "up") for gpu in gpus]
