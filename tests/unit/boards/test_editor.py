"""Boards that people make: created, changed, deleted, seen and not seen, brought by competitions."""

import io
import json
import os
import pty
import re
import select
import shutil
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.board_options import (
    BoardOptions,
    CodeShown,
    RequestedOptions,
    Visibility,
    deadline_of,
)
from hpc_board.domain.moderation import Rerun
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState
from hpc_board.domain.submission import directives
from hpc_board.domain.user_board import BoardRequest, PackedSource, SyncRequest
from hpc_board.errors import DocumentError, InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode, Task
from hpc_board.report.boards import changes_table
from hpc_board.store import Store
from hpc_board.store import boards as stored_boards
from hpc_board.store.row_values import time_text
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.unit.recorded import AT, Recorded, once_drafted, recorded, result_of, status_of, timed_case
from tests.values import created, replace, requested, updated

ROLES = "roles: {admins: [root-of-boards], creators: [ada, bob]}\n"
REFERENCE = (
    "def generate_input(size: int, seed: int):\n    return [seed] * size\n\n\ndef ref_kernel(data):\n    return data\n"
    "\n\ndef check_implementation(data, output):\n    return True\n"
)
TASK = """\
name: NAME
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
lang: py
description: Return what you get.
templates: {Python: start.py}
tests: [{size: 3, seed: 1}]
benchmarks: [{size: 100, seed: 2}]
"""
START = "#!POPCORN leaderboard another\n# My own notes.\n\ndef custom_kernel(data):\n    return data\n"
COMPETITION = """\
name: Practice
deadline: "2100-06-01"
problems:
  - {directory: set/echo, name: echo_v2, gpus: [H100]}
  - {directory: set/other, name: other_v2, deadline: "2100-12-31"}
"""


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    found = recorded(tmp_path)
    found.settings.write_text(found.settings.read_text() + ROLES)
    (tmp_path / "board").mkdir()
    return found


def task_folder(folder: Path, name: str = "echo", text: str = TASK) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.yml").write_text(text.replace("NAME", name))
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "start.py").write_text(START)
    return folder


def of(place: Recorded, user: str | None = None) -> Board:
    """The board as it is to `user`; to the owner where none is given."""
    return Board(settings.load(place.settings, {"XDG_STATE_HOME": str(place.folder / "state")}), user=user)


def call(place: Recorded, *argv: str | Path, user: str | None = None) -> Result:
    board = of(place, user)
    told: list[str] = []
    board.warn = told.append
    done = CliRunner().invoke(cli, [*map(str, argv)], obj=lambda: board)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def read(place: Recorded, *argv: str | Path, user: str | None = None, code: int = 0) -> Any:
    done = call(place, *argv, "--json", user=user)
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def made(place: Recorded, name: str = "echo", *words: str, user: str | None = None) -> Path:
    """The folder of a task that is a board now."""
    folder = task_folder(place.folder / "sources" / name, name)
    done = call(place, "create", name, folder, *words, user=user)
    assert done.exit_code == 0, done.output
    return folder


def passed(place: Recorded, task: Task, user: str, score_s: float = 1e-3, gpu: str = "CPU", at: datetime = AT) -> Run:
    """A passing ranked run of `user` for this version of a task."""
    store = Store(place.folder / "board" / "board.db")
    _, (run,) = store.submissions.add(
        NewSubmission(
            task=task,
            user=user,
            file_name="kernel.py",
            code=b"pass",
            mode=Mode.RANKED,
            note="",
            at=at,
            runs=[NewRun(gpu, "here", "", os.urandom(8).hex(), "nonce", "self-run", False, "")],
        ),
        sender=None,
    )
    store.runs.record(run.id, status_of(RunState.RUNNING))
    result = replace(result_of(Verdict.PASS, timed_case()), run=run.id)
    assert store.runs.finish(run.id, status_of(RunState.FINISHED), result, score_s, AT)
    return run


def users(place: Recorded, name: str, gpu: str = "CPU") -> list[str]:
    return [row.user for row in of(place).standings.pages(name, [gpu])[0].rows]


# Terms

SOME = BoardOptions(
    "ada",
    datetime(2030, 1, 1, tzinfo=UTC),
    ("H100",),
    Visibility.CLOSED,
    ("bob", "@students"),
    CodeShown.AFTER_DEADLINE,
)


NOW = datetime(2030, 1, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2030-12-31", datetime(2030, 12, 31, tzinfo=UTC)),
        ("2030-12-31 18:30", datetime(2030, 12, 31, 18, 30, tzinfo=UTC)),
        ("2030-12-31T18:30+01:00", datetime(2030, 12, 31, 17, 30, tzinfo=UTC)),
        ("2030-12-31T18:30:00Z", datetime(2030, 12, 31, 18, 30, tzinfo=UTC)),
        ("+30d", NOW + timedelta(days=30)),
        ("+1w2d3h4m", NOW + timedelta(days=9, hours=3, minutes=4)),
        ("+90s", NOW + timedelta(seconds=90)),
        ("2030-12-31 18:30:59.08", datetime(2030, 12, 31, 18, 31, tzinfo=UTC)),
        ("none", None),
    ],
)
def test_a_deadline_is_a_date_a_time_or_a_span(text: str, moment: datetime | None) -> None:
    assert deadline_of(text, NOW) == moment


def test_a_span_ends_at_the_next_whole_second_that_every_text_shows() -> None:
    assert deadline_of("+45s", NOW + timedelta(microseconds=1)) == NOW + timedelta(seconds=46)


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "30d", "+30", "+d", "2030-13-01", "+999999w", "0001-01-01T00:00+14:00"),
        *("1969-12-31 23:59", "9999-01-01", "9998-12-31T23:59-01:00", "+415830w"),
    ],
)
def test_what_names_no_moment_is_refused_with_what_does(text: str) -> None:
    with pytest.raises(ValueError, match="expected a date or a time such as"):
        deadline_of(text, NOW)


@pytest.mark.parametrize("text", ["1970-01-01", "9998-12-31 23:59", "9999-01-01T00:30+01:00"])
def test_a_deadline_that_is_taken_can_be_read_again(text: str) -> None:
    terms = replace(SOME, deadline=deadline_of(text, NOW))
    assert msgspec.convert(json.loads(msgspec.json.encode(terms)), BoardOptions) == terms


# Looking


def test_looking_makes_no_folder_and_no_database(tmp_path: Path) -> None:
    place = recorded(tmp_path)
    for words in (("list",), ("task", "narrow"), ("template", "vectoradd_py"), ("create", "--help")):
        assert call(place, *words).exit_code == 0
    assert call(place, "update", "narrow", "--history").exit_code == 2
    assert not (tmp_path / "board").exists()


def test_a_database_that_is_none_is_told_and_not_taken_for_an_empty_board(place: Recorded) -> None:
    (place.folder / "board" / "board.db").write_bytes(b"no database at all" * 100)
    done = call(place, "list")
    assert done.exit_code == 2
    assert "this file is not a database" in done.stderr


def test_a_board_whose_task_cannot_be_decoded_is_reported_as_damage(place: Recorded) -> None:
    made(place)
    with closing(sqlite3.connect(place.folder / "board" / "board.db")) as connection:
        connection.execute("DROP TRIGGER tasks_stay")
        connection.execute("UPDATE tasks SET definition = '{}' WHERE name = 'echo'")
        connection.commit()
    for words in (("list",), ("task", "echo"), ("submit", str(place.kernel))):
        done = call(place, *words)
        assert done.exit_code == 2
        assert "board.db: the database is damaged (task echo: " in " ".join(done.stderr.split())


def test_the_task_of_a_board_is_read_from_the_database_once(place: Recorded) -> None:
    made(place)
    board = of(place)
    assert board.tasks.get("echo") is board.tasks.get("echo")
    call(place, "update", "echo", "--gpu", "H100")
    assert board.tasks.get("echo").gpus == ("H100",)


# Creating


