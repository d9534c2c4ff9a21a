"""Measure how steady the scores of honest kernels are: ranked runs beside no, one and two busy neighbours.

The kernels are the examples that run on a CPU and those of tests/harness/honest. A neighbour is a process that does
nothing but use a processor. A quiet run has none; the other runs of a kernel are compared with its quiet ones. The exit
code is 1 if a goal is missed.
"""

import argparse
import importlib.util
import math
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import FrameType

from bench_judge import cpu_name, environment
from job_folders import written

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result, Verdict
from hpc_board.model.score import score_of
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder
from tests.harness.honest.suite import HONEST
from tests.harness.neighbours import busy

ROOT = Path(__file__).resolve().parents[1]
RUNS = 300
SEED = 20_240_607
NEIGHBOURS = (0, 1, 2)
EXAMPLES = ("plain.py", "faster.py", "plain.cpp", "faster.cpp")
RUN_SECONDS_MAX = 900
END_SECONDS_MAX = 10
KERNELS_SHOWN = 10

PASSED_SHARE_MIN = 0.99
BETTER_SHARE_MAX = 0.03
MEDIAN_DEVIATION_MAX = {0: 0.05, 1: 0.1, 2: 0.25}

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Kernel:
    """A submission that is right, and its task."""

    name: str
    task: Task
    path: Path


@dataclass(frozen=True)
class Planned:
    """A run to be made: a kernel, and how many neighbours are busy meanwhile."""

    kernel: Kernel
    neighbours: int


@dataclass(frozen=True)
class Ran:
    """The outcome of a run; score and interval are None unless it passed."""

    kernel: str
    neighbours: int
    verdict: str
    message: str
    wall_s: float
    score_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None

    @property
    def passed(self) -> bool:
        """Return whether the kernel was judged right, and timed."""
        return self.score_ns is not None


@dataclass(frozen=True)
class Quiet:
    """The score of a kernel by its quiet runs: their median, and from their least low to their largest high."""

    median_ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class Compared:
    """A run beside the quiet runs of its kernel: the ratio of the scores, and the share below the quiet interval."""

    ran: Ran
    ratio: float
    better_share: float


@dataclass(frozen=True)
class Setting:
    """All runs with this number of neighbours; shares and ratios are None without comparable runs."""

    neighbours: int
    runs: int
    passed: int
    better_share: float | None
    median_ratio: float | None
    wall_s: float


def main() -> int:
    """Print the tables, and write them to a page where one is named; 1 if a goal is missed."""
    options = parsed()
    for number in _INTERRUPTS:
        signal.signal(number, _interrupted)
    kernels = [kernel for kernel in all_kernels() if options.only in (None, kernel.name)]
    if not kernels:
        print("there is no such kernel, or this machine lacks what it needs", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-honest-", ignore_cleanup_errors=True) as folder:
        try:
            ran = all_ran(plan(kernels, options.runs), Path(folder))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
    found = settings(ran)
    text = tables(ran, found)
    print(text)
    if options.page is not None:
        options.page.write_text(page(text), encoding="utf-8")
    missed = missed_goals(found)
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(missed))


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, help="also write the tables, with the machine and the date, to this file")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs in all, by default {RUNS}")
    parser.add_argument("--only", metavar="NAME", help="runs of this kernel alone, such as honest/thread_pool")
    return parser.parse_args()


def _interrupted(_signal: int, _frame: FrameType | None) -> None:
    # A second one would keep the first from ending all processes.
    for number in _INTERRUPTS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


# Runs


def all_kernels() -> list[Kernel]:
    """Return the examples and the honest kernels for which this machine has all; name the others on stderr."""
    kernels = []
    for path in sorted(path for name in EXAMPLES for path in (ROOT / "examples").glob(f"*/{name}")):
        if reason := reason_to_leave_out(path):
            print(f"left out: {reason}", file=sys.stderr)
        else:
            task = read_task(bundled.folder("tasks") / path.parent.name)
            kernels.append(Kernel(f"{path.parent.name}/{path.name}", task, path))
    for honest in HONEST:
        if reason := honest.reason_to_leave_out():
            print(f"left out: {reason}", file=sys.stderr)
        else:
            kernels.append(Kernel(f"honest/{honest.name}", honest.task, honest.path))
    return kernels


def reason_to_leave_out(example: Path) -> str:
    """Return the requirement of an example that this machine lacks; "" if it has all."""
    if importlib.util.find_spec("torch") is None:
        return f"{example.parent.name}/{example.name} needs torch"
    if example.suffix == ".cpp" and shutil.which("g++") is None:
        return f"{example.parent.name}/{example.name} needs g++"
    return ""


