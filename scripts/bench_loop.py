"""Measure the costs of a loop of submissions: bytes, runs an hour, one hang, an agent's tokens, gains that are denied.

"before" is the long form or the former way, which is still there, and measured in turns with the other. The exit code
is 1 if a goal is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_judge import machine_facts
from bench_power import shares
from bench_runner import GPU, Client, each_s, held, rounds

from hpc_board.model.task import Mode
from tests.agents import BYTES_OF_TOKEN, tuned
from tests.e2e.boards import board_files
from tests.noisy_runs import BUSY, QUIET

TASK = "heat"
EXAMPLE = f"{TASK}/plain.py"
HANGING = "def custom_kernel(data):\n    while True:\n        pass\n"
GAIN = 1.25


@dataclass(frozen=True)
class Row:
    """A measured quantity: as it was, as it is, and the goal, which is a bound from above unless it is `least`."""

    name: str
    before: str
    now: float
    goal: float
    unit: str = ""
    least: bool = False

    @property
    def is_met(self) -> bool:
        """Return whether the goal is met."""
        return self.now >= self.goal if self.least else self.now <= self.goal

    @property
    def text(self) -> str:
        """Return the row of the table."""
        now, goal = (f"{each:,.4g}{self.unit}" for each in (self.now, self.goal))
        return f"| {self.name} | {self.before} | {now} | {'at least' if self.least else 'at most'} {goal} |"


def main() -> int:
    """Print the table of the chosen parts; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=60, help="the runs of a batch")
    given = parser.parse_args()
    if unknown := set(given.parts).difference(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    missed = False
    print("| | before | now | goal |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="bench-loop-") as name:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/bytecode"
        for part in given.parts or PARTS:
            for row in PARTS[part](Path(name) / part, given.runs):
                print(row.text, flush=True)
                missed |= not row.is_met
    print(f"\n{machine_facts()}.")
    return int(missed)


def answers(folder: Path, _: int) -> Iterator[Row]:
    """Yield the bytes of the answer to a ranked submission."""
    client = Client(board_files(folder, slurm=False))
    (kernel,) = client.kernels(EXAMPLE, 1)
    words = ("submit", kernel, "--task", TASK, "--gpu", GPU, "--mode", "ranked", "--if-new", "--wait")
    full, brief = (len(client.run(*words, f"--json={form}").encode()) for form in ("full", "brief"))
    yield Row("bytes of a ranked answer that an agent reads", f"{full:,}", brief, 450)


def batches(_: Path, runs: int) -> Iterator[Row]:
    """Yield the runs an hour of a batch in mode test on one slot, as jobs of their own and at a runner."""
    own_s, runner_s = map(each_s, rounds(EXAMPLE, Mode.TEST, runs))
    name = f"of {runs} variants in test mode on one slot, an hour"
    yield Row(name, f"{3600 / own_s:,.0f}", 3600 / runner_s, 7000, least=True)


def hangs(folder: Path, runs: int) -> Iterator[Row]:
    """Yield the part of a batch's time that a kernel takes that never ends."""
    client = Client(board_files(folder, slurm=False))
    kernels = client.kernels(EXAMPLE, runs - 1)
    kernels.insert(runs // 2, client.files.kernel(HANGING, "hanging.py"))
    words = ("--task", TASK, "--gpu", GPU, "--mode", "test", "--wait", "--json")
    with held(client):
        began = time.monotonic()
        argv = client.files.command("submit", *kernels, *words)
        done = subprocess.run(argv, env=client.environ, capture_output=True, text=True, check=False)
        wall_s = time.monotonic() - began
    found = [run for submission in json.loads(done.stdout) for run in submission["runs"]]
    client.check_places(at_runner=True)
    (hung,) = (run for run in found if run["verdict"] != "pass")
    if hung["verdict"] != "timeout":
        sys.exit(f"the hanging kernel has the verdict {hung['verdict']}: {hung['message']}")
    share = 100 * hung["usage"]["elapsed_seconds"] / wall_s
    yield Row(f"one hang in a batch of {runs}, part of its time", "", share, 5, " %")


def agents(folder: Path, _: int) -> Iterator[Row]:
    """Yield the tokens and the calls of ten tuning steps by the tools for agents."""
    files = board_files(folder, slurm=False)
    client, _runs = tuned({**os.environ, **files.environ}, "--config", str(files.settings), gpu=GPU)
    for call in client.calls:
        print(f"{call.tool:10} {call.sent:6} {call.received:6}", file=sys.stderr)
    name = f"tokens of ten tuning steps by tools, at {BYTES_OF_TOKEN} bytes each"
    yield Row(name, "", client.tokens, 6000)
    yield Row("calls of these steps", "", len(client.calls), 25)


def gains(_: Path, __: int) -> Iterator[Row]:
    """Yield the part of true gains that a comparison denies, by Welch's test and by `compare`."""
    for name, noise in (("quiet", QUIET), ("busy", BUSY)):
        welch, found = shares(noise, 1, GAIN)
        title = f"true gains of {GAIN:.2f}x that are denied on a {name} CPU"
        yield Row(title, f"{100 * (1 - welch):.1f} %", 100 * (1 - found), 5, " %")


PARTS = {"answers": answers, "batches": batches, "hangs": hangs, "agents": agents, "gains": gains}


if __name__ == "__main__":
    sys.exit(main())
