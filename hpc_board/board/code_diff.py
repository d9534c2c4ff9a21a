"""The difference of two submitted files."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING

import msgspec

from hpc_board.errors import Refused
from hpc_board.model.text import one_line

if TYPE_CHECKING:
    from hpc_board.board.submissions import Submissions

CONTEXT_LINES = 3
"""The lines around each change."""

LINES_MAX = 2_000
"""The first lines of a file that are compared, as the time may grow with the square of their number."""

_FOLDED_MIN = 4
"""The least equal lines that are folded into one."""

_ALIKE_MIN = 0.5
"""The least share of equal letters in two lines of which the changed words are marked."""

_WORDS_MAX = 100
"""The most words and signs of a line in which the changed ones are looked for."""

_WORD = re.compile(r"\w+|\s+|.")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class CodeDiff(msgspec.Struct, frozen=True):
    """The unified diff from the older of two submitted files to the newer one.

    The text is None if the user may not read both; `remark` is the reason for a missing, empty or incomplete text.
    """

    text: str | None
    remark: str = ""


def code_diff(submissions: "Submissions", one: int, other: int, context: int = CONTEXT_LINES) -> CodeDiff:
    """Return the difference of the files of two runs, which a user may give in any order.

    `context` is the number of unchanged lines around each change.

    Raises:
        InputError: one of them does not exist.
    """
    numbers = sorted((one, other))
    try:
        files = [submissions.code(number) for number in numbers]
    except Refused as error:
        return CodeDiff(None, f"You may not read both files: {error.message}")
    older, newer = ((head_of(number, name), data) for number, (name, data) in zip(numbers, files, strict=True))
    return text_diff(older, newer, context)


def head_of(run: int, file_name: str) -> str:
    """Return the name of the file of a run in the head of a diff."""
    return f"run-{run}/{one_line(file_name)}"


def text_diff(older: tuple[str, bytes], newer: tuple[str, bytes], context: int = CONTEXT_LINES) -> CodeDiff:
    """Return the difference of two files, each given by the name in the head of the diff and its contents."""
    old, new = (data.decode(errors="replace").splitlines() for _, data in (older, newer))
    lines = difflib.unified_diff(old[:LINES_MAX], new[:LINES_MAX], older[0], newer[0], lineterm="", n=context)
    text = "".join(f"{line}\n" for line in lines)
    if older[1] == newer[1]:
        return CodeDiff(text, "The files are the same.")
    if max(len(old), len(new)) > LINES_MAX:
        return CodeDiff(text, f"Only the first {LINES_MAX:,} lines of each file are compared.")
    return CodeDiff(text, "" if text else "The files differ only in the ends of their lines.")


class DiffRow(msgspec.Struct, frozen=True):
    """A line of a difference.

    Attributes:
        sign: "-" for a removed line, "+" for an added one, a space for an equal one; empty for a head or a fold.
        text: the line without its sign.
        number: the number of the line in its file, for an equal line in the newer one; 0 for a head or a fold.
        changed: the begin and the end of each part that differs from the line in its place.
        former: the number of an equal line in the older file; 0 for others.
    """

    sign: str
    text: str
    number: int = 0
    changed: tuple[tuple[int, int], ...] = ()
    former: int = 0


_NO_LINE = DiffRow("", "")


def diff_rows(diff: str) -> list[DiffRow]:
    """Return the lines of a unified diff of one file, the names of both sides first."""
    first, second, *lines = diff.splitlines()
    rows = [DiffRow("", first), DiffRow("", second)]
    old = new = 0
    for line in lines:
        if hunk := _HUNK.match(line):
            old, new = map(int, hunk.groups())
            continue
        sign = line[:1]
        rows.append(DiffRow(sign, line[1:], old if sign == "-" else new, former=old if sign == " " else 0))
        old, new = old + (sign != "+"), new + (sign != "-")
    return [*_marked(rows)]


def _marked(rows: Iterable[DiffRow]) -> Iterator[DiffRow]:
    """Yield the rows, with the changed parts of lines that were replaced by others like them."""
    for is_changed, each in groupby(rows, lambda row: row.sign in ("+", "-")):
        group = [*each]
        removed = [row for row in group if row.sign == "-"] if is_changed else []
        added = group[len(removed) :]
        for index, (old, new) in enumerate(zip(removed, added, strict=False)):
            words, others = _WORD.findall(old.text), _WORD.findall(new.text)
            if max(len(words), len(others)) > _WORDS_MAX:
                continue
            parts = difflib.SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
            same = "".join(word for kind, begin, end, *_ in parts if kind == "equal" for word in words[begin:end])
            letters = [len("".join(text.split())) for text in (same, old.text, new.text)]
            if 2 * letters[0] >= _ALIKE_MIN * sum(letters[1:]):
                changes = [part for part in parts if part[0] != "equal"]
                removed[index] = _with_changes(old, words, (part[1:3] for part in changes))
                added[index] = _with_changes(new, others, (part[3:5] for part in changes))
        yield from (*removed, *added)


def _with_changes(row: DiffRow, words: list[str], parts: Iterable[tuple[int, int]]) -> DiffRow:
    """Return the row with its changed parts, each given by its first word and the one behind its last."""
    places = tuple((len("".join(words[:begin])), len("".join(words[:end]))) for begin, end in parts if begin < end)
    return msgspec.structs.replace(row, changed=places)


def folded(rows: Iterable[DiffRow]) -> list[DiffRow]:
    """Return the rows with long stretches of equal lines, but for those around each change, folded into one each."""
    groups = [(sign, [*each]) for sign, each in groupby(rows, lambda row: row.sign)]
    found: list[DiffRow] = []
    for index, (sign, group) in enumerate(groups):
        # The names of both sides are before the first line, and nothing is behind the last one.
        begin = CONTEXT_LINES if index > 1 else 0
        end = len(group) - (CONTEXT_LINES if index < len(groups) - 1 else 0)
        if sign == " " and end - begin >= _FOLDED_MIN:
            fold = DiffRow("", f"… {end - begin:,} equal lines")
            found += [*group[:begin], fold, *group[end:]]
        else:
            found += group
    return found


def beside(rows: Sequence[DiffRow]) -> list[tuple[DiffRow, DiffRow]]:
    """Return the rows in pairs, that of the older file first; a line that has none in its place is beside no text."""
    pairs = [(rows[0], rows[1])]
    for is_changed, each in groupby(rows[2:], lambda row: row.sign in ("+", "-")):
        group = [*each]
        removed = [row for row in group if row.sign == "-"]
        added = group[len(removed) :]
        pairs += zip_longest(removed, added, fillvalue=_NO_LINE) if is_changed else zip(group, group, strict=True)
    return pairs
