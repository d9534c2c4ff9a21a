"""`admin backup` and `admin restore`: copies that are whole while others write, and the way back."""

import sqlite3
import stat
import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpc_board.cli.main import cli
from hpc_board.domain.run import Retry, RunState
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from hpc_board.store import Store
from hpc_board.store.backup import contents
from hpc_board.store.runners import NewRunner
from tests.unit.recorded import AT, Recorded, recorded, result_of, status_of, timed_case
from tests.values import replace


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    return recorded(tmp_path)


def call(board: Recorded, *argv: str | Path) -> Result:
    return CliRunner().invoke(cli, list(map(str, argv)), obj=lambda: board.board)


def add(board: Recorded, score_s: float = 1e-3) -> int:
    return board.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s).id


def test_a_backup_holds_everything_and_is_its_owners_alone(board: Recorded) -> None:
    add(board)
    add(board, 2e-3)
    target = board.folder / "copy.db"
    done = call(board, "admin", "backup", target)
    assert done.exit_code == 0, done.output
    assert f"{target} holds 2 submissions and 2 runs." in done.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in board.folder.iterdir() if "copy.db" in path.name] == ["copy.db"]
    copy = Store(target)
    assert [run.score_s for run in copy.runs.list()] == [2e-3, 1e-3]
    assert copy.runs.whole(1).result == board.board.runs.whole(1).result


def test_a_backup_while_others_write_is_whole(board: Recorded) -> None:
    add(board)
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            add(board)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for each in writers:
        each.start()
    try:
        for number in range(5):
            board.board.admin.backup(board.folder / f"{number}.db")
    finally:
        stop.set()
        for each in writers:
            each.join()
    held = [contents(board.folder / f"{number}.db") for number in range(5)]
    assert all(each.runs == each.submissions for each in held)
    assert held == sorted(held, key=lambda each: each.runs)


def test_a_backup_does_not_overwrite_a_file_unless_told_to(board: Recorded) -> None:
    target = board.folder / "copy.db"
    target.write_text("precious")
    done = call(board, "admin", "backup", target)
    assert done.exit_code == 2
    assert "already exists" in done.stderr
    assert target.read_text() == "precious"
    assert call(board, "admin", "backup", target, "--force").exit_code == 0
    assert contents(target).runs == 0


def test_a_restored_board_is_what_it_was_and_gives_no_number_again(board: Recorded) -> None:
    add(board)
    board.board.admin.backup(board.folder / "copy.db")
    add(board)
    add(board)
    done = call(board, "admin", "restore", board.folder / "copy.db", "--yes")
    assert done.exit_code == 0, done.output
    assert "The board now has 1 submission and 1 run. " in done.stderr
    assert " has the previous 3 submissions and 3 runs." in done.stderr
    assert [run.id for run in board.board.runs.list()] == [1]
    (kept,) = board.board.settings.board.glob("board.db.before-*")
    assert contents(kept).runs == 3
    assert add(board) == 4
    assert not list(board.board.settings.board.glob(".restore*"))


def test_somebody_who_has_the_board_open_sees_the_restored_one(board: Recorded) -> None:
    add(board)
    board.board.admin.backup(board.folder / "copy.db")
    add(board)
    path = board.board.settings.board / "board.db"
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT COUNT(*) FROM runs").fetchone() == (2,)
        board.board.admin.restore(board.folder / "copy.db")
        assert reader.execute("SELECT COUNT(*) FROM runs").fetchone() == (1,)


def test_runs_in_flight_that_a_backup_does_not_know_are_not_forgotten_by_accident(board: Recorded) -> None:
    board.add(status_of(RunState.QUEUED))
    board.board.admin.backup(board.folder / "copy.db")
    assert call(board, "admin", "restore", board.folder / "copy.db", "--yes").exit_code == 0
    board.add(status_of(RunState.QUEUED))
    done = call(board, "admin", "restore", board.folder / "copy.db", "--yes")
    assert done.exit_code == 5
    assert "the backup does not contain 1 of the jobs in flight" in done.stderr
    assert len(board.board.runs.list()) == 2
    assert call(board, "admin", "restore", board.folder / "copy.db", "--yes", "--force").exit_code == 0
    assert len(board.board.runs.list()) == 1


