"""The rows of calls of a benchmark: what a kernel's row may take beside the kernel is known of one as long."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.measure import claim_benchmarks, passes
from hpc_board.harness.measure.claim_benchmarks import ClaimBenchmarks
from hpc_board.harness.measure.passes import Passes
from hpc_board.harness.measure.row_benchmarks import RowBenchmarks
from hpc_board.harness.measure.timing import of_rows
from hpc_board.harness.processes.calls import Called, Phase
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Timing, Verdict

REFERENCE_NS = 300e6
ROW_NS, CALL_NS = 1e6, 1e4
"""The time beside the kernel: once for a row of calls, and for each call."""

LIMITS = Limits(case_seconds=0.1, timed_calls_min=9, drift=0.1)


@dataclass
class Worker:
    """One that claims `claims_ns` for each of its calls, and works for `hides_ns` beside that."""

    claims_ns: float
    hides_ns: float = 0.0
    child: Any = field(default_factory=lambda: SimpleNamespace(worker_pid=os.getpid()))


class Bench:
    """A bench without a judge, whose calls take scripted times."""

    def __init__(self) -> None:
        self.limits = LIMITS
        self.phase = Phase("benchmark", ({"size": 1},), 100.0)
        self.generated = {0: SimpleNamespace(work=None)}
        self._calls = 0

    def call_bytes(self, _index: int) -> int:
        """A byte: memory never limits a row here."""
        return 1

    def call(self, worker: Worker, _index: int, seeds: list[int], *, made: int | None = None, **_: Any) -> Called:
        """The answer to as many calls, each of which claims a little more than the one before."""
        self._calls += 1
        claimed_ns = worker.claims_ns * (len(seeds) if made is None else made) + self._calls
        beside_ns = ROW_NS + len(seeds) * (CALL_NS + worker.hides_ns)
        return Called(len(seeds), claimed_ns, claimed_ns + beside_ns)


class Crew:
    """The workers of the benchmarks beside a slow reference; all but the first hide as much."""

    has_reference = True

    def __init__(self, hides_ns: float, others: Sequence[int] = ()) -> None:
        self._hides_ns = hides_ns
        self._others = iter(others)

    def worker(self) -> Worker:
        return Worker(1e6, self._hides_ns)

    def trusted_worker(self) -> Worker:
        return Worker(REFERENCE_NS)

    def dismiss(self, worker: Worker) -> None:
        """End nothing."""

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def others(self) -> int:
        return next(self._others, 0)


def measured(first_ns: float, hides_ns: float, others: Sequence[int] = ()) -> Case:
    """The case as three workers or more have measured it."""
    parts: Any = Bench(), Crew(hides_ns, others), lambda *_, **__: None
    first: Any = Worker(first_ns)
    (case,) = ClaimBenchmarks(*parts).run(first, 3)
    return case


@pytest.mark.parametrize("first_ns", [1e6, 2e8])
def test_no_worker_is_excused_by_the_short_row_of_another(monkeypatch: pytest.MonkeyPatch, first_ns: float) -> None:
    # No call takes any time here, so other work of the machine does not matter.
    monkeypatch.setattr(claim_benchmarks, "disturbed", lambda *_: "")
    honest = measured(first_ns, 0)
    assert (honest.verdict, honest.message) == (Verdict.PASS, "")
    lying = measured(first_ns, 3e5)
    assert lying.verdict is Verdict.TIMING_INCONSISTENT
    assert "in a row of 50 calls" in lying.message


UNSTEADY = "the reference's time before and after the calls differed by 20 %: the machine was not steady"


@pytest.mark.parametrize(("unsteady", "remark"), [(0, ""), (2, ""), (3, UNSTEADY)])
def test_a_case_is_measured_again_beside_an_unsteady_reference_and_at_last_has_a_remark(
    monkeypatch: pytest.MonkeyPatch, unsteady: int, remark: str
) -> None:
    monkeypatch.setattr(claim_benchmarks, "disturbed", lambda *_: "")
    monkeypatch.setattr(claim_benchmarks, "_PAUSE_SECONDS", 0.0)
    shares = iter([2 * LIMITS.drift] * unsteady)
    monkeypatch.setattr(claim_benchmarks, "drift", lambda *_: next(shares, 0.0))
    case = measured(1e6, 0)
    assert (case.verdict, case.message) == (Verdict.PASS, remark)
    assert next(shares, None) is None, "each unsteady reference was seen"


def test_calls_that_leave_work_to_other_processes_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_benchmarks, "disturbed", lambda *_: "")
    assert measured(1e6, 0, others=[2, 3, 2, 2]).verdict is Verdict.PASS, "a process that others began"
    case = measured(1e6, 0, others=[2, 3] * 3)
    assert case.verdict is Verdict.TIMING_INCONSISTENT
    assert case.message.startswith("the timed calls delegated work: ")
    assert " threads and 2 processes before them, " in case.message


class RowBench(Bench):
    """A bench whose rows take `row_ns` for a call, and calls alone `alone_ns`, each of them a little less."""

    def __init__(self, row_ns: float, alone_ns: float, references_ns: Sequence[float] = ()) -> None:
        super().__init__()
        self.steps_ns: dict[str, float] = {}
        self._row_ns = row_ns
        self._alone_ns = alone_ns
        self._references = iter(references_ns)
        self.alone = 0
        self.references = 0

    def blocks(self, _index: int) -> int:
        """The blocks of an answer: they never limit a row here."""
        return 1

    def empty_row(self, _worker: Worker, _index: int, count: int) -> Called:
        """A row without a kernel takes no time."""
        return Called(count, 0.0, 0.0)

    def call(
        self,
        worker: Worker,
        _index: int,
        seeds: list[int],
        *,
        timed: bool = False,
        first: Callable[[], None] | None = None,
        **_: Any,
    ) -> Called:
        """The answer to as many calls, after the row without a kernel."""
        if first:
            first()
        count = len(seeds)
        if worker.claims_ns == REFERENCE_NS:
            self.references += 1
            reference_ns = count * next(self._references, 1e6)
            return Called(count, reference_ns, reference_ns)
        if count > 1 or not timed:
            return Called(count, 0.0, count * self._row_ns)
        self.alone += 1
        return Called(1, 0.0, self._alone_ns - 100 * self.alone)


def timed_in_rows(bench: Any, workers: int) -> Timing:
    """The times of the case, as RowBenchmarks has them."""
    crew: Any = Crew(0)
    first: Any = Worker(1e6)
    (case,) = RowBenchmarks(bench, crew, lambda *_, **__: None).run(first, workers)
    assert case.timing is not None
    return case.timing


@pytest.mark.parametrize(("alone_ns", "of_one_worker"), [(350e3, 9), (100e3, 3)])
def test_as_many_calls_are_made_alone_by_one_worker_as_by_three_where_these_count(
    alone_ns: float, of_one_worker: int
) -> None:
    benches = [RowBench(151e3, alone_ns) for _ in range(2)]
    for bench in benches:
        bench.limits = replace(LIMITS, interval=10)
    by_one, by_three = (timed_in_rows(bench, workers).time_ns for bench, workers in zip(benches, (1, 3), strict=True))
    assert [bench.alone for bench in benches] == [of_one_worker, 9]
    assert by_one == by_three


@pytest.mark.parametrize(
    ("references_ns", "rows", "bounds_ns"),
    [
        ([9e6, 2.8e6, 2.8e6, 2.8e6, 7.4e6], 4, (2.8e6, 2.8e6)),
        ([9e6, 7.4e6, 2.8e6, 2.8e6, 2.8e6, 7.4e6], 5, (2.8e6, 2.8e6)),
        ([9e6, *[7.4e6, 2.8e6] * 4], 7, (2.8e6, 7.4e6)),
    ],
)
def test_a_reference_whose_rows_differ_has_more_of_them_and_its_interval(
    references_ns: list[float], rows: int, bounds_ns: tuple[float, float]
) -> None:
    bench = RowBench(151e3, 100e3, references_ns)
    found = timed_in_rows(bench, 1)
    assert bench.references == rows
    assert (found.reference_ns, found.reference_low_ns, found.reference_high_ns) == (2.8e6, *bounds_ns)


class Rows:
    """The rows of a case, one of each process."""

    failure = None
    note = ""

    def __init__(self) -> None:
        self.rows_ns: list[float] = []

    def timing(self, _floor_seconds: float) -> Timing | None:
        """The statistics of the rows."""
        return of_rows([[each] for each in self.rows_ns], [], [], floor_ns=0, bound_ns=0, busy=0)


class Scripted(Passes[Any, Rows]):
    """The rows of a script, each of which takes `seconds`."""

    def __init__(self, rows_ns: Sequence[float], seconds: float) -> None:
        parts: Any = Bench(), Crew(0), lambda *_, **__: None
        super().__init__(*parts)
        self._rows = iter(rows_ns)
        self._seconds = seconds
        self.now = 0.0

    def _measurements(self) -> Rows:
        return Rows()

    def _measure(self, worker: object, index: int, measured: Rows, *, again: bool) -> None:
        del worker, index, again
        measured.rows_ns.append(next(self._rows))
        self.now += self._seconds


WIDE = [1.0, 2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    ("rows_ns", "seconds", "stops_after", "repeats", "facts"),
    [
        ([1.0, 1.0, 1.0], 1, 9, 0, {}),
        ([*WIDE, *[1.0] * 6], 1, 9, 4, {"repeat_seconds": 4, "repeats_ended": "narrow"}),
        (WIDE * 2, 1, 9, 5, {"repeat_seconds": 5, "repeats_ended": "5 repeats"}),
        (WIDE * 2, 12, 9, 2, {"repeat_seconds": 24, "repeats_ended": "time limit"}),
        (WIDE * 2, 1, 4, 1, {"repeat_seconds": 1, "repeats_ended": "stopped"}),
    ],
)
def test_repeats_are_counted_with_the_reason_for_their_end(
    monkeypatch: pytest.MonkeyPatch,
    rows_ns: list[float],
    seconds: float,
    stops_after: int,
    repeats: int,
    facts: dict[str, object],
) -> None:
    scripted = Scripted(rows_ns, seconds)
    monkeypatch.setattr(passes, "time", SimpleNamespace(monotonic=lambda: scripted.now))
    (case,) = scripted.run(None, 3, lambda _: scripted.now >= stops_after * seconds)
    assert case.timing is not None
    assert (case.timing.repeats, scripted.facts()) == (repeats, facts)
