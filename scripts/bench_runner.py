"""Measure runs at a runner of the local scheduler, beside the same runs as jobs of their own.

Both kinds take turns on this machine, so that a slow moment hits both. A template of the settings, with the text of the
included one, gives a run a job of its own.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from job_folders import written

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.result_json import decode_result
from hpc_board.domain.run import JobState
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.local.client import LocalScheduler

BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
HERE = Cluster("here", "local")
EXAMPLES = Path(__file__).parents[1] / "examples"
TESTED = {"PyTorch": "vectoradd_py/plain.py", "C++": "vectoradd/plain.cpp"}
"""The examples whose tests are timed."""

RANKED = ("vectoradd_py/plain.py", "softmax_py/plain.py", "reduction/plain.cpp")
"""The examples that are ranked."""

ROUNDS = 3


@dataclass(frozen=True)
class Batch:
    """Runs that were judged in turn: the wall time of all, and the results."""

    wall_s: float
    results: tuple[Result, ...]


class Board:
    """A board's job folders with a local scheduler, whose first job keeps the others waiting until all are sent."""

    def __init__(self, folder: Path, *, at_runner: bool) -> None:
        self.folder = folder
        self.scheduler = LocalScheduler(HERE, folder / "local" / "here")
        own = "" if at_runner else str(bundled.folder("job_templates") / "job.sh.j2")
        self.gpu = Gpu("CPU", HERE, Device.CPU, python=sys.executable, template=own)
        self.gate = folder / "runs" / "gate"
        self.gate.mkdir(parents=True)
        (self.gate / job_folder.SCRIPT).write_text("until [ -e go ]; do sleep 0.01; done\n")
        self._submit(self.gate)

    def _submit(self, folder: Path) -> JobKey:
        job = Job(f"{folder.name}-{os.getpid()}-{time.time_ns()}", folder, job_folder.SCRIPT, self.gpu, {}, 3600)
        return JobKey(job.name, self.scheduler.submit(job), BEGINNING)

    def judge(self, task: Task, mode: Mode, example: Path, runs: int) -> Batch:
        """Send `runs` runs of one file, and wait for their ends."""
        keys, folders = [], []
        for number in range(runs):
            there = written(self.folder, task, self.gpu, mode, code=example.read_text(), file_name=example.name)
            # The same run each time: its folder has another name.
            folders.append(there.rename(there.with_name(f"run{number}")))
            keys.append(self._submit(folders[-1]))
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
    """Judge an example on a new board."""
    example = EXAMPLES / name
    task = read_task(bundled.folder("tasks") / example.parent.name)
    with tempfile.TemporaryDirectory() as folder:
        found = Board(Path(folder), at_runner=at_runner).judge(task, mode, example, runs)
    for result in found.results:
        if result.verdict is not Verdict.PASS or ("runner" in result.provenance) != at_runner:
            sys.exit(f"{name}: {result.verdict}, not judged as it should be: {result.message}")
    return found


def tests(runs: int) -> str:
    """Return the table of test runs that wait for one slot."""
    lines = ["| test runs | own jobs, s each | runner, s each | runner x own |", "|---|---:|---:|---:|"]
    for kind, name in TESTED.items():
        own, runner = _rounds(name, Mode.TEST, runs)
        seconds = [statistics.median(each.wall_s for each in batches) / runs for batches in (own, runner)]
        lines.append(f"| {runs} of {kind} | {seconds[0]:.2f} | {seconds[1]:.2f} | {seconds[1] / seconds[0]:.2f} |")
    return "\n".join(lines)


def ranked(runs: int) -> str:
    """Return the table of ranked runs: their wall time, and the scores, each the median of all runs."""
    lines = [
        "| ranked runs | own jobs, s each | runner, s each | runner x own | score x own | spread of scores, own |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in RANKED:
        own, runner = _rounds(name, Mode.RANKED, runs)
        seconds = [statistics.median(each.wall_s for each in batches) / runs for batches in (own, runner)]
        scores = [[result.score_s or 0.0 for each in batches for result in each.results] for batches in (own, runner)]
        low, high = min(scores[0]), max(scores[0])
        lines.append(
            f"| {runs} of {name.partition('/')[0]} | {seconds[0]:.1f} | {seconds[1]:.1f} "
            f"| {seconds[1] / seconds[0]:.2f} | {statistics.median(scores[1]) / statistics.median(scores[0]):.2f} "
            f"| {low / statistics.median(scores[0]):.2f} to {high / statistics.median(scores[0]):.2f} |"
        )
    return "\n".join(lines)


def _rounds(name: str, mode: Mode, runs: int) -> tuple[Sequence[Batch], Sequence[Batch]]:
    own, runner = [], []
    for _ in range(ROUNDS):
        own.append(batch(name, mode, runs, at_runner=False))
        runner.append(batch(name, mode, runs, at_runner=True))
    return own, runner


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="the test runs of a batch")
    parser.add_argument("--ranked", type=int, default=2, help="the ranked runs of a batch, two at least")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, medians of {ROUNDS}\n")
    print(tests(arguments.runs), flush=True)
    print(f"\n{ranked(arguments.ranked)}")


if __name__ == "__main__":
    main()
