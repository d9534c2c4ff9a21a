"""The difference of two submitted files: its direction, its bounds, and the files that have none."""

import json
import re

import pytest

from hpc_board import scripting
from hpc_board.board import Board
from hpc_board.board.code_diff import LINES_MAX, DiffRow, beside, code_diff, diff_rows, folded, text_diff
from hpc_board.domain.submission import SOURCE_BYTES_MAX
from hpc_board.errors import InputError
from hpc_board.model.result import Verdict
from tests.unit.recorded import SETTINGS, Recorded, call, read, result_of, timed_case

OLD = b"import torch\n#\n#\ndef custom_kernel(data):\n    return data[0] + data[1]\n"
NEW = OLD.replace(b"data[0] + data[1]", b"torch.add(*data)")
DIFF = """\
--- run-1/kernel.py
+++ run-2/kernel.py
@@ -2,4 +2,4 @@
 #
 #
 def custom_kernel(data):
-    return data[0] + data[1]
+    return torch.add(*data)
"""


def submitted(board: Recorded, *codes: bytes, user: str | None = None) -> list[int]:
    done = [
        board.add(result=result_of(Verdict.PASS, timed_case()), score_s=12e-6, code=code, user=user) for code in codes
    ]
    return [run.submission for run in done]


@pytest.mark.parametrize("sides", [(1, 2), (2, 1)])
def test_the_older_file_is_the_first_whatever_the_order(board: Recorded, sides: tuple[int, int]) -> None:
    submitted(board, OLD, NEW)
    assert code_diff(board.board.submissions, *sides) == (found := code_diff(board.board.submissions, 1, 2))
    assert (found.text, found.remark) == (DIFF, "")
    (compared,) = board.board.submissions.compare(*sides)
    assert [run.submission for run in compared.runs] == [1, 2]
    done = call(board, "compare", *map(str, sides), "--diff")
    assert done.stdout.endswith(f"\n\n{DIFF}")
    assert re.search("CASE +run 1 +→ run 2 +CHANGE", done.stdout)
    assert read(board, "compare", *map(str, sides), "--diff")["diff"] == DIFF
    assert read(board, "compare", *map(str, sides))["diff"] is None
    interface = scripting.Board(board.settings)
    assert interface.diff(*(interface.run(number) for number in sides)) == DIFF


@pytest.mark.parametrize(
    ("other", "remark"),
    [
        (OLD, "The files are the same."),
        (OLD.replace(b"\n", b"\r\n"), "The files differ only in the ends of their lines."),
    ],
)
def test_files_without_a_difference_say_so(board: Recorded, other: bytes, remark: str) -> None:
    submitted(board, OLD, other)
    found = code_diff(board.board.submissions, 1, 2)
    assert (found.text, found.remark) == ("", remark)
    done = call(board, "compare", "1", "2", "--diff")
    assert (done.exit_code, done.stderr) == (0, f"{remark}\n")
    assert "@@" not in done.stdout


def test_files_without_times_have_a_diff(board: Recorded) -> None:
    submitted(board, OLD)
    board.add(result=result_of(Verdict.WRONG_VALUE), code=NEW)
    told = (
        "warning: the times cannot be compared: the file of run 2 has no times on CPU (run 2 on CPU, mode ranked: "
        "wrong_value). Modes benchmark, ranked and profile measure; `hpc-board runs --all --task TASK` lists what has "
        "run."
    )
    done = call(board, "compare", "1", "2", "--diff")
    assert (done.exit_code, done.stdout, done.stderr) == (0, DIFF, f"{told}\n")
    found = json.loads(call(board, "compare", "1", "2", "--diff", "--json").stdout)
    assert (found["boards"], found["diff"]) == ([], DIFF)
    assert call(board, "compare", "1", "2").stderr.startswith("error: the times cannot be compared: the file of run 2")
    board.add(task="histogram_py", code=NEW)
    assert call(board, "compare", "1", "3", "--diff").exit_code == InputError.exit_code


