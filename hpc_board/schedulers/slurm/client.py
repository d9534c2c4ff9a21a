"""The door to one Slurm cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hpc_board.errors import InputError, SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Availability, Cluster, Gpu
from hpc_board.model.run import JobNews, JobState
from hpc_board.model.sbatch import argument
from hpc_board.model.site import Site
from hpc_board.model.text import one_line
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.slurm.capacity import availability
from hpc_board.schedulers.slurm.detect import site
from hpc_board.schedulers.slurm.outputs import (
    SACCT_FORMAT,
    SINFO_FORMAT,
    SQUEUE_FORMAT,
    AccountRow,
    QueueRow,
    account_rows,
    node_rows,
    queue_rows,
    submitted_job_id,
)
from hpc_board.schedulers.slurm.refusals import not_accepted, words_of
from hpc_board.schedulers.slurm.states import job_state, pending_reason_text
from hpc_board.transport import CommandMissing, CommandTimeout, Completed, Host

TIMEOUT_SECONDS: Final = 60.0
"""How long one command of Slurm may take: a busy controller answers late, and sbatch itself retries for a while."""

_ACCOUNTED_AT_ONCE = 50
_CLOCK_SLACK = timedelta(days=1)
"""How far the controller's clock may lie behind this host's: more than a time zone that somebody got wrong."""

_LIVE = (JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN)
_FINAL = (
    JobState.ENDED,
    JobState.CANCELLED,
    JobState.TIMEOUT,
    JobState.OUT_OF_MEMORY,
    JobState.NODE_FAIL,
    JobState.PREEMPTED,
)


class _AccountingAbsentError(Exception):
    """The cluster keeps no accounts, or has no sacct here; the message says which."""


@dataclass(frozen=True)
class Listing:
    """What the controller listed, and what it was asked with: "squeue" or "pyslurm"."""

    source: str
    rows: Sequence[QueueRow]


class SlurmScheduler:
    """A Slurm cluster, asked by its commands on `host`; it keeps no state and may be used from several threads.

    Jobs are followed whoever owns them, as far as the cluster lets this account see them.
    """

    def __init__(self, cluster: Cluster, host: Host, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._cluster = cluster
        self._host = host
        self._timeout_seconds = timeout_seconds

    def command(self, job: Job) -> Sequence[str]:
        """The sbatch command that `submit` runs.

        Raises:
            InputError: an option or the folder's path cannot be handed to Slurm.
        """
        folder = str(job.folder)
        if "\\" in folder:
            raise InputError(
                f"{folder}: Slurm cannot write a job's output into a folder with a backslash in its path",
                hint="Point `board` in the settings to another folder.",
            )
        own = {
            "job-name": job.name,
            "chdir": folder,
            "output": f"{folder.replace('%', '%%')}/slurm-%j.out",
            "export": "ALL",
            "no-requeue": "",
        }
        options = own | {name: value for name, value in job.options.items() if name not in own}
        arguments = [argument(name, value) for name, value in options.items()]
        return ["sbatch", "--parsable", *arguments, str(job.folder / job.script)]

    def submit(self, job: Job) -> str:
        """Hand the job over and return its id.

        Raises:
            InputError: an option or the folder's path cannot be handed to Slurm.
            SchedulerRefused: Slurm refused it for good; there is no job.
            SchedulerError: nobody knows whether there is a job now.
        """
        command = self.command(job)
        try:
            done = self._host.run(command, timeout_seconds=self._timeout_seconds, cwd=str(job.folder))
        except CommandTimeout as error:
            raise SchedulerError(
                f"sbatch did not answer within {self._timeout_seconds:g} s",
                hint="The job is looked up by its name before it is sent again.",
            ) from error
        except CommandMissing as error:
            raise self._missing("sbatch", error) from error
        job_id = None if done.truncated else submitted_job_id(done.stdout)
        if done.returncode > 0 and job_id is None:
            raise not_accepted(done.stderr, job.gpu.name)
        if done.returncode != 0 or job_id is None:
            raise SchedulerError(
                f"sbatch ended with status {done.returncode} and printed {one_line(done.stdout, 100)!r}",
                hint="The job is looked up by its name before it is sent again.",
            )
        return job_id

    def rehearse(self, job: Job) -> str:
        """What `sbatch --test-only` says to the job: when and where it would start.

        Raises:
            InputError: an option or the folder's path cannot be handed to Slurm.
            SchedulerRefused: Slurm would refuse the job.
            SchedulerError: Slurm gave no clear answer.
        """
        sbatch, _, *rest = self.command(job)
        argv = [sbatch, "--test-only", *rest]
        try:
            done = self._host.run(argv, timeout_seconds=self._timeout_seconds, cwd=str(job.folder))
        except CommandTimeout as error:
            raise SchedulerError(
                f"sbatch --test-only did not answer within {self._timeout_seconds:g} s",
                hint="Slurm is busy or down; try later.",
            ) from error
        except CommandMissing as error:
            raise self._missing("sbatch", error) from error
        if done.returncode == 0:
            return words_of(done.stderr)
        unclear = not_accepted(done.stderr, job.gpu.name)
        if not isinstance(unclear, SchedulerRefused):
            unclear.hint = "Slurm may be busy or down; try later."
        raise unclear

    def site(self) -> Site:
        """The partitions and nodes, as sinfo and scontrol list them to this account."""
        return site(self._host, self._timeout_seconds)

    def find(self, name: str, submitted_at: datetime) -> str | None:
        """The id of this account's newest job called `name`, submitted not before `submitted_at`; None if none."""
        earliest = submitted_at - _CLOCK_SLACK
        times = _times(self._queue([name], mine=True).rows, name, earliest)
        if not times:
            try:
                times = _times(self._accounts(f"--name={name}", earliest), name, earliest)
            except _AccountingAbsentError:
                return None
        return max(times, key=lambda job_id: (times[job_id], int(job_id)), default=None)

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobNews]:
        """The news of each job, by its name: one squeue for all, and sacct for those that it no longer lists.

        Where sacct fails, the jobs that it was asked for are `unknown`, which changes nothing.
        """
        if not jobs:
            return {}
        listing = self._queue([job.name for job in jobs])
        listed = {(row.job_id, row.name): row for row in listing.rows}
        news: dict[str, JobNews] = {}
        gone = []
        for job in jobs:
            row = listed.get((job.job_id, job.name))
            if row is None:
                gone.append(job)
            else:
                news[job.name] = _queue_news(row, listing.source)
        for start in range(0, len(gone), _ACCOUNTED_AT_ONCE):
            news |= self._accounted(gone[start : start + _ACCOUNTED_AT_ONCE], listing.source)
        return news

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """Ask for the jobs' end; one that has ended, or whose id bears another name by now, is left alone."""
        if not jobs:
            return
        ours = {(job.job_id, job.name) for job in jobs}
        rows = self._queue([job.name for job in jobs]).rows
        live = [row.job_id for row in rows if (row.job_id, row.name) in ours and job_state(row.state) in _LIVE]
        if live:
            self._answer(["scancel", "--quiet", *live])

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        """How much of each of these GPUs is free now, in the same order: one sinfo and one squeue for all."""
        if not gpus:
            return []
        nodes = node_rows(self._answer(["sinfo", "--all", "--noheader", "--Node", f"--Format={SINFO_FORMAT}"]))
        waiting = self._answer(["squeue", "--all", "--noheader", "--states=PENDING", "--format=%P"])
        return [availability(gpu, nodes, waiting.split()) for gpu in gpus]

    def _queue(self, names: Sequence[str], *, mine: bool = False) -> Listing:
        """The jobs with these names that the controller remembers, only this account's if `mine`."""
        argv = ["squeue", "--all", "--noheader", "--states=all", f"--name={','.join(names)}"]
        argv += [f"--Format={SQUEUE_FORMAT}", *(["--me"] if mine else [])]
        return Listing("squeue", queue_rows(self._answer(argv)))

    def _accounted(self, jobs: Sequence[JobKey], source: str) -> Iterator[tuple[str, JobNews]]:
        """The news of jobs that `source` does not list."""
        try:
            rows = self._accounts(
                f"--jobs={','.join(job.job_id for job in jobs)}",
                min(job.submitted_at for job in jobs) - _CLOCK_SLACK,
            )
        except _AccountingAbsentError as error:
            for job in jobs:
                yield job.name, JobNews(JobState.MISSING, job.job_id, evidence=f"{source}: not listed; sacct: {error}")
            return
        except SchedulerError as error:
            for job in jobs:
                yield job.name, JobNews(JobState.UNKNOWN, job.job_id, evidence=f"{source}: not listed; {error.message}")
            return
        for job in jobs:
            yield job.name, _account_news(job, rows, source)

    def _accounts(self, which: str, earliest: datetime) -> list[AccountRow]:
        argv = [
            "sacct",
            "--allocations",
            "--allusers",
            "--duplicates",
            "--noheader",
            "--parsable2",
            f"--starttime=uts{int(earliest.timestamp())}",
            f"--format={SACCT_FORMAT}",
            which,
        ]
        try:
            done = self._run(argv)
        except CommandMissing as error:
            raise _AccountingAbsentError("not installed here") from error
        if "accounting storage is disabled" in done.stderr.lower():
            raise _AccountingAbsentError("accounting storage is disabled")
        if done.returncode != 0 and "is after end time" in done.stderr:
            return []  # a start in the future, by Slurm's own clock: no job can be that new
        return account_rows(self._checked(argv, done))

    def _answer(self, argv: Sequence[str]) -> str:
        try:
            return self._checked(argv, self._run(argv))
        except CommandMissing as error:
            raise self._missing(argv[0], error) from error

    def _run(self, argv: Sequence[str]) -> Completed:
        try:
            return self._host.run(argv, timeout_seconds=self._timeout_seconds, env={"SLURM_TIME_FORMAT": "%s"})
        except CommandTimeout as error:
            raise SchedulerError(
                f"{argv[0]} did not answer within {self._timeout_seconds:g} s",
                hint=f"Slurm on cluster {self._cluster.name} is busy or down; nothing has changed, try later.",
            ) from error

    def _checked(self, argv: Sequence[str], done: Completed) -> str:
        if done.returncode != 0:
            raise SchedulerError(
                f"{argv[0]} failed: {one_line(done.stderr, 300) or f'status {done.returncode}'}",
                hint=f"Slurm on cluster {self._cluster.name} may be busy or down; nothing has changed, try later.",
            )
        if done.truncated:
            raise SchedulerError(
                f"{argv[0]} printed more than can be read",
                hint=f"An answer that was cut changes nothing; run `{argv[0]}` yourself to see what it prints.",
            )
        return done.stdout

    def _missing(self, program: str, error: CommandMissing) -> SchedulerRefused:
        return SchedulerRefused(
            f"{program} cannot be run: {error}",
            hint=f"Run hpc-board on a login node of cluster {self._cluster.name} with Slurm's commands on PATH."
            if self._cluster.ssh is None
            else f"Name a login node in clusters.{self._cluster.name}.ssh.host where login shells find sbatch.",
        )


