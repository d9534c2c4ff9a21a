"""The keys of all screens, widgets and dialogs, beside the table of verbs: one meaning for each."""

import importlib
import pkgutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App
from textual.binding import Binding
from textual.command import CommandList
from textual.dom import DOMNode
from textual.keys import key_to_character

from hpc_board import tui
from hpc_board.tui.app import BoardApp
from hpc_board.tui.keys import displayed
from hpc_board.tui.screens.admin import AdminScreen
from hpc_board.tui.screens.cluster import ClusterScreen
from hpc_board.tui.screens.compare import CompareScreen
from hpc_board.tui.screens.competition import CompetitionScreen
from hpc_board.tui.screens.dialogs import AskLines, Confirm, HelpScreen, Line
from hpc_board.tui.screens.feed import FeedScreen
from hpc_board.tui.screens.report import ReportScreen
from hpc_board.tui.screens.run_keys import RunScreen
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.standings import StandingsScreen
from hpc_board.tui.screens.submit import SubmitScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.screens.trend import TrendScreen
from hpc_board.tui.screens.user import UserScreen
from hpc_board.tui.verbs import VERBS
from hpc_board.tui.widgets.grid import Grid
from hpc_board.tui.widgets.text_pane import TextPane
from tests.tui.driving import app_on, footer_keys, go_to, press, settled, text_of, toasts
from tests.tui.fake_admin import AdminBoard
from tests.tui.fake_board import FakeBoard
from tests.tui.test_feed_screen import entries

ROOT = Path(__file__).parents[2]

MOVES = {
    "g": {"scroll_top", "scroll_home"},
    "G": {"scroll_bottom", "scroll_end"},
    "h": {"scroll_left", "turn(-1)"},
    "j": {"cursor_down", "scroll_down"},
    "k": {"cursor_up", "scroll_up"},
    "l": {"scroll_right", "turn(1)"},
    "left_square_bracket": {"turn(-1)"},
    "right_square_bracket": {"turn(1)"},
    "q": {"quit", "quit_by_letter"},
    "question_mark": {"help", "dismiss"},
    "tilde": {"home"},
}
"""The actions of the keys that move, and of those that every screen and dialog has, which have no verb."""


def places() -> Iterator[type[DOMNode]]:
    """Yield every class of the app with keys of its own."""
    for module in pkgutil.walk_packages(tui.__path__, "hpc_board.tui."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module.name:
                yield value


def character(key: str) -> str:
    """Return the character that a key types, or one that is not printable."""
    # Unicode's name of "/" is SOLIDUS.
    return "/" if key == "slash" else key_to_character(key) or "\0"


def bound(place: type[DOMNode]) -> Iterator[tuple[str, Binding]]:
    """Yield the keys of a class with their bindings: those that type a character but no digit, and those of verbs."""
    keys = {verb.key for verb in VERBS.values()}
    for binding in place.__dict__.get("BINDINGS", ()):
        assert isinstance(binding, Binding)
        for key in binding.key.split(","):
            if key in keys or (character(key).isprintable() and not key.isdigit()):
                yield key, binding


def test_a_key_of_the_table_has_one_verb_and_a_verb_one_word() -> None:
    keys = Counter(verb.key for verb in VERBS.values())
    assert {key for key, count in keys.items() if count > 1} == {"slash"}
    assert len({verb.word for verb in VERBS.values()}) == len(VERBS)
    assert {verb.word for verb in VERBS.values() if verb.key == "slash"} == {"Filter", "Search"}
    assert not {verb.key for verb in VERBS.values()} & MOVES.keys()


def test_every_key_of_a_screen_widget_or_dialog_is_that_of_its_verb() -> None:
    known = {(verb.key, verb.word) for verb in VERBS.values()}
    found = set()
    for place in places():
        for key, binding in bound(place):
            if key in MOVES:
                assert binding.action.rpartition(".")[2] in MOVES[key], (place, binding)
            # Tab completes a name first.
            elif binding.action != "complete":
                assert (key, binding.description) in known, (place, binding)
                found.add((key, binding.description))
    assert found == known


def test_a_list_is_filtered_where_rows_disappear_and_searched_elsewhere() -> None:
    words = {place: binding.description for place in places() for key, binding in bound(place) if key == "slash"}
    filtered = {TasksScreen, RunsScreen, AdminScreen, CompetitionScreen}
    filtered |= {FeedScreen, UserScreen, TrendScreen, ClusterScreen, StandingsScreen}
    assert {place for place, word in words.items() if word == "Filter"} == filtered
    assert {place for place, word in words.items() if word == "Search"} == {ReportScreen, CompareScreen, TextPane}


@pytest.mark.parametrize(
    ("way", "words", "left"),
    [
        ("f", "record", 2),
        ("f", "zzz", 0),
        ("r U", "h100", 1),
        ("r U tab", "zzz", 0),
        ("end b", "ada", 1),
        ("end b u t", "zzz", 0),
        ("p", "h100", 1),
        ("r", "zzz", 0),
    ],
)
async def test_every_list_is_filtered_by_words_that_are_no_commands(way: str, words: str, left: int) -> None:
    board = AdminBoard()
    board.entries = entries(8)
    async with app_on(board).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, *way.split())
        screen, grid = pilot.app.screen, pilot.app.focused
        assert isinstance(grid, Grid)
        await press(pilot, "slash", *words, "enter")
        assert (pilot.app.screen, grid.row_count) == (screen, left)
        await press(pilot, "escape")
        assert grid.row_count > left


