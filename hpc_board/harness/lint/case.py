"""Lint of one case: repeatability, the behaviour of its reference, and the cheap answers that pass.

Judge and prober, which have imported the task, answer the requests for it.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from hpc_board.harness.processes.calls import CallFailed, judge_answer, public_seed
from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.channel import Frame, ProtocolViolation
from hpc_board.harness.wire.replies import Checked, Filled, Generated
from hpc_board.model.lint import PROBES, UNMADE, Behaviour, CheckedCase, Probed
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue, case_text
from hpc_board.model.text import printable

MESSAGE_MAX = 4000
"""Number of characters of a message that are kept."""

_OTHER_SEED = 2**31 - 1
_STEPS_PER_OCTAVE = 4
_PROBER_ANSWERS = 4


class TimeOver(Exception):
    """No time is left for further requests."""


class Inquiry:
    """A judge, and a prober if the task has a reference; no inputs are made after `deadline`."""

    def __init__(self, judge: Child, prober: Child | None, judge_seconds: float, deadline: float) -> None:
        self._judge = judge
        self._prober = prober
        self._judge_seconds = judge_seconds
        self._deadline = deadline

    def inputs(self, held: ExitStack, case: Mapping[str, CaseValue], group: str, call: int, seed: int) -> int:
        """Return the judge's inputs of a case and a seed, open until `held` is left.

        Raises:
            CallFailed: the judge made none.
            TimeOver: no time is left for the request.
        """
        if time.monotonic() >= self._deadline:
            raise TimeOver
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case), "public": False}
        self._judge.send(frame)
        seconds = self._judge_seconds
        late = f"the task did not make the inputs, and the reference's answer to them, within {seconds:g} s"
        deadline = time.monotonic() + seconds
        size = judge_answer(self._judge, Generated, deadline, late).size
        descriptor = os.memfd_create("inputs", os.MFD_CLOEXEC)
        held.callback(os.close, descriptor)
        os.ftruncate(descriptor, size)
        self._judge.send({"type": "fill", "calls": [call], "bases": [0], "cold": False}, [descriptor])
        judge_answer(self._judge, Filled, deadline, late)
        return descriptor

    def opinion(self, group: str, call: int, output: int) -> tuple[Verdict, str]:
        """Return the judge's verdict of an output, with its message.

        Raises:
            CallFailed: the judge is gone.
        """
        self._judge.send({"type": "check", "call": call, "group": group, "seconds": 0.0}, [output])
        seconds = self._judge_seconds
        late = f"the task did not check the output within {seconds:g} s"
        try:
            answer = judge_answer(self._judge, Checked, time.monotonic() + seconds, late)
        except CallFailed as error:
            if error.worker_lost:
                raise
            return error.verdict, error.message
        return answer.verdict, answer.message

    def forget(self) -> None:
        """Have the judge drop the inputs of calls that will not be checked."""
        self._judge.send({"type": "forget"})

    @property
    def probes(self) -> bool:
        """Return whether the task has a reference to make answers from."""
        return self._prober is not None

    def ask(self, frame: Frame, fds: Sequence[int], expected: Sequence[str]) -> Frame:
        """Return the prober's answer.

        Raises:
            CallFailed: the reference failed, or the prober is gone.
        """
        if self._prober is None:
            raise ValueError("there is no prober")
        seconds = _PROBER_ANSWERS * self._judge_seconds
        self._prober.send(frame, fds)
        try:
            answer = self._prober.answer((*expected, "failed"), time.monotonic() + seconds)
        except ChildEnded as error:
            message = f"the process that calls the reference is gone: {error.how}"
        except DeadlinePassed:
            message = f"the reference did not answer within {seconds:g} s"
        except (PrintedTooMuch, ProtocolViolation):
            message = "the process that calls the reference cannot be understood"
        else:
            if answer["type"] == "failed":
                raise CallFailed(Verdict.TASK_ERROR, printable(str(answer["message"]), 2 * MESSAGE_MAX))
            return answer
        raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)


@dataclass(frozen=True)
class _Taken:
    """The prober's report about the reference on one case, and the available probes."""

    behaviour: Behaviour
    probes: tuple[str, ...]
    roundoff: float | None


