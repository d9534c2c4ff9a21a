"""Rights: each command of admins, as those who may use it on all boards, on one of their own, and on none."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hpc_board.cli.admin import admin
from hpc_board.domain.run import RunState
from hpc_board.errors import Refused
from hpc_board.model.result import Case, Verdict
from hpc_board.model.task import Mode
from hpc_board.store.submissions import NewSubmission
from tests.e2e.boards import RIGHT, board_files
from tests.unit.boards.test_moderation import ADMIN, NOW, Place, new_run
from tests.unit.recorded import result_of, status_of, timed_case
from tests.values import replace

ROLES = "roles: {creators: [carl, mia, otto], participants: [ada, bob]}\n"
PEOPLE = (ADMIN, "carl", "mia", "otto", "bob")
"""An admin, the creator of the board `mine`, its maintainer, the creator of another board, and a participant."""

ALL, MANAGERS, ADMINS = ((*PEOPLE, "ada"), PEOPLE[:3], PEOPLE[:1])

RIGHTS: Sequence[tuple[str, Sequence[str]]] = (
    ("admin limits", ALL),
    ("admin limit mine --ranked 5", MANAGERS),
    ("admin limit double --ranked 5", ADMINS),
    ("admin limit --gpu-seconds 9", ADMINS),
    ("admin limit --gpu-seconds none", ADMINS),
    ("admin link mine projector", MANAGERS),
    ("admin unlink mine projector", MANAGERS),
    ("admin links", PEOPLE[:4]),
    ("admin remove {mine} --reason cached", MANAGERS),
    ("code {mine}", (*MANAGERS, "ada")),
    ("run {run} --log", (*MANAGERS, "ada")),
    ("admin rerun mine --submission {mine} --dry-run", MANAGERS),
    ("admin rerun double --submission {double} --dry-run", ADMINS),
    ("admin remove {double} --reason cached", ADMINS),
    ("admin remove {mine} {double} --reason cached", ADMINS),
    ("admin readmit {double}", ADMINS),
    ("code {double}", (*ADMINS, "ada")),
    ("admin log", ADMINS),
    ("admin log --board double", ADMINS),
    ("admin log --board mine", MANAGERS),
    ("admin export --format csv", ADMINS),
    ("admin export --format csv --task mine", MANAGERS),
    ("admin export --format jsonl --what tasks --task mine", MANAGERS),
    ("admin export --format csv --task mine --task double", ADMINS),
    ("admin grades --task double", ADMINS),
    ("admin grades --task mine --task double", ADMINS),
    ("admin grades --task mine", MANAGERS),
    ("admin copies --task mine --task double", ADMINS),
    ("admin copies --task mine", MANAGERS),
    ("admin stats", ADMINS),
    ("admin stats --task mine", MANAGERS),
    ("update mine --deadline +3d", MANAGERS),
    ("admin ban eve --reason floods", ADMINS),
    ("admin unban eve", ADMINS),
    ("admin bans", ADMINS),
    ("admin stop", ADMINS),
    ("admin start", ADMINS),
    ("admin prune --dry-run", ADMINS),
    ("admin sync {competition} --dry-run", ADMINS),
    ("admin milestones mine", MANAGERS),
)

_OF_THE_INSTALLATION = {"init", "detect", "check", "doctor", "serve-unit", "backup", "restore", "config"}
"""The commands that look at the settings and the folder, which only their owner can read."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(board_files(tmp_path, slurm=False))
    place.files.settings.write_text(place.files.settings.read_text() + ROLES)
    assert place.call("carl", "create", "mine", "double", "--maintainer", "mia").exit_code == 0
    assert place.call("otto", "create", "secret", "double", "--closed").exit_code == 0
    return place


def submitted(place: Place, task: str) -> tuple[int, int]:
    """Store a run of ada; return the numbers of submission and run."""
    found = place.board().tasks.get(task)
    new = NewSubmission(found, "ada", "kernel.py", RIGHT.encode(), Mode.RANKED, "", NOW, [new_run()])
    ((sent, (run,)),) = place.store.submissions.add_all([new], sender=None)
    return sent.id, run.id


def test_admins_have_all_rights_and_creators_and_maintainers_those_on_their_boards(
    place: Place, tmp_path: Path
) -> None:
    covered = {command.split()[1] for command, _ in RIGHTS if command.startswith("admin ")}
    assert set(admin.commands) - covered <= _OF_THE_INSTALLATION
    competition = tmp_path / "practice.yaml"
    competition.write_text("problems: [{directory: tasks/double, name: again}]\n")
    (mine, run), (double, _) = submitted(place, "mine"), submitted(place, "double")
    words = {"mine": str(mine), "double": str(double), "run": str(run), "competition": str(competition)}
    wrong = []
    for command, entitled in RIGHTS:
        for user in ALL:
            done = place.call(user, *(word.format(**words) for word in command.split()))
            if (done.exit_code != Refused.exit_code) is not (user in entitled):
                wrong.append((command, user, done.exit_code, done.stdout[-200:], done.stderr[-200:]))
    assert not wrong, "\n".join(map(repr, wrong))


