"""The clock of the board: every stored moment is in UTC; and lengths of time in words."""

import re
from datetime import UTC, datetime, timedelta

from hpc_board.errors import InputError

_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


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


def span_of(text: str) -> timedelta:
    """Return the length of time in a text such as "30m", "1h30m" or "90s", in weeks, days, hours, minutes and seconds.

    Raises:
        ValueError: the text is none.
        OverflowError: it is too long.
    """
    if not re.fullmatch(r"(?:[0-9]{1,6}[wdhms])+", text):
        raise ValueError(f"{text!r} is not a length of time")
    parts = re.findall(r"([0-9]+)([wdhms])", text)
    return sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())


def span_words(seconds: float) -> str:
    """Return a length of time to the second: "45 s", "24 min 3 s", "1 h 30 min"."""
    return " ".join(f"{count} {unit}" for count, unit in _parts(seconds))


def span_option(seconds: float) -> str:
    """Return a length of time to the second as `span_of` takes it: "45s", "24m3s", "1h30m"."""
    return "".join(f"{count}{unit[0]}" for count, unit in _parts(seconds))


def _parts(length: float) -> list[tuple[int, str]]:
    minutes, seconds = divmod(max(0, int(length)), 60)
    hours, minutes = divmod(minutes, 60)
    return [each for each in ((hours, "h"), (minutes, "min"), (seconds, "s")) if each[0]] or [(0, "s")]
