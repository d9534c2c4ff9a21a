"""Usage statistics of a board: submissions, waiting times, run times and users."""

import math
from datetime import datetime

import msgspec

_DIGITS = 3


class GpuStatistics(msgspec.Struct, frozen=True):
    """The numbers of runs on one GPU: all, the passed ones, and those of them with a score.

    `started` runs have a known wait from the submission to the start; its median has three digits.
    """

    gpu: str
    runs: int
    passed: int
    scored: int
    started: int
    wait_median_s: float | None
    wait_max_s: float | None
    run_total_s: float


class UserStatistics(msgspec.Struct, frozen=True):
    """The submissions of one user, and their total run time."""

    user: str
    submissions: int
    runs: int
    run_total_s: float


class Statistics(msgspec.Struct, frozen=True):
    """The usage of a board since a time, or ever; `waiting` runs have not ended, `top_users` ran longest."""

    since: datetime | None
    tasks: tuple[str, ...]
    submissions: int
    runs: int
    waiting: int
    users: int
    unique_codes: int
    gpus: tuple[GpuStatistics, ...]
    top_users: tuple[UserStatistics, ...]


class Waits:
    """Lengths of time with their median, in memory that does not grow with them: each is kept to three digits."""

    def __init__(self) -> None:
        self.count = 0
        self.max_s: float | None = None
        self._counts: dict[float, int] = {}

    def add(self, seconds: float) -> None:
        """Add a waiting time, which is not negative."""
        self.count += 1
        self.max_s = seconds if self.max_s is None else max(self.max_s, seconds)
        kept = three_digits(seconds)
        self._counts[kept] = self._counts.get(kept, 0) + 1

    @property
    def median_s(self) -> float | None:
        """Return the median, of an even number the lower of the two in the middle; None without values."""
        passed = 0
        for seconds in sorted(self._counts):
            passed += self._counts[seconds]
            if 2 * passed >= self.count:
                return seconds
        return None


def three_digits(seconds: float) -> float:
    """Round to three significant digits, and to milliseconds."""
    if seconds < 0.001:
        return 0.0
    return round(seconds, min(3, _DIGITS - 1 - math.floor(math.log10(seconds))))
