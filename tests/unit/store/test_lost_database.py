"""A database that is missing, or was restored, beside the job folders of its runs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from tests.unit.recorded import Recorded, call, recorded, status_of


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board with one run that waits."""
    place = recorded(tmp_path)
    place.add(status_of(RunState.QUEUED))
    return place


def database(place: Recorded) -> Path:
    return place.folder / "board" / "board.db"


def test_a_database_that_was_deleted_while_its_job_folders_are_left_is_not_replaced_by_an_empty_one(
    board: Recorded,
) -> None:
    (board.folder / "board" / "runs" / "1").mkdir(parents=True)
    copy = board.folder / "copy.db"
    board.board.admin.backup(copy)
    for path in database(board).parent.glob("board.db*"):
        path.unlink()
    for command in (("runs",), ("poll",), ("list",), ("submit", str(board.kernel))):
        done = call(board, *command)
        assert done.exit_code == 2, (command, done.output)
        assert "the database is missing, but" in " ".join(done.stderr.split())
        assert not database(board).exists()
    assert call(board, "admin", "restore", copy, "--yes").exit_code == 0
    assert [run.id for run in board.board.runs.list()] == [1]


def test_a_restored_board_gives_no_number_again_of_which_a_job_folder_is_left(board: Recorded) -> None:
    copy = board.folder / "copy.db"
    board.board.admin.backup(copy)
    (board.folder / "board" / "runs" / "7").mkdir(parents=True)
    for path in database(board).parent.glob("board.db*"):
        path.unlink()
    assert call(board, "admin", "restore", copy, "--yes").exit_code == 0
    assert board.add().id == 8


def test_numbers_far_apart_are_no_pages_in_between(board: Recorded) -> None:
    with closing(sqlite3.connect(database(board))) as db, db:
        db.execute("UPDATE sqlite_sequence SET seq = 4611686018427387904 WHERE name IN ('submissions', 'runs')")
    board.add()
    done = call(board, "admin", "export", "--format", "csv")
    assert done.exit_code == 0
    assert "4611686018427387905" in done.stdout
