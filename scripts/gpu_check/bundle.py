"""Make `gpu-check.pyz`: one file with the judge, its tasks and the cheats, for a GPU node without network or install.

The tasks are read here, where the libraries for that are, and travel as the job files that the harness reads.
"""

import dataclasses
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from job_folders import parts  # noqa: E402 - found by the line above
from order import CASE_OF, CLOCK_CASES, GPU_TESTS, TASKS, Entry, order  # noqa: E402

from hpc_board.catalog.folders import read_task  # noqa: E402
from hpc_board.harness.bundle import harness_bytes  # noqa: E402
from hpc_board.model.gpu import Cluster, Device, Gpu, Sandbox, SandboxRuntime  # noqa: E402
from hpc_board.model.task import Mode, Task, TaskFile, Timeouts  # noqa: E402

CHEATED = "vectoradd_py"
GPU = Gpu("GPU", Cluster("here", "local"), Device.CUDA)
SANDBOXED = dataclasses.replace(GPU, sandbox=Sandbox(SandboxRuntime.BUBBLEWRAP, setting="the GPU check"))
CLOCK_KERNELS = GPU_TESTS / "clocks" / "kernels.py"
MEMBERS = {"__main__.py": "check.py"} | {name: name for name in ("children.py", "table.py", "compare.py", "probe.py")}
MEMBERS["probe_gpu.py"] = "probe_gpu.py"


def main() -> int:
    """Write the file that the first argument names."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parents[1] / "build" / "gpu-check.pyz")
    target.parent.mkdir(parents=True, exist_ok=True)
    count = write(target, harness_bytes())
    print(f"{target}: {count} runs; on a machine with a GPU: python3 {target.name}")
    return 0


def write(target: Path, harness: bytes) -> int:
    """Write the bundle with a harness file, and return the number of its runs."""
    tasks = {path.parent.name: read_task(path.parent) for path in sorted(TASKS.glob("*/task.yml"))}
    tasks["clocks"] = clock_task(tasks[CHEATED])
    for_gpus = {name: task for name, task in tasks.items() if not task.gpus and name != "clocks"}
    entries = [described(entry, tasks, harness) for entry in order(for_gpus)]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in MEMBERS.items():
            archive.write(HERE / source, name)
        archive.write(CLOCK_KERNELS, "kernels.py")
        archive.writestr("harness.pyz", harness)
        archive.writestr("cases.json", json.dumps({name: dict(case) for name, case in CLOCK_CASES.items()}))
        archive.writestr("entries.json", json.dumps(entries))
    return len(entries)


def clock_task(like: Task) -> Task:
    """Return the task of the clock's kernels, which is its own reference."""
    code = CLOCK_KERNELS.read_text(encoding="utf-8")
    files = (TaskFile("submission.py", None), TaskFile("reference.py", code))
    cases = tuple(CLOCK_CASES.values())
    return dataclasses.replace(like, name="clocks", files=files, tests=cases[:1], benchmarks=cases)


def described(entry: Entry, tasks: dict[str, Task], harness: bytes) -> dict[str, Any]:
    """Return an entry with the files of its job folder."""
    found: dict[str, Any] = {
        name: getattr(entry, name)
        for name in ("stage", "kind", "name", "language", "seconds", "limit", "honest", "without")
    }
    found |= {"needs": list(entry.needs), "expected": ["pass"]}
    if entry.kind == "clock":
        return {**found, "cases": list(CLOCK_CASES), "files": files(entry, CLOCK_KERNELS, tasks["clocks"], harness)}
    path = entry.file
    if path is None:
        return found
    code = path.read_text(encoding="utf-8")
    task = tasks[entry.task or header(code, "#!POPCORN leaderboard ") or CHEATED]
    if entry.kind == "cheat":
        found |= {"expected": expected(path, code), "honest": honest_name(task, code)}
        found["needs"] += [need] if (need := header(code, "# Needs: ")) else []
        entry = dataclasses.replace(entry, case=CASE_OF[task.name])
    if entry.case:
        task = dataclasses.replace(task, benchmarks=(entry.case,))
    return {**found, "files": files(entry, path, task, harness)}


def files(entry: Entry, path: Path, task: Task, harness: bytes) -> dict[str, str]:
    """Return the files of a job folder, whose phases end before the check kills the run."""
    # A profile takes two phases.
    seconds = entry.limit / 2 if entry.mode is Mode.PROFILE else entry.limit
    phase = int(min(120, max(5, seconds - 5)))
    task = dataclasses.replace(
        task,
        limits={**task.limits, **entry.limits},
        flags=(*task.flags, *entry.flags),
        timeouts=Timeouts(phase, phase, phase),
    )
    gpu = SANDBOXED if entry.sandboxed else GPU
    code = path.read_text(encoding="utf-8")
    return parts(task, gpu, Mode(entry.mode), code=code, file_name=path.name, harness=harness)


def header(code: str, words: str) -> str:
    """Return the rest of the line that begins with the words; "" without one."""
    line = re.search(rf"^{re.escape(words)}(.+)$", code, re.MULTILINE)
    return line[1].strip() if line else ""


def honest_name(task: Task, code: str) -> str:
    """Return the name of the honest kernel whose time a cheat must not undercut."""
    return f"honest {header(code, '# Honest: ') or task.name.removesuffix('_py')}"


def expected(path: Path, code: str) -> list[str]:
    """Return the verdicts in a cheat's line `# Expected: one, or another`."""
    line = header(code, "# Expected: ")
    if not line:
        raise ValueError(f"{path} has no line `# Expected:`")
    return [word.strip() for word in line.split(",")]


if __name__ == "__main__":
    sys.exit(main())
