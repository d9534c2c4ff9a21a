"""The form of an answer: as many blocks as the reference's answer has tensors and arrays.

A block is the bytes of one tensor or array in row-major order, alone in memory. An answer that is something else (a
view with gaps, another dtype, an array of another library) is made so by the worker while the clock runs.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpc_board.harness.wire import payload
from hpc_board.harness.wire.payload import NESTS, Node, PayloadError, WrongShape, any_overlap, leaves_of
from hpc_board.model.text import with_article

FORM_BYTES_MAX = 32 * 1024
BLOCKS_MAX = 3000
"""Largest number of blocks in the answers of a row: a frame holds no more addresses."""

Taking = Callable[[Any], tuple[Any, int]]
"""Returns a value that holds a block, and the block's address."""

_Kind = tuple[Any, Callable[[Any], bool], tuple[type, ...], Callable[[Any], Any], Callable[[Any], int]]
"""For the values of a block: their type of numbers, whether one has its form, the types that can be made so, their
conversion, and the address.
"""


class Aliased(PayloadError):
    """An answer in the memory of an input."""


class Form:
    """The form of a right answer: nested lists, tuples and dicts of tensors and arrays alone.

    `node` is its layout in row-major order, `head` the beginning of the payload of such an answer, `size` that
    payload's size in bytes. `blocks` has for each block its offset in that payload, and its size.

    Raises:
        PayloadError: the answer has other parts, too many, or none.
    """

    def __init__(self, layout: Node) -> None:
        self._end = 0
        self.node = self._row_major(layout)
        leaves = [leaf for leaf, _ in leaves_of(self.node)]
        text = json.dumps(self.node).encode()
        if not leaves or len(text) > FORM_BYTES_MAX:
            raise PayloadError("the reference's answer has too many parts, or none")
        self.head, start = payload.head(text)
        self.blocks = tuple((start + leaf["at"], payload.leaf_bytes(leaf)) for leaf in leaves)
        self.size = start + self._end

    def _row_major(self, node: Node) -> Node:
        kind = node["k"]
        if kind in NESTS:
            return {**node, "items": [self._row_major(item) for item in node["items"]]}
        if kind not in ("tensor", "array"):
            raise PayloadError(f"the reference's answer has a part that is {with_article(str(kind)[:40])}")
        leaf = {"k": kind, "dtype": node["dtype"], "shape": list(node["shape"]), "at": payload.aligned(self._end)}
        self._end = leaf["at"] + payload.leaf_bytes(leaf)
        return leaf

    def blank(self) -> int:
        """Return a descriptor of a payload of this form, all of whose numbers are zero."""
        descriptor = os.memfd_create("answer", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, self.size)
        os.pwrite(descriptor, self.head, 0)
        return descriptor


