"""A diagnostic: one thing that was looked at, its state, and the remedy; and the rules that give diagnostics."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

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


T = TypeVar("T")

Rule = Callable[[T], Iterator[Diagnostic]]
"""A rule: the diagnostics of a subject, none if the rule does not concern it."""


def applied(rules: Sequence[Rule[T]], subject: T) -> Iterator[Diagnostic]:
    """Yield the diagnostics of a subject by all rules, in the order of the rules."""
    for rule in rules:
        yield from rule(subject)
