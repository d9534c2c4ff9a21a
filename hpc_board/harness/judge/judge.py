"""The judge: generates inputs, keeps them, and checks a worker's outputs. It never sees the submission.

Frames: `load` -> `ready` or `failed`; `generate` -> `generated` or `failed`; `lay` and `fill` (with memory for the
inputs of calls, whose layouts, or these with all bytes, are written there) and `empty` (the caches) -> `filled` or
`failed`; `compare` (with the inputs after the call, if they must be unchanged) and `check` (with the outputs) ->
`checked` or `failed`; `fix` (with memory for the fixed inputs of a case) -> `filled` or `failed`; `forget` drops all
inputs. Its own interpreter imports the task's reference and no file of the participant.

On a GPU whose memory several processes can share: `window` (with the places of a worker's memory) -> `windowed`, with
no time if the places of the outputs are not known yet; then `take` (with these) and `await` -> `windowed`.
`release` unmaps the memory of all workers. `share` (with a connection to a worker, which gets memory of the judge in
place of its own) -> `filled`.
"""

import cmath
import importlib
import json
import math
import os
import random
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from types import ModuleType, TracebackType
from typing import Any, Protocol, cast

from hpc_board.harness.confine import sandbox
from hpc_board.harness.device.device import CudaDevice, Device, DeviceMissing, Throttling, open_device
from hpc_board.harness.device.faults import (
    LIBRARIES,
    asks_for_gpu,
    fault,
    install_command,
    lacking,
    message_of,
    unreadable,
)
from hpc_board.harness.device.gpu_driver import NotShared, OutOfMemoryError
from hpc_board.harness.device.gpu_window import GpuWindow
from hpc_board.harness.judge.comparisons import Comparison, Comparisons
from hpc_board.harness.judge.fixed_inputs import parts_at, with_parts, without_parts
from hpc_board.harness.judge.mismatches import largest_of_tolerance, mismatch, part_name, parts_of
from hpc_board.harness.processes.memory import keep_freed_memory
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.channel import Channel, Frame
from hpc_board.harness.wire.form import Form
from hpc_board.harness.wire.payload import write_at
from hpc_board.harness.wire.replies import REST, Checked, Windowed
from hpc_board.harness.worker.compiled import form_fault, inputs_fault
from hpc_board.model.device_faults import with_words
from hpc_board.model.mismatch import Mismatch
from hpc_board.model.peaks import WORK_MAX
from hpc_board.model.result import LIBRARY_MISSING, NEEDS_GPU, Verdict
from hpc_board.model.text import printable, with_article

_MESSAGE_MAX = 4000
_SHIFTS = 64
_shifts = random.SystemRandom()
_DETAILS_MAX = 10
"""Number of wrong outputs whose details are told."""

_FIXED_KEPT = 2
"""Number of sets of fixed inputs that are kept: those of the submission's process, and of the reference's."""

_DETAILS_SECONDS = 5.0
_MARGIN_SECONDS = 1.0


_SEQUENCES = ("list", "tuple")
_NUMBERS = ("bool", "int", "float", "complex")


