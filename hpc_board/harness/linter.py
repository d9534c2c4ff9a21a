"""The linter: examines a task by asking its real judge about right and cheap answers.

It starts zygote and judge as the supervisor does, and the prober in place of a worker: the judge makes inputs, the
prober makes answers to them, and the judge checks these. What comes of it is written to `lint.json`, as facts.
"""

import json
import math
import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from hpc_board.harness import payload, sandbox
from hpc_board.harness.answers import Checked, Generated
from hpc_board.harness.calls import CallFailed, judge_answer, public_seed
from hpc_board.harness.channel import Frame, ProtocolViolation
from hpc_board.harness.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.interruption import Interrupted, Interruption
from hpc_board.harness.job import facts
from hpc_board.harness.supervisor import SCRATCH, Supervisor, remove
from hpc_board.model.lint import PROBES, UNMADE, Behaviour, CheckedCase, LeftOut, Lint, Probed
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue, case_text
from hpc_board.model.text import printable

LINT = "lint.json"

_OTHER_SEED = 2**31 - 1
_STEPS_PER_OCTAVE = 4
_PROBER_ANSWERS = 4
_MESSAGE_MAX = 4000

_Planned = Tuple[str, int, Mapping[str, CaseValue]]


def lint(path: Path, harness: Path, cases_max: int, seconds: float) -> int:
    """Examine the task of the job file at `path` and write `lint.json` beside it; return the exit status."""
    sandbox.guard_supervisor()
    interruption = Interruption()
    os.umask(0o077)
    job = facts(path)
    folder = path.resolve().parent
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH))
    linter = Linter(job, folder, harness, scratch)
    try:
        with interruption.heeded():
            found = linter.lint(cases_max, time.monotonic() + seconds)
        (folder / LINT).write_text(json.dumps(asdict(found), allow_nan=False), encoding="utf-8")
    except Interrupted:
        return interruption.status
    finally:
        linter.close()
        remove(scratch)
    return 0


@dataclass(frozen=True)
class _Taken:
    """What the prober said of the reference on one case, and the probes that it can make."""

    behaviour: Behaviour
    probes: Tuple[str, ...]
    roundoff: Optional[float]


class _TimeOver(Exception):
    """There is no time left to ask for more."""


