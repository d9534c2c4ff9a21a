"""Comparison of an output's form with the reference answer's: differences for the task's check, and final ones."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpc_board.harness.wire import payload
from hpc_board.model.result import Verdict
from hpc_board.model.text import with_article

_SEQUENCES = ("list", "tuple")
_NUMBERS = ("bool", "int", "float", "complex")


@dataclass(frozen=True)
class Difference:
    """A difference between the form of an output and that of the reference's answer.

    A `final` difference fails the output whatever a check says; any other is left to the task's check.
    """

    verdict: Verdict
    message: str
    final: bool


def layout_difference(expected: payload.Node, got: payload.Node) -> Difference | None:
    """Return the gravest difference between an output's form and the right one, None if they are equal."""
    found = form_differences(expected, got, "the output")
    return min(found, key=lambda each: (not each.final, each.verdict is Verdict.WRONG_DTYPE), default=None)


def form_differences(expected: payload.Node, got: payload.Node, place: str) -> Iterator[Difference]:
    """Yield each difference between a form and the right one; a list serves as a tuple.

    The task's check decides which dtype and which shape are right. Only differences that it cannot look at are final:
    another structure, and a shape by which it would compare numbers that do not exist.
    """
    kinds = expected["k"], got["k"]
    if kinds[0] in _SEQUENCES and kinds[1] in _SEQUENCES:
        yield from _differences_of_parts(expected["items"], got["items"], range(len(expected["items"])), place)
    elif kinds[0] != kinds[1]:
        message = f"{place} is {with_article(kinds[1])}, expected {with_article(kinds[0])}"
        yield Difference(Verdict.WRONG_DTYPE, message, final=not set(kinds) <= set(_NUMBERS))
    elif kinds[0] == "dict":
        yield from _differences_of_dict(expected, got, place)
    else:
        yield from _differences_of_tensor(expected, got, place)


def _differences_of_tensor(expected: payload.Node, got: payload.Node, place: str) -> Iterator[Difference]:
    if "dtype" in expected and expected["dtype"] != got["dtype"]:
        message = f"{place} has the type {got['dtype']}, expected {expected['dtype']}"
        yield Difference(Verdict.WRONG_DTYPE, message, final=False)
    if "shape" in expected and expected["shape"] != got["shape"]:
        message = f"{place} has the shape {tuple(got['shape'])}, expected {tuple(expected['shape'])}"
        final = _compares_missing_numbers(got["shape"], expected["shape"])
        yield Difference(Verdict.WRONG_SHAPE, message, final=final)


def _compares_missing_numbers(got: Sequence[int], expected: Sequence[int]) -> bool:
    """Return whether an output has fewer numbers than the right one, or the two broadcast to more than either has.

    A check that compares by broadcasting would let an empty output pass, or one number in place of many.
    """
    counts = math.prod(got), math.prod(expected)
    if counts[0] < counts[1]:
        return True
    longest = max(len(got), len(expected))
    pairs = list(zip(*([1] * (longest - len(each)) + list(each) for each in (got, expected)), strict=True))
    fits = all(one == other or 1 in (one, other) for one, other in pairs)
    return fits and math.prod(map(max, pairs)) > max(counts)


def _differences_of_dict(expected: payload.Node, got: payload.Node, place: str) -> Iterator[Difference]:
    if set(expected["keys"]) != set(got["keys"]):
        message = f"{place} has the keys {got['keys']!r}, expected {expected['keys']!r}"
        yield Difference(Verdict.WRONG_SHAPE, message, final=True)
        return
    by_key = dict(zip(got["keys"], got["items"], strict=True))
    parts = [by_key[key] for key in expected["keys"]]
    yield from _differences_of_parts(expected["items"], parts, map(repr, expected["keys"]), place)


def _differences_of_parts(
    expected: Sequence[payload.Node], got: Sequence[payload.Node], names: Iterable[object], place: str
) -> Iterator[Difference]:
    if len(expected) != len(got):
        message = f"{place} has {len(got)} parts, expected {len(expected)}"
        yield Difference(Verdict.WRONG_SHAPE, message, final=True)
        return
    for name, wanted, found in zip(names, expected, got, strict=True):
        yield from form_differences(wanted, found, f"{place}[{name}]")
