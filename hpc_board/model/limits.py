"""Limits and timing numbers of the harness, and the bounds within which a task may change them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

REFERENCE_TIMES = 100
"""The times that a call of mode test may take as long as the reference."""


USUAL_RUNS = 3
USUAL_TIMES = 20
USUAL_SECONDS_MIN = 0.3
"""At a runner, from USUAL_RUNS runs of a task on that have passed in mode test, a call may take USUAL_TIMES the longest
processor time of their calls, and USUAL_SECONDS_MIN at least."""

NORMAL, QUICK = "normal", "quick"
"""The efforts of a benchmark besides a percentage: the task's own limits, and an interval of QUICK_SHARE."""

QUICK_SHARE = 0.2


def _limit(default: float, least: float, most: float, *, cpu: float | None = None) -> Any:
    """Return a field with its default, its bounds for a task's value, and the default on a CPU if it differs."""
    return field(default=default, metadata={"least": least, "most": most, "cpu": default if cpu is None else cpu})


@dataclass(frozen=True)
class Limits:
    """The resources of a submission, the length of its measurement, and the tolerances for its times.

    `build_seconds` and `build_bytes` bound the time and the memory of compiling the submission, `load_seconds` bounds
    importing it, `first_call_seconds` the first call of a worker (it may compile), `call_seconds` any other call,
    `judge_seconds` the reference's time to make one call's inputs or to check its output. `printed_bytes` bounds the
    output of the compiler, and then of a worker, before it is stopped, `value_bytes` the size of the inputs or outputs
    of one call. A submission may use `prepare_seconds` to prepare the fixed inputs of a case, and keep `prepare_bytes`.
    In mode test a call has `test_call_seconds`, or REFERENCE_TIMES the time of the reference for the same
    inputs if that is more, as long as this is below its other limit.

    A ranked run measures each benchmark case in `workers` fresh processes, any other run in one; before that, each
    makes `warmup_calls`. No honest call takes less than `floor_seconds`.

    On a CPU each worker makes at least `rows` rows of calls, each of as many as take `row_seconds`, of `row_calls` at
    most, whose inputs and outputs take `row_bytes` at most. On a GPU it makes timed calls until the interval of their
    median is at most the share `relative_error`; of all workers together, a case has at least `timed_calls_min`, and
    ends at `timed_calls_max` or at `case_seconds` of wall time. If the interval of the result is wider than the share
    `interval`, more workers measure the case again, as long as the benchmarks have not taken `measure_seconds`.

    On a GPU by the worker's clock `baseline_calls` of the reference are timed before and after each worker's; if their
    medians differ by more than the share `drift`, the case is measured again, and at last has a remark; a difference
    that two ticks of 1.024 us explain is ignored. By the supervisor's clock a call may take `slack_seconds` longer than
    the worker claims, beyond the overhead of the reference's calls; `burst_calls` are made in a row to spread that over
    many. A call in such a row may take `launch_seconds` longer than a single one, whose launch is hidden behind the
    emptying of the caches.
    """

    build_seconds: float = _limit(120, 1, 3600)
    build_bytes: int = _limit(8 * 2**30, 2**26, 2**38)
    load_seconds: float = _limit(60, 1, 3600)
    first_call_seconds: float = _limit(60, 1, 3600)
    call_seconds: float = _limit(30, 0.1, 3600)
    test_call_seconds: float = _limit(10, 0.1, 3600, cpu=3)
    prepare_seconds: float = _limit(60, 0.1, 3600)
    prepare_bytes: int = _limit(8 * 2**30, 2**10, 2**38)
    judge_seconds: float = _limit(60, 0.1, 3600)
    printed_bytes: int = _limit(16 * 2**20, 2**10, 2**30)
    value_bytes: int = _limit(4 * 2**30, 2**10, 2**38)
    workers: int = _limit(3, 1, 9)
    warmup_calls: int = _limit(3, 1, 100, cpu=2)
    timed_calls_min: int = _limit(20, 3, 1000)
    timed_calls_max: int = _limit(200, 3, 10_000)
    case_seconds: float = _limit(5, 0.1, 3600)
    relative_error: float = _limit(0.005, 0, 1)
    baseline_calls: int = _limit(3, 1, 100)
    baseline_seconds: float = _limit(1, 0.01, 600)
    drift: float = _limit(0.03, 0, 1e6)
    slack_seconds: float = _limit(0.002, 0, 10)
    burst_calls: int = _limit(50, 2, 60)
    burst_bytes: int = _limit(256 * 2**20, 2**10, 2**38)
    burst_seconds: float = _limit(0.5, 0, 600)
    launch_seconds: float = _limit(1e-4, 0, 0.01)
    rows: int = _limit(2, 1, 100)
    row_calls: int = _limit(1000, 1, 1000)
    row_bytes: int = _limit(128 * 2**20, 2**10, 2**38)
    row_seconds: float = _limit(0.01, 1e-4, 10)
    interval: float = _limit(0.1, 0, 100)
    measure_seconds: float = _limit(60, 0, 3600)
    floor_seconds: float = _limit(1e-6, 0, 3600, cpu=1e-7)

    def slowed(self, factor: float) -> "Limits":
        """Return these limits for a submission that a tool slows down by at most `factor`."""
        names = ("load_seconds", "first_call_seconds", "call_seconds")
        return replace(self, **{name: factor * getattr(self, name) for name in names})

    def with_effort(self, effort: str) -> "Limits":
        """Return these limits for a benchmark that ends at the intervals of an `effort`: NORMAL, QUICK or a percentage.

        Raises:
            ValueError: it is none of these.
        """
        if effort == NORMAL:
            return self
        share = QUICK_SHARE if effort == QUICK else float(effort) / 100
        return replace(self, interval=share, relative_error=share)

    @staticmethod
    def of_task(values: Mapping[str, float], device: str = "cuda") -> "Limits":
        """Return the limits on a kind of `device` ("cuda", "hip" or "cpu"), replaced by a task's own values.

        Raises:
            ValueError: a name is unknown or a value out of bounds; the message lists every fault.
        """
        faults = limit_faults(values)
        if faults:
            raise ValueError("; ".join(faults.values()))
        found: dict[str, Any] = {
            item.name: item.metadata["cpu"] if device == "cpu" else item.default for item in fields(Limits)
        }
        whole = {item.name for item in fields(Limits) if item.type in (int, "int")}
        found.update({name: int(value) if name in whole else value for name, value in values.items()})
        return Limits(**found)


def limit_faults(values: Mapping[str, float]) -> dict[str, str]:
    """Return the faults in a task's own limits: a message for each name."""
    known = {item.name: item for item in fields(Limits)}
    faults: dict[str, str] = {}
    for name, value in values.items():
        if name not in known:
            faults[name] = f"unknown limit {name}; limits: {', '.join(known)}"
            continue
        least, most = known[name].metadata["least"], known[name].metadata["most"]
        if isinstance(value, bool) or not least <= value <= most:
            faults[name] = f"{name} must be a number from {least:g} to {most:g}, not {value!r}"
    return faults
