"""Slurm's words for a job's state and for why it waits, in the vocabulary of the product."""

import re
from typing import Final

from hpc_board.domain.run import NEVER_STARTS, NOT_LAUNCHED, PROLOG_FAILED, JobState
from hpc_board.model.text import one_line

_STATES: Final = {
    "PENDING": JobState.PENDING,
    "PD": JobState.PENDING,
    "CONFIGURING": JobState.PENDING,
    "CF": JobState.PENDING,
    "REQUEUED": JobState.PENDING,
    "RQ": JobState.PENDING,
    "REQUEUE_FED": JobState.PENDING,
    "RF": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RH": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "RD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
    "SE": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "R": JobState.RUNNING,
    "SUSPENDED": JobState.RUNNING,
    "S": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,
    "ST": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "SI": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "RS": JobState.RUNNING,
    "COMPLETING": JobState.COMPLETING,
    "CG": JobState.COMPLETING,
    "STAGE_OUT": JobState.COMPLETING,
    "SO": JobState.COMPLETING,
    "COMPLETED": JobState.ENDED,
    "CD": JobState.ENDED,
    "FAILED": JobState.ENDED,
    "F": JobState.ENDED,
    "CANCELLED": JobState.CANCELLED,
    "CA": JobState.CANCELLED,
    "TIMEOUT": JobState.TIMEOUT,
    "TO": JobState.TIMEOUT,
    # It may have never begun, so that no call took too long.
    "DEADLINE": JobState.ENDED,
    "DL": JobState.ENDED,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
    "OOM": JobState.OUT_OF_MEMORY,
    "NODE_FAIL": JobState.NODE_FAIL,
    "NF": JobState.NODE_FAIL,
    "BOOT_FAIL": JobState.NODE_FAIL,
    "BF": JobState.NODE_FAIL,
    "LAUNCH_FAILED": JobState.NODE_FAIL,
    "LF": JobState.NODE_FAIL,
    "RECONFIG_FAIL": JobState.NODE_FAIL,
    "PREEMPTED": JobState.PREEMPTED,
    "PR": JobState.PREEMPTED,
}

_MEND: Final = "cancel it, and correct `{}` of this GPU in the settings"
_MEND_ASKED: Final = "cancel it, and correct `request`, `cpus_per_task`, `memory` or `{}` of this GPU in the settings"

_REASONS: Final = {
    "None": "waiting for Slurm to consider it",
    "Priority": "waiting behind jobs of higher priority",
    "Resources": "waiting for resources",
    "BeginTime": "waiting for its begin time",
    "Cleaning": "waiting for the clean-up after an earlier attempt",
    "Prolog": "waiting for the node's prolog",
    "Reservation": "waiting for its reservation to begin",
    "Licenses": "waiting for licences",
    "Dependency": "waiting for another job",
    "JobArrayTaskLimit": "waiting for other tasks of its array, of which only some run at a time",
    "DependencyNeverSatisfied": (
        f"{NEVER_STARTS}: the job it waits for did not end as needed; cancel it, and submit it without `--dependency`"
    ),
    "JobHeldUser": f"{NEVER_STARTS} while its user holds it: `scontrol release` releases it",
    "JobHeldAdmin": f"{NEVER_STARTS} while an administrator holds it: ask why",
    "job requeued in held state": f"{NEVER_STARTS} while it is held after a requeue: `scontrol release` releases it",
    "JobHoldMaxRequeue": f"{NEVER_STARTS}: it was requeued too often; cancel and rerun it",
    "launch failed requeued held": (
        f"{NEVER_STARTS}: it {NOT_LAUNCHED}; cancel it, rerun it, and ask an administrator about the node"
    ),
    "InvalidAccount": f"{NEVER_STARTS}: the account is not valid for this user; {_MEND.format('account')}",
    "InvalidQOS": f"{NEVER_STARTS}: the QOS is not valid for this user; {_MEND.format('qos')}",
    "BadConstraints": (f"{NEVER_STARTS}: no node can satisfy the request; {_MEND_ASKED.format('constraint')}"),
    "PartitionConfig": (
        f"{NEVER_STARTS}: no node of the partition has the requested resources; {_MEND_ASKED.format('partition')}"
    ),
    "PartitionDown": "waiting for the partition, which is down",
    "PartitionInactive": "waiting for the partition, which is inactive",
    "PartitionNodeLimit": (
        f"{NEVER_STARTS}: the partition does not allow jobs of one node; {_MEND.format('partition')}"
    ),
    "PartitionTimeLimit": f"{NEVER_STARTS}: its time limit exceeds the partition's; {_MEND.format('time')}",
    "NodeDown": "waiting for a node that is down",
    "ReservationDeleted": f"{NEVER_STARTS}: its reservation was deleted; {_MEND.format('reservation')}",
    "ReqNodeNotAvail": "waiting for a node that is down, drained or reserved",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "waiting for nodes that are down, drained or reserved"
    ),
    "AccountNotAllowed": (f"{NEVER_STARTS}: the account may not use this partition or QOS; {_MEND.format('account')}"),
    "QOSNotAllowed": f"{NEVER_STARTS}: the QOS is not allowed here; {_MEND.format('qos')}",
    "QOSTimeLimit": f"{NEVER_STARTS}: its time limit exceeds the QOS's; {_MEND.format('time')}",
    "MaxMemPerLimit": f"{NEVER_STARTS}: it requests more memory than a limit allows; {_MEND.format('memory')}",
}


