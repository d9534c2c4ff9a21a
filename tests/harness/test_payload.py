"""Values that cross between judge and worker, and bytes that only claim to be some."""

import json
import math
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.harness.wire.payload import MAGIC, PayloadError, TooLarge, read, share_memory, write

LIMIT = 2**28


@pytest.fixture
def memory() -> Iterator[int]:
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC)
    yield descriptor
    os.close(descriptor)


def through(value: Any) -> Any:
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC)
    try:
        write(value, descriptor, LIMIT)
        return read(descriptor)[0]
    finally:
        os.close(descriptor)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text("abc") | st.integers(0, 9), inner)
    ),
    max_leaves=20,
)


@given(values)
def test_nested_values_come_back_as_they_were(value: Any) -> None:
    assert through(value) == value


def test_a_nan_comes_back_as_one() -> None:
    assert math.isnan(through([float("nan")])[0])


@pytest.mark.torch
def test_tensors_of_every_type_shape_and_memory_order_come_back_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    names = ("bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64", "float8_e4m3fn")
    tensors = [base.to(getattr(torch, name)) for name in names]
    tensors += [base.permute(2, 0, 1), base[:, ::2], base.transpose(0, 2)]
    tensors += [torch.tensor(7.5), torch.empty(0, 3), base.unsqueeze(0).expand(2, 2, 3, 4), base[0].t().unsqueeze(1)]
    for tensor in tensors:
        (back,) = through((tensor,))
        assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (back, tensor)))


@pytest.mark.torch
def test_a_tensor_keeps_the_order_in_which_it_lies_in_memory() -> None:
    torch = pytest.importorskip("torch")
    transposed = torch.arange(6.0).reshape(2, 3).t()
    assert through([transposed])[0].stride() == transposed.stride()


@pytest.mark.torch
def test_a_tensor_of_a_subclass_is_its_data(memory: int) -> None:
    torch = pytest.importorskip("torch")
    kind = type("Kind", (torch.Tensor,), {})
    (back,) = through([torch.arange(2.0).as_subclass(kind)])
    assert (type(back), back.tolist()) == (torch.Tensor, [0, 1])
    other = type("Kind", (torch.Tensor,), {"__torch_dispatch__": classmethod(lambda *_: NotImplemented)})
    wrapper = torch.Tensor._make_wrapper_subclass(other, (2,))
    with pytest.raises(PayloadError, match="Kind"):
        write([wrapper], memory, LIMIT)


@pytest.mark.parametrize("dtype", ["int16", "bool", "complex64"])
def test_arrays_come_back(dtype: str) -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6).astype(dtype).reshape(2, 3).T
    back = through({"a": array})["a"]
    assert back.dtype == array.dtype
    assert (back == array).all()


@pytest.mark.parametrize(
    ("value", "told"), [(b"x" * 1000, "more than the limit of 500"), ("x" * 2**24, "its layout takes 16777")]
)
def test_a_value_over_the_limit_is_refused(memory: int, value: object, told: str) -> None:
    with pytest.raises(TooLarge, match=told):
        write(value, memory, 500)


@pytest.mark.parametrize("value", [object(), {1.5: 2}, 2**63, {1, 2}, [[object()]]])
def test_what_has_no_form_is_refused_with_its_place(memory: int, value: Any) -> None:
    with pytest.raises(PayloadError, match=r"^it"):
        write(value, memory, LIMIT)


