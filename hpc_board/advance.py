"""The state machine that carries runs from `created` to their end; any process may turn it, one at a time.

Order within a run: its row, its job folder, the event `submitting`, the scheduler, the event `queued`. A process that
dies between two of these leaves a run that the next one takes up: a job is looked up by its unique name before it is
sent again, and only after `SETTLE`, since a command that was under way may still arrive.
"""

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from hpc_board import jobs
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.acceptance import ended_at, result_faults
from hpc_board.model.gpu import Cluster, Gpu
from hpc_board.model.result import RESULT_BYTES_MAX, Result, ResultError, Verdict
from hpc_board.model.run import RESULT_GRACE, JobNews, JobState, Run, RunState, Status, next_status
from hpc_board.model.standings import score_s
from hpc_board.model.task import Mode, Task
from hpc_board.model.text import one_line
from hpc_board.schedulers import Job, JobKey, Scheduler
from hpc_board.store import Store

SETTLE = timedelta(seconds=30)
"""How long a submission whose outcome is unknown is left alone before it is looked up and, if absent, sent again."""

LOCAL_RESULT_GRACE = timedelta(seconds=3)
"""How long a result may appear after the end of a job of this machine, whose files are visible at once."""

TRIES_MAX = 4
"""How often a job is sent before the run counts as failed by our machinery."""

LOCK_SECONDS = 10.0
"""How long to wait for another client that is carrying runs on."""

_TRY = "try "
_LOCK_LOOK_SECONDS = 0.05
_UNCONFIRMED = "the scheduler has not confirmed the job"


@dataclass(frozen=True)
class Turn:
    """One turn of the state machine: the clusters whose schedulers were asked, and what hindered it where."""

    asked: frozenset[str]
    errors: tuple[BoardError, ...] = ()


