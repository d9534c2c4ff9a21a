"""A program that lists this account's jobs through pyslurm: a list of their names in, a line of JSON out.

    PYTHON pyslurm_helper.py SECONDS

    ["hb-0123456789abcdef"]
    {"jobs": [["4711", "hb-0123456789abcdef", "RUNNING", 1795321150, 1795321153, "n1", "None", 0]]}
    {"error": "Unable to contact slurm controller (connect failure)", "errno": 1800}

It is a program of its own because the import may end the process or block it for a minute, because calls hold the
interpreter's lock, and because pyslurm is under the GPL. It imports nothing of hpc-board.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Import pyslurm, and answer the question of the input."""
    # The folder of this file would be searched before everything that pyslurm imports.
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != own]
    names = frozenset(json.load(sys.stdin))
    # The output of libraries goes to standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    # The kernel ends this process after that time: no Python code runs while a call into Slurm hangs.
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
    # Without this the library cuts the list of an array's waiting tasks after 64 characters.
    os.environ["SLURM_BITSTR_LEN"] = "0"
    with os.fdopen(answers, "w") as answer:
        json.dump(_answer(names), answer)


def _answer(names: frozenset[str]) -> dict[str, Any]:
    try:
        import pyslurm

        return {"jobs": _jobs(pyslurm, names)}
    except Exception as error:  # noqa: BLE001 - a binding that was built for another Slurm fails in many ways
        number = getattr(error, "errno", None)
        words = str(error) if number is not None else f"{type(error).__name__}: {error}"
        return {"error": words, "errno": number if isinstance(number, int) else None}


def _jobs(pyslurm: Any, names: frozenset[str]) -> list[list[Any]]:
    """Return this account's jobs: id, name, state, times of submission and start, node, reason, restarts."""
    uid = os.getuid()
    return [
        [
            _id(job),
            job.name,
            job.state,
            job.submit_time,
            job.start_time,
            job.allocated_nodes,
            job.state_reason,
            job.requeue_count,
        ]
        for job in pyslurm.Jobs.load().values()
        if job.user_id == uid and _name(job) in names
    ]


def _name(job: Any) -> str | None:
    try:
        return str(job.name)
    except UnicodeDecodeError:
        return None  # another program's: ours are in ASCII


def _id(job: Any) -> str:
    """Return the job's id as squeue prints it. The bindings have None for the array index 0."""
    if not job.array_id:
        return str(job.id)
    waiting = job.array_tasks_waiting
    return f"{job.array_id}_[{waiting}]" if waiting else f"{job.array_id}_{job.array_task_id or 0}"


if __name__ == "__main__":
    main()
