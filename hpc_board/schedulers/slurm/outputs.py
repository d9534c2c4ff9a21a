"""What Slurm's commands print, parsed: the formats that they are asked for stand beside what reads them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

SQUEUE_FORMAT: Final = "%i|%j|%T|%V|%S|%N|%r"
SACCT_FORMAT: Final = "JobIDRaw,JobName,State,ExitCode,Submit,NodeList"
SINFO_FORMAT: Final = "NodeList:|,Partition:|,Available:|,StateLong:|,CPUsState:|,Gres:|,GresUsed:|"

_JOB_ID = re.compile(r"^(\d+)(?:;\S+)?$", re.MULTILINE)
_EPOCH_MAX = 2**40


@dataclass(frozen=True)
class QueueRow:
    """A job as squeue lists it. `start` is when it started or, of a waiting job, is expected to; None if unknown."""

    job_id: str
    name: str
    state: str
    submitted_at: datetime | None
    start: datetime | None
    node: str
    reason: str


@dataclass(frozen=True)
class AccountRow:
    """A job as sacct lists it; a requeued job has one row for each attempt, told apart by `submitted_at`."""

    job_id: str
    name: str
    state: str
    exit_code: str
    submitted_at: datetime | None
    node: str


@dataclass(frozen=True)
class NodeRow:
    """A node as sinfo lists it, once for each of its partitions."""

    node: str
    partition: str
    default: bool
    available: str
    state: str
    cpus_idle: int
    cpus: int
    gres: str
    gres_used: str


def submitted_job_id(stdout: str) -> str | None:
    """The job's id in the output of `sbatch --parsable`: the last line that is an id; banners of wrappers are not."""
    ids = _JOB_ID.findall(stdout)
    return ids[-1] if ids else None


def queue_rows(stdout: str) -> list[QueueRow]:
    """The jobs that `squeue --format=SQUEUE_FORMAT` printed."""
    return [
        QueueRow(job_id, name, state, epoch(submit), epoch(start), node, reason)
        for job_id, name, state, submit, start, node, reason in _table(stdout, 7)
    ]


def account_rows(stdout: str) -> list[AccountRow]:
    """The jobs that `sacct --parsable2 --format=SACCT_FORMAT` printed."""
    return [
        AccountRow(job_id, name, state, exit_code, epoch(submit), "" if node == "None assigned" else node)
        for job_id, name, state, exit_code, submit, node in _table(stdout, 6)
    ]


def node_rows(stdout: str) -> list[NodeRow]:
    """The nodes that `sinfo --Node --Format=SINFO_FORMAT` printed."""
    rows = []
    for node, partition, available, state, cpus, gres, gres_used, _ in _table(stdout, 8):
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
            )
        )
    return rows


def epoch(text: str) -> datetime | None:
    """The time that Slurm prints under SLURM_TIME_FORMAT=%s; None for "N/A", "Unknown" and the like."""
    if not text.strip().isdecimal() or not 0 < int(text) < _EPOCH_MAX:
        return None
    return datetime.fromtimestamp(int(text), UTC)


def _table(stdout: str, columns: int) -> Iterator[list[str]]:
    """The lines that have all columns; what follows the last separator is kept whole, other lines are no rows."""
    for line in stdout.splitlines():
        fields = [field.strip() for field in line.split("|", columns - 1)]
        if len(fields) == columns:
            yield fields


def _cpu_counts(text: str) -> tuple[int, int]:
    """The idle CPUs and all CPUs in "allocated/idle/other/total"."""
    counts = text.split("/")
    if len(counts) != 4 or not all(count.isdecimal() for count in counts):
        return 0, 0
    return int(counts[1]), int(counts[3])
