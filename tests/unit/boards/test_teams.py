"""Teams as Unix groups: one rank for all members, in each part of a board, whatever happens to members and runs."""

import csv
import io
import json
import random
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from hpc_board.boards import editor
from hpc_board.domain.clock import utc_now
from hpc_board.domain.moderation import Sender
from hpc_board.domain.origin import Origin
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run
from hpc_board.errors import Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.scripting import Board
from hpc_board.store.ranking import set_team
from hpc_board.store.submissions import NewSubmission
from tests.unit.boards.test_gpu_limit import board_of, call, read, store_of
from tests.unit.boards.test_moderation import ADMIN, new_run
from tests.unit.recorded import AT, KERNEL, Recorded, recorded, result_of, timed_case

GROUPS = {"red": ("ada", "bob"), "blue": ("eve",), "both": ("dan", "ken"), "more": ("ken",)}
_PASS = result_of(Verdict.PASS, timed_case())
TEAMS = ("--team", "@red", "--team", "@blue,@both,@more")


def in_groups(patch: pytest.MonkeyPatch, groups: Mapping[str, tuple[str, ...]] = GROUPS) -> None:
    """Have these groups with their members on this machine."""
    patch.setattr(editor, "members_of", lambda group: frozenset(groups.get(group, ())))
    patch.setattr(editor, "groups_of", lambda user: frozenset(group for group in groups if user in groups[group]))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    in_groups(monkeypatch)
    place = recorded(tmp_path)
    done = call(place, ADMIN, "create", "course", "vectoradd_py", "--deadline", "+2h", *TEAMS)
    assert done.exit_code == 0, done.stderr
    return place


def sent(
    place: Recorded, user: str, score_s: float, after: timedelta = timedelta(), *, code: bytes | None = None
) -> Run:
    return place.add(result=_PASS, score_s=score_s, user=user, task="course", at=AT + after, code=code)


def submit(place: Recorded, user: str, groups: frozenset[str], role: Role = Role.PARTICIPANT, hours: int = 0) -> bool:
    """Store a submission in some hours of a user in these groups, as to a served board; return whether it is late."""
    task = board_of(place).tasks.get("course")
    new = NewSubmission(
        task, user, "kernel.py", KERNEL.encode(), Mode.TEST, "", utc_now() + timedelta(hours=hours), [new_run()]
    )
    sender = Sender(role, groups, is_bound=role is not Role.ADMIN)
    ((_, (run,)),) = store_of(place).submissions.add_all([new], sender=sender)
    return run.due_at is not None


def rows(place: Recorded, user: str = "grace") -> list[tuple[int, str, list[str]]]:
    (page,) = read(place, user, "show", "course", "--gpu", "CPU")["boards"]
    return [(row["rank"], row["user"], row["members"]) for row in page["rows"]]


def update(place: Recorded, *words: str) -> str:
    done = call(place, ADMIN, "update", "course", *words)
    assert done.exit_code == 0, done.stderr
    return done.output


