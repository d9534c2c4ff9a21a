"""The passes of a service over the runs in flight: a thread for each cluster, and the log of their problems."""

import threading
import time
import traceback
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from hpc_board.board import Board
from hpc_board.errors import BoardError, SchedulerError
from hpc_board.service.units import WATCHDOG_SECONDS, notify

if TYPE_CHECKING:
    from hpc_board.runs.reconciler import Pass


class Passes:
    """The passes over the runs of `board`, with a pause of `pause_seconds` between two of a cluster.

    `publish` tells clients of a pass.
    """

    def __init__(
        self,
        board: Callable[[], Board],
        log: Callable[..., None],
        publish: "Callable[[Pass | None], object]",
        stopping: threading.Event,
        pause_seconds: float,
    ) -> None:
        self._board = board
        self._log = log
        self._publish = publish
        self._stopping = stopping
        self._threads = ClusterThreads(self._advance, pause_seconds, self._tell_fault)
        self.wake = self._threads.wake
        self.stop = self._threads.stop
        self._told: dict[str, str] = {}
        self._silent: set[str] = set()

    def run(self, clusters: Collection[str]) -> None:
        """Advance the runs of these clusters from now on, and log known problems anew."""
        self._told.clear()
        self._silent.clear()
        self._threads.run(clusters)

    def _advance(self, cluster: str) -> None:
        """Advance the runs in flight of a cluster once, and tell clients; its own thread calls this."""
        if self._stopping.is_set():
            return
        pass_, problem = self._run_pass(cluster)
        self._publish(pass_)
        if self._is_news(cluster, pass_, problem):
            self._log("not advanced", cluster=cluster, problem=problem)
        self._told[cluster] = problem
        # A pass that hangs for longer, on a stuck file system, ends the service where its manager wants it so.
        if self._threads.oldest_seconds < WATCHDOG_SECONDS:
            notify("WATCHDOG=1")

    def _is_news(self, cluster: str, pass_: "Pass | None", problem: str) -> bool:
        """Return whether the log lacks a problem: it has the silence of a scheduler once, and its next answer."""
        reconciler = self._board().context.reconciler
        silent = cluster in reconciler.schedulers and reconciler.silent_since(cluster) is not None
        if cluster in self._silent and not silent:
            self._silent.discard(cluster)
            if cluster in reconciler.schedulers:
                self._log("answers again", cluster=cluster)
        # Most passes ask nothing, and the words of an error may differ from question to question.
        if silent and pass_ is not None and pass_.errors and isinstance(pass_.errors[0], SchedulerError):
            known = cluster in self._silent
            self._silent.add(cluster)
            return not known
        # A pass that was under way when a cluster left the settings has told of its problem afterwards.
        return bool(problem) and all(self._told.get(name) != problem for name in reconciler.names)

    def _tell_fault(self, cluster: str) -> None:
        self._log("fault", cluster=cluster, traceback=traceback.format_exc())

    def _run_pass(self, cluster: str) -> "tuple[Pass | None, str]":
        """Pass once over the runs in flight of a cluster, and return the pass and its first problem."""
        board = self._board()
        reconciler = board.context.reconciler
        try:
            needed = board.context.store.runs.has_in_flight() or reconciler.prunes(cluster)
            pass_ = reconciler.run_pass(clusters=[cluster]) if needed and cluster in reconciler.names else None
        except BoardError as error:
            return None, error.message
        except Exception:  # noqa: BLE001 - the service goes on, and its log has the fault
            return None, traceback.format_exc()
        return pass_, pass_.errors[0].message if pass_ is not None and pass_.errors else ""


class ClusterThreads:
    """A thread for each of some clusters, which calls `step` with its name, and pauses for `pause_seconds`.

    After a step that raises an exception, `failed` is called while it is handled, and the thread goes on.
    """

    def __init__(self, step: Callable[[str], object], pause_seconds: float, failed: Callable[[str], object]) -> None:
        self._step = step
        self._pause_seconds = pause_seconds
        self._failed = failed
        self._begun: dict[threading.Thread, tuple[str, float]] = {}
        self._lock = threading.Lock()
        self._wakes: dict[str, threading.Event] = {}
        self._threads: set[threading.Thread] = set()
        self._stopping = False

    def run(self, clusters: Collection[str]) -> None:
        """Have a thread for each of these clusters; those of others end after their steps."""
        with self._lock:
            if self._stopping:
                return
            for cluster in self._wakes.keys() - set(clusters):
                self._wakes.pop(cluster).set()
            for cluster in [each for each in clusters if each not in self._wakes]:
                wake = self._wakes[cluster] = threading.Event()
                thread = threading.Thread(target=self._repeat, args=(cluster, wake), name=f"cluster {cluster}")
                self._threads.add(thread)
                thread.start()

    def wake(self) -> None:
        """Begin the next step for each cluster at once."""
        with self._lock:
            for wake in self._wakes.values():
                wake.set()

    @property
    def oldest_seconds(self) -> float:
        """The age of the oldest step that has not ended; 0.0 if each has."""
        with self._lock:
            begun = [at for cluster, at in self._begun.values() if cluster in self._wakes]
            return max((time.monotonic() - at for at in begun), default=0.0)

    def stop(self, seconds: float) -> None:
        """End all threads, and wait so long for their steps."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._stopping = True
            threads = set(self._threads)
            for wake in self._wakes.values():
                wake.set()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _repeat(self, cluster: str, wake: threading.Event) -> None:
        try:
            while not self._stopping and self._wakes.get(cluster) is wake:
                with self._lock:
                    self._begun[threading.current_thread()] = cluster, time.monotonic()
                try:
                    self._step(cluster)
                except Exception:  # noqa: BLE001 - `failed` tells it, and the cluster's runs go on
                    self._failed(cluster)
                with self._lock:
                    self._begun.pop(threading.current_thread(), None)
                wake.wait(self._pause_seconds)
                wake.clear()
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
