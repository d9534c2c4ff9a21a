"""The standings as one page for a browser: one file without external resources, with all data escaped."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import IO

import msgspec

from hpc_board import __version__
from hpc_board.boards.pages import page
from hpc_board.domain.standing import Rows
from hpc_board.model.task import Task
from hpc_board.model.text import one_line
from hpc_board.report.formatting import count_text
from hpc_board.store import Store
from hpc_board.store.export import RankedBoard
from hpc_board.web.rendering import asset, template
from hpc_board.web.standings import ROWS_MAX, BoardTable, Section, board_table

_PIECES = 500
"""The number of pieces of the page in one write."""


class _Task(msgspec.Struct, frozen=True):
    """A task on the page with its boards; `head` is None of one that has left the settings."""

    name: str
    head: Section | None
    boards: Iterable[BoardTable]


def write(sink: IO[bytes], store: Store, tasks: Mapping[str, Task], ranked: Sequence[RankedBoard], at: datetime) -> int:
    """Write the page of the `ranked` boards with present versions, and return their number.

    Raises:
        StorageError: the database cannot be read.
    """
    chosen = _chosen(ranked, tasks)
    count = sum(map(len, chosen.values()))
    style = asset("page.css")
    drawn = template("frozen.html").stream(
        policy=f"default-src 'none'; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'",
        style=style,
        counts=f"{count_text(len(chosen), 'task')}, {count_text(count, 'board')}",
        at=at,
        names=[one_line(name) for name in chosen],
        # Each task is read while it is written, so that memory holds one board at a time.
        tasks=(_task(name, tasks.get(name), boards, store, at) for name, boards in chosen.items()),
        version=__version__,
    )
    drawn.enable_buffering(_PIECES)
    drawn.dump(sink, encoding="utf-8")
    return count


def _chosen(ranked: Sequence[RankedBoard], tasks: Mapping[str, Task]) -> dict[str, list[RankedBoard]]:
    """Return the boards by task: of its present version, or of the newest one if the task has left the settings."""
    chosen = {}
    for name, of_task in groupby(ranked, key=lambda key: key.task):
        boards = list(of_task)
        task = tasks.get(name)
        version = boards[-1].task_version if task is None else task.version
        chosen[name] = [board for board in boards if board.task_version == version]
    return chosen


def _task(name: str, task: Task | None, keys: Sequence[RankedBoard], store: Store, at: datetime) -> _Task:
    return _Task(one_line(name), None if task is None else Section.of(task), _boards(task, keys, store, at))


def _boards(task: Task | None, keys: Sequence[RankedBoard], store: Store, at: datetime) -> Iterator[BoardTable]:
    for key in keys:
        shown = task or store.submissions.task(key.task, key.task_version)
        found = page(store, shown, shown, key.gpu, "", rows=Rows.USERS, limit=ROWS_MAX, offset=0)
        if found.rows:
            said = store.runs.numbered([row.run for row in found.rows])
            days = store.export.bests_by_day(key.task, key.task_version, key.gpu)
            yield board_table(shown, found, days, at, said)


def _hash(text: str) -> str:
    """Return the name of an inline style in the page's content security policy."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
