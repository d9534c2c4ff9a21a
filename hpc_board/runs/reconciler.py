"""The state machine that carries runs from `created` to their end; any process may turn it, one at a time.

Order within a run: its row, its job folder, the event `submitting`, the scheduler, the event `queued`. A process that
dies between two of these leaves a run that the next one takes up: a job is looked up by its unique name before it is
sent again, and only after `SETTLE`, since a command that was under way may still arrive.
"""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpc_board.domain.result_checks import ended_at, result_faults
from hpc_board.domain.run import JobState, JobStatus, Run, RunState, Status, next_status
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.files import LOCK_SECONDS, NotRegularFileError, locked
from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.model.result import RESULT_BYTES_MAX, Result, ResultError, Verdict
from hpc_board.model.score import score_interval, score_s
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line
from hpc_board.runs import job_folder
from hpc_board.runs.backoff import LOOK_PATIENCE, LOOK_SECONDS, PATIENCE, SILENCE_SECONDS, Backoff, NextScan
from hpc_board.schedulers import AnyKind, Arrays, Job, JobKey, Scheduler, kind_of
from hpc_board.store import Store

SETTLE = timedelta(seconds=90)
"""How long a submission whose outcome is unknown is left alone before it is looked up and, if absent, sent again.

Longer than an sbatch may live whose client has lost it: 60 s, and 11 more on a login node over SSH.
"""

TRIES_MAX = 4
"""How often a job is sent before the run counts as failed by our machinery."""

_LAST_WORDS_BYTES = 4096
_LAST_WORDS_MAX = 160
_TRY = "try "
_UNCONFIRMED = "the scheduler has not confirmed the job"
_WISH_STORED = (
    "That run {id} shall be cancelled is stored, and done as soon as the scheduler answers `hpc-board watch {id}`, "
    "`hpc-board poll` or the app."
)


class Pass(msgspec.Struct, frozen=True):
    """One turn of the state machine: the clusters whose schedulers were asked, and what hindered it where."""

    asked: frozenset[str]
    errors: tuple[BoardError, ...] = ()


class _Leftover(msgspec.Struct, frozen=True):
    """What a job has left in the place of its result: part of one, something `whole`, or nothing, and why.

    Where it is `unreadable` now, nobody can tell.
    """

    partial: Result | None = None
    whole: bool = False
    result_problem: str = ""
    unreadable: bool = False


