"""One pass over all submissions in many short reads, which bounds memory and the wait of other writers.

A long read blocks writers if the database has no write-ahead log (see `database`).
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from hpc_board.store.database import DatabaseFile
from hpc_board.store.row_values import optional_time_text
from hpc_board.store.sqlite import Row

T = TypeVar("T")

PAGE_SUBMISSIONS = 2000

_CHOSEN = """
       submissions.id > :after AND submissions.id <= :last
   AND (:since IS NULL OR submissions.submitted_at >= :since)
   AND (:tasks = '[]' OR submissions.task IN (SELECT value FROM json_each(:tasks)))
   AND (:gpus = '[]' OR runs.gpu IN (SELECT value FROM json_each(:gpus)))
"""
_SPAN = "SELECT MIN(id) - 1 AS after, MAX(id) AS last FROM submissions WHERE submitted_at >= :since"
_LAST = "SELECT MAX(id) FROM (SELECT id FROM submissions WHERE id > :after AND id <= :end ORDER BY id LIMIT :size)"


class RunSelection(msgspec.Struct, frozen=True):
    """A selection of runs by task, GPU and moment of submission; an empty field selects all."""

    tasks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    since: datetime | None = None


def pages(
    file: DatabaseFile,
    query: str,
    chosen: RunSelection,
    decode: Callable[[Row], T],
    *,
    size: int = PAGE_SUBMISSIONS,
    **more: Any,
) -> Iterator[list[T]]:
    """Yield the values that `decode` returns for the rows of `query`, for `size` submissions at a time, oldest first.

    The placeholder `{chosen}` in the query selects among its `submissions` and `runs`. Each page shows the database at
    the time of its query; submissions after the first page are left out.

    Raises:
        StorageError: the database cannot be read.
    """
    since = optional_time_text(chosen.since)
    given = {"since": since, "tasks": json.dumps(chosen.tasks), "gpus": json.dumps(chosen.gpus), **more}
    with file.reading() as db:
        (span,) = db.query(_SPAN, {"since": since or ""})
    after, end = span["after"], span["last"]
    while after is not None and after < end:
        with file.reading() as db:
            last = db.value(_LAST, {"after": after, "end": end, "size": size})
            rows = db.query(query.format(chosen=_CHOSEN), {**given, "after": after, "last": last})
            page = [decode(row) for row in rows]
        yield page
        after = last
