"""The overall standings of a competition in the app: the ways there, and what they say."""

from pathlib import Path

from hpc_board import settings
from hpc_board.board import Board
from tests.tui.driving import app_on, footer_keys, press, settled, text_of, until
from tests.unit.boards.test_competition import fill, synced
from tests.unit.recorded import recorded


async def test_a_board_and_the_palette_lead_to_the_overall_standings(tmp_path: Path) -> None:
    place = recorded(tmp_path)
    place.settings.write_text(place.settings.read_text() + "roles: {admins: [admin]}\n")
    synced(place, points="1x: 20, 2x: 50")
    fill(place)
    async with app_on(Board(settings.load(place.settings, {}), user="bob")).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "down", "b", "C")
        shown = text_of(pilot.app)
        assert "The Cup: 3 tasks, ranked by points" in shown
        rows = [line.split() for line in shown.splitlines()]
        assert [row[:4] for row in rows if "~1" in row or "3.30x" in row] == [
            ["1", "ada", "100", "3.30x"],
            ["~1", "bob", "(you)", "100"],
        ]
        await press(pilot, "home", "enter")
        assert "User ada" in text_of(pilot.app).splitlines()[0]
        await press(pilot, "escape", "escape", "escape", "ctrl+p", *"cup")
        await until(pilot, lambda: "Competition cup" in text_of(pilot.app))
        await press(pilot, "enter", "slash", *"ad", "enter")
        assert "filter: ad" in text_of(pilot.app)
        assert "bob (you)" not in text_of(pilot.app)
        await press(pilot, "u")
        assert "bob (you)" in text_of(pilot.app)


async def test_a_board_beside_competitions_has_no_such_key(tmp_path: Path) -> None:
    place = recorded(tmp_path)
    async with app_on(place.board).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "b")
        assert "C" not in [key.key for key in footer_keys(pilot.app)]
