"""The linter: examines a task by giving its real judge correct and bogus answers.

It starts zygote and judge like the supervisor, and the prober in place of a worker: the judge makes inputs, the prober
makes answers to them, and the judge checks these. The results are written to `lint.json`, as facts.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from hpc_board.harness.confine import sandbox
from hpc_board.harness.job_spec import JobSpec, facts
from hpc_board.harness.launcher import Processes, processes_for
from hpc_board.harness.processes.calls import CallFailed, judge_answer, public_seed
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.signals import Interrupted, Interruption
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.replies import Checked, Filled, Generated, Made, OfJudge, Taken
from hpc_board.model.lint import PROBES, UNMADE, CheckedCase, Lint, Probed
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue, case_text
from hpc_board.model.text import printable

LINT = "lint.json"

_MESSAGE_MAX = 4000
_OTHER_SEED = 2**31 - 1
_PROBER_ANSWERS = 4
_OF_MACHINE = (Verdict.INFRA_ERROR, Verdict.DEVICE_ERROR)
_TIME_OVER = "the time limit was reached"

_Case = Mapping[str, CaseValue]


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
                found = _Linter(job, processes, time.monotonic() + seconds).lint(cases_max)
            (folder / LINT).write_text(json.dumps(asdict(found), allow_nan=False), encoding="utf-8")
        except Interrupted:
            return interruption.status
    return 0


class _TimeOver(Exception):
    """No time is left for further inputs."""


class _Linter:
    """A judge, and a prober if the task has a reference; no inputs are made after `deadline`.

    A step raises CallFailed if the judge, the reference or this machine fails, and _TimeOver if no time is left.
    """

    def __init__(self, job: JobSpec, processes: Processes, deadline: float) -> None:
        self._job = job
        self._processes = processes
        self._judge_seconds = job.limits.judge_seconds
        self._deadline = deadline
        self._calls = 0
        self._judge: Child
        self._prober: Child | None = None

    def lint(self, cases_max: int) -> Lint:
        """Return the judge's verdicts on up to `cases_max` cases, as many tests as benchmarks."""
        planned = [("test", *each) for each in enumerate(self._job.tests)]
        planned += [("benchmark", *each) for each in enumerate(self._job.benchmarks)]
        chosen = sorted(planned, key=lambda each: each[1])[:cases_max]
        cases: list[CheckedCase] = []
        left_out: list[CheckedCase] = []
        message, of_machine = "", False
        try:
            self._start()
            for phase, index, case in planned:
                checked = CheckedCase(phase, index, printable(case_text(case), _MESSAGE_MAX))
                if (phase, index, case) not in chosen:
                    left_out.append(replace(checked, left_out=f"only {cases_max} cases are checked"))
                elif cases and cases[-1].lost:
                    left_out.append(replace(checked, left_out=f"{cases[-1].name} ended the judge"))
                elif time.monotonic() >= self._deadline:
                    left_out.append(replace(checked, left_out=_TIME_OVER))
                else:
                    cases.append(self._checked(checked, case))
        except CallFailed as error:
            message, of_machine = error.message, error.verdict in _OF_MACHINE
        except OSError as error:
            message, of_machine = f"the harness failed on this machine: {error}", True
        self._processes.close()
        printed = self._processes.judge_said.log().text[-_MESSAGE_MAX:]
        return Lint(message, tuple(cases), tuple(left_out), printed, of_machine)

    def _start(self) -> None:
        processes = self._processes
        processes.other_python = "with --python"
        processes.start()
        self._judge = processes.of_task("judge")
        processes.await_judge(self._judge)
        if processes.has_baseline:
            self._prober = processes.of_task("prober")
            processes.await_ready(self._prober)

    def _checked(self, checked: CheckedCase, case: _Case) -> CheckedCase:
        """Return the result for a case."""
        try:
            for step in self._steps(checked, case):
                checked = step
        except _TimeOver:
            return replace(checked, left_out=_TIME_OVER)
        except CallFailed as error:
            if error.verdict in _OF_MACHINE:
                raise
            return replace(checked, failure=error.message, lost=error.worker_lost)
        return checked

    def _steps(self, checked: CheckedCase, case: _Case) -> Iterator[CheckedCase]:
        """Yield the results so far: after a comparison of inputs, and after each probe."""
        group, seed = f"{checked.phase}.{checked.index}", public_seed(case)
        other_seed = _OTHER_SEED if seed != _OTHER_SEED else 0
        with ExitStack() as held:
            first, other, again = [self._inputs(held, case, group, each) for each in (seed, other_seed, seed)]
            self._judge.send({"type": "forget"})
            repeatable, seeded = payload.same(first, again), not payload.same(first, other)
            checked = replace(checked, repeatable=repeatable, seeded=seeded)
            yield checked
            if self._prober is None or not repeatable:
                return
            self._prober.send({"type": "take"}, [first])
            made = self._probes(self._prober, Taken).probes
        for name in [name for name in PROBES if name in made]:
            try:
                probed = self._probed(self._prober, name, case, group, seed)
            except CallFailed as error:
                message = f"{PROBES[name].title}: {error.message}"
                raise CallFailed(error.verdict, message, worker_lost=error.worker_lost) from None
            checked = replace(checked, probed=(*checked.probed, probed))
            yield checked
            if checked.probed[0].verdict != Verdict.PASS:
                return

    def _probed(self, prober: Child, name: str, case: _Case, group: str, seed: int) -> Probed:
        """Have the judge check the prober's answer, if it can be made."""
        with ExitStack() as held:
            room = os.memfd_create("probe", os.MFD_CLOEXEC)
            held.callback(os.close, room)
            prober.send({"type": "make", "probe": name}, [room])
            made = self._probes(prober, Made)
            if made.fault:
                return Probed(name, UNMADE, made.fault, same=False)
            self._inputs(held, case, group, seed)
            verdict, message = self._opinion(group, room)
            return Probed(name, verdict, printable(message, _MESSAGE_MAX), made.same)

    def _inputs(self, held: ExitStack, case: _Case, group: str, seed: int) -> int:
        """Return the judge's inputs of a case and a seed, for the next call, open until `held` is left."""
        if time.monotonic() >= self._deadline:
            raise _TimeOver
        self._calls += 1
        call, seconds = self._calls, self._judge_seconds
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case), "public": False}
        self._judge.send(frame)
        late = f"the task did not generate the inputs and the reference's answer within {seconds:g} s"
        deadline = time.monotonic() + seconds
        size = judge_answer(self._judge, Generated, deadline, late).size
        descriptor = os.memfd_create("inputs", os.MFD_CLOEXEC)
        held.callback(os.close, descriptor)
        os.ftruncate(descriptor, size)
        self._judge.send({"type": "fill", "calls": [call], "bases": [0], "cold": False}, [descriptor])
        judge_answer(self._judge, Filled, deadline, late)
        return descriptor

    def _opinion(self, group: str, output: int) -> tuple[str, str]:
        """Return the judge's verdict of an output of the last call, with its message."""
        self._judge.send({"type": "check", "call": self._calls, "group": group, "seconds": 0.0}, [output])
        seconds = self._judge_seconds
        late = f"the task did not check the output within {seconds:g} s"
        try:
            answer = judge_answer(self._judge, Checked, time.monotonic() + seconds, late)
        except CallFailed as error:
            if error.worker_lost:
                raise
            return str(error.verdict), error.message
        return str(answer.verdict), answer.message

    def _probes(self, prober: Child, kind: type[OfJudge]) -> OfJudge:
        """Return the prober's answer."""
        seconds = _PROBER_ANSWERS * self._judge_seconds
        late = f"the reference did not answer within {seconds:g} s"
        return judge_answer(prober, kind, time.monotonic() + seconds, late, who="the process that calls the reference")