class Linter(Supervisor):
    """One examination: its judge, its prober, and the time until which it may ask."""

    _deadline = 0.0
    _judge_child: Child
    _prober: Optional[Child] = None

    def lint(self, cases_max: int, deadline: float) -> Lint:
        """What the judge says on up to `cases_max` cases, asked until the `deadline`."""
        self._deadline = deadline
        chosen, left_out = _chosen(self._job.tests, self._job.benchmarks, cases_max)
        cases: List[CheckedCase] = []
        message = ""
        try:
            self._start_zygote()
            self._judge_child = self._judge()
            self._await_judge(self._judge_child)
            self._prober = self._prober_child() if self._has_baseline else None
            for number, (phase, index, case) in enumerate(chosen):
                if time.monotonic() >= deadline or (cases and cases[-1].lost):
                    why = f"{cases[-1].name} ended the judge" if cases and cases[-1].lost else "the time was over"
                    left_out += [LeftOut(each[0], each[1], why) for each in chosen[number:]]
                    break
                cases.append(self._checked(phase, index, case))
        except CallFailed as error:
            message = error.message
        except OSError as error:
            message = f"the harness failed on this machine: {error}"
        self.close()
        printed = self._judge_said.log().text[-_MESSAGE_MAX:]
        return Lint(message, tuple(cases), tuple(left_out), printed)

    def _prober_child(self) -> Child:
        folder = self._folder / "task"
        child = self._forked("prober", self._scratch, folder, (self._judge_said, self._judge_said), 2**30)
        limits = self._job.limits
        load = {"device": self._job.device, "folder": str(folder), "value_bytes": limits.value_bytes}
        child.send({"type": "load", **load})
        late = f"importing the reference did not return within {limits.load_seconds:g} s"
        judge_answer(child, ("ready", "failed"), time.monotonic() + limits.load_seconds, late)
        return child

    def _checked(self, phase: str, index: int, case: Mapping[str, CaseValue]) -> CheckedCase:
        found = _Case(self, phase, index, case)
        try:
            found.examine()
        except _TimeOver:
            found.unfinished = True
        except CallFailed as error:
            found.failure, found.lost = error.message, error.worker_lost
        return found.result()

    def inputs(self, held: ExitStack, case: Mapping[str, CaseValue], group: str, call: int, seed: int) -> int:
        """The inputs that the judge makes of a case and a seed, open until `held` is left.

        Raises:
            CallFailed: it made none.
        """
        if time.monotonic() >= self._deadline:
            raise _TimeOver
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case)}
        self._judge_child.send(frame)
        seconds = self._job.limits.judge_seconds
        late = f"the task did not make the inputs, and the reference's answer to them, within {seconds:g} s"
        deadline = time.monotonic() + seconds
        answer, fds = judge_answer(self._judge_child, ("generated", "failed"), deadline, late)
        for descriptor in fds:
            held.callback(os.close, descriptor)
        if not isinstance(answer, Generated) or len(fds) != 1:
            raise CallFailed(Verdict.TASK_ERROR, "the judge answered something else", worker_lost=True)
        return fds[0]

    def opinion(self, group: str, call: int, output: int) -> Tuple[Verdict, str]:
        """The judge's verdict of an output, with its message.

        Raises:
            CallFailed: the judge is gone.
        """
        self._judge_child.send({"type": "check", "call": call, "group": group}, [output])
        seconds = self._job.limits.judge_seconds
        late = f"the task did not check the output within {seconds:g} s"
        try:
            answer, _ = judge_answer(self._judge_child, ("checked", "failed"), time.monotonic() + seconds, late)
        except CallFailed as error:
            if error.worker_lost:
                raise
            return error.verdict, error.message
        if isinstance(answer, Checked):
            return answer.verdict, answer.message
        raise CallFailed(Verdict.TASK_ERROR, "the judge answered something else", worker_lost=True)

    def forget(self) -> None:
        """Have the judge drop the inputs of calls that will not be checked."""
        self._judge_child.send({"type": "forget"})

    @property
    def probes(self) -> bool:
        """Whether there is a reference to make answers from."""
        return self._prober is not None

    def asked(self, frame: Frame, fds: Sequence[int], expected: Sequence[str]) -> Frame:
        """The prober's answer.

        Raises:
            CallFailed: the reference failed, or the prober is gone.
        """
        if self._prober is None:
            raise ValueError("there is no prober")
        seconds = _PROBER_ANSWERS * self._job.limits.judge_seconds
        self._prober.send(frame, fds)
        try:
            answer, _ = self._prober.answer((*expected, "failed"), time.monotonic() + seconds)
        except ChildEnded as error:
            message = f"the process that calls the reference is gone: {error.how}"
        except DeadlinePassed:
            message = f"the reference did not answer within {seconds:g} s"
        except (PrintedTooMuch, ProtocolViolation):
            message = "the process that calls the reference cannot be understood"
        else:
            if answer["type"] == "failed":
                raise CallFailed(Verdict.TASK_ERROR, printable(str(answer["message"]), 2 * _MESSAGE_MAX))
            return answer
        raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)


