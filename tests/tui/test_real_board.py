"""The app on a real board: the embedded scheduler, a task of milliseconds, real kernels."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpc_board.board import Board
from hpc_board.errors import InputError, Refused
from hpc_board.model.task import Mode
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.watch import WatchScreen
from tests.e2e.boards import RIGHT, WRONG, board_files
from tests.tui.driving import Door, press, settled, text_of, until
from tests.values import requested


@pytest.fixture
def files(tmp_path: Path) -> Board:
    """The board by its files."""
    return Board.open(board_files(tmp_path, slurm=False).settings)


@pytest.fixture
def board(files: Board, door: Door) -> Board:
    """The board through either door."""
    return door(files.settings)


def pace(board: Board) -> float:
    """The seconds between two updates; a service tells changes, so that there are none by time."""
    return 3600 if board.served else 0.2


async def test_a_kernel_goes_from_the_form_to_the_top_of_its_board(tmp_path: Path, board: Board) -> None:
    (tmp_path / "kernel.py").write_text(RIGHT)
    app = BoardApp(lambda: board, Path("kernel.py"), tick_seconds=pace(board), follow_seconds=pace(board))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: double on CPU, mode test" in text_of(app))
        app.screen.query_one("#mode").focus()
        await pilot.press("r")
        await until(pilot, lambda: "mode ranked: one job" in text_of(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen))
        ends = ("Passed:", "Failed:", "Not evaluated:", "Ended without")
        await until(pilot, lambda: any(end in text_of(app) for end in ends), seconds=120)
        assert "Passed:" in text_of(app), text_of(app)
        await pilot.press("b")
        await until(pilot, lambda: "You are 1 of 1 on CPU" in text_of(app))
        await settled(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: "Rank 1 of 1 on CPU: " in text_of(app))


async def test_a_wrong_kernel_is_mended_under_watch_and_sent_again(tmp_path: Path, board: Board) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(WRONG)
    app = BoardApp(lambda: board, Path("kernel.py"), tick_seconds=pace(board), follow_seconds=pace(board))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: double on CPU, mode test" in text_of(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ReportScreen))
        await until(pilot, lambda: "hpc-board code 1 -o run1.py" in text_of(app), seconds=120)
        await press(pilot, "i", *"too small", "enter")
        await until(pilot, lambda: "Note: too small" in text_of(app))
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, WatchScreen))
        await until(pilot, lambda: "watching: save the file" in text_of(app))
        kernel.write_text(RIGHT)
        await until(pilot, lambda: "Passed: 2 tests." in text_of(app), seconds=120)
        assert [run.mode for run in board.runs.list()] == [Mode.TEST, Mode.TEST]
        await pilot.press("escape", "escape", "slash", *"wrong", "enter")
        await until(pilot, lambda: "filter: wrong" in text_of(app))
        await settled(pilot)
        await press(pilot, "R", "enter")
        await until(pilot, lambda: len(board.runs.list()) == 3)
        again, first = board.runs.list()[0], board.runs.list()[-1]
        assert (again.code_sha256, again.mode, again.gpu) == (first.code_sha256, first.mode, first.gpu)


async def test_a_held_gpu_judges_the_next_run_and_is_released(tmp_path: Path, board: Board) -> None:
    (tmp_path / "kernel.py").write_text(RIGHT)
    app = BoardApp(lambda: board, Path("kernel.py"), tick_seconds=pace(board), follow_seconds=pace(board))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Ready: double on CPU, mode test" in text_of(app))
        await settled(pilot)
        await press(pilot, "f6", "enter")
        await until(pilot, lambda: "CPU held, 29 min left" in text_of(app))
        await press(pilot, "ctrl+s")
        await until(pilot, lambda: "Passed: 2 tests." in text_of(app), seconds=120)
        assert [run.status.runner for run in board.runs.list()] == [1]
        await press(pilot, "escape", "p", "f6", "enter")
        await until(pilot, lambda: "CPU held" not in text_of(app))
        (told,) = [toast.message for toast in app._notifications if toast.title == "CPU released"]
        assert told.startswith("held CPU for ")
        assert f", 1 run; ended: released by {board.user}" in told


def test_only_a_file_of_ones_own_can_be_sent_again(tmp_path: Path, files: Board, board: Board) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(RIGHT)
    (sent,) = board.submissions.submit([requested(kernel, note="first")])
    request = board.submissions.again(sent.id, mode="ranked")
    assert (request.source.data, request.mode, request.note) == (kernel.read_bytes(), "ranked", "first")
    assert request.gpus == ("CPU",)
    with pytest.raises(Refused):
        Board(files.settings, user="somebody").submissions.again(sent.id)
    with pytest.raises(InputError, match="there is no run 99"):
        board.submissions.again(99)
    assert [run.id for run in board.runs.list(words="double first", before=sent.id + 1)] == [sent.id]
    # A service advances the run by itself.
    assert board.served or board.runs.started([sent.id]) == {}
    board.runs.cancel_each([sent.id])


async def test_a_board_without_a_service_is_opened_once_for_each_look(
    files: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = BoardApp(lambda: files, tick_seconds=3600, follow_seconds=3600)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "b")
        screen = pilot.app.screen
        assert isinstance(screen, StandingsScreen)
        opened: list[object] = []
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect

        def counted(*args: Any, **more: Any) -> sqlite3.Connection:
            opened.append(args)
            return connect(*args, **more)

        monkeypatch.setattr(sqlite3, "connect", counted)
        screen.look_again()
        await settled(pilot)
        assert len(opened) == 1