def test_a_job_of_a_run_that_was_sent_again_is_not_forgotten_by_accident(board: Recorded) -> None:
    run = board.add(status_of(RunState.QUEUED))
    board.board.admin.backup(board.folder / "copy.db")
    again = Retry("hb-0123456789abcdef", "n", status_of(RunState.CREATED))
    Store(board.folder / "board" / "board.db").runs.retry_each({run.id: again})
    done = call(board, "admin", "restore", board.folder / "copy.db", "--yes")
    assert done.exit_code == 5
    assert "the backup does not contain 1 of the jobs in flight" in done.stderr
    assert board.board.runs.get(run.id).token == again.token


def test_a_held_gpu_that_a_backup_does_not_know_is_not_forgotten_by_accident(board: Recorded) -> None:
    board.add(status_of(RunState.CANCELLED))
    runners = Store(board.folder / "board" / "board.db").runners
    new = NewRunner("ada", "", "H100", "here", "", "hb-1", "a" * 64, 1800, 300, 1, "b" * 64, "{}", AT)
    runners.add(new)
    board.board.admin.backup(board.folder / "copy.db")
    assert call(board, "admin", "restore", board.folder / "copy.db", "--yes").exit_code == 0
    second = runners.add(replace(new, token="hb-2"))
    done = call(board, "admin", "restore", board.folder / "copy.db", "--yes")
    assert done.exit_code == 5
    assert "the backup does not contain 1 of the jobs in flight" in done.stderr
    runners.record(second.id, status_of(RunState.CANCELLED))
    assert call(board, "admin", "restore", board.folder / "copy.db", "--yes").exit_code == 0
    # The job folder of the second one exists.
    assert runners.add(replace(new, token="hb-3")).id == second.id + 1


def test_without_a_terminal_nothing_is_restored_unless_told_to(board: Recorded) -> None:
    board.board.admin.backup(board.folder / "copy.db")
    add(board)
    done = call(board, "admin", "restore", board.folder / "copy.db")
    assert done.exit_code == 2
    assert "use --yes" in done.stderr
    assert len(board.board.runs.list()) == 1


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE others (id)")
        connection.commit()


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(data)


@pytest.mark.slow
def test_what_is_no_whole_backup_is_refused_and_changes_nothing(board: Recorded) -> None:
    for _ in range(20):
        add(board)
    files = {name: board.folder / name for name in ("absent", "text", "other", "damaged", "cut")}
    files["text"].write_text("no database " * 1000)
    other_database(files["other"])
    board.board.admin.backup(files["damaged"])
    files["cut"].write_bytes(files["damaged"].read_bytes()[: 4096 * 5])
    damaged(files["damaged"])
    for name, path in files.items():
        with pytest.raises(InputError, match=r"no such file|not a backup of a board|damaged"):
            board.board.admin.restore(path)
        assert len(board.board.runs.list()) == 20, name
    assert not list(board.board.settings.board.glob("board.db.before-*"))


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (
            "CREATE TRIGGER own AFTER INSERT ON submissions BEGIN SELECT RAISE(ABORT, 'red'); END",
            "its trigger own is not that of a board",
        ),
        (
            "DROP TRIGGER runs_stay; CREATE TRIGGER runs_stay BEFORE UPDATE ON runs BEGIN DELETE FROM events; END",
            "its trigger runs_stay is not that of a board",
        ),
        ("CREATE VIEW own AS SELECT 1", "its view own is not that of a board"),
        (
            "ALTER TABLE bests RENAME TO own; CREATE VIEW bests AS SELECT * FROM own",
            "its index bests_by_score is not that of a board",
        ),
        (
            "ALTER TABLE in_flight RENAME TO own; CREATE VIEW in_flight AS SELECT * FROM own",
            "its table in_flight is not that of a board",
        ),
        ("DROP TABLE runs", "its index runs_by_submission is not that of a board"),
        ("ALTER TABLE boards RENAME COLUMN reason TO other", "its table boards is not that of a board"),
        ("PRAGMA user_version = 0", "it has no record of its version"),
    ],
)
def test_a_database_of_another_shape_is_not_restored(board: Recorded, statements: str, told: str) -> None:
    add(board)
    source = board.folder / "copy.db"
    board.board.admin.backup(source)
    with closing(sqlite3.connect(source)) as db:
        db.executescript(statements)
    done = call(board, "admin", "restore", source, "--yes", "--force")
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert not list((board.folder / "board").glob("board.db.before*"))
    assert [run.id for run in board.board.runs.list()] == [1]


