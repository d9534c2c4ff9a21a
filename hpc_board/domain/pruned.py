"""Job folders and harness files that were removed, or would be."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class ClusterPruned(msgspec.Struct, frozen=True):
    """The removed job folders of a cluster, and the unused files of the harness there.

    `problem` says why others stayed; empty without any.
    """

    folders: int = 0
    bytes: int = 0
    harness_files: int = 0
    problem: str = ""


class Pruned(msgspec.Struct, frozen=True):
    """The outcome of a pruning by cluster; `before` is the time before which the runs ended."""

    before: datetime
    dry_run: bool
    clusters: Mapping[str, ClusterPruned]


class PrunedRun(msgspec.Struct, frozen=True):
    """A run without a job folder: the time of its removal, and the end of the job's output."""

    at: datetime
    log: str
