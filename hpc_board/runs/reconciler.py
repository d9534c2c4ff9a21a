"""The reconciler: advances runs from `created` to their end, those of a cluster in one process at a time.

A run's row is written first, then its job folder, the event `submitting`, the scheduler's job, the event `queued`. A
process that dies between two of these steps leaves a run that the next one resumes: it looks a job up by its unique
name before it sends the job again, and only after `LOOKUP_DELAY`, since an earlier command may still arrive.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import pairwise, takewhile
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.pruned import ClusterPruned, Pruned
from hpc_board.domain.result_checks import ended_at, result_faults
from hpc_board.domain.run import (
    NOT_ACCEPTED,
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
    next_status,
)
from hpc_board.domain.score_interval import score_interval
from hpc_board.errors import (
    BoardError,
    DamagedRowError,
    InputError,
    NotAccepting,
    QueueFull,
    SchedulerError,
    SchedulerRefused,
    StorageError,
)
from hpc_board.files import LOCK_SECONDS, NotRegularFileError, locked
from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.model.result import RESULT_BYTES_MAX, Result, ResultError, Verdict
from hpc_board.model.score import score_s
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line
from hpc_board.runs import job_folder
from hpc_board.runs.backoff import (
    PAUSE_FACTOR,
    SCAN_PAUSE_FACTOR,
    SCAN_PAUSE_SECONDS,
    SILENCE_SECONDS,
    Backoff,
    NextScan,
)
from hpc_board.runs.dispatch import ARRAY_LEAST, drawn_nonce, drawn_tokens
from hpc_board.runs.fair_queue import FairQueue
from hpc_board.runs.pruning import BUSY, NextPruning, Pruning
from hpc_board.schedulers import AnyKind, Arrays, Job, JobKey, Nodes, Scheduler, kind_of
from hpc_board.store import Store
from hpc_board.transport.time_budget import has_budget, is_out_of_time

LOOKUP_DELAY = timedelta(seconds=90)
"""The pause before a submission with unknown outcome is looked up and, if absent, sent again.

It exceeds the life of an sbatch whose client is lost: 60 s, and 11 s more on a login node over SSH.
"""

TRIES_MAX = 4
"""The number of tries to send a job before its run ends as an error."""

HELD_SECONDS = 30.0
"""The shortest pause between tries to send runs that the scheduler does not accept at the moment."""

HELD_SECONDS_MAX = 600.0
"""The longest such pause: it is a tenth of the time for which the oldest of these runs has waited."""

LOCK = "advance.lock"
"""The file that each holder of a cluster's lock holds shared, and `Reconciler.alone` for itself."""

_GATE = "advance.gate.lock"
"""The file that `Reconciler.alone` holds for itself while it waits, and that others pass before they take LOCK.

The kernel gives a free lock to any taker: without a gate, clients that take turns would keep LOCK shared for ever.
"""

_LAST_WORDS_BYTES = 4096
_LAST_WORDS_MAX = 160
_UNNAMED_LOCK = "advance.unnamed.lock"
_CLUSTER_CHARACTERS_MAX = 60
_TRY = "try "
_UNCONFIRMED = "the scheduler has not confirmed the job"
_CANCEL_STORED = (
    "The cancellation of run {id} is stored, and takes effect as soon as the scheduler answers `hpc-board watch {id}`, "
    "`hpc-board poll` or the app."
)


def lock_name(cluster: str) -> str:
    """Return the name of a cluster's lock in the board's folder."""
    return f"advance-{cluster}.lock"


class Poll(msgspec.Struct, frozen=True):
    """A question to the scheduler of `cluster` about its jobs, the time of the answer, and whether there was one."""

    cluster: str
    took_seconds: float
    answered: bool


class Pass(msgspec.Struct, frozen=True):
    """The outcome of a pass over the runs of `clusters`.

    `asked` has the clusters whose schedulers were asked, and `polls` the questions about jobs.
    """

    clusters: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    errors: tuple[BoardError, ...] = ()
    polls: tuple[Poll, ...] = ()


class _Leftover(msgspec.Struct, frozen=True):
    """The files that a job left in place of its result: a partial result, a `whole` one, or none, and the reason.

    `unreadable` means that the folder cannot be read now.
    """

    partial: Result | None = None
    whole: bool = False
    result_problem: str = ""
    unreadable: bool = False


