"""One call of a submission under the judge's eyes.

Every call goes the same way, timed or not: the judge makes the inputs from a fresh seed, the worker is shown them and
answers, the supervisor takes its own copy of the answer, and the judge checks that copy. The supervisor's clock runs
from before the inputs are shown until the outputs are written, so that nothing can be done outside of it.
"""

import os
import random
import secrets
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from hpc_board.harness.answers import Answer, Checked, Done, Failure, Generated, Overlapped, Prepared, answer_of
from hpc_board.harness.channel import ProtocolViolation
from hpc_board.harness.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.floor import Work
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue

_COPY_BYTES = 2**24
_COMPARED_BYTES = 2**20
_LATE_SECONDS = 0.05
_LATE_PROBES = 16

_entropy = random.SystemRandom()


class CallFailed(Exception):
    """A call that did not pass; `worker_lost` where the worker cannot be used any more."""

    def __init__(self, verdict: Verdict, message: str, *, worker_lost: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.worker_lost = worker_lost


class OutputsOverlap(CallFailed):
    """The outputs of calls in a row lie in the same memory; those of the rows that follow are copied by the worker."""

    def __init__(self) -> None:
        message = "its outputs of calls in a row lie in the same memory, again"
        super().__init__(Verdict.PROTOCOL_VIOLATION, message, worker_lost=True)


@dataclass(frozen=True)
class Rules:
    """What a task wants of a call beside a right output.

    `const_inputs`: the inputs are as they were; `fresh_output`: the output lies in none of them.
    """

    const_inputs: bool = False
    fresh_output: bool = False


@dataclass(frozen=True)
class Phase:
    """The cases of one kind, "test" or "benchmark", and the wall time that the worker has for all of them."""

    name: str
    cases: Tuple[Mapping[str, CaseValue], ...]
    seconds: float


@dataclass(frozen=True)
class Called:
    """A right answer to `calls` calls: the nanoseconds it claims, those that passed, and the judge's message."""

    calls: int
    claimed_ns: float
    wall_ns: float
    message: str = ""

    @property
    def overhead_ns(self) -> float:
        """What passed beside what is claimed."""
        return self.wall_ns - self.claimed_ns


class Allowance:
    """Wall time for one thing that is done in many parts."""

    def __init__(self, seconds: float) -> None:
        self.whole_seconds = seconds
        self._spent_seconds = 0.0

    @property
    def left_seconds(self) -> float:
        """What is left of it, at least 0."""
        return max(0.0, self.whole_seconds - self._spent_seconds)

    def spend(self, seconds: float) -> None:
        """Take away what a part has taken."""
        self._spent_seconds += seconds


class Bench:
    """The judge of a phase, its cases, and the calls of workers that it sees.

    Workers and judge have clocks of their own, so that a slow reference costs a kernel nothing: all workers together
    have the seconds of the phase, the judge those and `judge_seconds`. `steps_ns` is what each step of the last call
    took.
    """

    def __init__(self, judge: Child, phase: Phase, limits: Limits, rules: Rules) -> None:
        self.phase = phase
        self.limits = limits
        self.work: Dict[int, Optional[Work]] = {}
        self.input_bytes: Dict[int, int] = {}
        self.steps_ns: Dict[str, float] = {}
        self._judge = judge
        self._rules = rules
        self._judge_allowance = Allowance(phase.seconds + limits.judge_seconds)

    def call(
        self, worker: "Worker", index: int, seeds: Sequence[int], *, timed: bool = False, cold: bool = True
    ) -> Called:
        """Call the kernel of `worker` once for each seed, all in a row, and have every output checked.

        Raises:
            OutputsOverlap: the worker lost outputs of the row, and is to be asked once more.
            CallFailed: an output was not right, or the call did not return.
        """
        worker.check_time(self.phase)
        self.steps_ns.clear()
        if timed:
            worker.begin_prepare()
        numbers = [secrets.randbits(62) for _ in seeds]
        group = f"{self.phase.name}.{index}"
        try:
            with ExitStack() as held:
                inputs, outputs, form = [], [], None
                with self._step("make the inputs"):
                    for number, seed in zip(numbers, seeds, strict=True):
                        given, output, form = self._made(worker, index, group, number, seed)
                        inputs.append(_closed_later(held, given))
                        outputs.append(_closed_later(held, output))
                if timed:
                    with self._step("wait for empty caches"):
                        worker.await_prepared(self.phase)
                called = worker.run(self.phase, inputs, outputs, form, cold=timed and cold, rules=self._rules)
                self.steps_ns["the call, as the worker times it"] = called.claimed_ns
                self.steps_ns["hand over inputs and output"] = called.overhead_ns
                with self._step("copy the output"):
                    copies = [_closed_later(held, self._copy(output)) for output in outputs]
                worker.output_bytes[index] = os.fstat(copies[-1]).st_size
                message = ""
                with self._step("check the output"):
                    for number, given, output, copy in zip(numbers, inputs, outputs, copies, strict=True):
                        message = self._check(number, group, given, output, copy)
        except CallFailed:
            self._judge.send({"type": "forget"})
            raise
        return Called(called.calls, called.claimed_ns, called.wall_ns, message)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        start_ns = time.monotonic_ns()
        yield
        self.steps_ns[name] = float(time.monotonic_ns() - start_ns)

    def _made(
        self, worker: "Worker", index: int, group: str, number: int, seed: int
    ) -> Tuple[int, int, Optional[Mapping[str, Any]]]:
        """The inputs of a call, room for its output, and the output's form where the kernel has to know it."""
        case = dict(self.phase.cases[index])
        self._judge.send({"type": "generate", "call": number, "group": group, "seed": seed, "case": case})
        answer, fds = self._judged("generated", "make the inputs")
        if not isinstance(answer, Generated) or len(fds) not in (1, 2):
            raise _not_understood()
        self.work[index] = answer.work
        self.input_bytes[index] = os.fstat(fds[0]).st_size
        return fds[0], fds[1] if len(fds) == 2 else worker.room(index), answer.form

    def _check(self, number: int, group: str, given: int, output: int, copy: int) -> str:
        fds = [copy, given] if self._rules.const_inputs else [copy]
        self._judge.send({"type": "check", "call": number, "group": group}, fds)
        opinion, _ = self._judged("checked", "check the output")
        if not isinstance(opinion, Checked):
            raise _not_understood()
        wrong = opinion.verdict is not Verdict.PASS
        if (wrong or _entropy.randrange(_LATE_PROBES) == 0) and _changes_later(output, copy):
            message = "it went on writing into its output after it had said that it was done"
            raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True)
        if wrong:
            raise CallFailed(opinion.verdict, opinion.message)
        return opinion.message

    def _copy(self, outputs: int) -> int:
        """The outputs in memory that the worker cannot reach."""
        size = os.fstat(outputs).st_size
        if size > self.limits.value_bytes:
            raise CallFailed(Verdict.OUTPUT_LIMIT, f"its output takes {size} bytes", worker_lost=True)
        copy = os.memfd_create("held", os.MFD_CLOEXEC)
        os.ftruncate(copy, size)
        done = 0
        while done < size:
            count = os.sendfile(copy, outputs, done, min(size - done, _COPY_BYTES))
            if count == 0:
                break
            done += count
        return copy

    def _judged(self, expected: str, task: str) -> Tuple[Answer, List[int]]:
        """The judge's answer to what it was asked to do, with the descriptors that came along."""
        allowance, one = self._judge_allowance, self.limits.judge_seconds
        late = f"the task did not {task} within {one:g} s"
        if allowance.left_seconds < one:
            whole = f"{allowance.whole_seconds:g} s in all for the {self.phase.name} cases"
            late = f"the task took {whole}, and did not {task} by then"
        start = time.monotonic()
        try:
            return judge_answer(self._judge, (expected, "failed"), start + min(one, allowance.left_seconds), late)
        finally:
            allowance.spend(time.monotonic() - start)


