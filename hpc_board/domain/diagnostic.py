"""A diagnostic: one thing that was looked at, its state, and the remedy."""

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """The state of a thing: as it should be, worth a look, or to be corrected."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Diagnostic(msgspec.Struct, frozen=True):
    """The result of one check; `hint` is the remedy of a failure."""

    severity: Severity
    subject: str
    message: str
    hint: str = ""


def diagnostic(bad: Severity, subject: str, message: str, hint: str, *, good: str | None) -> Diagnostic:
    """Return a diagnostic: OK with the `good` message if it is given, else the other one."""
    return Diagnostic(bad, subject, message, hint) if good is None else Diagnostic(Severity.OK, subject, good)
