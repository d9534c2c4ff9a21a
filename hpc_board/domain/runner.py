"""Runners: jobs that hold a GPU, and judge runs one after another."""

from datetime import datetime, timedelta

import msgspec

from hpc_board.domain.run import NEVER_STARTS, RunState, Status

LEAST_SECONDS = 120
"""The time left up to which a runner takes runs, also those with a longer limit: few need as much.

A run that does is sent again as a job of its own.
"""

_MARGIN_SECONDS = 30
"""The time that a runner needs to begin, and by which the clocks of its node and of this machine may differ."""


class Runner(msgspec.Struct, frozen=True):
    """A job on `gpu` that judges the runs of `user`, and ends `seconds` after its start or once idle for long.

    A board's own runner has no `user`, and judges those of all.

    `token` is the job's unique name, `request` a hash of all that its runs have in common, and `account` the owner of
    the job if it is not `user`. `started_at` is the start of the job, None before; `runs` counts those that it was
    given. `reused` marks one that a request found instead of starting another.
    """

    id: int
    user: str
    gpu: str
    cluster: str
    partition: str
    token: str
    request: str
    seconds: int
    idle_seconds: int
    harness_sha256: str
    created_at: datetime
    status: Status
    account: str = ""
    started_at: datetime | None = None
    runs: int = 0
    reused: bool = False

    @property
    def state(self) -> RunState:
        """Return the state of the job; a runner that has ended by itself is `finished`."""
        return self.status.state

    @property
    def why(self) -> str:
        """Return the reason for the state, or else the state."""
        return self.status.reason or str(self.state)

    @property
    def never_starts(self) -> bool:
        """Return whether the scheduler says, or has said before the end, that it will not start the job."""
        return self.started_at is None and self.status.reason.startswith(NEVER_STARTS)

    @property
    def takes_runs(self) -> bool:
        """Return whether the job runs, or is in the queue and may start, and is not to end."""
        may_start = self.state is RunState.QUEUED and not self.never_starts
        return (may_start or self.state is RunState.RUNNING) and not self.status.cancel_requested

    @property
    def is_ending(self) -> bool:
        """Return whether the job takes no more runs, and ends by itself."""
        return self.state is RunState.COLLECTING or self.status.cancel_requested

    @property
    def ends_at(self) -> datetime | None:
        """Return the latest end of a job that has started."""
        return None if self.started_at is None else self.started_at + timedelta(seconds=self.seconds)

    def held_seconds(self, now: datetime) -> float:
        """Return the time for which the job has had its GPU, at most its time limit: its end may be seen late."""
        if self.started_at is None:
            return 0.0
        until = self.status.at if self.state.ended else now
        return min(self.seconds, max(0.0, (until - self.started_at).total_seconds()))

    def left_seconds(self, now: datetime) -> float:
        """Return the time that is left, all of it before the start and after a clock was set back."""
        left_seconds = self.seconds if self.ends_at is None else (self.ends_at - now).total_seconds()
        return float(min(self.seconds, max(0.0, left_seconds)))

    def has_time(self, now: datetime, seconds: int = LEAST_SECONDS) -> bool:
        """Return whether enough time is left for a run with a time limit of `seconds`, by default for any."""
        return min(seconds, LEAST_SECONDS) + _MARGIN_SECONDS <= self.left_seconds(now)

    def fits(self, gpu: str, request: str, seconds: int, now: datetime) -> bool:
        """Return whether it may judge a run on `gpu` with this request and a time limit of `seconds`."""
        return (self.gpu, self.request) == (gpu, request) and self.has_time(now, seconds)
