"""The linter: examines a task by giving its real judge correct and bogus answers.

It starts zygote and judge like the supervisor, and the prober in place of a worker: the judge makes inputs, the prober
makes answers to them, and the judge checks these. A template or a milestone of the task is called by a worker like any
submission, with more seeds; the prober makes worse answers from its own. The results are written to `lint.json`, as
facts.
"""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from hpc_board.harness.confine import sandbox
from hpc_board.harness.job_spec import JobSpec, facts
from hpc_board.harness.launcher import Processes, processes_for
from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.crew import worker_in
from hpc_board.harness.measure.means import check_rule, traced_means
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import (
    CallFailed,
    Phase,
    TimeBudget,
    judge_answer,
    public_seed,
    secret_seed,
)
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.signals import Interrupted, Interruption
from hpc_board.harness.progress import Progress
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.replies import Checked, Filled, Generated, Kept, Made, OfJudge, Taken
from hpc_board.model.kernels import Used
from hpc_board.model.lint import (
    INPUTS_ULP,
    MARGIN_MAX,
    PROBES,
    SECRET_SEEDS,
    SUBMISSION,
    UNMADE,
    CheckedCase,
    Lint,
    Probed,
)
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


def lint(path: Path, harness: Path, cases_max: int, seconds: float, *, tries: bool) -> int:
    """Examine the task of the job file at `path` and write `lint.json` beside it; return the exit status.

    It `tries` the submission of the job, or else the judge.
    """
    sandbox.guard_supervisor()
    interruption = Interruption()
    os.umask(0o077)
    job = facts(path)
    folder = path.resolve().parent
    with processes_for(job, folder, harness) as processes:
        try:
            with interruption.heeded():
                kind = _Trial if tries else _Linter
                found = kind(job, folder, processes, time.monotonic() + seconds).lint(cases_max)
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

    def __init__(self, job: JobSpec, folder: Path, processes: Processes, deadline: float) -> None:
        self._job = job
        self._folder = folder
        self._progress = Progress(folder)
        self._processes = processes
        self._judge_seconds = job.limits.judge_seconds
        self._deadline = deadline
        self._calls = 0
        self._shapes: set[tuple[tuple[int, ...], ...]] = set()
        self._forms: set[str] = set()
        self._cases = {
            "test": (*job.tests, *job.hidden_tests),
            "benchmark": (*job.benchmarks, *job.hidden_benchmarks),
        }
        self._public = {"test": len(job.tests), "benchmark": len(job.benchmarks)}
        self._fixed: int | None = None
        self._judge: Child
        self._prober: Child | None = None

    def lint(self, cases_max: int) -> Lint:
        """Return the judge's verdicts on up to `cases_max` cases, as many tests as benchmarks."""
        planned = [(phase, *each) for phase, all_cases in self._cases.items() for each in enumerate(all_cases)]
        chosen = sorted(planned, key=lambda each: each[1])[:cases_max]
        cases: list[CheckedCase] = []
        left_out: list[CheckedCase] = []
        message, verdict, of_machine, broken_rule = "", "", False, ""
        try:
            self._progress.say("start", None, None, "loading")
            self._start()
            for phase, index, case in planned:
                hidden = max(0, index + 1 - self._public[phase])
                checked = CheckedCase(phase, index, printable(case_text(case), _MESSAGE_MAX), hidden=hidden)
                if (phase, index, case) not in chosen:
                    left_out.append(replace(checked, left_out=f"only {cases_max} cases are checked"))
                elif cases and cases[-1].lost:
                    left_out.append(replace(checked, left_out=f"{cases[-1].name} ended {self._ended}"))
                elif time.monotonic() >= self._deadline:
                    left_out.append(replace(checked, left_out=_TIME_OVER))
                else:
                    self._progress.say(phase, len(cases) + 1, len(chosen), f"{checked.name} ({checked.spec})")
                    cases.append(self._checked(checked, case))
            broken_rule = self._broken_rule(cases)
        except CallFailed as error:
            message, verdict, of_machine = error.message, str(error.verdict), error.verdict in _OF_MACHINE
        except OSError as error:
            message, of_machine = f"the harness failed on this machine: {error}", True
        self._processes.close()
        printed = self._processes.judge_said.log().text[-_MESSAGE_MAX:]
        return Lint(message, verdict, tuple(cases), tuple(left_out), printed, of_machine, broken_rule)

    def _broken_rule(self, cases: Sequence[CheckedCase]) -> str:
        """Return the fault of a submission that passes all cases by means against the task's rule; "" without."""
        del cases
        return ""

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
        """Yield the results so far: after a comparison of inputs, and after each probe and each secret seed."""
        group, seed = f"{checked.phase}.{checked.index}", public_seed(case)
        other_seed = _OTHER_SEED if seed != _OTHER_SEED else 0
        self._shapes.clear()
        self._forms.clear()
        with ExitStack() as held:
            first, other, again = [self._inputs(held, case, group, each) for each in (seed, other_seed, seed)]
            repeatable, seeded = payload.same(first, again), not payload.same(first, other)
            checked = replace(
                checked,
                repeatable=repeatable,
                seeded=seeded,
                steady=len(self._shapes) == 1,
                one_form=len(self._forms) == 1,
            )
            yield checked
            if self._job.rules.prepare and self._fixed_shapes(case, seed) != self._fixed_shapes(case, other_seed):
                message = (
                    "hpc_board.prepare names inputs whose shapes depend on the seed: those of one seed fit no others"
                )
                raise CallFailed(Verdict.TASK_ERROR, message)
            if self._prober is None or not repeatable:
                self._judge.send({"type": "forget"})
                return
            made = self._take(self._prober, first)
        for name in [name for name in PROBES if name in made]:
            try:
                probed = self._probed(self._prober, name, case, group, seed)
                if name == INPUTS_ULP and probed.verdict == Verdict.PASS:
                    probed = self._with_margin(self._prober, probed, case, group, seed)
            except CallFailed as error:
                message = f"{PROBES[name].title}: {error.message}"
                raise CallFailed(error.verdict, message, worker_lost=error.worker_lost) from None
            checked = replace(checked, probed=(*checked.probed, probed))
            yield checked
            if checked.probed[0].verdict != Verdict.PASS:
                return
        for _ in range(SECRET_SEEDS):
            before = next(each for each in checked.probed if each.probe == INPUTS_ULP)
            if before.verdict != Verdict.PASS:
                return
            moved = self._moved(self._prober, before, case, group, secret_seed())
            probes = tuple(moved if each is before else each for each in checked.probed)
            checked = replace(checked, probed=probes, steady=len(self._shapes) == 1)
            yield checked

    def _moved(self, prober: Child, before: Probed, case: _Case, group: str, seed: int) -> Probed:
        """Return the result of the answer to inputs that are moved, with those of one more seed."""
        with ExitStack() as held:
            self._take(prober, self._inputs(held, case, group, seed))
        found = self._probed(prober, INPUTS_ULP, case, group, seed)
        if found.verdict == UNMADE:
            return replace(before, seeds=before.seeds + 1)
        if found.verdict != Verdict.PASS:
            return replace(found, message=f"with the seed {seed}: {found.message}", seeds=before.seeds + 1)
        return self._with_margin(prober, found, case, group, seed, before)

    def _with_margin(
        self, prober: Child, found: Probed, case: _Case, group: str, seed: int, before: Probed | None = None
    ) -> Probed:
        """Return an answer that passed with the least margin of this seed and of those before."""
        known = before.margin if before is not None else None
        seeds = before.seeds + 1 if before is not None else 1
        if found.same:
            return replace(found, margin=known, same=before is None or before.same, seeds=seeds)
        low, high = 0, (known or MARGIN_MAX).bit_length() - 1
        middle = high
        while low < high:
            stretched = self._probed(prober, found.probe, case, group, seed, factor=2**middle)
            if stretched.verdict == UNMADE:
                return replace(found, margin=known, seeds=seeds)
            low, high = (middle, high) if stretched.verdict == Verdict.PASS else (low, middle - 1)
            middle = (low + high + 1) // 2
        return replace(found, margin=2**low, seeds=seeds)

    def _take(self, prober: Child, inputs: int) -> tuple[str, ...]:
        """Have the prober answer the inputs of a case, and return the names of its probes."""
        self._judge.send({"type": "forget"})
        prober.send({"type": "take"}, [inputs])
        return self._probes(prober, Taken).probes

    def _probed(self, prober: Child, name: str, case: _Case, group: str, seed: int, *, factor: int = 1) -> Probed:
        """Have the judge check the prober's answer, if it can be made."""
        with ExitStack() as held:
            room = os.memfd_create("probe", os.MFD_CLOEXEC)
            held.callback(os.close, room)
            prober.send({"type": "make", "probe": name, "factor": factor}, [room])
            made = self._probes(prober, Made)
            if made.fault:
                return Probed(name, UNMADE, made.fault, same=False)
            self._inputs(held, case, group, seed)
            verdict, message = self._opinion(group, room)
            return Probed(name, verdict, printable(message, _MESSAGE_MAX), made.same)

    _ended = "the judge"
    """The process that a case may end."""

    def _inputs(self, held: ExitStack, case: _Case, group: str, seed: int) -> int:
        """Return the judge's inputs of a case and a seed, for the next call, open until `held` is left."""
        if time.monotonic() >= self._deadline:
            raise _TimeOver
        self._calls += 1
        call, seconds = self._calls, self._judge_seconds
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case), "public": False}
        # The fixed inputs are those of the same seed, unless a submission has prepared other ones.
        fixed = (seed if self._fixed is None else self._fixed) if self._job.rules.prepare else None
        self._judge.send({**frame, "fixed": fixed, "filled": True})
        late = f"the task did not generate the inputs and the reference's answer within {seconds:g} s"
        deadline = time.monotonic() + seconds
        generated = judge_answer(self._judge, Generated, deadline, late)
        size = generated.size
        self._forms.add(json.dumps(generated.form and generated.form.node))
        descriptor = os.memfd_create("inputs", os.MFD_CLOEXEC)
        held.callback(os.close, descriptor)
        os.ftruncate(descriptor, size)
        self._judge.send({"type": "fill", "calls": [call], "bases": [0], "cold": False}, [descriptor])
        judge_answer(self._judge, Filled, deadline, late)
        self._shapes.add(payload.shapes(descriptor))
        return descriptor

    def _fixed_shapes(self, case: _Case, seed: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the fixed inputs of a case and a seed."""
        with ExitStack() as held:
            room = os.memfd_create("fixed", os.MFD_CLOEXEC)
            held.callback(os.close, room)
            self._judge.send({"type": "fix", "case": dict(case), "seed": seed}, [room])
            late = f"the task did not generate the fixed inputs within {self._judge_seconds:g} s"
            judge_answer(self._judge, Filled, time.monotonic() + self._judge_seconds, late)
            return payload.shapes(room)

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


class _Trial(_Linter):
    """A judge with a prober, and a worker with a submission that should pass with every seed."""

    _ended = "the process of the submission"

    def _start(self) -> None:
        super()._start()
        if self._job.language.compiled:
            self._build()
        self._child = self._processes.loaded_worker()
        # A call that has begun may end: the limits of a call bound it.
        self._worker = worker_in(Worker, self._child, self._processes, self._job.limits, TimeBudget(math.inf))
        self._benches = {
            name: Bench(self._judge, Phase(name, each, math.inf), self._job.limits, self._job.rules)
            for name, each in self._cases.items()
        }

    def _build(self) -> None:
        from hpc_board.harness.build.builder import build
        from hpc_board.harness.build.toolchain import BuildFailed

        self._progress.say("build", None, None, "compiling")
        try:
            self._processes.library = build(self._job, self._folder, self._processes).library
        except BuildFailed as error:
            raise CallFailed(error.verdict, f"{error.message}\n{error.log.text}") from None

    def _broken_rule(self, cases: Sequence[CheckedCase]) -> str:
        job, processes = self._job, self._processes
        answers = [probed for case in cases for probed in case.probed]
        if not job.means.words() or not answers or any(each.verdict != Verdict.PASS for each in answers):
            return ""
        launched = tuple[Used, ...]()
        if job.device != "cpu" and job.tests:
            launched = traced_means(job, processes, self._judge, self._child)
        processes.dismiss(self._child)
        try:
            check_rule(job, processes, launched)
        except CallFailed as error:
            if error.verdict in _OF_MACHINE:
                raise
            return error.message
        return ""

    def _steps(self, checked: CheckedCase, case: _Case) -> Iterator[CheckedCase]:
        """Yield the results so far, after each seed."""
        group, bench = f"{checked.phase}.{checked.index}", self._benches[checked.phase]
        before: Probed | None = None
        for seed in (public_seed(case), *(secret_seed() for _ in range(SECRET_SEEDS))):
            if time.monotonic() >= self._deadline:
                raise _TimeOver
            with ExitStack() as held:
                try:
                    output = self._output(held, bench, checked.index, seed)
                except CallFailed as error:
                    if not error.verdict.blames_kernel:
                        raise
                    message = error.message if before is None else f"with the seed {seed}: {error.message}"
                    verdict, seeds = str(error.verdict), 1 if before is None else before.seeds + 1
                    failed = Probed(SUBMISSION, verdict, printable(message, _MESSAGE_MAX), same=False, seeds=seeds)
                    yield replace(checked, probed=(failed,), lost=error.worker_lost)
                    return
                before = self._passed(held, output, case, group, seed, before)
            checked = replace(checked, probed=(before,))
            yield checked

    def _output(self, held: ExitStack, bench: Bench, index: int, seed: int) -> int:
        """Call the submission and return a copy of its output, open until `held` is left."""
        copies: list[int] = []

        def keep(some: Sequence[int]) -> None:
            copies.extend(map(os.dup, some))
            for copy in copies:
                held.callback(os.close, copy)

        bench.call(self._worker, index, [seed], copied_to=keep)
        self._fixed = None if self._worker.fixed is None else self._worker.fixed[1]
        return copies[0]

    def _passed(
        self, held: ExitStack, output: int, case: _Case, group: str, seed: int, before: Probed | None
    ) -> Probed:
        """Return the result of an output that passed, with its margin if the task has a reference."""
        if self._prober is None:
            return Probed(
                SUBMISSION, str(Verdict.PASS), "", same=False, seeds=1 if before is None else before.seeds + 1
            )
        self._take(self._prober, self._inputs(held, case, group, seed))
        self._prober.send({"type": "keep"}, [output])
        self._probes(self._prober, Kept)
        found = self._probed(self._prober, SUBMISSION, case, group, seed)
        return self._with_margin(self._prober, found, case, group, seed, before)
