"""Counts of a service since its start: answers, refusals, passes, and its questions to schedulers."""

import threading
from bisect import bisect_left
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hpc_board.runs.reconciler import Pass

LATENCY_BOUNDS_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
"""The upper bounds of the classes in which the latencies of a scheduler are counted; the last class has none."""


class Latency(msgspec.Struct):
    """The latencies of a cluster's scheduler: their number in each class, their sum, and the errors."""

    classes: list[int] = msgspec.field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_SECONDS) + 1))
    sum_seconds: float = 0.0
    errors: int = 0


class Counts:
    """The counts; no key holds the name of a user. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[tuple[str, str]] = Counter()
        self._events: Counter[str] = Counter()
        self._latencies: dict[str, Latency] = {}
        self.passes = 0
        self.started_at = datetime.now(UTC)

    def answered(self, route: str, outcome: str) -> None:
        """Count an answer; `route` is one of the service's own names, never a client's text."""
        with self._lock:
            self._answers[route, outcome] += 1

    def logged(self, event: str) -> None:
        """Count a line of the log."""
        with self._lock:
            self._events[event] += 1

    def passed(self, pass_: "Pass | None") -> None:
        """Count a pass over the runs, and its questions to schedulers."""
        with self._lock:
            self.passes += 1
            for poll in pass_.polls if pass_ is not None else ():
                latency = self._latencies.setdefault(poll.cluster, Latency())
                latency.classes[bisect_left(LATENCY_BOUNDS_SECONDS, poll.took_seconds)] += 1
                latency.sum_seconds += poll.took_seconds
                latency.errors += not poll.answered

    def answers(self) -> dict[tuple[str, str], int]:
        """Return the number of answers by route and outcome."""
        with self._lock:
            return dict(self._answers)

    def events(self) -> dict[str, int]:
        """Return the number of lines of the log by event."""
        with self._lock:
            return dict(self._events)

    def latencies(self) -> dict[str, Latency]:
        """Return the latencies by cluster."""
        with self._lock:
            return {
                name: msgspec.structs.replace(each, classes=[*each.classes]) for name, each in self._latencies.items()
            }
