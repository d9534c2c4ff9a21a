"""What was looked at, how it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a thing is: as it should be, worth a look, or in the way of runs."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Diagnostic:
    """One thing that was looked at; `advice` says what to do where it is not as it should be."""

    level: Level
    subject: str
    message: str
    advice: str = ""
