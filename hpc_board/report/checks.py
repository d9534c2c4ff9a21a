"""A checked task as blocks: its parts, the judge's answers to probes and to its submissions, and the findings."""

from collections.abc import Iterator, Sequence

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.model.eval_program import eval_program
from hpc_board.model.lint import INPUTS_ULP, MARGIN_MAX, PROBES, UNMADE, CheckedCase, CheckedSubmission, Lint, Probed
from hpc_board.model.result import Verdict
from hpc_board.model.task import ISOLATED, Task
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Log, Table
from hpc_board.report.diagnostics import diagnostics_report
from hpc_board.report.tasks import hidden_text

_CASES_NAMED_MAX = 3
_MARGIN = Column("MARGIN", right=True)
_PRINTED_LINES_MAX = 20
_FAILURES = ("unusable", "lost", "raises", "out_of_memory", "refuses_reference")


def check_report(
    task: Task,
    functions: Sequence[str],
    lint: Lint,
    submissions: Sequence[CheckedSubmission],
    findings: Sequence[Diagnostic],
) -> tuple[Block, ...]:
    """Return the report of a checked task; `functions` are those of its reference."""
    blocks: list[Block] = [Heading(f"Task {task.name}"), Facts(tuple(_parts(task, functions)))]
    if lint.cases:
        blocks += [Heading("Probes"), _probes_table(task, lint.cases)]
    if any(case.probed for each in submissions for case in each.lint.cases):
        blocks += [Heading("Submissions of the task"), _submissions_table(submissions)]
    left_out = [*_left_out(lint, ""), *((each.name, one_line(each.left_out)) for each in submissions if each.left_out)]
    left_out += [row for each in submissions for row in _left_out(each.lint, f"{each.name}, ")]
    if left_out:
        blocks += [Heading("Left out"), Facts(tuple(left_out))]
    if lint.printed and any(finding.subject in _FAILURES for finding in findings):
        last = printable(lint.printed).splitlines()[-_PRINTED_LINES_MAX:]
        blocks.append(Log("last output of the reference", "\n".join(last)))
    good = "No errors in what was checked" if left_out else "No errors"
    return (*blocks, *diagnostics_report("Findings", findings, good))


def checks_report(checked: Sequence[tuple[Task, Lint, Sequence[Diagnostic]]]) -> tuple[Block, ...]:
    """Return a row for each of several checked tasks: the bogus answers that its judge accepts, and its errors."""
    bogus = {"zeros": "ZEROS", "mean": "MEAN", "inputs_float16": "FLOAT16", "inputs_tf32": "TF32"}
    rows = []
    for task, lint, findings in checked:
        errors = dict.fromkeys(each.subject for each in findings if each.severity is Severity.ERROR)
        rows.append(
            (
                one_line(task.name),
                *(_acceptance(lint, name) for name in bogus),
                _margin_words(
                    [(case, each) for case in lint.cases for each in case.probed if each.probe == INPUTS_ULP]
                ),
                ", ".join(errors) or "none",
            )
        )
    columns = (Column("TASK"), *map(Column, bogus.values()), Column("1 ULP", right=True))
    return Heading("All tasks"), Table((*columns, Column("ERRORS", flexible=True)), tuple(rows))


def _acceptance(lint: Lint, probe: str) -> str:
    """Return whether a judge accepts a bogus answer in any case; an answer that is right there does not count."""
    probed = [each for case in lint.cases for each in case.probed if each.probe == probe and each.verdict != UNMADE]
    wrong = [each for each in probed if not each.same]
    if any(each.verdict == Verdict.PASS for each in wrong):
        return "accepted"
    return "rejected" if wrong else "correct" if probed else "-"


