"""The table of the columns of standings: one entry is a column on the command line, in the app and in HTML."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hpc_board.boards.editor import archived
from hpc_board.cli.main import cli
from hpc_board.domain.standing import Mark
from hpc_board.model.result import Verdict
from hpc_board.report import standing_columns
from hpc_board.report.columns import Width
from hpc_board.report.standing_columns import (
    COLUMNS,
    Drawn,
    Field,
    Layout,
    Line,
    Listed,
    StandingColumn,
    drawn_columns,
    listed_columns,
    report_columns,
)
from hpc_board.store import Store
from tests.tui.driving import app_on, press, settled, text_of, until
from tests.tui.fake_board import FakeBoard
from tests.unit.recorded import Recorded, recorded, result_of, timed_case


def letters(line: Line) -> int:
    return 0 if isinstance(line.row, Mark) else len(line.row.user)


ADDED = StandingColumn(
    "letters",
    "Letters",
    lambda line: f"{letters(line)}L",
    right=True,
    fields=(Field("letters", letters),),
    listed=Listed(dict.fromkeys(Layout, Width(7))),
    drawn=Drawn(),
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(standing_columns, "COLUMNS", (*COLUMNS, ADDED))
    place = recorded(tmp_path)
    place.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, user="eve")
    return place


def printed(place: Recorded, *words: str) -> str:
    done = CliRunner().invoke(cli, words, obj=lambda: place.board)
    assert done.exit_code == 0, done.output
    return done.stdout


def row_of(found: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = found["boards"][0]["rows"][0]
    return row


def test_the_command_line_shows_a_column_of_the_table(place: Recorded) -> None:
    _, head, row, *_ = printed(place, "show", "vectoradd_py", "--gpu", "CPU").splitlines()
    assert head.endswith("LETTERS")
    assert row.endswith("3L")


def test_the_archive_of_a_deleted_board_has_the_keys_of_a_column_of_the_table(place: Recorded) -> None:
    task = place.board.tasks.get("vectoradd_py")
    (row,) = archived(Store(place.folder / "board" / "board.db").standings.list(task.name, task.version, "CPU"))
    assert list(row) == [*("rank", "user", "score_s", "submission", "run", "submitted_at", "file_name"), "letters"]
    assert (row["user"], row["letters"]) == ("eve", 3)


def test_the_page_for_a_browser_draws_a_column_of_the_table(place: Recorded) -> None:
    page = printed(place, "admin", "export", "--format", "html")
    assert '<th scope="col" class="number">Letters</th></tr>' in page
    assert '<td class="number">3L</td></tr>' in page


@pytest.mark.usefixtures("place")
async def test_the_app_lists_a_column_of_the_table() -> None:
    app = app_on(FakeBoard())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "end", "b")
        await until(pilot, lambda: "3L" in text_of(app))
        assert "Letters" in text_of(app)


def test_every_key_of_an_order_is_a_column() -> None:
    keys = [column.key for column in COLUMNS]
    orders = (standing_columns._REPORT_ORDER, standing_columns._LISTED_ORDER, standing_columns._DRAWN_ORDER)
    assert {key for order in orders for key in order} <= set(keys)
    assert len(keys) == len(set(keys))
    assert [column.key for column in report_columns()] == list(standing_columns._REPORT_ORDER)
    assert [column.key for column, _ in drawn_columns()] == list(standing_columns._DRAWN_ORDER)
    listed = {column.key for layout in Layout for column, _, _ in listed_columns(layout)}
    assert listed == set(standing_columns._LISTED_ORDER)
