"""Values of rows: the texts that are written, and the domain's values that are read."""

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class UndecodableError(ValueError):
    """A value of the database that the store does not write."""


def decoded(kind: type[T], value: Any) -> T:
    """Return the value of `kind` in a row, whose columns are the fields, or in a column.

    Raises:
        UndecodableError: the row has none.
    """
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UndecodableError(f"{kind.__name__}: {error}") from error


def decoded_json(kind: type[T], text: str) -> T:
    """Return the value of `kind` in a column with JSON.

    Raises:
        UndecodableError: it has none.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UndecodableError(f"{kind}: {error}") from error


def encoded_json(value: Any) -> str:
    """Return a value as JSON, which `decoded_json` reads."""
    return msgspec.json.encode(value).decode()


def moment(text: str) -> datetime:
    """Return the time that `time_text` formatted."""
    return decoded(datetime, text)


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
