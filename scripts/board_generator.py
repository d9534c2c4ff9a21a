"""Write a board's database with any number of invented submissions, quickly, to measure the cost of a large board.

The tables are made by the store itself. It has all of a real board: tests, benchmarks and ranked
runs, failures, several versions of each task, the events of each run, cases, small documents, standings and feed.
"""

import argparse
import hashlib
import math
import random
import sqlite3
import time
from bisect import bisect_left, insort
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from hpc_board.domain.feed import Entry, news
from hpc_board.model.result import Case, Log, Result, Timing, Verdict
from hpc_board.model.task import Language, Mode, Ranking, Task, TaskFile
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import time_text
from hpc_board.store.rows import cases_document, result_document
from hpc_board.store.task_rows import task_definition

NAMES = (
    *("ada", "alan", "barbara", "claude", "donald", "edsger", "emmy", "frances", "george", "grace", "hedy", "james"),
    *("jean", "john", "katherine", "leslie", "margaret", "niklaus", "radia", "robin", "sophie", "tony", "whitfield"),
)
GPUS = ("H100", "A100", "MI300", "L40S", "B200", "CPU")
KINDS = ("vectoradd", "matmul", "softmax", "reduction", "sort", "histogram", "conv2d", "attention", "scan", "fft")
VERSIONS = 3
DAYS = 180
END = datetime(2026, 11, 1, tzinfo=UTC)
_AT_ONCE = 10_000
_PODIUM_ROWS = 16

_MODES = ((Mode.RANKED, 45), (Mode.TEST, 35), (Mode.BENCHMARK, 20))
_FAILURES = (
    *(("wrong_value", 10), ("compile_error", 6), ("exception", 5), ("wrong_shape", 2), ("out_of_memory", 1)),
    *(("crash", 1), ("unstable", 1)),
)
_STOPPED = (("cancelled", 2), ("timeout", 1), ("lost", 1))
_NUMBER = "987654321"
"""The placeholder for the run's number in a document."""

_PASS_SHARE, _STOPPED_SHARE = 0.68, 0.04


@dataclass(frozen=True)
class Size:
    """The size of a board; submissions go to one GPU or two, so it has fewer submissions than runs."""

    runs: int
    users: int = 5_000
    tasks: int = 50
    gpus: int = 6
    in_flight: int = 20


@dataclass
class _Rows:
    """Rows of each table that wait to be written."""

    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def add(self, table: str, *row: Any) -> None:
        self.tables.setdefault(table, []).append(row)


def task_versions(size: Size) -> list[list[Task]]:
    """The tasks with their versions, the newest last; a version differs from the others in its benchmark."""
    names = [
        KINDS[number % len(KINDS)] + (f"_v{number // len(KINDS) + 1}" if number >= len(KINDS) else "")
        for number in range(size.tasks)
    ]
    return [
        [
            Task(
                name=name,
                language=Language.PY,
                description=f"Invented: {name}.",
                files=(TaskFile("reference.py", "def ref_kernel(data): ..."), TaskFile("submission.py", None)),
                tests=({"size": 127, "seed": 1}, {"size": 128, "seed": 2}),
                benchmarks=({"size": 1024 * version, "seed": 3},),
                ranking_by=Ranking.LAST,
                gpus=GPUS[: size.gpus],
            )
            for version in range(1, VERSIONS + 1)
        ]
        for name in names
    ]


def user_name(number: int) -> str:
    """The name of an invented user."""
    return NAMES[number] if number < len(NAMES) else f"user{number:04}"


def generate(path: Path, size: Size, seed: int = 7) -> None:
    """Write the database at `path`, where there is none yet."""
    if path.exists():
        raise FileExistsError(path)
    with DatabaseFile(path).writing():
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000"):
            connection.execute(f"PRAGMA {pragma}")
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall()
        connection.execute("BEGIN IMMEDIATE")
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        writer = _Writer(connection)
        for rows in _Generator(size, random.Random(seed)).rows():  # noqa: S311
            writer.write(rows)
        for _, sql in indexes:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = DELETE")


class _Writer:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._statements: dict[str, str] = {}

    def write(self, rows: _Rows) -> None:
        for table, values in rows.tables.items():
            statement = self._statements.get(table)
            if statement is None:
                columns, _, name = table.rpartition(":")
                marks = ", ".join("?" * len(values[0]))
                statement = f"INSERT OR REPLACE INTO {name} ({columns}) VALUES ({marks})"  # noqa: S608 names from above
                self._statements[table] = statement
            self._connection.executemany(statement, values)