def test_link_shows_nothing_while_its_maker_does_not_manage_the_board(place: Place) -> None:
    path = place.json("mia", "admin", "link", "mine", "projector")["path"]
    found = []
    for words in ((), ("--no-maintainer", "mia"), ("--maintainer", "mia")):
        assert not words or place.call(ADMIN, "update", "mine", *words).exit_code == 0
        (link,) = place.json("carl", "admin", "links")
        found.append((place.board().moderation.linked(path.split("/")[1]), link["fault"]))
    assert found == [("mine", None), (None, "mia does not manage the board"), ("mine", None)]


def test_pages_of_standings_tell_whether_the_reader_manages_the_board(place: Place) -> None:
    for task, managers in (("mine", MANAGERS), ("double", ADMINS)):
        found = {user for user in ALL if place.json(user, "show", task)["boards"][0]["manages"]}
        assert found == set(managers)


def test_a_creator_learns_nothing_of_a_hidden_board_by_the_number_of_a_submission(place: Place) -> None:
    hidden, _ = submitted(place, "secret")
    for words in (["remove", str(hidden), "--reason", "x"], ["rerun", "mine", "--submission", str(hidden)]):
        done = place.call("carl", "admin", *words)
        assert (done.exit_code, "secret" in done.stderr) == (2, False), done.stderr


def test_hidden_cases_are_copied_by_those_who_manage_their_board(place: Place) -> None:
    task = next(place.files.settings.parent.rglob("double/task.yml"))
    hidden = "hpc_board:\n  hidden_tests: [{size: 7717, seed: 8801}]\n"
    task.write_text(task.read_text().replace("hpc_board:\n", hidden))
    assert place.call(ADMIN, "create", "exam", "double", "--maintainer", "mia").exit_code == 0
    for user, source, code in (("otto", "double", 5), ("otto", "exam", 5), ("mia", "exam", 0), (ADMIN, "double", 0)):
        done = place.call(user, "create", f"copy-{user}-{source}", source)
        assert done.exit_code == code, done.stderr


def test_those_who_manage_a_board_see_the_arguments_of_hidden_cases_if_they_ask_for_them(place: Place) -> None:
    task = next(place.files.settings.parent.rglob("double/task.yml"))
    hidden = "hpc_board:\n  hidden_tests: [{size: 7717, seed: 8801}]\n  hidden_benchmarks: [{size: 7723, seed: 8802}]\n"
    task.write_text(task.read_text().replace("hpc_board:\n", hidden))
    assert place.call("carl", "update", "mine", "double").exit_code == Refused.exit_code
    assert place.call(ADMIN, "create", "exam", "double", "--maintainer", "mia").exit_code == 0
    _, run = submitted(place, "exam")
    cases = [Case("test", 1, "hidden case 1", Verdict.PASS), timed_case(1, spec="hidden case 1")]
    result = replace(result_of(Verdict.PASS, timed_case(0), *cases), run=run)
    place.store.runs.finish(run, status_of(RunState.FINISHED), result, 1e-3)
    texts = ["hidden case 1: size: 7717; seed: 8801", "hidden case 1: size: 7723; seed: 8802"]
    for user in (ADMIN, "mia"):
        shown = place.json(user, "run", str(run), "--hidden")
        assert [case["spec"] for case in shown["cases"]][1:] == texts
        assert all(text in place.call(user, "run", str(run), "--hidden").stdout for text in texts)
        assert "77" not in place.call(user, "run", str(run)).stdout
        assert "--hidden cannot be combined" in place.call(user, "run", str(run), "--hidden", "--log").stderr
    for user in ("ada", "bob", "otto", "carl"):
        done = place.call(user, "run", str(run), "--hidden")
        assert (done.exit_code, "77" in done.stdout + done.stderr) == (Refused.exit_code, False)
        assert "the role admin" not in done.stderr


def test_a_maintainer_needs_the_role_of_creators_and_loses_the_rights_with_the_list(place: Place) -> None:
    assert place.call("carl", "update", "mine", "--maintainer", "bob", "--no-maintainer", "mia").exit_code == 0
    for user in ("bob", "mia"):
        assert place.call(user, "admin", "limit", "mine", "--ranked", "5").exit_code == Refused.exit_code
    done = place.call("carl", "update", "mine", "--no-maintainer", "mai")
    assert '"mai" is not a maintainer.' in done.stderr