def test_a_board_is_made_of_a_folder_and_has_its_own_name_gpus_and_deadline(place: Recorded) -> None:
    folder = task_folder(place.folder / "echo")
    words = ("--deadline", "2100-01-01 12:00", "--gpu", "h100", "--reason", "for the course")
    (plan,) = read(place, "create", "course.1", folder, *words, user="ada")
    assert (plan["name"], plan["action"], plan["stored"]) == ("course.1", "create", True)
    assert plan["terms"] == {
        "creator": "ada",
        "deadline": "2100-01-01T12:00:00Z",
        "gpus": ["H100"],
        "visibility": "public",
        "members": [],
        "code_shown": "never",
        "maintainers": [],
        "extensions": [],
        "late_seconds": 0,
        "freeze_at": None,
        "anonymous": False,
        "teams": [],
        "competition": None,
    }
    task = of(place, "eve").tasks.get("course.1")
    assert (task.name, task.gpus, task.deadline) == ("course.1", ("H100",), datetime(2100, 1, 1, 12, tzinfo=UTC))
    assert (task.description, task.templates["Python"]) == ("Return what you get.", START)
    (listed,) = [each for each in read(place, "list") if each["name"] == "course.1"]
    assert (listed["gpus"], listed["board"]["creator"]) == (["H100"], "ada")
    assert "visible to" in call(place, "task", "course.1").stdout


def test_a_board_is_made_of_a_zip_a_reference_and_a_task_that_there_is(place: Recorded) -> None:
    folder = task_folder(place.folder / "echo")
    with zipfile.ZipFile(place.folder / "echo.zip", "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"echo/{file.name}")
    single = place.folder / "reference_code.py"
    single.write_text(
        "def generate_input():\n    return [1]\n\n\ndef ref_kernel(data):\n    return data\n\n\n"
        "def check_implementation(output, expected):\n    return output == expected\n"
    )
    for name, source in (("a", place.folder / "echo.zip"), ("b", single), ("c", "vectoradd_py"), ("d", "a")):
        assert call(place, "create", name, source).exit_code == 0
    tasks = {task.name: task for task in of(place).tasks.catalog().tasks}
    assert {"a", "b", "c", "d"} <= set(tasks)
    assert tasks["d"].version == tasks["a"].version
    assert tasks["c"].version == tasks["vectoradd_py"].version


def test_a_competition_becomes_a_board_for_each_of_its_tasks(place: Recorded) -> None:
    competition(place.folder)
    asked = call(place, "create", place.folder / "practice.yaml")
    assert asked.exit_code == 2
    assert "use --yes" in asked.stderr
    assert call(place, "create", place.folder / "practice.yaml", "--yes").exit_code == 0
    assert [board.name for board in of(place).leaderboards.list()] == ["echo_v2", "other_v2"]
    assert of(place).tasks.get("other_v2").deadline == datetime(2100, 12, 31, tzinfo=UTC)
    single = call(place, "create", "other", place.folder / "practice.yaml")
    assert single.exit_code == 2
    assert "contains 2 tasks, none of them named other: echo_v2, other_v2" in single.stderr


def competition(folder: Path, text: str = COMPETITION, name: str = "practice.yaml") -> Path:
    for each in ("echo", "other"):
        task_folder(folder / "set" / each, each)
    (folder / name).write_text(text)
    return folder


def test_everything_that_is_wrong_with_a_source_is_said_and_nothing_is_stored(place: Recorded) -> None:
    folder = task_folder(
        place.folder / "echo", text=TASK.replace("size: 3", "sise: 3").replace("size: 100", "sze: 100")
    )
    done = call(place, "create", "echo", folder, "--deadline", "+1d")
    assert done.exit_code == 2
    assert "tests[0]" in done.stderr
    assert "benchmarks[0]" in done.stderr
    assert not (place.folder / "board" / "board.db").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--deadline", "2020-01-01"), "the deadline 2020-01-01 00:00 UTC has passed"),
        (("--deadline", "soon"), 'invalid deadline "soon"'),
        (("--gpu", "H1000"), 'unknown GPU "H1000". Did you mean "H100"?'),
        (("--member", "eve"), "only a closed board has members"),
        (("--closed", "--member", "two words"), '"two words" is not a valid member'),
        (("--reason", "a\nb"), "the reason contains a line break"),
        (("--reason", "x" * 501), "the reason is too long: 501 characters"),
    ],
)
def test_terms_that_cannot_be_are_refused(place: Recorded, words: Sequence[str], told: str) -> None:
    done = call(place, "create", "echo", task_folder(place.folder / "echo"), *words)
    assert done.exit_code == 2
    assert told in done.stderr
    assert of(place).leaderboards.list() == ()


@pytest.mark.parametrize("name", ["x" * 65, "a b", "-a", "../a", "é", "a\n"])
def test_a_name_that_no_board_can_have_is_refused_with_the_rule(place: Recorded, name: str) -> None:
    done = call(place, "create", "--", name, task_folder(place.folder / "echo"))
    assert done.exit_code == 2
    assert "is not a valid board name" in done.stderr
    assert "at most 64 characters" in done.stderr


def test_a_name_that_is_taken_is_refused(place: Recorded) -> None:
    folder = made(place)
    done = call(place, "create", "echo", folder)
    assert done.exit_code == 2
    assert "board echo already exists" in done.stderr


def test_a_task_none_of_whose_gpus_is_here_is_refused(place: Recorded) -> None:
    folder = task_folder(place.folder / "echo", text=TASK + "gpus: [B200, MI300]\n")
    done = call(place, "create", "echo", folder)
    assert done.exit_code == 2
    assert "echo has no GPU here: it may run on B200, MI300." in done.stderr
    assert call(place, "create", "echo", folder, "--gpu", "all").exit_code == 0
    assert [gpu.name for gpu in of(place).gpus.allowed(of(place).tasks.get("echo"))] == ["CPU", "H100"]


CUDA_TASK = TASK.replace("submission.py", "submission.cu").replace("lang: py", "lang: cu")


def with_amd(place: Recorded) -> None:
    """A GPU of AMD in the settings beside the others."""
    place.settings.write_text(
        place.settings.read_text().replace("gpus:\n", "gpus:\n  MI300: {cluster: here, device: hip}\n")
    )


def test_create_refuses_a_task_that_no_gpu_of_it_runs(place: Recorded) -> None:
    with_amd(place)
    folder = task_folder(place.folder / "echo", text=CUDA_TASK + "gpus: [MI300]\n")
    done = call(place, "create", "echo", folder)
    assert done.exit_code == 2
    assert "echo is a task in cu; none of its GPUs here (MI300) runs that." in done.stderr
    assert "They run py, hip." in done.stderr
    made(place)
    done = call(place, "update", "echo", folder, "--gpu", "MI300")
    assert done.exit_code == 2
    assert "none of its GPUs here (MI300) runs that." in done.stderr


def test_create_warns_of_named_gpus_that_run_no_language_of_the_task(place: Recorded) -> None:
    with_amd(place)
    folder = task_folder(place.folder / "echo", text=CUDA_TASK + "gpus: [H100, MI300]\n")
    done = call(place, "create", "echo", folder)
    assert (done.exit_code, "echo: no submission in cu runs on MI300." in done.stderr) == (0, True)
    assert [gpu.name for gpu in of(place).gpus.allowed(of(place).tasks.get("echo"))] == ["H100"]
    (task,) = [each for each in read(place, "list") if each["name"] == "echo"]
    assert task["gpus"] == ["H100"]


def test_ranked_runs_of_an_emulated_gpu_and_of_the_gpu_itself_share_no_standings(place: Recorded) -> None:
    place.add(result=result_of(Verdict.PASS, timed_case()), score_s=1e-3, gpu="H100")
    place.kernel.write_text(place.kernel.read_text().replace("#!POPCORN gpu CPU\n", ""))
    ranked = ("submit", place.kernel, "--gpu", "H100", "--mode", "ranked", "--dry-run")
    assert call(place, *ranked).exit_code == 0
    place.settings.write_text(place.settings.read_text().replace("device: cpu", "device: cuda"))
    refused = call(place, *ranked)
    assert refused.exit_code == 2
    assert "H100 is not emulated here, but its standings for vectoradd_py contain emulated runs." in refused.stderr
    assert "hint: Choose another mode, or ask the admin to rename the entry." in refused.stderr
    assert call(place, *ranked, "--mode", "test").exit_code == 0
    with pytest.raises(InputError, match="its standings for vectoradd_py contain emulated runs"):
        of(place).submissions.rerun("vectoradd_py", [1], submissions=[1])


