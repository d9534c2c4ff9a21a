"""Read every task of a checkout of GPU MODE's reference-kernels, or of KernelBot's examples, and print a table of them.

    python scripts/corpus.py CHECKOUT [--judge]

A row is a task folder: its competitions, whether it can be read with them and by itself, its harness with the reason
for it, and its languages.
With --judge it also has the findings of `hpc-board task check`, and the verdict of each solution in the folder by the
judge and by the task's own eval, all on this machine's processor: the task and its solutions are moved to it, with the
smallest benchmark alone. A verdict that a solution in `correct` or `wrong` should not have is marked with `!`. The
judge confines the tasks' code. The exit code is 1 if a folder cannot be read.
"""

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board.catalog import competition, sources
from hpc_board.catalog.contract import NEEDED, missing
from hpc_board.catalog.folders import TASK_FILE
from hpc_board.domain.draft import Source
from hpc_board.errors import BoardError
from hpc_board.model.result import Verdict
from hpc_board.model.task import ISOLATED, OWN, CaseValue, Mode, Task, TaskFile, Timeouts
from hpc_board.task_check.lint import Bounds, check
from hpc_board.task_check.local_job import try_out

CASES_MAX, SECONDS = 4, 120
"""The most cases that are checked, and the time for a check, for the tests and for the benchmark."""

HEADS = ("folder", "competitions", "read", "harness", "why", "languages")
JUDGED = ("findings", "by the judge", "by its eval")
SOLUTIONS = ("solutions/*/*", "submissions/*.py", "submission*.py")
QUICK = {"workers": 1, "rows": 1, "row_calls": 5, "burst_calls": 5, "measure_seconds": 0, "first_call_seconds": 300}
"""The limits of the judge here: verdicts are asked for, and no scores; a first call compiles for a minute."""

GPU_ALONE = re.compile(r"triton|load_inline|cutlass|cuda\.bindings|helion|__global__")
"""Parts of a solution that no processor runs."""

NO_GPU = """\
import time as _time

import torch as _torch


class _Event:
    def __init__(self, **_):
        self.at = 0.0

    def record(self, *_):
        self.at = _time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return (other.at - self.at) * 1000


_torch.cuda.Event = _Event
_torch.cuda.synchronize = lambda *_: None
"""
"""The first lines of an eval on a processor: PyTorch's events read the clock, and there is no device to wait for."""


def main() -> int:
    """Print the table, and return 1 if a folder cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--judge", action="store_true", help="run the judge of each task, too (minutes)")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    named = named_in_competitions(checkout)
    folders = sorted(file.parent for file in checkout.rglob(TASK_FILE))
    sys.stdout.write(f"Commit {commit(checkout)}: {len(folders)} task folders.\n\n")
    heads = (*HEADS, *(JUDGED if options.judge else ()))
    sys.stdout.write(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|\n")
    unread = 0
    for folder in folders:
        cells = row(folder, named.get(folder, {}), judge=options.judge)
        unread += cells[1] != "yes"
        cells = [str(folder.relative_to(checkout)), *cells]
        sys.stdout.write(f"| {' | '.join(in_cell(cell, checkout) for cell in cells)} |\n")
        sys.stdout.flush()
    return 1 if unread else 0


def named_in_competitions(checkout: Path) -> Mapping[Path, Mapping[str, str]]:
    """Return for each task folder the competitions that name it, each with the fault of the folder there, or none."""
    found: dict[Path, dict[str, str]] = {}
    for file in sorted(each for each in checkout.rglob("*") if each.suffix in competition.ENDINGS and each.is_file()):
        if file.name == TASK_FILE or not competition.is_competition(file):
            continue
        faults = {Path(error.file).parent: error.message for error in competition.read_competition(file).faults}
        for each in competition.directories(file):
            folder = (file.parent / each).resolve()
            found.setdefault(folder, {})[file.stem] = faults.get(folder, "")
    return found


def row(folder: Path, competitions: Mapping[str, str], *, judge: bool) -> Sequence[str]:
    """Return the cells of a task folder after its name."""
    faults = [f"in {name}: {flat(fault)}" for name, fault in competitions.items() if fault]
    names = ", ".join(competitions) or "-"
    try:
        (task,) = sources.tasks_without_faults(folder)
    except BoardError as error:
        unread = names, f"no: {flat(error.message)}", "", "", ""
        return (*unread, *("" for _ in JUDGED)) if judge else unread
    languages = " ".join(map(str, task.accepted))
    read = names, f"no, {faults[0]}" if faults else "yes", task.harness, why(task), languages
    if not judge:
        return read
    here = on_this_processor(task)
    verdicts = [", ".join(verdicts_by(replace(here, harness=each), folder)) or "-" for each in (ISOLATED, OWN)]
    return (*read, ", ".join(found(here)) or "none", *verdicts)


def why(task: Task) -> str:
    """Return the reason for a task's harness: several GPUs, or the functions that its reference has or lacks."""
    lacks = missing(task.text("reference.py") or "")
    if task.multi_gpu:
        return "several GPUs"
    return f"no {' and '.join(lacks)}" if lacks else f"has {' and '.join(NEEDED)}"


