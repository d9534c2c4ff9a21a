"""The Admin screen: who has it, what is on its pages, and what is decided there."""

from typing import Any

import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from hpc_board.domain.admin_views import PersonState
from hpc_board.domain.board_options import BoardOptions
from hpc_board.domain.moderation import Decision
from hpc_board.domain.roles import Role
from hpc_board.domain.run import RunState
from hpc_board.errors import Refused
from hpc_board.model.result import Verdict
from hpc_board.tui.app import BoardApp
from hpc_board.tui.screens.admin import AdminScreen
from hpc_board.tui.screens.code import CodeScreen
from hpc_board.tui.screens.dialogs import AskLines
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.widgets.bars import ErrorBox
from hpc_board.tui.widgets.grid import Grid
from hpc_board.tui.widgets.list_pane import ListPane
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_admin import BOARDS, AdminBoard
from tests.tui.fake_board import NOW, run
from tests.values import replace


def typed(text: str) -> list[str]:
    """The keys that type `text`."""
    names = {" ": "space", ":": "colon", "+": "plus", "-": "minus", ",": "comma", ".": "full_stop"}
    return [names.get(letter, letter) for letter in text]


def front(app: Any) -> object:
    """The screen in front."""
    return app.screen


def told(app: Any) -> str:
    """Return the notifications of the app."""
    return " ".join(toast.message for toast in app._notifications)


def grid(app: Any) -> Grid:
    """The table of the page that is open."""
    screen = app.screen
    assert isinstance(screen, AdminScreen)
    return next(pane for pane in screen.query(ListPane) if pane.display).grid


def row(app: Any, begin: str) -> str:
    """The line of the screen that begins with these words."""
    return next((line.strip() for line in text_of(app).splitlines() if line.strip().startswith(begin)), "")


# The people of the screen


async def test_who_is_no_admin_has_neither_key_nor_entry() -> None:
    async with app_on(AdminBoard(role=Role.PARTICIPANT)).run_test(size=(80, 50)) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        assert isinstance(front(pilot.app), TasksScreen)
        await press(pilot, "question_mark")
        assert "Manage boards" not in text_of(pilot.app)
        await press(pilot, "escape", "ctrl+p")
        assert isinstance(front(pilot.app), CommandPalette)
        assert "Manage boards" not in text_of(pilot.app)


async def test_an_admin_gets_there_by_the_key_and_by_the_palette() -> None:
    async with app_on(AdminBoard()).run_test(size=(80, 50)) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        assert isinstance(front(pilot.app), AdminScreen)
        await press(pilot, "A")
        assert len([screen for screen in pilot.app.screen_stack if isinstance(screen, AdminScreen)]) == 1
        await press(pilot, "escape", "r", "ctrl+p", *"admin")
        await until(pilot, lambda: "Manage boards, users" in text_of(pilot.app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(front(pilot.app), AdminScreen))
        await press(pilot, "escape")
        assert isinstance(front(pilot.app), RunsScreen)


async def test_a_creator_has_their_own_boards_and_what_they_may_do_with_them() -> None:
    board = AdminBoard(role=Role.CREATOR)
    async with app_on(board).run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        shown = text_of(pilot.app)
        assert "vectoradd" in shown
        assert "grayscale" not in shown
        for words in ("2 Users", "Log", "Stop/start"):
            assert words not in shown
        for words in ("Ranked runs", "Limits", "Rerun"):
            assert words in shown
        await press(pilot, "2", "4", "S")
        assert isinstance(front(pilot.app), AdminScreen)
        await press(pilot, "V")
        assert "Close vectoradd?" in text_of(pilot.app)


# Boards


async def test_nobody_is_asked_to_stop_before_it_is_known_whether_it_is_stopped() -> None:
    board = AdminBoard(held=("stopped",))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        try:
            await pilot.press("A")
            await until(pilot, lambda: "stopped" in board.calls)
            await pilot.press("S")
            await pilot.pause()
            assert isinstance(front(pilot.app), AdminScreen)
        finally:
            board.free()
        await settled(pilot)
        await press(pilot, "S")
        assert isinstance(front(pilot.app), AskLines)


async def test_the_runs_of_a_user_are_those_of_no_other_name_like_it() -> None:
    board = AdminBoard(persons=[PersonState("ad", Role.PARTICIPANT)])
    async with app_on(board).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "2", "enter")
        assert "No row matches “ad”." in text_of(pilot.app)
        await press(pilot, "slash", *"h100", "enter")
        assert "Ranked runs 0" in text_of(pilot.app)
        assert "· filter: ad h100" in text_of(pilot.app)
        assert "No row matches “ad h100”." in text_of(pilot.app)


