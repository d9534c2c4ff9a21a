"""Runs: one submission on one GPU, and the states that it goes through."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from hpc_board.domain.moderation import NO_REMARKS, Remarks
from hpc_board.model.result import Verdict
from hpc_board.model.score import Interval
from hpc_board.model.task import Mode


class RunState(StrEnum):
    """Where a run stands. Only `finished` has a verdict; `error` means that our machinery failed."""

    CREATED = "created"
    SUBMITTING = "submitting"
    QUEUED = "queued"
    RUNNING = "running"
    COLLECTING = "collecting"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    LOST = "lost"
    ERROR = "error"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to the run."""
        return self in _ENDED

    @property
    def unsent(self) -> bool:
        """Whether the scheduler is not known to have a job for the run."""
        return self in (RunState.CREATED, RunState.SUBMITTING)


_ENDED = frozenset(
    {
        RunState.FINISHED,
        RunState.CANCELLED,
        RunState.TIMEOUT,
        RunState.OUT_OF_MEMORY,
        RunState.NODE_FAIL,
        RunState.PREEMPTED,
        RunState.LOST,
        RunState.ERROR,
    }
)


class JobState(StrEnum):
    """What a scheduler says of a job, in one vocabulary for all schedulers.

    `missing` means that the scheduler answered and does not know the job (any more), which proves nothing by itself.
    """

    PENDING = "pending"
    RUNNING = "running"
    COMPLETING = "completing"
    ENDED = "ended"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    NODE_FAIL = "node_fail"
    PREEMPTED = "preempted"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobStatus:
    """The status of a job, as a scheduler reported it; `source` is its own words ("squeue: PENDING (Priority)").

    `restarts` counts how often it put the job back into the queue after it had begun, None where it does not say.
    """

    state: JobState
    job_id: str = ""
    reason: str = ""
    node: str = ""
    source: str = ""
    expected_start: datetime | None = None
    restarts: int | None = None


@dataclass(frozen=True)
class Status:
    """The state of a run, since when, and why. Each change is stored as one more row, none is overwritten.

    `unanswered` says that nobody knows whether the scheduler has the job; `source` is then what came instead of its
    answer. `cancel_requested` holds from the wish to cancel on, however long nobody can find the job.
    """

    state: RunState
    at: datetime
    job_id: str = ""
    node: str = ""
    reason: str = ""
    source: str = ""
    expected_start: datetime | None = None
    ended_in_queue_at: datetime | None = None
    unanswered: bool = False
    cancel_requested: bool = False

    def moved(self, state: RunState, now: datetime) -> "Status":
        """This status in `state`: since `now`, or since it was there before."""
        return self if state is self.state else replace(self, state=state, at=now)


@dataclass(frozen=True)
class Progress:
    """One line of what the harness says while it works, for example phase "benchmark", case 2 of 5."""

    at: str
    phase: str
    case: int | None
    of: int | None
    message: str


@dataclass(frozen=True)
class Run:
    """One submission on one GPU in one mode; its number is 0 where it is in no store.

    `token` is the job's unique name, stored before the scheduler hears of it: "hb-0123456789abcdef", or with an index
    after a dot where the run is made for a job array, whose name stands before the dot. `nonce` comes back in the
    result.
    `trust` says under whose account the job runs: `self-run` (the participant's own) or `verified`.
    `account` is whose jobs these are where that is not `user`, who is shown and ranked. `note` is what the user said
    of the submission when it was sent, `remarks` what was said of it since; `milestone` is the name under which an
    author shows it beside the ranks, empty for everybody else's. `verdict`, `message` and `score_s` are set once the
    run is finished; `interval`, that of the score, where it has one; `ended_at` where its job's own clock can be
    believed.
    """

    id: int
    submission: int
    task: str
    task_version: str
    user: str
    file_name: str
    gpu: str
    cluster: str
    partition: str
    mode: Mode
    token: str
    nonce: str
    trust: str
    emulated: bool
    created_at: datetime
    status: Status
    code_sha256: str = ""
    harness_sha256: str = ""
    note: str = ""
    verdict: Verdict | None = None
    message: str = ""
    score_s: float | None = None
    interval: Interval | None = None
    ended_at: datetime | None = None
    milestone: str = ""
    account: str = ""
    remarks: Remarks = NO_REMARKS

    @property
    def runs_as(self) -> str:
        """Whose jobs these are: nobody else can send, find or end them."""
        return self.account or self.user

    @property
    def state(self) -> RunState:
        """The state that the run is in."""
        return self.status.state

    @property
    def stored(self) -> bool:
        """Whether a board knows the run, so that it can be asked for by its number."""
        return self.id != 0

    @property
    def array(self) -> str:
        """The name of the job array that the run is made for; empty where it has a job of its own."""
        return array_of(self.token)

    @property
    def array_index(self) -> int:
        """The run's index in its array."""
        return int(self.token.rpartition(".")[2])

    @property
    def explanation(self) -> str:
        """Why the run is where it is: its result's message, else what the scheduler and the job folder showed."""
        return self.message or "; ".join(filter(None, (self.status.reason, self.status.source)))

    @property
    def blocked_by(self) -> str:
        """The reason why an unsent run is not in its queue; empty where none is known."""
        if self.status.unanswered:
            return self.status.source
        return self.explanation if self.state is RunState.CREATED else ""

    @property
    def never_starts(self) -> str:
        """The scheduler's reason why a queued run will never start, beginning with NEVER_STARTS; else empty."""
        waits = self.state is RunState.QUEUED and not self.status.cancel_requested
        return self.status.reason if waits and self.status.reason.startswith(NEVER_STARTS) else ""