class Reconciler(msgspec.Struct, frozen=True, dict=True):
    """Everything that turning the state machine needs.

    `folder` is this account's own. `user` is whose jobs are carried on, None for everybody's: nobody else's can be sent
    or cancelled. `schedulers` and `clusters` have the clusters of the settings by name, `gpus` the GPUs. `harness`
    gives the bytes of the harness file. `folders` has the clusters whose job folders lie elsewhere than below `folder`.
    """

    folder: Path
    store: Store
    schedulers: Mapping[str, Scheduler]
    clusters: Mapping[str, Cluster]
    gpus: Mapping[str, Gpu]
    harness: Callable[[], bytes]
    folders: Mapping[str, job_folder.Folders] = msgspec.field(default_factory=dict)
    user: str | None = None
    settle: timedelta = SETTLE
    lock_seconds: float = LOCK_SECONDS

    def __call__(self, watched: Collection[int] | None = None) -> bool:
        """Carry every run in flight as far as it goes now; False if another process is doing so at this moment.

        `watched` is that of `turn`.

        Raises:
            StorageError: the board cannot be written.
            SchedulerError: a scheduler did not answer; its runs stay as they are, the others were carried on.
        """
        turn = self.turn(watched)
        if turn is not None and turn.errors:
            raise turn.errors[0]
        return turn is not None

    def turn(self, watched: Collection[int] | None = None) -> Pass | None:
        """Do the same, and say what hindered it; None if another process is doing so at this moment.

        For somebody who waits for some `watched` runs, in turn after turn, only these are carried on, all others with
        them whenever their schedulers may be asked or a look at all of them is due.

        Raises:
            StorageError: the board's lock or its database cannot be used.
        """
        with self._lock(wait_seconds=0) as mine:
            if not mine:
                return None
            scan, began = NextScan(self.folder / "looked"), time.monotonic()
            chosen = None if watched is None or scan.due(_now()) else self._watched(watched)
            runs = []
            for run in self.store.runs.in_flight(account=self.user) if chosen is None else chosen:
                if run.cluster in self.schedulers:
                    runs.append(run)
                else:
                    self._mark_orphaned(run)
            asked = self._clusters_to_ask(runs)
            self._look_into_folders([run for run in runs if not run.state.unsent], watched=chosen is not None)
            sendable = [run for run in runs if self._may_send(run, asked)]
            unsent, silent = self._launch_all(
                self._complete_arrays(sendable) if any(run.array for run in sendable) else sendable
            )
            errors = list(dict.fromkeys(filter(_hinders, unsent)))
            if chosen is None:
                with _writing(self.folder):
                    scan.settle(_now(), time.monotonic() - began)
            if asked:
                errors += self._ask_schedulers(asked, self.store.runs.in_flight(account=self.user))
            self._note_silences(silent)
        return Pass(frozenset(asked), tuple(errors))

    def _watched(self, ids: Collection[int]) -> Sequence[Run] | None:
        """Those of these runs that have not ended; None where one of their schedulers may be asked, for all runs."""
        runs = self.store.runs.in_flight(ids, account=self.user)
        clusters = {run.cluster for run in runs}.intersection(self.schedulers)
        return None if any(self._backoff(cluster).due(_now()) for cluster in clusters) else runs

    def launch(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send these new runs to their schedulers and return what went wrong, at most one error for each.

        Where another process holds the board for long, the runs are left for it to send.
        """
        with self._lock(wait_seconds=self.lock_seconds) as mine:
            if not mine:
                return []
            # Another process may have taken them up between their rows and this lock.
            errors, silent = self._launch_all(run for run in map(self._again, runs) if run.state.unsent)
            self._note_silences({name: seconds for name, seconds in silent.items() if seconds >= SILENCE_SECONDS})
            return errors

    def cancel(self, run: Run, user: str) -> None:
        """Ask for the end of `run`; one that has ended is left alone.

        The wish is written down first, so that a job which nobody can find or reach yet ends as soon as a later turn
        can; for a job of another account that is all, and its next turn ends it.

        Raises:
            InputError: the run's cluster is not in the settings any more.
            SchedulerError: the scheduler did not answer, and the hint says that the wish is stored; or another process
                holds the board for long.
        """
        with self._lock(wait_seconds=self.lock_seconds) as mine:
            if not mine:
                raise SchedulerError(
                    f"another client has been busy with this board for {self.lock_seconds:g} s",
                    hint=f"Try `hpc-board cancel {run.id}` again in a minute.",
                )
            run = self._again(run)
            if run.state.ended:
                return
            if self.user is not None and run.runs_as != self.user:
                # Whoever runs it may be sending it at this moment, under a lock of their own.
                self.store.runs.request_end(run.id, _wish(user))
                return
            if run.state is RunState.CREATED:
                self._record(run, RunState.CANCELLED, reason=f"cancelled by {user} before it was sent")
                return
            if run.cluster not in self.schedulers:
                raise InputError(
                    f"run {run.id} is on cluster {run.cluster}, which the settings do not have any more",
                    hint=f"Put the cluster back, or end job {run.status.job_id} with the scheduler's own command.",
                )
            self.store.runs.request_end(run.id, _wish(user))
            run = self._again(run)
            try:
                if not run.status.job_id:
                    self._look_up([run])
                else:
                    self.schedulers[run.cluster].cancel([_key(run)])
            except SchedulerError as error:
                stored = _WISH_STORED.format(id=run.id)
                error.hint = f"{error.hint} {stored}" if isinstance(error, SchedulerRefused) else stored
                raise

    def asked_at(self, cluster: str) -> datetime | None:
        """When this cluster's scheduler was last asked, by any client of the board."""
        return self._backoff(cluster).asked_at

    def silent_since(self, cluster: str) -> datetime | None:
        """When this cluster's scheduler was first asked in vain since it last answered; None where it last answered."""
        return self._backoff(cluster).silent_since

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A time in which no client of the board carries runs on.

        Raises:
            StorageError: another one is doing so all the while.
        """
        with self._lock(wait_seconds=LOCK_SECONDS) as held:
            if not held:
                raise StorageError(
                    f"another client has been carrying runs on for {LOCK_SECONDS:g} s", hint="Try again in a moment."
                )
            yield

    def _again(self, run: Run) -> Run:
        return self.store.runs.get(run.id)

    @contextmanager
    def _lock(self, *, wait_seconds: float) -> Iterator[bool]:
        path = self.folder / "advance.lock"
        with ExitStack() as stack:
            with _writing(path):
                mine = stack.enter_context(locked(path, wait_seconds=wait_seconds))
            if mine:
                stack.enter_context(self.store.file.session())
            yield mine

    def _mark_orphaned(self, run: Run) -> None:
        """Say of a run whose cluster has left the settings that nobody can carry it on."""
        if run.state.unsent:
            self._record(run, RunState.ERROR, reason=f"the settings no longer have cluster {run.cluster}; submit again")
        else:
            reason = f"the settings no longer have cluster {run.cluster}: nobody is asked"
            self._look_into_folder(self._record(run, run.state, reason=reason, source=self._left(run).result_problem))

    def _may_send(self, run: Run, asked: Sequence[str]) -> bool:
        """Whether a run is to be sent in this turn, in which the schedulers of the clusters `asked` are asked."""
        if run.state is RunState.CREATED:
            return not self._backoff(run.cluster).rests(_now())
        return run.state is RunState.SUBMITTING and run.cluster in asked

    def _complete_arrays(self, runs: Sequence[Run]) -> list[Run]:
        """Those of `runs` whose array can go with all of its unsent runs: two of one name could not be told apart."""
        chosen = {run.id for run in runs}
        unsent = (run for run in self.store.runs.in_flight(account=self.user) if run.array and run.state.unsent)
        parts = {run.array for run in unsent if run.id not in chosen}
        return [run for run in runs if run.array not in parts]

    def _launch_all(self, runs: Iterable[Run]) -> tuple[list[BoardError], dict[str, float]]:
        """Send these runs; return what is wrong where that cannot be done, and for how long which clusters were silent.

        After a cluster's first silence the rest of its runs are left for a later turn: each would wait as long.
        """
        errors: list[BoardError] = []
        silent: dict[str, float] = {}
        for group in _together(runs):
            cluster = group[0].cluster
            if cluster in silent:
                continue
            began = time.monotonic()
            found = self._launch(group)
            errors += found
            if any(isinstance(each, SchedulerError) and not isinstance(each, SchedulerRefused) for each in found):
                silent[cluster] = time.monotonic() - began
        return errors, silent

    def _launch(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send runs that go together and are not sent yet; the errors of those for which that cannot be done."""
        errors: list[BoardError] = []
        parcels: list[_PreparedJob] = []
        try:
            wanted = self._not_sent(runs)
        except (StorageError, SchedulerError) as error:
            return self._hindered(runs, error)
        try:
            for sha256 in {run.harness_sha256 for run in wanted}:
                self._ensure_harness(self._folders(wanted[0]), sha256)
        except (StorageError, SchedulerError, InputError) as error:
            return self._hindered(wanted, error)
        for run in wanted:
            try:
                parcels.append(self._packed(run))
            except (StorageError, SchedulerError) as error:
                # None is sent without the others: two arrays of one name could not be told apart.
                return errors + self._hindered(wanted, error)
            except InputError as error:
                errors += self._hindered([run], error)
        return errors + self._send(parcels)

    def _hindered(self, runs: Sequence[Run], error: BoardError) -> list[BoardError]:
        """Record why these runs are not sent, and return the error for each of them."""
        for run in runs:
            if isinstance(error, StorageError):
                # The disk may have room again, the database be unlocked: the run stays as it is, and is tried again.
                with suppress(StorageError):
                    self._tell_hindered(run, error)
            elif isinstance(error, InputError | SchedulerRefused):
                self._record(run, RunState.ERROR, reason=error.message)
            else:
                self._tell_unconfirmed(self._again(run), error)
        return [error] * len(runs)

    def _tell_unconfirmed(self, run: Run, error: BoardError) -> None:
        """Record of a run that may have been sent that nobody has confirmed it."""
        if run.state is RunState.CREATED:
            self._tell_hindered(run, error)
        elif run.state is RunState.SUBMITTING:
            reason = run.status.reason if run.status.cancel_requested else _UNCONFIRMED
            self._record(run, run.state, reason=reason, source=error.message, unanswered=True)

    def _tell_hindered(self, run: Run, error: BoardError) -> None:
        """Record of a run of which the scheduler has not heard what keeps it from being sent, and what to do."""
        run = self._again(run)
        if run.state is RunState.CREATED:
            self._record(run, run.state, reason=error.message, source=error.hint)

    def _not_sent(self, runs: Sequence[Run]) -> list[Run]:
        """Those of `runs` that are to be sent now: none whose job exists, may still appear, or is not wanted any more.

        Raises:
            SchedulerError: nobody knows.
        """
        tried = [run for run in runs if run.state is RunState.SUBMITTING]
        found = self._look_up(tried) if tried else set()
        absent = [run for run in runs if run.id not in found]
        if any(run.state is RunState.SUBMITTING and self._waits(run) for run in absent):
            return []
        for run in absent:
            if run.status.cancel_requested:
                self._record(run, RunState.CANCELLED, reason="cancelled before it was sent")
        return [run for run in absent if not run.status.cancel_requested]

    def _look_up(self, runs: Sequence[Run]) -> set[int]:
        """The runs whose jobs the scheduler has already, which are then taken over; all `runs` are of one cluster.

        Raises:
            SchedulerError: nobody knows.
        """
        scheduler = self.schedulers[runs[0].cluster]
        try:
            job_ids = _job_ids(scheduler, runs)
        except SchedulerRefused as error:
            # That nobody can ask says nothing of the job.
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
        return _now() - run.status.at < self.settle

    def _ensure_harness(self, folders: job_folder.Folders, sha256: str) -> None:
        """Have the harness that runs were stored with lie where their jobs find it.

        Raises:
            InputError: it is that of another version of hpc-board, and not there.
            StorageError: the folder cannot be written, or read.
            SchedulerError: the machine that has the folder cannot be reached.
        """
        if sha256 == self._harness_sha256:
            if folders.ensure_harness(self.harness()):
                folders.remove_unused_harnesses({run.harness_sha256 for run in self.store.runs.in_flight()})
        elif not folders.has_harness(sha256):
            raise InputError("hpc-board was updated before the run was sent; submit again")

    def _packed(self, run: Run) -> "_PreparedJob":
        """A run with its job folder written."""
        gpu = self.gpus.get(run.gpu)
        if gpu is None:
            raise InputError(f"the settings no longer have GPU {run.gpu}; submit again")
        tries = 0
        if run.state is not RunState.CREATED:
            tries = sum(status.source.startswith(_TRY) for status in self.store.runs.history(run.id))
        if tries >= TRIES_MAX:
            raise InputError(f"not accepted after {tries} tries: {run.status.source}")
        task = self.store.submissions.task(run.task, run.task_version)
        code = self.store.submissions.code(run.code_sha256)
        path = self._folders(run).write(run, task, gpu, code=code)
        return _PreparedJob(run, gpu, path, job_folder.script(task, gpu, run.mode), tries + 1)

    def _send(self, parcels: Sequence["_PreparedJob"]) -> list[BoardError]:
        """Send runs as one array where they can be one, else each by itself; the errors of those that are not sent."""
        script = self._array_script(parcels)
        if script is not None:
            try:
                self._hand_over(self._array(parcels, script), parcels)
            except SchedulerRefused:
                # Arrays or so many jobs at once may be refused, and not what is in them: the first of them will show.
                pass
            except BoardError as error:
                return self._hindered([parcel.run for parcel in parcels], error)
            else:
                return []
        errors: list[BoardError] = []
        for index, parcel in enumerate(parcels):
            try:
                self._hand_over(parcel.job, [parcel])
            except BoardError as error:
                # A first one that is refused as the array was speaks for all. Nor are they tried on a silent scheduler.
                alone = isinstance(error, SchedulerRefused) and (script is None or index > 0)
                hindered = [parcel] if alone else parcels[index:]
                errors += self._hindered([each.run for each in hindered], error)
                if not alone:
                    break
        return errors

    def _array_script(self, parcels: Sequence["_PreparedJob"]) -> job_folder.ArrayScript | None:
        """What all of these runs have in common as tasks of an array; None where they cannot be one."""
        if len(parcels) < 2 or not isinstance(self.schedulers[parcels[0].run.cluster], Arrays):
            return None
        first, *others = {job_folder.array_script(parcel.script, parcel.gpu) for parcel in parcels}
        return None if others else first

    def _array(self, parcels: Sequence["_PreparedJob"], script: job_folder.ArrayScript) -> Job:
        run = parcels[0].run
        path = self._folders(run).write_array(run.array, script)
        indexes = [parcel.run.array_index for parcel in parcels]
        return replace(parcels[0].job, name=run.array, folder=path, indexes=indexes)

    def _hand_over(self, job: Job, parcels: Sequence["_PreparedJob"]) -> None:
        """Submit the job of these runs.

        Raises:
            BoardError: the scheduler does not take it, or nobody knows.
        """
        now = _now()
        runs = self._store_each(
            _moved(parcel.run, RunState.SUBMITTING, source=f"{_TRY}{parcel.tries}", at=now) for parcel in parcels
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
        job_id: str = "",
        reason: str = "",
        source: str = "",
        unanswered: bool = False,
    ) -> Run:
        moved = _moved(run, state, job_id=job_id, reason=reason, source=source, unanswered=unanswered)
        return self._store_status(run, moved.status)

    def _store_status(self, run: Run, status: Status) -> Run:
        if status != run.status:
            self.store.runs.record(run.id, status)
        return replace(run, status=status)

    def _look_into_folders(self, runs: Sequence[Run], *, watched: bool) -> None:
        """Take in what has come to the folders of these runs; those on another machine are looked into now and then."""
        clusters = {run.cluster for run in runs}
        far = {cluster for cluster in clusters if self._is_far(cluster)}
        backoffs = {cluster: self._folder_backoff(cluster, watched=watched) for cluster in far}
        due = {cluster for cluster in far if backoffs[cluster].due(_now())}
        for cluster in due:
            with _writing(self.folder):
                backoffs[cluster].begin(_now())
        for run in runs:
            if run.cluster in due or run.cluster not in far:
                self._look_into_folder(run)
        for cluster in due:
            members = [run for run in runs if run.cluster == cluster]
            with _writing(self.folder):
                backoffs[cluster].settle(news=any(self._again(run).state is not run.state for run in members))

    def _is_far(self, cluster: str) -> bool:
        return cluster in self.folders and self.folders[cluster].elsewhere

    def _folder_backoff(self, cluster: str, *, watched: bool) -> Backoff:
        """Return the pauses between looks at all runs of a cluster, or at the watched ones alone."""
        return Backoff(self.folder / f"looked-{cluster}{'.watched' * watched}", LOOK_SECONDS, patience=LOOK_PATIENCE)

    def _store_each(self, runs: Iterable[Run]) -> list[Run]:
        """Store the statuses of all these runs, or of none."""
        stored = list(runs)
        self.store.runs.record_each({run.id: run.status for run in stored})
        return stored

    def _look_into_folder(self, run: Run) -> None:
        """Take in the run's result if it is there; else notice that its job has begun."""
        folders = self._folders(run)
        try:
            data = folders.read(run, job_folder.RESULT, RESULT_BYTES_MAX)
        except FileNotFoundError:
            data = b""
        except NotRegularFileError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        except OSError:
            # Whatever else is recorded of the run says so: two sources that take turns would add a row in each turn.
            return
        if not data:
            # A name without its contents is a network file system that lags behind.
            begun = run.state is RunState.QUEUED and folders.files.is_file(folders.of(run) / job_folder.PROGRESS)
            if begun and not self._ran_before(run):
                self._record(run, RunState.RUNNING, source="its progress file is there")
            return
        self._take_result(run, data)

    def _ran_before(self, run: Run) -> bool:
        """Whether a queued run has been running: its scheduler put it back, and the files of its job prove nothing."""
        return any(status.state is RunState.RUNNING for status in self.store.runs.history(run.id))

    def _left(self, run: Run) -> _Leftover:
        """What is in the place of the run's result."""
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
        return _Leftover(partial=result) if result.interrupted else _Leftover(whole=True)

    def _take_result(self, run: Run, data: bytes) -> None:
        task = self.store.submissions.task(run.task, run.task_version)
        try:
            result = self._accepted(run, task, data)
        except ResultError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        if result.interrupted:
            # Why the job was told to end is the scheduler's to say.
            return
        ranked = result.verdict is Verdict.PASS and run.mode is Mode.RANKED
        node = one_line(str(result.provenance.get("node") or result.provenance.get("host", "")), 120)
        status = Status(RunState.FINISHED, _now(), run.status.job_id or one_line(result.job_id, 60), node)
        score = score_s(result.cases, task.ranking_by) if ranked else None
        interval = score_interval(result.cases, task.ranking_by) if ranked else None
        try:
            self.store.runs.finish(run.id, status, result, score, ended_at(result, run, status.at), interval=interval)
        except ResultError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")

    def _accepted(self, run: Run, task: Task, data: bytes) -> Result:
        """The result of `run` in `data`.

        Raises:
            ResultError: the data is no result, or not this run's.
        """
        result, gpu = Result.from_json(data), self.gpus.get(run.gpu)
        faults = result_faults(result, run, task, gpu.device if gpu else None, self._harness_sha256)
        if faults:
            raise ResultError("; ".join(faults[:5]))
        return result

    @cached_property
    def _harness_sha256(self) -> str:
        return hashlib.sha256(self.harness()).hexdigest()

    def _clusters_to_ask(self, runs: Sequence[Run]) -> list[str]:
        """The clusters of `runs` whose schedulers are asked in this turn, which all clients are told."""
        clusters = {run.cluster: None for run in runs}
        asked = [cluster for cluster in clusters if self._backoff(cluster).due(_now())]
        for cluster in asked:
            with _writing(self.folder):
                self._backoff(cluster).begin(_now())
        return asked

    def _ask_schedulers(self, clusters: Sequence[str], runs: Sequence[Run]) -> list[SchedulerError]:
        """Carry `runs` on by what the schedulers of `clusters` say, and return the errors of those that say nothing."""
        errors = []
        for cluster in clusters:
            members = [run for run in runs if run.cluster == cluster and run.status.job_id]
            if not members:
                continue
            began = time.monotonic()
            news: Mapping[str, JobStatus] = {}
            failed = False
            try:
                news = self.schedulers[cluster].poll([_key(run) for run in members])
            except SchedulerError as error:
                errors.append(error)
                failed = True
            # In one transaction: thousands of jobs may begin to wait at once.
            going_on: dict[int, Status] = {}
            states = [self._apply(run, news[run.token], going_on).state for run in members if run.token in news]
            self.store.runs.record_each(going_on)
            before = [run.state for run in members if run.token in news]
            # A wish that met a silent scheduler is repeated until the job ends.
            unheard = [run for run in members if _goes_on(news.get(run.token)) and run.status.cancel_requested]
            try:
                if unheard:
                    self.schedulers[cluster].cancel([_key(run) for run in unheard])
            except SchedulerError as error:
                errors.append(error)
                failed = True
            if failed:
                self._note_silence(cluster, time.monotonic() - began)
            else:
                self._settle(cluster, news=states != before)
        return errors

    def _settle(self, cluster: str, *, news: bool) -> None:
        with _writing(self.folder):
            self._backoff(cluster).settle(news=news)
            if news and self._is_far(cluster):
                self._folder_backoff(cluster, watched=False).settle(news=True)
                self._folder_backoff(cluster, watched=True).settle(news=True)

    def _note_silences(self, silent: Mapping[str, float]) -> None:
        for cluster, seconds in silent.items():
            self._note_silence(cluster, seconds)

    def _note_silence(self, cluster: str, seconds: float) -> None:
        with _writing(self.folder):
            self._backoff(cluster).fail(_now(), seconds)

    def _backoff(self, cluster: str) -> Backoff:
        settings = self.clusters[cluster]
        patience = PATIENCE if self._kind(cluster).shared else 1.0
        return Backoff(self.folder / f"asked-{cluster}", settings.poll_seconds, patience=patience)

    def _kind(self, cluster: str) -> AnyKind:
        return kind_of(self.clusters[cluster])

    def _apply(self, run: Run, news: JobStatus, going_on: dict[int, Status]) -> Status:
        """The run's status after these news: stored if it ends the run, else put into `going_on` if it has changed."""
        if news.state in (JobState.MISSING, JobState.ENDED) and run.status.cancel_requested:
            news = replace(news, state=JobState.CANCELLED)
        if _goes_on(news) and run.status.cancel_requested:
            news = replace(news, reason=run.status.reason)
        # What a job left does not matter while it waits, and thousands may do so.
        left = _Leftover() if news.state is JobState.PENDING else self._left(run)
        if left.whole:
            # It has come since the folder was looked into: the next turn takes it.
            return run.status
        partial, result_problem = left.partial, left.result_problem
        if partial is not None and news.restarts is not None and partial.restart_count != news.restarts:
            # What an earlier attempt had come to explains nothing of this one.
            partial = None
        if partial is not None and news.state is JobState.MISSING:
            result_problem = f"{job_folder.RESULT} is of a job that was told to end"
        status = next_status(
            run.status,
            news,
            _now(),
            result_grace=self._kind(run.cluster).result_grace,
            interrupted=partial is not None,
            result_problem=result_problem,
            unreadable=left.unreadable,
        )
        if status.state.ended and partial is not None:
            self.store.runs.stop(run.id, status, partial)
        elif status.state.ended:
            self._store_status(run, replace(status, source=f"{status.source}{self._last_words(run)}"))
        elif status != run.status:
            going_on[run.id] = status
        return status

    def _folders(self, run: Run) -> job_folder.Folders:
        return self.folders.get(run.cluster) or job_folder.Folders(self.folder)

    def _last_words(self, run: Run) -> str:
        """The last line of the job's output, to be told after other evidence; empty where it has printed nothing."""
        try:
            name = self._kind(run.cluster).log_name(run.status.job_id)
            lines = (
                self._folders(run).read(run, name, _LAST_WORDS_BYTES, end=True).decode(errors="replace").splitlines()
            )
        except OSError:
            return ""
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f'; its output ends with "{one_line(last, _LAST_WORDS_MAX)}"' if last else ""


class _PreparedJob(msgspec.Struct, frozen=True):
    """A run that can be sent: its job folder is written. `tries` counts this one too."""

    run: Run
    gpu: Gpu
    path: Path
    script: job_folder.Script
    tries: int

    @property
    def job(self) -> Job:
        """The run's own job."""
        script = self.script
        return Job(self.run.token, self.path, job_folder.SCRIPT, self.gpu, script.options, script.time_limit_seconds)


def _together(runs: Iterable[Run]) -> Iterable[list[Run]]:
    """The runs that are made for the same array, and each of the others by itself."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.array or run.token, []).append(run)
    return groups.values()


def _job_ids(scheduler: Scheduler, runs: Sequence[Run]) -> dict[int, str]:
    """The ids of the jobs that the scheduler has, by the numbers of their runs."""
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
    """`run` in `state`, since `at` where that is given."""
    status = replace(
        run.status.moved(state, _now()),
        job_id=job_id or run.status.job_id,
        reason=reason,
        source=source,
        unanswered=unanswered,
    )
    return replace(run, status=replace(status, at=at) if at else status)


def _wish(user: str) -> str:
    """What is said of a run that `user` wants to end; the time is not that of its state, which it keeps."""
    return f"cancel requested by {user} at {_now():%H:%M:%S} UTC"


def _hinders(error: BoardError) -> bool:
    """Whether a run stays unsent because of `error`; a refusal ends the run, whose state tells it."""
    return isinstance(error, StorageError) or not isinstance(error, InputError | SchedulerRefused)


def _goes_on(news: JobStatus | None) -> bool:
    """Whether a job waits or runs, so that a wish to cancel it has not been heard."""
    return news is not None and news.state in (JobState.PENDING, JobState.RUNNING)


def _key(run: Run) -> JobKey:
    return JobKey(run.token, run.status.job_id, run.created_at)


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Translate what hinders writing to `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written or locked: {error.strerror or error}",
            hint="Check that you may write the board's folder, that its disk is not full, and that it can lock files.",
        ) from error
