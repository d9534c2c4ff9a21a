"""Checks of a task: its files, and its judge's verdicts on correct and bogus answers and on its own submissions."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import msgspec

from hpc_board.catalog.contract import NEEDED, defined, parsed
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.draft import Source
from hpc_board.domain.gpus import runs_template
from hpc_board.errors import BoardError, InputError
from hpc_board.harness.lint.linter import LINT
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.limits import Limits
from hpc_board.model.lint import (
    INPUTS_ULP,
    LINT_BYTES_MAX,
    PROBES,
    UNMADE,
    CheckedCase,
    CheckedSubmission,
    Lint,
    Probed,
)
from hpc_board.model.result import Verdict
from hpc_board.model.task import ISOLATED, OWN, Task, Template, language_of
from hpc_board.model.text import one_line, printable
from hpc_board.runs.drafts import check_support
from hpc_board.runs.file_means import check_means
from hpc_board.task_check.local_job import LocalJob, local_gpu, local_job

Say = Callable[[str], object]
"""A callback with the present step of a check."""

CASES_MAX = 20
SECONDS = 300

_MESSAGE_MAX = 300
_OUT_OF_MEMORY, _KILLED = "out of memory", "signal 9"
_WRONG = (Verdict.WRONG_VALUE, Verdict.WRONG_NONFINITE)
_ROOM = 4
"""The margin of a submission that shows that an honest one passes, though inputs that are moved do not."""

_SIZE_MIN = 32
"""A key whose largest value is below is no size with a tail."""

HIDDEN_SEED_MIN = 2**40
"""The least seed that makes the hash of hidden cases too long to guess: one of them suffices, as it covers all."""

_OPTIONAL = ("ref_kernel", "minimal_work")


class Bounds(msgspec.Struct, frozen=True):
    """The limits of a check: the kind of device, the Python, the number of cases, and the seconds to begin steps in."""

    device: Device = Device.CPU
    python: str = sys.executable
    cases_max: int = CASES_MAX
    seconds: int = SECONDS


class Checked(msgspec.Struct, frozen=True):
    """A checked task: the functions that its reference defines, the facts, and the diagnostics.

    `submissions` are its templates and milestones.
    """

    task: Task
    functions: tuple[str, ...]
    lint: Lint
    submissions: tuple[CheckedSubmission, ...]
    findings: tuple[Diagnostic, ...]

    @property
    def passed(self) -> bool:
        """Return whether no finding lets submissions cheat, or makes all of them fail."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)


def check(task: Task, bounds: Bounds, say: Say = lambda _: None) -> Checked:
    """Check `task`; its judge runs only if its files are usable. `say` gets each step.

    Raises:
        BoardError: the judge did not start, left no result, or lacks a requirement on this machine.
    """
    functions, found = _defined(task)
    if not found:
        found += list(_of_files(task, functions))
    lint, submissions = Lint(), tuple[CheckedSubmission, ...]()
    if task.harness == ISOLATED and all(finding.severity is Severity.WARNING for finding in found):
        deadline = time.monotonic() + bounds.seconds
        lint = _lint_in_job(task, bounds, say)
        by_seed = list(forms_by_seed(lint, task))
        found += by_seed
        if not (lint.message or by_seed or any(case.failure or _raising(case) for case in lint.cases)):
            submissions = tuple(_checked_submissions(task, bounds, deadline, say))
        found += [*findings(lint, task.accepts, submissions), *findings_of_submissions(submissions)]
        found += [*sizes(task), *hidden_seeds(task)]
    ordered = sorted(found, key=lambda finding: finding.severity is Severity.WARNING)
    return Checked(task, functions, lint, submissions, tuple(ordered))


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


def _lint_in_job(task: Task, bounds: Bounds, say: Say) -> Lint:
    """Run the harness's lint in a process that starts like a job."""
    with local_job(task, local_gpu(bounds.device, bounds.python)) as job:
        lint = _outcome(job, "lint", task, bounds, bounds.seconds, lambda step: say(f"judge: {step}"))
    if lint.of_machine:
        raise BoardError(
            f"the task was not checked: {printable(lint.message)}",
            hint="The fault lies with this machine, not with the task: choose another device or Python with --device "
            "or --python.",
        )
    return lint


