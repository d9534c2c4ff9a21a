"""Runs: one submission on one GPU, and the states that it goes through."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import span_words, utc_now
from hpc_board.domain.job_options import NO_OPTIONS, JobOptions
from hpc_board.domain.moderation import NO_REMARKS, Remarks
from hpc_board.domain.origin import NO_ORIGIN, Origin, author_text
from hpc_board.domain.reference import Reference, Speedup
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Placing
from hpc_board.errors import BoardError, InputError
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode

RESULT_GRACE = timedelta(seconds=60)
"""The time for a result to appear after the end of the job: network file systems are late."""

CANCELLED_GRACE = timedelta(seconds=5)
"""The time for a cancelled job's result to appear, if it had just written one."""

MISSING_GRACE = timedelta(minutes=5)
"""The time after which a job that the scheduler does not know counts as lost."""


class RunState(StrEnum):
    """The state of a run. Only `finished` has a verdict; `error` means that hpc-board or the cluster failed."""

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
        """Return whether the state is final."""
        return self not in _IN_FLIGHT

    @property
    def unsent(self) -> bool:
        """Return whether the scheduler is not known to have a job for the run."""
        return self in (RunState.CREATED, RunState.SUBMITTING)


_IN_FLIGHT = (RunState.CREATED, RunState.SUBMITTING, RunState.QUEUED, RunState.RUNNING, RunState.COLLECTING)


class JobState(StrEnum):
    """The state of a job, in one vocabulary for all schedulers.

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


class JobStatus(msgspec.Struct, frozen=True):
    """The status of a job, as a scheduler reported it; `source` is its own words ("squeue: PENDING (Priority)").

    `restarts` counts how often it put the job back into the queue after it had begun, None if unknown. A job whose
    script it could not start has `launch_failed`. One of unknown state is `unlisted` if it is not in the queue.
    """

    state: JobState
    job_id: str = ""
    reason: str = ""
    node: str = ""
    source: str = ""
    expected_start: datetime | None = None
    restarts: int | None = None
    launch_failed: bool = False
    unlisted: bool = False


class Status(msgspec.Struct, frozen=True):
    """The state of a run, its time, and its reason. Each change is stored as a new row, none is overwritten.

    `unanswered` says that the submission of the job had no clear answer, so that the job may exist; `source` is then
    the output in its place. `cancel_requested` holds from the request to cancel on, even while the job cannot be found.
    `attempt` counts the attempts to send the job while the state is `submitting`, and is 0 in all others. `runner` is
    the number of the runner that judges the run, None if the run has a job of its own.
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
    attempt: int = 0
    runner: int | None = None

    def moved(self, state: RunState, now: datetime) -> "Status":
        """Return this status in `state`: since `now`, or since the run entered it."""
        return self if state is self.state else replace(self, state=state, at=now, attempt=0)


class Retry(msgspec.Struct, frozen=True):
    """A further job for a run, with its token and nonce; `status` is the run's new one, `created`.

    `failed` says that the cluster failed the job before, which the user's retries count.
    """

    token: str
    nonce: str
    status: Status
    failed: bool = True


class TimeSoFar(msgspec.Struct, frozen=True):
    """The time of a benchmark `case` while it is still measured, with the names of `Timing`."""

    case: int
    time_ns: float
    reference_ns: float | None = None

    @property
    def speedup(self) -> float | None:
        """Return the ratio of the reference's time to a call's; None if the reference was not measured."""
        return self.reference_ns / self.time_ns if self.reference_ns else None


class Progress(msgspec.Struct, frozen=True):
    """One line of the harness's progress, for example phase "benchmark", case 2 of 5.

    `timed` is the time of the case that was measured before this step.
    """

    at: str
    phase: str
    case: int | None
    of: int | None
    message: str
    timed: TimeSoFar | None = None


