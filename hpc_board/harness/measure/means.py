"""The means of a submission in a job: the kernels of a traced call, the used libraries, and the task's rule on both."""

from collections.abc import Sequence
from dataclasses import replace

from hpc_board.harness.job_spec import JobSpec
from hpc_board.harness.launcher import WORKER_HOME, Processes
from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.crew import worker_in
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import CallFailed, Phase, TimeBudget, public_seed
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.libraries import use_is_known
from hpc_board.harness.profile.profilers import kernels_in
from hpc_board.model.kernels import Used
from hpc_board.model.means import KINDS, kernel_means, library_means, rule_fault
from hpc_board.model.result import Verdict

_TRACE_SECONDS = 60.0
_TRACED_CALLS = 2
"""Number of calls after which kernels are traced: the profiler leaves the first one out, which may compile."""


def traced_means(job: JobSpec, processes: Processes, judge: Child, child: Child) -> tuple[Used, ...]:
    """Return the kinds of the kernels that a call of the last test launches; a rule on kernels needs to know them.

    PyTorch's profiler reports them from within the worker `child`.

    Raises:
        CallFailed: they are not known, and the task has a rule on kernels.
    """
    seconds, home = _TRACE_SECONDS, processes.scratch / WORKER_HOME
    limits = replace(job.limits, first_call_seconds=seconds, call_seconds=seconds)
    worker = worker_in(Worker, child, processes, limits, TimeBudget(seconds))
    bench = Bench(judge, Phase("test", job.tests, seconds, only=job.only), limits, job.rules)
    index, found = bench.phase.indices[-1], tuple[Used, ...]()
    try:
        worker.trace_kernels(home)
        for _ in range(_TRACED_CALLS):
            bench.call(worker, index, [public_seed(bench.phase.cases[index])])
        found = kernel_means([each.name for each in kernels_in(home)], processes.source())
    except CallFailed as error:
        fault = error.message
    else:
        fault = "" if found else "the profiler of PyTorch saw no kernel of a call"
    if fault and any(KINDS[name].has_kernels for name in (*job.means.require, *job.means.forbid)):
        message = f"the task's rule on kernels cannot be checked: {fault}"
        raise CallFailed(Verdict.INFRA_ERROR, message, worker_lost=True)
    return found


def used_means(processes: Processes, launched: Sequence[Used]) -> tuple[Used, ...]:
    """Return the kinds of the `launched` kernels, and the libraries that the submission has used by now."""
    return (*launched, *library_means(processes.libraries))


def check_rule(job: JobSpec, processes: Processes, launched: Sequence[Used]) -> None:
    """Check that the kernels and libraries that a submission has used by now keep its task's rule.

    Raises:
        CallFailed: it breaks the rule, or this node cannot tell.
    """
    rule = job.means
    libraries = [name for name in (*rule.require, *rule.forbid) if KINDS[name].library]
    if libraries and job.device == "cpu" and not use_is_known():
        message = f"this node's kernel has no /proc/PID/pagemap, by which the rule on {libraries[0]} is checked"
        raise CallFailed(Verdict.INFRA_ERROR, message)
    if libraries and processes.libraries_unread:
        message = f"its memory has too many parts to check the rule on {libraries[0]}"
        raise CallFailed(Verdict.PROTOCOL_VIOLATION, message)
    fault = rule_fault(rule, used_means(processes, launched), traced=bool(launched))
    if fault:
        raise CallFailed(Verdict.PROTOCOL_VIOLATION, fault)
