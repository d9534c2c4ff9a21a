"""Values as raw bytes: nested lists, tuples and dicts of tensors, arrays and scalars, without pickle.

A payload lies in anonymous memory (`memfd`): the magic, the length of a JSON header, the header, then the bytes of
the leaves at offsets that are multiples of 64. The header is a tree of nodes, each an object with its kind under "k":

    none · bool, int, str with "v" · float with "v" as hexadecimal text · complex with "v" as two of them
    list, tuple with "items" · dict with "keys" (text or whole numbers) and "items"
    tensor, array with "dtype", "shape", "at" (offset of its bytes) and, where memory order is not row-major, "order"
    bytes with "at" and "size" · dtype with "v" (a torch.dtype)

Reading checks everything, since a payload may come from a hostile worker.
"""

import ctypes
import json
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpc_board.harness.wire.poison import poison_of

MAGIC = b"HPCBLOB1"
_PREFIX_BYTES = len(MAGIC) + 8
HEADER_BYTES_MAX = 16 * 2**20
_ALIGNMENT = 64
_MAP_POPULATE = 0x8000
_PARTS_MAX = 16
_PROTOCOLS = ("__dlpack__", "__cuda_array_interface__")
_DEFAULT_STREAMS_MAX = 2
"""Largest number that means a default stream in the CUDA array interface, rather than an address."""

_SCALARS_MAX = 64
_DEPTH_MAX = 32
_NODES_MAX = 100_000
_ITEMS_MAX = 2**59

ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "uint16": 2,
    "int16": 2,
    "uint32": 4,
    "int32": 4,
    "uint64": 8,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}
"""Sizes of elements by PyTorch's and NumPy's names of types, in the order of `hpc_dtype` in hpc_board.h."""

Node = dict[str, Any]
NESTS = ("list", "tuple", "dict")

_Leaf = tuple[int, int, Callable[[], Any], Any]
"""Offset, length, source and tensor of a leaf.

The source returns a flat tensor or array in host memory, or `bytes`; the tensor is None for a leaf that is none.
"""


class PayloadError(ValueError):
    """A value that cannot be written, or bytes that are no payload; the message names the place and the reason."""


class WrongShape(PayloadError):
    """A value with another structure or another number of elements than expected."""


class TooLarge(PayloadError):
    """A value above its size limit."""


class NoRoom(PayloadError):
    """A well-formed value that does not fit into memory or onto the device."""


class Laid:
    """A value laid out for a file: its `layout`, and its total `size` in bytes."""

    def __init__(self, layout: Node, head: bytes, start: int, leaves: "list[_Leaf]") -> None:
        self.layout = layout
        self.size = start + max((at + length for at, length, _, _ in leaves), default=0)
        self._head = head
        self._start = start
        self._leaves = leaves

    def write(self, descriptor: int, base: int = 0) -> None:
        """Write the value from `base` on into a file that has room for it."""
        self.write_head(descriptor, base)
        for at, length, source, _ in self._leaves:
            if length:
                write_at(descriptor, base + self._start + at, source())

    def write_head(self, descriptor: int, base: int = 0) -> None:
        """Write only the layout, which holds no byte of a tensor or an array."""
        # Not through a mapping: its new pages would be zeroed first and faulted in one by one, which takes longer.
        os.pwrite(descriptor, self._head, base)

    def offsets(self) -> list[int]:
        """Return the offset of each leaf from the begin of the payload."""
        return [self._start + at for at, _, _, _ in self._leaves]

    def ranks(self) -> list[int]:
        """Return the number of each leaf among those that are not empty."""
        return [sum(length > 0 for _, length, _, _ in self._leaves[:index]) for index in range(len(self._leaves))]

    def spans(self) -> list[tuple[int, ...]]:
        """Return address and size of each leaf's bytes in the memory of the value's device; () for those of copies."""
        return [
            (at, length) if (at := address(source() if tensor is None else tensor)) else ()
            for _, length, source, tensor in self._leaves
        ]

    def tensors(self) -> list[Any]:
        """Return the tensors that are not empty, in the order of their bytes; each is dense if the value's is."""
        return [tensor for _, length, _, tensor in self._leaves if tensor is not None and length]

    @property
    def in_tensors(self) -> bool:
        """Return whether all but a few numbers and texts of the value are in tensors."""
        arrays = any(tensor is None and length for _, length, _, tensor in self._leaves)
        return not arrays and sum("v" in leaf for leaf, _ in leaves_of(self.layout)) <= _SCALARS_MAX


