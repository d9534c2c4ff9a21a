"""Parsers of the output of Slurm's commands, each beside the format that the command gets."""

import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from hpc_board.errors import SchedulerError
from hpc_board.model.text import one_line

SQUEUE_FORMAT: Final = (
    "JobArrayID:|,Name:|,State:|,SubmitTime:|,StartTime:|,NodeList:|,RestartCnt:|,Reason:|,Command:|,"
    "Comment: "  # a space ends the line
)
SUBMITTED_FORMAT: Final = "JobArrayID:|,SubmitTime: "
SHOWN_FORMAT: Final = "JobArrayID:|,Name:|,Partition:|,TimeLimit:|,Account:|,QOS:|,Comment: "
SACCT_FORMAT: Final = "JobID,JobName,State,ExitCode,Submit,NodeList,Comment,SubmitLine"
SINFO_FORMAT: Final = "NodeList:|,Partition:|,Available:|,StateLong:|,CPUsState:|,Gres:|,GresUsed:|,StateComplete:|"
NODE_LIST_FORMAT: Final = "NodeList:|,StateLong:|,StateComplete:|,Gres:|,Features:|,Reason:|"

_SUBMITTED = re.compile(r"^([0-9]{1,10})(?:;\S+)?$", re.MULTILINE)
_JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,7})?")
_WAITING = re.compile(r"([0-9]{1,10}_)\[([0-9,:-]{1,8000})(?:%[0-9]{1,7})?\]")
_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")
_COUNT = re.compile(r"[0-9]{1,9}")
_EPOCH_SECONDS = re.compile(r"[0-9]{1,10}")
_EPOCH_SECONDS_MAX = 2**33
_HEADER = re.compile(r"^(?:JOBID|JobID|NODELIST|PARTITION)\|.*\n", re.MULTILINE)
_CPU_COUNTS = re.compile("[0-9]{1,9}/([0-9]{1,9})/[0-9]{1,9}/([0-9]{1,9})")


ARRAY_TASKS_MAX: Final = 1000
"""The maximum number of tasks in one of our arrays on any cluster: Slurm's own default, less one."""


class QueueRow(msgspec.Struct, frozen=True):
    """A job as squeue lists it. `start` is when it started or, of a waiting job, is expected to; None if unknown.

    `restarts` counts Slurm's requeues of the job, if known; `script` is the path of its batch script, or the
    command of an interactive job.
    """

    job_id: str
    name: str
    state: str
    submitted_at: datetime | None
    start: datetime | None
    node: str
    reason: str
    restarts: int | None = None
    script: str = ""
    comment: str = ""


class AccountRow(msgspec.Struct, frozen=True):
    """A job as sacct lists it; a requeued job has one row for each attempt, told apart by `submitted_at`."""

    job_id: str
    name: str
    state: str
    exit_code: str
    submitted_at: datetime | None
    node: str
    comment: str = ""
    script: str = ""


class NodeRow(msgspec.Struct, frozen=True):
    """A node as sinfo lists it, once for each of its partitions.

    `reserved` says that a reservation holds it now: the state tells that only of an idle node.
    """

    node: str
    partition: str
    default: bool
    available: str
    state: str
    cpus_idle: int
    cpus: int
    gres: str
    gres_used: str
    reserved: bool = False


class ListedNode(msgspec.Struct, frozen=True):
    """A node as sinfo lists it; `reason` is an administrator's for its state."""

    node: str
    state: str
    gres: str
    features: tuple[str, ...]
    reason: str
    reserved: bool


def submitted_job_id(stdout: str) -> str | None:
    """Return the job's id in the output of `sbatch --parsable`; None if it has none, or several."""
    ids = set(_SUBMITTED.findall(stdout))
    return ids.pop() if len(ids) == 1 else None


def job_ids(listed: str) -> list[str]:
    """Return the jobs of an id in a listing: itself, or each waiting task of an array ("12_[0-3,7%2]").

    None for jobs that are never ours: components of heterogeneous jobs, and arrays larger than ARRAY_TASKS_MAX.
    """
    if _JOB_ID.fullmatch(listed):
        return [listed]
    waiting = _WAITING.fullmatch(listed)
    if waiting is None:
        return []
    array, text = waiting.groups()
    ranges = []
    for part in text.split(","):
        ends = _RANGE.fullmatch(part)
        if ends is None:
            return []
        first, last, step = ends[1], ends[2] or ends[1], ends[3] or "1"
        ranges.append(range(int(first), int(last) + 1, max(1, int(step))))
    if sum(map(len, ranges)) > ARRAY_TASKS_MAX:
        return []
    return [f"{array}{index}" for indexes in ranges for index in indexes]


