"""Measure runs at runners beside the same runs as jobs of their own, and the cost of an idle runner.

Both kinds take turns, so that a slow moment of the machine hits both. Slurm is a real one, started on this machine
(tests/slurm/lab.py). On the local scheduler, a template of the settings with the text of the included one gives each of
several waiting runs a job of its own.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from bench_judge import machine_facts
from bench_slurm import Row, cpu_seconds, patched_environment, table
from job_folders import written

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.result_json import decode_result
from hpc_board.domain.run import JobState
from hpc_board.harness.processes.tree import descendants_of
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder
from hpc_board.runs.dispatch import ARRAY_LEAST
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.local.client import LocalScheduler
from tests.e2e.boards import BoardFiles, board_files
from tests.slurm.lab import SlurmLab

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
HERE = Cluster("here", "local")
GPU = "CPU"
EXAMPLES = Path(__file__).parents[1] / "examples"
PYTORCH = "vectoradd_py/plain.py"
RANKED = (PYTORCH, "softmax_py/plain.py", "reduction/plain.cpp")
"""The examples that are ranked."""

ROUNDS = 3


@dataclass(frozen=True)
class Kind:
    """A kind of kernel: its example, and the goals from a save to the verdict in seconds, median and 95 %."""

    example: str
    goal_s: float
    goal_95_s: float | None = None


KINDS = {
    "PyTorch": Kind(PYTORCH, 1.0, 1.5),
    "NumPy": Kind("heat/plain.py", 0.8),
    "C++": Kind("vectoradd/plain.cpp", 3.0),
}
WAITING_GOAL_S, RANKED_GOAL, ARRAY_GOAL, MEMORY_GOAL_MIB, PROCESSOR_GOAL = 0.5, 0.8, 0.2, 500, 0.001

QUESTIONS = (
    "REQUEST_BUILD_INFO",
    "REQUEST_JOB_INFO",
    "REQUEST_JOB_USER_INFO",
    "REQUEST_PARTITION_INFO",
    "REQUEST_PING",
)
"""The requests of squeue and scontrol."""

OF_NODES = "MESSAGE_NODE_REGISTRATION_STATUS"
WARM_SECONDS = 30.0
"""Longer than the growth of a runner's pauses takes."""


@dataclass(frozen=True)
class Amounts:
    """The numbers of runs and of seconds of the measurements."""

    verdicts: int
    waiting: int
    ranked: int
    array: int
    idle_s: float


