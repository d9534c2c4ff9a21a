"""The rules of play: who may submit how much, what admins take out and send again, and what users remark."""

import getpass
import json
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hpc_board import settings
from hpc_board.board import Board
from hpc_board.cli.main import cli
from hpc_board.domain.draft import RerunCandidate
from hpc_board.domain.moderation import (
    BAN,
    CONFIRMING_RUNS,
    NO_REMARKS,
    NOTES_MAX,
    RERUN,
    UNBAN,
    USER,
    Category,
    Decision,
    Limits,
    Period,
    Rerun,
    limit_refusal,
    limits_for,
    may_read_code,
    wait_text,
)
from hpc_board.domain.roles import Role
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.score_interval import Interval
from hpc_board.errors import InputError, Refused
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.report.moderation import detail_text, subject_text
from hpc_board.report.plain import plain
from hpc_board.report.run_table import runs_table
from hpc_board.report.runs import run_report, run_summary
from hpc_board.store import Store, decisions, submissions
from hpc_board.store.listing import RunQuery
from hpc_board.store.row_values import UndecodableError, decoded_json, time_text
from hpc_board.store.runners import NewRunner
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.unit.recorded import Recorded, once_drafted, result_of, timed_case
from tests.values import replace, requested

ADMIN = getpass.getuser()
NOW = datetime(2030, 1, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BANNED = "You are banned from making submissions."
STOPPED = "The board is currently not accepting any new submissions, please try again later."


@dataclass(frozen=True)
class Place:
    """A board on the embedded scheduler with the task `double`, and its people: one admin, and who else is named."""

    files: BoardFiles

    def board(self, user: str = ADMIN) -> Board:
        return Board(settings.load(self.files.settings, {}), user=user)

    @property
    def store(self) -> Store:
        (self.files.folder / "board").mkdir(exist_ok=True)
        return Store(self.files.folder / "board" / "board.db")

    def call(self, user: str, *argv: str | Path) -> Result:
        """A command of `user`, in this process."""
        return CliRunner().invoke(cli, [str(word) for word in argv], obj=lambda: self.board(user))

    def json(self, user: str, *argv: str | Path) -> Any:
        done = self.call(user, *argv, "--json")
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    def submitted(
        self,
        user: str,
        *,
        ago: timedelta = timedelta(),
        mode: Mode = Mode.RANKED,
        runs: int = 1,
        rerun: Rerun | None = None,
        account: str = "",
    ) -> tuple[Run, ...]:
        """Store a run that `user` sent so long `ago`, and that no client advances."""
        new = NewSubmission(
            task=self.board().tasks.get("double"),
            user=user,
            file_name="kernel.py",
            code=RIGHT.encode(),
            mode=mode,
            note="",
            at=datetime.now(UTC) - ago,
            runs=[replace(new_run(), account=account) for _ in range(runs)],
            rerun=rerun,
        )
        ((_, stored),) = self.store.submissions.add_all([new], sender=None)
        return stored

    def task(self, **own: object) -> None:
        """Change keys of the task's own file; None takes one out."""
        file = self.files.folder / "tasks" / "double" / "task.yml"
        document = yaml.safe_load(file.read_text())
        document["hpc_board"] |= own
        file.write_text(yaml.safe_dump(document, sort_keys=False))

    def new_version(self) -> None:
        file = self.files.folder / "tasks" / "double" / "task.yml"
        document = yaml.safe_load(file.read_text())
        document["benchmarks"].append({"size": 50 + len(document["benchmarks"]), "seed": 9})
        file.write_text(yaml.safe_dump(document, sort_keys=False))


def measured_milestone(place: Place, user: str) -> Run:
    """A run of the milestone `eager`, which `user` has sent and which passed."""
    task = place.board().tasks.get("double")
    at = datetime.now(UTC)
    new = NewSubmission(task, user, "eager.py", RIGHT.encode(), Mode.RANKED, "", at, [new_run()], milestone="eager")
    ((_, (run,)),) = place.store.submissions.add_all([new], sender=None)
    result = replace(result_of(Verdict.PASS, timed_case()), run=run.id)
    place.store.runs.finish(run.id, Status(RunState.FINISHED, at), result, 1e-6)
    return run


def new_run() -> NewRun:
    token = f"hb-{time.time_ns()}-{id(object())}"
    return NewRun("CPU", "here", "", token, "nonce", "self-run", False, "")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(board_files(tmp_path, slurm=False))


def timed(board: Recorded, user: str, score_s: float) -> Run:
    """A passing ranked run of `user` that took so long."""
    return board.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user)


def ranks(board: Board) -> list[tuple[int, str, int]]:
    return [(row.rank, row.user, row.run) for row in board.standings.pages("vectoradd_py", ["CPU"])[0].rows]


# Limits, as pure rules


def refusal(limit: int, minutes_ago: Sequence[float], new: int = 1, per: Period = Period.HOUR) -> str:
    newest = [NOW - ago * MINUTE for ago in sorted(minutes_ago)]
    enough = max(0, limit - new + 1)
    return limit_refusal("matmul", Category.RANKED, limit, per, newest[:enough], len(newest), new, NOW)


def test_as_many_submissions_as_the_limit_pass() -> None:
    assert refusal(3, [1, 2]) == ""
    assert refusal(3, [], new=3) == ""


def test_a_refusal_says_how_many_there_were_and_when_there_is_room() -> None:
    assert refusal(3, [59, 20, 1]) == (
        "Rate limit exceeded: you have sent 3 of at most 3 ranked submissions to matmul within an hour. "
        "Try again in 1 min (60 s)."
    )


def test_a_batch_waits_until_there_is_room_for_all_of_it() -> None:
    said = refusal(3, [59, 20, 1], new=2)
    assert "and these are 2. Try again in 40 min (2400 s)." in said


def test_a_limit_that_was_lowered_waits_for_all_that_are_above_it() -> None:
    assert "you have sent 4 of at most 2 " in refusal(2, [50, 40, 30, 20.5])
    assert "Try again in 30 min (1800 s)." in refusal(2, [50, 40, 30, 20.5])


def test_a_limit_of_none_closes_the_board_and_a_large_batch_never_fits() -> None:
    assert refusal(0, []) == "matmul is closed for ranked submissions: its limit is 0 per hour."
    assert "3 ranked submissions to matmul at once, but its limit is 2 per hour" in refusal(2, [], new=3)


