"""The pages of a long list: what is asked for, and what is kept while items come and go and others come into sight."""

from collections.abc import Sequence

import pytest

from hpc_board.tui.paging import Order, Page, Part, Span, Window, forward, part_of, whole

BY_NUMBER: Order[int] = Order(int)
NEWEST: Order[int] = Order(int, descending=True)
BY_PLACE: Order[tuple[int, str]] = Order(lambda item: item[0], identity=lambda item: item[1], by_place=True)


def part(*items: int, after: int | None = None, limit: int = 3) -> Part[int]:
    return part_of(Span(limit, after), items)


def seen(*parts: Part[int], order: Order[int] = BY_NUMBER) -> tuple[list[int], bool]:
    """The items that are known after these parts, and whether the list goes on below them."""
    known: Window[int] = Window(order)
    for each in parts:
        known = known.with_part(each)
    return list(known.items), known.below


def known(count: int, *, above: bool = False, below: bool = True) -> Window[int]:
    return Window(BY_NUMBER, items=tuple(range(count)), above=above, below=below)


def test_parts_follow_one_another_to_the_end() -> None:
    assert seen(part(1, 2, 3)) == ([1, 2, 3], True)
    assert seen(part(1, 2, 3), part(4, 5, 6, after=3)) == ([1, 2, 3, 4, 5, 6], True)
    assert seen(part(1, 2, 3), part(4, 5, after=3)) == ([1, 2, 3, 4, 5], False)


def test_new_items_come_before_the_known_ones() -> None:
    assert seen(part(3, 4, 5), part(6, after=5), part(1, 3, 4)) == ([1, 3, 4, 5, 6], False)


def test_a_part_in_the_middle_is_replaced_alone() -> None:
    assert seen(part(1, 2, 3), part(4, 6, 7, after=3), part(3, 4, 5, after=2)) == ([1, 2, 3, 4, 5, 6, 7], True)
    assert seen(part(1, 2, 3), part(4, 5, 6, after=3), part(3, 4, 6, after=2)) == ([1, 2, 3, 4, 6], True)


def test_what_has_gone_leaves_the_part_that_covers_it() -> None:
    assert seen(part(1, 2, 3), part(1, 3, 5)) == ([1, 3, 5], True)
    assert seen(part(1, 2), part(2)) == ([2], False)
    assert seen(part(1, 2), part()) == ([], False)


def test_a_part_behind_a_forgotten_item_is_left_out() -> None:
    before = part(30, 31, 32), part(33, 34, 35, after=32)
    assert seen(*before, part(1, 2, 3), part(34, 35, 36, after=33)) == ([1, 2, 3], True)
    assert seen(*before, part(1, 2, 3), part(34, after=33)) == ([1, 2, 3], True)
    assert seen(part(), part(34, after=33)) == ([], False)


def test_a_gap_is_never_shown_as_none() -> None:
    assert seen(part(30, 31, 32), part(after=32), part(1, 2, 3)) == ([1, 2, 3], True)


def test_what_comes_first_may_be_the_greatest() -> None:
    parts = part(9, 8, 7), part(6, 5, after=7), part(10, 9, 8)
    assert seen(*parts, order=NEWEST) == ([10, 9, 8, 7, 6, 5], False)


def test_a_list_is_read_from_its_end_upwards() -> None:
    end = Window(BY_NUMBER).with_part(part_of(Span(3, at_end=True), (97, 98, 99)))
    assert (end.items, end.above, end.below) == ((97, 98, 99), True, False)
    more = end.with_part(part_of(Span(3, before=97), (94, 95, 96)))
    assert (more.items, more.above, more.below) == ((94, 95, 96, 97, 98, 99), True, False)
    top = more.with_part(part_of(Span(3, before=94), (92, 93)))
    assert (top.items, top.above, top.below) == ((*range(92, 100),), False, False)
    assert not end.with_part(part_of(Span(3, before=97), ())).above


