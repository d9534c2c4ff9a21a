"""The result of a job whose supervisor left none, derived from its progress file."""

import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpc_board.harness.confine.scratch import SCRATCH, remove
from hpc_board.harness.job_spec import facts
from hpc_board.harness.measure.usage import memory_facts
from hpc_board.harness.node import MEMORY_RAN_OUT, node_facts, oom_kills
from hpc_board.harness.processes.signals import SIGNALS, signal_name
from hpc_board.harness.progress import Step, now_text, past
from hpc_board.harness.result_file import RESULT, provenance_of, result_of, write_result
from hpc_board.model.result import INTERRUPTED, Case, Verdict


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
        message = f"the supervisor ended with status {status} and left no result; the job's output says why"
    remove_scratch = partial(_remove_scratch, known.scratch)
    result = result_of(job, verdict, message, cases, provenance, started_at=now_text())
    write_result(result, folder, make_space=remove_scratch)
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
        return Verdict.CRASH, f"{message}; a kernel that kills its parent ends so"
    if memory_ran_out:
        return Verdict.OUT_OF_MEMORY, f"{message}; {MEMORY_RAN_OUT}"
    reasons = "a kernel that kills its parent ends so, and so does a job whose node ran out of memory"
    return Verdict.CRASH, f"{message}; {reasons}"
