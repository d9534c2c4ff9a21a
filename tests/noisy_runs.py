"""Ranked runs with the noise of real ones: of the machine between runs, of processes, and of rows or calls.

`docs/measurements.md` has the figures of the conditions, under "Power of a comparison".
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpc_board.harness.measure.timing import of_rows, of_two_clocks
from hpc_board.model.limits import Limits
from hpc_board.model.result import Case, Timing, Verdict

CASE_NS = 1e6
_SHARED = math.sqrt(0.5)
"""The part of a process's own slowness that all cases share, and the part that each has for itself."""


@dataclass(frozen=True)
class Noise:
    """The noise of a machine, as standard deviations of the logarithm of a time.

    `runs` is shared by all times of a run, the reference's too, `processes` by those of a process. Of the rows, the
    share `slowed` is longer by an exponential time of the mean `slowed_by`. `reference` is the reference's own.
    """

    runs: float
    processes: float
    rows: float
    slowed: float
    slowed_by: float
    reference: float
    on_gpu: bool = False


QUIET = Noise(runs=0.01, processes=0.01, rows=0.007, slowed=0.15, slowed_by=0.1, reference=0.01)
BUSY = Noise(runs=0.018, processes=0.03, rows=0.02, slowed=0.9, slowed_by=0.15, reference=0.03)
STEADY_GPU = Noise(runs=0.005, processes=0.007, rows=0.003, slowed=0.05, slowed_by=0.02, reference=0.005, on_gpu=True)

CALLS = 10


Repeats = Callable[[Timing | None, Timing], bool]
"""A rule for a case that is not narrow: by its times before its last repeat and after, whether it is measured again."""


def always(before: Timing | None, after: Timing) -> bool:
    """Return True: the judge's rule, whose bounds are the number of processes and the time."""
    del before, after
    return True


def ranked_run(
    chance: random.Random, noise: Noise, cases: int, factor: float = 1.0, repeats: Repeats = always
) -> tuple[Case, ...]:
    """Return the cases of a ranked run, measured by as many processes as the judge would have used."""
    limits = Limits.of_task({}, "cuda" if noise.on_gpu else "cpu")
    drift = chance.gauss(0, noise.runs)
    own = [chance.gauss(0, _SHARED * noise.processes) for _ in range(limits.workers + 5)]
    reference_ns = [CASE_NS * math.exp(drift + chance.gauss(0, noise.reference))]

    def timing() -> Timing:
        passes: list[list[float]] = []

        def measure(count: int) -> Timing:
            process = drift + own[len(passes)] + chance.gauss(0, _SHARED * noise.processes)
            passes.append([factor * CASE_NS * math.exp(process + _slowness(chance, noise)) for _ in range(count)])
            return _timing(noise, passes, reference_ns)

        found = [measure(CALLS if noise.on_gpu else limits.rows) for _ in range(limits.workers)][-1]
        before = None
        while found.interval > limits.interval and len(passes) < len(own) and repeats(before, found):
            before, found = found, measure(CALLS if noise.on_gpu else limits.rows + 1)
        return found

    return tuple(Case("benchmark", index, f"size: {index}", Verdict.PASS, "", timing()) for index in range(cases))


def _slowness(chance: random.Random, noise: Noise) -> float:
    slowed = chance.expovariate(1 / noise.slowed_by) if chance.random() < noise.slowed else 0.0
    return chance.gauss(0, noise.rows) + slowed


def _timing(noise: Noise, passes: Sequence[Sequence[float]], reference_ns: Sequence[float]) -> Timing:
    if noise.on_gpu:
        return of_two_clocks(passes, [], reference_ns, floor_ns=0)
    return of_rows(passes, reference_ns, [], floor_ns=0, bound_ns=0, busy=0)
