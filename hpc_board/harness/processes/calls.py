"""Requests of the supervisor to a worker or judge, their answers, and the failures of a call."""

import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed, PrintedTooMuch
from hpc_board.harness.wire.channel import ProtocolViolation
from hpc_board.harness.wire.replies import Answer, Failure, OfJudge, answer_of
from hpc_board.model.device_faults import with_words
from hpc_board.model.mismatch import Mismatch
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue, case_text, hidden_case_text

_entropy = random.SystemRandom()


class CallFailed(Exception):
    """A call that did not pass; `worker_lost` if the worker cannot be used any more.

    Each function that waits for a process, or checks its answer, raises this. `mismatch` has the details of wrong
    values.
    """

    def __init__(
        self, verdict: Verdict, message: str, *, worker_lost: bool = False, mismatch: Mismatch | None = None
    ) -> None:
        super().__init__(message)
        self.mismatch = mismatch
        self.verdict = verdict
        self.message = message
        self.worker_lost = worker_lost


class OutputsOverlap(CallFailed):
    """Outputs of calls in a row lie in the same memory: the row must be repeated, with copies."""

    def __init__(self) -> None:
        message = "its outputs of calls in a row are in the same memory, again"
        super().__init__(Verdict.PROTOCOL_VIOLATION, message, worker_lost=True)


class NoWindow(CallFailed):
    """A call that no window of the judge can hold."""

    def __init__(self, message: str, verdict: Verdict = Verdict.DEVICE_ERROR) -> None:
        super().__init__(verdict, message, worker_lost=True)


class MemoryNotShared(NoWindow):
    """A call whose memory of the GPU the two processes cannot share."""


@dataclass(frozen=True)
class Rules:
    """Requirements of a task on a call, besides a right output.

    `const_inputs`: the inputs are unchanged; `fresh_output`: the output shares memory with no input. `prepare` names
    the inputs that are the same for all calls of a case in a process.
    """

    const_inputs: bool = False
    fresh_output: bool = False
    prepare: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Phase:
    """The cases of one kind, "test" or "benchmark", and the wall time of the worker for all of them.

    `follows_reference`: the limit of a call follows the reference's time, as in mode test. `usual_seconds` is the
    longest processor time of calls of earlier runs that have passed; 0 if it is unknown. `only` is the index of the
    only case that is judged; None for all. The phase judges the hidden cases if it has a number of `public` ones, which
    precede them.
    """

    name: str
    cases: tuple[Mapping[str, CaseValue], ...]
    seconds: float
    follows_reference: bool = False
    only: int | None = None
    public: int | None = None
    usual_seconds: float = 0.0

    @property
    def indices(self) -> list[int]:
        """Return the indices of the cases that are judged."""
        return [*range(self.public or 0, len(self.cases))] if self.only is None else [self.only]

    def text(self, index: int) -> str:
        """Return the text of a case for progress and results."""
        return case_text(self.cases[index]) if self.public is None else hidden_case_text(index - self.public)


@dataclass(frozen=True)
class Called:
    """A right answer to `calls` calls in a row.

    `wall_ns` is the time by the supervisor's clock from before the inputs were known until no process of the submission
    ran any more; `claimed_ns` is the worker's own time for just the calls. During `waited_ns` of the wall time other
    processes had the processor that the worker waited for, see `ProcessorTimes`. `ran_ns` is the run time of the
    supervisor and of the worker's first thread meanwhile, `thread_ns` only that of this thread, and `processor_ns`
    that of the whole submission, infinite where it is unknown. `by_blocks`: the answers had the task's form; otherwise
    they were written out within the wall time.
    `message` and `of_tolerance` are the judge's; `throttled`: the GPU had lowered its clocks for its own protection
    right after the call.
    """

    calls: int
    claimed_ns: float
    wall_ns: float
    message: str = ""
    waited_ns: float = 0.0
    ran_ns: float = 0.0
    thread_ns: float = 0.0
    processor_ns: float = math.inf
    by_blocks: bool = True
    throttled: bool = False
    of_tolerance: float | None = None

    @property
    def overhead_ns(self) -> float:
        """Return the wall time beyond the claimed time."""
        return self.wall_ns - self.claimed_ns

    @property
    def empty_ns(self) -> float:
        """Return the overhead of a row without a kernel; the trusted worker claims its run time in the calls.

        On a busy machine the supervisor waits for a processor too, and longer than in a kernel's row. So the overhead
        is at most the run time of the two processes.
        """
        return max(0.0, min(self.wall_ns - self.waited_ns, self.ran_ns) - self.claimed_ns)

    @property
    def is_counted(self) -> bool:
        """Return whether the run time of the whole submission is known."""
        return self.processor_ns < math.inf

    @property
    def work_ns(self) -> float:
        """Return the run time of a worker's first thread in a row without a kernel, beside the calls.

        Its other threads copy answers, which the calls contain.
        """
        return max(0.0, self.thread_ns - self.claimed_ns)

    @property
    def idle_ns(self) -> float:
        """Return the time of a row without a kernel in which the worker did not run: its waking up and its stop."""
        return max(0.0, self.wall_ns - self.waited_ns - self.thread_ns)


