import itertools
import json
import math
import os
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest

from hpc_board.domain.moderation import Sender
from hpc_board.domain.result_json import ResultError
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.run_order import RunPosition
from hpc_board.domain.standing import Rows, Standing
from hpc_board.errors import InputError, Refused, StorageError
from hpc_board.model.result import RESULT_BYTES_MAX, Case, Log, Result, Timing, Verdict
from hpc_board.model.task import Language, Mode, Task, TaskFile
from hpc_board.store import Store
from hpc_board.store.database import DatabaseFile, journal_mode, mounted
from hpc_board.store.listing import RunQuery
from hpc_board.store.runs import RunGateway
from hpc_board.store.sqlite import Database
from hpc_board.store.standings import StandingsGateway
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.unit.open_database import OpenDatabase
from tests.unit.recorded import row_case
from tests.unit.users import another_user
from tests.values import replace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = Task(
    name="vector_add",
    language=Language.PY,
    description="Add two vectors.",
    files=(TaskFile("reference.py", "def ref_kernel(data): ..."), TaskFile("submission.py", None)),
    benchmarks=({"size": 1024, "seed": 7},),
)


def later(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def new_run(job: str = "job-1", gpu: str = "H100") -> NewRun:
    return NewRun(
        gpu=gpu,
        cluster="main",
        partition="gpu-h100",
        token=job,
        nonce="nonce-1",
        trust="self-run",
        emulated=False,
        harness_sha256="harness",
    )


def add(
    store: Store,
    *gpus: str,
    user: str = "ada",
    at: datetime = NOON,
    code: bytes = b"kernel",
    mode: Mode = Mode.RANKED,
    task: Task = TASK,
) -> tuple[Run, ...]:
    number = store.runs.list(limit=1)[0].id if store.runs.list(limit=1) else 0
    return store.submissions.add(
        NewSubmission(
            task=task,
            user=user,
            file_name="kernel.py",
            code=code,
            mode=mode,
            note="",
            at=at,
            runs=[new_run(f"job-{number + index}", gpu) for index, gpu in enumerate(gpus or ("H100",), start=1)],
        ),
        sender=None,
    )[1]


def outcome(run: Run, verdict: Verdict = Verdict.PASS, cases: tuple[Case, ...] = ()) -> Result:
    return Result(run=run.id, nonce=run.nonce, mode=run.mode.value, verdict=verdict, message="as told", cases=cases)


def finish(store: Store, run: Run, score_s: float | None, verdict: Verdict = Verdict.PASS) -> None:
    assert store.runs.finish(run.id, Status(RunState.FINISHED, later(5)), outcome(run, verdict), score_s)


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return Database(connection).count(table)


def numbers(listed: tuple[Run, ...]) -> list[int]:
    return [run.id for run in listed]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "board" / "board.db"


@pytest.fixture
def store(path: Path) -> Store:
    return Store(path)


def test_a_new_board_belongs_to_its_user_alone(path: Path, store: Store) -> None:
    store.runs.in_flight()

    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_submission_is_stored_with_its_runs(store: Store) -> None:
    submission, (first, second) = store.submissions.add(
        NewSubmission(
            task=TASK,
            user="ada",
            file_name="kernel.py",
            code=b"\x00kernel\xff",
            mode=Mode.BENCHMARK,
            note="tiled",
            at=NOON,
            runs=[new_run("a", "H100"), replace(new_run("b", "MI300"), trust="verified", emulated=True)],
        ),
        sender=None,
    )

    assert submission == store.submissions.get(submission.id)
    assert (submission.task, submission.task_version) == (TASK.name, TASK.version)
    assert (submission.user, submission.file_name, submission.note) == ("ada", "kernel.py", "tiled")
    assert (submission.mode, submission.submitted_at) == (Mode.BENCHMARK, NOON)
    assert store.submissions.code(submission.code_sha256) == b"\x00kernel\xff"
    assert first == Run(
        id=first.id,
        submission=submission.id,
        task=TASK.name,
        task_version=TASK.version,
        user="ada",
        file_name="kernel.py",
        gpu="H100",
        cluster="main",
        partition="gpu-h100",
        mode=Mode.BENCHMARK,
        token=first.token,
        nonce="nonce-1",
        trust="self-run",
        emulated=False,
        created_at=NOON,
        status=Status(RunState.CREATED, NOON),
        code_sha256=submission.code_sha256,
        harness_sha256="harness",
        note="tiled",
    )
    assert (first.token, second.token) == ("a", "b")
    assert (second.gpu, second.trust, second.emulated) == ("MI300", "verified", True)
    assert (store.runs.get(first.id), store.runs.get(second.id)) == (first, second)


def test_the_end_of_a_job_comes_with_its_run(store: Store) -> None:
    run, other = add(store, "A", "B")
    store.runs.finish(run.id, Status(RunState.FINISHED, later(5)), outcome(run, Verdict.PASS), None, later(4))
    finish(store, other, None)

    assert [listed.ended_at for listed in store.runs.list()] == [None, later(4)]
    assert store.runs.get(run.id).ended_at == later(4)


def test_equal_files_and_equal_task_versions_are_stored_once(path: Path, store: Store) -> None:
    add(store, code=b"one")
    add(store, code=b"one")
    add(store, code=b"two", task=replace(TASK, benchmarks=({"size": 2048, "seed": 7},)))

    assert count(path, "codes") == 2
    assert count(path, "tasks") == 2


def test_the_definition_of_a_task_is_kept_as_json(path: Path, store: Store) -> None:
    task = replace(TASK, deadline=NOON, config={"main": "eval.py"})

    add(store, task=task)

    ((name, version, text),) = rows(path, "SELECT name, version, definition FROM tasks")
    definition = json.loads(str(text))
    assert (name, version) == (task.name, task.version)
    assert definition["deadline"] == "2026-03-01T12:00:00Z"
    assert definition["benchmarks"] == [{"size": 1024, "seed": 7}]
    assert definition["files"][1] == {"name": "submission.py", "text": None}
    assert (definition["config"], definition["ranking_by"]) == ({"main": "eval.py"}, "last")


@pytest.mark.parametrize(
    ("late", "taken"), [(timedelta(), True), (timedelta(microseconds=1), False), (timedelta(milliseconds=80), False)]
)
def test_the_deadline_is_compared_with_the_moment_of_storage(store: Store, late: timedelta, taken: bool) -> None:
    task = replace(TASK, deadline=NOON)
    drafted = NewSubmission(task, "ada", "kernel.py", b"", Mode.TEST, "", NOON - timedelta(hours=1), [new_run("a")])
    if not taken:
        with pytest.raises(Refused, match="The deadline to submit to"):
            store.submissions.add_all([drafted], sender=Sender(), clock=lambda: NOON + late)
        assert store.runs.list(RunQuery()) == ()
        return
    ((submission, _),) = store.submissions.add_all([drafted], sender=Sender(), clock=lambda: NOON + late)
    assert submission.submitted_at == NOON


def test_a_submission_that_fails_halfway_leaves_nothing(path: Path, store: Store) -> None:
    add(store)

    with pytest.raises(sqlite3.IntegrityError):
        store.submissions.add(
            NewSubmission(
                task=replace(TASK, name="other"),
                user="bob",
                file_name="kernel.py",
                code=b"other",
                mode=Mode.TEST,
                note="",
                at=NOON,
                runs=[new_run("fresh"), new_run("job-1")],
            ),
            sender=None,
        )

    for table in ("codes", "tasks", "submissions", "runs", "events", "in_flight"):
        assert count(path, table) == 1, table


def test_times_of_any_zone_come_back_as_the_same_moment(path: Path, store: Store) -> None:
    moment = datetime(2026, 3, 1, 13, 0, 0, 7, tzinfo=timezone(timedelta(hours=1)))

    (run,) = add(store, at=moment)

    assert run.created_at == moment
    assert run.created_at.utcoffset() == timedelta(0)
    assert rows(path, "SELECT at FROM events") == [("2026-03-01T12:00:00.000007+00:00",)]


def test_a_time_without_a_zone_is_a_bug(store: Store) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        add(store, at=datetime(2026, 3, 1))  # noqa: DTZ001

    assert store.runs.list() == ()


def test_every_status_is_kept_and_the_newest_one_counts(store: Store) -> None:
    (run,) = add(store)
    queued = Status(
        RunState.QUEUED,
        later(1),
        job_id="104",
        node="",
        reason="Priority",
        source="squeue: PENDING (Priority)",
        unanswered=True,
        expected_start=later(9),
    )
    collecting = Status(
        RunState.COLLECTING, later(2), job_id="104", node="n1", ended_in_queue_at=later(2), cancel_requested=True
    )

    assert store.runs.record(run.id, queued)
    assert store.runs.record(run.id, collecting)

    assert store.runs.history(run.id) == (Status(RunState.CREATED, NOON), queued, collecting)
    assert store.runs.get(run.id).status == collecting


def test_a_run_that_ended_never_changes(store: Store) -> None:
    (run,) = add(store)
    ended = Status(RunState.CANCELLED, later(1))
    assert store.runs.record(run.id, ended)

    assert not store.runs.record(run.id, Status(RunState.RUNNING, later(2)))
    assert not store.runs.finish(run.id, Status(RunState.FINISHED, later(3)), outcome(run), 1e-3)

    assert store.runs.get(run.id).status == ended
    assert store.runs.result(run.id) is None
    assert store.standings.list(run.task, run.task_version, run.gpu) == ()


def test_only_a_result_finishes_a_run(store: Store) -> None:
    (run,) = add(store)

    with pytest.raises(ValueError, match="together with its result"):
        store.runs.record(run.id, Status(RunState.FINISHED, NOON))
    with pytest.raises(ValueError, match="not running"):
        store.runs.finish(run.id, Status(RunState.RUNNING, NOON), outcome(run), None)
    with pytest.raises(ValueError, match="does not belong to run"):
        store.runs.finish(run.id, Status(RunState.FINISHED, NOON), replace(outcome(run), run=run.id + 1), None)

    assert store.runs.get(run.id).state is RunState.CREATED


@pytest.mark.parametrize("score_s", [math.nan, math.inf, 0.0, -1.0])
def test_a_score_is_a_positive_number(store: Store, score_s: float) -> None:
    (run,) = add(store)

    with pytest.raises(ValueError, match="is not a score"):
        store.runs.finish(run.id, Status(RunState.FINISHED, NOON), outcome(run), score_s)


def test_a_result_comes_back_whole(store: Store) -> None:
    (run,) = add(store)
    timing = Timing(3, 2.0, 2.0, 1.0, 0.5, 1.0, 3.0, (1.0, 2.0, 3.0))
    cases = (
        Case("test", 0, "size: 1", Verdict.PASS),
        Case("benchmark", 0, "size: 1024", Verdict.WRONG_VALUE, "element 3 differs", timing),
    )
    result = replace(
        outcome(run, Verdict.WRONG_VALUE, cases),
        stdout=Log("head", "tail", 12),
        provenance={"host": "n1", "clock_mhz": 1980},
    )

    assert store.runs.finish(run.id, Status(RunState.FINISHED, later(1)), result, 2e-9)

    assert store.runs.result(run.id) == result
    stored = store.runs.get(run.id)
    assert (stored.state, stored.verdict, stored.message) == (
        RunState.FINISHED,
        Verdict.WRONG_VALUE,
        "as told",
    )
    assert stored.score_s == 2e-9


def test_hostile_text_of_a_result_is_stored(store: Store) -> None:
    (run,) = add(store)
    cases = (Case("test", 0, "s\ud800", Verdict.PASS, "\x00"), Case("test", 0, "again", Verdict.PASS))
    result = replace(outcome(run, cases=cases), message="half a pair \udfff")

    assert store.runs.finish(run.id, Status(RunState.FINISHED, NOON, source="\ud800"), result, None)

    assert store.runs.result(run.id) == result
    assert store.runs.get(run.id).message == "half a pair ?"


def test_a_file_name_that_is_not_utf_8_can_be_stored(store: Store) -> None:
    submission, _ = store.submissions.add(
        NewSubmission(
            task=TASK,
            user="ada",
            file_name=os.fsdecode(b"k\xff.py"),
            code=b"",
            mode=Mode.TEST,
            note="",
            at=NOON,
            runs=[new_run()],
        ),
        sender=None,
    )

    assert submission.file_name == "k?.py"


ABSENT: list[Callable[[Store, int], object]] = [
    lambda store, number: store.runs.get(number),
    lambda store, number: store.runs.result(number),
    lambda store, number: store.runs.cases(number),
    lambda store, number: store.runs.history(number),
    lambda store, number: store.submissions.get(number),
    lambda store, number: store.runs.record(number, Status(RunState.QUEUED, NOON)),
]


@pytest.mark.parametrize("number", [0, 7, -(10**30), 10**30])
@pytest.mark.parametrize("ask", ABSENT)
def test_what_is_not_there_is_an_error_with_a_hint(
    store: Store, ask: Callable[[Store, int], object], number: int
) -> None:
    with pytest.raises(InputError, match=rf"there is no (run|submission) {number}") as failure:
        ask(store, number)

    assert "hpc-board runs" in failure.value.hint


def test_code_that_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StorageError, match=r"the database is damaged .*abc"):
        store.submissions.code("abc")


