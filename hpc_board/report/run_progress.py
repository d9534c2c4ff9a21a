"""The progress of a running run: its finished cases among all, and the time left."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from hpc_board.domain.run import Progress, Run, TimeSoFar
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict
from hpc_board.model.sanitizer import CUDA_TOOLS, tools_in
from hpc_board.model.score import duration_text
from hpc_board.model.task import OWN, Language, Mode, Task, language_of
from hpc_board.report.run_words import JUDGED, Round, place_text, round_of, round_text, step_message

_PHASES = {
    Mode.TEST: ("test",),
    Mode.BENCHMARK: ("benchmark",),
    Mode.PROFILE: ("profile",),
    Mode.SANITIZE: ("sanitize",),
    Mode.RANKED: ("test", "benchmark"),
}
"""The phases with cases, in their order."""

_OWN_EVAL = re.compile(r" \(mode [^()]*\)$")
"""The end of a step's message from a task's own harness, after the case."""


class RunProgress(msgspec.Struct, frozen=True):
    """The number of finished cases `done` among `total`, which only a pass reaches; the current step in words."""

    done: int
    total: int
    step: str


def tools_of(run: Run) -> int:
    """Return the number of tools under which a run in mode sanitize runs the tests."""
    every = 1 if language_of(run.file_name) is Language.CPP else len(CUDA_TOOLS)
    return len(set(tools_in(run.options.tool))) or every


def case_counts(task: Task, mode: Mode, tools: int = len(CUDA_TOOLS)) -> dict[str, int]:
    """Return the number of a task's cases by phase, and of the `tools` of mode sanitize.

    In mode ranked each process measures all benchmarks.
    """
    ranked = mode is Mode.RANKED
    benchmarks, rounds = len(task.case_texts("benchmark", ranked=ranked)), 1
    if ranked and task.harness != OWN:
        with suppress(ValueError):
            rounds = Limits.of_task(task.limits).workers
    return {
        "test": len(task.case_texts("test", ranked=ranked)),
        "benchmark": benchmarks * rounds,
        "profile": benchmarks,
        "sanitize": tools,
    }


def run_progress(mode: Mode, progress: Sequence[Progress], counts: Mapping[str, int]) -> RunProgress | None:
    """Return a run's progress by the lines of its harness; None before its first line.

    `counts` are those of the task, which the progress corrects: the task may have changed since.
    """
    if not progress:
        return None
    rounds = [found for found in map(round_of, progress) if found is not None and not found.again]
    # The processes beyond the first number, and the repeated measurements, are known only when they begin.
    planned = max(rounds[0].of, 1) if rounds else 1
    known = {**counts}
    for step in progress:
        if step.of is not None and step.of > 0:
            known[step.phase] = step.of * planned if step.phase == "benchmark" else step.of
    phases = _PHASES[mode]
    done = 0
    for step in progress:
        if step.phase in phases and step.case is not None and step.of is not None:
            before = sum(known.get(phase, 0) for phase in phases[: phases.index(step.phase)])
            found = round_of(step)
            earlier = 0 if found is None else planned if found.again else min(found.number - 1, planned)
            here = 0 if earlier == planned else step.case - 1
            done = max(done, before + earlier * step.of + here)
    total, last = sum(known.get(phase, 0) for phase in phases), progress[-1]
    # The last case may be measured again, until the harness tells of its end.
    is_complete = last.phase == JUDGED and last.message == Verdict.PASS
    done = total if is_complete else min(done, max(total - 1, 0))
    return RunProgress(done, total, place_text(last))


_BEGUN_MAX = 1000
"""Limit of the cases of a phase: a job may write any progress."""


class BegunCase(msgspec.Struct, frozen=True):
    """A case that a running harness has begun: its phase, its index, its text, and "running", "done" or "pass".

    `timed` is the time of a benchmark so far, `round` the present round of its measurement; each None if unknown.
    """

    phase: str
    index: int
    spec: str
    state: str
    timed: TimeSoFar | None = None
    round: Round | None = None

    @property
    def so_far(self) -> str:
        """Return the time so far with the round: "901 µs so far, round 2 of 5"; empty without a time."""
        if self.timed is None:
            return ""
        time = f"{duration_text(self.timed.time_ns)} so far"
        return time if self.round is None else f"{time}, {round_text(self.round)}"


def begun_cases(progress: Sequence[Progress]) -> Iterator[BegunCase]:
    """Yield the cases that a running harness has begun, in their order; the tests have passed once benchmarks begin.

    In the first of several rounds, which may be far from the median of all, times have no reference to compare with.
    """
    steps: dict[tuple[str, int], Progress] = {}
    timed = {step.timed.case: step.timed for step in progress if step.timed is not None}
    present = next((step for step in reversed(progress) if step.phase == "benchmark"), None)
    in_round = None if present is None else round_of(present)
    if in_round is not None and in_round.number == 1 and not in_round.again:
        timed = {case: replace(each, reference_ns=None) for case, each in timed.items()}
    for step in progress:
        if step.phase in ("test", "benchmark") and step.case is not None and 0 < step.case <= _BEGUN_MAX:
            steps.setdefault((step.phase, step.case), step)
    tests_passed = any(phase == "benchmark" for phase, _ in steps)
    for (phase, case), step in steps.items():
        is_current = (progress[-1].phase, progress[-1].case) == (phase, case)
        state = "running" if is_current else "pass" if phase == "test" and tests_passed else "done"
        found = BegunCase(phase, case - 1, _OWN_EVAL.sub("", step_message(step)), state)
        if phase == "benchmark" and present is not None:
            found = replace(found, timed=timed.get(case), round=in_round)
        yield found


def time_so_far(progress: Sequence[Progress]) -> str:
    """Return the time that was measured last: "901 µs so far", among several benchmarks with its number."""
    step = next((step for step in reversed(progress) if step.timed is not None), None)
    if step is None or step.timed is None:
        return ""
    time = f"{duration_text(step.timed.time_ns)} so far"
    return time if step.of == 1 else f"benchmark {step.timed.case}: {time}"


def time_left(ran: timedelta | None, usual: timedelta | None) -> timedelta | None:
    """Return the time left of a run if it takes its usual time; None if that is over, to the second, or unknown."""
    if ran is None or usual is None or usual - ran < timedelta(seconds=1):
        return None
    return usual - ran