@dataclass(frozen=True)
class CalledInWindow:
    """A right answer to a call on a GPU, and the time of its window by the judge's own events.

    `copied_ns` is the time of copying the outputs behind the window. `by_host`: the processes of the submission ran
    meanwhile, since the call needed them. `message` is the judge's; `throttled`: see `Called`.
    """

    window_ns: float
    copied_ns: float = 0.0
    by_host: bool = False
    message: str = ""
    throttled: bool = False


class TimeBudget:
    """Wall time for one activity that consists of many parts."""

    def __init__(self, seconds: float) -> None:
        self.whole_seconds = seconds
        self._spent_seconds = 0.0

    @property
    def left_seconds(self) -> float:
        """Return the remaining time, at least 0."""
        return max(0.0, self.whole_seconds - self._spent_seconds)

    def spend(self, seconds: float) -> None:
        """Subtract the time of one part."""
        self._spent_seconds += seconds


class TimeUntil(TimeBudget):
    """The wall time until `deadline` on the monotonic clock; all processes spend it."""

    def __init__(self, deadline: float) -> None:
        super().__init__(deadline - time.monotonic())
        self._deadline = deadline

    @property
    def left_seconds(self) -> float:
        """Return the remaining time, at least 0."""
        return max(0.0, self._deadline - time.monotonic())


def judge_answer(judge: Child, kind: type[OfJudge], deadline: float, late: str, who: str = "the judge") -> OfJudge:
    """Return the answer of this kind of judge or prober by `deadline`; `late` is the message for a late one.

    Raises:
        CallFailed: it reported a failure, sent another frame, or is gone: an error of the task, not of the kernel.
    """
    message = f"{who} sent an unexpected reply"
    try:
        answer = answer_of(judge.answer((kind.__name__.lower(), "failed"), deadline))
    except ChildEnded as error:
        message = f"{who} is gone: {error.how}"
    except DeadlinePassed:
        message = late
    except PrintedTooMuch:
        message = f"{who} exceeded its output limit"
    except ProtocolViolation as error:
        message = f"{who} sent an invalid reply: {error}"
    else:
        if isinstance(answer, kind):
            return answer
        if isinstance(answer, Failure):
            # A resource that this node lacks, the next case lacks too.
            raise CallFailed(answer.verdict, answer.message, worker_lost=answer.verdict is Verdict.INFRA_ERROR)
    raise CallFailed(Verdict.TASK_ERROR, message, worker_lost=True)


def worker_answer(worker: Child, expected: tuple[str, ...], deadline: float, late: str) -> Answer:
    """Return a worker's answer by `deadline`; `late` is the message if it does not come in time.

    Raises:
        CallFailed: the worker reported a failure, sent another frame, or is gone.
    """
    try:
        answer = answer_of(worker.answer(expected, deadline))
    except ChildEnded as error:
        message = f"the submission's process is gone: {worker.end_of(error)}"
        raise CallFailed(Verdict.CRASH, message, worker_lost=True) from error
    except DeadlinePassed:
        raise CallFailed(Verdict.TIMEOUT, late, worker_lost=True) from None
    except PrintedTooMuch:
        raise CallFailed(Verdict.OUTPUT_LIMIT, "it exceeded its output limit", worker_lost=True) from None
    except ProtocolViolation as error:
        raise CallFailed(Verdict.PROTOCOL_VIOLATION, f"it sent {error}", worker_lost=True) from None
    if isinstance(answer, Failure):
        raise _reported(answer, worker)
    return answer


_REPORTABLE = {
    Verdict.EXCEPTION: False,
    Verdict.WRONG_DTYPE: False,
    Verdict.WRONG_SHAPE: False,
    Verdict.WRONG_ALIASED: False,
    Verdict.OUTPUT_LIMIT: False,
    Verdict.LOAD_ERROR: True,
    Verdict.OUT_OF_MEMORY: True,
    Verdict.CRASH: True,
    Verdict.INFRA_ERROR: True,
}
"""Verdicts that a worker may report about itself, and whether the worker is lost afterwards."""


def _reported(failure: Failure, worker: Child) -> CallFailed:
    """Return the failure that a worker reports about itself; a verdict outside `_REPORTABLE` is refused.

    A submission may say of any library that it is missing: the node is at fault only for those in `lacking`. It may
    say so of the device as well, and is not believed at all.
    """
    if failure.module in worker.lacking:
        return CallFailed(Verdict.INFRA_ERROR, worker.lacking[failure.module], worker_lost=True)
    if failure.verdict is Verdict.DEVICE_ERROR and not worker.imports_submission:
        return CallFailed(Verdict.DEVICE_ERROR, with_words(failure.message), worker_lost=True)
    if failure.verdict not in _REPORTABLE:
        return CallFailed(Verdict.PROTOCOL_VIOLATION, "it reported an unknown failure", worker_lost=True)
    return CallFailed(failure.verdict, failure.message, worker_lost=_REPORTABLE[failure.verdict])


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)


def public_seed(case: Mapping[str, CaseValue]) -> int:
    """Return the seed in the case's spec, 0 if the author gave none."""
    seed = case.get("seed", 0)
    return seed if isinstance(seed, int) else 0


def secret_seed() -> int:
    """Return an unpredictable seed."""
    return _entropy.randrange(2**31)