def test_a_board_takes_the_place_of_the_settings_task_of_its_name_and_the_list_says_so(place: Recorded) -> None:
    done = call(place, "create", "vectoradd_py", "vectoradd_py", "--gpu", "H100")
    assert done.exit_code == 0
    assert "replaces the task of this name" in done.stderr
    listed = call(place, "list")
    assert listed.stderr.count("replace the settings' tasks vectoradd_py") == 1
    assert of(place).tasks.get("vectoradd_py").gpus == ("H100",)
    assert [task.name for task in of(place).tasks.catalog().tasks].count("vectoradd_py") == 1


def test_a_version_of_a_board_is_listed_from_its_first_submission_on(place: Recorded) -> None:
    folder = made(place)
    assert read(place, "show", "echo", "--versions")["versions"] == []
    first_at = AT + timedelta(days=1)
    passed(place, of(place).tasks.get("echo"), "eve", at=first_at)
    passed(place, of(place).tasks.get("echo"), "eve", at=first_at + timedelta(days=1))
    changed(folder)
    assert call(place, "update", "echo", folder, "--force").exit_code == 0
    (version,) = read(place, "show", "echo", "--versions")["versions"]
    assert datetime.fromisoformat(version["first_submission_at"]) == first_at
    assert version["present"] is False


def test_of_two_who_make_a_board_at_once_one_is_told(place: Recorded) -> None:
    folder = str(task_folder(place.folder / "echo"))
    first, second = of(place, "ada"), of(place, "bob")
    request = BoardRequest(folder, "echo")
    (plan,) = second.leaderboards.plan(request)
    created(first, folder, "echo")
    with pytest.raises(InputError, match="board echo already exists"):
        second.leaderboards.carry_out(request, {"echo": plan.after_change})


def test_what_became_of_each_board_is_found_by_an_index_alone(place: Recorded) -> None:
    made(place)
    with closing(sqlite3.connect(place.folder / "board" / "board.db")) as connection:
        (step,) = connection.execute(f"EXPLAIN QUERY PLAN {stored_boards._NEWEST}").fetchall()
    assert "COVERING INDEX boards_by_name" in step[3]


# Updating


def test_terms_change_without_force_and_standings_stay(place: Recorded) -> None:
    made(place, user="ada")
    passed(place, of(place).tasks.get("echo"), "eve")
    words = ("--deadline", "2100-01-01", "--gpu", "CPU,H100", "--closed", "--member", "eve", "--show-code")
    (plan,) = read(place, "update", "echo", *words, "--reason", "why not", user="ada")
    assert {change["what"] for change in plan["changes"]} == {
        "deadline",
        "gpus",
        "visibility",
        "members",
        "code shown",
    }
    assert not any(change["restarts"] for change in plan["changes"])
    assert plan["left"] == []
    assert users(place, "echo") == ["eve"]
    terms = of(place).leaderboards.list()[0].options
    assert (terms.visibility, terms.members, terms.code_shown) == (
        Visibility.CLOSED,
        ("eve",),
        CodeShown.AFTER_DEADLINE,
    )
    (back,) = read(place, "update", "echo", "--open", "--no-member", "eve", "--hide-code", "--deadline", "none")
    assert back["terms"]["members"] == []
    assert back["terms"]["deadline"] is None


def test_a_changed_description_is_the_same_version_and_needs_no_force(place: Recorded) -> None:
    folder = made(place)
    passed(place, of(place).tasks.get("echo"), "eve")
    (folder / "task.yml").write_text((folder / "task.yml").read_text().replace("Return what", "Give back what"))
    (folder / "start.py").write_text("import math\n")
    done = call(place, "update", "echo", folder)
    assert done.exit_code == 0, done.output
    task = of(place).tasks.get("echo")
    assert (task.description, task.templates) == ("Give back what you get.", {"Python": "import math\n"})
    assert users(place, "echo") == ["eve"]


def changed(folder: Path, what: str = "size: 100", to: str = "size: 200") -> Path:
    (folder / "task.yml").write_text((folder / "task.yml").read_text().replace(what, to))
    return folder


def test_a_new_version_needs_force_where_somebody_is_on_the_board(place: Recorded) -> None:
    folder = made(place)
    before = of(place).tasks.get("echo")
    passed(place, before, "eve")
    passed(place, before, "bob", 2e-3)
    changed(folder)
    refused = call(place, "update", "echo", folder)
    assert refused.exit_code == 5
    assert "the standings of echo would be reset (benchmarks), and they contain users (CPU: 2)" in refused.stderr
    assert "reset" in refused.stdout
    assert of(place).tasks.get("echo").version == before.version
    (plan,) = read(place, "update", "echo", folder, "--force", "--reason", "larger cases")
    assert plan["left"] == [{"gpu": "CPU", "users": 2}]
    assert [change["what"] for change in plan["changes"] if change["restarts"]] == ["benchmarks"]
    assert users(place, "echo") == []
    store = Store(place.folder / "board" / "board.db")
    assert [row.user for row in store.standings.list("echo", before.version, "CPU")] == ["eve", "bob"]


@pytest.mark.parametrize(("old", "new"), [("10", "10.0"), ("1", "true"), ("[1, 2]", "[1, 2.0]")])
def test_case_values_that_are_equal_but_of_another_type_need_force(place: Recorded, old: str, new: str) -> None:
    folder = made(place)
    assert call(place, "update", "echo", changed(folder, "size: 100", f"size: {old}")).exit_code == 0
    passed(place, of(place).tasks.get("echo"), "eve")
    changed(folder, "Return what", "Give back what")
    refused = call(place, "update", "echo", changed(folder, f"size: {old}", f"size: {new}"))
    assert refused.exit_code == 5
    assert "the standings of echo would be reset (benchmarks)" in refused.stderr
    assert users(place, "echo") == ["eve"]


def test_who_comes_onto_the_board_while_its_change_is_planned_is_counted(place: Recorded) -> None:
    folder = made(place)
    before = of(place).tasks.get("echo")
    request = BoardRequest(str(changed(folder)), "echo", update=True)
    (plan,) = of(place).leaderboards.plan(request)
    assert not plan.needs_force
    changes = {"echo": plan.after_change}
    passed(place, before, "eve")
    with pytest.raises(Refused, match=r"they contain users \(CPU: 1\)"):
        of(place).leaderboards.carry_out(request, changes)
    assert of(place).tasks.get("echo").version == before.version
    (done,) = of(place).leaderboards.carry_out(request, changes, force=True)
    assert [(each.gpu, each.users) for each in done.left] == [("CPU", 1)]
    assert of(place).tasks.get("echo").version != before.version


def test_a_version_that_was_here_before_brings_its_standings_back(place: Recorded) -> None:
    folder = made(place)
    passed(place, of(place).tasks.get("echo"), "eve")
    assert call(place, "update", "echo", changed(folder), "--force").exit_code == 0
    (plan,) = read(place, "update", "echo", changed(folder, "size: 200", "size: 100"))
    assert plan["joined"] == [{"gpu": "CPU", "users": 1}]
    assert users(place, "echo") == ["eve"]


def test_an_update_that_changes_nothing_stores_nothing(place: Recorded) -> None:
    folder = made(place)
    done = call(place, "update", "echo", folder, "--gpu", "all")
    assert "No changes." in done.stdout
    assert len(of(place).leaderboards.history("echo")) == 1


def test_the_history_says_who_changed_what_when_and_why(place: Recorded) -> None:
    made(place, user="ada")
    call(place, "update", "echo", "--gpu", "H100", "--reason", "the other cluster is down", user="ada")
    call(place, "delete", "echo", "--yes")
    made(place, user="root-of-boards")
    history = read(place, "update", "echo", "--history", user="eve")
    assert [(each["action"], each["by"]) for each in history] == [
        ("create", "ada"),
        ("update", "ada"),
        ("delete", of(place).user),
        ("create", "root-of-boards"),
    ]
    assert history[1]["reason"] == "the other cluster is down"
    assert history[1]["terms"]["gpus"] == ["H100"]
    assert "other cluster" in call(place, "update", "echo", "--history").stdout
    assert call(place, "update", "echo", "--history", "--force").exit_code == 2


def test_the_history_says_what_each_update_changed(place: Recorded) -> None:
    folder = made(place, "echo", "--closed")
    call(place, "update", "echo", "--show-code", "--deadline", "2100-01-01")
    call(place, "update", "echo", "--member", "bob,@course")
    changed(folder, "description: ", "description: Another one. ")
    call(place, "update", "echo", folder)
    changed(folder, "size: 3", "size: 4")
    call(place, "update", "echo", folder)
    _, *rows = changes_table(of(place).leaderboards.history("echo")).rows
    assert [row[-2] for row in rows] == [
        "deadline; code shown: after deadline",
        "members: bob, @course",
        "task, standings kept",
        "task, standings reset",
    ]


