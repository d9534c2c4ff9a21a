"""A course of thirty in one script: closed boards, a tutor, grades by speedup, an appeal, and the end of term."""

import csv
import grp
import io
import json
import pwd
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.near_copies import FILES_OF_USER_MAX
from hpc_board.domain.score_interval import Interval
from hpc_board.errors import Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.unit.recorded import AT, Recorded, recorded, result_of, row_case, timed_case

STUDENTS = tuple(f"s{number:02}" for number in range(1, 31))
REFERENCE_NS = 8e6
RULE = "pass: 20, 1x: 50, 2x: 80, 4x: 100"


@pytest.fixture
def course(tmp_path: Path) -> Recorded:
    place = recorded(tmp_path)
    place.settings.write_text(place.settings.read_text() + "roles: {creators: [tutor, other]}\n")
    for week in ("week1", "week2"):
        words = ["--closed", "--member", ",".join(STUDENTS), "--maintainer", "tutor", "--gpu", "CPU"]
        assert call(place, "tutor", "create", week, "vectoradd_py", *words).exit_code == 0
    return place


def call(place: Recorded, user: str, *argv: str | Path) -> Result:
    """The output of a command of `user`."""

    def opened() -> Board:
        return Board(settings.load(place.settings, {}), user=user, warn=lambda text: click.echo(text, err=True))

    return CliRunner().invoke(cli, [*map(str, argv)], obj=opened, catch_exceptions=False)


def measured(place: Recorded, task: str, user: str, speedup: float, *, spread: float = 0.0, days: int = 0) -> int:
    """Store a passing ranked run of `user`; return the number of its submission."""
    time_ns = REFERENCE_NS / speedup
    low_ns, high_ns = time_ns * (1 - spread), time_ns * (1 + spread)
    case = row_case(low_ns=low_ns, time_ns=time_ns, high_ns=high_ns, reference_ns=REFERENCE_NS)
    run = place.add(
        result=result_of(Verdict.PASS, case),
        score_s=time_ns / 1e9,
        interval=Interval(low_ns / 1e9, high_ns / 1e9),
        task=task,
        user=user,
        code=f"# {task} {user} {speedup}\n".encode(),
        at=AT + timedelta(days=days),
    )
    return run.submission


def graded(place: Recorded, user: str = "tutor", *argv: str) -> Mapping[str, Mapping[str, str]]:
    """The rows of the CSV of both weeks, by user."""
    done = call(place, user, "admin", "grades", "--points", RULE, "--format", "csv", *argv)
    assert done.exit_code == 0, done.stderr
    return {row["user"]: row for row in csv.DictReader(io.StringIO(done.stdout))}


def test_a_course_of_thirty_is_graded_from_closed_boards_to_the_end_of_term(course: Recorded, tmp_path: Path) -> None:
    sent = {user: measured(course, "week1", user, 0.5 + 0.2 * n) for n, user in enumerate(STUDENTS[:25])}
    measured(course, "week1", "s01", 0.4, days=1)
    measured(course, "week2", "s01", 4.1, spread=0.1)
    course.add(task="week2", user="s30", mode=Mode.TEST, at=AT + timedelta(days=2))

    # A student who is first has no other speedup for it: the grade does not depend on the others.
    rows = graded(course)
    assert list(rows) == [*STUDENTS]
    points = [rows[user]["week1.points"] for user in STUDENTS]
    assert points == ["20.0"] * 3 + ["50.0"] * 5 + ["80.0"] * 10 + ["100.0"] * 7 + [""] * 5
    assert (rows["s01"]["points"], rows["s01"]["points_low"], rows["s01"]["points_high"]) == ("120.0", "100.0", "120.0")
    assert (rows["s01"]["week1.first_pass_at"], rows["s01"]["week1.last_submitted_at"]) == (
        "2026-05-01T12:00:00.000000Z",
        "2026-05-02T12:00:00.000000Z",
    )
    assert (rows["s30"]["points"], rows["s30"]["week2.run"]) == ("0.0", "")
    assert rows["s30"]["week2.last_submitted_at"] == "2026-05-03T12:00:00.000000Z"
    shown = call(course, "tutor", "admin", "grades", "--points", RULE, "--task", "week2").stdout
    assert re.search(r"s01 +100 \(80 to 100\) +4\.10x \(", shown)
    assert "depend on noise" in shown

    # An appeal: a removed submission comes back.
    remove = ["admin", "remove", str(sent["s25"]), "--reason", "returns cached outputs"]
    assert call(course, "other", *remove).exit_code == 2  # a board of others that is closed does not exist
    assert call(course, "tutor", *remove).exit_code == 0
    assert graded(course)["s25"]["week1.points"] == ""
    plan = ["admin", "rerun", "week1", "--submission", str(sent["s24"]), "--dry-run"]
    assert "s24" in call(course, "tutor", *plan).stdout
    assert call(course, "tutor", "admin", "readmit", str(sent["s25"]), "--reason", "it was correct").exit_code == 0
    assert graded(course)["s25"]["week1.points"] == "100.0"

    # The end of term.
    file = tmp_path / "grades.csv"
    written = call(course, "tutor", "admin", "grades", "--points", RULE, "--format", "csv", "-o", str(file))
    assert written.stderr.startswith(str(file))
    assert (len(file.read_text().splitlines()), file.stat().st_mode & 0o077) == (31, 0)
    for week in ("week1", "week2"):
        assert call(course, "tutor", "delete", week, "--yes", "--reason", "the course is over").exit_code == 0
    assert "no boards to grade" in call(course, "tutor", "admin", "grades").stderr


