"""The result file: what every result says of its job, and how it is written."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpc_board.harness.files import whole_file
from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.progress import PROGRESS, now_text
from hpc_board.model.result import Case, Result, ResultError, Verdict

RESULT = "result.json"


def provenance_of(job: JobSpec) -> dict[str, Any]:
    """The facts about a job's inputs that each of its results carries."""
    hashes = {f"{name}_sha256": job.sha256[name] for name in ("harness", "task", "submission")}
    container = {"container": job.container} if job.container else {}
    return {**hashes, "harness": job.harness, "emulated": job.emulated, **container}


def result_of(
    job: JobSpec,
    verdict: Verdict,
    message: str,
    cases: Sequence[Case],
    provenance: Mapping[str, Any],
    *,
    started_at: str,
) -> Result:
    """The result of a job that ends now."""
    return Result(
        run=job.run,
        nonce=job.nonce,
        mode=str(job.mode),
        verdict=verdict,
        message=message,
        cases=tuple(cases),
        job_id=_job_id(),
        restart_count=_restart_count(),
        started_at=started_at,
        ended_at=now_text(),
        provenance=provenance,
    )


def judged_before(folder: Path) -> bool:
    """Whether an earlier attempt of this job has left a whole result; anything less that it left is set aside.

    `result.json` and `progress.jsonl` are then called after the attempt before this one: `result.0.json`.
    """
    attempt = _restart_count()
    if not attempt:
        return False
    with suppress(OSError, ResultError):
        earlier = Result.from_json((folder / RESULT).read_bytes())
        if not earlier.interrupted and earlier.job_id == _job_id():
            return True
    for name in (RESULT, PROGRESS):
        with suppress(FileNotFoundError):
            (folder / name).rename(folder / f"{Path(name).stem}.{attempt - 1}{Path(name).suffix}")
    return False


def _job_id() -> str:
    """The job as Slurm's commands call it; a task of an array has a number of its own beside, which they don't show."""
    array, index = (os.environ.get(f"SLURM_ARRAY_{name}", "") for name in ("JOB_ID", "TASK_ID"))
    return f"{array}_{index}" if array and index else os.environ.get("SLURM_JOB_ID", "")


def _restart_count() -> int:
    """How often the scheduler has begun this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT", "0"))


def write_result(result: Result, folder: Path) -> None:
    """Write `result.json` whole or not at all."""
    with whole_file(folder / RESULT) as file:
        file.write(result.to_json().encode())