class Reconciler(msgspec.Struct, frozen=True, dict=True):
    """Reconciliation of stored runs with their jobs.

    - `folder` is the board's folder, with locks and job folders. Each cluster has a lock, so that one that hangs delays
      no run of another.
    - `schedulers`, `clusters` and `gpus` are those of the settings, by name.
    - `harness` returns the bytes of the harness file.
    - `folders` has the clusters whose job folders lie outside `folder`.
    - `queue` holds back runs of users who have many in flight; None sends all.
    - `prune_after` is the age at which the job folders of ended runs are removed; None keeps them.
    """

    folder: Path
    store: Store
    schedulers: Mapping[str, Scheduler]
    clusters: Mapping[str, Cluster]
    gpus: Mapping[str, Gpu]
    harness: Callable[[], bytes]
    folders: Mapping[str, job_folder.Folders] = msgspec.field(default_factory=dict)
    queue: FairQueue | None = None
    prune_after: timedelta | None = None
    lookup_delay: timedelta = LOOKUP_DELAY
    lock_seconds: float = LOCK_SECONDS

    def __call__(self, watched: Collection[int] | None = None) -> bool:
        """Advance every run in flight; return False if another process is doing so.

        `watched` is that of `run_pass`.

        Raises:
            StorageError: the board cannot be written, or the lock of a cluster not be used; the runs of all others
                were advanced.
            SchedulerError: a scheduler did not answer; its runs keep their state, all others were advanced.
        """
        done = self.run_pass(watched)
        if done is not None and done.errors:
            raise done.errors[0]
        return done is not None

    def run_pass(self, watched: Collection[int] | None = None, *, clusters: Iterable[str] | None = None) -> Pass | None:
        """Advance runs like `__call__`, and return the errors; None if other processes are doing so.

        A client that waits for some runs passes them as `watched`: then only these are advanced, except when their
        schedulers may be asked or a full scan is due. `clusters` limits the pass to the runs of these.

        Raises:
            StorageError: no cluster had a turn, since a lock or the database cannot be used.
        """
        mine: list[Pass] = []
        failed: list[StorageError] = []
        for cluster in self.names if clusters is None else clusters:
            try:
                done = self._run_pass(cluster, watched)
            except StorageError as error:
                failed.append(error)
            else:
                mine += [] if done is None else [done]
        if not mine:
            if failed:
                raise failed[0]
            return None
        return Pass(
            frozenset().union(*(done.clusters for done in mine)),
            frozenset().union(*(done.asked for done in mine)),
            (*failed, *(error for done in mine for error in done.errors)),
            tuple(poll for done in mine for poll in done.polls),
        )

    @property
    def names(self) -> list[str]:
        """The clusters that take turns; runs of those that have left the settings are the first one's, or ""'s."""
        return [*self.schedulers] or [""]

    def takes(self, cluster: str, name: str) -> bool:
        """Return whether the turns of `cluster` advance the runs of the cluster `name`."""
        return cluster == (name if name in self.schedulers else self.names[0])

    def _run_pass(self, cluster: str, watched: Collection[int] | None) -> Pass | None:
        """Advance the runs of one cluster as `run_pass` does."""
        with self._lock(cluster, wait_seconds=0) as mine:
            if not mine:
                return None
            scan, began = NextScan(self.folder / f"scanned-{cluster}"), time.monotonic()
            chosen = None if watched is None or scan.due(utc_now()) else self._watched(cluster, watched)
            damaged: list[BoardError] = []
            runs = self._in_flight(cluster, damaged.append) if chosen is None else chosen
            if chosen is None and cluster == self.names[0]:
                damaged += self._mark_all_orphaned(damaged.append)
            asks = bool(runs) and not is_out_of_time() and self._backoff(cluster).due(utc_now())
            if asks:
                with _writing(self.folder):
                    self._backoff(cluster).begin(utc_now())
            self._read_folders(cluster, [run for run in runs if not run.state.unsent], watched=chosen is not None)
            sendable = self._in_turn(cluster, [run for run in runs if self._may_send(run, asks=asks)])
            polls: list[Poll] = []
            silent: list[BoardError] = []
            is_limited = bool(runs) and has_budget() and self._kind(cluster).shared
            if is_limited:
                # No command that sends a job is killed: none begins before the scheduler has just answered.
                if asks:
                    silent += self._ask_scheduler(cluster, self._in_flight(cluster), polls.append)
                silent += [] if silent or polls else self._probe(cluster, sendable)
                sendable = [] if silent or is_out_of_time() else sendable
            unsent, silent_seconds = self._launch_all(
                self._complete_arrays(cluster, sendable) if any(run.array for run in sendable) else sendable
            )
            # A damaged run stays as it is, and hinders no other; so does one whose former cluster has a broken lock.
            errors: list[BoardError] = [*dict.fromkeys(filter(_leaves_unsent, unsent)), *silent, *damaged]
            if chosen is None:
                with _writing(self.folder):
                    scan.settle(utc_now(), time.monotonic() - began)
            if asks and not is_limited:
                errors += self._ask_scheduler(cluster, self._in_flight(cluster), polls.append)
            if silent_seconds is not None:
                self._note_silence(cluster, silent_seconds)
            if chosen is None and not has_budget():
                self._prune_old(cluster)
        return Pass(frozenset({cluster}), frozenset({cluster} if asks else ()), tuple(errors), tuple(polls))

    def _probe(self, cluster: str, sendable: Sequence[Run]) -> list[SchedulerError]:
        """Ask the scheduler for jobs of unsent runs, and return the error of a silent one; any answer is as good.

        Runs of which a job may exist are looked up anyway before they are sent.
        """
        new = [run for run in sendable if run.state is RunState.CREATED]
        if not new:
            return []
        began = time.monotonic()
        try:
            _job_ids(self.schedulers[cluster], new[:1])
        except SchedulerError as error:
            self._note_silence(cluster, time.monotonic() - began)
            return [error]
        return []

    def _in_flight(self, cluster: str, damaged: Callable[[DamagedRowError], object] | None = None) -> tuple[Run, ...]:
        """Return the runs in flight of a cluster without damaged ones, which the beginning of a pass reports."""
        return self.store.runs.in_flight(cluster=cluster, damaged=damaged, skip_damaged=True)

    def _watched(self, cluster: str, ids: Collection[int]) -> Sequence[Run] | None:
        """Return the cluster's unfinished runs of `ids`; None if its scheduler may be asked for them, with all runs."""
        runs = self.store.runs.in_flight(ids, cluster=cluster, skip_damaged=True)
        return None if runs and self._backoff(cluster).due(utc_now()) else runs

    def launch(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send these new runs to their schedulers and return at most one error for each.

        If another process keeps the lock of a cluster for long, it sends the runs there.

        Raises:
            StorageError: no cluster's runs were sent, since a lock or the database cannot be used.
        """
        errors: list[BoardError] = []
        clusters = dict.fromkeys(run.cluster for run in runs)
        failed: list[StorageError] = []
        for cluster in clusters:
            try:
                errors += self._launch_on(cluster, [run for run in runs if run.cluster == cluster])
            except StorageError as error:
                failed.append(error)
        if failed and len(failed) == len(clusters):
            raise failed[0]
        return [*failed, *errors]

    def _launch_on(self, cluster: str, runs: Sequence[Run]) -> list[BoardError]:
        with self._lock(cluster, wait_seconds=self.lock_seconds) as mine:
            if not mine:
                return []
            # Another process may have sent them between their rows and this lock.
            unsent = [run for run in map(self._reload, runs) if run.state.unsent]
            errors, silent_seconds = self._launch_all(self._in_turn(cluster, unsent))
            if silent_seconds is not None and silent_seconds >= SILENCE_SECONDS:
                self._note_silence(cluster, silent_seconds)
        return errors

    def cancel(self, runs: Sequence[Run], user: str) -> Mapping[int, BoardError]:
        """Request the cancellation of `runs`, by one question to each cluster; return the errors, by run number.

        A run that has ended stays as it is. The requests are stored first, so that a later pass can repeat them for
        jobs that cannot be found or reached yet.

        An error is an InputError if the run's cluster has left the settings, a StorageError if its lock or the database
        cannot be used, and a SchedulerError if the scheduler did not answer, with a hint that the request is stored, or
        if another process holds the lock for long.
        """
        errors: dict[int, BoardError] = {}
        for cluster in dict.fromkeys(run.cluster for run in runs):
            members = [run for run in runs if run.cluster == cluster]
            try:
                errors |= self._cancel_on(cluster, members, user)
            except StorageError as error:
                errors |= dict.fromkeys((run.id for run in members), error)
        return errors

    def _cancel_on(self, cluster: str, runs: Sequence[Run], user: str) -> Mapping[int, BoardError]:
        with self._lock(cluster, wait_seconds=self.lock_seconds) as mine:
            if mine:
                return self._cancel_all(cluster, [self._reload(run) for run in runs], user)
        busy = f"another client has been busy with cluster {cluster} for {self.lock_seconds:g} s"
        return {
            run.id: SchedulerError(busy, hint=f"Try `hpc-board cancel {run.id}` again in a minute.") for run in runs
        }

    def _cancel_all(self, cluster: str, runs: Sequence[Run], user: str) -> Mapping[int, BoardError]:
        """Cancel runs of one cluster, whose lock this process holds; return the errors, by run number."""
        errors: dict[int, BoardError] = {}
        sent = []
        for run in runs:
            if run.state is RunState.CREATED:
                self._record(run, RunState.CANCELLED, reason=f"cancelled by {user} before it was sent")
            elif not run.state.ended:
                sent.append(run)
        if cluster not in self.schedulers:
            for run in sent:
                errors[run.id] = InputError(
                    f"run {run.id} is on cluster {cluster}, which has left the settings",
                    hint=f"Put the cluster back, or end job {run.status.job_id} with the scheduler's own command.",
                )
            return errors
        going = self.store.runs.request_end([run.id for run in sent], _cancel_reason(user))
        sent = [self.store.runs.get(number) for number in going]
        for members, ask in (
            ([run for run in sent if not run.status.job_id], self._look_up),
            ([run for run in sent if run.status.job_id], self._cancel_jobs),
        ):
            try:
                if members:
                    ask(members)
            except SchedulerError as error:
                for run in members:
                    stored = _CANCEL_STORED.format(id=run.id)
                    hint = f"{error.hint} {stored}" if isinstance(error, SchedulerRefused) else stored
                    errors[run.id] = type(error)(error.message, hint=hint)
        return errors

    def _cancel_jobs(self, runs: Sequence[Run]) -> None:
        self.schedulers[runs[0].cluster].cancel([_key(run) for run in runs])

    def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        """Remove the job folders of runs that ended `before` that time, and unused harnesses, on all clusters.

        A `dry_run` only counts them. A cluster whose lock another process keeps for long has a problem.
        """
        return Pruned(before, dry_run, {name: self._prune_on(name, before, dry_run=dry_run) for name in self.names})

    def _prune_on(self, cluster: str, before: datetime, *, dry_run: bool) -> ClusterPruned:
        pruning = self._pruning(cluster, before)
        if dry_run:
            return self._without_harnesses(cluster, pruning.sizes(pruning.find()), dry_run=True)
        lock = partial(self._lock, cluster, wait_seconds=self.lock_seconds)
        done = ClusterPruned()
        try:
            done = pruning.in_lots(lock)
            with lock() as mine:
                return self._without_harnesses(cluster, done) if mine and done.problem != BUSY else done
        except StorageError as error:
            return replace(done, problem=error.message)

    def _without_harnesses(self, cluster: str, done: ClusterPruned, *, dry_run: bool = False) -> ClusterPruned:
        needed = {run.harness_sha256 for run in self.store.runs.in_flight(skip_damaged=True)}
        sizes = self._folders_on(cluster).remove_unused_harnesses(needed, dry_run=dry_run)
        return replace(done, bytes=done.bytes + sum(sizes), harness_files=len(sizes))

    def _prune_old(self, cluster: str) -> None:
        """Remove some job folders of old runs, if the settings say so and the last time is long ago."""
        if self.prune_after is None:
            return
        following = NextPruning(self.folder / f"pruned-{cluster}")
        if following.due(utc_now()):
            removed = self._pruning(cluster, utc_now() - self.prune_after).one_lot()
            with _writing(self.folder):
                following.settle(utc_now(), removed)

    def _pruning(self, cluster: str, before: datetime) -> Pruning:
        return Pruning(
            self._folders_on(cluster),
            self.store,
            partial(self.takes, cluster),
            lambda run: self._kind(run.cluster).log_name(run.status.job_id) if run.cluster in self.clusters else "",
            before,
        )

    def asked_at(self, cluster: str) -> datetime | None:
        """Return the time of any client's last query to this cluster's scheduler."""
        return self._backoff(cluster).asked_at

    def silent_since(self, cluster: str) -> datetime | None:
        """Return the time of the first unanswered query since the last answer; None after an answer."""
        return self._backoff(cluster).silent_since

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock of all clusters, so that no other client advances runs.

        Raises:
            StorageError: another client has kept a lock for `lock_seconds`.
        """
        deadline = time.monotonic() + self.lock_seconds
        with ExitStack() as stack:
            held = stack.enter_context(_locked(self.folder / _GATE, wait_seconds=self.lock_seconds))
            left_seconds = max(0.0, deadline - time.monotonic())
            held = held and stack.enter_context(_locked(self.folder / LOCK, wait_seconds=left_seconds))
            if not held:
                raise StorageError(
                    f"another client has been advancing runs for {self.lock_seconds:g} s",
                    hint="Try again in a moment.",
                )
            stack.enter_context(self.store.file.session())
            yield

    def _reload(self, run: Run) -> Run:
        return self.store.runs.get(run.id)

    @contextmanager
    def _lock(self, cluster: str, *, wait_seconds: float) -> Iterator[bool]:
        """Hold a cluster's lock; False if another process held it, or that of all clusters, for `wait_seconds`."""
        deadline = time.monotonic() + wait_seconds
        path = self.folder / (lock_name(cluster) if _is_file_name(cluster) else _UNNAMED_LOCK)
        with ExitStack() as stack:
            with _locked(self.folder / _GATE, wait_seconds=wait_seconds, shared=True) as passed:
                left_seconds = max(0.0, deadline - time.monotonic())
                shared = partial(_locked, self.folder / LOCK, wait_seconds=left_seconds, shared=True)
                mine = passed and stack.enter_context(shared())
            left_seconds = max(0.0, deadline - time.monotonic())
            mine = mine and stack.enter_context(_locked(path, wait_seconds=left_seconds))
            if mine:
                stack.enter_context(self.store.file.session())
            yield mine

    def _mark_all_orphaned(self, damaged: Callable[[DamagedRowError], object]) -> list[StorageError]:
        """Mark the runs of clusters that have left the settings; return an error for each lock that cannot be used."""
        errors: dict[str, StorageError] = {}
        for run in self.store.runs.in_flight(outside=self.schedulers, damaged=damaged):
            try:
                self._mark_orphaned(run)
            except StorageError as error:
                errors[error.message] = error
        return [*errors.values()]

    def _mark_orphaned(self, run: Run) -> None:
        """Record that the cluster of a run has left the settings; end the run if it is unsent."""
        # A client with other settings may be sending it.
        with self._lock(run.cluster, wait_seconds=0) as mine:
            run = self._reload(run)
            if not mine or run.state.ended:
                return
            if run.state.unsent:
                reason = f"the settings no longer have cluster {run.cluster}; submit again"
                self._record(run, RunState.ERROR, reason=reason)
            else:
                reason = f"the settings no longer have cluster {run.cluster}: no scheduler is asked"
                self._read_folder(self._record(run, run.state, reason=reason, source=self._left(run).result_problem))

    def _may_send(self, run: Run, *, asks: bool) -> bool:
        """Return whether this pass sends a run; `asks` is whether it asks the run's scheduler."""
        if run.state is RunState.CREATED:
            return not self._backoff(run.cluster).rests(utc_now())
        return run.state is RunState.SUBMITTING and asks

    def _in_turn(self, cluster: str, runs: Sequence[Run]) -> list[Run]:
        """Return the runs of a cluster to send now, oldest first.

        Runs of a GPU for which the scheduler accepted none at its last try wait together, new ones behind the older
        ones, until the next try is due.
        """
        if not any(run.state is RunState.CREATED for run in runs):
            return self._admitted(runs)
        held: dict[str, list[Run]] = {}
        for run in self._in_flight(cluster):
            if _has_no_room(run):
                held.setdefault(run.gpu, []).append(run)
        resting = {gpu: waiting[0].status for gpu, waiting in held.items() if not _is_due(waiting, utc_now())}
        for run in runs:
            if run.gpu in resting and run.state is RunState.CREATED and not _is_held(run):
                self._record(run, run.state, reason=resting[run.gpu].reason, source=resting[run.gpu].source)
        return self._admitted([run for run in runs if run.gpu not in resting or run.state is not RunState.CREATED])

    def _admitted(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs that the queue lets go now, and record the reasons of the others."""
        if self.queue is None or not runs:
            return [*runs]
        admitted, reasons = self.queue.admitted(runs, self.store.runs.in_flight(skip_damaged=True))
        for run in runs:
            if run.id in reasons and run.status.reason != reasons[run.id]:
                self._record(run, run.state, reason=reasons[run.id])
        return admitted

    def _complete_arrays(self, cluster: str, runs: Sequence[Run]) -> list[Run]:
        """Drop runs whose array is incomplete: two arrays with one job name cannot be told apart."""
        chosen = {run.id for run in runs}
        going = self._in_flight(cluster)
        unsent = (run for run in going if run.array and run.state.unsent)
        parts = {run.array for run in unsent if run.id not in chosen}
        return [run for run in runs if run.array not in parts]

    def _launch_all(self, runs: Iterable[Run]) -> tuple[list[BoardError], float | None]:
        """Send these runs of one cluster; return the errors, and the seconds of its silence if it was silent.

        After that its other runs wait for a later pass: each would wait as long.
        """
        errors: list[BoardError] = []
        held: dict[str, NotAccepting] = {}
        for group in _together(runs):
            began, gpu = time.monotonic(), group[0].gpu
            if gpu not in held:
                found = self._launch(group)
            elif any(run.state is not RunState.CREATED for run in group):
                continue  # a job of theirs may exist: a later pass looks it up
            else:
                found = self._record_failure(group, held[gpu])
            for error in found:
                if isinstance(error, NotAccepting):
                    held[gpu] = error
                elif isinstance(error, QueueFull):
                    held[gpu] = NotAccepting(error.message, hint=error.hint)
                else:
                    errors.append(error)
            if any(_is_silence(each) for each in found):
                return errors, time.monotonic() - began
        return errors, None

    def _launch(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send the unsent runs of one group, and return the errors."""
        errors: list[BoardError] = []
        prepared_jobs: list[_PreparedJob] = []
        try:
            wanted = self._not_sent(runs)
        except (StorageError, SchedulerError) as error:
            return self._record_failure(runs, error)
        try:
            for sha256 in {run.harness_sha256 for run in wanted}:
                self._ensure_harness(self._folders(wanted[0]), sha256)
        except (StorageError, SchedulerError, InputError) as error:
            return self._record_failure(wanted, error)
        for run in wanted:
            try:
                prepared_jobs.append(self._prepare(run))
            except DamagedRowError as error:
                # The definition of its task, or its file: no later attempt reads them, and other runs have their own.
                errors += self._record_failure([run], InputError(error.message, hint=error.hint))
            except (StorageError, SchedulerError) as error:
                # None is sent without the others: two arrays of one name could not be told apart.
                return errors + self._record_failure(wanted, error)
            except InputError as error:
                errors += self._record_failure([run], error)
        return errors + self._send(prepared_jobs)

    def _record_failure(self, runs: Sequence[Run], error: BoardError) -> list[BoardError]:
        """Record why these runs are unsent, and return the error for each of them."""
        for run in runs:
            if isinstance(error, StorageError):
                # The disk may have room again, the database be unlocked: the run stays as it is, and is tried again.
                with suppress(StorageError):
                    self._record_problem(run, error)
            elif isinstance(error, NotAccepting):
                self._hold(self._reload(run), error)
            elif isinstance(error, InputError | SchedulerRefused):
                self._record(run, RunState.ERROR, reason=error.message, source=error.hint)
            else:
                self._record_unconfirmed(self._reload(run), error)
        return [error] * len(runs)

    def _hold(self, run: Run, error: NotAccepting) -> None:
        """Record that a run is sent later, as its scheduler accepts no such job at the moment."""
        if run.status.cancel_requested:
            self._record(run, RunState.CANCELLED, reason="cancelled before it was sent")
        elif run.state.unsent:
            self._record(run, RunState.CREATED, reason=f"{NOT_ACCEPTED}: {error.message}", source=error.hint)

    def _record_unconfirmed(self, run: Run, error: BoardError) -> None:
        """Record that the scheduler has not confirmed the job of a run that may have been sent."""
        if run.state is RunState.CREATED:
            self._record_problem(run, error)
        elif run.state is RunState.SUBMITTING:
            reason = f"{NOT_ACCEPTED}: {error.message}" if isinstance(error, QueueFull) else _UNCONFIRMED
            reason = run.status.reason if run.status.cancel_requested else reason
            self._record(run, run.state, reason=reason, source=error.message, unanswered=True)

    def _record_problem(self, run: Run, error: BoardError) -> None:
        """Record the error that keeps a run from being sent, with its hint."""
        run = self._reload(run)
        if run.state is RunState.CREATED:
            self._record(run, run.state, reason=error.message, source=error.hint)

    def _not_sent(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs to send now: none whose job exists, may still appear, or is cancelled.

        Raises:
            SchedulerError: the scheduler does not tell whether a job exists.
        """
        tried = [run for run in runs if run.state is RunState.SUBMITTING]
        found = self._look_up(tried) if tried else set()
        absent = [run for run in runs if run.id not in found]
        if any(run.state is RunState.SUBMITTING and self._waits(run) for run in absent):
            return []
        for run in absent:
            if run.status.cancel_requested:
                self._record(run, RunState.CANCELLED, reason="cancelled before it was sent")
        # A cluster that had no room for a job counts no try: it may be full for days.
        return [
            self._record(run, RunState.CREATED, reason=run.status.reason)
            if _has_no_room(run) and run.state is RunState.SUBMITTING
            else run
            for run in absent
            if not run.status.cancel_requested
        ]

    def _look_up(self, runs: Sequence[Run]) -> set[int]:
        """Find the jobs of `runs`, which are all of one cluster, record them, and return the runs' numbers.

        Raises:
            SchedulerError: the scheduler does not tell whether a job exists.
        """
        scheduler = self.schedulers[runs[0].cluster]
        try:
            job_ids = _job_ids(scheduler, runs)
        except SchedulerRefused as error:
            # A scheduler that cannot be asked proves nothing about the job.
            raise SchedulerError(error.message, hint=error.hint) from error
        found = self._store_each(
            _moved(run, RunState.QUEUED, job_id=job_ids[run.id], source="found by its name")
            for run in runs
            if run.id in job_ids
        )
        unwanted = [_key(run) for run in found if run.status.cancel_requested]
        if unwanted:
            scheduler.cancel(unwanted)
        return {run.id for run in found}

    def _waits(self, run: Run) -> bool:
        return utc_now() - run.status.at < self.lookup_delay

    def _ensure_harness(self, folders: job_folder.Folders, sha256: str) -> None:
        """Write the harness of stored runs where their jobs find it.

        Raises:
            InputError: it belongs to another version of hpc-board and does not exist there.
            StorageError: the folder cannot be written or read.
            SchedulerError: the machine of the folder cannot be reached.
        """
        if sha256 == self._harness_sha256:
            if folders.ensure_harness(self.harness()):
                needed = {run.harness_sha256 for run in self.store.runs.in_flight(skip_damaged=True)}
                folders.remove_unused_harnesses(needed)
        elif not folders.has_harness(sha256):
            raise InputError("hpc-board was updated before the run was sent; submit again")

    def _prepare(self, run: Run) -> "_PreparedJob":
        """Write the job folder of a run, and return the job."""
        gpu = self.gpus.get(run.gpu)
        if gpu is None:
            raise InputError(f"the settings no longer have GPU {run.gpu}; submit again")
        tries = 0
        if run.state is not RunState.CREATED:
            tries = _tries(self.store.runs.history(run.id))
        if tries >= TRIES_MAX:
            raise InputError(f"not accepted after {tries} tries: {run.status.source}")
        gpu = kind_of(gpu.cluster).with_job_options(gpu, run.options)
        task = self.store.submissions.task(run.task, run.task_version)
        code = self.store.submissions.code(run.code_sha256)
        path = self._folders(run).write(run, task, gpu, code=code)
        return _PreparedJob(run, gpu, path, job_folder.script(task, gpu, run.mode), tries + 1)

    def _send(self, prepared_jobs: Sequence["_PreparedJob"]) -> list[BoardError]:
        """Send runs as one array where possible, else one by one; return the errors of the unsent ones."""
        # After a limit was reached, one job alone shows whether there is room again.
        most, sent = self._throttle(prepared_jobs)
        whole = not sent and not any(_has_no_room(each.run) for each in prepared_jobs)
        script = self._array_script(prepared_jobs) if whole else None
        if script is not None:
            try:
                self._submit(self._array(prepared_jobs, script), prepared_jobs)
            except SchedulerRefused:
                # The refusal may concern arrays, or this many jobs, and not their request: the first job will show.
                pass
            except BoardError as error:
                return self._record_failure([prepared.run for prepared in prepared_jobs], error)
            else:
                return []
        errors: list[BoardError] = []
        room = max(0, most - sent) if most else None
        for prepared in prepared_jobs[len(prepared_jobs) if room is None else room :]:
            # No array went out, so that only the board can keep its tasks apart.
            self._record(prepared.run, prepared.run.state, reason=f"{prepared.max_running} of its array run at a time")
        for index, prepared in enumerate(prepared_jobs[:room]):
            try:
                self._submit(prepared.job, [prepared])
            except BoardError as error:
                # A first one that is refused as the array was speaks for all. Nor are they tried on a silent scheduler.
                passes = isinstance(error, NotAccepting)
                alone = isinstance(error, SchedulerRefused) and (script is None or index > 0) and not passes
                hindered = [prepared] if alone else prepared_jobs[:room][index:]
                errors += self._record_failure([each.run for each in hindered], error)
                if not alone:
                    break
        return errors

    def _throttle(self, prepared_jobs: Sequence["_PreparedJob"]) -> tuple[int, int]:
        """Return how many members of a throttled array may run at a time, 0 for any number, and how many were sent."""
        if not prepared_jobs or not prepared_jobs[0].run.array or not prepared_jobs[0].max_running:
            return 0, 0
        array = prepared_jobs[0].run.array
        in_flight = self._in_flight(prepared_jobs[0].run.cluster)
        return prepared_jobs[0].max_running, sum(run.array == array and not run.state.unsent for run in in_flight)

    def _array_script(self, prepared_jobs: Sequence["_PreparedJob"]) -> job_folder.ArrayScript | None:
        """Return the common array script of these runs; None if they cannot share an array."""
        if len(prepared_jobs) < 2 or not isinstance(self.schedulers[prepared_jobs[0].run.cluster], Arrays):
            return None
        first, *others = {job_folder.array_script(prepared.script, prepared.gpu) for prepared in prepared_jobs}
        return None if others else first

    def _array(self, prepared_jobs: Sequence["_PreparedJob"], script: job_folder.ArrayScript) -> Job:
        run = prepared_jobs[0].run
        path = self._folders(run).write_array(run.array, script)
        indexes = [prepared.run.array_index for prepared in prepared_jobs]
        most = prepared_jobs[0].max_running
        numbers = sorted(prepared.run.id for prepared in prepared_jobs)
        tasks = dict.fromkeys(prepared.run.task for prepared in prepared_jobs)
        return replace(
            prepared_jobs[0].job,
            name=run.array,
            folder=path,
            indexes=indexes,
            max_running=most if most < len(indexes) else 0,
            comment=job_folder.comment(prepared_jobs[0].script, f"{numbers[0]}-{numbers[-1]}", " ".join(tasks)),
        )

    def _submit(self, job: Job, prepared_jobs: Sequence["_PreparedJob"]) -> None:
        """Submit the job of these runs.

        Raises:
            BoardError: the scheduler refuses it, or the outcome is unknown.
        """
        now = utc_now()
        runs = self._store_each(
            _moved(prepared.run, RunState.SUBMITTING, source=f"{_TRY}{prepared.tries}", at=now)
            for prepared in prepared_jobs
        )
        cluster = runs[0].cluster
        job_id = self.schedulers[cluster].submit(job)
        self._store_each(
            _moved(run, RunState.QUEUED, job_id=f"{job_id}_{run.array_index}" if job.indexes else job_id)
            for run in runs
        )
        self._settle(cluster, news=True)

    def _record(
        self,
        run: Run,
        state: RunState,
        *,
        reason: str = "",
        source: str = "",
        unanswered: bool = False,
    ) -> Run:
        moved = _moved(run, state, reason=reason, source=source, unanswered=unanswered)
        return self._store_status(run, moved.status)

    def _store_status(self, run: Run, status: Status) -> Run:
        if status != run.status:
            self.store.runs.record(run.id, status)
        return replace(run, status=status)

    def _read_folders(self, cluster: str, runs: Sequence[Run], *, watched: bool) -> None:
        """Read new results from the folders of a cluster's runs; folders on another machine are read at intervals."""
        if not self._is_far(cluster):
            for run in runs:
                self._read_folder(run)
            return
        backoff = self._folder_backoff(cluster, watched=watched)
        if not runs or not backoff.due(utc_now()):
            return
        with _writing(self.folder):
            backoff.begin(utc_now())
        for run in runs:
            self._read_folder(run)
        with _writing(self.folder):
            backoff.settle(news=any(self._reload(run).state is not run.state for run in runs))

    def _is_far(self, cluster: str) -> bool:
        return cluster in self.folders and self.folders[cluster].elsewhere

    def _folder_backoff(self, cluster: str, *, watched: bool) -> Backoff:
        """Return the back-off of scans of a cluster's folders, for all runs or for the watched ones."""
        return Backoff(
            self.folder / f"looked-{cluster}{'.watched' * watched}", SCAN_PAUSE_SECONDS, pause_factor=SCAN_PAUSE_FACTOR
        )

    def _store_each(self, runs: Iterable[Run]) -> list[Run]:
        """Store the statuses of all these runs in one transaction."""
        stored = list(runs)
        self.store.runs.record_each({run.id: run.status for run in stored})
        return stored

    def _read_folder(self, run: Run) -> None:
        """Read the run's result if it exists; else notice the start of its job."""
        folders = self._folders(run)
        try:
            data = folders.read(run, job_folder.RESULT, RESULT_BYTES_MAX)
        except FileNotFoundError:
            data = b""
        except NotRegularFileError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        except OSError:
            # The run's other records mention it: alternating rows of two sources would add a row in each pass.
            return
        if not data:
            # A name without its contents is a network file system that lags behind.
            begun = run.state is RunState.QUEUED and folders.files.is_file(folders.of(run) / job_folder.PROGRESS)
            if begun and not self._ran_before(run):
                self._record(run, RunState.RUNNING, source="its progress file is there")
            return
        self._take_result(run, data)

    def _ran_before(self, run: Run) -> bool:
        """Return whether a queued run ran before: its job was requeued, and the old files prove nothing."""
        return any(status.state is RunState.RUNNING for status in _since_created(self.store.runs.history(run.id)))

    def _left(self, run: Run) -> _Leftover:
        """Return the files in place of the run's result."""
        try:
            data = self._folders(run).read(run, job_folder.RESULT, RESULT_BYTES_MAX)
        except FileNotFoundError:
            return _Leftover()
        except NotRegularFileError:
            return _Leftover(whole=True)
        except OSError as error:
            return _Leftover(
                result_problem=f"{job_folder.RESULT} cannot be read now: {error.strerror}", unreadable=True
            )
        if not data:
            return _Leftover(result_problem=f"{job_folder.RESULT} is empty")
        try:
            result = self._accepted(run, self.store.submissions.task(run.task, run.task_version), data)
        except ResultError:
            return _Leftover(whole=True)
        except DamagedRowError as error:
            return _Leftover(result_problem=_unjudged(error))
        return _Leftover(partial=result) if result.interrupted else _Leftover(whole=True)

    def _take_result(self, run: Run, data: bytes) -> None:
        try:
            task = self.store.submissions.task(run.task, run.task_version)
        except DamagedRowError:
            # The answer of the scheduler records it: alternating rows of two sources would add a row in each pass.
            return
        try:
            result = self._accepted(run, task, data)
        except ResultError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        if result.interrupted:
            # Why the job was told to end is the scheduler's to say.
            return
        if result.verdict in (Verdict.INFRA_ERROR, Verdict.CRASH):
            # A scheduler that kills a step for its memory leaves the batch script, which accounts for the judge's end.
            log = self._log_end(run)
            if exceeded := self._kind(run.cluster).memory_exceeded(log):
                self._record(run, RunState.OUT_OF_MEMORY, reason=exceeded, source=_last_words(log).removeprefix("; "))
                return
        ranked = result.verdict is Verdict.PASS and run.mode is Mode.RANKED
        node = one_line(str(result.provenance.get("node") or result.provenance.get("host", "")), 120)
        status = Status(RunState.FINISHED, utc_now(), run.status.job_id or one_line(result.job_id, 60), node)
        score = score_s(result.cases, task.ranking_by) if ranked else None
        interval = score_interval(result.cases, task.ranking_by) if ranked else None
        try:
            self.store.runs.finish(run.id, status, result, score, ended_at(result, run, status.at), interval=interval)
        except ResultError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")

    def _accepted(self, run: Run, task: Task, data: bytes) -> Result:
        """Parse `data` as the result of `run`.

        Raises:
            ResultError: the data is no result, or belongs to another run.
        """
        result, gpu = Result.from_json(data), self.gpus.get(run.gpu)
        faults = result_faults(result, run, task, gpu.device if gpu else None, self._harness_sha256)
        if faults:
            raise ResultError("; ".join(faults[:5]))
        return result

    @cached_property
    def _harness_sha256(self) -> str:
        return hashlib.sha256(self.harness()).hexdigest()

    def _ask_scheduler(
        self, cluster: str, runs: Sequence[Run], asked: Callable[[Poll], object]
    ) -> list[SchedulerError]:
        """Advance `runs` by the answer of their cluster's scheduler; return the errors of a silent one.

        `asked` is called with the question.
        """
        members = [run for run in runs if run.status.job_id]
        if not members:
            return []
        errors: list[SchedulerError] = []
        began = time.monotonic()
        news: Mapping[str, JobStatus] = {}
        try:
            news = self.schedulers[cluster].poll([_key(run) for run in members])
        except SchedulerError as error:
            errors.append(error)
        asked(Poll(cluster, time.monotonic() - began, not errors))
        # In one transaction: thousands of jobs may begin to wait at once.
        changed: dict[int, Status] = {}
        failed: dict[int, Status] = {}
        told = [(run, self._apply(run, news[run.token], changed, failed)) for run in members if run.token in news]
        self.store.runs.record_each(changed)
        # A cancellation that met a silent scheduler is repeated until the job ends.
        unwanted = [
            run
            for run, status in told
            if _is_active(news.get(run.token)) and (run.status.cancel_requested or status.reason.startswith(REQUEUED))
        ]
        try:
            if unwanted:
                self._cancel_jobs(unwanted)
            if failed:
                self._send_again([run for run in members if run.id in failed], failed)
        except SchedulerError as error:
            errors.append(error)
        if errors:
            self._note_silence(cluster, time.monotonic() - began)
        else:
            self._settle(cluster, news=any(run.state is not status.state for run, status in told))
        return errors

    def _send_again(self, runs: Sequence[Run], ended: Mapping[int, Status]) -> None:
        """Give each of these runs, whose jobs the cluster failed, a new job: another name, nonce and folder.

        `ended` has the end of each run's job. Three members of an array, or more, are one again.

        Raises:
            SchedulerError: the scheduler does not tell of the old jobs; the runs keep their states.
        """
        # A job that the scheduler holds, or has put back into its queue, would run beside the new one.
        self._cancel_jobs(runs)
        batches = []
        for group in _together(runs):
            numbers = [run.id for run in group]
            # A throttle holds within an array alone.
            least = 2 if group[0].options.max_running else ARRAY_LEAST
            batches += [numbers] if len(numbers) >= least else [[number] for number in numbers]
        tokens = drawn_tokens(batches)
        retries = {}
        for run in runs:
            end = ended[run.id]
            where = f" on {end.node}" if end.node else ""
            why = f": {end.reason}" if end.reason else ""
            reason = f"{RETRY} {self._tries(run) + 1} of {self._retries(run)} after {end.state}{where}{why}"
            status = Status(RunState.CREATED, utc_now(), reason=reason, source=end.source)
            retries[run.id] = Retry(tokens[run.id], drawn_nonce(), end, status)
        self.store.runs.retry_each(retries)

    def _retries(self, run: Run) -> int:
        """Return how often a run may be sent again."""
        gpu = self.gpus.get(run.gpu)
        return 0 if gpu is None else kind_of(gpu.cluster).with_job_options(gpu, run.options).retries

    def _tries(self, run: Run, restarts: int = 0) -> int:
        """Return how often a run's job was sent again, by hpc-board or by the scheduler.

        `restarts` is the scheduler's count for the present job; the history has requeues of earlier ones.
        """
        history = self.store.runs.history(run.id)
        seen = _requeues([*_since_created(history)][::-1])
        return run.retry + _requeues(history) - seen + max(seen, restarts)

    def _requeue_counted(self, run: Run, news: JobStatus) -> JobStatus:
        """Return `news` of a requeued job with its count, or as an end if it was requeued more often than allowed."""
        most = self._retries(run)
        if not most or run.status.cancel_requested:
            return news
        if run.status.reason.startswith(REQUEUED):
            ended = news.state in (JobState.CANCELLED, JobState.ENDED, JobState.MISSING)
            return replace(news, state=JobState.PREEMPTED if ended else news.state, reason=run.status.reason)
        if not news.restarts or not _is_active(news) or news.launch_failed:
            return news
        tries = self._tries(run, news.restarts)
        if tries > most:
            return replace(news, reason=f"{REQUEUED} {news.restarts} times, and `retries` allows {most}")
        if news.state is JobState.PENDING:
            return replace(news, reason=f"{RETRY} {tries} of {most} by the scheduler; {news.reason}")
        return news

    def _settle(self, cluster: str, *, news: bool) -> None:
        with _writing(self.folder):
            self._backoff(cluster).settle(news=news)
            if news and self._is_far(cluster):
                self._folder_backoff(cluster, watched=False).settle(news=True)
                self._folder_backoff(cluster, watched=True).settle(news=True)

    def _note_silence(self, cluster: str, seconds: float) -> None:
        with _writing(self.folder):
            self._backoff(cluster).fail(utc_now(), seconds)

    def _backoff(self, cluster: str) -> Backoff:
        settings = self.clusters[cluster]
        pause_factor = PAUSE_FACTOR if self._kind(cluster).shared else 1.0
        return Backoff(self.folder / f"asked-{cluster}", settings.poll_seconds, pause_factor=pause_factor)

    def _kind(self, cluster: str) -> AnyKind:
        return kind_of(self.clusters[cluster])

    def _launch_explained(self, run: Run, news: JobStatus) -> JobStatus:
        """Return `news`, as a failed node if the job's script was never started, and not by a user's wish.

        Slurm cancels the job of a failed prolog, or puts it back and holds it.
        """
        if run.status.cancel_requested:
            return news
        reason = ""
        held = NOT_LAUNCHED in run.status.reason and run.retry < self._retries(run)
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
        folders, log = self._folders(run), self._log_end(run)
        if folders.files.is_file(folders.of(run) / job_folder.PROGRESS):
            return ""
        if failure := self._kind(run.cluster).launch_failure(log):
            return failure
        if log:
            return ""
        if news.state is JobState.ENDED:
            return f"the job {NOT_LAUNCHED}"
        if run.status.reason.startswith(PROLOG_FAILED):
            return run.status.reason
        scheduler = self.schedulers[run.cluster]
        with suppress(SchedulerRefused):
            return scheduler.prolog_failure(news.node) if news.node and isinstance(scheduler, Nodes) else ""
        return ""

    def _apply(self, run: Run, news: JobStatus, changed: dict[int, Status], failed: dict[int, Status]) -> Status:
        """Return the run's new status: stored if it ends the run, else put into `changed` if changed.

        An end after which the run is sent again is put into `failed`.
        """
        news = self._requeue_counted(run, self._launch_explained(run, news))
        if news.state in (JobState.MISSING, JobState.ENDED) and run.status.cancel_requested:
            news = replace(news, state=JobState.CANCELLED)
        if _is_active(news) and run.status.cancel_requested:
            news = replace(news, reason=run.status.reason)
        # A pending job's folder tells nothing, and thousands may be pending.
        left = _Leftover() if news.state is JobState.PENDING else self._left(run)
        if left.whole:
            # It has arrived since the folder was read: the next pass takes it.
            return run.status
        partial, result_problem = left.partial, left.result_problem
        if partial is not None and news.restarts is not None and partial.restart_count != news.restarts:
            # The progress of an earlier attempt does not explain this one.
            partial = None
        if partial is not None and news.state is JobState.MISSING:
            result_problem = f"{job_folder.RESULT} is of a job that was told to end"
        status = next_status(
            run.status,
            news,
            utc_now(),
            result_grace=self._kind(run.cluster).result_grace,
            interrupted=partial is not None,
            result_problem=result_problem,
            unreadable=left.unreadable,
        )
        retries = self._retries(run) if status.state in RETRIED and not run.status.cancel_requested else 0
        # A job that is held after its launch failed was put back once more, and did not run again.
        restarts = (news.restarts or 0) - (NOT_LAUNCHED in news.reason)
        if retries > run.retry and retries > self._tries(run, restarts):
            failed[run.id] = status
        elif status.state.ended:
            log = self._log_end(run)
            exceeded = self._kind(run.cluster).memory_exceeded(log)
            # Slurm 26.05 cancels a job whose step exceeds its memory.
            unasked = () if run.status.cancel_requested else (RunState.CANCELLED,)
            if exceeded and status.state in (RunState.ERROR, RunState.OUT_OF_MEMORY, *unasked):
                status = replace(status, state=RunState.OUT_OF_MEMORY, reason=exceeded)
            if partial is not None:
                self.store.runs.stop(run.id, status, partial)
            else:
                self._store_status(run, replace(status, source=f"{status.source}{_last_words(log)}"))
        elif status != run.status:
            changed[run.id] = status
        return status

    def _folders(self, run: Run) -> job_folder.Folders:
        return self._folders_on(run.cluster)

    def _folders_on(self, cluster: str) -> job_folder.Folders:
        return self.folders.get(cluster) or job_folder.Folders(self.folder)

    def _log_end(self, run: Run) -> str:
        """Return the end of the job's output; empty without output."""
        name = self._kind(run.cluster).log_name(run.status.job_id)
        try:
            return self._folders(run).read(run, name, _LAST_WORDS_BYTES, end=True).decode(errors="replace")
        except OSError:
            return ""


class _PreparedJob(msgspec.Struct, frozen=True):
    """A run with a written job folder; `tries` counts the coming try too."""

    run: Run
    gpu: Gpu
    path: Path
    script: job_folder.Script
    tries: int

    @property
    def job(self) -> Job:
        """The single job of the run."""
        script = self.script
        return Job(
            self.run.token,
            self.path,
            job_folder.SCRIPT,
            self.gpu,
            script.options,
            script.time_limit_seconds,
            comment=job_folder.comment(script, str(self.run.id), self.run.task),
        )

    @property
    def max_running(self) -> int:
        """The most tasks of its array that run at a time; 0 for any number."""
        return int(self.run.options.max_running or 0)


def _together(runs: Iterable[Run]) -> Iterable[list[Run]]:
    """Group the runs by array; every other run is a group of its own."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.array or run.token, []).append(run)
    return groups.values()


def _job_ids(scheduler: Scheduler, runs: Sequence[Run]) -> dict[int, str]:
    """Return the scheduler's job ids by run number."""
    if not isinstance(scheduler, Arrays):
        ids = {run.id: scheduler.find(run.token, run.created_at) for run in runs}
        return {run: job_id for run, job_id in ids.items() if job_id is not None}
    found = scheduler.find_each([run.token for run in runs], min(run.created_at for run in runs))
    return {run.id: found[run.token] for run in runs if run.token in found}


def _moved(
    run: Run,
    state: RunState,
    *,
    job_id: str = "",
    reason: str = "",
    source: str = "",
    unanswered: bool = False,
    at: datetime | None = None,
) -> Run:
    """Return `run` in `state`, since `at` if given."""
    status = replace(
        run.status.moved(state, utc_now()),
        job_id=job_id or run.status.job_id,
        reason=reason,
        source=source,
        unanswered=unanswered,
    )
    return replace(run, status=replace(status, at=at) if at else status)


def _cancel_reason(user: str) -> str:
    """Return the reason of a run whose cancellation `user` requested; its state keeps its own time."""
    return f"cancel requested by {user} at {utc_now():%H:%M:%S} UTC"


def _unjudged(error: DamagedRowError) -> str:
    """Return the reason why a result cannot be accepted: the definition of its task cannot be read."""
    return f"{job_folder.RESULT} cannot be compared with its task: {one_line(error.message, 300)}"


def _is_file_name(cluster: str) -> bool:
    """Return whether the name of a cluster can be part of a file's; that of a stored run may be any text."""
    return 0 < len(cluster) <= _CLUSTER_CHARACTERS_MAX and "/" not in cluster and cluster.isprintable()


def _last_words(log: str) -> str:
    """Return the last line of a job's output as evidence; empty without output."""
    last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
    return f'; its output ends with "{one_line(last, _LAST_WORDS_MAX)}"' if last else ""


def _tries(history: Sequence[Status]) -> int:
    """Return the number of tries since the run was last known to have no job."""
    return sum(status.source.startswith(_TRY) for status in _since_created(history))


def _since_created(history: Sequence[Status]) -> Iterator[Status]:
    """Yield the statuses since the run was last known to have no job, newest first."""
    return takewhile(lambda status: status.state is not RunState.CREATED, reversed(history))


def _requeues(history: Sequence[Status]) -> int:
    """Return how often the job of a run was seen to go back into the queue; `history` is oldest first."""
    began = (RunState.RUNNING, RunState.COLLECTING)
    return sum(before.state in began and after.state is RunState.QUEUED for before, after in pairwise(history))


def _is_due(held: Sequence[Run], now: datetime) -> bool:
    """Return whether the next try to send these runs of a GPU is due; a clock that was set back does not put it off."""
    # A run that has waited behind others since its creation was not tried.
    last = max((run.status.at for run in held if run.status.at != run.created_at), default=None)
    if last is None:
        return True
    waited_seconds = (now - min(run.created_at for run in held)).total_seconds()
    pause_seconds = max(HELD_SECONDS, min(waited_seconds / 10, HELD_SECONDS_MAX))
    return not 0 <= (now - last).total_seconds() < pause_seconds


def _is_held(run: Run) -> bool:
    """Return whether the scheduler did not accept an unsent run when it was last tried."""
    return run.state is RunState.CREATED and _has_no_room(run)


def _has_no_room(run: Run) -> bool:
    """Return whether the scheduler accepted no job of an unsent run when it was last tried, or said so at first."""
    return run.state.unsent and run.status.reason.startswith(NOT_ACCEPTED)


def _is_silence(error: BoardError) -> bool:
    """Return whether a scheduler did not answer."""
    return isinstance(error, SchedulerError) and not isinstance(error, SchedulerRefused | QueueFull)


def _leaves_unsent(error: BoardError) -> bool:
    """Return whether `error` leaves a run unsent; a refusal ends the run."""
    return isinstance(error, StorageError) or not isinstance(error, InputError | SchedulerRefused)


def _is_active(news: JobStatus | None) -> bool:
    """Return whether a job is pending or running, so that a cancellation has not taken effect."""
    return news is not None and news.state in (JobState.PENDING, JobState.RUNNING)


def _key(run: Run) -> JobKey:
    return JobKey(run.token, run.status.job_id, run.created_at)


@contextmanager
def _locked(path: Path, *, wait_seconds: float, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a file as `locked` does; a StorageError names a file that cannot be used."""
    with ExitStack() as stack:
        with _writing(path):
            held = stack.enter_context(locked(path, wait_seconds=wait_seconds, shared=shared))
        yield held


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Translate errors of writing to `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written or locked: {error.strerror or error}",
            hint="Check that you may write the board's folder, that its disk is not full, and that it can lock files.",
        ) from error
