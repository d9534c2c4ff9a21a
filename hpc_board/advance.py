"""The state machine that carries runs from `created` to their end; any process may turn it, one at a time.

Order within a run: its row, its job folder, the event `submitting`, the scheduler, the event `queued`. A process that
dies between two of these leaves a run that the next one takes up: a job is looked up by its unique name before it is
sent again, and only after `SETTLE`, since a command that was under way may still arrive.
"""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hpc_board import jobs
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.gpu import Gpu
from hpc_board.model.result import RESULT_BYTES_MAX, Result, ResultError, Verdict
from hpc_board.model.run import RESULT_GRACE, JobNews, JobState, Run, RunState, Status, next_status
from hpc_board.model.standings import score_s
from hpc_board.model.task import Mode, Ranking, Task
from hpc_board.model.text import one_line
from hpc_board.schedulers import Job, JobKey, Scheduler
from hpc_board.store import Store

SETTLE = timedelta(seconds=30)
"""How long a submission whose outcome is unknown is left alone before it is looked up and, if absent, sent again."""

TRIES_MAX = 4
"""How often a job is sent before the run counts as failed by our machinery."""

_TRY = "try "
_UNSENT = (RunState.CREATED, RunState.SUBMITTING)

_CANCEL_MARK = "cancel.json"