def head(header: bytes) -> tuple[bytes, int]:
    """Return the beginning of a payload with this layout, and the offset of the leaves."""
    begin = MAGIC + len(header).to_bytes(8, "little") + header
    return begin, aligned(len(begin))


def laid_out(value: Any, limit: int, *, shift: int = 0) -> Laid:
    """Return the layout of `value`; its leaves begin `shift` times 64 bytes later than necessary.

    Raises:
        PayloadError: a part of the value has no representation here.
        TooLarge: the payload is larger than `limit` bytes.
    """
    leaves: list[_Leaf] = []
    layout = _Writer(leaves).node(value, "it", 0)
    header = json.dumps(layout).encode() + b" " * (shift * _ALIGNMENT)
    if len(header) > HEADER_BYTES_MAX:
        raise TooLarge(f"its layout takes {len(header)} bytes")
    laid = Laid(layout, *head(header), leaves)
    if laid.size > limit:
        raise TooLarge(f"it takes {laid.size} bytes, more than the limit of {limit}")
    return laid


def write(value: Any, descriptor: int, limit: int) -> Node:
    """Write `value` into the memory at `descriptor`, resized to fit, and return its layout.

    Raises:
        PayloadError: a part of the value has no representation here.
        TooLarge: the payload is larger than `limit` bytes.
    """
    laid = laid_out(value, limit)
    os.ftruncate(descriptor, laid.size)
    laid.write(descriptor)
    return laid.layout


Placed = Callable[[Any], Any]
"""Moves a tensor from host memory to its device."""


def read(descriptor: int, place: Placed = lambda tensor: tensor) -> tuple[Any, Node]:
    """Return the value in the memory at `descriptor`, each tensor placed by `place`, and its layout.

    Tensors and arrays are views of that memory: writes to them go there.

    Raises:
        PayloadError: the bytes are not a payload, or hold a value that this Python, PyTorch or NumPy does not support.
        NoRoom: the value does not fit into memory, or onto the device.
    """
    memory = mapped(descriptor)
    value, layout, end = _value_in(memory, place)
    if end < len(memory):
        raise PayloadError(f"{len(memory) - end} bytes follow the last leaf")
    return value, layout


def mapped(descriptor: int, *, populated: bool = True) -> mmap.mmap:
    """Map the whole memory at a descriptor into this process, with all its pages if `populated`.

    Raises:
        NoRoom: the mapping does not fit into the address space or memory.
    """
    size = os.fstat(descriptor).st_size
    if size < _PREFIX_BYTES:
        raise PayloadError(f"{size} bytes are not a payload")
    try:
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | (_MAP_POPULATE if populated else 0))
    except OSError as error:
        raise NoRoom(f"its {size} bytes cannot be mapped: {error}") from error


def value_in(memory: mmap.mmap, place: Placed, base: int = 0) -> Any:
    """Return the value that lies in `memory` from `base` on; see `read`.

    Raises:
        PayloadError: the bytes are not a payload, or hold a value that this Python, PyTorch or NumPy does not support.
        NoRoom: the value does not fit into memory, or onto the device.
    """
    return _value_in(memory, place, base)[0]


def _value_in(memory: mmap.mmap, place: Placed, base: int = 0) -> tuple[Any, Node, int]:
    start, layout = header(memory, base)
    reader = _Reader(memory, start, len(memory), place)
    return reader.value(layout, 0), layout, reader.end


def header(memory: mmap.mmap, base: int = 0) -> tuple[int, Any]:
    """Return the offset of the leaves of the payload at `base`, and its layout.

    Raises:
        PayloadError: the bytes are not a payload.
    """
    begin = base + _PREFIX_BYTES
    header_bytes = int.from_bytes(memory[base + len(MAGIC) : begin], "little")
    if memory[base : base + len(MAGIC)] != MAGIC or header_bytes > min(HEADER_BYTES_MAX, len(memory) - begin):
        raise PayloadError("the bytes are not a payload")
    try:
        layout = json.loads(memory[begin : begin + header_bytes])
    except (ValueError, RecursionError) as error:
        raise PayloadError("the layout is not JSON") from error
    return aligned(begin + header_bytes), layout


