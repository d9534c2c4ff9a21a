"""A course of thirty in one script: closed boards, an extension, a freeze, grades, an appeal, and the end of term."""

import csv
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpc_board.domain import clock
from tests.golden import board as made
from tests.golden.files import Golden
from tests.golden.internals import CommandLine, Sent
from tests.golden.normal import normal, numbered
from tests.golden.tasks import course, lay_out

pytestmark = pytest.mark.slow

SETTINGS = """\
board: board
tasks: []
clusters:
  here: {scheduler: local}
gpus:
  CPU: {cluster: here}
roles:
  admins: [dean]
  creators: [tutor]
"""
STUDENTS = tuple(f"s{number:02}" for number in range(1, 31))
REFERENCE_NS = 8e6
"""The time of the reference in the results of the golden board."""

_PSEUDONYM = re.compile("user [0-9a-f]{8}")
RULE = "pass: 20, 1x: 50, 2x: 80, 4x: 100"


class Course:
    """A course whose commands make a transcript; its clock stands at the time that the script sets."""

    def __init__(self, folder: Path) -> None:
        lay_out(folder, {"hpc-board.yaml": SETTINGS})
        lay_out(folder / "week1", course(100, "Sort what the course has given."))
        lay_out(folder / "week2", course(200, "Sort more of it."))
        (folder / "board").mkdir()
        self.folder = folder
        self.now = datetime(2030, 11, 1, 9, tzinfo=UTC)
        self.transcript = ""
        self.runs = 0
        self._commands = CommandLine(folder)

    def at(self, moment: str) -> None:
        """Set the clock and say so in the transcript."""
        self.now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        self.transcript += f"\n# {moment} UTC\n"

    def __call__(self, user: str, line: str, *last: str, code: int = 0) -> None:
        """Run a command of `user` on a terminal; `last` are words with spaces."""
        done = self._commands.run(user, *line.split(), *last, width=100)
        assert done.exit_code == code, done.stderr
        words = " ".join([line, *(f'"{word}"' if " " in word else word for word in last)]).replace(
            ",".join(STUDENTS), "s01,...,s30"
        )
        self.transcript += f"\n{user}$ hpc-board {words}\n{done.stdout}{done.stderr}"

    def sent(self, user: str, speedup: float, at: str, *, task: str = "week1", spread: float = 0.0, of: int = 0) -> int:
        """Record a ranked pass of `user`, or a rerun of the submission `of`; return the number of its submission."""
        moment, time_ns = datetime.fromisoformat(at).replace(tzinfo=UTC), REFERENCE_NS / speedup
        self.runs += 1
        run = made._moved(
            made._sorted((time_ns * (1 - spread), time_ns, time_ns * (1 + spread))), moment, f"hb-{self.runs}"
        )
        code = f"# {task} {user} {speedup}\n"
        self._commands.record(
            "dean",
            [
                Sent(
                    user,
                    task,
                    "ranked",
                    [run],
                    code=code,
                    account="tutor" if of else "",
                    rerun_of=of or None,
                    at=moment,
                )
            ],
        )
        return self.runs


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A course before its first week; the board has its clock."""
    found = Course(tmp_path / "course")
    # Some modules are loaded during the test, and keep the function itself.
    monkeypatch.setattr(clock, "datetime", SimpleNamespace(now=lambda _: found.now))
    return found


def test_a_course_of_thirty_runs_from_closed_boards_to_the_end_of_term(run: Course, golden: Golden) -> None:
    terms = f"--closed --member {','.join(STUDENTS)} --deadline 2030-11-08T18:00 --gpu CPU --late +2d"
    run("tutor", f"create week1 week1 {terms} --freeze -24h --anonymous --reason", "the first week")
    run("tutor", f"create week2 week2 {terms.replace('-08T', '-15T')} --reason", "the second week")
    run("tutor", "admin limit week1 --ranked 10 --other 60")
    run("eve", "show week1", code=2)
    for number, user in enumerate(STUDENTS[:26]):
        run.sent(user, 0.5 + 0.2 * number, f"2030-11-0{2 + number % 5} 12:00", spread=0.04 if number == 18 else 0.0)

    run.at("2030-11-07 20:00")
    run.sent("s05", 6.5, "2030-11-07 18:30")
    run.sent("s27", 7.0, "2030-11-07 19:00")
    run("s05", "show week1 --top 3")
    run("s06", "show week1 --top 3")
    run("tutor", "show week1 --top 3")
    run("tutor", "update week1 --extend s28:+2d --reason", "was ill")

    run.at("2030-11-11 10:00")
    run.sent("s28", 2.2, "2030-11-09 12:00")
    run.sent("s29", 8.0, "2030-11-09 15:00")
    run("tutor", "update week1 --freeze none --named")
    run("s06", "show week1 --top 5")
    rule = ("--points", RULE)
    run("tutor", "admin grades --task week1", *rule)

    run.at("2030-11-12 10:00")
    run("s19", "runs")
    run("tutor", "admin rerun week1 --submission 19 --confirm --dry-run")
    for speedup in (4.2, 4.3, 4.25):
        run.sent("s19", speedup, "2030-11-12 11:00", of=19)
    run("tutor", "admin grades --task week1 --member s19", *rule)
    run("tutor", "admin remove 26 --reason", "returns what an earlier call computed")
    run("tutor", "admin grades --task week1 --member s26", *rule)
    run("tutor", "admin readmit 26 --reason", "it was right")

    run.at("2030-11-16 10:00")
    for user, speedup in (("s01", 1.2), ("s27", 3.0), ("s28", 3.0)):
        run.sent(user, speedup, "2030-11-14 12:00", task="week2")
    run("tutor", "admin grades --member s01,s27,s28,s30 --points", "1: 25, 3: 15, 10: 5")
    run("tutor", "admin grades --format csv -o grades.csv", *rule)
    for week in ("week1", "week2"):
        run("tutor", f"delete {week} --yes --reason", "the course is over")
    run("tutor", "admin grades", code=2)
    run("dean", "admin stop --reason", "the course is over")
    run("dean", "runs --all --state running")

    file = run.folder / "grades.csv"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [row["user"] for row in csv.DictReader(file.read_text().splitlines())] == [*STUDENTS]
    golden.check("course/grades.csv", normal(file.read_text(), run.folder))
    transcript = _PSEUDONYM.sub(numbered("user {:08}"), normal(run.transcript.lstrip(), run.folder))
    golden.check("course/transcript.txt", transcript)