def test_a_script_without_its_checksum_is_not_returned(path: Path, store: Store) -> None:
    new = replace(new_run(), script="{}")
    _, (run,) = store.submissions.add(NewSubmission(TASK, "ada", "k.py", b"", Mode.TEST, "", NOON, [new]), sender=None)
    assert store.submissions.job_parts(run).script == "{}"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER scripts_stay")
        connection.execute("UPDATE scripts SET script = '[]'")
    with pytest.raises(InputError, match="the batch script of run 1 in the database is damaged"):
        store.submissions.job_parts(run)


def test_runs_in_flight_are_those_that_have_not_ended(store: Store) -> None:
    first, second, third = add(store, "A", "B", "C")
    finish(store, first, None, Verdict.CRASH)
    store.runs.record(second.id, Status(RunState.LOST, NOON))
    store.runs.record(third.id, Status(RunState.RUNNING, NOON))

    assert store.runs.in_flight() == (store.runs.get(third.id),)
    assert store.runs.in_flight([first.id, third.id, 99]) == (store.runs.get(third.id),)
    assert store.runs.in_flight([first.id]) == store.runs.in_flight([]) == ()


def test_a_user_s_runs_are_followed_to_their_ends_as_far_as_they_are_known(store: Store) -> None:
    first, second, third, fourth = add(store, "A", "B", "C", "D")
    finish(store, first, None, Verdict.CRASH)
    store.runs.record(second.id, Status(RunState.LOST, NOON))
    user = store.runs.get(first.id).user

    assert [run.id for run in store.runs.followed(user, [], 10)] == [fourth.id, third.id]
    assert [run.id for run in store.runs.followed(user, [], 1)] == [fourth.id]
    assert [run.id for run in store.runs.followed(user, [second.id, fourth.id, 99], 1)] == [fourth.id, second.id]
    assert store.runs.followed("somebody else", [first.id, second.id, third.id], 10) == ()


