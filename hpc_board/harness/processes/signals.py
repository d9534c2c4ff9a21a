"""How a supervisor is told to end: by signals, which it heeds where it evaluates and holds back where it writes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Those that schedulers, `scancel` and terminals send to a job that is to end."""

CHILD_GRACE_SECONDS = 1.0
"""How long to wait for a signal of one's own when a child was ended by one of these.

Some schedulers signal each process of a job. The death of a worker may be seen before that, and is no crash then.
"""


class Interrupted(BaseException):
    """The job was told to end by the signal of this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.name = signal.Signals(number).name


class Interruption:
    """The first signal that tells this process to end; later ones change nothing."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._raises = False
        for number in SIGNALS:
            signal.signal(number, self._arrived)

    @property
    def status(self) -> int:
        """The exit status of a process that was told to end, 0 where it was not, or not in time to matter."""
        return 0 if self._number is None else 128 + self._number

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Raise `Interrupted` here as soon as the signal arrives, and at once where it has arrived already."""
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