def main() -> None:
    """Print the tables of the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(PARTS)}")
    parser.add_argument("--verdicts", type=int, default=20, help="held: the verdicts of each kind")
    parser.add_argument("--waiting", type=int, default=20, help="waiting: the runs of a batch")
    parser.add_argument("--ranked", type=int, default=2, help="ranked: the runs of a batch, two at least")
    parser.add_argument("--array", type=int, default=300, help="array: the runs")
    parser.add_argument("--idle", type=float, default=60, help="idle: the seconds")
    given = parser.parse_args()
    if unknown := set(given.parts).difference(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    amounts = Amounts(given.verdicts, given.waiting, given.ranked, given.array, given.idle)
    with tempfile.TemporaryDirectory(prefix="bench-runner-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # An installed program has its byte code; a checkout must not be compiled by each command.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/bytecode"
        for part in given.parts or PARTS:
            print(PARTS[part](folder / part, amounts), flush=True)
    print(f"{machine_facts()}.")


# Boards that are asked by commands


class Client:
    """A board, asked by commands that are new processes."""

    def __init__(self, files: BoardFiles, **settings: object) -> None:
        self.files = files
        self.environ = {**os.environ, **files.environ}
        self._kernels = 0
        if settings:
            files.settings.write_text(yaml.safe_dump(yaml.safe_load(files.settings.read_text()) | settings))

    def run(self, *words: str | Path) -> str:
        """Return the output of a command, which must succeed."""
        argv = self.files.command(*words)
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{words[0]}: exit status {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def json(self, *words: str | Path) -> Any:
        """Return the printed JSON of a command."""
        return json.loads(self.run(*words, "--json"))

    def kernels(self, example: str, count: int) -> list[Path]:
        """Write changed copies of an example, which no cache knows."""
        source = EXAMPLES / example
        sign = "#" if source.suffix == ".py" else "//"
        paths = []
        for _ in range(count):
            self._kernels += 1
            text = f"{source.read_text()}\n{sign} {self._kernels}\n"
            paths.append(self.files.kernel(text, f"{source.stem}{self._kernels}{source.suffix}"))
        return paths

    def verdict_s(self, example: str, *options: str) -> float:
        """Return the seconds from a saved change of an example to the end of the command that prints its verdict."""
        start = time.perf_counter()
        self.submit(self.kernels(example, 1), example, *options)
        return time.perf_counter() - start

    def submit(self, kernels: Sequence[Path], example: str, *options: str) -> None:
        """Test copies of an example; all must pass."""
        task = example.partition("/")[0]
        self.run("submit", *kernels, "--task", task, "--gpu", GPU, "--mode", "test", *options, "--wait")

    def check_places(self, *, at_runner: bool) -> None:
        """End the program if a run was not judged at a runner, or as a job of its own."""
        found = {each["runner"] is not None for each in self.json("runs", "--limit", str(self._kernels))}
        if found != {at_runner}:
            sys.exit(
                f"{self.files.folder}: some runs were judged {'as jobs of their own' if at_runner else 'at runners'}"
            )


@contextmanager
def held(client: Client) -> Iterator[dict[str, Any]]:
    """Hold the GPU of a board until the block ends."""
    runner: dict[str, Any] = client.json("hold", GPU, "--for", "1h", "--wait")
    try:
        yield runner
    finally:
        client.run("release")


@contextmanager
def slurm_lab(folder: Path) -> Iterator[SlurmLab]:
    """Start a Slurm, to which this process and its children talk until the block ends."""
    folder.mkdir()
    with SlurmLab(folder / "lab") as lab, patched_environment(lab.environment):
        yield lab


def share_of(part: float, seconds: Sequence[float]) -> float:
    """Return the least of these times within which this part of them lies."""
    return sorted(seconds)[math.ceil(part * len(seconds)) - 1]


# From a save to the verdict


def held_section(folder: Path, amounts: Amounts) -> str:
    """Return the table of verdicts at a held GPU, on both schedulers."""
    rows = [*held_rows("local", folder / "local", amounts.verdicts, slurm=False)]
    with slurm_lab(folder / "slurm"):
        rows += held_rows("Slurm", folder / "slurm", amounts.verdicts, slurm=True)
    head = ("", "scheduler", "own job, median, s", "held, first, s", "median, s", "goal", "95 %, s", "goal", "x own")
    return table(f"From a save to the verdict, test mode, {amounts.verdicts} each", head, rows)


def held_rows(scheduler: str, folder: Path, count: int, *, slurm: bool) -> list[Row]:
    """Return the rows of a scheduler. Jobs of one board and a held GPU of another one take turns."""
    at_runner = Client(board_files(folder / "held", slurm=slurm))
    own = Client(board_files(folder / "own", slurm=slurm))
    rows: list[Row] = []
    with held(at_runner):
        for name, kind in KINDS.items():
            own.verdict_s(kind.example, "--fresh")
            first_s = at_runner.verdict_s(kind.example)
            own_s, held_s = [], []
            for _ in range(count):
                own_s.append(own.verdict_s(kind.example, "--fresh"))
                held_s.append(at_runner.verdict_s(kind.example))
            own_median_s, median_s = statistics.median(own_s), statistics.median(held_s)
            rows.append(
                (
                    name,
                    scheduler,
                    f"{own_median_s:.2f}",
                    f"{first_s:.2f}",
                    f"{median_s:.2f}",
                    f"{kind.goal_s:g}",
                    f"{share_of(0.95, held_s):.2f}",
                    f"{kind.goal_95_s:g}" if kind.goal_95_s else "",
                    f"{median_s / own_median_s:.2f}",
                )
            )
        at_runner.check_places(at_runner=True)
        own.check_places(at_runner=False)
    return rows


# Runs that wait for the one slot of the local scheduler


@dataclass(frozen=True)
class Batch:
    """Runs that were judged in turn: the wall time of all, and the results."""

    wall_s: float
    results: tuple[Result, ...]


class Queue:
    """Job folders with a local scheduler, whose first job keeps the others waiting until all are sent."""

    def __init__(self, folder: Path, *, at_runner: bool) -> None:
        self.folder = folder
        self.scheduler = LocalScheduler(HERE, folder / "local" / "here")
        self.request = "the same" if at_runner else ""
        self.gpu = Gpu(GPU, HERE, Device.CPU, python=sys.executable)
        self.gate = folder / "runs" / "gate"
        self.gate.mkdir(parents=True)
        (self.gate / job_folder.SCRIPT).write_text("until [ -e go ]; do sleep 0.01; done\n")
        self._submit(self.gate, "")

    def _submit(self, folder: Path, request: str) -> JobKey:
        name = f"{folder.name}-{os.getpid()}-{time.time_ns()}"
        job = Job(name, folder, job_folder.SCRIPT, self.gpu, {}, 3600, request=request)
        return JobKey(job.name, self.scheduler.submit(job), BEGINNING)

    def judge(self, task: Task, mode: Mode, example: Path, runs: int) -> Batch:
        """Send `runs` runs of one file, and wait for their ends."""
        keys, folders = [], []
        for number in range(runs):
            there = written(self.folder, task, self.gpu, mode, code=example.read_text(), file_name=example.name)
            # The same run each time: its folder has another name.
            folders.append(there.rename(there.with_name(f"run{number}")))
            keys.append(self._submit(folders[-1], self.request))
        (self.gate / "go").touch()
        began = time.monotonic()
        while any(
            news.state in (JobState.PENDING, JobState.RUNNING) for news in self.scheduler.poll(keys[-1:]).values()
        ):
            time.sleep(0.01)
        wall_s = time.monotonic() - began
        while list((self.folder / "runs").glob("*-runner")):
            time.sleep(0.01)
        return Batch(wall_s, tuple(decode_result((each / job_folder.RESULT).read_bytes()) for each in folders))


def batch(name: str, mode: Mode, runs: int, *, at_runner: bool) -> Batch:
    """Judge an example in a new queue."""
    example = EXAMPLES / name
    task = read_task(bundled.folder("tasks") / example.parent.name)
    with tempfile.TemporaryDirectory() as folder:
        found = Queue(Path(folder), at_runner=at_runner).judge(task, mode, example, runs)
    for result in found.results:
        if result.verdict is not Verdict.PASS or ("runner" in result.provenance) != at_runner:
            sys.exit(f"{name}: {result.verdict}, not judged as it should be: {result.message}")
    return found


def rounds(name: str, mode: Mode, runs: int) -> tuple[Sequence[Batch], Sequence[Batch]]:
    """Judge an example as jobs of their own and at a runner, some times in turn."""
    own, runner = [], []
    for _ in range(ROUNDS):
        own.append(batch(name, mode, runs, at_runner=False))
        runner.append(batch(name, mode, runs, at_runner=True))
    return own, runner


def each_s(batches: Sequence[Batch]) -> float:
    """Return the wall time of each run, the median of these batches."""
    return statistics.median(each.wall_s / len(each.results) for each in batches)


def waiting_section(_: Path, amounts: Amounts) -> str:
    """Return the table of test runs that wait for one slot."""
    rows = []
    for name, kind in KINDS.items():
        own_s, runner_s = map(each_s, rounds(kind.example, Mode.TEST, amounts.waiting))
        rows.append((name, f"{own_s:.2f}", f"{runner_s:.2f}", f"{WAITING_GOAL_S:g}", f"{runner_s / own_s:.2f}"))
    head = ("", "own jobs, s each", "runner, s each", "goal", "x own")
    return table(f"{amounts.waiting} test runs that wait for one slot, medians of {ROUNDS}", head, rows)


def ranked_section(_: Path, amounts: Amounts) -> str:
    """Return the table of ranked runs that wait: their wall time, and the scores, each the median of all runs."""
    rows = []
    for name in RANKED:
        batches = rounds(name, Mode.RANKED, amounts.ranked)
        own_s, runner_s = map(each_s, batches)
        own, runner = ([result.score_s or 0.0 for each in kind for result in each.results] for kind in batches)
        middle = statistics.median(own)
        rows.append(
            (
                name.partition("/")[0],
                f"{own_s:.1f}",
                f"{runner_s:.1f}",
                f"{runner_s / own_s:.2f}",
                f"{RANKED_GOAL:g}",
                f"{statistics.median(runner) / middle:.2f}",
                f"{min(own) / middle:.2f} to {max(own) / middle:.2f}",
            )
        )
    head = ("", "own jobs, s each", "runner, s each", "x own", "goal", "score x own", "goal: spread of own scores")
    return table(f"{amounts.ranked} ranked runs that wait for one slot, medians of {ROUNDS}", head, rows)


# Many runs on Slurm


@dataclass(frozen=True)
class Sent:
    """Runs of one command: the wall time until it has printed all verdicts, and the requests to the controller.

    Those of the jobs are the same however long these take; the client asks the more questions the longer it waits.
    """

    runs: int
    wall_s: float
    of_jobs: int
    of_client: int


def array_section(folder: Path, amounts: Amounts) -> str:
    """Return the table of many runs in one command: as one array on Slurm, and at a runner of the board."""
    with slurm_lab(folder) as lab:
        own = Client(board_files(folder / "own", slurm=True))
        at_runner = Client(board_files(folder / "runner", slurm=True), runners={"auto": 1})
        one = sent(lab, own, 1)
        alone = sent(lab, own, max(ARRAY_LEAST, amounts.array // 10), "--max-running", "1")
        array = sent(lab, own, amounts.array)
        runner = sent(lab, at_runner, amounts.array)
        own.check_places(at_runner=False)
        at_runner.check_places(at_runner=True)
        slots = lab.run("sinfo", "--noheader", "--format=%c", "--partition=cpu").strip()
    rows = []
    for name, each in (
        ("one job", one),
        (f"array of {alone.runs}, 1 at a time", alone),
        (f"array of {array.runs}, {slots} at a time", array),
        (f"{runner.runs} at one runner", runner),
    ):
        each_s = each.wall_s / each.runs
        shares = (
            (f"{runner.wall_s / runner.runs / each_s:.2f}", f"{ARRAY_GOAL:g}") if each in (alone, array) else ("", "")
        )
        goal = f" (goal {one.of_jobs})" if each is runner else ""
        rows.append(
            (name, f"{each.wall_s:.1f}", f"{each_s:.2f}", *shares, f"{each.of_jobs}{goal}", f"{each.of_client}")
        )
    head = ("", "wall, s", "s each", "runner x this", "goal", "requests to slurmctld for jobs", "of the client")
    return table("PyTorch test runs in one command, on Slurm", head, rows)


def sent(lab: SlurmLab, client: Client, count: int, *options: str) -> Sent:
    """Submit changed copies of the example for PyTorch, wait for them, and then for the ends of all jobs."""
    kernels = client.kernels(PYTORCH, count)
    lab.forget_rpcs()
    start = time.perf_counter()
    client.submit(kernels, PYTORCH, *options)
    wall_s = time.perf_counter() - start
    of_client = sum(count for name, count in lab.rpcs().items() if name in QUESTIONS)
    while lab.run("squeue", "--noheader"):
        time.sleep(1)
    of_jobs = sum(count for name, count in lab.rpcs().items() if name not in (*QUESTIONS, OF_NODES))
    return Sent(count, wall_s, of_jobs, of_client)


# An idle runner


def idle_section(folder: Path, amounts: Amounts) -> str:
    """Return the table of a local runner that has judged a run of PyTorch and waits for the next one."""
    client = Client(board_files(folder, slurm=False))
    with held(client):
        client.verdict_s(PYTORCH)
        job = job_of(folder)
        processes = [job, *descendants_of(job)]
        time.sleep(WARM_SECONDS)
        before_s = sum(map(cpu_seconds, processes))
        time.sleep(amounts.idle_s)
        processor = (sum(map(cpu_seconds, processes)) - before_s) / amounts.idle_s
        pss_mib = sum(memory_mib(pid, "Pss") for pid in processes)
        rss_mib = sum(memory_mib(pid, "Rss") for pid in processes)
    rows = [
        ("memory, shared pages counted once, MiB", f"{pss_mib:.0f}", f"{MEMORY_GOAL_MIB}"),
        (f"resident memory of its {len(processes)} processes, MiB", f"{rss_mib:.0f}", ""),
        ("processor of one, %", f"{100 * processor:.2f}", f"{100 * PROCESSOR_GOAL:g}"),
    ]
    return table(f"A runner with PyTorch, idle for {amounts.idle_s:g} s", ("", "reached", "goal"), rows)


def job_of(folder: Path) -> int:
    """Return the process of the only job whose folder is in this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            if len(argv) > 1 and argv[1].startswith(bytes(folder)) and argv[1].endswith(job_folder.SCRIPT.encode()):
                return int(entry.name)
    sys.exit(f"{folder}: no job runs")


def memory_mib(pid: int, name: str) -> float:
    """Return a sum over a process's memory, by its name in the kernel's list."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


PARTS: dict[str, Callable[[Path, Amounts], str]] = {
    "held": held_section,
    "waiting": waiting_section,
    "ranked": ranked_section,
    "array": array_section,
    "idle": idle_section,
}


if __name__ == "__main__":
    main()
