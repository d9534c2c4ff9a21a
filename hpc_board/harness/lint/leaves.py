"""The numbers in a value of any container: tensors, arrays, and lists of plain numbers.

A value consists of parts, each of which can be replaced by another one of the same form.
"""

import cmath
import math
import random
import struct
import sys
from collections.abc import Callable
from typing import Any, Protocol

_ROUNDOFF = {
    "float64": 2.0**-53,
    "complex128": 2.0**-53,
    "float32": 2.0**-24,
    "complex64": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
}
_DROPPED_BITS = {"tf32": 13, "bfloat16": 16}
_SIGNS_SEED = 1


class Part(Protocol):
    """Numbers of one type; every method returns a value of the same kind with other numbers in it."""

    value: Any
    """The whole part."""
    count: int
    roundoff: float | None
    """Relative error of rounding to the part's type; None without floating point."""

    def filled(self, number: Any) -> Any:
        """Return one number everywhere; NaN and infinity only if the type has them."""

    def mean(self) -> Any:
        """Return the mean of all numbers, everywhere."""

    def rounded(self, format_: str) -> Any:
        """Return each number rounded to a coarser format; numbers of no finer type stay."""

    def noisy(self, error: float) -> Any:
        """Return each number increased or decreased by the relative `error`, pseudo-randomly with a fixed seed."""

    def changed(self, position: int) -> Any:
        """Return a copy with the number at `position` far off: the other truth value, the next whole number."""

    def replaced(self, position: int, number: float) -> Any:
        """Return a copy with `number` at `position`, if the type can hold it."""

    def retyped(self) -> Any:
        """Return the same numbers in another type."""

    def reshaped(self) -> Any:
        """Return the same numbers in another shape."""

    def constant(self) -> bool:
        """Return whether the part has several numbers, all of them equal."""


def part_of(value: Any) -> Part | None:
    """Return the part that `value` as a whole is, None if it is none."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _Tensor(torch, value)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _Array(numpy, value)
    if type(value) in (bool, int, float, complex):
        return _Numbers([value], lambda numbers: numbers[0])
    if type(value) in (list, tuple) and value and all(type(item) in (bool, int, float, complex) for item in value):
        return _Numbers(list(value), type(value))
    return None


def parts(value: Any) -> list[Part]:
    """Return all parts of `value`."""
    found: list[Part] = []
    mapped(value, found.append)
    return found


def mapped(value: Any, change: Callable[[Part], Any]) -> Any:
    """Return `value` with `change` applied to each of its parts."""
    part = part_of(value)
    if part is not None:
        return change(part)
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    if type(value) is dict:
        return {key: mapped(item, change) for key, item in value.items()}
    return value


def form(value: Any) -> Any:
    """Return structure, types and shapes, the common properties of interchangeable values."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "array", str(value.dtype), tuple(value.shape)
    if type(value) in (list, tuple):
        return "sequence", tuple(map(form, value))
    if type(value) is dict:
        return "dict", tuple((key, form(value[key])) for key in sorted(value, key=str))
    return type(value).__name__


def values_in(value: Any) -> list[Any]:
    """Return `value` itself and all values inside it, lists of plain numbers as one."""
    if part_of(value) is not None or type(value) not in (list, tuple, dict):
        return [value]
    items = value.values() if type(value) is dict else value
    return [value, *(inner for item in items for inner in values_in(item))]


