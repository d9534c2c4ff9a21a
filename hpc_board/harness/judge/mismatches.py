"""The details of an output with wrong values: errors, the share of wrong elements, first places, pattern and cause.

The elements are compared in pieces, as arrays of NumPy, so that beside the two tensors a byte for each element is all
that it takes.
"""

import importlib
import math
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hpc_board.harness.judge.causes import Causes
from hpc_board.harness.judge.comparisons import Comparison
from hpc_board.harness.judge.patterns import pattern
from hpc_board.model.mismatch import PLACES_MAX, Mismatch, Place

_PIECE = 2**20
_MASKED_MAX = 2**26
"""Largest number of elements for which a byte each is kept, to find their pattern."""


_OTHER_TYPES = (TypeError, ValueError, RuntimeError)
"""Errors of PyTorch and NumPy, which compare not every type of numbers; and a task may compare anything."""


class _TimeOver(Exception):
    """The deadline has passed."""


def mismatch(found: Comparison, part: str, *, shown: bool, deadline: float) -> "Mismatch | None":
    """Return the details of a comparison; None if they are not known by the `deadline`, or for other types.

    Those of too many elements have no pattern, and those for whose pattern the time is too short.
    Without `shown`, for inputs that are secret, they hold no value of an element.
    """
    if not (_are_alike(found) and (found.known or shown)):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Details(found, shown=shown, deadline=deadline).mismatch(part)
    except (_TimeOver, ImportError, MemoryError, ArithmeticError, AttributeError, IndexError, *_OTHER_TYPES):
        return None


