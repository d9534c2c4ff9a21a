"""Checks of a task: its files, and its own judge's verdicts on correct and bogus answers on this machine."""

import sys
from collections.abc import Iterator, Sequence

import msgspec

from hpc_board.catalog.contract import NEEDED, defined, parsed
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.errors import BoardError, InputError
from hpc_board.harness.lint.linter import LINT
from hpc_board.model.gpu import Device
from hpc_board.model.limits import Limits
from hpc_board.model.lint import LINT_BYTES_MAX, PROBES, UNMADE, CheckedCase, Lint, Probed
from hpc_board.model.result import Verdict
from hpc_board.model.task import ISOLATED, OWN, Task
from hpc_board.model.text import printable
from hpc_board.runs.drafts import check_support
from hpc_board.task_check.local_job import local_gpu, local_job

CASES_MAX = 20
SECONDS = 300

_MESSAGE_MAX = 300
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
    def passed(self) -> bool:
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
        found += findings(lint, task.accepts)
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
            "reference.py does not define ref_kernel: types and shapes are not compared, and no answers can be probed",
            "Define ref_kernel(data), which returns the right answer.",
        )
    if not task.description.strip():
        yield Diagnostic(Severity.WARNING, "no_description", "the task has no description", "Say what to implement.")
    if not task.tests and not task.benchmarks:
        yield Diagnostic(Severity.ERROR, "no_cases", "the task has no cases, so nothing can be judged", "Add tests.")
        return
    for name, cases in (("tests", task.tests), ("benchmarks", task.benchmarks)):
        if not cases:
            message = f"the task has no {name}, so no user can be ranked"
            yield Diagnostic(Severity.WARNING, f"no_{name}", message, f"Add `{name}` to task.yml.")


def _own_eval(task: Task, missing: Sequence[str]) -> Diagnostic:
    """Return the diagnostic of a task with its own eval, and the steps to hpc-board's judge."""
    hint = "Set hpc_board.harness to isolated, and check again: its reference.py defines what the judge needs."
    if task.text("reference.py") is None:
        hint = f"For harness: isolated, write a reference.py that defines {', '.join(NEEDED)} and ref_kernel."
    elif missing:
        hint = f"For harness: isolated, reference.py must define {' and '.join(missing)}."
    if task.multi_gpu:
        hint = "Nothing else can judge it: hpc-board's judge supports only single-GPU tasks."
    message = (
        "its own eval judges it, in the same process as the submission: a submission can change the clock and the "
        "verdict, and this was not tested here"
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
        raise BoardError(f"the result of the judge cannot be read: {error}") from error
    if lint.of_machine:
        raise BoardError(
            f"the task was not checked: {printable(lint.message)}",
            hint="The fault lies with this machine, not with the task: choose another device or Python with --device "
            "or --python.",
        )
    return lint


def _seconds_at_most(task: Task, bounds: Bounds) -> float:
    """Return the requested time, plus the longest time of the answers in progress at its end."""
    limits = Limits.of_task(task.limits, bounds.device)
    return bounds.seconds + 3 * limits.load_seconds + 6 * limits.judge_seconds + 60


def findings(lint: Lint, accepts: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield the diagnostics that follow from the facts about a task that `accepts` some wrong answers.

    An error lets submissions cheat, or fails all of them; the author may intend a warning. The subject is a code for
    scripts.
    """
    if lint.message:
        yield _error("unusable", lint.message, "Correct reference.py, then check the task again.")
    for failed in ([case for case in lint.cases if case.failure and case.lost is lost] for lost in (False, True)):
        if failed:
            code, hint = "raises", "Fix the exception; the traceback shows the line."
            if failed[0].lost:
                code, hint = "lost", "Make it return in time, or raise hpc_board.limits.judge_seconds."
            yield _error(code, f"{_places(failed)}: {failed[0].failure}", hint)
    unsteady = [case for case in lint.cases if not case.repeatable]
    if unsteady:
        yield _error(
            "random_inputs",
            f"the same seed gives different inputs in the next call, on {_places(unsteady)}",
            "Draw everything from a generator seeded with `seed` in generate_input, fill the buffers for outputs "
            "(torch.empty keeps old values), and keep no state between calls.",
        )
    yield from _where(
        [(case, case.repeatable and not case.seeded) for case in lint.cases if not case.failure],
        "ignores_seed",
        "a different seed gives the same inputs, so answers can be cached between calls,",
        "Draw the inputs from `seed`.",
    )
    probed = [(case, probed) for case in lint.cases for probed in case.probed]
    changing = [case for case, each in probed if each.probe == "again" and not each.same]
    if changing:
        message = f"ref_kernel gives different answers in each call on {_places(changing)}"
        hint = "Remove all randomness from ref_kernel, and use deterministic algorithms where available."
        yield Diagnostic(Severity.WARNING, "unsteady_reference", message, hint)
    raised = [(case, each) for case, each in probed if each.verdict == Verdict.TASK_ERROR]
    if raised:
        case, first = raised[0]
        more = len({each.probe for _, each in raised}) - 1
        what = PROBES[first.probe].title + (f" and {more} more answers" if more else "")
        message = f"the check fails on {what}, first on {_places([case])}: {_first_line(first)}"
        yield _error("raises", message, "Make check_implementation return (False, message) for such answers.")
    for name, probe in PROBES.items():
        seen = [(case, each) for case, each in probed if each.probe == name and each.verdict != UNMADE]
        refused = [each for each in seen if each[1].verdict not in (Verdict.PASS, Verdict.TASK_ERROR)]
        if probe.right and refused:
            places = _places([case for case, _ in refused])
            message = f"{probe.title} is rejected on {places}: {_first_line(refused[0][1])}"
            yield _error(f"refuses_{name}", message, probe.advice)
        elif probe.expected(accepts) == "refused":
            wrong = [(case, each.verdict == Verdict.PASS) for case, each in seen if not each.same]
            what = f"{probe.title}: the check accepts it"
            yield from _where(wrong, f"accepts_{name}", what, probe.advice)


def _error(code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, message, hint)


def _where(cases: Sequence[tuple[CheckedCase, bool]], code: str, what: str, hint: str) -> Iterator[Diagnostic]:
    """Yield a diagnostic for the cases that are marked: an error if a submission gains there.

    It gains if a benchmark case is among them, since it may treat cases differently, or if all cases are.
    """
    found = [case for case, marked in cases if marked]
    if found:
        gains = len(found) == len(cases) or any(case.phase == "benchmark" for case in found)
        severity = Severity.ERROR if gains else Severity.WARNING
        yield Diagnostic(severity, code, f"{what} on {_places(found)}", hint)


def _first_line(probed: Probed) -> str:
    return probed.message.partition("\n")[0][:_MESSAGE_MAX] or probed.verdict


def _places(cases: Sequence[CheckedCase]) -> str:
    """Return the first of the cases in full, and the number of the others."""
    more = len(cases) - 1
    return f"{cases[0].name} ({cases[0].spec})" + (f" and {more} more" if more else "")
