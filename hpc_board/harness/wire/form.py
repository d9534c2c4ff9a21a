"""The form of outputs: a row of calls lists outputs of one form by their addresses alone."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from hpc_board.harness.wire.payload import Outline, PayloadError


class Form:
    """The types and shapes of a value: one tensor or array, or a list or tuple of them.

    Built from a value with a known outline, a form decides whether that outline fits other values too.

    Raises:
        PayloadError: the value has another structure, or a part of it is not dense or not held.
    """

    def __init__(self, value: Any, outline: Outline) -> None:
        self._kind = type(value) if type(value) in (list, tuple) else None
        parts = list(value) if self._kind else [value]
        if len(parts) != len(outline.held):
            raise PayloadError("a value of which not every part is held")
        self._readers = [_address_reader(part) for part in parts]
        if self.addresses([value]) is None:
            raise PayloadError("a value that is not dense")

    def addresses(self, values: Sequence[Any]) -> "list[int] | None":
        """Return the addresses of each value's parts, one value after the other; None if one has another form.

        This runs while a row of calls is timed and therefore does as little as possible.
        """
        kind, readers = self._kind, self._readers
        try:
            if kind is None:
                (read,) = readers
                return [read(value) for value in values]
            if any(type(value) is not kind or len(value) != len(readers) for value in values):
                return None
            return [read(part) for value in values for read, part in zip(readers, value, strict=True)]
        except _OtherFormError:
            return None


class _OtherFormError(Exception):
    """A value has another form than the expected one."""


def _address_reader(model: Any) -> "Callable[[Any], int]":
    """Return a function that returns the address of a dense value with the type and shape of `model`."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(model) is torch.Tensor:
        kind, dtype, shape = torch.Tensor, model.dtype, model.shape
        contiguous, address = kind.is_contiguous, kind.data_ptr
        lazy = (kind.is_conj, kind.is_neg) if dtype.is_complex or dtype.is_floating_point else ()

        def of_tensor(value: Any) -> int:
            if type(value) is not kind or value.dtype is not dtype or value.shape != shape or not contiguous(value):
                raise _OtherFormError
            if any(flag(value) for flag in lazy):
                raise _OtherFormError
            return int(address(value))

        return of_tensor
    if numpy is not None and type(model) is numpy.ndarray:
        array, of_type, lengths = numpy.ndarray, model.dtype, model.shape

        def of_array(value: Any) -> int:
            if type(value) is not array or value.dtype != of_type or value.shape != lengths:
                raise _OtherFormError
            if not value.flags.c_contiguous:
                raise _OtherFormError
            return int(value.__array_interface__["data"][0])

        return of_array
    raise PayloadError("a value with parts that are neither tensors nor arrays")