class _Tensor:
    def __init__(self, torch: Any, tensor: Any) -> None:
        self._torch = torch
        self.value = self._tensor = tensor
        self._dtype = str(tensor.dtype).rpartition(".")[2]
        self.count = int(tensor.numel())
        self.roundoff = _ROUNDOFF.get(self._dtype)

    def filled(self, number: Any) -> Any:
        if not self._holds(number):
            return self._tensor
        return self._torch.full_like(self._tensor, number)

    def mean(self) -> Any:
        if not self.count:
            return self._tensor
        wide = self._torch.complex128 if self._tensor.is_complex() else self._torch.float64
        mean = self._tensor.to(wide).mean().item()
        return self.filled(mean if self.roundoff is not None or not _finite(mean) else round(mean))

    def rounded(self, format_: str) -> Any:
        torch, tensor = self._torch, self._tensor
        if self.roundoff is None or self.roundoff > _ROUNDOFF["float32"]:
            return tensor
        if tensor.is_complex():
            real = _Tensor(torch, torch.view_as_real(tensor.resolve_conj().contiguous())).rounded(format_)
            return torch.view_as_complex(real)
        if format_ == "tf32":
            single = tensor.to(torch.float32).contiguous()
            rounded = _dropped(single.view(torch.int32), _DROPPED_BITS[format_]).view(torch.float32)
            return torch.where(torch.isfinite(single), rounded, single).to(tensor.dtype)
        return tensor.to(getattr(torch, format_)).to(tensor.dtype)

    def noisy(self, error: float) -> Any:
        torch, tensor = self._torch, self._tensor
        if self.roundoff is None:
            return tensor
        generator = torch.Generator(device="cpu").manual_seed(_SIGNS_SEED)
        signs = torch.randint(0, 2, tensor.shape, generator=generator, device="cpu", dtype=torch.int8)
        wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        return (wide * (1 + error * (2 * signs.to(tensor.device, torch.float64) - 1))).to(tensor.dtype)

    def changed(self, position: int) -> Any:
        index = _unravelled(position, tuple(self._tensor.shape))
        old = self._tensor[index].item()
        spread = 1.0
        if self.roundoff is not None:
            spread = float(self._tensor.abs().to(self._torch.float64).square().mean().sqrt())
        return self._with(index, _far_from(old, spread))

    def replaced(self, position: int, number: float) -> Any:
        if not self._holds(number):
            return self._tensor
        return self._with(_unravelled(position, tuple(self._tensor.shape)), number)

    def retyped(self) -> Any:
        return self._tensor.to(getattr(self._torch, _other_type(self._dtype)))

    def reshaped(self) -> Any:
        return self._tensor[None]

    def constant(self) -> bool:
        return self.count > 1 and bool((self._tensor == self._tensor.reshape(-1)[0]).all())

    def _holds(self, number: Any) -> bool:
        return self.roundoff is not None or _finite(number)

    def _with(self, index: tuple[int, ...], number: Any) -> Any:
        answer = self._tensor.clone()
        answer[index] = number
        return answer


class _Array:
    def __init__(self, numpy: Any, array: Any) -> None:
        self._numpy = numpy
        self.value = self._array = array
        self.count = int(array.size)
        self.roundoff = _ROUNDOFF.get(str(array.dtype))

    def filled(self, number: Any) -> Any:
        return self._numpy.full_like(self._array, number) if self._holds(number) else self._array

    def mean(self) -> Any:
        if not self.count:
            return self._array
        mean = self._array.astype("complex128" if self._array.dtype.kind == "c" else "float64").mean().item()
        return self.filled(mean if self.roundoff is not None else round(mean))

    def rounded(self, format_: str) -> Any:
        numpy, array = self._numpy, self._array
        if self.roundoff is None or self.roundoff > _ROUNDOFF["float32"]:
            return array
        if array.dtype.kind == "c":
            real = numpy.ascontiguousarray(array).reshape(array.shape)
            floats = real.view("float32" if array.dtype.itemsize == 8 else "float64")
            return _Array(numpy, floats).rounded(format_).view(array.dtype)
        with numpy.errstate(all="ignore"):
            if format_ == "float16":
                return array.astype("float16").astype(array.dtype)
            single = numpy.ascontiguousarray(array.astype("float32")).reshape(array.shape)
        bits = _dropped(single.view("int32"), _DROPPED_BITS[format_]).astype("int32")
        return numpy.where(numpy.isfinite(single), bits.view("float32"), single).astype(array.dtype)

    def noisy(self, error: float) -> Any:
        if self.roundoff is None:
            return self._array
        signs = 2.0 * self._numpy.random.RandomState(_SIGNS_SEED).randint(0, 2, self._array.shape) - 1
        wide = self._array.astype("complex128" if self._array.dtype.kind == "c" else "float64")
        return (wide * (1 + error * signs)).astype(self._array.dtype)

    def changed(self, position: int) -> Any:
        index = _unravelled(position, tuple(self._array.shape))
        spread = 1.0
        if self.roundoff is not None:
            spread = float(self._numpy.sqrt(self._numpy.square(self._numpy.abs(self._array).astype("float64")).mean()))
        return self._with(index, _far_from(self._array[index].item(), spread))

    def replaced(self, position: int, number: float) -> Any:
        if not self._holds(number):
            return self._array
        return self._with(_unravelled(position, tuple(self._array.shape)), number)

    def retyped(self) -> Any:
        return self._array.astype(_other_type(str(self._array.dtype)))

    def reshaped(self) -> Any:
        return self._array[None]

    def constant(self) -> bool:
        return self.count > 1 and bool((self._array == self._array.reshape(-1)[0]).all())

    def _holds(self, number: Any) -> bool:
        return self.roundoff is not None or _finite(number)

    def _with(self, index: tuple[int, ...], number: Any) -> Any:
        answer = self._array.copy()
        answer[index] = number
        return answer


