"""The reconciler: advances runs from `created` to their end, those of a cluster in one process at a time.

A run's row is written first, then its job folder, the event `submitting`, the scheduler's job, the event `queued`. A
process that dies between two of these steps leaves a run that the next one resumes: it looks a job up by its unique
name before it sends the job again, and only after `LOOKUP_DELAY`, since an earlier command may still arrive.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.pruned import ClusterPruned, Pruned
from hpc_board.domain.run import Run, RunState, silence_words
from hpc_board.domain.runner_rules import RunnerRules
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.files import LOCK_SECONDS, locked
from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.runs import job_folder
from hpc_board.runs.backoff import SILENCE_SECONDS, SharedPause
from hpc_board.runs.clusters import ClusterTable, is_throttled, writing
from hpc_board.runs.job_polling import JobPolling, Poll
from hpc_board.runs.job_results import JobResults
from hpc_board.runs.launcher import Launcher
from hpc_board.runs.pruning import BUSY, PASS_FOLDERS_MAX, Pruning
from hpc_board.schedulers import Scheduler
from hpc_board.store import Store
from hpc_board.transport.time_budget import has_budget, is_out_of_time

if TYPE_CHECKING:
    from hpc_board.runs.runners import RunnerJobs

LOOKUP_DELAY = timedelta(seconds=90)
"""The pause before a submission with unknown outcome is looked up and, if absent, sent again.

It exceeds the life of an sbatch whose client is lost: 60 s, and 11 s more on a login node over SSH.
"""

_LAUNCH_SECONDS_MAX = 60.0
"""The time after which a pass leaves unsent runs to the next one: results and cancellations wait for its end."""

_SCAN_PAUSES = 9.0
"""The pause after a scan of all runs, as a multiple of its length: scans take a tenth of the time."""

_SCAN_PAUSE_SECONDS_MIN = 1.0
_SCAN_PAUSE_SECONDS_MAX = 60.0
_PRUNING_PAUSE_SECONDS = 3600.0
_PRUNING_PAUSE_SECONDS_MIN = 60.0
"""The pause after a pass has removed the most folders that one may."""

_CANCEL_STORED = (
    "The cancellation of run {id} is stored, and takes effect as soon as the scheduler answers `hpc-board watch {id}`, "
    "`hpc-board poll` or the app."
)

_LOCK = "advance.lock"
"""The file that each holder of a cluster's lock holds shared, and `ClusterLocks.all` for itself."""

_GATE = "advance.gate.lock"
"""The file that `ClusterLocks.all` holds for itself while it waits, and that others pass before they take _LOCK.

The kernel gives a free lock to any taker: without a gate, clients that take turns would keep _LOCK shared for ever.
"""

_ORPHANED = "cluster {} is no longer in the settings"
"""The reason of a run whose cluster has left them."""

_CLUSTER_CHARACTERS_MAX = 60


class Pass(msgspec.Struct, frozen=True):
    """The outcome of a pass over the runs of `clusters`.

    `asked` has the clusters whose schedulers were asked, and `polls` the questions about jobs.
    """

    clusters: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    errors: tuple[BoardError, ...] = ()
    polls: tuple[Poll, ...] = ()


class ClusterLocks(msgspec.Struct, frozen=True):
    """The locks in the board's `folder`; each holder has a connection to the database of `store`.

    `seconds` is the time for which `all` waits for other clients.
    """

    folder: Path
    store: Store
    seconds: float = LOCK_SECONDS

    @contextmanager
    def all(self) -> Iterator[None]:
        """Hold the lock of all clusters, so that no other client advances runs.

        Raises:
            StorageError: another client has kept a lock for `seconds`.
        """
        deadline = time.monotonic() + self.seconds
        with ExitStack() as stack:
            held = stack.enter_context(_locked(self.folder / _GATE, wait_seconds=self.seconds))
            left_seconds = max(0.0, deadline - time.monotonic())
            held = held and stack.enter_context(_locked(self.folder / _LOCK, wait_seconds=left_seconds))
            if not held:
                raise StorageError(
                    f"another client has been updating runs for {self.seconds:g} s",
                    hint="Try again in a moment.",
                )
            stack.enter_context(self.store.file.session())
            yield

    @contextmanager
    def of(self, cluster: str, *, wait_seconds: float) -> Iterator[bool]:
        """Hold a cluster's lock; False if another process held it, or that of all clusters, for `wait_seconds`."""
        deadline = time.monotonic() + wait_seconds
        path = self.folder / lock_name(cluster)
        with ExitStack() as stack:
            with _locked(self.folder / _GATE, wait_seconds=wait_seconds, shared=True) as passed:
                left_seconds = max(0.0, deadline - time.monotonic())
                shared = partial(_locked, self.folder / _LOCK, wait_seconds=left_seconds, shared=True)
                mine = passed and stack.enter_context(shared())
            left_seconds = max(0.0, deadline - time.monotonic())
            mine = mine and stack.enter_context(_locked(path, wait_seconds=left_seconds))
            if mine:
                stack.enter_context(self.store.file.session())
            yield mine