def _times(rows: Sequence[QueueRow | AccountRow], name: str, earliest: datetime) -> dict[str, datetime]:
    """When the jobs of this name were submitted, by their ids; one of unknown time counts as the earliest of them."""
    return {
        row.job_id: row.submitted_at or earliest
        for row in rows
        if row.name == name and (row.submitted_at is None or row.submitted_at >= earliest)
    }


def _queue_news(row: QueueRow, source: str) -> JobNews:
    state = job_state(row.state)
    reason = one_line(row.reason, 120)
    waits = state is JobState.PENDING
    words = one_line(row.state, 40)
    return JobNews(
        state=state,
        job_id=row.job_id,
        reason=pending_reason_text(reason) if waits else "",
        node=one_line(row.node, 120),
        evidence=f"{source}: {words}" + (f" ({reason})" if reason not in ("", "None") else "") + _attempt(row),
        expected_start=row.start if waits else None,
        restarts=row.restarts,
    )


def _attempt(row: QueueRow) -> str:
    return f", restart {row.restarts}" if row.restarts else ""


def _account_news(job: JobKey, rows: Sequence[AccountRow], source: str) -> JobNews:
    """What the accounts say of a job that `source` does not list; a state that is not final explains nothing then."""
    attempts = [row for row in rows if (row.job_id, row.name) == (job.job_id, job.name)]
    if not attempts:
        return JobNews(JobState.MISSING, job.job_id, evidence=f"{source}: not listed; sacct: not listed")
    last = max(attempts, key=lambda row: row.submitted_at or job.submitted_at)
    state = job_state(last.state)
    return JobNews(
        state=state if state in _FINAL else JobState.MISSING,
        job_id=job.job_id,
        node=one_line(last.node, 120),
        evidence=f"{source}: not listed; sacct: {one_line(last.state, 40)}, exit code {one_line(last.exit_code, 12)}",
    )
