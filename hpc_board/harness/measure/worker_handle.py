"""A worker as the supervisor sees it: the time that it has left, its calls, and the outputs that it is stopped for."""

import fcntl
import os
import secrets
import signal
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hpc_board.harness.processes.calls import (
    Called,
    CallFailed,
    OutputsOverlap,
    Phase,
    Rules,
    TimeBudget,
    close_all,
    worker_answer,
)
from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed
from hpc_board.harness.processes.memory import may_read, read_memory
from hpc_board.harness.processes.tree import (
    ProcessorTimes,
    Turns,
    all_stopped,
    processor_ns,
    processor_times,
    signal_all,
    turns,
)
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.payload import Held, write_at
from hpc_board.harness.wire.replies import Answer, Done, Mapped, Overlapped, Prepared
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict

_SENT_BYTES = 2**24
_READ_BYTES = 2**19
_COMPARED_BYTES = 2**20
_SPARE_BYTES = 2**20
_LATE_SECONDS = 0.05
_STILL_SECONDS = 2.0
_LOOKS = 2
_PAGE_BYTES = 4096
_LEAVING_NS = 50_000
"""What the threads of a process may still run, all together, when they count as stopped: each leaves its processor."""


def no_siblings() -> list[int]:
    """The siblings of a worker whose processes are left alone."""
    return []