class Windows:
    """The window of the current call, and where its outputs go."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._window: GpuWindow | None = None
        self._outputs: list[int] = []

    def prepare(self, tensors: Sequence[Any]) -> None:
        """Prepare the inputs of the next window."""
        self._gpu().prepare(tensors)

    def _gpu(self) -> GpuWindow:
        if self._window is None:
            # Only the judge of a CUDA device is asked for windows.
            self._window = GpuWindow(cast("CudaDevice", self._device))
        return self._window

    def share(self, size: int, connection: int) -> None:
        """Send a worker, over a connection to it, a descriptor of new memory for its next call, or the fault."""
        found: Frame = {"type": "pool", "size": 0, "fault": ""}
        descriptors: list[int] = []
        try:
            descriptor, found["size"] = self._gpu().new_pool(size)
            descriptors.append(descriptor)
        except NotShared as error:
            found["fault"] = printable(str(error), _MESSAGE_MAX)
        channel = Channel(socket.socket(fileno=os.dup(connection)), takes_fds=False)
        try:
            channel.send(found, descriptors)
        finally:
            channel.close()
            for descriptor in descriptors:
                os.close(descriptor)

    def answer(self, frame: Frame, fds: list[int]) -> Frame:
        """Carry out one step: `window` opens a window, `take` takes its outputs, `await` waits for its end.

        A `window` with a descriptor for the outputs, whose places are known, does all three. The answer has no time
        while the window is open.

        Raises:
            NotShared: the worker has no such memory.
        """
        window = self._gpu()
        if frame["type"] == "window":
            handles = _of_text(frame["handles"])
            window.release(used=handles)
            if fds:
                self._know_outputs(window, frame)
            window.begin(handles, frame["inputs"], frame["signals"], frame["number"], compared=frame["compared"])
            if not fds:
                return _windowed()
            window.end()
        elif frame["type"] == "take":
            self._know_outputs(window, frame)
            window.end()
        elapsed = window.elapsed_ns(frame["seconds"])
        if elapsed is None:
            return _windowed()
        for at, content in zip(self._outputs, window.outputs(), strict=True):
            write_at(fds[0], at, content)
        return _windowed(*elapsed, responded=window.responded(), unchanged=window.unchanged())

    def _know_outputs(self, window: GpuWindow, frame: Frame) -> None:
        self._outputs = [at for at, *_ in frame["outputs"]]
        window.know_outputs(_of_text(frame["handles"]), [place for _, *place in frame["outputs"]])

    def release(self) -> None:
        """Unmap the memory of all workers."""
        if self._window is not None:
            # Twice: the first time keeps the allocations of the last call.
            self._window.release()
            self._window.release()


def _windowed(elapsed_ns: float | None = None, copied_ns: float = 0.0, **more: Any) -> Frame:
    return {"type": "windowed", **asdict(Windowed(elapsed_ns, copied_ns, **more))}


def _of_text(handles: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(handle) for handle in handles]


@dataclass(frozen=True)
class Difference:
    """A difference between the form of an output and that of the reference's answer.

    A `final` difference fails the output whatever a check says; any other is left to the task's check.
    """

    verdict: Verdict
    message: str
    final: bool


def layout_difference(expected: payload.Node, got: payload.Node) -> Difference | None:
    """Return the gravest difference between an output's form and the right one, None if they are equal."""
    found = form_differences(expected, got, "the output")
    return min(found, key=lambda each: (not each.final, each.verdict is Verdict.WRONG_DTYPE), default=None)


def form_differences(expected: payload.Node, got: payload.Node, place: str) -> Iterator[Difference]:
    """Yield each difference between a form and the right one; a list serves as a tuple.

    The task's check decides which dtype and which shape are right. Only differences that it cannot look at are final:
    another structure, and a shape by which it would compare numbers that do not exist.
    """
    kinds = expected["k"], got["k"]
    if kinds[0] in _SEQUENCES and kinds[1] in _SEQUENCES:
        yield from _differences_of_parts(expected["items"], got["items"], range(len(expected["items"])), place)
    elif kinds[0] != kinds[1]:
        message = f"{place} is {with_article(kinds[1])}, expected {with_article(kinds[0])}"
        yield Difference(Verdict.WRONG_DTYPE, message, final=not set(kinds) <= set(_NUMBERS))
    elif kinds[0] == "dict":
        yield from _differences_of_dict(expected, got, place)
    else:
        yield from _differences_of_tensor(expected, got, place)


def _differences_of_tensor(expected: payload.Node, got: payload.Node, place: str) -> Iterator[Difference]:
    if "dtype" in expected and expected["dtype"] != got["dtype"]:
        message = f"{place} has the type {got['dtype']}, expected {expected['dtype']}"
        yield Difference(Verdict.WRONG_DTYPE, message, final=False)
    if "shape" in expected and expected["shape"] != got["shape"]:
        message = f"{place} has the shape {tuple(got['shape'])}, expected {tuple(expected['shape'])}"
        final = _compares_missing_numbers(got["shape"], expected["shape"])
        yield Difference(Verdict.WRONG_SHAPE, message, final=final)


def _compares_missing_numbers(got: Sequence[int], expected: Sequence[int]) -> bool:
    """Return whether an output has fewer numbers than the right one, or the two broadcast to more than either has.

    A check that compares by broadcasting would let an empty output pass, or one number in place of many.
    """
    counts = math.prod(got), math.prod(expected)
    if counts[0] < counts[1]:
        return True
    longest = max(len(got), len(expected))
    pairs = list(zip(*([1] * (longest - len(each)) + list(each) for each in (got, expected)), strict=True))
    fits = all(one == other or 1 in (one, other) for one, other in pairs)
    return fits and math.prod(map(max, pairs)) > max(counts)