_MEMORY_EXCEEDED: Final = re.compile(
    r"^(?:slurm(?:stepd|d)(?:[-[][^:\s]{1,100})?:|\[[0-9T:.-]{10,40}\]) error: .{0,300}?(?:"
    r"exceeded (?:job |step )?memory limit(?: \(([0-9]{1,18}) > ([0-9]{1,18})\))?|oom[_-]kill)",
    re.IGNORECASE | re.MULTILINE,
)
"""Words of the node's daemon: `OverMemoryKill` in slurmd's jobacct_gather, and the count of the control group.

Slurm 22.05 begins them with the daemon's name, 26.05 with the time.
"""

_PROLOG_FAILED: Final = re.compile(r"(?:Error running (?:slurm )?prolog: [0-9]{1,6}\s*){1,20}", re.IGNORECASE)
"""The words of slurmd in the output of a job whose script it did not start; nothing else is there then."""

_ONE_JOB: Final = re.compile(r"(?:QOS|Assoc)(?:Max[A-Za-z]+Per(?:Job|Node)(?:Limit)?|Min[A-Za-z]+)$")
_BUDGET: Final = re.compile(r"(?:QOS|Assoc)Grp(?![A-Za-z]*RunMinutes)[A-Za-z]*Minutes")
"""Limits on the minutes used so far; those on the minutes of running jobs are free again when these end."""
_GROUP: Final = re.compile(r"(QOS|Assoc)Grp(?!Jobs|Submit|Wall)|(?:QOS)?Max(?!Jobs|Submit)[A-Za-z]+Per(User|Account)")
"""Limits on the resources of all jobs: one reason for a job that waits for others, and for one that exceeds it."""


def memory_exceeded(log: str) -> str:
    """Return the limit and the use of a job that Slurm killed for its memory, from its words in the job's log.

    Empty without such words. The use is the greatest one that was seen; the kernel's own killer tells none.
    """
    told = _MEMORY_EXCEEDED.findall(log)
    uses = [(int(used), int(limit)) for used, limit in told if used]
    if uses:
        used, limit = max(uses)
        return f"it used {_mebibytes(used)} of memory, but its limit is {_mebibytes(limit)}"
    return "it exceeded its memory limit" if told else ""


def prolog_failed(log: str) -> str:
    """Return why a job's script was never started, from its whole `log`; empty if it may have been."""
    return f"{PROLOG_FAILED} ({one_line(log, 120).strip()})" if _PROLOG_FAILED.fullmatch(log.strip()) else ""


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def job_state(word: str) -> JobState:
    """Return the meaning of Slurm's `word` for a state; `unknown` for an unknown word, never a guess.

    Long and compact forms are understood, as are "CANCELLED by 1000", a cut "CANCELLED+" and compound states.
    """
    first = word.split(" ", maxsplit=1)[0].split("+", maxsplit=1)[0]
    return _STATES.get(first.upper(), JobState.UNKNOWN)


def pending_reason_text(reason: str) -> str:
    """Return why a job waits, in words, with Slurm's own in brackets: "waiting for resources (Resources)"."""
    word = reason.strip("() ") or "None"
    text = _REASONS.get(word) or _REASONS.get(word.partition(",")[0]) or _limit_text(word)
    if not text or word in ("None", text):
        return text or word
    return f"{text} ({word})"


def _limit_text(word: str) -> str:
    """Return the words for the large family of limits: Slurm's names encode the owner, the kind and the resource."""
    whose = "QOS" if word.startswith("QOS") else "account or user"
    if word.startswith(("QOSMaxWall", "AssocMaxWall", "MaxWall")):
        return f"{NEVER_STARTS}: its time limit exceeds that of the QOS or account; {_MEND.format('time')}"
    if _ONE_JOB.match(word):
        return f"{NEVER_STARTS}: it exceeds a per-job limit of its {whose}; {_MEND.format('request')}"
    if _BUDGET.match(word):
        return f"waiting for the budget of its {whose}; ask an administrator"
    if group := _GROUP.match(word):
        owner, part = group.groups()
        # A limit for each user or account is one of the QOS.
        return (
            f"waiting for a limit on all jobs of its {part.lower() if part else whose}; if this job alone exceeds it, "
            f"it never starts: `sacctmgr show {(owner or 'qos').lower()}` lists the limits"
        )
    if word.startswith(("QOS", "Assoc", "MaxJobs")):
        return f"waiting for a limit of its {whose}"
    return ""