@dataclass(frozen=True)
class Advance:
    """Everything that turning the state machine needs.

    `schedulers` maps names of clusters to their schedulers, `gpus` names of GPUs to the settings' entries. `task`
    gives the task of a run at exactly its version, or None. `harness` gives the bytes of the harness file.
    """

    folder: Path
    store: Store
    schedulers: Mapping[str, Scheduler]
    gpus: Mapping[str, Gpu]
    task: Callable[[Run], Task | None]
    harness: Callable[[], bytes]
    settle: timedelta = SETTLE

    def __call__(self, *, ask: bool = False) -> bool:
        """Carry every run in flight as far as it goes now; False if another process is doing so at this moment.

        `ask` asks the schedulers even if they were asked a moment ago.

        Raises:
            StorageError: the board cannot be written.
            SchedulerError: a scheduler did not answer; its runs stay as they are, the others were carried on.
        """
        with self._lock(wait=False) as mine:
            if not mine:
                return False
            for run in self.store.in_flight():
                if run.state in _UNSENT:
                    self._launch(run)
                else:
                    self._look_into_folder(run)
            self._ask_schedulers(self.store.in_flight(), anyway=ask)
        return True

    def launch(self, runs: Sequence[Run]) -> list[BoardError]:
        """Send these new runs to their schedulers and return what went wrong, at most one error for each."""
        with self._lock(wait=True):
            # Another process may have taken them up between their rows and this lock.
            unsent = (run for run in map(self._again, runs) if run.state in _UNSENT)
            return [error for error in map(self._launch, unsent) if error is not None]

    def cancel(self, run: Run, user: str) -> None:
        """Ask for the end of `run`; one that has ended is left alone.

        Raises:
            SchedulerError: its job cannot be found yet, or the scheduler did not answer.
        """
        with self._lock(wait=True):
            run = self._again(run)
            if run.state.ended:
                return
            if run.state is RunState.CREATED:
                self._record(run, RunState.CANCELLED, reason=f"cancelled by {user} before it was sent")
                return
            if not run.status.job_id:
                run = self._found(run)
            if not run.status.job_id:
                raise SchedulerError(
                    f"run {run.id} is being submitted, and its job cannot be found yet",
                    hint=f"Try `hpc-board cancel {run.id}` again in a minute.",
                )
            mark = jobs.folder(self.folder, run.id) / _CANCEL_MARK
            with _writing(mark):
                mark.write_text(json.dumps({"by": user, "at": _now().isoformat()}), encoding="utf-8")
            self.schedulers[run.cluster].cancel([_key(run)])
            self._record(run, run.state, reason=f"cancel requested by {user}")

    def _again(self, run: Run) -> Run:
        return self.store.run(run.id)

    def asked_at(self, cluster: str) -> datetime | None:
        """When this cluster's scheduler was last asked, by any client of the board."""
        try:
            return datetime.fromtimestamp(self._asked_file(cluster).stat().st_mtime, UTC)
        except OSError:
            return None

    @contextmanager
    def _lock(self, *, wait: bool) -> Iterator[bool]:
        path = self.folder / "advance.lock"
        with _writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def _launch(self, run: Run) -> BoardError | None:
        """Send a run that is not sent yet, and return what is wrong where that cannot be done."""
        if run.state is RunState.SUBMITTING:
            run = self._found(run)
            if run.status.job_id or _now() - run.status.at < self.settle:
                return None
        gpu, task = self.gpus.get(run.gpu), self.task(run)
        if gpu is None or task is None or run.cluster not in self.schedulers:
            missing = f"GPU {run.gpu}" if gpu is None else f"task {run.task} at the version that was submitted"
            self._record(run, RunState.ERROR, reason=f"the settings no longer have {missing}; submit again")
            return None
        tries = sum(status.evidence.startswith(_TRY) for status in self.store.history(run.id))
        if tries >= TRIES_MAX:
            self._record(run, RunState.ERROR, reason=f"not accepted after {tries} tries: {run.status.evidence}")
            return None
        try:
            self._send(run, task, gpu, f"{_TRY}{tries + 1}")
        except (InputError, SchedulerRefused) as error:
            self._record(run, RunState.ERROR, reason=error.message)
            return error
        except SchedulerError as error:
            self._record(run, RunState.SUBMITTING, evidence=f"no clear answer: {error.message}")
            return error
        return None

    def _send(self, run: Run, task: Task, gpu: Gpu, attempt: str) -> None:
        code = self.store.code(self.store.submission(run.submission).code_sha256)
        path = jobs.write_folder(self.folder, run, task, gpu, code=code, harness=self.harness())
        script = jobs.script(task, gpu, run.mode)
        job = Job(run.token, path, jobs.SCRIPT, gpu, script.options, script.time_limit_seconds)
        run = self._record(run, RunState.SUBMITTING, evidence=attempt)
        job_id = self.schedulers[run.cluster].submit(job)
        self._record(run, RunState.QUEUED, job_id=job_id)

    def _found(self, run: Run) -> Run:
        """The run with its job's id, if the scheduler already has the job."""
        try:
            job_id = self.schedulers[run.cluster].find(run.token, run.created_at)
        except SchedulerError as error:
            return self._record(run, run.state, evidence=f"cannot be looked up: {error.message}", at=run.status.at)
        if job_id is None:
            return run
        return self._record(run, RunState.QUEUED, job_id=job_id, evidence="found by its name")

    def _record(
        self,
        run: Run,
        state: RunState,
        *,
        job_id: str = "",
        reason: str = "",
        evidence: str = "",
        at: datetime | None = None,
    ) -> Run:
        status = replace(
            run.status,
            state=state,
            at=at or _now(),
            job_id=job_id or run.status.job_id,
            reason=reason,
            evidence=evidence,
        )
        return self._store_status(run, status)

    def _store_status(self, run: Run, status: Status) -> Run:
        if not run.status.same_but_time(status):
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
        except OSError as error:
            self._record(run, run.state, evidence=f"{jobs.RESULT} cannot be read now: {error.strerror}")
            return
        if not data:
            # A name without its contents is a network file system that lags behind.
            if run.state is RunState.QUEUED and (path / jobs.PROGRESS).exists():
                self._record(run, RunState.RUNNING, evidence="its progress file is there")
            return
        try:
            result = Result.from_json(data)
            ranking = self._checked(run, result)
        except (ValueError, OSError, KeyError) as error:
            self._record(run, RunState.ERROR, reason=f"the result is not accepted: {error}")
            return
        ranked = result.verdict is Verdict.PASS and run.mode is Mode.RANKED
        node = one_line(str(result.provenance.get("node") or result.provenance.get("host", "")), 120)
        status = Status(RunState.FINISHED, _now(), run.status.job_id or one_line(result.job_id, 60), node)
        self.store.finish(run.id, status, result, score_s(result.cases, ranking) if ranked else None)

    def _checked(self, run: Run, result: Result) -> Ranking:
        """How the run's task ranks, once it is clear that `result` is the answer to what was sent."""
        sent = json.loads((jobs.folder(self.folder, run.id) / jobs.FACTS).read_bytes())
        if (result.run, result.nonce, result.mode) != (run.id, run.nonce, str(run.mode)):
            raise ResultError("it belongs to another run")
        for name in ("harness", "task", "submission"):
            if result.provenance.get(f"{name}_sha256") != sent["sha256"][name]:
                raise ResultError(f"it was made with another {name}")
        return Ranking(sent["task"]["ranking_by"])

    def _ask_schedulers(self, runs: Sequence[Run], *, anyway: bool) -> None:
        by_cluster: dict[str, list[Run]] = {}
        for run in runs:
            if run.status.job_id and run.cluster in self.schedulers:
                by_cluster.setdefault(run.cluster, []).append(run)
        errors = []
        for cluster, members in by_cluster.items():
            if not anyway and not self._due(cluster, members[0]):
                continue
            with _writing(self._asked_file(cluster)):
                self._asked_file(cluster).touch()
            try:
                news = self.schedulers[cluster].poll([_key(run) for run in members])
            except SchedulerError as error:
                errors.append(error)
                continue
            for run in members:
                if run.token in news:
                    self._take(run, news[run.token])
        if errors:
            raise errors[0]

    def _due(self, cluster: str, run: Run) -> bool:
        asked, gpu = self.asked_at(cluster), self.gpus.get(run.gpu)
        pause = timedelta(seconds=gpu.cluster.poll_seconds if gpu else 0)
        return asked is None or not timedelta(0) <= _now() - asked < pause

    def _take(self, run: Run, news: JobNews) -> None:
        cancelled = (jobs.folder(self.folder, run.id) / _CANCEL_MARK).exists()
        if cancelled and news.state in (JobState.MISSING, JobState.ENDED):
            news = replace(news, state=JobState.CANCELLED)
        local = self.gpus[run.gpu].cluster.scheduler == "local" if run.gpu in self.gpus else False
        grace = timedelta(seconds=3) if local else RESULT_GRACE
        self._store_status(run, next_status(run.status, news, _now(), result_grace=grace))

    def _asked_file(self, cluster: str) -> Path:
        return self.folder / f"asked-{cluster}"


def _key(run: Run) -> JobKey:
    return JobKey(run.token, run.status.job_id, run.created_at)


def _now() -> datetime:
    return datetime.now(UTC)


class IsNoFileError(OSError):
    """Something else than a regular file lies where a job should have left one."""


def regular_file(path: Path, limit: int) -> bytes:
    """The first `limit` bytes, and one more if there is one, of a file that a job left.

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
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise IsNoFileError(f"{path.name} is no regular file")
        return file.read(limit + 1)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror or error}",
            hint="Check that you may write the board's folder and that its disk is not full.",
        ) from error
