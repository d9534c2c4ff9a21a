"""The JSON of GPUs and of a board's use."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from hpc_board.domain.runner import Runner
from hpc_board.model.gpu import GpuStatus
from hpc_board.report.views import Lines, Moment, Seconds, View, view_of
from hpc_board.report.views.runs import RunnerView


class GpuView(View, frozen=True):
    """A GPU of the settings; `null` if the scheduler does not tell."""

    ATTRIBUTES: ClassVar = {
        "gpu": "gpu.name",
        "cluster": "gpu.cluster.name",
        **{name: f"gpu.{name}" for name in ("partition", "device", "emulated")},
        **{name: f"availability.{name}" for name in ("free", "total", "queued", "state")},
    }
    gpu: str
    cluster: str
    partition: str | None
    """its partition"""
    device: str
    """`cuda`, `hip` or `cpu`"""
    emulated: bool
    """true if a CPU stands in for it"""
    free: int | None
    """the number of free ones"""
    total: int | None
    """the number of all"""
    queued: int | None
    """the number of waiting jobs"""
    state: str
    """the state of the partition"""
    asked_at: Moment | None
    """the time of the numbers, where clients of the board share them"""
    problem: Lines
    """the reason why the numbers are not known, or those of an earlier query"""
    warning: str
    """the reason why jobs may fail although some are free"""
    runners: list[RunnerView]
    """the runners that hold one or wait for one, of all users, oldest first"""

    @classmethod
    def of(cls, status: GpuStatus, runners: Sequence[Runner], now: datetime) -> "GpuView":
        """Return the object of a GPU, with those of `runners` that are on it."""
        on_it = [RunnerView.of(runner, now) for runner in runners if runner.gpu == status.gpu.name]
        return view_of(cls, status, runners=on_it)


class GpuStatisticsView(View, frozen=True):
    """The runs on one GPU."""

    gpu: str
    runs: int
    """the number of runs"""
    passed: int
    """the number of those that passed"""
    scored: int
    """the number of those with a score"""
    started: int
    """the number of those that were seen to start"""
    wait_median_s: Seconds | None
    """the median time from submission to start"""
    wait_max_s: Seconds | None
    """the longest"""
    run_total_s: Seconds
    """the run time of all"""


class UserStatisticsView(View, frozen=True):
    """The submissions of one user."""

    user: str
    submissions: int
    """the number of submissions"""
    runs: int
    """the number of runs"""
    run_total_s: Seconds
    """the run time of all, on CPUs too"""
    gpu_seconds: float
    """the GPU-seconds of all: the run time, once for each GPU of the run, and the time of held GPUs without a run"""
    idle_gpu_seconds: float
    """those of held GPUs without a run"""


class StatisticsView(View, frozen=True):
    """The use of a board."""

    since: Moment | None
    """the time of the first submission that counts; `null` for all"""
    tasks: list[str]
    """the tasks that count; empty for all"""
    submissions: int
    """the number of submissions"""
    runs: int
    """the number of runs"""
    waiting: int
    """the number of runs in flight"""
    users: int
    """the number of users"""
    unique_codes: int
    """the number of different files"""
    gpu_seconds: float
    """the GPU-seconds of all runs, and of held GPUs without a run"""
    idle_gpu_seconds: float
    """the latter, with those of the runners of the board itself"""
    gpus: list[GpuStatisticsView]
    """the GPUs"""
    top_users: list[UserStatisticsView]
    """the users with most GPU-seconds, and then with most run time"""
