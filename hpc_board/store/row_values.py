"""Values of a row: the texts that are written, and type-checked columns, since other programs can write any value."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import Enum
from typing import Any, Never, TypeVar

import msgspec

from hpc_board.domain.board_options import YEAR_MAX, YEAR_MIN
from hpc_board.domain.job_options import NO_OPTIONS, JobOptions, check
from hpc_board.domain.task_rules import is_plain_name
from hpc_board.errors import DamagedRowError, InputError
from hpc_board.model.names import NAME
from hpc_board.model.text import one_line

Row = Mapping[str, Any]
E = TypeVar("E", bound=Enum)

HINT = (
    "Another program has changed the database, or it is damaged: `hpc-board admin doctor` looks at it, and "
    "`hpc-board admin restore FILE` puts a backup in its place."
)

_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}(\.[0-9]{1,6})?")
_JOB_ID = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.+:,%\[\]-]{0,119})?")
_DIGEST = re.compile(r"[A-Za-z0-9]{0,64}")
_NAME = re.compile(NAME)

_NUMBER_MAX = 1e300
_SHOWN_CHARACTERS = 60


def unreadable(table: str, row: str, what: str) -> DamagedRowError:
    """Return the error for a table's row with a value that the store does not write."""
    return DamagedRowError(f"row {one_line(row, 80)} of `{table}` in the database cannot be read: {what}", hint=HINT)


class RowReader:
    """A row of `table`, or of a view whose column `number` is that table's row, read column by column with its type.

    `tables` names the columns of a view that come from other tables, each with the column that has their row.

    Raises DamagedRowError for a value that is none of its column.
    """

    def __init__(
        self, row: Row, table: str, number: str = "id", tables: Mapping[str, tuple[str, str]] | None = None
    ) -> None:
        self._row = row
        self._table = table
        self._number = number
        self._tables = tables or {}

    def fail(self, column: str, what: str) -> Never:
        """Raise the error for the value in `column`.

        Raises:
            DamagedRowError: always.
        """
        table, number = self._tables.get(column, (self._table, self._number))
        shown = one_line(repr(self._row[column]), _SHOWN_CHARACTERS)
        raise unreadable(table, str(self._row.get(number, "?")), f"its {column} is {shown}, which is no {what}")

    def text(self, column: str) -> str:
        """Return a text."""
        value = self._row[column]
        return value if isinstance(value, str) else self.fail(column, "text")

    def name(self, column: str) -> str:
        """Return the name of a task, a GPU or a cluster."""
        return self._matching(_NAME, column, "name")

    def token(self, column: str = "token") -> str:
        """Return the unique name of a job, which also names a job folder."""
        return self._matching(_TOKEN, column, "name of a job")

    def job_id(self, column: str = "job_id") -> str:
        """Return a scheduler's number of a job, which is an argument of commands and a part of file names, or ""."""
        return self._matching(_JOB_ID, column, "number of a job")

    def job_options(self, column: str = "options") -> JobOptions:
        """Return the options of a job, which become lines of its script."""
        text = self.text(column)
        if not text:
            return NO_OPTIONS
        try:
            options = msgspec.json.decode(text, type=JobOptions)
            check(options, column)
        except (msgspec.MsgspecError, InputError):
            self.fail(column, "options of a job")
        return options

    def digest(self, column: str) -> str:
        """Return a checksum, which may name a file, or ""."""
        return self._matching(_DIGEST, column, "checksum")

    def file_name(self, column: str = "file_name") -> str:
        """Return the name of a file, without a folder."""
        value = self.text(column)
        return value if is_plain_name(value) else self.fail(column, "name of a file")

    def _matching(self, pattern: re.Pattern[str], column: str, what: str) -> str:
        value = self.text(column)
        return value if pattern.fullmatch(value) else self.fail(column, what)

    def integer(self, column: str) -> int:
        """Return a whole number."""
        value = self._row[column]
        return value if isinstance(value, int) else self.fail(column, "whole number")

    def number(self, column: str) -> float:
        """Return a number that is not below 0, and finite."""
        value = self._row[column]
        return (
            value if isinstance(value, int | float) and 0 <= value < _NUMBER_MAX else self.fail(column, "such number")
        )

    def time_ns(self, column: str) -> float:
        """Return a time of calls in ns, or 0."""
        from hpc_board.model.result import is_time_ns

        value = self.number(column)
        return value if is_time_ns(value) else self.fail(column, "time in ns")

    def score(self, column: str = "score_s") -> float:
        """Return a time in s that ranks a run."""
        from hpc_board.model.result import is_time_ns

        value = self.number(column)
        return value if value and is_time_ns(1e9 * value) else self.fail(column, "score")

    def moment(self, column: str) -> datetime:
        """Return a moment with its time zone."""
        found = moment_of(self._row[column])
        return found if found is not None else self.fail(column, "moment")

    def day(self, column: str) -> date:
        """Return a day."""
        try:
            return date.fromisoformat(self.text(column))
        except ValueError:
            return self.fail(column, "day")

    def word(self, kind: type[E], column: str) -> E:
        """Return one of the words of `kind`."""
        try:
            return kind(self._row[column])
        except ValueError:
            return self.fail(column, kind.__name__.lower())

    def has(self, column: str) -> bool:
        """Return whether the column has a value."""
        return self._row[column] is not None


def moment_of(value: object) -> datetime | None:
    """Return the time that the store wrote as `value`; None if it is no time."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    fits = found is not None and found.tzinfo is not None and YEAR_MIN <= found.year <= YEAR_MAX
    return found if fits else None


def time_text(at: datetime) -> str:
    """Format a time as UTC text of fixed width, which sorts as the times do.

    Raises:
        ValueError: the time has no zone.
    """
    if at.tzinfo is None:
        raise ValueError(f"{at} has no time zone")
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def optional_time_text(at: datetime | None) -> str | None:
    """Format a time as `time_text` does; None stays None."""
    return None if at is None else time_text(at)


def plain_text(text: str) -> str:
    """Return the text without lone surrogates, which file names and JSON can hold and a database cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")
