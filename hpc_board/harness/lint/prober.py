"""The prober: derives right and cheap answers to a task's cases from its reference's answers, for the judge to check.

It is part of a task's lint, never of a submission's evaluation. Frames: `load` -> `ready` or `failed`; `take` (with the
inputs of a case and those of another seed) -> `taken` or `failed`; `make` (with room for an answer) -> `made`, or
`unmade` if the probe does not apply to the answer.
"""

import importlib
import math
import os
import random
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hpc_board.harness.confine import sandbox
from hpc_board.harness.device.device import Device, DeviceMissing, open_device
from hpc_board.harness.device.faults import message_of
from hpc_board.harness.lint.leaves import Part, form, mapped, parts, values_in
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.channel import Channel, Frame
from hpc_board.model.lint import FORMATS, INPUTS_MAX
from hpc_board.model.result import Verdict
from hpc_board.model.text import printable

_MESSAGE_MAX = 4000
_POSITION_SEED = 2
_COPY_BYTES = 2**24


class NotApplicable(Exception):
    """The probe does not apply to this answer."""


def serve(channel: Channel) -> None:
    """Answer the supervisor until its end of the channel closes."""
    frame, _ = channel.receive()
    sandbox.confine_task(frame["readable"], frame["scratch"], frame["value_bytes"])
    try:
        device = open_device(frame["device"])
        sys.path.insert(0, frame["folder"])
        prober = _Prober(importlib.import_module("reference"), device, frame["value_bytes"])
    except DeviceMissing as error:
        channel.send({"type": "failed", "verdict": Verdict.DEVICE_ERROR, "message": str(error)})
        return
    except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
        channel.send(_failed("reference.py cannot be imported", error))
        return
    channel.send({"type": "ready", "facts": {}})
    for frame, fds in channel.requests():
        channel.send(prober.answer(frame, fds))


