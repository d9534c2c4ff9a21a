"""The screen of the runs: narrowing it down, turning its pages, sending a file again."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme
from textual.widgets import Button, Static

from hpc_board.domain.run import Run, RunState
from hpc_board.errors import Refused, StorageError
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.tui.app import BoardApp
from hpc_board.tui.preferences import Memory
from hpc_board.tui.screens.runs import RunsScreen
from hpc_board.tui.screens.tasks import TasksScreen
from hpc_board.tui.themes import DARK, LIGHT, readable, tone_variables
from hpc_board.tui.widgets.grid import Grid, Row
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import NOW, FakeBoard, run
from tests.values import replace


def listed(app: Any) -> list[str]:
    """The numbers of the runs in the table's lines on the screen."""
    lines = text_of(app).splitlines()[2:]
    return [line.split()[0] for line in lines if line[:6].strip().isdigit()]


async def test_the_list_is_narrowed_down_while_one_types_and_stays_so() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        assert len(listed(pilot.app)) == 7
        await press(pilot, "slash", *"wrong")
        assert listed(pilot.app) == ["38"]
        assert "Enter Keep" in text_of(pilot.app).splitlines()[-1]
        await press(pilot, "enter")
        assert pilot.app.screen.focused is pilot.app.screen.query_one(Grid)
        assert "Runs 1 of 7 · filter: wrong" in text_of(pilot.app)
        assert "Esc Clear" in text_of(pilot.app).splitlines()[-1]
        await press(pilot, "p", "escape")
        assert listed(pilot.app) == ["38"]
        for keys in (("slash", "escape"), ("slash", *"wrong", "enter", "escape")):
            await press(pilot, *keys)
            assert len(listed(pilot.app)) == 7
            assert "filter" not in text_of(pilot.app)
        assert "Esc Back" in text_of(pilot.app).splitlines()[-1]
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, TasksScreen)


@pytest.mark.parametrize("theme", [DARK, LIGHT, BUILTIN_THEMES["nord"]], ids=lambda theme: theme.name)
async def test_a_selected_row_and_a_cut_cell_keep_their_tones(theme: Theme) -> None:
    crashed = run(9, RunState.FINISHED, verdict=Verdict.CRASH, message="signal 11 " * 9)
    passed = run(8, RunState.FINISHED, verdict=Verdict.PASS)
    async with app_on(FakeBoard(runs=[crashed, passed])).run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pilot.app.theme = theme.name
        await press(pilot, "r", "down")
        lines = map(pilot.app.screen.query_one(Grid).render_line, (1, 2))
        tones = {part.text.strip(" …"): part.style.color for line in lines for part in line if part.style}
        colours = {name: Color.parse(value).rich_color for name, value in tone_variables(readable(theme)).items()}
        (cut,) = [colour for text, colour in tones.items() if text.startswith("signal")]
        assert (tones["crashed"], cut, tones["pass"]) == (colours["bad"], colours["muted"], colours["good"])


async def test_the_title_counts_the_matches_among_all_rows_of_the_list_that_is_shown() -> None:
    async with app_on(FakeBoard()).run_test(size=(60, 16)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "slash", *"qqq", "enter")
        assert "Runs 0 of 7 · filter: qqq" in text_of(pilot.app)
        await press(pilot, "escape", "slash", *"h100", "enter", "down", "space")
        assert "Runs 4 of 7 · 1 selected · filter: h100" in text_of(pilot.app)
        # The number of all users' runs is unknown until the filter is cleared.
        await press(pilot, "a")
        assert "Runs 6 · filter: h100" in text_of(pilot.app)
        await press(pilot, "escape", "slash", *"h100", "enter")
        assert "Runs 6 of 9 · filter: h100" in text_of(pilot.app)


