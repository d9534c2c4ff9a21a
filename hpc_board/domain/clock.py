"""The clock of the board: every stored moment is in UTC."""

from datetime import UTC, datetime

from hpc_board.errors import InputError


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def in_utc(moment: datetime) -> datetime:
    """Return a moment that a user gave, in UTC.

    Raises:
        InputError: it has no time zone, or is out of the calendar in UTC.
    """
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
        problem = "has no time zone"
    except OverflowError:
        problem = "cannot be expressed in UTC"
    raise InputError(f"the time {moment.isoformat()} {problem}.", hint="Use a time in UTC, such as 2026-11-22T18:00Z.")