class Run(msgspec.Struct, frozen=True):
    """One submission on one GPU in one mode; its number is 0 if it is in no store.

    `token` is the job's unique name, stored before the scheduler hears of it: "hb-0123456789abcdef", or with an index
    after a dot if the run is made for a job array, which has the name before the dot. `nonce` comes back in the result.
    `trust` names the account of the job: `self-run` (the participant's own) or `verified`. `account` owns the jobs if
    it is not `user`, who is shown and ranked. `note` is the user's text with the submission, `remarks` are those made
    since; `options` are the user's for the job; `retry` counts the jobs before this one, whose `token` and `nonce` were
    others, and `failures` those that the cluster failed; `milestone` is the name under which an author shows it beside
    the ranks, empty for other submissions. A `fresh` run has a job of its own, and no runner. `repeats` is the number
    of the newest earlier run of an identical file; `reused` is true in the answer to a submission that did not send it.
    `verdict` and `message` are set once the run is finished; `score_s` if it passed in mode `benchmark` or `ranked`, of
    which only the latter counts in standings; `interval`, that of the score, if it has one; `ended_at` if its job's own
    clock is plausible. `reference` is that of its leaderboard, if it has one.
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
    options: JobOptions = NO_OPTIONS
    retry: int = 0
    failures: int = 0
    fresh: bool = False
    repeats: int | None = None
    reused: bool = False
    origin: Origin = NO_ORIGIN
    reference: Reference | None = None
    due_at: datetime | None = None

    @property
    def speedup(self) -> Speedup | None:
        """Return the speedup over the reference of its board; None without a score or a reference."""
        if self.reference is None or self.score_s is None:
            return None
        return self.reference.speedup(self.score_s, self.interval)

    @property
    def late_seconds(self) -> float | None:
        """Return the time by which its submission missed the deadline; None for one in time."""
        return None if self.due_at is None else (self.created_at - self.due_at).total_seconds()

    @property
    def author(self) -> str:
        """Return the name under which the run is shown: its user, with the entrant if it has one."""
        return author_text(self.user, self.origin.entrant)

    @property
    def state(self) -> RunState:
        """Return the state that the run is in."""
        return self.status.state

    @property
    def stored(self) -> bool:
        """Return whether a board stores the run, so that its number is valid."""
        return self.id != 0

    @property
    def array(self) -> str:
        """Return the name of the run's job array; empty if it has a job of its own."""
        return array_of(self.token)

    @property
    def array_index(self) -> int:
        """Return the run's index in its array."""
        return int(self.token.rpartition(".")[2])

    @property
    def explanation(self) -> str:
        """Return the reason for the run's state: its result's message, else the scheduler's or the job folder's."""
        return self.message or "; ".join(filter(None, (self.status.reason, self.status.source)))

    @property
    def blocked_by(self) -> str:
        """Return the reason why an unsent run is not in its queue; empty if none is known."""
        if self.status.unanswered:
            return self.status.source
        return self.explanation if self.state is RunState.CREATED else ""

    @property
    def never_starts(self) -> str:
        """Return the scheduler's reason why a queued run will never start, with NEVER_STARTS before it; else empty."""
        waits = self.state is RunState.QUEUED and not self.status.cancel_requested
        return self.status.reason if waits and self.status.reason.startswith(NEVER_STARTS) else ""

    def moved(
        self,
        state: RunState,
        *,
        job_id: str = "",
        reason: str = "",
        source: str = "",
        unanswered: bool = False,
    ) -> "Run":
        """Return this run in `state`."""
        status = replace(
            self.status.moved(state, utc_now()),
            job_id=job_id or self.status.job_id,
            reason=reason,
            source=source,
            unanswered=unanswered,
        )
        return replace(self, status=status)