def _differences_of_dict(expected: payload.Node, got: payload.Node, place: str) -> Iterator[Difference]:
    if set(expected["keys"]) != set(got["keys"]):
        message = f"{place} has the keys {got['keys']!r}, expected {expected['keys']!r}"
        yield Difference(Verdict.WRONG_SHAPE, message, final=True)
        return
    by_key = dict(zip(got["keys"], got["items"], strict=True))
    parts = [by_key[key] for key in expected["keys"]]
    yield from _differences_of_parts(expected["items"], parts, map(repr, expected["keys"]), place)


def _differences_of_parts(
    expected: Sequence[payload.Node], got: Sequence[payload.Node], names: Iterable[object], place: str
) -> Iterator[Difference]:
    if len(expected) != len(got):
        message = f"{place} has {len(got)} parts, expected {len(expected)}"
        yield Difference(Verdict.WRONG_SHAPE, message, final=True)
        return
    for name, wanted, found in zip(names, expected, got, strict=True):
        yield from form_differences(wanted, found, f"{place}[{name}]")


class OfTask(Protocol):
    """A process that has imported a task's reference, and answers the supervisor."""

    def __init__(self, reference: ModuleType, device: Device, order: Frame, facts: Mapping[str, Any]) -> None:
        """Take the reference, the supervisor's `load` frame, and the facts about the device."""

    def facts(self) -> dict[str, Any]:
        """Return further facts for the supervisor."""

    def answer(self, frame: Frame, fds: list[int]) -> Frame | None:
        """Return the answer to a frame, None if there is none."""


def serve(channel: Channel) -> None:
    """Answer the supervisor as the judge until its end of the channel closes."""
    keep_freed_memory()
    serve_as(_Judge, channel)


def serve_as(role: type[OfTask], channel: Channel) -> None:
    """Import the task's reference, and answer the supervisor until its end of the channel closes."""
    frame, _ = channel.receive()
    # Before any import of the task: its code is untrusted as well.
    level = sandbox.confine_task(frame["readable"], frame["scratch"], frame["value_bytes"])
    try:
        device = open_device(frame["device"])
        sys.path.insert(0, frame["folder"])
        facts = _facts(device)
        served = role(importlib.import_module("reference"), device, frame, facts)
    except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
        channel.send(failed("reference.py cannot be imported", error, frame["device"], frame["other_python"]))
        return
    channel.send({"type": "ready", "facts": facts | served.facts() | {"judge_isolation": level}})
    for frame, fds in channel.requests():
        answer = served.answer(frame, fds)
        if answer is not None:
            channel.send(answer)


@dataclass(frozen=True)
class _Right:
    """The layout of a right answer to inputs of a layout, as text.

    `form` is None if it has parts that are no tensors or arrays. `own` holds for each block of the form the number of
    the leaf of the inputs that it is, None if it is new.
    """

    inputs: str
    layout: payload.Node
    form: payload.Node | None
    own: list[int | None]


