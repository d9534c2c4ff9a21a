"""GPUs as boards name them, and the clusters that have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


class Device(str, Enum):
    """The kind of processor that a kernel runs on."""

    CUDA = "cuda"
    HIP = "hip"
    CPU = "cpu"

    __str__ = str.__str__


class SandboxRuntime(str, Enum):
    """What makes the container around the processes that run a submission."""

    BUBBLEWRAP = "bubblewrap"
    APPTAINER = "apptainer"

    __str__ = str.__str__


@dataclass(frozen=True)
class Sandbox:
    """A container that the settings ask for: `image` is Apptainer's, `setting` the key that asks for it."""

    runtime: SandboxRuntime
    image: str = ""
    setting: str = ""


class ContainerRuntime(str, Enum):
    """What starts the container in which the whole of a job's judging happens; pyxis is the plugin of srun."""

    APPTAINER = "apptainer"
    PYXIS = "pyxis"
    ENROOT = "enroot"

    __str__ = str.__str__


@dataclass(frozen=True)
class JobContainer:
    """The container in which the judge of a job runs, and all that it starts.

    `mounts` are folders of the node that it may read under the same paths, `setting` the key that asks for it.
    """

    runtime: ContainerRuntime
    image: str
    mounts: tuple[str, ...] = ()
    setting: str = ""


@dataclass(frozen=True)
class Login:
    """An account on a login node, by SSH; what is "" or None here is up to the user's SSH configuration.

    `key` is the path of a private key. `proxy_jump` ("[user@]host[:port]", several joined by commas) and
    `proxy_command` are as OpenSSH has them.
    """

    host: str
    user: str = ""
    port: int | None = None
    key: str = ""
    proxy_jump: str = ""
    proxy_command: str = ""


@dataclass(frozen=True)
class Cluster:
    """A scheduler that runs jobs: `scheduler` is its name in the registry of schedulers.

    `poll_seconds` is the shortest time between two questions to the scheduler, for all clients of the board. `ssh` is
    the login node on which the scheduler's commands run, None for this machine; job folders then lie below
    `board_folder` there. `allow_root` says whether jobs may judge as root, None where that is up to the scheduler.
    `scheduler_options` are the keys of the settings that are the scheduler's own; its package alone reads them.
    """

    name: str
    scheduler: str
    poll_seconds: float = 15.0
    ssh: Login | None = None
    board_folder: str = ""
    allow_root: bool | None = None
    scheduler_options: object = None


@dataclass(frozen=True)
class Gpu:
    """A GPU name that boards use, and how a job gets one.

    `time_limit_seconds` is None where the task's own limits decide. `minimum_isolation` is the least level (S0 to S4)
    at which a submission may run to be ranked, "" for any; `sandbox` is the container around it, `container` the one
    in which the judge itself runs, `python` being the image's then. `emulated` marks a GPU name whose jobs run on the
    CPU: a test cluster. `partition` is the part of the cluster that has it, "" where there are no parts.
    `scheduler_options` are the keys of the settings that are the scheduler's own; its package alone reads them.
    """

    name: str
    cluster: Cluster
    device: Device
    partition: str = ""
    arch: str = ""
    time_limit_seconds: int | None = None
    modules: tuple[str, ...] = ()
    container: JobContainer | None = None
    python: str = "python3"
    env: Mapping[str, str] = field(default_factory=dict)
    template: str | None = None
    minimum_isolation: str = ""
    sandbox: Sandbox | None = None
    scheduler_options: object = None

    @property
    def emulated(self) -> bool:
        """Whether this board's kernels run on a CPU although its name says otherwise."""
        return self.device is Device.CPU and self.name.upper() != "CPU"


@dataclass(frozen=True)
class Availability:
    """How much of a GPU a cluster has at the moment; None where the scheduler does not say.

    `queued` counts all users' waiting jobs of the partition.
    """

    gpu: str
    free: int | None = None
    total: int | None = None
    queued: int | None = None
    state: str = ""


@dataclass(frozen=True)
class GpuStatus:
    """A GPU of the settings, and how much of it is free; `problem` says why that is not known.

    `warning` says why its jobs may fail although there are some of it. `asked_at` is when the scheduler was asked for
    all clients of the board, None where each of them has asked for itself, at this moment.
    """

    gpu: Gpu
    availability: Availability
    problem: str = ""
    warning: str = ""
    asked_at: datetime | None = None
