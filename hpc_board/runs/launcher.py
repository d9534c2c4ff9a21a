"""The launch of runs: job folders, jobs and arrays, and the waits of runs that the scheduler does not accept."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.domain.clock import utc_now
from hpc_board.domain.comparison import own_best
from hpc_board.domain.pause import Pause
from hpc_board.domain.run import FULL, NOT_ACCEPTED, Retry, Run, RunState, Status, grouped_by_array
from hpc_board.errors import (
    AnswerTooLarge,
    BoardError,
    InputError,
    NotAccepting,
    QueueFull,
    SchedulerError,
    SchedulerRefused,
    StorageError,
)
from hpc_board.model.gpu import Gpu
from hpc_board.model.score import OwnBest
from hpc_board.model.task import Task
from hpc_board.runs import job_folder
from hpc_board.runs.clusters import ClusterTable, is_throttled
from hpc_board.runs.dispatch import ARRAY_LEAST, drawn_nonce, drawn_tokens
from hpc_board.schedulers import Arrays, Job, JobKey, kind_of
from hpc_board.store import Store
from hpc_board.store.submissions import JobParts

ATTEMPTS_MAX = 4
"""The number of attempts to send a job before its run ends as an error."""

HELD_SECONDS = 30.0
"""The shortest pause between tries to send runs that the scheduler does not accept at the moment."""

HELD_SECONDS_MAX = 600.0
"""The longest such pause: it is a tenth of the time for which the oldest of these runs has waited."""

_COUNTED_MAX = 10
"""The number of runs ahead up to which the reason of a waiting run is kept exact; each change of it is a row."""

_UNSENT = "cancelled before it was sent"
_UNCONFIRMED = "the scheduler has not confirmed the job"


class Launcher(msgspec.Struct, frozen=True):
    """The way of unsent runs to the schedulers of `clusters`; the caller holds the lock of their cluster.

    The other fields are those of `Reconciler`; `harness_sha256` returns that of `harness`.
    """

    store: Store
    clusters: ClusterTable
    harness: Callable[[], bytes]
    harness_sha256: Callable[[], str]
    runs_per_user: int | None
    lookup_delay: timedelta
    auto_runners: bool

    def may_send(self, run: Run, *, asks: bool) -> bool:
        """Return whether this pass sends a run; `asks` is whether it asks the run's scheduler."""
        if run.state is RunState.CREATED:
            return not self.clusters.backoff(run.cluster).rests(utc_now())
        return run.state is RunState.SUBMITTING and asks

    def end_cancelled(self, runs: Sequence[Run]) -> list[Run]:
        """End new runs whose cancellation was requested while another client held the lock; return the others."""
        others = []
        for run in runs:
            if run.state is RunState.CREATED and run.status.cancel_requested:
                self.store.runs.move(run, RunState.CANCELLED, reason=_UNSENT)
            else:
                others.append(run)
        return others

    def to_held(self, runs: Sequence[Run]) -> tuple[list[Run], list[BoardError]]:
        """Give new runs to the runners of their users, and return the others, and the errors.

        A runner needs no scheduler: neither a pause of it nor the limits on a user's jobs keep a run from there.
        """
        new = [run for run in runs if run.state is RunState.CREATED and not run.fresh]
        live = self.store.runners.live(new[0].cluster) if new else ()
        holders = {(runner.user, runner.gpu) for runner in live if runner.takes_runs}
        prepared_jobs = []
        for run in new:
            if (run.user, run.gpu) in holders:
                with suppress(BoardError):  # it is met again when the run is sent
                    prepared_jobs.append(self._prepare(run))
        given, errors = self._give(prepared_jobs)
        return [run for run in runs if run.id not in given], errors

    def in_turn(self, runs: Sequence[Run], in_flight: Sequence[Run]) -> list[Run]:
        """Return the runs of a cluster to send now, oldest first, where `in_flight` are all of its own.

        Runs of a GPU for which the scheduler accepted none at its last try wait together, new ones behind the older
        ones, until the next try is due.
        """
        held: dict[str, list[Run]] = {}
        for run in in_flight:
            if _has_no_room(run):
                held.setdefault(run.gpu, []).append(run)
        resting = {gpu: waiting[0].status for gpu, waiting in held.items() if not _is_due(waiting, utc_now())}
        behind = [
            run.moved(run.state, reason=resting[run.gpu].reason, source=resting[run.gpu].source)
            for run in runs
            if run.gpu in resting and run.state is RunState.CREATED and not _has_no_room(run)
        ]
        self._store(behind)
        return self._admitted([run for run in runs if run.gpu not in resting or run.state is not RunState.CREATED])

    def _admitted(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs that go now in fair turns between users, and record the reasons of the others."""
        if self.runs_per_user is None or not runs:
            return [*runs]
        admitted, reasons = in_fair_turns(runs, self.store.runs.in_flight(), self.runs_per_user)
        # Two reasons that replace each other would add rows in each pass.
        changed = [run for run in runs if run.id in reasons and not _has_no_room(run)]
        self._store(
            [run.moved(run.state, reason=reasons[run.id]) for run in changed if run.status.reason != reasons[run.id]]
        )
        return admitted

    def complete_arrays(self, cluster: str, runs: Sequence[Run]) -> list[Run]:
        """Drop runs whose array is incomplete: two arrays with one job name cannot be told apart."""
        chosen = {run.id for run in runs}
        going = self.store.runs.in_flight(cluster=cluster)
        unsent = (run for run in going if run.array and run.state.unsent)
        parts = {run.array for run in unsent if run.id not in chosen}
        return [run for run in runs if run.array not in parts]

    def put_off(self, runs: Sequence[Run], error: SchedulerError) -> list[BoardError]:
        """Leave unsent runs to a later pass, record the error for each, and return it."""
        self._record_failure(runs, error)
        return [error]

    def send(self, runs: Iterable[Run], *, seconds_max: float = math.inf) -> tuple[list[BoardError], float | None]:
        """Send these runs of one cluster; return the errors, and the seconds of its silence if it was silent.

        After a silence its other runs wait for a later pass: each would wait as long. So do those that are left after
        `seconds_max`.
        """
        errors: list[BoardError] = []
        held: dict[str, NotAccepting] = {}
        deadline = time.monotonic() + seconds_max
        if self.auto_runners:
            runs = self.clusters.runners().admit([*runs])
        for group in grouped_by_array(runs):
            began, gpu = time.monotonic(), group[0].gpu
            if began >= deadline:
                break
            if gpu not in held:
                found = self._send_group(group)
            elif any(run.state is not RunState.CREATED for run in group):
                continue  # a job of theirs may exist: a later pass looks it up
            else:
                found = self._record_failure(group, held[gpu])
            for error in found:
                if isinstance(error, NotAccepting):
                    held[gpu] = error
                elif isinstance(error, QueueFull):
                    held[gpu] = NotAccepting(error.message, hint=error.hint, full=True)
                else:
                    errors.append(error)
            if any(_is_silence(each) for each in found):
                return errors, time.monotonic() - began
            if any(map(is_throttled, found)):
                self.clusters.note_silence(group[0].cluster, 0, found)
                break
        return errors, None

    def _send_group(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send the unsent runs of one group, and return the errors."""
        errors: list[BoardError] = []
        prepared_jobs: list[PreparedJob] = []
        try:
            wanted = self._not_sent(runs)
        except (StorageError, SchedulerError) as error:
            return self._record_failure(runs, error)
        try:
            for sha256 in {run.harness_sha256 for run in wanted}:
                self.ensure_harness(self.clusters.folders_of(wanted[0]), sha256)
        except (StorageError, SchedulerError, InputError) as error:
            return self._record_failure(wanted, error)
        for run in wanted:
            try:
                prepared_jobs.append(self._prepare(run))
            except (StorageError, SchedulerError) as error:
                # None is sent without the others: two arrays of one name could not be told apart.
                return errors + self._record_failure(wanted, error)
            except InputError as error:
                errors += self._record_failure([run], error)
        at_runners, failed = self._give(prepared_jobs)
        others = [prepared for prepared in prepared_jobs if prepared.run.id not in at_runners]
        return errors + failed + (self._send_prepared(others) if others else [])

    def _give(self, prepared_jobs: Sequence["PreparedJob"]) -> tuple[set[int], list[BoardError]]:
        """Put runs into the queues of their users' runners; return their numbers, and the errors."""
        live = self.store.runners.live(prepared_jobs[0].run.cluster) if prepared_jobs else ()
        return self.clusters.runners().give(live, prepared_jobs) if live else (set(), [])

    def _record_failure(self, runs: Sequence[Run], error: BoardError) -> list[BoardError]:
        """Record why these runs are unsent, and return the error for each of them."""
        for run in runs:
            if isinstance(error, StorageError):
                # The disk may have room again, the database be unlocked: the run stays as it is, and is tried again.
                with suppress(StorageError):
                    self._record_problem(run, error)
            elif isinstance(error, NotAccepting):
                self._hold(self.store.runs.get(run.id), error)
            elif isinstance(error, InputError | SchedulerRefused):
                self.store.runs.move(run, RunState.ERROR, reason=error.message, source=error.hint)
            else:
                self._record_unconfirmed(self.store.runs.get(run.id), error)
        return [error] * len(runs)

    def _hold(self, run: Run, error: NotAccepting) -> None:
        """Record that a run is sent later, as its scheduler accepts no such job at the moment."""
        if run.status.cancel_requested:
            self.store.runs.move(run, RunState.CANCELLED, reason=_UNSENT)
        elif run.state.unsent:
            self.store.runs.move(run, RunState.CREATED, reason=_words(error), source=error.hint)

    def _record_unconfirmed(self, run: Run, error: BoardError) -> None:
        """Record that the scheduler has not confirmed the job of a run that may have been sent."""
        if run.state is RunState.CREATED:
            self._record_problem(run, error)
        elif run.state is RunState.SUBMITTING:
            reason = _words(error) if isinstance(error, QueueFull) else _UNCONFIRMED
            reason = run.status.reason if run.status.cancel_requested else reason
            self.store.runs.move(run, run.state, reason=reason, source=error.message, unanswered=True)

    def _record_problem(self, run: Run, error: BoardError) -> None:
        """Record the error that keeps a run from being sent, with its hint."""
        run = self.store.runs.get(run.id)
        if run.state is RunState.CREATED:
            self.store.runs.move(run, run.state, reason=error.message, source=error.hint)

    def _not_sent(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs to send now: none whose job exists, may still appear, or is cancelled.

        Raises:
            SchedulerError: the scheduler does not tell whether a job exists.
        """
        tried = [run for run in runs if run.state is RunState.SUBMITTING]
        found = self.look_up(tried) if tried else set()
        absent = [run for run in runs if run.id not in found]
        if any(run.state is RunState.SUBMITTING and self._waits(run) for run in absent):
            return []
        for run in absent:
            if run.status.cancel_requested:
                self.store.runs.move(run, RunState.CANCELLED, reason=_UNSENT)
        # A cluster that had no room for a job counts no attempt: it may be full for days.
        return [
            self.store.runs.move(run, RunState.CREATED, reason=run.status.reason)
            if _has_no_room(run) and run.state is RunState.SUBMITTING
            else run
            for run in absent
            if not run.status.cancel_requested
        ]

    def look_up(self, runs: Sequence[Run]) -> set[int]:
        """Find the jobs of `runs`, which are all of one cluster, record them, and return the runs' numbers.

        Raises:
            SchedulerError: the scheduler does not tell whether a job exists.
        """
        try:
            job_ids = self.clusters.job_ids(runs)
        except SchedulerRefused as error:
            # A scheduler that cannot be asked proves nothing about the job.
            raise SchedulerError(error.message, hint=error.hint, throttled=error.throttled) from error
        found = self._store(
            [
                run.moved(RunState.QUEUED, job_id=job_ids[run.id], source="found in the scheduler's lists")
                for run in runs
                if run.id in job_ids
            ],
        )
        unwanted = [run for run in found if run.status.cancel_requested]
        if unwanted:
            self.clusters.cancel(unwanted)
        return {run.id for run in found}

    def _waits(self, run: Run) -> bool:
        # Only the holder of the lock puts a run into a queue on this machine: one that is not there will not appear.
        will_not_appear = run.status.runner is not None and not self.clusters.is_far(run.cluster)
        return not will_not_appear and utc_now() - run.status.at < self.lookup_delay

    def ensure_harness(self, folders: job_folder.Folders, sha256: str) -> None:
        """Write the harness of stored runs where their jobs find it.

        Raises:
            InputError: it belongs to another version of hpc-board and does not exist there.
            StorageError: the folder cannot be written or read.
            SchedulerError: the machine of the folder cannot be reached.
        """
        if sha256 == self.harness_sha256():
            if folders.ensure_harness(self.harness()):
                needed = {run.harness_sha256 for run in self.store.runs.in_flight()}
                folders.remove_unused_harnesses(needed)
        elif not folders.has_harness(sha256):
            raise InputError("hpc-board was updated before the run was sent; rerun it")

    def _prepare(self, run: Run) -> "PreparedJob":
        """Write the job folder of a run, and return the job."""
        gpu = self.clusters.gpus.get(run.gpu)
        if gpu is None:
            raise InputError(f"GPU {run.gpu} is no longer in the settings; rerun it on another one")
        attempts = run.status.attempt
        if attempts >= ATTEMPTS_MAX:
            answer = f": {run.status.source}" if run.status.source else ""
            raise InputError(f"not accepted after {attempts} attempts{answer}")
        gpu = kind_of(gpu.cluster).with_job_options(gpu, run.options)
        parts = self.store.submissions.job_parts(run)
        try:
            script = msgspec.json.decode(parts.script, type=job_folder.Script)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError("the batch script in the database is damaged; rerun the submission") from error
        folders = self.clusters.folders_of(run)
        path = folders.write(
            run, parts.task, gpu, script=script.text, code=parts.code, own_best=self._own_best(run, parts.task)
        )
        named = () if parts.in_closed_board else (run.task,)
        return PreparedJob(run, gpu, path, script, attempts + 1, named, parts)

    def _own_best(self, run: Run, task: Task) -> OwnBest | None:
        """Return the run that ends this one, by its cases that are not hidden; None without a comparable one."""
        options = run.options
        best = self.store.runs.best_of_user(run) if options.stop_if_slower and not options.case else None
        result = None if best is None else self.store.runs.result(best.id)
        if best is None or result is None:
            return None
        return own_best(best, [case for case in result.cases if not case.is_hidden], task.ranking_by)

    def _send_prepared(self, prepared_jobs: Sequence["PreparedJob"]) -> list[BoardError]:
        """Send runs as one array where possible, else one by one; return the errors of the unsent ones."""
        # After a limit was reached, a single job shows whether there is room again.
        most, sent = self._throttle(prepared_jobs)
        whole = not sent and not any(each.run.status.reason.startswith(FULL) for each in prepared_jobs)
        script = self._array_script(prepared_jobs) if whole else None
        if script is not None:
            try:
                self._submit(self._array(prepared_jobs, script), prepared_jobs)
            except BoardError as error:
                # A refusal may concern arrays, or this many jobs, and not their request: the first job will show.
                passes = isinstance(error, NotAccepting) and not error.full
                runs = [prepared.run for prepared in prepared_jobs]
                if passes or not isinstance(error, SchedulerRefused):
                    return self._record_failure(runs, error)
                try:
                    # A throttle holds only within an array.
                    undivided = isinstance(error, NotAccepting) or prepared_jobs[0].max_running
                    smaller = [] if undivided else self._smaller_arrays(runs)
                except SchedulerError as silence:
                    unknown = f"{error.message}; the scheduler does not tell how large an array may be"
                    held = NotAccepting(unknown, hint=silence.hint, throttled=silence.throttled)
                    return self._record_failure(runs, held)
                if smaller:
                    return [each for group in smaller for each in self._send_group(group)]
            else:
                return []
        errors: list[BoardError] = []
        room = max(0, most - sent) if most else None
        for prepared in prepared_jobs[len(prepared_jobs) if room is None else room :]:
            # No array went out, so that only the board can keep its tasks apart.
            self.store.runs.move(
                prepared.run, prepared.run.state, reason=f"{prepared.max_running} of its array run at a time"
            )
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

    def _smaller_arrays(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Return these runs of a refused array as smaller ones, with their names; empty if its size is permitted.

        The scheduler may not have told the size when the array was made.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        scheduler = self.clusters.schedulers[runs[0].cluster]
        size = scheduler.array_size() if isinstance(scheduler, Arrays) else 0
        if size >= len(runs) or size < ARRAY_LEAST:
            return []
        numbers = [run.id for run in runs]
        batches = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        status = Status(RunState.CREATED, utc_now(), reason=f"the cluster takes arrays of {size}")
        self.store.runs.retry_each(
            {number: Retry(token, drawn_nonce(), status, False) for number, token in drawn_tokens(batches).items()}
        )
        return [[self.store.runs.get(number) for number in batch] for batch in batches]

    def _throttle(self, prepared_jobs: Sequence["PreparedJob"]) -> tuple[int, int]:
        """Return how many members of a throttled array may run at a time, 0 for any number, and how many were sent."""
        if not prepared_jobs or not prepared_jobs[0].run.array or not prepared_jobs[0].max_running:
            return 0, 0
        array = prepared_jobs[0].run.array
        in_flight = self.store.runs.in_flight(cluster=prepared_jobs[0].run.cluster)
        return prepared_jobs[0].max_running, sum(run.array == array and not run.state.unsent for run in in_flight)

    def _array_script(self, prepared_jobs: Sequence["PreparedJob"]) -> job_folder.ArrayScript | None:
        """Return the common array script of these runs; None if they cannot share an array."""
        if len(prepared_jobs) < 2 or not isinstance(self.clusters.schedulers[prepared_jobs[0].run.cluster], Arrays):
            return None
        first, *others = {job_folder.array_script(prepared.script, prepared.gpu) for prepared in prepared_jobs}
        return None if others else first

    def _array(self, prepared_jobs: Sequence["PreparedJob"], script: job_folder.ArrayScript) -> Job:
        run = prepared_jobs[0].run
        path = self.clusters.folders_of(run).write_array(run.array, script)
        indexes = [prepared.run.array_index for prepared in prepared_jobs]
        most = prepared_jobs[0].max_running
        numbers = sorted(prepared.run.id for prepared in prepared_jobs)
        tasks = dict.fromkeys(name for prepared in prepared_jobs for name in prepared.named)
        return replace(
            prepared_jobs[0].job,
            name=run.array,
            folder=path,
            indexes=indexes,
            max_running=most if most < len(indexes) else 0,
            comment=job_folder.comment(prepared_jobs[0].script, f"run {numbers[0]}-{numbers[-1]}", *tasks),
        )

    def _submit(self, job: Job, prepared_jobs: Sequence["PreparedJob"]) -> None:
        """Submit the job of these runs.

        Raises:
            BoardError: the scheduler refuses it, or the outcome is unknown.
        """
        now = utc_now()
        runs = self._store([_attempted(prepared.run, prepared.attempt, now) for prepared in prepared_jobs])
        cluster = runs[0].cluster
        job_id = self.clusters.schedulers[cluster].submit(job)
        self._store(
            [
                run.moved(RunState.QUEUED, job_id=f"{job_id}_{run.array_index}" if job.indexes else job_id)
                for run in runs
            ],
        )
        self.clusters.settle(cluster, news=True)

    def _store(self, runs: Sequence[Run]) -> Sequence[Run]:
        """Store the statuses of all these runs in one transaction, and return the runs."""
        if runs:
            self.store.runs.record_each({run.id: run.status for run in runs})
        return runs

    def probe(self, cluster: str, sendable: Sequence[Run]) -> list[SchedulerError]:
        """Ask the scheduler for the job of an unsent run, and return the error of a silent one.

        Runs of which a job may exist are looked up anyway before they are sent.
        """
        new = [run for run in sendable if run.state is RunState.CREATED]
        if not new:
            return []
        began = time.monotonic()
        try:
            # It was never sent: no job proves it by its script.
            self.clusters.schedulers[cluster].find(JobKey(new[0].token, "", new[0].created_at))
        except SchedulerError as error:
            self.clusters.note_silence(cluster, time.monotonic() - began, [error])
            return [error]
        return []


class PreparedJob(msgspec.Struct, frozen=True):
    """A run with a written job folder.

    `attempt` is the number of the coming attempt to send it. `named` has its task's name for the scheduler's lists, and
    is empty for a closed board.
    """

    run: Run
    gpu: Gpu
    path: Path
    script: job_folder.Script
    attempt: int
    named: tuple[str, ...]
    parts: JobParts

    @property
    def job(self) -> Job:
        """The single job of the run."""
        script = self.script
        request = f"{self.run.harness_sha256} {job_folder.request(script, self.gpu)}"
        return Job(
            self.run.token,
            self.path,
            job_folder.SCRIPT,
            self.gpu,
            script.options,
            script.time_limit_seconds,
            comment=job_folder.comment(script, f"run {self.run.id}", *self.named),
            request="" if self.run.fresh else request,
        )

    @property
    def max_running(self) -> int:
        """The most tasks of its array that run at a time; 0 for any number."""
        return int(self.run.options.max_running or 0)


def in_fair_turns(
    candidates: Sequence[Run], in_flight: Sequence[Run], runs_per_user: int
) -> tuple[list[Run], dict[int, str]]:
    """Return those of `candidates` to send now, users by turns, and the reason for each that waits, by its number.

    Schedulers have at most `runs_per_user` runs of each user at one time. The runs of a job array go together, once
    there is room for all of them; an array above the limit, once its user has no other run in flight. `in_flight` are
    all runs that have not ended, oldest first. A candidate that was sent before is not held up.
    """
    sent = [run for run in candidates if run.state is not RunState.CREATED]
    wanted = {run.id for run in candidates if run.state is RunState.CREATED}
    users: dict[str, list[Run]] = {}
    for run in in_flight:
        users.setdefault(run.user, []).append(run)
    chosen: list[list[list[Run]]] = []
    reasons: dict[int, str] = {}
    for runs in users.values():
        ahead = sum(run.state is not RunState.CREATED for run in runs)
        of_user: list[list[Run]] = []
        for group in grouped_by_array([run for run in runs if run.state is RunState.CREATED]):
            if ahead and ahead + len(group) > runs_per_user:
                count = f"{ahead}" if ahead <= _COUNTED_MAX else f"over {_COUNTED_MAX}"
                runs_ahead = f"{count} {'run' if ahead == 1 else 'runs'} of the same user"
                reason = f"{runs_ahead} {'is' if ahead == 1 else 'are'} ahead (limit {runs_per_user} at a time)"
                reasons |= {run.id: reason for run in group if run.id in wanted}
            else:
                of_user.append([run for run in group if run.id in wanted])
            ahead += len(group)
        chosen.append(of_user)
    by_turns = (group for round_ in zip_longest(*chosen, fillvalue=[]) for group in round_)
    return [*sent, *(run for group in by_turns for run in group)], reasons


def _attempted(run: Run, attempt: int, now: datetime) -> Run:
    """Return `run` with another attempt to send its job, which begins `now`."""
    status = run.moved(RunState.SUBMITTING).status
    return replace(run, status=replace(status, at=now, attempt=attempt, job_id="", runner=None))


def _words(error: NotAccepting | QueueFull) -> str:
    """Return the reason of an unsent run whose job the scheduler does not accept at the moment."""
    full = isinstance(error, QueueFull) or error.full
    return f"{FULL if full else NOT_ACCEPTED}: {error.message}"


def _has_no_room(run: Run) -> bool:
    """Return whether the scheduler accepted no job of an unsent run when it was last tried, or said so at first."""
    return run.state.unsent and run.status.reason.startswith(NOT_ACCEPTED)


def _is_due(held: Sequence[Run], now: datetime) -> bool:
    """Return whether the next try to send these runs of a GPU is due."""
    # A run that has waited behind others since its creation was not tried.
    last = max((run.status.at for run in held if run.status.at != run.created_at), default=None)
    if last is None:
        return True
    waited_seconds = (now - min(run.created_at for run in held)).total_seconds()
    pause = Pause(last.timestamp(), max(HELD_SECONDS, min(waited_seconds / 10, HELD_SECONDS_MAX)))
    return pause.is_over(now.timestamp())


def _is_silence(error: BoardError) -> bool:
    """Return whether a scheduler did not answer."""
    answered = SchedulerRefused | QueueFull | AnswerTooLarge
    return isinstance(error, SchedulerError) and not isinstance(error, answered)