async def test_the_scope_is_there_after_a_restart_and_a_filter_is_not(tmp_path: Path) -> None:
    for keys, count, current in ((("r", "a", "slash", *"h100", "enter", "down", "down"), 6, "38"), (("r",), 9, "41")):
        app = BoardApp(FakeBoard, now=lambda: NOW, tick_seconds=3600, memory=Memory(tmp_path / "app.json"))
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            await press(pilot, *keys)
            assert len(listed(app)) == count
            assert ("filter: h100" in text_of(app)) == (count == 6)
            assert app.screen.query_one(Grid).current == current, "a list begins with the newest run"


async def test_the_title_counts_all_runs_and_again_after_a_new_one() -> None:
    board = FakeBoard(runs=[run(number, RunState.QUEUED) for number in range(1234, 0, -1)])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down")
        assert "Runs 1,234" in text_of(pilot.app)
        await press(pilot, *["pagedown"] * 4)
        assert board.calls.count("count") == 1
        await press(pilot, "slash", *"h100", "enter")
        assert re.search(r"Runs \d+\+ of 1,234 · filter: h100", text_of(pilot.app))
        await press(pilot, "escape")
        board.known_runs.insert(0, run(1235, RunState.QUEUED))
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        screen.look_again()
        await settled(pilot)
        assert "Runs 1,235" in text_of(pilot.app)


async def test_a_running_run_shows_how_far_it_is_and_how_long_it_took() -> None:
    async with app_on(FakeBoard()).run_test(size=(200, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down")
        row = next(line for line in text_of(pilot.app).splitlines() if line.split()[:1] == ["40"])
        assert "benchmark 2/3 · on node07" in row
        assert "4 s" in row
        assert "benchmark 2 of 3: size: 2048" in text_of(pilot.app)
        assert "waited 4 s · has run 56 s" in text_of(pilot.app)
        await press(pilot, "down")
        assert "waited 4 s · ran 14 s" in text_of(pilot.app)


async def test_what_changes_in_the_middle_of_a_long_list_is_seen() -> None:
    board = FakeBoard(runs=[run(id_, RunState.QUEUED) for id_ in range(300, 0, -1)])
    async with app_on(board, tick_seconds=0.05).run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "300" in listed(pilot.app))
        for _ in range(8):
            await pilot.press("pagedown")
            await pilot.pause(0.05)
        current = int(pilot.app.screen.query_one(Grid).current or 0)
        assert 100 < current < 290
        board.replace_run(run(current, RunState.TIMEOUT))
        await until(pilot, lambda: "timeout" in text_of(pilot.app))


async def test_a_file_is_sent_again_after_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPC_BOARD_AS", "agent-b")
    board = FakeBoard()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "down", "R")
        text = " ".join(str(each.content) for each in pilot.app.screen.query(Static))
        assert "Rerun run 38: submission.py, vectoradd on H100, mode test?" in text
        assert [str(button.label) for button in pilot.app.screen.query(Button)] == ["Back", "Rerun"]
        await press(pilot, "escape")
        assert not board.sent
        await press(pilot, "R", "enter")
        (draft,) = board.sent
        assert ([gpu.name for gpu in draft.gpus], draft.mode, draft.note) == (["H100"], Mode.TEST, "float4 loads")
        assert draft.origin.entrant == "agent-b"
        assert pilot.app.screen.query_one(Grid).current == "42"


async def test_a_file_that_may_not_be_sent_again_says_why() -> None:
    board = FakeBoard(failures={"again": Refused("The deadline of vectoradd has passed.")})
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "R", "enter")
        assert "The deadline of vectoradd has passed." in text_of(pilot.app)
        assert not board.sent


async def test_runs_that_cannot_be_read_again_stay_with_their_age() -> None:
    board, moments = FakeBoard(), [NOW]
    app = BoardApp(lambda: board, now=lambda: moments[0], tick_seconds=0.05, follow_seconds=3600)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "41" in listed(app))
        board.failures["runs"] = StorageError("the disk is full")
        # Not before: an answer that is on its way still would be as young as the clock says.
        await until(pilot, lambda: "the disk is full" in text_of(app))
        moments[0] += timedelta(seconds=42)
        await until(pilot, lambda: "your runs · 42 s old" in text_of(app))
        assert "the disk is full" in text_of(app)
        assert "41" in listed(app)
        board.failures.clear()
        await until(pilot, lambda: "old" not in text_of(app).splitlines()[0])


