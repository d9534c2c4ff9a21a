"""A database that another program has changed, or put something in its place: told at once, and within bounds."""

import os
import shutil
import socket
import sqlite3
import stat
import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.errors import StorageError, UnreadableError
from hpc_board.store import Store
from hpc_board.store.database import DatabaseFile
from hpc_board.store.guard import VALUE_BYTES_MAX, plain
from hpc_board.store.schema import known_statements
from tests.unit.recorded import Recorded, call, recorded, status_of


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    """A board with one run that waits."""
    place = recorded(tmp_path)
    place.add(status_of(RunState.QUEUED))
    return place


def database(place: Recorded) -> Path:
    return place.folder / "board" / "board.db"


def change(place: Recorded, *statements: str) -> None:
    with closing(sqlite3.connect(database(place))) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def make(kind: str, path: Path) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            # The name of a socket is short.
            made.bind("made")
        Path("made").rename(path)
    elif kind == "device":
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    else:
        path.mkdir()


ROOT = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")]
KINDS = ["pipe", "socket", "folder", pytest.param("device", marks=ROOT)]


@pytest.mark.parametrize("kind", KINDS)
def test_something_else_in_the_place_of_the_database_is_told_at_once(
    board: Recorded, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(board.folder)
    for ending in ("-wal", "-shm"):
        Path(f"{database(board)}{ending}").unlink(missing_ok=True)
    make(kind, database(board))
    for command in (("runs",), ("list",), ("poll",), ("show", "vectoradd_py"), ("admin", "backup", "copy.db")):
        done = call(board, *command)
        assert done.exit_code == 2, (command, done.output)
        assert "the database cannot be opened (it is not a regular file)" in " ".join(done.stderr.split())
    done = call(board, "admin", "doctor")
    assert "it is not a regular file" in " ".join(done.output.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["advance.lock", "advance-here.lock", "scanned-here", "asked-here"])
def test_something_else_in_the_place_of_a_lock_or_a_note_hangs_no_command(
    board: Recorded, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(board.folder)
    make(kind, board.folder / "board" / name)
    for command in (("poll",), ("runs",), ("admin", "doctor")):
        done = call(board, *command)
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.output)
        assert "None" not in done.stderr


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("trigger", "CREATE TRIGGER own AFTER INSERT ON decisions BEGIN DELETE FROM decisions; END"),
        ("view", "CREATE VIEW own AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"),
    ],
)
def test_a_trigger_or_a_view_of_its_own_is_told_by_each_command(board: Recorded, kind: str, statement: str) -> None:
    change(board, statement)
    for command in (("runs",), ("poll",), ("submit", str(board.kernel)), ("admin", "ban", "eve", "--reason", "x")):
        done = call(board, *command)
        assert done.exit_code == 2, (command, done.output)
        assert f"it has a {kind} of its own, own" in " ".join(done.stderr.split())
    done = call(board, "admin", "doctor")
    assert f"it has a {kind} of its own, own" in " ".join(done.output.split())


def test_a_changed_trigger_is_one_of_its_own(board: Recorded) -> None:
    change(
        board, "DROP TRIGGER runs_stay", "CREATE TRIGGER runs_stay BEFORE UPDATE ON runs BEGIN DELETE FROM events; END"
    )
    with pytest.raises(UnreadableError, match="it has a trigger of its own, runs_stay"):
        Store(database(board)).runs.list()


