"""Tables for export: runs with their times and outputs, their cases and samples, tasks, and places in the standings."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.domain.roles import GROUP
from hpc_board.model.task import Task
from hpc_board.store.boards import pseudonym_key
from hpc_board.store.database import DatabaseFile
from hpc_board.store.readers import pseudonym_digest
from hpc_board.store.row_values import decoded, moment, optional_time_text
from hpc_board.store.rows import (
    cases_value,
    interval_value,
    origin_value,
    overlaps_above,
    reference_value,
    remarks_value,
)
from hpc_board.store.sqlite import Row
from hpc_board.store.task_rows import task_value

_PAGE_BYTES = 4_000_000
_ROW_BYTES = 2_000
"""The size of the rows that are read at once, and that of a row without its long texts."""

CHOSEN = """
       (:since IS NULL OR submissions.submitted_at >= :since)
   AND (:tasks = '[]' OR submissions.task IN (SELECT value FROM json_each(:tasks)))
   AND (:gpus = '[]' OR runs.gpu IN (SELECT value FROM json_each(:gpus)))
   AND (:user IS NULL OR submissions.user = :user)
   AND NOT (:ended_only AND EXISTS (SELECT 1 FROM in_flight WHERE in_flight.run = runs.id))
"""
"""The condition of a selection on `submissions` and `runs`, with its `parameters`."""

STARTED_AT = """
(SELECT MIN(at) FROM events WHERE events.run = runs.id AND events.state = 'running' AND at >=
        COALESCE((SELECT MAX(at) FROM retries WHERE retries.run = runs.id), ''))
"""
"""The start of the last job of `runs`."""

_SPAN = "SELECT coalesce(MIN(id), 1), coalesce(MAX(id), 0) FROM submissions WHERE submitted_at >= coalesce(:since, '')"

OUTPUTS = ("build", "stdout", "stderr", "profile", "kernels", "findings", "provenance")
"""The parts of a result in the column `outputs`."""

_RUNS = f"""
SELECT runs.id AS run, runs.submission, runs.task, runs.task_version, runs.gpu, runs.user, runs.account, runs.file_name,
       runs.mode, runs.state, runs.verdict, runs.score_s, runs.created_at AS submitted_at, runs.at AS state_since,
       runs.ended_at AS job_ended_at,
       {STARTED_AT} AS started_at,
       runs.cluster, runs.partition, runs.job_id, runs.node, runs.trust, runs.emulated, runs.milestone,
       runs.code_sha256, runs.harness_sha256, runs.note, runs.message, runs.notes, runs.rerun, runs.removal,
       runs.score_low_s, runs.score_high_s,
       runs.median_s, runs.reference_runs, runs.low_s, runs.high_s,
       runs.options, runs.entrant, runs.tags, runs.parent, runs.due_at,
       (SELECT MAX(json_extract(value, '$[5].busy_processors'))
          FROM cases, json_each(cases.cases) WHERE cases.run = runs.id) AS busy_processors,
       (SELECT gpu_seconds FROM usage WHERE usage.run = runs.id) AS gpu_seconds,
       EXISTS (SELECT 1 FROM removed WHERE removed.submission = runs.submission) AS removed,
       (SELECT MIN(same.id) FROM submissions AS same
         WHERE same.code_sha256 = runs.code_sha256 AND same.task = runs.task AND (:user IS NULL OR same.user = :user)
           AND same.id < runs.submission) AS duplicate_of,
       CASE WHEN :with_code THEN (SELECT code FROM codes WHERE codes.sha256 = runs.code_sha256) END AS code,
       CASE WHEN :with_output THEN
           (SELECT json_extract(document, {", ".join(f"'$.{name}'" for name in OUTPUTS)})
              FROM documents WHERE documents.run = runs.id)
       END AS outputs
"""  # noqa: S608 - our names

_CASES = "SELECT runs.id AS run, runs.submission, runs.user, runs.file_name, cases.cases"

# Results of former versions have the name `worker_runs`.
_SAMPLES = """
SELECT runs.id AS run, runs.submission, json_extract(item.value, '$.phase') AS phase,
       json_extract(item.value, '$.index') AS "index", json_extract(item.value, '$.timing.samples_ns') AS samples_ns,
       coalesce(json_extract(item.value, '$.timing.worker_samples'), json_extract(item.value, '$.timing.worker_runs'))
           AS worker_samples
"""

_OF_RUNS = "submissions CROSS JOIN run_details AS runs ON runs.submission = submissions.id"
_WITH_CASES = f"{_OF_RUNS} CROSS JOIN cases ON cases.run = runs.id"
_WITH_SAMPLES = (
    f"{_OF_RUNS} CROSS JOIN documents ON documents.run = runs.id "
    "CROSS JOIN json_each(documents.document, '$.cases') AS item"
)

_TASKS = f"""
SELECT name, version FROM tasks
 WHERE EXISTS (SELECT 1 FROM submissions CROSS JOIN runs ON runs.submission = submissions.id
                WHERE submissions.task = tasks.name AND submissions.task_version = tasks.version AND {CHOSEN})
 ORDER BY name, added_at, version
"""  # noqa: S608 - our names

_TASK = "name = ? AND version = ?"

_RANKS = """
SELECT * FROM (
    SELECT run, RANK() OVER (board ORDER BY score_s) AS rank, score_low_s,
           LAG(score_high_s) OVER (board ORDER BY score_s, submitted_at, run) AS above_high_s
      FROM bests
    WINDOW board AS (PARTITION BY task, task_version, gpu)
) AS ranked
 WHERE :user IS NULL OR EXISTS (SELECT 1 FROM scores WHERE scores.run = ranked.run AND scores.user = :user)
