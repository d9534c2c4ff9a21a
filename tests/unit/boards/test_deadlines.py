"""Extensions of deadlines and late submissions: who may submit, who is ranked, and who sees an extension."""

import csv
import grp
import io
import json
import os
import pwd
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hpc_board.domain.board_options import BoardOptions, CodeShown, Extension
from hpc_board.domain.clock import utc_now
from hpc_board.domain.moderation import Rerun, Sender
from hpc_board.domain.run import Run
from hpc_board.errors import Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.submissions import NewSubmission
from tests.unit.boards.test_gpu_limit import call, read
from tests.unit.boards.test_moderation import ADMIN, new_run
from tests.unit.recorded import KERNEL, Recorded, recorded, result_of, timed_case

ME = pwd.getpwuid(os.geteuid()).pw_name
HOUR = timedelta(hours=1)


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    place = recorded(tmp_path)
    assert call(place, ADMIN, "create", "course", "vectoradd_py", "--deadline", "+2h").exit_code == 0
    return place


def sent(place: Recorded, user: str, score_s: float, after: timedelta) -> Run:
    """A passing ranked run whose file came so long after now."""
    result = result_of(Verdict.PASS, timed_case())
    return place.add(result=result, score_s=score_s, user=user, task="course", at=utc_now() + after)


def ranked(place: Recorded) -> list[str]:
    return [row["user"] for row in read(place, "eve", "show", "course", "--gpu", "CPU")["boards"][0]["rows"]]


def late(place: Recorded) -> dict[str, float]:
    marks = read(place, "eve", "show", "course", "--gpu", "CPU")["boards"][0]["marks"]
    return {mark["name"]: mark["late_s"] for mark in marks if mark["kind"] == "late"}


def update(place: Recorded, *words: str) -> None:
    done = call(place, ADMIN, "update", "course", *words)
    assert done.exit_code == 0, done.stderr


def test_late_submission_has_no_rank_until_the_deadline_of_its_user_is_later(place: Recorded) -> None:
    sent(place, "ada", 3e-6, HOUR)
    bob = sent(place, "bob", 1e-6, 5 * HOUR)
    sent(place, "bob", 2e-6, 4 * HOUR)
    sent(place, ME, 4e-6, 5 * HOUR)
    assert ranked(place) == ["ada"]
    assert sorted(late(place)) == sorted(["bob", ME])
    assert late(place)["bob"] == pytest.approx(3 * 3600, abs=60)
    shown = call(place, "eve", "show", "course", "--gpu", "CPU").stdout
    assert "late by 2 h 59 min" in shown or "late by 3 h" in shown
    page = read(place, "bob", "run", str(bob.id))
    assert (page["late_s"], page["rank"]) == (pytest.approx(3 * 3600, abs=60), None)
    assert "Not in the standings: late by" in call(place, "bob", "run", str(bob.id)).stdout
    assert "late" in call(place, "bob", "runs").stdout
    brief = json.loads(call(place, "bob", "run", str(bob.id), "--json=brief").stdout)
    assert brief["late_s"] == pytest.approx(3 * 3600, abs=60)

    update(place, "--extend", "bob:+1d", "--reason", "was ill")
    assert ranked(place) == ["bob", "ada"]
    group = grp.getgrgid(pwd.getpwnam(ME).pw_gid).gr_name
    update(place, "--extend", f"@{group}:+1d", "--extend", "bob:none")
    assert ranked(place) == ["ada", ME]
    assert list(late(place)) == ["bob"]
    update(place, "--deadline", "+2d")
    assert (ranked(place), late(place)) == (["bob", "ada", ME], {})


def test_a_late_run_is_among_the_own_ones_and_in_the_grades_without_points(place: Recorded) -> None:
    sent(place, "bob", 4e-6, HOUR)
    late_run = sent(place, "bob", 1e-6, 5 * HOUR)
    sent(place, "bob", 2e-6, 4 * HOUR)
    own = read(place, "bob", "show", "course", "--own", "--gpu", "CPU")["boards"][0]
    assert [row["score_s"] for row in own["rows"]] == [4e-6]
    assert [(each["score_s"], each["late_s"]) for each in own["late"]] == [
        (2e-6, pytest.approx(2 * 3600, abs=60)),
        (1e-6, pytest.approx(3 * 3600, abs=60)),
    ]
    shown = call(place, "bob", "show", "course", "--own", "--gpu", "CPU").stdout
    assert f"Run {late_run.id}, 1.00 µs, not in the standings: late by " in shown

    grades = ("admin", "grades", "--task", "course", "--points", "pass: 20")
    (row,) = read(place, ADMIN, *grades)["rows"]
    (grade,) = row["tasks"]
    assert (row["points"]["value"], grade["result"]["score_s"], grade["late"]["score_s"]) == (20, 4e-6, 1e-6)
    assert (grade["late"]["run"], grade["late"]["late_s"]) == (late_run.id, pytest.approx(3 * 3600, abs=60))
    assert re.search("1.00 µs, late by (2 h 59 min|3 h)", call(place, ADMIN, *grades).stdout)
    (line,) = csv.DictReader(io.StringIO(call(place, ADMIN, *grades, "--format", "csv").stdout))
    assert (line["course.late_run"], line["course.late_score_s"]) == (str(late_run.id), "1e-06")


