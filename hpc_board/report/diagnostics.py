"""Diagnostics as blocks and as JSON: of an installation, and of the GPUs of the settings."""

from collections.abc import Iterator, Sequence
from typing import Any

from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.model.text import printable
from hpc_board.report.blocks import Block, Facts, Heading, Paragraph, Tone
from hpc_board.report.formatting import count_text

_WORDS = {Severity.OK: "ok", Severity.WARNING: "warning", Severity.ERROR: "problem"}
_WORD_WIDTH = max(map(len, _WORDS.values()))
_MESSAGE_MAX = 8000
_HINT_MAX = 1000
_JSON_TEXT_MAX = 16_384


def diagnostics_report(title: str, diagnostics: Sequence[Diagnostic], sound: str) -> tuple[Block, ...]:
    """Return diagnostics with their hints under a title; `sound` is the summary where no runs are at risk."""
    rows = [row for diagnostic in diagnostics for row in _rows(diagnostic)]
    problems = sum(each.severity is Severity.ERROR for each in diagnostics)
    warnings = sum(each.severity is Severity.WARNING for each in diagnostics)
    parts = [count_text(problems, "problem")] if problems else [sound]
    parts += [count_text(warnings, "warning")] if warnings else []
    return (
        *([Heading(printable(title, 200))] if title else []),
        Facts(tuple(rows)),
        Paragraph(f"{', '.join(parts)}.", Tone.BAD if problems else Tone.GOOD),
    )


def diagnostic_object(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic of an installation or a GPU as a JSON object."""
    return {
        "level": _WORDS[diagnostic.severity],
        "subject": diagnostic.subject,
        "message": printable(diagnostic.message, _JSON_TEXT_MAX),
        "advice": printable(diagnostic.hint, _JSON_TEXT_MAX),
    }


def _rows(diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    first, *others = printable(diagnostic.message, _MESSAGE_MAX).splitlines() or [""]
    yield f"{_WORDS[diagnostic.severity]:<{_WORD_WIDTH}}  {diagnostic.subject}", first
    yield from (("", f"  {other}") for other in others)
    if diagnostic.hint:
        yield "", f"-> {printable(diagnostic.hint, _HINT_MAX)}"