def test_a_followed_run_in_flight_stays_followed_when_more_are_newer_than_there_is_room_for(store: Store) -> None:
    first, second = add(store, "A", "B")
    user = store.runs.get(first.id).user
    known = [run.id for run in store.runs.followed(user, [], 2)]
    third, fourth = add(store, "C", "D")

    known = [run.id for run in store.runs.followed(user, known, 2)]
    assert known == [fourth.id, third.id, second.id, first.id]
    finish(store, first, None, Verdict.CRASH)
    found = store.runs.followed(user, known, 2)
    assert [(run.id, run.state.ended) for run in found] == [
        *((run.id, False) for run in (fourth, third, second)),
        (first.id, True),
    ]


def test_a_fact_cannot_be_changed(path: Path, store: Store) -> None:
    (run,) = add(store)
    finish(store, run, 1e-3)

    with closing(sqlite3.connect(path)) as connection:
        for change in (
            "UPDATE results SET score_s = 1e-9",
            "UPDATE runs SET trust = 'verified'",
            "UPDATE submissions SET user = 'eve'",
            "UPDATE events SET state = 'queued'",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                connection.execute(change)


def test_each_user_is_ranked_by_their_best_passing_ranked_run(store: Store) -> None:
    (slow,) = add(store, user="ada", at=later(0), code=b"slow")
    finish(store, slow, 9e-3)
    (best,) = add(store, user="ada", at=later(1))
    finish(store, best, 4e-3)
    (wrong,) = add(store, user="ada", at=later(2))
    finish(store, wrong, 1e-3, Verdict.WRONG_VALUE)
    (practice,) = add(store, user="ada", at=later(3), mode=Mode.BENCHMARK)
    finish(store, practice, 1e-3)
    (other,) = add(store, user="bob", at=later(4))
    finish(store, other, 5e-3)
    (elsewhere,) = add(store, "MI300", user="eve")
    finish(store, elsewhere, 1e-3)

    board = (TASK.name, TASK.version, "H100")

    assert store.standings.list(*board) == (
        Standing(
            rank=1,
            user="ada",
            score_s=4e-3,
            submission=best.submission,
            entry=best.submission,
            run=best.id,
            submitter="ada",
            submitted_at=later(1),
            file_name="kernel.py",
            trust="self-run",
        ),
        Standing(
            rank=2,
            user="bob",
            score_s=5e-3,
            submission=other.submission,
            entry=other.submission,
            run=other.id,
            submitter="bob",
            submitted_at=later(4),
            file_name="kernel.py",
            trust="self-run",
        ),
    )
    assert [(row.rank, row.run) for row in store.standings.page(*board, Rows.OWN, "ada").rows] == [
        (1, best.id),
        (2, slow.id),
    ]
    placings = [store.standings.placing(store.runs.get(run.id)) for run in (best, other, elsewhere, slow)]
    assert [placing and placing.rank for placing in placings] == [1, 2, 1, None]
    assert [store.standings.placing(store.runs.get(run.id)) for run in (wrong, practice)] == [None, None]


def test_a_changed_task_has_its_own_standings_and_the_old_ones_stay(store: Store) -> None:
    (old,) = add(store)
    finish(store, old, 1e-3)
    changed = replace(TASK, benchmarks=({"size": 2048, "seed": 7},))
    (new,) = add(store, task=changed)
    finish(store, new, 5e-3)

    assert [row.run for row in store.standings.list(TASK.name, TASK.version, "H100")] == [old.id]
    assert [row.run for row in store.standings.list(TASK.name, changed.version, "H100")] == [new.id]


def test_frequent_questions_read_no_whole_table(path: Path, store: Store) -> None:
    (run,) = add(store)
    finish(store, run, 1e-3)
    asked: list[str] = []
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection)
        connection.set_trace_callback(asked.append)
        runs = RunGateway(OpenDatabase(db))
        runs.in_flight()
        runs.in_flight([run.id])
        runs.get(run.id)
        runs.history(run.id)
        runs.result(run.id)
        runs.record(run.id, Status(RunState.QUEUED, NOON))
        for query in (RunQuery(user="ada"), RunQuery(task=run.task), RunQuery(submission=run.submission)):
            runs.list(query, 9)
        StandingsGateway(OpenDatabase(db)).placing(run)
        connection.set_trace_callback(None)
        questions = [sql for sql in asked if re.search("runs|run_details|events", sql)]
        assert len(questions) > 9
        for sql in questions:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
            steps = "\n".join(str(step[3]) for step in plan)
            assert not re.search(r"SCAN (TABLE )?(runs|events|results|submissions|cases|documents)\b", steps), (
                f"{sql}\n{steps}"
            )