def test_the_known_triggers_and_views_are_those_of_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "board.db"
    DatabaseFile(path).create()
    with DatabaseFile(path, draft=True).reading() as db:
        found = db.execute("SELECT sql FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchall()
    assert {plain(sql) for (sql,) in found} == known_statements()


@pytest.mark.parametrize("writes", [False, True])
def test_a_statement_without_end_is_interrupted(tmp_path: Path, writes: bool) -> None:
    file = DatabaseFile(tmp_path / "board.db", transaction_seconds=0.05)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    file.create()
    with (
        pytest.raises(StorageError, match="a statement on the database did not end in time") as caught,
        file.writing() if writes else file.reading() as db,
    ):
        db.execute(endless).fetchall()
    assert isinstance(caught.value, UnreadableError) is not writes
    with file.reading() as db:
        assert db.execute("SELECT COUNT(*) FROM runs").fetchone() == (0,)


def test_an_endless_trigger_never_begins(board: Recorded) -> None:
    endless = "SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)"
    change(board, f"CREATE TRIGGER own AFTER INSERT ON submissions BEGIN {endless}; END")
    done = call(board, "submit", str(board.kernel))
    assert done.exit_code == 2
    assert "it has a trigger of its own, own" in " ".join(done.stderr.split())


def test_a_value_larger_than_any_that_is_written_is_not_read(board: Recorded) -> None:
    with closing(sqlite3.connect(database(board))) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'submissions_stay'").fetchone()
        db.execute("DROP TRIGGER submissions_stay")
        db.execute("UPDATE submissions SET note = CAST(zeroblob(?) AS TEXT)", [VALUE_BYTES_MAX + 1])
        db.execute(trigger)
        db.commit()
    done = call(board, "runs", "--all")
    assert done.exit_code == 2
    assert "the database is damaged (string or blob too big)" in " ".join(done.stderr.split())


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


def test_an_empty_board_begins_where_job_folders_were_moved_aside(board: Recorded) -> None:
    (board.folder / "board" / "runs" / "1").mkdir(parents=True)
    for path in database(board).parent.glob("board.db*"):
        path.unlink()
    shutil.move(board.folder / "board" / "runs", board.folder / "aside")
    assert call(board, "runs").exit_code == 0


def test_a_name_that_is_no_text_in_the_schema_is_damage(board: Recorded) -> None:
    change(
        board,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT) WHERE name = 'runs'",
    )
    for command in (("runs",), ("poll",), ("list",), ("admin", "export", "--format", "csv")):
        done = call(board, *command)
        assert done.exit_code == 2, (command, done.output, done.exception)
        assert "the database is damaged" in " ".join(done.stderr.split())


def with_note(place: Recorded, submission: int, note_bytes: int) -> None:
    with closing(sqlite3.connect(database(place))) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'submissions_stay'").fetchone()
        db.execute("DROP TRIGGER submissions_stay")
        note = ("printf('%.*c', ?, 'x')", note_bytes)
        db.execute(f"UPDATE submissions SET note = {note[0]} WHERE id = ?", [note[1], submission])  # noqa: S608
        db.execute(trigger)
        db.commit()


def test_an_export_names_the_submission_that_is_too_large_and_reads_no_more_of_it(board: Recorded) -> None:
    for _ in range(4):
        board.add()
    forms = ("csv", "json")
    for form in forms:
        assert call(board, "admin", "export", "--format", form).exit_code == 0
    with_note(board, 3, 30_000_000)
    for form in forms:
        tracemalloc.start()
        done = call(board, "admin", "export", "--format", form)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert done.exit_code == 2, done.output
        assert "row 3 of `submissions` in the database cannot be read: it and its runs have" in done.stderr
        assert peak < 20_000_000


def test_an_export_takes_smaller_pages_of_large_rows(board: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(6):
        board.add()
    for submission in range(1, 8):
        with_note(board, submission, 20_000)
    whole = call(board, "admin", "export", "--format", "csv").stdout
    monkeypatch.setattr("hpc_board.store.batches.PAGE_BYTES_MAX", 50_000)
    assert call(board, "admin", "export", "--format", "csv").stdout == whole
    assert whole.count("\n") == 8


def test_numbers_far_apart_are_no_pages_in_between(board: Recorded) -> None:
    change(board, "UPDATE sqlite_sequence SET seq = 4611686018427387904 WHERE name IN ('submissions', 'runs')")
    board.add()
    done = call(board, "admin", "export", "--format", "csv")
    assert done.exit_code == 0
    assert "4611686018427387905" in done.stdout
