"""The clusters of the settings: their schedulers, free GPUs and job folders, and the pauses between questions."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from hpc_board.domain.clock import utc_now
from hpc_board.domain.pause import Moment, Pause
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.gpu import Availability, Cluster, Gpu, GpuStatus
from hpc_board.model.text import one_line
from hpc_board.runs.backoff import PAUSE_FACTOR, SCAN_PAUSE_FACTOR, SCAN_PAUSE_SECONDS, Backoff, SharedValue
from hpc_board.schedulers import AnyKind, Arrays, JobKey, Scheduler, Surroundings, kind_of
from hpc_board.settings import Settings
from hpc_board.store.folder import check_own, make_board_folder

if TYPE_CHECKING:
    from hpc_board.domain.run import Run
    from hpc_board.runs.job_folder import Folders
    from hpc_board.runs.runners import RunnerJobs
    from hpc_board.transport import Host
    from hpc_board.transport.ssh import Connection

FREE_SECONDS = 2.0
"""The longest wait for free GPUs: the last known numbers then serve."""

_KEPT = timedelta(hours=1)
"""The age at which an answer is dropped: an older one belongs to settings that are not used any more."""

_KNOWN_SECONDS = 86_400.0
"""The time for which an answer about a cluster's configuration counts."""

_ARRAY_SIZE = 1000
"""The size of arrays on a cluster that has never told its own: Slurm's default. No larger ones are sent."""

_ANSWERS_BYTES_MAX = 1024 * 1024
_LAST_WORDS_BYTES = 4096
_LAST_WORDS_MAX = 160


