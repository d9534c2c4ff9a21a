"""Messages on stderr, wrapped at the width of the terminal."""

import re
import sys

_WHOLE = re.compile(r"`[^`]*`\S*|(?<=: )hpc-board .*|\S+")
"""A word, or a command, which must not be broken: a user pastes it."""


def wrapped(text: str, before: int = 0) -> str:
    """Return the text with lines that fit the terminal; unchanged where stderr is none.

    The first line stands behind `before` columns. A wrapped line keeps its indentation.
    """
    if not sys.stderr.isatty():
        return text
    from shutil import get_terminal_size

    width = get_terminal_size().columns
    lines: list[str] = []
    for line in text.split("\n"):
        lines += _wrapped(line, width, before if not lines else 0)
    return "\n".join(lines)


def _wrapped(line: str, width: int, before: int) -> list[str]:
    from hpc_board.report.plain import cells

    room = width - before
    if cells(line) <= room:
        return [line]
    indent = line[: min(len(line) - len(line.lstrip(" ")), width // 2)]
    lines, used = [indent], len(indent)
    for word in _WHOLE.findall(line):
        if lines[-1].strip() and used + 1 + cells(word) > room:
            lines.append(indent)
            room, used = width, len(indent)
        added = word if lines[-1] == indent else f" {word}"
        lines[-1] += added
        used += cells(added)
    return lines
