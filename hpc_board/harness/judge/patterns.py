"""The places of wrong elements in words: rows, columns, the tail of each block, every k-th element, a rectangle."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

SCATTERED = "scattered"

_DENSE = 0.5
"""Least share of a described set that is wrong, for the words to be of use."""

_PART_MAX = 0.75
"""Largest share of all elements in a set that has right elements, too: random errors are in nearly all of them."""

_BLOCKS = tuple(2**power for power in range(2, 17))
_REPEATS_MIN = 4
_LISTED_MAX = 5
_GAPS = 64


@dataclass(frozen=True)
class _Described:
    """A set of positions along one dimension that contains all marked ones: its words and its size."""

    words: str
    size: int
    contiguous: bool = False
    scattered: bool = False


def pattern(
    shape: Sequence[int], count: int, marks: Sequence[bytearray], mask: bytearray, check_time: Callable[[], None]
) -> str:
    """Return the pattern of `count` wrong elements, at least one.

    `mask` has 1 for each wrong element in row-major order. `marks` has, for each dimension, 1 for each position with a
    wrong element. `check_time` is called before each pass over a dimension, and may raise to end the search.
    """
    if count == len(mask):
        return "all elements"
    if count == 1:
        return "one element"
    found = [*_by_dimension(shape, count, marks, check_time)]
    if len(shape) > 1 and not any(size == count for _, size in found):
        one = _described(mask, "elements", check_time)
        if not one.scattered and _tells(count, one.size, shape):
            found.append((f"{one.words} in row-major order", one.size))
    if not found:
        return SCATTERED
    words, size = next((each for each in found if each[1] == count), found[0])
    return words if size == count else f"all in {words}"


def _tells(count: int, size: int, shape: Sequence[int]) -> bool:
    """Return whether it is of use to know that `count` wrong elements are in a set of this size."""
    return count == size or (count >= _DENSE * size and size <= _PART_MAX * math.prod(shape))


def _by_dimension(
    shape: Sequence[int], count: int, marks: Sequence[bytearray], check_time: Callable[[], None]
) -> Iterator[tuple[str, int]]:
    """Yield the words and the size of a set with one range, or the like, in each dimension, unless it tells nothing."""
    names = _names(shape)
    each = [_described(mark, name, check_time) for mark, name in zip(marks, names, strict=True)]
    size = math.prod(one.size for one in each)
    partial = [one for one, length in zip(each, shape, strict=True) if one.size < length]
    scattered = sum(one.scattered for one in partial)
    if not partial or not _tells(count, size, shape):
        return
    if scattered and (len(shape) == 1 or len(partial) > 1 or count < size):
        return
    words = " and ".join(one.words for one in partial)
    if len(partial) > 1 and all(one.contiguous for one in partial):
        words = "a rectangle: " + ", ".join(one.words for one in partial)
    yield words, size


def _names(shape: Sequence[int]) -> list[str]:
    if len(shape) <= 2:
        return ["rows", "columns"] if len(shape) == 2 else ["elements"]
    return [f"indices of dimension {number}" for number in range(len(shape))]


def _described(mark: bytearray, noun: str, check_time: Callable[[], None]) -> _Described:
    """Return the description of the marked positions, at least one, of which most are marked."""
    check_time()
    count, length = mark.count(1), len(mark)
    listed = _Described(f"{count} scattered {noun}", count, scattered=True)
    if count <= _LISTED_MAX:
        at = ", ".join(map(str, _positions(mark, count)))
        listed = _Described(f"the {noun} {at}", count, scattered=True)
    candidates = [
        _range(mark, noun, length),
        *_progression(mark, noun, count, check_time),
        *_blocks(mark, noun, count, check_time),
    ]
    best = max(candidates, key=lambda each: count / each.size)
    return best if count >= _DENSE * best.size else listed


def _range(mark: bytearray, noun: str, length: int) -> _Described:
    first, last = mark.find(1), mark.rfind(1)
    size = last - first + 1
    if size == length:
        words = f"all {noun}"
    elif size == 1:
        words = f"one {_singular(noun)}, {first}"
    elif first == 0:
        words = f"the first {size} {noun}"
    elif last == length - 1:
        words = f"the last {size} {noun}"
    else:
        words = f"{noun} {first} to {last}"
    return _Described(words, size, contiguous=True)


def _progression(mark: bytearray, noun: str, count: int, check_time: Callable[[], None]) -> Iterator[_Described]:
    """Yield "every k-th", if all marked positions are in it."""
    positions = _positions(mark, _GAPS)
    step = math.gcd(*(two - one for one, two in pairwise(positions)))
    if count < _REPEATS_MIN or step < 2:
        return
    check_time()
    first, last = positions[0], mark.rfind(1)
    within = mark[first : last + 1 : step]
    if within.count(1) == count:
        yield _Described(f"every {_ordinal(step)} {_singular(noun)} from {first} to {last}", len(within))


def _blocks(mark: bytearray, noun: str, count: int, check_time: Callable[[], None]) -> Iterator[_Described]:
    """Yield the head, the tail or the like of each block of a power of two."""

    def is_marked(offset: int, block: int) -> bool:
        check_time()
        return 1 in mark[offset::block]

    length = len(mark)
    if count < _REPEATS_MIN or count > length // 2:
        return
    for block in _BLOCKS:
        if 2 * block > length:
            return
        begin = next(offset for offset in range(block) if is_marked(offset, block))
        end = begin + 1
        while end < block and is_marked(end, block):
            end += 1
        if 2 * (end - begin) > block or any(is_marked(offset, block) for offset in range(end, block)):
            continue
        size = sum(len(range(offset, length, block)) for offset in range(begin, end))
        if end == block:
            words = f"the tail of each block of {block} {noun} (the last {end - begin})"
        elif begin == 0:
            words = f"the head of each block of {block} {noun} (the first {end})"
        else:
            words = f"{begin} to {end - 1} of each block of {block} {noun}"
        yield _Described(words, size)


def _positions(mark: bytearray, limit: int) -> list[int]:
    found: list[int] = []
    at = mark.find(1)
    while at >= 0 and len(found) < limit:
        found.append(at)
        at = mark.find(1, at + 1)
    return found


def _singular(noun: str) -> str:
    return noun.replace("indices", "index").removesuffix("s")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 < number % 100 < 20 else ending}"