async def test_a_key_of_the_table_that_a_screen_lacks_says_so() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        ways = {
            ("t",): "t (Trend) works on a run.",
            ("r", "r"): "r (Runs) works on other screens.",
            ("P",): "P (Pause) works on Watch.",
            ("f", "f5"): "F5 (Refresh) works on other screens.",
            ("T", "s", *["tab"] * 5, "slash"): "/ (Search) works on a text or a list with rows.",
        }
        for way, words in ways.items():
            await press(pilot, *way)
            assert toasts(pilot.app)[-1] == words


async def test_a_message_is_not_shown_twice_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        hint = "t (Trend) works on a run."
        await press(pilot, "t", "P", "t")
        assert toasts(pilot.app) == [hint, "P (Pause) works on Watch."]
        later = time.monotonic() + 3
        with monkeypatch.context() as patch:
            patch.setattr("hpc_board.tui.app.time", SimpleNamespace(monotonic=lambda: later))
            await press(pilot, "t")
        assert toasts(pilot.app).count(hint) == 2
        pilot.app.clear_notifications()
        await press(pilot, "t")
        assert toasts(pilot.app) == [hint]


async def test_the_key_of_a_place_leads_from_a_part_of_it_to_all() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        for way, part in (
            (("p", "enter", "r"), "/ your runs · H100"),
            (("T", "end", "b", "f", "f"), "Feed / vectoradd"),
        ):
            await press(pilot, *way[:-1])
            assert part in text_of(pilot.app)
            await press(pilot, way[-1])
            assert part not in text_of(pilot.app)