def test_a_file_that_the_user_may_not_read_has_no_diff_but_times(board: Recorded) -> None:
    board.settings.write_text(f"{SETTINGS}roles: {{admins: [root-of-boards]}}\n")
    submitted(board, OLD)
    submitted(board, NEW, user="eve")
    reader = Board(board.board.settings, user="mallory")
    found = code_diff(reader.submissions, 1, 2)
    assert found.text is None
    assert found.remark.startswith("You may not read both files: the owner is ")
    assert len(reader.submissions.compare(1, 2)) == 1


def test_bytes_that_are_no_text_and_the_breaks_of_odd_lines_stay_within_their_lines(board: Recorded) -> None:
    submitted(board, b"a = 1\n", b"a = '\xff'\r+ forged\x0b@@ forged\x00\n")
    text = code_diff(board.board.submissions, 1, 2).text
    assert text is not None
    assert text.splitlines()[3:] == ["-a = 1", "+a = '\N{REPLACEMENT CHARACTER}'", "++ forged", "+@@ forged\x00"]


def hostile(first: int) -> bytes:
    """A file of the greatest size, of which every second line is in the other one, too."""
    lines = (f"{number % 997}\n{first + number}" for number in range(90_000))
    return "\n".join(lines).encode()[:SOURCE_BYTES_MAX]


def test_large_files_are_compared_up_to_a_line(board: Recorded) -> None:
    submitted(board, hostile(10**5), hostile(2 * 10**5))
    found = code_diff(board.board.submissions, 1, 2)
    assert found.remark == f"Only the first {LINES_MAX:,} lines of each file are compared."
    assert found.text is not None
    assert found.text.count("\n") < 3 * LINES_MAX
    told = call(board, "compare", "1", "2", "--diff", "--json")
    assert json.loads(told.stdout)["diff"] == found.text
    assert told.stderr == f"{found.remark}\n"


def rows_of(old: str, new: str) -> list[DiffRow]:
    sides = ("run-1/a.py", old.encode()), ("run-2/a.py", new.encode())
    return diff_rows(text_diff(*sides, LINES_MAX).text or "")


def test_changed_words_are_marked_in_a_line_that_is_still_like_the_former_one() -> None:
    rows = rows_of("y = torch.stack(x)\nz = 1\n", "y = torch.sum(x)\nif both(y, w): return\n")
    assert [(row.sign, row.number, [row.text[begin:end] for begin, end in row.changed]) for row in rows[2:]] == [
        ("-", 1, ["stack"]),
        ("-", 2, []),
        ("+", 1, ["sum"]),
        ("+", 2, []),
    ]


def test_long_equal_parts_are_folded_but_for_the_lines_around_each_change() -> None:
    lines = [f"line {number}" for number in range(1, 41)]
    rows = folded(rows_of("\n".join(lines), "\n".join([*lines[:9], "new", *lines[10:19], "new", *lines[20:]])))
    assert [f"{row.sign}{row.number or row.text}" for row in rows[2:]] == [
        "… 6 equal lines",
        *(" 7", " 8", " 9", "-10", "+10", " 11", " 12", " 13"),
        # Three lines are not worth a fold.
        *(" 14", " 15", " 16"),
        *(" 17", " 18", " 19", "-20", "+20", " 21", " 22", " 23"),
        "… 17 equal lines",
    ]


def test_both_sides_have_their_lines_and_numbers_beside_each_other() -> None:
    rows = rows_of("same\nold\nold too\nsame\n", "more\nsame\nnew\nsame\n")
    pairs = [
        tuple((row.sign, row.former or row.number, row.text) if row.text else None for row in pair)
        for pair in beside(rows)[1:]
    ]
    assert pairs == [
        (None, ("+", 1, "more")),
        ((" ", 1, "same"), (" ", 1, "same")),
        (("-", 2, "old"), ("+", 3, "new")),
        (("-", 3, "old too"), None),
        ((" ", 4, "same"), (" ", 4, "same")),
    ]
    assert [(row.former, row.number) for row in rows if row.sign == " "] == [(1, 2), (4, 4)]
