"""The path in the title: Esc leads back by it, from every screen to the one that opened it."""

import pytest

from hpc_board.domain.roles import Role
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.tasks import TasksScreen
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_admin import AdminBoard
from tests.tui.fake_board import FakeBoard
from tests.tui.test_compare_screen import Timed
from tests.tui.test_feed_screen import feed_of

BOARD, TREND = "Board vectoradd", "Trend of bob"


@pytest.mark.parametrize(
    ("board", "steps"),
    [
        (
            FakeBoard(),
            [("r", "Runs / your runs"), ("p", "Runs / Cluster"), ("enter", "Runs / Cluster / Runs / your runs · H100")],
        ),
        (
            FakeBoard(),
            [("r p", "Runs / Cluster"), ("a", "Runs / Cluster / Runs / all users · H100")],
        ),
        (
            FakeBoard(),
            [("r", "Runs / your runs"), ("enter", "Runs / Run 41"), ("b", "Runs / Run 41 / Board vectoradd")],
        ),
        (FakeBoard(), [("end b", BOARD), ("enter", f"{BOARD} / Run 34"), ("U", f"{BOARD} / Run 34 / User bob")]),
        (FakeBoard(), [("end b", BOARD), ("v", f"{BOARD} / File of run 34")]),
        (FakeBoard(), [("end b", BOARD), ("t", f"{BOARD} / {TREND}"), ("enter", f"{BOARD} / {TREND} / Run 34")]),
        (FakeBoard(), [("r", "Runs / your runs"), ("t", "Runs / Trend of ada")]),
        (feed_of(8), [("end b f", f"{BOARD} / Feed / vectoradd"), ("enter", f"{BOARD} / Feed / Run 39")]),
        (FakeBoard(), [("enter", "Tasks / conv2d"), ("b s", "Tasks / Board conv2d / Submit")]),
        (Timed(), [("end b", BOARD), ("u m home m", f"{BOARD} / Compare / run 34 with 39")]),
        (feed_of(8), [("f", "Feed / all tasks"), ("enter", "Feed / Run 39"), ("b", "Feed / Run 39 / Board vectoradd")]),
        (feed_of(8), [("f", "Feed / all tasks"), ("b", "Feed / Board vectoradd")]),
        (feed_of(8), [("f ctrl+p r u n s enter", "Feed / Runs / your runs"), ("s", "Feed / Runs / Submit")]),
        (AdminBoard(role=Role.ADMIN), [("A", "Admin / Boards"), ("enter", "Admin / Boards / Board conv2d")]),
        (AdminBoard(role=Role.ADMIN), [("A 3", "Admin / Ranked runs"), ("enter", "Admin / Ranked runs / Run 41")]),
        (AdminBoard(role=Role.ADMIN), [("r", "Runs / your runs"), ("A", "Runs / Admin / Boards")]),
    ],
)
async def test_escape_leads_back_by_the_path_in_the_title(board: FakeBoard, steps: list[tuple[str, str]]) -> None:
    app = app_on(board)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screens, titles = [app.screen], [_title(app)]
        for keys, title in steps:
            await press(pilot, *keys.split())
            screens.append(app.screen)
            titles.append(title)
            assert _title(app) == title
        while len(screens) > 1:
            screens.pop()
            titles.pop()
            await press(pilot, "escape")
            while app.screen not in screens:
                await press(pilot, "escape")
            assert (app.screen, _title(app)) == (screens[-1], titles[-1])


@pytest.mark.parametrize(
    ("board", "keys", "title"),
    [
        (FakeBoard(), "r enter b r", "Runs / your runs"),
        (FakeBoard(), "r enter 3 escape", "Runs / your runs"),
        (FakeBoard(), "r p a p", "Runs / Cluster"),
        (FakeBoard(), "end b right right enter b", "Board vectoradd"),
        (feed_of(8), "end b f b", "Board vectoradd"),
        (feed_of(8), "f enter U enter r f", "Feed / all tasks"),
        (FakeBoard(), "r enter ctrl+p r u n space 3 9 enter", "Runs / Run 39"),
        (AdminBoard(role=Role.ADMIN), "A 3 enter b A", "Admin / Ranked runs"),
        (AdminBoard(role=Role.ADMIN), "r enter b U T", "Tasks"),
    ],
)
async def test_a_place_that_is_open_is_returned_to_and_not_opened_again(
    board: FakeBoard, keys: str, title: str
) -> None:
    app = app_on(board)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, *keys.split())
        assert _title(app) == title
        await press(pilot, *["escape"] * (title.count(" / ") + 1))
        assert isinstance(app.screen, TasksScreen)


def _title(app: BoardApp) -> str:
    """The path in the first line, between the app's name and the user."""
    line = text_of(app).splitlines()[0]
    return line.removeprefix(" hpc-board ▓▒░ ").partition("  ")[0]
