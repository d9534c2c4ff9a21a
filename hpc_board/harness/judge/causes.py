"""The cause of wrong elements, where their values prove one: never written, read before written, or an overflow.

The judge knows the contents of memory that nothing has written (`harness/wire/poison.py`). An element with these bits
was never written. One that differs from the right value by just that number was the target of an addition that began
with it, and NaN with its payload is the result of arithmetic with it.
"""

from typing import Any

from hpc_board.harness.wire.payload import ITEM_BYTES
from hpc_board.harness.wire.poison import FLOATS, FRESH_BYTE, WORKSPACE_WORD, poison_of, repeated
from hpc_board.model.mismatch import Cause

_MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38}
_ROUNDINGS = 4
"""Error of a sum that began with poison, in units of the last place."""

_CLEAR = 4
"""The ratio of poison to the tolerance from which a difference of that size is no ordinary error."""

_BY_CHANCE_BYTES_MAX = 2
"""Largest type in which wrong elements may hold poison by chance: at least half of all must, to prove a cause."""

_WRAPPED_BITS = (8, 16, 32)


class Causes:
    """The numbers of wrong elements of a type by the cause that their values prove."""

    def __init__(self, numpy: Any, dtype: str) -> None:
        self._numpy = numpy
        self._dtype = dtype
        size, word = poison_of(dtype)
        self._size = size if size > 1 else ITEM_BYTES.get(dtype, 1)
        self._unwritten = word if size > 1 else repeated(word, self._size), repeated(FRESH_BYTE, self._size)
        self._noted = 0
        self._counts = dict.fromkeys(Cause, 0)
        self._wrapped = dict.fromkeys(_WRAPPED_BITS, 0)

    def note(self, bits: Any, got: Any, expected: Any, allowed: Any) -> None:
        """Note wrong elements: their bits, their values, the right ones, and the errors that are allowed."""
        self._noted += len(bits)
        if self._dtype in FLOATS:
            read = self._has_payload(bits) | self._began_with_fresh(got, expected, allowed)
            over = self._numpy.isinf(got) & self._numpy.isfinite(expected)
            if largest := _LARGEST.get(self._dtype):
                over |= (abs(expected) > largest) & (abs(got) >= largest)
        elif got.dtype.kind in "iu" and expected.dtype.kind in "iu":
            wide = expected.astype(self._numpy.int64)
            added, workspace = bits - wide.astype(bits.dtype), _workspace(self._size)
            read = self._is_in(bits, workspace) | self._is_in(added, workspace, *self._unwritten)
            over = self._numpy.zeros(len(bits), dtype=bool)
            self._note_wrapped(got.astype(self._numpy.int64), wide)
        else:
            return
        never = self._is_in(bits, *self._unwritten)
        self._counts[Cause.NEVER_WRITTEN] += int(never.sum())
        self._counts[Cause.UNINITIALIZED_READ] += int((read & ~never).sum())
        self._counts[Cause.OVERFLOW] += int((over & ~never & ~read).sum())

    def found(self) -> "tuple[Cause | None, int]":
        """Return the cause of the most elements, and their number."""
        if self._noted in self._wrapped.values():
            self._counts[Cause.OVERFLOW] = self._noted
        cause, count = max(self._counts.items(), key=lambda each: each[1])
        least = self._noted / 2 if self._size <= _BY_CHANCE_BYTES_MAX else 1
        return (cause, count) if count and count >= least else (None, 0)

    def _has_payload(self, bits: Any) -> Any:
        """Return where NaN has the payload of poison, signalling or quiet, of either sign."""
        size, poison, quiet = FLOATS[self._dtype]
        word = WORKSPACE_WORD >> 16 if size == 2 else _workspace(size)
        return self._is_in((bits | quiet) & (256**size // 2 - 1), poison | quiet, word | quiet)

    def _is_in(self, bits: Any, *words: int) -> Any:
        return self._numpy.isin(bits, self._numpy.array(words, dtype=bits.dtype))

    def _began_with_fresh(self, got: Any, expected: Any, allowed: Any) -> Any:
        """Return where an element is the right one and the number that fresh memory holds."""
        digits = _MANTISSA_BITS.get(self._dtype)
        if digits is None:
            return self._numpy.zeros(len(got), dtype=bool)
        size = self._size
        word = repeated(FRESH_BYTE, 2) << 16 if self._dtype == "bfloat16" else repeated(FRESH_BYTE, size)
        width = max(size, 4) if self._dtype == "bfloat16" else size
        fresh = float(self._numpy.array([word], dtype=f"u{width}").view(f"f{width}")[0])
        wide = got.astype(self._numpy.float64)
        rounding = _ROUNDINGS * 2.0**-digits * (abs(wide) + fresh)
        near = abs(wide - fresh - expected.astype(self._numpy.float64)) <= allowed + rounding
        return near & self._numpy.isfinite(wide) & (allowed * _CLEAR < fresh)

    def _note_wrapped(self, got: Any, expected: Any) -> None:
        for width in _WRAPPED_BITS:
            half = 2 ** (width - 1)
            beyond = (expected >= half) | (expected < -half)
            held = (got >= -half) & (got < 2 * half)
            self._wrapped[width] += int((beyond & held & ((got - expected) % (2 * half) == 0)).sum())


def _workspace(size: int) -> int:
    """Return an element of a new workspace as an unsigned integer of `size` bytes."""
    return WORKSPACE_WORD * (1 + 2**32) & ((1 << 8 * size) - 1)