class Clusters:
    """Schedulers, login nodes and job folders of each cluster, made when first used.

    `warn` is called from any thread with warnings about the settings. The logins that `former` settings also have
    keep their connections.
    """

    def __init__(self, settings: Settings, warn: Callable[[str], object], former: "Clusters | None" = None) -> None:
        self._settings = settings
        self._warn = warn
        self.connections: dict[str, Connection] = _connections(settings, {} if former is None else former.connections)

    @cached_property
    def schedulers(self) -> dict[str, Scheduler]:
        """The scheduler of each cluster, by the cluster's name."""
        return {cluster.name: self._scheduler(cluster) for cluster in self._settings.clusters}

    @cached_property
    def hosts(self) -> "dict[str, Host]":
        """The login node of each cluster that is reached over SSH, and the account of each whose jobs have another."""
        hosts: dict[str, Host] = {}
        if self.connections:
            from hpc_board.transport.ssh import SshHost

            hosts |= {name: SshHost(connection) for name, connection in self.connections.items()}
        if accounts := {cluster.name: cluster.account for cluster in self._settings.clusters if cluster.account}:
            from hpc_board.transport.sudo import SudoHost

            hosts |= {name: SudoHost(account) for name, account in accounts.items()}
        return hosts

    @cached_property
    def folders(self) -> "dict[str, Folders]":
        """The job folders of each cluster, by the cluster's name."""
        return {cluster.name: self._folders_of(cluster) for cluster in self._settings.clusters}

    def folders_on(self, cluster: str) -> "Folders":
        """Return the job folders of a cluster, also of one that has left the settings."""
        from hpc_board.runs.job_folder import Folders

        return self.folders.get(cluster) or Folders(self._settings.board)

    def array_size(self, cluster: str) -> int:
        """Return the maximum number of tasks of an array on a cluster; 1 without support for arrays.

        The scheduler's answer counts for a day, and for as long as it gives no other one. It is not asked in its rest.
        """
        scheduler = self.schedulers[cluster]
        if not isinstance(scheduler, Arrays):
            return 1
        shared = SharedValue(self._settings.board / f"known-{cluster}", _Known)
        known = shared.read()
        if known is not None and not Pause(known.at, _KNOWN_SECONDS).is_over(utc_now().timestamp()):
            return known.array_size
        last = _ARRAY_SIZE if known is None else known.array_size
        (settings,) = (each for each in self._settings.clusters if each.name == cluster)
        backoff = _backoff(self._settings.board, settings)
        if backoff.rests(utc_now()):
            return last
        try:
            size = scheduler.array_size()
        except SchedulerError as error:
            _note_limit(backoff, error)
            return last
        with suppress(OSError):  # a board that is only read, or has no folder yet
            shared.write(_Known(utc_now().timestamp(), size))
        return size

    def gpu_statuses(self) -> list[GpuStatus]:
        """Return the availability of every GPU of the settings, with the reason if its cluster does not answer.

        All clients of the board together ask a cluster at most every `poll_seconds`, and all clusters at the same time.
        Instead of the answer of a cluster that takes longer than two seconds, its last known one is returned.

        Raises:
            StorageError: other accounts may write the board's folder.
        """
        from dataclasses import replace

        check_own(self._settings.board)
        # The threads below share the schedulers and folders, so they are made first.
        if any(cluster.board_folder for cluster in self._settings.clusters):
            _ = self.folders
        members = [
            (self.schedulers[cluster.name], cluster, gpus)
            for cluster in self._settings.clusters
            if (gpus := [gpu for gpu in self._settings.gpus if gpu.cluster == cluster])
        ]
        if len(members) > 1:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(len(members)) as threads:
                found = list(threads.map(lambda each: self._statuses_or_problem(*each), members))
        else:
            found = [self._statuses_or_problem(*each) for each in members]
        statuses = [status for of_cluster in found for status in of_cluster]
        statuses = [replace(status, warning=_python_warning(status.gpu)) for status in statuses]
        order = {gpu.name: index for index, gpu in enumerate(self._settings.gpus)}
        return sorted(statuses, key=lambda status: order[status.gpu.name])

    def _statuses_or_problem(self, scheduler: Scheduler, cluster: Cluster, gpus: Sequence[Gpu]) -> list[GpuStatus]:
        try:
            return self._statuses(scheduler, cluster, gpus)
        except (SchedulerError, StorageError) as error:
            return [GpuStatus(gpu, Availability(gpu.name), error.message) for gpu in gpus]

    def _statuses(self, scheduler: Scheduler, cluster: Cluster, gpus: Sequence[Gpu]) -> list[GpuStatus]:
        from hpc_board.domain.run import silence_words

        backoff = _backoff(self._settings.board, cluster)

        def ask(gpus: Sequence[Gpu]) -> Sequence[Availability]:
            if backoff.rests(utc_now()):
                raise SchedulerError(silence_words(cluster.name, backoff.silent_since or utc_now()))
            try:
                available = scheduler.availability(gpus)
            except SchedulerError as error:
                _note_limit(backoff, error)
                raise
            if cluster.board_folder:
                self.folders[cluster.name].check_writable()
            return available

        if not kind_of(cluster).shared:
            return [GpuStatus(gpu, available) for gpu, available in zip(gpus, ask(gpus), strict=True)]
        file = make_board_folder(self._settings.board) / f"free-{cluster.name}"
        try:
            answer = shared_answer(file, cluster.poll_seconds, gpus, ask)
        except OSError as error:
            raise StorageError(f"{file}: cannot be written or locked: {error.strerror or error}") from error
        return [
            GpuStatus(gpu, available, answer.problem, asked_at=answer.known_at or answer.asked_at)
            for gpu, available in zip(gpus, answer.available, strict=True)
        ]

    def _scheduler(self, cluster: Cluster) -> Scheduler:
        surroundings = Surroundings(
            host=lambda: self._host(cluster),
            folder=lambda: self._folder_for(cluster),
            devices=self._settings.devices,
            warn=self._warn,
        )
        return kind_of(cluster).connect(cluster, surroundings)

    def _host(self, cluster: Cluster) -> "Host":
        """Return the machine on which the commands of the cluster's scheduler run, with the account of its jobs."""
        from hpc_board.transport.this_host import ThisHost

        return self.hosts.get(cluster.name) or ThisHost()

    def _folder_for(self, cluster: Cluster) -> Path:
        """Return a folder for the files of the cluster's scheduler, which creates it if it is missing."""
        check_own(self._settings.board)
        return self._settings.board / cluster.scheduler / cluster.name

    def _folders_of(self, cluster: Cluster) -> "Folders":
        from hpc_board.runs.job_folder import Folders

        connection = self.connections.get(cluster.name)
        if connection is not None:
            from hpc_board.transport.ssh_files import SshFiles

            return Folders(Path(cluster.board_folder), SshFiles(connection), f"clusters.{cluster.name}.board_folder")
        if cluster.account:
            from hpc_board.runs.job_folder import CACHE
            from hpc_board.transport.sudo import SharedFiles

            folder = Path(cluster.board_folder)
            return Folders(folder, SharedFiles(cluster.account, folder / CACHE), "jobs.folder")
        return Folders(self._settings.board)


class _Known(msgspec.Struct, frozen=True):
    """The last answer about a cluster's configuration, and its time."""

    at: Moment
    array_size: Annotated[int, msgspec.Meta(ge=0, le=_ARRAY_SIZE)]


class Answer(msgspec.Struct, frozen=True):
    """The availability of some GPUs, in their order, and the time of the question.

    `problem` is the reason why it had no answer: then the availability is that of `known_at`, or unknown.
    """

    asked_at: Annotated[datetime, msgspec.Meta(tz=True)]
    available: tuple[Availability, ...]
    problem: str = ""
    known_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


