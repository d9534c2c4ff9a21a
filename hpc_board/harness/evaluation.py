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

from hpc_board.harness.channel import Frame, ProtocolViolation
from hpc_board.harness.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.timing import enough, timing
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import CaseValue, case_text

_JUDGE_SECONDS = 300.0
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
    """The cases of one kind, "test" or "benchmark", and when on the monotonic clock all must be done."""

    name: str
    cases: Tuple[Mapping[str, CaseValue], ...]
    seconds: float
    deadline: float


class Workplace:
    """A judge and a worker, and the calls that go between them."""

    def __init__(self, judge: Child, worker: Child, limits: Limits) -> None:
        self.worker = worker
        self._judge = judge
        self._limits = limits
        self._called = False

    def call(self, phase: Phase, index: int, seed: int, *, timed: bool = False) -> Tuple[float, str]:
        """The nanoseconds that a right call claims to have taken, and the judge's message.

        Raises:
            CallFailed: it was not right, or did not return.
        """
        if time.monotonic() >= phase.deadline:
            message = f"the {phase.seconds:g} s for all {phase.name} cases were over before a call of this one"
            raise CallFailed(Verdict.TIMEOUT, message, worker_lost=True)
        group = f"{phase.name}.{index}"
        call = secrets.randbits(62)
        inputs = self._inputs(phase.cases[index], group, call, seed)
        outputs = os.memfd_create("outputs", os.MFD_CLOEXEC)
        try:
            elapsed_ns = self._run(call, inputs, outputs, phase.deadline, timed=timed)
            held = self._copy(outputs)
        finally:
            os.close(inputs)
            os.close(outputs)
        try:
            self._judge.send({"type": "check", "call": call, "group": group}, [held])
        finally:
            os.close(held)
        verdict, message = self._opinion()
        if verdict is not Verdict.PASS:
            raise CallFailed(verdict, message)
        return elapsed_ns, message

    def _inputs(self, case: Mapping[str, CaseValue], group: str, call: int, seed: int) -> int:
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case)}
        self._judge.send(frame)
        answer, fds = self._judged(("generated", "failed"))
        if answer["type"] == "failed":
            raise CallFailed(Verdict(answer["verdict"]), answer["message"])
        return fds[0]

    def _run(self, call: int, inputs: int, outputs: int, deadline: float, *, timed: bool) -> float:
        limits = self._limits
        allowed = limits.call_seconds if self._called else limits.first_call_seconds
        frame = {"type": "run", "call": call, "timed": timed, "value_bytes": limits.value_bytes}
        start = time.monotonic()
        self.worker.send(frame, [inputs, outputs])
        answer = worker_answer(self.worker, ("done", "raised"), min(start + allowed, deadline), "the call")
        wall_ns = (time.monotonic() - start) * 1e9
        self._called = True
        if answer["type"] == "raised":
            raise raised(answer)
        claim = answer.get("elapsed_ns")
        if answer.get("call") != call or isinstance(claim, bool) or not isinstance(claim, (int, float)):
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered another call", worker_lost=True)
        if not 0 < claim <= wall_ns:
            message = f"it claims {claim:.0f} ns for a call that took {wall_ns:.0f} ns by the supervisor's clock"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        return float(claim)

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

    def _opinion(self) -> Tuple[Verdict, str]:
        answer, _ = self._judged(("checked", "failed"))
        return Verdict(answer["verdict"]), answer["message"]

    def _judged(self, expected: Tuple[str, ...]) -> Tuple[Frame, List[int]]:
        try:
            return self._judge.answer(expected, time.monotonic() + _JUDGE_SECONDS)
        except ChildEnded as error:
            message = f"the judge is gone: {error.how}"
        except DeadlinePassed:
            message = f"the judge did not answer within {_JUDGE_SECONDS:.0f} s"
        except (PrintedTooMuch, ProtocolViolation) as error:
            message = f"the judge cannot be understood: {error}"
        raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)


