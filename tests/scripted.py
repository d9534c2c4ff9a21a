"""A test double for a scheduler: it has no cluster, answers as its fields say, and records its calls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hpc_board.domain.run import JobStatus
from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Availability, Gpu
from hpc_board.schedulers import Job, JobKey


@dataclass
class Scripted:
    """A scheduler whose answers a test writes; a field that is changed changes the next answer.

    Attributes:
        status: the answer of `poll` for each job; None for no answer about any.
        submit_error: raised by `submit`, which leaves no job then.
        loses_answer: True if `submit` takes the job and fails, like an sbatch whose socket timed out.
        find_error: raised by `find`.
        poll_error: raised by `poll`.
        cancel_error: raised by `cancel`.
        on_submit: called first with each job. It may play the node, which writes into the job's folder, or raise.
        on_poll: called first with the jobs of each call of `poll`. It may play the node, or raise.
        first_id: the id of the first job; the next ones count on from there.
        submitted: the jobs that were handed over, refused ones among them.
        jobs: the ids of the jobs that were taken, by their names.
        looked_up: the name of each call of `find`.
        polled: the names of each call of `poll`.
        cancelled: the ids of each call of `cancel`.
    """

    status: JobStatus | None = None
    submit_error: Exception | None = None
    loses_answer: bool = False
    find_error: Exception | None = None
    poll_error: Exception | None = None
    cancel_error: Exception | None = None
    on_submit: Callable[[Job], object] = lambda _: None
    on_poll: Callable[[Sequence[JobKey]], object] = lambda _: None
    first_id: int = 101
    submitted: list[Job] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    looked_up: list[str] = field(default_factory=list)
    polled: list[tuple[str, ...]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    @property
    def sent(self) -> list[str]:
        """Return the names of the jobs that were handed over."""
        return [job.name for job in self.submitted]

    def command(self, job: Job) -> Sequence[str]:
        """Return a command that names the script."""
        return ["scripted", job.script]

    def submit(self, job: Job) -> str:
        """Take the job, unless `on_submit` or `submit_error` say otherwise."""
        self.submitted.append(job)
        job_id = str(self.first_id + len(self.submitted) - 1)
        self.on_submit(job)
        _raise(self.submit_error)
        self.jobs[job.name] = job_id
        if self.loses_answer:
            raise SchedulerError("Socket timed out")
        return job_id

    def find(self, job: JobKey) -> str | None:
        """Return the id of a job that was taken."""
        _require_time_zone(job.submitted_at)
        self.looked_up.append(job.name)
        _raise(self.find_error)
        return self.jobs.get(job.name)

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        """Return `status` for each job."""
        self.polled.append(tuple(job.name for job in jobs))
        self.on_poll(jobs)
        _raise(self.poll_error)
        return {job.name: self.status for job in jobs} if self.status else {}

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """Remember the ids of the jobs."""
        _raise(self.cancel_error)
        self.cancelled += [job.job_id for job in jobs]

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        """Return the names of the GPUs without any number."""
        return [Availability(gpu.name) for gpu in gpus]


@dataclass
class ScriptedArrays(Scripted):
    """A scripted scheduler that takes job arrays of up to `size` tasks."""

    size: int = 1000

    def array_size(self) -> int:
        """Return `size`."""
        return self.size

    def find_each(self, jobs: Sequence[JobKey]) -> Mapping[str, str]:
        """Return the ids of the jobs that were taken, and of the tasks of arrays that were."""
        names = [job.name for job in jobs]
        for job in jobs:
            _require_time_zone(job.submitted_at)
        self.looked_up.append(" ".join(names))
        _raise(self.find_error)
        found = {}
        for name in names:
            array, _, index = name.rpartition(".")
            if array in self.jobs:
                found[name] = f"{self.jobs[array]}_{index}"
            if name in self.jobs:
                found[name] = self.jobs[name]
        return found


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def _require_time_zone(moment: datetime) -> None:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone: schedulers count from UTC")
