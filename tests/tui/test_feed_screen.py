"""The feed: what changed on the boards, page by page, and the ways on from there."""

from datetime import timedelta

from hpc_board.domain.feed import Entry, FeedEntry, FeedKind, News
from hpc_board.report.feeds import feed_change
from hpc_board.tui.app import BoardApp
from hpc_board.tui.palette import Tone
from hpc_board.tui.preferences import Preferences
from hpc_board.tui.screens.feed import FeedScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import app_on, press, settled, text_of, toasts, until
from tests.tui.fake_board import NOW, FakeBoard
from tests.values import replace

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
            submitter="ada" if id_ % 5 == 0 else "carol",
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
        words = "carol took first place on vectoradd, H100: 11.0 µs (was bob, 12.1 µs: 1.10x faster)"
        assert words in " ".join(text_of(pilot.app).replace("│", " ").split())
        assert "first pass" in text_of(pilot.app)
        await press(pilot, "b")
        assert "Board vectoradd" in text_of(pilot.app)
        await press(pilot, "f", "enter")
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
        assert (screen.pane.length, screen.pane.grid.current) == ("151", chosen)


async def test_an_empty_feed_says_so() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "f")
        assert "No changes to the standings of vectoradd yet." in text_of(pilot.app)
        await press(pilot, "a")
        assert "No changes to the standings yet." in text_of(pilot.app)


def record(id_: int, user: str, before: str, spread: float | None = None) -> FeedEntry:
    news = News(FeedKind.RECORD, 1, 1.23e-3, None, None, Entry(before, 1.3e-3))
    return replace(entries(id_)[0], user=user, task="mat[b]mul", news=news, change_spread=spread)


async def test_a_record_of_another_user_is_told_once_and_so_is_a_lost_first_place() -> None:
    board = feed_of(3)
    async with app_on(board, tick_seconds=0.05).run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: board.calls.count("feed") > 1)
        assert toasts(pilot.app) == []
        own, noise = record(4, "ada", "bob"), record(5, "carol", "bob", 1.5)
        board.entries = (record(7, "carol", "ada"), record(6, "carol", "bob"), noise, own, *board.entries)
        await until(pilot, lambda: len(toasts(pilot.app)) >= 2)
        read = board.calls.count("feed")
        await until(pilot, lambda: board.calls.count("feed") > read + 2)
        words = "Record on H100: mat[b]mul 1.23 ms, by carol"
        assert toasts(pilot.app) == [words, f"{words}. You had first place."]


async def test_records_are_not_told_where_the_preferences_say_so() -> None:
    board = feed_of(3)
    preferences = Preferences(records=False)
    app = BoardApp(lambda: board, now=lambda: NOW, tick_seconds=0.05, follow_seconds=0.05, user_preferences=preferences)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: board.calls.count("advance") > 3)
        assert "feed" not in board.calls


async def test_a_record_that_beats_none_or_takes_the_first_place_of_the_reader_has_another_colour() -> None:
    board = FakeBoard()
    lost, noise, clear = record(3, "carol", "ada"), record(2, "carol", "bob", 1.5), record(1, "carol", "bob")
    board.entries = lost, noise, clear
    async with app_on(board).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "f")
        screen = pilot.app.screen
        assert isinstance(screen, FeedScreen)
        events = [screen.pane.cells_of(each)["kind"] for each in board.standings.feed()]
        assert [event.style for event in events] == [Tone.WAITING.value, Tone.PLAIN.value, Tone.GOOD.value]
        assert [event.plain for event in events] == ["record", "tied 1st", "record"]


def test_the_column_has_the_change_and_no_fact_of_the_other_columns() -> None:
    own = News(FeedKind.BEST, 5, 1e-3, 9, 2e-3)
    changes = [
        feed_change(record(4, "ada", "bob")),
        feed_change(record(4, "ada", "bob", 1.5)),
        feed_change(replace(record(4, "ada", "bob"), news=own)),
        feed_change(replace(record(4, "ada", "bob", 2.5), news=own)),
        feed_change(replace(record(4, "ada", "bob"), news=News(FeedKind.FIRST, 12, 1e-3))),
    ]
    assert changes == [
        "1.06x faster than bob",
        "within noise of bob",
        "2.00x faster than before; 9th to 5th place",
        "within noise of the score before; 9th to 5th place",
        "12th place",
    ]


async def test_a_filtered_feed_counts_all_matches_at_once() -> None:
    async with app_on(feed_of(400)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "f", "slash", *"matmul")
        assert "Feed 133" in text_of(pilot.app)
