"""Columns of the lists, which are as wide as their cells, in terminals of all widths."""

import pytest

from hpc_board.domain.run import RunState
from hpc_board.model.result import Verdict
from hpc_board.tui.palette import toned
from hpc_board.tui.widgets.grid import Column, Grid, Row
from tests.tui.driving import app_on, press, settled, text_of
from tests.tui.fake_board import RUNS, TASKS, FakeBoard, run, task

_NAME = "attention_decode_batched"
_SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])


def _board() -> FakeBoard:
    ended = run(
        141, RunState.FINISHED, task_name=_NAME, verdict=Verdict.WRONG_NONFINITE, message="test case 2: 3 values"
    )
    return FakeBoard(
        tasks=(task(_NAME, gpus=("H100", "A100", "L4")), *TASKS),
        runs=(ended, *RUNS),
    )


@_SIZES
async def test_a_list_of_tasks_cuts_no_name_and_no_gpus(size: tuple[int, int]) -> None:
    app = app_on(_board())
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        rows = [line for line in text_of(app).splitlines() if " py " in line]
        assert rows[0].split()[:5] == [_NAME, "py", "H100", "A100", "L4"]
        assert not any("…" in row for row in rows)


@_SIZES
@pytest.mark.parametrize("keys", ["r", "ra"])
async def test_a_list_of_runs_cuts_neither_task_nor_outcome(size: tuple[int, int], keys: str) -> None:
    app = app_on(_board())
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        row = next(line for line in text_of(app).splitlines() if line.split()[:1] == ["141"])
        assert _NAME in row
        assert "wrong (NaN or inf)" in row


@pytest.mark.parametrize("keys", ["r", "ra"])
async def test_a_narrow_list_of_runs_keeps_the_mode_rather_than_the_reason(keys: str) -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, *keys)
        assert {"gpu", "mode", "age"} <= set(app.screen.query_one(Grid).column_keys)


async def test_the_columns_of_a_wide_list_are_beside_its_names() -> None:
    async with app_on(FakeBoard()).run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "r", "p")
        grid = pilot.app.screen.query_one(Grid)
        assert grid.size.width > 100
        head = text_of(pilot.app).splitlines()[2]
        assert head.index("Age") - head.index("State") < 60


@_SIZES
async def test_a_board_cuts_no_name(size: tuple[int, int]) -> None:
    app = app_on(_board())
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        assert "dmitri-with-a-long-name " in text_of(app)


async def test_a_filter_leaves_the_names_their_width() -> None:
    app = app_on(_board())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        grid = app.screen.query_one("#tasks", Grid)
        before = [str(column.label) for column in grid.ordered_columns]
        await press(pilot, "slash", *"conv")
        assert grid.row_count == 1
        assert [str(column.label) for column in grid.ordered_columns] == before


async def test_a_longer_cell_widens_its_column_and_omits_the_least_needed_one() -> None:
    app = app_on(FakeBoard())
    columns = (
        Column("name", "Name", 4, most=20),
        Column("kept", "Kept", 8),
        Column("spare", "Spare", 8, from_width=10),
    )

    def row(name: str) -> Row:
        return Row(name, {"name": toned(name), "kept": toned("kept"), "spare": toned("spare")})

    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        grid = Grid(columns, id="tried")
        grid.styles.width = 32
        await app.screen.mount(grid)
        await settled(pilot)
        grid.show([row("abcdef")])
        assert list(grid.column_keys) == ["name", "kept", "spare"]
        grid.show([row("abcdef"), row("a" * 15)])
        assert list(grid.column_keys) == ["name", "kept"]
        await settled(pilot)
        assert "a" * 15 in text_of(pilot.app)
        assert grid.current == "abcdef"