def same(descriptor: int, other: int, base: int = 0) -> bool:
    """Return whether a payload holds bit by bit the value that begins at `base` of `other`.

    The layouts of both are trusted.
    """
    with mapped(descriptor) as one, mapped(other) as two:
        (start, layout), (other_start, other_layout) = header(one), header(two, base)
        return layout == other_layout and all(
            one[start + at : start + at + length] == two[other_start + at : other_start + at + length]
            for at, length in ((leaf["at"], leaf_bytes(leaf)) for leaf, _ in leaves_of(layout) if "at" in leaf)
        )


def shapes(descriptor: int) -> tuple[tuple[int, ...], ...]:
    """Return the shape of each leaf of a payload, () for one that is no tensor or array; its layout is trusted."""
    with mapped(descriptor, populated=False) as memory:
        _, layout = header(memory)
    return tuple(tuple(leaf.get("shape", ())) for leaf, _ in leaves_of(layout))


def leaves_of(node: Node, place: str = "") -> Iterator[tuple[Node, str]]:
    """Yield each node of a layout other than a list, tuple or dict, in the order of their bytes, and its place."""
    if node["k"] not in NESTS:
        yield node, place
    for index, item in enumerate(node.get("items", ())):
        name = repr(node["keys"][index]) if node["k"] == "dict" else index
        yield from leaves_of(item, f"{place}[{name}]")


def leaf_bytes(node: Node) -> int:
    """Return the size of a leaf by its node."""
    return int(node["size"]) if node["k"] == "bytes" else math.prod(node["shape"]) * ITEM_BYTES[node["dtype"]]


def share_memory(*values: Any) -> bool:
    """Return whether two of `values` have tensors or arrays in the same memory."""
    return any_overlap([_extents(value) for value in values])


def any_overlap(groups: "Sequence[Sequence[tuple[int, int]]]") -> bool:
    """Return whether an extent (first address, address after the last byte) of one group meets one of another group."""
    extents = sorted((begin, end, place) for place, group in enumerate(groups) for begin, end in group)
    current, reached = -1, 0
    for begin, end, place in extents:
        if place == current:
            reached = max(reached, end)
        elif begin < reached:
            return True
        else:
            current, reached = place, end
    return False


def _extents(value: Any) -> list[tuple[int, int]]:
    """Return the first address of each tensor and array in `value`, and the address after its last byte."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor) and value.layout is torch.strided:
        if not value.numel():
            return []
        reach = sum((length - 1) * stride for length, stride in zip(value.shape, value.stride(), strict=True))
        return [(value.data_ptr(), value.data_ptr() + (reach + 1) * value.element_size())]
    if numpy is not None and isinstance(value, numpy.ndarray):
        return [_bounds(value)] if value.size else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [extent for item in value for extent in _extents(item)]
    return []


def _bounds(array: Any) -> tuple[int, int]:
    """Return the first address of a non-empty array, and the address after its last byte.

    NumPy 1 and 2 name the function differently.
    """
    steps = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    begin = array.ctypes.data + sum(step for step in steps if step < 0)
    return begin, begin + sum(map(abs, steps)) + array.itemsize


def dense(value: Any) -> Any:
    """Return `value` with its tensors and arrays made dense in memory, except those of large containers.

    The measured time includes this, so that writing an output costs every submission the same.
    """
    kind = type(value)
    if kind is list and len(value) <= _PARTS_MAX:
        return list(map(dense, value))
    # Not by the methods of a subclass, which can be anything.
    if issubclass(kind, tuple) and tuple.__len__(value) <= _PARTS_MAX:
        return tuple(map(dense, tuple.__iter__(value)))
    if kind is dict and len(value) <= _PARTS_MAX:
        return {key: dense(item) for key, item in value.items()}
    # A number in a list is looked at while the call is timed.
    if kind.__module__ == "builtins":
        return value
    value, torch, numpy = plain(value), sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(value) is torch.Tensor and value.layout is torch.strided:
        if torch.Tensor.is_contiguous(value):
            return value
        order = _memory_order(list(value.shape), list(value.stride()))
        return value if value.permute(order).is_contiguous() else torch.Tensor.contiguous(value)
    if numpy is not None and type(value) is numpy.ndarray:
        return numpy.ascontiguousarray(value).reshape(value.shape)
    return value


def without_names(value: Any) -> Any:
    """Return `value` with plain tuples for the named ones in it."""
    if isinstance(value, tuple):
        return tuple(map(without_names, tuple.__iter__(value)))
    if type(value) is list:
        return list(map(without_names, value))
    return {key: without_names(item) for key, item in value.items()} if type(value) is dict else value


def copied(value: Any) -> Any:
    """Return `value` with its tensors and arrays copied to memory of their own."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return torch.Tensor.detach(value).clone()
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value.copy()
    if type(value) is list:
        return list(map(copied, value))
    if isinstance(value, tuple):
        return tuple(map(copied, tuple.__iter__(value)))
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    return value


