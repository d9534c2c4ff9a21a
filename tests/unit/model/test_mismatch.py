"""The details of wrong values as they come from a judge or from `result.json`: of any form."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from hpc_board.model.mismatch import PLACES_MAX, Mismatch, Place

WHOLE = Mismatch(
    shape=(2, 3),
    elements=6,
    wrong=2,
    pattern="one row, 1",
    largest_absolute=0.5,
    largest_relative=None,
    places=(Place((1, 0), "nan", "1.5"),),
    part="output[1]",
)


def changed(**values: Any) -> Any:
    return {**json.loads(json.dumps(asdict(WHOLE))), **values}


def test_a_mismatch_is_read_as_it_was_written() -> None:
    assert Mismatch.of(changed()) == WHOLE


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        changed(elements=-1),
        changed(elements=True),
        changed(wrong=2**63),
        changed(shape=[1] * 65),
        changed(shape=["1"]),
        changed(largest_absolute=float("nan")),
        changed(largest_relative=-1),
        changed(pattern=7),
        changed(places=[{"index": [0], "got": "1", "expected": "2"}] * (PLACES_MAX + 1)),
        changed(places=["x"]),
        changed(places=[{"index": 1, "got": "1", "expected": "2"}]),
        changed(places=[{"index": [1]}]),
    ],
)
def test_an_ill_formed_mismatch_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each fault has words of its own
        Mismatch.of(value)


def test_texts_are_bounded_and_on_one_line() -> None:
    found = Mismatch.of(
        changed(pattern="\x1b[31mrows\n" * 1000, places=[{"index": [], "got": "9" * 999, "expected": ""}])
    )
    assert (len(found.pattern), "\x1b" in found.pattern, "\n" in found.pattern) == (300, False, False)
    assert len(found.places[0].got) == 64
