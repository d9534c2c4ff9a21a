"""The pages of a long list: what is asked for, and what is kept while items come and go and others come into sight."""

from collections.abc import Sequence

import pytest

from hpc_board.tui.paging import Order, Part, Span, Window, paged, part_of

BY_NUMBER: Order[int] = Order(int)
NEWEST: Order[int] = Order(int, descending=True)
BY_PLACE: Order[tuple[int, str]] = Order(lambda item: item[0], identity=lambda item: item[1], by_place=True)


def part(*items: int, after: int | None = None) -> Part[int]:
    return part_of(Span(3, after), items)


def known(count: int, *, above: bool = False, below: bool = True) -> Window[int]:
    return Window(BY_NUMBER, items=tuple(range(count)), above=above, below=below)


@pytest.mark.parametrize(
    ("parts", "items", "below"),
    [
        # Parts follow one another to the end.
        ([part(1, 2, 3), part(4, 5, 6, after=3)], [1, 2, 3, 4, 5, 6], True),
        ([part(1, 2, 3), part(4, 5, after=3)], [1, 2, 3, 4, 5], False),
        # New items come before the known ones, and in the middle.
        ([part(3, 4, 5), part(6, after=5), part(1, 3, 4)], [1, 3, 4, 5, 6], False),
        ([part(1, 2, 3), part(4, 6, 7, after=3), part(3, 4, 5, after=2)], [1, 2, 3, 4, 5, 6, 7], True),
        # An item that has gone leaves the part that covers it.
        ([part(1, 2, 3), part(4, 5, 6, after=3), part(3, 4, 6, after=2)], [1, 2, 3, 4, 6], True),
        ([part(1, 2), part()], [], False),
        # A part behind an unknown item is left out, and a gap is never shown as none.
        ([part(30, 31, 32), part(1, 2, 3), part(34, 35, 36, after=33)], [1, 2, 3], True),
        ([part(30, 31, 32), part(after=32), part(1, 2, 3)], [1, 2, 3], True),
    ],
)
def test_parts_are_joined_to_the_known_items(parts: Sequence[Part[int]], items: list[int], below: bool) -> None:
    window: Window[int] = Window(BY_NUMBER)
    for each in parts:
        window = window.with_part(each)
    assert (list(window.items), window.below) == (items, below)


def test_what_comes_first_may_be_the_greatest() -> None:
    window = Window(NEWEST).with_part(part(9, 8, 7)).with_part(part(6, 5, after=7)).with_part(part(10, 9, 8))
    assert (window.items, window.below) == ((10, 9, 8, 7, 6, 5), False)


def test_a_list_is_read_from_its_end_upwards() -> None:
    end = Window(BY_NUMBER).with_part(part_of(Span(3, at_end=True), (97, 98, 99)))
    assert (end.items, end.above, end.below) == ((97, 98, 99), True, False)
    more = end.with_part(part_of(Span(3, before=97), (94, 95, 96)))
    assert (more.items, more.above, more.below) == ((94, 95, 96, 97, 98, 99), True, False)
    # A page that goes up covers the items in sight, of which 95 has gone.
    top = more.with_part(part_of(Span(5, before=96), (92, 93, 94)))
    assert (top.items, top.above, top.below) == ((92, 93, 94, 96, 97, 98, 99), False, False)


@pytest.mark.parametrize(
    ("window", "first", "span"),
    [
        (Window(BY_NUMBER), 7, Span(6)),
        (known(10), 0, Span(6)),
        (known(10), 2, Span(8)),
        (known(10), 4, Span(6, after=3)),
        (known(10), 50, Span(6, after=8)),
        (known(10, above=True), 1, Span(6, before=4)),
        (known(2, above=True), 0, Span(6, before=1)),
        (known(10, above=True), 4, Span(6, after=3)),
        (Window(BY_NUMBER, begin=Span(after=679)), 0, Span(6, after=679)),
        (Window(BY_NUMBER, begin=Span(after=679)).with_part(part(after=679)), 0, Span(6)),
    ],
)
def test_a_page_has_what_is_in_sight_and_what_is_about_to_be(window: Window[int], first: int, span: Span) -> None:
    assert window.span(first, 3) == span


@pytest.mark.parametrize(
    ("first", "above", "below", "lacks"),
    [(4, False, True, False), (5, False, True, True), (5, False, False, False), (0, True, False, True)],
)
def test_it_lacks_what_is_about_to_come_into_sight(first: int, above: bool, below: bool, lacks: bool) -> None:
    assert known(10, above=above, below=below).lacks(first, 3) is lacks
    assert not Window(BY_NUMBER).lacks(0, 3)


def rows(first: int, count: int, total: int = 100, *, gone: int | None = None) -> Part[tuple[int, str]]:
    """A page by place of a list of `total` names, which is their numbers without `gone`."""
    names = [number for number in range(total + 1) if number != gone][first : first + count]
    items = [(place, f"u{name}") for place, name in enumerate(names, start=first)]
    return Part(Span(count, first - 1 if first else None), tuple(items), first > 0, first + count < total, total)


def by_place(*parts: Part[tuple[int, str]]) -> list[int]:
    window: Window[tuple[int, str]] = Window(BY_PLACE)
    for each in parts:
        window = window.with_part(each)
    assert window.place_of(0) == window.items[0][0]
    return [int(name[1:]) for _, name in window.items]


def test_pages_by_place_are_joined_unless_rows_have_moved() -> None:
    assert by_place(rows(0, 10), rows(5, 10), rows(15, 5)) == list(range(20))
    assert by_place(rows(0, 20), rows(0, 10)) == list(range(20))
    assert by_place(rows(0, 30), rows(10, 10, gone=3)) == list(range(11, 21))
    assert by_place(rows(0, 30), rows(0, 10, gone=3)) == [0, 1, 2, *range(4, 11)]
    assert by_place(rows(0, 30), rows(10, 5, total=99)) == list(range(10, 15))


@pytest.mark.parametrize(("backwards", "length", "first"), [(False, 1200, 0), (True, 1200, 0), (True, 9000, 8995)])
def test_the_end_of_a_list_is_read_with_all_of_it_unless_it_is_long(backwards: bool, length: int, first: int) -> None:
    def read(span: Span) -> Sequence[int]:
        begin = length - span.limit if span.at_end else 0 if span.after is None else span.after + 1
        return range(begin, min(begin + span.limit, length))

    page = paged(read, int, backwards=backwards)
    assert page(Span(5, after=3)).items == (4, 5, 6, 7, 8)
    end = page(Span(5, at_end=True))
    assert (end.items, end.above, end.below) == ((*range(first, length),), first > 0, False)
