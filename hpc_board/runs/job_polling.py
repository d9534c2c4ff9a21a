"""Questions to schedulers about the jobs of runs, and the statuses that follow from the answers."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.run import (
    NEVER_STARTS,
    NOT_LAUNCHED,
    PROLOG_FAILED,
    REQUEUED,
    RETRIED,
    RETRY,
    JobState,
    JobStatus,
    Retry,
    Run,
    RunState,
    Status,
    grouped_by_array,
    next_status,
    since_created,
)
from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.runs import job_folder
from hpc_board.runs.clusters import ClusterTable, last_words
from hpc_board.runs.dispatch import ARRAY_LEAST, drawn_nonce, drawn_tokens
from hpc_board.runs.job_results import JobResults, Leftover
from hpc_board.schedulers import Nodes
from hpc_board.store import Store


class Poll(msgspec.Struct, frozen=True):
    """A question to the scheduler of `cluster` about its jobs, its duration, and whether there was an answer."""

    cluster: str
    took_seconds: float
    answered: bool


class JobPolling(msgspec.Struct, frozen=True):
    """The questions to the schedulers of `clusters`; the caller holds the lock of the asked one."""

    store: Store
    clusters: ClusterTable
    results: JobResults

    def ask(
        self, cluster: str, runs: Sequence[Run], asked: Callable[[Poll], object], *, runners: bool
    ) -> list[SchedulerError]:
        """Advance `runs` by the answer of their cluster's scheduler; return the errors of a silent one.

        `asked` is called with the question; `runners` is whether the cluster may have any.
        """
        members = [run for run in runs if run.status.job_id and run.status.runner is None]
        live = self.store.runners.live(cluster) if runners else ()
        keys = [self.clusters.job_key(run) for run in members]
        keys += self.clusters.runners().keys(live) if live else []
        if not keys:
            return []
        errors: list[SchedulerError] = []
        began = time.monotonic()
        news: Mapping[str, JobStatus] = {}
        try:
            news = self.clusters.schedulers[cluster].poll(keys)
        except SchedulerError as error:
            errors.append(error)
        asked(Poll(cluster, time.monotonic() - began, not errors))
        has_news = bool(live) and self.clusters.runners().take_in(live, news)
        try:
            has_news = self._take_in(members, news) or has_news
        except SchedulerError as error:
            errors.append(error)
        if errors:
            self.clusters.note_silence(cluster, time.monotonic() - began, errors)
        else:
            self.clusters.settle(cluster, news=has_news)
        return errors

    def look_at_runners(self, runs: Sequence[Run]) -> tuple[list[Run], list[SchedulerError]]:
        """Advance those of `runs` that are at runners by their queues; return those that have not ended, and errors."""
        at_runners = [run for run in runs if run.status.runner is not None]
        errors: list[SchedulerError] = []
        news, came_back = self.clusters.runners().look(at_runners)
        try:
            self._take_in([run for run in at_runners if run not in came_back], news)
        except SchedulerError as error:
            errors.append(error)
        now = self.store.runs.numbered([run.id for run in at_runners])
        moved = [now.get(run.id, run) for run in runs]
        return [run for run in moved if not run.state.ended], errors

    def _take_in(self, members: Sequence[Run], news: Mapping[str, JobStatus]) -> bool:
        """Advance `members` by the statuses of their jobs, and return whether the state of any changed.

        Raises:
            SchedulerError: the scheduler did not answer to a cancellation.
        """
        # In one transaction: thousands of jobs may begin to wait at once.
        changed: dict[int, Status] = {}
        failed: dict[int, tuple[Status, int]] = {}
        told = [(run, self._apply(run, news[run.token], changed, failed)) for run in members if run.token in news]
        self.store.runs.record_each(changed)
        # A cancellation that met a silent scheduler is repeated until the job ends.
        unwanted = [
            run
            for run, status in told
            if _is_active(news.get(run.token)) and (run.status.cancel_requested or status.reason.startswith(REQUEUED))
        ]
        if unwanted:
            self.clusters.cancel(unwanted)
        if failed:
            self._send_again([run for run in members if run.id in failed], failed)
        return any(run.state is not status.state for run, status in told)

    def _send_again(self, runs: Sequence[Run], ended: Mapping[int, tuple[Status, int]]) -> None:
        """Give each of these runs, whose jobs the cluster failed, a new job: another name, nonce and folder.

        `ended` has the end of each run's job, and how often it was sent again before. Three members of an array, or
        more, are one again.

        Raises:
            SchedulerError: the scheduler does not tell of the old jobs; the runs keep their states.
        """
        # A job that the scheduler holds, or has put back into its queue, would run beside the new one.
        self.clusters.cancel(runs)
        batches = []
        for group in grouped_by_array(runs):
            numbers = [run.id for run in group]
            # A throttle holds only within an array.
            least = 2 if group[0].options.max_running else ARRAY_LEAST
            batches += [numbers] if len(numbers) >= least else [[number] for number in numbers]
        tokens = drawn_tokens(batches)
        retries = {}
        for run in runs:
            end, tries = ended[run.id]
            where = f" on {end.node}" if end.node else ""
            why = f": {end.reason}" if end.reason else ""
            reason = f"{RETRY} {tries + 1} of {self.clusters.retries(run)} after {end.state}{where}{why}"
            status = Status(RunState.CREATED, utc_now(), reason=reason, source=end.source)
            retries[run.id] = Retry(tokens[run.id], drawn_nonce(), status)
        self.store.runs.retry_each(retries)

    def _tries(self, run: Run, restarts: int | None) -> int:
        """Return how often a run's job was sent again, by hpc-board or by the scheduler.

        `restarts` is the scheduler's count for the present job, None if it tells none; the history has requeues of
        earlier ones.
        """
        history = self.store.runs.history(run.id)
        seen = _requeues([*since_created(history)][::-1])
        return run.failures + _requeues(history) - seen + (seen if restarts is None else restarts)

    def _requeue_counted(self, run: Run, news: JobStatus) -> JobStatus:
        """Return `news` of a requeued job with its count, or as an end if it was requeued more often than allowed."""
        too_many = run.status.reason.startswith(REQUEUED)
        if run.status.cancel_requested or not (too_many or news.restarts):
            return news
        most = self.clusters.retries(run)
        if not most:
            return news
        if too_many:
            ended = news.state in (JobState.CANCELLED, JobState.ENDED, JobState.MISSING)
            return replace(news, state=JobState.PREEMPTED if ended else news.state, reason=run.status.reason)
        if not _is_active(news) or news.launch_failed:
            return news
        tries = self._tries(run, news.restarts or 0)
        if tries > most:
            return replace(news, reason=f"{REQUEUED} {news.restarts} times, but `retries` allows {most}")
        if news.state is JobState.PENDING:
            retry = f"{RETRY} {tries} of {most} by the scheduler"
            parts = (news.reason, retry) if news.reason.startswith(NEVER_STARTS) else (retry, news.reason)
            return replace(news, reason="; ".join(parts))
        return news

    def _launch_explained(self, run: Run, news: JobStatus) -> JobStatus:
        """Return `news`, as a failed node if the job's script was never started, and not by a user's wish.

        Slurm cancels the job of a failed prolog, or puts it back and holds it.
        """
        if run.status.cancel_requested:
            return news
        reason = ""
        held = NOT_LAUNCHED in run.status.reason and run.failures < self.clusters.retries(run)
        if held and (news.state is JobState.CANCELLED or (news.state is JobState.PENDING and news.launch_failed)):
            reason = f"the job {NOT_LAUNCHED}"
        elif news.state is JobState.CANCELLED or (
            news.state is JobState.ENDED and (news.launch_failed or NOT_LAUNCHED in run.status.reason)
        ):
            try:
                reason = self._launch_failure(run, news)
            except SchedulerError:
                # An unanswered question ends no run.
                return replace(news, state=JobState.UNKNOWN)
        return replace(news, state=JobState.NODE_FAIL, reason=reason) if reason else news

    def _launch_failure(self, run: Run, news: JobStatus) -> str:
        """Return why the script of an ended job was never started; empty if it may have been.

        Raises:
            SchedulerError: the scheduler does not tell of the job's node.
        """
        folders, log = self.clusters.folders_of(run), self.clusters.log_end(run)
        if folders.files.is_file(folders.of(run) / job_folder.PROGRESS):
            return ""
        if failure := self.clusters.kind(run.cluster).launch_failure(log):
            return failure
        if log:
            return ""
        if news.state is JobState.ENDED:
            return f"the job {NOT_LAUNCHED}"
        if run.status.reason.startswith(PROLOG_FAILED):
            return run.status.reason
        scheduler = self.clusters.schedulers[run.cluster]
        with suppress(SchedulerRefused):
            return scheduler.prolog_failure(news.node) if news.node and isinstance(scheduler, Nodes) else ""
        return ""

    def _apply(
        self, run: Run, news: JobStatus, changed: dict[int, Status], failed: dict[int, tuple[Status, int]]
    ) -> Status:
        """Return the run's new status: stored if it ends the run, else put into `changed` if changed.

        An end after which the run is sent again is put into `failed`, with the number of its tries.
        """
        news = self._requeue_counted(run, self._launch_explained(run, news))
        # A pending job's folder tells nothing, and thousands may be pending.
        left = Leftover() if news.state is JobState.PENDING else self.results.left(run)
        if left.whole:
            # It has arrived since the folder was read: the next pass takes it.
            return run.status
        partial, result_problem = left.partial, left.result_problem
        if partial is not None and news.restarts is not None and partial.restart_count != news.restarts:
            # The progress of an earlier attempt does not explain this one.
            partial = None
        if run.status.cancel_requested:
            news = _of_unwanted(run, news)
        if partial is not None and news.state is JobState.MISSING:
            result_problem = f"{job_folder.RESULT} belongs to a job that was stopped"
        status = next_status(
            run.status,
            news,
            utc_now(),
            result_grace=self.clusters.kind(run.cluster).result_grace,
            interrupted=partial is not None,
            result_problem=result_problem,
            unreadable=left.unreadable,
        )
        retries = self.clusters.retries(run) if status.state in RETRIED and not run.status.cancel_requested else 0
        # A job that is held after its launch failed was put back once more, and did not run again.
        restarts = None if news.restarts is None else max(0, news.restarts - (NOT_LAUNCHED in news.reason))
        over = status.reason.startswith(REQUEUED)
        if not over and retries > run.failures and retries > (tries := self._tries(run, restarts)):
            failed[run.id] = status, tries
        elif status.state.ended:
            log = self.clusters.log_end(run)
            exceeded = self.clusters.kind(run.cluster).memory_exceeded(log)
            # Slurm 26.05 cancels a job whose step exceeds its memory.
            unasked = () if run.status.cancel_requested else (RunState.CANCELLED,)
            if exceeded and status.state in (RunState.ERROR, RunState.OUT_OF_MEMORY, *unasked):
                status = replace(status, state=RunState.OUT_OF_MEMORY, reason=exceeded)
            if partial is not None:
                self.store.runs.stop(run.id, status, partial)
            else:
                self.store.runs.record(run.id, replace(status, source=f"{status.source}{last_words(log)}"))
        elif status != run.status:
            changed[run.id] = status
        return status


def _of_unwanted(run: Run, news: JobStatus) -> JobStatus:
    """Return `news` of the job of a run that is to be cancelled, whose end is the cancellation."""
    if news.state in (JobState.ENDED, JobState.MISSING):
        # squeue does not list a cancelled task of an array that waited.
        news = replace(news, state=JobState.CANCELLED)
    if news.unlisted:
        # Accounts that never answer would keep a user from giving the run up.
        news = replace(news, state=JobState.MISSING)
    known = (JobState.COMPLETING, JobState.CANCELLED, JobState.MISSING)
    return replace(news, reason=run.status.reason) if _is_active(news) or news.state in known else news


def _requeues(history: Sequence[Status]) -> int:
    """Return how often the job of a run was seen to go from running back into the queue; `history` is oldest first.

    A job that was missing from an answer did not. One whose launch failed is held there, and has had no further try.
    """
    count, began = 0, False
    for status in history:
        # A further job begins anew.
        began = (began or status.state is RunState.RUNNING) and status.state is not RunState.CREATED
        if status.state is RunState.QUEUED:
            count += began and NOT_LAUNCHED not in status.reason
            began = False
    return count


def _is_active(news: JobStatus | None) -> bool:
    """Return whether a job is pending or running, so that a cancellation has not taken effect."""
    return news is not None and news.state in (JobState.PENDING, JobState.RUNNING)