NEVER_STARTS = "will never start"
"""What the reason of a pending job begins with that waits in vain."""


def array_of(token: str) -> str:
    """The name of the job array in a run's `token`; empty where it has none."""
    return token.rpartition(".")[0]


RESULT_GRACE = timedelta(seconds=60)
"""How long a result may appear after the scheduler says that the job has ended: network file systems are late."""

CANCELLED_GRACE = timedelta(seconds=5)
"""How long a cancelled job may take to leave a result that it had just written."""

MISSING_GRACE = timedelta(minutes=5)
"""How long a job may be unknown to the scheduler before it counts as lost."""

UNREADABLE = "its job has ended, and it waits until its folder can be read; cancel it to give the result up"
"""The reason of a run whose result may be there and cannot be read."""

_ENDED_AS = {
    JobState.CANCELLED: RunState.CANCELLED,
    JobState.TIMEOUT: RunState.TIMEOUT,
    JobState.OUT_OF_MEMORY: RunState.OUT_OF_MEMORY,
    JobState.NODE_FAIL: RunState.NODE_FAIL,
    JobState.PREEMPTED: RunState.PREEMPTED,
    JobState.ENDED: RunState.ERROR,
    JobState.MISSING: RunState.LOST,
}


def next_status(
    status: Status,
    news: JobStatus,
    now: datetime,
    *,
    result_grace: timedelta = RESULT_GRACE,
    interrupted: bool = False,
    result_problem: str = "",
    unreadable: bool = False,
) -> Status:
    """The status of a run without a result, after the scheduler said `news` of its job.

    A job that ended, or that the scheduler does not know, gets time for its result to become visible: `collecting`
    until the grace is over, then the state that explains the missing result. Anything unknown changes nothing. The job
    of an `interrupted` run has left its partial result, so that only the scheduler's answer is missing.
    `result_problem` names the fault of a result file that is incomplete. An `unreadable` file may hold a result: the
    run waits for it without a limit, unless a cancel was requested, and the grace begins afterwards.
    """
    known = replace(
        status,
        job_id=news.job_id or status.job_id,
        node=news.node or status.node,
        reason=news.reason,
        source="; ".join(filter(None, (news.source, result_problem))),
        expected_start=_expected_start(status.expected_start, news.expected_start, now),
        ended_in_queue_at=None,
        unanswered=False,
    )
    if news.state is JobState.UNKNOWN:
        return status
    if news.state is JobState.PENDING:
        return known.moved(RunState.QUEUED, now)
    if news.state is JobState.RUNNING:
        return known.moved(RunState.RUNNING, now)
    if news.state is JobState.COMPLETING:
        return known.moved(RunState.COLLECTING, now)
    if interrupted and news.state is not JobState.MISSING:
        return known.moved(_ENDED_AS[news.state], now)
    if unreadable and not status.cancel_requested:
        return replace(known.moved(RunState.COLLECTING, now), reason=UNREADABLE)
    since = status.ended_in_queue_at or now
    grace = MISSING_GRACE if news.state is JobState.MISSING else result_grace
    if news.state is JobState.CANCELLED:
        grace = min(grace, CANCELLED_GRACE)
    if now - since < grace:
        return replace(known.moved(RunState.COLLECTING, now), ended_in_queue_at=since)
    waited = f"{result_problem or 'no result file'} after {_duration(grace)}, since {since:%H:%M} UTC"
    source = "; ".join(filter(None, (news.source, waited)))
    return replace(known.moved(_ENDED_AS[news.state], now), source=source)


def _expected_start(known: datetime | None, told: datetime | None, now: datetime) -> datetime | None:
    """The start to show: the one that is `known` as long as the one that is `told` hardly differs.

    Slurm reckons anew every half minute, and each change of a status is a row for good.
    """
    if known is None or told is None:
        return told
    hardly = max(timedelta(minutes=1), (known - now) / 10)
    return known if abs(told - known) < hardly else told


def _duration(delta: timedelta) -> str:
    seconds = int(delta.total_seconds())
    return f"{seconds // 60} min" if seconds > 60 and seconds % 60 == 0 else f"{seconds} s"
