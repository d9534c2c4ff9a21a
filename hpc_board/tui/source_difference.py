"""What differs between two source files, as lines of a unified diff that can be made in a bounded time."""

import difflib
from itertools import islice

LINES_MAX = 2_000
"""How many lines of each file are compared, without those that both begin and end with."""

SHOWN_MAX = 4_000
_CONTEXT = 3


def source_difference(names: tuple[str, str], texts: tuple[str, str]) -> tuple[str, ...]:
    """The lines of a unified diff from the first text to the second; none where they are equal.

    Of long texts, the lines from the first difference on are compared, up to LINES_MAX of each; a last line says so.
    """
    one, other = (text.splitlines() for text in texts)
    if one == other:
        return ()
    skipped = _common(one, other)
    start = max(0, skipped - _CONTEXT)
    first, second = one[start:], other[start:]
    cut = max(len(first), len(second)) > LINES_MAX
    lines = difflib.unified_diff(first[:LINES_MAX], second[:LINES_MAX], *names, n=_CONTEXT, lineterm="")
    shown = [_moved(line, start) for line in islice(lines, SHOWN_MAX)]
    if cut or next(lines, None) is not None:
        shown.append("\\ The files are longer than what is compared here.")
    return tuple(shown)


def _common(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _moved(line: str, by: int) -> str:
    """A line of the diff; the line numbers of a heading are counted from the beginning of the files."""
    if not by or not line.startswith("@@ "):
        return line
    _, *spans, _ = line.split(" ")
    moved = []
    for span in spans:
        number, comma, count = span[1:].partition(",")
        moved.append(f"{span[0]}{int(number) + by}{comma}{count}")
    return " ".join(("@@", *moved, "@@"))
