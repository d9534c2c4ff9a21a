"""Statements on a connection to SQLite: rows come and go by the names of their columns."""

import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite_utils

Row = Mapping[str, Any]
Parameters = Sequence[Any] | Mapping[str, Any]


class Database:
    """An open connection, within a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, statement: str, given: Parameters = ()) -> sqlite3.Cursor:
        """Execute a statement."""
        return self.connection.execute(statement, given)

    def query(self, statement: str, given: Parameters = ()) -> Iterator[dict[str, Any]]:
        """Execute a query at once, and return its rows as they are fetched."""
        cursor = self.execute(statement, given)
        names = [column[0] for column in cursor.description]
        return (dict(zip(names, row, strict=True)) for row in cursor)

    def value(self, statement: str, given: Parameters = ()) -> Any:
        """Return the first value of a query's first row."""
        return self.execute(statement, given).fetchone()[0]

    def rows(
        self, table: str, where: str = "TRUE", given: Parameters = (), *, order: str = "", limit: int = -1
    ) -> Iterator[dict[str, Any]]:
        """Return the rows of a table or a view for which `where` holds."""
        order = order and f" ORDER BY {order}"
        return self.query(f"SELECT * FROM {table} WHERE {where}{order} LIMIT {limit}", given)  # noqa: S608 - our names

    def row(self, table: str, where: str, given: Parameters, *, order: str = "") -> dict[str, Any] | None:
        """Return the first of these rows, None without any."""
        return next(self.rows(table, where, given, order=order, limit=1), None)

    def count(self, table: str, where: str = "TRUE", given: Parameters = ()) -> int:
        """Return the number of rows for which `where` holds."""
        return int(self.value(f"SELECT COUNT(*) FROM {table} WHERE {where}", given))  # noqa: S608 - our names

    def insert(self, table: str, *rows: Row, ignore: bool = False) -> int:
        """Insert rows with the same columns, and return the number of the last; `ignore` skips those that are there."""
        return self._tables.table(table).insert_all(map(dict, rows), ignore=ignore).last_rowid or 0

    @cached_property
    def _tables(self) -> "sqlite_utils.Database":
        """The tables for writing; a command that only reads does not load the library."""
        # A program that uses the Python interface may want all of sqlite-utils, and import them in its threads.
        names = () if "hpc_board.scripting" in sys.modules else ("numpy", "pandas")
        with _not_installed(*names):
            import sqlite_utils

        return sqlite_utils.Database(self.connection, execute_plugins=False)

    def delete(self, table: str, where: str, given: Parameters) -> None:
        """Delete the rows for which `where` holds."""
        self.execute(f"DELETE FROM {table} WHERE {where}", given)  # noqa: S608 - our names


@contextmanager
def _not_installed(*names: str) -> Iterator[None]:
    """Have imports take modules that are not loaded for missing ones.

    sqlite-utils would learn their types of numbers, which no row has, in as much time as the rest of `submit` takes.
    """
    modules: dict[str, Any] = sys.modules
    hidden = {name: None for name in names if name not in modules}
    modules |= hidden
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