def test_a_limit_per_day_is_free_after_a_day_and_one_in_all_never() -> None:
    assert "3 of at most 3 ranked submissions to matmul within a day. Try again in 23 h (82800 s)." in refusal(
        3, [60, 20, 1], per=Period.DAY
    )
    assert refusal(3, [60, 20, 1], per=Period.ALL).endswith("in all. This limit does not reset; an admin can raise it.")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 s"),
        (0.2, "1 s"),
        (59.1, "1 min (60 s)"),
        (61, "1 min 1 s (61 s)"),
        (3600, "1 h (3600 s)"),
        (86_399, "23 h 59 min 59 s (86399 s)"),
    ],
)
def test_a_wait_is_told_in_words_and_seconds(seconds: float, words: str) -> None:
    assert wait_text(timedelta(seconds=seconds)) == words


def test_a_limit_of_a_user_overrides_that_of_the_role_and_this_that_of_all() -> None:
    day = Period.DAY
    known = [
        Limits(1, 9),
        Limits(5, None, day),
        Limits(10, None, day, role=Role.CREATOR),
        Limits(20, None, day, user="bob"),
    ]
    assert limits_for(known, "eve", Role.PARTICIPANT) == (Limits(1, 9), Limits(5, None, day))
    assert limits_for(known, "eve", Role.CREATOR) == (Limits(1, 9), Limits(10, None, day))
    assert limits_for(known, "bob", Role.CREATOR) == (Limits(1, 9), Limits(20, None, day))


@pytest.mark.parametrize("text", ["[]", "3", '{"ranked": -1}', '{"ranked": true}', '{"other": "5"}', "{"])
def test_limits_that_nobody_wrote_are_not_read(text: str) -> None:
    with pytest.raises(UndecodableError, match=r"Expected|truncated"):
        decoded_json(Limits, text)


# Limits on a board


def test_each_user_may_send_so_many_of_each_category_within_an_hour(place: Place) -> None:
    kernel = place.files.kernel()
    place.call(ADMIN, "admin", "limit", "double", "--ranked", "2", "--other", "1")
    place.submitted("bob", ago=61 * MINUTE)
    place.submitted("bob", ago=50 * MINUTE)
    ranked = ("submit", kernel, "--mode", "ranked", "--dry-run")
    assert place.call("bob", *ranked).exit_code == 0
    place.submitted("bob", ago=20 * MINUTE)
    refused = place.call("bob", *ranked)
    assert refused.exit_code == 5
    assert "Refused: Rate limit exceeded: you have sent 2 of at most 2 ranked submissions to double" in refused.stderr
    assert "Try again in 10 min" in refused.stderr or "Try again in 9 min 5" in refused.stderr
    assert place.call("eve", *ranked).exit_code == 0
    for mode in ("test", "benchmark", "profile"):
        assert place.call("bob", "submit", kernel, "--mode", mode, "--dry-run").exit_code == 0
    place.submitted("bob", mode=Mode.TEST)
    assert (
        "1 of at most 1 test, benchmark, profile and sanitize submissions" in place.call("bob", "submit", kernel).stderr
    )
    place.call(ADMIN, "admin", "limit", "double", "--none")
    assert place.call("bob", *ranked).exit_code == 0


def test_limits_per_day_and_in_all_hold_beside_those_per_hour_and_a_user_has_their_own(place: Place) -> None:
    ranked = ("submit", place.files.kernel(), "--mode", "ranked", "--dry-run")
    limit = ("admin", "limit", "double", "--ranked")
    place.call(ADMIN, *limit, "5")
    place.call(ADMIN, *limit, "2", "--per", "day")
    place.call(ADMIN, *limit, "3", "--per", "all")
    for hours in (30, 5, 3):
        place.submitted("bob", ago=hours * 60 * MINUTE)
    assert (
        "2 of at most 2 ranked submissions to double within a day. Try again in 1" in place.call("bob", *ranked).stderr
    )
    said = place.call(ADMIN, *limit, "9", "--per", "day", "--user", "bob").stderr
    assert said == "Limits of double: all users ranked 5/h, 2/d, 3 in all; user bob ranked 9/d.\n"
    assert "3 of at most 3 ranked submissions to double in all. This limit does not reset" in (
        place.call("bob", *ranked).stderr
    )
    place.call(ADMIN, *limit, "4", "--per", "all", "--role", "participant")
    assert place.call("bob", *ranked).exit_code == 0
    assert "ranked 5/h, 9/d, 4 in all, other none" in place.call("bob", "task", "double").stdout
    assert [
        (each["user"], each["role"], each["per"], each["ranked"]) for each in place.json("bob", "admin", "limits")
    ] == [
        (None, None, "hour", 5),
        (None, None, "day", 2),
        (None, None, "all", 3),
        (None, "participant", "all", 4),
        ("bob", None, "day", 9),
    ]
    assert [each["user"] for each in place.json("eve", "admin", "limits")] == [None] * 4
    shown = place.call(ADMIN, "admin", "limits").stdout
    assert all(words in shown for words in ("each participant", "user bob", "4 in all"))
    assert place.json(ADMIN, "admin", "limit", "double", "--none")["per"] is None
    assert len(place.json(ADMIN, "admin", "limits")) == 2
    assert place.call(ADMIN, *limit, "4", "--user", "bob", "--role", "creator").exit_code == 2
    assert place.call(ADMIN, *limit, "4", "--user", "nobody-here").exit_code == 2


def test_a_submission_to_many_gpus_counts_once_and_each_file_of_a_batch_by_itself(place: Place) -> None:
    one, other = place.files.kernel(), place.files.kernel(name="other.py")
    place.call(ADMIN, "admin", "limit", "double", "--other", "2")
    place.submitted("bob", mode=Mode.TEST, runs=4)
    assert place.call("bob", "submit", one, "--dry-run").exit_code == 0
    refused = place.call("bob", "submit", one, other, "--dry-run")
    assert refused.exit_code == 5
    assert "and these are 2." in refused.stderr


@pytest.mark.parametrize("mode", ["ranked", "test"])
def test_limits_bind_the_admin_of_a_personal_board_and_not_of_a_served_one(place: Place, mode: str) -> None:
    place.call(ADMIN, "admin", "limit", "double", "--ranked", "1", "--other", "0")
    place.submitted(ADMIN)
    request = requested(place.files.kernel(), mode=mode)
    with pytest.raises(Refused, match=r"Rate limit exceeded: you have sent 1 of|double is closed for"):
        place.board().submissions.preview([request])
    served = place.board()
    served.context.installation.served = True
    assert len(served.submissions.preview([request])) == 1


def test_submissions_that_an_admin_sends_again_do_not_count(place: Place) -> None:
    kernel = place.files.kernel()
    place.call(ADMIN, "admin", "limit", "double", "--ranked", "1", "--other", "0")
    first = place.submitted(ADMIN)[0]
    place.submitted("bob", rerun=Rerun(first.submission, ADMIN, NOW))
    assert place.call("bob", "submit", kernel, "--mode", "ranked", "--dry-run").exit_code == 0
    place.submitted("bob")
    assert place.call("bob", "submit", kernel, "--mode", "ranked", "--dry-run").exit_code == 5