async def test_the_keys_of_a_run_are_those_of_every_screen_that_names_one_but_lead_nowhere_to_it() -> None:
    verbs = {"submit", "edit", "cancel", "standings", "code", "trend", "mark", "watch", "rerun", "copy", "user"}
    verbs |= {"note", "hold"}
    assert {binding.description for _, binding in bound(RunScreen)} == {VERBS[name].word for name in verbs}
    hidden = {"Board": {"standings", "cancel"}, "Trend": {"trend", "cancel"}, "User": {"user", "cancel"}}
    hidden |= {"Admin": {"cancel"}, "Code": {"code", "cancel"}}
    ways = {
        "Board": ("end", "b", "u"),
        "Trend": ("end", "b", "u", "t"),
        "User": ("r", "U"),
        "Admin": ("A", "3", "down", "down"),
        "Code": ("r", "down", "down", "v"),
    }
    async with app_on(AdminBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        for name, way in ways.items():
            await press(pilot, *way)
            screen = pilot.app.screen
            assert isinstance(screen, RunScreen)
            words = {active.binding.description for active in screen.active_bindings.values()}
            assert {verb for verb in verbs if VERBS[verb].word not in words} == hidden[name]
            await press(pilot, "T")


async def test_a_dimmed_key_tells_why_it_has_no_effect() -> None:
    async with app_on(AdminBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        ways = {
            ("W",): "This task has no starter.",
            ("b", "a"): "This board has no rows yet.",
            ("enter", "o"): "Esc leads to the list, which has an order.",
            (
                "r",
                "a",
                "end",
                "w",
            ): "Run 31 is eve's: only your own runs are watched or rerun, and only these get notes.",
            ("A", "D"): "This board is that of a task in the settings: its task.yml has the deadline.",
            (
                "A",
                "3",
                "end",
                "i",
            ): "Run 31 is eve's: only your own runs are watched or rerun, and only these get notes.",
        }
        for way, words in ways.items():
            await press(pilot, "T", "escape")
            pilot.app.clear_notifications()
            await press(pilot, *way)
            assert toasts(pilot.app) == [words], way
        await press(pilot, "T", "s")
        await go_to(pilot, "GpuList")
        await press(pilot, "w")
        assert toasts(pilot.app)[-1] == "Choose a file."


async def test_a_key_that_a_run_lacks_says_why() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        for way, words in (
            (("m",), "Run 41 has not ended: only a run that has ended is compared."),
            (("end", "c"), "Run 35 has ended."),
            (("enter", "c"), "Run 35 has ended."),
        ):
            await press(pilot, *way)
            assert toasts(pilot.app)[-1] == words


async def test_the_form_opens_from_a_screen_without_a_run() -> None:
    async with app_on(AdminBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "A", "2", "s")
        assert isinstance(pilot.app.screen, SubmitScreen)


async def test_a_narrow_last_line_keeps_the_key_of_the_help_at_its_end() -> None:
    async with app_on(FakeBoard()).run_test(size=(200, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        assert key_line(pilot.app).endswith("q Quit ^p Actions ?/F1 Help")
        await pilot.resize_terminal(120, 30)
        await settled(pilot)
        assert key_line(pilot.app).endswith("Esc Back ?/F1 Help")


@pytest.mark.parametrize(("name", "shown"), [("esc", "Esc"), ("⏎", "Enter"), ("f5", "F5"), ("^q", "^q"), ("f", "f")])
def test_a_key_has_one_spelling(name: str, shown: str) -> None:
    assert displayed(name) == shown


async def test_the_last_line_offers_no_key_that_a_field_takes() -> None:
    async with app_on(FakeBoard()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert "?/F1 Help" in text_of(pilot.app)
        await press(pilot, "s")
        assert "F1 Help" in text_of(pilot.app)
        assert "?/F1" not in text_of(pilot.app)
        await press(pilot, "f1")
        assert isinstance(pilot.app.screen, HelpScreen)


async def test_the_help_and_the_palette_have_the_keys_in_the_order_of_the_last_line() -> None:
    async with app_on(AdminBoard()).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        line = [key.description for key in footer_keys(pilot.app) if key.description != "Actions"]
        await press(pilot, "f1")
        shown = text_of(pilot.app)
        meanings = "Open the selected row", "Cancel the run", "Show the state of the GPUs", "Quit;"
        assert sorted(meanings, key=shown.index) == [*meanings]
        assert "^d ^u by half a page" in shown
        await press(pilot, "escape", "ctrl+p")
        names = [option.hit.text for option in pilot.app.screen.query_one(CommandList).options]  # type: ignore[attr-defined]
        assert "All users" in line
        assert [name for name in names if name in line] == line


class Served(AdminBoard):
    """A board of several users, which tells no changes."""

    served = True


@pytest.mark.parametrize(("board", "is_shown"), [(AdminBoard, False), (Served, True), (FakeBoard, False)])
async def test_the_last_line_has_the_key_of_admin_where_others_take_part(
    board: Callable[[], FakeBoard], *, is_shown: bool
) -> None:
    async with app_on(board()).run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert ("A Admin" in text_of(pilot.app)) is is_shown
        await press(pilot, "r")
        await pilot.resize_terminal(200, 30)
        await settled(pilot)
        assert ("A Admin" in text_of(pilot.app)) is is_shown


def key_line(app: App[Any]) -> str:
    """Return the line of keys of the screen in front."""
    return " ".join(f"{key.key_display} {key.description}" for key in footer_keys(app))


async def test_the_last_line_has_the_verbs_in_one_order_on_all_screens() -> None:
    verbs = sorted((verb.word for verb in VERBS.values()), key=lambda word: word not in ("Filter", "Search"))
    words = ["Open", *verbs, "Back", "Quit", "Actions", "Help"]
    ways = (
        *(
            (),
            ("r",),
            ("r", "a"),
            ("r", "enter"),
            ("r", "p"),
            ("r", "p", "tab", "tab"),
            ("r", "U"),
            ("f",),
            ("A",),
            ("A", "3"),
        ),
        *(("end", "b", "u"), ("end", "b", "u", "t"), ("end", "b", "u", "v"), ("end", "s")),
    )
    async with app_on(AdminBoard()).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        for way in ways:
            await press(pilot, *way)
            shown = [key.description for key in footer_keys(pilot.app)]
            assert len({*shown} & {*words}) > 1, way
            assert [word for word in shown if word in words] == [word for word in words if word in shown], way
            await press(pilot, *["escape"] * len(way))


async def test_every_dialog_lists_its_keys() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        app = pilot.app
        assert isinstance(app, BoardApp)
        app.push_screen(Confirm("Cancel run 40?", "Cancel the run", "Keep it"))
        await settled(pilot)
        assert key_line(app) == "Enter Cancel the run Esc Back"
        await press(pilot, "tab")
        assert key_line(app) == "Enter Keep it Esc Back"
        await press(pilot, "escape")
        app.push_screen(AskLines("Ban eve?", [Line("Reason")], "Ban"))
        await settled(pilot)
        assert key_line(app) == "Enter Ban Esc Back"
        await press(pilot, "escape", "question_mark")
        assert key_line(app) == "Esc Back"
        await press(pilot, "escape", "s", "ctrl+o")
        assert "Enter Open" in key_line(app)
        assert "Esc Back" in key_line(app)


async def test_an_open_list_of_the_form_is_left_by_the_key_that_goes_back() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "s", "tab", "tab", "enter")
        app = pilot.app
        assert isinstance(app, BoardApp)
        assert "Esc Back" in key_line(app)
        assert "Dismiss" not in key_line(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, SubmitScreen)


@pytest.mark.parametrize(
    ("destroys", "keys", "answer"),
    [
        (False, ["enter"], True),
        (True, ["enter"], False),
        (True, ["right", "enter"], True),
        (False, ["left", "enter"], False),
        (False, ["escape"], False),
    ],
)
async def test_enter_gives_the_answer_with_the_focus(destroys: bool, keys: list[str], answer: bool) -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        answers: list[bool | None] = []
        pilot.app.push_screen(Confirm("Replace it?", "Replace", "Keep it", destroys=destroys), answers.append)
        await settled(pilot)
        await press(pilot, *keys)
        assert answers == [answer]
