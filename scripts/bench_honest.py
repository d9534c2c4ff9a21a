"""Measure how steady the scores of honest kernels are: ranked runs beside no, one and two busy neighbours.

The kernels are the examples that run on a CPU and those of tests/harness/honest. A neighbour is a process that does
nothing but use a processor. A quiet run has none. A turn of a kernel is a run with each number of neighbours, right
after each other and in a random order: the machine itself drifts by several percent in an hour, so a run beside
neighbours is compared with the quiet one of its turn. A quiet run that was not quiet, by the judge's own account of the
processors that other work used, is made again. The exit code is 1 if a goal is missed.
"""

import argparse
import importlib.util
import math
import os
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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench_judge import environment, machine_facts
from job_folders import written

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.result_json import decode_result
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import BUSY_PROCESSORS, Result, Verdict
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
QUIET_TRIES_MAX = 3
RUN_SECONDS_MAX = 900
END_SECONDS_MAX = 10

PASSED_SHARE_MIN = 0.99
BETTER_SHARE_MAX = 0.03
MEDIAN_DEVIATION_MAX = {0: 0.05, 1: 0.1, 2: 0.25}


@dataclass(frozen=True)
class Kernel:
    """A submission that is right, and its task."""

    name: str
    task: Task
    path: Path


@dataclass(frozen=True)
class Planned:
    """A run to be made: a kernel, how many neighbours are busy meanwhile, and the number of the turn."""

    kernel: Kernel
    neighbours: int
    turn: int


@dataclass(frozen=True)
class Ran:
    """The outcome of a run; the score and the low end of its interval are None unless it passed.

    `busy_processors` is the number that other work used, the neighbours and the machine's host included; `tries` counts
    the run itself and those before it that other work disturbed.
    """

    kernel: str
    neighbours: int
    turn: int
    verdict: str
    message: str
    wall_s: float
    score_ns: float | None = None
    low_ns: float | None = None
    busy_processors: float = 0.0
    tries: int = 1

    @property
    def passed(self) -> bool:
        """Return whether the kernel was judged right, and timed."""
        return self.score_ns is not None


@dataclass(frozen=True)
class Compared:
    """A run beside quiet ones: their median score, the ratio of the scores, and the share below the quiet intervals."""

    ran: Ran
    quiet_ns: float
    ratio: float
    better_share: float


@dataclass(frozen=True)
class Setting:
    """All runs with this number of neighbours; shares and ratios are None without comparable runs."""

    neighbours: int
    runs: int
    passed: int
    tries: int
    compared: int
    better_share: float | None
    median_ratio: float | None
    wall_s: float


