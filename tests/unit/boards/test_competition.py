"""Competitions: the rules of their files, and the overall standings over their boards."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from hpc_board.agents.tools import called
from hpc_board.board import Board
from hpc_board.board.context import PublicContext
from hpc_board.errors import Refused
from hpc_board.scripting import Board as ScriptBoard
from hpc_board.service.page import pages
from tests.unit.boards.test_course import call, measured
from tests.unit.boards.test_teams import in_groups
from tests.unit.recorded import AT, Recorded, recorded

ADMIN = "admin"
EXPORT = ("admin", "export", "--format")


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

    # The reader of a frozen board is told that the overall standings lack its newest submissions, too.
    call(place, ADMIN, "update", "b", "--freeze", "2020-01-01")
    assert (overall(place)["frozen"], overall(place, ADMIN)["frozen"]) == (["b"], [])
    remark = "Frozen: b; later submissions of other users are not shown."
    texts = [call(place, user, "show", "--competition", "cup").stdout for user in ("ada", ADMIN)]
    assert [remark in text for text in texts] == [True, False]


def test_an_anonymous_export_of_overall_standings_has_pseudonyms_of_teams(
    place: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_groups(monkeypatch, {"red": ("bob", "eve")})
    synced(place)
    fill(place)
    for name in "abc":
        assert call(place, ADMIN, "update", name, "--team", "@red").exit_code == 0
    anonymous = call(place, ADMIN, *EXPORT, "jsonl", "--what", "overall", "--anonymous").stdout
    assert {json.loads(line)["user"][:5] for line in anonymous.splitlines()} == {"user-", "team-"}
    own = call(place, "bob", "export", "--format", "jsonl", "--what", "overall").stdout
    assert json.loads(own)["user"] == "@red"


def test_every_export_and_page_has_the_overall_standings(place: Recorded, tmp_path: Path) -> None:
    public = Board.within(PublicContext(place.board.context.installation, print))
    assert pages.page(public, "competitions", AT) is None
    synced(place, points="1x: 20, 2x: 50")
    fill(place)
    call(place, ADMIN, "update", "c", "--closed", "--member", "bob")
    (row, other) = csv.DictReader(io.StringIO(call(place, ADMIN, *EXPORT, "csv", "--what", "overall").stdout))
    assert [row[name] for name in ("competition", "scoring", "rank", "user", "score", "passed", "tasks")] == [
        *("cup", "points", "1", "ada", "100.0", "2", "3")
    ]
    assert (other["score_low"], other["score_high"]) == ("70.0", "100.0")
    file = tmp_path / "overall.csv"
    assert call(place, ADMIN, *EXPORT, "csv", "--what", "overall", "-o", file).stderr == f"{file} has 2 rows.\n"
    for words in ("--task a", "--gpu CPU", "--since 30d", "--ended-only"):
        done = call(place, ADMIN, *EXPORT, "csv", "--what", "overall", *words.split())
        assert (done.exit_code, done.stdout, "column `competition`" in done.stderr) == (2, "", True)
    own = call(place, "bob", "export", "--format", "jsonl", "--what", "overall").stdout
    assert [json.loads(line)["user"] for line in own.splitlines()] == ["bob"]
    anonymous = call(place, ADMIN, *EXPORT, "jsonl", "--what", "overall", "--anonymous").stdout
    assert {json.loads(line)["user"][:5] for line in anonymous.splitlines()} == {"user-"}
    (found,) = json.loads(call(place, ADMIN, *EXPORT, "json").stdout)["competitions"]
    assert found == overall(place, ADMIN)
    page = call(place, ADMIN, *EXPORT, "html").stdout
    assert "<h2>The Cup: 2 tasks</h2>" in page, "a closed board is not on a public page"
    assert '<td class="number">100 (70 to 100)</td>' in page
    assert "<h2>The Cup" not in call(place, ADMIN, *EXPORT, "html", "--task", "a").stdout

    shown = pages.page(public, "competitions", AT)
    assert shown is not None
    assert "<h2>The Cup: 2 tasks</h2>" in shown

    assert "standings needs a task or a competition" in called(place.board, "standings", {}).text
    answer = called(place.board, "standings", {"competition": "cup", "top": 1})
    assert json.loads(answer.text) == {
        "scoring": {"name": "points"},
        "tasks": ["a", "b", "c"],
        "total": 2,
        "rows": [{"rank": 1, "user": "ada", "score": {"value": 100, "low": 100, "high": 100}, "passed": 2}],
    }


def test_creators_export_the_competitions_of_which_they_manage_each_board(place: Recorded) -> None:
    place.settings.write_text(place.settings.read_text().replace("roles: {", "roles: {creators: [tutor], "))
    synced(place)
    fill(place)
    export = (*EXPORT, "csv", "--what", "overall")
    for task in "abc":
        assert call(place, "tutor", *export).exit_code == Refused.exit_code
        call(place, ADMIN, "update", task, "--maintainer", "tutor")
    (head, *rows) = call(place, "tutor", *export).stdout.splitlines()
    assert [head.split(",")[0], *(row.split(",")[0] for row in rows)] == ["competition", "cup", "cup"]
    synced(place, [*"abcd"])
    assert call(place, "tutor", *export).exit_code == Refused.exit_code


def test_overall_standings_are_cut_like_those_of_a_board(place: Recorded) -> None:
    synced(place)
    for number in range(25):
        measured(place, "a", f"user{number}", 2.0 + number)
    lines = {
        words: call(place, "ada", "show", "--competition", "cup", *words.split()).stdout.count("user")
        for words in ("", "--top 3", "--top all")
    }
    assert lines == {"": 20 + 1, "--top 3": 3 + 1, "--top all": 25}


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