def _left_out(lint: Lint, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield each reason to leave cases out, after their names."""
    reasons: dict[str, list[CheckedCase]] = {}
    for case in (*lint.cases, *lint.left_out):
        if case.left_out:
            reasons.setdefault(case.left_out, []).append(case)
    yield from ((f"{prefix}{_names(cases)}", one_line(why)) for why, cases in reasons.items())


def _parts(task: Task, functions: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "harness", _harness(task)
    yield "description", "yes" if task.description.strip() else "none"
    yield "tests", str(len(task.tests))
    yield "benchmarks", str(len(task.benchmarks))
    if hidden := hidden_text(task):
        yield "hidden cases", hidden
    yield "templates", one_line(", ".join(task.templates)) or "none"
    yield "ref_kernel", "yes" if "ref_kernel" in functions else "none"
    floor = "yes" if "minimal_work" in functions else "none: times have no lower bound"
    yield "minimal_work", floor
    rules = [name for name, set_ in (("const_inputs", task.const_inputs), ("fresh_output", task.fresh_output)) if set_]
    yield "rules", ", ".join(rules) or "none"
    if task.prepare:
        yield "prepare", one_line(", ".join(map(str, task.prepare)))
    if rule := task.means.words():
        yield "means", rule
    if task.milestones:
        yield "milestones", one_line(", ".join(each.name for each in task.milestones))
    yield "accepts", ", ".join(task.accepts) or "none"


def _harness(task: Task) -> str:
    has_reference = task.text("reference.py") is not None
    if task.harness == ISOLATED:
        unused = "; eval.py unused" if task.text("eval.py") is not None else ""
        return f"isolated: hpc-board's judge (reference.py present){unused}"
    program, _ = eval_program(task)
    judge = program.main or ", ".join(program.sources)
    reason = "set in task.yml" if has_reference else "no reference.py"
    reason = "several GPUs" if task.multi_gpu else reason
    return f"task: judged by {one_line(judge)} ({reason})"


def _probes_table(task: Task, cases: Sequence[CheckedCase]) -> Table:
    """Return a row for each probe and each answer to it."""
    rows: list[tuple[str, ...]] = []
    for name, probe in PROBES.items():
        expected = {"pass": "passes", "any": "may pass", "refused": "is rejected"}[probe.expected(task.accepts)]
        outcomes: dict[tuple[str, str], list[tuple[CheckedCase, Probed]]] = {}
        for case in cases:
            for probed in case.probed:
                if probed.probe == name:
                    here = "passes (correct here)" if probed.same and not probe.right else expected
                    outcomes.setdefault((here, _verdict_words(probed.verdict)), []).append((case, probed))
        for words, found in outcomes.items():
            rows.append((probe.title, *words, _margin_words(found), _cases_words(found, cases)))
    columns = (Column("PROBE"), Column("EXPECTED"), Column("GOT"), _MARGIN, Column("CASES", flexible=True))
    return Table(columns, tuple(rows), "No probes.")


def _submissions_table(submissions: Sequence[CheckedSubmission]) -> Table:
    """Return a row for each submission and each verdict on it."""
    rows: list[tuple[str, ...]] = []
    for each in submissions:
        outcomes: dict[str, list[tuple[CheckedCase, Probed]]] = {}
        for case in each.lint.cases:
            for probed in case.probed:
                outcomes.setdefault(_verdict_words(probed.verdict), []).append((case, probed))
        for words, found in outcomes.items():
            seeds = str(min(probed.seeds for _, probed in found))
            rows.append((one_line(each.name), words, _margin_words(found), seeds, _cases_words(found, each.lint.cases)))
    columns = (
        Column("SUBMISSION"),
        Column("GOT"),
        _MARGIN,
        Column("SEEDS", right=True),
        Column("CASES", flexible=True),
    )
    return Table(columns, tuple(rows))


def _cases_words(found: Sequence[tuple[CheckedCase, Probed]], cases: Sequence[CheckedCase]) -> str:
    if len(found) == len(cases) > 1:
        return "all"
    return _names([case for case, _ in found])


def _margin_words(found: Sequence[tuple[CheckedCase, Probed]]) -> str:
    """Return the least margin of answers; "exact" where all were the reference's own, bit by bit."""
    margins = [probed.margin for _, probed in found if probed.margin is not None]
    if margins:
        return f"{min(margins):,}x{' or more' if min(margins) == MARGIN_MAX else ''}"
    answers = [probed for _, probed in found if probed.seeds > 1]
    return "exact" if answers and all(probed.same for probed in answers) else ""


def _verdict_words(verdict: str) -> str:
    words = {"pass": "passes", UNMADE: "not applicable"}
    return words.get(verdict, one_line(verdict.replace("_", " ")))


def _names(cases: Sequence[CheckedCase]) -> str:
    more = len(cases) - _CASES_NAMED_MAX
    return ", ".join(case.name for case in cases[:_CASES_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
