"""Messages on stderr, wrapped at the width of the terminal."""

import re
import sys

_WHOLE = re.compile(r"`[^`]*`\S*|(?<=: )hpc-board .*|\S+")
"""A word, or a command, which must not be broken: a user pastes it."""


def fitted(text: str, before: int = 0) -> str:
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
    room = width - before
    if len(line) <= room:
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    lines = [indent]
    for word in _WHOLE.findall(line):
        if lines[-1].strip() and len(lines[-1]) + 1 + len(word) > room:
            lines.append(indent)
            room = width
        lines[-1] += word if lines[-1] == indent else f" {word}"
    return lines