class _Judge:
    """A task's functions, and the inputs of the calls that are not checked yet."""

    def __init__(self, reference: ModuleType, device: Device, order: Frame, facts: Mapping[str, Any]) -> None:
        self._reference = reference
        self._other_python = order["other_python"]
        self._device = device
        self._throttling = Throttling(str(facts["gpu_uuid"])) if "gpu_uuid" in facts else None
        self._value_bytes = order["value_bytes"]
        self._compiled = order.get("compiled", False)
        self._held: dict[int, Any] = {}
        self._laid: dict[int, payload.Laid] = {}
        self._expected: dict[str, _Right] = {}
        self._varying: set[str] = set()
        self._twice: set[str] = set()
        self._work: dict[str, dict[str, float] | None] = {}
        self._layouts: dict[str, tuple[int, str]] = {}
        self._windows = Windows(device)
        self._comparisons = Comparisons(reference, order["folder"])
        self._public: set[int] = set()
        self._rest: set[int] = set()
        self._prepare: list[str | int] = order.get("prepare", [])
        self._parts: dict[str, list[Any]] = {}
        self._reference_seconds = 0.0
        self._details_left = _DETAILS_MAX

    def facts(self) -> dict[str, Any]:
        """Return whether the task has a reference to call, and why no throttling can be seen."""
        found: dict[str, Any] = {"baseline": callable(getattr(self._reference, "ref_kernel", None))}
        if self._throttling is not None and self._throttling.fault:
            found["throttling"] = f"unknown: {self._throttling.fault}"
        return found

    def _forget(self) -> None:
        """Drop the inputs of calls that will never be checked."""
        self._held.clear()
        self._laid.clear()
        self._public.clear()
        self._rest.clear()

    def answer(self, frame: Frame, fds: list[int]) -> Frame | None:
        if frame["type"] == "forget":
            self._forget()
            return None
        if frame["type"] == "release":
            self._release()
            return None
        if frame["type"] == "generate":
            return self._generate(frame)
        if frame["type"] == "fix":
            return self._fix(frame, fds[0])
        if frame["type"] == "empty":
            self._device.empty_caches()
            return {"type": "filled"}
        if frame["type"] in ("lay", "fill"):
            return self._fill(frame, fds[0])
        if frame["type"] == "share":
            return self._share(frame, fds)
        if frame["type"] in ("window", "take", "await"):
            return self._window(frame, fds)
        if frame["type"] == "compare":
            return self._compare(frame, fds[0])
        # Right after the call, and before the check's own work.
        throttled = self._throttling is not None and self._throttling.is_active()
        return {**self._check(frame, fds), "throttled": throttled}

    def _generate(self, frame: Frame) -> Frame:
        step = "the task cannot generate the inputs: generate_input fails"
        try:
            with _filled_memory(wanted=frame.get("filled", False)):
                arguments, data = self._input(frame["case"], frame["seed"])
            shown, rest = data, frame["group"].endswith(REST)
            if frame["fixed"] is not None:
                step = "the task cannot generate the fixed inputs"
                parts = self._fixed_parts(frame["case"], frame["fixed"])
                data = with_parts(data, self._prepare, parts)
                shown = without_parts(data, self._prepare) if rest else data
            step = "the task's inputs cannot be handed over"
            shift = _shifts.randrange(_SHIFTS) if self._device.name == "cpu" else 0
            laid = payload.laid_out(shown, self._value_bytes, shift=shift)
            step = "the task's reference fails on the task's own inputs: ref_kernel fails"
            self._expect(frame["group"], json.dumps(laid.layout), data)
            step = "the task does not support compiled submissions"
            if self._compiled:
                self._check_compiled(frame["group"], laid.layout)
            form, own = self._form(frame["group"], laid)
            step = "the task's minimal_work fails"
            work = self._work_of(frame["group"], arguments)
        except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
            return self._failed(step, error)
        self._held[frame["call"]] = data
        if rest:
            self._rest.add(frame["call"])
        self._laid[frame["call"]] = laid
        if frame["public"]:
            self._public.add(frame["call"])
        steady = self._is_steady(frame["group"], frame["seed"], json.dumps(laid.layout))
        return {
            "type": "generated",
            "size": laid.size,
            "work": work,
            "form": form,
            "own": own,
            "steady": steady,
            "in_tensors": laid.in_tensors,
            "reference_seconds": self._reference_seconds,
        }

    def _input(self, case: Mapping[str, Any], seed: int) -> tuple[dict[str, Any], Any]:
        """Return the arguments of a call of generate_input, and its answer."""
        _seed_everything(seed)
        arguments = dict(case)
        if "seed" in arguments:
            arguments["seed"] = seed
        return arguments, self._reference.generate_input(**arguments)

    def _fixed_parts(self, case: Mapping[str, Any], seed: int) -> list[Any]:
        """Return the fixed inputs of a case and a seed; the last few are kept."""
        key = json.dumps([case, seed])
        if key not in self._parts:
            parts = parts_at(self._input(case, seed)[1], self._prepare)
            self._parts = {**dict(list(self._parts.items())[1 - _FIXED_KEPT :]), key: parts}
        return self._parts[key]

    def _fix(self, frame: Frame, descriptor: int) -> Frame:
        """Write the fixed inputs of a case for a submission that prepares them."""
        try:
            layout = payload.write(self._fixed_parts(frame["case"], frame["seed"]), descriptor, self._value_bytes)
        except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
            return self._failed("the task cannot generate the fixed inputs", error)
        fault = inputs_fault(layout, "hpc_board.prepare") if self._compiled else ""
        if fault:
            return self._failed("the task does not support compiled submissions", ValueError(fault))
        return {"type": "filled"}

    def _is_steady(self, group: str, seed: int, layout: str) -> bool:
        """Return whether another seed has given inputs of this layout, and none has given inputs of another layout."""
        first_seed, first_layout = self._layouts.setdefault(group, (seed, layout))
        if layout != first_layout:
            self._layouts[group] = seed, ""
            return False
        return seed != first_seed

    def _fill(self, frame: Frame, descriptor: int) -> Frame:
        """Write the inputs of calls, or with `lay` only their layouts, each at its base.

        With `cold`, then evict them from the caches, as far as these are shared.
        """
        try:
            for number, base in zip(frame["calls"], frame["bases"], strict=True):
                laid = self._laid[number]
                if frame["type"] == "lay":
                    laid.write_head(descriptor, base)
                else:
                    laid.write(descriptor, base)
        except BaseException as error:  # noqa: BLE001 - a task's values may fail only when they are read
            return self._failed("the inputs cannot be written", error)
        if frame["type"] == "fill":
            for number in frame["calls"]:
                del self._laid[number]
            if frame["cold"]:
                self._device.empty_caches()
        return {"type": "filled"}

    def _share(self, frame: Frame, fds: list[int]) -> Frame:
        try:
            self._windows.share(frame["size"], fds[0])
        except OutOfMemoryError as error:
            return self._failed("the memory of a call cannot be allocated", error)
        return {"type": "filled"}

    def _window(self, frame: Frame, fds: list[int]) -> Frame:
        try:
            if frame["type"] == "window":
                self._windows.prepare(self._laid.pop(frame["call"]).tensors())
        except BaseException as error:  # noqa: BLE001 - a task's tensors may be of any type
            return self._failed("the inputs cannot be written", error)
        try:
            return self._windows.answer(frame, fds)
        except NotShared as error:
            return _windowed(fault=printable(str(error), _MESSAGE_MAX))
        except BaseException as error:  # noqa: BLE001 - a GPU may fail at any step
            failed = self._failed("the call cannot be timed", error)
            # These steps use memory of the worker, and no code of the task.
            if failed["verdict"] is not Verdict.TASK_ERROR:
                return failed
            return _windowed(fault=printable(message_of(error), _MESSAGE_MAX))

    def _release(self) -> None:
        """Unmap the memory of workers; a GPU that fails at it fails at the next call too, which says so."""
        with suppress(Exception):
            self._windows.release()

    def _work_of(self, group: str, arguments: dict[str, Any]) -> dict[str, float] | None:
        if group not in self._work:
            minimal_work = getattr(self._reference, "minimal_work", None)
            found = None
            if minimal_work is not None:
                memory_bytes, operations = _amounts(minimal_work(**arguments))
                found = {"bytes": memory_bytes, "operations": operations}
            self._work[group] = found
        return self._work[group]

    def _check_compiled(self, group: str, inputs: payload.Node) -> None:
        """Check that the reference's answers have one form, in memory of which a compiled submission writes its own.

        Raises:
            ValueError: it has none.
        """
        if group not in self._expected:
            raise ValueError(
                "reference.py has no ref_kernel, from which a compiled submission's outputs get their form"
            )
        form = self._expected[group].layout
        fault = form_fault(inputs, form)
        if not fault and self._expected[group].form is None:
            fault = "the reference's answer has too many parts for compiled submissions"
        if not fault and group in self._varying:
            fault = "the form of ref_kernel's answer depends on the seed, and outputs are allocated before a call"
        if fault:
            raise ValueError(fault)

    def _form(self, group: str, laid: payload.Laid) -> tuple[payload.Node | None, list[int]]:
        """Return the form of a right answer, and for each of its blocks the input that it may be, or -1.

        On a CPU that is the input's offset in the payload, on a GPU its number among the tensors that are not empty.

        There is none if it depends on the values of the inputs.
        """
        right = self._expected.get(group)
        if right is None or right.form is None or group in self._varying:
            return None, []
        places = laid.offsets() if self._device.name == "cpu" else laid.ranks()
        return right.form, [-1 if leaf is None else places[leaf] for leaf in right.own]

    def _expect(self, group: str, inputs: str, data: Any) -> None:
        """Record the form of a right answer to inputs of another form than the last, and to the first two of a form.

        The shape of an answer may depend on the values of the inputs: the two answers show it.
        """
        if not hasattr(self._reference, "ref_kernel"):
            return
        last = self._expected.get(group)
        if last is not None and last.inputs == inputs and group in self._twice and group not in self._varying:
            return
        right = self._expected[group] = self._right(group, inputs, data)
        if last is None:
            return
        if last.inputs == inputs:
            self._twice.add(group)
        if (last.inputs == inputs or self._compiled) and layout_difference(last.layout, right.layout) is not None:
            self._varying.add(group)

    def _right(self, group: str, inputs: str, data: Any) -> "_Right":
        """Return the form of a right answer to inputs of the layout `inputs`."""
        begin = time.monotonic()
        try:
            answer, copy = self._reference_answer(data)
            copy = without_parts(copy, self._prepare) if group.endswith(REST) else copy
            laid = payload.laid_out(answer, self._value_bytes)
            try:
                form = Form(laid.layout)
            except payload.PayloadError:
                return _Right(inputs, laid.layout, None, [])
            spans = {span: leaf for leaf, span in enumerate(payload.laid_out(copy, self._value_bytes).spans()) if span}
            is_permuted = ["order" in leaf for leaf, _ in payload.leaves_of(laid.layout)]
            own = [None if other else spans.get(span) for other, span in zip(is_permuted, laid.spans(), strict=True)]
            return _Right(inputs, laid.layout, form.node, own)
        finally:
            self._reference_seconds = max(self._reference_seconds, time.monotonic() - begin)

    def _reference_answer(self, data: Any) -> tuple[Any, Any]:
        """Return the reference's answer to a copy of the inputs, and the copy: it may write into them."""
        inputs = os.memfd_create("inputs", os.MFD_CLOEXEC)
        try:
            payload.write(data, inputs, self._value_bytes)
            copy, _ = payload.read(inputs, self._device.place)
            return self._reference.ref_kernel(copy), copy
        finally:
            os.close(inputs)

    def _unchanged(self, data: Any, inputs: int, base: int) -> bool:
        scratch = os.memfd_create("pristine", os.MFD_CLOEXEC)
        try:
            payload.write(data, scratch, self._value_bytes)
            return payload.same(scratch, inputs, base)
        except payload.PayloadError:
            return False
        finally:
            os.close(scratch)

    def _compare(self, frame: Frame, inputs: int) -> Frame:
        data = self._held[frame["call"]]
        shown = without_parts(data, self._prepare) if frame["call"] in self._rest else data
        if self._unchanged(shown, inputs, frame["base"]):
            return _checked(Verdict.PASS, "")
        return _checked(Verdict.MUTATED_INPUT, "the call modified its inputs, which the task forbids")

    def _check(self, frame: Frame, fds: list[int]) -> Frame:
        begin, data, public = time.monotonic(), self._held.pop(frame["call"]), frame["call"] in self._public
        self._public.discard(frame["call"])
        self._rest.discard(frame["call"])
        try:
            output, layout = payload.read(fds[0], self._device.place)
        except payload.NoRoom as error:
            return _checked(Verdict.OUT_OF_MEMORY, f"no memory was left to check the output: {error}")
        except payload.PayloadError as error:
            return _checked(Verdict.PROTOCOL_VIOLATION, str(error))
        except RuntimeError as error:
            return self._failed("the output cannot be moved to the judge's device", error)
        difference: Difference | None = None
        try:
            difference = self._difference(frame["group"], data, layout)
            if difference is not None and difference.final:
                return _checked(difference.verdict, difference.message)
            with self._comparisons.of(parts_of(output), passed=public):
                good, message = _opinion(self._reference.check_implementation(data, output))
        except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
            failed = self._failed("the task cannot check the output", error)
            if difference is None or failed["verdict"] not in (Verdict.TASK_ERROR, Verdict.OUT_OF_MEMORY):
                return failed
            good, message = False, f"the check fails on it: {type(error).__name__}: {message_of(error)}"
        if good:
            deadline = min(begin + frame["seconds"] / 2, time.monotonic() + _MARGIN_SECONDS)
            passed = [] if self._comparisons.failed else self._comparisons.passed
            of_tolerance = largest_of_tolerance(passed, deadline=deadline)
            self._comparisons.drop()
            return _checked(Verdict.PASS, message, of_tolerance=of_tolerance)
        if difference is not None:
            return _checked(difference.verdict, f"{difference.message}; {message}")
        # The answer has to arrive in time: details are worth less than the verdict.
        deadline = min(begin + frame["seconds"] / 2, time.monotonic() + _DETAILS_SECONDS)
        found = self._details(data, output, public=public, deadline=deadline)
        return _checked(Verdict.WRONG_VALUE if _finite(output) else Verdict.WRONG_NONFINITE, message, found)

    def _details(self, data: Any, output: Any, *, public: bool, deadline: float) -> "Mismatch | None":
        """Return the details of a wrong output by the comparison of the task's check, or else by the reference."""
        failed = self._comparisons.failed
        self._comparisons.drop()
        if not self._details_left:
            return None
        if failed is None:
            if not public or self._reference_seconds > (deadline - time.monotonic()) / 2:
                return None
            try:
                failed = Comparison(output, self._reference_answer(data)[0], known=False)
            except Exception:  # noqa: BLE001 - a task without a ref_kernel, or one that fails, has no details
                return None
        found = mismatch(failed, part_name(output, failed.got), shown=public, deadline=deadline)
        self._details_left -= found is not None
        return found

    def _failed(self, step: str, error: BaseException) -> Frame:
        return failed(step, error, self._device.name, self._other_python)

    def _difference(self, group: str, data: Any, layout: payload.Node) -> Difference | None:
        """Return the difference between an output's form and the right one.

        A shape that differs is compared with a new answer of the reference, since it may depend on the values.
        """
        if group not in self._expected:
            return None
        expected = self._expected[group]
        difference = layout_difference(expected.layout, layout)
        if difference is None or (difference.verdict is Verdict.WRONG_DTYPE and not difference.final):
            return difference
        right = self._expected[group] = self._right(group, expected.inputs, data)
        if layout_difference(expected.layout, right.layout) is not None:
            self._varying.add(group)
        return layout_difference(right.layout, layout)


