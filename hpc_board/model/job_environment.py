"""The environment of a job: the variables by which its scheduler describes it."""

from collections.abc import Mapping
from typing import Any

from hpc_board.model.value import Value


class JobEnvironment(Value):
    """The names of a scheduler's variables, each "" if its jobs have no such variable.

    Attributes:
        prefix: the common prefix of all its variables, which a container must receive.
        job_id: the id of the job.
        array_id: the id of the job array of which the job is a task.
        array_index: the index of the task in that array.
        restarts: the number of times the scheduler restarted the job.
        node: the scheduler's name of the node.
        partition: the partition of the node.
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
        """Return the environment with the attributes in the JSON object `value`."""
        return cls(**{**value, "passed_on": tuple(value.get("passed_on", ()))})

    def own_id(self, environ: Mapping[str, str]) -> str:
        """Return the job's id in `environ`; for a task of an array, the array's id and the index as users write it."""
        array, index = environ.get(self.array_id, ""), environ.get(self.array_index, "")
        return f"{array}_{index}" if array and index else environ.get(self.job_id, "")

    def restart_count(self, environ: Mapping[str, str]) -> int:
        """Return the number of times the scheduler restarted the job of `environ`."""
        return int(environ.get(self.restarts, "0"))
