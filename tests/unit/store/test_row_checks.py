"""Rows of a database that another account or the author of a backup wrote: as strict as task files."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hpc_board.domain.task_rules import task_faults
from hpc_board.errors import DamagedRowError
from hpc_board.model.task import Language, Mode, Task, TaskFile
from hpc_board.store import NewRun, NewSubmission, Store
from tests.harness.evaluations import a_task
from tests.values import replace

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(tmp_path / "board.db")
    run = NewRun("H100", "main", "gpu", "hb-0123456789abcdef", "n", "self-run", False, "ab" * 32)
    found.submissions.add(
        NewSubmission(
            task=a_task(), user="ada", file_name="k.py", code=b"x", mode=Mode.RANKED, note="", at=NOW, runs=[run]
        )
    )
    return found


def changed(store: Store, table: str, column: str, value: str) -> None:
    """Write a value into every row, as another program can."""
    with closing(sqlite3.connect(store.file.path)) as db:
        (trigger,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", [f"{table}_stay"]).fetchone()
        db.execute(f"DROP TRIGGER {table}_stay")
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute(f"UPDATE {table} SET {column} = ?", [value])  # noqa: S608 - of this file
        db.execute(trigger)
        db.commit()


def redefined(store: Store, **values: Any) -> None:
    with closing(sqlite3.connect(store.file.path)) as db:
        (definition,) = db.execute("SELECT definition FROM tasks").fetchone()
    changed(store, "tasks", "definition", json.dumps({**json.loads(definition), **values}))


def the_task(store: Store) -> Task:
    run = store.runs.get(1)
    return store.submissions.task(run.task, run.task_version)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("runs", "token", "../../../.config/autostart/x"),
        ("runs", "token", "x/../../y.1"),
        ("runs", "token", ".."),
        ("runs", "token", "hb-1.6-14"),
        ("runs", "token", "hb-1\n"),
        ("runs", "harness_sha256", "../../../bin/x"),
        ("runs", "gpu", "H100\nrm -rf ~"),
        ("runs", "cluster", "../main"),
        ("runs", "options", '{"account": "a\\n#SBATCH --uid=root"}'),
        ("runs", "options", '{"sbatch": ["--uid=root"]}'),
        ("runs", "options", '{"account": 3}'),
        ("runs", "options", "--account=a"),
        ("submissions", "task", "a\nb"),
        ("submissions", "file_name", "../k.py"),
        ("events", "job_id", "../../../etc/passwd"),
        ("events", "job_id", "--user=ada"),
    ],
)
def test_a_name_that_leads_elsewhere_is_damage(store: Store, table: str, column: str, value: str) -> None:
    store.runs.get(1)
    changed(store, table, column, value)
    with pytest.raises(DamagedRowError, match=rf"row 1 of `{table}.*` in the database cannot be read: its {column} is"):
        store.runs.get(1)
    with pytest.raises(DamagedRowError, match=f"its {column} is"):
        store.runs.in_flight()


FILE = {"name": "reference.py", "text": "x"}
SUBMISSION = {"name": "submission.py", "text": None}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"files": [SUBMISSION, {"name": "../../x.py", "text": "x"}]}, 'the file name "../../x.py" is not a relative'),
        ({"files": [SUBMISSION, {"name": "/etc/x", "text": "x"}]}, 'the file name "/etc/x" is not a relative'),
        ({"files": [SUBMISSION, {"name": "a\nb", "text": "x"}]}, "is not a relative path"),
        ({"files": [SUBMISSION, FILE, FILE]}, 'the file name "reference.py" is taken by another file'),
        ({"files": [SUBMISSION, FILE, {"name": "reference.py/x", "text": ""}]}, "is taken by another file"),
        ({"files": [FILE]}, "it has 0 files for the submission, and one is needed"),
        ({"files": [SUBMISSION, {"name": "a", "text": "x" * 1_000_001}]}, 'the file "a" has more than 1,000,000 bytes'),
        ({"files": [SUBMISSION, *({"name": f"{n}", "text": ""} for n in range(1000))]}, "it has 1001 files"),
        ({"name": "a\nrm -rf ~"}, "is not a name of letters"),
        ({"name": "another"}, 'its definition has the name "another"'),
        ({"limits": {"no_such_limit": 3}}, "no_such_limit is no limit; there are"),
        ({"limits": {"workers": 1e9}}, "workers must be a number from 1 to 9"),
        ({"timeouts": {"test_seconds": 10**9, "benchmark_seconds": 1, "ranked_seconds": 1}}, "the timeout 1000000000"),
        ({"tests": [{"a b": 1}]}, 'the test 0 has the key "a b", which is no name of an argument'),
        ({"tests": [{"a": "x\ny"}]}, 'the test 0 has a wrong "a": expected text on one line'),
        ({"benchmarks": [{"a": 2**70}]}, 'the benchmark 0 has a wrong "a": expected a whole number'),
        ({"flags": ["-fplugin=/tmp/x.so"]}, 'the flag "-fplugin=/tmp/x.so" is not an allowed flag'),
        ({"gpus": ["../H100"]}, 'the GPU "../H100" is not a name'),
        ({"harness": "mine"}, 'the harness "mine" is not isolated or task'),
        ({"language": "hip"}, "the language hip is not py or cu"),
        (
            {"milestones": [{"name": "ours", "file_name": "../k.py", "text": "", "exclude_gpus": []}]},
            'the milestone "ours" has the file name "../k.py"',
        ),
        ({"no_such_key": 1}, "it has no task"),
    ],
)
def test_a_definition_that_no_task_file_could_have_is_damage(store: Store, values: dict[str, Any], told: str) -> None:
    the_task(store)
    redefined(store, **values)
    with pytest.raises(DamagedRowError, match="of `tasks` in the database cannot be read") as caught:
        the_task(store)
    assert told in caught.value.message


def test_a_definition_that_a_task_file_can_have_is_none() -> None:
    assert list(task_faults(a_task())) == []
    nested = (TaskFile("s.py", None), TaskFile("a/b.py", ""), TaskFile("a/c.py", ""))
    assert list(task_faults(replace(a_task(), files=nested, language=Language.CU))) == []
