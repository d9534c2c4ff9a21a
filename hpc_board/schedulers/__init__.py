"""Schedulers: the programs that give a job a node. One protocol, and a registry with one package for each scheduler.

A package is loaded when a cluster of the settings has its scheduler.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from hpc_board.domain.job_options import JobOptions, time_limit_seconds
from hpc_board.errors import InputError
from hpc_board.model.gpu import Availability, Cluster, ContainerRuntime, Device, Gpu
from hpc_board.model.job_environment import JobEnvironment, RequestEnvironment

if TYPE_CHECKING:
    from hpc_board.domain.diagnostic import Diagnostic
    from hpc_board.domain.run import JobStatus
    from hpc_board.schedulers.sections import ClusterSection, GpuSection
    from hpc_board.schedulers.settings_text import Detected
    from hpc_board.transport import Host
    from hpc_board.yaml_document import Document
    from hpc_board.yaml_sections import Place

ClusterT = TypeVar("ClusterT", bound="ClusterSection")
GpuT = TypeVar("GpuT", bound="GpuSection")

KINDS = {
    "slurm": "hpc_board.schedulers.slurm.kind:SLURM",
    "local": "hpc_board.schedulers.local.kind:LOCAL",
}
"""The registry: the name of each scheduler in the settings, and the place of its SchedulerKind."""

EMBEDDED = "local"
"""The scheduler of a machine without settings."""


class Job(msgspec.Struct, frozen=True):
    """A job folder with a batch script in it, and the options that go with the script.

    `name` is unique for all time. `folder` becomes the job's working directory, and its output goes to the file that
    `run.log_name` names in it. `options` are those of `SchedulerKind.options`; they repeat the directives of
    the script, so that neither the environment nor a wrapper overrides them.

    `indexes` make it a job array, all of whose tasks run the script in `folder`. The output of each goes into the
    folder that is called as `folder` with the task's index after a dot. At most `max_running` tasks run at a time, 0
    for any number. `comment` tells the site's users and admins of the job. Runs whose jobs have the same `request` may
    be judged by one runner; it is empty for a job that needs its own batch script.
    """

    name: str
    folder: Path
    script: str
    gpu: Gpu
    options: Mapping[str, str]
    time_limit_seconds: int
    indexes: Sequence[int] = ()
    max_running: int = 0
    comment: str = ""
    request: str = ""


class JobKey(msgspec.Struct, frozen=True):
    """The key of a job: its id, and the name, time and script that tell recycled ids apart.

    A task of an array has the id "123_4", and the name is the array's with the index after a dot. Sites rename jobs:
    the path of the batch script proves those too, of an array that in its folder, which lacks the index. Without a
    `script` the name alone does. `job_id` is empty for a job that is looked up.
    """

    name: str
    job_id: str
    submitted_at: datetime
    script: str = ""

    @property
    def listed_as(self) -> str:
        """Return the name under which the scheduler lists the job: all tasks of an array bear the array's."""
        from hpc_board.domain.run import array_of

        return array_of(self.name) if "_" in self.job_id else self.name


class Scheduler(Protocol):
    """A door to one cluster. Every method may raise SchedulerError; a failed question changes nothing."""

    def command(self, job: Job) -> Sequence[str]:
        """Return the command that `submit` would run, for the user to read."""

    def submit(self, job: Job) -> str:
        """Submit the job and return its id, of an array that of the whole.

        Raises:
            SchedulerRefused: the scheduler refused the job for good; no job exists.
            SchedulerError: the job may or may not exist; look it up with `find` before trying again.
        """

    def find(self, job: JobKey) -> str | None:
        """Return the id of the job with this name or script, submitted not before `submitted_at`; None without one."""

    def poll(self, jobs: Sequence[JobKey]) -> "Mapping[str, JobStatus]":
        """Return the status of each job, by its name, from one query for all of them."""

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """Cancel the jobs; a job that has ended already is left alone."""

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        """Return the free share of each of these GPUs, in the same order."""


@runtime_checkable
class Arrays(Protocol):
    """A scheduler that takes many jobs at once, as the tasks of a job array."""

    def array_size(self) -> int:
        """Return the maximum number of tasks of an array, counted from 0; less than two without support for arrays.

        Raises:
            SchedulerError: the scheduler did not answer.
        """

    def find_each(self, jobs: Sequence[JobKey]) -> Mapping[str, str]:
        """Return the ids of these jobs by their names, as `find` does, from one query for all.

        Raises:
            SchedulerError: the scheduler did not answer.
        """


@runtime_checkable
class Nodes(Protocol):
    """A scheduler that tells why it gives a node no jobs."""

    def prolog_failure(self, node: str) -> str:
        """Return the reason of a node that was drained after its prolog failed; empty for any other node.

        Raises:
            SchedulerError: the scheduler did not answer.
        """


class Rehearsal(msgspec.Struct, frozen=True):
    """A job that is not sent; `whose` names the run that has its time limit."""

    job: Job
    whose: str


