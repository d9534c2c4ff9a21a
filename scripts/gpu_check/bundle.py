"""Make `gpu-check.pyz`: one file with the judge, its tasks and the cheats, for a GPU node without network or install.

The tasks are read here, where the libraries for that are, and travel as the job files that the harness reads.
"""

import dataclasses
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from job_folders import parts  # noqa: E402 - found by the line above

from hpc_board.catalog.folders import read_task  # noqa: E402
from hpc_board.harness.bundle import harness_bytes  # noqa: E402
from hpc_board.model.gpu import Cluster, Device, Gpu  # noqa: E402
from hpc_board.model.task import Language, Mode, Task, TaskFile  # noqa: E402

TASKS, EXAMPLES, GPU_TESTS = ROOT / "tasks", ROOT / "examples", ROOT / "tests" / "gpu"
CHEATED = "vectoradd_py"
_CHECK = """


def ref_kernel(data):
    return custom_kernel(data)


def check_implementation(data, output):
    return torch.equal(output, custom_kernel(data))
"""
LANGUAGES = {"py": "PyTorch", "triton": "Triton", "cu": "CUDA"}
GPU = Gpu("GPU", Cluster("here", "local"), Device.CUDA)

Entry = dict[str, Any]


def main() -> int:
    """Write the file that the first argument names."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "gpu-check.pyz")
    target.parent.mkdir(parents=True, exist_ok=True)
    entries = [*clocks(), *kernels(), *cheats()]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in (("__main__.py", "check.py"), ("compare.py", "compare.py"), ("table.py", "table.py")):
            archive.write(Path(__file__).with_name(source), name)
        archive.writestr("harness.pyz", harness_bytes())
        archive.writestr("entries.json", json.dumps(entries))
    print(f"{target}: {len(entries)} runs; on a machine with a GPU: python3 {target.name}")
    return 0


def clocks() -> Iterator[Entry]:
    """Each file of tests/gpu/clocks: a kernel that other clocks time as well, as a task of its own."""
    like = read_task(TASKS / CHEATED)
    for path in sorted((GPU_TESTS / "clocks").glob("[a-z]*.py")):
        code = path.read_text(encoding="utf-8")
        files = [TaskFile("submission.py", None), TaskFile("reference.py", code + _CHECK)]
        cases = ({"seed": 1},)
        task = dataclasses.replace(like, name=path.stem, files=tuple(files), tests=cases, benchmarks=cases)
        sent = parts(task, GPU, Mode.BENCHMARK, code=code, file_name="kernel.py")
        yield {
            "kind": "clock",
            "name": path.stem,
            "language": "py",
            "expected": ["pass"],
            "files": sent,
            "kernel": code,
        }


def kernels() -> Iterator[Entry]:
    """A submission to each bundled task for GPUs in each language; a missing one is named."""
    tasks = [read_task(path.parent) for path in sorted(TASKS.glob("*/task.yml"))]
    for task in (each for each in tasks if not each.gpus):
        for language, words in LANGUAGES.items():
            found = submission_for(task, language)
            entry = {"kind": "kernel", "name": task.name, "language": language, "expected": ["pass"]}
            if found is None:
                yield {**entry, "left_out": f"there is no {words} submission for {task.name}"}
            else:
                yield {**entry, "files": parts(task, GPU, Mode.RANKED, code=found.read_text(), file_name=found.name)}


def submission_for(task: Task, language: str) -> Path | None:
    """The file to submit: an example, else a template of the task."""
    stem, folder = task.name.removesuffix("_py"), TASKS / task.name
    candidates = {
        "py": [EXAMPLES / task.name / "faster.py", folder / "template.py"],
        "triton": [GPU_TESTS / "submissions" / f"{stem}_triton.py", folder / "template_triton.py"],
        "cu": [EXAMPLES / task.name / "plain.cu", folder / "template.cu"],
    }[language]
    accepted = Language.CU if language == "cu" else Language.PY
    return next((path for path in candidates if path.exists()), None) if accepted in task.accepted else None


def cheats() -> Iterator[Entry]:
    """Each file of tests/gpu/cheats, with the verdicts that it has to end with."""
    for path in sorted((GPU_TESTS / "cheats").glob("*.py")):
        code = path.read_text(encoding="utf-8")
        header = re.search(r"^#!POPCORN leaderboard (\S+)$", code, re.MULTILINE)
        task = read_task(TASKS / (header[1] if header else CHEATED))
        files = parts(task, GPU, Mode.RANKED, code=code, file_name=path.name)
        named = {"name": path.stem, "language": "py", "task": task.name}
        yield {"kind": "cheat", **named, "expected": expected(path, code), "files": files}


def expected(path: Path, code: str) -> list[str]:
    """The verdicts in a cheat's line `# Expected: one, or another`."""
    line = re.search(r"^# Expected: (.+)$", code, re.MULTILINE)
    if line is None:
        raise ValueError(f"{path} has no line `# Expected:`")
    return [word.strip() for word in line[1].split(",")]


if __name__ == "__main__":
    sys.exit(main())