class Worker:
    """A process that calls a kernel, and the wall time that it may take for that.

    `siblings` tells the processes that it may have started, and that are stopped with it when its outputs are copied.
    """

    def __init__(
        self,
        child: Child,
        limits: Limits,
        allowance: TimeBudget,
        siblings: Callable[[], list[int]] = no_siblings,
        *,
        device: str = "cpu",
    ) -> None:
        self.child = child
        self._limits = limits
        self._allowance = allowance
        self._siblings = siblings
        self._companions: list[int] = []
        self._signalled: set[int] = set()
        self._turns: Turns = {}
        self._called = False
        # No signal stops what a GPU does, and it can be given any memory of its process to read and write.
        self._stops = device == "cpu"
        self._readable = self._stops and may_read(child.worker_pid)
        # One descriptor at most; a list, so that it is closed with the worker whichever it is by then.
        self._arena: list[int] = []
        self._model: Output | None = None
        weakref.finalize(self, close_all, self._arena)
        self.output_bytes: dict[int, int] = {}
        """What the last output of each case took."""

    @property
    def stops(self) -> bool:
        """Whether all that a submission has begun can be stopped."""
        return self._stops

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
        if not isinstance(self._ready(phase, "prepared"), Prepared):
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered something else", worker_lost=True)

    def give_room(
        self,
        phase: Phase,
        sizes: Sequence[int],
        room: int,
        form: Mapping[str, Any] | None,
        output_bytes: int,
        lay: Callable[[int, Sequence[int]], None] | None = None,
    ) -> tuple[int, list[int]]:
        """Return memory for inputs of these sizes, and where in it each begins; the worker has it in its pages by then.

        The memory of the calls before is used again where it is large enough, and not far too large. Where not all that
        a submission has begun can be stopped, it is new for every call and only shown with it. With `lay`, the layouts
        of the inputs are written now, and the worker builds its tensors over the memory before their values are there.
        `room` takes what the worker tells of outputs, which have the `form` where the kernel has to know it, and take
        `output_bytes` each, as far as that is known.

        Raises:
            CallFailed: it has no place for that, or said something else.
        """
        bases, end = [], 0
        for size in sizes:
            bases.append(end)
            end += -(-size // _PAGE_BYTES) * _PAGE_BYTES + _PAGE_BYTES
        shown: list[int] = []
        if not self._stops or not self._fits(end):
            self._renew_arena(end)
            shown = [*self._arena] if self._stops else []
        (arena,) = self._arena
        if lay is not None and self._stops:
            lay(arena, bases)
        frame = {
            "type": "map",
            "bases": bases,
            "early": lay is not None and self._stops,
            "form": form,
            "output_bytes": output_bytes,
            "repeated": False,
        }
        self.child.send(frame, [*shown, room])
        if not isinstance(self._ready(phase, "mapped"), Mapped):
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered something else", worker_lost=True)
        return arena, bases

    def give_room_to_repeat(self, phase: Phase, count: int, room: int, value: int, *, early: bool) -> None:
        """Have the worker prepare `count` calls that return the value at a descriptor, all with the same inputs.

        These are the first of its last row; with `early`, its tensors over them are built now.

        Raises:
            CallFailed: it has no place for that, or said something else.
        """
        early = early and self._stops
        frame = {
            "type": "map",
            "bases": [0] * count,
            "early": early,
            "form": None,
            "output_bytes": os.fstat(value).st_size,
            "repeated": True,
        }
        self.child.send(frame, [room, value])
        if not isinstance(self._ready(phase, "mapped"), Mapped):
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered something else", worker_lost=True)

    def _renew_arena(self, size: int) -> None:
        close_all(self._arena)
        self._arena[:] = [os.memfd_create("inputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)]
        os.ftruncate(self._arena[0], size)
        fcntl.fcntl(self._arena[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)

    def _fits(self, size: int) -> bool:
        return bool(self._arena) and size <= os.fstat(self._arena[0]).st_size <= 2 * size + _SPARE_BYTES

    def _ready(self, phase: Phase, expected: str) -> Answer:
        """What the worker answers before a call, which is its own time."""
        seconds = min(self._limits.first_call_seconds, self._allowance.left_seconds)
        late = f"it was not ready for a {phase.name} call within {seconds:g} s"
        start = time.monotonic()
        try:
            return worker_answer(self.child, (expected, "raised"), start + seconds, late)
        finally:
            self._allowance.spend(time.monotonic() - start)

    def run(
        self,
        phase: Phase,
        fill: Callable[[], None],
        count: int,
        *,
        cold: bool,
        copied: bool,
        made: int,
        alike: bool,
        rules: Rules,
    ) -> tuple[Called, Done]:
        """Have the `count` calls made whose inputs the worker has room for.

        The worker is stopped while `fill` writes the inputs, so that it does not see them before the clock runs. With
        `copied` it copies each output before the next call. Of the calls the first ones are `made`; each of the others
        has a copy of the first one's output. With `alike`, it tells outputs that have the form of the last one that it
        told in full by their addresses alone.

        Returns:
            The calls, and where the worker says that their outputs lie; it is stopped until it is told to go on.

        Raises:
            OutputsOverlap: outputs lie in the same memory, so that the first ones are lost.
            CallFailed: the calls did not return, or what the worker says of them cannot be.
        """
        limits, left = self._limits, self._allowance.left_seconds
        allowed = limits.call_seconds if self._called else limits.first_call_seconds
        allowed *= count
        which = "the call" if self._called else "the first call"
        late = f"{which} did not return within {allowed:g} s"
        if left < allowed:
            late = f"{which} did not return within the {phase.seconds:g} s for all {phase.name} cases"
        number = secrets.randbits(62)
        frame = {
            "type": "run",
            "call": number,
            "cold": cold,
            "copied": copied,
            "made": made,
            "held": self._readable,
            "alike": alike,
            "value_bytes": limits.value_bytes,
            "const_inputs": rules.const_inputs,
            "fresh_output": rules.fresh_output,
        }
        self._fill(fill)
        before = self._processor_times()
        deadline = time.monotonic() + min(allowed, left)
        start_ns = time.monotonic_ns()
        try:
            self.child.send(frame, [] if self._stops else self._arena)
        finally:
            self._go_on()
        try:
            expected = ("done", "overlapped", "raised") if count > 1 and not copied else ("done", "raised")
            answer = worker_answer(self.child, expected, deadline, late)
            still_ns = self._stop() if isinstance(answer, Done) else start_ns
        finally:
            self._allowance.spend((time.monotonic_ns() - start_ns) / 1e9)
            self._called = True
        wall_ns = still_ns - start_ns
        if isinstance(answer, Overlapped):
            raise OutputsOverlap
        if not isinstance(answer, Done) or answer.call != number:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered another call", worker_lost=True)
        if not self._stops and not 0 < answer.elapsed_ns <= wall_ns:
            message = (
                f"it claims {answer.elapsed_ns:.0f} ns for a call that took {wall_ns} ns by the supervisor's clock"
            )
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        waited_ns = self._processor_times().waited_since(before)
        claimed_ns, by_address = min(max(0.0, answer.elapsed_ns), wall_ns), bool(answer.alike)
        return Called(count, claimed_ns, wall_ns, waited_ns=waited_ns, by_address=by_address), answer

    def _processor_times(self) -> ProcessorTimes:
        """What the system has accounted to the worker's first thread, and to all else of the submission, by now."""
        return processor_times(self.child.worker_pid, self._companions) if self._stops else ProcessorTimes()

    def outputs(self, answer: Done, count: int, room: int) -> "list[Output]":
        """Return the outputs of calls as the worker tells where they lie; reading them shows whether that is so.

        Raises:
            OutputsOverlap: they lie in the same memory.
            CallFailed: what it tells does not fit together.
        """
        found = self._alike(answer.alike, count) if answer.alike else self._described(answer, count, room)
        extents = [[(address, address + size) for _, address, size in each.parts] for each in found]
        if payload.any_overlap(extents):
            raise OutputsOverlap
        if not answer.alike and count == 1:
            self._model = found[0].without_parts()
        return found

    def _alike(self, addresses: Sequence[int], count: int) -> "list[Output]":
        """Return outputs that have the form of the last one that was described alone."""
        model = self._model
        width = 0 if model is None else len(model.parts)
        if model is None or len(addresses) != count * width:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "its outputs are not as many as calls", worker_lost=True)
        return [model.at(addresses[begin : begin + width]) for begin in range(0, count * width, width)]

    def _described(self, answer: Done, count: int, room: int) -> "list[Output]":
        """Return outputs that are each described in full."""
        parts: list[list[Held]] = [[] for _ in range(count)]
        for place, at, address, size in answer.held:
            if place >= count:
                raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it has more outputs than calls", worker_lost=True)
            parts[place].append((at, address, size))
        if len(answer.outputs) != count:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "its outputs are not as many as calls", worker_lost=True)
        return [Output(self, room, extent, each) for extent, each in zip(answer.outputs, parts, strict=True)]

    def _fill(self, fill: Callable[[], None]) -> None:
        """Write the inputs while nothing of the submission runs that knows their memory, and leave it stopped so."""
        if not self._stops:
            fill()
            return
        self._stop()
        try:
            for descriptor in self._arena:
                # Its flags are the worker's as well: with O_APPEND, nothing could be written at a place.
                fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
            fill()
            if turns(self._turns) != self._turns:
                message = "it ran while its inputs were written, after it had been stopped"
                raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        except BaseException:
            self._go_on()
            raise

    def read(self, address: int, copy: int, at: int, size: int) -> None:
        """Copy a part of an output from the worker's memory into a file.

        Raises:
            CallFailed: there is no such memory.
        """
        try:
            if not self._readable:
                raise PermissionError("it was told that its memory cannot be read")
            # By way of a little memory that stays in the processor's caches: mapping the file would cost more.
            memory = bytearray(min(size, _READ_BYTES))
            for done in range(0, size, _READ_BYTES):
                count = min(size - done, _READ_BYTES)
                read_memory(self.child.worker_pid, address + done, memory, count)
                write_at(copy, at + done, memoryview(memory)[:count])
        except ProcessLookupError:
            raise CallFailed(Verdict.CRASH, "the process of the submission is gone", worker_lost=True) from None
        except OSError as error:
            message = f"its output is not where it says: {error.strerror or error}"
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, message, worker_lost=True) from None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """A time in which the worker and its siblings are stopped.

        Raises:
            CallFailed: they cannot be stopped, or one of them ran meanwhile.
        """
        self._stop()
        with self.thawed_after():
            yield

    @contextmanager
    def thawed_after(self) -> Iterator[None]:
        """A time at whose end the worker and its siblings, which are stopped, go on.

        Raises:
            CallFailed: one of them ran meanwhile.
        """
        try:
            yield
            if turns(self._turns) != self._turns:
                message = "it ran on while its output was copied, after it had been stopped"
                raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True)
        finally:
            self._go_on()

    def _go_on(self) -> None:
        # Also those that are gone: a number may have become another process's before it was signalled.
        signal_all(self._signalled, signal.SIGCONT)
        self._signalled.clear()
        self.child.thaw()

    def _signal_stop(self, pids: Sequence[int]) -> None:
        self._signalled.update(pids)
        signal_all(pids, signal.SIGSTOP)

    def _stop(self) -> int:
        """Stop the worker and its siblings, and return the monotonic time in nanoseconds at which nothing ran any more.

        A worker without siblings is not charged for looking for it.
        """
        try:
            return self._stilled(time.monotonic() + _STILL_SECONDS)
        except ChildEnded as error:
            message = f"the process of the submission is gone: {error.how}"
            raise CallFailed(Verdict.CRASH, message, worker_lost=True) from error
        except DeadlinePassed:
            self._go_on()
            message = f"its processes were still running {_STILL_SECONDS:g} s after they were told to stop"
            raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True) from None

    def _stilled(self, deadline: float) -> int:
        self._signal_stop(self._companions)
        self.child.freeze(deadline)
        still_ns, ran_ns = time.monotonic_ns(), processor_ns(self.child.worker_pid)
        # Many threads take milliseconds to read of: only where one of them ran meanwhile does that count.
        self._turns = turns([self.child.worker_pid])
        if processor_ns(self.child.worker_pid) - ran_ns > _LEAVING_NS:
            still_ns = time.monotonic_ns()
        # Company may have run until it was seen to be still, and have woken and stopped by itself before that.
        moved = bool(self._companions)
        # Twice: a process that moves while it is looked for may be missed once.
        looks = 0
        while looks < _LOOKS:
            found = self._siblings()
            stopped = [self.child.worker_pid, *found]
            if set(found) - set(self._companions) or not all(map(all_stopped, stopped)):
                looks, moved = 0, True
                self._signal_stop(stopped)
            else:
                if looks == 0 and (moved or turns(self._turns) != self._turns):
                    self._turns = turns(stopped)
                    still_ns = time.monotonic_ns()
                looks += 1
            self._companions = found
            if time.monotonic() >= deadline:
                raise DeadlinePassed
        return still_ns