def on_this_processor(task: Task) -> Task:
    """Return a task whose Python files and cases fit this machine's processor."""
    files = tuple(TaskFile(each.name, each.text and moved(each.name, each.text, task)) for each in task.files)
    smallest = tuple(sorted(task.benchmarks, key=size)[:1])
    timeouts = Timeouts(SECONDS, SECONDS, SECONDS)
    return replace(task, files=files, benchmarks=smallest, gpus=(), limits=QUICK, timeouts=timeouts)


def moved(name: str, text: str, task: Task) -> str:
    """Return the text of a task's file with the processor instead of a GPU."""
    text = re.sub(r"""(["'])cuda(:0)?\1""", '"cpu"', text).replace(".cuda()", ".cpu()")
    return f"{NO_GPU}{text}" if name == task.config.get("main") else text


def size(case: Mapping[str, CaseValue]) -> int:
    """Return the product of a case's whole numbers without its seed, for the order of cases."""
    return math.prod(value for key, value in case.items() if key != "seed" and isinstance(value, int))


def verdicts_by(task: Task, folder: Path) -> Iterator[str]:
    """Yield each solution of a task's folder with its verdict by one kind of harness."""
    needed = "reference.py" if task.harness == ISOLATED else str(task.config.get("main"))
    if task.text(needed) is None or (task.harness == ISOLATED and (task.multi_gpu or missing(task.text(needed) or ""))):
        return
    if task.harness == OWN and "cuda.is_available" in (task.text(needed) or ""):
        yield "its eval runs only on a GPU"
        return
    for file in sorted(each for pattern in SOLUTIONS for each in folder.glob(pattern)):
        name = str(file.relative_to(folder)).removeprefix("solutions/")
        text = file.read_text(encoding="utf-8") if file.suffix == ".py" else ""
        if file.suffix != ".py" or GPU_ALONE.search(text):
            yield f"{name}: only for a GPU"
            continue
        verdict = verdict_of(Source(file.name, moved(file.name, text, task)), task)
        passed = verdict == Verdict.PASS.value
        right = {"correct": passed, "wrong": not passed}.get(file.parent.name, True)
        yield f"{name}: {verdict}{'' if right else ' !'}"


def verdict_of(source: Source, task: Task) -> str:
    """Return the verdict of a solution on the tests, or if it passes these on the benchmark."""
    verdict = Verdict.PASS
    try:
        for mode in (Mode.TEST, Mode.BENCHMARK):
            if verdict is Verdict.PASS:
                verdict = try_out(source, task, mode).result.verdict
    except BoardError as error:
        return f"not judged ({flat(error.message)})"
    return verdict.value


def found(task: Task) -> Iterator[str]:
    """Yield the findings of a task's check, or the reason why this machine has none."""
    try:
        checked = check(task, Bounds(cases_max=CASES_MAX, seconds=SECONDS))
    except BoardError as error:
        yield f"not checked: {flat(error.message)}"
        return
    yield from dict.fromkeys(f"{each.severity}: {each.subject}" for each in checked.findings)


def in_cell(text: str, checkout: Path) -> str:
    """Return a text for a cell of the table, without the place of the checkout."""
    return text.replace(f"{checkout}/", "").replace("|", "\\|")


def flat(text: str) -> str:
    """Return the first 200 characters of a message on one line."""
    return " ".join(text.split())[:200]


def commit(checkout: Path) -> str:
    """Return the commit of a checkout; "unknown" for a folder without git."""
    asked = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