def test_a_store_may_be_used_by_many_threads(store: Store) -> None:
    def work(number: int) -> None:
        _, (run,) = store.submissions.add(
            NewSubmission(
                task=TASK,
                user=f"user-{number % 3}",
                file_name="kernel.py",
                code=str(number).encode(),
                mode=Mode.RANKED,
                note="",
                at=NOON,
                runs=[new_run(f"job-{number}")],
            ),
            sender=None,
        )
        finish(store, run, 1.0 + number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(24)))

    assert len(store.runs.list()) == 24
    assert [row.score_s for row in store.standings.list(TASK.name, TASK.version, "H100")] == [1.0, 2.0, 3.0]


MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:40 / /home rw shared:2 master:1 - autofs auto.home rw
41 40 0:41 / /home rw - nfs4 server:/home rw,vers=4.2
42 27 0:42 / /scratch\\040one rw - lustre mds@tcp:/one rw
43 41 0:43 / /home/ada/fast rw - xfs /dev/sdb rw
broken line
44 27 0:44 / /broken rw -
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/homework/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada", "nfs4"),
        ("/home/ada/fast/board", "xfs"),
        ("/scratch one/ada", "lustre"),
        ("/proc/self", "proc"),
    ],
)
def test_the_file_system_of_a_path_is_found(path: str, expected: str) -> None:
    assert mounted(MOUNTINFO, Path(path)).kind == expected


