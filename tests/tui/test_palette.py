"""The command palette finds tasks, boards, runs and users beside actions."""

import threading
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import OptionList

from hpc_board.errors import StorageError
from hpc_board.tui import actions
from hpc_board.tui.actions import Actions, found_on
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.screens.user import UserScreen
from tests.tui.driving import DEADLINE_SECONDS, app_on, press, settled, text_of, toasts, until
from tests.tui.fake_board import RUNS, FakeBoard


def typed(words: str) -> list[str]:
    return ["space" if letter == " " else letter for letter in words]


async def names_of(pilot: Pilot[Any]) -> list[str]:
    """Return the names of the lines of the palette."""
    await settled(pilot)
    return [
        hit.text for option in pilot.app.screen.query_one(OptionList).options if (hit := getattr(option, "hit", None))
    ]


@pytest.mark.parametrize(
    ("query", "name", "screen", "place"),
    [
        ("39", "Run 39", ReportScreen, "Run 39"),
        ("run 39", "Run 39", ReportScreen, "Run 39"),
        ("user car", "User carol", UserScreen, "User carol"),
        ("board matm", "Board matmul", StandingsScreen, "Board matmul"),
        ("task matm", "matmul", TasksScreen, "Implement matmul."),
    ],
)
async def test_the_palette_opens_runs_users_boards_and_tasks(
    query: str, name: str, screen: type[Screen[Any]], place: str
) -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "ctrl+p", *typed(query))
        assert (await names_of(pilot))[0] == name
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, screen)
        assert place in text_of(pilot.app)


async def test_actions_come_first_and_the_board_answers_with_a_few_lines() -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", *"ar")
        names = await names_of(pilot)
        assert names[0] != "User carol"
        assert "User carol" in names


async def test_words_of_an_action_match_as_words_and_its_name_by_letters() -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", *"vect")
        assert await names_of(pilot) == ["vectoradd", "Board vectoradd"]
        await press(pilot, *["backspace"] * 4, *"sbm")
        assert (await names_of(pilot))[0] == "Submit"
        await press(pilot, *["backspace"] * 3, *typed("the standings"))
        assert {"Board", "Feed"} <= set(await names_of(pilot))


async def test_a_draft_is_kept_on_the_way_to_a_task() -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "s", *"draft.py", "ctrl+p", *typed("task matm"), "enter")
        assert "Implement matmul." in text_of(pilot.app)
        await press(pilot, "end", "s")
        assert "draft.py" in text_of(pilot.app)


@pytest.mark.parametrize("query", ["qqq", "run 999"])
async def test_the_palette_says_that_nothing_matches(query: str) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", *typed(query))
        assert await names_of(pilot) == [query]
        assert "No match                   Type part of a name, a run's number or `user`." in text_of(pilot.app)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, TasksScreen)


@pytest.mark.parametrize(
    ("query", "name", "reason"),
    [("cancel", "Cancel", "Run 39 has ended."), ("pau", "Pause", "P (Pause) works on Watch.")],
)
async def test_an_action_without_effect_here_is_found_with_the_reason(query: str, name: str, reason: str) -> None:
    async with app_on(FakeBoard(runs=[each for each in RUNS if each.id == 39])).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "ctrl+p")
        assert name not in await names_of(pilot)
        await press(pilot, *query)
        assert (await names_of(pilot))[0] == name
        assert reason in text_of(pilot.app)
        await press(pilot, "enter")
        assert toasts(pilot.app) == [reason]


@pytest.mark.parametrize(("query", "name"), [("user", "User carol"), ("task", "conv2d"), ("board", "Board conv2d")])
async def test_a_kind_alone_finds_names_of_it(query: str, name: str) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p", *query)
        assert name in await names_of(pilot)


class SlowBoard(FakeBoard):
    """A board that answers about users when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def users(self, part: str = "", limit: int = 1_000) -> tuple[str, ...]:
        self.may_answer.wait(DEADLINE_SECONDS)
        return super().users(part, limit)


async def test_actions_are_shown_before_the_board_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_FIND_SECONDS", DEADLINE_SECONDS)
    board = SlowBoard()
    async with app_on(board).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+p")
        await pilot.press(*"feed")
        shown = pilot.app.screen.query_one(OptionList)
        await until(pilot, lambda: 0 < shown.option_count < 8)
        assert "Show recent changes" in text_of(pilot.app)
        board.may_answer.set()
        await names_of(pilot)


async def test_enter_chooses_among_the_lines_of_the_whole_query_and_later_keys_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actions, "_FIND_SECONDS", DEADLINE_SECONDS)
    board = SlowBoard()
    async with app_on(board).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await pilot.press("ctrl+p", *"carol", "enter", "b")
        await until(pilot, lambda: isinstance(pilot.app.screen, Actions) and pilot.app.screen.is_opening)
        board.may_answer.set()
        await until(pilot, lambda: isinstance(pilot.app.screen, StandingsScreen))
        await press(pilot, "escape")
        assert "User carol" in text_of(pilot.app)


async def test_esc_closes_the_palette_that_waits_for_its_lines() -> None:
    board = SlowBoard()
    async with app_on(board).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await pilot.press("ctrl+p", *"carol", "enter", "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, TasksScreen))
        board.may_answer.set()


async def test_actions_are_found_while_the_board_cannot_be_read() -> None:
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        board.failures["tasks"] = board.failures["users"] = StorageError("the database is locked.", hint="Wait.")
        await press(pilot, "ctrl+p", *"quit")
        assert "Quit" in await names_of(pilot)
        await press(pilot, *"qqq")
        assert "The board does not answer." in text_of(pilot.app)


@pytest.mark.parametrize("query", ["", "m"])
def test_a_query_without_a_name_asks_the_board_for_nothing(query: str) -> None:
    board = FakeBoard()
    assert found_on(board, print, query) == []
    assert board.calls == []


async def test_the_main_screens_open_from_every_other_one_by_their_keys_and_by_name() -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "r")
        assert type(pilot.app.screen).__name__ == "RunsScreen"
        await press(pilot, "enter", "p")
        assert type(pilot.app.screen).__name__ == "ClusterScreen"
        await press(pilot, "f")
        assert type(pilot.app.screen).__name__ == "FeedScreen"
        await press(pilot, "ctrl+p", *"tasks", "enter")
        assert type(pilot.app.screen).__name__ == "TasksScreen"
        await press(pilot, "ctrl+p", *"cluster", "enter")
        assert type(pilot.app.screen).__name__ == "ClusterScreen"


async def test_a_click_on_a_part_of_the_path_goes_back_there() -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "enter", "b")
        assert "Runs / Run 41 / Board" in text_of(pilot.app)
        await pilot.click("#where", offset=(1, 0))
        await settled(pilot)
        assert type(pilot.app.screen).__name__ == "RunsScreen"