def shared_answer(
    file: Path,
    poll_seconds: float,
    gpus: Sequence[Gpu],
    ask: Callable[[Sequence[Gpu]], Sequence[Availability]],
    *,
    lock_seconds: float = FREE_SECONDS,
) -> Answer:
    """Return the newest answer about `gpus`, which all clients keep in `file`; one at a time calls `ask`.

    An answer counts for `poll_seconds`, and for its very GPUs: other settings have an answer of their own. The silence
    of a scheduler is an answer too, with the last known numbers. If another client is asking for long, the last answer
    serves, however old.

    Raises:
        SchedulerRefused: this machine has no scheduler to ask; other clients do not get this answer.
        SchedulerError: another client has been asking for long, and no earlier answer exists.
        OSError: the file or its lock cannot be written.
    """
    import hashlib

    shared = SharedValue(file, dict[str, Answer], _ANSWERS_BYTES_MAX)
    question = hashlib.sha256(repr(tuple(gpus)).encode()).hexdigest()
    names = [gpu.name for gpu in gpus]

    def known(answers: Mapping[str, Answer]) -> Answer | None:
        found = answers.get(question)
        return found if found is not None and [each.gpu for each in found.available] == names else None

    def is_new(answer: Answer) -> bool:
        return not Pause(answer.asked_at.timestamp(), poll_seconds).is_over(utc_now().timestamp())

    last = known(shared.read() or {})
    if last is not None and is_new(last):
        return last
    with shared.locked(lock_seconds) as mine:
        answers = shared.read() or {}
        last = known(answers)
        if last is not None and (is_new(last) or not mine):
            return last
        if not mine:
            raise SchedulerError(
                f"another client has been querying free GPUs for {lock_seconds:g} s, without an answer yet",
                hint="The scheduler is slow or down; try again later.",
            )
        new = _new_answer(gpus, ask, last)
        recent = {key: each for key, each in answers.items() if abs(new.asked_at - each.asked_at) < _KEPT}
        shared.write(recent | {question: new})
        return new


def _new_answer(
    gpus: Sequence[Gpu], ask: Callable[[Sequence[Gpu]], Sequence[Availability]], last: Answer | None
) -> Answer:
    from hpc_board.transport.time_budget import time_budget

    try:
        with time_budget(FREE_SECONDS):
            available = tuple(ask(gpus))
    except SchedulerRefused:
        raise
    except SchedulerError as error:
        if last is None:
            return Answer(utc_now(), tuple(Availability(gpu.name) for gpu in gpus), error.message)
        return Answer(utc_now(), last.available, error.message, last.known_at)
    now = utc_now()
    return Answer(now, available, known_at=now)


