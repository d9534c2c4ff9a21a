"""Frozen and anonymous boards: the results of others after the freeze, and their names, in each part of a board."""

import json
import re
import sqlite3
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hpc_board.board import Board
from hpc_board.domain.origin import Origin
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.score_interval import Interval
from hpc_board.errors import Refused, StorageError
from hpc_board.model.result import Verdict
from hpc_board.store.boards import pseudonym_key
from hpc_board.store.runners import NewRunner
from tests.unit.boards.test_gpu_limit import board_of, call, read, store_of
from tests.unit.boards.test_moderation import ADMIN
from tests.unit.boards.test_teams import in_groups
from tests.unit.recorded import AT, Recorded, recorded, result_of, row_case, timed_case
from tests.values import replace

FREEZE = AT + timedelta(hours=12)
HOUR = timedelta(hours=1)

SAME = b"def custom_kernel(data):\n    return data[0] + data[1]\n"
"""A file that ada sends again."""

READ = (
    *("show course --top all", "show course --by entrant", "show course --all-runs", "show course --rank 1", "show"),
    *("show --user ada", "show --user bob", "show course --versions", "show course --own", "list", "feed"),
    *("runs --all", "runs --user ada", "run 1", "run 2", "run 3", "task course", "update course --history"),
    *("history course --user ada", "history course", "compare 1 2"),
)


def board(folder: Path, *terms: str) -> Recorded:
    place = recorded(folder)
    assert call(place, ADMIN, "create", "course", "vectoradd_py", "--deadline", "+30d", *terms).exit_code == 0
    return place


def sent(place: Recorded, user: str, score_s: float, at: datetime, **more: Any) -> Run:
    interval = Interval(score_s * 0.9, score_s * 1.1)
    result = result_of(Verdict.PASS, timed_case())
    return place.add(result=result, score_s=score_s, interval=interval, user=user, task="course", at=at, **more)


def before(place: Recorded) -> None:
    sent(place, "ada", 3e-6, FREEZE - 3 * HOUR, code=SAME, origin=Origin("agent-a"))
    sent(place, "bob", 5e-6, FREEZE - 2 * HOUR)
    sent(place, "ada", 4e-6, FREEZE - HOUR, code=SAME)


def after(place: Recorded) -> None:
    """Send the same file of ada again, whose median falls, a faster one of hers, and one of another user."""
    sent(place, "ada", 1.7e-6, FREEZE + HOUR, code=SAME, origin=Origin("agent-a"))
    sent(place, "ada", 1.3e-6, FREEZE + 2 * HOUR)
    sent(place, "eve", 1.9e-6, FREEZE + 3 * HOUR)


def told(place: Recorded, user: str) -> dict[str, str]:
    """The output of the commands that read, as text and as JSON, without the notice of the freeze."""
    outputs = {}
    for words in READ:
        text = call(place, user, *words.split())
        assert "No such option" not in text.stderr
        lines = [
            line for line in text.output.splitlines() if line and not line.startswith(("Frozen since", "frozen from"))
        ]
        outputs[words] = re.sub(r"\d+ s ago|\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC", "", "\n".join(lines))
        found = call(place, user, *words.split(), "--json")
        outputs[f"{words} --json"] = re.sub(r'"\d{4}-[^"]*"', '""', json.dumps(_plain(found.stdout), indent=1))
    return outputs


def _plain(text: str) -> Any:
    def without(value: Mapping[str, Any]) -> dict[str, Any]:
        return {key: each for key, each in value.items() if key not in ("frozen_at", "freeze_at")}

    return json.loads(text, object_hook=without) if text else ""


@pytest.mark.parametrize("teams", [(), ("--team", "@red,@blue")])
def test_reader_of_a_frozen_board_sees_it_as_if_no_other_user_had_submitted_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, teams: tuple[str, ...]
) -> None:
    in_groups(monkeypatch, {"red": ("bob",), "blue": ("ada", "eve")})
    terms = ("--freeze", FREEZE.isoformat(), *teams)
    frozen, still = board(tmp_path / "frozen", *terms), board(tmp_path / "still", *teams)
    for place in (frozen, still):
        before(place)
    after(frozen)
    seen, expected = told(frozen, "bob"), told(still, "bob")
    for words in seen:
        assert seen[words] == expected[words], words


def rows(place: Recorded, user: str) -> list[tuple[int, str, float]]:
    (page,) = read(place, user, "show", "course", "--gpu", "CPU")["boards"]
    return [(row["rank"], row["user"], row["score_s"]) for row in page["rows"]]


def update(place: Recorded, *words: str) -> None:
    done = call(place, ADMIN, "update", "course", *words)
    assert done.exit_code == 0, done.stderr


