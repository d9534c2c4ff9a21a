"""The supervisor's handle of a worker whose calls wait in a GPU's queue for the judge's sign."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import CallFailed, MemoryNotShared, Phase, Rules
from hpc_board.harness.wire.replies import Queued, Reserved, Unshared
from hpc_board.model.result import Verdict

_QUEUE_SECONDS = 0.25
"""Time after which a call that is not queued counts as one that waits for the GPU's results itself."""


class GpuWorker(Worker):
    """A worker with memory of a GPU that the judge reads and writes.

    `number` is the number of the current call's sign; no two calls have the same one.
    """

    number = 0
    _call = 0

    def reserve(
        self,
        phase: Phase,
        arena: int,
        form: Mapping[str, Any] | None,
        own: Sequence[int],
        rules: Rules,
        pool: Sequence[int],
        *,
        is_empty: bool,
    ) -> Reserved:
        """Return the places on the GPU of the inputs whose layout is in the arena, and of the signals.

        If `is_empty`, no kernel is called: the call returns an answer of the `form`; without one it returns nothing.
        `own` holds for each block of the answer the number of the input that may be it, -1 for none. With a connection
        in `pool`, over which the judge has sent memory, the places are in that.

        Raises:
            MemoryNotShared: processes cannot share this memory.
        """
        frame = {
            "type": "reserve",
            "form": form,
            "own": [-1 if rules.fresh_output else each for each in own],
            "fresh_output": rules.fresh_output,
            "empty": is_empty,
            "pooled": bool(pool),
        }
        self.child.send(frame, [arena, *pool])
        seconds = self._limits.first_call_seconds
        late = f"it had no memory for the inputs of a {phase.name} call within {seconds:g} s"
        answer: Reserved = self._shared("reserved", seconds, late)
        return answer

    def queue(self, *, challenged: bool, by_host: bool) -> Queued | None:
        """Have the call queued behind the judge's sign; None if it waits for the GPU itself, and so for the sign.

        If `challenged`, a kernel before it computes the response to the judge's challenge. Nothing is awaited if the
        call is known to wait for the GPU (`by_host`).
        """
        self.number = self.number % (2**31 - 1) + 1
        self._call = secrets.randbits(62)
        self.child.send({"type": "queue", "call": self._call, "number": self.number, "challenged": challenged})
        if by_host:
            return None
        try:
            return self._queued(_QUEUE_SECONDS, "")
        except CallFailed as error:
            if error.verdict is not Verdict.TIMEOUT:
                raise
            return None

    def queued_at_last(self, phase: Phase) -> Queued:
        """Return the description of a call that has waited for the sign by itself."""
        seconds = self._limits.call_seconds
        return self._queued(seconds, f"a {phase.name} call did not return within {seconds:g} s")

    def _queued(self, seconds: float, late: str) -> Queued:
        answer: Queued = self._shared("queued", seconds, late)
        if answer.call != self._call:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it queued another call", worker_lost=True)
        return answer

    def finish(self, phase: Phase) -> None:
        """Wait until the GPU has done the call's work."""
        self.child.send({"type": "finish"})
        seconds = self._limits.call_seconds
        late = f"the GPU was still busy {seconds:g} s after a {phase.name} call"
        self.answer(("finished", "raised"), seconds, late)

    def _shared(self, expected: str, seconds: float, late: str) -> Any:
        answer = self.answer((expected, "unshared", "raised"), seconds, late)
        if isinstance(answer, Unshared):
            verdict = Verdict.EXCEPTION if self.child.imports_submission else Verdict.DEVICE_ERROR
            raise MemoryNotShared(f"memory of the GPU cannot be shared: {answer.message}", verdict)
        return answer
