"""Snapshots of the screens, at the size that they are designed for and at a large one."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from hpc_board import tui
from hpc_board.errors import SchedulerError, StorageError
from hpc_board.tui import themes
from hpc_board.tui.app import BoardApp
from hpc_board.tui.preferences import Preferences
from hpc_board.tui.widgets.list_pane import ListPane
from tests.tui.driving import SnapCompare, app_on, driven, opened, press, settled, stop_blinking, until
from tests.tui.fake_board import NOW, FakeBoard

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])

SCREENS = {
    "tasks": ("end",),
    "runs": ("r",),
    "everyones_runs": ("r", "a", "down", "down"),
    "report_of_a_pass": ("r", "down", "down", "enter"),
    "report_of_a_failure": ("r", "down", "down", "down", "enter"),
    "report_while_running": ("r", "down", "enter"),
    "report_of_a_lost_run": ("r", "end", "enter"),
    "log_of_a_running_run": ("r", "down", "enter", "3"),
    "log_of_a_pass": ("r", "down", "down", "enter", "3"),
    "standings": ("end", "b"),
    "standings_with_nobody": ("b",),
    "form_for_a_task": ("s",),
    "help": ("r", "question_mark"),
    "question_before_cancelling": ("r", "c"),
}


@SIZES
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_designed(snap_compare: SnapCompare, size: tuple[int, int], name: str) -> None:
    assert snap_compare(app_on(FakeBoard()), terminal_size=size, run_before=driven(*SCREENS[name]))


@pytest.mark.parametrize("name", ["tasks", "runs", "report_of_a_pass", "form_for_a_task"])
def test_a_screen_fits_a_small_terminal(snap_compare: SnapCompare, name: str) -> None:
    assert snap_compare(app_on(FakeBoard()), terminal_size=(60, 16), run_before=driven(*SCREENS[name]))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=lambda size: "x".join(map(str, size)))
def test_a_file_with_a_header_fills_the_form(snap_compare: SnapCompare, size: tuple[int, int], kernel: Path) -> None:
    assert snap_compare(app_on(FakeBoard(), kernel), terminal_size=size, run_before=driven())


def test_the_script_has_the_whole_of_a_small_screen(snap_compare: SnapCompare, kernel: Path) -> None:
    assert snap_compare(app_on(FakeBoard(), kernel), terminal_size=(80, 24), run_before=driven("ctrl+g"))


def test_a_draft_that_contradicts_its_header_says_so(snap_compare: SnapCompare, kernel: Path) -> None:
    keys = driven(*["shift+tab"] * 5, "enter", "up", "enter")
    assert snap_compare(app_on(FakeBoard(), kernel), terminal_size=(80, 24), run_before=keys)


@pytest.mark.parametrize("keys", [(), ("r",)], ids=["tasks", "runs"])
def test_an_empty_board_says_what_to_do(snap_compare: SnapCompare, keys: tuple[str, ...]) -> None:
    app = app_on(FakeBoard(tasks=(), runs=()))
    assert snap_compare(app, terminal_size=(80, 24), run_before=driven(*keys))


@pytest.mark.parametrize("keys", [(), ("r",), ("s",)], ids=["tasks", "runs", "form"])
def test_a_slow_board_is_waited_for_in_words(snap_compare: SnapCompare, keys: tuple[str, ...]) -> None:
    board = FakeBoard(held=("tasks", "runs", "gpus", "advance"))

    class Impatient(BoardApp):
        CSS_PATH = str(Path(tui.__file__).with_name("app.tcss"))

        def on_unmount(self) -> None:
            board.free()

    async def drive(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        for key in keys:
            await pilot.press(key)
        if keys == ("r",):
            await until(pilot, lambda: pilot.app.screen.query_one(ListPane).has_class("-empty"))
        stop_blinking(pilot)
        await pilot.pause()

    assert snap_compare(Impatient(lambda: board, now=lambda: NOW), terminal_size=(80, 24), run_before=drive)


def test_a_scheduler_that_does_not_answer_leaves_the_runs_visible(snap_compare: SnapCompare) -> None:
    error = SchedulerError("squeue did not answer within 20 s.", hint="The runs go on; hpc-board asks again.")
    app = app_on(FakeBoard(failures={"advance": error}))
    assert snap_compare(app, terminal_size=(80, 24), run_before=driven("r"))


def test_a_board_that_cannot_be_read_says_why(snap_compare: SnapCompare) -> None:
    error = StorageError("/shared/board/board.db: the disk is full", hint="Free some space.")
    app = app_on(FakeBoard(failures={"runs": error}))
    assert snap_compare(app, terminal_size=(80, 24), run_before=driven("r"))


def test_the_app_can_be_read_without_colours(snap_compare: SnapCompare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_on(FakeBoard()), terminal_size=(80, 24), run_before=driven("r"))


@pytest.mark.parametrize("name", ["tasks", "report_of_a_pass", "form_for_a_task"])
def test_a_screen_fills_a_large_terminal(snap_compare: SnapCompare, name: str) -> None:
    assert snap_compare(app_on(FakeBoard()), terminal_size=(200, 60), run_before=driven(*SCREENS[name]))


@pytest.mark.parametrize("name", ["tasks", "standings", "report_of_a_pass", "report_of_a_failure"])
def test_a_light_theme_is_as_legible(snap_compare: SnapCompare, name: str) -> None:
    preferences = Preferences(theme=themes.LIGHT.name)
    app = BoardApp(FakeBoard, now=lambda: NOW, tick_seconds=3600, follow_seconds=3600, user_preferences=preferences)
    assert snap_compare(app, terminal_size=(80, 24), run_before=driven(*SCREENS[name]))


@pytest.mark.parametrize("keys", [(), ("r",), ("r", *"boa")], ids=["tasks", "runs", "found"])
def test_every_action_is_found_by_its_name(snap_compare: SnapCompare, keys: tuple[str, ...]) -> None:
    async def drive(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        await press(pilot, *keys[:1], "ctrl+p", *keys[1:])
        await until(pilot, lambda: pilot.app.screen.query_one(OptionList).option_count > 0)
        await settled(pilot)

    assert snap_compare(app_on(FakeBoard()), terminal_size=(80, 24), run_before=drive)
