"""Usage statistics of a board: submissions, waiting times, run times and users."""

from datetime import datetime

import msgspec


class GpuStatistics(msgspec.Struct, frozen=True):
    """The numbers of runs on one GPU: all, the passed ones, and those of them with a score.

    `started` runs have a known wait from the submission to the start. The median of an even number of waits is the
    lower one of the two in the middle.
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
    """The submissions of a user or an entrant, as in "ada/agent-b", their GPU time, and run time on all devices.

    `idle_gpu_seconds` are those of `gpu_seconds` for which they held GPUs without a run.
    """

    user: str
    submissions: int
    runs: int
    run_total_s: float
    gpu_seconds: float
    idle_gpu_seconds: float


class Statistics(msgspec.Struct, frozen=True):
    """The usage of a board since a time, or ever.

    `waiting` runs have not ended. `idle_gpu_seconds` are those of `gpu_seconds` for which runners held GPUs without a
    run, those of the board itself, too. `top_users` have most GPU time, and then most run time.
    """

    since: datetime | None
    tasks: tuple[str, ...]
    submissions: int
    runs: int
    waiting: int
    users: int
    unique_codes: int
    gpu_seconds: float
    idle_gpu_seconds: float
    gpus: tuple[GpuStatistics, ...]
    top_users: tuple[UserStatistics, ...]
