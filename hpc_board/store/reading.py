"""The reads of a transaction, without the import of sqlite_utils: that takes as long as the rest of a command."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Parameters = Sequence[Any] | dict[str, Any]


class ReadableTable(Protocol):
    """The rows of a table or a view."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def count_where(self, where: str | None = None, where_args: Parameters | None = None) -> int:
        """Return the number of rows for which `where` holds."""

    def rows_where(
        self,
        where: str | None = None,
        where_args: Parameters | None = None,
        order_by: str | None = None,
        select: str = "*",
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Return the rows for which `where` holds, by the names of their columns."""


class Readable(Protocol):
    """The reads that `Reader` and sqlite_utils' Database have in common: one function serves both transactions."""

    @property
    def conn(self) -> sqlite3.Connection:
        """The connection itself."""

    def execute(self, sql: str, parameters: Parameters | None = None, /) -> sqlite3.Cursor:
        """Execute a statement."""

    def query(self, sql: str, params: Parameters | None = None, /) -> Iterator[dict[str, Any]]:
        """Execute a query, and return its rows by the names of their columns."""

    def table(self, table_name: str, /) -> ReadableTable:
        """Return the table of this name."""

    def view(self, view_name: str, /) -> ReadableTable:
        """Return the view of this name."""


class Reader:
    """The reads of an open connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.conn = connection

    def execute(self, sql: str, parameters: Parameters | None = None, /) -> sqlite3.Cursor:
        """Execute a statement."""
        return self.conn.execute(sql, parameters or ())

    def query(self, sql: str, params: Parameters | None = None, /) -> Iterator[dict[str, Any]]:
        """Execute a query at once, and return its rows as they are fetched."""
        return _rows(self.execute(sql, params))

    def table(self, table_name: str, /) -> ReadableTable:
        """Return the table of this name."""
        return _Rows(self, table_name)

    view = table


class _Rows:
    """The rows of one table or view."""

    def __init__(self, reader: Reader, name: str) -> None:
        self._reader = reader
        self._name = name

    @property
    def count(self) -> int:
        return self.count_where()

    def count_where(self, where: str | None = None, where_args: Parameters | None = None) -> int:
        statement = f"SELECT COUNT(*) FROM {self._name}{_where(where)}"  # noqa: S608 - names of our own
        number: int = self._reader.execute(statement, where_args).fetchone()[0]
        return number

    def rows_where(
        self,
        where: str | None = None,
        where_args: Parameters | None = None,
        order_by: str | None = None,
        select: str = "*",
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        order = "" if order_by is None else f" ORDER BY {order_by}"
        most = "" if limit is None else f" LIMIT {limit}"
        statement = f"SELECT {select} FROM {self._name}{_where(where)}{order}{most}"  # noqa: S608 - names of our own
        return self._reader.query(statement, where_args)


def _where(where: str | None) -> str:
    return "" if where is None else f" WHERE {where}"


def _rows(cursor: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)
