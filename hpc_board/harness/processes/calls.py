"""What the supervisor asks of a worker or judge, how they answer, and how a call fails."""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.wire.channel import ProtocolViolation
from hpc_board.harness.wire.replies import Answer, Failure, answer_of
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue

_entropy = random.SystemRandom()


class CallFailed(Exception):
    """A call that did not pass; `worker_lost` where the worker cannot be used any more."""

    def __init__(self, verdict: Verdict, message: str, *, worker_lost: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.worker_lost = worker_lost


class OutputsOverlap(CallFailed):
    """The outputs of calls in a row lie in the same memory: the row has to be made again, with copies."""

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
    cases: tuple[Mapping[str, CaseValue], ...]
    seconds: float


@dataclass(frozen=True)
class Called:
    """A right answer to `calls` calls in a row.

    `wall_ns` passed by the supervisor's clock from before the inputs were known until nothing ran any more, and
    `claimed_ns` is what the worker says of the calls alone. For `waited_ns` of the wall time others had the processor
    that the worker wanted, see `ProcessorTimes`. The outputs were told `by_address`, or written out within that time.
    `message` is the judge's.
    """

    calls: int
    claimed_ns: float
    wall_ns: float
    message: str = ""
    waited_ns: float = 0.0
    by_address: bool = True

    @property
    def overhead_ns(self) -> float:
        """What passed beside what is claimed."""
        return self.wall_ns - self.claimed_ns


class TimeBudget:
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


def judge_answer(judge: Child, expected: tuple[str, ...], deadline: float, late: str) -> tuple[Answer, list[int]]:
    """What the judge answers by `deadline`, with its descriptors; `late` says in words that it did not.

    Raises:
        CallFailed: it reported a failure, said something else, or is gone: the task is to blame, not the kernel.
    """
    fds: list[int] = []
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
        if not isinstance(answer, Failure):
            return answer, fds
        close_all(fds)
        # What this node lacks, the next case will not find either.
        raise CallFailed(answer.verdict, answer.message, worker_lost=answer.verdict is Verdict.INFRA_ERROR)
    close_all(fds)
    raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)


def worker_answer(worker: Child, expected: tuple[str, ...], deadline: float, late: str) -> Answer:
    """What a worker answers by `deadline`; `late` says in words that it did not.

    Raises:
        CallFailed: it reported a failure, said something else, or is gone.
    """
    try:
        frame, fds = worker.answer(expected, deadline)
        close_all(fds)
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


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def public_seed(case: Mapping[str, CaseValue]) -> int:
    """The seed that a case's author gave it, 0 where there is none."""
    seed = case.get("seed", 0)
    return seed if isinstance(seed, int) else 0


def secret_seed() -> int:
    """A seed that nobody can know."""
    return _entropy.randrange(2**31)