def test_members_of_a_group_have_one_rank_in_each_part_of_a_board(place: Recorded) -> None:
    ada = sent(place, "ada", 4e-6)
    sent(place, "grace", 3e-6)
    sent(place, "eve", 2e-6)
    bob = sent(place, "bob", 1e-6)
    expected = [(1, "@red", ["ada", "bob"]), (2, "@blue", ["eve"]), (3, "grace", [])]
    assert rows(place) == expected

    shown = {words: call(place, "ada", *words.split()).stdout for words in ("show course", "show", "show --user ada")}
    assert re.search(r"1 +@red \(ada, bob\) \(you\) .* 4\b", shown["show course"])
    assert re.search(r"course .* 3 +@red \(ada, bob\) \(you\)", shown["show"])
    assert re.search(r"course +CPU +@red +1 +3 ", shown["show --user ada"])
    own = read(place, "ada", "show", "course", "--gpu", "CPU")["boards"][0]["own"]
    assert (own["user"], own["run"], own["rank"]) == ("@red", bob.id, 1)
    assert "@red (ada, bob)" in call(place, "grace", "show", "course", "--rank", "1").stdout
    members = call(place, "grace", "show", "course", "--by", "entrant").stdout
    assert [re.findall("ada|bob|eve|grace", line) for line in members.splitlines() if line.strip()[:1].isdigit()] == [
        [name] for name in ("bob", "eve", "grace", "ada")
    ]
    assert read(place, "ada", "show", "--user", "@red")["ranks"][0]["rank"] == 1

    for words in ("history course", "runs --all"):
        listed = read(place, "grace", *words.split(), "--user", "@red")
        runs = listed["boards"][0]["runs"] if "boards" in listed else listed
        assert {each.get("run", each.get("id")) for each in runs} == {bob.id, ada.id}, words
    assert "ada" in call(place, "grace", "show", "--user", "@red").stdout.split("Newest runs")[1]
    assert "unknown user" in call(place, "grace", "history", "course", "--user", "@green").stderr
    assert "than @red's best, 1.00 µs (run 4)" in call(place, "ada", "run", str(ada.id)).stdout
    assert [read(place, "bob", "run", str(bob.id))[key] for key in ("rank", "team", "user")] == [1, "@red", "bob"]
    assert read(place, "grace", "run", "2")["team"] is None
    assert [Board(place.settings).run(number).team for number in (bob.id, 2)] == ["@red", ""]
    feed = [entry["user"] for entry in read(place, "grace", "feed")]
    assert feed == ["@red", "@blue", "grace", "@red"]
    assert "@red took first place on course, CPU: 1.00 µs (was @blue" in call(place, "grace", "feed").stdout
    assert len(read(place, "grace", "feed", "--user", "bob")) == 2
    seen = {user: board_of(place, user).standings.feed()[0] for user in ("ada", "eve", "grace")}
    assert {user: (each.is_own, each.beats_own) for user, each in seen.items()} == {
        "ada": (True, False),
        "eve": (False, True),
        "grace": (False, False),
    }
    records = board_of(place, "grace").standings.records("course", "CPU")
    assert [each.user for each in records] == ["@red", "grace", "@blue", "@red"]

    grades = call(place, ADMIN, "admin", "grades", "--points", "1: 10, 3: 5", "--format", "csv", "--task", "course")
    graded = {row["user"]: row for row in csv.DictReader(io.StringIO(grades.stdout))}
    assert {user: (row["course.rank"], row["points"]) for user, row in graded.items()} == {
        **dict.fromkeys(("ada", "bob"), ("1", "10.0")),
        "dan": ("", "0.0"),
        "eve": ("2", "5.0"),
        "grace": ("3", "5.0"),
    }
    assert graded["ada"]["course.team"].lstrip("'") == "@red"
    exported = call(place, ADMIN, "admin", "export", "--format", "json").stdout
    (board,) = [board for board in json.loads(exported)["boards"] if board["task"] == "course"]
    assert [(row["user"], row["members"]) for row in board["rows"]] == [row[1:] for row in expected]
    assert "@red (ada, bob)" in call(place, ADMIN, "admin", "export", "--format", "html").stdout