def _amounts(found: Any) -> list[float]:
    try:
        amounts = [float(each) for each in found] if isinstance(found, (list, tuple)) else []
    except (ArithmeticError, TypeError, ValueError):
        amounts = []
    if len(amounts) != 2 or not all(0 <= each <= WORK_MAX for each in amounts):
        raise ValueError(
            f"it returned {repr(found)[:200]}, not (bytes, operations): two numbers, each from 0 to {WORK_MAX:g}"
        )
    return amounts


def _opinion(answer: Any) -> tuple[bool, str]:
    """Return a check's result from any of the three forms of the contract: bool, text ("" is right), (bool, text)."""
    if isinstance(answer, tuple) and len(answer) == 2:
        good, message = answer
        return bool(good), printable(str(message), _MESSAGE_MAX)
    if isinstance(answer, str):
        return not answer, printable(answer, _MESSAGE_MAX)
    if isinstance(answer, (bool, int)) or type(answer).__name__ in ("bool_", "bool"):
        return bool(answer), "" if answer else "the output is wrong"
    kind = with_article(type(answer).__name__)
    raise TypeError(f"check_implementation returned {kind}, not a bool, a text, or (bool, text)")


def _finite(value: Any) -> bool:
    if isinstance(value, (float, complex)):
        return cmath.isfinite(value)
    if isinstance(value, (list, tuple)):
        return all(map(_finite, value))
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _finite_tensor(torch, value)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value.dtype.kind not in "fc" or bool(numpy.isfinite(value).all())
    return True