def test_who_looks_at_a_task_sees_its_limits(place: Place) -> None:
    assert "Limits" not in place.call("bob", "task", "double").stdout.splitlines()
    place.call(ADMIN, "admin", "limit", "double", "--ranked", "3")
    assert "submissions  ranked 3/h, other none" in place.call("bob", "task", "double").stdout
    shown = place.json("bob", "task", "double")
    assert shown["submission_limits"] == [{"per": "hour", "ranked": 3, "other": None}]


def test_limits_are_changed_one_by_one_and_listed(place: Place) -> None:
    assert place.json(ADMIN, "admin", "limits") == []
    assert place.json(ADMIN, "admin", "limit", "double", "--ranked", "5")["ranked"] == 5
    assert place.json(ADMIN, "admin", "limit", "double", "--other", "0") == {
        "board": "double",
        "ranked": 5,
        "other": 0,
        "gpu_seconds": None,
        "per": "hour",
        "user": None,
        "role": None,
    }
    (listed,) = place.json("bob", "admin", "limits")
    assert (listed["board"], listed["ranked"], listed["other"], listed["by"]) == ("double", 5, 0, ADMIN)
    shown = place.call("bob", "admin", "limits").stdout
    assert "5/h" in shown
    assert "closed" in shown
    assert place.json(ADMIN, "admin", "limit", "double", "--ranked", "none")["ranked"] is None
    (place.files.folder / "tasks" / "double").rename(place.files.folder / "double")
    assert place.call(ADMIN, "admin", "limit", "double", "--ranked", "1").exit_code == 2
    assert place.call(ADMIN, "admin", "limit", "double", "--none").exit_code == 0
    assert place.json(ADMIN, "admin", "limits") == []


@pytest.mark.parametrize("words", [(), ("--ranked", "3", "--none"), ("--ranked", "-2"), ("--other", "many")])
def test_limits_that_cannot_be_are_a_usage_error(place: Place, words: Sequence[str]) -> None:
    assert place.call(ADMIN, "admin", "limit", "double", *words).exit_code == 2


def test_the_submissions_within_the_hour_are_found_by_index(place: Place) -> None:
    given = {"user": "bob", "entrant": None, "task": "double", "since": "", "ranked": 1, "rerun": RERUN}
    with place.store.file.reading() as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN SELECT COUNT(*) {decisions._SINCE}", given).fetchall()
    steps = " ".join(row[3] for row in plan)
    assert "submissions_by_user_and_task (user=? AND task=? AND submitted_at>?)" in steps
    assert "SCAN" not in steps


def test_what_a_user_has_sent_again_is_found_by_index(place: Place) -> None:
    names = ("original", "user", "entrant", "task", "version", "sha256", "mode", "gpu", "options")
    given = dict.fromkeys(names, "x") | {"gpus": "[]", "verdicts": "[]"}
    for statement in (submissions._SENT, submissions._IDENTICAL):
        with place.store.file.reading() as db:
            plan = db.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
        index = r"SEARCH submissions USING INDEX \w+ \(code_sha256=\? AND task=\? AND user=\?\)"
        assert re.search(index, " ".join(row[3] for row in plan))


def test_limit_that_was_reached_after_the_draft_refuses_the_submission(place: Place) -> None:
    place.call(ADMIN, "admin", "limit", "double", "--other", "1")
    bob = place.board("bob")
    once_drafted(bob, lambda: place.submitted("bob", mode=Mode.TEST))
    with pytest.raises(Refused, match="you have sent 1 of at most 1 "):
        bob.submissions.submit([requested(place.files.kernel())])
    assert len(place.store.runs.list(RunQuery(user="bob"))) == 1


# Bans and stops


def test_a_banned_user_cannot_submit_and_is_told_why(place: Place) -> None:
    kernel = place.files.kernel()
    running = place.submitted("bob")
    assert "bob is banned." in place.call(ADMIN, "admin", "ban", "bob", "--reason", "shared an account").stderr
    refused = place.call("bob", "submit", kernel, "--dry-run")
    assert refused.exit_code == 5
    assert f"{BANNED}\nReason: shared an account\n" in refused.stderr
    assert place.store.runs.in_flight() == running
    assert place.call("eve", "submit", kernel, "--dry-run").exit_code == 0
    (ban,) = place.json(ADMIN, "admin", "bans")
    assert (ban["subject"], ban["by"], ban["reason"]) == ("bob", ADMIN, "shared an account")
    assert "bob is already banned" in place.call(ADMIN, "admin", "ban", "bob", "--reason", "again").stderr
    assert "bob may submit again." in place.call(ADMIN, "admin", "unban", "bob").stderr
    assert "bob was not banned." in place.call(ADMIN, "admin", "unban", "bob").stderr
    assert place.call("bob", "submit", kernel, "--dry-run").exit_code == 0
    assert place.json(ADMIN, "admin", "bans") == []


def test_a_ban_meets_what_was_drafted_before_it(place: Place) -> None:
    bob = place.board("bob")
    place.submitted("bob")
    once_drafted(bob, lambda: place.board().moderation.ban("bob", "late"))
    with pytest.raises(Refused, match=BANNED):
        bob.submissions.submit([requested(place.files.kernel())])
    assert len(place.store.runs.list(RunQuery(user="bob"))) == 1


def test_a_ban_ends_by_itself_where_it_has_an_end(board: Recorded) -> None:
    timed(board, "bob", 1e-6)
    rules, store = board.board.moderation, Store(board.folder / "board" / "board.db")
    assert rules.ban("bob", "floods the queue", "+2h")
    assert not rules.ban("bob", "again", rules.bans()[0].detail)
    with pytest.raises(Refused, match=r"You are banned from making submissions until 20.* UTC"):
        store.moderation.check_open("bob", datetime.now(UTC), admin=False)
    later = datetime.now(UTC) + timedelta(hours=3)
    assert store.moderation.bans(later) == ()
    assert store.moderation.check_open("bob", later, admin=False) is None
    shown = call(board, ADMIN, "admin", "log").stdout
    assert re.search(r"until 20\S+ \d\d:\d\d(:\d\d)? UTC", shown)
    assert re.search(r"UNTIL .*\n.* \d\d:\d\d(:\d\d)? UTC", call(board, ADMIN, "admin", "bans").stdout)
    assert rules.ban("bob", "for good", "none")
    assert store.moderation.bans(later)[0].ends_at is None


