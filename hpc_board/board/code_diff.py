"""The difference of two submitted files."""

import difflib
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