class Rehearsed(msgspec.Struct, frozen=True):
    """The diagnostics of a rehearsal; a job that is `refused` need not be sent."""

    diagnostics: "tuple[Diagnostic, ...]"
    refused: bool = False


@runtime_checkable
class Rehearsing(Protocol):
    """A scheduler that can test a job without running it."""

    def rehearse(self, rehearsals: Sequence[Rehearsal]) -> Sequence[Rehearsed]:
        """Return the scheduler's answer to each of the jobs, in their order, without accepting any; never raise."""


class Change(msgspec.Struct, frozen=True):
    """A part of a job that the site's rules changed; an `important` one decides where, how long or for whom it runs."""

    part: str
    sent: str
    found: str
    important: bool


@runtime_checkable
class ShowingJobs(Protocol):
    """A scheduler that shows a job as it has it."""

    def changes(self, job: Job, job_id: str) -> Sequence[Change] | None:
        """Return the changes of a job since it was sent; None if the scheduler does not list it any more.

        Raises:
            SchedulerError: the scheduler did not answer.
        """


class SchedulerNode(msgspec.Struct, frozen=True):
    """A node on which jobs of a GPU may run, with its state in the scheduler's words.

    `takes_jobs` says that the scheduler starts jobs there, at once if the node is `idle`; `reason` is why it does not.
    """

    name: str
    state: str
    takes_jobs: bool = True
    idle: bool = True
    reason: str = ""


@runtime_checkable
class ListingNodes(Protocol):
    """A scheduler that lists the nodes of a GPU, and takes jobs for one of them by `nodelist` of the job options."""

    def nodes(self, gpu: Gpu) -> Sequence[SchedulerNode]:
        """Return the nodes on which a job on `gpu` may run, by their names.

        Raises:
            SchedulerError: the scheduler did not answer.
        """


class Remark(msgspec.Struct, frozen=True):
    """A remark on a batch script that would surprise a user who knows others, and the lines of it that say so."""

    words: str
    lines: tuple[str, ...] = ()


class Surroundings(msgspec.Struct, frozen=True):
    """The parts of a board that a scheduler needs, besides its cluster.

    Attributes:
        host: returns the machine on which the scheduler's commands run.
        folder: returns a folder for the scheduler's own files, which the scheduler creates if it is missing.
        devices: the folder in which the user's boards agree on whose job has a device of this machine.
        warn: told, from any thread, deviations from the settings that work.
    """

    host: "Callable[[], Host]"
    folder: Callable[[], Path]
    devices: Path
    warn: Callable[[str], object]


class GpuFault(StrEnum):
    """A fault in the GPUs that a job sees: none, another model than the entry names, or several."""

    MISSING = "missing"
    OTHER = "other"
    SEVERAL = "several"


