"""Run lies about times around an honest kernel of each bundled task in Python, and print their scores beside its own.

Each cell is the time that counts as a share of the honest kernel's, the least of the benchmark cases, with the verdict
where the lie does not pass. The exit code is 1 if a lie that passes has less than nine tenths of the honest time, but
for overlapping calls, whose bound docs/design/timing.md gives.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.model.measurement import least_of_alone_ns
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode, Task
from tests.harness.adversarial.wrappers import WRAPPERS, wrapped
from tests.harness.evaluations import evaluate

EXAMPLES = Path(__file__).parents[1] / "examples"
SHARE_MIN = 0.9
OVERLAP = "overlaps the calls of a row"


def main() -> int:
    """Print the table, and return 1 if a lie gains more than it may."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", action="append", help="only this task; may be given several times")
    options = parser.parse_args()
    names = options.task or sorted(path.name for path in EXAMPLES.iterdir() if path.name.endswith("_py"))
    print("| lie | " + " | ".join(names) + " |")
    print("|" + "---|" * (len(names) + 1))
    tasks = {name: read_task(bundled.folder("tasks") / name) for name in names}
    honest = {name: judged(task, source(name)) for name, task in tasks.items()}
    print("| none: time of a call, us | " + " | ".join(microseconds(honest[name]) for name in names) + " |", flush=True)
    gains = 0
    for lie in WRAPPERS:
        cells = []
        for name, task in tasks.items():
            found, before = judged(task, wrapped(source(name), lie)), honest[name]
            # The machine may have changed meanwhile, so each lie has the honest time of just before and just after.
            honest[name] = judged(task, source(name))
            share = least_share(found, [before, honest[name]], overlaps=lie == OVERLAP)
            gains += found.verdict is Verdict.PASS and share < SHARE_MIN
            cells.append(f"{share:.2f}" if found.verdict is Verdict.PASS else str(found.verdict))
        print(f"| {lie} | " + " | ".join(cells) + " |", flush=True)
    return int(gains > 0)


def source(name: str) -> str:
    """Return the faster example of a task."""
    return (EXAMPLES / name / "faster.py").read_text(encoding="utf-8")


def judged(task: Task, submission: str) -> Result:
    """Return the result of a submission's benchmarks."""
    with tempfile.TemporaryDirectory(prefix="attack-table-") as folder:
        return evaluate(Path(folder), submission, task, Mode.BENCHMARK).result


def times_ns(result: Result) -> list[float]:
    """Return the time that counts of each case."""
    return [case.timing.median_ns for case in result.cases if case.timing is not None]


def microseconds(result: Result) -> str:
    """Return the times of all cases as text."""
    return ", ".join(f"{each / 1e3:.0f}" for each in times_ns(result))


def least_share(found: Result, honest: list[Result], *, overlaps: bool) -> float:
    """Return the least share of the honest time; with `overlaps`, of the least that overlapping calls may have."""
    shares = []
    for lying, *true in zip(times_ns(found), *map(times_ns, honest), strict=False):
        bound = min(true)
        shares.append(lying / (min(bound, max(bound / 2, least_of_alone_ns([bound]))) if overlaps else bound))
    return min(shares, default=0.0)


if __name__ == "__main__":
    sys.exit(main())
