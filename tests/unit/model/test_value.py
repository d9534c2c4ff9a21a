"""Values do what frozen dataclasses do, without the cost of making one at import."""

import copy
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import msgspec
import pytest

from hpc_board.model.value import Value, made


class Inner(Value):
    number: int = 1


class Outer(Value):
    name: str
    inner: Inner = Inner()
    facts: Mapping[str, Any] = made(default_factory=dict)
    several: tuple[Inner, ...] = ()


INNER = Inner()


@dataclass(frozen=True)
class Twin:
    """`Outer` as a dataclass."""

    name: str
    inner: Inner = INNER
    facts: Mapping[str, Any] = field(default_factory=dict)
    several: tuple[Inner, ...] = ()


def test_values_with_equal_fields_are_equal_and_those_of_other_classes_are_not() -> None:
    assert Outer("a") == Outer(name="a", inner=Inner(1))
    assert Outer("a") != Outer("b")
    assert Outer("a") != Twin("a")
    assert hash(Inner(2)) == hash(Inner(number=2))
    assert {Inner(1), Inner(), Inner(2)} == {Inner(1), Inner(2)}


def test_a_value_is_shown_as_a_dataclass_is() -> None:
    assert repr(Outer("a", facts={"b": 1})).replace("Outer", "Twin") == repr(Twin("a", facts={"b": 1}))


def test_each_value_has_a_made_default_of_its_own() -> None:
    assert Outer("a").facts == {}
    assert Outer("a").facts is not Outer("a").facts


def test_a_value_is_frozen() -> None:
    value: Any = Inner()
    with pytest.raises(AttributeError, match="frozen"):
        value.number = 2
    with pytest.raises(AttributeError, match="frozen"):
        del value.number
    assert value == Inner()


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), (("a", 1, {}, (), 5), {}), (("a",), {"name": "b"}), (("a",), {"x": 1})]
)
def test_fields_are_given_once_and_none_is_missing_or_unknown(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Outer(*given, **named)


def test_the_functions_of_dataclasses_take_a_value() -> None:
    value = Outer("a", several=(Inner(3),))
    twin = Twin("a", several=(Inner(3),))
    assert is_dataclass(value)
    assert [(each.name, each.type) for each in fields(value)] == [(each.name, each.type) for each in fields(twin)]
    assert (
        asdict(value) == asdict(twin) == {"name": "a", "inner": {"number": 1}, "facts": {}, "several": ({"number": 3},)}
    )
    assert replace(value, name="b") == Outer("b", several=(Inner(3),))
    assert fields(Inner)[0].default == 1


def test_a_value_can_be_copied_pickled_matched_and_encoded() -> None:
    value = Outer("a")
    assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - bytes of our own
    assert msgspec.to_builtins(value) == {"name": "a", "inner": {"number": 1}, "facts": {}, "several": ()}
    match value:
        case Outer(name, Inner(number)):
            assert (name, number) == ("a", 1)
