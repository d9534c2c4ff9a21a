"""Slurm, by its commands: sbatch, squeue, sacct, scancel and sinfo with text formats, on any release from 21.08 up."""

import dataclasses
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from hpc_board.model.gpu import Cluster, Gpu


class RequestStyle(StrEnum):
    """The way in which a site wants GPUs to be asked for; each is the name of an sbatch option, or none."""

    GRES = "gres"
    GPUS = "gpus"
    GPUS_PER_NODE = "gpus-per-node"
    GPUS_PER_TASK = "gpus-per-task"
    CONSTRAINT = "constraint"
    NONE = "none"


class Request(msgspec.Struct, frozen=True):
    """A request for GPUs, for example style gres with value "gpu:h100:1"."""

    style: RequestStyle = RequestStyle.NONE
    value: str = ""


class ClusterOptions(msgspec.Struct, frozen=True):
    """The keys of a cluster that are Slurm's own; `pyslurm_python` is "" for the Python that runs hpc-board.

    `slurm_conf` and `slurm_cluster` are "" where the commands find their cluster by themselves.
    """

    client: str = "cli"
    pyslurm_python: str = ""
    slurm_conf: str = ""
    slurm_cluster: str = ""


class GpuOptions(msgspec.Struct, frozen=True):
    """The keys of a GPU that are Slurm's own, without its partition.

    `more_constraint` is that of a submission, which holds besides `constraint`.
    """

    request: Request = Request()
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    nodelist: str = ""
    exclude: str = ""
    cpus_per_task: int | None = None
    memory: str = ""
    exclusive: bool = False
    gpu_freq: str = ""
    srun: bool = False
    sbatch: tuple[str, ...] = ()
    more_constraint: str = ""


def cluster_options(cluster: Cluster) -> ClusterOptions:
    """Return the cluster's own keys, or their defaults."""
    found = cluster.scheduler_options
    return found if isinstance(found, ClusterOptions) else ClusterOptions()


def gpu_options(gpu: Gpu) -> GpuOptions:
    """Return the GPU's own keys, or their defaults."""
    found = gpu.scheduler_options
    return found if isinstance(found, GpuOptions) else GpuOptions()


def with_options(gpu: Gpu, **changes: Any) -> Gpu:
    """Return `gpu` with some of its own keys changed."""
    return dataclasses.replace(gpu, scheduler_options=replace(gpu_options(gpu), **changes))