def largest_of_tolerance(passed: Sequence[Comparison], *, deadline: float) -> "float | None":
    """Return the largest ratio of an error to its tolerance in comparisons without a difference.

    None if there is none with a tolerance that is not 0, or if it is not known by the `deadline`.
    """
    found = [each for each in passed if each.known and not each.exact and _are_alike(each)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ratios = [_Details(each, shown=True, deadline=deadline).of_tolerance() for each in found]
    except (_TimeOver, ImportError, MemoryError, ArithmeticError, AttributeError, IndexError, *_OTHER_TYPES):
        return None
    return max((ratio for ratio in ratios if math.isfinite(ratio)), default=None)


def _are_alike(found: Comparison) -> bool:
    """Return whether both sides are tensors, or both arrays, of one shape that is not empty."""
    for name, kind in (("torch", "Tensor"), ("numpy", "ndarray")):
        library = sys.modules.get(name)
        if library is not None and all(
            isinstance(side, getattr(library, kind)) for side in (found.got, found.expected)
        ):
            shape = tuple(found.got.shape)
            return shape == tuple(found.expected.shape) and bool(shape) and 0 not in shape
    return False


class _Details:
    def __init__(self, found: Comparison, *, shown: bool, deadline: float) -> None:
        self._numpy: Any = importlib.import_module("numpy")
        self._found = found
        self._shown = shown
        self._deadline = deadline
        self._shape = tuple(map(int, found.got.shape))
        self._got, self._expected = (side.reshape(-1) for side in (found.got, found.expected))
        self._elements = int(self._got.shape[0])
        self._tolerance = None
        if hasattr(found.tolerance, "shape"):
            self._tolerance = self._numpy.broadcast_to(_array(found.tolerance), self._shape).reshape(-1)
        self._wrong = 0
        self._places: list[int] = []
        self._ranked: list[tuple[float, int]] = []
        self._largest_absolute = self._largest_relative = self._largest_ratio = -1.0
        self._causes = Causes(self._numpy, str(found.got.dtype).rpartition(".")[2]) if shown else None
        keeps = found.known and self._elements <= _MASKED_MAX
        self._mask = bytearray(self._elements) if keeps else None

    def mismatch(self, part: str) -> "Mismatch | None":
        for begin in range(0, self._elements, _PIECE):
            self._check_time()
            self._compare(begin, min(begin + _PIECE, self._elements))
        if self._found.known and not self._wrong:
            return None
        self._check_time()
        words = ""
        if self._mask is not None:
            with suppress(_TimeOver):
                words = pattern(self._shape, self._wrong, self._marks(), self._mask, self._check_time)
        cause, caused = self._causes.found() if self._causes else (None, 0)
        places = self._places if self._found.known else [at for _, at in self._ranked]
        return Mismatch(
            shape=self._shape,
            elements=self._elements,
            wrong=self._wrong if self._found.known else None,
            pattern=words,
            largest_absolute=self._error(self._largest_absolute),
            largest_relative=self._error(self._largest_relative),
            places=tuple(map(self._place, places)) if self._shown else (),
            part=part,
            of_tolerance=self._error(self._largest_ratio),
            cause=cause,
            caused=caused,
        )

    def of_tolerance(self) -> float:
        """Return the largest ratio of an error to its tolerance in an output that is right."""
        largest = 0.0
        for begin in range(0, self._elements, _PIECE):
            self._check_time()
            end = min(begin + _PIECE, self._elements)
            got, expected = (self._wide(_array(side[begin:end])) for side in (self._got, self._expected))
            ratios = self._ratios(got, expected, self._allowed(begin, end, expected))
            # The difference of equal infinities is NaN.
            largest = max(largest, float(self._numpy.where(ratios >= 0, ratios, 0).max()))
        return largest

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _TimeOver

    def _compare(self, begin: int, end: int) -> None:
        found = self._found
        got, expected = (_array(side[begin:end]) for side in (self._got, self._expected))
        if not found.known:
            wide_got, wide_expected = self._wide(got), self._wide(expected)
            self._note_errors(begin, wide_got, wide_expected)
            self._note_causes(begin, end, (got != expected).nonzero()[0], got, expected, 0.0)
            return
        allowed: Any = 0.0
        if found.exact:
            wrong = (got != expected).nonzero()[0]
        else:
            wide_got, wide_expected = self._wide(got), self._wide(expected)
            allowed = self._allowed(begin, end, wide_expected) + self._numpy.zeros(len(got))
            within = abs(wide_got - wide_expected) <= allowed
            wrong = (~(within & self._numpy.isfinite(wide_expected))).nonzero()[0]
            wrong = wrong[~self._equal(wide_got[wrong], wide_expected[wrong])]
        if not len(wrong):
            return
        self._wrong += len(wrong)
        self._places += [begin + int(at) for at in wrong[: PLACES_MAX - len(self._places)]]
        if self._mask is not None:
            self._bytes(self._mask)[begin:end][wrong] = 1
        wide_got, wide_expected = self._wide(got[wrong]), self._wide(expected[wrong])
        self._note_errors(begin, wide_got, wide_expected)
        if not found.exact:
            ratios = self._ratios(wide_got, wide_expected, allowed[wrong])
            finite = self._numpy.isfinite(ratios)
            self._largest_ratio = max(self._largest_ratio, float(self._numpy.where(finite, ratios, -1).max()))
        self._note_causes(begin, end, wrong, got, expected, allowed)

    def _note_causes(self, begin: int, end: int, wrong: Any, got: Any, expected: Any, allowed: Any) -> None:
        if self._causes is not None and len(wrong):
            within = allowed if isinstance(allowed, float) else allowed[wrong]
            self._causes.note(_bits(self._got[begin:end])[wrong], got[wrong], expected[wrong], within)

    def _ratios(self, got: Any, expected: Any, allowed: Any) -> Any:
        """Return the ratios of errors to their tolerances; infinite ones without a tolerance."""
        return self._numpy.where(got == expected, 0.0, abs(got - expected) / allowed)

    def _bytes(self, memory: bytearray) -> Any:
        return self._numpy.frombuffer(memory, dtype=self._numpy.uint8)

    def _equal(self, got: Any, expected: Any) -> Any:
        """Return which elements are equal in spite of an infinite difference, or none at all."""
        if self._found.tolerance is not None:
            return self._numpy.zeros_like(got, dtype=bool)
        equal = got == expected
        return equal | (self._numpy.isnan(got) & self._numpy.isnan(expected)) if self._found.nans else equal

    def _allowed(self, begin: int, end: int, expected: Any) -> Any:
        if self._tolerance is not None:
            return self._wide(self._tolerance[begin:end])
        if self._found.tolerance is not None:
            return self._found.tolerance
        return self._found.atol + self._found.rtol * abs(expected)

    def _wide(self, piece: Any) -> Any:
        return piece.astype(self._numpy.complex128 if piece.dtype.kind == "c" else self._numpy.float64)

    def _note_errors(self, begin: int, got: Any, expected: Any) -> None:
        """Add the errors of these elements to the largest ones; if the tolerance is unknown, also to the list."""
        library, size, absolute = self._numpy, abs(expected), abs(got - expected)
        finite, nothing = library.isfinite(absolute), library.zeros_like(absolute) - 1
        self._largest_absolute = max(self._largest_absolute, float(library.where(finite, absolute, nothing).max()))
        relative = library.where(finite & (size > 0), absolute / size, nothing)
        self._largest_relative = max(self._largest_relative, float(relative.max()))
        if not self._found.known:
            self._rank(begin, library.where(finite, absolute, nothing + float("inf")))

    def _rank(self, begin: int, errors: Any) -> None:
        """Add the largest errors of a piece to the list; one that is not finite is the largest."""
        for _ in range(PLACES_MAX):
            at = int(errors.argmax())
            error = float(errors[at])
            if error <= (self._ranked[-1][0] if len(self._ranked) == PLACES_MAX else 0):
                return
            self._ranked = sorted([*self._ranked, (error, begin + at)], key=lambda each: (-each[0], each[1]))[
                :PLACES_MAX
            ]
            errors[at] = -1

    def _marks(self) -> list[bytearray]:
        if self._mask is None or len(self._shape) == 1:
            return [] if self._mask is None else [self._mask]
        mask, marks, before = self._bytes(self._mask), [], 1
        for length in self._shape:
            self._check_time()
            any_wrong = mask.reshape(before, length, -1).any(2).any(0)
            marks.append(bytearray(any_wrong))
            before *= length
        return marks

    def _place(self, at: int) -> Place:
        index, rest = [], at
        for length in reversed(self._shape):
            rest, position = divmod(rest, length)
            index.append(position)
        return Place(tuple(reversed(index)), *(_text(side[at].item()) for side in (self._got, self._expected)))

    def _error(self, value: float) -> "float | None":
        # The quotient of two finite float64 can be infinite.
        return value if self._shown and 0 <= value < math.inf else None


def _array(piece: Any) -> Any:
    if not hasattr(piece, "cpu"):
        return piece
    try:
        return piece.numpy(force=True)
    except TypeError:
        # NumPy has no bfloat16 and no float8.
        return piece.double().numpy(force=True)


def _bits(piece: Any) -> Any:
    """Return the elements of a tensor or an array as unsigned integers, of complex ones the real parts."""
    numpy = importlib.import_module("numpy")
    if hasattr(piece, "cpu"):
        torch = sys.modules["torch"]
        parts = torch.view_as_real(piece)[:, 0] if piece.is_complex() else piece
        words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        array = parts.contiguous().view(words[parts.element_size()]).numpy(force=True)
    else:
        array = numpy.ascontiguousarray(piece.real)
    return array.view(f"u{array.itemsize}")


def _text(number: Any) -> str:
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def parts_of(output: Any) -> Sequence[Any]:
    """Return the parts of an output that a check may compare one by one."""
    return output if isinstance(output, (list, tuple)) else [output]


def part_name(output: Any, side: Any) -> str:
    """Return "output[1]" for a side of a comparison that is a part of an output; "" for the whole."""
    if isinstance(output, (list, tuple)):
        return next((f"output[{number}]" for number, part in enumerate(output) if part is side), "")
    return ""