_SUBMISSIONS = (
    "id, task, task_version, user, file_name, code_sha256, mode, note, submitted_at, tokens_sha256:submissions"
)
_RUNS = "id, submission, gpu, cluster, partition, token, nonce, trust, emulated, harness_sha256, gpus:runs"
_EVENTS = "run, state, at, job_id, node, reason, evidence, unanswered, cancel_requested, attempt:events"
_RESULTS = "run, verdict, message, score_s, ended_at, reference_s:results"
_DOCUMENTS = "run, document:documents"
_CODES = "sha256, code:codes"
_TASKS = "name, version, definition, added_at:tasks"
_CASES = "run, cases:cases"
_USAGE = "run, user, limited, ended_at, seconds, gpu_seconds:usage"
_IN_FLIGHT = "run:in_flight"
_SCORES = "run, submission, task, task_version, gpu, user, entry, score_s, submitted_at:scores"
_ENTRIES = "task, task_version, gpu, user, run, runs, entry, score_s, submitted_at:entries"
_BESTS = "task, task_version, gpu, user, run, runs, entry, score_s, submitted_at:bests"
_REFERENCE_TIMES = "task, task_version, gpu, reference_s, run:reference_times"
_BOARD_REFERENCES = "task, task_version, gpu, median_s, runs, low_s, high_s:board_references"
_FEED = "at, run, task, task_version, gpu, user, former_rank, former_s, news:feed"


@dataclass(frozen=True)
class _Contest:
    """A task as the generator sees it: its versions, when each came, and a plain kernel's time on each GPU."""

    versions: list[Task]
    definitions: list[str]
    begins: list[datetime]
    plain_s: dict[str, float]


@dataclass
class _Board:
    """The best runs on a board so far, by user and in order: score, when it was submitted, number, user."""

    bests: dict[str, "_Best"] = field(default_factory=dict)
    ordered: list["_Best"] = field(default_factory=list)


_Best = tuple[float, str, int, str, int]


