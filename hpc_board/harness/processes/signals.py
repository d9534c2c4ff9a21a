"""Signals that tell a supervisor to end: heeded while it evaluates, held back while it writes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals that schedulers, `scancel` and terminals send to end a job."""

SIGNAL_GRACE_SECONDS = 1.0
"""Time to wait for a signal to this process after a child was ended by one of `SIGNALS`, or continued by SIGCONT.

Some schedulers signal each process of a job, Slurm with SIGCONT before SIGTERM. A worker's death, or its awakening, may
be seen before the signal to this process, and is then not a fault of the submission.
"""


def signal_name(number: int) -> str:
    """Return the name of a signal, "unknown" for one without a name, such as a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


class Suspensions:
    """The number of times that this process was continued after a stop, so far.

    A scheduler that suspends a job stops each of its processes, and continues each, also those that the supervisor has
    stopped. Time goes on meanwhile, so that deadlines pass and stopped workers run without any doing of a submission.
    """

    def __init__(self) -> None:
        self.count = 0
        signal.signal(signal.SIGCONT, self._continued)

    def _continued(self, _number: int, _frame: Any) -> None:
        self.count += 1


class Interrupted(BaseException):
    """The signal with this number told the job to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.name = signal_name(number)


class Interruption:
    """The first signal that tells this process to end; later ones change nothing."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._raises = False
        for number in SIGNALS:
            signal.signal(number, self._arrived)

    @property
    def status(self) -> int:
        """Return the exit status of a process that was told to end; 0 if it was not, or too late to matter."""
        return 0 if self._number is None else 128 + self._number

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Raise `Interrupted` within this block as soon as the signal arrives, or at once if it has arrived already."""
        self._raises = True
        try:
            if self._number is not None:
                raise Interrupted(self._number)
            yield
        finally:
            self._raises = False

    def _arrived(self, number: int, _frame: Any) -> None:
        if self._number is None:
            self._number = number
            if self._raises:
                raise Interrupted(number)