def queue_rows(stdout: str) -> list[QueueRow]:
    """Parse the jobs of `squeue --Format=SQUEUE_FORMAT`, each waiting task of an array on its own.

    Raises:
        SchedulerError: it printed something else.
    """
    return [
        QueueRow(job_id, name, state, epoch(submit), epoch(start), node, reason, _count(restarts), script, comment)
        for listed, name, state, submit, start, node, restarts, reason, script, comment in table("squeue", stdout, 10)
        for job_id in job_ids(listed)
    ]


def account_rows(stdout: str) -> list[AccountRow]:
    """Parse the jobs of `sacct --parsable2 --format=SACCT_FORMAT`.

    The row that an array has for its waiting tasks is kept when they are cancelled, and may name tasks that have begun
    and have rows of their own: those come first.

    Raises:
        SchedulerError: it printed something else.
    """
    rows = []
    for listed, name, state, exit_code, submit, node, comment, command in table("sacct", stdout, 8):
        where = "" if node == "None assigned" else node
        script = f"/{command.rpartition(' /')[2]}"
        for job_id in job_ids(listed):
            row = AccountRow(job_id, name, state, exit_code, epoch(submit), where, comment, script)
            rows.append((job_id != listed, row))
    return [row for _, row in sorted(rows, key=lambda each: each[0])]


def node_rows(stdout: str) -> list[NodeRow]:
    """Parse the nodes of `sinfo --Node --Format=SINFO_FORMAT`.

    Raises:
        SchedulerError: it printed something else.
    """
    rows = []
    for node, partition, available, state, cpus, gres, gres_used, complete in table("sinfo", stdout, 8):
        idle, total = _cpu_counts(cpus)
        rows.append(
            NodeRow(
                node,
                partition.removesuffix("*"),
                partition.endswith("*"),
                available,
                state.lower(),
                idle,
                total,
                gres,
                gres_used,
                _is_reserved(complete),
            )
        )
    return rows


def listed_nodes(stdout: str) -> list[ListedNode]:
    """Parse the nodes of `sinfo --Node --Format=NODE_LIST_FORMAT`, each once although it is in several partitions.

    Raises:
        SchedulerError: it printed something else.
    """
    nodes = {}
    for node, state, complete, gres, features, reason in table("sinfo", stdout, 6):
        nodes[node] = ListedNode(
            node,
            state.lower(),
            gres,
            tuple(features.split(",")),
            "" if reason.rstrip("|") == "none" else reason.rstrip("|"),
            _is_reserved(complete),
        )
    return [nodes[name] for name in sorted(nodes)]


def _is_reserved(complete: str) -> bool:
    return "reserved" in complete.rstrip("|").lower().split("+")


def epoch(text: str) -> datetime | None:
    """Parse a time under SLURM_TIME_FORMAT=%s; return None for "N/A", "Unknown" and the like."""
    if not _EPOCH_SECONDS.fullmatch(text.strip()) or not 0 < int(text) < _EPOCH_SECONDS_MAX:
        return None
    return datetime.fromtimestamp(int(text), UTC)


def below_header(program: str, stdout: str) -> str:
    """Return the table below its header: every whole answer has one, also that without a row.

    Raises:
        SchedulerError: the output has no header.
    """
    header = _HEADER.search(stdout)
    if header is None:
        printed = f"something other than its table: {one_line(stdout, 100)!r}" if stdout.strip() else "nothing"
        raise SchedulerError(
            f"{program} printed {printed}",
            hint=f"Run `{program}` to check: a wrapper or a message of the site may be mixed into its output.",
        )
    return stdout[header.end() :]


def table(program: str, stdout: str, columns: int) -> list[list[str]]:
    """Return the lines that have all columns; text after the last separator is kept whole, other lines are no rows.

    Output without a row is invalid, and so is output that ends within a line: jobs that it lacks would end runs that go
    on.

    Raises:
        SchedulerError: the output contains such a line, or is cut.
    """
    if end := stdout.rpartition("\n")[2]:
        raise SchedulerError(
            f"the output of {program} ends within a line: {one_line(end, 100)!r}",
            hint=f"Run `{program}` to check: it, or a wrapper around it, may have been killed.",
        )
    lines = [[field.strip() for field in line.split("|", columns - 1)] for line in stdout.split("\n")]
    rows = [fields for fields in lines if len(fields) == columns]
    if stdout.strip() and not rows:
        raise SchedulerError(
            f"{program} printed something other than its table: {one_line(stdout, 100)!r}",
            hint=f"Run `{program}` to check: a wrapper or a message of the site may be mixed into its output.",
        )
    return rows


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


def _cpu_counts(text: str) -> tuple[int, int]:
    """Return the idle CPUs and all CPUs in "allocated/idle/other/total"."""
    counts = _CPU_COUNTS.fullmatch(text)
    return (int(counts[1]), int(counts[2])) if counts else (0, 0)
