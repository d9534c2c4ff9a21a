"""Measure the gain of lies about times: each lie around an honest kernel of each bundled task, beside that kernel.

Each cell is the time that counts as a share of the honest kernel's, the least of the benchmark cases, or the verdict of
a lie that does not pass; a share below nine tenths is the median of three. The exit code is 1 if a lie that passes has
less than nine tenths of the honest time, or if one raises an error of its own.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench_judge import machine_facts

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode, Task
from tests.harness.adversarial.shapes import SHAPES
from tests.harness.adversarial.wrappers import WRAPPERS, wrapped
from tests.harness.evaluations import evaluate

EXAMPLES = Path(__file__).parents[1] / "examples"
SHARE_MIN = 0.9
BROKEN = (Verdict.EXCEPTION, Verdict.LOAD_ERROR, Verdict.CRASH, Verdict.INFRA_ERROR)
"""Verdicts of a lie that does not fit the harness any more, and so proves nothing."""
ONE_THREAD = """
import sys

if "torch" in sys.modules:
    sys.modules["torch"].set_num_threads(1)
"""


def main() -> int:
    """Print the table; 1 if a lie gains more than it may, or is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", action="append", help="only this task; may be given several times")
    parser.add_argument("--lie", action="append", choices=WRAPPERS, help="only this lie; may be given several times")
    options = parser.parse_args()
    names = options.task or [*sorted(path.parent.name for path in EXAMPLES.glob("*/faster.py")), *SHAPES]
    lines = [f"| lie | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    tasks = {name: SHAPES[name][0] if name in SHAPES else read_task(bundled.folder("tasks") / name) for name in names}
    honest = {name: judged(task, source(name)) for name, task in tasks.items()}
    lines.append(f"| none: time of a call, us | {' | '.join(microseconds(honest[name]) for name in names)} |")
    print("\n".join(lines), flush=True)
    gains = broken = 0
    for lie in options.lie or WRAPPERS:
        cells = []
        for name, task in tasks.items():
            verdict, share = trial(task, name, lie, honest)
            broken += verdict in BROKEN
            if verdict is Verdict.PASS and share < SHARE_MIN:
                again = [trial(task, name, lie, honest) for _ in range(2)]
                share = statistics.median([share, *(other for found, other in again if found is Verdict.PASS)])
                gains += share < SHARE_MIN
            cells.append(f"{share:.2f}" if verdict is Verdict.PASS else f"`{verdict}`")
        print(f"| {lie} | {' | '.join(cells)} |", flush=True)
    print(f"\n{machine_facts()}.")
    return int(gains + broken > 0)


def trial(task: Task, name: str, lie: str, honest: dict[str, Result]) -> tuple[Verdict, float]:
    """Return a lie's verdict, and its least share of the honest time; `honest` has the last result without a lie.

    The machine may change meanwhile, so the honest kernel is measured again after a lie that passes, and the shorter of
    its times counts.
    """
    found, before = judged(task, wrapped(source(name), lie)), honest[name]
    if found.verdict is not Verdict.PASS:
        return found.verdict, 0.0
    honest[name] = judged(task, source(name))
    return found.verdict, least_share(found, [before, honest[name]])


def source(name: str) -> str:
    """Return the honest kernel of a task, in one thread if it uses PyTorch."""
    if name in SHAPES:
        return SHAPES[name][1] + ONE_THREAD
    return (EXAMPLES / name / "faster.py").read_text(encoding="utf-8") + ONE_THREAD


def judged(task: Task, submission: str) -> Result:
    """Return the result of a submission's benchmarks."""
    with tempfile.TemporaryDirectory(prefix="bench-lies-") as folder:
        return evaluate(Path(folder), submission, task, Mode.BENCHMARK).result


def times_ns(result: Result) -> list[float]:
    """Return the time that counts of each case."""
    return [case.timing.time_ns for case in result.cases if case.timing is not None]


def microseconds(result: Result) -> str:
    """Return the times of all cases as text."""
    return ", ".join(f"{each / 1e3:.0f}" for each in times_ns(result))


def least_share(found: Result, honest: list[Result]) -> float:
    """Return the least share of the honest time."""
    shares = [lying / min(true) for lying, *true in zip(times_ns(found), *map(times_ns, honest), strict=False)]
    return min(shares, default=0.0)


if __name__ == "__main__":
    sys.exit(main())