def _finite_tensor(torch: Any, value: Any) -> bool:
    """Return whether all numbers of a tensor are finite; True for a dtype with which PyTorch cannot compute."""
    try:
        comparable = value.float() if value.is_floating_point() and value.element_size() < 2 else value
        return bool(torch.isfinite(comparable).all())
    except RuntimeError:
        return True


def _seed_everything(seed: int) -> None:
    """Seed the global generators that a task may use, each with as many bits of `seed` as it takes."""
    random.seed(seed)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None:
        torch.manual_seed(seed % 2**64)
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


@contextmanager
def _filled_memory(*, wanted: bool) -> Iterator[None]:
    """Have PyTorch fill uninitialized tensors with NaN, or the largest integer, so that they are equal in each call."""
    torch = sys.modules.get("torch") if wanted else None
    if torch is not None:
        # torch.use_deterministic_algorithms does the same, and loads the compiler of PyTorch first.
        torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        if torch is not None:
            torch.set_deterministic_debug_mode("default")


def _facts(device: Device) -> "dict[str, Any]":
    facts: dict[str, Any] = {"python": sys.version.split()[0]}
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = str(torch.__version__)
        facts["threads"] = int(torch.get_num_threads())
        if device.name == "cuda":
            facts["gpu_name"] = str(torch.cuda.get_device_name(0))
            facts["runtime"] = str(torch.version.cuda or torch.version.hip)
            uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
            if torch.version.cuda and uuid is not None:
                facts["gpu_uuid"] = f"GPU-{uuid}"
    return facts


