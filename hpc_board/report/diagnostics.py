"""Diagnostics as blocks: of an installation, of the GPUs of the settings, of their nodes, and of a task."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.node_checks import NodeCheck, NodeVerdict
from hpc_board.model.node_probe import Speed
from hpc_board.model.text import one_line, printable
from hpc_board.report.blocks import Block, Column, Facts, Heading, Paragraph, Tone, table
from hpc_board.report.formatting import count_text

_REMEDIES_MAX = 10
_TONES = {NodeVerdict.OK: Tone.GOOD, NodeVerdict.WRONG: Tone.BAD, NodeVerdict.BROKEN: Tone.BAD}

_WORD_WIDTH = 7
_MESSAGE_MAX = 8000
_HINT_MAX = 1000


def diagnostics_report(title: str, diagnostics: Sequence[Diagnostic], good: str) -> tuple[Block, ...]:
    """Return diagnostics with their hints under a title, and a summary, which is `good` without errors."""
    rows = [row for each in diagnostics for row in _rows(f"{each.severity:<{_WORD_WIDTH}}  {each.subject}", each)]
    errors = sum(each.severity is Severity.ERROR for each in diagnostics)
    warnings = sum(each.severity is Severity.WARNING for each in diagnostics)
    parts = [count_text(errors, "error") if errors else good]
    parts += [count_text(warnings, "warning")] if warnings else []
    return (
        *([Heading(printable(title, 200))] if title else []),
        *([Facts(tuple(rows))] if rows else []),
        Paragraph(f"{', '.join(parts)}.", Tone.BAD if errors else Tone.GOOD),
    )


def _rows(name: str, diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    first, *others = printable(diagnostic.message, _MESSAGE_MAX).splitlines() or [""]
    yield name, first
    yield from (("", f"  {other}") for other in others)
    if diagnostic.hint:
        yield "", f"-> {printable(diagnostic.hint, _HINT_MAX)}"


def node_checks_report(checks: Sequence[NodeCheck]) -> tuple[Block, ...]:
    """Return a table of the nodes of each GPU, in the order of the checks."""
    return tuple(
        block
        for gpu in dict.fromkeys(each.gpu for each in checks)
        for block in _of_gpu(gpu, [each for each in checks if each.gpu == gpu])
    )


def _of_gpu(gpu: str, checks: Sequence[NodeCheck]) -> Iterator[Block]:
    yield Heading(printable(gpu, 200))
    # Nodes without PyTorch have other rates than the others.
    names = list(dict.fromkeys((speed.name, speed.unit) for each in checks for speed in each.speeds))
    yield table(
        checks,
        (Column("NODE"), lambda check: one_line(check.node)),
        (Column("RESULT", toned=True), lambda check: str(check.verdict)),
        (Column("STATE"), lambda check: one_line(check.state)),
        (Column("GPU", flexible=True, least=8, optional=True), lambda check: one_line(check.device)),
        *(column for name, unit in names for column in _speed_columns(name, unit)),
        (Column("REMARK", flexible=True, least=20), lambda check: one_line(check.reason)),
        empty="No nodes.",
        tones=tuple(_TONES.get(each.verdict, Tone.STRONG) for each in checks),
    )
    problems = [each for each in checks if each.verdict.is_problem]
    told = [
        (f"{one_line(each.node)} {error.subject}".strip(), error)
        for each in problems[:_REMEDIES_MAX]
        for error in each.errors
    ]
    if told:
        yield Facts(tuple(row for name, error in told for row in _rows(name, error)))
    counts = Counter(each.verdict for each in checks)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in NodeVerdict if counts[verdict])
    yield Paragraph(f"{count_text(len(checks), 'node')}: {words}.", Tone.BAD if problems else Tone.GOOD)


def _speed_columns(name: str, unit: str) -> Iterator[tuple[Column, Callable[[NodeCheck], str]]]:
    def cell(text: Callable[[NodeCheck, Speed], str]) -> Callable[[NodeCheck], str]:
        return lambda check: "".join(
            text(check, each) for each in check.speeds if (each.name, each.unit) == (name, unit)
        )

    rate = Column(f"{name.upper()} {unit}", right=True)
    yield rate, cell(lambda _, speed: f"{speed.rate:,.0f}" if speed.rate >= 100 else f"{speed.rate:.1f}")
    yield Column("SPREAD", right=True, leaves=1), cell(lambda _, speed: f"{speed.spread:.0%}")
    yield Column("OF MEDIAN", right=True), cell(lambda check, speed: f"{check.of_median[speed.name]:.0%}")