def _outcome(job: LocalJob, role: str, task: Task, bounds: Bounds, seconds: int, say: Say) -> Lint:
    data = job.outcome(
        role,
        str(bounds.cases_max),
        str(seconds),
        timeout_seconds=seconds_at_most(task, bounds) - bounds.seconds + seconds,
        file=LINT,
        bytes_max=LINT_BYTES_MAX,
        say=say,
    )
    try:
        return msgspec.json.decode(data, type=Lint)
    except msgspec.DecodeError as error:
        raise BoardError(f"the result of the judge cannot be read: {error}") from error


def seconds_at_most(task: Task, bounds: Bounds) -> int:
    """Return the requested time, plus the longest time of the answers in progress at its end."""
    limits = Limits.of_task(task.limits, bounds.device)
    begun = 4 * limits.load_seconds + limits.build_seconds + limits.first_call_seconds + 6 * limits.judge_seconds
    return bounds.seconds + math.ceil(begun) + 60


def _checked_submissions(task: Task, bounds: Bounds, deadline: float, say: Say) -> Iterator[CheckedSubmission]:
    """Yield the results of the task's templates and milestones, in jobs of their own."""
    gpu = local_gpu(bounds.device, bounds.python)
    for name, source, template in _submissions(task):
        left = math.floor(deadline - time.monotonic())
        if not runs_template(gpu, template):
            found = CheckedSubmission(name, Lint(), f"{template} does not run on this machine's {gpu.name}")
        elif left <= 0:
            found = CheckedSubmission(name, Lint(), "the time limit was reached")
        else:
            found = _checked_submission(name, source, task, bounds, gpu, left, say)
        if task.means.words():
            try:
                check_means(source, task, template.language)
            except InputError as error:
                found = replace(found, lint=replace(found.lint, broken_rule=error.message))
        yield found


def _submissions(task: Task) -> Iterator[tuple[str, Source, Template]]:
    for name, text in task.templates.items():
        template = Template(name)
        yield f"template {name}", Source(task.name_on_node(f"x{template.language.extensions[0]}"), text), template
    for each in task.milestones:
        language = language_of(each.file_name) or task.language
        yield f"milestone {each.name}", Source(each.file_name, each.text), Template.of(language)


def _checked_submission(
    name: str, source: Source, task: Task, bounds: Bounds, gpu: Gpu, seconds: int, say: Say
) -> CheckedSubmission:
    with local_job(task, gpu, file_name=source.file_name, code=source.data) as job:
        lint = _outcome(job, "try", task, bounds, seconds, lambda step: say(f"{name}: {step}"))
    if lint.of_machine:
        return CheckedSubmission(name, Lint(), printable(lint.message).partition("\n")[0])
    if lint.broken_rule:
        lint = replace(lint, broken_rule=f"{source.file_name}: {printable(lint.broken_rule)}")
    return CheckedSubmission(name, lint)


def findings_of_submissions(submissions: Sequence[CheckedSubmission]) -> Iterator[Diagnostic]:
    """Yield the diagnostics of templates and milestones: a wrong answer of one is an error."""
    for each in submissions:
        failed = [case for case in each.lint.cases if case.failure]
        if failed:
            yield _error("raises", f"{each.name}: {_places(failed)}: {failed[0].failure}", _RAISES)
        answers = [(case, probed) for case in each.lint.cases for probed in case.probed]
        refused = [(case, probed) for case, probed in answers if probed.verdict != Verdict.PASS]
        wrong = [(case, probed) for case, probed in refused if probed.verdict in _WRONG]
        if wrong:
            message = f"{each.name} is rejected on {_places([case for case, _ in wrong])}: {_first_line(wrong[0][1])}"
            hint = "Loosen the tolerance if its answer is right; if not, correct the file."
            yield _error("refuses_submission", message, hint)
        elif refused or each.lint.message:
            message = f"was not called: {each.lint.verdict}: {each.lint.message}"
            if refused:
                probed = refused[0][1]
                message = f"fails on {_places([case for case, _ in refused])}: {probed.verdict}: {_first_line(probed)}"
            hint = "Make it a complete submission, so that this check can tell whether an honest one passes."
            yield Diagnostic(Severity.WARNING, "submission_fails", f"{each.name} {message}", hint)
        narrow = [case for case, probed in answers if probed.verdict == Verdict.PASS and probed.margin == 1]
        if narrow:
            message = (
                f"{each.name} passes narrowly on {_places(narrow)}: with twice the difference it would be rejected"
            )
            hint = "Leave room in the tolerance: other GPUs, libraries and seeds differ more."
            yield Diagnostic(Severity.WARNING, "narrow_margin", message, hint)
        if each.lint.broken_rule:
            hint = "Change the file, or hpc_board.means in task.yml: no submission like it could be ranked."
            yield _error("breaks_means", f"{each.name}: {one_line(each.lint.broken_rule)}", hint)


