"""The result file: the provenance in every result, and its writing."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.progress import PROGRESS, now_text
from hpc_board.model.files import whole_file
from hpc_board.model.job_environment import JobEnvironment
from hpc_board.model.result import INTERRUPTED, Case, Result, Verdict

RESULT = "result.json"


def provenance_of(job: JobSpec) -> dict[str, Any]:
    """Return the facts about a job's inputs in each of its results."""
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


def write_result(result: Result, folder: Path, make_space: Callable[[], object] | None = None) -> None:
    """Write `result.json` whole or not at all; once more after `make_space` if the disk does not take it."""
    try:
        with whole_file(folder / RESULT, mode=0o640) as file:
            file.write(result.to_json().encode())
    except OSError:
        if make_space is None:
            raise
        make_space()
        write_result(result, folder)