def test_an_update_from_a_source_keeps_the_boards_own_deadline_and_gpus(place: Recorded) -> None:
    folder = made(place, "echo", "--deadline", "2100-01-01", "--gpu", "H100")
    changed(folder, "lang: py", "lang: py\ngpus: [CPU]\nhpc_board: {deadline: 2090-01-01}")
    assert call(place, "update", "echo", folder).exit_code == 0
    task = of(place).tasks.get("echo")
    assert (task.gpus, task.deadline) == (("H100",), datetime(2100, 1, 1, tzinfo=UTC))


def test_an_update_takes_a_source_in_the_format_that_is_named(place: Recorded, tmp_path: Path) -> None:
    made(place, "echo")
    source = tmp_path / "rows.py"
    source.write_text("def inputs(seed):\n    return (seed,)\n\n\ndef reference(x):\n    return x\n")
    wrong = call(place, "update", "echo", source, "--format", "kernelbench")
    assert (wrong.exit_code, "Model: is not defined" in wrong.stderr) == (2, True), wrong.stderr
    assert call(place, "update", "echo", source, "--format", "pair").exit_code == 0
    assert "reference_source.py" in [file.name for file in of(place).tasks.get("echo").files]


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_an_update_warns_of_unknown_keys(place: Recorded, words: Sequence[str]) -> None:
    folder = made(place, "echo")
    changed(folder, "lang: py", "lang: py\nrankingby: geom")
    done = call(place, "update", "echo", folder, *words)
    assert done.exit_code == 0, done.stderr
    assert "echo: task.yml, line" in done.stderr
    assert "unknown key rankingby is ignored" in done.stderr
    assert "rankingby" not in call(place, "update", "echo", "--deadline", "none", *words).stderr


def test_a_plan_warns_once_of_users_that_this_machine_does_not_know(place: Recorded) -> None:
    made(place, "echo")
    board, told = of(place), list[str]()
    board.warn = told.append
    options = RequestedOptions(closed=True, members=("@hpc-board-absent",))
    request = BoardRequest(name="echo", options=options, update=True)
    (plan,) = board.leaderboards.plan(request)
    assert told == ["echo: unknown on this machine: @hpc-board-absent."]
    board.leaderboards.carry_out(request, {"echo": plan.after_change})
    assert len(told) == 1


def test_a_task_of_the_settings_folders_is_no_board_to_change(place: Recorded) -> None:
    for words in (("update", "narrow", "--gpu", "CPU"), ("delete", "narrow", "--yes")):
        done = call(place, *words)
        assert done.exit_code == 2
        assert "narrow comes from a folder in the settings" in done.stderr
        assert "hpc-board create narrow narrow" in done.stderr
    made(place)
    assert 'Did you mean "echo"?' in call(place, "update", "eco", "--gpu", "CPU").stderr


def test_somebody_who_looked_before_another_changed_the_board_is_told(place: Recorded) -> None:
    made(place)
    request = BoardRequest(None, "echo", RequestedOptions("+1d"), update=True)
    (plan,) = of(place).leaderboards.plan(request)
    updated(of(place), "echo", options=RequestedOptions("+2d"))
    with pytest.raises(InputError, match="a board changed after the plan was made"):
        of(place).leaderboards.carry_out(request, {"echo": plan.after_change})


# Deleting


def test_a_deleted_board_is_gone_and_its_standings_are_kept_in_a_file(place: Recorded) -> None:
    made(place, user="ada")
    run = passed(place, of(place).tasks.get("echo"), "eve")
    done = read(place, "delete", "echo", "--yes", "--reason", "it is over", user="ada")
    assert call(place, "show", "echo").exit_code == 2
    assert of(place).leaderboards.list() == ()
    kept = json.loads(Path(done["kept"]).read_text())
    assert Path(done["kept"]).parent == place.folder / "board" / "exports"
    assert (kept["board"], kept["deleted_by"], kept["reason"]) == ("echo", "ada", "it is over")
    assert {"name": "reference.py", "text": REFERENCE} in kept["task"]["files"]
    assert kept["terms"]["creator"] == "ada"
    (row,) = kept["standings"]["CPU"]
    assert (row["rank"], row["user"], row["score_s"], row["run"]) == (1, "eve", 1e-3, run.id)
    assert of(place).runs.get(run.id).verdict is Verdict.PASS


@pytest.mark.parametrize(("typed", "gone"), [("echo", True), ("yes", False)])
def test_on_a_terminal_the_name_has_to_be_typed(place: Recorded, typed: str, gone: bool) -> None:
    made(place)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "hpc_board", "delete", "echo"],
        cwd=place.folder,
        env=place.environ(),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as process:
        shown = b""
        while b"to delete it" not in shown:
            assert select.select([leader], [], [], 60)[0]
            shown += os.read(leader, 1000)
        os.write(leader, f"{typed}\n".encode())
        assert (process.wait(60) == 0) is gone
    os.close(leader)
    os.close(follower)
    assert (of(place).leaderboards.get("echo") is None) is gone


def test_runs_in_flight_of_a_deleted_board_go_on_and_their_results_are_kept(place: Recorded) -> None:
    made(place)
    store = Store(place.folder / "board" / "board.db")
    task = of(place).tasks.get("echo")
    _, (run,) = store.submissions.add(
        NewSubmission(
            task=task,
            user=of(place).user,
            file_name="kernel.py",
            code=b"pass",
            mode=Mode.RANKED,
            note="",
            at=AT,
            runs=[NewRun("CPU", "here", "", "token", "nonce", "self-run", False, "")],
        ),
        sender=None,
    )
    assert call(place, "delete", "echo", "--yes").exit_code == 0
    assert [each.id for each in of(place).runs.in_flight()] == [run.id]
    assert of(place).runs.get(run.id).task == "echo"
    result = replace(result_of(Verdict.PASS, timed_case()), run=run.id)
    assert store.runs.finish(run.id, status_of(RunState.FINISHED), result, 1e-3, AT)
    assert [row.user for row in store.standings.list("echo", task.version, "CPU")] == [of(place).user]


def test_a_board_that_is_made_again_is_empty_unless_its_version_is_the_same(place: Recorded) -> None:
    folder = made(place)
    passed(place, of(place).tasks.get("echo"), "eve")
    assert call(place, "delete", "echo", "--yes").exit_code == 0
    changed(folder)
    assert call(place, "create", "echo", folder).exit_code == 0
    assert users(place, "echo") == []
    assert call(place, "delete", "echo", "--yes").exit_code == 0
    changed(folder, "size: 200", "size: 100")
    done = call(place, "create", "echo", folder)
    assert "its standings are restored (CPU: 1 user)" in done.stdout
    assert users(place, "echo") == ["eve"]


def test_what_cannot_be_kept_is_not_deleted(place: Recorded) -> None:
    made(place)
    (place.folder / "board" / "exports").write_text("in the way")
    done = call(place, "delete", "echo", "--yes")
    assert done.exit_code == 2
    assert "The board was not deleted" in done.stderr
    assert of(place).leaderboards.get("echo")


def test_the_log_says_what_an_update_has_changed(place: Recorded) -> None:
    folder = made(place)
    assert call(place, "update", "echo", "--deadline", "+30d", "--gpu", "CPU").exit_code == 0
    assert call(place, "update", "echo", changed(folder)).exit_code == 0
    assert call(place, "delete", "echo", "--yes").exit_code == 0
    details = {each["action"] + str(number): each["detail"] for number, each in enumerate(read(place, "admin", "log"))}
    assert details == {"delete0": "", "update1": "new version", "update2": "deadline, GPUs", "create3": ""}
    assert "deadline, GPUs" in call(place, "admin", "log").stdout


def test_the_log_takes_the_terms_that_a_source_has_of_its_own_for_no_other_task(place: Recorded) -> None:
    made(place, "echo", "--gpu", "CPU", "--deadline", "2031-01-01")
    assert call(place, "update", "echo", "--deadline", "2031-01-07").exit_code == 0
    update, _ = read(place, "admin", "log")
    assert update["detail"] == "deadline"