def grouped_by_array(runs: Iterable[Run]) -> Iterable[list[Run]]:
    """Group runs by array; every other run is a group of its own."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.array or run.token, []).append(run)
    return groups.values()


def since_created(history: Sequence[Status]) -> Iterator[Status]:
    """Yield the statuses since a run was last known to have no job, newest first."""
    return takewhile(lambda status: status.state is not RunState.CREATED, reversed(history))


def unknown_run(number: int) -> InputError:
    """Return the error for a run that does not exist, or is hidden from the user."""
    return InputError(f"there is no run {number}", hint="`hpc-board runs` lists your runs.")


class WholeRun(msgspec.Struct, frozen=True):
    """A run as of one moment: its placing on its board, its result, and its history, oldest status first.

    `children` are the newest submissions that continue its own, oldest first.
    """

    run: Run
    placing: Placing | None
    result: Result | None
    history: tuple[Status, ...]
    children: tuple[int, ...] = ()


class Cancellation(msgspec.Struct, frozen=True):
    """The answer to the cancellation of a run: the run afterwards, or the error.

    `ended_before` means that the run had ended already, and was left as it is.
    """

    run: Run | None = None
    ended_before: bool = False
    error: BoardError | None = None


NOT_ACCEPTED = "not accepted at the moment"
"""The prefix of an unsent run's reason if the scheduler accepts no such job at the moment."""

FULL = f"{NOT_ACCEPTED}: no room"
"""The prefix of such a reason if there are too many jobs, so that fewer may have room."""

NEVER_STARTS = "will never start"
"""The prefix of a pending job's reason if the job will never start."""


NOT_LAUNCHED = "could not be launched"
"""The words in the reason of a pending job whose script could not be started, and that the scheduler holds."""

PROLOG_FAILED = "the node's prolog failed"
"""The first words of the reason of a job whose script was not started for that."""

RETRY = "retry"
"""The first word of the reason of a run that is sent again."""

REQUEUED = "the scheduler requeued its job"
"""The first words of the reason of a run whose job was requeued more often than its retries allow."""

RETRIED = frozenset({RunState.NODE_FAIL, RunState.PREEMPTED})
"""The ends after which a run may be sent again: the cluster took the node away, and the job is over."""


def array_of(token: str) -> str:
    """Return the name of the job array in a run's `token`; empty if it has none."""
    return token.rpartition(".")[0]


_UNLISTED = "not listed"
"""The words in the source of a status whose job is not in the queue."""

UNREADABLE = "its job has ended, but its folder cannot be read yet; cancel the run to discard its result"
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
    """Return the status of a run without a result, after the scheduler said `news` of its job.

    A job that ended, or that the scheduler does not know, gets time for its result to become visible: `collecting`
    until the grace is over, then the state that explains the missing result. Anything unknown changes nothing. The job
    of an `interrupted` run has left its partial result, so that only the scheduler's answer is missing.
    `result_problem` names the fault of a result file that is incomplete. An `unreadable` file may hold a result: the
    run waits for it without a limit, unless a cancel was requested, and the grace begins afterwards. A run that is to
    be cancelled ends as cancelled also if its job is missing.
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
        # The words of the fault may differ from time to time, and each change of a status is a row for good.
        return replace(status, source=news.source) if news.unlisted and _UNLISTED not in status.source else status
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
    waited = f"{result_problem or 'no result file'} after {span_words(grace.total_seconds())}, since {since:%H:%M} UTC"
    source = "; ".join(filter(None, (news.source, waited)))
    is_given_up = news.state is JobState.MISSING and status.cancel_requested
    end = RunState.CANCELLED if is_given_up else _ENDED_AS[news.state]
    return replace(known.moved(end, now), source=source)


def _expected_start(known: datetime | None, told: datetime | None, now: datetime) -> datetime | None:
    """Return the start to show: the `known` one unless the `told` one differs clearly.

    Slurm reckons anew every half minute, and each change of a status is a row for good.
    """
    if known is None or told is None:
        return told
    hardly = max(timedelta(minutes=1), (known - now) / 10)
    return known if abs(told - known) < hardly else told


def silence_words(cluster: str, since: datetime) -> str:
    """Return the problem of a cluster whose scheduler has not answered `since` this time."""
    return f"the scheduler of cluster {cluster} has not answered since {since:%H:%M} UTC"
