"""New settings for a service that runs: which of them count before the next start."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from hpc_board.errors import BoardError, DocumentError
from hpc_board.model.gpu import Cluster
from hpc_board.settings import Settings
from hpc_board.store.folder import SERVE_LOCK

_FIXED: Final = {
    "board": "board",
    "socket": "serve.socket",
    "web": "serve.web",
    "web_host": "serve.web_host",
    "web_metrics": "serve.metrics",
}
"""The settings that take effect only at a start, by their fields, as the file has them."""


def changed(running: Settings, read: Settings) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings that a service with `running` can take from `read`, and the keys that need a restart."""
    fixed = {field: getattr(running, field) for field in _FIXED}
    waiting = [key for field, key in _FIXED.items() if getattr(read, field) != fixed[field]]
    former = {cluster.name: cluster for cluster in running.clusters}
    clusters = {each.name: _of_account(former.get(each.name), each) for each in read.clusters}
    if tuple(clusters.values()) != read.clusters:
        waiting.append("jobs")
    return (
        msgspec.structs.replace(
            read,
            **fixed,
            clusters=tuple(clusters.values()),
            gpus=tuple(replace(gpu, cluster=clusters[gpu.cluster.name]) for gpu in read.gpus),
        ),
        tuple(waiting),
    )


def _of_account(former: Cluster | None, cluster: Cluster) -> Cluster:
    """Return `cluster` with the account of jobs and the folder that it had; a login may change, it has its own."""
    if former is None or former.ssh is not None or cluster.ssh is not None:
        return cluster
    return replace(cluster, account=former.account, board_folder=former.board_folder)


def mark_reading(board: Path, at: float) -> None:
    """Have the file of the board's lock tell `admin doctor` when settings were read."""
    with suppress(OSError):
        os.utime(board / SERVE_LOCK, (at, at))


def faults(error: BoardError) -> list[str]:
    """Return the faults of settings that cannot be used, each with its file and line as far as they are known."""
    if not isinstance(error, DocumentError):
        return [error.message]
    return [f"{error.file}:{each.line}: {each.path}: {each.message}" for each in error.faults]