def test_a_ban_that_is_over_may_be_given_again(board: Recorded) -> None:
    timed(board, "bob", 1e-6)
    store, end = Store(board.folder / "board" / "board.db"), NOW + MINUTE
    ban = Decision(BAN, USER, "bob", ADMIN, NOW, "x", end.isoformat())
    assert store.moderation.switch(ban)
    assert not store.moderation.switch(Decision(UNBAN, USER, "bob", ADMIN, end))
    assert store.moderation.switch(replace(ban, at=end))


@pytest.mark.parametrize("until", ["soon", "2001-01-01", "+0d"])
def test_the_end_of_a_ban_is_a_moment_that_is_to_come(place: Place, until: str) -> None:
    place.submitted("bob")
    refused = place.call(ADMIN, "admin", "ban", "bob", "--reason", "x", "--until", until)
    assert refused.exit_code == 2
    assert place.board().moderation.bans() == ()


def test_a_name_that_nobody_has_is_not_banned(place: Place) -> None:
    place.submitted("roberta")
    refused = place.call(ADMIN, "admin", "ban", "robertta", "--reason", "x")
    assert refused.exit_code == 2
    assert "roberta" in refused.stderr.replace("robertta", "")
    for command, name in (("ban", ""), ("ban", "x" * 300), ("unban", "a\nb\x1b[31m")):
        done = place.call(ADMIN, "admin", command, name, "--reason", "x")
        assert (done.exit_code, "is not a valid user name." in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", "x" * 501])
def test_a_reason_is_one_line_that_says_something(place: Place, reason: str) -> None:
    place.submitted("bob")
    assert place.call(ADMIN, "admin", "ban", "bob", "--reason", reason).exit_code == 2
    assert place.board().moderation.bans() == ()


def test_a_stopped_board_takes_only_what_admins_send(place: Place) -> None:
    kernel = place.files.kernel()
    running = place.submitted("bob")
    place.call(ADMIN, "admin", "stop", "--reason", "maintenance until 5")
    refused = place.call("bob", "submit", kernel, "--dry-run")
    assert refused.exit_code == 5
    assert f"{STOPPED}\nReason: maintenance until 5\n" in refused.stderr
    place.call(ADMIN, "admin", "start")
    bob = place.board("bob")
    once_drafted(bob, lambda: place.call(ADMIN, "admin", "stop", "--reason", "maintenance until 5"))
    with pytest.raises(Refused, match="currently not accepting"):
        bob.submissions.submit([requested(kernel)])
    assert place.store.runs.in_flight() == running
    heard: list[str] = []
    admin = Board(settings.load(place.files.settings, {}), user=ADMIN, warn=heard.append)
    admin.submissions.preview([requested(kernel)])
    assert heard == ["The board is closed to submissions; yours are accepted because you are an admin."]
    assert "already stopped" in place.call(ADMIN, "admin", "stop").stderr
    place.call(ADMIN, "admin", "start")
    assert place.call("bob", "submit", kernel, "--dry-run").exit_code == 0


def test_looking_at_what_would_be_sent_makes_no_database(place: Place) -> None:
    assert place.call("bob", "submit", place.files.kernel(), "--dry-run").exit_code == 0
    assert not (place.files.folder / "board" / "board.db").exists()


def test_what_is_wrong_with_a_submission_is_told_in_a_fixed_order(place: Place) -> None:
    bad = RIGHT.replace("#!POPCORN leaderboard double", "#!POPCORN leader double")
    unprintable = place.files.kernel(bad, "k\a.txt")
    place.submitted("bob", mode=Mode.TEST)
    place.task(deadline="2020-01-01")
    place.call(ADMIN, "admin", "stop")
    place.call(ADMIN, "admin", "ban", "bob", "--reason", "x")
    place.call(ADMIN, "admin", "limit", "double", "--other", "1")

    def told(file: Path, code: int, words: str) -> None:
        done = place.call("bob", "submit", file, "--gpu", "B999", "--dry-run")
        assert (done.exit_code, words in done.stderr) == (code, True), done.stderr

    told(unprintable, 2, "invalid file name k·.txt.")
    told(place.files.kernel(bad, "k.txt"), 2, "Submit a Python (.py)")
    told(place.files.kernel(bad), 5, STOPPED)
    place.call(ADMIN, "admin", "start")
    told(place.files.kernel(bad), 5, BANNED)
    place.call(ADMIN, "admin", "unban", "bob")
    told(place.files.kernel(bad), 2, "invalid !POPCORN directive: leader")
    kernel = place.files.kernel()
    told(kernel, 5, "The deadline to submit to double has passed.")
    place.task(deadline="2999-01-01")
    told(kernel, 2, 'unknown GPU "B999"')
    done = place.call("bob", "submit", kernel, "--dry-run")
    assert (done.exit_code, "Rate limit exceeded" in done.stderr) == (5, True)


def test_who_has_no_role_may_not_submit(place: Place) -> None:
    place.files.settings.write_text(place.files.settings.read_text() + "roles: {participants: [ada]}\n")
    (place.files.folder / "board").mkdir()
    kernel = place.files.kernel()
    assert place.call("ada", "submit", kernel, "--dry-run").exit_code == 0
    refused = place.call("bob", "submit", kernel, "--dry-run")
    assert (refused.exit_code, "you may not submit" in refused.stderr) == (5, True)


# Removal


def test_a_removed_submission_leaves_the_standings_to_the_next_best(board: Recorded) -> None:
    best, second, bobs = timed(board, "ada", 1e-6), timed(board, "ada", 3e-6), timed(board, "bob", 2e-6)
    mine = board.board
    assert ranks(mine) == [(1, "ada", best.id), (2, "bob", bobs.id)]
    mine.moderation.remove([best.submission], "copied from bob")
    assert ranks(mine) == [(1, "bob", bobs.id), (2, "ada", second.id)]
    assert mine.standings.placing(mine.runs.get(best.id)) is None
    mine.moderation.readmit([best.submission])
    assert ranks(mine) == [(1, "ada", best.id), (2, "bob", bobs.id)]
    assert mine.runs.get(best.id).remarks.removal is None


def call(board: Recorded, user: str, *argv: str) -> Result:
    return CliRunner().invoke(cli, argv, obj=lambda: Board(board.board.settings, user=user))


def test_the_owner_sees_who_removed_a_run_and_why(board: Recorded) -> None:
    run = timed(board, "ada", 1e-6)
    other = timed(board, "ada", 2e-6)
    removed = call(board, ADMIN, "admin", "remove", str(run.submission), "--reason", "returns a cached answer")
    assert f"undo: `hpc-board admin readmit {run.submission}`." in removed.stderr
    why = f"removed by {ADMIN} at "
    shown = call(board, "ada", "run", str(run.id)).stdout
    assert f"Not in the standings: {why}" in shown
    assert ": returns a cached answer\n" in shown
    assert "is another run" not in shown
    assert f"{run.id}  vectoradd_py" in call(board, "ada", "runs").stdout
    assert "  removed\n" in call(board, "ada", "runs").stdout
    personal = call(board, "ada", "show", "vectoradd_py", "--own", "--gpu", "CPU").stdout
    assert f"Run {run.id}, 1.00 µs, not in the standings: {why}" in personal
    (shown_board,) = json.loads(call(board, "ada", "show", "vectoradd_py", "--own", "--gpu", "CPU", "--json").stdout)[
        "boards"
    ]
    assert [row["run"] for row in shown_board["rows"]] == [other.id]
    assert [(row["run"], row["by"], row["reason"]) for row in shown_board["removed"]] == [
        (run.id, ADMIN, "returns a cached answer")
    ]
    assert "removed" not in json.loads(call(board, "ada", "show", "vectoradd_py", "--json").stdout)["boards"][0]
    told = json.loads(call(board, "ada", "run", str(run.id), "--json").stdout)
    assert (told["rank"], told["removed"]["by"], told["removed"]["reason"]) == (None, ADMIN, "returns a cached answer")
    assert call(board, "ada", "compare", str(run.id), str(other.id)).exit_code == 0


def test_removals_are_done_all_or_none(board: Recorded) -> None:
    run, other = timed(board, "ada", 1e-6), timed(board, "bob", 2e-6)
    admin = board.board
    with pytest.raises(InputError, match="there is no submission 99"):
        admin.moderation.remove([run.submission, 99], "x")
    assert len(ranks(admin)) == 2
    admin.moderation.remove([run.submission, run.submission], "x")
    with pytest.raises(InputError, match=f"submission {run.submission} was already removed by {ADMIN}"):
        admin.moderation.remove([other.submission, run.submission], "x")
    with pytest.raises(InputError, match=f"submission {other.submission} is not removed"):
        admin.moderation.readmit([run.submission, other.submission])
    assert ranks(admin) == [(1, "bob", other.id)]


def test_a_run_that_ends_after_its_removal_does_not_count(board: Recorded) -> None:
    run = board.add(Status(RunState.RUNNING, NOW), user="ada")
    board.board.moderation.remove([run.submission], "x")
    end = Status(RunState.FINISHED, NOW)
    Store(board.folder / "board" / "board.db").runs.finish(
        run.id, end, replace(result_of(Verdict.PASS, timed_case()), run=run.id), 1e-6
    )
    assert ranks(board.board) == []


def test_a_report_shows_nothing_that_a_reason_or_a_note_smuggles_in(board: Recorded) -> None:
    run = timed(board, "ada", 1e-6)
    store = Store(board.folder / "board" / "board.db")
    evil = "\x1b]0;title\x07\u202eevil"
    store.moderation.remove([run.submission], evil, NOW, evil)
    store.moderation.add_note(run.submission, evil, evil, NOW)
    found, result = store.runs.get(run.id), store.runs.result(run.id)
    text = plain([*run_report(found, result), *run_summary(found, result), runs_table([found])])
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


# The audit log


def test_the_log_has_who_decided_what_and_can_be_narrowed(board: Recorded) -> None:
    ada, bob = timed(board, "ada", 1e-6), timed(board, "bob", 2e-6)
    rules = board.board.moderation
    rules.stop("down")
    rules.start()
    rules.limit("vectoradd_py", [Limits(2, None)])
    rules.ban("bob", "twice")
    rules.remove([ada.submission], "wrong")
    rules.readmit([ada.submission], "right")
    told = [(each.action, each.kind, each.subject, each.reason) for each in rules.decisions()]
    assert told == [
        ("readmit", "submission", str(ada.submission), "right"),
        ("remove", "submission", str(ada.submission), "wrong"),
        ("ban", "user", "bob", "twice"),
        ("limit", "board", "vectoradd_py", ""),
        ("start", "", "", ""),
        ("stop", "", "", "down"),
    ]
    assert bob.submission != ada.submission

    def actions(**narrowed: Any) -> list[str]:
        return [each.action for each in rules.decisions(**narrowed)]

    assert actions(user="ada") == ["readmit", "remove"]
    assert actions(user="bob") == ["ban"]
    assert len(actions(user=ADMIN)) == 6
    assert actions(board="vectoradd_py") == ["readmit", "remove", "limit"]
    assert actions(board="matmul_py") == []
    assert actions(limit=1) == ["readmit"]
    shown = call(board, ADMIN, "admin", "log").stdout
    assert "ranked 2/h, other none" in shown
    assert "all boards" in shown
    listed = json.loads(call(board, ADMIN, "admin", "log", "--limit", "1", "--json").stdout)
    assert [(row["action"], row["by"], row["reason"]) for row in listed] == [("readmit", ADMIN, "right")]


def test_the_log_has_the_changes_of_boards_in_their_places(board: Recorded) -> None:
    rules = board.board.moderation
    rules.stop("one")
    with Store(board.folder / "board" / "board.db").file.writing() as db:
        row = {"name": "matmul", "action": "delete", "terms": "{}", "by_user": "carl", "reason": "over"}
        db.insert("boards", {**row, "task_version": None, "at": time_text(datetime.now(UTC))})
    rules.start("two")
    assert [each.reason for each in rules.decisions()] == ["two", "over", "one"]
    assert [each.action for each in rules.decisions(board="matmul")] == ["delete"]
    assert [each.action for each in rules.decisions(user="carl")] == ["delete"]


def test_the_log_has_the_begin_and_the_cost_of_a_held_gpu(board: Recorded) -> None:
    rules = board.board.moderation
    rules.stop("before")
    at = datetime.now(UTC) + MINUTE
    runners = Store(board.folder / "board" / "board.db").runners
    new = NewRunner("ada", "", "H100", "here", "", "hb-1", "a" * 64, 1800, 300, 1, "b" * 64, "{}", at)
    ended, live = runners.add(new, most=1), runners.add(replace(new, user="bob", token="hb-2", at=at + MINUTE), most=1)
    for minutes, state, reason in ((1, RunState.RUNNING, ""), (25.05, RunState.FINISHED, "it was idle for 300 s")):
        runners.record(ended.id, Status(state, at + minutes * MINUTE, reason=reason, runner=ended.id))
    found = rules.decisions()
    assert [(each.action, subject_text(each), each.by_user, detail_text(each), each.reason) for each in found] == [
        ("end", "GPU H100", "ada", "runner 1, held for 24 min 3 s, 0 runs", "it was idle for 300 s"),
        ("hold", "GPU H100", "bob", "runner 2, for 30 min", ""),
        ("hold", "GPU H100", "ada", "runner 1, for 30 min", ""),
        ("stop", "all boards", ADMIN, "", "before"),
    ]
    assert len({each.number for each in found}) == len(found)
    assert [each.action for each in rules.decisions(user="ada")] == ["end", "hold"]
    assert rules.decisions(board="vectoradd_py") == ()
    runners.request_end(live.id, "released by dean")
    runners.record(live.id, Status(RunState.CANCELLED, at + 9 * MINUTE, reason="it was released", runner=live.id))
    end = rules.decisions(user="bob")[0]
    assert (detail_text(end), end.reason) == ("runner 2, held for 0 s, 0 runs", "released by dean")
    late = runners.add(replace(new, user="eve", token="hb-3"))
    for minutes, state in ((1, RunState.RUNNING), (900, RunState.LOST)):
        runners.record(late.id, Status(state, at + minutes * MINUTE, runner=late.id))
    assert detail_text(rules.decisions(user="eve")[0]) == "runner 3, held for 30 min, 0 runs"


PARTICIPANT: list[Callable[[Board], object]] = [
    lambda board: board.moderation.ban("ada", "x"),
    lambda board: board.moderation.unban("ada"),
    lambda board: board.moderation.bans(),
    lambda board: board.moderation.stop(),
    lambda board: board.moderation.start(),
    lambda board: board.moderation.limit("vectoradd_py", [Limits(1)]),
    lambda board: board.moderation.remove([1], "x"),
    lambda board: board.moderation.readmit([1]),
    lambda board: board.moderation.decisions(),
    lambda board: board.admin_views.people(),
    lambda board: board.submissions.rerun_plan("vectoradd_py"),
    lambda board: board.submissions.rerun("vectoradd_py", [1]),
]


@pytest.mark.parametrize("what", PARTICIPANT)
def test_only_admins_decide(board: Recorded, what: Callable[[Board], object]) -> None:
    timed(board, "ada", 1e-6)
    with pytest.raises(Refused, match=r"this requires the role (admin|creator), but bob's is participant"):
        what(Board(board.board.settings, user="bob"))
    assert board.board.moderation.decisions() == ()


# Notes


def test_notes_come_after_the_one_that_was_sent(place: Place) -> None:
    kernel = place.files.kernel()
    assert place.call("bob", "submit", kernel, "--mode", "test", "--note", "first").exit_code == 0
    assert place.call("bob", "note", "1", "second one").exit_code == 0
    run = place.json("bob", "run", "1")
    assert (run["note"], [note["text"] for note in run["notes"]]) == ("first", ["second one"])
    shown = place.call("bob", "run", "1").stdout
    assert shown.index("note       first\n") < shown.index("note       second one (")
    assert "  second one\n" in place.call("bob", "runs").stdout
    place.board("bob").runs.cancel_each([1])


def test_runs_are_found_by_note(board: Recorded) -> None:
    first, second = timed(board, ADMIN, 1e-6), timed(board, ADMIN, 2e-6)
    mine = board.board
    mine.submissions.note(first.submission, "eight Values per thread")
    mine.submissions.note(second.submission, "tiled")

    def found(note: str) -> list[int]:
        return [run.id for run in mine.runs.list(note=note)]

    assert found("values PER") == [first.id]
    assert found("e") == [second.id, first.id]
    assert found("%") == []
    rows = json.loads(call(board, ADMIN, "runs", "--note", "eight", "--json").stdout)
    assert [(row["id"], row["notes"][0]["by"]) for row in rows] == [(first.id, ADMIN)]
    assert "  eight Values per thread\n" in call(board, ADMIN, "runs").stdout
    assert "REMARKS" not in call(board, "nobody-here", "runs").stdout


def test_only_the_owner_remarks_on_a_submission(board: Recorded) -> None:
    run = timed(board, "ada", 1e-6)
    refused = call(board, "bob", "note", str(run.id), "x")
    assert (refused.exit_code, "the owner is ada" in refused.stderr) == (5, True)
    assert call(board, ADMIN, "note", str(run.id), "x").exit_code == 5
    assert board.board.runs.get(run.id).remarks == NO_REMARKS


@pytest.mark.parametrize("text", ["", " ", "x" * 501, "two\nlines"])
def test_a_note_is_one_line(board: Recorded, text: str) -> None:
    run = timed(board, ADMIN, 1e-6)
    with pytest.raises(InputError):
        board.board.submissions.note(run.submission, text)


def test_notes_are_bounded(board: Recorded) -> None:
    run = timed(board, ADMIN, 1e-6)
    mine = board.board
    for number in range(NOTES_MAX):
        mine.submissions.note(run.submission, f"note {number}")
    with pytest.raises(InputError, match=f"{NOTES_MAX} notes"):
        mine.submissions.note(run.submission, "one more")


# The code of others


def test_who_may_read_a_submission() -> None:
    assert may_read_code("ada", "ada", manages=False, shown_to_others=False)
    assert may_read_code("eve", "ada", manages=True, shown_to_others=False)
    assert may_read_code("eve", "ada", manages=False, shown_to_others=True)
    assert not may_read_code("eve", "ada", manages=False, shown_to_others=False)


def test_admins_read_every_file_and_participants_their_own(board: Recorded) -> None:
    run = timed(board, "ada", 1e-6)
    assert call(board, "ada", "code", str(run.id)).exit_code == 0
    assert call(board, ADMIN, "code", str(run.id)).exit_code == 0
    refused = call(board, "bob", "code", str(run.id))
    assert (refused.exit_code, "the owner is ada, not bob" in refused.stderr) == (5, True)


@pytest.mark.parametrize(("verdict", "quotes"), [(Verdict.EXCEPTION, True), (Verdict.WRONG_VALUE, False)])
def test_messages_that_may_quote_code_are_for_those_who_may_read_it(
    board: Recorded, verdict: Verdict, quotes: bool
) -> None:
    words = "SECRET_TRICK, in kernel.py, line 7"
    case = replace(timed_case(), verdict=verdict, message=words, timing=None)
    run = board.add(result=result_of(verdict, case, message=words), user="ada")
    number = str(run.id)
    passed = timed(board, "bob", 1e-6)
    of_one = ("run", number), ("watch", number), ("run", number, "--json"), ("run", number, "--json=brief")
    for command in (*of_one, ("runs", "--all", "--json"), ("show", "--user", "ada", "--json")):
        told = {user: call(board, user, *command) for user in ("ada", ADMIN, "bob")}
        seen = {user: "SECRET_TRICK" in each.stdout for user, each in told.items()}
        assert seen == {"ada": True, ADMIN: True, "bob": not quotes}, command
        assert all("exception" in each.stdout or not quotes for each in told.values())
    compared = [call(board, user, "compare", number, str(passed.id), "--json").stdout for user in ("ada", "bob")]
    assert ["SECRET_TRICK" in each for each in compared] == [False, False]


def test_the_limits_of_a_closed_board_are_told_to_those_who_see_it(place: Place) -> None:
    words = ("--gpu", "CPU", "--closed", "--member", "bob", "--yes")
    assert place.call(ADMIN, "create", "secret", "double", *words).exit_code == 0
    place.call(ADMIN, "admin", "limit", "secret", "--ranked", "1")
    assert [row["board"] for row in place.json("bob", "admin", "limits")] == ["secret"]
    assert place.json("eve", "admin", "limits") == []


# Sending again


def ended(board: Board, runs: Sequence[Run]) -> list[Run]:
    *_, last = board.runs.wait([run.id for run in runs], timeout_seconds=60)
    return last


def ranked(place: Place, user: str, text: str = RIGHT, score_s: float = 1e-6) -> Run:
    """A run of `user` that passed and took so long."""
    task, at = place.board().tasks.get("double"), datetime.now(UTC)
    new = NewSubmission(task, user, "kernel.py", text.encode(), Mode.RANKED, "", at, [new_run()])
    ((_, (run,)),) = place.store.submissions.add_all([new], sender=None)
    result = replace(result_of(Verdict.PASS, timed_case()), run=run.id)
    place.store.runs.finish(run.id, Status(RunState.FINISHED, at), result, score_s)
    return place.store.runs.get(run.id)


def described(plan: Sequence[RerunCandidate]) -> list[tuple[int, str, str]]:
    return [(each.submission.id, each.submission.user, each.why) for each in plan]


@pytest.mark.slow
def test_the_best_of_the_version_before_is_sent_again_for_its_author(place: Place) -> None:
    adas, bobs = ranked(place, "ada"), ranked(place, "bob", RIGHT + "# slow\n", score_s=2e-6)
    own = ranked(place, ADMIN, RIGHT + "# mine\n", score_s=3e-6)
    ranked(place, "ada", RIGHT + "slower = 1\n", score_s=4e-6)
    admin = place.board()
    with pytest.raises(InputError, match="no standings on double at an earlier version"):
        admin.submissions.rerun_plan("double")
    place.new_version()
    assert [user for _, user, _ in described(admin.submissions.rerun_plan("double", top=1))] == ["ada"]
    previewed = place.json(ADMIN, "admin", "rerun", "double", "--dry-run")
    assert {(row["submission"], row["user"], row["left_out"]) for row in previewed} == {
        (adas.submission, "ada", ""),
        (bobs.submission, "bob", ""),
        (own.submission, ADMIN, ""),
    }
    assert len(place.store.runs.list()) == 4
    done = place.call(ADMIN, "admin", "rerun", "double", "--json")
    sent = json.loads(done.stdout)
    assert done.stderr.endswith(
        f"`hpc-board watch {' '.join(str(run['id']) for run in sent['runs'])}` waits for them.\n"
    )
    assert sent["left_out"] == []
    runs = ended(admin, [place.store.runs.get(run["id"]) for run in sent["runs"]])
    assert {(run.user, run.account, run.trust, str(run.verdict)) for run in runs} == {
        ("ada", ADMIN, "verified", "pass"),
        ("bob", ADMIN, "verified", "pass"),
        (ADMIN, "", "self-run", "pass"),
    }
    standings = admin.standings.pages("double", ["CPU"])[0].rows
    assert {(row.user, row.trust) for row in standings} == {
        ("ada", "verified"),
        ("bob", "verified"),
        (ADMIN, "self-run"),
    }
    again = next(run for run in runs if run.user == "ada")
    assert again.code_sha256 == adas.code_sha256
    assert again.remarks.rerun is not None
    assert (again.remarks.rerun.of_submission, again.remarks.rerun.by_user) == (adas.submission, ADMIN)
    seen = place.json("ada", "runs")[0]
    assert (seen["id"], seen["account"], seen["rerun"]["of_submission"]) == (again.id, ADMIN, adas.submission)
    assert f"rerun by {ADMIN}" in place.call("ada", "runs").stdout
    shown = place.call("ada", "run", str(again.id)).stdout
    assert f"rerun      of submission {adas.submission}, by {ADMIN}\n" in shown
    assert f"account    {ADMIN} (owner of the job)\n" in shown
    logged = [each for each in admin.moderation.decisions(user="ada") if each.action == RERUN]
    assert [(each.subject, each.detail) for each in logged] == [(str(adas.submission), str(again.submission))]
    left = admin.submissions.rerun_plan("double")
    assert {why for _, _, why in described(left)} == {"file already submitted for this version"}
    assert admin.submissions.rerun("double", []) == []


@pytest.mark.slow
def test_a_confirmed_score_is_the_median_of_the_reruns_too(place: Place) -> None:
    ranked(place, "ada", score_s=1e-9)
    admin = place.board()
    sent = json.loads(place.call(ADMIN, "admin", "rerun", "double", "--confirm", "--json").stdout)["runs"]
    runs = ended(admin, [place.store.runs.get(run["id"]) for run in sent])
    assert [(run.user, run.account, str(run.verdict)) for run in runs] == [("ada", ADMIN, "pass")] * CONFIRMING_RUNS
    (row,) = admin.standings.pages("double", ["CPU"])[0].rows
    scores = sorted([1e-9, *(run.score_s for run in runs if run.score_s is not None)])
    assert (row.user, row.runs, row.score_s) == ("ada", 4, statistics.median(scores))
    assert row.interval == Interval(scores[0], scores[-1])
    assert re.search(r"1 +ada .*s +4 ", place.call(ADMIN, "show", "double").stdout)


def test_of_two_admins_who_send_the_best_again_at_once_only_one_does(place: Place) -> None:
    adas = ranked(place, "ada")
    place.new_version()
    first, second = place.board(), place.board()
    sent: list[Run] = []
    once_drafted(second, lambda: sent.extend(first.submissions.rerun("double", [adas.submission])))
    with pytest.raises(InputError, match=f"submission {adas.submission} was sent to CPU just now"):
        second.submissions.rerun("double", [adas.submission])
    (run,) = sent
    ended(first, [run])
    with pytest.raises(InputError, match=f"submission {adas.submission} cannot be rerun: file already submitted"):
        second.submissions.rerun("double", [adas.submission])
    with pytest.raises(InputError, match="submission 99 cannot be rerun: no longer among the best"):
        second.submissions.rerun("double", [99])
    assert [each.id for each in place.store.runs.list()] == [run.id, adas.id]
    assert [why for _, _, why in described(second.submissions.rerun_plan("double"))] == [
        "file already submitted for this version"
    ]


def test_a_named_submission_is_sent_again_once_at_a_time(place: Place) -> None:
    adas = ranked(place, "ada")
    admin = place.board()
    rerun = Rerun(adas.submission, "root-of-boards", NOW)
    once_drafted(admin, lambda: place.submitted("ada", rerun=rerun, account="root-of-boards"))
    with pytest.raises(InputError, match="just now by another command"):
        admin.submissions.rerun("double", [adas.submission], submissions=[adas.submission])
    (left,) = admin.submissions.rerun_plan("double", submissions=[adas.submission])
    assert left.why == "rerun in flight"
    assert len(place.store.runs.list()) == 2
    words = ("admin", "rerun", "double", "--submission", str(adas.submission), "--confirm")
    done = place.call(ADMIN, *words)
    skipped = f"Submission {adas.submission} of ada skipped: rerun in flight\n"
    assert (done.exit_code, done.stdout, done.stderr) == (5, "Nothing to rerun.\n", skipped)


def test_a_submission_without_a_score_is_not_confirmed_and_one_of_another_mode_not_ranked(place: Place) -> None:
    (test,) = place.submitted("ada", mode=Mode.TEST)
    (unscored,) = place.submitted("ada")
    admin = place.board()

    def why(run: Run, *, confirm: bool) -> str:
        return admin.submissions.rerun_plan("double", submissions=[run.submission], confirm=confirm)[0].why

    assert [why(test, confirm=each) for each in (False, True)] == ["mode test; only ranked submissions are rerun"] * 2
    assert [why(unscored, confirm=each) for each in (False, True)] == ["", "no score to confirm"]


@pytest.mark.slow
def test_a_named_submission_is_sent_again_whatever_its_rank(place: Place) -> None:
    first, second = ranked(place, "ada"), ranked(place, "ada", RIGHT + "# again\n")
    admin = place.board()
    (plan,) = admin.submissions.rerun_plan("double", submissions=[second.submission])
    assert (plan.submission.id, [gpu.name for gpu in plan.gpus], plan.why) == (second.submission, ["CPU"], "")
    (run,) = ended(admin, admin.submissions.rerun("double", [second.submission], submissions=[second.submission]))
    assert (run.user, run.account, run.mode) == ("ada", ADMIN, Mode.RANKED)
    admin.moderation.remove([first.submission], "x")
    (left,) = admin.submissions.rerun_plan("double", submissions=[first.submission])
    assert "readmit" in left.why
    with pytest.raises(InputError, match="there is no submission 99"):
        admin.submissions.rerun_plan("double", submissions=[99])
    with pytest.raises(InputError, match="is for double, not for vectoradd_py"):
        admin.submissions.rerun_plan("vectoradd_py", submissions=[second.submission])
    with pytest.raises(InputError, match="unknown GPU"):
        admin.submissions.rerun_plan("double", gpus=["B999"])
    assert place.call(ADMIN, "admin", "rerun", "double", "--top", "1", "--submission", "1").exit_code == 2


def test_removed_submissions_are_not_among_the_best(place: Place) -> None:
    best = ranked(place, "ada")
    admin = place.board()
    admin.moderation.remove([best.submission], "x")
    place.new_version()
    with pytest.raises(InputError, match="no standings on"):
        admin.submissions.rerun_plan("double")


def test_a_file_that_no_longer_fits_its_task_is_left_out(place: Place) -> None:
    ranked(place, "ada")
    file = place.files.folder / "tasks" / "double" / "task.yml"
    file.write_text(file.read_text().replace("benchmarks:", "benchmarks: []\nformer:"))
    (left,) = place.board().submissions.rerun_plan("double")
    assert "the task has no benchmarks" in left.why


def test_author_sender_and_account_may_cancel_a_rerun_and_nobody_else(place: Place) -> None:
    ranked(place, "ada")
    hanging = RIGHT.replace("    return", "    import time; time.sleep(120)\n    return")
    board = place.board("ada")
    (stuck,) = board.submissions.submit([requested(place.files.kernel(hanging), mode="ranked")])
    board.runs.cancel_each([stuck.id])
    admin = place.board()
    for who in ("ada", ADMIN):
        (run,) = admin.submissions.rerun("double", [stuck.submission], submissions=[stuck.submission])
        assert place.call("eve", "cancel", str(run.id)).exit_code == 5
        assert place.call(who, "cancel", str(run.id)).exit_code == 0
        assert ended(admin, [run])[0].state is RunState.CANCELLED
    rerun = Rerun(stuck.submission, "tutor", NOW)
    (run,) = place.submitted("ada", rerun=rerun, account=ADMIN)
    assert [place.call(user, "cancel", str(run.id)).exit_code for user in ("eve", "tutor")] == [5, 0]


def test_a_wish_to_cancel_outlives_what_another_client_writes_meanwhile(place: Place) -> None:
    (run,) = place.submitted("ada")
    store = place.store
    store.runs.record(run.id, Status(RunState.CREATED, NOW, reason="cancel requested by ada", cancel_requested=True))
    store.runs.record(run.id, Status(RunState.SUBMITTING, NOW))
    assert store.runs.get(run.id).status.cancel_requested
    store.runs.record(run.id, Status(RunState.CANCELLED, NOW))
    assert not store.runs.get(run.id).status.cancel_requested


def test_a_run_that_has_ended_takes_no_wish(place: Place) -> None:
    (run,) = place.submitted("ada")
    place.store.runs.record(run.id, Status(RunState.CANCELLED, NOW))
    assert not place.store.runs.request_end([run.id], "cancel requested by ada")
    assert place.store.runs.get(run.id).status == Status(RunState.CANCELLED, NOW)
    with pytest.raises(InputError, match="there is no run 99"):
        place.store.runs.request_end([99], "cancel requested by ada")


def test_a_milestone_is_sent_again_as_no_submission_that_is_ranked(place: Place) -> None:
    mine, anothers = (measured_milestone(place, user) for user in (ADMIN, "ada"))
    admin = place.board()
    for refused in (
        lambda: admin.submissions.rerun_plan("double", submissions=[anothers.submission]),
        lambda: admin.submissions.again(mine.id),
    ):
        with pytest.raises(InputError, match='this measures the milestone "eager" of double') as raised:
            refused()
        assert "`hpc-board admin milestones double`" in raised.value.hint
    place.new_version()
    with pytest.raises(InputError, match="no standings on"):
        admin.submissions.rerun_plan("double")


def test_milestones_take_nothing_from_their_authors_limit(place: Place) -> None:
    place.call(ADMIN, "admin", "limit", "double", "--ranked", "1")
    measured_milestone(place, "bob")
    ranked = ("submit", place.files.kernel(), "--mode", "ranked", "--dry-run")
    assert place.call("bob", *ranked).exit_code == 0
    place.submitted("bob")
    assert place.call("bob", *ranked).exit_code == 5
