"""Tables for export: every run with its times, and every place in the standings."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import decoded, optional_time_text
from hpc_board.store.rows import overlaps_above, remarks_value
from hpc_board.store.sqlite import Database, Row

_PAGE_SUBMISSIONS = 2000
_PAGE_WITH_CODE = 50
"""The number of submissions that are read at once with their files of up to a megabyte each."""

CHOSEN = """
       (:since IS NULL OR submissions.submitted_at >= :since)
   AND (:tasks = '[]' OR submissions.task IN (SELECT value FROM json_each(:tasks)))
   AND (:gpus = '[]' OR runs.gpu IN (SELECT value FROM json_each(:gpus)))
"""
"""The condition of a selection on `submissions` and `runs`, with its `parameters`."""

STARTED_AT = """
(SELECT MIN(at) FROM events WHERE events.run = runs.id AND events.state = 'running' AND at >=
        COALESCE((SELECT MAX(at) FROM retries WHERE retries.run = runs.id), ''))
"""
"""The start of the last job of `runs`."""

_SPAN = "SELECT MIN(id) - 1, MAX(id) FROM submissions WHERE submitted_at >= coalesce(:since, '')"
_LAST = "SELECT MAX(id) FROM (SELECT id FROM submissions WHERE id > :after AND id <= :end ORDER BY id LIMIT :size)"

_RUNS = f"""
SELECT runs.id AS run, runs.submission, runs.task, runs.task_version, runs.gpu, runs.user, runs.account, runs.file_name,
       runs.mode, runs.state, runs.verdict, runs.score_s, runs.created_at AS submitted_at, runs.at AS state_since,
       runs.ended_at AS job_ended_at,
       {STARTED_AT} AS started_at,
       runs.cluster, runs.partition, runs.job_id, runs.node, runs.trust, runs.emulated, runs.milestone,
       runs.code_sha256, runs.harness_sha256, runs.note, runs.message, runs.notes, runs.rerun, runs.removal,
       runs.score_low_s, runs.score_high_s,
       (SELECT MAX(json_extract(value, '$[5].busy_processors'))
          FROM cases, json_each(cases.cases) WHERE cases.run = runs.id) AS busy_processors,
       (SELECT gpu_seconds FROM usage WHERE usage.run = runs.id) AS gpu_seconds,
       EXISTS (SELECT 1 FROM removed WHERE removed.submission = runs.submission) AS removed,
       CASE WHEN :with_code THEN (SELECT code FROM codes WHERE codes.sha256 = runs.code_sha256) END AS code
  FROM submissions
 CROSS JOIN run_details AS runs ON runs.submission = submissions.id
 WHERE submissions.id > :after AND submissions.id <= :last AND {CHOSEN}
 ORDER BY submissions.id, runs.id
"""  # noqa: S608 - our names

_RANKS = """
SELECT bests.run, RANK() OVER (board ORDER BY bests.score_s) AS rank, results.score_low_s,
       LAG(results.score_high_s) OVER (board ORDER BY bests.score_s, bests.submitted_at, bests.run) AS above_high_s
  FROM bests LEFT JOIN results ON results.run = bests.run
WINDOW board AS (PARTITION BY bests.task, bests.task_version, bests.gpu)
"""

_BOARDS = """
SELECT bests.task, bests.task_version, bests.gpu, tasks.added_at, COUNT(*) AS users
  FROM bests JOIN tasks ON tasks.name = bests.task AND tasks.version = bests.task_version
 GROUP BY bests.task, bests.task_version, bests.gpu
 ORDER BY bests.task, tasks.added_at, bests.task_version, bests.gpu
"""


class RunSelection(msgspec.Struct, frozen=True):
    """A selection of runs by task, GPU and moment of submission; an empty field selects all."""

    tasks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    since: datetime | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the condition `CHOSEN`."""
        return {
            "since": optional_time_text(self.since),
            "tasks": json.dumps(self.tasks),
            "gpus": json.dumps(self.gpus),
        }


class RankedBoard(msgspec.Struct, frozen=True):
    """One leaderboard with ranked users: a version of a task on a GPU, the version's time, and the number of users."""

    task: str
    task_version: str
    gpu: str
    added_at: datetime
    users: int


class ExportGateway:
    """The tables that leave a board: runs with their times, and standings."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file

    def runs(self, chosen: RunSelection, *, with_code: bool = False) -> Iterator[Row]:
        """Return every chosen run, oldest first, without runs after the first transaction.

        `rank` is its place in the standings, if any; `remarks` are those of its submission, as a value of the domain.
        Many short transactions bound the memory; a long one would block writers where there is no write-ahead log.

        Raises:
            StorageError: the database cannot be read.
        """
        with self._file.reading() as db:
            ranks = _ranks(db)
            after, end = db.execute(_SPAN, chosen.parameters).fetchone()
        given = {**chosen.parameters, "end": end, "with_code": with_code}
        size = _PAGE_WITH_CODE if with_code else _PAGE_SUBMISSIONS
        while after is not None and after < end:
            with self._file.reading() as db:
                last = db.value(_LAST, {"after": after, "end": end, "size": size})
                rows = db.query(_RUNS, {**given, "after": after, "last": last})
                page = [{**row, "remarks": remarks_value(row)} for row in rows]
            after = last
            for row in page:
                rank, overlaps = ranks.get(row["run"], (None, None))
                yield {**row, "rank": rank, "overlaps_above": overlaps}

    def ranked_boards(self, chosen: RunSelection) -> tuple[RankedBoard, ...]:
        """Return the chosen boards that have users, by the task's name, its versions in the order of their arrival."""
        with self._file.reading() as db:
            found = [decoded(RankedBoard, row) for row in db.query(_BOARDS)]
        return tuple(
            each
            for each in found
            if (not chosen.tasks or each.task in chosen.tasks) and (not chosen.gpus or each.gpu in chosen.gpus)
        )


def _ranks(db: Database) -> dict[int, tuple[int, bool]]:
    """Return the rank of each ranked run, and whether its interval overlaps that of the one above."""
    return {row["run"]: (row["rank"], overlaps_above(row)) for row in db.query(_RANKS)}
