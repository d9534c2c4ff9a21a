"""Keys typed ahead: each acts on the screen that the one before has opened."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from hpc_board.domain.run import RunState
from hpc_board.errors import StorageError
from hpc_board.model.result import Verdict
from hpc_board.tui import local_files
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.screens.cluster import ClusterScreen
from hpc_board.tui.screens.code import CodeScreen
from hpc_board.tui.screens.feed import FeedScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.user import UserScreen
from hpc_board.tui.type_ahead import TypeAhead
from hpc_board.tui.widgets.form import PathInput
from hpc_board.tui.widgets.grid import Grid
from tests.tmux import Tmux
from tests.tui.driving import app_on, press, restless, settled, text_of, toasts, until
from tests.tui.fake_admin import AdminBoard
from tests.tui.fake_board import FakeBoard, run
from tests.tui.test_editor_loop import shown, start
from tests.tui.test_feed_screen import entries

PASSED = run(7, RunState.FINISHED, verdict=Verdict.PASS)


def type_fast(app: App[Any], *keys: str) -> None:
    """Type keys faster than the app can handle the first."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


@pytest.mark.parametrize(
    ("before", "keys", "stack"),
    [
        ("", "r p", [RunsScreen, ClusterScreen]),
        ("", "r p escape escape f", [FeedScreen]),
        ("", "r s q", [RunsScreen, SubmitScreen]),
        # A row that is chosen tells its list, that the screen, and that the app.
        ("r", "enter escape p", [RunsScreen, ClusterScreen]),
        ("r", "c escape p", [RunsScreen, ClusterScreen]),
        ("r", "ctrl+p escape p", [RunsScreen, ClusterScreen]),
    ],
)
async def test_keys_typed_ahead_act_on_the_screens_that_they_open(
    before: str, keys: str, stack: list[type[BoardScreen]]
) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, *before.split())
        type_fast(pilot.app, *keys.split())
        await settled(pilot)
        assert [type(screen) for screen in pilot.app.screen_stack[2:]] == stack