@dataclass(frozen=True)
class Advance:
    """Everything that turning the state machine needs.

    `schedulers` and `clusters` have the clusters of the settings by name, `gpus` the GPUs. `harness` gives the bytes
    of the harness file.
    """

    folder: Path
    store: Store
    schedulers: Mapping[str, Scheduler]
    clusters: Mapping[str, Cluster]
    gpus: Mapping[str, Gpu]
    harness: Callable[[], bytes]
    settle: timedelta = SETTLE
    lock_seconds: float = LOCK_SECONDS

    def __call__(self, *, ask: bool = False) -> bool:
        """Carry every run in flight as far as it goes now; False if another process is doing so at this moment.

        `ask` asks the schedulers even if they were asked a moment ago.

        Raises:
            StorageError: the board cannot be written.
            SchedulerError: a scheduler did not answer; its runs stay as they are, the others were carried on.
        """
        turn = self.turn(ask=ask)
        if turn is not None and turn.errors:
            raise turn.errors[0]
        return turn is not None

    def turn(self, *, ask: bool = False) -> Turn | None:
        """Do the same, and say what hindered it; None if another process is doing so at this moment.

        Raises:
            StorageError: the board's lock or its database cannot be used.
        """
        with self._lock(wait_seconds=0) as mine:
            if not mine:
                return None
            errors: list[BoardError] = []
            runs = self.store.in_flight()
            asked = self._clusters_to_ask(runs, anyway=ask)
            for run in runs:
                if run.cluster not in self.schedulers:
                    self._strand(run)
                elif not run.state.unsent:
                    self._look_into_folder(run)
                elif run.state is RunState.CREATED or run.cluster in asked:
                    error = self._launch(run)
                    if error is not None and _hinders(error):
                        errors.append(error)
            errors += self._ask_schedulers(asked, self.store.in_flight())
        return Turn(frozenset(asked), tuple(errors))

    def launch(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send these new runs to their schedulers and return what went wrong, at most one error for each.

        Where another process holds the board for long, the runs are left for it to send.
        """
        with self._lock(wait_seconds=self.lock_seconds) as mine:
            if not mine:
                return []
            # Another process may have taken them up between their rows and this lock.
            unsent = (run for run in map(self._again, runs) if run.state.unsent)
            return [error for error in map(self._launch, unsent) if error is not None]

    def cancel(self, run: Run, user: str) -> None:
        """Ask for the end of `run`; one that has ended is left alone.

        The wish is written down first, so that a job which nobody can find yet ends as soon as it is found.

        Raises:
            InputError: the run's cluster is not in the settings any more.
            SchedulerError: the scheduler did not answer, or another process holds the board for long.
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
            if run.state is RunState.CREATED:
                self._record(run, RunState.CANCELLED, reason=f"cancelled by {user} before it was sent")
                return
            if run.cluster not in self.schedulers:
                raise InputError(
                    f"run {run.id} is on cluster {run.cluster}, which the settings do not have any more",
                    hint=f"Put the cluster back, or end job {run.status.job_id} with the scheduler's own command.",
                )
            wish = replace(run.status, reason=f"cancel requested by {user}", cancel_requested=True)
            run = self._store_status(run, wish)
            if not run.status.job_id:
                self._look_up(run)
            else:
                self.schedulers[run.cluster].cancel([_key(run)])

    def asked_at(self, cluster: str) -> datetime | None:
        """When this cluster's scheduler was last asked, by any client of the board."""
        try:
            return datetime.fromtimestamp(self._asked_file(cluster).stat().st_mtime, UTC)
        except OSError:
            return None

    def _again(self, run: Run) -> Run:
        return self.store.run(run.id)

    @contextmanager
    def _lock(self, *, wait_seconds: float) -> Iterator[bool]:
        path = self.folder / "advance.lock"
        with _writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _locked(descriptor, path, wait_seconds)
        finally:
            os.close(descriptor)

    def _strand(self, run: Run) -> None:
        """Say of a run whose cluster has left the settings that nobody can carry it on."""
        if run.state.unsent:
            self._record(run, RunState.ERROR, reason=f"the settings no longer have cluster {run.cluster}; submit again")
        else:
            reason = f"the settings no longer have cluster {run.cluster}: nobody is asked"
            self._look_into_folder(self._record(run, run.state, reason=reason, evidence=self._hindrance(run)))

    def _launch(self, run: Run) -> BoardError | None:
        """Send a run that is not sent yet, and return what is wrong where that cannot be done."""
        try:
            if run.state is RunState.SUBMITTING and (self._look_up(run) or self._waits(run)):
                return None
            if run.status.cancel_requested:
                self._record(run, RunState.CANCELLED, reason="cancelled before it was sent")
                return None
            self._send(run)
        except StorageError as error:
            # The disk may have room again, the database be unlocked: the run stays as it is, and is tried again.
            return error
        except (InputError, SchedulerRefused) as error:
            self._record(run, RunState.ERROR, reason=error.message)
            return error
        except SchedulerError as error:
            run = self._again(run)
            reason = run.status.reason if run.status.cancel_requested else _UNCONFIRMED
            self._record(run, run.state, reason=reason, evidence=error.message, unanswered=True)
            return error
        return None

    def _look_up(self, run: Run) -> bool:
        """Whether the scheduler has the run's job already, which is then taken over.

        Raises:
            SchedulerError: nobody knows.
        """
        scheduler = self.schedulers[run.cluster]
        job_id = scheduler.find(run.token, run.created_at)
        if job_id is None:
            return False
        run = self._record(run, RunState.QUEUED, job_id=job_id, evidence="found by its name")
        if run.status.cancel_requested:
            scheduler.cancel([_key(run)])
        return True

    def _waits(self, run: Run) -> bool:
        return _now() - run.status.at < self.settle

    def _send(self, run: Run) -> None:
        gpu, harness = self.gpus.get(run.gpu), self.harness()
        if gpu is None:
            raise InputError(f"the settings no longer have GPU {run.gpu}; submit again")
        if hashlib.sha256(harness).hexdigest() != run.harness_sha256:
            raise InputError("hpc-board was updated before the run was sent; submit again")
        tries = sum(status.evidence.startswith(_TRY) for status in self.store.history(run.id))
        if tries >= TRIES_MAX:
            raise InputError(f"not accepted after {tries} tries: {run.status.evidence}")
        task = self.store.task(run.task, run.task_version)
        code = self.store.code(run.code_sha256)
        path = jobs.write_folder(self.folder, run, task, gpu, code=code, harness=harness)
        script = jobs.script(task, gpu, run.mode)
        job = Job(run.token, path, jobs.SCRIPT, gpu, script.options, script.time_limit_seconds)
        run = self._record(run, RunState.SUBMITTING, evidence=f"{_TRY}{tries + 1}", at=_now())
        job_id = self.schedulers[run.cluster].submit(job)
        self._record(run, RunState.QUEUED, job_id=job_id)

    def _record(
        self,
        run: Run,
        state: RunState,
        *,
        job_id: str = "",
        reason: str = "",
        evidence: str = "",
        unanswered: bool = False,
        at: datetime | None = None,
    ) -> Run:
        status = replace(
            run.status.moved(state, _now()),
            job_id=job_id or run.status.job_id,
            reason=reason,
            evidence=evidence,
            unanswered=unanswered,
        )
        return self._store_status(run, replace(status, at=at) if at else status)

    def _store_status(self, run: Run, status: Status) -> Run:
        if status != run.status:
            self.store.record(run.id, status)
        return replace(run, status=status)

    def _look_into_folder(self, run: Run) -> None:
        """Take in the run's result if it is there; else notice that its job has begun."""
        path = jobs.folder(self.folder, run.id)
        try:
            data = regular_file(path / jobs.RESULT, RESULT_BYTES_MAX)
        except FileNotFoundError:
            data = b""
        except IsNoFileError as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        except OSError:
            # Whatever else is recorded of the run says so: two sources that take turns would add a row in each turn.
            return
        if not data:
            # A name without its contents is a network file system that lags behind.
            if run.state is RunState.QUEUED and _is_file(path / jobs.PROGRESS) and not self._ran_before(run):
                self._record(run, RunState.RUNNING, evidence="its progress file is there")
            return
        self._take_result(run, data)

    def _ran_before(self, run: Run) -> bool:
        """Whether a queued run has been running: its scheduler put it back, and the files of its job prove nothing."""
        return any(status.state is RunState.RUNNING for status in self.store.history(run.id))

    def _hindrance(self, run: Run) -> str:
        """Why the run's result cannot be read although something is there; empty where nothing hinders it."""
        try:
            regular_file(jobs.folder(self.folder, run.id) / jobs.RESULT, 0)
        except (FileNotFoundError, IsNoFileError):
            return ""
        except OSError as error:
            return f"{jobs.RESULT} cannot be read now: {error.strerror}"
        return ""

    def _take_result(self, run: Run, data: bytes) -> None:
        task = self.store.task(run.task, run.task_version)
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
        try:
            self.store.finish(run.id, status, result, score, ended_at(result, run, status.at))
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

    def _partial(self, run: Run) -> Result | None:
        """What the run's job left when it was told to end, None where it left nothing of the kind."""
        try:
            data = regular_file(jobs.folder(self.folder, run.id) / jobs.RESULT, RESULT_BYTES_MAX)
            result = self._accepted(run, self.store.task(run.task, run.task_version), data)
        except (OSError, ResultError):
            return None
        return result if result.interrupted else None

    def _clusters_to_ask(self, runs: Sequence[Run], *, anyway: bool) -> list[str]:
        """The clusters of `runs` whose schedulers are asked in this turn, which all clients are told."""
        clusters = {run.cluster: None for run in runs if run.cluster in self.schedulers}
        asked = [cluster for cluster in clusters if anyway or self._due(cluster)]
        for cluster in asked:
            with _writing(self._asked_file(cluster)):
                self._asked_file(cluster).touch()
        return asked

    def _ask_schedulers(self, clusters: Sequence[str], runs: Sequence[Run]) -> list[SchedulerError]:
        """Carry `runs` on by what the schedulers of `clusters` say, and return the errors of those that say nothing."""
        errors = []
        for cluster in clusters:
            members = [run for run in runs if run.cluster == cluster and run.status.job_id]
            if not members:
                continue
            try:
                news = self.schedulers[cluster].poll([_key(run) for run in members])
            except SchedulerError as error:
                errors.append(error)
                continue
            for run in members:
                if run.token in news:
                    self._take(run, news[run.token])
        return errors

    def _due(self, cluster: str) -> bool:
        asked = self.asked_at(cluster)
        pause = timedelta(seconds=self.clusters[cluster].poll_seconds)
        return asked is None or not timedelta(0) <= _now() - asked < pause

    def _take(self, run: Run, news: JobNews) -> None:
        if news.state in (JobState.MISSING, JobState.ENDED) and run.status.cancel_requested:
            news = replace(news, state=JobState.CANCELLED)
        news = replace(news, evidence="; ".join(filter(None, (news.evidence, self._hindrance(run)))))
        local = self.clusters[run.cluster].scheduler == "local"
        grace = LOCAL_RESULT_GRACE if local else RESULT_GRACE
        partial = self._partial(run)
        status = next_status(run.status, news, _now(), result_grace=grace, interrupted=partial is not None)
        if status.state.ended and partial is not None:
            self.store.stop(run.id, status, partial)
        else:
            self._store_status(run, status)

    def _asked_file(self, cluster: str) -> Path:
        return self.folder / f"asked-{cluster}"


def _hinders(error: BoardError) -> bool:
    """Whether a run stays unsent because of `error`; a refusal ends the run, whose state tells it."""
    return isinstance(error, StorageError) or not isinstance(error, InputError | SchedulerRefused)


def _key(run: Run) -> JobKey:
    return JobKey(run.token, run.status.job_id, run.created_at)


def _now() -> datetime:
    return datetime.now(UTC)


def _locked(descriptor: int, path: Path, wait_seconds: float) -> bool:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            with _writing(path, but=BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_LOOK_SECONDS)
        else:
            return True


def _is_file(path: Path) -> bool:
    """Whether a regular file of a job folder is there and can be seen: a job may have closed its folder."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


class IsNoFileError(OSError):
    """Something else than a regular file lies where a job should have left one."""


def regular_file(path: Path, limit: int, *, end: bool = False) -> bytes:
    """The first `limit` bytes, and one more if there is one, of a file that a job left; or the last ones, if `end`.

    Raises:
        IsNoFileError: it is a link, a folder, a device or a pipe, and was not opened for reading.
        OSError: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise IsNoFileError(f"{path.name} is no regular file") from error
        raise
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise IsNoFileError(f"{path.name} is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            if end:
                file.seek(max(0, facts.st_size - limit))
            return file.read(limit + 1)
    finally:
        os.close(descriptor)


@contextmanager
def _writing(path: Path, *, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Translate what hinders writing to `path`, all `but` one kind."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written or locked: {error.strerror or error}",
            hint="Check that you may write the board's folder, that its disk is not full, and that it can lock files.",
        ) from error
