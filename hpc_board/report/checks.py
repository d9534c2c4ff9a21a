"""A checked task as blocks: its parts, the judge's answer to each probe, and the findings."""

from collections.abc import Iterator, Sequence

from hpc_board.domain.diagnostic import Diagnostic
from hpc_board.model.eval_program import eval_program
from hpc_board.model.lint import PROBES, UNMADE, CheckedCase, Lint
from hpc_board.model.task import ISOLATED, Task
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Log, Table
from hpc_board.report.diagnostics import diagnostics_report

_CASES_NAMED_MAX = 3
_PRINTED_LINES_MAX = 20
_FAILURES = ("unusable", "lost", "raises", "refuses_reference")


def check_report(task: Task, functions: Sequence[str], lint: Lint, findings: Sequence[Diagnostic]) -> tuple[Block, ...]:
    """Return the report of a checked task; `functions` are those of its reference."""
    blocks: list[Block] = [Heading(f"Task {task.name}"), Facts(tuple(_parts(task, functions)))]
    if lint.cases:
        blocks += [Heading("Probes"), _probes_table(task, lint.cases)]
    reasons: dict[str, list[CheckedCase]] = {}
    for case in (*lint.cases, *lint.left_out):
        if case.left_out:
            reasons.setdefault(case.left_out, []).append(case)
    if reasons:
        rows = tuple((_names(cases), one_line(why)) for why, cases in reasons.items())
        blocks += [Heading("Left out"), Facts(rows)]
    if lint.printed and any(finding.subject in _FAILURES for finding in findings):
        last = printable(lint.printed).splitlines()[-_PRINTED_LINES_MAX:]
        blocks.append(Log("last output of the reference", "\n".join(last)))
    return (*blocks, *diagnostics_report("Findings", findings, "No errors"))


def _parts(task: Task, functions: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "harness", _harness(task)
    yield "description", "yes" if task.description.strip() else "none"
    yield "tests", str(len(task.tests))
    yield "benchmarks", str(len(task.benchmarks))
    yield "templates", one_line(", ".join(task.templates)) or "none"
    yield "ref_kernel", "yes" if "ref_kernel" in functions else "none"
    floor = "yes" if "minimal_work" in functions else "none: times have no lower bound"
    yield "minimal_work", floor
    rules = [name for name, set_ in (("const_inputs", task.const_inputs), ("fresh_output", task.fresh_output)) if set_]
    yield "rules", ", ".join(rules) or "none"
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
        outcomes: dict[tuple[str, str], list[CheckedCase]] = {}
        for case in cases:
            for probed in case.probed:
                if probed.probe == name:
                    here = "passes (correct here)" if probed.same and not probe.right else expected
                    outcomes.setdefault((here, _verdict_words(probed.verdict)), []).append(case)
        for words, found in outcomes.items():
            every = "all" if len(cases) > 1 else cases[0].name
            rows.append((probe.title, *words, every if len(found) == len(cases) else _names(found)))
    columns = (Column("PROBE"), Column("EXPECTED"), Column("GOT"), Column("CASES", flexible=True))
    return Table(columns, tuple(rows), "No probes.")


def _verdict_words(verdict: str) -> str:
    words = {"pass": "passes", UNMADE: "not applicable"}
    return words.get(verdict, one_line(verdict.replace("_", " ")))


def _names(cases: Sequence[CheckedCase]) -> str:
    more = len(cases) - _CASES_NAMED_MAX
    return ", ".join(case.name for case in cases[:_CASES_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