def test_what_is_in_sight_is_read_with_as_much_below_it_and_the_first_items() -> None:
    assert Window(BY_NUMBER).spans(0, 3) == Window(BY_NUMBER).spans(7, 3) == known(10).spans(0, 3) == [Span(6)]
    assert known(10).spans(4, 3) == [Span(3), Span(6, after=3)]
    assert known(10).spans(50, 3) == [Span(3), Span(6, after=8)]


def test_a_window_that_begins_in_the_middle_is_read_upwards_near_its_top_alone() -> None:
    middle = known(10, above=True)
    assert middle.spans(0, 3) == [Span(3, before=0)]
    assert middle.spans(2, 3) == [Span(3, before=0), Span(6, after=1)]
    assert middle.spans(4, 3) == [Span(6, after=3)]


def test_an_empty_window_begins_where_it_is_told_to_until_something_was_read() -> None:
    jumped = Window(BY_PLACE, begin=Span(after=679))
    assert jumped.spans(0, 10) == [Span(20, after=679)]
    gone = jumped.with_part(part_of(Span(20, after=679), (), total=5))
    assert gone.spans(0, 10) == [Span(20)]


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


def names(window: Window[tuple[int, str]]) -> list[int]:
    return [int(name[1:]) for _, name in window.items]


def by_place(*parts: Part[tuple[int, str]]) -> Window[tuple[int, str]]:
    window: Window[tuple[int, str]] = Window(BY_PLACE)
    for each in parts:
        window = window.with_part(each)
    return window


def test_pages_that_touch_are_joined_and_others_take_their_place() -> None:
    joined = by_place(rows(0, 10), rows(5, 10), rows(15, 5))
    assert (joined.above, names(joined)) == (False, list(range(20)))
    assert names(joined.with_part(rows(0, 10))) == list(range(20))
    apart = joined.with_part(rows(40, 10))
    assert (apart.above, apart.place_of(0), names(apart)) == (True, 40, list(range(40, 50)))
    assert names(apart.with_part(rows(30, 12))) == list(range(30, 50))
    assert names(apart.with_part(rows(30, 10))) == list(range(30, 50))
    assert by_place(rows(80, 10)).below
    assert not by_place(rows(80, 10), rows(90, 10), rows(85, 5)).below


def test_rows_that_have_moved_are_not_shown_twice() -> None:
    known_rows = by_place(rows(0, 30))
    moved = known_rows.with_part(rows(10, 10, gone=3))
    assert (moved.above, names(moved)) == (True, list(range(11, 21)))
    assert names(known_rows.with_part(rows(0, 10, gone=3))) == [0, 1, 2, *range(4, 11)]
    assert names(known_rows.with_part(rows(10, 5, total=99))) == list(range(10, 15))
    assert known_rows.with_part(part_of(Span(10, 29), (), total=5)).items == ()


def test_a_list_without_a_way_back_is_read_to_its_end() -> None:
    asked: list[tuple[int | None, int]] = []

    def read(after: int | None, limit: int) -> Sequence[int]:
        asked.append((after, limit))
        first = 0 if after is None else after + 1
        return range(first, min(first + limit, 1200))

    page: Page[int] = forward(read, int)
    assert page(Span(5, after=3)).items == (4, 5, 6, 7, 8)
    end = page(Span(5, at_end=True))
    assert (end.items, end.above, end.below) == ((*range(1200),), False, False)
    assert asked == [(3, 5), (None, 500), (499, 500), (999, 500)]


def test_a_length_that_is_told_once_stays_until_another_is_told() -> None:
    told = Window(BY_NUMBER).with_part(part_of(Span(3), (1, 2, 3), total=90)).with_part(part(4, 5, 6, after=3))
    assert (told.total, told.with_part(part_of(Span(3), (0, 1, 2), total=91)).total) == (90, 91)


def test_a_list_that_is_read_in_one_go_has_all() -> None:
    window = Window(BY_NUMBER).with_part(whole((3, 1, 2)))
    assert (window.items, window.below, window.total) == ((3, 1, 2), False, 3)