def _closed_later(held: ExitStack, descriptor: int) -> int:
    held.callback(os.close, descriptor)
    return descriptor


def _changes_later(output: int, copy: int) -> bool:
    """Whether an output that was copied is another one a little later."""
    time.sleep(_LATE_SECONDS)
    size = os.fstat(copy).st_size
    if os.fstat(output).st_size != size:
        return True
    return any(
        os.pread(output, _COMPARED_BYTES, at) != os.pread(copy, _COMPARED_BYTES, at)
        for at in range(0, size, _COMPARED_BYTES)
    )


class Worker:
    """A process that calls a kernel, and the wall time that it may take for that."""

    def __init__(self, child: Child, limits: Limits, allowance: Allowance) -> None:
        self.child = child
        self._limits = limits
        self._allowance = allowance
        self._called = False
        self.output_bytes: Dict[int, int] = {}
        """What the last output of each case took, which is nobody else's room."""

    def room(self, index: int) -> int:
        """Memory for an output, with the pages that the last one of the case took: making them takes time as well."""
        room = os.memfd_create("outputs", os.MFD_CLOEXEC)
        if self.output_bytes.get(index):
            os.posix_fallocate(room, 0, self.output_bytes[index])
        return room

    def check_time(self, phase: Phase) -> None:
        """Pass if there is time left for a call.

        Raises:
            CallFailed: there is none.
        """
        if self._allowance.left_seconds <= 0:
            message = f"the {phase.seconds:g} s of the kernel for all {phase.name} cases were over before a call"
            raise CallFailed(Verdict.TIMEOUT, message, worker_lost=True)

    def begin_prepare(self) -> None:
        """Have the caches emptied, while the judge makes inputs that are not shown yet."""
        self.child.send({"type": "prepare"})

    def await_prepared(self, phase: Phase) -> None:
        """Wait until the caches are empty.

        Raises:
            CallFailed: they are not in time, or the worker said something else.
        """
        seconds = min(self._limits.first_call_seconds, self._allowance.left_seconds)
        late = f"it was not ready for a {phase.name} call within {seconds:g} s"
        start = time.monotonic()
        try:
            answer = worker_answer(self.child, ("prepared", "raised"), start + seconds, late)
        finally:
            self._allowance.spend(time.monotonic() - start)
        if not isinstance(answer, Prepared):
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered something else", worker_lost=True)

    def run(
        self,
        phase: Phase,
        inputs: Sequence[int],
        outputs: Sequence[int],
        form: Optional[Mapping[str, Any]],
        *,
        cold: bool,
        rules: Rules,
    ) -> Called:
        """Show the inputs, and have the outputs written, which have the `form` if that is known."""
        limits, left = self._limits, self._allowance.left_seconds
        allowed = limits.call_seconds if self._called else limits.first_call_seconds
        allowed *= len(inputs)
        late = f"the call did not return within {allowed:g} s"
        if left < allowed:
            late = f"the call did not return within the {phase.seconds:g} s for all {phase.name} cases"
        number = secrets.randbits(62)
        frame = {
            "type": "run",
            "call": number,
            "cold": cold,
            "form": form,
            "value_bytes": limits.value_bytes,
            "const_inputs": rules.const_inputs,
            "fresh_output": rules.fresh_output,
        }
        deadline = time.monotonic() + min(allowed, left)
        start_ns = time.monotonic_ns()
        self.child.send(frame, [*inputs, *outputs])
        try:
            answer = worker_answer(self.child, ("done", "overlapped", "raised"), deadline, late)
        finally:
            wall_ns = time.monotonic_ns() - start_ns
            self._allowance.spend(wall_ns / 1e9)
            self._called = True
        if isinstance(answer, Overlapped):
            raise OutputsOverlap
        if not isinstance(answer, Done) or answer.call != number:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered another call", worker_lost=True)
        if not 0 < answer.elapsed_ns <= wall_ns:
            message = (
                f"it claims {answer.elapsed_ns:.0f} ns for a call that took {wall_ns} ns by the supervisor's clock"
            )
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        return Called(len(inputs), answer.elapsed_ns, wall_ns)


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
        message = f"the process of the submission is gone: {error.how}"
        raise CallFailed(Verdict.CRASH, message, worker_lost=True) from error
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
    Verdict.WRONG_ALIASED: False,
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


def public_seed(case: Mapping[str, CaseValue]) -> int:
    """The seed that a case's author gave it, 0 where there is none."""
    seed = case.get("seed", 0)
    return seed if isinstance(seed, int) else 0


def secret_seed() -> int:
    """A seed that nobody can know."""
    return _entropy.randrange(2**31)
