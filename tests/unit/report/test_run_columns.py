"""The table of the columns of runs: one entry is a column on the command line, in the app and in JSON."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpc_board.cli.main import cli
from hpc_board.model.result import Verdict
from hpc_board.report import run_columns
from hpc_board.report.columns import Width
from hpc_board.report.run_columns import (
    COLUMNS,
    Field,
    Line,
    Listed,
    RunColumn,
    RunList,
    json_fields,
    listed_columns,
    report_columns,
)
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import FakeBoard
from tests.unit.recorded import Recorded, recorded, result_of, timed_case


def letters(line: Line) -> int:
    return len(line.run.user)


ADDED = RunColumn(
    "letters",
    "Letters",
    lambda line: f"{letters(line)}L",
    right=True,
    listed=Listed(dict.fromkeys(RunList, Width(7))),
    fields=(Field("letters", letters, "the length of the user's name"),),
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


def test_json_has_the_key_of_a_column_of_the_table(place: Recorded) -> None:
    (listed,) = json.loads(printed(place, "runs", "--all", "--json"))
    whole = json.loads(printed(place, "run", "1", "--json"))
    assert (listed["letters"], whole["letters"]) == (3, 3)


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
    assert tuple(field.key for field in json_fields()) == run_columns._JSON_ORDER


def test_every_key_of_json_has_a_meaning() -> None:
    assert [field.key for field in json_fields() if not field.meaning] == []