def test_a_deadline_is_shown_in_the_readers_zone_everywhere_and_in_utc_to_scripts(
    place: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "XYZ-3")
    time.tzset()
    try:
        folder = task_folder(place.folder / "sources" / "echo")
        created = call(place, "create", "echo", folder, "--deadline", "2100-01-01 12:00")
        updated = call(place, "update", "echo", "--deadline", "2100-01-02 12:00")
        shown = [call(place, *words).stdout for words in (["list"], ["task", "echo"], ["update", "echo", "--history"])]
        (plan,) = read(place, "update", "echo", "--deadline", "2100-01-03 12:00", "--dry-run")
        (listed,) = [each for each in read(place, "list") if each["name"] == "echo"]
        start = call(place, "template", "echo").stdout
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "2100-01-01 15:00 XYZ" in created.stdout
    assert "2100-01-01 12:00" not in created.stdout
    for text in (updated.stdout, *shown):
        assert "2100-01-02 15:00 XYZ" in text
    (change,) = plan["changes"]
    assert (change["before"], change["after"]) == ("2100-01-02T12:00:00Z", "2100-01-03T12:00:00Z")
    assert listed["deadline"] == "2100-01-02T12:00:00Z"
    assert "Deadline: 2100-01-02 12:00 UTC" in start


# Roles


def test_a_participant_makes_changes_and_deletes_no_board(place: Recorded) -> None:
    folder = made(place, user="ada")
    eve = of(place, "eve")
    assert eve.role is Role.PARTICIPANT
    for words in (
        ("create", "mine", folder),
        ("update", "echo", "--deadline", "+1d"),
        ("delete", "echo", "--yes"),
        ("admin", "sync", folder),
    ):
        assert call(place, *words, user="eve").exit_code == 5
    creation, change = (
        BoardRequest(str(folder), "mine"),
        BoardRequest(None, "echo", RequestedOptions("+1d"), update=True),
    )
    for act in (
        lambda: eve.leaderboards.plan(creation),
        lambda: eve.leaderboards.plan(change),
        lambda: eve.leaderboards.plan_deletion("echo"),
        lambda: eve.leaderboards.delete("echo"),
        lambda: eve.leaderboards.plan_sync(SyncRequest(str(folder))),
        lambda: eve.leaderboards.carry_out(change, {"echo": 1}),
        lambda: eve.leaderboards.carry_out(creation, {"mine": 0}),
    ):
        with pytest.raises(Refused):
            act()
    assert [board.name for board in of(place).leaderboards.list()] == ["echo"]


def test_a_creator_changes_own_boards_alone_and_an_admin_all(place: Recorded) -> None:
    made(place, user="ada")
    refused = call(place, "update", "echo", "--deadline", "+1d", user="bob")
    assert refused.exit_code == 5
    assert "you may not change the board echo: it belongs to ada" in refused.stderr
    assert call(place, "delete", "echo", "--yes", user="bob").exit_code == 5
    assert call(place, "update", "echo", "--deadline", "+1d", user="ada").exit_code == 0
    assert call(place, "update", "echo", "--deadline", "+2d", user="root-of-boards").exit_code == 0
    board = of(place).leaderboards.get("echo")
    assert board is not None
    assert board.options.creator == "ada"
    assert call(place, "delete", "echo", "--yes", user="root-of-boards").exit_code == 0


def test_who_is_no_creator_any_more_may_not_change_their_boards(place: Recorded) -> None:
    made(place, user="ada")
    place.settings.write_text(place.settings.read_text().replace("creators: [ada, bob]", "creators: [bob]"))
    assert call(place, "delete", "echo", "--yes", user="ada").exit_code == 5


def test_the_name_of_a_settings_task_is_for_admins_alone(place: Recorded) -> None:
    refused = call(place, "create", "vectoradd_py", "vectoradd_py", "--closed", user="ada")
    assert refused.exit_code == 5
    assert "a task in the settings has this name" in refused.stderr
    with pytest.raises(Refused, match="a task in the settings has this name"):
        created(of(place, "ada"), "vectoradd_py")
    assert of(place).leaderboards.list() == ()
    assert call(place, "create", "vectoradd_py", "vectoradd_py", user="root-of-boards").exit_code == 0


def test_the_name_of_a_task_that_has_left_the_settings_is_for_admins_alone(place: Recorded) -> None:
    task = of(place).tasks.get("vectoradd_py")
    passed(place, replace(task, name="former"), "eve")
    assert call(place, "create", "another", "vectoradd_py", user="ada").exit_code == 0
    refused = call(place, "create", "former", "vectoradd_py", "--closed", user="ada")
    assert refused.exit_code == 5
    assert "a former task in the settings had this name and has runs" in refused.stderr
    assert call(place, "create", "former", "vectoradd_py", user="root-of-boards").exit_code == 0


def test_a_name_that_another_creator_had_is_for_admins_alone(place: Recorded) -> None:
    folder = made(place, user="ada")
    assert call(place, "delete", "echo", "--yes", user="ada").exit_code == 0
    refused = call(place, "create", "echo", folder, user="bob")
    assert refused.exit_code == 5
    assert "another user had a board of this name" in refused.stderr
    assert call(place, "create", "echo", folder, user="ada").exit_code == 0
    assert call(place, "delete", "echo", "--yes", user="ada").exit_code == 0
    assert call(place, "create", "echo", folder, user="root-of-boards").exit_code == 0
    assert call(place, "delete", "echo", "--yes", user="root-of-boards").exit_code == 0
    # Of several who had it, one is enough.
    assert call(place, "create", "echo", folder, user="ada").exit_code == 5


# Visibility


def test_a_closed_board_is_unknown_to_whoever_is_not_in_it(place: Recorded) -> None:
    made(place, "echo", "--closed", "--member", "eve,@a-group-of-nobody", user="ada")
    run = passed(place, of(place).tasks.get("echo"), "eve")
    for user in ("ada", "eve", "root-of-boards"):
        assert "echo" in {each["name"] for each in read(place, "list", user=user)}
        assert of(place, user).runs.get(run.id).id == run.id
        assert run.id in {each.id for each in of(place, user).runs.list(everyone=True)}
    place.kernel.write_text("#!POPCORN leaderboard echo\nx = 1\n")
    mallory = of(place, "mallory")
    assert "echo" not in {each["name"] for each in read(place, "list", user="mallory")}
    for words in (
        ("show", "echo"),
        ("show", "echo", "--own"),
        ("task", "echo"),
        ("template", "echo"),
        ("submit", place.kernel, "--gpu", "CPU"),
        ("create", "mine", "echo"),
    ):
        done = call(place, *words, user="mallory" if words[0] != "create" else "bob")
        assert (done.exit_code, 'unknown task "echo"' in done.stderr) == (2, True), done.output
    assert 'unknown board "echo"' in call(place, "update", "echo", "--history", user="mallory").stderr
    assert 'unknown board "echo"' in call(place, "delete", "echo", "--yes", user="bob").stderr
    assert mallory.runs.list(everyone=True) == ()
    assert [rank.task for rank in of(place, "ada").standings.of_user("eve").ranks] == ["echo"]
    assert (of(place, "ada").standings.users(), mallory.standings.users()) == (("eve",), ())
    with pytest.raises(InputError, match=r'unknown user "eve"\.$'):
        mallory.standings.of_user("eve")
    with pytest.raises(InputError, match=f"there is no run {run.id}"):
        mallory.runs.get(run.id)
    with pytest.raises(InputError, match=f"there is no run {run.id}"):
        mallory.submissions.code(run.id)


def test_nothing_of_a_run_is_told_to_whoever_may_not_see_it(place: Recorded) -> None:
    made(place, "echo", "--closed", user="ada")
    run = passed(place, of(place).tasks.get("echo"), "ada")
    for user in ("ada", "root-of-boards"):
        told = of(place, user)
        whole = told.runs.whole(run.id)
        assert (whole.result is not None, whole.placing is not None, len(whole.history)) == (True, True, 3)
        assert told.runs.started([run.id]) == {run.id: AT}
        assert (len(told.runs.cases(run.id)), told.runs.progress(run.id)) == (1, [])
    mallory = of(place, "mallory")
    for ask in (mallory.runs.whole, mallory.runs.cases, mallory.runs.progress, mallory.runs.log):
        with pytest.raises(InputError, match=f"there is no run {run.id}"):
            ask(run.id)
    with pytest.raises(InputError, match=f"there is no run {run.id}"):
        mallory.standings.placing(run)
    assert mallory.runs.started([run.id]) == {}


