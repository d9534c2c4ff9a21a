"""Bounds for a database that other accounts may have written: of its values, its statements' time, and its schema.

A trigger or a view runs its statements in every command that touches its table. So a database has those of hpc-board
and no others.
"""

import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from hpc_board.store.reading import Readable

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""Above the size of every value and row that hpc-board writes; a larger one is not read."""

TRANSACTION_SECONDS = 120.0
"""The time of one transaction's statements, above that of every query on a board with a million runs."""

_STEPS_BETWEEN_LOOKS = 20_000
"""The number of SQLite's instructions between two looks at the clock: about a millisecond."""

_SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view') ORDER BY name"


class Deadline:
    """The moment at which the statements of a connection are interrupted."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._at = float("inf")
        connection.set_progress_handler(self._passed, _STEPS_BETWEEN_LOOKS)

    def start(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now."""
        self._at = time.monotonic() + seconds

    def _passed(self) -> bool:
        return time.monotonic() >= self._at


def bounded(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Bound the values and rows that a connection reads and writes.

    `trusted_schema` stays on: without it, SQLite 3.40 refuses json_array in the views of a board.
    """
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    return connection


@contextmanager
def row_bytes_bounded(connection: sqlite3.Connection, most: int) -> Iterator[None]:
    """Lower the bound for values and rows to `most` bytes meanwhile."""
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
    try:
        yield
    finally:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def plain(statement: str) -> str:
    """Return a statement with single spaces for all its white space."""
    return " ".join(statement.split())


def foreign_object(db: Readable, known: Collection[str]) -> tuple[str, str] | None:
    """Return the type and the name of a trigger or a view that is none of the `known` statements; None without one."""
    for kind, name, sql in db.execute(_SCHEMA).fetchall():
        if plain(str(sql)) not in known:
            return str(kind), str(name)
    return None
