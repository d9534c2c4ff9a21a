"""Counts of submissions and runs in one pass, whose memory grows with users and GPUs, not with runs."""

import json
from datetime import datetime
from functools import partial

import msgspec

from hpc_board.domain.run import RunState
from hpc_board.domain.statistics import GpuStatistics, Statistics, UserStatistics, Waits
from hpc_board.store.batches import RunSelection, pages
from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded, optional_time_text
from hpc_board.store.sqlite import Database

TOP_USERS = 10

_RUNS = """
SELECT runs.submission, runs.gpu, submissions.user, submissions.submitted_at, newest.state,
       coalesce(results.ended_at, newest.at) AS ended_at, results.verdict = 'pass' AS passed,
       results.score_s IS NOT NULL AS scored,
       (SELECT MIN(at) FROM events WHERE events.run = runs.id AND events.state = 'running' AND at >=
               COALESCE((SELECT MAX(at) FROM retries WHERE retries.run = runs.id), '')) AS started_at
  FROM submissions
 CROSS JOIN runs ON runs.submission = submissions.id
  JOIN events AS newest ON newest.id = (SELECT MAX(id) FROM events WHERE events.run = runs.id)
  LEFT JOIN results ON results.run = runs.id
 WHERE {chosen}
 ORDER BY submissions.id
"""

_CODES = """
SELECT COUNT(DISTINCT code_sha256) AS codes
  FROM submissions
 WHERE {where}
"""
_SINCE = "submitted_at >= :since"
_OF_TASKS = "task IN (SELECT value FROM json_each(:tasks))"


class _Run(msgspec.Struct, frozen=True):
    """A row of `_RUNS`."""

    submission: int
    gpu: str
    user: str
    submitted_at: datetime
    state: RunState
    ended_at: datetime
    passed: bool | None
    scored: bool
    started_at: datetime | None


class _OfGpu(msgspec.Struct):
    runs: int = 0
    passed: int = 0
    scored: int = 0
    waits: Waits = msgspec.field(default_factory=Waits)
    run_total_s: float = 0.0


class _OfUser(msgspec.Struct):
    submissions: int = 0
    runs: int = 0
    run_total_s: float = 0.0


class _Count(msgspec.Struct):
    """The counts so far; the runs of a submission come one after the other."""

    gpus: dict[str, _OfGpu] = msgspec.field(default_factory=dict)
    users: dict[str, _OfUser] = msgspec.field(default_factory=dict)
    submissions: int = 0
    runs: int = 0
    waiting: int = 0
    _newest: int = 0

    def add(self, run: _Run) -> None:
        gpu = self.gpus.setdefault(run.gpu, _OfGpu())
        user = self.users.setdefault(run.user, _OfUser())
        if run.submission != self._newest:
            self._newest = run.submission
            self.submissions += 1
            user.submissions += 1
        self.runs += 1
        user.runs += 1
        gpu.runs += 1
        self.waiting += not run.state.ended
        gpu.passed += bool(run.passed)
        gpu.scored += bool(run.passed and run.scored)
        if run.started_at is None:
            return
        gpu.waits.add(_seconds(run.submitted_at, run.started_at))
        if run.state.ended:
            ran_s = _seconds(run.started_at, run.ended_at)
            gpu.run_total_s += ran_s
            user.run_total_s += ran_s


def _seconds(start: datetime, end: datetime) -> float:
    # Nodes and login nodes have clocks of their own.
    return max(0.0, (end - start).total_seconds())


def statistics(file: DatabaseFile, chosen: RunSelection) -> Statistics:
    """Count the submissions and runs, of the chosen runs.

    Raises:
        StorageError: the database cannot be read.
    """
    count = _Count()
    for page in pages(file, _RUNS, chosen, partial(decoded, _Run)):
        for run in page:
            count.add(run)
    with file.reading() as db:
        codes = _unique_codes(db, chosen)
    users = sorted(count.users.items(), key=lambda item: (-item[1].run_total_s, -item[1].runs, item[0]))
    return Statistics(
        since=chosen.since,
        tasks=chosen.tasks,
        submissions=count.submissions,
        runs=count.runs,
        waiting=count.waiting,
        users=len(count.users),
        unique_codes=codes,
        gpus=tuple(
            GpuStatistics(
                name,
                gpu.runs,
                gpu.passed,
                gpu.scored,
                gpu.waits.count,
                gpu.waits.median_s,
                gpu.waits.max_s,
                gpu.run_total_s,
            )
            for name, gpu in sorted(count.gpus.items())
        ),
        top_users=tuple(
            UserStatistics(name, user.submissions, user.runs, user.run_total_s) for name, user in users[:TOP_USERS]
        ),
    )


def _unique_codes(db: Database, chosen: RunSelection) -> int:
    """Count the different files, of the chosen tasks and since the chosen time."""
    # Only conditions that hold something back: by one that may be empty, SQLite finds no index.
    where = " AND ".join(filter(None, (_SINCE if chosen.since else "", _OF_TASKS if chosen.tasks else ""))) or "TRUE"
    given = {"since": optional_time_text(chosen.since), "tasks": json.dumps(chosen.tasks)}
    return int(db.value(_CODES.format(where=where), given))
