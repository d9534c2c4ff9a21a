"""Slurm as the rest of hpc-board knows it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from hpc_board.domain.job_options import OPTION_NAMES, JobOptions
from hpc_board.model.gpu import Cluster, ContainerRuntime, Device, Gpu
from hpc_board.model.job_environment import JobEnvironment, RequestEnvironment
from hpc_board.schedulers import GpuFault, Remark, Scheduler, SchedulerKind, Surroundings
from hpc_board.schedulers.sections import GpuSection, OptionValue, RemoteClusterSection
from hpc_board.schedulers.slurm import (
    ClusterOptions,
    GpuOptions,
    Request,
    RequestStyle,
    cluster_options,
    gpu_options,
    with_options,
)
from hpc_board.yaml_document import Document
from hpc_board.yaml_sections import Line, Place, Section

if TYPE_CHECKING:
    from hpc_board.domain.diagnostic import Diagnostic
    from hpc_board.schedulers.settings_text import Detected
    from hpc_board.transport import Host

Memory = Annotated[str, Meta(pattern=r"\A[0-9]{1,12}[KMGTkmgt]?\Z", description='an amount of memory such as "16G"')]
ClusterName = Annotated[
    str,
    Meta(pattern=r"\A(?!all\Z)[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}\Z", description="the name of one of Slurm's clusters"),
]
Count = Annotated[int, Meta(ge=1, le=65_536, description="a whole number from 1")]


class SlurmClusterSection(RemoteClusterSection, frozen=True):
    """One of `clusters:` with `scheduler: slurm`."""

    client: Literal["cli", "pyslurm"] = "cli"
    """The way to query Slurm: its commands, or pyslurm for the queue and the commands for the rest."""
    pyslurm_python: Line | None = None
    """The Python that has pyslurm, for `client: pyslurm`: by default the one that runs hpc-board."""
    slurm_conf: Line | None = None
    """The full path of this cluster's slurm.conf, where the commands would use another one: their `SLURM_CONF`."""
    slurm_cluster: ClusterName | None = None
    """The cluster's name in Slurm's accounting, for `--clusters` of the commands, where slurmdbd knows several."""


class RequestSection(Section, frozen=True):
    """`request:` of a GPU: how the site wants it to be asked for."""

    style: RequestStyle
    """The sbatch option that requests the GPU; `none` if the partition alone determines it."""
    value: OptionValue | None = None
    """The request, such as "gpu:h100:1"."""


class SlurmGpuSection(GpuSection, frozen=True):
    """One of `gpus:` on a Slurm cluster."""

    partition: OptionValue | None = None
    """The Slurm partition, which must be given; commas separate several."""
    request: RequestSection | None = None
    """The job's request for the GPU; without it, the partition alone determines it."""
    account: OptionValue | None = None
    """The account to charge."""
    qos: OptionValue | None = None
    """The quality of service."""
    constraint: OptionValue | None = None
    """Features that the node must have."""
    reservation: OptionValue | None = None
    """The reservation to run in."""
    nodelist: OptionValue | None = None
    """Nodes to use."""
    exclude: OptionValue | None = None
    """Nodes to avoid."""
    cpus_per_task: Count | None = None
    """CPU cores of the job."""
    memory: Memory | None = None
    """Memory of the job."""
    exclusive: bool = False
    """The job gets its node for itself, with all of its GPUs and CPUs."""
    gpu_freq: OptionValue | None = None
    """The clock to ask for, such as "high"; the judge then runs as a step of `srun`."""
    srun: bool = False
    """The judge runs as a step of `srun`, as some sites demand."""
    sbatch: list[Line] = msgspec.field(default_factory=list)
    """Further options of sbatch; those that hpc-board itself sets are refused."""


_UNCOUNTED = (RequestStyle.NONE, RequestStyle.CONSTRAINT)


