"""Requests of the linter to a judge and a prober that have imported the task."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from hpc_board.harness.processes.calls import CallFailed, close_all, judge_answer
from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.wire.channel import Frame, ProtocolViolation
from hpc_board.harness.wire.replies import Checked, Filled, Generated
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue
from hpc_board.model.text import printable

MESSAGE_MAX = 4000
"""Number of characters of a message that are kept."""

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
        frame = {"type": "generate", "call": call, "group": group, "seed": seed, "case": dict(case)}
        self._judge.send(frame)
        seconds = self._judge_seconds
        late = f"the task did not make the inputs, and the reference's answer to them, within {seconds:g} s"
        deadline = time.monotonic() + seconds
        answer, fds = judge_answer(self._judge, ("generated", "failed"), deadline, late)
        close_all(fds)
        if isinstance(answer, Generated):
            descriptor = os.memfd_create("inputs", os.MFD_CLOEXEC)
            held.callback(os.close, descriptor)
            os.ftruncate(descriptor, answer.size)
            self._judge.send({"type": "fill", "calls": [call], "bases": [0], "cold": False}, [descriptor])
            answer, fds = judge_answer(self._judge, ("filled", "failed"), deadline, late)
            close_all(fds)
            if isinstance(answer, Filled):
                return descriptor
        raise CallFailed(Verdict.TASK_ERROR, "the judge answered something else", worker_lost=True)

    def opinion(self, group: str, call: int, output: int) -> tuple[Verdict, str]:
        """Return the judge's verdict of an output, with its message.

        Raises:
            CallFailed: the judge is gone.
        """
        self._judge.send({"type": "check", "call": call, "group": group}, [output])
        seconds = self._judge_seconds
        late = f"the task did not check the output within {seconds:g} s"
        try:
            answer, _ = judge_answer(self._judge, ("checked", "failed"), time.monotonic() + seconds, late)
        except CallFailed as error:
            if error.worker_lost:
                raise
            return error.verdict, error.message
        if isinstance(answer, Checked):
            return answer.verdict, answer.message
        raise CallFailed(Verdict.TASK_ERROR, "the judge answered something else", worker_lost=True)

    def forget(self) -> None:
        """Have the judge drop the inputs of calls that will not be checked."""
        self._judge.send({"type": "forget"})

    @property
    def probes(self) -> bool:
        """Return whether the task has a reference to make answers from."""
        return self._prober is not None

    def asked(self, frame: Frame, fds: Sequence[int], expected: Sequence[str]) -> Frame:
        """Return the prober's answer.

        Raises:
            CallFailed: the reference failed, or the prober is gone.
        """
        if self._prober is None:
            raise ValueError("there is no prober")
        seconds = _PROBER_ANSWERS * self._judge_seconds
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
                raise CallFailed(Verdict.TASK_ERROR, printable(str(answer["message"]), 2 * MESSAGE_MAX))
            return answer
        raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)
