"""The environment of a job: the variables by which its scheduler tells it what it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class JobEnvironment:
    """The names of a scheduler's variables, each "" where its jobs have none.

    Attributes:
        prefix: the beginning of the names of all its variables, which a container has to be told of.
        job_id: the id of the job.
        array_id: the id of the job array that the job is a task of.
        array_index: the index of the task in that array.
        restarts: how often the scheduler has begun the job before.
        node: the scheduler's name of the node.
        partition: the part of the cluster that the node is in.
        passed_on: the variables that the processes of a submission get too.
    """

    prefix: str = ""
    job_id: str = ""
    array_id: str = ""
    array_index: str = ""
    restarts: str = ""
    node: str = ""
    partition: str = ""
    passed_on: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "JobEnvironment":
        """Return the one whose attributes JSON has as `value`."""
        return cls(**{**value, "passed_on": tuple(value.get("passed_on", ()))})

    def own_id(self, environ: Mapping[str, str]) -> str:
        """Return the job's id in `environ`: of a task of an array, as users write it, its id there and its index."""
        array, index = environ.get(self.array_id, ""), environ.get(self.array_index, "")
        return f"{array}_{index}" if array and index else environ.get(self.job_id, "")

    def restart_count(self, environ: Mapping[str, str]) -> int:
        """Return how often the scheduler has begun the job of `environ` before."""
        return int(environ.get(self.restarts, "0"))
