"""The door to one Slurm cluster."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec

from hpc_board.domain.clock import utc_now
from hpc_board.domain.run import PROLOG_FAILED, JobState, JobStatus, array_of
from hpc_board.errors import AnswerTooLarge, InputError, NotAvailable, QueueFull, SchedulerError, SchedulerRefused
from hpc_board.model.gpu import Availability, Cluster, Device, Gpu
from hpc_board.model.job_environment import log_name
from hpc_board.model.text import one_line
from hpc_board.schedulers import Change, Job, JobKey, Rehearsal, Rehearsed, SchedulerNode
from hpc_board.schedulers.slurm import ClusterOptions, RequestStyle, cluster_options, gpu_options
from hpc_board.schedulers.slurm.cluster_info import (
    CONFIGURATION,
    RESERVATIONS,
    configuration,
    partition_facts,
    reservations,
    seconds,
    site,
)
from hpc_board.schedulers.slurm.gres import matching_count, requested_gres
from hpc_board.schedulers.slurm.outputs import (
    ARRAY_TASKS_MAX,
    NODE_LIST_FORMAT,
    SACCT_FORMAT,
    SHOWN_FORMAT,
    SINFO_FORMAT,
    SQUEUE_FORMAT,
    SUBMITTED_FORMAT,
    AccountRow,
    ListedNode,
    NodeRow,
    QueueRow,
    account_rows,
    below_header,
    epoch,
    listed_nodes,
    node_rows,
    queue_rows,
    submitted_job_id,
    table,
)
from hpc_board.schedulers.slurm.refusals import (
    QUEUE_FULL,
    UNCONFIGURED,
    UNKNOWN_CLUSTER,
    not_accepted,
    query_failed,
    words_of,
)
from hpc_board.schedulers.slurm.sbatch import argument, ranges
from hpc_board.schedulers.slurm.states import job_state, pending_reason_text
from hpc_board.transport import CommandMissing, CommandStopped, CommandTimeout, Completed, Host
from hpc_board.transport.time_budget import is_out_of_time, time_limit, without_budget

TIMEOUT_SECONDS: Final = 60.0
"""The time-out of one command of Slurm: a busy controller answers late, and sbatch itself retries for a while."""

_EXPLAINED_SECONDS: Final = 10.0
"""The time for which an answer that explains refusals counts."""

_ACCOUNTED_AT_ONCE = 50
_NAMED_AT_ONCE = 1_000
"""The most jobs that one command names: the kernel takes an argument of up to 128 KiB."""

_LISTED_AT_ONCE = 5_000
"""The most jobs that one squeue gets by their ids, which are shorter than names."""

_FORMATS: Final = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Times in seconds since 1970, and lists of an array's tasks uncut."""

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LAUNCH_FAILURES: Final = ("launch failed requeued held", "JobLaunchFailure")
"""Reasons of jobs that could not be started; the second one is also that of a job killed for its memory."""

_MAX_ARRAY_TASKS = re.compile(r"\bmax_array_tasks=([0-9]{1,9})\b")
_CLOCK_SLACK = timedelta(days=1)
"""The tolerance for the controller's clock behind or ahead of this host's: more than a wrong time zone."""

_TOKEN = re.compile("hb-[0-9a-f]{16}")
_COMMENT = re.compile(r"hpc-board run .{1,2000} \((hb-[^\s()]{1,100})\)\Z")
"""The end of the comment of each job, which has the job's name; a user's own words come before it."""

_OVER: Final = "BF,CA,CD,DL,F,NF,OOM,PR,TO"
"""sacct's states of jobs that have ended, each listed in the second of its end only."""

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


class AddressedHost:
    """A host whose commands are Slurm's, each with the address of one cluster."""

    def __init__(self, host: Host, options: ClusterOptions) -> None:
        self._host = host
        self._clusters = [f"--clusters={options.slurm_cluster}"] if options.slurm_cluster else []
        self._variables = {"SLURM_CONF": options.slurm_conf} if options.slurm_conf else {}

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str = "",
        until: Sequence[str] = (),
    ) -> Completed:
        # Accounts are of all clusters.
        clusters = [] if argv[0] == "sacctmgr" else self._clusters
        return self._host.run(
            [argv[0], *clusters, *argv[1:]],
            timeout_seconds=timeout_seconds,
            env={**(env or {}), **self._variables},
            cwd=cwd,
            stdin=stdin,
            until=until,
        )

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command with its address, for a user who runs it."""
        variables = ["env", *(f"{name}={value}" for name, value in self._variables.items())] if self._variables else []
        return [*variables, argv[0], *self._clusters, *argv[1:]]


class Listing(msgspec.Struct, frozen=True):
    """The controller's list of jobs, and its source: "squeue" or "pyslurm"."""

    source: str
    rows: Sequence[QueueRow]


