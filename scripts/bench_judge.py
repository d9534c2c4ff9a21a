"""Measure the cost of a judged run: processes, imports and seconds, beside KernelBot's figures for the same task.

Each run is made once under a tracer, which counts (process_trace.py), and several times without one, which take the
time. On a machine that does other things as well the least of the times says most, and CPU time more than wall time.
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
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from job_folders import STDLIB_KERNEL, stdlib_task, written
from process_trace import CannotTrace, Trace, counted_opens, traced

from hpc_board import bundled
from hpc_board.catalog.folders import read_task
from hpc_board.domain.result_json import decode_result
from hpc_board.harness.progress import PROGRESS
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.result import Result
from hpc_board.model.task import Mode, Task
from hpc_board.runs import job_folder

ROUNDS = 3
TRACED_TRIES = 8
"""The tracer can wake a process that the judge has stopped, which the judge takes for a deed of the submission."""
TASK = "identity_py"
EXAMPLE = Path(__file__).parents[1] / "examples" / TASK / "plain.py"
COMPILED = Path(__file__).parents[1] / "examples" / "vectoradd" / "faster.cpp"
COMPILER_PROPER = "cc1plus"
"""The program that g++ starts once for each compiled file."""
COMPILERS = ("nvcc", "hipcc", "g++", "c++", "clang++")
SEGFAULT = """\
import ctypes
import time


def custom_kernel(data):
    print(time.time(), flush=True)
    ctypes.string_at(0)
"""

# KernelBot's evaluation of its identity task on a CPU machine of two cores.
KERNELBOT = {
    Mode.RANKED: {"interpreters": 26.0, "imports": 20.0, "wall": 23.0},
    Mode.TEST: {"interpreters": 5.0, "imports": 4.0, "wall": 7.6},
}
KERNELBOT_COMPILATIONS = 6
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
    """Print the tables, and write them to a given page; return 1 if a run ended wrongly."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", type=Path, help="also write the tables, with the machine and the date, to this file")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"timed runs of each kind, by default {ROUNDS}")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is missing: pip install -e '.[torch]'", file=sys.stderr)
        return 2
    task = read_task(bundled.folder("tasks") / TASK)
    with tempfile.TemporaryDirectory(prefix="bench-judge-") as folder:
        try:
            text, good = tables(task, Path(folder), options.rounds)
        except CannotTrace as error:
            print(f"processes cannot be counted here: {error}", file=sys.stderr)
            return 2
    print(text)
    if options.page is not None and text:
        options.page.write_text(page(text), encoding="utf-8")
    return int(not good)


def tables(task: Task, scratch: Path, rounds: int) -> tuple[str, bool]:
    """Return all tables, and whether every run ended correctly."""
    kernel = EXAMPLE.read_text(encoding="utf-8")
    tried = {mode: [timed(scratch, task, mode, kernel) for _ in range(rounds)] for mode in (Mode.RANKED, Mode.TEST)}
    found = {mode: [run for run in runs if run.result.verdict == "pass"] for mode, runs in tried.items()}
    bare = [timed(scratch, stdlib_task(task), Mode.RANKED, STDLIB_KERNEL) for _ in range(rounds)]
    crashes = [timed(scratch, task, Mode.TEST, SEGFAULT) for _ in range(rounds)]
    for run in (*tried[Mode.RANKED], *tried[Mode.TEST], *bare):
        if run.result.verdict != "pass":
            print(f"an honest run ended as {run.result.verdict}: {run.result.message}", file=sys.stderr)
    if not all((*found.values(), bare, crashes)):
        return "", False
    counts = {mode: counted(scratch, task, mode, kernel) for mode in found}
    sections = [table(f"`{TASK}`, {mode}", mode_rows(mode, *counts[mode], runs)) for mode, runs in found.items()]
    compiled = traced_job(
        scratch,
        read_task(bundled.folder("tasks") / "vectoradd"),
        Mode.RANKED,
        COMPILED.read_text(encoding="utf-8"),
        COMPILED.name,
    )
    sections.append(table("Beside it", other_rows(found[Mode.RANKED], bare, crashes, compiled)))
    good = all(run.result.verdict == "pass" for runs in (*tried.values(), bare) for run in runs)
    return "\n".join(sections), good and all(run.result.verdict == "crash" for run in crashes)


Row = tuple[str, str, str, str]


def mode_rows(mode: Mode, trace: Trace, imports: int, runs: Sequence[Timed]) -> list[Row]:
    """Return the processes and the times of a run in this mode."""
    theirs = KERNELBOT[mode]
    wall = min(run.wall_s for run in runs)
    supervisor = max((kb for line, kb in trace.peak_kb if "supervise" in line), default=0)
    everybody = max((kb for _, kb in trace.peak_kb), default=0)
    compilers = ", ".join(f"{trace.started(name)} {name}" for name in COMPILERS if trace.started(name)) or "0"
    return [
        compared("Python interpreters started", trace.started("python"), theirs["interpreters"]),
        compared("imports of PyTorch from disk", imports, theirs["imports"]),
        compared("wall time, s", wall, theirs["wall"]),
        ("CPU time (user + system), s", f"{min(run.cpu_s for run in runs):.1f}", "", ""),
        ("processes in all, forks included", str(trace.processes), "", ""),
        ("programs started", str(len(trace.programs)), "", ""),
        ("compiler calls", compilers, "", ""),
        ("peak memory of the supervisor, MiB", f"{supervisor / 1024:.0f}", "", ""),
        ("peak memory of the largest process, MiB", f"{everybody / 1024:.0f}", "", ""),
    ]