def plan(kernels: Sequence[Kernel], runs: int) -> list[Planned]:
    """Return `runs` runs in a random order, the same each time: each kernel has as many in each setting, if it can be.

    Where there are too few for all kernels, some have a run in each setting, and the others none.
    """
    order = random.Random(SEED)  # noqa: S311 - an order, and no secret
    planned: list[Planned] = []
    while len(planned) < runs:
        every = (Planned(kernel, count) for kernel in order.sample(kernels, len(kernels)) for count in NEIGHBOURS)
        planned += islice(every, runs - len(planned))
    order.shuffle(planned)
    return planned


def all_ran(planned: Sequence[Planned], scratch: Path) -> list[Ran]:
    """Make all runs one after the other, and show on stderr how far they are."""
    done = []
    for number, each in enumerate(planned, start=1):
        head = f"[{number}/{len(planned)}] {each.kernel.name}, {neighbours_text(each.neighbours)}"
        print(f"{head}: ", end="", file=sys.stderr, flush=True)
        ran = run(each, scratch)
        score = f", {ran.score_ns / 1e3:.1f} us" if ran.score_ns is not None else ""
        print(f"{ran.verdict} in {ran.wall_s:.1f} s{score}", file=sys.stderr, flush=True)
        done.append(ran)
    return done


def run(planned: Planned, scratch: Path) -> Ran:
    """Make one run beside its neighbours."""
    kernel = planned.kernel
    folder = Path(tempfile.mkdtemp(dir=scratch))
    gpu = Gpu("CPU", Cluster("here", "local"), Device.CPU, python=sys.executable)
    code = kernel.path.read_text(encoding="utf-8")
    job = written(folder, kernel.task, gpu, Mode.RANKED, code=code, file_name=f"submission{kernel.path.suffix}")
    with busy(planned.neighbours):
        start = time.monotonic()
        submit(job)
        wall_s = time.monotonic() - start
    report = job / job_folder.RESULT
    result = Result.from_json(report.read_bytes()) if report.exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    return as_ran(planned, result, wall_s)


def as_ran(planned: Planned, result: Result | None, wall_s: float) -> Ran:
    """Return the numbers of a result, with its interval put together as the task puts together its score."""
    name, neighbours, ranking_by = planned.kernel.name, planned.neighbours, planned.kernel.task.ranking_by
    if result is None:
        return Ran(name, neighbours, "no result", f"none within {RUN_SECONDS_MAX} s", wall_s)
    timings = [case.timing for case in result.cases if case.phase == "benchmark" and case.timing]
    if result.verdict is not Verdict.PASS or result.score_s is None:
        return Ran(name, neighbours, result.verdict, result.message, wall_s)
    lows = [timing.median_ns if timing.low_ns is None else timing.low_ns for timing in timings]
    highs = [timing.median_ns if timing.high_ns is None else timing.high_ns for timing in timings]
    score_ns, low_ns, high_ns = 1e9 * result.score_s, score_of(lows, ranking_by), score_of(highs, ranking_by)
    return Ran(name, neighbours, result.verdict, result.message, wall_s, score_ns, low_ns, high_ns)


# Processes


def submit(job: Path) -> None:
    """Run a job as a scheduler does, and end it where it takes too long or this process is interrupted."""
    with (job / "job.log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", job_folder.SCRIPT], cwd=job, env=environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            with suppress(subprocess.TimeoutExpired):
                shell.wait(RUN_SECONDS_MAX)
        finally:
            end(shell)


def end(shell: "subprocess.Popen[bytes]") -> None:
    """Tell a job to end, which it passes on to its supervisor; kill one that does not."""
    if shell.poll() is not None:
        return
    shell.terminate()
    try:
        shell.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        # The supervisor is in the shell's group, and all others die with it.
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


# Results


def quiet_scores(ran: Sequence[Ran]) -> dict[str, Quiet]:
    """Return the quiet score of each kernel that has one."""
    found: dict[str, Quiet] = {}
    for name in {each.kernel for each in ran}:
        runs = [each for each in ran if each.kernel == name and each.neighbours == 0]
        scores = [each.score_ns for each in runs if each.score_ns is not None]
        lows = [each.low_ns for each in runs if each.low_ns is not None]
        highs = [each.high_ns for each in runs if each.high_ns is not None]
        if scores:
            found[name] = Quiet(statistics.median(scores), min(lows), max(highs))
    return found


def compared(ran: Sequence[Ran]) -> list[Compared]:
    """Return each run that has passed, of a kernel with a quiet score, beside that."""
    quiet = quiet_scores(ran)
    return [
        Compared(each, each.score_ns / own.median_ns, max(0.0, 1 - each.score_ns / own.low_ns))
        for each in ran
        if each.score_ns is not None and (own := quiet.get(each.kernel)) is not None
    ]


def settings(ran: Sequence[Ran]) -> list[Setting]:
    """Return a summary for each number of neighbours that has runs."""
    beside = compared(ran)
    return [setting(count, ran, beside) for count in NEIGHBOURS if any(each.neighbours == count for each in ran)]


