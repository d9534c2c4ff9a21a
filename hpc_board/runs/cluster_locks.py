"""The locks of clusters: one for each in the board's folder, and one for all of them together."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from hpc_board.errors import StorageError
from hpc_board.files import LOCK_SECONDS, locked
from hpc_board.store import Store

LOCK = "advance.lock"
"""The file that each holder of a cluster's lock holds shared, and `ClusterLocks.all` for itself."""

_GATE = "advance.gate.lock"
"""The file that `ClusterLocks.all` holds for itself while it waits, and that others pass before they take LOCK.

The kernel gives a free lock to any taker: without a gate, clients that take turns would keep LOCK shared for ever.
"""

_UNNAMED_LOCK = "advance.unnamed.lock"
_CLUSTER_CHARACTERS_MAX = 60


def lock_name(cluster: str) -> str:
    """Return the name of a cluster's lock in the board's folder."""
    return f"advance-{cluster}.lock"


class ClusterLocks(msgspec.Struct, frozen=True):
    """The locks in the board's `folder`; each holder has a connection to the database of `store`.

    `seconds` is the time for which `all` waits for other clients.
    """

    folder: Path
    store: Store
    seconds: float = LOCK_SECONDS

    @contextmanager
    def all(self) -> Iterator[None]:
        """Hold the lock of all clusters, so that no other client advances runs.

        Raises:
            StorageError: another client has kept a lock for `seconds`.
        """
        deadline = time.monotonic() + self.seconds
        with ExitStack() as stack:
            held = stack.enter_context(_locked(self.folder / _GATE, wait_seconds=self.seconds))
            left_seconds = max(0.0, deadline - time.monotonic())
            held = held and stack.enter_context(_locked(self.folder / LOCK, wait_seconds=left_seconds))
            if not held:
                raise StorageError(
                    f"another client has been advancing runs for {self.seconds:g} s",
                    hint="Try again in a moment.",
                )
            stack.enter_context(self.store.file.session())
            yield

    @contextmanager
    def of(self, cluster: str, *, wait_seconds: float) -> Iterator[bool]:
        """Hold a cluster's lock; False if another process held it, or that of all clusters, for `wait_seconds`."""
        deadline = time.monotonic() + wait_seconds
        path = self.folder / (lock_name(cluster) if _is_file_name(cluster) else _UNNAMED_LOCK)
        with ExitStack() as stack:
            with _locked(self.folder / _GATE, wait_seconds=wait_seconds, shared=True) as passed:
                left_seconds = max(0.0, deadline - time.monotonic())
                shared = partial(_locked, self.folder / LOCK, wait_seconds=left_seconds, shared=True)
                mine = passed and stack.enter_context(shared())
            left_seconds = max(0.0, deadline - time.monotonic())
            mine = mine and stack.enter_context(_locked(path, wait_seconds=left_seconds))
            if mine:
                stack.enter_context(self.store.file.session())
            yield mine


def _is_file_name(cluster: str) -> bool:
    """Return whether the name of a cluster can be part of a file's; that of a stored run may be any text."""
    return 0 < len(cluster) <= _CLUSTER_CHARACTERS_MAX and "/" not in cluster and cluster.isprintable()


@contextmanager
def _locked(path: Path, *, wait_seconds: float, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a file as `locked` does; a StorageError names a file that cannot be used."""
    with ExitStack() as stack:
        with writing(path):
            held = stack.enter_context(locked(path, wait_seconds=wait_seconds, shared=shared))
        yield held


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate errors of writing to `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written or locked: {error.strerror or error}",
            hint="Check that you may write the board's folder, that its disk is not full, and that it can lock files.",
        ) from error
