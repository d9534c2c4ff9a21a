"""CPU contention: other processes' use of this node's processors, as far as the kernel accounts for it."""

import os
import time
from contextlib import suppress
from pathlib import Path

from hpc_board.harness.processes.tree import descendants_of, stat_fields

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq and steal of proc_stat(5); guests are counted as users already."""


class OtherWork:
    """CPU time of other processes since this was created, on the processors that this process may use."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._processors = os.sched_getaffinity(0)
        self._others = self._others_seconds()

    def processors(self) -> float:
        """Return the mean number of processors that others kept busy; 0 if the kernel does not account for it.

        The accounting is in ticks of about a hundredth of a second: a few ticks prove nothing.
        """
        now = self._others_seconds()
        seconds = time.monotonic() - self._since
        if now is None or self._others is None or seconds <= 0:
            return 0.0
        return max(0.0, now - self._others) / seconds

    def _others_seconds(self) -> float | None:
        """Return the CPU time of all but this process and its descendants, to within a tick for each processor."""
        all_ticks = _busy_ticks(self._processors)
        return None if all_ticks is None else (all_ticks - _own_ticks()) / _TICKS_PER_SECOND


def _busy_ticks(processors: set[int]) -> int | None:
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        rows = [line.split() for line in lines if line.startswith("cpu")]
        fields = {int(name[3:]): ticks for name, *ticks in rows if name[3:]}
        return sum(int(fields[number][field]) for number in processors for field in _BUSY_FIELDS)
    except (OSError, ValueError, LookupError):
        return None


def _own_ticks() -> int:
    """Return utime, stime, cutime and cstime of proc_pid_stat(5), for this process and all its descendants.

    Descendants that have ended are included.
    """
    total = 0
    for pid in (os.getpid(), *descendants_of(os.getpid())):
        with suppress(OSError):
            total += sum(map(int, stat_fields(pid)[11:15]))
    return total
