"""The form of an answer: as many blocks as the reference's answer has tensors and arrays.

A block is the bytes of one tensor or array in row-major order, alone in memory. An answer that is something else (a
view with gaps, another dtype, an array of another library) is made so by the worker while the clock runs.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from hpc_board.harness.wire import payload
from hpc_board.harness.wire.payload import NESTS, Node, PayloadError, WrongShape, any_overlap, leaves_of
from hpc_board.model.text import with_article

FORM_BYTES_MAX = 32 * 1024
BLOCKS_MAX = 3000
"""Largest number of blocks in the answers of a row: a frame holds no more addresses."""


class _Kind(NamedTuple):
    """The values of a block: `taking` returns a function that hands one, made to have the form, to another function."""

    name: str
    dtype: Any
    shape: Any
    types: tuple[type, ...]
    address_of: Callable[[Any], int]
    converted: Callable[[Any], Any]
    taking: Callable[[Callable[[Any], None]], Callable[[Any], None]]

    def made(self, value: Any) -> Any:
        """Return a value of another form as one of this form."""
        value = payload.plain(value)
        if not isinstance(value, self.types):
            raise PayloadError(f"the output is {with_article(type(value).__name__)}, expected {self.name}")
        try:
            value = self.converted(value)
        except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, PayloadError):
                raise
            words = f"{self.name} of type {value.dtype} cannot become one of type {self.dtype}: {error}"
            raise PayloadError(words) from error
        if math.prod(value.shape) != math.prod(self.shape):
            raise WrongShape(f"the output has the shape {tuple(value.shape)}, expected {tuple(self.shape)}")
        return value.reshape(self.shape)


class Aliased(PayloadError):
    """An answer in the memory of an input."""


class Form:
    """The form of a right answer: nested lists, tuples and dicts that contain only tensors and arrays.

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

    `take` takes the answer of a call. `blocks` holds the tensors or arrays of all answers, one answer after the other,
    and once they are settled `addresses` theirs. `inputs` are the first addresses of the row's inputs, with those after
    the last one: a block must not lie there, unless the reference returns the same input. `fresh` forbids answers in
    the memory of an input. Tensors have to be on `device`.
    """

    def __init__(self, node: Node, inputs: Sequence[tuple[int, int]], *, fresh: bool, device: Any = "cpu") -> None:
        self.addresses: list[int] = []
        self.blocks: list[Any] = []
        self._node = node
        self._inputs = inputs
        self._fresh = fresh
        leaves = [leaf for leaf, _ in leaves_of(node)]
        self._kinds = [_KINDS[leaf["k"]](leaf, device) for leaf in leaves]
        self._sizes = list(map(payload.leaf_bytes, leaves))
        self._answer: list[Any] = []
        self._takings = [kind.taking(self._answer.append) for kind in self._kinds]
        self.take = self._take_parts if node["k"] in NESTS else self._kinds[0].taking(self.blocks.append)

    def _take_parts(self, value: Any) -> None:
        answer = self._answer
        answer.clear()
        for part, take in zip(_parts(value, self._node, "the output"), self._takings, strict=True):
            take(part)
        begins = [kind.address_of(block) for block, kind in zip(answer, self._kinds, strict=True)]
        spans = [[(at, at + size)] for at, size in zip(begins, self._sizes, strict=True) if size]
        self.blocks += payload.copied(answer) if any_overlap(spans) else answer

    def settle(self, own: Sequence[int]) -> None:
        """Note the addresses of the blocks, after a copy of those in the memory of an input.

        `own` holds for each block the address of the input that the reference returns in its place, -1 for none.

        Raises:
            Aliased: such a copy is forbidden.
        """
        address_of = cycle(each.address_of for each in self._kinds)
        addresses = [found(block) for block, found in zip(self.blocks, address_of, strict=False)]
        low, high = min((at for at, _ in self._inputs), default=0), max((end for _, end in self._inputs), default=0)
        for index, address in enumerate(addresses if min(addresses) < high and max(addresses) >= low else ()):
            if address != own[index] and any(at <= address < end for at, end in self._inputs):
                if self._fresh:
                    raise Aliased
                self.blocks[index] = payload.copied(self.blocks[index])
                addresses[index] = payload.address(self.blocks[index])
        self.addresses = addresses


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
        if type(value) is not list and not issubclass(type(value), tuple):
            raise PayloadError(f"{place} is {with_article(type(value).__name__)}, expected {with_article(kind)}")
        items = list(value if type(value) is list else tuple.__iter__(value))
        if len(items) != len(node["items"]):
            raise WrongShape(f"{place} has {len(items)} parts, expected {len(node['items'])}")
    for index, (item, wanted) in enumerate(zip(items, node["items"], strict=True)):
        if wanted["k"] in NESTS:
            yield from _parts(item, wanted, f"{place}[{index}]")
        else:
            yield item


def _tensors(leaf: Node, device: Any) -> _Kind:
    torch: Any = sys.modules["torch"]
    device = torch.device(device)
    kind, dtype, shape = torch.Tensor, getattr(torch, leaf["dtype"]), torch.Size(leaf["shape"])
    contiguous, on_cpu = kind.is_contiguous, device.type == "cpu"
    may_be_negative = dtype.is_complex or dtype.is_floating_point

    def converted(value: Any) -> Any:
        if value.layout is not torch.strided:
            raise PayloadError(f"the output is a tensor of the layout {value.layout}, expected {torch.strided}")
        with torch.no_grad():
            return value.resolve_conj().resolve_neg().to(device, dtype).contiguous()

    def taking(hold: Callable[[Any], None]) -> Callable[[Any], None]:
        def take(value: Any) -> None:
            if (
                type(value) is kind
                and value.dtype is dtype
                and value.shape == shape
                and contiguous(value)
                and (value.is_cpu if on_cpu else value.device == device)
                and not (may_be_negative and value.is_neg())
                and not (dtype.is_complex and value.is_conj())
            ):
                hold(value)
            else:
                hold(found.made(value))

        return take

    found = _Kind("a tensor", dtype, shape, (kind,), kind.data_ptr, converted, taking)
    return found


def _arrays(leaf: Node, _device: Any) -> _Kind:
    numpy: Any = sys.modules["numpy"]
    kind, dtype, shape = numpy.ndarray, numpy.dtype(leaf["dtype"]), tuple(leaf["shape"])

    def converted(value: Any) -> Any:
        return numpy.ascontiguousarray(value, dtype)

    def taking(hold: Callable[[Any], None]) -> Callable[[Any], None]:
        def take(value: Any) -> None:
            if type(value) is kind and value.dtype == dtype and value.shape == shape and value.flags.c_contiguous:
                hold(value)
            else:
                hold(found.made(value))

        return take

    found = _Kind("an array", dtype, shape, (kind, numpy.generic), payload.address, converted, taking)
    return found


_KINDS = {"tensor": _tensors, "array": _arrays}