class _Case:
    """One case under examination."""

    def __init__(self, linter: Linter, phase: str, index: int, case: Mapping[str, CaseValue]) -> None:
        self._linter = linter
        self._phase = phase
        self._index = index
        self._case = case
        self._group = f"{phase}.{index}"
        self._seed = public_seed(case)
        self._calls = 0
        self._repeatable = self._seeded = True
        self._taken: Optional[_Taken] = None
        self._probed: List[Probed] = []
        self._margin: Optional[float] = None
        self.failure = ""
        self.lost = False
        self.unfinished = False

    def result(self) -> CheckedCase:
        """What is known by now."""
        taken = self._taken
        return CheckedCase(
            phase=self._phase,
            index=self._index,
            spec=printable(case_text(self._case), _MESSAGE_MAX),
            failure=self.failure,
            lost=self.lost,
            repeatable=self._repeatable,
            seeded=self._seeded,
            behaviour=None if taken is None else taken.behaviour,
            probed=tuple(self._probed),
            margin=self._margin,
            roundoff=None if taken is None else taken.roundoff,
            unfinished=self.unfinished,
        )

    def examine(self) -> None:
        """Compare inputs of the same seed and of others, then have every probe checked.

        Raises:
            CallFailed: the judge or the reference failed.
            _TimeOver: there is no time left.
        """
        with ExitStack() as held:
            other_seed = _OTHER_SEED if self._seed != _OTHER_SEED else 0
            seeds = (self._seed, other_seed, self._seed)
            first, other, again = [self._inputs(held, seed)[1] for seed in seeds]
            self._linter.forget()
            self._repeatable = payload.same(first, again)
            self._seeded = not payload.same(first, other)
            if not self._linter.probes or not self._repeatable:
                return
            self._taken = _taken(self._linter.asked({"type": "take"}, [first, other], ("taken",)))
        for name in self._taken.probes:
            self._probe(name)
            if self._probed[0].verdict != Verdict.PASS:
                return
        if self._taken.roundoff is not None:
            self._margin = self._largest_error(self._taken.roundoff)

    def _inputs(self, held: ExitStack, seed: int) -> Tuple[int, int]:
        self._calls += 1
        return self._calls, self._linter.inputs(held, self._case, self._group, self._calls, seed)

    def _probe(self, name: str) -> None:
        """Have one probe checked, if it can be made."""
        try:
            self._probed.append(Probed(name, *self._answered({"type": "make", "probe": name})))
        except CallFailed as error:
            message = f"{PROBES[name].title}: {error.message}"
            raise CallFailed(error.verdict, message, worker_lost=error.worker_lost) from None

    def _answered(self, make: Frame) -> Tuple[str, str, bool]:
        """The verdict of an answer that the prober makes, its message, and whether it is the right answer itself."""
        with ExitStack() as held:
            room = os.memfd_create("probe", os.MFD_CLOEXEC)
            held.callback(os.close, room)
            made = self._linter.asked(make, [room], ("made", "unmade"))
            if made["type"] == "unmade":
                return UNMADE, printable(str(made["message"]), _MESSAGE_MAX), False
            call, _ = self._inputs(held, self._seed)
            verdict, message = self._linter.opinion(self._group, call, room)
            return str(verdict), printable(message, _MESSAGE_MAX), bool(made["same"])

    def _largest_error(self, roundoff: float) -> Optional[float]:
        """The largest relative error of every number that passes, found by bisection of its logarithm."""
        low, high = _STEPS_PER_OCTAVE * round(math.log2(roundoff)), 0
        if not self._tolerates(low):
            return 0.0
        if self._tolerates(high):
            return 1.0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._tolerates(middle) else (low, middle)
        return math.pow(2.0, low / _STEPS_PER_OCTAVE)

    def _tolerates(self, step: int) -> bool:
        error = math.pow(2.0, step / _STEPS_PER_OCTAVE)
        verdict, _, _ = self._answered({"type": "make", "probe": "noisy", "error": error})
        return verdict == Verdict.PASS


def _taken(frame: Frame) -> _Taken:
    names = ("writes", "aliases", "repeats", "constant", "varies")
    facts_: Dict[str, bool] = {name: bool(frame[name]) for name in names}
    roundoff = frame["roundoff"]
    return _Taken(
        Behaviour(**facts_),
        tuple(name for name in PROBES if name in frame["probes"]),
        float(roundoff) if isinstance(roundoff, float) else None,
    )


def _chosen(
    tests: Sequence[Mapping[str, CaseValue]], benchmarks: Sequence[Mapping[str, CaseValue]], cases_max: int
) -> Tuple[List[_Planned], List[LeftOut]]:
    """The cases to look at, as many of one kind as of the other where they are bounded, and those left out."""
    planned: List[_Planned] = [("test", index, case) for index, case in enumerate(tests)]
    planned += [("benchmark", index, case) for index, case in enumerate(benchmarks)]
    taken = {(phase, index) for phase, index, _ in sorted(planned, key=lambda each: each[1])[:cases_max]}
    why = f"only {cases_max} cases are looked at"
    left_out = [LeftOut(phase, index, why) for phase, index, _ in planned if (phase, index) not in taken]
    return [each for each in planned if each[:2] in taken], left_out