def _checked(
    verdict: Verdict, message: str, found: "Mismatch | None" = None, *, of_tolerance: float | None = None
) -> Frame:
    checked = Checked(verdict, printable(message, _MESSAGE_MAX), found, of_tolerance=of_tolerance)
    return {"type": "checked", **asdict(checked)}


_BEFORE_TASK = ("hpc_board", "importlib")


def _from_task_on(error: BaseException) -> TracebackType | None:
    """Return the traceback from the first frame of the task's code on; None if it has none."""
    step = error.__traceback__
    while step is not None and _module_of(step).partition(".")[0] in _BEFORE_TASK:
        step = step.tb_next
    return step


def _module_of(step: TracebackType) -> str:
    name = step.tb_frame.f_globals.get("__name__")
    return name if type(name) is str else ""


def failed(step: str, error: BaseException, device: str, other_python: str = "") -> Frame:
    """Return the frame that blames the task; or this Python, a GPU or its memory, if they caused the error."""
    module = lacking(error)
    if module:
        message = (
            f"the Python {sys.executable} has no {LIBRARIES[module].title}, {LIBRARY_MISSING} "
            f"(`{install_command(module)}`), or name a Python that has it {other_python}"
        )
        return {"type": "failed", "verdict": Verdict.INFRA_ERROR, "message": printable(message, _MESSAGE_MAX)}
    file = unreadable(error)
    if file:
        message = (
            f"the judge must not read {file}, a file of the Python {sys.executable}. The judge reads only the "
            "installation's own directories, not symlink targets in a home directory: install packages as copies (`uv` "
            f"with `--link-mode copy`), or name another Python {other_python}"
        )
        return {"type": "failed", "verdict": Verdict.INFRA_ERROR, "message": printable(message, _MESSAGE_MAX)}
    if isinstance(error, DeviceMissing):
        return {"type": "failed", "verdict": Verdict.DEVICE_ERROR, "message": with_words(str(error))}
    if device == "cpu" and asks_for_gpu(error):
        message = f"{NEEDS_GPU}: {step}: {message_of(error).partition('. ')[0].partition(chr(10))[0]}"
        return {"type": "failed", "verdict": Verdict.INFRA_ERROR, "message": printable(message, _MESSAGE_MAX)}
    frames = _from_task_on(error)
    text = "".join(traceback.format_exception(type(error), error, frames)) if frames is not None else ""
    if fault(error) is Verdict.OUT_OF_MEMORY:
        step += ", out of memory"
    message = f"{step}: {type(error).__name__}: {message_of(error)}\n{text[-_MESSAGE_MAX:]}".rstrip()
    verdict = Verdict.TASK_ERROR
    if device != "cpu":
        if type(error).__name__ == "OutOfMemoryError":
            # The submission shares the GPU's memory, and may have taken all of it.
            verdict = Verdict.OUT_OF_MEMORY
        elif fault(error) is Verdict.DEVICE_ERROR:
            verdict, message = Verdict.DEVICE_ERROR, with_words(message)
    return {"type": "failed", "verdict": verdict, "message": printable(message, 2 * _MESSAGE_MAX)}
