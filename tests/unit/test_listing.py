"""What is kept of a long ordered list while items come and go and others come into sight."""

from hpc_board.tui.listing import Listing, Part, Span


def part(*items: int, after: int | None = None, limit: int = 3) -> Part[int]:
    return Part(Span(after, limit), items)


def seen(*parts: Part[int]) -> tuple[list[int], bool]:
    known: Listing[int] = Listing(lambda item: item)
    for each in parts:
        known = known.with_part(each)
    return list(known.items), known.is_whole


def test_parts_follow_one_another_to_the_end() -> None:
    assert seen(part(1, 2, 3)) == ([1, 2, 3], False)
    assert seen(part(1, 2, 3), part(4, 5, 6, after=3)) == ([1, 2, 3, 4, 5, 6], False)
    assert seen(part(1, 2, 3), part(4, 5, after=3)) == ([1, 2, 3, 4, 5], True)


def test_new_items_come_before_the_known_ones() -> None:
    assert seen(part(3, 4, 5), part(6, after=5), part(1, 3, 4)) == ([1, 3, 4, 5, 6], True)


def test_a_part_in_the_middle_is_replaced_alone() -> None:
    assert seen(part(1, 2, 3), part(4, 6, 7, after=3), part(3, 4, 5, after=2)) == ([1, 2, 3, 4, 5, 6, 7], False)
    assert seen(part(1, 2, 3), part(4, 5, 6, after=3), part(3, 4, 6, after=2)) == ([1, 2, 3, 4, 6], False)


def test_what_has_gone_leaves_the_part_that_covers_it() -> None:
    assert seen(part(1, 2, 3), part(1, 3, 5)) == ([1, 3, 5], False)
    assert seen(part(1, 2), part(2)) == ([2], True)
    assert seen(part(1, 2), part()) == ([], True)


def test_a_part_behind_a_forgotten_item_is_left_out() -> None:
    known = part(30, 31, 32), part(33, 34, 35, after=32)
    assert seen(*known, part(1, 2, 3), part(34, 35, 36, after=33)) == ([1, 2, 3], False)
    assert seen(*known, part(1, 2, 3), part(34, after=33)) == ([1, 2, 3], False)


def test_what_comes_first_may_be_the_greatest() -> None:
    known: Listing[int] = Listing(lambda item: -item)
    for each in (part(9, 8, 7), part(6, 5, after=7), part(10, 9, 8)):
        known = known.with_part(each)
    assert (known.items, known.is_whole) == ((10, 9, 8, 7, 6, 5), True)


def test_what_is_in_sight_is_read_with_as_much_below_it_and_the_first_items() -> None:
    known = Listing(int, tuple(range(10)))
    assert Listing(int).spans(0, 3) == Listing(int).spans(7, 3) == known.spans(0, 3) == [Span(None, 6)]
    assert known.spans(4, 3) == [Span(None, 3), Span(3, 6)]
    assert known.spans(50, 3) == [Span(None, 3), Span(8, 6)]


def test_it_reaches_as_far_as_it_is_read_or_to_the_end() -> None:
    known = Listing(int, tuple(range(10)))
    assert known.reaches(10)
    assert not known.reaches(11)
    assert Listing(int, known.items, is_whole=True).reaches(11)


def test_a_gap_is_never_shown_as_none() -> None:
    assert seen(part(30, 31, 32), part(after=32), part(1, 2, 3)) == ([1, 2, 3], False)
