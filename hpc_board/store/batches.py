"""One pass over all submissions in many short reads, which bounds memory and the wait of other writers.

A long read blocks writers if the database has no write-ahead log (see `journal`).
"""

import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from hpc_board.store.database import DatabaseFile
from hpc_board.store.guard import row_bytes_bounded
from hpc_board.store.reading import Readable
from hpc_board.store.row_values import Row, optional_time_text, unreadable

PAGE_SUBMISSIONS = 2000

PAGE_BYTES_MAX = 128 * 1024 * 1024
"""The maximum size of the values that are in memory at once."""

ROW_BYTES_MAX = 8 * 1024 * 1024
"""Above the size of every row of these tables that hpc-board writes, with its file and its remarks."""

_CHOSEN = """
       submissions.id BETWEEN :first AND :last
   AND (:since IS NULL OR submissions.submitted_at >= :since)
   AND (:tasks = '[]' OR submissions.task IN (SELECT value FROM json_each(:tasks)))
   AND (:gpus = '[]' OR runs.gpu IN (SELECT value FROM json_each(:gpus)))
"""


class RunSelection(msgspec.Struct, frozen=True):
    """A selection of runs by task, GPU and moment of submission; an empty field selects all."""

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
    start, last = row["first"] or 1, row["last"] or 0
    chosen_only = query.format(chosen=_CHOSEN)
    while start <= last:
        with file.reading() as db:
            (row,) = db.query(_NEXT, {"start": start})
            if row["next"] is None:
                return
            start = row["next"]
            page, count = _page(db, chosen_only, given, start, min(size, last - start + 1))
        yield page
        start += count


def _page(db: Readable, query: str, given: dict[str, Any], start: int, count: int) -> tuple[list[Row], int]:
    """Return the rows of `count` submissions from `start` on, or of fewer where these are too large, and their count.

    Raises:
        DamagedRowError: one submission is too large.
    """
    with row_bytes_bounded(db.conn, ROW_BYTES_MAX):
        while True:
            rows = _bounded_rows(db, query, given | {"first": start, "last": start + count - 1})
            if rows is not None:
                return rows, count
            if count == 1:
                what = f"it and its runs have more than {PAGE_BYTES_MAX:,} bytes, or a value of {ROW_BYTES_MAX:,}"
                raise unreadable("submissions", str(start), what)
            count //= 2


def _bounded_rows(db: Readable, query: str, given: dict[str, Any]) -> list[Row] | None:
    rows: list[Row] = []
    left = PAGE_BYTES_MAX
    try:
        for row in db.query(query, given):
            left -= sum(len(value) for value in row.values() if isinstance(value, str | bytes))
            if left < 0:
                return None
            rows.append(row)
    except sqlite3.DataError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_TOOBIG:
            return None
        raise
    return rows


_NEXT = "SELECT MIN(id) AS next FROM submissions WHERE id >= :start"
_SPAN = "SELECT (SELECT MIN(id) FROM submissions) AS first, (SELECT MAX(id) FROM submissions) AS last"
# For one of the two alone, SQLite would look for it from the end of the table instead of the index.
_SPAN_SINCE = "SELECT MIN(id) AS first, MAX(id) AS last FROM submissions WHERE submitted_at >= :since"
