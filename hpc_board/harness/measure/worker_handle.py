"""The supervisor's handle of a worker: its time budget, its calls, and the outputs for which it is stopped."""

import fcntl
import math
import os
import secrets
import signal
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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
from hpc_board.harness.processes.child import Child, ChildEnded, DeadlinePassed, Prepared
from hpc_board.harness.processes.memory import mapped_at, may_read, read_memory, status_value
from hpc_board.harness.processes.signals import SIGNAL_GRACE_SECONDS
from hpc_board.harness.processes.tree import (
    ProcessorTimes,
    Turns,
    all_stopped,
    processor_ns,
    processor_times,
    signal_all,
    turns,
)
from hpc_board.harness.wire.form import Form
from hpc_board.harness.wire.payload import any_overlap, write_at
from hpc_board.harness.wire.replies import Answer, Done, Generated, Overlapped
from hpc_board.model.limits import REFERENCE_TIMES, USUAL_SECONDS_MIN, USUAL_TIMES, Limits
from hpc_board.model.result import Verdict

_READ_BYTES = 2**19
_POLL_SECONDS = 0.05
_COMPARED_BYTES = 2**20
_SPARE_BYTES = 2**20
_LATE_SECONDS = 0.05
_STILL_SECONDS = 2.0
_LOOKS = 2
_PAGE_BYTES = 4096
_GONE = "the submission's process is gone"
_LEAVING_NS = 50_000
"""Total time that a process's threads may still run after they count as stopped: each leaves its processor."""


def _now() -> tuple[int, int]:
    """Return the monotonic time, and the run time of this thread, in nanoseconds."""
    return time.monotonic_ns(), time.thread_time_ns()


@dataclass(frozen=True)
class Row:
    """The way in which calls in a row are made.

    With a `form` and `blocks`, the answers are read in the worker's memory, where it has made them to have the task's
    form; unless `made_so`, it leaves an answer of another form as it is and writes it out. With `cold`, the inputs are
    in no cache. With `copied`, the worker copies each output before the next call. Only the first `made` calls are made
    if it is not None: each of the others returns a copy of the first one's output.
    """

    form: Form | None = None
    blocks: bool = False
    made_so: bool = True
    cold: bool = False
    copied: bool = False
    made: int | None = None


def misplaced(message: str) -> CallFailed:
    """Return the failure of a worker that names other places of its outputs than it may."""
    return CallFailed(Verdict.PROTOCOL_VIOLATION, message, worker_lost=True)


def _woken() -> CallFailed:
    """Return the failure of a submission that ran while it knew inputs whose time had not begun."""
    message = "it ran while its inputs were written, after it had been stopped"
    time.sleep(SIGNAL_GRACE_SECONDS)
    return CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)


