"""Competitions: the rules of their files, and the overall standings over their boards."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from hpc_board.scripting import Board as ScriptBoard
from tests.unit.boards.test_course import call, measured
from tests.unit.recorded import Recorded, recorded

ADMIN = "admin"


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    place = recorded(tmp_path)
    place.settings.write_text(place.settings.read_text() + f"roles: {{admins: [{ADMIN}]}}\n")
    return place


def synced(place: Recorded, names: Sequence[str] = ("a", "b", "c"), **keys: Any) -> Result:
    """Synchronize the boards with a competition of these problems and other keys."""
    problems = [{"directory": "narrow", "name": name, "gpus": ["CPU", "H100"]} for name in names]
    (place.folder / "tasks" / "cup.yaml").write_text(yaml.safe_dump({"name": "The Cup", **keys, "problems": problems}))
    return call(place, ADMIN, "admin", "sync", place.folder / "tasks", "--problem-set", "cup")


def fill(place: Recorded) -> None:
    """Give two users results: ada is fast on two boards, bob passes all three."""
    for task, user, speedup, spread in (
        ("a", "ada", 4.0, 0.0),
        ("b", "ada", 9.0, 0.0),
        ("a", "bob", 2.0, 0.2),
        ("b", "bob", 2.0, 0.0),
        ("c", "bob", 0.5, 0.0),
    ):
        measured(place, task, user, speedup, spread=spread)


def overall(place: Recorded, user: str = "ada") -> dict[str, Any]:
    done = call(place, user, "show", "--competition", "cup", "--json")
    assert done.exit_code == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_competition_ranks_its_users_over_all_boards_by_its_own_score(place: Recorded) -> None:
    assert synced(place, score="fast_3", points="pass: 10, 1x: 20, 2x: 50").exit_code == 0
    fill(place)
    found = overall(place)
    assert (found["competition"], found["title"], found["tasks"], found["total"]) == ("cup", "The Cup", [*"abc"], 2)
    ada, bob = found["rows"]
    assert (ada["user"], ada["rank"], ada["passed"], ada["results"][2]) == ("ada", 1, 2, None)
    assert ada["fast"]["value"] == pytest.approx(2 / 3)
    assert ada["geomean"]["value"] == pytest.approx(36 ** (1 / 3))
    assert ada["points"] == {"value": 100.0, "low": 100.0, "high": 100.0}
    assert (bob["score"]["value"], bob["sum"]["value"]) == (0.0, pytest.approx(4.5))
    assert bob["points"] == {"value": 110.0, "low": 80.0, "high": 110.0}
    assert found == ScriptBoard(place.settings).overall("cup")

    # A change of the rule counts at once, and is a change in the history of each board.
    assert "competition" in synced(place, points={"1": 25, "2": 15}).stdout
    shown = call(place, "bob", "show", "--competition", "cup").stdout
    assert shown.startswith("The Cup: 3 tasks\n")
    assert [line.split()[:4] for line in shown.splitlines()[2:4]] == [
        ["1", "bob", "(you)", "55"],
        ["2", "ada", "50", "3.30x"],
    ]
    assert "cup, 1: 25, 2: 15" in call(place, "ada", "update", "a", "--history").stdout


def test_a_problem_that_leaves_the_competition_leaves_its_standings(place: Recorded) -> None:
    synced(place)
    fill(place)
    assert "c      updated    competition" in synced(place, ["a", "b"]).stdout
    assert overall(place)["tasks"] == ["a", "b"]
    assert synced(place, ["a", "b"]).stdout.count("unchanged") == 2


def test_boards_that_are_hidden_from_a_reader_do_not_count(place: Recorded) -> None:
    synced(place)
    fill(place)
    assert call(place, ADMIN, "update", "b", "--closed", "--member", "bob").exit_code == 0
    assert (overall(place)["tasks"], overall(place, "bob")["tasks"]) == (["a", "c"], [*"abc"])
    for task in "ac":
        call(place, ADMIN, "update", task, "--closed")
    done = call(place, "ada", "show", "--competition", "cup")
    assert (done.exit_code, 'unknown competition "cup".' in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"score": "fastest"}, "score: invalid score 'fastest'"),
        ({"score": "points"}, "no rule for them"),
        ({"points": "2x: 5, 1x: 9"}, "points: invalid points: a better result would get fewer points"),
        ({"points": {"1x": "many"}}, "points.1x: expected a number"),
    ],
)
def test_a_fault_of_the_rules_names_the_file_and_the_key(place: Recorded, keys: dict[str, Any], fault: str) -> None:
    done = synced(place, **keys)
    assert done.exit_code == 2
    assert (fault in done.stdout + done.stderr, "cup.yaml" in done.stdout + done.stderr) == (True, True)
    assert "unknown competition" in call(place, "ada", "show", "--competition", "cup").stderr


def test_an_unknown_key_of_a_competition_is_a_warning(place: Recorded) -> None:
    done = synced(place, dead_line="2030-01-01")
    assert (done.exit_code, done.stderr.count("unknown key dead_line is ignored")) == (0, 1)
    assert "deadline" in done.stderr
