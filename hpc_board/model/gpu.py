"""GPUs by their names on boards, and the clusters that have them."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from hpc_board.model.value import Value, made


class Device(str, Enum):
    """The kind of processor that a kernel runs on."""

    CUDA = "cuda"
    HIP = "hip"
    CPU = "cpu"

    __str__ = str.__str__


class SandboxRuntime(str, Enum):
    """The program that creates the container around the processes of a submission."""

    BUBBLEWRAP = "bubblewrap"
    APPTAINER = "apptainer"

    __str__ = str.__str__


class Sandbox(Value):
    """A container that the settings ask for: `image` is Apptainer's, `setting` the key that asks for it."""

    runtime: SandboxRuntime
    image: str = ""
    setting: str = ""


class ContainerRuntime(str, Enum):
    """The program that starts the container for a job's whole evaluation; pyxis is the plugin of srun."""

    APPTAINER = "apptainer"
    PYXIS = "pyxis"
    ENROOT = "enroot"

    __str__ = str.__str__


class JobContainer(Value):
    """The container in which the judge of a job and all its processes run.

    `mounts` are folders of the node that it may read under the same paths, `setting` the key that asks for it.
    """

    runtime: ContainerRuntime
    image: str
    mounts: tuple[str, ...] = ()
    setting: str = ""


class Login(Value):
    """An account on a login node, by SSH; the user's SSH configuration decides about values that are "" or None.

    `key` is the path of a private key. `proxy_jump` ("[user@]host[:port]", several joined by commas) and
    `proxy_command` have OpenSSH's meaning.
    """

    host: str
    user: str = ""
    port: int | None = None
    key: str = ""
    proxy_jump: str = ""
    proxy_command: str = ""


class Cluster(Value):
    """A scheduler that runs jobs: `scheduler` is its name in the registry of schedulers.

    `poll_seconds` is the minimum time between two queries of the scheduler, for all clients of the board. `ssh` is the
    login node on which the scheduler's commands run, None for this machine. `account` is the account of this machine
    that has the jobs, "" for the one of this process. With either, job folders lie below `board_folder`. `allow_root`
    says whether jobs may judge as root, None if the scheduler decides. `scheduler_options` are the scheduler's own keys
    of the settings; only its package reads them.
    """

    name: str
    scheduler: str
    poll_seconds: float = 15.0
    ssh: Login | None = None
    account: str = ""
    board_folder: str = ""
    allow_root: bool | None = None
    scheduler_options: object = None


class Gpu(Value):
    """A GPU's name on boards, and the settings of its jobs.

    `time_limit_seconds` is None if the task's own limits decide. `retries` is the number of further jobs for a run
    whose job the cluster failed. `minimum_isolation` is the lowest level (S0 to S4) at which a ranked or verified
    run may be judged, "" for any; `minimum_clock` is JUDGE if a ranked run on a GPU needs the judge's clock, else "".
    `sandbox` is the container around a run, `container` the one in which the judge
    itself runs, `python` being the image's then. `emulated` marks a GPU name whose jobs run on the CPU: a test
    cluster. `partition` is the cluster's partition with this GPU, "" without partitions. `scheduler_options` are
    the scheduler's own keys of the settings; only its package reads them.
    """

    name: str
    cluster: Cluster
    device: Device
    partition: str = ""
    arch: str = ""
    std: str = ""
    include: tuple[str, ...] = ()
    time_limit_seconds: int | None = None
    retries: int = 0
    modules: tuple[str, ...] = ()
    container: JobContainer | None = None
    python: str = "python3"
    env: Mapping[str, str] = made(default_factory=dict)
    template: str | None = None
    minimum_isolation: str = ""
    minimum_clock: str = ""
    sandbox: Sandbox | None = None
    scheduler_options: object = None

    @property
    def emulated(self) -> bool:
        """Return whether this board's kernels run on a CPU although its name says otherwise."""
        return self.device is Device.CPU and self.name.upper() != "CPU"


class Availability(Value):
    """A GPU's current availability on a cluster; None for values that the scheduler does not report.

    `queued` counts all users' waiting jobs of the partition.
    """

    gpu: str
    free: int | None = None
    total: int | None = None
    queued: int | None = None
    state: str = ""


class GpuStatus(Value):
    """A GPU of the settings, and its availability; `problem` is the reason if that is unknown or an earlier one.

    `warning` is the reason why its jobs may fail although some are available. `asked_at` is the time of the numbers
    that all clients of the board share, None if each client makes its own query at this moment.
    """

    gpu: Gpu
    availability: Availability
    problem: str = ""
    warning: str = ""
    asked_at: datetime | None = None