@pytest.mark.parametrize("opening", ["end s", "r s", "end enter s"])
async def test_text_typed_or_pasted_ahead_is_in_the_field_of_the_file(opening: str) -> None:
    async with app_on(FakeBoard(runs=[PASSED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        type_fast(pilot.app, *opening.split(), *"abq")
        pilot.app.post_message(events.Paste("cd"))
        type_fast(pilot.app, *"e.py")
        await settled(pilot)
        assert pilot.app.screen.query_one(PathInput).value == "abqcde.py"


class Slow:
    """The search for the file of a run, which waits for `end`; it fails with `error` if that is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: StorageError | None = None) -> None:
        self.begun, self.end = threading.Event(), threading.Event()

        def found(*_: object) -> None:
            self.begun.set()
            assert self.end.wait(60)
            if error is not None:
                raise error

        monkeypatch.setattr(local_files, "submitted_as", found)


async def test_keys_wait_for_a_screen_that_opens_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    async with app_on(FakeBoard(runs=[PASSED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        type_fast(pilot.app, "s", *"abc")
        await asyncio.to_thread(slow.begun.wait, 20)
        # Keys that come while the file is looked for, and are not read together with the first.
        await pilot.pause()
        type_fast(pilot.app, "p", "q")
        await pilot.pause()
        assert isinstance(pilot.app.screen, RunsScreen)
        slow.end.set()
        await settled(pilot)
        assert pilot.app.screen.query_one(PathInput).value == "abcpq"


@pytest.mark.parametrize(
    ("held", "way", "place"),
    [
        ("runs", ["r"], RunsScreen),
        ("allowed_gpus", ["end", "b"], StandingsScreen),
        ("pages", ["end", "b"], StandingsScreen),
        ("feed", ["f"], FeedScreen),
        ("of_user", ["r", "U"], UserScreen),
    ],
)
async def test_keys_wait_for_the_first_rows_of_a_screen_and_esc_leaves_it(
    held: str, way: list[str], place: type[BoardScreen]
) -> None:
    board = AdminBoard()
    board.entries = entries(4)
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        board.held[held] = threading.Event()
        before = len(pilot.app.screen_stack) + len(way) - 1 - ("end" in way)
        type_fast(pilot.app, *way, "v")
        await until(pilot, lambda: isinstance(pilot.app.screen, place))
        type_fast(pilot.app, "m", "escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == before)
        type_fast(pilot.app, *way[-1:], "v")
        await until(pilot, lambda: isinstance(pilot.app.screen, place))
        board.free()
        await until(pilot, lambda: isinstance(pilot.app.screen, CodeScreen))
        assert not toasts(pilot.app)


async def test_keys_are_dropped_where_no_screen_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, StorageError("the disk is gone"))
    async with app_on(FakeBoard(runs=[PASSED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        type_fast(pilot.app, "s", "p", "q")
        await asyncio.to_thread(slow.begun.wait, 20)
        slow.end.set()
        await settled(pilot)
        assert "the disk is gone" in text_of(pilot.app)
        # The next one acts again.
        await press(pilot, "p")
        assert isinstance(pilot.app.screen, ClusterScreen)


@pytest.mark.parametrize("is_begun", [True, False])
async def test_escape_ends_an_opening_and_drops_the_keys_before_it(
    monkeypatch: pytest.MonkeyPatch, is_begun: bool
) -> None:
    slow = Slow(monkeypatch)
    async with app_on(FakeBoard(runs=[PASSED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        type_fast(pilot.app, "s", "q")
        if is_begun:
            await asyncio.to_thread(slow.begun.wait, 20)
        type_fast(pilot.app, "a", "escape", "p")
        await until(pilot, lambda: isinstance(pilot.app.screen, ClusterScreen))
        slow.end.set()
        await settled(pilot)
        assert isinstance(pilot.app.screen, ClusterScreen)


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+c"])
async def test_the_app_is_left_while_a_screen_opens_slowly(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    slow = Slow(monkeypatch)
    async with app_on(FakeBoard(runs=[PASSED])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        type_fast(pilot.app, "s", "a", key, *([key] if key == "ctrl+c" else []))
        await until(pilot, lambda: pilot.app._exit)
        slow.end.set()


async def opening_slowly(pilot: Pilot[Any], slow: Slow, *typed: str) -> None:
    """Open the form from the list of runs with these keys behind, and wait until it is on its way."""
    await settled(pilot)
    await press(pilot, "r")
    type_fast(pilot.app, "s", *typed)
    await asyncio.to_thread(slow.begun.wait, 20)
    await until(pilot, lambda: next(restless(pilot.app), None) is None)
    assert isinstance(pilot.app.screen, RunsScreen)


@pytest.mark.parametrize("ends_first", [True, False])
async def test_keys_for_a_screen_that_opens_are_dropped_when_a_click_opens_another_one(
    monkeypatch: pytest.MonkeyPatch, ends_first: bool
) -> None:
    slow = Slow(monkeypatch)
    async with app_on(FakeBoard(runs=[PASSED])).run_test(size=(80, 24)) as pilot:
        await opening_slowly(pilot, slow, *"faq.py")
        await pilot.click(Grid, offset=(10, 2), times=2)
        await until(pilot, lambda: isinstance(pilot.app.screen, ReportScreen))
        if not ends_first:
            await pilot.app._press_keys(["end"])
            await until(pilot, lambda: next(restless(pilot.app), None) is None)
            assert (type(pilot.app.screen), pilot.app._exit) == (ReportScreen, False)
        slow.end.set()
        await settled(pilot)
        assert not pilot.app._exit
        assert pilot.app.screen.query_one(PathInput).value == ""


async def test_keys_typed_ahead_act_on_the_tree_of_files(tmp_path: Path) -> None:
    (tmp_path / "one.py").touch()
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        type_fast(pilot.app, "ctrl+o", "o", "enter")
        await settled(pilot)
        assert pilot.app.screen.query_one(PathInput).path == tmp_path / "one.py"


async def test_a_long_text_pasted_as_keys_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[object] = []
    settle = TypeAhead._settle

    def counted(keys: TypeAhead, wait: object, *others: Any) -> Any:
        waits.append(wait)
        return settle(keys, wait, *others)

    monkeypatch.setattr(TypeAhead, "_settle", counted)
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s")
        pilot.app.screen.query_one("#note").focus()
        type_fast(pilot.app, *"abc" * 350, "tab", "q")
        await settled(pilot)
        assert pilot.app.screen.query_one("#note", Input).value == "abc" * 350
        # The keys for one field wait for each other no more than a few do.
        assert len(waits) < 20


def test_keys_typed_ahead_in_a_terminal_reach_the_form(tmp_path: Path, tmux: Tmux) -> None:
    start(tmux, tmp_path)
    shown(tmux, "#1")
    tmux("send-keys", "-t", "app", "r", "Home", "s", *"quite.py")
    assert "Runs / Submit" in shown(tmux, "quite.py")


async def test_a_filter_opens_again_at_once_after_one_that_nothing_fitted() -> None:
    board = FakeBoard(runs=[PASSED])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "slash", *"zz")
        assert "Runs 0 of 1" in text_of(pilot.app)
        # The whole list is read slowly after Esc.
        board.held["runs"] = threading.Event()
        await pilot.press("escape", "slash", *"spq")
        await until(pilot, lambda: "/ spq" in text_of(pilot.app))
        assert isinstance(pilot.app.screen, RunsScreen)
        board.held["runs"].set()
