"""Slurm's words for a job's state and for why it waits, in the vocabulary of the product."""

from typing import Final

from hpc_board.model.run import JobState

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
    "DEADLINE": JobState.TIMEOUT,
    "DL": JobState.TIMEOUT,
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

_REASONS: Final = {
    "None": "waiting for Slurm to look at it",
    "Priority": "waiting behind jobs of higher priority",
    "Resources": "waiting for resources",
    "BeginTime": "waiting for its begin time",
    "Cleaning": "waiting for the clean-up after an earlier attempt",
    "Prolog": "waiting for the node's prolog",
    "Reservation": "waiting for its reservation to begin",
    "Licenses": "waiting for licences",
    "Dependency": "waiting for another job",
    "DependencyNeverSatisfied": "will not start: the job it waits for did not end as needed",
    "JobHeldUser": "held by its user; release it with `scontrol release`",
    "JobHeldAdmin": "held by an administrator",
    "JobHoldMaxRequeue": "held: it was requeued too often",
    "launch failed requeued held": "held after a failed launch: ask an administrator to look at the node",
    "InvalidAccount": "will not start: the account is not valid for this user",
    "InvalidQOS": "will not start: the QOS is not valid for this user",
    "BadConstraints": "will not start: no node can satisfy the request",
    "PartitionConfig": "will not start: the partition cannot satisfy the request",
    "PartitionDown": "waiting for the partition, which is down",
    "PartitionInactive": "waiting for the partition, which is inactive",
    "PartitionNodeLimit": "will not start: it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "will not start: its time limit is above the partition's",
    "NodeDown": "waiting for a node that is down",
    "ReservationDeleted": "will not start: its reservation was deleted",
    "ReqNodeNotAvail": "waiting for a node that is down, drained or reserved",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "waiting for nodes that are down, drained or reserved"
    ),
    "AccountNotAllowed": "will not start: the account may not use this partition or QOS",
    "QOSNotAllowed": "will not start: the QOS may not be used here",
    "MaxMemPerLimit": "will not start: it asks for more memory than a limit allows",
}


def job_state(word: str) -> JobState:
    """What Slurm's `word` for a state means; `unknown` for a word that is not known, never a guess.

    Long and compact forms are understood, as are "CANCELLED by 1000", a cut "CANCELLED+" and compound states.
    """
    first = word.split(" ", maxsplit=1)[0].split("+", maxsplit=1)[0]
    return _STATES.get(first.upper(), JobState.UNKNOWN)


def pending_reason_text(reason: str) -> str:
    """Why a job waits, in words for its user, with Slurm's own in brackets: "waiting for resources (Resources)"."""
    word = reason.strip("() ") or "None"
    text = _REASONS.get(word) or _REASONS.get(word.partition(",")[0]) or _limit_text(word)
    if not text or word in ("None", text):
        return text or word
    return f"{text} ({word})"


def _limit_text(word: str) -> str:
    """The words for the large family of limits, which Slurm names by one scheme: whose limit, which one, of what."""
    if word.startswith(("QOSMaxWall", "AssocMaxWall", "MaxWall")):
        return "will not start: its time limit is above what the QOS or account allows"
    if word.startswith("QOS"):
        return "waiting for a limit of its QOS"
    if word.startswith(("Assoc", "MaxJobs")):
        return "waiting for a limit of its account or user"
    return ""
