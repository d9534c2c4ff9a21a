"""A program that lists this account's jobs through pyslurm: a line of JSON.

    PYTHON pyslurm_helper.py SECONDS

    {"jobs": [["4711", "hb-0123456789abcdef", "PENDING", 1795321150, null, "", "None", 0, "/b/runs/7/job.sh", ""]]}
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
    """Import pyslurm, and print the answer."""
    # The folder of this file would be searched before everything that pyslurm imports.
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != own]
    # The output of libraries goes to standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    # The kernel ends this process after that time: no Python code runs while a call into Slurm hangs.
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
    # Without this the library cuts the list of an array's waiting tasks after 64 characters.
    os.environ["SLURM_BITSTR_LEN"] = "0"
    with os.fdopen(answers, "w") as answer:
        json.dump(_answer(), answer)


def _answer() -> dict[str, Any]:
    try:
        import pyslurm

        return {"jobs": _jobs(pyslurm)}
    except Exception as error:  # noqa: BLE001 - a binding that was built for another Slurm fails in many ways
        number = getattr(error, "errno", None)
        words = str(error) if number is not None else f"{type(error).__name__}: {error}"
        return {"error": words, "errno": number if isinstance(number, int) else None}


def _jobs(pyslurm: Any) -> list[list[Any]]:
    """Return this account's jobs: id, name, state, times of submission and start, node, reason, restarts, and more.

    The last two are the command, which is the path of a batch script, and the comment.
    """
    uid = os.getuid()
    return [
        [
            _id(job),
            _text(job, "name"),
            job.state,
            job.submit_time,
            job.start_time,
            job.allocated_nodes,
            job.state_reason,
            job.requeue_count,
            _text(job, "command"),
            _text(job, "comment"),
        ]
        for job in pyslurm.Jobs.load().values()
        if job.user_id == uid
    ]


def _text(job: Any, attribute: str) -> str:
    try:
        return str(getattr(job, attribute) or "")
    except UnicodeDecodeError:
        return ""


def _id(job: Any) -> str:
    """Return the job's id as squeue prints it. The bindings have None for the array index 0."""
    if not job.array_id:
        return str(job.id)
    waiting = job.array_tasks_waiting
    return f"{job.array_id}_[{waiting}]" if waiting else f"{job.array_id}_{job.array_task_id or 0}"


if __name__ == "__main__":
    main()