def test_members_are_users_and_groups_and_no_cell_is_a_formula(course: Recorded) -> None:
    account = pwd.getpwnam("nobody")
    group = grp.getgrgid(account.pw_gid).gr_name
    measured(course, "week1", "@SUM(A1)", 2.0)
    assert "nobody" in graded(course, "tutor", "--member", f"@{group},s07")
    assert "'@SUM(A1)" in graded(course)
    for member, fault in (("@no-such-group", "unknown group"), ("a b", "not a valid member"), ("\x1b[1m", "valid")):
        done = call(course, "tutor", "admin", "grades", "--member", member)
        assert (done.exit_code, fault in done.stderr, "\x1b" in done.stderr) == (2, True, False)
    done = call(course, "s01", "admin", "grades", "--task", "week1")
    assert done.exit_code == Refused.exit_code


COPIED = b"""
import numpy as np

def custom_kernel(data):
    left, right = data
    total = np.empty_like(left)
    for begin in range(0, left.size, 4096):
        part = slice(begin, min(begin + 4096, left.size))
        np.add(left[part], right[part], out=total[part])
    return total * 1.0 if total.ndim > 1 else total
"""


def test_later_files_do_not_push_a_copy_with_the_best_score_out_of_the_comparison(course: Recorded) -> None:
    for user in ("s04", "s02"):
        passed = result_of(Verdict.PASS, timed_case())
        course.add(result=passed, task="week1", user=user, code=COPIED, score_s=2e-6, file_name="k.py")
    for number in range(FILES_OF_USER_MAX):
        course.add(task="week1", user="s02", code=b"x = %d\n" % number, file_name="k.py")

    (pair,) = json.loads(call(course, "tutor", "admin", "copies", "--task", "week1", "--json").stdout)

    assert (pair["older"]["user"], pair["newer"]["user"]) == ("s04", "s02")


def test_a_tutor_finds_near_copies_on_an_own_board_as_a_table_json_and_csv(course: Recorded) -> None:
    for days, (user, code) in enumerate(
        (("s04", COPIED), ("s02", COPIED.replace(b"part", b"rows")), ("s03", b"x = 1\n"))
    ):
        course.add(task="week1", user=user, code=code, at=AT + timedelta(days=days), file_name="k.py")

    table = call(course, "tutor", "admin", "copies").stdout.splitlines()
    (pair,) = json.loads(call(course, "tutor", "admin", "copies", "--task", "week1", "--json").stdout)
    (row,) = csv.DictReader(io.StringIO(call(course, "tutor", "admin", "copies", "--format", "csv").stdout))

    assert table[1].split()[:4] == ["week1", "1.00", "1", "s04"]
    assert (pair["older"]["user"], pair["newer"]["user"], pair["share"]) == ("s04", "s02", 1)
    assert (row["older_submission"], row["newer_submission"], row["newer_user"]) == ("1", "2", "s02")
    assert (table[0].split()[:2], row["fingerprints"]) == (["TASK", "SHARE"], str(pair["fingerprints"]))
    assert call(course, "tutor", "admin", "copies", "--task", "week2").stdout == "No near copies.\n"
    assert "invalid share 80." in call(course, "tutor", "admin", "copies", "--share", "80").stderr


@pytest.mark.parametrize("command", ["grades", "copies"])
def test_options_of_a_csv_that_would_have_no_effect_are_refused(course: Recorded, tmp_path: Path, command: str) -> None:
    file = tmp_path / "list.csv"
    for words, fault in (
        (("--json", "-o", file), "mutually exclusive"),
        (("--json", "--format", "csv"), "mutually exclusive"),
        (("--format", "csv", "--force"), "--force requires -o FILE."),
    ):
        done = call(course, "tutor", "admin", command, *words)
        assert (done.exit_code, fault in done.stderr, file.exists()) == (2, True, False)
