"""Diagnostics of a task, from the facts of its lint.

An error lets submissions cheat, or fails all of them; the author may intend a warning. The subject is a code for
scripts.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.model.lint import PROBES, UNMADE, CheckedCase, Lint, Probed, accepted_formats
from hpc_board.model.result import Verdict
from hpc_board.model.task import Task

_MESSAGE_MAX = 300
_FRAME = re.compile(r'  File "([^"\n]*/)?([^"/\n]+)"')
_HARNESS = "hpc_board/harness/"

_HINTS = {
    "zeros": "Make the tolerance follow the size of each expected element: an absolute one passes small values.",
    "ones": "Compare every element with the expected one.",
    "mean": "Make the tolerance follow each element, not the largest one, or draw inputs that vary more.",
    "input": "Draw inputs that are not close to the answer, or declare hpc_board.accepts: [input].",
    "other_seed": "Compare with the expected answer to the `data` of this very call.",
    "format": "Tighten the tolerance, or declare the coarsest format that may pass: hpc_board.accepts: [{format}].",
    "one_element": "Compare every element of every part, the last ones too, each with a tolerance that is smaller than "
    "the element. A check that forgives a few wrong ones declares it: hpc_board.accepts: [one_element].",
    "nonfinite": "Write comparisons so that NaN is wrong: `not (difference <= tolerance)`.",
    "form": "Compare {form} of the output as well, before its values, or say in the description that any will do: the "
    "check alone decides.",
}

# The task decides these forms; the judge refuses other numbers in any case.
_FORMS = {"dtype": "the type", "shape": "the shape"}


def findings(task: Task, lint: Lint) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that follow from the facts, errors first."""
    found: list[Diagnostic] = []
    if lint.message:
        found.append(_error("unusable", lint.message, "Correct reference.py, then check the task again."))
    found += _failures(task, lint.cases)
    found += _of_inputs(lint.cases)
    found += _of_reference(task, lint.cases)
    found += _of_probes(task, lint.cases)
    return tuple(sorted(found, key=lambda each: each.severity is Severity.WARNING))


def _error(code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, message, hint)