class _Generator:
    """Submissions in the order of time, with all that follows from them."""

    def __init__(self, size: Size, chance: random.Random) -> None:
        self._size = size
        self._chance = chance
        self._users = [user_name(number) for number in range(size.users)]
        # A few users submit much, most of them little.
        self._user_weights = _running([1 / (number + 3) ** 0.8 for number in range(size.users)])
        self._skill = {user: chance.lognormvariate(0, 0.35) for user in self._users}
        self._begin = END - timedelta(days=DAYS)
        self._contests = [self._contest(versions) for versions in task_versions(size)]
        self._contest_weights = _running([1 / (number + 2) ** 0.5 for number in range(size.tasks)])
        self._boards: dict[tuple[str, str, str], _Board] = {}
        self._plain_s = {
            (contest.versions[0].name, gpu): plain_s
            for contest in self._contests
            for gpu, plain_s in contest.plain_s.items()
        }
        self._documents = {
            (mode, verdict): _document(mode, verdict)
            for mode in Mode
            for verdict in ("pass", *(name for name, _ in _FAILURES))
        }

    def _contest(self, versions: list[Task]) -> _Contest:
        plain_s = 10 ** self._chance.uniform(-5.5, -2.5)
        gpus = versions[0].gpus
        return _Contest(
            versions,
            [version.version for version in versions],
            [self._begin + timedelta(days=DAYS * part / len(versions)) for part in range(len(versions))],
            {gpu: plain_s * self._chance.uniform(0.5, 3) for gpu in gpus},
        )

    def rows(self) -> Iterator[_Rows]:
        """Yield all rows in batches, the standings last."""
        rows = _Rows()
        for contest in self._contests:
            for task, version, begin in zip(contest.versions, contest.definitions, contest.begins, strict=True):
                rows.add(_TASKS, task.name, version, task_definition(task), time_text(begin))
        submission, run = 0, 0
        while run < self._size.runs:
            submission += 1
            at = self._begin + timedelta(days=DAYS) * (run / self._size.runs)
            run = self._submission(rows, submission, run, at)
            if submission % _AT_ONCE == 0:
                yield rows
                rows = _Rows()
        for (name, version, gpu), board in self._boards.items():
            for user, (score_s, at_text, number, _, submission) in board.bests.items():
                rows.add(_BESTS, name, version, gpu, user, number, 1, submission, score_s, at_text)
        yield rows

    def _submission(self, rows: _Rows, submission: int, run: int, at: datetime) -> int:
        chance = self._chance
        (user,) = chance.choices(self._users, cum_weights=self._user_weights)
        (contest,) = chance.choices(self._contests, cum_weights=self._contest_weights)
        index = sum(at >= begin for begin in contest.begins) - 1
        task, version = contest.versions[index], contest.definitions[index]
        (mode,) = chance.choices([mode for mode, _ in _MODES], [weight for _, weight in _MODES])
        code = f"#!POPCORN leaderboard {task.name}\n# try {submission} of {user}\ndef custom_kernel(data):\n    ...\n"
        sha256 = hashlib.sha256(code.encode()).hexdigest()
        rows.add(_CODES, sha256, code.encode())
        note = "tiled" if chance.random() < 0.05 else ""
        moment = time_text(at)
        of_file = "kernel.py", sha256, str(mode), note, moment, f"{submission:064x}"
        rows.add(_SUBMISSIONS, submission, task.name, version, user, *of_file)
        for gpu in chance.sample(task.gpus, 2 if len(task.gpus) > 1 and chance.random() < 0.25 else 1):
            run += 1
            rows.add(
                _RUNS,
                run,
                submission,
                gpu,
                "main",
                f"gpu-{gpu.lower()}",
                f"hb-{run:016x}",
                "",
                "self-run",
                0,
                "ab" * 32,
                int(gpu != "CPU"),
            )
            self._run(rows, run, submission, user, task, version, gpu, mode, at, moment)
        return run

    def _run(
        self,
        rows: _Rows,
        run: int,
        submission: int,
        user: str,
        task: Task,
        version: str,
        gpu: str,
        mode: Mode,
        at: datetime,
        moment: str,
    ) -> None:
        chance = self._chance
        queued_s = 1 + chance.random()
        wait_s, run_s = chance.expovariate(1 / 240), 20 + chance.expovariate(1 / 60)
        job, node = str(100_000 + run), f"n{chance.randrange(1, 33):02}"
        rows.add(_EVENTS, run, "created", moment, "", "", "", "", 0, 0, 0)
        queued = time_text(at + timedelta(seconds=queued_s))
        rows.add(_EVENTS, run, "submitting", moment, "", "", "", "", 0, 0, 1)
        rows.add(_EVENTS, run, "queued", queued, job, "", "Priority", "", 0, 0, 0)
        if run > self._size.runs - self._size.in_flight:
            rows.add(_IN_FLIGHT, run)
            return
        start = at + timedelta(seconds=queued_s + wait_s)
        end = start + timedelta(seconds=run_s)
        rows.add(_EVENTS, run, "running", time_text(start), job, node, "", "", 0, 0, 0)
        on_gpu = gpu != "CPU"
        rows.add(_USAGE, run, user, int(on_gpu), time_text(end), round(run_s, 3), round(run_s, 3) * on_gpu)
        draw = chance.random()
        if draw < _STOPPED_SHARE:
            (state,) = chance.choices([state for state, _ in _STOPPED], [weight for _, weight in _STOPPED])
            rows.add(_EVENTS, run, state, time_text(end), job, node, "", "squeue", 0, 0, 0)
            return
        rows.add(_EVENTS, run, "finished", time_text(end), job, node, "", "", 0, 0, 0)
        if draw > _STOPPED_SHARE + _PASS_SHARE:
            (verdict,) = chance.choices([verdict for verdict, _ in _FAILURES], [weight for _, weight in _FAILURES])
            rows.add(_RESULTS, run, verdict, "element 3 differs", None, time_text(end), None)
            rows.add(_DOCUMENTS, run, self._documents[mode, verdict].replace(_NUMBER, str(run), 1))
            return
        progress = (at - self._begin) / timedelta(days=DAYS) * VERSIONS % 1
        plain_s = self._plain_s[task.name, gpu]
        score_s = plain_s * (0.3 + 0.7 * math.exp(-3 * progress)) * self._skill[user] * chance.lognormvariate(0, 0.2)
        timed = mode is not Mode.TEST
        times = (score_s, time_text(end), plain_s) if timed else (None, time_text(end), None)
        rows.add(_RESULTS, run, "pass", "", *times)
        rows.add(_DOCUMENTS, run, self._documents[mode, "pass"].replace(_NUMBER, str(run), 1))
        time_ns = score_s * 1e9
        cases = [Case("test", index, f"size: {127 + index}; seed: {index + 1}", Verdict.PASS) for index in range(2)]
        if timed:
            mean, std, err, best, worst = (time_ns * part for part in (1.01, 0.02, 0.002, 0.97, 1.3))
            timing = Timing(100, mean, time_ns, std, err, best, worst, (), reference_ns=plain_s * 1e9)
            cases.append(Case("benchmark", 0, "size: 1024; seed: 3", Verdict.PASS, "", timing))
        rows.add(_CASES, run, cases_document(cases))
        if mode is Mode.RANKED:
            rows.add(_REFERENCE_TIMES, task.name, version, gpu, plain_s, run)
            rows.add(_BOARD_REFERENCES, task.name, version, gpu, plain_s, run, plain_s, plain_s)
            rows.add(_SCORES, run, submission, task.name, version, gpu, user, submission, score_s, moment)
            rows.add(_ENTRIES, task.name, version, gpu, user, run, 1, submission, score_s, moment)
            self._enter(rows, run, submission, task.name, version, gpu, user, score_s, moment, end)

    def _enter(
        self,
        rows: _Rows,
        run: int,
        submission: int,
        task: str,
        version: str,
        gpu: str,
        user: str,
        score_s: float,
        moment: str,
        end: datetime,
    ) -> None:
        """Let a run count on its board, with a line of the feed if it is its user's best."""
        board = self._boards.setdefault((task, version, gpu), _Board())
        before = board.bests.get(user)
        if before is not None and before[0] <= score_s:
            return
        podium = [Entry(each[3], each[0]) for each in board.ordered[:_PODIUM_ROWS]]
        former = None
        if before is not None:
            place = bisect_left(board.ordered, before)
            former = (place + 1, before[0])
            del board.ordered[place]
        best = (score_s, moment, run, user, submission)
        place = bisect_left(board.ordered, best)
        behind = board.ordered[place] if place < len(board.ordered) else None
        passed = behind is not None and (before is None or behind[0] < before[0])
        told = news(
            Entry(user, score_s), place + 1, podium, former, Entry(behind[3], behind[0]) if behind and passed else None
        )
        insort(board.ordered, best)
        board.bests[user] = best
        change = msgspec.json.encode(told).decode()
        rows.add(_FEED, time_text(end), run, task, version, gpu, user, told.former_rank, told.former_s, change)


