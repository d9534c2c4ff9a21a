"""The table of the columns of runs: one entry is a column on the command line and in the app."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from hpc_board.cli.main import cli
from hpc_board.model.result import Verdict
from hpc_board.report import run_columns
from hpc_board.report.columns import TableColumn, Width
from hpc_board.report.run_columns import (
    COLUMNS,
    Line,
    Listed,
    RunList,
    listed_columns,
    report_columns,
)
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import FakeBoard
from tests.unit.recorded import Recorded, recorded, result_of, timed_case


def letters(line: Line) -> int:
    return len(line.run.user)


ADDED: TableColumn[Line, Listed] = TableColumn(
    "letters",
    "Letters",
    lambda line: f"{letters(line)}L",
    right=True,
    listed=Listed(dict.fromkeys(RunList, Width(7))),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(run_columns, "COLUMNS", (*COLUMNS, ADDED))
    place = recorded(tmp_path)
    place.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user="eve")
    return place


def printed(place: Recorded, *words: str) -> str:
    done = CliRunner().invoke(cli, words, obj=lambda: place.board)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_line_lists_a_column_of_the_table(place: Recorded) -> None:
    head, row, *_ = printed(place, "runs", "--all").splitlines()
    assert head.endswith("LETTERS")
    assert row.endswith("3L")


@pytest.mark.usefixtures("place")
async def test_the_app_lists_a_column_of_the_table() -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "r")
        await until(pilot, lambda: "3L" in text_of(app))
        assert "Letters" in text_of(app)


def test_every_key_of_an_order_is_in_the_table_once() -> None:
    keys = [column.key for column in COLUMNS]
    assert len(keys) == len(set(keys))
    assert tuple(column.key for column in report_columns()) == run_columns._REPORT_ORDER
    listed = {column.key for in_list in RunList for column, _, _ in listed_columns(in_list)}
    assert listed == set(run_columns._LISTED_ORDER)