class Worker:
    """A process that calls a kernel, and its budget of wall time.

    `siblings` returns the processes that it may have started, and that are stopped with it when its outputs are copied.
    `fixed` are the case and the seed of the fixed inputs of its calls, of a task that has any.
    """

    def __init__(
        self,
        child: Child,
        limits: Limits,
        allowance: TimeBudget,
        siblings: Callable[[], list[int]] = list,
        *,
        device: str = "cpu",
    ) -> None:
        self.child = child
        self._limits = limits
        self.allowance = allowance
        self._siblings = siblings
        self._companions: list[int] = []
        self._signalled: set[int] = set()
        self._turns: Turns = {}
        self._ran_ns: dict[int, int] = {}
        self._called = False
        self.longest_call_ns = 0.0
        # No signal stops a GPU's work, and a GPU can be given any memory of its process to read and write.
        self._stops = device == "cpu"
        self.hands_over_blocks = self._stops and may_read(child.worker_pid)
        # One descriptor at most; a list, so that the current one is closed with the worker.
        self._arena: list[int] = []
        self._own: list[int] = []
        self.fixed: tuple[int, int] | None = None
        weakref.finalize(self, close_all, self._arena)

    def check_time(self, phase: Phase) -> None:
        """Check that time is left for a call."""
        if self.allowance.left_seconds <= 0:
            message = f"the {phase.seconds:g} s of the kernel for all {phase.name} cases were used up before a call"
            raise CallFailed(Verdict.TIMEOUT, message, worker_lost=True)

    def keep_state(self, fixed: int) -> None:
        """Have the submission prepare fixed inputs, within the time of the phase and the limits of the task."""
        limits, before_bytes = self._limits, self._held_bytes()
        seconds = min(limits.prepare_seconds, self.allowance.left_seconds)
        begin = time.monotonic()
        self.child.send({"type": "keep_state"}, [fixed])
        self.answer(("kept_state", "raised"), seconds, f"prepare did not return within {seconds:g} s")
        prepared = Prepared(time.monotonic() - begin, max(0, self._held_bytes() - before_bytes))
        self.child.prepared = self.child.prepared.most(prepared)
        if prepared.held_bytes > limits.prepare_bytes:
            message = (
                f"prepare keeps {prepared.held_bytes} bytes, more than the {limits.prepare_bytes} of prepare_bytes"
            )
            raise CallFailed(Verdict.OUT_OF_MEMORY, message, worker_lost=True)

    def _held_bytes(self) -> int:
        """Return the memory of the submission's processes, without pages of the files that they have mapped."""
        pids = [self.child.worker_pid, *self._siblings()]
        values = [status_value(pid, key) for pid in pids for key in (b"RssAnon", b"RssShmem")]
        return 1024 * sum(int(value) for value in values if value)

    def trace_kernels(self, folder: Path) -> None:
        """Have PyTorch's profiler write the kernels of each call but the next one into a folder."""
        self.child.send({"type": "trace", "folder": str(folder)})
        seconds = self._limits.call_seconds
        self.answer(("device_ready", "raised"), seconds, f"it was not ready to trace kernels within {seconds:g} s")

    def begin_prepare_device(self) -> None:
        """Have the device prepared for a timed call, while the judge makes inputs that are not shown yet."""
        self.child.send({"type": "prepare_device"})

    def await_device(self, phase: Phase) -> None:
        """Wait until the device is prepared."""
        self._await(phase, "device_ready")

    def give_room(
        self,
        phase: Phase,
        inputs: Sequence[Generated],
        room: int,
        row: Row,
        rules: Rules,
        lay: Callable[[int, Sequence[int]], None] | None = None,
    ) -> tuple[int, list[int]]:
        """Return memory for inputs, and the offset of each call's; the worker has mapped it by then.

        The memory of the previous calls is reused if it is large enough, and not far too large. If not all work that a
        submission has begun can be stopped, it is new for every call and only shown with it. With `lay`, the layouts of
        the inputs are written now, and the worker builds its tensors over the memory before their values exist. `room`
        takes answers that are written out.
        """
        bases, end = [], 0
        for each in inputs:
            bases.append(end)
            end += -(-each.size // _PAGE_BYTES) * _PAGE_BYTES + _PAGE_BYTES
        shown: list[int] = []
        if not self._stops or not self._fits(end):
            self._renew_arena(end)
            shown = [*self._arena] if self._stops else []
        (arena,) = self._arena
        early = lay is not None and self._stops
        if lay is not None and early:
            lay(arena, bases)
        own = [
            [base + at if at >= 0 and not rules.fresh_output else -1 for at in each.own]
            for base, each in zip(bases, inputs, strict=True)
        ]
        own = own if row.blocks else []
        self._map(phase, row, rules, [*shown, room], bases=bases, own=own, early=early, empty=False)
        return arena, bases

    def give_empty_room(self, phase: Phase, count: int, room: int, row: Row, *, early: bool) -> None:
        """Have the worker prepare `count` calls of no kernel, all with the first inputs of its last row.

        With `early`, its tensors over them are built now.
        """
        own = [[-1] * len(row.form.blocks)] * count if row.form else []
        early = early and self._stops
        self._map(phase, row, Rules(), [room], bases=[0] * count, own=own, early=early, empty=True)

    def _map(self, phase: Phase, row: Row, rules: Rules, fds: Sequence[int], **more: Any) -> None:
        form, self._own = row.form, [at for each in more["own"] for at in each]
        frame = {
            "type": "map",
            **vars(row),
            **vars(rules),
            **more,
            "form": form.node if form else None,
            "answer_bytes": form.size if form and row.blocks else 0,
            "made": len(more["bases"]) if row.made is None else row.made,
            "value_bytes": self._limits.value_bytes,
        }
        self.child.send(frame, fds)
        self._await(phase, "mapped")

    def _renew_arena(self, size: int) -> None:
        close_all(self._arena)
        self._arena[:] = [os.memfd_create("inputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)]
        os.ftruncate(self._arena[0], size)
        fcntl.fcntl(self._arena[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)

    def _fits(self, size: int) -> bool:
        return bool(self._arena) and size <= os.fstat(self._arena[0]).st_size <= 2 * size + _SPARE_BYTES

    def _await(self, phase: Phase, expected: str) -> None:
        """Wait for the worker's answer before a call; that time is the worker's own."""
        seconds = min(self._limits.first_call_seconds, self.allowance.left_seconds)
        self.answer((expected, "raised"), seconds, f"it was not ready for a {phase.name} call within {seconds:g} s")

    def answer(self, expected: tuple[str, ...], seconds: float, late: str) -> Answer:
        """Return the worker's answer; the time until then is the worker's own."""
        start = time.monotonic()
        try:
            return worker_answer(self.child, expected, start + min(seconds, self.allowance.left_seconds), late)
        finally:
            self.allowance.spend(time.monotonic() - start)

    def run(
        self, phase: Phase, fill: Callable[[], None], count: int, row: Row, reference_seconds: float = 0.0
    ) -> tuple[Called, Done]:
        """Have `count` calls made, for whose inputs the worker has room.

        The worker is stopped while `fill` writes the inputs, so that it does not see them before the clock runs. The
        reference has taken `reference_seconds`; 0 if it was not called.

        Returns:
            The calls, and the places of their outputs by the worker's word; it is stopped until it is told to go on.

        Raises:
            OutputsOverlap: outputs lie in the same memory, so that the first ones are lost.
        """
        seconds, late = self._time_for(count, phase, reference_seconds)
        number = secrets.randbits(62)
        frame = {"type": "run", "call": number}
        self._fill(fill)
        before = self._processor_times()
        deadline = time.monotonic() + seconds
        start_ns, start_ran_ns = _now()
        try:
            self._check_still()
            self.child.send(frame, [] if self._stops else self._arena)
        finally:
            self._go_on()
        try:
            expected = ("done", "overlapped", "raised") if count > 1 and not row.copied else ("done", "raised")
            limit = self._processor_limit(phase, reference_seconds)
            answer = self._answer_of_call(expected, deadline, late, limit, before)
            still_ns, still_ran_ns = self._stop() if isinstance(answer, Done) else (start_ns, start_ran_ns)
        finally:
            self.allowance.spend((time.monotonic_ns() - start_ns) / 1e9)
            self._called = True
        wall_ns = still_ns - start_ns
        done = self._possible(answer, number, wall_ns)
        after = self._processor_times()
        called = Called(
            count,
            claimed_ns=min(max(0.0, done.elapsed_ns), wall_ns),
            wall_ns=wall_ns,
            waited_ns=after.waited_since(before, wall_ns),
            ran_ns=still_ran_ns - start_ran_ns + after.ran_since(before),
            thread_ns=after.ran_since(before),
            processor_ns=after.worked_since(before),
            by_blocks=bool(done.blocks),
        )
        self.longest_call_ns = max(self.longest_call_ns, called.thread_ns)
        return called, done

    def _answer_of_call(
        self, expected: tuple[str, ...], deadline: float, late: str, limit_seconds: float, before: ProcessorTimes
    ) -> Answer:
        """Return the answer to a call, whose processor time has a limit besides the deadline.

        A call that waits for a processor, or for anything else, has until the deadline.
        """
        left = limit_seconds
        while True:
            try:
                return worker_answer(self.child, expected, min(deadline, time.monotonic() + left), late)
            except CallFailed as error:
                if error.verdict is not Verdict.TIMEOUT or time.monotonic() >= deadline:
                    raise
            left = limit_seconds - self._processor_times().ran_since(before) / 1e9
            if left <= 0:
                message = (
                    f"{self._which} did not return within {limit_seconds:.3g} s of processor time, the limit in mode "
                    f"test at this runner: {USUAL_TIMES} times the longest call of the runs that have passed here, at "
                    f"least {USUAL_SECONDS_MIN:g} s; `submit --fresh` allows more"
                )
                raise CallFailed(Verdict.TIMEOUT, message, worker_lost=True)
            left = max(left, _POLL_SECONDS)

    def _processor_limit(self, phase: Phase, reference_seconds: float) -> float:
        """Return the limit of a call's processor time where runs that have passed tell the usual one; else infinity."""
        if not (phase.follows_reference and phase.usual_seconds and reference_seconds and self._stops):
            return math.inf
        return max(USUAL_SECONDS_MIN, USUAL_TIMES * phase.usual_seconds, REFERENCE_TIMES * reference_seconds)

    def _possible(self, answer: object, number: int, wall_ns: int) -> Done:
        """Return the worker's report of the calls with this number, which took `wall_ns` by the supervisor's clock."""
        if isinstance(answer, Overlapped):
            raise OutputsOverlap
        if not isinstance(answer, Done) or answer.call != number:
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, "it answered another call", worker_lost=True)
        if not self._stops and not 0 < answer.elapsed_ns <= wall_ns:
            message = (
                f"it claims {answer.elapsed_ns:.0f} ns for a call that took {wall_ns} ns by the supervisor's clock"
            )
            raise CallFailed(Verdict.TIMING_INCONSISTENT, message, worker_lost=True)
        return answer

    @property
    def _which(self) -> str:
        return "the call" if self._called else "the first call"

    def _time_for(self, count: int, phase: Phase, reference_seconds: float) -> tuple[float, str]:
        """Return the seconds for the next `count` calls, and the message if they do not return in time."""
        limits, left = self._limits, self.allowance.left_seconds
        own = limits.call_seconds if self._called else limits.first_call_seconds
        allowed, why = own * count, ""
        if phase.follows_reference and reference_seconds:
            short = max(limits.test_call_seconds, REFERENCE_TIMES * reference_seconds)
            if short < own:
                rule = f"{REFERENCE_TIMES} times the reference's time, at least {limits.test_call_seconds:g} s"
                allowed, why = short * count, f", the limit in mode test: {rule}; other modes allow {own:g} s"
        if left < allowed:
            return left, f"{self._which} did not return within the {phase.seconds:g} s for all {phase.name} cases"
        return allowed, f"{self._which} did not return within {allowed:.3g} s{why}"

    def _processor_times(self) -> ProcessorTimes:
        """Return the processor times of the worker's first thread, and of the rest of the submission, so far."""
        return processor_times(self.child.worker_pid, self._companions) if self._stops else ProcessorTimes()

    def outputs(self, answer: Done, count: int, room: int, row: Row) -> "list[Output]":
        """Return the outputs of calls at the places that the worker names; reading them shows whether that is true.

        Raises:
            OutputsOverlap: the outputs lie in the same memory.
        """
        if row.form is not None and row.blocks and (row.made_so or answer.blocks):
            return self._in_blocks(row.form, answer.blocks, count)
        if len(answer.outputs) != count or answer.blocks:
            raise misplaced("the number of outputs differs from the number of calls")
        return [Output(self, size, partial(_copy_written, room, base, size)) for base, size in answer.outputs]

    def _in_blocks(self, form: Form, addresses: Sequence[int], count: int) -> "list[Output]":
        """Return outputs in blocks, each of them alone in memory that is not an input of the row."""
        width = len(form.blocks)
        if len(addresses) != count * width:
            raise misplaced("the number of outputs differs from the number of calls")
        sizes = [size for _, size in form.blocks] * count
        placed = [(at, at + size, own) for at, size, own in zip(addresses, sizes, self._own, strict=True) if size]
        try:
            inputs = mapped_at(self.child.worker_pid, self._arena)
        except OSError:
            raise CallFailed(Verdict.CRASH, _GONE, worker_lost=True) from None
        new = [
            (begin, end)
            for begin, end, own in placed
            if own < 0
            or not any(at <= begin and end <= last and begin - at + offset == own for at, last, offset in inputs)
        ]
        if any_overlap([[(at, last) for at, last, _ in inputs], new]):
            raise misplaced("its output is in the memory of an input")
        if any_overlap([[(begin, end)] for begin, end, _ in placed]):
            raise misplaced("parts of its output are in the same memory") if count == 1 else OutputsOverlap
        answers = [addresses[begin : begin + width] for begin in range(0, count * width, width)]
        return [Output(self, form.size, partial(self._copy_blocks, form, each)) for each in answers]

    def _copy_blocks(self, form: Form, addresses: Sequence[int], copy: int) -> None:
        os.pwrite(copy, form.head, 0)
        for (at, size), address in zip(form.blocks, addresses, strict=True):
            self.read(address, copy, at, size)

    def _fill(self, fill: Callable[[], None]) -> None:
        """Write the inputs while no process that knows their memory runs, and leave the submission stopped."""
        if not self._stops:
            fill()
            return
        self._stop()
        try:
            for descriptor in self._arena:
                # The worker shares its flags: with O_APPEND, no write would go to its offset.
                fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)
            fill()
            self._ran_ns = {pid: processor_ns(pid) for pid in self._turns}
            if turns(self._turns) != self._turns:
                raise _woken()
        except BaseException:
            self._go_on()
            raise

    def _check_still(self) -> None:
        """Check that no process of the submission has run since its inputs were written; the clock runs by now."""
        if sum(processor_ns(pid) - ran_ns for pid, ran_ns in self._ran_ns.items()) > _LEAVING_NS:
            raise _woken()

    def read(self, address: int, copy: int, at: int, size: int) -> None:
        """Copy a part of an output from the worker's memory into a file."""
        try:
            # Through a small buffer that stays in the processor's caches: mapping the file would cost more.
            memory = bytearray(min(size, _READ_BYTES))
            for done in range(0, size, _READ_BYTES):
                count = min(size - done, _READ_BYTES)
                read_memory(self.child.worker_pid, address + done, memory, count)
                write_at(copy, at + done, memoryview(memory)[:count])
        except ProcessLookupError:
            raise CallFailed(Verdict.CRASH, _GONE, worker_lost=True) from None
        except OSError as error:
            message = f"its output is not where it claims: {error.strerror or error}"
            raise CallFailed(Verdict.PROTOCOL_VIOLATION, message, worker_lost=True) from None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the worker and its siblings within this block, in which none of them may run."""
        self._stop()
        with self.thawed_after():
            yield

    @contextmanager
    def thawed_after(self) -> Iterator[None]:
        """Continue the worker and its siblings, none of which may run in this block, at its end."""
        try:
            yield
            if turns(self._turns) != self._turns:
                message = "it kept running while its output was copied, after it had been stopped"
                time.sleep(SIGNAL_GRACE_SECONDS)
                raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True)
        finally:
            self._go_on()

    def _go_on(self) -> None:
        # Also those that are gone: an id may belong to another process before it is signalled.
        signal_all(self._signalled, signal.SIGCONT)
        self._signalled.clear()
        self.child.thaw()

    def _signal_stop(self, pids: Sequence[int]) -> None:
        self._signalled.update(pids)
        signal_all(pids, signal.SIGSTOP)

    def _stop(self) -> tuple[int, int]:
        """Stop the worker and its siblings, and return the time at which none ran any more, as `_now` does.

        A worker without siblings is not charged for the search for them.
        """
        try:
            return self._stilled(time.monotonic() + _STILL_SECONDS)
        except ChildEnded as error:
            message = f"the submission's process is gone: {self.child.end_of(error)}"
            raise CallFailed(Verdict.CRASH, message, worker_lost=True) from error
        except DeadlinePassed:
            self._go_on()
            message = f"its processes were still running {_STILL_SECONDS:g} s after they were told to stop"
            raise CallFailed(Verdict.LATE_WRITE, message, worker_lost=True) from None

    def _stilled(self, deadline: float) -> tuple[int, int]:
        self._signal_stop(self._companions)
        self.child.freeze(deadline)
        still, ran_ns = _now(), processor_ns(self.child.worker_pid)
        # Reading many threads takes milliseconds: that time counts only if one of them ran meanwhile.
        self._turns = turns([self.child.worker_pid])
        if processor_ns(self.child.worker_pid) - ran_ns > _LEAVING_NS:
            still = _now()
        # Siblings may have run until they were seen to be still, and have woken and stopped by themselves before that.
        moved = bool(self._companions)
        # Twice: one scan may miss a process that moves meanwhile.
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
                    still = _now()
                looks += 1
            self._companions = found
            if time.monotonic() >= deadline:
                raise DeadlinePassed
        return still


class Output:
    """An output of a worker, which is stopped while `fill` copies it into a file of its size."""

    def __init__(self, worker: Worker, size: int, fill: Callable[[int], None]) -> None:
        self._worker = worker
        self._size = size
        self._fill = fill

    def copy(self, bytes_max: int) -> int:
        """Copy the output into memory that the worker cannot reach."""
        if self._size > bytes_max:
            raise CallFailed(Verdict.OUTPUT_LIMIT, f"its output takes {self._size} bytes", worker_lost=True)
        copy = os.memfd_create("held", os.MFD_CLOEXEC)
        try:
            os.ftruncate(copy, self._size)
            self._fill(copy)
        except BaseException:
            os.close(copy)
            raise
        return copy

    def changes_later(self, copy: int, bytes_max: int) -> bool:
        """Return whether the copied output differs from the worker's memory a little later."""
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
            return any(
                os.pread(later, _COMPARED_BYTES, at) != os.pread(copy, _COMPARED_BYTES, at)
                for at in range(0, size, _COMPARED_BYTES)
            )
        finally:
            os.close(later)


def _copy_written(room: int, base: int, size: int, copy: int) -> None:
    """Copy an output that the worker has written into the room."""
    done = 0
    try:
        while done < size and (count := os.sendfile(copy, room, base + done, size - done)):
            done += count
    except OSError as error:
        raise misplaced(f"its output is not where it claims: {error.strerror or error}") from None