class Examination:
    """One case under examination, and its results so far."""

    def __init__(self, inquiry: Inquiry, phase: str, index: int, case: Mapping[str, CaseValue]) -> None:
        self._inquiry = inquiry
        self._phase = phase
        self._index = index
        self._case = case
        self._group = f"{phase}.{index}"
        self._seed = public_seed(case)
        self._calls = 0
        self._repeatable = self._seeded = True
        self._taken: _Taken | None = None
        self._probed: list[Probed] = []
        self._margin: float | None = None
        self.failure = ""
        self.lost = False
        self.unfinished = False

    def result(self) -> CheckedCase:
        """Return the results so far."""
        taken = self._taken
        return CheckedCase(
            phase=self._phase,
            index=self._index,
            spec=printable(case_text(self._case), MESSAGE_MAX),
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
            TimeOver: no time is left.
        """
        with ExitStack() as held:
            other_seed = _OTHER_SEED if self._seed != _OTHER_SEED else 0
            seeds = (self._seed, other_seed, self._seed)
            first, other, again = [self._inputs(held, seed)[1] for seed in seeds]
            self._inquiry.forget()
            self._repeatable = payload.same(first, again)
            self._seeded = not payload.same(first, other)
            if not self._inquiry.probes or not self._repeatable:
                return
            self._taken = _taken(self._inquiry.ask({"type": "take"}, [first, other], ("taken",)))
        for name in self._taken.probes:
            self._probe(name)
            if self._probed[0].verdict != Verdict.PASS:
                return
        if self._taken.roundoff is not None:
            self._margin = self._largest_error(self._taken.roundoff)

    def _inputs(self, held: ExitStack, seed: int) -> tuple[int, int]:
        self._calls += 1
        return self._calls, self._inquiry.inputs(held, self._case, self._group, self._calls, seed)

    def _probe(self, name: str) -> None:
        """Have one probe checked, if it can be made."""
        try:
            self._probed.append(Probed(name, *self._judge_answer({"type": "make", "probe": name})))
        except CallFailed as error:
            message = f"{PROBES[name].title}: {error.message}"
            raise CallFailed(error.verdict, message, worker_lost=error.worker_lost) from None

    def _judge_answer(self, make: Frame) -> tuple[str, str, bool]:
        """Return the verdict of the prober's answer, its message, and whether it equals the right answer."""
        with ExitStack() as held:
            room = os.memfd_create("probe", os.MFD_CLOEXEC)
            held.callback(os.close, room)
            made = self._inquiry.ask(make, [room], ("made", "unmade"))
            if made["type"] == "unmade":
                return UNMADE, printable(str(made["message"]), MESSAGE_MAX), False
            call, _ = self._inputs(held, self._seed)
            verdict, message = self._inquiry.opinion(self._group, call, room)
            return str(verdict), printable(message, MESSAGE_MAX), bool(made["same"])

    def _largest_error(self, roundoff: float) -> float | None:
        """Return the largest relative error of every number that passes, found by bisection of its logarithm."""
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
        verdict, _, _ = self._judge_answer({"type": "make", "probe": "noisy", "error": error})
        return verdict == Verdict.PASS


def _taken(frame: Frame) -> _Taken:
    names = ("writes", "aliases", "repeats", "constant", "varies")
    facts_: dict[str, bool] = {name: bool(frame[name]) for name in names}
    roundoff = frame["roundoff"]
    return _Taken(
        Behaviour(**facts_),
        tuple(name for name in PROBES if name in frame["probes"]),
        float(roundoff) if isinstance(roundoff, float) else None,
    )
