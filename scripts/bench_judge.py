"""Measure the cost of a judged run in seconds, beside KernelBot's figures for the same task.

Each run is made several times: on a machine that does other things as well the least of the times says most, and CPU
time more than wall time.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from job_folders import STDLIB_KERNEL, stdlib_task, written

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.result_json import decode_result
from hpc_board.harness.progress import PROGRESS
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder

ROUNDS = 3
TASK = "identity_py"
EXAMPLE = Path(__file__).parents[1] / "examples" / TASK / "plain.py"
SEGFAULT = """\
import ctypes
import time


def custom_kernel(data):
    print(time.time(), flush=True)
    ctypes.string_at(0)
"""

# KernelBot's evaluation of its identity task on a CPU machine of two cores.
KERNELBOT_S = {Mode.RANKED: 23.0, Mode.TEST: 7.6}
KERNELBOT_IMPORTS = 20
"""The imports of PyTorch from disk in a ranked run, one after the other."""

KERNELBOT_SEGFAULT_S = (190.0, 220.0)


@dataclass(frozen=True)
class Timed:
    """One run without a tracer: seconds of wall and CPU time, and from its start to the first case of each kind."""

    wall_s: float
    cpu_s: float
    first_s: dict[str, float]
    result: Result
    reported_at: float


def main() -> int:
    """Print the table; return 1 if a run ended wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed runs of each kind, by default {ROUNDS}")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is missing: pip install -e '.[torch]'", file=sys.stderr)
        return 2
    task, kernel = read_task(bundled.folder("tasks") / TASK), EXAMPLE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="bench-judge-") as folder:

        def several(task: Task, mode: Mode, code: str, verdict: str = "pass") -> list[Timed]:
            runs = [timed(Path(folder), task, mode, code) for _ in range(options.rounds)]
            for run in runs:
                if run.result.verdict != verdict:
                    raise SystemExit(f"a run ended as {run.result.verdict}: {run.result.message}")
            return runs

        ranked, tested = several(task, Mode.RANKED, kernel), several(task, Mode.TEST, kernel)
        bare = several(stdlib_task(task), Mode.RANKED, STDLIB_KERNEL)
        crashes = several(task, Mode.TEST, SEGFAULT, "crash")
    print(f"{machine_facts()}.\n\n{table(rows(ranked, tested, bare, crashes))}")
    return 0


Row = tuple[str, str, str, str]


def rows(
    ranked: Sequence[Timed], tested: Sequence[Timed], bare: Sequence[Timed], crashes: Sequence[Timed]
) -> Iterator[Row]:
    """Yield the times of runs, of the way to their first measurement, and of a crash report."""
    for mode, runs in ((Mode.RANKED, ranked), (Mode.TEST, tested)):
        yield compared(f"{mode}, wall time, s", min(run.wall_s for run in runs), KERNELBOT_S[mode])
        yield f"{mode}, CPU time (user + system), s", f"{min(run.cpu_s for run in runs):.1f}", "", ""
    imported_s = min(timed_import() for _ in ranked)
    yield "a Python that imports PyTorch and ends, s", f"{imported_s:.2f}", "", ""
    imports = "ranked, beside KernelBot's imports alone on this machine, s"
    yield compared(imports, min(run.wall_s for run in ranked), round(KERNELBOT_IMPORTS * imported_s))
    for name, runs in (("with PyTorch", ranked), ("without PyTorch", bare)):
        yield f"start to the first test {name}, s", first(runs, "test"), "", ""
        yield f"start to the first timed call {name}, s", first(runs, "benchmark"), "", ""
    least, most = KERNELBOT_SEGFAULT_S
    crash = min(reported_after_s(run) for run in crashes)
    yield "a segmentation fault to its report, s", f"{crash:.3f}", f"{least:g} to {most:g}", f"{crash / least:.5f}"


def timed_import() -> float:
    """Return the seconds of a new Python that imports PyTorch and ends."""
    start = time.time()
    subprocess.run([sys.executable, "-c", "import torch"], env=environment(), check=True)
    return time.time() - start


def compared(name: str, ours: float, theirs: float) -> Row:
    """Return a row with both figures and their ratio."""
    text = f"{ours:g}" if float(ours).is_integer() else f"{ours:.1f}"
    return name, text, f"{theirs:g}", f"{ours / theirs:.2f}"


def first(runs: Sequence[Timed], phase: str) -> str:
    """Return the minimum time to a phase's first case, in words."""
    return f"{min(run.first_s[phase] for run in runs):.2f}"


def table(rows: Iterable[Row]) -> str:
    """Return a Markdown table."""
    lines = ["| | here | KernelBot | ratio |", "|---|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def machine_facts() -> str:
    """Return the machine of the figures, its Python and PyTorch, the date, and the load at the end."""
    return (
        f"{cpu_name()}, {len(os.sched_getaffinity(0))} CPUs, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}, PyTorch {importlib.metadata.version('torch')}; "
        f"{datetime.now(UTC):%Y-%m-%d}; a load average of {os.getloadavg()[0]:.1f} at the end"
    )


def cpu_name() -> str:
    """Return the kernel's name for the processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "a CPU")


def timed(scratch: Path, task: Task, mode: Mode, code: str) -> Timed:
    """Run a job like a scheduler, and time it."""
    job = new_job(scratch, task, mode, code)
    start = time.time()
    with (job / "job.log").open("wb") as log:
        process = subprocess.Popen(["bash", job_folder.SCRIPT], cwd=job, env=environment(), stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.time() - start
    report = job / job_folder.RESULT
    return Timed(
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
        first_s=first_cases(job / PROGRESS, start),
        result=decode_result(report.read_bytes()),
        reported_at=report.stat().st_mtime,
    )


def first_cases(progress: Path, start: float) -> dict[str, float]:
    """Return the time of each phase's first case, in seconds after `start`."""
    found: dict[str, float] = {}
    for line in progress.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["case"] == 1:
            found.setdefault(entry["phase"], datetime.fromisoformat(entry["at"]).timestamp() - start)
    return found


def reported_after_s(run: Timed) -> float:
    """Return the seconds from a crashing kernel's last output, a time, to its result."""
    return run.reported_at - float(run.result.stdout.text.split()[-1])


def new_job(scratch: Path, task: Task, mode: Mode, code: str) -> Path:
    """Make a job folder."""
    gpu = Gpu("CPU", Cluster("here", "local"), Device.CPU, python=sys.executable)
    return written(Path(tempfile.mkdtemp(dir=scratch)), task, gpu, mode, code=code)


def environment() -> dict[str, str]:
    """Return the environment that a scheduler gives a job."""
    return {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1"}


if __name__ == "__main__":
    sys.exit(main())
