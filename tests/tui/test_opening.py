"""The start of the app: the frame first, then the board, and each screen's module when it is opened."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input

from hpc_board.board import Board
from hpc_board.domain.roles import Role
from hpc_board.errors import InputError, StorageError
from hpc_board.service.client import RemoteBoard
from hpc_board.service.doors import ServiceError
from hpc_board.tui import targets
from hpc_board.tui.app import BoardApp
from hpc_board.tui.messages import Open
from hpc_board.tui.preferences import Preferences
from hpc_board.tui.screens.frame import OpeningScreen, TooSmallScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.widgets.list_pane import ListPane
from tests.tui.driving import app_on, settled, text_of, until
from tests.tui.fake_board import NOW, FakeBoard
from tests.tui.test_terminal import on_a_terminal
from tests.unit.recorded import recorded

SCREEN = "hpc_board.tui.screens."
LOADED = """
import asyncio, os, sys
from hpc_board.tui.app import BoardApp

def told(name):
    print(name, *sys.modules)

def opened():
    told("frame")
    from hpc_board.board import Board
    return Board.open()

async def answered(app, pilot, subject):
    while not getattr(app.screen, "answered_at", lambda _: None)(subject):
        await pilot.pause(0.01)

async def main():
    app = BoardApp(opened, tick_seconds=3600, follow_seconds=3600)
    async with app.run_test() as pilot:
        await answered(app, pilot, "tasks")
        told("list")
        await pilot.press("r")
        await answered(app, pilot, "run-list")
        told("runs")

