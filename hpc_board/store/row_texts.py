"""Texts in the form in which rows have them."""

from datetime import UTC, datetime


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