class Reconciler(msgspec.Struct, frozen=True, dict=True):
    """Reconciliation of stored runs with their jobs.

    - `folder` is the board's folder, with locks and job folders. Each cluster has a lock, so that one that hangs delays
      no run of another.
    - `schedulers`, `clusters` and `gpus` are those of the settings, by name.
    - `harness` returns the bytes of the harness file.
    - `folders` has the clusters whose job folders lie outside `folder`.
    - `runs_per_user` is the number of runs of one user that schedulers may have at one time; None sends all.
    - `prune_after` is the age at which the job folders of ended runs are removed; None keeps them.
    - `runner_rules` bound the runners that the board itself starts, and `served` is whether a service has it.
    """

    folder: Path
    store: Store
    schedulers: Mapping[str, Scheduler]
    clusters: Mapping[str, Cluster]
    gpus: Mapping[str, Gpu]
    harness: Callable[[], bytes]
    folders: Mapping[str, job_folder.Folders] = msgspec.field(default_factory=dict)
    runs_per_user: int | None = None
    prune_after: timedelta | None = None
    lookup_delay: timedelta = LOOKUP_DELAY
    lock_seconds: float = LOCK_SECONDS
    runner_rules: RunnerRules = RunnerRules()
    served: bool = False

    @cached_property
    def locks(self) -> ClusterLocks:
        """The locks of the clusters."""
        return ClusterLocks(self.folder, self.store, self.lock_seconds)

    @cached_property
    def _table(self) -> ClusterTable:
        return ClusterTable(self.folder, self.schedulers, self.clusters, self.gpus, self.folders, lambda: self._runners)

    @cached_property
    def _runners(self) -> "RunnerJobs":
        from hpc_board.runs.runners import RunnerJobs

        return RunnerJobs(
            self.store,
            self._table,
            self._launcher.ensure_harness,
            self.lookup_delay,
            self.runner_rules,
            self.served,
        )

    @cached_property
    def _results(self) -> JobResults:
        return JobResults(self.store, self._table, lambda: self._harness_sha256)

    @cached_property
    def _polling(self) -> JobPolling:
        return JobPolling(self.store, self._table, self._results)

    @cached_property
    def _launcher(self) -> Launcher:
        return Launcher(
            self.store,
            self._table,
            self.harness,
            lambda: self._harness_sha256,
            self.runs_per_user,
            self.lookup_delay,
            self.runner_rules.auto > 0,
        )

    def __call__(self, watched: Collection[int] | None = None) -> bool:
        """Advance every run in flight; return False if another process is doing so.

        `watched` is that of `run_pass`.

        Raises:
            StorageError: the board cannot be written, or the lock of a cluster cannot be used; the runs of all
                others were advanced.
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
            StorageError: no cluster had a pass, since a lock or the database cannot be used.
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
        """The clusters that have passes; runs of those that have left the settings are the first one's, or ""'s."""
        return [*self.schedulers] or [""]

    def takes(self, cluster: str, name: str) -> bool:
        """Return whether the passes of `cluster` advance the runs of the cluster `name`."""
        return cluster == (name if name in self.schedulers else self.names[0])

    def _run_pass(self, cluster: str, watched: Collection[int] | None) -> Pass | None:
        """Advance the runs of one cluster as `run_pass` does."""
        with self.locks.of(cluster, wait_seconds=0) as mine:
            if not mine:
                return None
            scan, began = SharedPause(self.folder / f"scanned-{cluster}", _SCAN_PAUSE_SECONDS_MAX), time.monotonic()
            chosen = None if watched is None or scan.is_over(utc_now()) else self._watched(cluster, watched)
            runs = self.store.runs.in_flight(cluster=cluster) if chosen is None else chosen
            runs = [self._without_orphaned(run) for run in runs]
            orphaned = self._mark_all_orphaned() if chosen is None and cluster == self.names[0] else []
            runs = self._launcher.end_cancelled(runs)
            live = self.store.runners.live(cluster)
            asks = bool(runs or live) and not is_out_of_time() and self._table.backoff(cluster).due(utc_now())
            if asks:
                with writing(self.folder):
                    self._table.backoff(cluster).begin(utc_now())
            # No command that sends a job is killed, see below.
            sends = not (has_budget() and self._table.kind(cluster).shared)
            unheld = self._runners.advance(live, asks=asks, sends=sends) if live else []
            # The job of a submission without an answer may have ended, and be forgotten by its scheduler.
            perhaps_sent = [run for run in runs if run.state is not RunState.CREATED]
            self._results.read_all(cluster, perhaps_sent, watched=chosen is not None)
            if any(run.status.runner is not None for run in runs) and (asks or not self._table.is_far(cluster)):
                runs, failed = self._polling.look_at_runners(runs)
                unheld += failed
            if live and not (has_budget() and self._table.is_far(cluster)):
                runs, unsent_there = self._launcher.to_held(runs)
                unheld += unsent_there
            waiting = [run for run in runs if self._launcher.may_send(run, asks=asks)]
            # The result of one may just have been read.
            waiting = [run for run in waiting if run.state is RunState.CREATED or not self._reload(run).state.ended]
            sendable = self._launcher.in_turn(waiting, self.store.runs.in_flight(cluster=cluster)) if waiting else []
            polls: list[Poll] = []
            silent: list[BoardError] = []

            def ask() -> list[SchedulerError]:
                runners = bool(live) or self.runner_rules.auto > 0
                return self._polling.ask(
                    cluster, self.store.runs.in_flight(cluster=cluster), polls.append, runners=runners
                )

            is_limited = bool(runs) and has_budget() and self._table.kind(cluster).shared
            if is_limited:
                # No command that sends a job is killed: none begins before the scheduler has just answered.
                if asks:
                    silent += ask()
                silent += [] if silent or polls else self._launcher.probe(cluster, sendable)
                sendable = [] if silent or is_out_of_time() else sendable
            unsent, silent_seconds = self._launcher.send(
                self._launcher.complete_arrays(cluster, sendable) if any(run.array for run in sendable) else sendable,
                seconds_max=_LAUNCH_SECONDS_MAX,
            )
            # A run whose former cluster has a broken lock stays as it is, and hinders no other.
            errors: list[BoardError] = [*dict.fromkeys(filter(_leaves_unsent, unsent)), *silent, *orphaned, *unheld]
            pause_seconds = _SCAN_PAUSES * (time.monotonic() - began)
            # A board with few runs is scanned as often as clients like, and needs no file.
            if chosen is None and pause_seconds > _SCAN_PAUSE_SECONDS_MIN:
                with writing(self.folder):
                    scan.begin(utc_now(), pause_seconds)
            # A controller that has just asked for less gets no question.
            asks_more = asks and not is_limited and not any(map(is_throttled, unsent))
            if asks_more and not self._table.backoff(cluster).rests(utc_now()):
                errors += ask()
            if silent_seconds is not None:
                self._table.note_silence(cluster, silent_seconds, unsent)
            if chosen is None and not has_budget():
                self._prune_old(cluster)
        return Pass(frozenset({cluster}), frozenset({cluster} if asks else ()), tuple(errors), tuple(polls))

    def _watched(self, cluster: str, ids: Collection[int]) -> Sequence[Run] | None:
        """Return the cluster's unfinished runs of `ids`; None if its scheduler may be asked for them, with all runs."""
        runs = self.store.runs.in_flight(ids, cluster=cluster)
        return None if runs and self._table.backoff(cluster).due(utc_now()) else runs

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
        with self.locks.of(cluster, wait_seconds=self.lock_seconds) as mine:
            if not mine:
                return []
            # Another process may have sent them between their rows and this lock.
            in_flight, numbers = self.store.runs.in_flight(cluster=cluster), {run.id for run in runs}
            unsent = [run for run in in_flight if run.id in numbers and run.state.unsent]
            unsent, failed = self._launcher.to_held(unsent)
            if unsent and self._table.backoff(cluster).rests(utc_now()):
                return failed + self._launcher.put_off(unsent, self._silence(cluster))
            errors, silent_seconds = self._launcher.send(self._launcher.in_turn(unsent, in_flight))
            if silent_seconds is not None and (silent_seconds >= SILENCE_SECONDS or any(map(is_throttled, errors))):
                self._table.note_silence(cluster, silent_seconds, errors)
        return failed + errors

    def advance_runners(self, cluster: str) -> list[BoardError]:
        """Send new runners of a cluster, and have those retire that are to end; return the errors.

        If another process keeps the lock of the cluster for long, it does so. An error is an InputError if the cluster
        has left the settings.

        Raises:
            StorageError: the lock or the database cannot be used.
        """
        if cluster not in self.schedulers:
            return [
                InputError(
                    f"the runner is on cluster {cluster}, which is no longer in the settings",
                    hint="Restore the cluster, or end the runner's job with the scheduler's own command.",
                )
            ]
        with self.locks.of(cluster, wait_seconds=self.lock_seconds) as mine:
            return self._runners.advance(self.store.runners.live(cluster), asks=True) if mine else []

    def cancel(self, runs: Sequence[Run], user: str) -> Mapping[int, BoardError]:
        """Request the cancellation of `runs`, by one question to each cluster; return the errors, by run number.

        A run that has ended stays as it is. The requests are stored first, so that a later pass can repeat them for
        jobs that cannot be found or reached yet.

        An error is an InputError if the run's cluster has left the settings, a StorageError if its lock or the database
        cannot be used, and a SchedulerError if the scheduler did not answer, or if another process holds the lock for
        long, with a hint that the request is stored.
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
        with self.locks.of(cluster, wait_seconds=self.lock_seconds) as mine:
            if mine:
                return self._cancel_all(cluster, [self._reload(run) for run in runs], user)
        # The next pass of the other client, or of any, carries it out.
        going = self.store.runs.request_end([run.id for run in runs], _cancel_reason(user))
        busy = f"another client has been busy with cluster {cluster} for {self.lock_seconds:g} s"
        return {number: SchedulerError(busy, hint=_CANCEL_STORED.format(id=number)) for number in going}

    def _cancel_all(self, cluster: str, runs: Sequence[Run], user: str) -> Mapping[int, BoardError]:
        """Cancel runs of one cluster, whose lock this process holds; return the errors, by run number."""
        errors: dict[int, BoardError] = {}
        sent = []
        for run in runs:
            if run.state is RunState.CREATED:
                self.store.runs.move(run, RunState.CANCELLED, reason=f"cancelled by {user} before it was sent")
            elif not run.state.ended:
                sent.append(run)
        if cluster not in self.schedulers:
            for run in sent:
                errors[run.id] = InputError(
                    f"run {run.id} is on cluster {cluster}, which is no longer in the settings",
                    hint=f"Restore the cluster, or end job {_own_job(run)} with the scheduler's own command.",
                )
            return errors
        going = self.store.runs.request_end([run.id for run in sent], _cancel_reason(user))
        sent = [self.store.runs.get(number) for number in going]
        for members, ask in (
            ([run for run in sent if not run.status.job_id], self._launcher.look_up),
            ([run for run in sent if run.status.job_id], self._table.cancel),
        ):
            try:
                if members:
                    ask(members)
            except SchedulerError as error:
                if error.throttled:
                    self._table.note_silence(cluster, 0, [error])
                for run in members:
                    stored = _CANCEL_STORED.format(id=run.id)
                    hint = f"{error.hint} {stored}" if isinstance(error, SchedulerRefused) else stored
                    errors[run.id] = type(error)(error.message, hint=hint, throttled=error.throttled)
        return errors

    def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        """Remove the job folders of runs that ended `before` that time, and unused harnesses, on all clusters.

        A `dry_run` only counts them. A cluster whose lock another process keeps for long has a problem.
        """
        return Pruned(before, dry_run, {name: self._prune_on(name, before, dry_run=dry_run) for name in self.names})

    def _prune_on(self, cluster: str, before: datetime, *, dry_run: bool) -> ClusterPruned:
        pruning = self._pruning(cluster, before)
        if dry_run:
            return self._without_harnesses(cluster, pruning.sizes(pruning.find()), dry_run=True)
        lock = partial(self.locks.of, cluster, wait_seconds=self.lock_seconds)
        done = ClusterPruned()
        try:
            done = pruning.in_lots(lock)
            with lock() as mine:
                return self._without_harnesses(cluster, done) if mine and done.problem != BUSY else done
        except StorageError as error:
            return replace(done, problem=error.message)

    def _without_harnesses(self, cluster: str, done: ClusterPruned, *, dry_run: bool = False) -> ClusterPruned:
        needed = {run.harness_sha256 for run in self.store.runs.in_flight()}
        sizes = self._table.folders_on(cluster).remove_unused_harnesses(needed, dry_run=dry_run)
        return replace(done, bytes=done.bytes + sum(sizes), harness_files=len(sizes))

    def prunes(self, cluster: str) -> bool:
        """Return whether the next pass removes job folders of old runs, by the settings and the last time."""
        return self.prune_after is not None and self._pruning_pause(cluster).is_over(utc_now())

    def _pruning_pause(self, cluster: str) -> SharedPause:
        return SharedPause(self.folder / f"pruned-{cluster}", _PRUNING_PAUSE_SECONDS)

    def _prune_old(self, cluster: str) -> None:
        """Remove some job folders of old runs, if they are due."""
        if self.prune_after is not None and self.prunes(cluster):
            removed = self._pruning(cluster, utc_now() - self.prune_after).one_lot()
            with writing(self.folder):
                seconds = _PRUNING_PAUSE_SECONDS if removed < PASS_FOLDERS_MAX else _PRUNING_PAUSE_SECONDS_MIN
                self._pruning_pause(cluster).begin(utc_now(), seconds)

    def _pruning(self, cluster: str, before: datetime) -> Pruning:
        return Pruning(self._table.folders_on(cluster), self.store, partial(self.takes, cluster), before)

    def asked_at(self, cluster: str) -> datetime | None:
        """Return the time of any client's last query to this cluster's scheduler; None if it is not in the settings."""
        return self._table.backoff(cluster).asked_at if cluster in self.clusters else None

    def silent_since(self, cluster: str) -> datetime | None:
        """Return the time of the first unanswered query since the last answer; None after an answer."""
        return self._table.backoff(cluster).silent_since if cluster in self.clusters else None

    def _silence(self, cluster: str) -> SchedulerError:
        """Return the error of a scheduler that gets no commands, as it was silent for long."""
        return SchedulerError(
            silence_words(cluster, self.silent_since(cluster) or utc_now()),
            hint="The service, the app or `hpc-board poll` sends the run in a later pass.",
        )

    def _reload(self, run: Run) -> Run:
        return self.store.runs.get(run.id)

    def _mark_all_orphaned(self) -> list[StorageError]:
        """Mark the runs of clusters that have left the settings; return an error for each lock that cannot be used."""
        errors: dict[str, StorageError] = {}
        for run in self.store.runs.in_flight(outside=self.schedulers):
            try:
                self._mark_orphaned(run)
            except StorageError as error:
                errors[error.message] = error
        return [*errors.values()]

    def _mark_orphaned(self, run: Run) -> None:
        """Record that the cluster of a run has left the settings; end the run if it is unsent."""
        # A client with other settings may be sending it.
        with self.locks.of(run.cluster, wait_seconds=0) as mine:
            run = self._reload(run)
            if not mine or run.state.ended:
                return
            if run.state.unsent:
                reason = f"{_ORPHANED.format(run.cluster)}; rerun it on another one"
                self.store.runs.move(run, RunState.ERROR, reason=reason)
            else:
                reason = f"{_ORPHANED.format(run.cluster)}: no scheduler can be queried"
                self._results.read(
                    self.store.runs.move(run, run.state, reason=reason, source=self._results.left(run).result_problem)
                )

    def _without_orphaned(self, run: Run) -> Run:
        """Clear the reason of a run whose cluster is in the settings again: its scheduler may stay silent for long."""
        is_told = run.status.reason.startswith(_ORPHANED.format(run.cluster))
        return self.store.runs.move(run, run.state, source=run.status.source) if is_told else run

    @cached_property
    def _harness_sha256(self) -> str:
        return hashlib.sha256(self.harness()).hexdigest()


def _own_job(run: Run) -> str:
    """Return the id of the job that judges a run: the runner's, if it is at one."""
    return run.status.job_id if run.status.runner is None else run.status.job_id.rpartition(".")[0]


def _cancel_reason(user: str) -> str:
    """Return the reason of a run whose cancellation `user` requested; its state keeps its own time."""
    return f"cancel requested by {user} at {utc_now():%H:%M:%S} UTC"


def _leaves_unsent(error: BoardError) -> bool:
    """Return whether `error` leaves a run unsent; a refusal ends the run."""
    return isinstance(error, StorageError) or not isinstance(error, InputError | SchedulerRefused)


def lock_name(cluster: str) -> str:
    """Return the name of a cluster's lock in the board's folder; the cluster of a stored run may be any text."""
    usable = 0 < len(cluster) <= _CLUSTER_CHARACTERS_MAX and "/" not in cluster and cluster.isprintable()
    return f"advance-{cluster}.lock" if usable else "advance.unnamed.lock"


@contextmanager
def _locked(path: Path, *, wait_seconds: float, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a file as `locked` does; a StorageError names a file that cannot be used."""
    with ExitStack() as stack:
        with writing(path):
            held = stack.enter_context(locked(path, wait_seconds=wait_seconds, shared=shared))
        yield held