def other_rows(ranked: Sequence[Timed], bare: Sequence[Timed], crashes: Sequence[Timed], compiled: Trace) -> list[Row]:
    """Return the times before a run's first measurement, and the delay of a crash report."""
    least, most = KERNELBOT_SEGFAULT_S
    crash = min(reported_after_s(run) for run in crashes)
    imported_s = min(timed_import() for _ in ranked)
    in_turn_s, ranked_s = KERNELBOT[Mode.RANKED]["imports"] * imported_s, min(run.wall_s for run in ranked)
    return [
        ("a Python that imports PyTorch and ends, s", f"{imported_s:.2f}", "", ""),
        compared("ranked, beside KernelBot's imports alone on this machine, s", ranked_s, round(in_turn_s)),
        ("start to the first test with PyTorch, s", first(ranked, "test"), "", ""),
        ("start to the first timed call with PyTorch, s", first(ranked, "benchmark"), "", ""),
        ("start to the first test without PyTorch, s", first(bare, "test"), "", ""),
        ("start to the first timed call without PyTorch, s", first(bare, "benchmark"), "", ""),
        ("a segmentation fault to its report, s", f"{crash:.3f}", f"{least:g} to {most:g}", f"{crash / least:.5f}"),
        compared("compilations of a ranked C++ submission", compiled.started(COMPILER_PROPER), KERNELBOT_COMPILATIONS),
    ]


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


def table(title: str, rows: Sequence[Row]) -> str:
    """Return a Markdown table."""
    lines = [f"## {title}", "", "| | here | KernelBot | ratio |", "|---|---:|---:|---:|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def page(text: str) -> str:
    """Return the page, with the machine of the figures."""
    return f"{INTRODUCTION}\n{machine_facts()}.\n\n{text}"


INTRODUCTION = f"""\
# Cost of a judged run

`make bench-judge` measures the bundled `{TASK}` with `examples/{TASK}/plain.py` on the CPU. Counts are exact, from a
run of their own under `ptrace` (`scripts/process_trace.py`); times are the minimum of several runs without a tracer.
KernelBot's figures come from its own identity task on a CPU machine with two cores, at another time. For a comparison
on one machine, the page also has the time of KernelBot's imports of PyTorch, which it makes one after the other, at
the cost of one import here.
"""


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
    job = new_job(scratch, task, mode, code, sys.executable)
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


def counted(scratch: Path, task: Task, mode: Mode, code: str) -> tuple[Trace, int]:
    """Return the processes of a job, and its imports of PyTorch from disk."""
    for _ in range(TRACED_TRIES):
        python, module = own_view_of_torch(Path(tempfile.mkdtemp(dir=scratch)))
        job = new_job(scratch, task, mode, code, str(python))
        with ExitStack() as held:
            imports = held.enter_context(counted_opens(module))
            trace = traced(["bash", job_folder.SCRIPT], cwd=job, env=environment(), output=job / "job.log")
            held.close()
            verdict = decode_result((job / job_folder.RESULT).read_bytes()).verdict
            found = trace, imports[0]
        if verdict == "pass":
            break
    else:
        print(f"the counted run in mode {mode} ended early, as {verdict}: its counts are too low", file=sys.stderr)
    return found


def traced_job(scratch: Path, task: Task, mode: Mode, code: str, file_name: str) -> Trace:
    """Return the processes of a job."""
    for _ in range(TRACED_TRIES):
        job = new_job(scratch, task, mode, code, sys.executable, file_name)
        trace = traced(["bash", job_folder.SCRIPT], cwd=job, env=environment(), output=job / "job.log")
        result = decode_result((job / job_folder.RESULT).read_bytes())
        if result.verdict == "pass":
            break
    else:
        print(f"the counted run of {file_name} ended as {result.verdict}: {result.message}", file=sys.stderr)
    return trace


def own_view_of_torch(folder: Path) -> tuple[Path, Path]:
    """Make a Python environment like this one, with a private file of PyTorch; return the paths of both.

    Each import reads `version.py` once: it has no compiled form here, and no other program reads its source.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise CannotTrace("PyTorch is missing")
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    view, real = site / "torch", Path(spec.origin).parent
    view.mkdir(parents=True)
    for path in real.iterdir():
        if path.name not in ("version.py", "__pycache__"):
            (view / path.name).symlink_to(path)
    (view / "version.py").write_bytes((real / "version.py").read_bytes())
    (site / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    return folder / "bin" / "python", view / "version.py"


def new_job(scratch: Path, task: Task, mode: Mode, code: str, python: str, file_name: str = "submission.py") -> Path:
    """Make a job folder."""
    gpu = Gpu("CPU", Cluster("here", "local"), Device.CPU, python=python)
    return written(Path(tempfile.mkdtemp(dir=scratch)), task, gpu, mode, code=code, file_name=file_name)


def environment() -> dict[str, str]:
    """Return the environment that a scheduler gives a job."""
    return {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "1"}


if __name__ == "__main__":
    sys.exit(main())