def test_rerun_of_a_submission_is_as_late_as_the_submission(place: Recorded) -> None:
    store = Store(place.folder / "board" / "board.db")
    in_time, too_late = sent(place, "ada", 3e-6, HOUR), sent(place, "bob", 1e-6, 5 * HOUR)
    task = place.board.tasks.get("course")
    numbers = []
    for run in (in_time, too_late):
        rerun = Rerun(run.submission, ADMIN, utc_now())
        code = KERNEL.encode()
        new = NewSubmission(
            task, run.user, "k.py", code, Mode.RANKED, "", utc_now() + 9 * HOUR, [new_run()], rerun=rerun
        )
        ((submission, _),) = store.submissions.add_all([new], sender=None)
        numbers.append(submission.id)
    update(place, "--extend", "eve:+1d")
    with store.file.reading() as db:
        assert [bool(db.count("late", "submission = ?", [number])) for number in numbers] == [False, True]


@pytest.mark.parametrize(
    ("late", "hours", "is_taken"),
    [
        (0, 1, True),
        (0, 3, False),
        (7200, 3, True),
        (7200, 5, False),
        (7200, 27, True),
        (7200, 29, False),
        (None, 99, True),
    ],
)
def test_board_takes_submissions_until_the_end_of_late_ones(
    place: Recorded, late: int | None, hours: float, *, is_taken: bool
) -> None:
    """Of 27 and 29 hours, the user has an extension by a day."""
    if late != 0:
        update(place, "--late", "any" if late is None else f"+{late}s")
    if 24 < hours < 99:
        update(place, "--extend", "bob:+1d")
    task, store = place.board.tasks.get("course"), Store(place.folder / "board" / "board.db")
    at = utc_now() + (hours - 0.1) * HOUR
    new = [NewSubmission(task, "bob", "k.py", b"x", Mode.RANKED, "", at, [new_run()])]
    if is_taken:
        store.submissions.check(new, sender=Sender())
    else:
        with pytest.raises(Refused, match="The deadline to submit to course has passed"):
            store.submissions.check(new, sender=Sender())


def test_extension_is_shown_to_its_user_and_to_managers_alone(place: Recorded) -> None:
    update(place, "--extend", "bob:+1d", "--reason", "was ill")
    by_board, own = (read(place, user, "task", "course") for user in ("eve", "bob"))
    assert by_board["board"]["extensions"] == []
    (extension,) = own["board"]["extensions"]
    assert own["deadline"] == extension["until"] > by_board["deadline"]
    assert [task["deadline"] for task in read(place, "bob", "list") if task["name"] == "course"] == [own["deadline"]]
    for user, is_shown in (("eve", False), ("bob", True), (ADMIN, True)):
        for words in (("task", "course"), ("update", "course", "--history")):
            for form in ((), ("--json",)):
                shown = call(place, user, *words, *form).stdout
                assert ("bob" in shown) is is_shown, (user, words)
        assert ("was ill" in call(place, user, "update", "course", "--history", "--json").stdout) is is_shown
    update(place, "--extend", "bob:+1d", "--extend", "eve:+2d")
    assert [row["detail"] for row in read(place, ADMIN, "admin", "log")][:2] == [
        "extensions of eve",
        "extensions of bob",
    ]


@pytest.mark.parametrize("words", ["ada", "ada:soon", "ada:-2d", "ada:2020-01-01", ":+2d", "a b:+2d"])
def test_extension_that_cannot_be_is_refused(place: Recorded, words: str) -> None:
    done = call(place, ADMIN, "update", "course", "--extend", words)
    assert (done.exit_code, "extension" in done.stderr) == (2, True), done.stderr


def test_files_are_published_after_the_last_extension_and_the_end_of_late_submissions() -> None:
    due = datetime(2030, 1, 1, tzinfo=UTC)
    options = BoardOptions(
        "ada", due, code_shown=CodeShown.AFTER_DEADLINE, extensions=(Extension("bob", due + HOUR),), late_seconds=7200
    )
    assert [options.shows_code(due + hours * HOUR) for hours in (1, 2, 3, 4)] == [False, False, False, True]
