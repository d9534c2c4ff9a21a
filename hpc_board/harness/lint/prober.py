"""The prober: derives correct and bogus answers to a task's cases from its reference's answers, for the judge to check.

It is part of a task's lint, never of a submission's evaluation. Frames: `load` -> `ready` or `failed`; `take` (with the
inputs of a case) -> `taken` or `failed`; `keep` (with a submission's answer to them) -> `kept`; `make` (with room for
an answer) -> `made`, with a message if the probe does not apply to the answer. With a `factor`, its differences from
the right answer are multiplied.
"""

import math
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from types import ModuleType
from typing import Any

from hpc_board.harness.device.device import Device
from hpc_board.harness.device.faults import message_of
from hpc_board.harness.judge.judge import failed, serve_as
from hpc_board.harness.wire import payload
from hpc_board.harness.wire.channel import Channel, Frame
from hpc_board.model.lint import INPUTS_MAX, INPUTS_ULP, SUBMISSION

_COPY_BYTES = 2**24
_SAMPLE_MAX = 4096
_BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}
_LEAST_NORMAL_FLOAT16 = 2.0**-14
_TF32_SPLIT = 2.0**42 + 1
"""Dekker's factor: it splits the 53 bits of a float64 after the 11 of TF32."""


def serve(channel: Channel) -> None:
    """Answer the supervisor until its end of the channel closes."""
    serve_as(_Prober, channel)


class _Prober:
    """A task's reference, and its answers to the inputs of one case."""

    def __init__(self, reference: ModuleType, device: Device, order: Frame, _facts: Mapping[str, Any]) -> None:
        self._reference = reference
        self._device = device
        self._order = order
        self._makers: dict[str, Callable[[], Any]] = {}
        self._made: dict[str, Any] = {}
        self._right = self._inputs = -1

    def facts(self) -> dict[str, Any]:
        return {}

    def _kernel(self, data: Any) -> Any:
        return payload.without_names(self._reference.ref_kernel(data))

    def answer(self, frame: Frame, fds: list[int]) -> Frame:
        if frame["type"] == "take":
            try:
                self._take(fds[0])
            except BaseException as error:  # noqa: BLE001 - any exception of a task ends as a message
                return failed("ref_kernel failed", error, self._device.name, self._order["other_python"])
            return {"type": "taken", "probes": list(self._makers)}
        if frame["type"] == "keep":
            kept, self._made = payload.read(fds[0], self._device.place)[0], {}
            self._makers[SUBMISSION] = lambda: kept
            return {"type": "kept"}
        try:
            payload.write(self._answer(frame["probe"], frame["factor"]), fds[0], self._order["value_bytes"])
        except BaseException as error:  # noqa: BLE001 - PyTorch cannot compute with every type of number
            return {"type": "made", "same": False, "fault": f"{type(error).__name__}: {message_of(error)}"}
        return {"type": "made", "same": payload.same(fds[0], self._right), "fault": ""}

    def _answer(self, probe: str, factor: int) -> Any:
        """Return the probe's answer, with its differences from the right one multiplied."""
        if probe not in self._made:
            self._made = {probe: self._makers[probe]()}
        made = self._made[probe]
        return made if factor == 1 else stretched(made, payload.read(self._right, self._device.place)[0], factor)

    def _take(self, inputs: int) -> None:
        """Call the reference, and note the function that makes each probe of its answer, see `PROBES`."""
        for descriptor in (self._right, self._inputs):
            if descriptor >= 0:
                os.close(descriptor)
        self._inputs, self._right = os.dup(inputs), os.memfd_create("answer", os.MFD_CLOEXEC)
        payload.write(self._kernel(self._fresh()), self._right, self._order["value_bytes"])
        right = payload.read(self._right, self._device.place)[0]
        self._made = {}
        alike = [value for value in _values_in(self._fresh()) if _form(value) == _form(right)][:INPUTS_MAX]
        self._makers = {
            "reference": lambda: right,
            "again": lambda: self._kernel(self._fresh()),
            INPUTS_ULP: lambda: self._moved(right),
            "zeros": lambda: mapped(right, lambda leaf: filled(leaf, 0.0)),
            "mean": lambda: with_mean(right),
            **{f"input_{number}": lambda value=value: value for number, value in enumerate(alike, start=1)},  # type: ignore[misc]
            "inputs_tf32": lambda: self._coarse("tf32"),
            "inputs_float16": lambda: self._coarse("float16"),
            "one_element": lambda: with_wrong_end(right),
            "nan": lambda: mapped(right, lambda leaf: filled(leaf, math.nan)),
        }

    def _coarse(self, format_: str) -> Any:
        """Return the answer to coarser inputs.

        Raises:
            ValueError: none of them changes.
        """
        coarse_ones = rounded(self._fresh(), format_)
        if self._is_same(coarse_ones, self._inputs):
            raise ValueError(f"{format_} holds every number of the inputs")
        return self._kernel(coarse_ones)

    def _moved(self, right: Any) -> Any:
        """Return the answer to inputs with each number moved by one unit in the last place.

        An answer to numbers that a kernel reads exactly is moved itself.

        Raises:
            ValueError: the answer has no rounding.
        """
        if is_selection(right, self._fresh()):
            raise ValueError("its numbers are whole or numbers of the inputs, and are not rounded")
        answer = self._kernel(of_data(self._fresh(), moved))
        if self._is_same(answer, self._right):
            answer = mapped(right, partial(moved, kinds=tuple(_BITS)))
        if self._is_same(answer, self._right):
            raise ValueError("its numbers are not rounded")
        return answer

    def _is_same(self, value: Any, other: int) -> bool:
        """Return whether a value has the bytes of another one in a file."""
        written = os.memfd_create("value", os.MFD_CLOEXEC)
        try:
            payload.write(value, written, self._order["value_bytes"])
            return payload.same(written, other)
        finally:
            os.close(written)

    def _fresh(self) -> Any:
        """Return the inputs in memory of their own, which a kernel may write."""
        copy = os.memfd_create("copy", os.MFD_CLOEXEC)
        try:
            size = os.fstat(self._inputs).st_size
            os.ftruncate(copy, size)
            done = 0
            while done < size:
                done += os.sendfile(copy, self._inputs, done, min(size - done, _COPY_BYTES))
            return payload.read(copy, self._device.place)[0]
        finally:
            os.close(copy)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _is_number(value: Any) -> bool:
    return type(value) in (bool, int, float, complex)


