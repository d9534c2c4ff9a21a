"""Notices to a command of the settings: once for each event, also after kills, and no more than members see."""

import json
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.board import Board
from hpc_board.board.notices import Notices, due_deadlines
from hpc_board.domain.board_options import BoardOptions, RequestedOptions
from hpc_board.domain.user_board import Action, BoardChange, CreatedBoard
from hpc_board.model.result import Verdict
from hpc_board.report.views.notices import NoticeView
from tests.conftest import short_folder
from tests.service import serving
from tests.unit.boards.test_gpu_limit import ADMIN, call
from tests.unit.recorded import REPOSITORY, Recorded, recorded, result_of, timed_case
from tests.values import created
from tests.waiting import awaited

COMMAND = """\
#!/bin/sh
# Append the line and the object, and wait while the file "hold" is there.
{ printf '%s\\t' "$@"; cat; } >> told
while [ -e hold ]; do sleep 0.02; done
[ ! -e fail ] || { echo "no such channel" >&2; exit 7; }
"""


class Told(Recorded):
    """A board whose command adds a line for each notice to the file `told`."""

    def set(self, on: str, command: str = "") -> None:
        program = self.folder / "tell.sh"
        program.write_text(COMMAND.replace("told\n", f"{self.folder}/told\n").replace("-e ", f"-e {self.folder}/"))
        program.chmod(0o755)
        words = self.settings.read_text().partition("notify:")[0]
        words += f"notify:\n  command: [{command or program}, --about, '{{text}}']\n  on: [{on}]\n"
        self.settings.write_text(words)

    def passed(self, user: str, score_s: float, task: str = "vectoradd_py") -> None:
        self.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user, task=task)

    def poll(self) -> str:
        done = self.hpc_board("poll")
        assert done.returncode == 0, done.stderr
        return done.stderr

    def notices(self) -> list[dict[str, Any]]:
        """Return the objects that the command was given, each with its line."""
        path = self.folder / "told"
        found = []
        # The last line may not be whole yet.
        for line in path.read_text().split("\n")[:-1] if path.exists() else ():
            option, text, data = line.split("\t")
            assert (option, text) == ("--about", json.loads(data)["text"])
            found.append(json.loads(data))
        return found

    def texts(self) -> list[str]:
        return [each["text"] for each in self.notices()]


@pytest.fixture
def place(tmp_path: Path) -> Told:
    made = Told(recorded(tmp_path).folder)
    made.passed("ada", 6e-6)
    made.set("records")
    made.poll()
    assert made.notices() == []
    return made


def test_new_first_places_are_told_once_and_others_are_not(place: Told) -> None:
    place.passed("eve", 9e-6)
    place.passed("bob", 4e-6)
    place.passed("bob", 3.99e-6)
    place.passed("cyd", 1e-6)
    place.poll()
    place.poll()
    first, second = place.notices()
    assert re.fullmatch("bob took first place on vectoradd_py, CPU: 4.00 µs .was ada, 6.00 µs: .*", first["text"])
    assert (second["event"], second["board"], second["closed"]) == ("records", "vectoradd_py", False)
    assert (second["change"]["user"], second["change"]["beaten"]["user"]) == ("cyd", "bob")
    assert second["deadline"] is second["diagnostic"] is None
    place.passed("eve", 0.5e-6)
    place.set("records, deadlines")
    place.poll()
    assert len(place.notices()) == 2


def test_members_of_a_closed_board_are_told_too(place: Told) -> None:
    created(place.board, "vectoradd_py", "course", RequestedOptions(closed=True))
    place.passed("bob", 4e-6, task="course")
    place.poll()
    assert [(each["board"], each["closed"]) for each in place.notices()] == [("course", True)]


def test_notices_of_a_frozen_board_come_after_its_freeze_and_name_nobody_on_an_anonymous_one(place: Told) -> None:
    created(place.board, "vectoradd_py", "frozen", RequestedOptions(deadline="+1d", freeze="2026-04-01"))
    created(place.board, "vectoradd_py", "nameless", RequestedOptions(anonymous=True))
    for task in ("frozen", "nameless"):
        place.passed("bob", 4e-6, task=task)
    place.poll()
    (notice,) = place.notices()
    assert re.match("user [0-9a-f]{8} set the first score on nameless", notice["text"])
    assert "bob" not in str(notice)

    thawed = call(place, ADMIN, "update", "frozen", "--freeze", "none")
    assert thawed.exit_code == 0, thawed.stderr
    place.passed("cyd", 3e-6, task="frozen")
    place.poll()
    place.poll()
    assert [text.split(":")[0] for text in place.texts()[1:]] == [
        "bob set the first score on frozen, CPU",
        "cyd took first place on frozen, CPU",
    ]