def test_the_runs_of_a_closed_board_stay_hidden_when_it_is_deleted(place: Recorded) -> None:
    made(place, "echo", "--closed", user="ada")
    passed(place, of(place).tasks.get("echo"), "ada")
    call(place, "delete", "echo", "--yes", user="ada")
    assert of(place, "mallory").runs.list(everyone=True) == ()
    assert of(place, "mallory").runs.count(everyone=True) == 0
    assert len(of(place, "ada").runs.list(everyone=True)) == of(place, "ada").runs.count() == 1


def test_the_runs_of_a_deleted_closed_board_are_shown_by_nothing_but_opening_it(place: Recorded) -> None:
    folder = made(place, "exam", "--closed", user="ada")
    run = passed(place, of(place).tasks.get("exam"), "ada")
    assert call(place, "delete", "exam", "--yes", user="ada").exit_code == 0
    for user in ("ada", "root-of-boards"):
        refused = call(place, "create", "exam", folder, user=user)
        assert refused.exit_code == 2
        assert "a closed board exam existed" in refused.stderr
    competition(place.folder, COMPETITION.replace("echo_v2", "exam"))
    (exam, *_) = read(place, "admin", "sync", place.folder / "practice.yaml", user="root-of-boards", code=5)
    assert (exam["name"], exam["result"]) == ("exam", "skipped")
    assert "a closed board exam existed" in exam["reason"]
    assert call(place, "create", "exam", folder, "--closed", "--member", "eve", user="ada").exit_code == 0
    assert of(place, "mallory").runs.list(everyone=True) == ()
    assert [each.id for each in of(place, "eve").runs.list(everyone=True)] == [run.id]
    assert call(place, "update", "exam", "--open", user="ada").exit_code == 0
    assert [each.id for each in of(place, "mallory").runs.list(everyone=True)] == [run.id]


def test_a_deleted_closed_board_goes_on_to_hide_the_settings_task_of_its_name(place: Recorded) -> None:
    assert call(place, "create", "vectoradd_py", "vectoradd_py", "--closed").exit_code == 0
    passed(place, of(place).tasks.get("vectoradd_py"), "ada")
    assert call(place, "delete", "vectoradd_py", "--yes").exit_code == 0
    assert "vectoradd_py" in {task.name for task in of(place, "root-of-boards").tasks.catalog().tasks}
    mallory = of(place, "mallory")
    assert "vectoradd_py" not in {task.name for task in mallory.tasks.catalog().tasks}
    assert "narrow" in {task.name for task in mallory.tasks.catalog().tasks}
    assert call(place, "show", "vectoradd_py", user="mallory").exit_code == 2
    assert mallory.standings.feed() == ()


def test_a_closed_board_hides_the_settings_task_of_its_name_too(place: Recorded) -> None:
    assert call(place, "create", "vectoradd_py", "vectoradd_py", "--closed").exit_code == 0
    assert "vectoradd_py" not in {task.name for task in of(place, "mallory").tasks.catalog().tasks}
    with pytest.raises(InputError, match="unknown task"):
        of(place, "bob").leaderboards.plan(BoardRequest("vectoradd_py", "copy"))


def test_code_is_shown_to_others_after_the_deadline_if_the_terms_say_so() -> None:
    assert not SOME.shows_code(datetime(2029, 12, 31, tzinfo=UTC))
    assert SOME.shows_code(datetime(2030, 1, 2, tzinfo=UTC))
    assert not replace(SOME, code_shown=CodeShown.NEVER).shows_code(datetime(2031, 1, 1, tzinfo=UTC))
    assert not replace(SOME, deadline=None).shows_code(datetime(2031, 1, 1, tzinfo=UTC))


def test_a_board_says_whether_code_is_shown(place: Recorded) -> None:
    made(place, "echo", "--deadline", "+1d", "--show-code")
    run = str(passed(place, of(place).tasks.get("echo"), "bob", at=datetime.now(UTC)).id)
    assert call(place, "code", run, user="eve").exit_code == 5
    ended(place, BoardOptions("ada", datetime(2020, 1, 1, tzinfo=UTC), code_shown=CodeShown.AFTER_DEADLINE))
    assert call(place, "code", run, user="eve").stdout == "pass"
    ended(place, BoardOptions("ada", datetime(2020, 1, 1, tzinfo=UTC)))
    assert call(place, "code", run, user="eve").exit_code == 5


def test_a_submission_that_an_admin_sends_again_is_shown_only_if_the_first_one_is(place: Recorded) -> None:
    made(place)
    task = of(place).tasks.get("echo")
    before = passed(place, task, "bob", at=datetime.now(UTC)).submission
    ended(place, BoardOptions("ada", datetime(2020, 1, 1, tzinfo=UTC), code_shown=CodeShown.AFTER_DEADLINE))
    after = passed(place, task, "bob", at=datetime.now(UTC)).submission
    shown = []
    for original in (before, after):
        now = datetime.now(UTC)
        run = NewRun("CPU", "here", "", os.urandom(8).hex(), "nonce", "verified", False, "")
        again = NewSubmission(
            task, "bob", "k.py", b"pass", Mode.RANKED, "", now, [run], rerun=Rerun(original, "root-of-boards", now)
        )
        ((stored, _),) = Store(place.folder / "board" / "board.db").submissions.add_all([again], sender=None)
        shown.append(call(place, "code", str(stored.id), user="eve").exit_code)
    assert shown == [5, 0]


def test_code_is_shown_only_of_what_was_submitted_after_it_was_promised(place: Recorded) -> None:
    promise = BoardOptions("ada", datetime(2020, 1, 1, tzinfo=UTC), code_shown=CodeShown.AFTER_DEADLINE)
    silent = replace(promise, code_shown=CodeShown.NEVER)

    def submitted() -> str:
        return str(passed(place, task, "bob", at=datetime.now(UTC)).submission)

    def shown(number: str) -> bool:
        return call(place, "code", number, user="eve").exit_code == 0

    task = of(place).tasks.get("vectoradd_py")
    of_the_settings = submitted()
    assert call(place, "create", "vectoradd_py", "vectoradd_py", "--deadline", "+1d").exit_code == 0
    before = submitted()
    ended(place, promise)
    after = submitted()
    assert [shown(each) for each in (of_the_settings, before, after)] == [False, False, True]
    # A change that keeps the promise does not begin it anew.
    ended(place, replace(promise, deadline=datetime(2020, 1, 2, tzinfo=UTC)))
    assert shown(after)
    ended(place, silent)
    ended(place, promise)
    assert not shown(after)
    # The promise of a deleted board is not that of the next one.
    last = submitted()
    assert shown(last)
    assert call(place, "delete", "vectoradd_py", "--yes").exit_code == 0
    assert call(place, "create", "vectoradd_py", "vectoradd_py", "--deadline", "+1d", "--show-code").exit_code == 0
    ended(place, promise)
    assert not shown(last)


# Deadlines


def ended(place: Recorded, terms: BoardOptions) -> None:
    """Give all boards these terms, which no command takes."""
    with closing(sqlite3.connect(place.folder / "board" / "board.db")) as connection:
        connection.execute(
            "INSERT INTO boards (name, action, task_version, terms, by_user, at, reason) "
            "SELECT name, 'update', task_version, ?, by_user, ?, '' FROM boards "
            "WHERE id IN (SELECT MAX(id) FROM boards GROUP BY name)",
            [msgspec.json.encode(terms).decode(), time_text(datetime.now(UTC))],
        )
        connection.commit()


def test_a_task_whose_own_deadline_has_passed_needs_another_one(place: Recorded) -> None:
    folder = task_folder(place.folder / "echo", text=TASK + "hpc_board: {deadline: 2020-01-01}\n")
    done = call(place, "create", "echo", folder)
    assert done.exit_code == 2
    assert "echo: its own deadline, 2020-01-01 00:00 UTC, has passed" in done.stderr
    assert call(place, "create", "echo", folder, "--deadline", "none").exit_code == 0
    assert of(place).tasks.get("echo").deadline is None


def test_after_the_deadline_participants_are_refused_and_admins_told(place: Recorded) -> None:
    made(place, "echo", "--gpu", "CPU", "--deadline", "+1d", user="ada")
    ended(place, BoardOptions("ada", datetime(2020, 1, 1, tzinfo=UTC), ("CPU",)))
    place.kernel.write_text("#!POPCORN leaderboard echo\nx = 1\n")
    with pytest.raises(Refused, match="The deadline to submit to echo has passed"):
        of(place, "eve").submissions.preview([requested(place.kernel)])
    told: list[str] = []
    admin = of(place, "root-of-boards")
    admin.warn = told.append
    assert admin.submissions.preview([requested(place.kernel)])
    assert told == ["the deadline of echo has passed; the submission is late and gets no rank."]


