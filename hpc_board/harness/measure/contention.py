"""What others do on this node's processors, as far as the system's accounts tell."""

import os
import time
from contextlib import suppress
from pathlib import Path

from hpc_board.harness.processes.tree import descendants_of, stat_fields

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq and steal of proc_stat(5); guests are counted as users already."""


class OtherWork:
    """The work of others since this was made, on those processors that this process may use."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._processors = os.sched_getaffinity(0)
        self._others = self._others_seconds()

    def processors(self) -> float:
        """How many processors others have kept busy on average; 0 where the system doesn't tell.

        The accounts are kept in ticks of a hundredth of a second or so: of a few ticks, nothing can be said.
        """
        now = self._others_seconds()
        seconds = time.monotonic() - self._since
        if now is None or self._others is None or seconds <= 0:
            return 0.0
        return max(0.0, now - self._others) / seconds

    def _others_seconds(self) -> float | None:
        """What all but this process and its descendants have used so far, give or take a tick for each processor."""
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
    """utime, stime, cutime and cstime of proc_pid_stat(5), for this process and all below it: those that ended too."""
    total = 0
    for pid in (os.getpid(), *descendants_of(os.getpid())):
        with suppress(OSError):
            total += sum(map(int, stat_fields(pid)[11:15]))
    return total