class _Prober:
    """A task's reference, and its answers to the inputs of one case."""

    def __init__(self, reference: ModuleType, device: Device, value_bytes: int) -> None:
        self._kernel = reference.ref_kernel
        self._device = device
        self._value_bytes = value_bytes
        self._makers: dict[str, Callable[[], Any]] = {}
        self._noisy: Callable[[float], Any] = lambda _error: None
        self._right = self._inputs = -1

    def answer(self, frame: Frame, fds: list[int]) -> Frame:
        if frame["type"] == "take":
            try:
                return self._take(*fds)
            except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
                return _failed("ref_kernel cannot answer", error)
        try:
            return self._make(frame, *fds)
        except BaseException as error:  # noqa: BLE001 - PyTorch cannot compute with every type of number
            return {
                "type": "unmade",
                "message": printable(f"{type(error).__name__}: {message_of(error)}", _MESSAGE_MAX),
            }

    def _take(self, inputs: int, other_inputs: int) -> Frame:
        for descriptor in (self._right, self._inputs):
            if descriptor >= 0:
                os.close(descriptor)
        self._right = self._inputs = -1
        self._inputs = _copy(inputs)
        data = self._fresh(inputs)
        answer = self._kernel(data)
        aliases = payload.share_memory(data, answer)
        self._right = self._written(answer)
        right = self._value(self._right)
        again, other = (self._settled(self._kernel(self._fresh(each))) for each in (inputs, other_inputs))
        self._noisy = lambda error: mapped(right, lambda part: part.noisy(error))
        self._makers = self._probes(right, again, other)
        found = [part for part in parts(right) if part.count]
        counted = [part for part in found if part.count > 1]
        roundoffs = [part.roundoff for part in found if part.roundoff is not None]
        return {
            "type": "taken",
            "writes": not self._same(data, inputs),
            "aliases": aliases,
            "repeats": self._same(again, self._right),
            "varies": not found or not self._same(other, self._right),
            "constant": bool(counted) and all(part.constant() for part in counted),
            "probes": list(self._makers),
            "roundoff": max(roundoffs, default=None),
        }

    def _make(self, frame: Frame, room: int) -> Frame:
        name = frame["probe"]
        value = self._noisy(frame["error"]) if name == "noisy" else self._makers[name]()
        payload.write(value, room, self._value_bytes)
        return {"type": "made", "same": payload.same(room, self._right)}

    def _probes(self, right: Any, again: Any, other: Any) -> dict[str, Callable[[], Any]]:
        """Return the function that makes each probe of an answer, see `PROBES`."""

        def each(change: Callable[[Part], Any]) -> Callable[[], Any]:
            return lambda: mapped(right, change)

        makers: dict[str, Callable[[], Any]] = {
            "reference": _always(right),
            "again": _always(again),
            "zeros": each(lambda part: part.filled(0)),
            "ones": each(lambda part: part.filled(1)),
            "mean": each(lambda part: part.mean()),
        }
        wanted = form(right)
        alike = [value for value in values_in(self._fresh(self._inputs)) if form(value) == wanted][:INPUTS_MAX]
        makers.update({f"input_{number}": _always(value) for number, value in enumerate(alike, start=1)})
        if form(other) == wanted:
            makers["other_seed"] = _always(other)
        makers.update({f"answer_{name}": each(_rounding(name)) for name in FORMATS})
        makers.update({f"inputs_{name}": self._from_rounded(name) for name in FORMATS})
        makers.update(
            one_element=lambda: _with_one(right, lambda part, at: part.changed(at), last=False),
            last_element=lambda: _with_one(right, lambda part, at: part.changed(at), last=True),
            one_nan=lambda: _with_one(right, lambda part, at: part.replaced(at, math.nan), last=False),
            nan=each(lambda part: part.filled(math.nan)),
            infinity=each(lambda part: part.filled(math.inf)),
            dtype=each(lambda part: part.retyped()),
            shape=each(lambda part: part.reshaped()),
        )
        return makers

    def _from_rounded(self, format_: str) -> Callable[[], Any]:
        """Return a function for the reference's answer to rounded inputs; plain numbers are parameters and stay."""
        rounded = _rounding(format_)
        return lambda: self._kernel(
            mapped(
                self._fresh(self._inputs),
                lambda part: part.value if isinstance(part.value, (int, float, complex)) else rounded(part),
            )
        )

    def _value(self, descriptor: int) -> Any:
        return payload.read(descriptor, self._device.place)[0]

    def _fresh(self, descriptor: int) -> Any:
        """Return a value in memory of its own, which a kernel may write."""
        copy = _copy(descriptor)
        try:
            return self._value(copy)
        finally:
            os.close(copy)

    def _written(self, value: Any) -> int:
        room = os.memfd_create("answer", os.MFD_CLOEXEC)
        try:
            payload.write(value, room, self._value_bytes)
        except BaseException:
            os.close(room)
            raise
        return room

    def _settled(self, value: Any) -> Any:
        """Return an answer as the judge sees it, in memory of its own."""
        room = self._written(value)
        try:
            return self._value(room)
        finally:
            os.close(room)

    def _same(self, value: Any, descriptor: int) -> bool:
        room = self._written(value)
        try:
            return payload.same(room, descriptor)
        finally:
            os.close(room)


def _copy(descriptor: int) -> int:
    """Return a copy of the bytes in memory of their own."""
    copy = os.memfd_create("copy", os.MFD_CLOEXEC)
    size = os.fstat(descriptor).st_size
    os.ftruncate(copy, size)
    done = 0
    while done < size:
        done += os.sendfile(copy, descriptor, done, min(size - done, _COPY_BYTES))
    return copy


def _rounding(format_: str) -> Callable[[Part], Any]:
    return lambda part: part.rounded(format_)


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


def _with_one(value: Any, change: Callable[[Part, int], Any], *, last: bool) -> Any:
    """Return `value` with one number changed: one anywhere, or the last one."""
    found = [part for part in parts(value) if part.count]
    if not found:
        raise NotApplicable("the answer holds no numbers")
    somewhere = random.Random(_POSITION_SEED)  # noqa: S311 - the same each time
    chosen = len(found) - 1 if last else somewhere.randrange(len(found))
    count = found[chosen].count
    position = count - 1 if last else somewhere.randrange(count)
    seen = -1

    def changed(part: Part) -> Any:
        nonlocal seen
        seen += bool(part.count)
        return change(part, position) if part.count and seen == chosen else part.value

    return mapped(value, changed)


def _failed(step: str, error: BaseException) -> Frame:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    message = f"{step}: {type(error).__name__}: {message_of(error)}\n{text[-_MESSAGE_MAX:]}"
    return {"type": "failed", "verdict": Verdict.TASK_ERROR, "message": printable(message, 2 * _MESSAGE_MAX)}