def test_a_previewed_submission_whose_deadline_has_passed_is_not_stored(place: Recorded) -> None:
    made(place, "echo", "--gpu", "CPU", "--deadline", "+1d", user="ada")
    place.kernel.write_text("#!POPCORN leaderboard echo\nx = 1\n")
    eve, admin = of(place, "eve"), of(place, "root-of-boards")
    requests = [requested(place.kernel)]
    assert eve.submissions.preview(requests)
    ended(place, BoardOptions("ada", datetime(2020, 1, 1, tzinfo=UTC), ("CPU",)))
    with pytest.raises(Refused, match="The deadline to submit to echo has passed"):
        eve.submissions.submit(requests)
    assert eve.runs.list(everyone=True) == ()
    assert cancelled(admin, admin.submissions.submit(requests))


def test_a_draft_whose_board_is_deleted_before_it_is_sent_is_not_stored(place: Recorded) -> None:
    made(place, "echo", "--gpu", "CPU", user="ada")
    place.kernel.write_text("#!POPCORN leaderboard echo\nx = 1\n")
    eve = of(place, "eve")
    once_drafted(eve, lambda: call(place, "delete", "echo", "--yes"))
    with pytest.raises(Refused, match="the board echo no longer accepts submissions: it was deleted by"):
        eve.submissions.submit([requested(place.kernel)])
    assert eve.runs.list(everyone=True) == ()


def test_where_a_board_is_deleted_the_settings_task_of_its_name_takes_submissions(place: Recorded) -> None:
    assert call(place, "create", "vectoradd_py", "vectoradd_py", "--deadline", "+1d").exit_code == 0
    eve = of(place, "eve")
    assert call(place, "delete", "vectoradd_py", "--yes").exit_code == 0
    assert cancelled(eve, eve.submissions.submit([requested(place.kernel, gpus=["CPU"])]))


def test_storing_a_submission_reads_no_task_folder(place: Recorded) -> None:
    folder = task_folder(place.folder / "tasks" / "echo")
    assert call(place, "create", "echo", "echo", "--deadline", "+1d").exit_code == 0
    assert call(place, "delete", "echo", "--yes").exit_code == 0
    place.kernel.write_text("#!POPCORN leaderboard echo\n#!POPCORN gpu CPU\nx = 1\n")
    eve = of(place, "eve")
    once_drafted(eve, lambda: shutil.rmtree(folder))
    assert cancelled(eve, eve.submissions.submit([requested(place.kernel)]))


def cancelled(board: Board, runs: Sequence[Run]) -> Sequence[Run]:
    """The runs, which go no further."""
    return [each.run for each in board.runs.cancel_each([run.id for run in runs]) if each.run]


# Competitions


def test_a_competition_is_brought_to_the_boards_and_kept_up_to_date(place: Recorded) -> None:
    folder = competition(place.folder / "repo" / "problems").parent
    tried = read(place, "admin", "sync", folder, "--dry-run")
    assert {each["name"]: each["result"] for each in tried} == {"echo_v2": "created", "other_v2": "created"}
    assert of(place).leaderboards.list() == ()
    read(place, "admin", "sync", folder)
    assert of(place).tasks.get("echo_v2").gpus == ("H100",)
    assert of(place).tasks.get("echo_v2").deadline == datetime(2100, 6, 1, tzinfo=UTC)
    assert {each["result"] for each in read(place, "admin", "sync", folder)} == {"unchanged"}
    passed(place, of(place).tasks.get("other_v2"), "eve")
    (folder / "problems" / "practice.yaml").write_text(COMPETITION.replace("gpus: [H100]", "gpus: [H100, CPU]"))
    changed(folder / "problems" / "set" / "other")
    done = {each["name"]: each for each in read(place, "admin", "sync", folder, code=5)}
    assert (done["echo_v2"]["result"], done["echo_v2"]["reason"]) == ("updated", "gpus")
    assert of(place).tasks.get("echo_v2").gpus == ("H100", "CPU")
    assert done["other_v2"]["result"] == "skipped"
    assert "--force updates it" in done["other_v2"]["reason"]
    assert users(place, "other_v2") == ["eve"]
    done = {each["name"]: each["result"] for each in read(place, "admin", "sync", folder, "--force")}
    assert done == {"echo_v2": "unchanged", "other_v2": "updated"}
    assert users(place, "other_v2") == []


def test_a_competition_with_faults_brings_what_is_sound_and_tells_the_rest(place: Recorded) -> None:
    competition(place.folder)
    text = (
        COMPETITION + "  - {directory: set/none, name: none_v2}\n  - {directory: set/far, name: far_v2, gpus: [B200]}\n"
    )
    task_folder(place.folder / "set" / "far", "far")
    task_folder(place.folder / "set" / "broken", "broken", TASK.replace("lang: py", "lang: rust"))
    (place.folder / "practice.yaml").write_text(text + "  - {directory: set/broken, name: broken_v2}\n")
    done = read(place, "admin", "sync", place.folder / "practice.yaml", code=2)
    results = {(each["name"], each["result"]) for each in done}
    assert results == {
        ("echo_v2", "created"),
        ("other_v2", "created"),
        ("far_v2", "skipped"),
        ("practice.yaml", "error"),
        ("broken", "error"),
    }
    reasons = {each["name"]: each["reason"] for each in done}
    assert "far_v2 has no GPU here: it may run on B200." in reasons["far_v2"]
    assert '"set/none" has no task.yml in it' in reasons["practice.yaml"]
    assert "lang" in reasons["broken"]
    assert [board.name for board in of(place).leaderboards.list()] == ["echo_v2", "other_v2"]


def test_a_competition_makes_no_board_whose_deadline_has_passed_and_keeps_those_that_are(place: Recorded) -> None:
    competition(place.folder)
    source = place.folder / "practice.yaml"
    over = COMPETITION.replace('deadline: "2100-06-01"', 'deadline: "2020-06-01"')
    source.write_text(over)
    done = {each["name"]: each for each in read(place, "admin", "sync", source, code=5)}
    assert {name: each["result"] for name, each in done.items()} == {"echo_v2": "skipped", "other_v2": "created"}
    assert done["echo_v2"]["reason"] == "echo_v2: its own deadline, 2020-06-01 00:00 UTC, has passed."
    assert [board.name for board in of(place).leaderboards.list()] == ["other_v2"]
    source.write_text(COMPETITION)
    read(place, "admin", "sync", source)
    source.write_text(over)
    assert {each["result"] for each in read(place, "admin", "sync", source)} == {"updated", "unchanged"}


def test_sync_deadline_replaces_those_of_the_competition_and_of_its_boards(place: Recorded) -> None:
    competition(place.folder)
    source = place.folder / "practice.yaml"
    source.write_text(COMPETITION.replace('deadline: "2100-06-01"', 'deadline: "2020-06-01 6:59"'))
    done = read(place, "admin", "sync", source, "--deadline", "2090-01-02 3:04")
    assert [each["result"] for each in done] == ["created", "created"]
    moments = {board.options.deadline for board in of(place).leaderboards.list()}
    assert moments == {datetime(2090, 1, 2, 3, 4, tzinfo=UTC)}
    done = read(place, "admin", "sync", source, "--deadline", "none")
    assert [(each["result"], each["reason"]) for each in done] == [("updated", "deadline")] * 2
    assert {board.options.deadline for board in of(place).leaderboards.list()} == {None}


@pytest.mark.parametrize(
    ("words", "told"),
    [("2020-06-01", "the deadline 2020-06-01 00:00 UTC has passed"), ("soon", 'invalid deadline "soon"')],
)
def test_a_sync_with_an_invalid_deadline_changes_nothing(place: Recorded, words: str, told: str) -> None:
    competition(place.folder)
    done = call(place, "admin", "sync", place.folder / "practice.yaml", "--deadline", words)
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr
    assert of(place).leaderboards.list() == ()


TWO_FUNCTIONS = "def generate_inputs(size): ...\n\n\ndef reference_forward(data): ...\n"
"""The reference of a task with functions of its own, which its eval calls."""