def _has_room(submissions: Sequence[CheckedSubmission]) -> bool:
    """Return whether a submission that rounds in its own way passes all its cases with a margin."""
    return any(
        each.lint.cases
        and all(probed.verdict == Verdict.PASS for case in each.lint.cases for probed in case.probed)
        and min((probed.margin or 1 for case in each.lint.cases for probed in case.probed), default=1) >= _ROOM
        for each in submissions
    )


def sizes(task: Task) -> Iterator[Diagnostic]:
    """Yield the diagnostic of the kinds of sizes that no case has, by the cases' whole numbers."""
    cases = (*task.tests, *task.benchmarks, *task.hidden_tests, *task.hidden_benchmarks)
    found: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for case in cases for key in case if key != "seed"):
        values = {case[key] for case in cases if key in case}
        numbers = {value for value in values if type(value) is int and value > 0}
        if len(numbers) == len(values) > 1 and max(numbers) >= _SIZE_MIN:
            found.setdefault(_lacking(numbers), []).append(key)
    parts = [f"{', '.join(keys)}: {lack}" for lack, keys in found.items() if lack]
    if parts:
        hint = (
            "Add tests with such sizes, if the description allows them: kernels for full blocks alone pass now. If it "
            "does not, let it say which sizes may come."
        )
        yield Diagnostic(Severity.WARNING, "sizes", f"no case has some kinds of sizes: {'; '.join(parts)}", hint)


def hidden_seeds(task: Task) -> Iterator[Diagnostic]:
    """Yield the diagnostic of hidden cases that can be guessed: the version, which all users see, is a hash of them."""
    hidden = (*task.hidden_tests, *task.hidden_benchmarks)
    seeds = [value for case in hidden if type(value := case.get("seed")) is int]
    if hidden and max(seeds, default=0) < HIDDEN_SEED_MIN:
        message = (
            "hidden cases can be found by trial: the version of the task is a hash of them that users see, and none "
            "has a seed of at least 2^40"
        )
        hint = "Give a hidden case a seed of sixteen random digits, and generate_input the argument `seed`."
        yield Diagnostic(Severity.ERROR, "hidden_seeds", message, hint)


def _lacking(numbers: set[int]) -> str:
    """Return the kind of size that is missing: one with a tail, an odd one or a prime."""
    divisor = math.gcd(*numbers)
    if divisor % 2 == 0:
        return f"no odd one, and no tail (all are multiples of {divisor})"
    if all(number % 2 == 0 for number in numbers if number >= _SIZE_MIN):
        return f"no odd one from {_SIZE_MIN} on"
    return "" if any(map(_is_prime, numbers)) else "no prime"


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, min(math.isqrt(number), 10**6) + 1))


_RAISES = "Correct the key of task.yml or the function that the message names."
_UNUSABLE = "Correct reference.py, then check the task again."
_MODULE_ERROR = "ModuleNotFoundError: "
_MODULE_LACKS = "Install the module in this Python, choose another one with --python, or correct the import."