def plain(value: Any) -> Any:
    """Return the plain tensor in the memory of a tensor of a subclass or of another library's array.

    Without PyTorch it is a NumPy array. A value that is neither tensor nor array is returned as it is.

    Raises:
        PayloadError: the array cannot be taken; its cause is the library's or PyTorch's error.
    """
    torch, numpy, kind = sys.modules.get("torch"), sys.modules.get("numpy"), type(value)
    if torch and isinstance(value, torch.Tensor):
        return value if kind is torch.Tensor else _of_subclass(value, torch)
    protocol = next((each for each in _PROTOCOLS if hasattr(kind, each)), None)
    if protocol is None or (torch is None and numpy is None) or (numpy and isinstance(value, numpy.ndarray)):
        return value
    # JAX computes asynchronously; an error of the computation is raised here.
    if hasattr(kind, "block_until_ready"):
        value.block_until_ready()
    try:
        # PyTorch aborts the process at one in DLPack.
        if any(stride < 0 for stride in getattr(value, "strides", None) or ()):
            raise ValueError("it has a negative stride; return a contiguous copy")
        if protocol == "__dlpack__":
            # Both functions tell the producer to let the current stream wait for its work.
            return (torch or numpy).from_dlpack(value)  # type: ignore[union-attr]
        return _on_gpu(value, torch)
    except Exception as error:
        message = f"cannot convert the returned {_title(kind)} to a tensor: {type(error).__name__}: {error}"
        raise PayloadError(message) from error


def _of_subclass(value: Any, torch: Any) -> Any:
    """Return a plain tensor in the memory of a tensor of a subclass.

    Raises:
        PayloadError: it has no memory of its own, as a wrapper around other tensors.
    """
    try:
        return torch.Tensor.detach(value).as_subclass(torch.Tensor)
    except (RuntimeError, TypeError) as error:
        raise PayloadError(f"cannot convert the returned {_title(type(value))} to a tensor: {error}") from error


