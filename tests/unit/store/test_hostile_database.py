"""Values in the database that no hpc-board has written: told with their table and row, never as a traceback."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpc_board.cli.main import cli
from hpc_board.domain.board_options import RequestedOptions
from hpc_board.domain.moderation import Category, Limits
from hpc_board.domain.run import Retry, RunState
from hpc_board.errors import InputError, Refused, StorageError, UnreadableError
from hpc_board.model.result import INTERRUPTED, Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from tests.unit.recorded import REPOSITORY, Recorded, recorded, result_of, status_of, timed_case
from tests.values import created, replace, updated

TABLES = (
    *("codes", "tasks", "submissions", "runs", "events", "results", "documents", "cases", "partials"),
    *("retries", "pruned"),
    *("boards", "decisions", "remarks", "scores", "bests", "feed", "removed", "in_flight"),
)
SKIPPED = frozenset({("boards", "id"), ("events", "id"), ("feed", "id"), ("decisions", "id"), ("remarks", "id")})
"""Numbers of rows, which SQLite itself keeps from being anything else."""

HOSTILE = {
    "word": "'abc'",
    "escape": "'\x1b]0;owned\x07\x1b[31m\u202ered'",
    "blob": "x'00ff'",
    "zero byte": "CAST(x'610062' AS TEXT)",
    "not utf-8": "CAST(x'ff41fe' AS TEXT)",
    "huge": "9223372036854775807",
    "negative": "-1",
    "infinite": "9e999",
    "empty": "''",
    "year 1": "'0001-01-01T00:00:00+00:00'",
    "no zone": "'2026-05-01T12:00:00'",
    "deep": "'" + "[" * 100_000 + "'",
    "list": "'[[1, 2, 3], 4]'",
}
ALWAYS = ("blob", "escape")
"""The hostile values of every column in turn; each has one more of `HOSTILE` beside them."""

RUNS = (("runs", "--all", "--json"), ("run", "2"), ("show", "vectoradd_py"), ("admin", "export", "--format", "csv"))
DECIDED = (("runs", "--all"), ("show-personal", "vectoradd_py"), ("admin", "log"), ("admin", "limits"))
EXPORTED = (("admin", "export", "--format", "json", "--with-code"), ("admin", "stats"))
STANDINGS = (
    ("show", "vectoradd_py"),
    ("show", "vectoradd_py", "--all-runs", "--json"),
    ("show", "vectoradd_py", "--versions"),
    ("history", "vectoradd_py", "--user", "ada"),
    ("admin", "export", "--format", "html"),
)
COMMANDS = {
    "codes": (("code", "2"), ("run", "2"), *EXPORTED),
    "tasks": (("list",), ("compare", "2", "3"), *STANDINGS),
    "submissions": (*RUNS, *EXPORTED, *STANDINGS),
    "runs": (*RUNS, *EXPORTED, ("poll",)),
    "events": (*RUNS, *EXPORTED, ("poll",)),
    "results": (*RUNS, *EXPORTED, *STANDINGS),
    "documents": (("run", "2"), ("compare", "2", "3"), ("run", "2", "--json", "--samples")),
    "cases": (("show", "vectoradd_py"), ("run", "2", "--json"), ("watch", "2")),
    "partials": (("run", "6"), ("run", "6", "--log")),
    "retries": (("run", "6"), ("runs", "--all", "--json"), ("poll",)),
    "pruned": (("run", "6"), ("run", "6", "--log")),
    "boards": (("list",), ("task", "course"), ("update", "course", "--history"), ("admin", "log")),
    "decisions": (*DECIDED, ("admin", "bans"), ("admin", "export", "--format", "csv")),
    "remarks": (*DECIDED, ("run", "4"), ("admin", "export", "--format", "csv")),
    "scores": (*STANDINGS, ("feed",), ("run", "2")),
    "bests": (*STANDINGS, ("run", "2"), ("admin", "export", "--format", "csv")),
    "feed": (("feed",), ("feed", "--json")),
    "removed": (("runs", "--all"), ("show-personal", "vectoradd_py")),
    "in_flight": (("poll",), ("runs", "--all")),
}
"""The command that reads each table."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A board on which each table has a row."""
    place = recorded(tmp_path_factory.mktemp("whole"))
    shutil.copytree(REPOSITORY / "tasks" / "vectoradd_py", place.folder / "tasks" / "vectoradd_py")
    shutil.copy(REPOSITORY / "tasks" / "utils.py", place.folder / "tasks")
    place.settings.write_text(place.settings.read_text().replace("[bundled, tasks]", "[tasks]"))
    board = place.board
    place.add(result=result_of(Verdict.PASS, timed_case()), score_s=3e-3, user="ada")
    for user, score_s in (("ada", 2e-3), ("bob", 1e-3)):
        place.add(result=result_of(Verdict.PASS, timed_case()), score_s=score_s, user=user)
    removed = place.add(result=result_of(Verdict.PASS, timed_case()), score_s=4e-3)
    place.add(status_of(RunState.RUNNING), mode=Mode.TEST)
    stopped = place.add(status_of(RunState.RUNNING))
    partial = replace(result_of(Verdict.INFRA_ERROR), run=stopped.id, provenance={INTERRUPTED: "scancel"})
    runs = Store(place.folder / "board" / "board.db").runs
    ended = status_of(RunState.NODE_FAIL)
    runs.retry_each({stopped.id: Retry("hb-0123456789abcdef", "n", ended, status_of(RunState.CREATED))})
    runs.stop(stopped.id, status_of(RunState.CANCELLED), partial)
    runs.prune({stopped.id: "the last words"})
    board.submissions.note(removed.submission, "a note")
    board.moderation.remove([removed.submission], "a reason")
    board.moderation.ban("ada", "another")
    board.moderation.limit("vectoradd_py", Limits(5))
    created(board, "vectoradd_py", "course", RequestedOptions(deadline="+30d"))
    updated(board, "course", options=RequestedOptions(deadline="+60d"))
    return place


def columns(place: Recorded) -> Iterator[tuple[str, str]]:
    with closing(sqlite3.connect(place.folder / "board" / "board.db")) as db:
        for table in TABLES:
            for _, name, *_ in db.execute(f"PRAGMA table_info({table})"):
                if (table, name) not in SKIPPED:
                    yield table, name


def corrupt(path: Path, table: str, column: str, value: str) -> bool:
    """Put a value into a column of every row; False where SQLite takes no such value there."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"DROP TRIGGER IF EXISTS {table}_stay")
        try:
            changed = db.execute(f"UPDATE OR IGNORE {table} SET {column} = {value}").rowcount  # noqa: S608 - of this file
        except (sqlite3.IntegrityError, OverflowError):
            return False
        db.commit()
    return changed > 0


def restore(path: Path, sound: bytes) -> None:
    """Have the database be as it was, without what its journal would add to it."""
    for ending in ("-wal", "-shm", "-journal"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    # A file of its own: the error of a command before may keep the other one open.
    draft = path.with_name("sound.db")
    draft.write_bytes(sound)
    draft.replace(path)


def test_every_table_is_looked_at(whole: Recorded) -> None:
    with closing(sqlite3.connect(whole.folder / "board" / "board.db")) as db:
        found = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert found - {"sqlite_sequence"} == set(TABLES)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.slow
def test_a_hostile_value_is_told_or_shown_without_harm(whole: Recorded, table: str) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    others = [kind for kind in HOSTILE if kind not in ALWAYS]
    board = whole.board
    try:
        for number, column in enumerate(column for of, column in columns(whole) if of == table):
            for kind in (*ALWAYS, others[number % len(others)]):
                restore(path, sound)
                if not corrupt(path, table, column, HOSTILE[kind]):
                    continue
                for command in COMMANDS[table]:
                    done = CliRunner().invoke(cli, command, obj=lambda: board)
                    where = f"{kind} in {table}.{column}: {' '.join(command)}: {done.exception!r} {done.output[:1000]}"
                    assert done.exception is None or isinstance(done.exception, SystemExit), where
                    assert not {"\x1b", "\u202e"} & set(done.output), where
    finally:
        restore(path, sound)


@pytest.mark.parametrize(
    ("table", "column", "value", "command", "told"),
    [
        (
            "results",
            "score_s",
            "'abc'",
            ("runs", "--all"),
            "row 1 of `results`",
        ),
        ("events", "at", "'0001-01-01'", ("run", "2"), "row 2 of `events of run`"),
        ("submissions", "user", "CAST(x'ff' AS TEXT)", ("runs", "--all"), "row 1 of `submissions`"),
        ("remarks", "text", "x'00'", ("runs", "--all"), "row 1 of `remarks`"),
        ("bests", "score_s", "9e999", ("show", "vectoradd_py"), "row 2 of `scores`"),
        ("feed", "fallen", "'[1]'", ("feed",), "row 3 of `feed`"),
        ("boards", "at", "'abc'", ("update", "course", "--history"), "row 1 of `boards`"),
        ("cases", "median_ns", "'fast'", ("runs", "--all", "--json"), "row 4 of `cases`"),
        ("cases", "baseline_ns", "5e-324", ("runs", "--all", "--json"), "row 4 of `cases`"),
    ],
)
def test_an_error_names_the_table_and_the_row_and_what_to_do(
    whole: Recorded, table: str, column: str, value: str, command: tuple[str, ...], told: str
) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    board = whole.board
    try:
        assert corrupt(path, table, column, value)
        done = CliRunner().invoke(cli, command, obj=lambda: board)
        assert done.exit_code == 2
        assert "error: The board cannot be read:" in done.stderr
        assert f"{told} in the database cannot be read: its {column} is" in done.stderr
        assert "`hpc-board admin restore FILE` puts a backup in its place" in done.stderr
    finally:
        restore(path, sound)


def test_one_wrong_score_among_others_is_told_with_its_row(whole: Recorded) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    board = whole.board
    try:
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE scores SET score_s = x'00ff' WHERE run = 1")
            db.commit()
        done = CliRunner().invoke(cli, ("history", "vectoradd_py", "--user", "ada"), obj=lambda: board)
        assert done.exit_code == 2
        assert "row 1 of `scores` in the database cannot be read: its score_s is" in done.stderr
    finally:
        restore(path, sound)


@pytest.mark.parametrize("table", ["submissions", "decisions", "boards"])
def test_admins_are_told_of_a_hostile_value_where_they_look_after_boards_and_people(
    whole: Recorded, table: str
) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    oversight, rules = whole.board.admin_views, whole.board.moderation
    looks = (oversight.boards, oversight.people, oversight.stop, rules.decisions, rules.bans)
    try:
        for column in (column for of, column in columns(whole) if of == table):
            for kind in (*ALWAYS, "zero byte", "no zone", "huge"):
                restore(path, sound)
                if corrupt(path, table, column, HOSTILE[kind]):
                    for look in looks:
                        with suppress(StorageError):
                            look()
    finally:
        restore(path, sound)


def test_limits_that_nobody_can_read_are_replaced(whole: Recorded) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    rules = whole.board.moderation
    try:
        assert corrupt(path, "decisions", "detail", "'abc'")
        assert [limits for _, limits in rules.limits()] == [Limits(0, 0)]
        with pytest.raises(UnreadableError, match="the limits of vectoradd_py"):
            Store(path).moderation.check_limit("ada", "vectoradd_py", Mode.TEST, 1, datetime.now(UTC))
        rules.limit("vectoradd_py", Limits(3), [Category.OTHER])
        assert [limits.ranked for _, limits in rules.limits()] == [3]
    finally:
        restore(path, sound)


def test_a_row_that_names_a_run_that_is_not_there_is_damage(whole: Recorded) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    board = whole.board
    try:
        assert corrupt(path, "scores", "run", HOSTILE["huge"])
        done = CliRunner().invoke(cli, ("admin", "remove", "2", "--reason", "x"), obj=lambda: board)
        assert done.exit_code == 2
        assert "the database is damaged (FOREIGN KEY constraint failed)" in " ".join(done.stderr.split())
    finally:
        restore(path, sound)


BAD = {"at": "'abc'", "reason": "x'00ff'", "by_user": "x'00ff'", "detail": "x'00ff'"}


@pytest.mark.parametrize(("column", "value"), BAD.items())
def test_one_decision_that_nobody_can_read_hides_no_other_and_can_be_replaced(
    whole: Recorded, column: str, value: str
) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    board, rules = whole.board, whole.board.moderation
    unread = f"row 2 of `decisions` in the database cannot be read: its {column}"
    try:
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP TRIGGER decisions_stay")
            db.execute(f"UPDATE decisions SET {column} = {value} WHERE id = 2")  # noqa: S608 - of this file
            db.commit()
        (ban,) = rules.bans()
        assert (ban.subject, ban.readable) == ("ada", False)
        assert ban.reason.startswith(unread)
        for command in (("admin", "bans"), ("admin", "log"), ("admin", "bans", "--json"), ("admin", "log", "--json")):
            done = CliRunner().invoke(cli, command, obj=lambda: board)
            assert done.exit_code == 0
            assert unread in done.stdout
        log = rules.decisions()
        paged = [*rules.decisions(limit=1)]
        while page := rules.decisions(limit=1, before=paged[-1].number):
            paged += page
        assert [each.number for each in paged] == [each.number for each in log]
        assert len(log) == 5
        assert "vectoradd_py" in {state.name for state in board.admin_views.boards()}
        assert [person.name for person in board.admin_views.people() if person.ban] == ["ada"]
        with pytest.raises(Refused, match="You are banned"):
            Store(path).moderation.check_open("ada", datetime.now(UTC), admin=False)

        assert rules.unban("ada")
        Store(path).moderation.check_open("ada", datetime.now(UTC), admin=False)
        assert rules.bans() == ()
    finally:
        restore(path, sound)


def test_a_ban_takes_the_place_of_one_that_nobody_can_read(whole: Recorded) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    rules = whole.board.moderation
    try:
        assert corrupt(path, "decisions", "at", "'abc'")
        assert rules.ban("ada", "a third")
        assert not rules.ban("ada", "a fourth")
        assert [(ban.reason, ban.readable) for ban in rules.bans()] == [("a third", True)]
    finally:
        restore(path, sound)


def test_a_name_that_is_no_text_keeps_nobody_from_being_banned(whole: Recorded) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    try:
        assert corrupt(path, "submissions", "user", HOSTILE["blob"])
        with pytest.raises(InputError, match="unknown user nobody-x"):
            whole.board.moderation.ban("nobody-x", "a reason")
    finally:
        restore(path, sound)


def test_no_more_of_a_name_is_compared_than_a_name_has(whole: Recorded) -> None:
    path = whole.folder / "board" / "board.db"
    sound = path.read_bytes()
    try:
        assert corrupt(path, "submissions", "user", f"'{'a' * 1_000_000}'")
        name = "a" * 64
        assert Store(path).moderation.nearest_user(name) == f' Did you mean "{name}"?'
    finally:
        restore(path, sound)


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("command", [("list",), ("runs",)])
def test_nobody_waits_for_a_pipe_beside_the_database(whole: Recorded, ending: str, command: tuple[str, ...]) -> None:
    path = whole.folder / "board" / "board.db"
    restore(path, path.read_bytes())
    pipe = Path(f"{path}{ending}")
    os.mkfifo(pipe)
    try:
        done = CliRunner().invoke(cli, command, obj=lambda: whole.board)
    finally:
        pipe.unlink()
    assert done.exit_code == 2
    assert f"board.db{ending} is no file" in done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER own AFTER INSERT ON submissions BEGIN SELECT RAISE(ABORT, 'x\x1b[31m'); END",
        "CREATE TRIGGER own AFTER INSERT ON submissions BEGIN INSERT INTO nowhere VALUES (1); END",
    ],
)
def test_a_trigger_that_somebody_has_put_there_is_told_as_damage(whole: Recorded, statement: str) -> None:
    path = whole.folder / "board" / "board.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()
    try:
        done = whole.hpc_board("submit", "kernel.py")
    finally:
        with closing(sqlite3.connect(path)) as db:
            db.execute("DROP TRIGGER own")
            db.commit()
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert "the database is damaged" in done.stderr
