"""Threads that repeat a step for each cluster, so that one that hangs delays no other."""

import threading
import time
from collections.abc import Callable, Collection


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
