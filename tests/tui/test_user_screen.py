"""The page of a user: the ways to it from all rows that name one, and the ways on."""

import pytest

from hpc_board.domain.origin import By
from hpc_board.domain.run import RunState
from hpc_board.domain.user_page import UserPage, UserRank
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from hpc_board.tui import targets
from hpc_board.tui.messages import Open
from hpc_board.tui.screens.admin import AdminScreen
from hpc_board.tui.screens.code import CodeScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.trend import TrendScreen
from hpc_board.tui.screens.user import UserScreen
from tests.tui.driving import app_on, footer_keys, press, settled, text_of
from tests.tui.fake_admin import AdminBoard
from tests.tui.fake_board import FakeBoard, run, standing
from tests.tui.test_feed_screen import feed_of
from tests.values import replace


@pytest.mark.parametrize(
    ("keys", "user"),
    [(("end", "b"), "bob"), (("r",), "ada"), (("r", "a", "end"), "carol"), (("f",), "carol")],
    ids=["standings", "runs", "runs of all users", "feed"],
)
async def test_a_row_leads_to_the_page_of_its_user(keys: tuple[str, ...], user: str) -> None:
    async with app_on(feed_of(3)).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, *keys, "U")
        assert isinstance(pilot.app.screen, UserScreen)
        assert f"User {user}" in text_of(pilot.app).splitlines()[0]


async def test_a_line_of_admin_leads_to_its_user() -> None:
    async with app_on(AdminBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        for page, user in (("2", "ada"), ("3", "ada"), ("4", "ada")):
            await press(pilot, "A", page, "U")
            assert f"User {user}" in text_of(pilot.app).splitlines()[0], page
            await press(pilot, "escape", "escape")
        await press(pilot, "A", "1", "U")
        assert isinstance(pilot.app.screen, AdminScreen)


async def test_a_mark_beside_the_ranks_has_no_page() -> None:
    async with app_on(FakeBoard(runs=())).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "U")
        assert not isinstance(pilot.app.screen, UserScreen)


async def test_the_ranks_of_a_member_name_their_team() -> None:
    class Teams(FakeBoard):
        def of_user(self, user: str, by: By = By.ACCOUNT) -> UserPage:
            team = replace(standing(1, "@red", 1e-6, 39, 1), members=("ada", "bob"), submitter="bob")
            rows = ("course", team), ("matmul", standing(2, "ada", 1e-6, 40, 1))
            return UserPage(user, tuple(UserRank(task, "H100", row, 3, 1e-6) for task, row in rows), (), by)

    async with app_on(Teams()).run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "U")
        (head,) = [line for line in text_of(pilot.app).splitlines() if "Vs rank 1" in line]
        assert head.split()[:3] == ["Task▲", "GPU", "Team"]
        cells = [line.split()[:4] for line in text_of(pilot.app).splitlines() if "H100" in line]
        assert cells == [["course", "H100", "@red", "1"], ["matmul", "H100", "2", "3"]]


async def test_the_newest_runs_of_a_team_name_their_users() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        for user, has_users in (("ada", False), ("@red", True)):
            pilot.app.post_message(Open(targets.User(user)))
            await settled(pilot)
            assert isinstance(screen := pilot.app.screen, UserScreen)
            assert ("user" in screen.runs.grid.column_keys) is has_users


async def test_the_page_tells_ranks_and_runs_and_leads_on() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "U")
        shown = text_of(pilot.app)
        assert "2 ranks · newest run 1 min ago" in shown
        (line,) = [line for line in shown.splitlines() if "H100" in line and "ada.py" in line]
        assert line.split()[:8] == ["vectoradd", "H100", "2", "4", "12.3", "µs", "1.50x", "1.12x"]
        for key, screen in (("t", TrendScreen), ("v", CodeScreen), ("enter", TrendScreen)):
            await press(pilot, key)
            assert isinstance(pilot.app.screen, screen), key
            await press(pilot, "escape")
        await press(pilot, "tab", "enter")
        assert isinstance(pilot.app.screen, ReportScreen)
        assert "Run 41" in text_of(pilot.app)
        await press(pilot, "b")
        assert " Board vectoradd " in text_of(pilot.app)