class SlurmScheduler:
    """A Slurm cluster, queried by its commands on `host`; it may be used from several threads.

    It follows and cancels only jobs of the account of `host`.
    """

    def __init__(self, cluster: Cluster, host: Host, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._cluster = cluster
        self._host = AddressedHost(host, cluster_options(cluster))
        self._timeout_seconds = timeout_seconds
        self._explanations: dict[tuple[str, ...], tuple[float, str]] = {}

    def command(self, job: Job) -> Sequence[str]:
        return self._host.command(self._sbatch(job))

    def _sbatch(self, job: Job) -> list[str]:
        folder = str(job.folder)
        if "\\" in folder:
            raise InputError(
                f"{folder}: Slurm cannot write a job's output to a folder with a backslash in its path",
                hint="Point `board` in the settings to another folder.",
            )
        pattern = folder.replace("%", "%%")
        own = {
            "job-name": job.name,
            "chdir": folder,
            "output": f"{pattern}.%a/{log_name('%A_%a')}" if job.indexes else f"{pattern}/{log_name('%j')}",
            "open-mode": "append",
            "export": "ALL",
            "requeue" if "requeue" in job.options else "no-requeue": "",
        }
        if job.indexes:
            own["array"] = ranges(job.indexes) + (f"%{job.max_running}" if job.max_running else "")
        if job.comment:
            own["comment"] = _comment(job)
        options = own | {name: value for name, value in job.options.items() if name not in own}
        arguments = [argument(name, value) for name, value in options.items()]
        return ["sbatch", "--parsable", *arguments, str(job.folder / job.script)]

    def submit(self, job: Job) -> str:
        command = self._sbatch(job)
        try:
            with without_budget():
                done = self._host.run(
                    command, timeout_seconds=self._timeout_seconds, cwd=str(job.folder), until=QUEUE_FULL
                )
        except CommandStopped as error:
            raise QueueFull(
                "the cluster does not accept jobs at the moment (MaxJobCount reached, or submissions disabled)",
                hint="It is sent once earlier jobs have ended; see `scontrol show config` and the site's "
                "announcements.",
            ) from error
        except CommandTimeout as error:
            raise SchedulerError(
                f"sbatch did not answer within {self._timeout_seconds:g} s",
                hint="The job is looked up by its name before it is sent again.",
            ) from error
        except CommandMissing as error:
            raise self._missing("sbatch", error) from error
        job_id = None if done.truncated else submitted_job_id(done.stdout)
        if job_id is None and (done.returncode > 0 or UNCONFIGURED.search(done.stderr)):
            raise self._not_accepted(done, job)
        if done.returncode != 0 or job_id is None:
            raise SchedulerError(
                f"sbatch exited with status {done.returncode} and printed {one_line(done.stdout, 100)!r}",
                hint="The job is looked up by its name before it is sent again.",
            )
        return job_id

    def rehearse(self, rehearsals: Sequence[Rehearsal]) -> Sequence[Rehearsed]:
        from hpc_board.schedulers.slurm.rehearsal import rehearse

        return rehearse(rehearsals, lambda: site(self._host, self._timeout_seconds, self._cluster.name), self.test_only)

    def test_only(self, job: Job) -> str:
        """Return the answer of `sbatch --test-only` to the job: the time and the node of its start.

        Raises:
            InputError: an option or the folder's path cannot be handed to Slurm.
            SchedulerRefused: Slurm would refuse the job.
            SchedulerError: Slurm gave no clear answer.
        """
        sbatch, _, *rest = self._sbatch(job)
        argv = [sbatch, "--test-only", *rest]
        try:
            done = self._host.run(argv, timeout_seconds=self._timeout_seconds, cwd=str(job.folder))
        except CommandTimeout as error:
            raise SchedulerError(
                f"sbatch --test-only did not answer within {self._timeout_seconds:g} s",
                hint="Slurm is busy or down; try again later.",
            ) from error
        except CommandMissing as error:
            raise self._missing("sbatch", error) from error
        if done.returncode == 0:
            return words_of(done.stderr)
        unclear = self._not_accepted(done, job)
        if not isinstance(unclear, SchedulerRefused):
            unclear.hint = "Slurm may be busy or down; try again later."
        raise unclear

    def _not_accepted(self, done: Completed, job: Job) -> SchedulerError:
        """Return the error for an sbatch that failed, after further questions where its words leave the cause open."""
        self._require_cluster(done)
        error = not_accepted(done.stderr, job.gpu.name, self._cluster.name)
        if isinstance(error, SchedulerRefused) and "access/permission denied" in done.stderr.lower():
            return self._missing_reservation(job) or error
        return error

    def _missing_reservation(self, job: Job) -> SchedulerRefused | None:
        """Return the refusal of a job without a reservation in a partition that accepts only jobs with one."""
        partition = job.options.get("partition", "")
        if job.options.get("reservation") or not _NODE.fullmatch(partition):
            return None
        facts = partition_facts(self._explanation("scontrol", "show", "partition", partition, "--oneliner"))
        if partition not in facts or not facts[partition].reservation_only:
            return None
        told = self._explanation(*RESERVATIONS)
        if not told:
            return None
        names = reservations(told, partition)
        return SchedulerRefused(
            f"sbatch rejected the job for {job.gpu.name}: partition {partition} accepts only jobs with a "
            "reservation, but none is given",
            hint=f"Set it with --reservation or gpus.{job.gpu.name}.reservation in the settings: "
            + (one_line(", ".join(names), 300) if names else "`scontrol show reservation` currently lists none for it")
            + ".",
        )

    def _require_cluster(self, done: Completed) -> None:
        """Check that a command failed for another reason than a cluster that slurmdbd does not know.

        Slurm says the same of a cluster that is down.

        Raises:
            SchedulerRefused: slurmdbd lists its clusters, and this one is not among them.
        """
        name = cluster_options(self._cluster).slurm_cluster
        if not name or not UNKNOWN_CLUSTER.search(done.stderr):
            return
        listing = ("sacctmgr", "--noheader", "--parsable2", "list", "clusters", "format=Cluster")
        known = self._explanation(*listing).split()
        # Slurm keeps the names of clusters and accounts in lower case.
        if known and name.lower() not in map(str.lower, known):
            raise SchedulerRefused(
                f"Slurm does not know cluster {name}; known clusters: {one_line(', '.join(known), 300)}",
                hint=f"Correct clusters.{self._cluster.name}.slurm_cluster in the settings.",
            )

    def _explanation(self, *argv: str) -> str:
        """Return the answer to a question about a refusal; empty without one.

        It counts for some seconds: many jobs of a submission may be refused alike.
        """
        now = time.monotonic()
        asked_at, answer = self._explanations.get(argv, (-math.inf, ""))
        if now - asked_at >= _EXPLAINED_SECONDS:
            answer = ""
            with suppress(CommandMissing, SchedulerError):
                done = self._run(argv)
                answer = done.stdout if done.returncode == 0 and not done.truncated else ""
            self._explanations[argv] = now, answer
        return answer

    def find(self, job: JobKey) -> str | None:
        return self.find_each([job]).get(job.name)

    def find_each(self, jobs: Sequence[JobKey]) -> Mapping[str, str]:
        earliest = min(job.submitted_at for job in jobs) - _CLOCK_SLACK
        found = _found(jobs, _as_sent(self._queue(lambda: self._submitted_since(earliest)).rows, jobs), earliest)
        absent = [job for job in jobs if job.name not in found]
        with suppress(_AccountingAbsentError):
            names = list(dict.fromkeys(each for job in absent for each in (job.name, array_of(job.name)) if each))
            for start in range(0, len(names), _NAMED_AT_ONCE):
                some = ",".join(names[start : start + _NAMED_AT_ONCE])
                rows = self._accounts(f"--name={some}", earliest=earliest)
                found |= _found(absent, _as_sent(rows, absent), earliest)
            absent = [job for job in absent if job.name not in found and job.script]
            if absent:
                found |= _found(absent, self._ended_since(earliest, absent), earliest)
        return found

    def _ended_since(self, earliest: datetime, jobs: Sequence[JobKey]) -> list[AccountRow]:
        """Return the accounts' rows of those of `jobs` that have ended, also under another name.

        No option of sacct selects renamed jobs, and the accounts of a busy account are long: shorter times have fewer.
        Jobs that have not ended are in the queue.
        """

        def ended(seconds: Sequence[int]) -> list[AccountRow]:
            times = [datetime.fromtimestamp(second, UTC) for second in (seconds[0], seconds[-1])]
            return _as_sent(self._accounts(f"--state={_OVER}", earliest=times[0], latest=times[1]), jobs)

        first, last = int(earliest.timestamp()), int((utc_now() + _CLOCK_SLACK).timestamp())
        return _in_halves(ended, range(first, max(first, last) + 1))

    def array_size(self) -> int:
        settings = configuration(self._answer(CONFIGURATION))
        most = _MAX_ARRAY_TASKS.search(settings.get("SchedulerParameters", ""))
        size = settings.get("MaxArraySize", "")
        if not re.fullmatch("[0-9]{1,9}", size):
            raise SchedulerError(
                "scontrol does not report MaxArraySize", hint="Run `scontrol show config` to see its output."
            )
        return min([ARRAY_TASKS_MAX, int(size), *([int(most[1])] if most else [])])

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        """Return the status of each job, by its name: from one squeue for all, and sacct for those that it lacks.

        If sacct fails, the jobs that squeue lacks are unknown and `unlisted`, and it is asked for no others: each query
        may take as long.
        """
        if not jobs:
            return {}
        listing = self._queue(lambda: [job.job_id for job in jobs])
        listed = {(row.job_id, row.name): row for row in _as_sent(listing.rows, jobs)}
        news: dict[str, JobStatus] = {}
        gone = []
        for job in jobs:
            row = listed.get((job.job_id, job.listed_as))
            if row is None:
                gone.append(job)
            else:
                news[job.name] = _queue_news(row, listing.source)
        allocations: dict[str, list[JobKey]] = {}
        for job in gone:
            allocations.setdefault(_allocation(job.job_id), []).append(job)
        ids = list(allocations)
        for start in range(0, len(ids), _ACCOUNTED_AT_ONCE):
            some = [job for id_ in ids[start : start + _ACCOUNTED_AT_ONCE] for job in allocations[id_]]
            found = dict(self._statuses_of_sacct(some, listing.source))
            news |= found
            if all(each.unlisted for each in found.values()):
                silent = next(iter(found.values()))
                rest = [job for id_ in ids[start + _ACCOUNTED_AT_ONCE :] for job in allocations[id_]]
                news |= {job.name: msgspec.structs.replace(silent, job_id=job.job_id) for job in rest}
                break
        return news

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """Cancel the jobs; one that has ended, or whose id has another name by now, is left alone.

        From Slurm 24.05 on, `--ctld` sends all ids in one question; earlier releases take the option, and send one for
        each id. The tasks of an array go as one id, "123_[0-3,7]".
        """
        if not jobs:
            return
        ours = {(job.job_id, job.listed_as) for job in jobs}
        rows = _as_sent(self._queue(lambda: [job.job_id for job in jobs]).rows, jobs)
        live = [row.job_id for row in rows if (row.job_id, row.name) in ours and job_state(row.state) in _LIVE]
        ids = _grouped(live)
        for start in range(0, len(ids), _NAMED_AT_ONCE):
            self._answer(["scancel", "--quiet", "--ctld", *ids[start : start + _NAMED_AT_ONCE]])

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        if not gpus:
            return []
        nodes = node_rows(below_header("sinfo", self._answer(["sinfo", "--all", "--Node", f"--Format={SINFO_FORMAT}"])))
        listed = below_header("squeue", self._answer(["squeue", "--all", "--states=PENDING", "--format=%P|"]))
        waiting = [partitions for partitions, _ in table("squeue", listed, 2)]
        return [availability(gpu, nodes, waiting) for gpu in gpus]

    def nodes(self, gpu: Gpu) -> Sequence[SchedulerNode]:
        options = gpu_options(gpu)
        argv = ["sinfo", "--Node"]
        avoided: set[str] = set()
        if options.exclude:
            excluded = [*argv, "--all", f"--nodes={options.exclude}", "--format=%N|"]
            rows = below_header("sinfo", self._answer(excluded)).splitlines()
            avoided.update(row.strip(" |") for row in rows)
        of_partition = [f"--partition={gpu.partition}"] if gpu.partition else ["--all"]
        among = [f"--nodes={options.nodelist}"] if options.nodelist else []
        printed = self._answer([*argv, *of_partition, *among, f"--Format={NODE_LIST_FORMAT}"])
        listed = listed_nodes(below_header("sinfo", printed))
        return [node for node in nodes_of(gpu, listed) if node.name not in avoided]

    def prolog_failure(self, node: str) -> str:
        if not _NODE.fullmatch(node):
            return ""
        printed = self._answer(["sinfo", "--all", "--Node", f"--nodes={node}", "--format=%N|%T|%E"])
        for _, state, reason in table("sinfo", below_header("sinfo", printed), 3):
            if state.lower().startswith("drain") and "prolog" in reason.lower():
                return f"{PROLOG_FAILED} ({node} is drained: {one_line(reason, 80)})"
        return ""

    def changes(self, job: Job, job_id: str) -> Sequence[Change] | None:
        rows = table("squeue", self._squeue(SHOWN_FORMAT, [job_id]), 7)
        return [*_changes(job, *rows[0][1:])] if rows else None

    def _queue(self, ids: Callable[[], Iterable[str]]) -> Listing:
        """Return this account's jobs that the controller remembers, of a list that is too long those with `ids`."""
        try:
            return Listing("squeue", queue_rows(self._squeue(SQUEUE_FORMAT)))
        except AnswerTooLarge:
            wanted = list(dict.fromkeys(map(_allocation, ids())))
            rows: list[QueueRow] = []
            for start in range(0, len(wanted), _LISTED_AT_ONCE):
                rows += _in_halves(
                    lambda some: queue_rows(self._squeue(SQUEUE_FORMAT, some)), wanted[start : start + _LISTED_AT_ONCE]
                )
            return Listing("squeue", rows)

    def _submitted_since(self, earliest: datetime) -> list[str]:
        """Return the ids of this account's jobs that were submitted since `earliest`, or at an unknown time."""
        listed = table("squeue", self._squeue(SUBMITTED_FORMAT), 2)
        # Components of heterogeneous jobs have ids of another form, and are never ours.
        ids = ((_allocation(job_id), epoch(at) or earliest) for job_id, at in listed)
        return [id_ for id_, at in ids if id_.isdecimal() and at >= earliest]

    def _squeue(self, format_: str, ids: Sequence[str] = ()) -> str:
        """Return squeue's table, without its header, of this account's jobs, or of those with these ids.

        `--me` has the controller send only this account's jobs; without it, squeue gets those of all users and drops
        them. `--name` and `--jobs` save nothing there: squeue itself drops the others, and by name renamed jobs.
        """
        which = [f"--jobs={','.join(ids)}"] if ids else []
        argv = ["squeue", "--all", "--states=all", "--me", *which, f"--Format={format_}"]
        try:
            return below_header("squeue", self._answer(argv))
        except SchedulerError as error:
            # An id on its own that the controller does not know is an error, and no empty table.
            if len(ids) == 1 and "Invalid job id specified" in error.message:
                return ""
            raise

    def _statuses_of_sacct(self, jobs: Sequence[JobKey], source: str) -> Iterator[tuple[str, JobStatus]]:
        """Return the status of jobs that `source` does not list, from sacct."""
        try:
            earliest = min(job.submitted_at for job in jobs) - _CLOCK_SLACK
            rows = _in_halves(
                lambda ids: self._accounts("--allusers", f"--jobs={','.join(ids)}", earliest=earliest),
                list(dict.fromkeys(_allocation(job.job_id) for job in jobs)),
            )
        except _AccountingAbsentError as error:
            for job in jobs:
                yield job.name, JobStatus(JobState.MISSING, job.job_id, source=f"{source}: not listed; sacct: {error}")
            return
        except SchedulerError as error:
            for job in jobs:
                words = f"{source}: not listed; {error.message}"
                yield job.name, JobStatus(JobState.UNKNOWN, job.job_id, source=words, unlisted=True)
            return
        for job in jobs:
            yield job.name, _account_news(job, rows, source)

    def _accounts(self, *which: str, earliest: datetime, latest: datetime | None = None) -> list[AccountRow]:
        """Return the rows of the accounts since `earliest`; without "--allusers" only those of this account's jobs.

        By default sacct ends at this host's time, and lacks newer jobs of a controller whose clock is ahead.
        """
        latest = latest or utc_now() + _CLOCK_SLACK
        argv = [
            "sacct",
            "--allocations",
            "--duplicates",
            "--parsable2",
            f"--starttime=uts{int(earliest.timestamp())}",
            f"--endtime=uts{int(latest.timestamp())}",
            f"--format={SACCT_FORMAT}",
            *which,
        ]
        try:
            done = self._run(argv)
        except CommandMissing as error:
            raise _AccountingAbsentError("not installed here") from error
        if "accounting storage is disabled" in done.stderr.lower():
            raise _AccountingAbsentError("accounting storage is disabled")
        if done.returncode != 0 and "is after end time" in done.stderr:
            return []  # a start in the future, by Slurm's own clock: no job can be that new
        return account_rows(below_header("sacct", self._output_of(argv, done)))

    def _answer(self, argv: Sequence[str]) -> str:
        try:
            return self._output_of(argv, self._run(argv))
        except CommandMissing as error:
            raise self._missing(argv[0], error) from error

    def _run(self, argv: Sequence[str]) -> Completed:
        within = f"within {time_limit(self._timeout_seconds):g} s"
        if is_out_of_time():
            raise SchedulerError(f"Slurm did not answer {within}: {argv[0]} was not run", hint="Try again later.")
        try:
            return self._host.run(argv, timeout_seconds=self._timeout_seconds, env=_FORMATS)
        except CommandTimeout as error:
            raise SchedulerError(
                f"{argv[0]} did not answer {within}",
                hint=f"Slurm on cluster {self._cluster.name} is busy or down; nothing was changed; try again later.",
            ) from error

    def _output_of(self, argv: Sequence[str], done: Completed) -> str:
        if done.returncode != 0 or (done.stderr and not done.stdout and UNCONFIGURED.search(done.stderr)):
            self._require_cluster(done)
            raise query_failed(argv[0], done, self._cluster.name)
        if done.truncated:
            raise AnswerTooLarge(
                f"the output of {argv[0]} exceeds the limit",
                hint=f"Nothing was changed; run `{argv[0]}` to see its output.",
            )
        return done.stdout

    def _missing(self, program: str, error: CommandMissing) -> NotAvailable:
        return NotAvailable(
            f"{program} cannot be run: {error}",
            hint=f"Run hpc-board on a login node of cluster {self._cluster.name} with Slurm's commands on PATH."
            if self._cluster.ssh is None
            else f"Set clusters.{self._cluster.name}.ssh.host to a login node where sbatch is on the PATH of login "
            "shells.",
        )


RowT = TypeVar("RowT", QueueRow, AccountRow)
PartT = TypeVar("PartT")
AnswerT = TypeVar("AnswerT")


def _in_halves(ask: Callable[[Sequence[PartT]], list[AnswerT]], parts: Sequence[PartT]) -> list[AnswerT]:
    """Return the rows about `parts`, asked for in halves where an answer is too large.

    Raises:
        AnswerTooLarge: the answer about a single part is.
    """
    try:
        return ask(parts)
    except AnswerTooLarge:
        if len(parts) < 2:
            raise
        middle = len(parts) // 2
        return [*_in_halves(ask, parts[:middle]), *_in_halves(ask, parts[middle:])]


def _comment(job: Job) -> str:
    # The site's own comment or the user's comes first: accounting scripts may read it.
    return "; ".join(filter(None, (job.options.get("comment"), f"{job.comment} ({job.name})")))


def _changes(job: Job, name: str, partition: str, limit: str, account: str, qos: str, comment: str) -> Iterator[Change]:
    options = job.options
    wanted = {
        "account": (options.get("account", ""), account),
        "QOS": (options.get("qos", ""), qos),
        "name": (job.name, name),
        "comment": (_comment(job) if job.comment else "", comment),
    }
    if not set(partition.split(",")) <= set(options.get("partition", partition).split(",")):
        yield Change("partition", options["partition"], one_line(partition, 80), important=True)
    sent, found = seconds(options.get("time", "")), seconds(limit)
    # Slurm counts in minutes.
    if sent is not None and (found is None or abs(found - sent) >= 60):
        yield Change("time limit", options["time"], one_line(limit, 40), important=True)
    for part, (asked, told) in wanted.items():
        same = asked.lower() == told.lower() if part == "account" else asked == told
        if asked and not same:
            yield Change(part, one_line(asked, 80), one_line(told, 80), important=part in ("account", "QOS"))


def _as_sent(rows: Sequence[RowT], jobs: Sequence[JobKey]) -> list[RowT]:
    """Return the rows of `jobs` with the names with which these were sent.

    A site may rename a job (job_submit.lua, `scontrol update`): then its comment proves whose it is, else its script.
    """
    scripts = {job.script: job.name for job in jobs if job.script}
    for job in jobs:
        folder, _, file = job.script.rpartition("/")
        if array_of(folder) and array_of(job.name):
            scripts[f"{array_of(folder)}/{file}"] = array_of(job.name)
    names = {each for job in jobs for each in (job.name, array_of(job.name))} - {""}
    found = []
    for row in rows:
        name = row.name
        if name not in names and (comment := _COMMENT.search(row.comment)):
            name = comment[1]
        elif name not in names:
            name = scripts.get(row.script, "")
            # A board that was made anew in its former folder gives the same paths again.
            if (other := _TOKEN.match(row.name)) and not name.startswith(other[0]):
                continue
        if name in names:
            found.append(row if name == row.name else msgspec.structs.replace(row, name=name))
    return found


def _found(jobs: Sequence[JobKey], rows: Sequence[QueueRow | AccountRow], earliest: datetime) -> dict[str, str]:
    """Return the ids of the newest of these jobs, by their names; one of unknown time counts as the earliest of them.

    Of an array that is listed at all every task has been submitted, also one that is over and forgotten.
    """
    times: dict[tuple[str, bool], tuple[datetime, int]] = {}
    for row in rows:
        allocation, _, task = row.job_id.partition("_")
        at = (row.submitted_at or earliest, int(allocation))
        if at[0] >= earliest:
            times[row.name, bool(task)] = max(times.get((row.name, bool(task)), at), at)
    ids = {}
    for name in (job.name for job in jobs):
        array, _, index = name.rpartition(".")
        if (name, False) in times:
            ids[name] = str(times[name, False][1])
        elif array and (array, True) in times:
            ids[name] = f"{times[array, True][1]}_{index}"
    return ids


def _allocation(job_id: str) -> str:
    """Return the id for sacct: of a task of an array, that of the whole."""
    return job_id.partition("_")[0]


def _grouped(job_ids: Iterable[str]) -> list[str]:
    """Return ids for scancel, the tasks of an array as one: "123_[0-3,7]"."""
    indexes: dict[str, list[int]] = {}
    for job_id in dict.fromkeys(job_ids):
        allocation, _, index = job_id.partition("_")
        indexes.setdefault(allocation, [])
        if index:
            indexes[allocation].append(int(index))
    return [f"{id_}_[{ranges(sorted(tasks))}]" if tasks else id_ for id_, tasks in indexes.items()]


def _queue_news(row: QueueRow, source: str) -> JobStatus:
    state = job_state(row.state)
    reason = one_line(row.reason, 120)
    waits = state is JobState.PENDING
    words = one_line(row.state, 40)
    attempt = f", restart {row.restarts}" if row.restarts else ""
    return JobStatus(
        state=state,
        job_id=row.job_id,
        reason=pending_reason_text(reason) if waits else "",
        node=one_line(row.node, 120),
        source=f"{source}: {words}" + (f" ({reason})" if reason not in ("", "None") else "") + attempt,
        expected_start=row.start if waits else None,
        restarts=row.restarts,
        launch_failed=reason in _LAUNCH_FAILURES,
    )


def _account_news(job: JobKey, rows: Sequence[AccountRow], source: str) -> JobStatus:
    """Return sacct's status of a job that `source` does not list; a state that is not final explains nothing then."""
    attempts = [row for row in _as_sent(rows, [job]) if (row.job_id, row.name) == (job.job_id, job.listed_as)]
    if not attempts:
        # Slurm gives numbers of jobs again; a name is one job's for all time.
        others = any(row.job_id == job.job_id for row in rows)
        listed = f"lists {job.job_id} as another job" if others else "not listed"
        return JobStatus(JobState.MISSING, job.job_id, source=f"{source}: not listed; sacct: {listed}")
    last = max(attempts, key=lambda row: row.submitted_at or job.submitted_at)
    state = job_state(last.state)
    return JobStatus(
        state=state if state in _FINAL else JobState.MISSING,
        job_id=job.job_id,
        node=one_line(last.node, 120),
        source=f"{source}: not listed; sacct: {one_line(last.state, 40)}, exit code {one_line(last.exit_code, 12)}",
    )


_USABLE: Final = frozenset({"idle", "mixed", "allocated", "completing", "planned"})
_STATE = re.compile(r"([a-z_]+)(.*)", re.DOTALL)
_ALL_OF = re.compile(r"[A-Za-z0-9_.+:=&-]+")
_UNUSABLE_MARKS: Final = frozenset("*$@^!%")
"""sinfo's marks for: does not answer, maintenance, reboot wanted, rebooting, going to be powered down, going down."""


def availability(gpu: Gpu, nodes: Sequence[NodeRow], waiting: Sequence[str]) -> Availability:
    """Count the units of `gpu`, the free ones among them, and the jobs that wait for its partition.

    The unit is a GPU of the requested kind; without such a request a CPU for the CPU, else a whole node. `waiting`
    holds the partition of each waiting job, or several joined by commas.
    """
    wanted = set(gpu.partition.split(",")) if gpu.partition else {row.partition for row in nodes if row.default}
    members = [row for row in nodes if row.partition in wanted]
    if not members:
        return Availability(
            gpu.name, state=f"no partition {gpu.partition}" if gpu.partition else "no default partition"
        )
    counts = {row.node: _free_and_total(gpu, row) for row in members}
    up = any(row.available == "up" for row in members)
    total = sum(total for _, total in counts.values())
    gres = requested_gres(gpu_options(gpu).request)
    if not total and gres is not None:
        kind = f"{gres.name}:{gres.type}" if gres.type else gres.name
        state = f"no node of {', '.join(sorted(wanted))} has {kind}"
    else:
        state = "up" if up else members[0].available
    return Availability(
        gpu.name,
        free=sum(free for free, _ in counts.values()) if up else 0,
        total=total,
        queued=sum(not wanted.isdisjoint(partitions.split(",")) for partitions in waiting),
        state=one_line(state, 200),
    )


def nodes_of(gpu: Gpu, listed: Sequence[ListedNode]) -> list[SchedulerNode]:
    """Return the nodes that have the requested GPUs and features.

    A constraint other than features joined by `&` leaves the choice to Slurm.
    """
    options = gpu_options(gpu)
    gres = requested_gres(options.request)
    by_request = options.request.value if options.request.style is RequestStyle.CONSTRAINT else ""
    features = {
        word
        for constraint in (options.constraint, by_request)
        if _ALL_OF.fullmatch(constraint)
        for word in constraint.split("&")
    }
    reserved = bool(options.reservation)
    found = []
    for each in listed:
        if (gres is None or matching_count(each.gres, gres)) and features <= set(each.features):
            takes_jobs = is_usable(each.state, reserved=reserved) and (reserved or not each.reserved)
            reason = "" if takes_jobs else one_line(each.reason, 200)
            found.append(SchedulerNode(each.node, one_line(each.state, 60), takes_jobs, each.state == "idle", reason))
    return found


def _free_and_total(gpu: Gpu, row: NodeRow) -> tuple[int, int]:
    reservation = bool(gpu_options(gpu).reservation)
    usable = is_usable(row.state, reserved=reservation) and (reservation or not row.reserved)
    gres = requested_gres(gpu_options(gpu).request)
    if gres is not None:
        total = matching_count(row.gres, gres)
        free = max(0, total - matching_count(row.gres_used, gres))
    elif gpu.device is Device.CPU and gpu_options(gpu).request.style is RequestStyle.NONE:
        total, free = row.cpus, row.cpus_idle
    else:
        total, free = 1, int(row.state.startswith("idle"))
    return (free if usable else 0), total


def is_usable(state: str, *, reserved: bool) -> bool:
    """Return whether jobs start on a node in this sinfo state: "idle", "mixed~" (asleep) or "idle*" (silent)."""
    match = _STATE.fullmatch(state)
    if match is None:
        return False
    word, marks = match.groups()
    return _UNUSABLE_MARKS.isdisjoint(marks) and (word in _USABLE or (reserved and word == "reserved"))