asyncio.run(main())
"""


def held_back(board: Board, user_preferences: Preferences | None = None) -> tuple[BoardApp, threading.Event]:
    """The app on a board that opens when the event is set."""
    event = threading.Event()

    def opened() -> Board:
        assert event.wait(60)
        return board

    return BoardApp(
        opened, now=lambda: NOW, tick_seconds=3600, follow_seconds=3600, user_preferences=user_preferences
    ), event


def test_a_module_is_loaded_when_its_screen_is_opened(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=board.folder,
        env=board.environ(PYTHONPATH=str(Path(__file__).parents[2])),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    loaded = {line.split()[0]: set(line.split()[1:]) for line in done.stdout.splitlines()}
    screens = {
        name: {each.removeprefix(SCREEN) for each in modules if each.startswith(SCREEN)}
        for name, modules in loaded.items()
    }
    frame = {"frame"}
    tasks = frame | {"base", "tasks"}
    assert screens == {"frame": frame, "list": tasks, "runs": tasks | {"run_keys", "runs"}}
    assert not {"yaml", "sqlite3", "pygments", "markdown_it", "hpc_board.board", "hpc_board.settings"} & loaded["frame"]
    assert not {"jinja2", "paramiko", "hpc_board.report.comparisons"} & loaded["list"]


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[type, str]]:
    """The screens that are painted, and their text."""
    paints = []
    display = BoardApp._display

    def recorded_display(app: BoardApp, screen: Any, update: Any) -> None:
        if update is not None and screen is app.screen:
            paints.append((type(screen), text_of(app)))
        display(app, screen, update)

    monkeypatch.setattr(BoardApp, "_display", recorded_display)
    return paints


@pytest.mark.usefixtures("every_paint")
async def test_the_board_is_opened_after_the_first_paint(painted: list[tuple[type, str]]) -> None:
    seen = []

    def opened() -> Board:
        seen.extend(painted)
        return FakeBoard()

    async with BoardApp(opened, now=lambda: NOW, tick_seconds=3600, follow_seconds=3600).run_test() as pilot:
        await settled(pilot)
    assert [(screen, text.split()) for screen, text in seen][:1] == [(OpeningScreen, ["hpc-board", "▓▒░"])]


@pytest.mark.usefixtures("every_paint")
async def test_tasks_that_are_read_slowly_are_waited_for_in_words(painted: list[tuple[type, str]]) -> None:
    board = FakeBoard(held=["tasks"])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: painted[-1][0] is TasksScreen)
        assert "Loading the tasks" in painted[-1][1]
        board.free()
        await until(pilot, lambda: "vectoradd" in painted[-1][1])


async def test_the_frame_is_there_before_the_board_and_says_so_where_that_takes_long() -> None:
    app, event = held_back(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(app.screen, OpeningScreen)
        assert text_of(app).split() == ["hpc-board", "▓▒░"]
        await until(pilot, lambda: "Opening the board … q quits." in text_of(app))
        event.set()
        await until(pilot, lambda: "vectoradd" in text_of(app))
        assert isinstance(app.screen, TasksScreen)


async def test_keys_that_are_typed_before_the_first_screen_have_their_effect_on_it() -> None:
    app, event = held_back(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"qr")
        assert isinstance(app.screen, OpeningScreen)
        event.set()
        await until(pilot, lambda: "qr" in [field.value for field in app.screen.query(Input)])


async def test_later_keys_do_not_overtake_those_that_are_typed_early(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(_pane: ListPane[Any], _event: events.Key) -> None:
        await asyncio.sleep(0.2)

    monkeypatch.setattr(ListPane, "on_key", slow, raising=False)
    app, event = held_back(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"qr")
        event.set()
        # A pause of the pilot would wait for the keys that are on their way.
        while not isinstance(app.focused, Input):
            await asyncio.sleep(0.01)
        app.post_message(events.Key("s", "s"))
        screen = app.screen
        assert isinstance(screen, TasksScreen)
        await until(pilot, lambda: screen.pane.words == "qrs")


async def test_a_key_that_is_typed_early_may_leave_the_app() -> None:
    app, event = held_back(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r", "q", "a")
        event.set()
        await until(pilot, lambda: app._exit)
    assert app.return_code == 0


async def test_the_app_can_be_left_while_the_board_is_opened() -> None:
    for key in ("q", "ctrl+q"):
        app, event = held_back(FakeBoard())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(key)
            await until(pilot, lambda: app._exit)  # noqa: B023 - called before the next round
            event.set()
        assert (app.failure, app.return_code) == (None, 0)


@pytest.mark.parametrize("target", [targets.Runs(), targets.Submit(), targets.Report(1)])
async def test_the_app_can_be_left_while_a_screen_opens(target: targets.Target) -> None:
    for steps in (0, 4, 12):
        async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            pilot.app.post_message(Open(target))
            while isinstance(pilot.app.screen, TasksScreen):
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            await pilot.app.action_quit()
            await until(pilot, lambda: pilot.app._exit)
        assert pilot.app.return_code in (0, None)


async def test_the_users_own_key_leaves_while_the_board_is_opened() -> None:
    app, event = held_back(FakeBoard(), Preferences(keys={"app.quit": "f10"}))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Opening the board … F10 quits." in text_of(app))
        await pilot.press("f10")
        await until(pilot, lambda: app._exit)
        event.set()


async def test_a_terminal_that_is_too_small_is_told_so_before_the_board_is_open() -> None:
    app, event = held_back(FakeBoard())
    async with app.run_test(size=(50, 12)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, TooSmallScreen))
        event.set()
        await until(pilot, lambda: any(isinstance(screen, TasksScreen) for screen in app.screen_stack))
        assert isinstance(app.screen, TooSmallScreen)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: isinstance(app.screen, TasksScreen))
        assert len(app.screen_stack) == 2


async def test_a_board_that_does_not_open_ends_the_app_with_its_error() -> None:
    error = InputError("hpc-board.yaml: line 3: is not a known key.", hint="Correct it.")

    def opened() -> Board:
        raise error

    app = BoardApp(opened)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app._exit)
    assert app.failure is error


def test_faulty_settings_are_told_on_the_terminal_that_the_app_has_left(tmp_path: Path) -> None:
    settings = tmp_path / "hpc-board.yaml"
    settings.write_text("boardd: x\n")
    words = ["hpc-board", "--config", str(settings)]
    with on_a_terminal(f"import sys; sys.argv = {words!r}; from hpc_board.__main__ import main; main()") as terminal:
        assert terminal.end() == InputError.exit_code
        left = terminal.shown.rpartition(b"\x1b[?1049l")[2]
        assert b"error:" in left
        assert b'Did you mean "board"' in b" ".join(left.split())


async def test_a_service_that_is_absent_ends_the_app_with_its_error(tmp_path: Path) -> None:
    app = BoardApp(lambda: RemoteBoard(tmp_path / "absent.sock"), tick_seconds=3600, follow_seconds=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app._exit)
    assert isinstance(app.failure, ServiceError)


async def test_a_role_that_cannot_be_read_leaves_the_error_of_the_tasks() -> None:
    class OpenToOthers(FakeBoard):
        @property
        def role(self) -> Role:
            raise StorageError("the folder may be written by others")

        @role.setter
        def role(self, _: Role) -> None:
            pass

    board = OpenToOthers(failures={"tasks": StorageError("the folder may be written by others")})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "the folder may be written by others" in text_of(pilot.app)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