async def test_keys_that_move_in_a_list_do_nothing_in_an_empty_one() -> None:
    async with app_on(FakeBoard(runs=[])).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "end", "G", "home", "pagedown", "pageup", "down", "up", "enter", "enter")
        assert "You have no runs yet." in text_of(pilot.app)


@pytest.mark.parametrize("size", [(60, 16), (120, 40)])
async def test_filter_table_and_details_fit(size: tuple[int, int]) -> None:
    hurt = replace(run(41, RunState.QUEUED), note="x" * 400)
    async with app_on(FakeBoard(runs=(hurt,))).run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "slash", "x")
        screen = pilot.app.screen
        for widget in screen.query("#runs, #run-list-filter, .selected"):
            assert screen.region.contains_region(widget.region)
            assert widget.size.height > 0


async def test_keys_that_come_at_once_are_about_the_row_that_the_cursor_is_on_by_then() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        grid = pilot.app.screen.query_one("#runs", Grid)
        assert grid.current == "41"
        # The table tells of its cursor later; rows that come in between do not bring it back.
        grid.action_cursor_down()
        assert grid.current == "40"
        grid.show([Row("42", grid._shown[0].cells), *grid._shown])
        assert grid.current == "40"
        await settled(pilot)
        assert grid.current == "40"
        assert "on node07" in text_of(pilot.app)
        for key in ("down", "y"):
            pilot.app.post_message(events.Key(key, None))
        await settled(pilot)
        assert pilot.app.clipboard == "39"


# Several runs at once


def many() -> FakeBoard:
    """Return a board with three runs in flight above an ended one."""
    states = {44: RunState.QUEUED, 43: RunState.RUNNING, 42: RunState.QUEUED, 41: RunState.FINISHED}
    return FakeBoard(runs=[run(number, state) for number, state in states.items()])


async def test_space_selects_several_runs_and_the_title_counts_them() -> None:
    async with app_on(many()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "space", "space")
        assert "Runs 4 · 2 selected" in text_of(pilot.app)
        assert text_of(pilot.app).count("✓") == 2
        await press(pilot, "up", "space")
        assert "Runs 4 · 1 selected" in text_of(pilot.app)
        await press(pilot, "asterisk")
        assert "4 selected" in text_of(pilot.app)
        await press(pilot, "asterisk")
        assert "selected" not in text_of(pilot.app)
        await press(pilot, "space", "escape")
        assert "✓" not in text_of(pilot.app)
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_selected_runs_are_cancelled_by_one_request_without_those_that_have_ended() -> None:
    board = many()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "asterisk", "space", "c")
        assert "Cancel 2 runs: 43, 42?" in text_of(pilot.app)
        assert "Keep runs" in text_of(pilot.app)
        await press(pilot, "enter")
        assert board.calls.count("cancel_each") == 1
        states = {run_.id: run_.state for run_ in board.known_runs}
        assert states[44] is RunState.QUEUED
        assert (states[43], states[42]) == (RunState.CANCELLED, RunState.CANCELLED)
        assert "selected" not in text_of(pilot.app)


@pytest.mark.parametrize(
    ("keys", "question"),
    [
        (("asterisk",), "Cancel 3 runs: 44, 43, 42? 1 of 4 has ended."),
        (("down", "down", "space", "space"), "Cancel run 42, vectoradd on H100? 1 of 2 has ended."),
        (("space",), "Cancel run 44, vectoradd on H100?"),
    ],
)
async def test_the_question_before_cancelling_counts_the_selected_runs_that_have_ended(
    keys: tuple[str, ...], question: str
) -> None:
    async with app_on(many()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", *keys, "c")
        text = " ".join(text_of(pilot.app).split())
        assert question in text
        assert ("ended." in text) == ("ended." in question)


async def test_the_runs_that_are_not_cancelled_are_told_beside_those_that_are() -> None:
    board = many()
    own = board.cancel

    def cancel(number: int) -> Run:
        if number == 43:
            raise Refused("run 43 belongs to eve.")
        return own(number)

    board.cancel = cancel  # type: ignore[method-assign, assignment]
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "asterisk", "c", "enter")
        (told,) = [notification.message for notification in pilot.app._notifications]
        assert told == "1 of 3 runs were not cancelled: run 43 belongs to eve."