def test_tables_of_ones_own_and_a_number_that_is_none_do_not_hinder_a_restore(board: Recorded) -> None:
    add(board)
    source = board.folder / "copy.db"
    board.board.admin.backup(source)
    with closing(sqlite3.connect(source)) as db:
        db.executescript("CREATE TABLE own (id); ANALYZE; UPDATE sqlite_sequence SET seq = 'abc' WHERE name = 'runs'")
    done = call(board, "admin", "restore", source, "--yes")
    assert done.exit_code == 0, done.output
    assert add(board) == 2


@pytest.mark.parametrize(
    ("table", "column", "value", "told"),
    [
        ("runs", "token", "../../../.config/x", "CHECK constraint failed in runs"),
        ("submissions", "file_name", "../k.py", "CHECK constraint failed in submissions"),
        ("events", "job_id", "-x", "CHECK constraint failed in events"),
        ("events", "reason", b"x", "CHECK constraint failed in events"),
    ],
)
def test_a_backup_with_a_value_that_hpc_board_does_not_write_is_not_restored(
    board: Recorded, table: str, column: str, value: str | bytes, told: str
) -> None:
    board.add(status_of(RunState.QUEUED))
    source = board.folder / "copy.db"
    board.board.admin.backup(source)
    with closing(sqlite3.connect(source)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", [f"{table}_stay"]).fetchone()
        db.execute(f"DROP TRIGGER {table}_stay")
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute(f"UPDATE {table} SET {column} = ?", [value])  # noqa: S608 - of this file
        db.execute(trigger)
        db.commit()
    done = call(board, "admin", "restore", source, "--yes", "--force")
    assert done.exit_code == 2, done.output
    assert told in " ".join(done.stderr.split())
    assert not list((board.folder / "board").glob("board.db.before*"))
    assert [run.id for run in board.board.runs.list()] == [1]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sqlite_master SET sql = 'CREATE TABLE runs (' WHERE name = 'runs'",
        "UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT) WHERE name = 'runs'",
        "UPDATE sqlite_master SET rootpage = 999999 WHERE name = 'runs'",
        "UPDATE sqlite_master SET sql = 'CREATE VIEW run_details AS SELECT 1' WHERE name = 'run_details'",
        "UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE runs USING nothing(x)', rootpage = 0 WHERE name = 'runs'",
        "UPDATE sqlite_sequence SET name = x'ff' WHERE name = 'runs'",
    ],
)
def test_a_backup_with_a_damaged_schema_is_refused_in_a_sentence(board: Recorded, statement: str) -> None:
    add(board)
    source = board.folder / "copy.db"
    board.board.admin.backup(source)
    with closing(sqlite3.connect(source)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(statement)
        db.commit()
    done = call(board, "admin", "restore", source, "--yes", "--force")
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code in (0, 2), done.output
    assert [run.id for run in board.board.runs.list()] == [1]
