"""The errors that a user can act on; everything else is a bug and keeps its traceback.

BoardError                  exit code 3: the scheduler or our machinery failed
├── InputError              exit code 2: usage, a bad file, bad settings
│   ├── DocumentError       exit code 2: a YAML file with faults, all of them listed
│   ├── NoTimes             exit code 2: two files have no common times
│   └── StorageError        exit code 2: the board's folder or database cannot be used
│       └── UnreadableError exit code 2: the board's database cannot be read
├── SchedulerError          exit code 3: Slurm did not answer, or answered nonsense
│   └── SchedulerRefused    exit code 2: the scheduler says that the request or the settings are wrong
│       ├── NotAvailable    exit code 2: this machine has no scheduler, or no configuration of it
│       └── NotAccepting    exit code 2: the scheduler accepts no such job at the moment
├── WaitExpired             exit code 4: timed out waiting, the runs go on
└── Refused                 exit code 5: deadline, rate limit, ban, not allowed
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class BoardError(Exception):
    """An error that a user can act on: a message, and a hint with the remedy; `kind` is its class for scripts."""

    kind = "failure"
    exit_code = 3
    title = "hpc-board could not continue"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(BoardError):
    """A command, file or setting that cannot be used as it is."""

    kind = "input"
    exit_code = 2
    title = "Invalid input"


class Fault(NamedTuple):
    """One thing that is wrong in a document.

    `path` is the key's path ("gpus.H100.partition", "" for the whole document), `line` counts from 1 (0: unknown).
    """

    path: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        place = self.path or "the document"
        return f"line {self.line}: {place}: {self.message}" if self.line else f"{place}: {self.message}"


class DocumentError(InputError):
    """A YAML document with one or more faults, listed together."""

    title = "This file has faults"

    def __init__(self, file: str, faults: Sequence[Fault], *, hint: str = "") -> None:
        self.file = file
        self.faults = tuple(faults)
        super().__init__("\n".join([f"{file}:", *(f"  {fault}" for fault in self.faults)]), hint=hint)


class NoTimes(InputError):
    """Two files without common times, whose code may be compared."""


class StorageError(InputError):
    """The board's folder or database cannot be read or written."""

    kind = "storage"
    title = "The board cannot be written"


class UnreadableError(StorageError):
    """The board's database cannot be read."""

    title = "The board cannot be read"


class SchedulerError(BoardError):
    """The scheduler did not answer, or answered something that cannot be understood.

    A `throttled` error is that of a controller that asks for fewer questions.
    """

    kind = "scheduler"
    title = "The scheduler failed"

    def __init__(self, message: str, *, hint: str = "", throttled: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.throttled = throttled


class SchedulerRefused(SchedulerError):
    """The scheduler understood the request and refused it, or is not available: settings or request are wrong."""

    kind = "rejected"
    exit_code = 2
    title = "The scheduler rejected the job"


class NotAvailable(SchedulerRefused):
    """This machine has no scheduler, or no configuration of it."""

    title = "The scheduler is not available"


class NotAccepting(SchedulerRefused):
    """The scheduler accepts no such job at the moment, though it may later: no job exists.

    A `full` one has reached a limit on the number of jobs, so that fewer may have room.
    """

    title = "The scheduler accepts no jobs at the moment"

    def __init__(self, message: str, *, hint: str = "", throttled: bool = False, full: bool = False) -> None:
        super().__init__(message, hint=hint, throttled=throttled)
        self.full = full


class QueueFull(SchedulerError):
    """The scheduler has no room for another job, and the last of several tries may still have found some."""

    title = "The scheduler accepts no jobs at the moment"


class AnswerTooLarge(SchedulerError):
    """The scheduler's answer has more than is read, so that a job it lacks may exist."""


class WaitExpired(BoardError):
    """The time given to wait is over; the runs go on.

    `runs` has them as they are, for a caller in Python.
    """

    kind = "timeout"
    exit_code = 4
    title = "Timed out"
    runs: Sequence[Any] = ()


class Refused(BoardError):
    """The rules of the board do not allow this."""

    kind = "refused"
    exit_code = 5
    title = "Refused"