class SlurmKind(SchedulerKind[SlurmClusterSection, SlurmGpuSection]):
    """Slurm, asked by its commands on this machine or a login node, or about its queue through pyslurm."""

    name = "slurm"
    title = "Slurm"
    cluster_section = SlurmClusterSection
    gpu_section = SlurmGpuSection
    poll_seconds_min = 1.0
    job_environment = JobEnvironment(
        prefix="SLURM",
        job_id="SLURM_JOB_ID",
        array_id="SLURM_ARRAY_JOB_ID",
        array_index="SLURM_ARRAY_TASK_ID",
        end_time="SLURM_JOB_END_TIME",
        restarts="SLURM_RESTART_COUNT",
        node="SLURMD_NODENAME",
        partition="SLURM_JOB_PARTITION",
        passed_on=("SLURM_CPUS_ON_NODE", "SLURM_JOB_NAME"),
    )
    request_environment = RequestEnvironment(
        memory_mib="SLURM_MEM_PER_NODE",
        memory_per_cpu_mib="SLURM_MEM_PER_CPU",
        memory_per_gpu_mib="SLURM_MEM_PER_GPU",
        cpus="SLURM_CPUS_ON_NODE",
        gpus="SLURM_GPUS_ON_NODE",
    )
    exports = MappingProxyType({"SLURM_EXPORT_ENV": "ALL"})
    job_options = OPTION_NAMES
    container_runtimes = SchedulerKind.container_runtimes | {ContainerRuntime.PYXIS}

    def read_cluster(self, document: Document, place: Place, section: SlurmClusterSection, cluster: Cluster) -> Cluster:
        if section.client == "pyslurm" and section.ssh is not None:
            document.fault(
                (*place, "client"), "pyslurm queries only from this host; use cli where commands run over ssh"
            )
        if section.client == "pyslurm" and cluster.account:
            document.fault((*place, "client"), "pyslurm submits jobs only as this account; use cli with jobs.account")
        if section.pyslurm_python is not None and section.client != "pyslurm":
            document.fault((*place, "pyslurm_python"), "is set although client is not pyslurm")
        if section.client == "pyslurm" and section.slurm_cluster is not None:
            document.fault(
                (*place, "client"), "pyslurm queries only the cluster of one slurm.conf; use cli, or slurm_conf"
            )
        if section.slurm_conf is not None and not section.slurm_conf.startswith("/"):
            document.fault((*place, "slurm_conf"), "expected a full path, such as /etc/slurm/slurm.conf")
        options = ClusterOptions(
            section.client, section.pyslurm_python or "", section.slurm_conf or "", section.slurm_cluster or ""
        )
        return replace(cluster, scheduler_options=options)

    def read_gpu(self, document: Document, place: Place, section: SlurmGpuSection, gpu: Gpu) -> Gpu:
        if not document.has((*place, "partition")):
            document.fault((*place, "partition"), f"is missing; cluster {gpu.cluster.name} is a Slurm cluster")
        if section.sbatch:
            from hpc_board.schedulers.slurm.sbatch import extra_faults

            for index, message in extra_faults(section.sbatch, retries=gpu.retries):
                document.fault((*place, "sbatch", index), message)
        if section.gpu_freq is not None and (section.request is None or section.request.style in _UNCOUNTED):
            document.fault(
                (*place, "gpu_freq"),
                "requires a `request` for a number of GPUs: Slurm sets the clocks only of requested GPUs",
            )
        options = GpuOptions(
            request=_request(document, (*place, "request"), section.request),
            account=section.account or "",
            qos=section.qos or "",
            constraint=section.constraint or "",
            reservation=section.reservation or "",
            nodelist=section.nodelist or "",
            exclude=section.exclude or "",
            cpus_per_task=section.cpus_per_task,
            memory=section.memory or "",
            exclusive=section.exclusive,
            gpu_freq=section.gpu_freq or "",
            srun=section.srun,
            sbatch=tuple(section.sbatch),
        )
        return replace(gpu, partition=section.partition or "", scheduler_options=options)

    def connect(self, cluster: Cluster, surroundings: Surroundings) -> Scheduler:
        if cluster_options(cluster).client == "pyslurm":
            from hpc_board.schedulers.slurm.pyslurm_client import PyslurmScheduler
            from hpc_board.transport.this_host import ThisHost

            return PyslurmScheduler(cluster, ThisHost(), warn=surroundings.warn)
        from hpc_board.schedulers.slurm.client import SlurmScheduler

        return SlurmScheduler(cluster, surroundings.host())

    def memory_exceeded(self, log: str) -> str:
        from hpc_board.schedulers.slurm.states import memory_exceeded

        return memory_exceeded(log)

    def launch_failure(self, log: str) -> str:
        from hpc_board.schedulers.slurm.states import prolog_failed

        return prolog_failed(log)

    def options(self, gpu: Gpu, time_limit_seconds: int) -> dict[str, str]:
        """Return the options of sbatch by their long names; a flag's value is empty."""
        from hpc_board.schedulers.slurm.sbatch import options_for

        return options_for(gpu, time_limit_seconds)

    def directives(self, options: Mapping[str, str]) -> list[str]:
        from hpc_board.schedulers.slurm.sbatch import directive

        return [directive(name, value) for name, value in options.items()]

    def step(self, gpu: Gpu) -> str:
        """Return an srun for one task with all of the job's GPUs, CPUs and memory, if the settings want a step."""
        asked = gpu_options(gpu)
        pyxis = gpu.container is not None and gpu.container.runtime is ContainerRuntime.PYXIS
        if not (asked.srun or asked.gpu_freq or pyxis):
            return ""
        from hpc_board.schedulers.slurm.sbatch import step

        return step(asked)

    def with_job_options(self, gpu: Gpu, options: JobOptions) -> Gpu:
        """Return `gpu` with these options.

        A constraint holds besides that of the GPU's entry, nodes to avoid are added to its own, and other values
        replace those of the entry.
        """
        asked = gpu_options(gpu)
        names = {extra.partition("=")[0] for extra in options.sbatch}
        kept = (extra for extra in asked.sbatch if extra.partition("=")[0] not in names)
        return with_options(
            super().with_job_options(gpu, options),
            account=options.account or asked.account,
            qos=options.qos or asked.qos,
            reservation=options.reservation or asked.reservation,
            nodelist=options.nodelist or asked.nodelist,
            exclude=",".join(filter(None, (asked.exclude, options.exclude))),
            more_constraint=options.constraint,
            sbatch=(*kept, *options.sbatch),
        )

    def with_gpus(self, gpu: Gpu, count: int) -> Gpu:
        if count == 1:
            return gpu
        from hpc_board.schedulers.slurm.sbatch import with_gpus

        return with_gpus(gpu, count)

    def cancel_command(self, cluster: Cluster, name: str, job_id: str) -> str:
        options = cluster_options(cluster)
        variables = f"SLURM_CONF={shlex.quote(options.slurm_conf)} " if options.slurm_conf else ""
        of_cluster = f"--clusters={options.slurm_cluster} " if options.slurm_cluster else ""
        return f"{variables}scancel {of_cluster}{job_id or f'--user=$USER --name={name}'}"

    def detect(
        self,
        host: "Host",
        *,
        cluster: str | None = None,
        board: str | None = None,
        gpus: Sequence[tuple[str, Device]] = (),
    ) -> "Detected":
        del gpus
        from hpc_board.schedulers.slurm.cluster_info import site
        from hpc_board.schedulers.slurm.detection import detected_settings

        return detected_settings(site(host), cluster, board)

    def diagnose(self, cluster: Cluster, host: "Host") -> "Iterator[Diagnostic]":
        from hpc_board.schedulers.slurm.client import AddressedHost
        from hpc_board.schedulers.slurm.diagnosis import diagnose

        yield from diagnose(cluster, AddressedHost(host, cluster_options(cluster)))

    def gpu_hint(self, gpu: Gpu, fault: GpuFault) -> str:
        where = f"gpus.{gpu.name}"
        match fault:
            case GpuFault.MISSING:
                return f"Check that {where}.request requests one, and that the node has its driver."
            case GpuFault.OTHER:
                return (
                    f"Correct {where}.request, {where}.constraint or the entry's name: runs would be ranked under it."
                )
            case GpuFault.SEVERAL:
                return (
                    "Other jobs may use them: set ConstrainDevices=yes in the cluster's cgroup.conf. A job on a "
                    "whole node (`exclusive: true`) has all of them."
                )

    def takes_whole_nodes(self, gpu: Gpu) -> bool:
        return gpu_options(gpu).exclusive

    def asks_for(self, gpu: Gpu) -> list[str]:
        asked = gpu_options(gpu)
        request = "" if asked.request.style is RequestStyle.NONE else f"{asked.request.style} {asked.request.value}"
        named = {
            "account": asked.account,
            "qos": asked.qos,
            "constraint": asked.constraint,
            "reservation": asked.reservation,
            "nodes": asked.nodelist,
            "memory": asked.memory,
            "cpus": str(asked.cpus_per_task or ""),
        }
        words = [request, *(f"{name} {value}" for name, value in named.items() if value), *super().asks_for(gpu)]
        return list(filter(None, [*words, "a whole node" if asked.exclusive else "", *asked.sbatch]))

    def remarks(self, gpu: Gpu, script: Sequence[str]) -> Iterator[Remark]:
        asked = gpu_options(gpu)
        if asked.sbatch:
            names = [extra.removeprefix("--").partition("=")[0] for extra in asked.sbatch]
            yield Remark(
                f"The settings' `sbatch` adds {', '.join(f'--{name}' for name in names)}.",
                tuple(line for name in names for line in _lines_of(name, script)),
            )
        if asked.reservation:
            yield Remark(f"Waits for reservation {asked.reservation}.", _lines_of("reservation", script))
        if asked.nodelist or asked.exclude:
            marked = (*_lines_of("nodelist", script), *_lines_of("exclude", script))
            nodes = f"Restricted to nodes {asked.nodelist}" if asked.nodelist else ""
            avoided = f"{'avoids' if nodes else 'Avoids'} nodes {asked.exclude}" if asked.exclude else ""
            yield Remark(f"{'; '.join(filter(None, (nodes, avoided)))}.", marked)
        if asked.exclusive:
            yield Remark("Uses a whole node exclusively.", _lines_of("exclusive", script))


def _lines_of(option: str, script: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a script that give this option to sbatch."""
    begun = f"#SBATCH --{option}"
    return tuple(line for line in script if line == begun or line.startswith((f"{begun}=", f"{begun} ")))


def _request(document: Document, place: Place, section: RequestSection | None) -> Request:
    if section is None:
        return Request()
    if section.style is not RequestStyle.NONE and section.value is None:
        document.fault((*place, "value"), f'is missing; style {section.style} needs one, such as "gpu:1"')
    if section.style is RequestStyle.NONE and section.value is not None:
        document.fault((*place, "value"), "is set, but style none makes no request")
    return Request(section.style, section.value or "")


SLURM = SlurmKind()