KINDS = {"ext4": "wal", "tmpfs": "wal", "nfs4": "delete", "lustre": "delete", "never-heard-of": "delete"}


@pytest.mark.parametrize(("kind", "expected"), KINDS.items())
def test_only_a_local_file_system_gets_a_write_ahead_log(tmp_path: Path, kind: str, expected: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"27 1 254:0 / / rw - {kind} source rw\n")

    assert journal_mode(tmp_path, mounts) == expected
    assert journal_mode(tmp_path, tmp_path / "absent") == "delete"


def test_a_board_that_moves_to_a_shared_file_system_loses_its_write_ahead_log(tmp_path: Path, path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    for kind, expected in (("ext4", "wal"), ("nfs4", "delete"), ("ext4", "wal")):
        mounts.write_text(f"27 1 254:0 / / rw - {kind} source rw\n")
        add(Store(path, mounts=mounts))
        assert rows(path, "PRAGMA journal_mode") == [(expected,)]

    assert len(Store(path).runs.list()) == 3


def failure_of(action: Callable[[], object], path: Path) -> StorageError:
    with pytest.raises(StorageError) as failure:
        action()
    assert str(path) in failure.value.message
    assert failure.value.hint
    return failure.value


def test_a_file_that_is_no_database_is_refused(path: Path, store: Store) -> None:
    path.parent.mkdir()
    path.write_text("not a database\n" * 100)

    assert failure_of(store.runs.in_flight, path).message == f"{path}: this file is not a database"
    assert path.read_text().startswith("not a database")


def test_the_database_of_another_program_is_refused_and_left_alone(path: Path, store: Store) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (id)")

    assert "not made by hpc-board" in failure_of(lambda: add(store), path).message
    assert rows(path, "SELECT name FROM sqlite_master") == [("runs",)]


def test_a_database_of_a_newer_version_is_refused(path: Path, store: Store) -> None:
    add(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 2")

    error = failure_of(store.runs.in_flight, path)

    assert "newer version" in error.message
    assert "Upgrade" in error.hint


def test_a_database_without_the_record_of_its_version_is_reported(path: Path, store: Store) -> None:
    add(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")

    assert "no record of their version" in failure_of(store.runs.list, path).message


def test_a_damaged_database_is_reported(path: Path, store: Store) -> None:
    add(store)
    page = 4096
    data = path.read_bytes()
    path.write_bytes(data[:page] + b"\xff" * (len(data) - page))

    assert "damaged" in failure_of(store.runs.list, path).message


def test_a_value_that_cannot_be_decoded_is_reported_as_damage(path: Path, store: Store) -> None:
    add(store)
    path.write_bytes(path.read_bytes().replace(b"gpu-h100", b"gpu-\xff\xff\xff\xff"))

    error = failure_of(store.runs.list, path)

    assert error.message.startswith(f"{path}: the database is damaged (")
    assert "`hpc-board admin restore FILE`" in error.hint


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("events", "state", "unknown"),
        ("runs", "options", '{"sbatch": ["--uid=root"]}'),
        pytest.param("runs", "options", '{"x": ' + "[" * 10_000, id="nested"),
    ],
)
def test_a_word_that_no_version_wrote_is_reported_as_damage(
    path: Path, store: Store, table: str, column: str, value: str
) -> None:
    add(store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TRIGGER {table}_stay")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE {table} SET {column} = ?", [value])  # noqa: S608 - of this file

    assert "the database is damaged (" in failure_of(store.runs.in_flight, path).message


def test_a_stored_result_that_is_none_is_reported(path: Path, store: Store) -> None:
    (run,) = add(store)
    finish(store, run, 1.0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM documents")
        connection.execute("INSERT INTO documents VALUES (?, '{}')", [run.id])

    assert "the database is damaged (" in failure_of(lambda: store.runs.result(run.id), path).message


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("runs", "token", "../../../.config/autostart/x"),
        ("runs", "harness_sha256", "../../../bin/x"),
        ("runs", "gpu", "H100\nrm -rf ~"),
        ("runs", "cluster", "../main"),
        ("submissions", "task", "a\nb"),
        ("submissions", "file_name", "../k.py"),
        ("runs", "token", "hb-1\0/../../x"),
        ("submissions", "file_name", "k.py\0"),
        ("submissions", "user", b"ada"),
        ("events", "job_id", "--user=ada"),
        ("events", "job_id", "1\0--user=ada"),
        ("events", "at", "yesterday"),
        ("results", "score_s", float("inf")),
        ("results", "verdict", "won"),
        ("feed", "news", "["),
    ],
)
def test_a_column_takes_no_value_of_another_kind(
    path: Path, store: Store, table: str, column: str, value: object
) -> None:
    finish(store, add(store)[0], 1.0)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TRIGGER {table}_stay")
        with pytest.raises(sqlite3.IntegrityError, match=f"CHECK constraint failed: typeof\\({column}\\)"):
            connection.execute(f"UPDATE {table} SET {column} = ?", [value])  # noqa: S608 - of this file


