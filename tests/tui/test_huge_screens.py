"""Terminals of 160 columns and more, which show a run's benchmarks, log and code at once."""

import pytest
from textual.widgets import Tabs

from hpc_board.errors import Refused
from hpc_board.tui.screens.trend import TrendScreen
from hpc_board.tui.widgets.text_pane import SourceView
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_board import RUNS, TASKS, FakeBoard
from tests.values import replace

_SIZES = pytest.mark.parametrize("size", [(160, 50), (200, 60)])


@_SIZES
async def test_a_run_shows_its_benchmarks_log_and_code_at_once(size: tuple[int, int]) -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        shown = text_of(app)
        for words in ("12.0 µs", "hello from the kernel", "def custom_kernel(data):"):
            assert words in shown
        await press(pilot, "2")
        assert "Calls in order" in text_of(app)
        assert "def custom_kernel(data):" in text_of(app)
        await press(pilot, "3")
        assert "def custom_kernel(data):" not in text_of(app)
        await pilot.resize_terminal(120, 40)
        await press(pilot, "1")
        assert "hello from the kernel" in text_of(app)
        assert "def custom_kernel(data):" not in text_of(app)


async def test_a_run_whose_file_the_user_may_not_read_has_no_code_and_no_error() -> None:
    board = FakeBoard(failures={"code": Refused("submission 19 belongs to bob", hint="")})
    app = app_on(board)
    async with app.run_test(size=(160, 39)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter")
        assert "hello from the kernel" in text_of(app)
        assert "belongs to bob" not in text_of(app)
        assert board.calls.count("code") == 1


@_SIZES
async def test_a_list_of_runs_has_a_preview_of_the_selected_one(size: tuple[int, int]) -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down")
        assert "Second place" in text_of(app)
        assert "24.0 µs" in text_of(app)
        await press(pilot, "down")
        assert "Second place" not in text_of(app)
        assert "Failed" in text_of(app)


async def test_a_high_list_is_as_high_as_its_rows_and_has_the_file_beside_the_selected_run() -> None:
    board = FakeBoard()
    app = app_on(board)
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down")
        assert "def custom_kernel(data):" in text_of(app)
        grid, details = app.screen.query_one("#runs"), app.screen.query_one(".selected")
        assert grid.size.height == 1 + len(board.runs.list())
        assert details.region.y == grid.region.bottom
        board.failures["code"] = Refused("submission 18 belongs to bob", hint="")
        await press(pilot, "down")
        assert not app.screen.query_one(SourceView).display
        assert details.size.width > 190


async def test_a_preview_has_the_room_of_a_list_without_reasons() -> None:
    app = app_on(FakeBoard(runs=[RUNS[2]]))
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        assert "Std error" in text_of(app)
        assert "Widen the terminal" not in text_of(app)


async def test_a_list_that_is_not_huge_reads_no_run() -> None:
    board = FakeBoard()
    app = app_on(board)
    async with app.run_test(size=(140, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down")
        assert "Second place" not in text_of(app)
        await pilot.resize_terminal(160, 40)
        await settled(pilot)
        assert "Second place" in text_of(app)


async def test_a_board_alone_on_a_huge_screen_has_all_columns_and_a_long_bar() -> None:
    app = app_on(FakeBoard(tasks=(replace(TASKS[-1], gpus=("H100",)),)))
    async with app.run_test(size=(200, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "b")
        shown = text_of(app)
        head = next(line for line in shown.splitlines() if "Rank User" in line)
        assert head.split()[:8] == ["Rank", "User", "Score", "File", "Age", "Submitted", "Run", "Remark"]
        row = next(line for line in shown.splitlines() if " bob " in line)
        assert row.split()[6:9] == ["d", "2030-05-14", "14:00"], "the moment is beside the age"
        assert f"{'█' * 54} 100 %" in shown
        assert "dmitri-with-a-long-name.py" in shown
        assert not app.screen.query_one(Tabs).display, "the title of the panel names the only GPU"


async def test_a_plot_of_few_records_below_the_tasks_is_low() -> None:
    board = FakeBoard()
    app = app_on(board)
    async with app.run_test(size=(200, 100)) as pilot:
        await settled(pilot)
        await press(pilot, "end")
        plot = text_of(app).partition("H100: Best time")[2].partition("log scale")[0]
        assert len(board.records("vectoradd", "H100")) == 2
        assert len(plot.splitlines()) == 1 + 11 + 1, "two records, below the title and above the axis"


async def test_a_short_trend_has_the_file_of_the_selected_run_below_it() -> None:
    board = FakeBoard()
    app = app_on(board)
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b", "t")
        assert isinstance(app.screen, TrendScreen)
        assert "def custom_kernel(data):" in text_of(app)
        await pilot.resize_terminal(120, 24)
        await settled(pilot)
        assert "def custom_kernel(data):" not in text_of(app)
        board.failures["code"] = Refused("submission 19 belongs to bob", hint="")
        await pilot.resize_terminal(200, 60)
        await settled(pilot)
        assert "submission 19 belongs to bob" in text_of(app)
        assert not app.screen.query_one("ErrorBox").display


@pytest.mark.parametrize(("width", "is_beside"), [(120, True), (80, False)])
async def test_the_machine_is_beside_the_evidence_where_both_have_room(width: int, is_beside: bool) -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(width, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "down", "down", "enter", "5")
        heads = [line.split() for line in text_of(app).splitlines()]
        assert [["Run", "Machine"] in heads, ["Machine"] in heads] == [is_beside, not is_beside]
        assert next(head for head in heads if "Since" in head)[-1] == "Source", "the states have all the width"