def _failures(task: Task, cases: Sequence[CheckedCase]) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each kind of failure, however many cases have it."""
    names = {file.name for file in task.files}
    alike: dict[tuple[bool, str], list[CheckedCase]] = {}
    for case in cases:
        if case.failure:
            alike.setdefault((case.lost, _of_task(case.failure, names)), []).append(case)
    for (lost, failure), found in alike.items():
        code, hint = "raises", "Correct what raises; the traceback names the line."
        if lost:
            code, hint = "lost", "Make it return in time, or raise hpc_board.limits.judge_seconds."
        yield _error(code, f"{_places(found)}: {failure}", hint)


def _of_task(failure: str, names: Collection[str]) -> str:
    """Strip a failure to the names of the task's files, without the harness's lines in its traceback."""
    lines: list[str] = []
    harness = False
    for line in failure.splitlines():
        frame, shown = _FRAME.match(line), line
        if frame is not None:
            folder, name = frame[1] or "", frame[2]
            harness = _HARNESS in folder
            shown = f'  File "{name}"{line[frame.end() :]}' if name in names else line
        elif not line.startswith("    "):
            harness = False
        if not harness:
            lines.append(shown)
    return "\n".join(lines)


def _of_inputs(cases: Sequence[CheckedCase]) -> Iterator[Diagnostic]:
    drawn = [case for case in cases if not case.failure or case.behaviour is not None]
    unsteady = [case for case in drawn if not case.repeatable]
    if unsteady:
        yield _error(
            "random_inputs",
            f"the same seed gives other inputs the next time, on {_places(unsteady)}",
            "Draw everything from a generator seeded with `seed` in generate_input, fill the buffers for outputs "
            "(torch.empty keeps old values), and keep no state between calls.",
        )
    yield from _where(
        drawn,
        lambda case: case.repeatable and not case.seeded,
        "ignores_seed",
        "another seed gives the same inputs, so that answers can be kept from call to call,",
        "Draw the inputs from `seed`.",
    )


def _of_reference(task: Task, cases: Sequence[CheckedCase]) -> Iterator[Diagnostic]:
    behaved = [(case, case.behaviour) for case in cases if case.behaviour is not None]
    writing = [case for case, seen in behaved if seen.writes and (task.const_inputs or not seen.aliases)]
    if writing:
        severity = Severity.ERROR if task.const_inputs else Severity.WARNING
        promise = ", which const_inputs forbids," if task.const_inputs else ""
        message = f"ref_kernel writes into its inputs{promise} on {_places(writing)}"
        hint = "Work on a copy in ref_kernel; an in-place task returns the input that was written into."
        yield Diagnostic(severity, "writes_inputs", message, hint)
    aliasing = [case for case, seen in behaved if seen.aliases]
    if task.fresh_output and aliasing:
        message = (
            f"ref_kernel's answer lies in the memory of an input, which fresh_output forbids, on {_places(aliasing)}"
        )
        yield _error("aliases_input", message, "Return a new tensor from ref_kernel, or drop hpc_board.fresh_output.")
    changing = [case for case, seen in behaved if not seen.repeats]
    if changing:
        message = f"ref_kernel does not give the same answer twice, bit by bit, on {_places(changing)}"
        hint = "Take everything random out of ref_kernel, and use deterministic algorithms where there are any."
        yield Diagnostic(Severity.WARNING, "unsteady_reference", message, hint)
    steady = [case for case, seen in behaved if case.seeded]
    yield from _where(
        steady,
        lambda case: case.behaviour is not None and not case.behaviour.varies,
        "same_answer",
        "the right answer is the same for two seeds, so that it can be kept from call to call,",
        "Draw inputs whose answers differ.",
    )
    yield from _where(
        steady,
        lambda case: case.behaviour is not None and case.behaviour.constant,
        "constant_answer",
        "the right answer is one number everywhere, so that one element is all the work,",
        "Draw inputs whose answer varies.",
    )


def _of_probes(task: Task, cases: Sequence[CheckedCase]) -> Iterator[Diagnostic]:
    accepted = accepted_formats(task.accepts)
    yield from _raising_checks(cases)
    for name, probe in PROBES.items():
        seen = [(case, probed) for case in cases for probed in case.probed if probed.probe == name]
        if probe.right:
            yield from _refusals(name, probe.title, seen)
        elif probe.acceptable_as not in accepted:
            judged = [(case, probed) for case, probed in seen if not probed.same and probed.verdict != UNMADE]
            passed = {id(case) for case, probed in judged if probed.verdict == Verdict.PASS}
            yield from _where(
                [case for case, _ in judged],
                lambda case, passed=passed: id(case) in passed,  # type: ignore[misc]
                f"accepts_{name}",
                f"{probe.title}: the check lets it pass",
                _hint(name),
                gains=name not in _FORMS,
            )
    yield from _exact_in_half(cases, accepted)


def _raising_checks(cases: Sequence[CheckedCase]) -> Iterator[Diagnostic]:
    """Report checks that raise an exception: the submission with that answer gets no verdict."""
    raised = [(case, probed) for case in cases for probed in case.probed if probed.verdict == Verdict.TASK_ERROR]
    if raised:
        case, first = raised[0]
        titles = dict.fromkeys(PROBES[probed.probe].title for _, probed in raised)
        more = f" and {len(titles) - 1} more answers" if len(titles) > 1 else ""
        message = f"the check fails on {next(iter(titles))}{more}, first on {_place(case)}: {_first_line(first)}"
        hint = "Have check_implementation return (False, message), whatever it is given."
        yield _error("raises", message, hint)


def _refusals(name: str, title: str, seen: Sequence[tuple[CheckedCase, Probed]]) -> Iterator[Diagnostic]:
    refused = [(case, probed) for case, probed in seen if probed.verdict not in (Verdict.PASS, Verdict.TASK_ERROR)]
    if refused:
        message = f"{title} is refused on {_places([case for case, _ in refused])}: {_first_line(refused[0][1])}"
        hint = "Compare with ref_kernel, or loosen the tolerance until honest float32 passes with room to spare."
        yield _error(f"refuses_{name}", message, hint)


def _exact_in_half(cases: Sequence[CheckedCase], accepted: Sequence[str]) -> Iterator[Diagnostic]:
    """Report values such as small whole numbers: half precision holds them, so its use goes unseen."""
    rounded = [probed for case in cases for probed in case.probed if probed.probe == "answer_float16"]
    floating = any(case.roundoff is not None and case.roundoff <= 2.0**-24 for case in cases)
    if floating and rounded and all(probed.same for probed in rounded) and "float16" not in accepted:
        message = (
            "the right answers of all cases are exact in float16, so that nothing tells half precision from float32"
        )
        yield Diagnostic(Severity.WARNING, "exact_in_half", message, "Draw inputs with fractions, of different sizes.")


def _where(
    cases: Sequence[CheckedCase],
    wrong: Callable[[CheckedCase], bool],
    code: str,
    what: str,
    hint: str,
    *,
    gains: bool = True,
) -> Iterator[Diagnostic]:
    """Return a diagnostic for the `wrong` cases: an error if a submission `gains` by it there.

    A submission gains if a benchmark case is among them, since it may treat cases differently, or if all cases are.
    """
    found = [case for case in cases if wrong(case)]
    if found:
        gains = gains and (len(found) == len(cases) or any(case.phase == "benchmark" for case in found))
        severity = Severity.ERROR if gains else Severity.WARNING
        yield Diagnostic(severity, code, f"{what} on {_places(found)}", hint)


def _hint(probe: str) -> str:
    if probe.startswith(("answer_", "inputs_")):
        return _HINTS["format"].format(format=probe.partition("_")[2])
    if probe.startswith("input_"):
        return _HINTS["input"]
    if probe in _FORMS:
        return _HINTS["form"].format(form=_FORMS[probe])
    group = {
        "last_element": "one_element",
        "one_nan": "nonfinite",
        "nan": "nonfinite",
        "infinity": "nonfinite",
    }
    return _HINTS[group.get(probe, probe)]


def _first_line(probed: Probed) -> str:
    first = probed.message.partition("\n")[0]
    return first[:_MESSAGE_MAX] or probed.verdict


def _place(case: CheckedCase) -> str:
    return f"{case.name} ({case.spec})"


def _places(cases: Sequence[CheckedCase]) -> str:
    """Return the first of the cases in full, and the number of the others."""
    more = len(cases) - 1
    return _place(cases[0]) + (f" and {more} more" if more else "")