def _title(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _on_gpu(value: Any, torch: Any) -> Any:
    if torch is None:
        raise TypeError("it is in the memory of a GPU, but the task's values are in host memory")
    stream = value.__cuda_array_interface__.get("stream")
    # The default streams of threads wait for each other, and PyTorch ignores this key.
    if stream is not None and stream > _DEFAULT_STREAMS_MAX:
        torch.cuda.current_stream().wait_stream(torch.cuda.ExternalStream(stream))
    return torch.as_tensor(value, device="cuda")


def empty(form: Node, device: Any = "cpu") -> Any:
    """Return a value of the form `form` (only nested tensors and arrays) in new memory that holds poison."""
    kind = form["k"]
    if kind in ("list", "tuple"):
        items = [empty(item, device) for item in form["items"]]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {key: empty(item, device) for key, item in zip(form["keys"], form["items"], strict=True)}
    dtype, shape = form["dtype"], form["shape"]
    size, word = poison_of(dtype)
    count = math.prod(shape) * ITEM_BYTES[dtype] // size
    if kind == "array":
        import numpy as np

        return np.full(count, word, dtype=f"u{size}").view(np.dtype(dtype)).reshape(shape)
    if kind != "tensor":
        raise PayloadError(f"a {kind} has no memory of its own")
    import torch

    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    flat = torch.full((count,), word, dtype=words[size], device=device)
    return flat.view(getattr(torch, dtype)).reshape(shape)


def aligned(size: int) -> int:
    """Return the next offset from `size` on at which a leaf may begin."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Writer:
    """Converter of a value into nodes; collects the leaves to write and their offsets."""

    def __init__(self, leaves: list[_Leaf]) -> None:
        self._leaves = leaves
        self._end = 0
        self._nodes = 0

    def node(self, value: Any, place: str, depth: int) -> Node:
        self._nodes += 1
        if depth > _DEPTH_MAX or self._nodes > _NODES_MAX:
            raise PayloadError(f"{place} is nested or branched too far")
        kind = type(value)
        if value is None:
            return {"k": "none"}
        if kind in (bool, str):
            return {"k": kind.__name__, "v": value}
        if kind is int:
            if abs(value) >= 2**63:
                raise PayloadError(f"{place} is an integer wider than 63 bits")
            return {"k": "int", "v": value}
        if kind is float:
            return {"k": "float", "v": value.hex()}
        if kind is complex:
            return {"k": "complex", "v": [value.real.hex(), value.imag.hex()]}
        if kind in (bytes, bytearray):
            return {
                "k": "bytes",
                "size": len(value),
                "at": self._leaf(len(value), lambda: value),
            }
        # A named tuple, as torch.geqrf returns, arrives as a plain one.
        sequence = "list" if kind is list else "tuple" if issubclass(kind, tuple) else ""
        if sequence:
            parts = value if kind is list else tuple.__iter__(value)
            items = [self.node(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(parts)]
            return {"k": sequence, "items": items}
        if kind is dict:
            return self._dict(value, place, depth)
        return self._foreign(value, place)

    def _dict(self, value: "dict[Any, Any]", place: str, depth: int) -> Node:
        keys = list(value)
        if not all(type(key) in (str, int) for key in keys):
            raise PayloadError(f"{place} is a dict with keys that are neither text nor whole numbers")
        items = [self.node(value[key], f"{place}[{key!r}]", depth + 1) for key in keys]
        return {"k": "dict", "keys": keys, "items": items}

    def _foreign(self, value: Any, place: str) -> Node:
        torch = sys.modules.get("torch")
        numpy = sys.modules.get("numpy")
        kind = type(value)
        if torch is not None:
            if isinstance(value, torch.Tensor):
                return self._tensor(torch, plain(value), place)
            if kind is torch.dtype:
                return {"k": "dtype", "v": str(value).rpartition(".")[2]}
            if kind is torch.Size:
                return {"k": "tuple", "items": [{"k": "int", "v": int(item)} for item in value]}
        if numpy is not None:
            if kind is numpy.ndarray:
                return self._array(value, place)
            if isinstance(value, numpy.generic):
                return self._array(numpy.asarray(value), place)
        raise PayloadError(
            f"{place} is a {_title(kind)}; values are lists, tuples and dicts of tensors, arrays, numbers and text"
        )

    def _tensor(self, torch: Any, value: Any, place: str) -> Node:
        dtype = str(value.dtype).rpartition(".")[2]
        if dtype not in ITEM_BYTES or value.layout is not torch.strided or value.is_meta:
            message = f"{place} is a tensor of type {value.dtype} and layout {value.layout} on {value.device}"
            raise PayloadError(message)
        with torch.no_grad():
            plain = torch.Tensor.detach(value).resolve_conj().resolve_neg()
        order = _memory_order(list(plain.shape), list(plain.stride()))
        node: Node = {"k": "tensor", "dtype": dtype, "shape": list(plain.shape)}
        if order != list(range(plain.dim())):
            node["order"] = order
            plain = plain.permute(order)

        def source() -> Any:
            return _bytes_of(plain.to("cpu").contiguous(), torch)

        node["at"] = self._leaf(plain.numel() * ITEM_BYTES[dtype], source, plain)
        return node

    def _array(self, value: Any, place: str) -> Node:
        dtype = str(value.dtype)
        # Other libraries add types to NumPy, which the reader of the payload may lack.
        if dtype not in ITEM_BYTES or value.dtype.kind == "V":
            raise PayloadError(f"{place} is an array of type {dtype}")
        numpy = sys.modules["numpy"]

        def source() -> Any:
            return numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)

        return {
            "k": "array",
            "dtype": dtype,
            "shape": list(value.shape),
            "at": self._leaf(value.nbytes, source),
        }

    def _leaf(self, length: int, source: Callable[[], Any], tensor: Any = None) -> int:
        at = self._end
        self._end = aligned(at + length)
        self._leaves.append((at, length, source, tensor))
        return at


def _bytes_of(tensor: Any, torch: Any) -> Any:
    """Return the bytes of a contiguous tensor as a flat one; the stride of a single element may be any number."""
    return torch.as_strided(tensor, (tensor.numel(),), (1,)).view(torch.uint8)


def write_at(descriptor: int, at: int, content: Any) -> None:
    """Write the bytes of a tensor in host memory, or of any bytes-like object, into a file from `at` on."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(content, torch.Tensor):
        # A second name beside `content`: no other reference to the tensor may exist.
        raw = (ctypes.c_char * content.numel()).from_address(content.data_ptr())
    else:
        raw = content
    with memoryview(raw).cast("B") as view:
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], at + done)


