"""What an admin reads about an installation and about the GPUs of the settings."""

from collections.abc import Iterable, Sequence

from hpc_board.domain.diagnostic import Diagnostic, Level
from hpc_board.model.text import printable
from hpc_board.report.blocks import Block, Facts, Heading, Paragraph, Tone
from hpc_board.report.formatting import count_text

_LEVEL_WIDTH = max(len(level) for level in Level)
_MESSAGE_MAX = 8000


def checkup_report(title: str, lines: Sequence[Diagnostic], sound: str) -> tuple[Block, ...]:
    """What was looked at under a title, each with what to do about it; `sound` is said where nothing is in the way."""
    rows = [row for line in lines for row in _rows(line)]
    problems = sum(line.level is Level.PROBLEM for line in lines)
    warnings = sum(line.level is Level.WARNING for line in lines)
    parts = [count_text(problems, "problem")] if problems else [sound]
    parts += [count_text(warnings, "warning")] if warnings else []
    return (
        *([Heading(printable(title, 200))] if title else []),
        Facts(tuple(rows)),
        Paragraph(f"{', '.join(parts)}.", Tone.BAD if problems else Tone.GOOD),
    )


def _rows(line: Diagnostic) -> Iterable[tuple[str, str]]:
    first, *others = printable(line.message, _MESSAGE_MAX).splitlines() or [""]
    yield f"{line.level:<{_LEVEL_WIDTH}}  {line.subject}", first
    yield from (("", f"  {other}") for other in others)
    if line.advice:
        yield "", f"-> {printable(line.advice, 1000)}"
