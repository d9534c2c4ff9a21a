"""The verbs of a run on every screen that names one: its judged file, its mark, its number, its board and its user."""

import re
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot

from hpc_board.domain.run import RunState
from hpc_board.domain.standing import Mark, MarkKind
from hpc_board.errors import InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.tui.screens import watch
from hpc_board.tui.screens.code import CodeScreen
from hpc_board.tui.screens.compare import CompareScreen
from hpc_board.tui.screens.dialogs import Confirm
from hpc_board.tui.screens.feed import FeedScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.run_keys import RunScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.trend import TrendScreen
from hpc_board.tui.screens.watch import WatchScreen
from hpc_board.tui.widgets.text_pane import SourceView
from tests.tui.driving import app_on, press, settled, text_of, toasts, until
from tests.tui.fake_admin import AdminBoard
from tests.tui.fake_board import NOW, FakeBoard, run, standing
from tests.tui.test_compare_screen import Timed
from tests.tui.test_feed_screen import entries
from tests.values import replace

WAYS = {
    "Runs": ("r", "down", "down"),
    "Run": ("r", "down", "down", "enter"),
    "Board": ("end", "b", "u"),
    "Trend": ("end", "b", "u", "t"),
    "Feed": ("f",),
    "Ranked runs": ("A", "3", "down", "down"),
    "Code": ("r", "down", "down", "v"),
}
"""The keys from the tasks to a run of each screen that names one."""


def board() -> AdminBoard:
    found = AdminBoard()
    found.entries = entries(4)
    found.histories["H100"] = (standing(2, "ada", 12.34e-6, 39, 0.2),)
    return found


async def reach(pilot: Pilot[None], name: str) -> None:
    await settled(pilot)
    await press(pilot, *WAYS[name])


@pytest.mark.parametrize("name", WAYS)
async def test_the_judged_file_opens_from_every_screen_that_names_a_run(name: str) -> None:
    async with app_on(board()).run_test(size=(80, 24)) as pilot:
        await reach(pilot, name)
        await press(pilot, "v")
        assert isinstance(pilot.app.screen, ReportScreen if name == "Run" else CodeScreen)
        assert "# run " in text_of(pilot.app)
        assert "import torch" in text_of(pilot.app)


@pytest.mark.parametrize("name", WAYS)
async def test_a_note_is_added_on_every_screen_that_names_an_own_run(name: str) -> None:
    found = board()
    async with app_on(found).run_test(size=(80, 24)) as pilot:
        await reach(pilot, name)
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        named = screen.run_in_hand
        assert named is not None
        found.user = getattr(named, "submitter", named.user)
        found.failures["note"] = InputError("the submission has 100 notes.", hint="")
        reads = found.calls.count("whole")
        await press(pilot, "i", *"faster", "enter")
        assert "the submission has 100 notes." in text_of(pilot.app)
        assert found.calls.count("whole") == reads
        del found.failures["note"]
        await press(pilot, "i", *"faster", "enter")
        assert found.notes == [(found.run(named.id).submission, "faster")]
        assert found.calls.count("whole") == reads + (name == "Run")
        assert toasts(pilot.app) == ["Note added."]


async def test_a_note_says_that_its_run_cannot_be_read() -> None:
    found = board()
    async with app_on(found).run_test(size=(80, 24)) as pilot:
        await reach(pilot, "Board")
        found.known_runs = []
        await press(pilot, "i")
        assert toasts(pilot.app) == ["Run 39: there is no run 39"]


@pytest.mark.parametrize("name", [name for name in WAYS if name != "Code"])
async def test_a_run_is_copied_and_marked_on_every_screen_that_names_it(name: str) -> None:
    async with app_on(board()).run_test(size=(80, 24)) as pilot:
        await reach(pilot, name)
        await press(pilot, "y")

        def copied() -> str:
            (toast,) = toasts(pilot.app)
            return toast

        number = pilot.app.clipboard
        assert copied() == f"Copied {number}. y again: hpc-board run {number}"
        await press(pilot, "y")
        assert pilot.app.clipboard == f"hpc-board run {number}"
        assert re.search(r"y again: (/|job \d|run \d)", copied())
        await press(pilot, "m")
        assert getattr(pilot.app, "marked", None) is not None
        assert any(line.startswith(" *") for line in text_of(pilot.app).splitlines()) is (name != "Run")
        await press(pilot, "m")
        assert getattr(pilot.app, "marked", 0) is None


