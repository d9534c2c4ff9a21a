"""The form of an answer in a timed row: as many blocks as the reference's answer has tensors and arrays.

A block is the bytes of one tensor or array in row-major order, alone in memory. An answer that is something else (a
view with gaps, another dtype, an array of another library) is made so by the worker while the clock runs.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hpc_board.harness.wire import payload
from hpc_board.harness.wire.payload import Node, PayloadError, WrongShape
from hpc_board.model.text import with_article

FORM_BYTES_MAX = 32 * 1024
BLOCKS_MAX = 3000
"""Largest number of blocks in the answers of a row: a frame holds no more addresses."""

_NESTS = ("list", "tuple", "dict")

Taking = Callable[[Any], tuple[Any, int]]
"""Returns a value that holds a block, and the block's address."""

_Kind = tuple[Callable[[Any], bool], Callable[[Any], Any], Callable[[Any], int]]
"""For the values of a block: whether one has its form, the value made so, and its address."""


class Aliased(PayloadError):
    """An answer in the memory of an input."""


class OtherForm(PayloadError):
    """An answer that would have to be made to have the form."""


class Block(NamedTuple):
    """The place of a block in the payload of an answer, and its size in bytes."""

    at: int
    size: int


class Form:
    """The form of a right answer: nested lists, tuples and dicts of tensors and arrays alone.

    `node` is its layout in row-major order, `head` the beginning of the payload of such an answer, `size` that
    payload's size in bytes.

    Raises:
        PayloadError: the answer has other parts, too many, or none.
    """

    def __init__(self, layout: Node) -> None:
        self._leaves: list[Node] = []
        self._end = 0
        self.node = self._row_major(layout, "the reference's answer")
        text = json.dumps(self.node).encode()
        if not 0 < len(self._leaves) <= BLOCKS_MAX or len(text) > FORM_BYTES_MAX:
            raise PayloadError("the reference's answer has too many parts, or none")
        self.head, start = payload.head(text)
        self.blocks = tuple(Block(start + leaf["at"], payload.leaf_bytes(leaf)) for leaf in self._leaves)
        self.size = start + self._end

    def _row_major(self, node: Node, place: str) -> Node:
        kind = node["k"]
        if kind in _NESTS:
            items = [self._row_major(item, place) for item in node["items"]]
            return {"k": kind, "keys": node["keys"], "items": items} if kind == "dict" else {"k": kind, "items": items}
        if kind not in ("tensor", "array"):
            raise PayloadError(f"{place} has a part that is {with_article(str(kind)[:40])}")
        leaf = {"k": kind, "dtype": node["dtype"], "shape": list(node["shape"]), "at": payload.aligned(self._end)}
        self._leaves.append(leaf)
        self._end = leaf["at"] + payload.leaf_bytes(leaf)
        return leaf

    @property
    def is_of_tensors(self) -> bool:
        """Return whether all blocks are those of tensors."""
        return all(leaf["k"] == "tensor" for leaf in self._leaves)

    def blank(self) -> int:
        """Return a descriptor of a payload of this form, all of whose numbers are zero."""
        descriptor = os.memfd_create("answer", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, self.size)
        os.pwrite(descriptor, self.head, 0)
        return descriptor


def form_of(layout: Node) -> Form | None:
    """Return the form of an answer with this layout; None if it has parts that are no tensors or arrays."""
    try:
        return Form(layout)
    except PayloadError:
        return None


