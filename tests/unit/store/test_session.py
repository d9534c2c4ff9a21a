"""Sessions: one connection for all transactions of a thread, which holds up no other client."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.errors import InputError, StorageError
from hpc_board.model.task import Mode
from hpc_board.runs.job_folder import PROGRESS, Folders
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.e2e.boards import BoardFiles, board_files
from tests.unit.store.test_store import TASK
from tests.values import requested

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

LOCAL = "27 1 254:0 / / rw - ext4 source rw\n"
SHARED = "27 1 254:0 / / rw - nfs4 source rw\n"

COUNTED = """
import sys

counts = {"connections": 0, "task files": 0}

def count(event, args):
    if event == "sqlite3.connect":
        counts["connections"] += 1
    elif event == "open" and str(args[0]).endswith("task.yml"):
        counts["task files"] += 1

sys.addaudithook(count)
from hpc_board.cli.main import cli

try:
    cli(sys.argv[1:], prog_name="hpc-board")
finally:
    import json
    print(json.dumps(counts), file=sys.stderr)
"""

ANOTHER = """
import sys
from pathlib import Path
from hpc_board.store import Store
from hpc_board.store.backup import backup, restore

path, mounts, copy, kept = map(Path, sys.argv[1:])
store = Store(path, mounts=mounts, busy_timeout_seconds=2)
backup(store.file, copy, force=False)
store.runs.request_end([1], "asked by another process")
restore(store.file, copy, kept, force=False)
"""


@pytest.fixture(params=[LOCAL, SHARED], ids=["wal", "delete"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(request.param)
    return Store(tmp_path / "board.db", mounts=mounts, busy_timeout_seconds=2)


def add(store: Store, user: str = "ada") -> Run:
    new = NewRun("H100", "main", "", os.urandom(8).hex(), "", "self-run", False, "")
    _, (run,) = store.submissions.add(NewSubmission(TASK, user, "k.py", b"x", Mode.TEST, "", NOON, [new]), sender=None)
    return run


def forget(store: Store) -> None:
    """Begin to forget which runs are in flight, and fail."""
    with store.file.writing() as db:
        db.delete("in_flight", "TRUE", ())
        raise ValueError("broken")


def descriptors(path: Path) -> int:
    """Return the number of this process's descriptors of the file."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            found += each.readlink() == path
        except OSError:
            continue
    return found


def test_a_session_keeps_one_connection_until_it_ends(store: Store) -> None:
    path = store.file.path
    add(store)
    assert descriptors(path) == 0
    with store.file.session():
        assert descriptors(path) == 0
        with store.file.session():
            assert store.boards.newest() == {}
            assert descriptors(path) == 1
            run = add(store)
        assert store.runs.record(run.id, Status(RunState.LOST, NOON))
        assert len(store.runs.list()) == 2
        assert descriptors(path) == 1
        store.file.rest()
        assert descriptors(path) == 0
        assert len(store.runs.in_flight()) == 1
    assert descriptors(path) == 0


def test_what_fails_leaves_no_transaction_behind(store: Store) -> None:
    add(store)
    with store.file.session():
        with pytest.raises(ValueError, match="broken"):
            forget(store)
        with pytest.raises(ValueError, match="broken"), store.file.reading():
            raise ValueError("broken")
        assert Store(store.file.path, mounts=store.file.mounts, busy_timeout_seconds=0.1).runs.request_end([1], "end")
        assert store.runs.get(1).status.cancel_requested


def test_a_transaction_within_another_has_a_connection_of_its_own(store: Store) -> None:
    add(store)
    with store.file.session():
        with store.file.reading() as db:
            before = db.count("runs")
            with store.file.reading() as other:
                assert other is not db
                assert other.count("runs") == 1
            store.file.rest()
            assert db.count("runs") == before
        add(store)
        assert len(store.runs.list()) == 2


def test_each_thread_has_a_session_of_its_own(store: Store) -> None:
    add(store)
    found: list[int] = []
    with store.file.session():
        assert len(store.runs.list()) == 1
        thread = threading.Thread(target=lambda: found.append(len(store.runs.list())))
        thread.start()
        thread.join()
        assert found == [1]
        assert len(store.runs.list()) == 1


def test_a_database_that_takes_the_place_of_another_is_found(tmp_path: Path, store: Store) -> None:
    path = store.file.path
    add(store)
    other = Store(tmp_path / "other.db", mounts=store.file.mounts)
    add(other, "bob")
    with store.file.session():
        assert [run.user for run in store.runs.list()] == ["ada"]
        (tmp_path / "other.db").replace(path)
        assert [run.user for run in store.runs.list()] == ["bob"]
        for file in tmp_path.glob("board.db*"):
            file.unlink()
        assert store.boards.newest() == {}
        assert not path.exists()
        assert store.runs.list() == ()
        assert add(store, "carl").id == 1
    assert [run.user for run in store.runs.list()] == ["carl"]