def test_a_value_that_the_database_refuses_is_no_traceback(path: Path, store: Store) -> None:
    (run,) = add(store)

    error = failure_of(lambda: store.runs.record(run.id, Status(RunState.QUEUED, NOON, job_id="-1")), path)

    assert "the database rejected a value (CHECK constraint failed" in error.message


def test_the_cases_of_a_run_can_be_read_where_its_result_cannot(path: Path, store: Store) -> None:
    run, unfinished = add(store, "H100", "A100")
    timing = Timing(3, 2.5, 2.0, 1.0, 0.5, 1.0, 3.0, (1.0, 2.0, 3.0))
    cases = (
        Case("test", 7, "size: 1", Verdict.WRONG_VALUE, "element 3 differs"),
        Case("benchmark", 0, "size: 1024", Verdict.PASS, "", timing),
    )
    store.runs.finish(run.id, Status(RunState.FINISHED, NOON), outcome(run, Verdict.WRONG_VALUE, cases), None)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM documents")

    assert store.runs.cases(run.id) == (cases[0], replace(cases[1], timing=replace(timing, samples_ns=())))
    assert store.runs.cases(unfinished.id) == ()


def test_the_times_of_rows_are_stored_with_what_they_come_with(store: Store) -> None:
    (run,) = add(store)
    case = row_case(busy=0.8)
    store.runs.finish(run.id, Status(RunState.FINISHED, NOON), outcome(run, cases=(case,)), None)
    assert case.timing is not None
    assert store.runs.cases(run.id) == (replace(case, timing=replace(case.timing, samples_ns=(), worker_samples=())),)