# Users


async def test_a_user_leads_to_their_runs_and_a_search_finds_them() -> None:
    async with app_on(AdminBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "2", "slash", *"EV", "enter")
        assert grid(pilot.app).row_count == 1
        assert "filter: EV" in text_of(pilot.app)
        await press(pilot, "enter")
        assert "Admin / Ranked runs " in text_of(pilot.app).splitlines()[0]
        assert "filter: eve" in text_of(pilot.app)
        assert "Esc Clear" in text_of(pilot.app).splitlines()[-1]
        narrowed = grid(pilot.app).row_count
        await press(pilot, "escape")
        assert "filter" not in text_of(pilot.app)
        assert "Esc Back" in text_of(pilot.app).splitlines()[-1]
        assert grid(pilot.app).row_count > narrowed
        assert isinstance(front(pilot.app), AdminScreen)
        await press(pilot, "escape")
        assert isinstance(front(pilot.app), TasksScreen)


# Runs


async def test_a_board_and_a_run_open_and_so_does_its_file() -> None:
    async with app_on(AdminBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "end", "enter")
        assert isinstance(front(pilot.app), StandingsScreen)
        await press(pilot, "escape", "3", "down", "down", "enter")
        assert isinstance(front(pilot.app), ReportScreen)
        await press(pilot, "escape")
        assert grid(pilot.app).current == "39"
        await pilot.press("v")
        await until(pilot, lambda: isinstance(front(pilot.app), CodeScreen))


# Log


async def test_the_log_leads_to_what_it_is_about() -> None:
    async with app_on(AdminBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "4")
        assert "user eve" in text_of(pilot.app)
        assert "ranked 2/h, other none" in text_of(pilot.app)
        await press(pilot, "down", "enter")
        assert "Admin / Users " in text_of(pilot.app).splitlines()[0]
        assert "filter: eve" in text_of(pilot.app)
        await press(pilot, "4", "down", "enter")
        assert "Admin / Boards " in text_of(pilot.app).splitlines()[0]
        assert "filter: vectoradd" in text_of(pilot.app)
        await press(pilot, "4", "home", "enter")
        assert "File of run 31" in text_of(pilot.app)


async def test_the_log_and_the_users_are_sorted_by_values_and_filtered_by_words() -> None:
    async with app_on(AdminBoard()).run_test(size=(120, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "2", "o")
        assert keys_of(pilot.app)[:2] == ["eve", "mallory"]
        await press(pilot, "4", "o", "o", "o")
        assert keys_of(pilot.app)[-2:] == ["14", "12"]
        await press(pilot, "slash", *"ADA eve", "enter")
        assert keys_of(pilot.app) == ["12"]


# Long lists, refreshing, failing


@pytest.mark.parametrize(
    ("page", "heads"),
    [
        ("1", ["Board▲", "▲Deadline", "Access▲", "Creator▲", "▼Submits/h", "▼Users"]),
        ("2", ["User▲", "Ban▲", "▼Submits/h", "▼Runs/h", "▲Last"]),
        ("3", ["▼Run", "User▲", "Task▲", "GPU▲", "State▲", "▲Score"]),
        ("4", ["▲Age", "By▲", "Action▲", "About▲"]),
    ],
)
async def test_every_list_is_sorted_by_its_columns(page: str, heads: list[str]) -> None:
    app = BoardApp(AdminBoard, now=lambda: NOW, tick_seconds=3600)
    async with app.run_test(size=(200, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "A", page)
        begun = keys_of(app)
        for head in heads:
            assert head in text_of(app)
            kept = keys_of(app)
            assert sorted(kept) == sorted(begun)
            await press(pilot, "O")
            assert head.translate({ord("▲"): "▼", ord("▼"): "▲"}) in text_of(app)
            assert sorted(keys_of(app)) == sorted(begun)
            await press(pilot, "O")
            assert keys_of(app) == kept
            await press(pilot, "o")
        assert keys_of(app) == begun
        head = heads[-1]
        line = next(
            line for line in text_of(app).splitlines() if head.strip("▲▼") in line and heads[1].strip("▲▼") in line
        )
        await pilot.click(grid(app), offset=(line.index(head.strip("▲▼")), 1))
        await settled(pilot)
        assert head in text_of(app)


def keys_of(app: Any) -> list[str]:
    """The keys of the rows of the open page."""
    return [row.key for row in grid(app)._shown]


async def test_the_pages_are_looked_at_again_by_themselves() -> None:
    board = AdminBoard()
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(pilot.app.check_action("admin", ())))
        await pilot.press("A")
        await until(pilot, lambda: "vectoradd" in text_of(pilot.app))
        board.change_state("vectoradd", submissions=4321)
        await until(pilot, lambda: "4321" in text_of(pilot.app))
        await pilot.press("3")
        await until(pilot, lambda: "wrong" in text_of(pilot.app) or "39" in text_of(pilot.app))
        board.replace_run(run(41, RunState.FINISHED, verdict=Verdict.CRASH))
        await until(pilot, lambda: "crash" in text_of(pilot.app))


async def test_what_cannot_be_decided_says_why_and_what_to_do_until_it_is_taken_away() -> None:
    error = Refused("you may not ban users", hint="Ask an admin.")
    board = AdminBoard(failures={"ban": error})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "2", "B", *typed("x"), "enter", "enter")
        assert "you may not ban users" in text_of(pilot.app)
        assert "Ask an admin." in text_of(pilot.app)
        assert [field.value for field in pilot.app.screen.query(Input)] == ["x", ""]
        await press(pilot, "escape")
        assert isinstance(front(pilot.app), AdminScreen)
        assert not pilot.app.screen.query_one(ErrorBox).display
        await press(pilot, "escape")
        assert isinstance(front(pilot.app), TasksScreen)


