"""One call of a submission under the judge's eyes, and the phases that are made of such calls.

Every call goes the same way, timed or not: the judge makes the inputs from a fresh seed, the worker is shown them and
answers, the supervisor takes its own copy of the answer, and the judge checks that copy. Nothing tells a worker
whether a call counts, except that its caches are emptied before one that is timed.
"""

import os
import random
import secrets
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from hpc_board.harness.answers import Answer, Checked, Done, Failure, Generated, answer_of
from hpc_board.harness.channel import ProtocolViolation
from hpc_board.harness.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.timing import enough, timing
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import CaseValue, case_text

_COPY_BYTES = 2**24


class CallFailed(Exception):
    """A call that did not pass; `worker_lost` where the worker cannot be used any more."""

    def __init__(self, verdict: Verdict, message: str, *, worker_lost: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.worker_lost = worker_lost


@dataclass(frozen=True)
class Phase:
    """The cases of one kind, "test" or "benchmark", and the wall time that the worker has for all of them."""

    name: str
    cases: Tuple[Mapping[str, CaseValue], ...]
    seconds: float


class Workplace:
    """A judge and a worker, and the calls of one phase that go between them.

    Each has a clock of its own, so that a slow reference costs a kernel nothing: the worker's runs for the seconds of
    the phase, the judge's for those and `judge_seconds`.
    """

    def __init__(self, judge: Child, worker: Child, phase: Phase, limits: Limits) -> None:
        self.phase = phase
        self._worker = worker
        self._judge = judge
        self._limits = limits
        self._worker_seconds = 0.0
        self._judge_seconds = 0.0
        self._called = False

    def call(self, index: int, seed: int, *, timed: bool = False) -> Tuple[float, str]:
        """The nanoseconds that a right call of a case claims to have taken, and the judge's message.

        Raises:
            CallFailed: it was not right, or did not return.
        """
        phase = self.phase
        if self._worker_seconds >= phase.seconds:
            message = f"the {phase.seconds:g} s of the kernel for all {phase.name} cases were over before a call"
            raise CallFailed(Verdict.TIMEOUT, message, worker_lost=True)
        group = f"{phase.name}.{index}"
        call = secrets.randbits(62)
        inputs, form = self._inputs(phase.cases[index], group, call, seed)
        outputs = os.memfd_create("outputs", os.MFD_CLOEXEC)
        try:
            elapsed_ns = self._run(call, inputs, outputs, form, timed=timed)
            held = self._copy(outputs)
        finally:
            os.close(inputs)
            os.close(outputs)
        try:
            self._judge.send({"type": "check", "call": call, "group": group}, [held])
        finally:
            os.close(held)
        opinion, _ = self._judged("checked", "check the output")
        if not isinstance(opinion, Checked):
            raise _not_understood()
        if opinion.verdict is not Verdict.PASS:
            raise CallFailed(opinion.verdict, opinion.message)
        return elapsed_ns, opinion.message

    def _inputs(
        self, case: Mapping[str, CaseValue], group: str, call: int, seed: int
    ) -> Tuple[int, Optional[Mapping[str, Any]]]:
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case)}
        self._judge.send(frame)
        answer, fds = self._judged("generated", "make the inputs")
        if not isinstance(answer, Generated) or len(fds) != 1:
            raise _not_understood()
        return fds[0], answer.form

    def _run(self, call: int, inputs: int, outputs: int, form: Optional[Mapping[str, Any]], *, timed: bool) -> float:
        limits = self._limits
        allowed = limits.call_seconds if self._called else limits.first_call_seconds
        left = self.phase.seconds - self._worker_seconds
        late = f"the call did not return within {allowed:g} s"
        if left < allowed:
            late = f"the call did not return within the {self.phase.seconds:g} s for all {self.phase.name} cases"
        frame = {"type": "run", "call": call, "timed": timed, "value_bytes": limits.value_bytes, "form": form}
        start = time.monotonic()
        self._worker.send(frame, [inputs, outputs])
        try:
            answer = worker_answer(self._worker, ("done", "raised"), start + min(allowed, left), late)
        finally:
            wall_seconds = time.monotonic() - start
            self._worker_seconds += wall_seconds
            self._called = True
        if not isinstance(answer, Done) or answer.call != call:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered another call", worker_lost=True)
        claim, wall_ns = answer.elapsed_ns, wall_seconds * 1e9
        if not 0 < claim <= wall_ns:
            message = f"it claims {claim:.0f} ns for a call that took {wall_ns:.0f} ns by the supervisor's clock"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        return claim

    def _copy(self, outputs: int) -> int:
        """The outputs in memory that the worker cannot reach."""
        size = os.fstat(outputs).st_size
        if size > self._limits.value_bytes:
            raise CallFailed(Verdict.OUTPUT_LIMIT, f"its output takes {size} bytes", worker_lost=True)
        held = os.memfd_create("held", os.MFD_CLOEXEC)
        os.ftruncate(held, size)
        done = 0
        while done < size:
            count = os.sendfile(held, outputs, done, min(size - done, _COPY_BYTES))
            if count == 0:
                break
            done += count
        return held

    def _judged(self, expected: str, task: str) -> Tuple[Answer, List[int]]:
        """The judge's answer to what it was asked to do, with the descriptors that came along."""
        phase, one = self.phase, self._limits.judge_seconds
        whole = phase.seconds + one
        left = whole - self._judge_seconds
        late = f"the task did not {task} within {one:g} s"
        if left < one:
            late = f"the task took {whole:g} s in all for the {phase.name} cases, and did not {task} by then"
        start = time.monotonic()
        try:
            return judge_answer(self._judge, (expected, "failed"), start + min(one, left), late)
        finally:
            self._judge_seconds += time.monotonic() - start


