"""The pages of a long list: what is asked for, and what is kept while items come and go and others come into sight."""

from collections.abc import Sequence

import pytest

from hpc_board.tui.paging import Part, Span, Window, paged


def part(*items: int, at: int = 0) -> Part[int]:
    return Part(at, items, below=len(items) >= 3)


def known(count: int, *, offset: int = 0, below: bool = True) -> Window[int]:
    return Window(int, offset=offset, items=tuple(range(offset, offset + count)), below=below)


@pytest.mark.parametrize(
    ("parts", "offset", "items", "below"),
    [
        # Parts follow one another to the end, each beginning with a known item.
        ([part(1, 2, 3), part(3, 4, 5, at=2)], 0, [1, 2, 3, 4, 5], True),
        ([part(1, 2, 3), part(3, 4, at=2)], 0, [1, 2, 3, 4], False),
        # From the end upwards.
        ([Part(97, (97, 98, 99)), part(95, 96, 97, at=95)], 95, [95, 96, 97, 98, 99], False),
        # An item in the middle is replaced by another one.
        ([part(1, 2, 3), part(3, 4, 5, at=2), part(2, 9, 4, at=1)], 0, [1, 2, 9, 4, 5], True),
        # New items and those that have gone move the others: those beside the part are read again.
        ([part(1, 2, 3), part(3, 4, 5, at=2), part(0, 1, 2)], 0, [0, 1, 2], True),
        ([part(1, 2, 3), part(3, 4, 5, at=2), part(2, 4, 5, at=1)], 0, [1, 2, 4, 5], True),
        ([part(1, 2, 3), part(3, 4, 5, at=2), part(4, 5, 6, at=2)], 2, [4, 5, 6], True),
        # An item that has moved is where the part has it.
        ([part(1, 2, 3), part(3, 4, 5, at=2), part(3, 1, 6, at=2)], 2, [3, 1, 6], True),
        # A gap is never shown as none.
        ([part(1, 2, 3), part(30, 31, 32, at=29)], 29, [30, 31, 32], True),
        # A list that has become shorter is read again from its start.
        ([part(30, 31, 32, at=29), part(at=29)], 0, [], False),
    ],
)
def test_parts_are_joined_to_the_known_items(
    parts: Sequence[Part[int]], offset: int, items: list[int], below: bool
) -> None:
    window: Window[int] = Window(int)
    for each in parts:
        window = window.with_part(each)
    assert (window.offset, list(window.items), window.below) == (offset, items, below)


@pytest.mark.parametrize(
    ("window", "first", "span"),
    [
        (Window(int), 7, Span(6)),
        (known(10), 0, Span(6)),
        (known(10), 2, Span(8)),
        (known(10), 4, Span(6, 4)),
        (known(10), 50, Span(6, 9)),
        (known(10, offset=20), 1, Span(9, 18)),
        (known(2, offset=1), 0, Span(7, 0)),
        (known(10, offset=20), 4, Span(6, 24)),
        (Window(int, begin=Span(offset=680)), 0, Span(6, 680)),
        (known(0).with_part(part(at=680)), 0, Span(6)),
    ],
)
def test_a_page_has_what_is_in_sight_and_what_is_about_to_be(window: Window[int], first: int, span: Span) -> None:
    assert window.span(first, 3) == span


@pytest.mark.parametrize(
    ("first", "offset", "below", "lacks"),
    [(4, 0, True, False), (5, 0, True, True), (5, 0, False, False), (0, 5, False, True)],
)
def test_it_lacks_what_is_about_to_come_into_sight(first: int, offset: int, below: bool, lacks: bool) -> None:
    assert known(10, offset=offset, below=below).lacks(first, 3) is lacks
    assert Window(int).lacks(0, 3)
    assert not Window(int, below=False).lacks(0, 3)


@pytest.mark.parametrize(("counts", "first"), [(True, 1195), (False, 0)])
def test_the_end_of_a_list_of_unknown_length_is_read_with_all_of_it(counts: bool, first: int) -> None:
    numbers = range(1200)
    page = paged(lambda offset, limit: numbers[offset:][:limit], (lambda: len(numbers)) if counts else None)
    assert page(Span(5, 4)) == Part(4, (4, 5, 6, 7, 8), below=True)
    assert page(Span(5, 1198)) == Part(1198, (1198, 1199))
    assert page(Span(5, at_end=True)) == Part(first, (*numbers[first:],))