def _document(mode: Mode, verdict: str) -> str:
    """A small result of this kind, as the store keeps it, of a run whose number is `_NUMBER`."""
    timing = Timing(5, 1010.0, 1000.0, 20.0, 2.0, 970.0, 1300.0, (970.0, 990.0, 1000.0, 1010.0, 1300.0))
    tests = tuple(Case("test", index, "size: 127; seed: 1", Verdict.PASS) for index in range(2))
    benchmarks = (
        (Case("benchmark", 0, "size: 1024; seed: 3", Verdict.PASS, "", timing),) if mode is not Mode.TEST else ()
    )
    return result_document(
        Result(
            run=int(_NUMBER),
            nonce="",
            mode=str(mode),
            verdict=Verdict(verdict),
            message="" if verdict == "pass" else "element 3 differs",
            cases=(*tests, *benchmarks) if verdict == "pass" else tests[:1],
            stdout=Log("hello\n"),
            provenance={"host": "n1", "gpu": "invented"},
        )
    )


def _running(weights: list[float]) -> list[float]:
    return list(accumulate(weights))


def main() -> None:
    """Write a database of the size that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="the database; it must not be there yet")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--gpus", type=int, default=len(GPUS), choices=range(1, len(GPUS) + 1))
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    start = time.monotonic()
    generate(given.file, Size(given.runs, given.users, given.tasks, given.gpus), given.seed)
    seconds = time.monotonic() - start
    print(f"{given.file}: {given.runs} runs, {given.file.stat().st_size / 1e6:.0f} MB, in {seconds:.0f} s")


if __name__ == "__main__":
    main()
