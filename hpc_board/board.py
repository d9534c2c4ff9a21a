"""The product on one page: everything that a front end may do. Both front ends hold one Board."""

import hashlib
import json
import os
import pwd
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpc_board import catalog, config, intake, jobs
from hpc_board.advance import Advance, Turn
from hpc_board.asking import Looks, SharedAvailability
from hpc_board.errors import BoardError, InputError, SchedulerError, SchedulerRefused, StorageError, WaitExpired
from hpc_board.model.gpu import Availability, Cluster, Gpu, GpuStatus
from hpc_board.model.result import Case, Result
from hpc_board.model.run import Progress, Run, Status
from hpc_board.model.standings import Standing
from hpc_board.model.submission import Directives, Submission
from hpc_board.model.task import Task
from hpc_board.model.text import printable
from hpc_board.schedulers import Arrays, Job, Scheduler
from hpc_board.store import NewRun, NewSubmission, Store
from hpc_board.store.sharing import is_shared, make_own_folder, own_folder

if TYPE_CHECKING:
    from hpc_board import site_check
    from hpc_board.comparing import Compared
    from hpc_board.model.checkup import Line
    from hpc_board.store.backup import Contents
    from hpc_board.transport import Host
    from hpc_board.transport.ssh import Connection

LOG_BYTES_MAX = 256 * 1024

ARRAY_LEAST = 3
"""From how many jobs on an array is cheaper: it takes two questions, the largest array's size and sbatch."""


@dataclass(frozen=True)
class Preview:
    """What a submission would send for one GPU: the batch script, and the command that hands it over.

    Of a run that goes with others, the command hands over the script of their job array, which is `array` and runs
    `script` for this one.
    """

    gpu: Gpu
    script: str
    command: tuple[str, ...]
    file_name: str = ""
    array: str = ""


@dataclass(frozen=True)
class _Work:
    """What a submission asks of one GPU."""

    draft: intake.Draft
    gpu: Gpu
    script: jobs.Script

    @cached_property
    def array_script(self) -> jobs.ArrayScript | None:
        """What runs the script as one of several; None where it cannot be one."""
        return jobs.array_script(self.script, self.gpu)


@dataclass(frozen=True)
class Restored:
    """What the database held before a backup took its place, what it holds now, and where the former is kept."""

    before: "Contents"
    now: "Contents"
    kept: Path


