"""Checks of a task: its files, and its own judge's verdicts on right and cheap answers on this machine."""

import sys
from collections.abc import Iterator, Sequence

import msgspec

from hpc_board.catalog.contract import NEEDED, defined, parsed
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.findings import findings
from hpc_board.errors import BoardError, InputError
from hpc_board.harness.lint.linter import LINT
from hpc_board.model.gpu import Device
from hpc_board.model.limits import Limits
from hpc_board.model.lint import LINT_BYTES_MAX, Lint
from hpc_board.model.task import ISOLATED, OWN, Task
from hpc_board.model.text import printable
from hpc_board.runs.drafts import check_support
from hpc_board.task_check.local_job import local_gpu, local_job

CASES_MAX = 20
SECONDS = 300

_OPTIONAL = ("ref_kernel", "minimal_work")


class Bounds(msgspec.Struct, frozen=True):
    """The limits of a check: the kind of device, the Python, the number of cases, and the seconds."""

    device: Device = Device.CPU
    python: str = sys.executable
    cases_max: int = CASES_MAX
    seconds: int = SECONDS


class Checked(msgspec.Struct, frozen=True):
    """A checked task: the functions that its reference defines, the facts, and the diagnostics."""

    task: Task
    functions: tuple[str, ...]
    lint: Lint
    findings: tuple[Diagnostic, ...]

    @property
    def sound(self) -> bool:
        """Return whether no finding lets submissions cheat, or makes all of them fail."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def check(task: Task, bounds: Bounds) -> Checked:
    """Check `task`; its judge runs only if its files are usable.

    Raises:
        BoardError: the judge did not start, left no result, or lacks a requirement on this machine.
    """
    functions, found = _defined(task)
    if not found:
        found += list(_of_files(task, functions))
    lint = Lint()
    if task.harness == ISOLATED and all(finding.severity is Severity.WARNING for finding in found):
        lint = _lint_in_job(task, bounds)
        found += findings(task, lint)
    ordered = sorted(found, key=lambda finding: finding.severity is Severity.WARNING)
    return Checked(task, functions, lint, tuple(ordered))


def _defined(task: Task) -> tuple[tuple[str, ...], list[Diagnostic]]:
    """Return the functions of the contract that reference.py defines, and a diagnostic if it cannot be read."""
    text = task.text("reference.py")
    if text is None:
        return (), []
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = printable(f"reference.py, line {getattr(error, 'lineno', None) or '?'}: {error}", 500)
        return (), [Diagnostic(Severity.ERROR, "syntax", message, "Correct this line.")]
    named = defined(tree)
    # A star import may define any of them; the judge will find out.
    return tuple(name for name in (*NEEDED, *_OPTIONAL) if name in named or "*" in named), []


def _of_files(task: Task, functions: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Yield the faults of a task's files, before any of its code runs."""
    for warning in task.warnings:
        yield Diagnostic(Severity.WARNING, "task_file", f"task.yml, {warning}", "Correct the key, or remove it.")
    try:
        check_support(task)
    except InputError as error:
        yield Diagnostic(Severity.ERROR, "not_run", error.message, error.hint)
        return
    if task.harness == OWN:
        yield _own_eval(task, [name for name in NEEDED if name not in functions])
    if "ref_kernel" not in functions and task.harness == ISOLATED:
        yield Diagnostic(
            Severity.WARNING,
            "no_ref_kernel",
            "reference.py does not define ref_kernel: no type and shape is compared, and no answer can be probed",
            "Define ref_kernel(data), which returns the right answer.",
        )
    if not task.description.strip():
        yield Diagnostic(Severity.WARNING, "no_description", "the task has no description", "Say what to implement.")
    if not task.tests and not task.benchmarks:
        yield Diagnostic(
            Severity.ERROR, "no_cases", "the task has no cases, so that nothing can be judged", "Add tests."
        )
        return
    for name, cases in (("tests", task.tests), ("benchmarks", task.benchmarks)):
        if not cases:
            message = f"the task has no {name}, so that no user can be ranked"
            yield Diagnostic(Severity.WARNING, f"no_{name}", message, f"Add `{name}` to task.yml.")


def _own_eval(task: Task, missing: Sequence[str]) -> Diagnostic:
    """Return the diagnostic of a task with its own eval, and the steps to hpc-board's judge."""
    hint = "Set hpc_board.harness to isolated, and check again: its reference.py defines what the judge needs."
    if task.text("reference.py") is None:
        hint = f"For harness: isolated, write a reference.py that defines {', '.join(NEEDED)} and ref_kernel."
    elif missing:
        hint = f"For harness: isolated, reference.py has to define {' and '.join(missing)}."
    if task.multi_gpu:
        hint = "Nothing else can judge it: the judge of hpc-board takes tasks for one GPU alone."
    message = (
        "its own eval judges, which shares its process with the submission: that can change clock and verdict, and "
        "nothing of it was tried here"
    )
    return Diagnostic(Severity.WARNING, "own_eval", message, hint)


def _lint_in_job(task: Task, bounds: Bounds) -> Lint:
    """Run the harness's lint in a process that starts like a job."""
    with local_job(task, local_gpu(bounds.device, bounds.python)) as job:
        limits = (str(bounds.cases_max), str(bounds.seconds))
        seconds = _seconds_at_most(task, bounds)
        data = job.outcome("lint", *limits, timeout_seconds=seconds, file=LINT, bytes_max=LINT_BYTES_MAX)
    try:
        lint = msgspec.json.decode(data, type=Lint)
    except msgspec.DecodeError as error:
        raise BoardError(f"what the judge left cannot be read: {error}") from error
    if lint.of_machine:
        raise BoardError(
            f"the task was not checked: {printable(lint.message)}",
            hint="This machine lacks something, not the task: --device and --python say what to use of it.",
        )
    return lint


def _seconds_at_most(task: Task, bounds: Bounds) -> float:
    """Return the requested time, plus the longest time of the answers in progress at its end."""
    limits = Limits.of_task(task.limits, bounds.device)
    return bounds.seconds + 3 * limits.load_seconds + 6 * limits.judge_seconds + 60