def test_cases_that_were_stored_under_former_names_are_read(path: Path, store: Store) -> None:
    (run,) = add(store)
    store.runs.finish(run.id, Status(RunState.FINISHED, NOON), outcome(run), None)
    former = """[["benchmark", 0, "size: 2", "pass", "", {"runs": 2, "mean_ns": 1.5, "median_ns": 1.25, "std_ns": 0.7,
        "err_ns": 0.5, "best_ns": 1.0, "worst_ns": 2.0, "baseline_ns": 4.0, "noisy": false, "low_ns": 1.0,
        "high_ns": 2.0, "least_ns": 0.5, "claimed_ns": 1.4, "busy_processors": 0.0, "slack_ns": null}]]"""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM cases")
        connection.execute("INSERT INTO cases (run, cases) VALUES (?, ?)", (run.id, former))
    times = Timing(2, 1.5, 1.25, 0.7, 0.5, 1.0, 2.0, (), (), 4.0, low_ns=1.0, high_ns=2.0)
    timing = replace(times, bound_ns=0.5, kernel_clock_ns=1.4)
    assert store.runs.cases(run.id) == (Case("benchmark", 0, "size: 2", Verdict.PASS, "", timing),)


def test_a_result_that_could_not_be_read_again_finishes_no_run(path: Path, store: Store) -> None:
    (run,) = add(store)
    swelling = Case("test", 0, "", Verdict.PASS, "é" * 256 * 1024)
    result = outcome(run, cases=(swelling,) * (RESULT_BYTES_MAX // (6 * 256 * 1024) + 1))

    with pytest.raises(ResultError, match="bytes to store"):
        store.runs.finish(run.id, Status(RunState.FINISHED, NOON), result, None)

    assert store.runs.get(run.id).state is RunState.CREATED
    assert count(path, "results") == 0


def test_a_locked_database_is_reported(path: Path, store: Store) -> None:
    add(store)
    hasty = DatabaseFile(path, busy_timeout_seconds=0.05)

    def write() -> None:
        with hasty.writing():
            pass

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        error = failure_of(write, path)

    assert "locked" in error.message
    write()


def test_what_kept_a_database_from_being_read_is_no_failure_to_write(path: Path, store: Store) -> None:
    path.mkdir(parents=True)

    def write() -> None:
        with DatabaseFile(path).writing():
            pass

    assert failure_of(write, path).title == "The board cannot be written"
    assert failure_of(store.runs.list, path).title == "The board cannot be read"


@pytest.mark.parametrize("depth", [1, 2])
def test_a_file_in_the_place_of_a_folder_is_reported(tmp_path: Path, depth: int) -> None:
    (tmp_path / "file").touch()
    path = tmp_path.joinpath("file", *["folder"] * (depth - 1), "board.db")

    assert "cannot be created" in failure_of(Store(path).runs.in_flight, path).message


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter and only its owner can change."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes users and mounts file systems")


@pytest.mark.root
@needs_root
def test_a_database_of_another_account_is_neither_read_nor_written(open_folder: Path) -> None:
    path = open_folder / "board.db"
    add(Store(path))
    path.chmod(0o644)
    with another_user():
        theirs = Store(path)
        for use in (theirs.runs.in_flight, lambda: theirs.runs.record(1, Status(RunState.LOST, NOON))):
            with pytest.raises(StorageError, match="belongs to root, and a board belongs to one account"):
                use()
    assert Store(path).runs.get(1).state is RunState.CREATED


@pytest.mark.root
@needs_root
def test_a_folder_that_cannot_be_written_is_reported(open_folder: Path) -> None:
    path = open_folder / "boards" / "board.db"

    with another_user():
        assert "Permission denied" in failure_of(Store(path).runs.in_flight, path).message


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(filler: Path) -> None:
    with filler.open("ab", buffering=0) as rest, suppress(OSError):
        while True:
            rest.write(bytes(4096))


@pytest.mark.root
@needs_root
def test_a_board_that_a_full_disk_left_empty_is_read_and_used_once_there_is_space(small_disk: Path) -> None:
    filler, path = small_disk / "filler", small_disk / "board.db"
    fill(filler)
    for use in (add, lambda store: store.runs.list()):
        assert "there is no space left on the device" in failure_of(partial(use, Store(path)), path).message
    filler.unlink()
    assert Store(path).runs.list() == ()
    add(Store(path))


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("kind", ["tmpfs", "nfs4"])
def test_a_full_disk_loses_nothing(tmp_path: Path, small_disk: Path, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"27 1 254:0 / / rw - {kind} source rw\n")
    path = small_disk / "board.db"
    store = Store(path, mounts=mounts)
    add(store)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(900_000))

    def fill_up() -> None:
        for _ in range(100):
            add(store, code=os.urandom(60_000))

    error = failure_of(fill_up, path)

    assert "no space left" in error.message
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    stored = len(rows(path, "SELECT id FROM runs"))
    assert stored > 1
    filler.unlink()
    assert len(store.runs.list()) == stored
    (run,) = add(store, code=os.urandom(60_000))
    finish(store, run, 1.0)
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert count(path, "submissions") == stored + 1


