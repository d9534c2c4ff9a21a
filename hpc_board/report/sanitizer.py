"""The faults that the tools of mode sanitize found, as a list."""

from collections.abc import Iterator, Sequence

from hpc_board.model.sanitizer import SanitizerFinding
from hpc_board.model.text import one_line
from hpc_board.report.blocks import Block, Paragraph, Tone
from hpc_board.report.formatting import count_text

_LINES_MAX = 20
_TEXT_CHARACTERS_MAX = 160


def finding_lines(findings: Sequence[SanitizerFinding]) -> Iterator[Block]:
    """Yield one paragraph with a line for each fault; nothing without one."""
    if not findings:
        return
    rest = len(findings) - _LINES_MAX
    more = [f"{count_text(rest, 'further fault')} in `hpc-board run ID --json`"] if rest > 0 else []
    tone = Tone.PLAIN if all(each.warning for each in findings) else Tone.BAD
    yield Paragraph("\n".join([*map(_line, findings[:_LINES_MAX]), *more]), tone)


def _line(finding: SanitizerFinding) -> str:
    texts = (finding.kernel, finding.place, finding.thread, finding.detail)
    where = "; ".join(one_line(text, _TEXT_CHARACTERS_MAX) for text in texts if text)
    warning = "warning: " if finding.warning else ""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    return f"{one_line(finding.tool)}: {warning}{one_line(finding.kind)}{f': {where}' if where else ''}{times}"
