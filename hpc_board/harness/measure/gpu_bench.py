"""One call of a submission on a GPU within a window of the judge, whose clock bounds the time of the call.

The call waits in the GPU's queue while all processes of the submission are stopped. The judge starts its clock, writes
the inputs into the worker's memory of the GPU, gives the sign, takes the outputs, and stops its clock. A GPU computes
for one process at a time, so that a submission could work outside of its time with only a copy engine: blocks of the
inputs that are wrong until the sign prevent that, and so does a challenge that no copy meets.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum, auto
from functools import partial

from hpc_board.harness.device.gpu_queue import pool_bytes
from hpc_board.harness.measure.bench import Bench, closed_later
from hpc_board.harness.measure.gpu_worker import GpuWorker
from hpc_board.harness.measure.worker_handle import misplaced
from hpc_board.harness.processes.calls import (
    CalledInWindow,
    CallFailed,
    MemoryNotShared,
    NoWindow,
    Phase,
    Rules,
    judge_answer,
)
from hpc_board.harness.processes.child import Child
from hpc_board.harness.wire.channel import Frame
from hpc_board.harness.wire.form import Form
from hpc_board.harness.wire.payload import any_overlap, leaves_of
from hpc_board.harness.wire.replies import (
    PLACES_MAX,
    Checked,
    Filled,
    Generated,
    Queued,
    Reserved,
    SharedPlace,
    Windowed,
)
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict

_CLOSED_SECONDS = 2.0
"""Time limit for the end of a window once the worker says that its call is done."""

_STOPPED_SECONDS = 5.0
"""Time after which a worker whose call the GPU has not ended is continued: the call may need its processor."""


class Made(Enum):
    """The work of a window: the kernel's call, or that of a worker without a kernel.

    `OUTPUT` is the response to the challenge, and returns an answer of the task's form; `RESPONSE` is only the
    response. With `NOTHING` the worker's GPU computes nothing.
    """

    CALL = auto()
    OUTPUT = auto()
    RESPONSE = auto()
    NOTHING = auto()


class GpuBench(Bench):
    """The judge of a phase on a GPU whose memory several processes can share.

    `record` takes a line for each window. If `pooled`, the memory of a window is the judge's, and outputs are copied
    there within the window.
    """

    def __init__(
        self, judge: Child, phase: Phase, limits: Limits, rules: Rules, record: Callable[[Mapping[str, object]], None]
    ) -> None:
        super().__init__(judge, phase, limits, rules)
        self._record = record
        self.pooled = False

    def window(
        self, worker: GpuWorker, index: int, seed: int, made: Made = Made.CALL, *, by_host: bool = False
    ) -> CalledInWindow:
        """Have the GPU make one call within a window, and have its output checked unless a trusted worker made it.

        A call that is not queued in time waits for the GPU itself: it is made `by_host`, with its processes running. If
        that is known before, its window opens at once.

        Raises:
            NoWindow: no window can hold this call.
        """
        worker.check_time(self.phase)
        number, group = secrets.randbits(62), self._group(worker, index)
        with self._forgotten_on_failure(), ExitStack() as held:
            fixed = self._fixed(worker, index, seed) if made is Made.CALL else None
            generated = self._made(index, group, number, seed, fixed)
            form = generated.form
            if form is None or any(leaf["k"] != "tensor" for leaf, _ in leaves_of(form.node)):
                raise NoWindow("the reference's output has no fixed form, or contains non-tensors")
            reserved = self._reserve(worker, held, generated, number, form, made)
            queued = worker.queue(challenged=made is not Made.NOTHING, by_host=by_host)
            window = {
                "type": "window",
                "call": number,
                "number": worker.number,
                "handles": reserved.handles,
                "inputs": reserved.inputs,
                "signals": reserved.signals,
                "compared": self._rules.const_inputs,
                "seconds": _STOPPED_SECONDS,
            }
            copy = closed_later(held, form.blank())
            answered = made in (Made.CALL, Made.OUTPUT)
            place = partial(_placed, reserved=reserved, form=form, own=generated.own, answered=answered)
            if queued is None or by_host:
                by_host = True
                found = self._opened(worker, window, queued, place, copy)
            else:
                with worker.frozen():
                    found = self._windowed(worker, {**window, **place(queued)}, [copy])
                worker.finish(self.phase)
            if found.elapsed_ns is None:
                by_host, found = True, self._closed_at_last(worker, copy)
            checked, verdict = Checked(Verdict.PASS, ""), Verdict.PASS
            try:
                if made is Made.CALL:
                    checked = self._checked(found, number, group, copy)
                else:
                    self._judge.send({"type": "forget"})
            except CallFailed as error:
                verdict = error.verdict
                raise
            finally:
                whose = {"process": worker.child.worker_pid, "case": index, "made": made.name.lower()}
                times = {"window_ns": found.elapsed_ns, "copied_ns": found.copied_ns, "by_host": by_host}
                self._record({**whose, **times, "throttled": checked.throttled, "verdict": verdict})
        return CalledInWindow(found.elapsed_ns or 0.0, found.copied_ns, by_host, checked.message, checked.throttled)

    def _opened(
        self, worker: GpuWorker, window: Frame, queued: Queued | None, place: Callable[[Queued], Frame], copy: int
    ) -> Windowed:
        """Open a window for a call that needs its processes, and close it when the call has been made."""
        self._windowed(worker, window, [])
        queued = queued or worker.queued_at_last(self.phase)
        worker.finish(self.phase)
        with worker.frozen():
            return self._windowed(worker, {"type": "take", "seconds": _STOPPED_SECONDS, **place(queued)}, [copy])

    def release_windows(self) -> None:
        """Have the judge unmap the memory of workers that have ended."""
        self._judge.send({"type": "release"})

    def _reserve(
        self, worker: GpuWorker, held: ExitStack, generated: Generated, number: int, form: Form, made: Made
    ) -> Reserved:
        """Have the worker allocate memory of the GPU for inputs whose layout it is told."""
        if not generated.in_tensors:
            raise NoWindow("the inputs are not all in tensors, and the rest would be known before the call")
        arena = closed_later(held, os.memfd_create("inputs", os.MFD_CLOEXEC))
        os.ftruncate(arena, generated.size)
        self._judge.send({"type": "lay", "calls": [number], "bases": [0], "cold": False}, [arena])
        self._judged(Filled, "write the inputs")
        answer = form.node if made in (Made.CALL, Made.OUTPUT) else None
        pool = self._pool(held, generated.size + form.size, len(form.blocks))
        is_empty = made is not Made.CALL
        return worker.reserve(self.phase, arena, answer, generated.own, self._rules, pool, is_empty=is_empty)

    def _pool(self, held: ExitStack, size: int, blocks: int) -> list[int]:
        """Have the judge send memory for a call over a new connection, if `pooled`; return its other end."""
        if not self.pooled:
            return []
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            self._judge.send({"type": "share", "size": pool_bytes(size, PLACES_MAX + blocks)}, [ours.fileno()])
            self._judged(Filled, "share GPU memory")
        return [closed_later(held, theirs.detach())]

    def _windowed(self, worker: GpuWorker, frame: Frame, fds: Sequence[int]) -> Windowed:
        """Return the judge's answer to a step of a window, whose time is the worker's own."""
        start = time.monotonic()
        self._judge.send(frame, fds)
        seconds = frame["seconds"] + self.limits.judge_seconds
        late = f"the judge did not end a window within {seconds:g} s"
        try:
            found = judge_answer(self._judge, Windowed, start + seconds, late)
        finally:
            worker.allowance.spend(time.monotonic() - start)
        if found.fault:
            message = f"its GPU memory is not where it claims: {found.fault}"
            raise MemoryNotShared(message, Verdict.PROTOCOL_VIOLATION)
        return found

    def _closed_at_last(self, worker: GpuWorker, copy: int) -> Windowed:
        """Return the end of a window whose call needed a running worker, which says that it is done by now."""
        found = self._windowed(worker, {"type": "await", "seconds": _CLOSED_SECONDS}, [copy])
        if found.elapsed_ns is None:
            message = "the GPU has not finished the call although its process says so"
            raise CallFailed(Verdict.TIMEOUT, message, worker_lost=True)
        return found

    def _checked(self, found: Windowed, number: int, group: str, copy: int) -> Checked:
        if not found.responded:
            message = "its GPU did not meet the judge's challenge within the call"
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        if self._rules.const_inputs and not found.unchanged:
            message = "the call modified its inputs, which the task forbids"
            raise CallFailed(Verdict.MUTATED_INPUT, message)
        opinion = self._opinion(self._check_frame(number, group), copy, "check the output")
        if opinion.verdict is not Verdict.PASS:
            raise CallFailed(opinion.verdict, opinion.message, mismatch=opinion.mismatch)
        return opinion


def _placed(queued: Queued, *, reserved: Reserved, form: Form, own: Sequence[int], answered: bool) -> Frame:
    """Return the checked places of an answer's blocks for the judge, each with its offset in the payload."""
    wanted = [(at, size, each) for (at, size), each in zip(form.blocks, own, strict=True) if size] if answered else []
    if [size for _, size, _ in wanted] != [place.size for place in queued.blocks]:
        raise misplaced("the parts of its output differ from those of the reference's answer")
    inputs, blocks = _spans(reserved.handles, reserved.inputs), _spans(queued.handles, queued.blocks)
    new = [
        span for span, (_, _, each) in zip(blocks, wanted, strict=True) if each < 0 or [span] != inputs[each : each + 1]
    ]
    if any_overlap([inputs, new]) or any_overlap([[span] for span in blocks]):
        raise misplaced("its output is in the memory of an input, or of another part of the output")
    outputs = [[at, *place] for (at, _, _), place in zip(wanted, queued.blocks, strict=True)]
    return {"handles": queued.handles, "outputs": outputs}


def _spans(handles: Sequence[str], places: Sequence[SharedPlace]) -> list[tuple[int, int]]:
    """Return the begin and end of each place on one line, on which the allocations lie apart."""
    begins = [(int(handles[place.handle], 16) << 64) + place.offset for place in places]
    return [(begin, begin + place.size) for begin, place in zip(begins, places, strict=True)]