@pytest.mark.parametrize("name", WAYS)
async def test_board_and_trend_of_a_run_open_from_every_screen_that_names_it(name: str) -> None:
    async with app_on(board()).run_test(size=(80, 24)) as pilot:
        await reach(pilot, name)
        if name != "Trend":
            await press(pilot, "t")
            assert isinstance(pilot.app.screen, TrendScreen)
            await press(pilot, "escape")
        if name != "Board":
            await press(pilot, "b")
            assert isinstance(pilot.app.screen, StandingsScreen)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
@pytest.mark.parametrize("keys", ["b", "enter b", "enter b escape b"])
async def test_board_of_a_run_opens_on_its_gpu_with_the_cursor_on_the_row_of_its_user(
    size: tuple[int, int], keys: str
) -> None:
    found = board()
    found.boards["A100"] = tuple(standing(rank, f"user{rank}", rank * 1e-6, 100 + rank, rank) for rank in range(1, 90))
    found.boards["A100"] += (
        replace(standing(90, "lab", 90e-6, 190, 1), members=("ada", "bob"), submitter="bob"),
        standing(91, "carol", 91e-6, 191, 1),
    )
    found.known_runs = [run(7, RunState.FINISHED, gpu="A100", mode=Mode.TEST, verdict=Verdict.PASS)]
    async with app_on(found).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", *keys.split())
        screen = pilot.app.screen
        assert isinstance(screen, StandingsScreen)
        assert (screen._gpu, screen.tabs.active, screen.user_in_hand) == ("A100", "gpu-1", "lab")


@pytest.mark.parametrize(("name", "keys"), [("Runs", "btsew"), ("Run", "btsewR"), ("Ranked runs", "bt")])
async def test_a_run_whose_task_has_left_the_settings_opens_no_screen_of_it(name: str, keys: str) -> None:
    found = board()
    async with app_on(found).run_test(size=(120, 30)) as pilot:
        await reach(pilot, name)
        screen = pilot.app.screen
        found.known_tasks = ()
        for key in keys:
            await press(pilot, key)
            assert pilot.app.screen is screen, key
            assert [toast.split(": ")[-1] for toast in toasts(pilot.app)] == ['unknown task "vectoradd".'], key
            pilot.app.clear_notifications()
        await press(pilot, "v")
        assert "import torch" in text_of(pilot.app)


@pytest.mark.parametrize("submitter", ["ada", "bob"])
async def test_the_row_of_a_team_leads_to_its_trend_and_for_the_user_of_its_run_to_the_next_try(submitter: str) -> None:
    found = board()
    row = standing(1, "@red", 11.02e-6, 39, 70)
    found.boards["H100"] = (msgspec.structs.replace(row, members=("ada", "bob"), submitter=submitter),)
    found.entries = tuple(msgspec.structs.replace(each, user="@red", submitter=submitter) for each in found.entries)
    async with app_on(found).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        for screen in (StandingsScreen, FeedScreen):
            assert isinstance(pilot.app.screen, screen)
            active = pilot.app.screen.active_bindings
            assert [active[key].enabled for key in ("w", "R")] == 2 * [submitter == found.user]
            await press(pilot, "t")
            assert " on H100: @red" in text_of(pilot.app)
            await press(pilot, "escape", "f")


@pytest.mark.parametrize("keys", [("end", "b", "u"), ("end", "b", "u", "t"), ("r", "U"), ("r", "U", "tab")])
async def test_a_row_of_ones_own_run_leads_to_the_next_try(keys: tuple[str, ...]) -> None:
    found = board()
    async with app_on(found).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        opened = []
        for key in ("R", "w", "s"):
            await press(pilot, key)
            opened.append(type(pilot.app.screen))
            await press(pilot, "escape")
        assert opened == [Confirm, SubmitScreen, SubmitScreen]


async def test_a_row_of_another_users_run_is_neither_watched_nor_rerun() -> None:
    async with app_on(board()).run_test(size=(120, 30)) as pilot:
        await reach(pilot, "Feed")
        active = pilot.app.screen.active_bindings
        assert not any(active[key].enabled for key in ("w", "R"))
        await press(pilot, "s")
        assert isinstance(pilot.app.screen, SubmitScreen)


async def test_a_late_run_of_another_user_is_neither_watched_nor_rerun_and_leads_to_their_trend() -> None:
    found = board()
    found.milestones = {"H100": (Mark(MarkKind.LATE, "bob", 9e-6, 17, 34, NOW, "bob.py"),)}
    async with app_on(found).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "home")
        active = pilot.app.screen.active_bindings
        assert not any(active[key].enabled for key in ("w", "R"))
        await press(pilot, "t")
        assert " on H100: bob" in text_of(pilot.app)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (("end", "b", "home", "v"), "This row is not a user's run."),
        (("end", "b", "home", "U"), "This row is not a user's run."),
        (("f", "w"), "Run 39 is carol's: only your own runs are watched or rerun, and only these get notes."),
        (("r", "slash", *"zzz", "enter", "v"), "Nothing is selected."),
        (("r", "slash", *"zzz", "enter", "R"), "Nothing is selected."),
        (("A", "1", "D"), "This board is that of a task in the settings: its task.yml has the deadline."),
    ],
)
async def test_a_dim_key_says_why_it_has_no_effect(keys: tuple[str, ...], reason: str) -> None:
    found = board()
    found.milestones = {"H100": (Mark(MarkKind.REFERENCE, "reference", 9e-6),)}
    async with app_on(found).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        assert toasts(pilot.app) == [reason]


