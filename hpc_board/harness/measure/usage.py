"""Memory and processor time that a job has used, by the kernel's counts, beside the amounts that it has asked for.

A submission can use more than it needs, and cannot write these numbers.
"""

import os
import resource
import time
from contextlib import suppress
from pathlib import Path

from hpc_board.harness.processes.memory import status_value
from hpc_board.harness.processes.tree import below
from hpc_board.model.job_environment import JobEnvironment, RequestEnvironment
from hpc_board.model.result import (
    CPU_SECONDS,
    CPUS_ASKED,
    ELAPSED_SECONDS,
    MEMORY_ASKED_BYTES,
    MEMORY_PEAK_BYTES,
)

_KIB = 1024
_PROCESSES_MAX = 1000


class Usage:
    """The use of memory and processors since this process made the value.

    The peak of memory is that of the job's control group. On a cluster without one, `sample` adds up the peaks of the
    processes that exist at the same time, in which shared pages count for each; a process that no sample has seen
    counts by the kernel's peak of all ended ones.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._peak_bytes = 0

    def sample(self) -> None:
        """Note the memory of this process and its descendants, for instance before some of them end."""
        own = os.getpid()
        sampled = sum(map(_peak_bytes, [own, *below(own)[:_PROCESSES_MAX]]))
        self._peak_bytes = max(self._peak_bytes, sampled)

    def facts(self, request: RequestEnvironment, job: JobEnvironment) -> dict[str, int | float]:
        """Return the use until now as facts of a result; call it when all processes have ended."""
        own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        peak_bytes = max(self._peak_bytes, (own.ru_maxrss + ended.ru_maxrss) * _KIB)
        seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
        return {
            MEMORY_PEAK_BYTES: peak_bytes,
            **memory_facts(request, job),
            CPU_SECONDS: round(seconds, 2),
            ELAPSED_SECONDS: round(time.monotonic() - self._began, 2),
        }


def memory_facts(request: RequestEnvironment, job: JobEnvironment) -> dict[str, int | float]:
    """Return the peak of the job's control group, if it has one, and the amounts that the job has asked for."""
    facts: dict[str, int | float] = {
        MEMORY_PEAK_BYTES: group_peak_bytes(os.environ.get(job.job_id, "")),
        MEMORY_ASKED_BYTES: request.memory_bytes(os.environ),
        CPUS_ASKED: request.cpu_count(os.environ),
    }
    return {name: value for name, value in facts.items() if value}


def group_peak_bytes(job_id: str, own: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the peak memory of the control group that Slurm made for this job; 0 without such a group.

    The groups above it hold other jobs or other work too, and one of its steps is only a part of it.
    """
    with suppress(OSError, ValueError):
        for line in own.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            parts = Path(path.lstrip("/")).parts
            if not job_id or f"job_{job_id}" not in parts:
                continue
            group = Path(*parts[: parts.index(f"job_{job_id}") + 1])
            if number == "0":
                file = mount / group / "memory.peak"
            elif "memory" in controllers.split(","):
                file = mount / "memory" / group / "memory.max_usage_in_bytes"
            else:
                continue
            if file.exists():
                return int(file.read_text())
    return 0


def _peak_bytes(pid: int) -> int:
    """Return the greatest resident memory of a process so far; 0 if it is gone or hidden."""
    kibibytes = status_value(pid, b"VmHWM")
    return int(kibibytes) * _KIB if kibibytes.isdigit() else 0
