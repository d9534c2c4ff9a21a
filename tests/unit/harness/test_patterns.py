"""The places of wrong elements in words."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.harness.judge.patterns import SCATTERED, pattern

Index = tuple[int, ...]


def words(shape: Sequence[int], is_wrong: Callable[[Index], bool]) -> str:
    """The pattern of the elements for which `is_wrong` holds."""
    mask = bytearray(math.prod(shape))
    marks = [bytearray(length) for length in shape]
    for at, index in enumerate(product(*map(range, shape))):
        if is_wrong(index):
            mask[at] = 1
            for mark, position in zip(marks, index, strict=True):
                mark[position] = 1
    return pattern(shape, mask.count(1), marks, mask, lambda: None)


@pytest.mark.parametrize(
    ("shape", "is_wrong", "told"),
    [
        ((100,), lambda _: True, "all elements"),
        ((100, 3), lambda at: at == (7, 2), "one element"),
        ((1000,), lambda at: at[0] >= 963, "the last 37 elements"),
        ((1000,), lambda at: at[0] < 2, "the first 2 elements"),
        ((1000,), lambda at: 5 <= at[0] <= 9, "elements 5 to 9"),
        ((1000,), lambda at: at[0] % 4 == 1, "every 4th element from 1 to 997"),
        ((1000,), lambda at: at[0] % 3 == 0, "every 3rd element from 0 to 999"),
        ((1024,), lambda at: at[0] % 256 >= 250, "the tail of each block of 256 elements (the last 6)"),
        ((1000,), lambda at: at[0] % 64 == 63, "every 64th element from 63 to 959"),
        ((1024,), lambda at: at[0] % 128 < 2, "the head of each block of 128 elements (the first 2)"),
        ((1024,), lambda at: 3 <= at[0] % 32 < 6, "3 to 5 of each block of 32 elements"),
        (
            (1024,),
            lambda at: at[0] % 256 >= 250 and at[0] % 5,
            "all in the tail of each block of 256 elements (the last 6)",
        ),
        ((50, 40), lambda at: at[0] >= 13, "the last 37 rows"),
        ((50, 40), lambda at: at[0] >= 40 and (at[0] + at[1]) % 7, "all in the last 10 rows"),
        ((50, 40), lambda at: at[0] == 13, "one row, 13"),
        ((50, 40), lambda at: at[1] == 39, "one column, 39"),
        ((50, 40), lambda at: at[1] % 2 == 0, "every 2nd column from 0 to 38"),
        ((50, 40), lambda at: at[0] in (3, 17, 44), "the rows 3, 17, 44"),
        ((50, 40), lambda at: 3 <= at[0] < 8 and 10 <= at[1] < 20, "a rectangle: rows 3 to 7, columns 10 to 19"),
        ((50, 40), lambda at: at[0] >= 40 and at[1] % 8 == 7, "the last 10 rows and every 8th column from 7 to 39"),
        ((50, 40), lambda at: 100 <= 40 * at[0] + at[1] < 170, "elements 100 to 169 in row-major order"),
        ((50, 40), lambda at: (40 * at[0] + at[1]) % 7 == 0, "every 7th element from 0 to 1995 in row-major order"),
        ((4, 8, 8), lambda at: at[0] == 3, "one index of dimension 0, 3"),
        ((4, 8, 8), lambda at: at[2] >= 6, "the last 2 indices of dimension 2"),
        ((100, 100), lambda at: (at[0] * 37 + at[1] * 61) % 101 < 7, SCATTERED),
        ((1000,), lambda at: at[0] * 7919 % 1000 < 600, SCATTERED),
        ((1000,), lambda at: at[0] in (3, 500, 777), SCATTERED),
    ],
)
def test_a_set_of_elements_has_its_words(shape: Index, is_wrong: Callable[[Index], bool], told: str) -> None:
    assert words(shape, is_wrong) == told


@given(st.integers(2, 60), st.integers(2, 60), st.data())
def test_every_whole_rectangle_is_told_exactly(rows: int, columns: int, data: st.DataObject) -> None:
    top, left = (data.draw(st.integers(0, length - 1)) for length in (rows, columns))
    bottom, right = data.draw(st.integers(top, rows - 1)), data.draw(st.integers(left, columns - 1))
    told = words((rows, columns), lambda at: top <= at[0] <= bottom and left <= at[1] <= right)
    whole = (bottom - top + 1 == rows, right - left + 1 == columns)
    if all(whole):
        assert told == "all elements"
    elif (top, left) == (bottom, right):
        assert told == "one element"
    else:
        assert told.startswith("a rectangle: ") is not any(whole)
        assert ("row" in told, "column" in told) == (not whole[0], not whole[1])
        assert not told.startswith("all in")


@given(st.integers(2, 40), st.integers(4, 12), st.data())
def test_every_k_th_element_is_told_exactly(step: int, count: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, step - 1))
    length = first + step * count - data.draw(st.integers(0, step - 1))
    told = words((length,), lambda at: at[0] % step == first)
    last = range(first, length, step)[-1]
    assert told.startswith(f"every {step}")
    assert told.endswith(f" element from {first} to {last}")


@given(st.sampled_from([8, 16, 64]), st.integers(4, 8), st.data())
def test_the_tail_of_each_block_is_told_exactly(block: int, blocks: int, data: st.DataObject) -> None:
    tail = data.draw(st.integers(2, block // 2))
    told = words((block * blocks,), lambda at: at[0] % block >= block - tail)
    assert told == f"the tail of each block of {block} elements (the last {tail})"


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.randoms(use_true_random=False), st.floats(0, 1))
def test_words_of_any_set_hold(shape: list[int], random: Random, share: float) -> None:
    wrong = {index for index in product(*map(range, shape)) if random.random() < share} or {(0,) * len(shape)}
    told = words(shape, wrong.__contains__)
    assert (told == "all elements") == (len(wrong) == math.prod(shape))
    if told.startswith(("the last", "all in the last")) and told.endswith("rows"):
        least = shape[0] - int(told.split("last ")[1].split()[0])
        assert min(index[0] for index in wrong) == least
