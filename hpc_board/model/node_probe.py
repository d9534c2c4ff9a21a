"""What a probe job reports of its node: found out by the harness, read on the login side."""

from collections.abc import Mapping
from dataclasses import dataclass, field

INSPECTION_BYTES_MAX = 64 * 1024
"""A report larger than this is not read."""

GREETING = "greeting.json"
"""What a probe job writes first; the login side answers it at once."""

ANSWER = "answer.json"
"""The answer; what it took both ways tells how late files are, and how the clocks differ."""


@dataclass(frozen=True)
class Greeting:
    """The file of one side: when it was written, in seconds since the epoch by the writer's clock."""

    at: float


@dataclass(frozen=True)
class SeenGpu:
    """A GPU as nvidia-smi describes it; clocks in MHz, memory in MiB, "" where it does not say."""

    name: str
    uuid: str = ""
    driver: str = ""
    mig: str = ""
    memory: str = ""
    clock_sm: str = ""
    clock_sm_max: str = ""
    clock_memory: str = ""


@dataclass(frozen=True)
class Torch:
    """PyTorch on the node: `error` says why it does not import; `devices` are the GPUs that it can use."""

    version: str = ""
    runtime: str = ""
    devices: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class NodeProbe:
    """A node as a job of one GPU entry finds it.

    `visible` is what the variables for visible devices hold, `compilers` the version of each compiler that is there.
    `sandbox` describes the container that the settings ask for, `sandbox_error` says why the node cannot make it.
    `greeted_at` and `answered_at` are the times by the node's clock at which it wrote its greeting and saw the answer;
    0 where there was none.
    """

    nonce: str
    job_id: str
    node: str
    python: str
    executable: str
    isolation: str
    gpus: tuple[SeenGpu, ...] = ()
    visible: str = ""
    torch: Torch = Torch()
    compilers: Mapping[str, str] = field(default_factory=dict)
    sandbox: str = ""
    sandbox_error: str = ""
    scratch: str = ""
    scratch_free_bytes: int = 0
    greeted_at: float = 0.0
    answered_at: float = 0.0