def _not_understood() -> CallFailed:
    return CallFailed(Verdict.TASK_ERROR, "the judge answered something else", worker_lost=True)


def judge_answer(judge: Child, expected: Tuple[str, ...], deadline: float, late: str) -> Tuple[Answer, List[int]]:
    """What the judge answers by `deadline`, with its descriptors; `late` says in words that it did not.

    Raises:
        CallFailed: it reported a failure, said something else, or is gone: the task is to blame, not the kernel.
    """
    try:
        frame, fds = judge.answer(expected, deadline)
        answer = answer_of(frame)
    except ChildEnded as error:
        message = f"the judge is gone: {error.how}"
    except DeadlinePassed:
        message = late
    except PrintedTooMuch:
        message = "the judge printed more than it may"
    except ProtocolViolation as error:
        message = f"the judge cannot be understood: it sent {error}"
    else:
        if isinstance(answer, Failure):
            raise CallFailed(answer.verdict, answer.message)
        return answer, fds
    raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)


def worker_answer(worker: Child, expected: Tuple[str, ...], deadline: float, late: str) -> Answer:
    """What a worker answers by `deadline`; `late` says in words that it did not.

    Raises:
        CallFailed: it reported a failure, said something else, or is gone.
    """
    try:
        frame, fds = worker.answer(expected, deadline)
        for descriptor in fds:
            os.close(descriptor)
        answer = answer_of(frame)
    except ChildEnded as error:
        raise CallFailed(
            Verdict.CRASH, f"the process of the submission is gone: {error.how}", worker_lost=True
        ) from None
    except DeadlinePassed:
        raise CallFailed(Verdict.TIMEOUT, late, worker_lost=True) from None
    except PrintedTooMuch:
        raise CallFailed(Verdict.OUTPUT_LIMIT, "it printed more than it may", worker_lost=True) from None
    except ProtocolViolation as error:
        raise CallFailed(Verdict.PROTOCOL_VIOLATION, f"it sent {error}", worker_lost=True) from None
    if isinstance(answer, Failure):
        raise _reported(answer)
    return answer


_REPORTABLE = {
    Verdict.EXCEPTION: False,
    Verdict.WRONG_DTYPE: False,
    Verdict.OUTPUT_LIMIT: False,
    Verdict.LOAD_ERROR: True,
    Verdict.DEVICE_ERROR: True,
    Verdict.OUT_OF_MEMORY: True,
    Verdict.CRASH: True,
}
"""The verdicts that a worker may give itself, and whether it is of no use afterwards."""


def _reported(failure: Failure) -> CallFailed:
    """The failure that a worker reports of itself; it cannot claim a verdict that is not its to give."""
    if failure.verdict not in _REPORTABLE:
        return CallFailed(Verdict.PROTOCOL_VIOLATION, "it reported a failure that is none", worker_lost=True)
    return CallFailed(failure.verdict, failure.message, worker_lost=_REPORTABLE[failure.verdict])


Say = Callable[[str, Optional[int], Optional[int], str], None]
"""Takes a phase, the number of a case from 1, how many there are, and a message for whoever watches."""


def tested(place: Workplace, say: Say, *, secret: bool) -> List[Case]:
    """The verdict of each test case, with the task's own seed and, where `secret`, again with one nobody knows.

    A case that costs the worker its life is the last one.
    """
    phase = place.phase
    cases: List[Case] = []
    for index, case in enumerate(phase.cases):
        say(phase.name, index + 1, len(phase.cases), case_text(case))
        message, verdict, lost = "", Verdict.PASS, False
        try:
            _, message = place.call(index, _public_seed(case))
            if secret:
                place.call(index, _secret_seed())
        except CallFailed as error:
            verdict, message, lost = error.verdict, error.message, error.worker_lost
        cases.append(Case(phase.name, index, case_text(case), verdict, message))
        if lost or verdict is Verdict.TASK_ERROR:
            break
    return cases


def benchmarked(place: Workplace, limits: Limits, say: Say) -> List[Case]:
    """The times of each benchmark case; every call has inputs of its own and every output is checked.

    The first case that fails is the last one.
    """
    phase = place.phase
    cases: List[Case] = []
    for index, case in enumerate(phase.cases):
        say(phase.name, index + 1, len(phase.cases), case_text(case))
        samples_ns: List[float] = []
        found: Dict[str, Any] = {"verdict": Verdict.PASS}
        try:
            _measure(place, index, limits, samples_ns)
        except CallFailed as error:
            found = {"verdict": error.verdict, "message": error.message}
        times = timing(samples_ns) if samples_ns else None
        cases.append(Case(phase.name, index, case_text(case), timing=times, **found))
        if found["verdict"] is not Verdict.PASS:
            break
    return cases


def _measure(place: Workplace, index: int, limits: Limits, samples_ns: List[float]) -> None:
    for _ in range(limits.warmup_calls):
        place.call(index, _secret_seed(), timed=True)
    start = time.monotonic()
    while not enough(samples_ns, time.monotonic() - start, limits):
        elapsed_ns, _ = place.call(index, _secret_seed(), timed=True)
        samples_ns.append(elapsed_ns)


def _public_seed(case: Mapping[str, CaseValue]) -> int:
    seed = case.get("seed", 0)
    return seed if isinstance(seed, int) else 0


_entropy = random.SystemRandom()


def _secret_seed() -> int:
    return _entropy.randrange(2**31)
