"""The sections of the settings that every scheduler has; a scheduler's package extends them with keys of its own."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hpc_board.model.gpu import ContainerRuntime, Device
from hpc_board.yaml_sections import Line, Name, Section

EnvName = Annotated[
    str,
    Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", description="the name of an environment variable"),
]
EnvValue = Annotated[str, Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z", max_length=4096, description="one line of text")]
OptionValue = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_(\[][A-Za-z0-9_.+,@:=/&|*!%~()\[\]-]{0,254}\Z",
        description="a value for sbatch: letters, digits and _ . + , @ : = / & | * ! % ~ ( ) [ ] -, no spaces",
    ),
]
Module = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.+/@:=~-]{0,254}\Z",
        description="the name of an environment module",
    ),
]
Folder = Annotated[
    str,
    Meta(
        pattern=r"\A/[^\x00-\x1f\x7f-\x9f\s:,\\]{0,4094}\Z",
        description="the full path of a folder, without spaces, colons, commas and backslashes",
    ),
]
Port = Annotated[int, Meta(ge=1, le=65_535, description="a port number")]
SshWord = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9_\[:][A-Za-z0-9_.@:,%\[\]+-]{0,254}\Z",
        description="a name without spaces, such as login2.site.org or alice",
    ),
]
Retries = Annotated[int, Meta(ge=0, le=10, description="a whole number from 0 to 10")]
Seconds = Annotated[float, Meta(gt=0, le=3600, description="a number of seconds, above 0 and at most 3600")]


class SshSection(Section, frozen=True):
    """`ssh:` of a cluster: a login node on which the scheduler's commands run."""

    host: SshWord
    """The login node: its name or address, or a `Host` of `~/.ssh/config`."""
    user: SshWord | None = None
    """The account there; default: as configured for `ssh`."""
    port: Port | None = None
    """The port of its SSH server; default: as configured for `ssh`."""
    key: Line | None = None
    """A file with a private key, the only one to be offered; else those of the agent and of `~/.ssh`."""
    proxy_jump: SshWord | None = None
    """Hosts to go through, as `ssh -J` has them: `[user@]host[:port]`, several joined by commas."""
    proxy_command: Line | None = None
    """A command that connects its standard input and output to the login node, as `ssh -o ProxyCommand` has it."""


class ClusterSection(Section, frozen=True):
    """The keys of one of `clusters:` that every scheduler has."""

    scheduler: Name
    """The scheduler that runs the jobs."""
    poll_seconds: Seconds | None = None
    """Shortest time between two questions to the scheduler."""
    allow_root: bool | None = None
    """Jobs may run the judge and submissions as root."""


class RemoteClusterSection(ClusterSection, frozen=True):
    """The keys of a cluster whose scheduler can be used from elsewhere."""

    ssh: SshSection | None = None
    """The login node, unless hpc-board runs on one of this cluster's own."""
    board_folder: Line | None = None
    """With `ssh`: the folder for jobs, by its full path on the cluster."""


class ContainerSection(Section, frozen=True):
    """`container:` of a GPU: the image in which its jobs are judged."""

    runtime: ContainerRuntime
    """The program that starts the image: Apptainer, Slurm's plugin pyxis, or Enroot without the plugin."""
    image: Line
    """A file, for Apptainer also a folder; for pyxis and Enroot any value they accept, such as a container's name."""
    mounts: list[Folder] = msgspec.field(default_factory=list)
    """Folders of the node that are seen in the container too, read-only, under the same paths."""


class SandboxSection(Section, frozen=True):
    """`sandbox:` of a GPU, or of all: the container around the processes that run a submission."""

    runtime: Literal["bubblewrap", "apptainer", "none"]
    """The container runtime; `none` for a GPU without one although `defaults` has one."""
    image: Line | None = None
    """The image for Apptainer, with Python 3.10 or newer, the imports of the tasks, and compilers."""


class GpuSection(Section, frozen=True):
    """The keys of one of `gpus:` that every scheduler has."""

    cluster: Name
    """The cluster that has the GPU."""
    arch: OptionValue | None = None
    """The architecture to compile for, such as sm_90a."""
    std: Literal["c++14", "c++17", "c++20", "c++23"] | None = None
    """The language standard of C++, CUDA and HIP submissions: c++20 unless the task's flags name another one."""
    include: list[Folder] = msgspec.field(default_factory=list)
    """Folders of headers that those submissions may include, such as CUTLASS's."""
    device: Device | None = None
    """The kind of processor: cuda unless the GPU is called CPU. `cpu` marks results of other names as emulated."""
    time: Line | None = None
    """The job's time limit in one of Slurm's formats; without it the task's own limits decide."""
    retries: Retries = 0
    """The number of times that a run is sent again after a failed node, prolog or launch, or a preemption."""
    modules: list[Module] = msgspec.field(default_factory=list)
    """Environment modules to load."""
    container: ContainerSection | None = None
    """The container in which the judge runs, and all that it starts."""
    python: Line | None = None
    """Python on the node or in the container: python3 by default, on a local cluster the one that runs hpc-board."""
    env: dict[EnvName, EnvValue] = msgspec.field(default_factory=dict)
    """Environment variables of the job."""
    template: Line | None = None
    """A batch script template to use in place of the one that ships."""
    minimum_isolation: Literal["S0", "S1", "S2", "S3", "S4"] | None = None
    """The least isolation of ranked runs, and of all on a served board; a node with less ends them as infra_error."""
    minimum_clock: Literal["worker", "judge"] | None = None
    """`judge` ends ranked runs without the judge's clock as infra_error: the default of CUDA GPUs on a served board."""
    sandbox: SandboxSection | None = None
    """The container around the processes that run a submission; a node that cannot make it ends runs as infra_error."""
