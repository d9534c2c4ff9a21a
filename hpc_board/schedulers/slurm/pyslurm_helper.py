"""A program that asks Slurm through pyslurm: a line of JSON in, a line of JSON out, until its input ends.

    PYTHON pyslurm_helper.py SECONDS

The first line that it prints says whether pyslurm could be imported, which may take SECONDS:

    {"id": 0, "ok": {"pyslurm": "25.11.2"}}

Then each question gets an answer with its id. Its `seconds` are how long the answer may take:

    {"id": 1, "ask": "jobs", "names": ["hb-0123456789abcdef"], "seconds": 30}
    {"id": 1, "ok": [["4711", "hb-0123456789abcdef", "RUNNING", 1795321150, 1795321153, "n1", "None", 0]]}
    {"id": 2, "error": "Unable to contact slurm controller (connect failure)", "errno": 1800}

It is a program of its own because the import may end the process or block it for a minute, because calls hold the
interpreter's lock, and because pyslurm is under the GPL. It imports nothing of hpc-board.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO


def main() -> int:
    """Import pyslurm, and answer questions until the input ends."""
    # The folder of this file would be searched before everything that pyslurm imports.
    own = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != own]
    questions, answers = _channels()
    _end_after(float(sys.argv[1]))
    # Without this the library cuts the list of an array's waiting tasks after 64 characters.
    os.environ["SLURM_BITSTR_LEN"] = "0"
    try:
        import pyslurm
    except Exception as error:  # noqa: BLE001 - a binding that was built for another Slurm fails in many ways
        _put(answers, {"id": 0, "error": f"{type(error).__name__}: {error}"})
        return 1
    _put(answers, {"id": 0, "ok": {"pyslurm": str(pyslurm.__version__)}})
    for line in questions:
        question = json.loads(line)
        _end_after(question["seconds"])
        _put(answers, {"id": question["id"], **_answer(pyslurm, question)})
    return 0


def _channels() -> tuple[BinaryIO, BinaryIO]:
    """Return the streams of questions and answers, and redirect stdin and stdout of libraries elsewhere."""
    questions, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(questions, "rb"), os.fdopen(answers, "wb", buffering=0)


def _end_after(seconds: float) -> None:
    """Let the kernel end this process after that time: no Python code runs while a call into Slurm hangs."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _put(answers: BinaryIO, answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[answers.write(data) :]
    signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(pyslurm: Any, question: dict[str, Any]) -> dict[str, Any]:
    try:
        return _jobs(pyslurm, frozenset(question["names"]))
    except pyslurm.RPCError as error:
        return {"error": str(error), "errno": error.errno}
    except Exception as error:  # noqa: BLE001 - any error of the bindings is an answer, too
        return {"error": f"{type(error).__name__}: {error}"}


def _jobs(pyslurm: Any, names: frozenset[str]) -> dict[str, Any]:
    """Return this account's jobs: id, name, state, times of submission and start, node, reason, restarts."""
    uid = os.getuid()
    rows = [
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
    return {"ok": rows}


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
    raise SystemExit(main())
