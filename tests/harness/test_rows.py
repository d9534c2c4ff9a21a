"""The rows of calls of a benchmark: what a kernel's row may take beside the kernel is known of one as long."""

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.measure import claim_benchmarks
from hpc_board.harness.measure.claim_benchmarks import ClaimBenchmarks
from hpc_board.harness.processes.calls import Called
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Verdict

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
        self.phase = SimpleNamespace(name="benchmark", cases=({"size": 1},), indices=[0], seconds=100.0)
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
