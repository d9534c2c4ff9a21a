"""One pass over all submissions in many short reads, which bounds memory and the wait of other writers.

A long read blocks writers if the database has no write-ahead log (see `journal`).
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_reader import Row
from hpc_board.store.row_texts import optional_time_text

PAGE_SUBMISSIONS = 2000

_CHOSEN = """
       submissions.id BETWEEN :first AND :last
   AND (:since IS NULL OR submissions.submitted_at >= :since)
   AND (:tasks = '[]' OR submissions.task IN (SELECT value FROM json_each(:tasks)))
   AND (:gpus = '[]' OR runs.gpu IN (SELECT value FROM json_each(:gpus)))
"""


class RunSelection(msgspec.Struct, frozen=True):
    """Which runs are wanted: of these tasks, on these GPUs, submitted since then; all where nothing is said."""

    tasks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    since: datetime | None = None


def pages(
    file: DatabaseFile, query: str, chosen: RunSelection, *, size: int = PAGE_SUBMISSIONS, **more: Any
) -> Iterator[list[Row]]:
    """Yield the rows of `query`, for `size` submissions at a time, oldest first.

    The placeholder `{chosen}` in the query selects among its `submissions` and `runs`. Each page shows the database at
    the time of its query; submissions after the first page are left out.

    Raises:
        StorageError: the database cannot be read.
    """
    since = optional_time_text(chosen.since)
    given = {"since": since, "tasks": json.dumps(chosen.tasks), "gpus": json.dumps(chosen.gpus), **more}
    with file.reading() as db:
        (row,) = db.query(_SPAN if since is None else _SPAN_SINCE, {} if since is None else {"since": since})
    first, last = row["first"] or 1, row["last"] or 0
    chosen_only = query.format(chosen=_CHOSEN)
    for start in range(first, last + 1, size):
        with file.reading() as db:
            of_page = {"first": start, "last": min(start + size - 1, last)}
            page: list[Row] = list(db.query(chosen_only, given | of_page))
        yield page


_SPAN = "SELECT (SELECT MIN(id) FROM submissions) AS first, (SELECT MAX(id) FROM submissions) AS last"
# For one of the two alone, SQLite would look for it from the end of the table instead of the index.
_SPAN_SINCE = "SELECT MIN(id) AS first, MAX(id) AS last FROM submissions WHERE submitted_at >= :since"
