"""The tones of the parts of a program's output, by the forms of compilers and profilers."""

import re
from collections.abc import Callable

from hpc_board.report.blocks import Tone

Tones = tuple[tuple[int, int, Tone], ...]
"""Parts of a text in their order: begin, end and tone."""

ToneFinder = Callable[[str], Tones]

_DIAGNOSTIC = re.compile(
    r"^(?P<strong>[^\s:(]{1,200}(?:\(\d+\)|(?::\d+){1,2})?)(?: *:)? "
    r"(?:(?P<bad>(?:fatal )?error\b[^:\n]{0,40}:)|(?P<unsure>warning\b[^:\n]{0,40}:)|(?P<quiet>(?:note|remark): .*))",
    re.MULTILINE,
)
"""A line of GCC, Clang, nvcc, ptxas or a linker."""

_MARKED = re.compile(r"^(?P<strong>── .+)|^ *\| *(?P<good>[~^][~^ ]*)$", re.MULTILINE)
"""The title of an output among others, and a compiler's mark below a line of code."""

_PROFILE = re.compile(
    r"^(?P<strong>case \d+: (?!.*: the call ).*|The .*(?:functions|process\b.*)|Share of .*| +Section: .*"
    r"|.* kernel\.so)$"
    r"|^(?P<quiet>(?: *Case)? *(?:Share  +Function|Kernel  +Time|Name  +Self|Time \(%\)) .*|[- ]{8,}|case \d+: .*)$"
    r"|(?P<unsure>\bnot vectorized\b|^ +(?:OPT|WRN)\b)|: (?P<good>vectorized\b)",
    re.MULTILINE,
)
"""A line of a profile: headings, the submission's own functions, heads of tables, advice."""


def diagnostic_tones(text: str) -> Tones:
    """Return the tones of compilers' diagnostics: their places, and errors, warnings and notes."""
    return _tones(text, _DIAGNOSTIC, _MARKED)


def profile_tones(text: str) -> Tones:
    """Return the tones of a profile as text."""
    return _tones(text, _PROFILE)


def _tones(text: str, *patterns: re.Pattern[str]) -> Tones:
    parts = (
        (*found.span(name), Tone(name))
        for pattern in patterns
        for found in pattern.finditer(text)
        for name, part in found.groupdict().items()
        if part
    )
    return tuple(sorted(parts))
