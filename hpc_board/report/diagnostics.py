"""Diagnostics as blocks: of an installation, of the GPUs of the settings, and of a task."""

from collections.abc import Iterator, Sequence

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.model.text import printable
from hpc_board.report.blocks import Block, Facts, Heading, Paragraph, Tone
from hpc_board.report.formatting import count_text

PROBLEM = "problem"
"""The word for an error of an installation."""

_WORD_WIDTH = 7
_MESSAGE_MAX = 8000
_HINT_MAX = 1000


def diagnostics_report(
    title: str, diagnostics: Sequence[Diagnostic], sound: str, error: str = PROBLEM, meaning: str = ""
) -> tuple[Block, ...]:
    """Return diagnostics with their hints under a title, and a summary.

    `sound` is the summary without errors; `error` is the word for an error, and `meaning` its consequence.
    """
    rows = [row for diagnostic in diagnostics for row in _rows(diagnostic, error)]
    errors = sum(each.severity is Severity.ERROR for each in diagnostics)
    warnings = sum(each.severity is Severity.WARNING for each in diagnostics)
    parts = [f"{count_text(errors, error)}{meaning}"] if errors else [sound]
    parts += [count_text(warnings, "warning")] if warnings else []
    return (
        *([Heading(printable(title, 200))] if title else []),
        *([Facts(tuple(rows))] if rows else []),
        Paragraph(f"{', '.join(parts)}.", Tone.BAD if errors else Tone.GOOD),
    )


def severity_word(diagnostic: Diagnostic, error: str) -> str:
    """Return the word for the severity of a diagnostic; `error` is the word for an error."""
    return error if diagnostic.severity is Severity.ERROR else str(diagnostic.severity)


def _rows(diagnostic: Diagnostic, error: str) -> Iterator[tuple[str, str]]:
    first, *others = printable(diagnostic.message, _MESSAGE_MAX).splitlines() or [""]
    yield f"{severity_word(diagnostic, error):<{_WORD_WIDTH}}  {diagnostic.subject}", first
    yield from (("", f"  {other}") for other in others)
    if diagnostic.hint:
        yield "", f"-> {printable(diagnostic.hint, _HINT_MAX)}"