class Output:
    """An output of a worker: in the room at `extent` (offset, bytes) and, as far as `parts` say, in its memory."""

    def __init__(self, worker: Worker, room: int, extent: tuple[int, int], parts: Sequence[Held]) -> None:
        self._worker = worker
        self._room = room
        self._base, self._size = extent
        self.parts = sorted(parts)
        self._model: Output | None = None

    def without_parts(self) -> "Output":
        """Return the same output with all but its parts in memory that the worker cannot reach."""
        room = os.memfd_create("model", os.MFD_CLOEXEC)
        model = Output(self._worker, room, (0, self._size), self.parts)
        weakref.finalize(model, os.close, room)
        begin = self.parts[0][0] if self.parts else self._size
        _send(self._room, self._base, room, 0, min(begin, payload.HEADER_BYTES_MAX))
        return model

    def at(self, addresses: Sequence[int]) -> "Output":
        """Return an output of the same form whose parts lie at other addresses."""
        parts = [(at, address, size) for (at, _, size), address in zip(self.parts, addresses, strict=True)]
        output = Output(self._worker, self._room, (self._base, self._size), parts)
        # Its room is closed with it.
        output._model = self
        return output

    def copy(self, bytes_max: int) -> int:
        """The output in memory that the worker cannot reach; the worker is stopped meanwhile."""
        if self._size > bytes_max:
            raise CallFailed(Verdict.OUTPUT_LIMIT, f"its output takes {self._size} bytes", worker_lost=True)
        copy = os.memfd_create("held", os.MFD_CLOEXEC)
        try:
            os.ftruncate(copy, self._size)
            self._fill(copy, self._size)
        except BaseException:
            os.close(copy)
            raise
        return copy

    def _fill(self, copy: int, size: int) -> None:
        done = 0
        for at, address, length in self.parts:
            if at < done or at + length > size:
                message = "its output has parts that overlap, or lie beyond its end"
                raise CallFailed(Verdict.PROTOCOL_VIOLATION, message, worker_lost=True)
            _send(self._room, self._base, copy, done, at)
            self._worker.read(address, copy, at, length)
            done = at + length
        _send(self._room, self._base, copy, done, size)

    def changes_later(self, copy: int, bytes_max: int) -> bool:
        """Whether the output that was copied is another one a little later."""
        time.sleep(_LATE_SECONDS)
        try:
            with self._worker.frozen():
                later = self.copy(bytes_max)
        except CallFailed as error:
            if error.verdict is Verdict.CRASH:
                raise
            return True
        try:
            size = os.fstat(copy).st_size
            return os.fstat(later).st_size != size or any(
                os.pread(later, _COMPARED_BYTES, at) != os.pread(copy, _COMPARED_BYTES, at)
                for at in range(0, size, _COMPARED_BYTES)
            )
        finally:
            os.close(later)


def _send(source: int, base: int, target: int, begin: int, end: int) -> None:
    """Copy a range of what begins at `base` in one file to the same place in another."""
    os.lseek(target, begin, os.SEEK_SET)
    while begin < end:
        count = os.sendfile(target, source, base + begin, min(end - begin, _SENT_BYTES))
        if count == 0:
            return
        begin += count
