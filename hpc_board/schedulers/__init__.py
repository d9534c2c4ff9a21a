"""Schedulers: the programs that give a job a node. One protocol, an embedded one and Slurm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, runtime_checkable

from hpc_board.domain.cluster_info import Site
from hpc_board.domain.run import JobStatus, array_of
from hpc_board.model.gpu import Availability, Gpu


@dataclass(frozen=True)
class Job:
    """What a scheduler is given: a job folder with a batch script in it, and the options that go with the script.

    `name` is unique for all time. `folder` becomes the job's working directory, and its output goes to
    `slurm-<job id>.out` in it. `options` are sbatch options in long form without the dashes ("partition" ->
    "gpu-h100", "exclusive" -> "" for a flag); they repeat what the script's #SBATCH lines say, so that neither the
    environment nor a wrapper overrides them.

    `indexes` make it a job array, all of whose tasks run the script in `folder`. Each finds its index in
    SLURM_ARRAY_TASK_ID, and its output goes to `slurm-<array id>_<index>.out` in the folder that is called as `folder`
    with the index after a dot.
    """

    name: str
    folder: Path
    script: str
    gpu: Gpu
    options: Mapping[str, str]
    time_limit_seconds: int
    indexes: Sequence[int] = ()


@dataclass(frozen=True)
class JobKey:
    """How a submitted job is found again: by its id, and by the name and time that tell recycled ids apart.

    A task of an array has the id "123_4", and the name is the array's with the index after a dot.
    """

    name: str
    job_id: str
    submitted_at: datetime

    @property
    def listed_as(self) -> str:
        """The name under which the scheduler lists the job: all tasks of an array bear the array's."""
        return array_of(self.name) if "_" in self.job_id else self.name


class Scheduler(Protocol):
    """A door to one cluster. Every method may raise SchedulerError; a failed question changes nothing."""

    def command(self, job: Job) -> Sequence[str]:
        """The command that `submit` would run, for the user to read."""

    def submit(self, job: Job) -> str:
        """Hand the job over and return its id, of an array that of the whole.

        Raises:
            SchedulerRefused: the scheduler refused it for good; there is no job.
            SchedulerError: nobody knows whether there is a job now; look it up with `find` before trying again.
        """

    def find(self, name: str, submitted_at: datetime) -> str | None:
        """The id of the job called `name`, submitted not before `submitted_at`; None if there is none.

        A task of an array is called as the array, with its index after a dot.
        """

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        """The news of each job, by its name, from one question for all of them."""

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """Ask for the jobs' end; a job that has ended already is left alone."""

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        """How much of each of these GPUs is free now, in the same order."""


@runtime_checkable
class Arrays(Protocol):
    """A scheduler that takes many jobs at once, as the tasks of a job array."""

    def array_size(self) -> int:
        """How many tasks an array may have, their indexes counted from 0; less than two where there are no arrays.

        It never fails: an array that is too large is refused.
        """

    def find_each(self, names: Sequence[str], submitted_at: datetime) -> Mapping[str, str]:
        """The ids of the jobs called so, by their names, as `find` has them; from one question for all.

        Raises:
            SchedulerError: nobody knows.
        """


@runtime_checkable
class Rehearsing(Protocol):
    """A scheduler that can be asked what it would do, and what its cluster is like. Both may raise SchedulerError."""

    def rehearse(self, job: Job) -> str:
        """What the scheduler says to the job, in its own words, without taking it.

        Raises:
            SchedulerRefused: it would refuse the job.
        """

    def site(self) -> Site:
        """The partitions and nodes, as far as this account may see them."""