def findings(lint: Lint, accepts: Sequence[str], submissions: Sequence[CheckedSubmission] = ()) -> Iterator[Diagnostic]:
    """Yield the diagnostics that follow from the facts about a task that `accepts` some wrong answers.

    `submissions` are its templates and milestones. An error lets submissions cheat, or fails all of them; the author
    may intend a warning.
    The subject is a code for scripts.
    """
    if lint.message:
        yield _error("unusable", lint.message, _MODULE_LACKS if _MODULE_ERROR in lint.message else _UNUSABLE)
    for failed in ([case for case in lint.cases if case.failure and case.lost is lost] for lost in (False, True)):
        if failed:
            code, hint = "raises", _RAISES
            if _OUT_OF_MEMORY in failed[0].failure or _KILLED in failed[0].failure:
                code = "out_of_memory"
                hint = (
                    "Make the case smaller or let the reference need less memory, or check on a machine with more "
                    "memory. A system without memory ends a process by signal 9."
                )
            elif failed[0].lost:
                code, hint = "lost", "Make it return in time, or raise hpc_board.limits.judge_seconds."
            yield _error(code, f"{_places(failed)}: {failed[0].failure}", hint)
    unsteady = [case for case in lint.cases if not case.repeatable]
    if unsteady:
        yield _error(
            "random_inputs",
            f"the same seed gives different inputs in the next call, on {_places(unsteady)}",
            "Draw everything from a generator seeded with `seed` in generate_input, fill buffers for outputs in "
            "NumPy (numpy.empty keeps old values), and keep no state between calls.",
        )
    yield from _where(
        [(case, case.repeatable and not case.seeded) for case in lint.cases if not case.failure],
        "ignores_seed",
        "a different seed gives the same inputs, so answers can be cached between calls,",
        "Draw the inputs from `seed`.",
    )
    unsteady = [case for case in lint.cases if not case.steady and case.phase == "benchmark"]
    if unsteady:
        message = f"the shapes of the inputs depend on the seed on {_places(unsteady)}: so does a kernel's time"
        hint = (
            "Give each shape by the case's own keys. For a range of sizes add more cases, with sizes in a narrow band "
            "(size: 4080, size: 4096, size: 4111): ranking_by: geom weighs them alike."
        )
        yield Diagnostic(Severity.WARNING, "shapes_by_seed", message, hint)
    probed = [(case, probed) for case in lint.cases for probed in case.probed]
    changing = [case for case, each in probed if each.probe == "again" and not each.same]
    if changing:
        message = f"ref_kernel gives different answers in each call on {_places(changing)}"
        hint = "Remove all randomness from ref_kernel, and use deterministic algorithms where available."
        yield Diagnostic(Severity.WARNING, "unsteady_reference", message, hint)
    yield from _raised(lint.cases)
    for name, probe in PROBES.items():
        seen = [(case, each) for case, each in probed if each.probe == name and each.verdict != UNMADE]
        refused = [each for each in seen if each[1].verdict not in (Verdict.PASS, Verdict.TASK_ERROR)]
        expected = probe.expected(accepts)
        if expected == "pass" and refused:
            places = _places([case for case, _ in refused])
            message = f"{probe.title} is rejected on {places}: {_first_line(refused[0][1])}"
            severity = Severity.WARNING if name == INPUTS_ULP and _has_room(submissions) else Severity.ERROR
            yield Diagnostic(severity, f"refuses_{name}", message, probe.advice)
        elif expected == "refused":
            wrong = [(case, each.verdict == Verdict.PASS) for case, each in seen if not each.same]
            what = f"{probe.title}: the check accepts it"
            yield from _where(wrong, f"accepts_{name}", what, probe.advice)


def forms_by_seed(lint: Lint, task: Task) -> Iterator[Diagnostic]:
    """Yield the diagnostic of right answers without a fixed form, into which a compiled submission cannot write."""
    varying = [case for case in lint.cases if not case.one_form]
    if varying and any(language.compiled for language in task.languages):
        message = f"the form of ref_kernel's answer depends on the seed on {_places(varying)}"
        hint = (
            "Give each shape by the case's own keys: the outputs of compiled submissions are allocated before a call. "
            "Or list no compiled language in hpc_board.languages."
        )
        yield _error("form_by_seed", message, hint)


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


def _raising(case: CheckedCase) -> list[Probed]:
    """Return the right answers on which the check fails, so that it can judge no submission."""
    return [each for each in case.probed if PROBES[each.probe].right and each.verdict == Verdict.TASK_ERROR]


def _raised(cases: Sequence[CheckedCase]) -> Iterator[Diagnostic]:
    """Yield the diagnostic of a check that fails on answers, first of all on right ones."""
    raised = [(case, each) for case in cases for each in _raising(case)]
    raised = raised or [(case, each) for case in cases for each in case.probed if each.verdict == Verdict.TASK_ERROR]
    if raised:
        case, first = raised[0]
        more = len({each.probe for _, each in raised}) - 1
        what = PROBES[first.probe].title + (f" and {more} more answers" if more else "")
        hint = "Make check_implementation return (False, message) for such answers."
        if PROBES[first.probe].right:
            hint = "Correct check_implementation, or the functions that it calls: this answer is right."
        yield _error("raises", f"the check fails on {what}, first on {_places([case])}: {_first_line(first)}", hint)


def _first_line(probed: Probed) -> str:
    return probed.message.partition("\n")[0][:_MESSAGE_MAX] or probed.verdict


def _places(cases: Sequence[CheckedCase]) -> str:
    """Return the first of the cases in full, and the number of the others."""
    more = len(cases) - 1
    return f"{cases[0].name} ({cases[0].spec})" + (f" and {more} more" if more else "")
