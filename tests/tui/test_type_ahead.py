"""Keys typed ahead: each acts on the screen that the one before has opened."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App

from hpc_board.domain.run import RunState
from hpc_board.errors import StorageError
from hpc_board.model.result import Verdict
from hpc_board.tui import local_files
from hpc_board.tui.screens.base import BoardScreen
from hpc_board.tui.screens.cluster import ClusterScreen
from hpc_board.tui.screens.feed import FeedScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.widgets.path_input import PathInput
from tests.tmux import Tmux
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import FakeBoard, run
from tests.tui.test_editor_loop import shown, start

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


async def test_a_screen_that_reports_no_effect_holds_no_key_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        monkeypatch.setattr(app._type_ahead, "_follow", lambda *_: None)
        monkeypatch.setattr("hpc_board.tui.type_ahead._PATIENCE_SECONDS", 0.0)
        type_fast(app, "r", "p")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await press(pilot, "p")
        assert isinstance(app.screen, ClusterScreen)


def test_keys_typed_ahead_in_a_terminal_reach_the_form(tmp_path: Path, tmux: Tmux) -> None:
    start(tmux, tmp_path)
    shown(tmux, "#1")
    tmux("send-keys", "-t", "app", "r", "Home", "s", *"quite.py")
    assert "Runs / Submit" in shown(tmux, "quite.py")