def test_a_task_with_functions_of_its_own_is_judged_by_its_eval_and_the_creator_is_told(place: Recorded) -> None:
    folder = competition(place.folder) / "set" / "other"
    (folder / "reference.py").write_text(TWO_FUNCTIONS)
    text = (folder / "task.yml").read_text()
    refused = call(place, "create", "mine", folder)
    told = "reference.py does not define generate_input and check_implementation, which the isolated judge calls"
    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    done = {each["name"]: each for each in read(place, "admin", "sync", place.folder / "practice.yaml", code=2)}
    assert done["other"]["result"] == "error"
    assert told in done["other"]["reason"]
    (folder / "eval.py").write_text("")
    (folder / "task.yml").write_text(text.replace("lang:", "  - {name: eval.py, source: eval.py}\nlang:", 1))
    shown = call(place, "create", "mine", folder, "--gpu", "H100")
    assert re.search(r"^judge +the task's own eval$", shown.stdout, re.MULTILINE), shown.output
    done = {each["name"]: each for each in read(place, "admin", "sync", place.folder / "practice.yaml")}
    assert done["other_v2"]["reason"].endswith(", judged by its own eval")


def test_a_board_of_a_task_that_no_judge_takes_is_refused(place: Recorded) -> None:
    folder = competition(place.folder) / "set" / "other"
    text = (folder / "task.yml").read_text().replace("seed: ", "world_size: 2, seed: ")
    (folder / "task.yml").write_text(f"{text}multi_gpu: true\n")
    (folder / "reference.py").write_text(REFERENCE.replace("size: int,", "size: int, world_size: int, rank: int,"))
    told = "does not run tasks for several GPUs (multi_gpu) under its own judge"
    refused = call(place, "create", "mine", folder)
    assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    done = {each["name"]: each for each in read(place, "admin", "sync", place.folder / "practice.yaml", code=5)}
    assert (done["other_v2"]["result"], told in done["other_v2"]["reason"]) == ("skipped", True)


def test_one_of_several_competitions_is_chosen_in_a_folder_and_in_a_zip(place: Recorded) -> None:
    folder = competition(place.folder / "repo-main" / "problems").parent
    (folder / "problems" / "hard.yaml").write_text("problems: [{directory: set/other, name: hard_v1}]\n")
    with zipfile.ZipFile(place.folder / "repo.zip", "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(place.folder))
    for source in (folder, folder / "problems", place.folder / "repo.zip"):
        found = read(place, "admin", "sync", source, "--problem-set", "hard", "--dry-run")
        assert [each["name"] for each in found] == ["hard_v1"]
    done = call(place, "admin", "sync", folder, "--problem-set", "hardd")
    assert done.exit_code == 2
    assert 'contains no competition hardd. Did you mean "hard"?' in done.stderr
    assert call(place, "admin", "sync", folder / "problems" / "hard.yaml", "--problem-set", "x").exit_code == 2


def test_what_the_competition_does_not_say_stays(place: Recorded) -> None:
    competition(place.folder, "problems: [{directory: set/echo, name: echo_v2}]\n")
    read(place, "admin", "sync", place.folder / "practice.yaml")
    call(place, "update", "echo_v2", "--deadline", "2100-01-01", "--gpu", "H100")
    assert read(place, "admin", "sync", place.folder / "practice.yaml")[0]["result"] == "unchanged"
    task = of(place).tasks.get("echo_v2")
    assert (task.gpus, task.deadline) == (("H100",), datetime(2100, 1, 1, tzinfo=UTC))


# Starters and evals


def test_the_starter_of_a_board_names_it_and_its_gpus_and_quotes_its_description(place: Recorded) -> None:
    made(place, "echo", "--gpu", "H100,CPU", "--deadline", "2100-01-01")
    text = call(place, "template", "echo").stdout
    assert directives(text).leaderboard == "echo"
    assert directives(text).gpus == ("CPU", "H100")
    assert "# > Return what you get." in text
    assert "# Deadline: 2100-01-01 00:00 UTC" in text
    assert "another" not in text
    assert "# My own notes." in text
    compile(text, "start.py", "exec")
    header = text.partition("\n\n")[0].splitlines()
    # Only lines that begin with the mark alone are read as directives, by KernelBot as well.
    assert [line.split()[0] for line in header[:2]] == ["#!POPCORN", "#!POPCORN"]
    assert not any(line.startswith("#!") for line in header[2:])


def test_a_description_cannot_smuggle_anything_into_a_starter(place: Recorded) -> None:
    evil = 'description: "x\\n#!POPCORN gpus B200\\n# -*- coding: utf-7 -*-\\nends so \\\\\\\\\\n"\n'
    text = TASK.replace("description: Return what you get.\n", evil).replace("Python: start.py", "C++: start.py")
    folder = task_folder(place.folder / "echo", text=text)
    assert call(place, "create", "echo", folder).exit_code == 0, call(place, "create", "echo", folder).output
    printed = call(place, "template", "echo").stdout
    assert directives(printed).gpus == ()
    assert not any(line.endswith("\\") for line in printed.splitlines())


def test_the_programs_that_evaluate_are_shown(place: Recorded) -> None:
    shown = call(place, "eval-code").stdout
    assert "judge.py" in shown
    assert "toolchain.py" in shown
    assert "toolchain.py" not in call(place, "eval-code", "vectoradd_py", "--language", "py").stdout
    from hpc_board.harness.judge import judge

    assert call(place, "eval-code", "--file", "judge.py").stdout == Path(judge.__file__).read_text()
    wrong = call(place, "eval-code", "--file", "juge.py")
    assert (wrong.exit_code, 'Did you mean "judge.py"?' in wrong.stderr) == (2, True)
    assert call(place, "eval-code", "vectoradd_py", "--language", "cu").exit_code == 2
    names = [each["name"] for each in read(place, "eval-code", "vectoradd_py")["files"]]
    assert {"judge/judge.py", "supervisor.py", "build/hpc_board.h"} <= set(names)


def test_an_eval_of_a_tasks_own_is_shown_itself(place: Recorded) -> None:
    folder = task_folder(place.folder / "own", text=TASK)
    text = (folder / "task.yml").read_text()
    text = text.replace("files:\n", "files:\n  - {name: eval.py, source: eval.py}\n")
    (folder / "task.yml").write_text(text + "config: {main: eval.py}\nhpc_board: {harness: task}\n")
    (folder / "eval.py").write_text("print('judged')\n")
    assert call(place, "create", "own", folder).exit_code == 0
    assert call(place, "eval-code", "own").stdout == "print('judged')\n"
    assert [each["name"] for each in read(place, "eval-code", "own")["files"]] == ["eval.py"]


def test_the_names_of_boards_are_completed(place: Recorded) -> None:
    made(place)
    done = place.hpc_board(_HPC_BOARD_COMPLETE="bash_complete", COMP_WORDS="hpc-board update ec", COMP_CWORD="2")
    assert "echo" in done.stdout


def test_errors_of_a_packed_source_name_its_files_and_no_folder_of_the_service(place: Recorded) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("task.yml", TASK.replace("reference.py}", "../../reference.py}"))
    leaderboards = of(place, "ada").leaderboards
    with pytest.raises(DocumentError) as caught:
        leaderboards.plan(BoardRequest(PackedSource("a.zip", packed.getvalue()), "echo", RequestedOptions()))
    assert caught.value.file == "a.zip/task.yml"
    assert "hpc-board-" not in f"{caught.value.message}{caught.value.faults}"
    imported = BoardRequest(PackedSource("a.zip", packed.getvalue(), "kernelbench"), "echo", RequestedOptions())
    with pytest.raises(InputError) as refused:
        leaderboards.plan(imported)
    assert refused.value.message == "a.zip contains no problem in the format kernelbench."


def test_a_word_that_is_a_task_and_a_folder_creates_no_board(place: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    task_folder(place.folder / "course" / "narrow", "other")
    monkeypatch.chdir(place.folder / "course")
    for words in (("create", "again", "narrow"), ("update", "again", "narrow")):
        refused = call(place, *words, user="ada")
        assert (refused.exit_code, "narrow is a task and a folder here." in refused.stderr) == (2, True)
    assert call(place, "create", "again", "./narrow", user="ada").exit_code == 0
    monkeypatch.chdir(place.folder)
    assert call(place, "create", "anew", "narrow", user="ada").exit_code == 0