"""

_BOARDS = """
SELECT bests.task, bests.task_version, bests.gpu, tasks.added_at, COUNT(*) AS users
  FROM bests JOIN tasks ON tasks.name = bests.task AND tasks.version = bests.task_version
 GROUP BY bests.task, bests.task_version, bests.gpu
 ORDER BY bests.task, tasks.added_at, bests.task_version, bests.gpu
"""


class RunSelection(msgspec.Struct, frozen=True):
    """A selection of runs by task, GPU, moment of submission, user and end; an empty field selects all."""

    tasks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    since: datetime | None = None
    user: str | None = None
    ended_only: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the condition `CHOSEN`."""
        return {
            "since": optional_time_text(self.since),
            "tasks": json.dumps(self.tasks),
            "gpus": json.dumps(self.gpus),
            "user": self.user,
            "ended_only": self.ended_only,
        }


class RankedBoard(msgspec.Struct, frozen=True):
    """One leaderboard with ranked users: a version of a task on a GPU, the version's time, and the number of users."""

    task: str
    task_version: str
    gpu: str
    added_at: datetime
    users: int


class ExportGateway:
    """The tables that leave a board: runs with their times, and standings.

    Those of runs have every chosen run, oldest first, without runs after the first transaction. Many short transactions
    bound the memory; a long one would block writers where there is no write-ahead log.

    Raises:
        StorageError: the database cannot be read.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def runs(self, chosen: RunSelection, *, with_code: bool = False, with_output: bool = False) -> Iterator[Row]:
        """Yield a row for each run.

        `rank` is its place in the standings, if any; `remarks` are those of its submission, as a value of the domain.
        """
        with self._file.reading() as db:
            placed = db.query(_RANKS, {"user": chosen.user})
            ranks = {row["run"]: (row["rank"], overlaps_above(row)) for row in placed}
        more = {"with_code": with_code, "with_output": with_output}
        for row in self._paged(_RUNS, _OF_RUNS, chosen, _with_values, more):
            rank, overlaps = ranks.get(row["run"], (None, None))
            yield {**row, "rank": rank, "overlaps_above": overlaps}

    def cases(self, chosen: RunSelection) -> Iterator[Row]:
        """Yield a row for each run with a verdict, with its cases as values of the domain."""
        return self._paged(_CASES, _WITH_CASES, chosen, lambda row: {**row, "cases": cases_value(row["cases"])})

    def samples(self, chosen: RunSelection) -> Iterator[Row]:
        """Yield a row for each timed case of a result, with its samples and their numbers in each process as JSON."""
        return self._paged(_SAMPLES, _WITH_SAMPLES, chosen, where="samples_ns IS NOT NULL")

    def tasks(self, chosen: RunSelection) -> Iterator[tuple[datetime, Task]]:
        """Yield every version of a task with a chosen run, and the time at which it was added."""
        with self._file.reading() as db:
            keys = [(row["name"], row["version"]) for row in db.query(_TASKS, chosen.parameters)]
        for key in keys:
            with self._file.reading() as db:
                (found,) = [(moment(row["added_at"]), task_value(row)) for row in db.rows("tasks", _TASK, key)]
            yield found

    def pseudonyms(self) -> Callable[[str], str]:
        """Return a function for the pseudonym of a user or team, the same in all exports and that of no leaderboard."""
        with self._file.reading() as db:
            key = pseudonym_key(db)
        return lambda name: f"{'team' if name.startswith(GROUP) else 'user'}-{pseudonym_digest(key, None, name)}"

    def _paged(
        self,
        columns: str,
        tables: str,
        chosen: RunSelection,
        made: Callable[[Row], Row] = dict,
        more: Row | None = None,
        where: str = "TRUE",
    ) -> Iterator[Row]:
        """Yield the rows of the chosen runs, a page at a time, as `made` decodes them.

        The rows of one run are on one page.
        """
        with self._file.reading() as db:
            submission, end = db.execute(_SPAN, chosen.parameters).fetchone()
        statement = (
            f"{columns} FROM {tables} WHERE submissions.id BETWEEN :submission AND :end AND runs.id > :run "
            f"AND {CHOSEN} AND {where} ORDER BY submissions.id, runs.id"
        )
        given, run = {**chosen.parameters, **(more or {}), "end": end}, 0
        while True:
            page: list[Row] = []
            size = 0
            with self._file.reading() as db:
                for row in db.query(statement, {**given, "submission": submission, "run": run}):
                    if size > _PAGE_BYTES and row["run"] != page[-1]["run"]:
                        break
                    page.append(made(row))
                    size += _ROW_BYTES + sum(len(value) for value in row.values() if isinstance(value, str | bytes))
                else:
                    end = 0
            yield from page
            if not end:
                return
            submission, run = page[-1]["submission"], page[-1]["run"]

    def ranked_boards(self, chosen: RunSelection) -> tuple[RankedBoard, ...]:
        """Return the chosen boards that have users, by the task's name, its versions in the order of their arrival."""
        with self._file.reading() as db:
            found = [decoded(RankedBoard, row) for row in db.query(_BOARDS)]
        return tuple(
            each
            for each in found
            if (not chosen.tasks or each.task in chosen.tasks) and (not chosen.gpus or each.gpu in chosen.gpus)
        )


def _with_values(row: Row) -> Row:
    """Return a row with the speedup, and the remarks and the origin of its submission, as values of the domain."""
    reference, score_s = reference_value(row), row["score_s"]
    speedup = reference.speedup(score_s, interval_value(row)) if reference and score_s else None
    return {**row, "remarks": remarks_value(row), "origin": origin_value(row), "speedup": speedup}
