"""Moving in: every row of another board's database is in the new one, or none; nothing there is written or obeyed."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hpc_board.domain.run import RunState
from hpc_board.errors import InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.store import Store
from hpc_board.store.backup import Contents, MovedIn, moving_in
from hpc_board.store.runners import NewRunner
from tests.unit.recorded import AT, Recorded, recorded, result_of, status_of, timed_case


@pytest.fixture
def former(tmp_path: Path) -> Recorded:
    """A board with a finished run of two users, a cancelled one, and a GPU that was held."""
    made = recorded(tmp_path / "former")
    for user in ("ada", "bob"):
        made.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-5, user=user)
    made.add(status_of(RunState.CANCELLED), user="ada", gpu="H100")
    holding(made)
    Store(database(made)).runners.record(1, status_of(RunState.FINISHED))
    return made


def holding(former: Recorded) -> None:
    """Store a runner that holds a GPU."""
    new = NewRunner("ada", "", "H100", "here", "", os.urandom(8).hex(), "a" * 64, 1800, 300, 1, "b" * 64, "{}", AT)
    runner = Store(database(former)).runners.add(new)
    Store(database(former)).runners.record(runner.id, status_of(RunState.RUNNING))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The folder of a new board."""
    folder = tmp_path / "new"
    folder.mkdir()
    return folder


def database(former: Recorded) -> Path:
    return former.board.settings.board / "board.db"


def moved_in(source: Path, board: Path) -> MovedIn:
    with moving_in(source, board) as moved:
        return moved


def rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_every_row_moves_in_and_the_former_database_is_as_it_was(former: Recorded, board: Path) -> None:
    path = database(former)
    before, data = rows(path), path.read_bytes()
    moved = moved_in(path, board)
    assert moved.contents == Contents(submissions=3, runs=3, in_flight=0)
    assert moved.gpus == ("CPU", "H100")
    assert rows(board / "board.db") == before
    assert path.read_bytes() == data
    assert [each.name for each in board.iterdir()] == ["board.db"]
    assert (board / "board.db").stat().st_mode & 0o777 == 0o600


def test_a_backup_moves_in_too(former: Recorded, board: Path) -> None:
    former.board.admin.backup(former.folder / "copy.db")
    assert moved_in(former.folder / "copy.db", board).contents.runs == 3


def test_a_run_in_flight_is_named_and_nothing_moves(former: Recorded, board: Path) -> None:
    for user in ("ada", "bob\x1b[31m"):
        former.add(status_of(RunState.QUEUED), user=user)
    with pytest.raises(Refused) as raised:
        moved_in(database(former), board)
    assert raised.value.message.endswith("are in flight: 4 of ada, 5 of bob")
    assert list(board.iterdir()) == []


def test_a_held_gpu_is_named_and_nothing_moves(former: Recorded, board: Path) -> None:
    holding(former)
    with pytest.raises(Refused) as raised:
        moved_in(database(former), board)
    assert raised.value.message.endswith("board.db hold GPUs: 2 of ada")
    assert list(board.iterdir()) == []


def test_a_board_with_a_database_takes_no_other_one(former: Recorded, board: Path) -> None:
    (board / "board.db").write_text("precious")
    with pytest.raises(InputError, match="already has a database"):
        moved_in(database(former), board)
    assert (board / "board.db").read_text() == "precious"


def as_text(path: Path) -> None:
    path.write_text("no database\n" * 1000)


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def with_trigger(path: Path) -> None:
    changed(path, "CREATE TRIGGER own AFTER INSERT ON decisions BEGIN DELETE FROM decisions; END")


def without_trigger(path: Path) -> None:
    changed(path, "DROP TRIGGER runs_stay")


def with_foreign_name(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'runs_stay'").fetchone()
        connection.execute("DROP TRIGGER runs_stay")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE runs SET token = '../../x' WHERE id = 1")
        connection.execute(trigger)
        connection.commit()


def with_run_of_next_submission(path: Path) -> None:
    columns = "gpu, cluster, partition, 'hb-9', nonce, trust, emulated, harness_sha256, account, options"
    status = "'created', at, '', '', '', '', NULL, NULL, 0, 0, 0, NULL"
    changed(
        path,
        f"INSERT INTO runs SELECT 9, 4, {columns}, NULL, 0, 0, NULL FROM runs WHERE id = 1",  # noqa: S608 - of this file
        f"INSERT INTO events SELECT NULL, 9, {status} FROM events LIMIT 1",  # noqa: S608 - of this file
        "INSERT INTO in_flight VALUES (9)",
    )


def with_last_number(path: Path) -> None:
    changed(path, f"UPDATE sqlite_sequence SET seq = {2**63 - 1} WHERE name = 'runs'")  # noqa: S608 - a number


def with_last_row(path: Path) -> None:
    columns = f"{2**63 - 1}, run, state, at, '', '', '', '', at, at, 0, 0, 0, NULL"
    changed(path, f"INSERT INTO events SELECT {columns} FROM events LIMIT 1")  # noqa: S608 - of this file


def with_last_row_of_runners(path: Path) -> None:
    columns = f"{2**63 - 1}, state, at, '', '', '', '', at, at, 0, 0, 0, runner"
    changed(
        path,
        f"INSERT INTO runner_events SELECT {columns} FROM runner_events LIMIT 1",  # noqa: S608 - of this file
        "UPDATE sqlite_sequence SET seq = 9 WHERE name = 'runner_events'",
    )


def with_index(path: Path) -> None:
    changed(path, "CREATE UNIQUE INDEX own ON submissions (task, id)")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (as_text, "the backup is damaged .file is not a database"),
        (as_pipe, "no such file"),
        (Path.unlink, "no such file"),
        (with_trigger, "its trigger own is not that of a board"),
        (without_trigger, "its trigger runs_stay is not that of a board"),
        (with_foreign_name, "CHECK constraint failed in runs"),
        (with_last_number, "the numbers of its rows are used up"),
        (with_last_row, "the numbers of its rows are used up"),
        (with_last_row_of_runners, "the numbers of its rows are used up"),
        (with_index, "its index own is not that of a board"),
        (with_run_of_next_submission, "a row of runs refers to a missing row of submissions"),
    ],
)
def test_a_database_that_is_not_a_boards_does_not_move_in(
    former: Recorded, board: Path, change: Callable[[Path], object], words: str
) -> None:
    path = database(former)
    former.board.admin.backup(former.folder / "copy.db")
    for beside in path.parent.glob("board.db-*"):
        beside.unlink()
    change(path)
    with pytest.raises(InputError, match=words) as raised:
        moved_in(path, board)
    assert str(path) in raised.value.message
    assert list(board.iterdir()) == []


def test_a_journal_that_names_another_file_as_its_own_deletes_nothing(former: Recorded, board: Path) -> None:
    path = database(former)
    changed(path, "PRAGMA journal_mode = DELETE")
    victim = former.folder / "precious"
    victim.write_text("kept")
    name = os.fsencode(victim)
    journal = path.with_name("board.db-journal")
    magic = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    trailer = (1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big") + magic
    journal.write_bytes(magic + bytes(504) + trailer)
    with pytest.raises(InputError):
        moved_in(path, board)
    assert victim.read_text() == "kept"
    assert journal.exists()
    assert list(board.iterdir()) == []
