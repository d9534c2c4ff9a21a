"""The feed: what changed on the boards, page by page, and the ways on from there."""

from datetime import timedelta

from hpc_board.domain.feed import Entry, FeedEntry, FeedKind, News
from hpc_board.tui.screens.feed import FeedScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_board import NOW, FakeBoard

KINDS = (
    News(FeedKind.RECORD, 1, 11.02e-6, 2, 13e-6, Entry("bob", 12.1e-6)),
    News(FeedKind.PODIUM, 3, 15.9e-6, None, None, Entry("eve", 16e-6), (Entry("eve", 16e-6),)),
    News(FeedKind.FIRST, 17, 90e-6),
    News(FeedKind.BEST, 12, 40e-6, 12, 41e-6),
)


def entries(count: int) -> tuple[FeedEntry, ...]:
    """Entries of all kinds, newest first, every third about another task."""
    return tuple(
        FeedEntry(
            id=id_,
            at=NOW - timedelta(minutes=7 * (count - id_ + 1)),
            task="matmul" if id_ % 3 == 0 else "vectoradd",
            task_version="v1",
            gpu="H100",
            user="ada" if id_ % 5 == 0 else "carol",
            submission=19,
            run=39,
            emulated=False,
            news=KINDS[id_ % len(KINDS)],
        )
        for id_ in range(count, 0, -1)
    )


def feed_of(count: int) -> FakeBoard:
    board = FakeBoard()
    board.entries = entries(count)
    return board


async def test_the_feed_tells_what_changed_and_leads_to_run_and_board() -> None:
    async with app_on(feed_of(8)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "f")
        assert "Feed / vectoradd" in text_of(pilot.app)
        assert "record" in text_of(pilot.app)
        assert "carol took first place on vectoradd, H100: 11.0 µs (was bob, 12.1 µs)" in text_of(pilot.app)
        await press(pilot, "b")
        assert isinstance(pilot.app.screen, StandingsScreen)
        await press(pilot, "escape", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)


async def test_the_feed_of_a_task_is_that_of_all_at_a_key() -> None:
    async with app_on(feed_of(8)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "f")
        assert "matmul" not in text_of(pilot.app)
        await press(pilot, "a")
        assert "matmul" in text_of(pilot.app)
        await press(pilot, "home", "down", "down", "a")
        assert "Feed / matmul" in text_of(pilot.app)
        assert "vectoradd" not in text_of(pilot.app)


async def test_a_tall_terminal_is_full_of_entries_before_the_next_change() -> None:
    async with app_on(feed_of(150)).run_test(size=(120, 70)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.row_count > grid.screenful > 40


async def test_older_entries_are_read_as_they_come_into_sight_and_new_ones_come_in_above() -> None:
    board = feed_of(150)
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "f", "a")
        screen = pilot.app.screen
        assert isinstance(screen, FeedScreen)
        assert 20 < screen.pane.grid.row_count < 60
        for _ in range(12):
            await press(pilot, "end")
        assert screen.pane.grid.row_count == 150
        chosen = screen.pane.grid.current
        board.entries = entries(151)
        screen.look_again()
        await settled(pilot)
        assert (screen.pane.grid.row_count, screen.pane.grid.current) == (150, chosen)


async def test_an_empty_feed_says_so() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "f")
        assert "No changes to the standings of vectoradd yet." in text_of(pilot.app)
        await press(pilot, "a")
        assert "No changes to the standings yet." in text_of(pilot.app)