async def test_a_run_that_ends_before_the_confirmation_is_not_cancelled() -> None:
    board = many()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "asterisk", "c")
        board.replace_run(
            replace(board.run(44), verdict=Verdict.PASS, status=replace(board.run(44).status, state=RunState.FINISHED))
        )
        await press(pilot, "enter")
        (told,) = [notification.message for notification in pilot.app._notifications]
        assert told == "Run 44 has already ended: pass."


async def test_selected_runs_are_submitted_again_in_one_go() -> None:
    board = many()
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "space", "space", "R")
        assert "Rerun 2 runs: 44, 43?" in text_of(pilot.app)
        await press(pilot, "enter")
        assert board.calls.count("submit") == 1
        assert len(board.sent) == 2
        assert "selected" not in text_of(pilot.app)


async def test_a_filter_unselects_the_runs_that_it_may_hide() -> None:
    async with app_on(many()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "space", "slash", *"h100")
        assert "selected" not in text_of(pilot.app)


# The order


async def test_another_order_keeps_the_selected_run_and_counts_the_whole_of_a_short_list() -> None:
    board = FakeBoard(runs=[run(number, RunState.QUEUED, user=f"user{number % 7}") for number in range(60, 0, -1)])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "a", "down", "down")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.current == "58"
        await press(pilot, "O")
        assert "Runs 60 " in text_of(pilot.app)
        assert grid.cursor_row == 57
        while "User▲" not in text_of(pilot.app):
            await press(pilot, "o")
            assert grid.current == "58"
        assert "58" in listed(pilot.app)
        assert grid.cursor_row == 17


async def test_a_run_whose_state_changes_moves_in_the_order_of_states() -> None:
    board = FakeBoard(runs=[run(number, RunState.QUEUED) for number in range(300, 0, -1)])
    async with app_on(board).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "o", "o", "o", "G")
        await until(pilot, lambda: "Runs 300 " in text_of(pilot.app))
        assert "State▲" in text_of(pilot.app)
        board.known_runs = [
            replace(each, status=replace(each.status, state=RunState.CANCELLED)) if each.id == 299 else each
            for each in board.known_runs
        ]
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        screen.look_again()
        await settled(pilot)
        await press(pilot, "G")
        await until(pilot, lambda: "Run 299 " in text_of(pilot.app))
        keys = [line.run.id for line in screen.pane.window.items]
        assert len(keys) == len(set(keys))


async def test_a_filter_selects_the_first_match_and_its_removal_keeps_the_selection() -> None:
    async with app_on(FakeBoard()).run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "down", "slash", *"h100", "enter")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.cursor_row == 0
        await press(pilot, "down")
        selected = grid.current
        await press(pilot, "escape")
        assert grid.current == selected
        assert grid.cursor_row > 1


async def test_rows_read_on_are_added_to_the_table_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    board = FakeBoard(runs=[run(number, RunState.QUEUED) for number in range(300, 0, -1)])
    added: list[object] = []
    add = Grid.add_row

    def add_row(self: Grid, *cells: Any, **options: Any) -> Any:
        added.append(options["key"])
        return add(self, *cells, **options)

    app = app_on(board)
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        monkeypatch.setattr(Grid, "add_row", add_row)
        await press(pilot, *["pagedown"] * 8)
        assert len(added) > 20
        assert len(added) == len(set(added))
        assert listed(app)
        grid = app.screen.query_one(Grid)
        assert grid.current == str(301 - (grid.cursor_row + 1))
