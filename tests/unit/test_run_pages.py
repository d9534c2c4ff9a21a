"""What is kept of a long list of runs while new ones come on top and old ones come into sight."""

from hpc_board.model.run import RunState
from hpc_board.tui.run_pages import Page, RunPages
from tests.tui.fake_board import run


def page(*ids: int, before: int | None = None, limit: int = 3) -> Page:
    return Page(before, limit, tuple(run(id_, RunState.QUEUED) for id_ in ids))


def seen(*pages: Page) -> tuple[list[int], bool]:
    known = RunPages()
    for each in pages:
        known = known.with_page(each)
    return [run_.id for run_ in known.runs], known.is_whole


def test_pages_follow_one_another_to_the_end() -> None:
    assert seen(page(9, 8, 7)) == ([9, 8, 7], False)
    assert seen(page(9, 8, 7), page(6, 5, 4, before=7)) == ([9, 8, 7, 6, 5, 4], False)
    assert seen(page(9, 8, 7), page(6, 5, before=7)) == ([9, 8, 7, 6, 5], True)


def test_new_runs_come_on_top_of_the_known_ones() -> None:
    assert seen(page(9, 8, 7), page(6, before=7), page(10, 9, 8)) == ([10, 9, 8, 7, 6], True)


def test_a_page_in_the_middle_is_replaced_alone() -> None:
    assert seen(page(9, 8, 7), page(6, 5, 4, before=7), page(7, 6, 4, before=8)) == ([9, 8, 7, 6, 4], False)


def test_what_no_longer_fits_a_filter_leaves_the_page_that_covers_it() -> None:
    assert seen(page(9, 8, 7), page(9, 7, 5)) == ([9, 7, 5], False)
    assert seen(page(9, 8), page(9)) == ([9], True)
    assert seen(page(9, 8), page()) == ([], True)


def test_a_page_of_runs_older_than_a_forgotten_one_is_left_out() -> None:
    known = page(9, 8, 7), page(6, 5, 4, before=7)
    assert seen(*known, page(30, 29, 28), page(5, 4, 3, before=6)) == ([30, 29, 28], False)
    assert seen(*known, page(30, 29, 28), page(5, before=6)) == ([30, 29, 28], False)


def test_a_gap_is_never_shown_as_none() -> None:
    assert seen(page(3, 2, 1), page(before=1), page(30, 29, 28)) == ([30, 29, 28], False)