class ClusterTable(msgspec.Struct, frozen=True):
    """The clusters by name, as `Reconciler` has them; `runners` returns those on them."""

    folder: Path
    schedulers: Mapping[str, Scheduler]
    clusters: Mapping[str, Cluster]
    gpus: Mapping[str, Gpu]
    folders: Mapping[str, "Folders"]
    runners: "Callable[[], RunnerJobs]"

    def settle(self, cluster: str, *, news: bool) -> None:
        """Note an answer of a scheduler; after news, the next pauses are the shortest."""
        with writing(self.folder):
            self.backoff(cluster).settle(news=news)
            if news and self.is_far(cluster):
                self.folder_backoff(cluster, watched=False).settle(news=True)
                self.folder_backoff(cluster, watched=True).settle(news=True)

    def note_silence(self, cluster: str, seconds: float, errors: Sequence[BoardError] = ()) -> None:
        """Note that a scheduler did not answer for so long, with these errors."""
        with writing(self.folder):
            self.backoff(cluster).fail(utc_now(), seconds, throttled=any(map(is_throttled, errors)))

    def backoff(self, cluster: str) -> Backoff:
        """Return the back-off of questions to a scheduler."""
        return _backoff(self.folder, self.clusters[cluster])

    def kind(self, cluster: str) -> AnyKind:
        """Return the kind of a cluster's scheduler."""
        return kind_of(self.clusters[cluster])

    def is_far(self, cluster: str) -> bool:
        """Return whether the job folders of a cluster lie on another machine."""
        return cluster in self.folders and self.folders[cluster].elsewhere

    def folder_backoff(self, cluster: str, *, watched: bool) -> Backoff:
        """Return the back-off of scans of a cluster's folders, for all runs or for the watched ones."""
        return Backoff(
            self.folder / f"looked-{cluster}{'.watched' * watched}", SCAN_PAUSE_SECONDS, pause_factor=SCAN_PAUSE_FACTOR
        )

    def folders_of(self, run: "Run") -> "Folders":
        """Return the job folders of a run's cluster."""
        return self.folders_on(run.cluster)

    def folders_on(self, cluster: str) -> "Folders":
        """Return the job folders of a cluster, also of one that has left the settings."""
        from hpc_board.runs.job_folder import Folders

        return self.folders.get(cluster) or Folders(self.folder)

    def log_end(self, run: "Run") -> str:
        """Return the end of the job's output; empty without output."""
        from hpc_board.model.job_environment import log_name

        try:
            data = self.folders_of(run).read(run, log_name(run.status.job_id), _LAST_WORDS_BYTES, end=True)
        except OSError:
            return ""
        return data.decode(errors="replace")

    def retries(self, run: "Run") -> int:
        """Return how often a run may be sent again."""
        gpu = self.gpus.get(run.gpu)
        return 0 if gpu is None else kind_of(gpu.cluster).with_job_options(gpu, run.options).retries

    def cancel(self, runs: "Sequence[Run]") -> None:
        """Cancel the jobs of `runs`, which are all of one cluster, those at runners among them.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        own = [run for run in runs if run.status.runner is None]
        if own:
            self.schedulers[own[0].cluster].cancel([self.job_key(run) for run in own])
        if len(own) < len(runs):
            self.runners().cancel([run for run in runs if run.status.runner is not None])

    def job_ids(self, runs: "Sequence[Run]") -> dict[int, str]:
        """Return the scheduler's job ids of `runs`, which are all of one cluster, by run number.

        Raises:
            SchedulerError: the scheduler did not answer.
        """
        own = [run for run in runs if run.status.runner is None]
        known = (
            {} if len(own) == len(runs) else self.runners().find([run for run in runs if run.status.runner is not None])
        )
        scheduler = self.schedulers[runs[0].cluster]
        if not isinstance(scheduler, Arrays):
            ids = {run.id: scheduler.find(self.job_key(run)) for run in own}
            return known | {run: job_id for run, job_id in ids.items() if job_id is not None}
        found = scheduler.find_each([self.job_key(run) for run in own]) if own else {}
        return known | {run.id: found[run.token] for run in own if run.token in found}

    def job_key(self, run: "Run") -> JobKey:
        """Return the key of a run's job."""
        from hpc_board.runs.job_folder import SCRIPT

        script = ""
        with suppress(InputError):  # a damaged row has no folder, and hinders no other run
            script = str(self.folders_of(run).of(run) / SCRIPT)
        return JobKey(run.token, run.status.job_id, run.created_at, script)


def is_throttled(error: BoardError) -> bool:
    """Return whether a scheduler asked for fewer questions."""
    return isinstance(error, SchedulerError) and error.throttled


def _note_limit(backoff: Backoff, error: SchedulerError) -> None:
    """Begin a rest if the scheduler asked for fewer questions."""
    if error.throttled:
        with suppress(OSError):  # a board that is only read, or has no folder yet
            backoff.fail(utc_now(), 0, throttled=True)


def _backoff(folder: Path, cluster: Cluster) -> Backoff:
    pause_factor = PAUSE_FACTOR if kind_of(cluster).shared else 1.0
    return Backoff(folder / f"asked-{cluster.name}", cluster.poll_seconds, pause_factor=pause_factor)


def last_words(log: str) -> str:
    """Return the last line of a job's output as evidence; empty without output."""
    last = next((line for line in reversed(log.splitlines()) if line.strip()), "")
    return f'; its output ends with "{one_line(last, _LAST_WORDS_MAX)}"' if last else ""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate errors of writing to `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written or locked: {error.strerror or error}",
            hint="Check that you can write the board's folder, that its disk is not full, and that it can lock files.",
        ) from error


def _connections(settings: Settings, former: "Mapping[str, Connection]") -> "dict[str, Connection]":
    """Return a connection for each cluster with `ssh`; each connects when first used, unless `former` has it."""
    logins = {cluster.name: cluster.ssh for cluster in settings.clusters if cluster.ssh is not None}
    if not logins:
        return {}
    from hpc_board.transport.ssh import Connection

    known = {connection.login: connection for connection in former.values()}
    return {name: known.get(login) or Connection(login) for name, login in logins.items()}


def _python_warning(gpu: Gpu) -> str:
    """Return a warning about a Python that this machine lacks; nodes may have it."""
    elsewhere = gpu.cluster.ssh is not None or gpu.container is not None or gpu.cluster.account
    if elsewhere or not gpu.python.startswith("/") or os.access(gpu.python, os.X_OK):
        return ""
    if kind_of(gpu.cluster).on_this_machine:
        return f"gpus.{gpu.name}.python is not a program: {gpu.python}"
    return f"gpus.{gpu.name}.python does not exist on this machine: {gpu.python}"
