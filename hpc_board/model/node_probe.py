"""The report of a probe job on its node: collected by the harness, read on the login side."""

from collections.abc import Mapping
from dataclasses import dataclass, field

INSPECTION_BYTES_MAX = 64 * 1024
"""Size limit of a report that is read."""

GREETING = "greeting.json"
"""First file of a probe job; the login side answers it at once."""

ANSWER = "answer.json"
"""The answer; the times of both show the delay of files, and the difference of the clocks."""


@dataclass(frozen=True)
class Greeting:
    """The file of one side: its time of writing, in seconds since the epoch by the writer's clock."""

    at: float


@dataclass(frozen=True)
class SeenGpu:
    """A GPU as nvidia-smi describes it; clocks in MHz, memory in MiB, "" for a missing value."""

    name: str
    uuid: str = ""
    driver: str = ""
    mig: str = ""
    memory: str = ""
    clock_sm: str = ""
    clock_sm_max: str = ""
    clock_memory: str = ""
    compute_mode: str = ""


@dataclass(frozen=True)
class Speed:
    """A rate of a node, as the median of several samples, and their spread as a share of it."""

    name: str
    unit: str
    rate: float
    spread: float


@dataclass(frozen=True)
class Torch:
    """PyTorch on the node, as the judge imports it.

    `error` is the reason if it does not import, `unreadable` the file of the installation that the judge must not read;
    `devices` are the usable GPUs.
    """

    version: str = ""
    runtime: str = ""
    devices: tuple[str, ...] = ()
    error: str = ""
    unreadable: str = ""


@dataclass(frozen=True)
class Trial:
    """The end of a small kernel's run on the node's GPU, and the clock of its times with the reason for it."""

    verdict: str
    message: str = ""
    clock: str = ""
    reason: str = ""


@dataclass(frozen=True)
class TriedLanguage:
    """A language of kernels on a node, tried by a call of its starter; it runs if nothing is missing and no error.

    `missing` is the module that the node's Python lacks, `error` the reason for a call that failed. `seconds` is the
    time of imports, compilation and the call.
    """

    name: str
    missing: str = ""
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class NodeProbe:
    """A node as seen by a job of one GPU entry.

    `cpus` is the number of processors of the job, of the model `cpu`; `cpu_peak` has their bytes of memory and float32
    operations per second, if they are the entry's device. `visible` holds the variables for visible devices,
    `compilers` the version of each available compiler, and `languages` those of kernels that were tried. `modules` is
    the source of the `module` command, if the entry has modules, and `speeds` are the rates of the benchmark, if one
    was asked for. `sandbox` describes the container that the settings ask for, `sandbox_error` is the reason if the
    node cannot create it. `trial` is None on a CPU, and without PyTorch. `greeted_at` and `answered_at` are the times
    by the node's clock at which it wrote its greeting and saw the answer; 0 without one.
    """

    nonce: str
    job_id: str
    node: str
    python: str
    executable: str
    isolation: str
    gpus: tuple[SeenGpu, ...] = ()
    visible: str = ""
    cpu: str = ""
    cpus: int = 0
    cpu_peak: tuple[float, float] | None = None
    torch: Torch = Torch()
    compilers: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[TriedLanguage, ...] = ()
    modules: str = ""
    speeds: tuple[Speed, ...] = ()
    sandbox: str = ""
    sandbox_error: str = ""
    trial: Trial | None = None
    scratch: str = ""
    scratch_free_bytes: int = 0
    greeted_at: float = 0.0
    answered_at: float = 0.0