class Board:
    """Tasks, GPUs, submissions, runs and standings under one folder.

    Every method may be called from any thread, opens what it needs, and raises BoardError for what a user can mend.
    `warn` is told, from any thread, what works although not as the settings say; a front end may put its own there.
    """

    def __init__(
        self, settings: config.Settings, *, user: str | None = None, warn: Callable[[str], object] = lambda _: None
    ) -> None:
        self.settings = settings
        self.user = user or _user_name(os.geteuid())
        self.warn = warn
        self._connections = _connections(settings)
        self._far_progress = Looks()

    @classmethod
    def open(
        cls,
        explicit: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        warn: Callable[[str], object] = lambda _: None,
    ) -> "Board":
        """The board that the settings found for this user describe.

        Raises:
            InputError: the settings file is missing or has faults.
        """
        try:
            here = Path.cwd()
        except FileNotFoundError:
            here = Path("/")  # the working folder was removed, so no settings lie in it
        file = config.find(explicit, environ, here)
        return cls(config.load(file, environ), warn=warn)

    # Tasks and GPUs

    def tasks(self) -> catalog.Catalog:
        """Every task of the settings' folders, and the faults of those that cannot be read."""
        return catalog.tasks(self.settings.tasks)

    def task(self, name: str) -> Task:
        """The task called `name`.

        Raises:
            InputError: there is none, or it has faults.
        """
        return self.tasks().task(name)

    def allowed_gpus(self, task: Task) -> tuple[Gpu, ...]:
        """The GPUs of the settings on which `task` may run."""
        return intake.allowed_gpus(task, self.settings.gpus)

    def gpus(self) -> list[GpuStatus]:
        """Every GPU of the settings with what is free of it; a cluster that does not answer says why.

        A cluster is asked at most every `poll_seconds` for all clients of the board together.
        """
        statuses: list[GpuStatus] = []
        for cluster in self.settings.clusters:
            gpus = [gpu for gpu in self.settings.gpus if gpu.cluster == cluster]
            try:
                statuses += self._statuses(cluster, gpus) if gpus else []
            except (SchedulerError, StorageError) as error:
                statuses += [GpuStatus(gpu, Availability(gpu.name), error.message) for gpu in gpus]
        statuses = [replace(status, warning=_python_warning(status.gpu)) for status in statuses]
        order = {gpu.name: index for index, gpu in enumerate(self.settings.gpus)}
        return sorted(statuses, key=lambda status: order[status.gpu.name])

    def _statuses(self, cluster: Cluster, gpus: Sequence[Gpu]) -> list[GpuStatus]:
        ask = self._schedulers[cluster.name].availability
        if cluster.scheduler == "local":
            # This machine's own queue is a folder, which nobody is asked too often for.
            return [GpuStatus(gpu, available) for gpu, available in zip(gpus, ask(gpus), strict=True)]
        file = make_own_folder(self.settings.board) / f"free-{cluster.name}"
        try:
            answer = SharedAvailability(file, cluster.poll_seconds).answer(gpus, ask)
        except OSError as error:
            raise StorageError(f"{file}: cannot be written or locked: {error.strerror or error}") from error
        return [
            GpuStatus(gpu, available, answer.problem, asked_at=answer.asked_at)
            for gpu, available in zip(gpus, answer.available, strict=True)
        ]

    def check_gpus(
        self,
        names: Sequence[str] = (),
        *,
        send: bool = True,
        timeout_seconds: float | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> "list[site_check.Checked]":
        """Prove these GPUs of the settings, or all: what Slurm says to their jobs, and what a probe job of each finds.

        Without `send` no job is sent. No run is stored, and nothing is left in the board's folder.

        Raises:
            InputError: there is no such GPU.
            StorageError: the board's folder cannot be written.
        """
        from hpc_board import site_check

        gpus = [self.gpu(name) for name in names] or list(self.settings.gpus)
        make_own_folder(self.settings.board)
        plan = site_check.Plan(
            folders=self._folders,
            tasks=self.tasks().tasks,
            schedulers=self._schedulers,
            harness=_harness,
            timeout_seconds=site_check.TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
            say=say,
        )
        return site_check.check(gpus, plan, send=send)

    def examine(self, origin: str) -> "list[Line]":
        """What is wrong with this installation, and what is not; `origin` says what names the settings file."""
        from hpc_board import doctor
        from hpc_board.transport.this_host import ThisHost

        count = self.in_flight
        patient = doctor.Patient(self.settings, origin, self.tasks(), count, ThisHost(), logins=self._login_hosts)
        return list(doctor.examine(patient))

    def header(self, file: Path) -> Directives:
        """What the header of a submission asks for, before anything else about the file is decided.

        Raises:
            InputError: the file cannot be read, or its header has a directive that is none.
        """
        return intake.header(intake.read_source(file))

    def gpu(self, name: str) -> Gpu:
        """The GPU of the settings called `name`, however it is capitalized.

        Raises:
            InputError: there is none; the nearest name is offered.
        """
        return intake.gpu(name, self.settings.gpus)

    # Submitting

    def draft(
        self,
        file: Path,
        *,
        task: str | None = None,
        gpus: Sequence[str] = (),
        mode: str | None = None,
        note: str = "",
    ) -> intake.Draft:
        """A checked submission of `file`, ready to be previewed or sent; options left out come from its header.

        Raises:
            InputError: the file, the task, a GPU or the mode cannot be used.
            Refused: the task's deadline has passed.
        """
        return self.drafts([file], task=task, gpus=gpus, mode=mode, note=note)[0]

    def drafts(
        self,
        files: Sequence[Path],
        *,
        task: str | None = None,
        gpus: Sequence[str] = (),
        mode: str | None = None,
        note: str = "",
    ) -> list[intake.Draft]:
        """A submission of each of `files`, checked as `draft` does; the folders of tasks are read once for all."""
        sources = [intake.read_source(file) for file in files]
        known = self.tasks()
        return [
            intake.draft(
                source,
                task_name=task,
                gpu_names=gpus,
                mode_name=mode,
                note=note,
                catalog=known,
                gpus=self.settings.gpus,
                now=_now(),
            )
            for source in sources
        ]

    def preview(self, *drafts: intake.Draft, array: bool | None = None) -> list[Preview]:
        """The batch script and the command for each GPU of each of `drafts`; nothing is stored or sent.

        `array` is that of `submit`.
        """
        works = _works(drafts)
        previews: dict[int, Preview] = {}
        for batch in self._batches(works, array):
            for number in batch:
                previews[number] = self._preview(works[number], len(batch))
        return [previews[number] for number in sorted(previews)]

    def _preview(self, work: "_Work", together: int) -> Preview:
        gpu, script = work.gpu, work.script
        board = self._folders_on(gpu.cluster.name).board
        folder = jobs.folder(board, "RUN")
        job = Job("hb-TOKEN", folder, jobs.SCRIPT, gpu, script.options, script.time_limit_seconds)
        array = ""
        if together > 1 and work.array_script is not None:
            array = work.array_script.text
            job = replace(job, folder=jobs.folder(board, job.name), indexes=range(together))
        command = tuple(self._schedulers[gpu.cluster.name].command(job))
        return Preview(gpu, script.text, command, work.draft.source.file_name, array)

    def submit(self, *drafts: intake.Draft, array: bool | None = None) -> list[Run]:
        """Store `drafts` and send one job for each of their GPUs; the runs, in that order.

        Jobs that differ in nothing that the scheduler is told go as one job array, where it takes arrays: two and more
        if `array`, none if not; where that is None, as many as make it worth its while (ARRAY_LEAST).

        Once this has returned, or even died halfway, the runs are in the database and any client carries them on.

        Raises:
            InputError: a batch script cannot be rendered; nothing is stored.
            StorageError: the board cannot be written; the hint says if the submissions are stored nevertheless.
            SchedulerRefused: the scheduler refused every one of the jobs.
        """
        # What cannot be rendered must not be stored.
        works = _works(drafts)
        tokens = iter(self._tokens(works, array))
        harness, at = hashlib.sha256(_harness()).hexdigest(), _now()
        # In one transaction: a client that sees some runs of an array has to see all of them.
        stored = self._store.add_submissions(
            [
                NewSubmission(
                    task=draft.task,
                    user=self.user,
                    file_name=draft.source.file_name,
                    code=draft.source.data,
                    mode=draft.mode,
                    note=draft.note,
                    at=at,
                    runs=[_new_run(gpu, next(tokens), harness) for gpu in draft.gpus],
                )
                for draft in drafts
            ]
        )
        runs = [run for _, added in stored for run in added]
        try:
            errors = self._advance.launch(runs)
        except StorageError as error:
            raise self._with_hint(error, runs) from error
        refusals = [error for error in errors if isinstance(error, SchedulerRefused | InputError)]
        if len(refusals) == len(runs):
            raise self._with_hint(refusals[0], runs)
        return [self._store.run(run.id) for run in runs]

    def _tokens(self, works: "Sequence[_Work]", array: bool | None) -> list[str]:
        """A unique name for each job; those of an array are its name with their index after a dot."""
        tokens: dict[int, str] = {}
        for batch in self._batches(works, array):
            name = f"hb-{secrets.token_hex(8)}"
            tokens |= {number: f"{name}.{index}" if len(batch) > 1 else name for index, number in enumerate(batch)}
        return [tokens[number] for number in range(len(works))]

    def _batches(self, works: "Sequence[_Work]", array: bool | None) -> list[list[int]]:
        """The places in `works` of those that go as one array, and of each other one by itself."""
        least = ARRAY_LEAST if array is None else 2
        alike: dict[object, list[int]] = {}
        for number, work in enumerate(works):
            together = array is not False and len(works) >= least and work.array_script is not None
            alike.setdefault((work.gpu.name, work.array_script) if together else number, []).append(number)
        batches: list[list[int]] = []
        sizes: dict[str, int] = {}
        for numbers in alike.values():
            cluster = works[numbers[0]].gpu.cluster.name
            scheduler, size = self._schedulers[cluster], 1
            if len(numbers) >= least and isinstance(scheduler, Arrays):
                if cluster not in sizes:
                    sizes[cluster] = max(1, scheduler.array_size())
                size = sizes[cluster]
            batches += [numbers[start : start + size] for start in range(0, len(numbers), size)]
        return batches

    def _with_hint(self, error: BoardError, runs: Sequence[Run]) -> BoardError:
        """`error`, saying what became of runs that are stored but could not be sent for want of space or rights."""
        if isinstance(error, StorageError):
            ids = ", ".join(str(run.id) for run in runs)
            error.hint += (
                f" The submission is stored (run {ids}) and goes on when the board can be written; or cancel it."
            )
        return error

    # Following

    def advance(self, watched: Collection[int] | None = None) -> bool:
        """Carry the runs in flight as far as they go; False if another client is doing so at this moment.

        A front end that does so again and again names the runs that it shows: then the others are looked at only as
        often as costs little, however many there are.

        Raises:
            SchedulerError: a scheduler did not answer.
        """
        return self._advance(watched)

    def wait(
        self,
        ids: Sequence[int],
        *,
        timeout_seconds: float | None = None,
        poll_seconds: float = 0.5,
        say: Callable[[str], object] = lambda _: None,
    ) -> Iterator[list[Run]]:
        """The runs each time that something about them has changed, until all have ended.

        A scheduler that does not answer ends nothing: `say` is told, unless it hinders one of these runs alone, which
        then says so itself; and the waiting goes on.

        Raises:
            WaitExpired: `timeout_seconds` are over; the runs go on.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        seen: list[tuple[Run, int]] = []
        problem = _Problem(say)
        while True:
            turn = self._turn(ids)
            runs = [self.run(id_) for id_ in ids]
            if turn is not None:
                problem.after(turn, runs)
            now = [(run, len(self._progress(run))) for run in runs]
            if now != seen:
                seen = now
                yield runs
            if all(run.state.ended for run in runs):
                return
            if deadline is not None and time.monotonic() >= deadline:
                raise _expired([run for run in runs if not run.state.ended], timeout_seconds)
            time.sleep(poll_seconds)

    def _turn(self, watched: Collection[int]) -> Turn | None:
        try:
            return self._advance.turn(watched)
        except (SchedulerError, StorageError) as error:
            return Turn(frozenset(), (error,))

    def cancel(self, run: int) -> Run:
        """Ask for the end of a run of one's own; one that has ended is returned as it is.

        Raises:
            InputError: there is no such run.
            Refused: it belongs to somebody else.
            SchedulerError: the scheduler did not answer.
        """
        found = self.run(run)
        intake.check_owner(found, self.user)
        self._advance.cancel(found, self.user)
        return self._store.run(run)

    def asked_at(self, cluster: str) -> datetime | None:
        """When a cluster's scheduler was last asked by any client; None if never."""
        return self._advance.asked_at(cluster)

    # Runs

    def run(self, run: int) -> Run:
        """The run with this number.

        Raises:
            InputError: there is none.
        """
        return self._store.run(run)

    def runs(self, *, everyone: bool = False, task: str | None = None, limit: int = 50) -> tuple[Run, ...]:
        """The newest runs first, the user's own unless `everyone`."""
        return self._store.runs(user=None if everyone else self.user, task=task, limit=limit)

    def in_flight(self) -> tuple[Run, ...]:
        """Everybody's runs that have not ended, oldest first."""
        return self._store.in_flight()

    def result(self, run: int) -> Result | None:
        """What the harness found out, or had found when the run was stopped; None unless there is such a thing."""
        return self._store.result(run)

    def cases(self, run: int) -> tuple[Case, ...]:
        """The cases of a finished run without their samples, none while it is not; cheaper than its whole result."""
        return self._store.cases(run)

    def history(self, run: int) -> tuple[Status, ...]:
        """Every status that the run went through, oldest first."""
        return self._store.history(run)

    def progress(self, run: int) -> list[Progress]:
        """What the harness has said so far, oldest first; lines that are none are left out.

        Over SSH it may be what it had said some seconds ago.
        """
        return self._progress(self.run(run))

    def _progress(self, run: Run) -> list[Progress]:
        if self._folders_on(run.cluster).elsewhere:
            data = self._far_progress.at(run.id, lambda: self._job_file(run, jobs.PROGRESS))
        else:
            data = self._job_file(run, jobs.PROGRESS)
        return [line for line in map(_progress, data.splitlines()) if line is not None]

    def log(self, run: int) -> str:
        """The end of the job's own output, safe to print; empty before the job has started."""
        found = self.run(run)
        job_id = found.status.job_id
        data = self._job_file(found, f"slurm-{job_id}.out", end=True) if job_id else b""
        return printable(data.decode(errors="replace"), LOG_BYTES_MAX)

    def code(self, submission: int) -> tuple[str, bytes]:
        """File name and contents of a submission of one's own.

        Raises:
            InputError: there is no such submission.
            Refused: it belongs to somebody else.
        """
        found = self._submission(submission)
        intake.check_owner(found, self.user)
        return found.file_name, self._store.code(found.code_sha256)

    def _submission(self, number: int) -> Submission:
        try:
            return self._store.submission(number)
        except StorageError:
            raise
        except InputError as error:
            raise InputError(error.message, hint=self._hint_for_run(number) or error.hint) from error

    def _hint_for_run(self, number: int) -> str:
        """What to ask for instead where `number` is that of a run of the user's own; empty where it is not."""
        try:
            run = self.run(number)
        except StorageError:
            raise
        except InputError:
            return ""
        if run.user != self.user:
            return ""
        return f"Run {run.id} belongs to submission {run.submission}: give that number."

    # Standings

    def standings(self, task: str, gpu: str) -> tuple[Standing, ...]:
        """The board of `task` at its present version on `gpu`, best first."""
        found = self.task(task)
        rows = self._store.standings(task, found.version, self.gpu(gpu).name)
        return tuple(replace(row, harness=found.harness) for row in rows)

    def personal(self, task: str, gpu: str) -> tuple[Standing, ...]:
        """Every passing ranked run of the user on this board, best first, ranked among themselves."""
        found = self.task(task)
        rows = self._store.personal(task, found.version, self.gpu(gpu).name, self.user)
        return tuple(replace(row, harness=found.harness) for row in rows)

    def rank(self, run: Run) -> int | None:
        """The rank that this run holds on its board; None unless it is its user's best."""
        return self._store.rank(run)

    def compare(self, one: int, other: int, gpus: Sequence[str] = ()) -> "list[Compared]":
        """Two submissions beside each other, on `gpus` or on each GPU where both were timed.

        Raises:
            InputError: they cannot be compared: the message says why.
        """
        from hpc_board.comparing import compare

        first, second = self._submission(one), self._submission(other)
        return compare(self._store, first, second, [self.gpu(name).name for name in gpus])

    # Copies

    def backup(self, target: Path, *, force: bool = False) -> "Contents":
        """Write a copy of the database to `target`, while others may go on writing; what it holds.

        Raises:
            InputError: `target` is there and `force` is not given, or cannot be written.
        """
        return self._store.backup(target, force=force)

    def restore(self, source: Path, *, force: bool = False) -> "Restored":
        """Put a backup in the database's place, and keep a copy of the present one in the board's folder.

        Raises:
            InputError: `source` is no backup.
            Refused: the backup does not know runs that are in flight, and `force` is not given.
            StorageError: the database cannot be written, or other clients don't let go of it.
        """
        kept = self.settings.board / f"board.db.before-{_now():%Y%m%dT%H%M%S.%fZ}"
        with self._advance.alone():
            before, now = self._store.restore(source, kept, force=force)
        return Restored(before, now, kept)

    # Parts

    @cached_property
    def _own_folder(self) -> Path:
        return own_folder(self.settings.board)

    @cached_property
    def _store(self) -> Store:
        make_own_folder(self.settings.board)
        return Store(self.settings.board / "board.db")

    @cached_property
    def _schedulers(self) -> dict[str, Scheduler]:
        return {
            cluster.name: _scheduler(cluster, self.settings, self._login_hosts.get(cluster.name), self._warn)
            for cluster in self.settings.clusters
        }

    @cached_property
    def _login_hosts(self) -> "dict[str, Host]":
        if not self._connections:
            return {}
        from hpc_board.transport.ssh import SshHost

        return {name: SshHost(connection) for name, connection in self._connections.items()}

    @cached_property
    def _advance(self) -> Advance:
        return Advance(
            folder=self._own_folder,
            store=self._store,
            schedulers=self._schedulers,
            clusters={cluster.name: cluster for cluster in self.settings.clusters},
            gpus={gpu.name: gpu for gpu in self.settings.gpus},
            harness=_harness,
            folders=self._folders,
            user=self.user if is_shared(self.settings.board) else None,
        )

    @cached_property
    def _folders(self) -> dict[str, jobs.Folders]:
        return {cluster.name: self._folders_of(cluster) for cluster in self.settings.clusters}

    def _folders_of(self, cluster: Cluster) -> jobs.Folders:
        connection = self._connections.get(cluster.name)
        if connection is None:
            return jobs.Folders(self._own_folder)
        from hpc_board.transport.ssh_files import SshFiles

        return jobs.Folders(Path(cluster.board_folder), SshFiles(connection), elsewhere=True)

    def _folders_on(self, cluster: str) -> jobs.Folders:
        return self._folders.get(cluster) or jobs.Folders(self._own_folder)

    def _warn(self, text: str) -> None:
        self.warn(text)

    def _job_file(self, run: Run, name: str, *, end: bool = False) -> bytes:
        try:
            return self._folders_on(run.cluster).read(run, name, LOG_BYTES_MAX, end=end)
        except OSError:
            return b""


def _python_warning(gpu: Gpu) -> str:
    """What is to be said of a Python that this machine does not have; nodes may, where they are other machines."""
    elsewhere = gpu.cluster.ssh is not None or gpu.container is not None
    if elsewhere or not gpu.python.startswith("/") or os.access(gpu.python, os.X_OK):
        return ""
    if gpu.cluster.scheduler == "local":
        return f"gpus.{gpu.name}.python is no program: {gpu.python}"
    return f"gpus.{gpu.name}.python is not on this machine, only on the nodes if at all: {gpu.python}"


class _Problem:
    """What hinders the runs that somebody waits for, told once until it is known to be over."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._told = ""
        self._asked: frozenset[str] = frozenset()

    def after(self, turn: Turn, runs: Sequence[Run]) -> None:
        """Tell what hindered this turn, unless it was the last thing told or the status of one of the runs has it."""
        if turn.errors:
            message = turn.errors[0].message
            hindered = [run.status for run in runs if run.hindrance]
            shown = {words for status in hindered for words in (status.reason, status.evidence)}
            if message != self._told and message not in shown:
                self._say(message)
            self._told, self._asked = message, turn.asked
        elif turn.asked and self._asked <= turn.asked:
            # Only where the same schedulers were asked again, and answered, is it over.
            self._told = ""


def _expired(going: Sequence[Run], timeout_seconds: float | None) -> WaitExpired:
    """The error that ends a wait for runs that have not ended; those that were not sent do not go on by themselves."""
    sent = [str(run.id) for run in going if not run.state.unsent]
    if len(sent) == len(going):
        goes_on = "The runs go on. "
    else:
        goes_on = f"Of these, the cluster has {', '.join(sent)}. " if sent else ""
    return WaitExpired(
        f"not finished after {timeout_seconds:g} s: run {', '.join(str(run.id) for run in going)}",
        hint=f"{goes_on}`hpc-board runs` shows them, `hpc-board watch ID` follows one.",
    )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _connections(settings: config.Settings) -> "dict[str, Connection]":
    """One connection for each cluster with `ssh`; none of them is made before it is needed."""
    logins = {cluster.name: cluster.ssh for cluster in settings.clusters if cluster.ssh is not None}
    if not logins:
        return {}
    from hpc_board.transport.ssh import Connection

    return {name: Connection(login) for name, login in logins.items()}


def _scheduler(
    cluster: Cluster, settings: config.Settings, login: "Host | None", warn: Callable[[str], object]
) -> Scheduler:
    if cluster.scheduler == "local":
        from hpc_board.schedulers.local.client import LocalScheduler

        # A queue makes the folders that it misses, and knows nothing of a group.
        own = make_own_folder(settings.board) if is_shared(settings.board) else settings.board
        return LocalScheduler(cluster, own / "local" / cluster.name, devices=settings.devices)
    from hpc_board.schedulers.slurm.client import SlurmScheduler

    if login is not None:
        return SlurmScheduler(cluster, login)
    from hpc_board.transport.this_host import ThisHost

    if cluster.client == "pyslurm":
        from hpc_board.schedulers.slurm.pyslurm_client import PyslurmScheduler

        return PyslurmScheduler(cluster, ThisHost(), warn=warn)
    return SlurmScheduler(cluster, ThisHost())


@cache
def _harness() -> bytes:
    from hpc_board.harness.bundle import harness_bytes

    return harness_bytes()


def _works(drafts: Sequence[intake.Draft]) -> list[_Work]:
    return [_Work(draft, gpu, jobs.script(draft.task, gpu, draft.mode)) for draft in drafts for gpu in draft.gpus]


def _new_run(gpu: Gpu, token: str, harness_sha256: str) -> NewRun:
    return NewRun(
        gpu=gpu.name,
        cluster=gpu.cluster.name,
        partition=gpu.partition,
        token=token,
        nonce=secrets.token_hex(16),
        trust="self-run",
        emulated=gpu.emulated,
        harness_sha256=harness_sha256,
    )


def _progress(line: bytes) -> Progress | None:
    try:
        value: Any = json.loads(line)
        case, of = value["case"], value["of"]
        if not all(number is None or isinstance(number, int) for number in (case, of)):
            return None
        texts = (str(value[key])[:500] for key in ("at", "phase", "message"))
        at, phase, message = (printable(text) for text in texts)
        return Progress(at, phase, case, of, message)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _now() -> datetime:
    return datetime.now(UTC)
