"""The environment of a job: the variables by which its scheduler describes it."""

import math
import time
from collections.abc import Mapping
from typing import Any

from hpc_board.model.value import Value

_DIGITS_MAX = 12


class JobEnvironment(Value):
    """The names of a scheduler's variables, each "" if its jobs have no such variable.

    Attributes:
        prefix: the common prefix of all its variables, which a container must receive.
        job_id: the id of the job.
        array_id: the id of the job array of which the job is a task.
        array_index: the index of the task in that array.
        end_time: the end of the job by its time limit, in seconds since 1970.
        restarts: the number of times the scheduler restarted the job.
        node: the scheduler's name of the node.
        partition: the partition of the node.
        passed_on: the variables that the processes of a submission get too.
    """

    prefix: str = ""
    job_id: str = ""
    array_id: str = ""
    array_index: str = ""
    end_time: str = ""
    restarts: str = ""
    node: str = ""
    partition: str = ""
    passed_on: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "JobEnvironment":
        """Return the environment with the attributes in the JSON object `value`."""
        return cls(**{**value, "passed_on": tuple(value.get("passed_on", ()))})

    def own_id(self, environ: Mapping[str, str]) -> str:
        """Return the job's id in `environ`; for a task of an array, the array's id and the index as users write it."""
        array, index = environ.get(self.array_id, ""), environ.get(self.array_index, "")
        return f"{array}_{index}" if array and index else environ.get(self.job_id, "")

    def seconds_left(self, environ: Mapping[str, str]) -> float:
        """Return the time until the end of the job of `environ`; infinite if its scheduler does not tell."""
        text = environ.get(self.end_time, "")
        return int(text) - time.time() if text.isascii() and text.isdigit() else math.inf

    def restart_count(self, environ: Mapping[str, str]) -> int:
        """Return the number of times the scheduler restarted the job of `environ`."""
        return int(environ.get(self.restarts, "0"))


class RequestEnvironment(Value):
    """The names of a scheduler's variables for the amounts that a job has asked for, each "" without such a variable.

    Attributes:
        memory_mib: the memory on the node.
        memory_per_cpu_mib: the memory for each CPU.
        memory_per_gpu_mib: the memory for each GPU.
        cpus: the CPUs on the node.
        gpus: the GPUs on the node.
    """

    memory_mib: str = ""
    memory_per_cpu_mib: str = ""
    memory_per_gpu_mib: str = ""
    cpus: str = ""
    gpus: str = ""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "RequestEnvironment":
        """Return the environment with the attributes in the JSON object `value`; others are a later version's."""
        return cls(**{name: value[name] for name in cls.__match_args__ if name in value})

    def cpu_count(self, environ: Mapping[str, str]) -> int:
        """Return the number of CPUs of the job of `environ`; 0 if unknown."""
        return _count(environ, self.cpus)

    def memory_bytes(self, environ: Mapping[str, str]) -> int:
        """Return the memory for which the job of `environ` has asked; 0 if unknown, or all of the node's."""
        mebibytes = (
            _count(environ, self.memory_mib)
            or _count(environ, self.memory_per_cpu_mib) * _count(environ, self.cpus)
            or _count(environ, self.memory_per_gpu_mib) * _count(environ, self.gpus)
        )
        return mebibytes * 2**20


def log_name(job_id: str) -> str:
    """Return the name of the file in the job folder that takes the job's output: sbatch's own, for which users look."""
    return f"slurm-{job_id}.out"


def _count(environ: Mapping[str, str], name: str) -> int:
    """Return the number in a variable; 0 without one."""
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX else 0