class Taker:
    """The answers of a row in the worker, each made to have the form, and held until the next row.

    `blocks` holds the tensors or arrays of all answers, one answer after the other, and `addresses` theirs. `inputs`
    are the first addresses of the row's inputs, with those after the last one: a block must not lie there, unless the
    reference returns the same input. `fresh` forbids answers in the memory of an input. An answer of another form is an
    error unless it is `made_so`. Tensors have to be on `device`.
    """

    def __init__(
        self,
        node: Node,
        inputs: Sequence[tuple[int, int]],
        *,
        fresh: bool,
        made_so: bool = True,
        device: Any = None,
    ) -> None:
        self.addresses: list[int] = []
        self.blocks: list[Any] = []
        self._node = node
        self._inputs = inputs
        self._device = device
        self._fresh = fresh
        self._made_so = made_so

    def taking(self, own: Sequence[int]) -> Callable[[Any], None]:
        """Return a function that takes the answer of one call, made to have the form, while the clock runs.

        `own` holds for each block the address of the input that the reference returns in its place, -1 for none.
        """
        note, hold = self.addresses.append, self.blocks.append
        takings = [self._taking(leaf, allowed) for leaf, allowed in zip(leaves_of(self._node), own, strict=True)]
        if self._node["k"] not in _NESTS:
            (take,) = takings

            def take_one(value: Any) -> None:
                value, address = take(value)
                hold(value)
                note(address)

            return take_one

        sizes = [payload.leaf_bytes(leaf) for leaf in leaves_of(self._node)]

        def take_all(value: Any) -> None:
            blocks = [take(part) for take, part in zip(takings, _parts(value, self._node, "the output"), strict=True)]
            for block, address in _apart(blocks, sizes):
                hold(block)
                note(address)

        return take_all

    def _taking(self, leaf: Node, own: int) -> Taking:
        low, high = (
            min((begin for begin, _ in self._inputs), default=0),
            max((end for _, end in self._inputs), default=0),
        )
        of_form, made, address_of = _tensors(leaf, self._device) if leaf["k"] == "tensor" else _arrays(leaf)

        def in_input(address: int) -> bool:
            return low <= address < high and any(begin <= address < end for begin, end in self._inputs)

        def take(value: Any) -> tuple[Any, int]:
            if of_form(value):
                address = address_of(value)
                if not low <= address < high or address == own or not in_input(address):
                    return value, address
            if not self._made_so:
                raise OtherForm
            value = made(value)
            address = address_of(value)
            if in_input(address):
                if self._fresh:
                    raise Aliased
                value = payload.copied(value)
                address = address_of(value)
            return value, address

        return take


def leaves_of(node: Node) -> Iterator[Node]:
    """Yield the nodes of a layout that are no lists, tuples or dicts, in the order of their bytes."""
    if node["k"] not in _NESTS:
        yield node
    for item in node.get("items", ()):
        yield from leaves_of(item)


def _parts(value: Any, node: Node, place: str) -> Iterator[Any]:
    """Yield the parts of a value at the places of a form's blocks."""
    kind = node["k"]
    if kind not in _NESTS:
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


def _apart(blocks: list[tuple[Any, int]], sizes: Sequence[int]) -> list[tuple[Any, int]]:
    """Return blocks of one answer, with copies of those that lie in the memory of another one."""
    reached = 0
    for index in sorted(range(len(blocks)), key=lambda index: blocks[index][1]):
        value, address = blocks[index]
        if sizes[index] and address < reached:
            value = payload.copied(value)
            blocks[index] = value, payload.address(value)
        else:
            reached = max(reached, address + sizes[index])
    return blocks


def _tensors(leaf: Node, device: Any) -> _Kind:
    torch: Any = sys.modules["torch"]
    device = torch.device("cpu") if device is None else device
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

    def made(value: Any) -> Any:
        value = payload.plain(value)
        if not isinstance(value, torch.Tensor):
            raise PayloadError(f"the output is {with_article(type(value).__name__)}, expected a tensor")
        if value.layout is not torch.strided:
            raise PayloadError(f"the output is a tensor of the layout {value.layout}, expected {torch.strided}")
        try:
            with torch.no_grad():
                value = value.resolve_conj().resolve_neg().to(device, dtype)
        except (NotImplementedError, RuntimeError) as error:
            raise PayloadError(f"a tensor of type {value.dtype} cannot become one of type {dtype}: {error}") from error
        if value.numel() != math.prod(shape):
            raise WrongShape(f"the output has the shape {tuple(value.shape)}, expected {tuple(shape)}")
        return value.reshape(shape).contiguous()

    return of_form, made, kind.data_ptr


def _arrays(leaf: Node) -> _Kind:
    numpy: Any = sys.modules["numpy"]
    kind, dtype, shape = numpy.ndarray, numpy.dtype(leaf["dtype"]), tuple(leaf["shape"])

    def of_form(value: Any) -> bool:
        return type(value) is kind and value.dtype == dtype and value.shape == shape and value.flags.c_contiguous

    def made(value: Any) -> Any:
        value = payload.plain(value)
        if not isinstance(value, (kind, numpy.generic)):
            raise PayloadError(f"the output is {with_article(type(value).__name__)}, expected an array")
        try:
            value = numpy.ascontiguousarray(value, dtype)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"an array of type {value.dtype} cannot become one of type {dtype}: {error}") from error
        if value.size != math.prod(shape):
            raise WrongShape(f"the output has the shape {value.shape}, expected {shape}")
        return value.reshape(shape)

    return of_form, made, lambda value: value.__array_interface__["data"][0]