def address(value: Any) -> int:
    """Return the first address of a dense tensor's or array's bytes; 0 for anything else."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr()) if value.is_contiguous() else 0
    return int(value.__array_interface__["data"][0]) if hasattr(value, "__array_interface__") else 0


def _memory_order(shape: list[int], strides: list[int]) -> list[int]:
    """Return the dimensions from the slowest to the fastest in memory; row-major if the tensor is not dense."""
    dense = sorted((index for index, length in enumerate(shape) if length != 1), key=lambda index: strides[index])
    expected = 1
    for index in dense:
        if strides[index] != expected:
            return list(range(len(shape)))
        expected *= shape[index]
    single = [index for index, length in enumerate(shape) if length == 1]
    order = single + dense[::-1]
    return list(range(len(shape))) if dense[::-1] == sorted(dense) else order


class _Reader:
    """Converter of untrusted nodes into values."""

    def __init__(self, memory: mmap.mmap, start: int, size: int, place: Placed) -> None:
        self._memory = memory
        self._start = start
        self._size = size
        self._place_on_device = place
        self._nodes = 0
        self.end = start
        """End offset of the last leaf so far."""

    def value(self, node: Any, depth: int) -> Any:
        self._nodes += 1
        if depth > _DEPTH_MAX or self._nodes > _NODES_MAX or not isinstance(node, dict):
            raise PayloadError("the layout is not a tree of nodes")
        kind = node.get("k")
        if kind == "none":
            return None
        if kind in ("bool", "int", "str"):
            return self._scalar(node, {"bool": bool, "int": int, "str": str}[kind])
        if kind == "float":
            return self._float(node.get("v"))
        if kind == "complex":
            real, imaginary = self._list(node, "v", 2)
            return complex(self._float(real), self._float(imaginary))
        if kind in ("list", "tuple"):
            items = [self.value(item, depth + 1) for item in self._list(node, "items")]
            return items if kind == "list" else tuple(items)
        if kind == "dict":
            return self._dict(node, depth)
        if kind == "bytes":
            return _built(self._bytes, node)
        if kind == "tensor":
            return self._on_device(_built(self._tensor, node))
        if kind == "array":
            return _built(self._array, node)
        if kind == "dtype":
            return _built(self._dtype, node)
        raise PayloadError(f"the layout has a node of the kind {kind!r}"[:200])

    def _scalar(self, node: Node, expected: type) -> Any:
        value = node.get("v")
        if type(value) is not expected:
            raise PayloadError(f"a node of the kind {node['k']} holds something else")
        if type(value) is int and abs(value) >= 2**63:
            raise PayloadError("an integer wider than 63 bits")
        return value

    def _float(self, text: Any) -> float:
        try:
            return float.fromhex(text)
        except (TypeError, ValueError, OverflowError):
            raise PayloadError("a float is not written as one") from None

    def _list(self, node: Node, key: str, length: "int | None" = None) -> "list[Any]":
        items = node.get(key)
        if not isinstance(items, list) or (length is not None and len(items) != length):
            raise PayloadError(f"a node of the kind {node['k']} has no proper {key}")
        return items

    def _dict(self, node: Node, depth: int) -> "dict[Any, Any]":
        keys = self._list(node, "keys")
        items = self._list(node, "items", len(keys))
        # Whole numbers from 2^61 - 1 on can be chosen to collide in the hash table, and a set of such keys takes
        # quadratic time.
        if len(keys) > _NODES_MAX or not all(
            type(key) is str or (type(key) is int and abs(key) < 2**61 - 1) for key in keys
        ):
            raise PayloadError("a dict has invalid keys, or too many")
        if len(set(keys)) != len(keys):
            raise PayloadError("a dict has a duplicate key")
        return {key: self.value(item, depth + 1) for key, item in zip(keys, items, strict=True)}

    def _count(self, value: Any) -> int:
        if type(value) is not int or not 0 <= value <= self._size:
            raise PayloadError("a size or offset is out of range")
        return value

    def _place(self, node: Node, length: int) -> int:
        at = self._start + self._count(node.get("at"))
        if at + length > self._size:
            raise PayloadError("a leaf reaches beyond the payload")
        self.end = max(self.end, at + length)
        return at

    def _extent(self, node: Node) -> "tuple[str, list[int], int, int]":
        dtype, shape = node.get("dtype"), self._list(node, "shape")
        if dtype not in ITEM_BYTES or len(shape) > 64:
            raise PayloadError(f"a leaf of the type {dtype!r}"[:200])
        if not all(type(length) is int and 0 <= length < 2**48 for length in shape):
            raise PayloadError("a leaf with an invalid shape")
        if math.prod(length for length in shape if length) > _ITEMS_MAX:
            raise PayloadError("a leaf with a shape that is too large")
        count = math.prod(shape)
        return dtype, shape, count, self._place(node, count * ITEM_BYTES[dtype])

    def _tensor(self, node: Node) -> Any:
        import torch

        dtype, shape, count, at = self._extent(node)
        order = node.get("order", list(range(len(shape))))
        if not isinstance(order, list) or sorted(order, key=str) != sorted(range(len(shape)), key=str):
            raise PayloadError("a tensor with an invalid memory order")
        of_type = getattr(torch, dtype)
        if count == 0:
            flat = torch.empty(0, dtype=of_type, device="cpu")
        else:
            length = count * ITEM_BYTES[dtype]
            flat = torch.frombuffer(self._memory, dtype=torch.uint8, count=length, offset=at).view(of_type)
        stored = flat.reshape([shape[index] for index in order])
        inverse = sorted(range(len(shape)), key=lambda index: order[index])
        return stored.permute(inverse)

    def _on_device(self, tensor: Any) -> Any:
        try:
            return self._place_on_device(tensor)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            raise NoRoom(f"a tensor of {tensor.nbytes} bytes does not fit onto the device: {error}") from error

    def _bytes(self, node: Node) -> bytes:
        at = self._place(node, self._count(node.get("size")))
        return self._memory[at : at + node["size"]]

    def _dtype(self, node: Node) -> Any:
        import torch

        if node.get("v") not in ITEM_BYTES:
            raise PayloadError("an unknown dtype")
        return getattr(torch, node["v"])

    def _array(self, node: Node) -> Any:
        import numpy as np

        dtype, shape, count, at = self._extent(node)
        return np.frombuffer(self._memory, dtype=np.dtype(dtype), count=count, offset=at).reshape(shape)


def _built(build: "Callable[[Node], Any]", node: Node) -> Any:
    """Return `build(node)`; a refusal by PyTorch or NumPy is an error of the node."""
    try:
        return build(node)
    except PayloadError:
        raise
    except MemoryError as error:
        raise NoRoom(f"no memory for a node of the kind {node['k']}") from error
    except (AttributeError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise PayloadError(f"a node of the kind {node['k']} cannot be built: {error}"[:1000]) from error
