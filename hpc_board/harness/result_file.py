"""The result file: the provenance in every result, its writing, and the result of a job whose supervisor left none."""

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hpc_board.harness.confine.scratch import SCRATCH, remove
from hpc_board.harness.job_spec import JobSpec, facts
from hpc_board.harness.measure.usage import memory_facts
from hpc_board.harness.node import MEMORY_RAN_OUT, node_facts, oom_kills
from hpc_board.harness.processes.signals import SIGNALS, signal_name
from hpc_board.harness.progress import PROGRESS, Step, now_text, past
from hpc_board.model.files import whole_file
from hpc_board.model.job_environment import JobEnvironment
from hpc_board.model.result import INTERRUPTED, Case, Result, Verdict
from hpc_board.model.runner import place_facts

RESULT = "result.json"
SPACE_SECONDS = 120.0
"""The time for others to make space on a full disk, during which the job keeps its result and its GPU."""

_SPACE_PAUSE_SECONDS = 1.0


def provenance_of(job: JobSpec) -> dict[str, Any]:
    """Return the facts about a job's inputs in each of its results."""
    hashes = {f"{name}_sha256": job.sha256[name] for name in ("harness", "task", "submission")}
    container = {"container": job.container} if job.container else {}
    return {**hashes, "harness": job.harness, "emulated": job.emulated, **container, **place_facts(os.environ)}


def result_of(
    job: JobSpec,
    verdict: Verdict,
    message: str,
    cases: Sequence[Case],
    provenance: Mapping[str, Any],
    *,
    started_at: str,
) -> Result:
    """Return the result of a job that ends now."""
    return Result(
        run=job.run,
        nonce=job.nonce,
        mode=str(job.mode),
        verdict=verdict,
        message=message,
        cases=tuple(cases),
        job_id=job.job_environment.own_id(os.environ),
        restart_count=job.job_environment.restart_count(os.environ),
        started_at=started_at,
        ended_at=now_text(),
        provenance=provenance,
    )


def judged_before(folder: Path, job: JobEnvironment) -> bool:
    """Return whether an earlier attempt of this job has left a whole result; set any partial files of it aside.

    `result.json` and `progress.jsonl` are then named after the attempt before this one: `result.0.json`.
    """
    attempt = job.restart_count(os.environ)
    if not attempt:
        return False
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        earlier = json.loads((folder / RESULT).read_bytes())
        if not earlier["provenance"].get(INTERRUPTED) and earlier["job_id"] == job.own_id(os.environ):
            return True
    for name in (RESULT, PROGRESS):
        with suppress(FileNotFoundError):
            (folder / name).rename(folder / f"{Path(name).stem}.{attempt - 1}{Path(name).suffix}")
    return False


def write_result(
    result: Result,
    folder: Path,
    make_space: Callable[[], object] | None = None,
    *,
    space_seconds: float = SPACE_SECONDS,
) -> None:
    """Write `result.json` whole or not at all; once more after `make_space` if the disk does not take it.

    While the disk or a quota is full, this tries again for `space_seconds`, or until the job is killed.

    Raises:
        OSError: it cannot be written.
    """
    give_up = time.monotonic() + space_seconds
    while True:
        try:
            with whole_file(folder / RESULT, mode=0o640) as file:
                file.write(result.to_json().encode())
        except OSError as error:
            if make_space is not None:
                make_space()
                make_space = None
            elif error.errno not in (errno.ENOSPC, errno.EDQUOT) or time.monotonic() >= give_up:
                raise
            else:
                time.sleep(_SPACE_PAUSE_SECONDS)
        else:
            return


def account(path: Path, status: int) -> int:
    """Write the result of a job whose supervisor ended with `status` and left none; called by the batch script.

    A supervisor killed while cases ran was killed by the submission, or with it. One that was told to end (SIGTERM,
    SIGINT) before it could heed the signal was interrupted.
    """
    folder = path.resolve().parent
    job = facts(path)
    ended_by = status - 128
    if (folder / RESULT).exists():
        return status
    known = past(folder)
    last = known.last
    cases: Sequence[Case] = ()
    provenance = {**node_facts(job.job_environment), **provenance_of(job), "isolation": known.isolation}
    provenance |= memory_facts(job.request_environment, job.job_environment)
    if ended_by in SIGNALS:
        verdict, name = Verdict.INFRA_ERROR, signal_name(ended_by)
        message = f"stopped by {name} {last.words() if last else 'before the first case'}"
        provenance[INTERRUPTED] = name
    elif ended_by > 0 and last:
        verdict, message = killed(ended_by, last, oom_kills() > known.oom_kills)
        cases = [Case(last.phase, (last.case or 1) - 1, last.message, verdict, message)]
    else:
        verdict = Verdict.INFRA_ERROR
        message = f"the supervisor exited with status {status} and left no result; the job's output has the reason"
    remove_scratch = partial(_remove_scratch, known.scratch)
    result = result_of(job, verdict, message, cases, provenance, started_at=now_text())
    # A supervisor that was not killed may have waited for space itself.
    write_result(result, folder, make_space=remove_scratch, space_seconds=SPACE_SECONDS if ended_by > 0 else 0)
    remove_scratch()
    return status if ended_by in SIGNALS else 0


def _remove_scratch(scratch: Path | None) -> None:
    """Remove the submission's files at the place that the progress file names, if it names one of that kind."""
    if scratch is not None and scratch.name.startswith(SCRATCH):
        remove(scratch)


def killed(number: int, last: Step, memory_ran_out: bool) -> tuple[Verdict, str]:
    """Return verdict and message for a supervisor that was killed by a signal while a case ran."""
    message = f"the supervisor was killed by signal {number} {last.words()}"
    if number != signal.SIGKILL:
        return Verdict.CRASH, f"{message}; this happens if a kernel kills its parent"
    if memory_ran_out:
        return Verdict.OUT_OF_MEMORY, f"{message}; {MEMORY_RAN_OUT}"
    reasons = "this happens if a kernel kills its parent, or if the node runs out of memory"
    return Verdict.CRASH, f"{message}; {reasons}"