def worker_answer(worker: Child, expected: Tuple[str, ...], deadline: float, what: str) -> Frame:
    """The worker's answer, or the CallFailed that its absence comes to."""
    start = time.monotonic()
    try:
        answer, fds = worker.answer(expected, deadline)
    except ChildEnded as error:
        raise CallFailed(
            Verdict.CRASH, f"the process of the submission is gone: {error.how}", worker_lost=True
        ) from None
    except DeadlinePassed:
        seconds = time.monotonic() - start
        raise CallFailed(Verdict.TIMEOUT, f"{what} did not return within {seconds:.1f} s", worker_lost=True) from None
    except PrintedTooMuch:
        raise CallFailed(Verdict.OUTPUT_LIMIT, "it printed more than it may", worker_lost=True) from None
    except ProtocolViolation as error:
        raise CallFailed(Verdict.PROTOCOL_VIOLATION, f"it sent {error}", worker_lost=True) from None
    for descriptor in fds:
        os.close(descriptor)
    return answer


_CLAIMABLE = frozenset(
    {Verdict.EXCEPTION, Verdict.LOAD_ERROR, Verdict.DEVICE_ERROR, Verdict.OUT_OF_MEMORY, Verdict.WRONG_DTYPE}
)


def raised(answer: Frame) -> CallFailed:
    """The failure that a worker reports of itself; it cannot claim a verdict that is not its to give."""
    verdict, message = answer.get("verdict"), answer.get("message")
    if verdict not in _CLAIMABLE or not isinstance(message, str):
        return CallFailed(Verdict.PROTOCOL_VIOLATION, "it reported a failure that is none", worker_lost=True)
    lost = verdict in (Verdict.DEVICE_ERROR, Verdict.OUT_OF_MEMORY, Verdict.LOAD_ERROR)
    return CallFailed(Verdict(verdict), message, worker_lost=lost)


Say = Callable[[str, Optional[int], Optional[int], str], None]
"""Takes a phase, the number of a case from 1, how many there are, and a message for whoever watches."""


def tested(place: Workplace, phase: Phase, say: Say, *, secret: bool) -> List[Case]:
    """The verdict of each test case, with the task's own seed and, where `secret`, again with one nobody knows.

    A case that costs the worker its life is the last one.
    """
    cases: List[Case] = []
    for index, case in enumerate(phase.cases):
        say(phase.name, index + 1, len(phase.cases), case_text(case))
        message, verdict, lost = "", Verdict.PASS, False
        try:
            _, message = place.call(phase, index, _public_seed(case))
            if secret:
                place.call(phase, index, _secret_seed())
        except CallFailed as error:
            verdict, message, lost = error.verdict, error.message, error.worker_lost
        cases.append(Case(phase.name, index, case_text(case), verdict, message))
        if lost or verdict is Verdict.TASK_ERROR:
            break
    return cases


def benchmarked(place: Workplace, phase: Phase, limits: Limits, say: Say) -> List[Case]:
    """The times of each benchmark case; every call has inputs of its own and every output is checked.

    The first case that fails is the last one.
    """
    cases: List[Case] = []
    for index, case in enumerate(phase.cases):
        say(phase.name, index + 1, len(phase.cases), case_text(case))
        samples_ns: List[float] = []
        found: Dict[str, Any] = {"verdict": Verdict.PASS}
        try:
            _measure(place, phase, index, limits, samples_ns)
        except CallFailed as error:
            found = {"verdict": error.verdict, "message": error.message}
        times = timing(samples_ns) if samples_ns else None
        cases.append(Case(phase.name, index, case_text(case), timing=times, **found))
        if found["verdict"] is not Verdict.PASS:
            break
    return cases


def _measure(place: Workplace, phase: Phase, index: int, limits: Limits, samples_ns: List[float]) -> None:
    for _ in range(limits.warmup_calls):
        place.call(phase, index, _secret_seed(), timed=True)
    start = time.monotonic()
    while not enough(samples_ns, time.monotonic() - start, limits):
        elapsed_ns, _ = place.call(phase, index, _secret_seed(), timed=True)
        samples_ns.append(elapsed_ns)


def _public_seed(case: Mapping[str, CaseValue]) -> int:
    seed = case.get("seed", 0)
    return seed if isinstance(seed, int) else 0


_entropy = random.SystemRandom()


def _secret_seed() -> int:
    return _entropy.randrange(2**31)