async def test_the_newest_runs_tell_how_long_they_waited_and_ran() -> None:
    board = FakeBoard(runs=[run(7, RunState.FINISHED, verdict=Verdict.PASS)])
    async with app_on(board).run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "U")
        newest = text_of(pilot.app).split("Newest runs")[1]
        head, row = (next(line for line in newest.splitlines() if word in line) for word in ("Waited", "vectoradd"))
        ends = [head.index(name) + len(name) for name in ("Waited", "Ran")]
        assert [row[:end].split("  ")[-1].strip() for end in ends] == ["4 s", "14 s"]


async def test_the_ranks_of_the_entrants_of_a_user_are_a_key_away() -> None:
    class Agents(FakeBoard):
        def of_user(self, user: str, by: By = By.ACCOUNT) -> UserPage:
            page = super().of_user(user, by)
            ranks = [(rank, entrant) for rank in page.ranks for entrant in ("agent-a", "agent-b")]
            rows = tuple(replace(rank, row=replace(rank.row, entrant=entrant)) for rank, entrant in ranks)
            return replace(page, ranks=rows if by is By.ENTRANT else rows[::2])

    async with app_on(Agents()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "U")
        assert "agent-a: ada.py" in text_of(pilot.app)
        assert "agent-b" not in text_of(pilot.app)
        for key, has_both in (("Entrants", True), ("User", False)):
            assert key in [each.description for each in footer_keys(pilot.app)]
            await press(pilot, "a")
            assert ("agent-b: ada.py" in text_of(pilot.app)) is has_both
    async with app_on(FakeBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "U")
        assert "Entrants" not in [each.description for each in footer_keys(pilot.app)]


async def test_ranks_and_runs_can_be_marked_for_a_comparison() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "U", "m")
        assert "* vectoradd" in text_of(pilot.app).replace("*vec", "* vec")


async def test_a_user_without_ranks_has_runs_and_no_keys_of_ranks() -> None:
    failed = run(50, RunState.FINISHED, user="eve", verdict=Verdict.CRASH)
    async with app_on(FakeBoard(runs=[failed])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "a", "U")
        assert "No rank yet." in text_of(pilot.app)
        assert "crash" in text_of(pilot.app)
        assert not pilot.app.screen.active_bindings["b"].enabled
        await press(pilot, "tab", "b")
        assert isinstance(pilot.app.screen, StandingsScreen)


async def test_the_ranks_are_sorted_by_the_keys_of_all_lists() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "U")
        screen = pilot.app.screen
        assert isinstance(screen, UserScreen)
        found = []
        for keys in ((), ("o", "o"), ("O",)):
            await press(pilot, *keys)
            found.append([rank.gpu for rank in screen.ranks.window.items])
        assert found == [["H100", "L4"], ["L4", "H100"], ["H100", "L4"]]
        assert "▼Rank" in text_of(pilot.app)


async def test_a_high_terminal_shows_the_board_around_the_selected_rank() -> None:
    board = FakeBoard()
    board.boards["H100"] = tuple(
        standing(place, "ada" if place == 30 else f"user{place}", place * 1e-6, 100 + place, 1)
        for place in range(1, 41)
    )
    board.histories["H100"] = tuple(standing(1, "ada", us * 1e-6, 200 - us, us) for us in (30, 40, 50))
    async with app_on(board).run_test(size=(120, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "u", "U")
        text = text_of(pilot.app)
        assert "Board vectoradd on H100" in text
        assert [name in text for name in ("user24 ", "user25 ", "ada (you)", "user35 ", "user36 ")] == [
            False,
            True,
            True,
            True,
            False,
        ]
        assert "● fastest yet" in text
        await press(pilot, "down")
        assert "Board vectoradd on L4" in text_of(pilot.app)
        await pilot.resize_terminal(120, 24)
        await settled(pilot)
        assert "Board vectoradd on" not in text_of(pilot.app)


async def test_an_unknown_user_is_an_error_in_the_box() -> None:
    failure = InputError('unknown user "eve".', hint="Look.")
    async with app_on(FakeBoard(failures={"of_user": failure})).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "U")
        assert 'unknown user "eve"' in text_of(pilot.app)
