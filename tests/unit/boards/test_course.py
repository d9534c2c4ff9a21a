"""Grades and near copies on the boards of a course, and speedups in all forms of output."""

import csv
import grp
import importlib.util
import io
import json
import pwd
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


def measured(
    place: Recorded, task: str, user: str, speedup: float, *, spread: float = 0.0, reference_ns: float = REFERENCE_NS
) -> int:
    """Store a passing ranked run of `user`, that much faster than 8 ms; return the number of its submission."""
    time_ns = REFERENCE_NS / speedup
    low_ns, high_ns = time_ns * (1 - spread), time_ns * (1 + spread)
    case = row_case(low_ns=low_ns, time_ns=time_ns, high_ns=high_ns, reference_ns=reference_ns)
    run = place.add(
        result=result_of(Verdict.PASS, case),
        score_s=time_ns / 1e9,
        interval=Interval(low_ns / 1e9, high_ns / 1e9),
        task=task,
        user=user,
        code=f"# {task} {user} {speedup}\n".encode(),
    )
    return run.submission


def graded(place: Recorded, user: str = "tutor", *argv: str) -> Mapping[str, Mapping[str, str]]:
    """The rows of the CSV of both weeks, by user."""
    done = call(place, user, "admin", "grades", "--points", RULE, "--format", "csv", *argv)
    assert done.exit_code == 0, done.stderr
    return {row["user"]: row for row in csv.DictReader(io.StringIO(done.stdout))}


def test_a_speedup_is_the_same_on_every_surface(course: Recorded, tmp_path: Path) -> None:
    for user, speedup, reference_ns in (("s01", 2.0, 7e6), ("s02", 4.0, 8e6), ("s03", 5.0, 9.6e6)):
        measured(course, "week1", user, speedup, reference_ns=reference_ns)
    command = ("admin", "export", "--task", "week1")
    told = {
        "run": json.loads(call(course, "tutor", "run", "1", "--json").stdout),
        "show": json.loads(call(course, "tutor", "show", "week1", "--json").stdout)["boards"][0]["rows"][-1],
        "grades": json.loads(call(course, "tutor", "admin", "grades", "--json").stdout)["rows"][0]["tasks"][0][
            "result"
        ],
        "csv": next(csv.DictReader(io.StringIO(call(course, "tutor", *command, "--format", "csv").stdout))),
        "json": json.loads(call(course, "tutor", *command, "--format", "json").stdout)["runs"][0],
    }
    if importlib.util.find_spec("pyarrow"):
        file = tmp_path / "runs.parquet"
        assert call(course, "tutor", *command, "--format", "parquet", "-o", file).exit_code == 0
        told["parquet"] = importlib.import_module("pyarrow.parquet").read_table(file).to_pylist()[0]

    # The median of the references, 8 ms, over a time of 4 ms: the run's own reference took 7 ms.
    for name, keys in told.items():
        assert float(keys["speedup"]) == pytest.approx(2.0), name
    assert len({(str(keys["speedup_low"] or ""), str(keys["speedup_high"] or "")) for keys in told.values()}) == 1
    for words in (("run", "1"), ("show", "week1"), ("admin", "grades")):
        assert "2.00x" in call(course, "tutor", *words).stdout, words


def test_points_by_rank_are_those_of_every_order_that_the_intervals_permit(course: Recorded) -> None:
    for user, speedup, spread in (("s01", 4.0, 0.0), ("s02", 2.2, 0.1), ("s03", 2.1, 0.1), ("s04", 2.0, 0.1)):
        measured(course, "week1", user, speedup, spread=spread)
    # The interval of s05 overlaps that of s04 alone.
    for user, speedup, spread in (("s05", 1.7, 0.1), ("s06", 1.0, 0.0), ("s07", 1.0, 0.0)):
        measured(course, "week1", user, speedup, spread=spread)
    done = call(course, "tutor", "admin", "grades", "--task", "week1", "--points", "1: 9, 2: 8, 3: 7", "--json")
    results = [row["tasks"][0]["result"] for row in json.loads(done.stdout)["rows"][:7]]
    assert [(each["first_rank"], each["rank"], each["last_rank"]) for each in results] == [
        (1, 1, 1),
        (2, 2, 4),
        (2, 3, 4),
        (2, 4, 5),
        (4, 5, 5),
        (6, 6, 6),
        (6, 6, 6),
    ]


def test_members_are_users_and_groups_and_no_cell_is_a_formula(course: Recorded) -> None:
    account = pwd.getpwnam("nobody")
    group = grp.getgrgid(account.pw_gid).gr_name
    measured(course, "week1", "@SUM(A1)", 2.0)
    for task in ("week1", "week2"):
        measured(course, task, "tutor", 2.0)
    assert {"tutor", "s01"} & graded(course).keys() == {"s01"}
    assert "tutor" in graded(course, "tutor", "--member", "tutor")
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
    assert (row["older_run"], row["newer_run"], row["newer_user"]) == ("1", "2", "s02")
    assert [pair[side]["run"] for side in ("older", "newer")] == [1, 2]
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
