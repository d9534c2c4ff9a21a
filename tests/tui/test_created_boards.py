"""Boards that people made, in the app: they are tasks like any other, and closed ones are not there."""

from datetime import timedelta
from pathlib import Path

from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.tui.app import BoardApp
from hpc_board.tui.widgets.grid import Grid
from tests.tui.driving import Door, app_on, press, settled, text_of, until
from tests.tui.fake_board import NOW
from tests.unit.recorded import recorded
from tests.values import created, updated


async def test_the_tasks_have_the_boards_that_one_sees_and_reloading_finds_new_ones(tmp_path: Path, door: Door) -> None:
    place = recorded(tmp_path)
    (tmp_path / "board").mkdir()
    settings = config.load(place.settings, {"XDG_STATE_HOME": str(tmp_path / "state")})
    admin, eve = Board(settings), door(settings, "eve")
    created(admin, "vectoradd_py", "course_public")
    created(admin, "vectoradd_py", "course_secret", RequestedOptions(closed=True))
    app = app_on(eve)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "course_public" in text_of(app))
        await settled(pilot)
        assert "course_secret" not in text_of(app)
        updated(admin, "course_secret", options=RequestedOptions(closed=False))
        await press(pilot, "f5")
        await until(pilot, lambda: "course_secret" in text_of(app))


async def test_a_board_that_is_made_meanwhile_appears_by_itself_and_the_selection_stays(
    tmp_path: Path, door: Door
) -> None:
    place = recorded(tmp_path)
    (tmp_path / "board").mkdir()
    settings = config.load(place.settings, {"XDG_STATE_HOME": str(tmp_path / "state")})
    admin, eve = Board(settings), door(settings, "eve")
    created(admin, "vectoradd_py", "course_two")
    moments = [NOW]
    app = BoardApp(lambda: eve, now=lambda: moments[0], tick_seconds=0.05, follow_seconds=3600)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "course_two" in text_of(app))
        await settled(pilot)
        grid = app.screen.query_one(Grid)
        await until(pilot, lambda: grid.row_count > 1)
        while grid.current != "course_two":
            await press(pilot, "down")
        created(admin, "vectoradd_py", "course_one")
        moments[0] += timedelta(seconds=6)
        await until(pilot, lambda: "course_one" in text_of(app))
        assert grid.current == "course_two"
        updated(admin, "course_one", options=RequestedOptions(deadline="2030-05-18 12:00"))
        moments[0] += timedelta(seconds=6)
        await until(pilot, lambda: any("course_one" in line and "23 h" in line for line in text_of(app).splitlines()))
        assert grid.current == "course_two"