def test_a_database_that_cannot_be_used_is_opened_anew_once_it_can(tmp_path: Path, store: Store) -> None:
    path = store.file.path
    add(store)
    shutil.copy(path, tmp_path / "sound.db")
    with store.file.session():
        path.write_bytes(b"no database" * 100)
        with pytest.raises(StorageError):
            store.runs.list()
        path.write_bytes((tmp_path / "sound.db").read_bytes())
        assert len(store.runs.list()) == 1


def test_an_idle_connection_hinders_nobody(tmp_path: Path, store: Store) -> None:
    path = store.file.path
    add(store)
    with store.file.session():
        assert not store.runs.get(1).status.cancel_requested
        files = [path, store.file.mounts, tmp_path / "copy.db", tmp_path / "kept.db"]
        subprocess.run([sys.executable, "-c", ANOTHER, *map(str, files)], check=True, timeout=60)
        assert [status.cancel_requested for status in store.runs.history(1)] == [False]
        assert add(store).id == 2
        store.file.rest()
        assert not path.with_name("board.db-wal").exists()
    kept = Store(tmp_path / "kept.db", mounts=store.file.mounts)
    assert [status.cancel_requested for status in kept.runs.history(1)] == [False, True]


def test_a_forked_process_leaves_the_connection_alone(store: Store) -> None:
    add(store)
    with store.file.session():
        assert len(store.runs.list()) == 1
        child = os.fork()
        if child == 0:
            try:
                with store.file.session():
                    store.runs.request_end([1], "asked by the child")
                store.file.rest()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert store.runs.get(1).status.cancel_requested
        assert store.runs.record(1, Status(RunState.LOST, NOON))


# One command


def counted(files: BoardFiles, *words: str | Path) -> dict[str, int]:
    """Return the number of a command's connections to a database, and of its opens of a task's file."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, "--config", files.settings, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stderr.splitlines()[-1])
    return counts


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> BoardFiles:
    files = board_files(tmp_path_factory.mktemp("board"), slurm=False)
    assert files.run("submit", files.kernel(), "--mode", "test").returncode == 0
    return files


@pytest.mark.parametrize(
    "words", [("submit", "kernel.py", "--mode", "ranked"), ("runs",), ("show", "double"), ("poll",), ("run", "1")]
)
def test_a_command_connects_to_the_database_once(files: BoardFiles, words: Sequence[str]) -> None:
    named = [str(files.kernel()) if word == "kernel.py" else word for word in words]
    assert counted(files, *named)["connections"] == 1


def test_a_wait_lets_go_of_the_database_before_it_sleeps(files: BoardFiles) -> None:
    board = Board(settings.load(files.settings, {}))
    with board.session():
        assert board.runs.get(1).id == 1
        assert descriptors(files.folder / "board" / "board.db") == 1
        for _ in board.runs.wait([1], timeout_seconds=60):
            assert descriptors(files.folder / "board" / "board.db") == 0


def test_many_runs_are_read_by_one_question(files: BoardFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    board, connect = Board(settings.load(files.settings, {})), sqlite3.connect
    opened: list[str] = []

    def counting(database: str, **options: Any) -> sqlite3.Connection:
        opened.append(database)
        connection: sqlite3.Connection = connect(database, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counting)
    assert [run.id for run in board.runs.get_each([1, 1, 1])] == [1, 1, 1]
    assert len(opened) == 1
    with pytest.raises(InputError, match="there is no run 99"):
        board.runs.get_each([1, 99])


def test_a_wait_reads_the_progress_of_runs_until_they_end(files: BoardFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    board, read = Board(settings.load(files.settings, {})), Folders.read
    names: list[str] = []

    def recording(folders: Folders, run: Run, name: str, *rest: Any, **options: Any) -> bytes:
        names.append(name)
        return read(folders, run, name, *rest, **options)

    monkeypatch.setattr(Folders, "read", recording)
    (run,) = board.submissions.submit([requested(files.kernel(), mode="test")])
    list(board.runs.wait([run.id], timeout_seconds=60))
    assert PROGRESS in names
    names.clear()
    list(board.runs.wait([run.id], timeout_seconds=60))
    assert PROGRESS not in names


def test_a_submission_reads_the_folder_of_its_task_alone(files: BoardFiles) -> None:
    broken = files.folder / "tasks" / "broken"
    broken.mkdir()
    (broken / "task.yml").write_text("files: nonsense")
    assert counted(files, "submit", files.kernel(), "--mode", "test")["task files"] == 1
    assert counted(files, "list")["task files"] > 2


def test_a_task_whose_folder_is_called_otherwise_is_found(files: BoardFiles) -> None:
    folder = files.folder / "tasks" / "double"
    other = files.folder / "tasks" / "twice"
    shutil.copytree(folder, other)
    document = (other / "task.yml").read_text()
    (other / "task.yml").write_text(f"name: two_times\n{document}")
    assert counted(files, "submit", files.kernel(), "--task", "double", "--mode", "test")["task files"] == 1
    text = files.kernel().read_text().replace("double", "two_times")
    assert files.run("submit", files.kernel(text), "--mode", "test").returncode == 0
    assert "unknown task" in files.run("show", "twice").stderr