async def test_the_key_of_a_watch_says_the_fault_of_the_options_in_the_form(kernel: Path) -> None:
    async with app_on(board(), kernel).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, SubmitScreen)
        screen.options_input.focus()
        await press(pilot, *"time=abc")
        screen.gpu_list.focus()
        await press(pilot, "w")
        assert 'expected a time up to a year as "MM"' in toasts(pilot.app)[0]


async def test_a_run_in_flight_is_cancelled_on_the_page_of_its_user() -> None:
    async with app_on(board()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "U")
        assert "c" not in pilot.app.screen.active_bindings
        await press(pilot, "tab", "c")
        assert isinstance(pilot.app.screen, Confirm)


async def test_a_run_of_a_watch_has_the_verbs_of_one(monkeypatch: pytest.MonkeyPatch, kernel: Path) -> None:
    monkeypatch.setattr(watch, "LOOK_SECONDS", 0.02)
    found = board()
    async with app_on(found, kernel).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("w")
        await until(pilot, lambda: isinstance(pilot.app.screen, WatchScreen))
        screen = pilot.app.screen
        assert isinstance(screen, WatchScreen)
        await until(pilot, lambda: not screen.is_open("look") and screen.answered_at("look") is not None)
        kernel.write_text(f"{kernel.read_text()}# saved\n")
        await until(pilot, lambda: screen.run_in_hand is not None)
        await press(pilot, "y")
        assert pilot.app.clipboard.isdecimal()
        sent = found.known_runs[0]
        ended = replace(sent.status, state=RunState.FINISHED)
        found.replace_run(replace(sent, status=ended, verdict=Verdict.PASS))
        for key, opened in (("v", CodeScreen), ("b", StandingsScreen), ("t", TrendScreen), ("s", SubmitScreen)):
            await press(pilot, key)
            assert isinstance(pilot.app.screen, opened), key
            if key == "s":
                assert ", mode ranked: " in text_of(pilot.app)
            await press(pilot, "escape")
        assert pilot.app.screen is screen


async def test_a_run_on_its_own_page_is_compared_with_a_row_of_the_feed() -> None:
    found = Timed()
    found.entries = entries(4)
    async with app_on(found).run_test(size=(80, 24)) as pilot:
        await reach(pilot, "Feed")
        await press(pilot, "m", "escape", "r", "a", "end", "up", "enter", "m")
        assert isinstance(pilot.app.screen, CompareScreen)
        assert "34 with 39" in text_of(pilot.app)


async def test_the_file_of_a_run_is_read_when_its_page_first_opens() -> None:
    found = board()
    async with app_on(found).run_test(size=(120, 40)) as pilot:
        await reach(pilot, "Run")
        assert "code" not in found.calls
        await press(pilot, "4")
        assert "1 # run 39" in text_of(pilot.app)
        await press(pilot, "slash", *"torch", "enter")
        assert "/torch: 1 of " in text_of(pilot.app)
        await press(pilot, "1", "v")
        assert found.calls.count("code") == 1
        assert pilot.app.screen.query_one(SourceView).has_focus_within


async def test_a_run_whose_file_the_user_may_not_read_says_so_on_its_page() -> None:
    found = board()
    found.failures["code"] = Refused("the owner is bob, not ada.", hint="")
    async with app_on(found).run_test(size=(80, 24)) as pilot:
        await reach(pilot, "Run")
        await press(pilot, "v")
        assert "You may not read this file: the owner is bob, not ada." in text_of(pilot.app)
        await press(pilot, "1", "v")
        assert found.calls.count("code") == 1


async def test_copy_pressed_again_copies_the_command_the_job_and_the_number() -> None:
    async with app_on(FakeBoard()).run_test(size=(100, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        copied = []
        for _ in range(4):
            await press(pilot, "y")
            copied.append(pilot.app.clipboard)
        assert copied[:2] == ["41", "hpc-board run 41"]
        assert copied[-1] in ("41", copied[2])
        await press(pilot, "down", "y")
        assert pilot.app.clipboard == "40"