async def test_a_second_decision_waits_for_the_first() -> None:
    board = AdminBoard(held=("stop",))
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        try:
            await pilot.press("S")
            await until(pilot, lambda: isinstance(front(pilot.app), AskLines))
            await pilot.press("enter")
            await until(pilot, lambda: "stop" in board.calls)
            await pilot.press("end", "V")
            await until(pilot, lambda: isinstance(front(pilot.app), AskLines))
            await pilot.press("enter")
            await until(pilot, lambda: "is still in progress" in told(pilot.app))
            assert "carry_out" not in board.calls
        finally:
            board.free()
        await settled(pilot)
        assert "Submissions were stopped" in text_of(pilot.app)


async def test_the_page_is_remembered_and_brackets_turn_it() -> None:
    async with app_on(AdminBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "right_square_bracket", "right_square_bracket", "escape", "A")
        assert "Admin / Ranked runs" in text_of(pilot.app)
        await press(pilot, "left_square_bracket", "left_square_bracket", "left_square_bracket")
        assert "Admin / Log" in text_of(pilot.app)


async def test_the_name_of_a_page_opens_it_also_while_one_types() -> None:
    async with app_on(AdminBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "slash", *"mat")
        await pilot.click(offset=(15, 2))
        await settled(pilot)
        assert "Admin / Users" in text_of(pilot.app)
        assert pilot.app.screen.focused is grid(pilot.app)
        await press(pilot, "1", "slash", *"ident", "enter")
        assert "filter: ident" in text_of(pilot.app)
        assert grid(pilot.app).row_count == 1


@pytest.mark.parametrize("size", [(60, 16), (120, 40)])
async def test_every_page_and_question_fits(size: tuple[int, int]) -> None:
    hurt = replace(BOARDS[-1], name="x" * 60, gpus=tuple(f"GPU{number}" for number in range(40)))
    async with app_on(AdminBoard(states=(*BOARDS[:-1], hurt))).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "A", "end")
        for page in "1234":
            await press(pilot, page, "slash", "escape")
            screen = pilot.app.screen
            pane = next(pane for pane in screen.query(ListPane) if pane.display)
            for widget in pane.query("Grid, .selected"):
                assert screen.region.contains_region(widget.region)
                assert widget.size.height > 0
        for page, key in (("1", "S"), ("1", "D"), ("1", "H"), ("2", "B"), ("3", "X")):
            await press(pilot, page, "end", key)
            screen = pilot.app.screen
            assert isinstance(screen, AskLines)
            for widget in screen.query("#question, #words, Input"):
                assert screen.region.contains_region(widget.region)
                assert widget.size.height > 0
            await press(pilot, "escape")


async def test_hostile_words_stay_words() -> None:
    evil = "\x1b[31mred\x07\u202e[bold]x[/bold]\n" * 5
    person = PersonState(f"eve{evil}", Role.PARTICIPANT, Decision("ban", "user", "eve", evil, NOW, evil))
    decision = Decision(evil, evil, evil, evil, NOW, evil, evil, 900)
    states = [replace(BOARDS[0], name=evil, terms=BoardOptions(evil), gpus=(evil,))]
    board = AdminBoard(states=states, persons=[person], decided=[decision])
    board.stopped = decision
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "A")
        for page in "1234":
            await press(pilot, page)
            assert not {"\x1b", "\x07", "\u202e"} & set(text_of(pilot.app))
            assert "[bold]" in text_of(pilot.app)
