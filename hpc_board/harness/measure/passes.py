"""The passes of a ranked run's benchmarks: each worker measures every case, until the interval is narrow enough."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from hpc_board.harness.measure.bench import Bench
from hpc_board.harness.measure.crew import AnyWorker, Crew
from hpc_board.harness.measure.phases import Say
from hpc_board.harness.measure.timing import floor_ns
from hpc_board.harness.processes.calls import CallFailed
from hpc_board.model.peaks import Peak
from hpc_board.model.result import Case, Timing, Verdict
from hpc_board.model.score import duration_text

_MORE_PASSES = 5
_PHASE_SHARE = 0.5
"""Share of a phase's time after which no case is measured again: repetition must not use up the kernel's time."""


Enough = Callable[[Sequence[Case]], bool]
"""A rule by which the cases measured so far end the benchmarks."""


class Measured(Protocol):
    """Measurements of one case, of all workers so far."""

    failure: CallFailed | None

    @property
    def note(self) -> str:
        """Return a remark on a case that passes; "" without one."""

    def timing(self, floor_seconds: float) -> Timing | None:
        """Return the times so far; None before the first."""


AnyMeasured = TypeVar("AnyMeasured", bound=Measured)


class Passes(Generic[AnyWorker, AnyMeasured]):
    """The timed part of an evaluation.

    Each of the workers measures every case; if the interval of a case is wider than the limits allow, more workers
    measure it again, within `measure_seconds`. A subclass says how one worker measures one case. `_interval_ns_min` is
    the width of an interval that only its clock can cause.
    """

    _interval_ns_min = 0.0

    def __init__(self, bench: Bench, crew: Crew[AnyWorker], say: Say, peak: Peak | None = None) -> None:
        self._bench = bench
        self._limits = bench.limits
        self._crew = crew
        self._say = say
        self._peak = peak
        self._measured: dict[int, AnyMeasured] = {}
        self._latest: int | None = None
        self._workers = 1
        self._is_enough: Enough | None = None
        self.is_stopped = False
        self._repeats: Counter[int] = Counter()
        self._repeat_seconds = 0.0
        self._repeats_ended = "failed"

    def _measurements(self) -> AnyMeasured:
        raise NotImplementedError

    def _measure(self, worker: AnyWorker, index: int, measured: AnyMeasured, *, again: bool) -> None:
        """Measure one case with one worker, or measure it `again`."""
        raise NotImplementedError

    def _begin(self, cases: Sequence[int]) -> AnyWorker:
        """Return a new worker for these cases, which has imported the submission."""
        del cases
        return self._crew.worker()

    def run(self, first: AnyWorker | None, workers: int, is_enough: Enough | None = None) -> list[Case]:
        """Measure each case with as many workers as `workers` says, and return the results.

        The `first` one exists by now, unless it is None. `is_enough` is asked after each measurement.

        The first case that fails is the last one.
        """
        self._is_enough = is_enough
        self._workers = workers
        end = time.monotonic() + min(self._limits.measure_seconds, _PHASE_SHARE * self._bench.phase.seconds)
        every = self._bench.phase.indices
        for number in range(1, workers + 1):
            waiting = first if number == 1 else None
            self._pass(waiting, every, f" (process {number} of {workers})" if workers > 1 else "")
            if self._failed():
                return self.cases()
        number = 0
        while not (ended := self._repeats_end(wide := list(filter(self._is_wide, every)), number, end)):
            number += 1
            start = time.monotonic()
            how = f", measuring again: {self._why(wide)}, {number} of {_MORE_PASSES}"
            self._pass(None, wide, how, again=True)
            if self._failed():
                return self.cases()
            self._repeat_seconds += time.monotonic() - start
        self._repeats_ended = ended
        self._conclude()
        return self.cases()

    def facts(self) -> dict[str, Any]:
        """Return the provenance of the repeats: their seconds, and why there were no more; nothing without any."""
        if not self._repeat_seconds:
            return {}
        return {"repeat_seconds": round(self._repeat_seconds, 3), "repeats_ended": self._repeats_ended}

    def _failed(self) -> bool:
        return any(each.failure for each in self._measured.values())

    def _timing(self, index: int) -> Timing | None:
        return self._measured[index].timing(self._limits.floor_seconds)

    def _repeats_end(self, wide: Sequence[int], number: int, end: float) -> str:
        """Return the reason to measure no case again after this number of repeats; "" without one."""
        if not wide:
            return "narrow"
        if self.is_stopped:
            return "stopped"
        if time.monotonic() >= end:
            return "time limit"
        return f"{_MORE_PASSES} repeats" if number == _MORE_PASSES else ""

    def _is_wide(self, index: int) -> bool:
        """Return whether more workers have to measure a case."""
        found = self._timing(index)
        if found is None:
            return False
        return found.interval * found.time_ns > max(self._interval_ns_min, self._limits.interval * found.time_ns)

    def _why(self, wide: Sequence[int]) -> str:
        timings = [self._timing(index) for index in wide]
        return "busy machine" if any(each is not None and each.is_busy for each in timings) else "times differ"

    def _pass(self, waiting: AnyWorker | None, cases: Sequence[int], how: str, *, again: bool = False) -> None:
        """Have one worker measure cases, or measure them `again`, and end it; it is new if none is `waiting`."""
        phase = self._bench.phase
        worker = self._begin(cases) if waiting is None else waiting
        try:
            for index in cases:
                measured = self._measured.setdefault(index, self._measurements())
                text = phase.text(index) + how
                self._say(phase.name, index + 1, len(phase.cases), text, **self._so_far())
                try:
                    self._measure(worker, index, measured, again=again)
                except CallFailed as error:
                    measured.failure = error
                    return
                self._latest = index
                self._repeats[index] += again
                self.is_stopped = self._is_enough is not None and self._is_enough(self.cases())
                if self.is_stopped:
                    return
        finally:
            self._crew.dismiss(worker)

    def _so_far(self) -> dict[str, object]:
        """Return the times so far of the case that was measured last, for those who wait; nothing before the first."""
        found = None if self._latest is None else self._timing(self._latest)
        if self._latest is None or found is None:
            return {}
        return {"timed": {"case": self._latest + 1, "time_ns": found.time_ns, "reference_ns": found.reference_ns}}

    def _conclude(self) -> None:
        """Fail the cases whose times no right call can take."""
        for index, measured in self._measured.items():
            found, floor = self._timing(index), floor_ns(self._bench.generated[index].work, self._peak)
            if measured.failure is None and found is not None and found.time_ns < floor:
                words = f"a call takes {duration_text(found.time_ns)}, less than {duration_text(floor)}"
                message = f"{words}, which is impossible for a correct call on this device"
                measured.failure = CallFailed(Verdict.BELOW_FLOOR, message)

    def cases(self) -> list[Case]:
        """Return the results of the cases with times or a failure, up to the first failure."""
        cases: list[Case] = []
        for index, measured in sorted(self._measured.items()):
            found, failure, spec = self._timing(index), measured.failure, self._bench.phase.text(index)
            if found is None and failure is None:
                continue
            verdict, message = (failure.verdict, failure.message) if failure else (Verdict.PASS, measured.note)
            found = found and replace(found, repeats=self._repeats[index])
            last = self._bench.generated.get(index)
            work, details = last.work if last else None, failure.mismatch if failure else None
            cases.append(Case(self._bench.phase.name, index, spec, verdict, message, found, work, details))
            if failure is not None:
                break
        return cases