def test_a_record_before_more_changes_than_a_page_of_the_feed_is_told(
    place: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpc_board.board.notices._PAGE_ENTRIES", 2)
    notices = Notices(lambda: Board(place.board.settings), pytest.fail)
    created(place.board, "vectoradd_py", "frozen", RequestedOptions(deadline="+1d", freeze="2026-04-01"))
    for task in ("frozen", "vectoradd_py"):
        place.passed("bob", 4e-6, task=task)
        for number in range(4):
            place.passed(f"u{number}", (9 - number) * 1e-6, task=task)
    notices.send()
    assert call(place, ADMIN, "update", "frozen", "--freeze", "none").exit_code == 0
    notices.send()
    places = ["bob took first place on vectoradd_py, CPU", "bob set the first score on frozen, CPU"]
    assert [text.split(":")[0] for text in place.texts()] == places


@pytest.mark.slow
def test_killed_poll_tells_each_event_once(place: Told) -> None:
    for score, user in enumerate(("cyd", "bob", "eve"), 1):
        place.passed(user, (5 - score) * 1e-6)
    words = [sys.executable, "-m", "hpc_board", "poll"]
    for count in (1, 2):
        (place.folder / "hold").touch()
        killed = subprocess.Popen(words, cwd=place.folder, env=place.environ(PYTHONPATH=str(REPOSITORY)))
        awaited(lambda count=count: len(place.notices()) == count)  # type: ignore[misc]
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        (place.folder / "hold").unlink()
    place.poll()
    assert [text.split()[0] for text in place.texts()] == ["cyd", "bob", "eve"]


def test_failure_of_the_command_is_told_and_is_not_repeated(place: Told) -> None:
    (place.folder / "fail").touch()
    place.passed("bob", 4e-6)
    told = place.poll()
    assert "tell.sh ended with exit code 7: no such channel. Notice not delivered: bob took first place" in told
    assert place.poll() == ""
    assert len(place.notices()) == 1

    place.set("records", "/no/such/program")
    place.passed("cyd", 1e-6)
    assert "notify: /no/such/program cannot be started: No such file" in place.poll()
    assert "error    notify" in place.hpc_board("admin", "doctor").stdout.lower()

    place.settings.write_text(re.sub("command: .*", "command: []", place.settings.read_text()))
    assert "notify.command: is empty; give a program" in place.hpc_board("poll").stderr


@pytest.mark.slow
def test_service_tells_deadlines_and_findings_of_the_diagnosis(place: Told) -> None:
    place.set("records, deadlines, doctor", "")
    found = place.settings.read_text()
    place.settings.write_text(found + "roles: {participants: [nobody-of-this-name]}\n")
    with short_folder() as folder, serving(place.board.settings, folder / "board.sock"):
        awaited(lambda: any("nobody-of-this-name" in text for text in place.texts()), place.texts)
        created(place.board, "vectoradd_py", "exam", RequestedOptions("+1s"))
        place.passed("bob", 4e-6)
        awaited(lambda: {each["event"] for each in place.notices()} == {"records", "deadlines", "doctor"}, place.texts)
    told = {each["event"]: each for each in place.notices()}
    assert re.fullmatch("Deadline of exam: 20.* UTC, it has passed.", told["deadlines"]["text"])
    assert told["doctor"]["diagnostic"]["subject"] in told["doctor"]["text"]
    place.poll()
    events = [each["event"] for each in place.notices()]
    assert (events.count("records"), events.count("deadlines")) == (1, 1)
    assert len({each["text"] for each in place.notices()}) == len(events)


def test_deadline_is_told_a_day_and_an_hour_before_and_at_its_end() -> None:
    at = datetime(2030, 6, 1, 12, tzinfo=UTC)

    def board(name: str, deadline: datetime | None, made_at: datetime) -> CreatedBoard:
        change = BoardChange(1, name, Action.CREATE, "v", BoardOptions("ada", deadline), "ada", made_at)
        return CreatedBoard(change, None)  # type: ignore[arg-type]

    boards = [board("b", at, at - timedelta(days=9)), board("a", at, at - timedelta(hours=2)), board("c", None, at)]

    def due(after: timedelta, now: timedelta) -> list[tuple[str, timedelta]]:
        found = due_deadlines(boards, at + after, at + now)
        return [(name, deadline - due_at) for due_at, name, deadline in found]

    day, hour = timedelta(days=1), timedelta(hours=1)
    assert due(-2 * day, -day) == [("b", day)]
    assert due(-day, -2 * hour) == []
    assert due(-day, -hour) == [("a", hour), ("b", hour)]
    assert due(-hour, 9 * day) == [("a", timedelta()), ("b", timedelta())]
    assert due(-9 * day, timedelta()) == [("a", timedelta()), ("b", timedelta())]


def test_manual_has_the_keys_of_a_notice() -> None:
    page = (REPOSITORY / "docs" / "service.md").read_text()
    table = page.partition("| key | value |")[2].partition("\n\n")[0]
    assert re.findall("^\\| `(\\w+)` ", table, re.MULTILINE) == list(NoticeView.__struct_fields__)