class SchedulerKind(ABC, Generic[ClusterT, GpuT]):
    """A kind of scheduler: all that is the same on each of its clusters.

    A package has one value of it, which the registry names. The package's client is imported only by `connect`, so
    that commands which ask no scheduler don't load it.

    Attributes:
        name: the value of `scheduler:` in the settings.
        title: the name in messages.
        cluster_section: the keys of a cluster in the settings.
        gpu_section: the keys of a GPU on such a cluster.
        poll_seconds: the default of the setting.
        poll_seconds_min: the least value of the setting.
        allow_root: whether a job may judge as root by default.
        on_this_machine: whether jobs run on the machine of the client, whose files they see at once.
        shared: whether questions burden other users; then clients of a board share answers, and pauses between
            questions grow while nothing changes.
        job_environment: the names of the variables that describe a job to itself.
        request_environment: those of the amounts for which it has asked.
        exports: the variables that a batch script sets for the job's programs.
        job_options: the options of a submission that its jobs have.
        container_runtimes: the programs that can start the container of a job.
    """

    name: str
    title: str
    cluster_section: "type[ClusterT]"
    gpu_section: "type[GpuT]"
    poll_seconds: float = 15.0
    poll_seconds_min: float = 0.0
    allow_root: bool = False
    on_this_machine: bool = False
    shared: bool = True
    job_environment: JobEnvironment = JobEnvironment()
    request_environment: RequestEnvironment = RequestEnvironment()
    exports: "Mapping[str, str]" = MappingProxyType({})
    job_options: tuple[str, ...] = ("time", "retries")
    container_runtimes: frozenset[ContainerRuntime] = frozenset({ContainerRuntime.APPTAINER, ContainerRuntime.ENROOT})

    def read_cluster(self, document: "Document", place: "Place", section: ClusterT, cluster: Cluster) -> Cluster:
        """Return `cluster` with `scheduler_options`, where the section has keys of its own; note their faults."""
        del document, place, section
        return cluster

    def read_gpu(self, document: "Document", place: "Place", section: GpuT, gpu: Gpu) -> Gpu:
        """Return `gpu` with `partition` and `scheduler_options`, where the section has them; note their faults."""
        del document, place, section
        return gpu

    @abstractmethod
    def connect(self, cluster: Cluster, surroundings: Surroundings) -> Scheduler:
        """Return the door to a cluster of this kind."""

    @property
    def result_grace(self) -> timedelta:
        """The maximum delay of a result after the end of its job."""
        from hpc_board.domain.run import RESULT_GRACE

        return RESULT_GRACE

    def memory_exceeded(self, log: str) -> str:
        """Return the limit and the use of a job that was killed for its memory, from the end of its `log`; or ""."""
        del log
        return ""

    def launch_failure(self, log: str) -> str:
        """Return the reason why a job's script was never started, from its whole `log`; empty if it may have been."""
        del log
        return ""

    def judges_as_root(self, cluster: Cluster) -> bool:
        """Return whether jobs of the cluster may judge as root."""
        return self.allow_root if cluster.allow_root is None else cluster.allow_root

    def options(self, gpu: Gpu, time_limit_seconds: int) -> dict[str, str]:
        """Return the options of a job on `gpu`, in the scheduler's own words."""
        del gpu, time_limit_seconds
        return {}

    def directives(self, options: Mapping[str, str]) -> list[str]:
        """Return the lines of a batch script that state these options.

        Raises:
            InputError: an option cannot be written into a script.
        """
        del options
        return []

    def step(self, gpu: Gpu) -> str:
        """Return the start of a shell command that runs the rest of its words as a step of the job; empty for none."""
        del gpu
        return ""

    def with_job_options(self, gpu: Gpu, options: JobOptions) -> Gpu:
        """Return `gpu` with those `job_options` that a submission sets; the others have no effect."""
        from dataclasses import replace

        seconds = time_limit_seconds(options.time) if options.time else gpu.time_limit_seconds
        retries = int(options.retries) if options.retries else gpu.retries
        return replace(gpu, time_limit_seconds=seconds, retries=retries)

    def with_gpus(self, gpu: Gpu, count: int) -> Gpu:
        """Return `gpu` with a request for `count` GPUs of one node, which ranks on a CPU don't need.

        Raises:
            InputError: the scheduler or the settings' request cannot ask for so many.
        """
        if count == 1 or gpu.device is Device.CPU:
            return gpu
        raise InputError(
            f"the task needs {count} GPUs, but the scheduler of {gpu.name} ({self.name}) gives each job only one.",
            hint="Submit it to a GPU on a cluster whose scheduler can give a job several GPUs.",
        )

    def cancel_command(self, cluster: Cluster, name: str, job_id: str) -> str:
        """Return the command by which a user ends the job `job_id`, "" for the one called `name`; or ""."""
        del cluster, name, job_id
        return ""

    def detect(
        self,
        host: "Host",
        *,
        cluster: str | None = None,
        board: str | None = None,
        gpus: Sequence[tuple[str, Device]] = (),
    ) -> "Detected | None":
        """Return settings from the scheduler's answers on `host`, for `admin detect` and `admin init`.

        None means that the scheduler has not enough information. `cluster` is the name for the cluster, `board` the
        board's folder, and `gpus` are the names of this machine's own devices, each with its kind.

        Raises:
            SchedulerRefused: `host` does not have the scheduler.
            SchedulerError: the scheduler failed, or answered something else.
        """
        del host, cluster, board, gpus
        return None

    def diagnose(self, cluster: Cluster, host: "Host") -> "Iterator[Diagnostic]":
        """Yield the diagnostics of a cluster, whose commands run on `host`, for `admin doctor`."""
        del cluster, host
        yield from ()

    def gpu_hint(self, gpu: Gpu, fault: GpuFault) -> str:
        """Return the remedy for a fault in the GPUs that a job on `gpu` sees, for `admin check`."""
        del gpu
        match fault:
            case GpuFault.MISSING:
                return "Check that the node has the GPU's driver."
            case GpuFault.OTHER:
                return "Correct the entry's name: runs would be ranked under it."
            case GpuFault.SEVERAL:
                return "Other jobs may use them: configure the scheduler to give each job only its own GPUs."

    def takes_whole_nodes(self, gpu: Gpu) -> bool:
        """Return whether a job on `gpu` gets all GPUs of its node."""
        del gpu
        return False

    def asks_for(self, gpu: Gpu) -> list[str]:
        """Return the resources that a job on `gpu` requests, in a few words each."""
        return [f"time {timedelta(seconds=gpu.time_limit_seconds)}"] if gpu.time_limit_seconds else []

    def remarks(self, gpu: Gpu, script: Sequence[str]) -> Iterator[Remark]:
        """Yield the remarks on the lines of a batch script for `gpu` that come from its own keys."""
        del gpu, script
        yield from ()


AnyKind = SchedulerKind[Any, Any]


@cache
def kind(name: str) -> AnyKind:
    """Return the scheduler of this name, with its package loaded.

    Raises:
        KeyError: the registry has none.
    """
    module, _, attribute = KINDS[name].partition(":")
    found: AnyKind = getattr(import_module(module), attribute)
    return found


def kind_of(cluster: Cluster) -> AnyKind:
    """Return the scheduler of a cluster, with its package loaded."""
    return kind(cluster.scheduler)


def kinds() -> Iterator[AnyKind]:
    """Yield every scheduler of the registry, each loaded when its turn comes."""
    return map(kind, KINDS)