def setting(neighbours: int, ran: Sequence[Ran], beside: Sequence[Compared]) -> Setting:
    """Return the summary of all runs with as many neighbours."""
    own = [each for each in ran if each.neighbours == neighbours]
    of_it = [each for each in beside if each.ran.neighbours == neighbours]
    return Setting(
        neighbours=neighbours,
        runs=len(own),
        passed=sum(each.passed for each in own),
        better_share=max((each.better_share for each in of_it), default=None),
        median_ratio=statistics.median([each.ratio for each in of_it]) if of_it else None,
        wall_s=math.fsum(each.wall_s for each in own),
    )


def missed_goals(found: Sequence[Setting]) -> list[str]:
    """Return each goal that is missed, in words."""
    runs, passed = sum(each.runs for each in found), sum(each.passed for each in found)
    missed = [f"{passed} of {runs} runs passed"] if passed < PASSED_SHARE_MIN * runs else []
    for each in found:
        where = neighbours_text(each.neighbours)
        if each.better_share is not None and each.better_share > BETTER_SHARE_MAX:
            missed.append(f"beside {where}, a run is {each.better_share:.1%} better than its quiet interval")
        most = MEDIAN_DEVIATION_MAX[each.neighbours]
        if each.median_ratio is not None and abs(each.median_ratio - 1) > most:
            missed.append(f"beside {where}, the median run has {each.median_ratio:.3f} of its quiet score")
    return missed


# Output


def tables(ran: Sequence[Ran], found: Sequence[Setting]) -> str:
    """Return all tables."""
    return "\n".join([summary(found), not_passed(ran), deviations(compared(ran))])


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table under a heading, whose first column holds words."""
    lines = [f"## {title}", "", f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def summary(found: Sequence[Setting]) -> str:
    """Return the table of the settings, with the goals below it."""
    rows = [
        (
            neighbours_text(each.neighbours),
            str(each.runs),
            str(each.passed),
            "" if each.better_share is None else f"{each.better_share:.1%}",
            "" if each.median_ratio is None else f"{each.median_ratio:.3f}",
            f"{each.wall_s:.0f}",
        )
        for each in found
    ]
    head = ("beside", "runs", "passed", "better than quiet by", "median score / quiet", "wall time, s")
    within = ", ".join(f"{share:.0%} ({neighbours_text(count)})" for count, share in MEDIAN_DEVIATION_MAX.items())
    goals = (
        f"Goals: {PASSED_SHARE_MIN:.0%} pass, none is better than its quiet interval by more than "
        f"{BETTER_SHARE_MAX:.0%}, and the median ratio is within {within}.\n"
    )
    return f"{table('Runs', head, rows)}\n{goals}"


def not_passed(ran: Sequence[Ran]) -> str:
    """Return a table of the runs that did not pass; a sentence where all did."""
    rows = [
        (each.kernel, str(each.neighbours), each.verdict, each.message.partition("\n")[0].replace("|", "\\|"))
        for each in ran
        if not each.passed
    ]
    if not rows:
        return "## Runs that did not pass\n\nNone.\n"
    return table("Runs that did not pass", ("kernel", "busy neighbours", "verdict", "message"), rows)


def deviations(beside: Sequence[Compared]) -> str:
    """Return a table of the kernels that deviate most, each with the run that does."""
    furthest: dict[str, Compared] = {}
    for each in sorted(beside, key=deviation):
        furthest[each.ran.kernel] = each
    quiet = quiet_scores([each.ran for each in beside])
    rows = [
        (
            each.ran.kernel,
            str(each.ran.neighbours),
            f"{each.ratio:.3f}",
            f"{each.better_share:.1%}",
            f"{quiet[each.ran.kernel].median_ns / 1e3:.1f}",
        )
        for each in sorted(furthest.values(), key=deviation, reverse=True)[:KERNELS_SHOWN]
    ]
    head = ("kernel", "busy neighbours", "score / quiet", "better than quiet by", "quiet score, us")
    return table("Largest deviations", head, rows)


def deviation(each: Compared) -> float:
    """Return how far a run's score is from the quiet one, the same for half and twice of it."""
    return abs(math.log(each.ratio))


def neighbours_text(count: int) -> str:
    """Return how many neighbours there are, in words."""
    return {0: "no neighbour", 1: "one neighbour"}.get(count, f"{count} neighbours")


def page(text: str) -> str:
    """Return the page that is kept, with the machine that the figures are of."""
    facts = (
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} CPUs, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}; {datetime.now(UTC):%Y-%m-%d}; a load average of "
        f"{os.getloadavg()[0]:.1f} at the end"
    )
    return f"{INTRODUCTION}\n{facts}.\n\n{text}"


INTRODUCTION = """\
# How steady scores are

`make bench-honest` measures it: ranked runs of the examples for CPUs and of the kernels in `tests/harness/honest`, in a
random order, beside processes that do nothing but use a processor. The quiet interval of a kernel is from the least low
to the largest high of its runs without such a neighbour.
"""


if __name__ == "__main__":
    sys.exit(main())
