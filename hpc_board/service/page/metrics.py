"""The service's numbers in the text format of Prometheus, made when they are asked for."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hpc_board.domain.run import RunState
from hpc_board.service.counts import LATENCY_BOUNDS_SECONDS, Counts

if TYPE_CHECKING:
    from hpc_board.board import Board

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The type of the text format."""


class Metrics:
    """The numbers of a service; `board` returns it as the public sees it: closed leaderboards are not counted.

    `gauges` are further numbers by name, each with its meaning and a function that returns it.
    """

    def __init__(
        self, board: "Callable[[], Board]", counts: Counts, gauges: "dict[str, tuple[str, Callable[[], int]]]"
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Numbers(board, counts, gauges))

    def text(self) -> bytes:
        """Return all numbers as of now.

        Raises:
            StorageError: the database cannot be read.
        """
        return generate_latest(self._registry)


class _Numbers(Collector):
    def __init__(
        self, board: "Callable[[], Board]", counts: Counts, gauges: "dict[str, tuple[str, Callable[[], int]]]"
    ) -> None:
        self._board = board
        self._counts = counts
        self._gauges = gauges

    def describe(self) -> list[Metric]:
        """Return nothing: the registry would otherwise collect once at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its present value."""
        yield from self._of_runs()
        yield from self._of_schedulers()
        yield from self._of_service()

    def _of_runs(self) -> Iterator[Metric]:
        context = self._board().context
        found = context.store.overview.in_flight(hidden=context.editor.hidden())
        runs = GaugeMetricFamily("hpc_board_runs", "Runs in flight on open boards, by state.", labels=["state"])
        for state in RunState:
            if not state.ended:
                runs.add_metric([str(state)], found.by_state.get(state, 0))
        yield runs
        age = GaugeMetricFamily(
            "hpc_board_queue_age_seconds", "Time since the submission of the oldest run on open boards that waits."
        )
        waits = found.oldest_waiting
        age.add_metric([], 0.0 if waits is None else max(0.0, (datetime.now(UTC) - waits).total_seconds()))
        yield age

    def _of_schedulers(self) -> Iterator[Metric]:
        took = HistogramMetricFamily(
            "hpc_board_scheduler_seconds", "Time of a scheduler's answer to a question about jobs.", labels=["cluster"]
        )
        errors = CounterMetricFamily(
            "hpc_board_scheduler_errors", "Questions that a scheduler did not answer.", labels=["cluster"]
        )
        for cluster, latency in sorted(self._counts.latencies().items()):
            total, buckets = 0, []
            for bound, count in zip((*map(str, LATENCY_BOUNDS_SECONDS), "+Inf"), latency.classes, strict=True):
                total += count
                buckets.append((bound, total))
            took.add_metric([cluster], buckets, latency.sum_seconds)
            errors.add_metric([cluster], latency.errors)
        yield took
        yield errors

    def _of_service(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "hpc_board_requests", "Answers by route and outcome.", labels=["route", "outcome"]
        )
        for (route, outcome), count in sorted(self._counts.answers().items()):
            answers.add_metric([route, outcome], count)
        yield answers
        events = CounterMetricFamily("hpc_board_log_events", "Lines of the log by event.", labels=["event"])
        for event, count in sorted(self._counts.events().items()):
            events.add_metric([event], count)
        yield events
        refusals = CounterMetricFamily("hpc_board_refusals", "Refusals of clients and questions.")
        refusals.add_metric([], self._counts.events().get("refused", 0))
        yield refusals
        passes = CounterMetricFamily("hpc_board_passes", "Passes over the runs in flight.")
        passes.add_metric([], self._counts.passes)
        yield passes
        for name, (meaning, value) in self._gauges.items():
            gauge = GaugeMetricFamily(f"hpc_board_{name}", meaning)
            gauge.add_metric([], value())
            yield gauge
        started = GaugeMetricFamily("hpc_board_start_time_seconds", "Start of the service, in seconds since 1970.")
        started.add_metric([], self._counts.started_at.timestamp())
        yield started