def forged(layout: Any, data: bytes = b"") -> bytes:
    header = layout if isinstance(layout, bytes) else json.dumps(layout).encode()
    start = -(-(16 + len(header)) // 64) * 64
    return (MAGIC + len(header).to_bytes(8, "little") + header).ljust(start, b"\0") + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 200,
        MAGIC + (2**60).to_bytes(8, "little"),
        forged(b"{"),
        forged(b"[" * 100_000),
        forged([]),
        forged({"k": "pickle"}),
        forged({"k": "int", "v": True}),
        forged({"k": "int", "v": "1"}),
        forged({"k": "float", "v": 1}),
        forged({"k": "float", "v": "0x1p99999"}),
        forged({"k": "list"}),
        forged({"k": "dict", "keys": ["a", "a"], "items": [{"k": "none"}, {"k": "none"}]}),
        forged({"k": "dict", "keys": [[]], "items": [{"k": "none"}]}),
        forged({"k": "bytes", "size": 100, "at": 0}, b"short"),
        forged({"k": "bytes", "size": -1, "at": 0}, b"short"),
        forged({"k": "bytes", "size": 1, "at": -1}, b"short"),
        forged({"k": "array", "dtype": "float32", "shape": [1000], "at": 0}, b"short"),
        forged({"k": "array", "dtype": "float32", "shape": [2**40, 2**40], "at": 0}, b"short"),
        forged({"k": "array", "dtype": "object", "shape": [1], "at": 0}, b"x" * 8),
        forged({"k": "array", "dtype": "float32", "shape": [True], "at": 0}, b"x" * 8),
        forged({"k": "tensor", "dtype": "float32", "shape": [1], "at": 0, "order": [1]}, b"x" * 8),
        forged({"k": "tensor", "dtype": "float32", "shape": [1, 1], "at": 0, "order": [0, 0]}, b"x" * 8),
        forged({"k": "dtype", "v": "system"}),
        forged({"k": "dtype", "v": []}),
        forged({"k": "int", "v": 2**63}),
        forged({"k": "tensor", "dtype": [], "shape": [1], "at": 0}, b"x" * 8),
        forged({"k": "tensor", "dtype": "float32", "shape": [2**47, 2**47, 0], "at": 0}),
        forged({"k": "tensor", "dtype": "float32", "shape": [2**40, 2**21, 2, 0], "at": 0}),
        forged({"k": "tensor", "dtype": "float32", "shape": [1, 1], "at": 0, "order": [0.0, 1]}, b"x" * 8),
        forged({"k": "array", "dtype": "float32", "shape": [2**47, 2**47, 0], "at": 0}),
        forged({"k": "array", "dtype": "bfloat16", "shape": [1], "at": 0}, b"x" * 8),
        forged({"k": "array", "dtype": "float32", "shape": [1] * 65, "at": 0}, b"x" * 8),
    ],
)
def test_bytes_that_only_claim_to_be_a_value_are_refused(memory: int, data: bytes) -> None:
    os.write(memory, data)
    with pytest.raises(PayloadError):
        read(memory)


@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_bytes_do_anything_but_be_read_or_refused(noise: bytes, where: int) -> None:
    whole = bytearray(forged({"k": "list", "items": [{"k": "bytes", "size": 4, "at": 0}]}, b"abcd"))
    whole[where : where + len(noise)] = noise
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, whole)
        read(descriptor)
    except PayloadError:
        return
    finally:
        os.close(descriptor)


def test_keys_that_are_chosen_to_collide_are_refused_before_they_meet(memory: int) -> None:
    keys = ",".join(str((2**61 - 1) * (index + 1) % 2**63) for index in range(20_000))
    header = f'{{"k":"dict","keys":[{keys}],"items":[{",".join("0" * 20_000)}]}}'.encode()
    os.write(memory, MAGIC + len(header).to_bytes(8, "little") + header + b"\0" * 128)
    with pytest.raises(PayloadError, match="invalid keys"):
        read(memory)


def test_values_share_memory_where_parts_of_two_overlap_and_not_of_one() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(100)
    apart = [{"a": array[:50], "b": [array[10:20]]}, array[50:60], array[60:]]
    assert not share_memory(*apart)
    assert not share_memory(array[:0], array, 3, "text")
    assert share_memory(*apart, array[49:50])
    assert share_memory(array[60:], array[:10], array[70:71])