@pytest.mark.root
@needs_root
def test_a_full_disk_is_named_even_where_sqlite_speaks_of_input_and_output(small_disk: Path) -> None:
    path = small_disk / "board.db"
    store = Store(path)
    add(store)
    fill(small_disk / "filler")

    assert "no space left" in failure_of(lambda: add(store), path).message


@pytest.mark.root
@needs_root
def test_a_full_disk_is_read_as_it_is_and_never_beside_changes_in_a_journal(small_disk: Path) -> None:
    path = small_disk / "board.db"
    store = Store(path)
    (run,) = add(store)
    fill(small_disk / "filler")
    assert [each.id for each in store.runs.list()] == [run.id]
    with store.file.session():
        assert [each.id for each in store.runs.list()] == [run.id]
    (small_disk / "filler").unlink()
    path.with_name("board.db-journal").write_bytes(bytes(512))
    fill(small_disk / "filler")
    assert "no space left" in failure_of(store.runs.list, path).message


def test_a_task_comes_back_as_it_was_when_somebody_submitted_for_it(store: Store) -> None:
    task = replace(
        TASK,
        tests=({"size": 3, "seed": 1, "shape": (1, (2, 3)), "name": "a", "flag": True},),
        deadline=NOON,
        limits={"call_seconds": 2.5},
        templates={"Python": "pass"},
    )
    add(store, task=task)
    assert store.submissions.task(task.name, task.version) == task
    assert list(store.submissions.task(task.name, task.version).tests[0]) == ["size", "seed", "shape", "name", "flag"]
    with pytest.raises(InputError, match="no task"):
        store.submissions.task(task.name, "0" * 64)


def test_filters_find_the_same_runs_whatever_the_search_begins_with(store: Store) -> None:
    ends = [state for state in RunState if state.ended and state is not RunState.FINISHED]
    for number in range(4):
        for verdict in (Verdict.PASS, Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY):
            finish(store, add(store, f"G{number % 2}")[0], 1.0 if verdict is Verdict.PASS else None, verdict)
        for state in (*ends, RunState.QUEUED, RunState.RUNNING):
            store.runs.record(add(store, f"G{number % 2}")[0].id, Status(state, NOON))
    everything = store.runs.list()
    user, before = everything[0].user, everything[len(everything) // 2].id
    for outcome, gpu, (among, limit) in itertools.product(
        (None, *RunState, *Verdict), (None, "G1", "none"), ((None, None), (before, 3))
    ):
        fitting = [
            run.id
            for run in everything
            if (outcome is None or outcome.value in (run.state.value, run.verdict and run.verdict.value))
            and (gpu is None or run.gpu == gpu)
            and (among is None or run.id < among)
        ]
        given = {"outcome": outcome, "gpu": gpu, "before": among, "limit": limit}
        for whose in (None, user):
            found = [
                run.id
                for run in store.runs.list(
                    RunQuery(user=whose, outcome=outcome, gpu=gpu, behind=RunPosition(among) if among else None),
                    limit=limit,
                )
            ]
            assert found == fitting[:limit], (whose, given)
    hidden = [everything[0].task]
    assert (
        store.runs.list(RunQuery(outcome=RunState.LOST, hidden=hidden))
        == store.runs.list(RunQuery(gpu="G1", hidden=hidden))
        == ()
    )