def test_reference_of_a_frozen_board_is_that_of_the_runs_which_its_reader_sees(tmp_path: Path) -> None:
    place = board(tmp_path, "--freeze", FREEZE.isoformat())
    for hours, user, reference_ns in ((-2, "ada", 7e6), (-1, "bob", 6e6), (1, "eve", 4e6), (2, "bob", 5e6)):
        result = result_of(Verdict.PASS, row_case(reference_ns=reference_ns))
        place.add(result=result, score_s=2e-3, user=user, task="course", at=FREEZE + hours * HOUR)

    def reference(user: str) -> tuple[float, int]:
        (page,) = read(place, user, "show", "course", "--gpu", "CPU")["boards"]
        return round(page["reference"]["median_s"], 6), page["reference"]["runs"]

    assert (reference("ada"), reference("bob"), reference("grace")) == ((6.5e-3, 2), (6.25e-3, 3), (6.5e-3, 2))
    assert reference(ADMIN) == (5.5e-3, 4)


def test_own_row_goes_on_among_the_frozen_ones_and_the_thaw_shows_all(tmp_path: Path) -> None:
    place = board(tmp_path, "--freeze", FREEZE.isoformat())
    before(place)
    after(place)
    own = sent(place, "bob", 2e-6, FREEZE + 4 * HOUR)
    truth = [(1, "ada", 1.3e-6), (2, "eve", 1.9e-6), (3, "bob", 2e-6)]
    assert rows(place, ADMIN) == truth
    assert rows(place, "bob") == [(1, "bob", 2e-6), (2, "ada", 3.5e-6)]
    assert rows(place, "eve") == [(1, "eve", 1.9e-6), (2, "ada", 3.5e-6), (3, "bob", 5e-6)]
    assert read(place, "bob", "run", str(own.id))["rank"] == 1
    for words in (("run",), ("code",), ("watch",), ("compare", "1")):
        hidden = call(place, "bob", *words, "4")
        assert (hidden.exit_code, "no run 4" in hidden.stderr) == (2, True)
    update(place, "--freeze", "2020-01-01")
    assert rows(place, "bob") == [(1, "bob", 2e-6)]
    frozen, of_manager = (call(place, user, "show", "course").stdout for user in ("bob", ADMIN))
    assert "Frozen since 2020-01-01 00:00 UTC: later submissions of other users are not shown." in frozen
    assert "UTC for users who do not manage the board; you see all submissions." in of_manager
    update(place, "--freeze", "none")
    assert [rows(place, user) for user in ("bob", "eve", ADMIN)] == [truth] * 3
    assert len(read(place, "bob", "feed")) == 5


def test_anonymous_board_shows_the_names_of_others_to_its_managers_alone(tmp_path: Path) -> None:
    place = board(tmp_path, "--anonymous", "--show-code")
    before(place)
    sent(place, "grace", 2e-6, FREEZE, file_name="grace.py", origin=Origin("of-grace", (("by", "grace"),)))
    assert call(place, "grace", "note", "4", "grace was here").exit_code == 0
    (first, own), (_, ada, _) = rows(place, "bob")[::2], rows(place, "bob")[1]
    assert (first[0], own) == (1, (3, "bob", 5e-6))
    assert re.fullmatch("user [0-9a-f]{8}", first[1])
    assert len({first[1], ada, "bob"}) == 3
    sent(place, "grace", 2.5e-6, FREEZE)
    plots = {
        name: call(place, "bob", *words, "--plot", tmp_path / name)
        for name, words in (
            ("history.svg", ("history", "course", "--user", first[1])),
            ("two.svg", ("compare", "1", "4")),
        )
    }
    assert [done.stderr for done in plots.values()] == [f"{tmp_path / name} has the plot.\n" for name in plots]
    outputs = told(place, "bob") | {
        words: call(place, "bob", *words.split()).output
        for words in (
            *("run 4", "run 5", "run 5 --json", "run 4 --json", "show --user grace", "runs --user grace"),
            *("runs --all grace", "code 4", "compare 1 4"),
        )
    }
    outputs |= {name: (tmp_path / name).read_text() for name in plots}
    for words, text in outputs.items():
        others = set(re.findall("ada|agent-a|grace", text)) - set(words.split())
        assert not others, (words, text)
    assert [run["id"] for run in read(place, "bob", "runs", "--user", first[1])] == [5, 4]
    assert [rank["rank"] for rank in read(place, "bob", "show", "--user", first[1])["ranks"]] == [1]
    assert f"run 1 (by {ada}) vs. run 4 (by {first[1]})" in outputs["compare 1 4"]
    assert re.search("^file +\\(submission 4\\)$", outputs["run 4"], re.MULTILINE)
    assert "grace was here" in call(place, ADMIN, "run", "4").stdout
    assert "you see the names" in call(place, ADMIN, "show", "course").stdout
    with place.board.context.store.file.reading() as db:
        key = pseudonym_key(db)
    for words in ("update course --history --json", "task course --json", "update course --gpu CPU --json"):
        assert key not in call(place, ADMIN, *words.split()).output
    update(place, "--named")
    assert [user for _, user, _ in rows(place, "bob")] == ["grace", "ada", "bob"]
    update(place, "--anonymous")
    assert rows(place, "bob")[0] == first
    assert call(place, ADMIN, "delete", "course", "--yes").exit_code == 0
    create = ("create", "course", "vectoradd_py", "--dry-run")
    warned = [call(place, ADMIN, *create, *words).stderr for words in ((), ("--anonymous",))]
    warning = "course: the deleted board was anonymous; without --anonymous, users will see each other's names.\n"
    assert [warning in text for text in warned] == [True, False]


