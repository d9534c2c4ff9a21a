"""Facts about the node for a result: hardware and system, the state of the GPU, and out-of-memory kills."""

import os
import platform
import re
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpc_board.harness.processes.output import ended, output_of
from hpc_board.model.job_environment import JobEnvironment

_GPU_SECONDS = 5
_GPU_UUID = re.compile(r"GPU-[0-9A-Fa-f-]{8,64}")
_GPU_FIELDS = ("name", "uuid", "driver_version", "mig.mode.current", "compute_mode")
_GPU_STATE_FIELDS = ("clocks.sm", "clocks.mem", "temperature.gpu")
GPU_SETTINGS = (
    "compute_mode",
    "persistence_mode",
    "power.limit",
    "clocks.applications.graphics",
    "clocks.applications.memory",
    "mig.mode.current",
)
_ECC_FIELD = "ecc.errors.uncorrected.volatile.total"
_SLOWDOWN_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""The driver's fields for the reasons of lower clocks: the newer name, then the older one."""

MEMORY_RAN_OUT = "the node's system has killed in this job for lack of memory"
"""Part of a verdict's message when `oom_kills` has grown."""


def node_facts(job: JobEnvironment) -> dict[str, Any]:
    """Return host, processor and kernel, and the scheduler's names of the node and its partition."""
    return {
        "host": socket.gethostname().split(".")[0],
        "cpu": _cpu_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "platform": platform.platform(),
        "partition": os.environ.get(job.partition, ""),
        "node": os.environ.get(job.node, ""),
    }


def is_root() -> bool:
    """Return whether this process is the node's root; root of a user namespace is another user outside."""
    if os.geteuid() != 0:
        return False
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
            inside, outside, _ = map(int, line.split())
            if inside == 0:
                return outside == 0
    return True


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def visible_gpu(environ: Mapping[str, str]) -> str:
    """Return the UUID of the first GPU that a job with this environment may use, by nvidia-smi; else ""."""
    uuids = [uuid for (uuid,) in nvidia_smi(("uuid",))]
    chosen = environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip()
    if chosen.isdigit() and len(chosen) < 4:
        return next(iter(uuids[int(chosen) :]), "")
    return chosen if chosen in uuids else ""


def gpu_facts(uuid: str) -> dict[str, str]:
    """Return description and state of the GPU with this UUID by nvidia-smi; empty if it reports none."""
    return _gpu_query(uuid, (*_GPU_FIELDS, *_GPU_STATE_FIELDS), "gpu_")


def gpu_loss(uuid: str, errors_before: int) -> str:
    """Return nvidia-smi's words for the loss of a GPU that it has described; "" without one, or without an answer."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader", f"--id={uuid}"]
    done = ended(command, _GPU_SECONDS)
    if done is not None and done.returncode >= 0 and (done.returncode or uuid not in done.stdout):
        return f"nvidia-smi no longer describes the GPU {uuid}, as it did at the start"
    errors = ecc_errors(uuid) - errors_before
    return f"nvidia-smi counts {errors} new uncorrectable ECC errors of the GPU {uuid}" if errors > 0 else ""


def ecc_errors(uuid: str) -> int:
    """Return the number of uncorrectable ECC errors of a GPU since its driver was loaded; 0 if it is unknown."""
    counts = [count for (count,) in nvidia_smi((_ECC_FIELD,), uuid) if count.isdigit()]
    return int(counts[0]) if counts else 0


def gpu_state_after(uuid: str) -> dict[str, str]:
    """Return only the state, under names that begin with `gpu_after_`."""
    return _gpu_query(uuid, _GPU_STATE_FIELDS, "gpu_after_")


def gpu_settings(uuid: str) -> dict[str, str]:
    """Return the settings of this GPU that a run could change, and its memory in use in MiB as `memory_used`."""
    return _gpu_query(uuid, (*GPU_SETTINGS, "memory.used"), "")


def _gpu_query(uuid: str, fields: Sequence[str], prefix: str) -> dict[str, str]:
    if not _GPU_UUID.fullmatch(uuid):
        return {}
    for slowdown in _SLOWDOWN_FIELDS:
        if rows := nvidia_smi((*fields, slowdown), uuid):
            names = (*fields, _SLOWDOWN_FIELDS[0])
            return {prefix + name.replace(".", "_"): value for name, value in zip(names, rows[0], strict=True)}
    return {}


def nvidia_smi(
    fields: Sequence[str], gpu: str = "", environ: Mapping[str, str] | None = None, seconds: float = _GPU_SECONDS
) -> list[list[str]]:
    """Return the values of `fields` for each GPU, or for the one named `gpu`; empty if nvidia-smi fails."""
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    lines = output_of([*query, *([f"--id={gpu}"] if gpu else [])], seconds, environ).splitlines()
    rows = [[value.strip()[:200] for value in line.split(",")] for line in lines]
    return [row for row in rows if len(row) == len(fields)]


def oom_kills(own: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of out-of-memory kills in this process's control group; 0 if unknown.

    In version 2 the nearest group with a counter is read, in version 1 the memory controller's.
    """
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                group = mount / path.lstrip("/")
                groups = [group, *group.parents][: len(Path(path).parts)]
                counts = [each / "memory.events" for each in groups]
            elif "memory" in controllers.split(","):
                counts = [mount / "memory" / path.lstrip("/") / "memory.oom_control"]
            else:
                continue
            for count in counts:
                if count.exists():
                    return _named_number(count.read_text(), "oom_kill")
    return 0


def _named_number(text: str, name: str) -> int:
    found = dict(line.split(maxsplit=1) for line in text.splitlines() if " " in line)
    return int(found.get(name, "0"))
