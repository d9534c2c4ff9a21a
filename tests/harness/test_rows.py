"""The rows of calls of a benchmark: what a kernel's row may take beside the kernel is known of one as long."""

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hpc_board.harness.measure import phases
from hpc_board.harness.measure.phases import Benchmarks
from hpc_board.harness.processes.calls import Called
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Verdict

REFERENCE_NS = 300e6
ROW_NS, CALL_NS = 1e6, 1e4
"""The time beside the kernel: once for a row of calls, and for each call."""

LIMITS = Limits(timed_seconds_min=0, case_seconds=0.1, timed_calls_min=9, drift=1e6)


@dataclass
class Worker:
    """One that claims `claims_ns` for each of its calls, and works for `hides_ns` beside that."""

    claims_ns: float
    hides_ns: float = 0.0
    stops: bool = True
    child: Any = field(default_factory=lambda: SimpleNamespace(worker_pid=os.getpid()))


class Bench:
    """A bench without a judge, whose calls take scripted times."""

    def __init__(self) -> None:
        self.limits = LIMITS
        self.phase = SimpleNamespace(name="benchmark", cases=({"size": 1},))
        self.input_bytes: dict[int, int] = {}
        self.work: dict[int, Any] = {}
        self._calls = 0

    def answer_bytes(self, _index: int) -> int:
        """No bytes: memory never limits a row here."""
        return 0

    def call(self, worker: Worker, _index: int, seeds: list[int], *, made: int | None = None, **_: Any) -> Called:
        """The answer to as many calls, each of which claims a little more than the one before."""
        self._calls += 1
        claimed_ns = worker.claims_ns * (len(seeds) if made is None else made) + self._calls
        beside_ns = ROW_NS + len(seeds) * (CALL_NS + worker.hides_ns)
        return Called(len(seeds), claimed_ns, claimed_ns + beside_ns)


def measured(first_ns: float, hides_ns: float) -> Case:
    """The case as three workers or more have measured it beside a slow reference; all but the first hide as much."""
    parts: Any = Bench(), lambda: Worker(1e6, hides_ns), Worker(REFERENCE_NS), Worker(first_ns)
    bench, another, reference, first = parts
    benchmarks = Benchmarks(bench, another, lambda _: None, reference, lambda *_: None, nullcontext, lambda: 0)
    (case,) = benchmarks.run(first, 3)
    return case


@pytest.mark.parametrize("first_ns", [1e6, 2e8])
def test_no_worker_is_excused_by_the_short_row_of_another(monkeypatch: pytest.MonkeyPatch, first_ns: float) -> None:
    # No call takes any time here, so other work of the machine does not matter.
    monkeypatch.setattr(phases, "disturbed", lambda *_: "")
    honest = measured(first_ns, 0)
    assert (honest.verdict, honest.timing and honest.timing.noisy) == (Verdict.PASS, False)
    lying = measured(first_ns, 3e5)
    assert lying.verdict is Verdict.TIMING_INCONSISTENT
    assert "in a row of 50 calls" in lying.message


@pytest.mark.parametrize(("unsteady", "noisy"), [(0, False), (2, False), (3, True)])
def test_a_case_is_measured_again_beside_an_unsteady_reference_and_at_last_marked(
    monkeypatch: pytest.MonkeyPatch, unsteady: int, noisy: bool
) -> None:
    monkeypatch.setattr(phases, "disturbed", lambda *_: "")
    monkeypatch.setattr(phases, "_PAUSE_SECONDS", 0.0)
    shares = iter([2 * LIMITS.drift] * unsteady)
    monkeypatch.setattr(phases, "drift", lambda *_: next(shares, 0.0))
    case = measured(1e6, 0)
    assert (case.verdict, case.timing and case.timing.noisy) == (Verdict.PASS, noisy)
    assert next(shares, None) is None, "each unsteady reference was seen"