def test_runners_jobs_and_hashes_name_no_user_of_an_anonymous_board_and_count_no_run_after_a_freeze(
    tmp_path: Path,
) -> None:
    place = board(tmp_path, "--anonymous", "--freeze", FREEZE.isoformat())
    runners = store_of(place).runners
    new = NewRunner("grace", "svc", "CPU", "here", "", "hb-1", "abc", 86400, 3600, 0, "0" * 64, "{}", AT)
    number = runners.add(new).id
    runners.record(number, Status(RunState.RUNNING, AT, job_id="777"))
    for at in (FREEZE - HOUR, FREEZE + HOUR):
        states = [Status(state, at, job_id="777", runner=number) for state in (RunState.QUEUED, RunState.RUNNING)]
        run = place.add(*states, user="grace", task="course", code=SAME, at=at)
    result = replace(result_of(Verdict.PASS, timed_case()), provenance={"submission_sha256": "0" * 64, "host": "n1"})
    judged = place.add(result=result, user="grace", task="course", at=FREEZE - HOUR)
    other = place.add(user="grace", task="narrow", code=SAME, at=AT)

    seen, whole = board_of(place, "bob"), board_of(place)
    _, shown = seen.runs.list(everyone=True, task="course")
    assert (shown.status.runner, shown.status.job_id, shown.account, shown.nonce) == (None, "", "", "")
    real = whole.runs.get(shown.id)
    assert (real.status.runner, real.status.job_id) == (number, "777")
    assert {shown.token, shown.code_sha256}.isdisjoint({real.token, other.code_sha256, ""})
    assert seen.submissions.get(shown.submission).code_sha256 == shown.code_sha256
    found = seen.runs.whole(judged.id).result
    assert found is not None
    assert found.provenance == {"host": "n1"}
    assert [(each.user, each.runs) for each in seen.runners.live()] == [("", 0)]
    assert [(each.user, each.runs) for each in whole.runners.live()] == [("grace", 2)]
    with pytest.raises(Refused, match=f"runner {number} belongs to the board"):
        seen.runners.get(number)
    assert [*seen.runs.started([shown.id, run.id])] == [shown.id]


def test_bounds_and_rows_of_a_reader_come_by_one_connection_and_writing_sees_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = board(tmp_path, "--freeze", FREEZE.isoformat(), "--anonymous")
    before(place)
    after(place)
    connect, connections = sqlite3.connect, []

    def counted(*given: Any, **more: Any) -> sqlite3.Connection:
        connections.append(given)
        opened: sqlite3.Connection = connect(*given, **more)
        return opened

    monkeypatch.setattr(sqlite3, "connect", counted)
    context = Board(place.board.settings, user="bob").context
    assert len(context.reading.runs.list()) == 3
    assert len(connections) == 1
    with context.store.file.session():
        for _ in range(2):
            assert len(context.store.runs.list()) == 3
            assert [each.name for each in context.editor.visible()] == ["course"]
            with context.store.file.writing() as db:
                assert db.count("run_details", "user = 'ada'") == 4
    assert len(connections) == 2


def test_anonymous_board_of_a_database_without_the_key_of_pseudonyms_shows_nobody(tmp_path: Path) -> None:
    place = board(tmp_path, "--anonymous")
    before(place)
    context = Board(place.board.settings, user="bob").context
    with context.store.file.writing() as db:
        db.delete("secrets", "TRUE", ())
    with pytest.raises(StorageError, match="lacks the secret of pseudonyms"):
        context.reading.runs.list()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--freeze", "soon"), 'invalid freeze "soon"'),
        (("--freeze", "-x"), 'invalid freeze "-x"'),
        (("--freeze", "-24h", "--deadline", "none"), "a board without a deadline has no time before it"),
    ],
)
def test_freeze_at_no_time_is_refused(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = call(board(tmp_path), ADMIN, "update", "course", *words)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr
