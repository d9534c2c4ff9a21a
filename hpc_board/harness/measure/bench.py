"""One call of a submission, checked by the judge.

Every call takes the same path, timed or not: the judge makes the inputs from a fresh seed, the worker receives them and
answers, the supervisor takes its own copy of the answer, and the judge checks that copy. The supervisor's clock runs
from before the inputs are shown until the worker is stopped, and the copy holds the worker's memory at that moment: no
work can be done outside of that time, and the copying itself is not in it.
"""

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from hpc_board.harness.measure.worker_handle import Output, Row, Worker
from hpc_board.harness.processes.calls import (
    Called,
    CallFailed,
    Phase,
    Rules,
    TimeBudget,
    judge_answer,
    public_seed,
    secret_seed,
)
from hpc_board.harness.processes.child import Child
from hpc_board.harness.wire.channel import Frame
from hpc_board.harness.wire.replies import REST, Checked, Filled, Generated, OfJudge
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict
from hpc_board.model.task import CaseValue

CALL_STEP = "the call, as the worker times it"
"""The step that is the submission's: all others are the judge's."""

_LATE_PROBES = 4
_FRAME_CALLS = 500
_COOL_SECONDS = 0.5
"""Time after which a device that waits for its inputs is prepared again: clocks fall, and caches fill."""

_entropy = random.SystemRandom()


class Bench:
    """The judge of a phase, its cases, and the calls of workers that it checks.

    Workers and judge have separate time budgets, so that a slow reference costs a kernel nothing: all workers together
    have the seconds of the phase, the judge has those and `judge_seconds`. `generated` has each case's last inputs, and
    `steps_ns` the time of each step of the last call.
    """

    def __init__(self, judge: Child, phase: Phase, limits: Limits, rules: Rules) -> None:
        self.phase = phase
        self.limits = limits
        self.generated: dict[int, Generated] = {}
        self.steps_ns: dict[str, float] = {}
        self._judge = judge
        self._rules = rules
        self._judge_allowance = TimeBudget(phase.seconds + limits.judge_seconds)
        self._written_bytes: dict[int, int] = {}

    def call(
        self,
        worker: Worker,
        index: int,
        seeds: Sequence[int],
        *,
        timed: bool = False,
        cold: bool = True,
        copied: bool = False,
        made: int | None = None,
        first: Callable[[], None] | None = None,
        copied_to: Callable[[Sequence[int]], object] | None = None,
    ) -> Called:
        """Call the kernel of `worker` once for each seed, all in a row, and have every output checked.

        With `copied`, the worker copies each output before the next call, for kernels that return the same memory each
        time. With `made`, only that many of the calls are made, and the others return a copy of the first one's output:
        this measures the overhead of a slow reference's row without its kernel. Nothing is checked then. `first` runs
        after the judge has made the inputs; `copied_to` gets the copies of the outputs before their check.

        Raises:
            OutputsOverlap: outputs of the row are lost, since they lie in the same memory and were not `copied`.
        """
        worker.check_time(self.phase)
        self.steps_ns.clear()
        fixed = self._fixed(worker, index, seeds[0])
        if timed:
            worker.begin_prepare_device()
        numbers = [secrets.randbits(62) for _ in seeds]
        group = self._group(worker, index)
        with self._forgotten_on_failure(), ExitStack() as held:
            with self._step("generate the inputs"):
                inputs = [
                    self._made(index, group, number, seed, fixed) for number, seed in zip(numbers, seeds, strict=True)
                ]
            if first is not None:
                first()
            if timed:
                self._await_device(worker)
            room = closed_later(held, os.memfd_create("outputs", os.MFD_CLOEXEC))
            form, cold = inputs[-1].form, timed and cold
            alike = form is not None and all(each.form is not None and each.form.node == form.node for each in inputs)
            # An answer that is not timed is left as it is: the task's check decides about its type and shape.
            row = Row(form, alike and worker.hands_over_blocks, made_so=timed, cold=cold, copied=copied, made=made)
            with self._step("allocate memory for the inputs"):
                if timed and not row.blocks and index in self._written_bytes:
                    # A submission could fault the pages of its answers in before the clock.
                    os.posix_fallocate(room, 0, len(seeds) * self._written_bytes[index])
                # Layouts that are the same for all seeds are written before the clock runs.
                early = all(each.steady for each in inputs)
                lay = partial(self._write_inputs, "lay", numbers, False) if early else None
                arena, bases = worker.give_room(self.phase, inputs, room, row, self._rules, lay)
            fill = partial(self._fill, numbers, cold, arena, bases)
            called, done = worker.run(self.phase, fill, len(seeds), row, inputs[-1].reference_seconds)
            self.steps_ns[CALL_STEP] = called.claimed_ns
            self.steps_ns["hand over inputs and output"] = called.overhead_ns
            with worker.thawed_after():
                if made is not None:
                    self._judge.send({"type": "forget"})
                    return called
                with self._step("copy the output"):
                    answers = worker.outputs(done, len(seeds), room, row)
                    copies = self._copied(answers, held)
                if copied_to is not None:
                    copied_to(copies)
                if self._rules.const_inputs:
                    self._check_inputs(numbers, arena, bases)
            self._written_bytes[index] = os.fstat(copies[-1]).st_size
            probe = not timed and _entropy.randrange(_LATE_PROBES) == 0
            last, throttled = self._check_outputs(numbers, group, answers, copies, probe=probe)
        return replace(called, message=last.message, of_tolerance=last.of_tolerance, throttled=throttled)

    def _group(self, worker: Worker, index: int) -> str:
        """Return the name under which the judge keeps the facts of a case with the inputs that a worker gets."""
        return f"{self.phase.name}.{index}{REST if worker.child.prepares else ''}"

    def _fixed(self, worker: Worker, index: int, seed: int) -> int | None:
        """Return the seed of the fixed inputs of a call, which a worker that prepares them has by then; None without.

        They are the same for all calls of a case in a process, and secret, but for a call with the public seed.
        """
        if not self._rules.prepare:
            return None
        case, public = dict(self.phase.cases[index]), public_seed(self.phase.cases[index])
        secret = worker.fixed is not None and worker.fixed[0] == index and worker.fixed[1] != public
        if seed == public or worker.fixed is None or not secret:
            wanted = (index, public if seed == public else secret_seed())
            if wanted != worker.fixed:
                worker.fixed = wanted
                if worker.child.prepares:
                    self._keep_state(worker, case, wanted[1])
        return worker.fixed[1]

    def _keep_state(self, worker: Worker, case: Mapping[str, CaseValue], seed: int) -> None:
        room = os.memfd_create("fixed", os.MFD_CLOEXEC)
        try:
            self._judge.send({"type": "fix", "seed": seed, "case": case}, [room])
            self._judged(Filled, "write the fixed inputs")
            worker.keep_state(room)
        finally:
            os.close(room)

    @contextmanager
    def _forgotten_on_failure(self) -> Iterator[None]:
        try:
            yield
        except CallFailed:
            self._judge.send({"type": "forget"})
            raise

    def _await_device(self, worker: Worker) -> None:
        with self._step("wait for the device"):
            worker.await_device(self.phase)
            if self.steps_ns["generate the inputs"] > _COOL_SECONDS * 1e9:
                worker.begin_prepare_device()
                worker.await_device(self.phase)

    def _copied(self, answers: Sequence[Output], held: ExitStack) -> list[int]:
        """Return copies of the outputs of a row, all of which together have no more bytes than one value may."""
        left_bytes, copies = self.limits.value_bytes, []
        for each in answers:
            copies.append(closed_later(held, each.copy(left_bytes)))
            left_bytes -= os.fstat(copies[-1]).st_size
        return copies

    def empty_row(self, trusted: Worker, index: int, count: int) -> Called:
        """Have a trusted worker go through a row of `count` calls without calling a kernel.

        Each call returns an answer of the task's form instead. By the supervisor's clock the row takes the overhead of
        a kernel's row, the time besides the kernel. Where answers are not handed over in blocks, the row has one call
        that returns a number, which takes the least to write. The inputs are those of the trusted worker's last call;
        no function reads them.
        """
        with ExitStack() as held:
            room = closed_later(held, os.memfd_create("outputs", os.MFD_CLOEXEC))
            form = self.generated[index].form if trusted.hands_over_blocks else None
            count = 1 if form is None else count
            row = Row(form, blocks=form is not None)
            trusted.give_empty_room(self.phase, count, room, row, early=self.generated[index].steady)
            called, _ = trusted.run(self.phase, self._empty_caches, count, row)
            with trusted.thawed_after():
                return called

    def call_bytes(self, index: int) -> int:
        """Return the size of a case's last inputs and of its right answer, of the last one if its form is unknown."""
        last = self.generated[index]
        return last.size + (last.form.size if last.form else self._written_bytes.get(index, 0))

    def blocks(self, index: int) -> int:
        """Return the number of blocks of a case's right answer; 1 if its form is unknown."""
        form = self.generated[index].form
        return len(form.blocks) if form else 1

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        start_ns = time.monotonic_ns()
        yield
        self.steps_ns[name] = float(time.monotonic_ns() - start_ns)

    def _fill(self, numbers: Sequence[int], cold: bool, arena: int, bases: Sequence[int]) -> None:
        """Have the inputs of calls written, into memory that is cold afterwards if `cold`."""
        with self._step("write the inputs"):
            self._write_inputs("fill", numbers, cold, arena, bases)

    def _empty_caches(self) -> None:
        """Have the caches emptied as for a timed row, whose inputs are in none of them."""
        self._judge.send({"type": "empty"})
        self._judged(Filled, "empty the caches")

    def _write_inputs(self, how: str, numbers: Sequence[int], cold: bool, arena: int, bases: Sequence[int]) -> None:
        for first in range(0, len(numbers), _FRAME_CALLS):
            some = slice(first, first + _FRAME_CALLS)
            last = first + _FRAME_CALLS >= len(numbers)
            frame = {"type": how, "calls": numbers[some], "bases": bases[some], "cold": cold and last}
            self._judge.send(frame, [arena])
            self._judged(Filled, "write the inputs")

    def _made(self, index: int, group: str, number: int, seed: int, fixed: int | None) -> Generated:
        case = dict(self.phase.cases[index])
        frame = {"type": "generate", "call": number, "group": group, "seed": seed, "case": case, "fixed": fixed}
        self._judge.send({**frame, "public": seed == public_seed(case)})
        self.generated[index] = self._judged(Generated, "generate the inputs")
        return self.generated[index]

    def _check_inputs(self, numbers: Sequence[int], arena: int, bases: Sequence[int]) -> None:
        """Have inputs compared with their originals while the worker is stopped: a running one could restore them."""
        with self._step("check the inputs"):
            for number, base in zip(numbers, bases, strict=True):
                opinion = self._opinion({"type": "compare", "call": number, "base": base}, arena, "check the inputs")
                if opinion.verdict is not Verdict.PASS:
                    raise CallFailed(opinion.verdict, opinion.message)

    def _opinion(self, frame: Frame, descriptor: int, task: str) -> Checked:
        self._judge.send(frame, [descriptor])
        return self._judged(Checked, task)

    def _check_outputs(
        self, numbers: Sequence[int], group: str, outputs: Sequence[Output], copies: Sequence[int], *, probe: bool
    ) -> tuple[Checked, bool]:
        """Have the outputs of a row checked; return the opinion of the last one, and whether the GPU was slowed."""
        with self._step("check the output"):
            checked = [
                self._check(number, group, output, copy, probe=probe)
                for number, output, copy in zip(numbers, outputs, copies, strict=True)
            ]
        return checked[-1], any(each.throttled for each in checked)

    def _check(self, number: int, group: str, output: Output, copy: int, *, probe: bool) -> Checked:
        opinion = self._opinion(self._check_frame(number, group), copy, "check the output")
        wrong = opinion.verdict is not Verdict.PASS
        if (wrong or probe) and output.changes_later(copy, self.limits.value_bytes):
            message = "it kept writing to its output after it had reported that it was done"
            raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True)
        if wrong:
            raise CallFailed(opinion.verdict, opinion.message, mismatch=opinion.mismatch)
        return opinion

    def _check_frame(self, number: int, group: str) -> Frame:
        seconds = min(self.limits.judge_seconds, self._judge_allowance.left_seconds)
        return {"type": "check", "call": number, "group": group, "seconds": seconds}

    def _judged(self, kind: type[OfJudge], task: str) -> OfJudge:
        allowance, one = self._judge_allowance, self.limits.judge_seconds
        late = f"the task did not {task} within {one:g} s"
        if allowance.left_seconds < one:
            whole = f"{allowance.whole_seconds:g} s in all for the {self.phase.name} cases"
            late = f"the task took {whole}, and did not {task} by then"
        start = time.monotonic()
        try:
            return judge_answer(self._judge, kind, start + min(one, allowance.left_seconds), late)
        finally:
            allowance.spend(time.monotonic() - start)


def closed_later(held: ExitStack, descriptor: int) -> int:
    """Return a descriptor that is closed with the stack."""
    held.callback(os.close, descriptor)
    return descriptor