def main() -> int:
    """Print the tables; 1 if a goal is missed."""
    options = parsed()
    kernels = [kernel for kernel in all_kernels() if options.only in (None, kernel.name)]
    if not kernels:
        print("there is no such kernel, or this machine lacks what it needs", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-honest-", ignore_cleanup_errors=True) as folder:
        ran = all_ran(plan(kernels, options.runs), Path(folder))
    found = settings(ran)
    text = tables(ran, found)
    print(f"{machine_facts()}.\n\n{text}")
    missed = missed_goals(found)
    for words in missed:
        print(f"missed: {words}", file=sys.stderr)
    return int(bool(missed))


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs in all, by default {RUNS}")
    parser.add_argument("--only", metavar="NAME", help="only runs of this kernel, such as honest/thread_pool")
    return parser.parse_args()


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
    """Return `runs` runs or some more, the same ones each time: turns of all kernels in a random order, and again."""
    order = random.Random(SEED)  # noqa: S311 - an order, and no secret
    turns = math.ceil(runs / len(NEIGHBOURS))
    kernels_in_turn: list[Kernel] = []
    while len(kernels_in_turn) < turns:
        kernels_in_turn += order.sample(kernels, len(kernels))
    return [
        Planned(kernel, neighbours, turn)
        for turn, kernel in enumerate(kernels_in_turn[:turns], start=1)
        for neighbours in order.sample(NEIGHBOURS, len(NEIGHBOURS))
    ]


def all_ran(planned: Sequence[Planned], scratch: Path) -> list[Ran]:
    """Make the runs, one after the other, and show each on stderr."""
    done = []
    for number, each in enumerate(planned, start=1):
        head = f"[{number}/{len(planned)}] {each.kernel.name}, {neighbours_text(each.neighbours)}"
        print(f"{head}: ", end="", file=sys.stderr, flush=True)
        ran = run(each, scratch)
        while not each.neighbours and ran.busy_processors >= BUSY_PROCESSORS and ran.tries < QUIET_TRIES_MAX:
            print("not quiet, again: ", end="", file=sys.stderr, flush=True)
            ran = replace(run(each, scratch), tries=ran.tries + 1)
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
    result = decode_result(report.read_bytes()) if report.exists() else None
    shutil.rmtree(folder, ignore_errors=True)
    return as_ran(planned, result, wall_s)


def as_ran(planned: Planned, result: Result | None, wall_s: float) -> Ran:
    """Return the numbers of a result, with its interval put together as the task puts together its score."""
    ranking_by = planned.kernel.task.ranking_by
    made = partial(Ran, planned.kernel.name, planned.neighbours, planned.turn)
    if result is None:
        return made("no result", f"none within {RUN_SECONDS_MAX} s", wall_s)
    timings = [case.timing for case in result.cases if case.phase == "benchmark" and case.timing]
    if result.verdict is not Verdict.PASS or result.score_s is None:
        return made(result.verdict, result.message, wall_s)
    lows = [timing.time_ns if timing.low_ns is None else timing.low_ns for timing in timings]
    score_ns, low_ns = 1e9 * result.score_s, score_of(lows, ranking_by)
    busy_processors = max(timing.busy_processors for timing in timings)
    return made(result.verdict, result.message, wall_s, score_ns, low_ns, busy_processors)


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


def compared(ran: Sequence[Ran]) -> list[Compared]:
    """Return each run that has passed beside the quiet run of its turn, or else beside all quiet ones of its kernel.

    A quiet run is compared with the other quiet ones. A run without any to compare with is left out.
    """
    found = []
    for each in ran:
        quiet = [one for one in ran if one.kernel == each.kernel and one.neighbours == 0 and one is not each]
        beside = [one for one in quiet if one.turn == each.turn and one.passed] or quiet
        scores = [one.score_ns for one in beside if one.score_ns is not None]
        lows = [one.low_ns for one in beside if one.low_ns is not None]
        if each.score_ns is not None and scores and lows:
            quiet_ns = statistics.median(scores)
            better_share = max(0.0, 1 - each.score_ns / min(lows))
            found.append(Compared(each, quiet_ns, each.score_ns / quiet_ns, better_share))
    return found


def settings(ran: Sequence[Ran]) -> list[Setting]:
    """Return a summary for each number of neighbours that has runs."""
    beside = compared(ran)
    present = [number for number in NEIGHBOURS if any(each.neighbours == number for each in ran)]
    return [setting(number, ran, beside) for number in present]


def setting(neighbours: int, ran: Sequence[Ran], beside: Sequence[Compared]) -> Setting:
    """Return the summary of all runs with as many neighbours."""
    own = [each for each in ran if each.neighbours == neighbours]
    of_it = [each for each in beside if each.ran.neighbours == neighbours]
    return Setting(
        neighbours=neighbours,
        runs=len(own),
        passed=sum(each.passed for each in own),
        tries=sum(each.tries for each in own),
        compared=len(of_it),
        better_share=max((each.better_share for each in of_it), default=None),
        median_ratio=median_ratio(of_it, neighbours),
        wall_s=math.fsum(each.wall_s for each in own),
    )


def missed_goals(found: Sequence[Setting]) -> list[str]:
    """Return each goal that is missed, in words."""
    runs, passed = sum(each.runs for each in found), sum(each.passed for each in found)
    missed = [f"{passed} of {runs} runs passed"] if passed < PASSED_SHARE_MIN * runs else []
    for each in found:
        where = neighbours_text(each.neighbours)
        if each.neighbours and each.compared < each.passed:
            missed.append(f"beside {where}, {each.passed - each.compared} runs have no quiet run of their kernel")
        if each.better_share is not None and each.better_share > BETTER_SHARE_MAX:
            missed.append(f"beside {where}, a run is {each.better_share:.1%} better than its quiet interval")
        most = MEDIAN_DEVIATION_MAX[each.neighbours]
        if each.median_ratio is not None and abs(each.median_ratio - 1) > most:
            missed.append(f"beside {where}, the median run has {each.median_ratio:.3f} of its quiet score")
    return missed


# Output


def tables(ran: Sequence[Ran], found: Sequence[Setting]) -> str:
    """Return all tables."""
    return "\n".join([summary(found), not_passed(ran), kernels_table(compared(ran))])


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
            str(each.tries - each.runs),
            "" if each.better_share is None else f"{each.better_share:.1%}",
            "" if each.median_ratio is None else f"{each.median_ratio:.3f}",
            f"{each.wall_s:.0f}",
        )
        for each in found
    ]
    head = ("beside", "runs", "passed", "made again", "better than quiet by", "median score / quiet", "wall time, s")
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


def kernels_table(beside: Sequence[Compared]) -> str:
    """Return a table of all kernels, each with its median ratios; the one with the largest busy ratio comes first."""
    of_kernel: dict[str, list[Compared]] = {}
    for each in beside:
        of_kernel.setdefault(each.ran.kernel, []).append(each)
    ratios = {name: {count: median_ratio(own, count) for count in NEIGHBOURS} for name, own in of_kernel.items()}
    rows = [
        (
            name,
            f"{statistics.median([each.quiet_ns for each in of_kernel[name]]) / 1e3:.1f}",
            *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios[name].values()),
            f"{max(each.better_share for each in of_kernel[name]):.1%}",
        )
        for name in sorted(ratios, key=lambda name: -(ratios[name][NEIGHBOURS[-1]] or 0))
    ]
    beside_each = [f"beside {neighbours_text(count)}" for count in NEIGHBOURS]
    return table("Kernels", ("kernel", "quiet score, us", *beside_each, "better than quiet by"), rows)


def median_ratio(beside: Sequence[Compared], neighbours: int) -> float | None:
    """Return the median ratio of the runs with as many neighbours; None without such runs."""
    ratios = [each.ratio for each in beside if each.ran.neighbours == neighbours]
    return statistics.median(ratios) if ratios else None


def neighbours_text(count: int) -> str:
    """Return how many neighbours there are, in words."""
    return {0: "no neighbour", 1: "one neighbour"}.get(count, f"{count} neighbours")


if __name__ == "__main__":
    sys.exit(main())
