"""The store under several processes at once, and under processes that are killed while they write."""

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from hpc_board.store import Store
from tests.unit.recorded import REPOSITORY
from tests.unit.store.store_writer import add

KILLS = 20


@contextmanager
def writer(path: Path, mounts: Path, work: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that writes."""
    command = [sys.executable, "-m", "tests.unit.store.store_writer", str(path), str(mounts), work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=[("ext4", "wal"), ("nfs4", "delete")], ids=["wal", "delete"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A table of mounts, and the journal mode that follows from it."""
    kind, mode = request.param
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"27 1 254:0 / / rw - {kind} source rw\n")
    return mounts, mode


INVARIANTS = {
    "every run was created": "SELECT id FROM runs WHERE id NOT IN (SELECT run FROM events WHERE state = 'created')",
    "every submission has its runs": """
        SELECT id FROM submissions WHERE (SELECT COUNT(*) FROM runs WHERE submission = submissions.id) <> 3""",
    "in flight are the runs that have not ended": """
        SELECT run, state FROM events
         WHERE id IN (SELECT MAX(id) FROM events GROUP BY run)
           AND (run IN (SELECT run FROM in_flight)) <> (state IN ('created', 'queued'))""",
    "finished runs have results": """
        SELECT run FROM events WHERE state = 'finished' EXCEPT SELECT run FROM results""",
    "results belong to finished runs": """
        SELECT run FROM results EXCEPT SELECT run FROM events WHERE state = 'finished'""",
    "results are whole": """
        SELECT run FROM results
         WHERE run NOT IN (SELECT run FROM documents)
            OR (SELECT json_array_length(cases) FROM cases WHERE cases.run = results.run) IS NOT 20""",
    "nothing refers to what is not there": "PRAGMA foreign_key_check",
    "the file is sound": "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
}


def violations(path: Path) -> dict[str, list[object]]:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        found = {name: connection.execute(sql).fetchall() for name, sql in INVARIANTS.items()}
    return {name: rows for name, rows in found.items() if rows}


@pytest.mark.slow
def test_a_writer_may_be_killed_at_any_moment(tmp_path: Path, journal: tuple[Path, str]) -> None:
    mounts, mode = journal
    path = tmp_path / "board" / "board.db"
    store = Store(path, mounts=mounts)
    chance = random.Random(mode)
    acknowledged: set[int] = set()

    for _ in range(KILLS):
        with writer(path, mounts, "write") as process:
            assert process.stdout
            assert process.stdout.readline() == "0\n"
            for _ in range(chance.randrange(4)):
                acknowledged.add(int(process.stdout.readline()))
            time.sleep(chance.uniform(0, 0.03))
            process.kill()
            acknowledged.update(int(line) for line in process.stdout if line.endswith("\n"))
        store.runs.in_flight()
        assert violations(path) == {}

    stored = {run.submission for run in store.runs.list()}
    assert acknowledged
    assert acknowledged <= stored
    add(store)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchall() == [(mode,)]


@pytest.mark.slow
def test_submissions_of_several_processes_are_all_there(tmp_path: Path, journal: tuple[Path, str]) -> None:
    mounts, _ = journal
    path = tmp_path / "board" / "board.db"
    with ExitStack() as running:
        processes = [running.enter_context(writer(path, mounts, "12")) for _ in range(4)]
        outputs = [process.communicate()[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert sorted(int(line) for output in outputs for line in output.split()) == [0] * 4 + list(range(1, 49))
    assert len(Store(path).runs.list()) == 3 * 48
    assert len(Store(path).runs.in_flight()) == 3 * 48
    assert violations(path) == {}
