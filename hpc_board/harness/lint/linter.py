"""The linter: examines a task by giving its real judge right and cheap answers.

It starts zygote and judge like the supervisor, and the prober in place of a worker: the judge makes inputs, the prober
makes answers to them, and the judge checks these. The results are written to `lint.json`, as facts.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hpc_board.harness.confine import sandbox
from hpc_board.harness.job_spec import JobSpec, facts
from hpc_board.harness.launcher import Processes, processes_for
from hpc_board.harness.lint.case import MESSAGE_MAX, Examination, Inquiry, TimeOver
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.harness.processes.signals import Interrupted, Interruption
from hpc_board.model.lint import CheckedCase, LeftOut, Lint
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue

LINT = "lint.json"

_OF_MACHINE = (Verdict.INFRA_ERROR, Verdict.DEVICE_ERROR)

_Planned = tuple[str, int, Mapping[str, CaseValue]]


def lint(path: Path, harness: Path, cases_max: int, seconds: float) -> int:
    """Examine the task of the job file at `path` and write `lint.json` beside it; return the exit status."""
    sandbox.guard_supervisor()
    interruption = Interruption()
    os.umask(0o077)
    job = facts(path)
    folder = path.resolve().parent
    with processes_for(job, folder, harness) as processes:
        try:
            with interruption.heeded():
                found = Linter(job, processes).lint(cases_max, time.monotonic() + seconds)
            (folder / LINT).write_text(json.dumps(asdict(found), allow_nan=False), encoding="utf-8")
        except Interrupted:
            return interruption.status
    return 0


class Linter:
    """An examination of as many of a task's cases as the time allows."""

    def __init__(self, job: JobSpec, processes: Processes) -> None:
        self._job = job
        self._processes = processes

    def lint(self, cases_max: int, deadline: float) -> Lint:
        """Return the judge's verdicts on up to `cases_max` cases, until the `deadline`."""
        chosen, left_out = _chosen(self._job.tests, self._job.benchmarks, cases_max)
        cases: list[CheckedCase] = []
        message, of_machine = "", False
        try:
            inquiry = self._inquiry(deadline)
            for number, (phase, index, case) in enumerate(chosen):
                if time.monotonic() >= deadline or (cases and cases[-1].lost):
                    why = f"{cases[-1].name} ended the judge" if cases and cases[-1].lost else "the time was over"
                    left_out += [LeftOut(each[0], each[1], why) for each in chosen[number:]]
                    break
                cases.append(_examine(Examination(inquiry, phase, index, case)))
        except CallFailed as error:
            message, of_machine = error.message, error.verdict in _OF_MACHINE
        except OSError as error:
            message, of_machine = f"the harness failed on this machine: {error}", True
        self._processes.close()
        printed = self._processes.judge_said.log().text[-MESSAGE_MAX:]
        return Lint(message, tuple(cases), tuple(left_out), printed, of_machine)

    def _inquiry(self, deadline: float) -> Inquiry:
        """Return a judge, and a prober if a reference exists to make answers from."""
        processes, prober = self._processes, None
        processes.other_python = "with --python"
        processes.start()
        judge = processes.judge()
        processes.await_judge(judge)
        if processes.has_baseline:
            prober = processes.prober()
            processes.await_ready(prober)
        return Inquiry(judge, prober, self._job.limits.judge_seconds, deadline)


def _examine(examination: Examination) -> CheckedCase:
    """Return the result of an examination.

    Raises:
        CallFailed: this machine lacks a required resource.
    """
    try:
        examination.examine()
    except TimeOver:
        examination.unfinished = True
    except CallFailed as error:
        if error.verdict in _OF_MACHINE:
            raise
        examination.failure, examination.lost = error.message, error.worker_lost
    return examination.result()


def _chosen(
    tests: Sequence[Mapping[str, CaseValue]], benchmarks: Sequence[Mapping[str, CaseValue]], cases_max: int
) -> tuple[list[_Planned], list[LeftOut]]:
    """Return the selected cases and the left-out ones; a bounded selection takes as many of each kind."""
    planned: list[_Planned] = [("test", index, case) for index, case in enumerate(tests)]
    planned += [("benchmark", index, case) for index, case in enumerate(benchmarks)]
    taken = {(phase, index) for phase, index, _ in sorted(planned, key=lambda each: each[1])[:cases_max]}
    why = f"only {cases_max} cases are looked at"
    left_out = [LeftOut(phase, index, why) for phase, index, _ in planned if (phase, index) not in taken]
    return [each for each in planned if each[:2] in taken], left_out
