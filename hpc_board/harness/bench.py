"""One call of a submission under the judge's eyes.

Every call goes the same way, timed or not: the judge makes the inputs from a fresh seed, the worker is shown them and
answers, the supervisor takes its own copy of the answer, and the judge checks that copy. The supervisor's clock runs
from before the inputs are shown until the worker is stopped, and what is copied is what its memory holds then: nothing
can be done outside of that time, and the copying itself is not in it.
"""

import os
import random
import secrets
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from hpc_board.harness.answers import Answer, Checked, Filled, Generated
from hpc_board.harness.calls import Allowance, Called, CallFailed, Phase, Rules, close_all, judge_answer
from hpc_board.harness.channel import Frame
from hpc_board.harness.child import Child
from hpc_board.harness.workers import Output, Worker
from hpc_board.model.limits import Limits
from hpc_board.model.peaks import Work
from hpc_board.model.result import Verdict

_LATE_PROBES = 4
_COOL_SECONDS = 0.5
"""How long a device may wait for its inputs before it is prepared again: clocks fall, and caches fill."""

_entropy = random.SystemRandom()


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
        self,
        worker: Worker,
        index: int,
        seeds: Sequence[int],
        *,
        timed: bool = False,
        cold: bool = True,
        copied: bool = False,
        made: Optional[int] = None,
    ) -> Called:
        """Call the kernel of `worker` once for each seed, all in a row, and have every output checked.

        With `copied`, the worker copies each output before the next call, for kernels that have one place for all.
        With `made`, that many of the calls are made, and the others have a copy of the first one's output: what a slow
        reference's row takes beside the kernel can be known without the kernel. Nothing is checked then.

        Raises:
            OutputsOverlap: outputs of the row are lost, since they lie in one place and were not `copied`.
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
                sizes: List[int] = []
                outputs: List[int] = []
                form = None
                with self._step("make the inputs"):
                    for number, seed in zip(numbers, seeds, strict=True):
                        size, output, form = self._made(index, group, number, seed)
                        sizes.append(size)
                        outputs.append(_closed_later(held, output))
                if timed:
                    with self._step("wait for empty caches"):
                        worker.await_prepared(self.phase)
                        if self.steps_ns["make the inputs"] > _COOL_SECONDS * 1e9:
                            worker.begin_prepare()
                            worker.await_prepared(self.phase)
                with self._step("make room for the inputs"):
                    inputs = worker.give_room(self.phase, sizes, outputs)
                cold = timed and cold
                called, answers = worker.run(
                    self.phase,
                    partial(self._fill, numbers, inputs, cold),
                    outputs,
                    form,
                    cold=cold,
                    copied=copied,
                    made=len(seeds) if made is None else made,
                    rules=self._rules,
                )
                self.steps_ns["the call, as the worker times it"] = called.claimed_ns
                self.steps_ns["hand over inputs and output"] = called.overhead_ns
                if made is not None:
                    with worker.thawed_after():
                        self._judge.send({"type": "forget"})
                    return called
                with worker.thawed_after():
                    with self._step("copy the output"):
                        left_bytes, copies = self.limits.value_bytes, []
                        for each in answers:
                            copies.append(_closed_later(held, each.copy(left_bytes)))
                            left_bytes -= os.fstat(copies[-1]).st_size
                    if self._rules.const_inputs:
                        self._check_inputs(numbers, inputs)
                worker.output_bytes[index] = os.fstat(copies[-1]).st_size
                message, probe = "", not timed and _entropy.randrange(_LATE_PROBES) == 0
                with self._step("check the output"):
                    for number, answer, copy in zip(numbers, answers, copies, strict=True):
                        message = self._check(number, group, answer, copy, probe=probe)
        except CallFailed:
            self._judge.send({"type": "forget"})
            raise
        return Called(called.calls, called.claimed_ns, called.wall_ns, message)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        start_ns = time.monotonic_ns()
        yield
        self.steps_ns[name] = float(time.monotonic_ns() - start_ns)

    def _fill(self, numbers: Sequence[int], inputs: Sequence[int], cold: bool) -> None:
        """Have the inputs of calls written, in memory that may be cold afterwards."""
        with self._step("write the inputs"):
            for number, descriptor in zip(numbers, inputs, strict=True):
                frame = {"type": "fill", "call": number, "cold": cold and number == numbers[-1]}
                self._judge.send(frame, [descriptor])
                answer, fds = self._judged("filled", "write the inputs")
                close_all(fds)
                if not isinstance(answer, Filled):
                    raise _not_understood()

    def _made(self, index: int, group: str, number: int, seed: int) -> Tuple[int, int, Optional[Mapping[str, Any]]]:
        """The size of a call's inputs, room for its output, and the output's form where the kernel has to know it."""
        case = dict(self.phase.cases[index])
        self._judge.send({"type": "generate", "call": number, "group": group, "seed": seed, "case": case})
        answer, fds = self._judged("generated", "make the inputs")
        if not isinstance(answer, Generated) or len(fds) > 1:
            close_all(fds)
            raise _not_understood()
        self.work[index] = answer.work
        self.input_bytes[index] = answer.size
        return answer.size, fds[0] if fds else os.memfd_create("outputs", os.MFD_CLOEXEC), answer.form

    def _check_inputs(self, numbers: Sequence[int], inputs: Sequence[int]) -> None:
        """Have inputs compared with what they were, while the worker is stopped: it could put them back."""
        with self._step("check the inputs"):
            for number, given in zip(numbers, inputs, strict=True):
                opinion = self._opinion({"type": "compare", "call": number}, given, "check the inputs")
                if opinion.verdict is not Verdict.PASS:
                    raise CallFailed(opinion.verdict, opinion.message)

    def _opinion(self, frame: Frame, descriptor: int, task: str) -> Checked:
        self._judge.send(frame, [descriptor])
        opinion, fds = self._judged("checked", task)
        close_all(fds)
        if not isinstance(opinion, Checked):
            raise _not_understood()
        return opinion

    def _check(self, number: int, group: str, output: Output, copy: int, *, probe: bool) -> str:
        opinion = self._opinion({"type": "check", "call": number, "group": group}, copy, "check the output")
        wrong = opinion.verdict is not Verdict.PASS
        if (wrong or probe) and output.changes_later(copy, self.limits.value_bytes):
            message = "it went on writing into its output after it had said that it was done"
            raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True)
        if wrong:
            raise CallFailed(opinion.verdict, opinion.message)
        return opinion.message

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


def _not_understood() -> CallFailed:
    return CallFailed(Verdict.TASK_ERROR, "the judge answered something else", worker_lost=True)