def _kind(leaf: Any) -> str:
    """Return the name of a number's type."""
    return str(leaf.dtype).rpartition(".")[2] if _is_array(leaf) else type(leaf).__name__


def _library(array: Any) -> Any:
    """Return the module of an array; the functions used here are called alike in PyTorch and in NumPy."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return `value` with `change` applied to each tensor, array and plain number in it."""
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: mapped(item, change) for key, item in value.items()}
    return change(value) if _is_array(value) or _is_number(value) else value


def rounded(value: Any, format_: str) -> Any:
    """Return inputs with coarse numbers."""
    return of_data(value, partial(coarse, format_=format_))


def of_data(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return inputs with their arrays and lists of numbers changed; other numbers are parameters and stay."""
    if type(value) in (list, tuple):
        inner = change if all(map(_is_number, value)) else partial(of_data, change=change)
        return type(value)(map(inner, value))
    if type(value) is dict:
        return {key: of_data(item, change) for key, item in value.items()}
    return change(value) if _is_array(value) else value


def moved(leaf: Any, kinds: tuple[str, ...] = ("float32", "float64")) -> Any:
    """Return numbers of these types moved by one unit in the last place, up or down by their own bits.

    Zeros, and numbers that are whole throughout, are exact data and stay.
    """
    kind = _kind(leaf)
    if "complex" in kind:
        return moved(leaf.real, kinds) + 1j * moved(leaf.imag, kinds)
    if kind == "float":
        return leaf if not math.isfinite(leaf) or leaf.is_integer() else math.nextafter(leaf, math.inf)
    if kind not in kinds:
        return leaf
    library = _library(leaf)
    if bool((leaf == library.round(leaf)).all()):
        return leaf
    bits = leaf.view(getattr(library, _BITS[kind]))
    near = (bits + 1 - 2 * ((bits >> 2) & 1)).view(leaf.dtype)
    return library.where(library.isfinite(near) & (leaf != 0), near, leaf)


def is_selection(answer: Any, inputs: Any) -> bool:
    """Return whether all numbers of an answer are whole, zero, or up to the sign some of the inputs': by a sample."""
    inputs_leaves: list[Any] = []
    of_data(inputs, inputs_leaves.append)
    numbers = {0, *(abs(each) for each in inputs_leaves if not _is_array(each))}
    arrays = [each for each in inputs_leaves if _is_array(each)]
    leaves: list[Any] = []
    mapped(answer, leaves.append)
    return all(
        _is_whole(leaf) or (_is_among(leaf, arrays) if _is_array(leaf) else abs(leaf) in numbers) for leaf in leaves
    )


def _is_whole(leaf: Any) -> bool:
    return _kind(leaf).startswith(("bool", "int", "uint"))


def _is_among(leaf: Any, arrays: list[Any]) -> bool:
    library = _library(leaf)
    flat = leaf.reshape(-1)
    sample = library.unique(_sizes(flat[:: max(1, math.prod(leaf.shape) // _SAMPLE_MAX)]))
    sample = sample[sample > 0]
    found = library.zeros_like(sample)
    for other in arrays:
        if math.prod(sample.shape) and other.dtype == leaf.dtype:
            sizes = _sizes(other.reshape(-1))
            at = library.searchsorted(sample, sizes).clip(0, math.prod(sample.shape) - 1)
            found[at[sample[at] == sizes]] = 1
    return bool((found == 1).all())


def _sizes(flat: Any) -> Any:
    library = _library(flat)
    return abs(flat if "complex" in _kind(flat) else library.asarray(flat, dtype=library.float64))


def stretched(value: Any, right: Any, factor: float) -> Any:
    """Return `value` with its differences from `right`, a value of the same structure, multiplied."""
    if type(value) in (list, tuple):
        return type(value)(stretched(*pair, factor) for pair in zip(value, right, strict=True))
    if type(value) is dict:
        return {key: stretched(item, right[key], factor) for key, item in value.items()}
    if not (_is_array(value) or _is_number(value)):
        return value
    if not _is_array(value):
        return value if value == right else type(value)(right + factor * (value - right))
    library = _library(value)
    wide = library.complex128 if "complex" in _kind(value) else library.float64
    got, expected = library.asarray(value, dtype=wide), library.asarray(right, dtype=wide)
    far = library.asarray(expected + factor * (got - expected), dtype=value.dtype)
    return library.where((got == expected) | ~library.isfinite(got), value, far)


def filled(leaf: Any, number: float) -> Any:
    """Return `leaf` with one number everywhere; types of whole numbers take no NaN."""
    if _kind(leaf).startswith(("bool", "int", "uint")):
        if not math.isfinite(number):
            return leaf
        number = round(number)
    return _library(leaf).full_like(leaf, number) if _is_array(leaf) else type(leaf)(number)


def with_mean(value: Any) -> Any:
    """Return `value` with the mean of its numbers everywhere."""
    mean, _ = _mean_and_size(value)
    return mapped(value, lambda leaf: filled(leaf, mean))


def with_wrong_end(value: Any) -> Any:
    """Return `value` with its last number off, by the size of the others at least unless it is a whole number."""
    _, size = _mean_and_size(value)
    leaves: list[Any] = []
    mapped(value, leaves.append)
    last = max((at for at, leaf in enumerate(leaves) if not _is_array(leaf) or math.prod(leaf.shape)), default=-1)
    position = count()
    return mapped(value, lambda leaf: _wrong_end(leaf, size) if next(position) == last else leaf)


def _wrong_end(leaf: Any, size: float) -> Any:
    if _is_array(leaf):
        index = tuple(length - 1 for length in leaf.shape)
        copy = leaf.clone() if hasattr(leaf, "clone") else leaf.copy()
        copy[index] = _wrong_end(leaf[index].item(), size)
        return copy
    if isinstance(leaf, int):
        return type(leaf)(leaf ^ 1)
    distance = max(abs(leaf), size) or 1.0
    return leaf + distance if math.isfinite(distance) else type(leaf)(0)


def _mean_and_size(value: Any) -> tuple[float, float]:
    """Return the mean of all numbers in `value`, and the root of the mean of their squares."""
    total = squares = 0.0
    numbers = 0

    def add(leaf: Any) -> None:
        nonlocal total, squares, numbers
        real = leaf.real
        if _is_array(leaf):
            real = _library(leaf).asarray(real, dtype=_library(leaf).float64)
        numbers += math.prod(real.shape) if _is_array(leaf) else 1
        total += float(real.sum()) if _is_array(leaf) else real
        squares += float((real * real).sum()) if _is_array(leaf) else real * real

    mapped(value, add)
    return total / max(1, numbers), math.sqrt(squares / max(1, numbers))


def coarse(leaf: Any, format_: str) -> Any:
    """Return numbers of a finer type rounded to "float16", or to the significant bits of "tf32".

    Of bfloat16, float16 lacks only the range: numbers that are too large for it become infinite.
    """
    kind = _kind(leaf)
    if "complex" in kind:
        return coarse(leaf.real, format_) + 1j * coarse(leaf.imag, format_)
    if kind == "bfloat16" and format_ == "float16":
        half = leaf.to(_library(leaf).float16).to(leaf.dtype)
        return _library(leaf).where(abs(leaf) < _LEAST_NORMAL_FLOAT16, leaf, half)
    if kind not in ("float", "float32", "float64"):
        return leaf
    if not _is_array(leaf):
        return _coarse_number(leaf, format_)
    library = _library(leaf)
    if format_ == "float16":
        numbers = library.asarray(leaf, dtype=library.float16)
    else:
        wide = library.asarray(leaf, dtype=library.float64)
        scaled = wide * _TF32_SPLIT
        numbers = library.where(library.isfinite(scaled), scaled - (scaled - wide), wide)
    return library.asarray(numbers, dtype=leaf.dtype)


def _coarse_number(number: float, format_: str) -> float:
    if format_ == "tf32":
        scaled = number * _TF32_SPLIT
        return scaled - (scaled - number) if math.isfinite(scaled) else number
    try:
        (half,) = struct.unpack("<e", struct.pack("<e", number))
    except OverflowError:
        return math.copysign(math.inf, number)
    return float(half)


def _form(value: Any) -> Any:
    """Return structure, types and shapes, the common properties of interchangeable values."""
    if _is_array(value):
        return type(value).__name__, str(value.dtype), tuple(value.shape)
    if type(value) in (list, tuple):
        return "sequence", tuple(map(_form, value))
    if type(value) is dict:
        return "dict", tuple((key, _form(value[key])) for key in sorted(value, key=str))
    return type(value).__name__


def _values_in(value: Any) -> Iterator[Any]:
    """Yield `value` itself and all values inside it."""
    yield value
    if type(value) in (list, tuple, dict):
        for item in value.values() if type(value) is dict else value:
            yield from _values_in(item)
