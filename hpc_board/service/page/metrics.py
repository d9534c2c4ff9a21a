"""The service's numbers in the text format of Prometheus, made when they are asked for."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

from hpc_board.domain.run import RunState
from hpc_board.service.counts import LATENCY_BOUNDS_SECONDS, Counts

if TYPE_CHECKING:
    from hpc_board.board import Board

Gauges = Mapping[str, tuple[str, int]]
"""Numbers by name, each with its meaning."""

_Sample = tuple[str, Mapping[str, str], float]
"""The suffix of a sample's name, its labels and its value."""


def metrics_text(board: "Board", counts: Counts, gauges: Gauges) -> bytes:
    """Return all numbers as of now; `board` is the one that the public sees: closed leaderboards are not counted.

    Raises:
        StorageError: the database cannot be read.
    """
    lines = (*_of_runs(board), *_of_schedulers(counts), *_of_service(counts, gauges))
    return "".join(f"{line}\n" for line in lines).encode()


def _of_runs(board: "Board") -> Iterator[str]:
    context = board.context
    found = context.store.runs.counts_in_flight(hidden=context.editor.hidden())
    yield from _family(
        "runs",
        "gauge",
        "Runs in flight on open boards, by state.",
        (("", {"state": str(state)}, found.by_state.get(state, 0)) for state in RunState if not state.ended),
    )
    waits = found.oldest_waiting
    age_s = 0.0 if waits is None else max(0.0, (datetime.now(UTC) - waits).total_seconds())
    meaning = "Time since the submission of the oldest waiting run on open boards."
    yield from _family("queue_age_seconds", "gauge", meaning, [("", {}, age_s)])


def _of_schedulers(counts: Counts) -> Iterator[str]:
    latencies = sorted(counts.latencies().items())
    took: list[_Sample] = []
    for cluster, latency in latencies:
        totals = list(accumulate(latency.classes))
        buckets = zip((*map(str, LATENCY_BOUNDS_SECONDS), "+Inf"), totals, strict=True)
        took += [("_bucket", {"cluster": cluster, "le": bound}, total) for bound, total in buckets]
        took += [("_count", {"cluster": cluster}, totals[-1]), ("_sum", {"cluster": cluster}, latency.sum_seconds)]
    yield from _family("scheduler_seconds", "histogram", "Latency of scheduler queries about jobs.", took)
    errors = [("", {"cluster": cluster}, latency.errors) for cluster, latency in latencies]
    yield from _family("scheduler_errors_total", "counter", "Queries that a scheduler did not answer.", errors)


def _of_service(counts: Counts, gauges: Gauges) -> Iterator[str]:
    answers, events = sorted(counts.answers().items()), counts.events()
    yield from _family(
        "requests_total",
        "counter",
        "Responses by route and outcome.",
        (("", {"route": route, "outcome": outcome}, count) for (route, outcome), count in answers),
    )
    lines = (("", {"event": event}, count) for event, count in sorted(events.items()))
    yield from _family("log_events_total", "counter", "Log lines by event.", lines)
    refusals = events.get("refused", 0)
    yield from _family("refusals_total", "counter", "Rejected clients and requests.", [("", {}, refusals)])
    yield from _family("passes_total", "counter", "Passes over the runs in flight.", [("", {}, counts.passes)])
    for name, (meaning, value) in gauges.items():
        yield from _family(name, "gauge", meaning, [("", {}, value)])
    started_s = counts.started_at.timestamp()
    meaning = "Start time of the service, in seconds since the epoch."
    yield from _family("start_time_seconds", "gauge", meaning, [("", {}, started_s)])


def _family(name: str, kind: str, meaning: str, samples: Iterable[_Sample]) -> Iterator[str]:
    """Yield the lines of a metric, whose `meaning` is one line without a backslash."""
    yield f"# HELP hpc_board_{name} {meaning}"
    yield f"# TYPE hpc_board_{name} {kind}"
    for suffix, labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"hpc_board_{name}{suffix}{f'{{{shown}}}' if shown else ''} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