def test_team_of_a_user_is_that_of_the_last_submission_or_of_the_last_change_of_teams(
    place: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(place, "ada", 1e-6)
    sent(place, "bob", 2e-6)
    in_groups(monkeypatch, {"red": ("bob",), "blue": ("ada", "eve")})
    update(place, "--deadline", "+3h")
    assert rows(place) == [(1, "@red", ["ada", "bob"])]
    submit(place, "ada", frozenset({"blue", "other"}))
    assert rows(place) == [(1, "@blue", ["ada", "eve"]), (2, "@red", ["bob"])]
    submit(place, "ada", frozenset())
    assert rows(place) == [(1, "ada", []), (2, "@red", ["bob"])]
    assert "teams" in update(place, "--no-team", "@red", "--no-team", "@more")
    assert rows(place) == [(1, "@blue", ["ada", "eve"]), (2, "bob", [])]
    assert "teams" in call(place, "grace", "task", "course").stdout
    assert "@blue, @both" in call(place, "grace", "task", "course").stdout


def test_admin_of_a_served_board_leaves_the_team_and_has_the_extension_of_their_group(place: Recorded) -> None:
    sent(place, "ada", 1e-6)
    sent(place, "bob", 2e-6)
    update(place, "--extend", "@red:+4h")
    assert [submit(place, "ada", groups, Role.ADMIN, 3) for groups in (frozenset({"red"}), frozenset())] == [
        False,
        True,
    ]
    assert rows(place) == [(1, "ada", []), (2, "@red", ["bob"])]


def test_user_in_two_teams_submits_nothing_unless_the_board_is_theirs(place: Recorded) -> None:
    sent(place, "ken", 1e-6)
    assert rows(place) == [(1, "ken", [])]
    with pytest.raises(Refused, match="you are in several teams of the board course: @both, @more") as refused:
        submit(place, "ken", frozenset({"both", "more"}))
    assert f"Ask {ADMIN}" in refused.value.hint
    submit(place, ADMIN, frozenset({"both", "more"}), Role.CREATOR)
    submit(place, "carl", frozenset({"red"}), Role.CREATOR)
    submit(place, ADMIN, frozenset({"red"}), Role.CREATOR)
    assert {**store_of(place).standings.teams("course")}.keys() >= {"ada", "bob", "carl"}
    assert ADMIN not in store_of(place).standings.teams("course")
    faults = (
        (("--team", "red"), '"red" is not a valid team.\nhint: Give a Unix group with @ before it.'),
        (("--team", "@a b"), '"@a b" is not a valid team'),
        (("--no-team", "red"), '"red" is not a team. Did you mean "@red"?'),
    )
    for words, fault in faults:
        assert fault in call(place, ADMIN, "update", "course", *words).stderr


def test_managers_of_a_board_are_members_of_no_team(place: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    in_groups(monkeypatch, {"red": ("ada", "carl", ADMIN)})
    place.settings.write_text(place.settings.read_text() + "roles: {creators: [carl]}\n")
    sent(place, "carl", 1e-6)
    update(place, "--no-team", "@blue")
    assert rows(place) == [(1, "@red", ["ada", "carl"])]
    in_groups(monkeypatch, {"red": ("carl",)})
    update(place, "--maintainer", "carl")
    assert rows(place) == [(1, "carl", [])]
    assert store_of(place).standings.teams("course") == {"ada": "@red"}
    update(place, "--no-maintainer", "carl")
    assert rows(place) == [(1, "@red", ["ada", "carl"])]


@pytest.mark.parametrize("ends", [("none",), ("2030-01-01", "none"), ("-3h", "none")], ids=" ".join)
def test_after_a_freeze_no_submission_changes_a_team_and_its_end_adds_the_new_members(
    place: Recorded, monkeypatch: pytest.MonkeyPatch, ends: tuple[str, ...]
) -> None:
    sent(place, "ada", 1e-6)
    sent(place, "grace", 2e-6)
    in_groups(monkeypatch, {"red": ("bob", "carl", "grace"), "blue": ("ada", "eve")})
    update(place, "--freeze", "2026-05-02")
    for user, group in (("ada", "blue"), ("dan", "red"), ("carl", "red")):
        submit(place, user, frozenset({group}), hours=-24)
    assert rows(place, ADMIN) == [(1, "@red", ["ada", "bob"]), (2, "grace", [])]
    for end in ends:
        update(place, "--freeze", end)
    assert rows(place) == [(1, "@red", ["ada", "bob", "carl"]), (2, "grace", [])]


def test_a_late_submission_changes_no_team_and_a_group_that_has_ended_keeps_its_extension(
    place: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    update(place, "--late", "any", "--extend", "@blue:+48h", "--reason", "ill")
    sent(place, "ada", 4e-6)
    sent(place, "eve", 5e-6)
    assert submit(place, "ada", frozenset(), hours=3)
    assert not submit(place, "eve", frozenset({"blue"}), hours=3)
    in_groups(monkeypatch, {})
    update(place, "--extend", "grace:+24h", "--reason", "ill")
    assert rows(place) == [(1, "@red", ["ada", "bob"]), (2, "@blue", ["eve"])]
    runs = read(place, ADMIN, "runs", "--all")
    assert {run["user"]: run["late_s"] is not None for run in runs[:2]} == {"ada": True, "eve": False}


def test_terms_of_a_deleted_board_do_not_bind_the_task_of_its_name(tmp_path: Path) -> None:
    place = recorded(tmp_path)
    words = ("create", "vectoradd_py", "--deadline", "+1s", "--late", "any", *TEAMS)
    assert call(place, ADMIN, *words).exit_code == 0
    assert call(place, ADMIN, "delete", "vectoradd_py", "--yes").exit_code == 0
    run = place.add(
        result=result_of(Verdict.PASS, timed_case()), score_s=1e-6, user="ada", at=utc_now() + timedelta(days=1)
    )
    assert run.due_at is None


def test_one_code_of_several_members_counts_by_the_median_of_all_its_runs(place: Recorded) -> None:
    same = b"def custom_kernel(data):\n    return data[0] + data[1]\n"
    first, later = sent(place, "ada", 3e-6, code=same), sent(place, "bob", 1e-6, code=same + b"# bob's\n")
    own = sent(place, "ada", 4e-6)
    sent(place, "bob", 9e-6, code=same)

    def best(user: str) -> tuple[float, int]:
        (page,) = read(place, user, "show", "course", "--gpu", "CPU")["boards"]
        return page["rows"][0]["score_s"], page["rows"][0]["runs"]

    assert best("grace") == (3e-6, 3)
    verdict = "Rank 1 of 1 on CPU: 3.00 µs, the median of 3 runs"
    assert all(verdict in call(place, "ada", "run", str(run.id)).stdout for run in (first, later))
    assert "@red's best, 3.00 µs (the median of 3 runs)" in call(place, "ada", "run", str(own.id)).stdout
    assert len(read(place, "grace", "feed")) == 1
    opened = board_of(place)
    records = opened.standings.records("course", "CPU")
    assert [record.score_s for record in records] == [3e-6]
    update(place, "--freeze", (AT + timedelta(hours=1)).isoformat())
    for score_s in (5e-7, 6e-7):
        sent(place, "bob", score_s, timedelta(hours=2), code=same)
    assert (best("grace"), best("ada"), best(ADMIN)) == ((3e-6, 3), (1e-6, 5), (1e-6, 5))
    assert call(place, ADMIN, "admin", "remove", str(later.submission), "--reason", "test").exit_code == 0
    assert best("grace") == (4e-6, 1)


def test_removed_equal_and_late_runs_of_members_rank_as_those_of_one_user(place: Recorded) -> None:
    sent(place, "eve", 2e-6)
    best = sent(place, "bob", 1e-6, timedelta(seconds=1))
    sent(place, "ada", 2e-6, timedelta(seconds=2))
    assert call(place, ADMIN, "admin", "remove", str(best.submission), "--reason", "copied").exit_code == 0
    assert rows(place) == [(1, "@blue", ["eve"]), (1, "@red", ["ada", "bob"])]
    for user, score_s in (("ada", 3e-7), ("bob", 2e-7), ("grace", 4e-7)):
        result = result_of(Verdict.PASS, timed_case())
        place.add(result=result, score_s=score_s, user=user, task="course", at=utc_now() + timedelta(hours=3))
    update(place, "--late", "any")
    update(place, "--deadline", "+1h")
    (page,) = read(place, "bob", "show", "course", "--gpu", "CPU")["boards"]
    assert [(mark["name"], mark["score_s"]) for mark in page["marks"]] == [("@red", 2e-7), ("grace", 4e-7)]
    assert "@red (you)" in call(place, "bob", "show", "course").stdout
    grades = {row["user"]: row["tasks"][0] for row in read(place, ADMIN, "admin", "grades", "--task", "course")["rows"]}
    assert {user: grades[user]["late"]["score_s"] for user in ("ada", "bob")} == {"ada": 2e-7, "bob": 2e-7}


def test_members_see_their_frozen_anonymous_team_and_no_other_user_does(place: Recorded) -> None:
    freeze = AT + timedelta(hours=12)
    for user, score_s in (("ada", 5e-6), ("grace", 4e-6), ("eve", 3e-6)):
        sent(place, user, score_s)
    update(place, "--freeze", freeze.isoformat(), "--anonymous")
    sent(place, "bob", 1e-6, timedelta(hours=13))
    sent(place, "eve", 2e-6, timedelta(hours=14))
    assert [members for _, _, members in rows(place, "grace")] == [[], [], []]
    leader = call(place, "grace", "show", "course", "--rank", "1").stdout
    assert re.search("^team +team [0-9a-f]{8}$", leader, re.MULTILINE)
    names = {user: [name for _, name, _ in rows(place, user)] for user in ("ada", "grace", "eve", ADMIN)}
    assert names["ada"][0] == "@red"
    assert names["eve"][0] == "@blue"
    assert names[ADMIN] == ["@red", "@blue", "grace"]
    assert [re.sub("[0-9a-f]{8}", "#", name) for name in names["grace"]] == ["team #", "grace", "team #"]
    assert (names["ada"][1], names["eve"][2]) == (names["grace"][0], names["grace"][2])
    assert "kernel.py" in call(place, "ada", "run", "4").stdout
    page = read(place, "grace", "show", "--user", names["grace"][0])
    assert ([rank["rank"] for rank in page["ranks"]], [run["id"] for run in page["runs"]]) == ([1], [3])
    assert len(read(place, "grace", "feed", "--user", names["grace"][0])) == 1
    boards = read(place, "grace", "history", "course", "--user", names["grace"][0])["boards"]
    assert [run["run"] for board in boards for run in board["runs"]] == [3]
    listings = "show course --top all", "show course --all-runs", "show course --by entrant --json", "feed --json"
    for words in (*listings, "runs --all --json", "run 1"):
        done = call(place, "grace", *words.split())
        assert done.exit_code == 0, done.output
        assert not re.search("@red|@blue|ada|bob|eve", done.output), words


def test_other_teams_of_an_anonymous_board_are_as_one_user_with_the_same_verdicts(place: Recorded) -> None:
    origin = Origin("of-bob", ())
    first = place.add(result=_PASS, score_s=4e-6, user="bob", task="course", at=AT, origin=origin)
    second = sent(place, "ada", 3e-6, timedelta(hours=1))
    update(place, "--anonymous")

    def verdicts(words: str) -> set[str]:
        texts = [call(place, user, *words.split()).stdout for user in (ADMIN, "ada", "grace")]
        return {re.sub("@red|team [0-9a-f]{8}", "TEAM", text) for text in texts}

    (feed,) = verdicts("feed")
    assert re.search(r"TEAM set a personal best, rank 1, on course, CPU: 3.00 µs \(was 4.00 µs: within noise \(", feed)
    seen = {user: read(place, user, "run", str(second.id)) for user in (ADMIN, "grace")}
    assert [seen["grace"][key] for key in ("rank", "verdict_line")] == [
        seen[ADMIN][key] for key in ("rank", "verdict_line")
    ]
    assert seen["grace"]["rank"] == 1
    ((_, team, _),) = rows(place, "grace")
    assert {run["user"] for run in read(place, "grace", "runs", "--user", team)} == {team}
    assert {run["id"] for run in read(place, "grace", "runs", "--user", team)} == {first.id, second.id}
    assert {each["submitter"] for each in read(place, "grace", "feed")} == {team}
    records = board_of(place, "grace").standings.records("course", "CPU")
    assert [(each.user, each.score_s) for each in records] == [(team, 4e-6), (team, 3e-6)]
    for words in ("show course --json", "show course --by entrant --json", "runs --all --json", "run 1 --json"):
        assert not re.search("user [0-9a-f]{8}|of-bob", call(place, "grace", *words.split()).output), words
    update(place, "--no-team", "@red")
    assert "within noise" in call(place, ADMIN, "feed").stdout


def test_rows_follow_any_order_of_runs_removals_and_changes_of_teams(place: Recorded) -> None:
    """The rows of managers, and those of a reader of the frozen board, are the best ones of all users of a team."""
    rng = random.Random(41)
    users, freeze = ("ada", "bob", "eve", "dan", "grace"), AT + timedelta(hours=30)
    update(place, "--freeze", freeze.isoformat())
    runs: list[Run] = []
    teams: dict[str, str] = {"ada": "@red", "bob": "@red", "eve": "@blue", "dan": "@both"}
    removed: set[int] = set()
    for hour in range(60):
        user = rng.choice(users)
        runs.append(sent(place, user, rng.randrange(1, 10_000) * 1e-9, timedelta(hours=hour)))
        if hour % 3 == 1:
            with store_of(place).file.writing() as db:
                teams[user] = rng.choice(("", "@red", "@blue"))
                set_team(db, "course", user, teams[user])
        if hour % 4 == 1:
            gone = rng.choice(runs).submission
            words = ("admin", "readmit" if gone in removed else "remove", str(gone), "--reason", "test")
            assert call(place, ADMIN, *words).exit_code == 0
            removed ^= {gone}
        if hour % 10 == 9:
            left = [run for run in runs if run.submission not in removed]
            for reader in (ADMIN, "ken"):
                seen = [run for run in left if reader == ADMIN or run.created_at <= freeze]
                scores = [(teams.get(run.user) or run.user, run.score_s or 1) for run in seen]
                (page,) = board_of(place, reader).standings.pages("course", ["CPU"])
                assert {row.user: row.score_s for row in page.rows} == dict(sorted(scores, reverse=True))


def test_a_board_that_is_made_anew_has_the_present_members_of_its_teams(
    place: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(place, "ada", 1e-6)
    assert call(place, ADMIN, "delete", "course", "--yes").exit_code == 0
    in_groups(monkeypatch, {"red": ("bob",), "blue": ("ada", "eve"), "both": (), "more": ()})
    assert call(place, ADMIN, "create", "course", "vectoradd_py", "--deadline", "+2h", *TEAMS).exit_code == 0
    assert store_of(place).standings.teams("course") == {"ada": "@blue", "bob": "@red", "eve": "@blue"}


def test_no_writer_waits_for_the_groups_of_a_change(place: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    sent(place, "ada", 1e-6)
    store, asked = store_of(place), list[str]()

    def groups_of(user: str) -> frozenset[str]:
        with store.file.writing():
            asked.append(user)
        return frozenset()

    monkeypatch.setattr(editor, "groups_of", groups_of)
    update(place, "--no-team", "@more")
    assert "ada" in asked


def test_a_change_of_teams_is_refused_if_a_user_without_known_groups_submits_meanwhile(
    place: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(place, "ada", 1e-6)

    def groups_of(user: str) -> frozenset[str]:
        if user == "ada":
            sent(place, "zoe", 2e-6)
        return frozenset()

    monkeypatch.setattr(editor, "groups_of", groups_of)
    done = call(place, ADMIN, "update", "course", "--no-team", "@more")
    assert (done.exit_code, done.stderr) == (2, "error: zoe just submitted to the board course.\nhint: Retry.\n")
    update(place, "--no-team", "@more")