class _Numbers:
    """Plain numbers in a list or tuple, or one alone."""

    def __init__(self, numbers: list[Any], whole: Callable[[list[Any]], Any]) -> None:
        self._numbers = numbers
        self._whole = whole
        self.value = whole(numbers)
        self.count = len(numbers)
        self.roundoff = _ROUNDOFF["float64"] if any(type(each) in (float, complex) for each in numbers) else None

    def filled(self, number: Any) -> Any:
        return self._whole([_of_type(each, number) for each in self._numbers])

    def mean(self) -> Any:
        mean = sum(self._numbers) / self.count
        return self.filled(mean)

    def rounded(self, format_: str) -> Any:
        return self._whole([_rounded_number(each, format_) for each in self._numbers])

    def noisy(self, error: float) -> Any:
        signs = random.Random(_SIGNS_SEED)  # noqa: S311 - the same each time
        factors = [1 + error * signs.choice((-1, 1)) for _ in self._numbers]
        return self._whole(
            [
                each * factor if type(each) in (float, complex) else each
                for each, factor in zip(self._numbers, factors, strict=True)
            ]
        )

    def changed(self, position: int) -> Any:
        spread = math.sqrt(math.fsum(min(abs(each), 1e150) ** 2 for each in self._numbers) / self.count)
        return self._with(position, _far_from(self._numbers[position], spread))

    def replaced(self, position: int, number: float) -> Any:
        return self._with(position, _of_type(self._numbers[position], number))

    def retyped(self) -> Any:
        return self._whole(
            [int(each) if type(each) is float and _finite(each) else str(each) for each in self._numbers]
        )

    def reshaped(self) -> Any:
        alone = type(self._whole(self._numbers)) not in (list, tuple)
        return list(self._numbers) if alone else self._whole([*self._numbers, self._numbers[-1]])

    def constant(self) -> bool:
        return self.count > 1 and all(each == self._numbers[0] for each in self._numbers)

    def _with(self, position: int, number: Any) -> Any:
        return self._whole([*self._numbers[:position], number, *self._numbers[position + 1 :]])


def _other_type(dtype: str) -> str:
    others = {"float64": "float32", "complex64": "complex128", "complex128": "complex64"}
    return others.get(dtype, "float64")


def _of_type(old: Any, number: Any) -> Any:
    """Return `number` in the type of `old`; `old` itself if that type cannot hold it."""
    if type(old) in (float, complex):
        return type(old)(number) if not isinstance(number, complex) or type(old) is complex else number.real
    if not _finite(number):
        return old
    real = number.real if isinstance(number, complex) else number
    return bool(round(real)) if type(old) is bool else round(real)


def _far_from(old: Any, spread: float) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return old + 1 if old % 2 == 0 else old - 1
    if not _finite(old):
        return 0.0
    step = max(abs(old), spread if math.isfinite(spread) else 0.0)
    return old + (step or 1.0)


def _rounded_number(number: Any, format_: str) -> Any:
    if type(number) is complex:
        return complex(_rounded_number(number.real, format_), _rounded_number(number.imag, format_))
    if type(number) is not float or not math.isfinite(number):
        return number
    try:
        if format_ == "float16":
            return float(struct.unpack("<e", struct.pack("<e", number))[0])
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        dropped = _dropped(bits, _DROPPED_BITS[format_]) & 0xFFFFFFFF
        return float(struct.unpack("<f", struct.pack("<I", dropped))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _dropped(bits: Any, count: int) -> Any:
    """Return the bits of float32 numbers without the last `count`, rounded to nearest, ties to even."""
    odd = (bits >> count) & 1
    return (bits + ((1 << (count - 1)) - 1) + odd) & ~((1 << count) - 1)


def _unravelled(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for length in reversed(shape):
        position, rest = divmod(position, length)
        index.insert(0, rest)
    return tuple(index)


def _finite(number: Any) -> bool:
    return not isinstance(number, (float, complex)) or cmath.isfinite(number)