class Taker:
    """The answers of a row in the worker, each made to have the form, and held until the next row.

    `blocks` holds the tensors or arrays of all answers, one answer after the other, and `addresses` theirs. `inputs`
    are the first addresses of the row's inputs, with those after the last one: a block must not lie there, unless the
    reference returns the same input. `fresh` forbids answers in the memory of an input. Tensors have to be on `device`.
    """

    def __init__(self, node: Node, inputs: Sequence[tuple[int, int]], *, fresh: bool, device: Any = "cpu") -> None:
        self.addresses: list[int] = []
        self.blocks: list[Any] = []
        self._node = node
        self._inputs = inputs
        self._low = min((begin for begin, _ in inputs), default=0)
        self._high = max((end for _, end in inputs), default=0)
        self._device = device
        self._fresh = fresh

    def taking(self, own: Sequence[int]) -> Callable[[Any], None]:
        """Return a function that takes the answer of one call, made to have the form, while the clock runs.

        `own` holds for each block the address of the input that the reference returns in its place, -1 for none.
        """
        note, hold = self.addresses.append, self.blocks.append
        leaves = [leaf for leaf, _ in leaves_of(self._node)]
        takings = [self._taking(leaf, allowed) for leaf, allowed in zip(leaves, own, strict=True)]
        if self._node["k"] not in NESTS:
            (take,) = takings

            def take_one(value: Any) -> None:
                value, address = take(value)
                hold(value)
                note(address)

            return take_one

        sizes = list(map(payload.leaf_bytes, leaves))

        def take_all(value: Any) -> None:
            blocks = [take(part) for take, part in zip(takings, _parts(value, self._node, "the output"), strict=True)]
            if any_overlap([[(at, at + size)] for (_, at), size in zip(blocks, sizes, strict=True) if size]):
                copies = payload.copied([block for block, _ in blocks])
                blocks = [(block, payload.address(block)) for block in copies]
            for block, address in blocks:
                hold(block)
                note(address)

        return take_all

    def _taking(self, leaf: Node, own: int) -> Taking:
        dtype, of_form, kinds, converted, address_of = _KINDS[leaf["k"]](leaf, self._device)
        low, high, expected, shape = self._low, self._high, with_article(leaf["k"]), tuple(leaf["shape"])

        def made(value: Any) -> Any:
            value = payload.plain(value)
            if not isinstance(value, kinds):
                raise PayloadError(f"the output is {with_article(type(value).__name__)}, expected {expected}")
            try:
                value = converted(value)
            except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
                if isinstance(error, PayloadError):
                    raise
                words = f"{expected} of type {value.dtype} cannot become one of type {dtype}: {error}"
                raise PayloadError(words) from error
            if math.prod(value.shape) != math.prod(shape):
                raise WrongShape(f"the output has the shape {tuple(value.shape)}, expected {shape}")
            value = value.reshape(shape)
            return value if of_form(value) else value.contiguous()

        def take(value: Any) -> tuple[Any, int]:
            value = value if of_form(value) else made(value)
            address = address_of(value)
            if low <= address < high and address != own and any(at <= address < end for at, end in self._inputs):
                if self._fresh:
                    raise Aliased
                value = payload.copied(value)
                address = address_of(value)
            return value, address

        return take


def _parts(value: Any, node: Node, place: str) -> Iterator[Any]:
    """Yield the parts of a value at the places of a form's blocks."""
    kind = node["k"]
    if kind not in NESTS:
        yield value
        return
    if kind == "dict":
        if type(value) is not dict or set(value) != set(node["keys"]):
            raise WrongShape(f"{place} is not a dict with the keys {node['keys']!r}"[:500])
        items = [value[key] for key in node["keys"]]
    else:
        if type(value) not in (list, tuple):
            raise PayloadError(f"{place} is {with_article(type(value).__name__)}, expected {with_article(kind)}")
        items = list(value)
        if len(items) != len(node["items"]):
            raise WrongShape(f"{place} has {len(items)} parts, expected {len(node['items'])}")
    for index, (item, wanted) in enumerate(zip(items, node["items"], strict=True)):
        yield from _parts(item, wanted, f"{place}[{index}]")


def _tensors(leaf: Node, device: Any) -> _Kind:
    torch: Any = sys.modules["torch"]
    device = torch.device(device)
    kind, dtype, shape = torch.Tensor, getattr(torch, leaf["dtype"]), torch.Size(leaf["shape"])
    contiguous, is_lazy = kind.is_contiguous, dtype.is_complex or dtype.is_floating_point

    def of_form(value: Any) -> bool:
        return (
            type(value) is kind
            and value.dtype is dtype
            and value.shape == shape
            and contiguous(value)
            and value.device == device
            and not (is_lazy and (value.is_neg() or value.is_conj()))
        )

    def converted(value: Any) -> Any:
        if value.layout is not torch.strided:
            raise PayloadError(f"the output is a tensor of the layout {value.layout}, expected {torch.strided}")
        with torch.no_grad():
            return value.resolve_conj().resolve_neg().to(device, dtype)

    return dtype, of_form, (kind,), converted, kind.data_ptr


def _arrays(leaf: Node, _device: Any) -> _Kind:
    numpy: Any = sys.modules["numpy"]
    kind, dtype, shape = numpy.ndarray, numpy.dtype(leaf["dtype"]), tuple(leaf["shape"])

    def of_form(value: Any) -> bool:
        return type(value) is kind and value.dtype == dtype and value.shape == shape and value.flags.c_contiguous

    def converted(value: Any) -> Any:
        return numpy.ascontiguousarray(value, dtype)

    return dtype, of_form, (kind, numpy.generic), converted, lambda value: value.__array_interface__["data"][0]


_KINDS = {"tensor": _tensors, "array": _arrays}
