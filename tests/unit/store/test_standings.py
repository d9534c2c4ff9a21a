import re
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpc_board.domain.reference import Reference
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.domain.score_interval import Interval
from hpc_board.domain.standing import Placing, Rows, Standing, verdict_line
from hpc_board.model.measurement import median_interval
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Language, Mode, Task, TaskFile
from hpc_board.store import Store, ranking
from hpc_board.store.sqlite import Database
from hpc_board.store.standings import StandingsGateway
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.unit.open_database import OpenDatabase

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = Task("softmax", Language.PY, "Exponentials.", (TaskFile("submission.py", None),))
BOARD = (TASK.name, TASK.version, "H100")
_tokens = count()


def new_run(gpu: str) -> NewRun:
    return NewRun(gpu, "main", "", f"job-{next(_tokens)}", "n", "self-run", False, "h")


def submitted(
    store: Store,
    user: str = "ada",
    *gpus: str,
    minutes: float = 0,
    mode: Mode = Mode.RANKED,
    task: Task = TASK,
    code: bytes = b"",
) -> tuple[Run, ...]:
    new = [new_run(gpu) for gpu in gpus or ("H100",)]
    code = code or f"x = {next(_tokens)}".encode()
    at = NOON + timedelta(minutes=minutes)
    _, runs = store.submissions.add(
        NewSubmission(task=task, user=user, file_name="kernel.py", code=code, mode=mode, note="", at=at, runs=new),
        sender=None,
    )
    return runs


def finish(
    store: Store,
    run: Run,
    score_s: float | None,
    verdict: Verdict = Verdict.PASS,
    interval: Interval | None = None,
    reference_s: float | None = None,
) -> None:
    result = Result(run=run.id, nonce="n", mode=run.mode.value, verdict=verdict, message="", cases=())
    ended = Status(RunState.FINISHED, NOON + timedelta(hours=1))
    assert store.runs.finish(run.id, ended, result, score_s, interval=interval, reference_s=reference_s)


def passed(store: Store, user: str, score_s: float, *, minutes: float = 0, gpu: str = "H100", task: Task = TASK) -> Run:
    (run,) = submitted(store, user, gpu, minutes=minutes, task=task)
    finish(store, run, score_s)
    return run


def board(store: Store, limit: int | None = None, offset: int = 0) -> list[tuple[int, str, float]]:
    rows = store.standings.list(*BOARD, limit=limit, offset=offset)
    return [(row.rank, row.user, row.score_s) for row in rows]


def numbers(rows: tuple[Standing, ...]) -> list[tuple[int, int]]:
    return [(row.rank, row.run) for row in rows]


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA foreign_keys = ON")
        yield Database(connection)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "board.db"


@pytest.fixture
def store(path: Path) -> Store:
    return Store(path)


def test_a_page_of_a_board_has_the_ranks_of_the_whole(store: Store) -> None:
    for user, score_s in (("ada", 1.0), ("bob", 2.0), ("cyd", 2.0), ("dee", 2.0), ("eve", 5.0)):
        passed(store, user, score_s)

    assert board(store) == [(1, "ada", 1.0), (2, "bob", 2.0), (2, "cyd", 2.0), (2, "dee", 2.0), (5, "eve", 5.0)]
    assert board(store, limit=2) == [(1, "ada", 1.0), (2, "bob", 2.0)]
    assert board(store, limit=3, offset=2) == [(2, "cyd", 2.0), (2, "dee", 2.0), (5, "eve", 5.0)]
    assert board(store, limit=9, offset=5) == []


def test_a_rank_is_held_by_one_by_several_or_in_a_gap_by_nobody(store: Store) -> None:
    for user, score_s in (("ada", 1.0), ("cyd", 2.0), ("bob", 2.0), ("eve", 5.0)):
        passed(store, user, score_s)

    held = {rank: [row.user for row in store.standings.at_rank(*BOARD, rank)] for rank in range(1, 6)}

    assert held == {1: ["ada"], 2: ["cyd", "bob"], 3: [], 4: ["eve"], 5: []}


def test_the_row_of_a_user_is_found_without_the_board(store: Store) -> None:
    passed(store, "ada", 1.0)
    best = passed(store, "bob", 2.0)
    passed(store, "bob", 3.0)

    found = store.standings.page(*BOARD, Rows.USERS, "bob", limit=0).own

    assert found is not None
    assert (found.rank, found.run, found.score_s) == (2, best.id, 2.0)
    assert store.standings.page(*BOARD, Rows.USERS, "cyd").own is None


def test_all_ranked_runs_are_ranked_among_themselves(store: Store) -> None:
    runs = [passed(store, user, score_s) for user, score_s in (("ada", 2.0), ("ada", 1.0), ("bob", 2.0))]

    assert numbers(store.standings.page(*BOARD, Rows.RUNS, "").rows) == [
        (1, runs[1].id),
        (2, runs[0].id),
        (2, runs[2].id),
    ]
    assert numbers(store.standings.page(*BOARD, Rows.RUNS, "", limit=1, offset=2).rows) == [(2, runs[2].id)]
    assert numbers(store.standings.page(*BOARD, Rows.OWN, "ada", limit=1, offset=1).rows) == [(2, runs[0].id)]
    assert tuple(store.standings.page(*BOARD, rows, "ada").total for rows in (Rows.RUNS, Rows.OWN)) == (3, 2)


def test_a_placing_says_what_a_run_means(store: Store) -> None:
    first = passed(store, "ada", 2.0)
    best = passed(store, "ada", 1.0)
    slower = passed(store, "ada", 3.0)
    passed(store, "bob", 0.5)
    (practice,) = submitted(store, "ada", mode=Mode.BENCHMARK)
    finish(store, practice, 0.1)

    assert store.standings.placing(store.runs.get(first.id)) == Placing(None, 2, 1.0, best.id, first=True)
    assert store.standings.placing(store.runs.get(best.id)) == Placing(
        2, 2, 1.0, best.id, first=False, former_rank=1, former_s=2.0, former_run=first.id
    )
    assert store.standings.placing(store.runs.get(slower.id)) == Placing(None, 2, 1.0, best.id, first=False)
    assert store.standings.placing(store.runs.get(practice.id)) is None


def test_the_former_run_of_a_user_is_none_of_another_with_the_same_score(store: Store) -> None:
    passed(store, "bob", 2.0)
    former = passed(store, "ada", 2.0)
    best = passed(store, "ada", 1.0)
    found = store.standings.placing(store.runs.get(best.id))
    assert found is not None
    assert found.former_run == former.id


def test_the_versions_of_a_task_have_dates_and_entries(store: Store) -> None:
    changed = Task(TASK.name, TASK.language, TASK.description, TASK.files, config={"main": "other.py"})
    passed(store, "ada", 1.0)
    passed(store, "ada", 2.0)
    passed(store, "bob", 3.0, gpu="A100")
    submitted(store, "ada", minutes=5, task=changed)

    found = store.standings.versions(TASK.name)

    assert [(each.version, each.entries) for each in found] == [(changed.version, 0), (TASK.version, 2)]
    assert [each.added_at for each in found] == [NOON + timedelta(minutes=5), NOON]


def test_a_withdrawn_submission_gives_way_to_its_users_next_best_and_can_come_back(path: Path, store: Store) -> None:
    passed(store, "ada", 3.0)
    cheat = passed(store, "ada", 1.0)
    passed(store, "bob", 2.0)
    before = store.standings.list(*BOARD)

    with opened(path) as db:
        ranking.withdraw(db, cheat.submission)
    assert board(store) == [(1, "bob", 2.0), (2, "ada", 3.0)]
    assert store.standings.placing(store.runs.get(cheat.id)) is None
    assert [entry.run for entry in store.standings.feed(user="ada")] != []
    assert cheat.id not in [entry.run for entry in store.standings.feed()]

    with opened(path) as db:
        ranking.readmit(db, cheat.submission)
        ranking.readmit(db, cheat.submission)
    assert store.standings.list(*BOARD) == before
    assert cheat.id in [entry.run for entry in store.standings.feed()]


def test_who_has_nothing_else_leaves_the_board_with_a_withdrawn_submission(path: Path, store: Store) -> None:
    runs = submitted(store, "ada", "H100", "A100")
    for run in runs:
        finish(store, run, 1.0)

    with opened(path) as db:
        ranking.withdraw(db, runs[0].submission)

    assert board(store) == []
    assert store.standings.list(TASK.name, TASK.version, "A100") == ()


def test_what_failed_or_was_no_ranked_run_does_not_come_in_by_being_readmitted(path: Path, store: Store) -> None:
    (wrong,) = submitted(store)
    finish(store, wrong, 1.0, Verdict.WRONG_VALUE)
    (practice,) = submitted(store, mode=Mode.BENCHMARK)
    finish(store, practice, 1.0)

    with opened(path) as db:
        for run in (wrong, practice):
            ranking.readmit(db, run.submission)

    assert board(store) == []


def test_a_milestone_is_not_ranked(store: Store) -> None:
    shown = NewSubmission(TASK, "author", "eager.py", b"", Mode.RANKED, "", NOON, [new_run("H100")], milestone="eager")
    ((submission, (run,)),) = store.submissions.add_all([shown], sender=None)

    finish(store, run, 1.0)

    assert (submission.milestone, store.runs.get(run.id).milestone) == ("eager", "eager")
    assert store.standings.placing(store.runs.get(run.id)) is None
    assert board(store) == []
    assert store.standings.feed() == ()


def test_a_milestone_that_was_removed_is_not_shown(store: Store) -> None:
    shown = NewSubmission(TASK, "author", "eager.py", b"", Mode.RANKED, "", NOON, [new_run("H100")], milestone="eager")
    ((submission, (run,)),) = store.submissions.add_all([shown], sender=None)
    finish(store, run, 1.0)

    def marked() -> list[str]:
        found = store.standings.page(TASK.name, TASK.version, "H100", Rows.USERS, "ada")
        return [mark.name for mark in found.milestones]

    before = marked()
    store.moderation.remove([submission.id], "ada", NOON, "wrong")

    assert (before, marked()) == (["eager"], [])


def timed(store: Store, user: str, score_s: float, reference_s: float | None) -> Run:
    (run,) = submitted(store, user)
    finish(store, run, score_s, interval=Interval(score_s / 1.1, score_s * 1.1), reference_s=reference_s)
    return run


def drawn(store: Store, user: str, score_s: float, code: bytes, **others: Any) -> Run:
    (run,) = submitted(store, user, code=code)
    finish(store, run, score_s, **others)
    return run


def test_the_score_of_resubmitted_code_is_the_median_of_its_runs(store: Store) -> None:
    drawn(store, "bob", 9.0, b"y = 1")
    scores = (7.02, 19.4, 9.1, 10.2, 8.8, 12.0, 11.0, 9.9, 10.1, 14.0, 9.5)
    runs = [drawn(store, "ada", score_s, f"y  =  1  # {score_s}".encode()) for score_s in scores]
    (bob, ada) = store.standings.list(*BOARD)
    assert (bob.user, bob.runs) == ("bob", 1), "a lucky draw of the same code passes nobody"
    assert (ada.rank, ada.score_s, ada.runs, ada.run) == (2, 10.1, 11, runs[scores.index(10.1)].id)
    assert ada.interval == Interval(*median_interval(scores))
    assert (ada.entry, ada.submitted_at) == (runs[0].submission, NOON)
    lucky = store.standings.placing(store.runs.get(runs[0].id))
    assert lucky is not None
    assert verdict_line("H100", 7.02, lucky) == (
        "This run: 7.02 s. Second place on H100: 10.1 s, the median of 11 runs"
    )
    worse = store.standings.placing(store.runs.get(runs[1].id))
    assert worse is not None
    assert "10.1 s, the median of 11 runs (7.02 s before this run)" in verdict_line("H100", 19.4, worse)
    # The feed tells the first place of that time, and no improvement since.
    assert [(each.user, each.news.score_s) for each in store.standings.feed()] == [("ada", 7.02), ("bob", 9.0)]
    assert [(each.user, each.score_s) for each in store.standings.records(*BOARD)] == [("bob", 9.0)]
    # Other code is another entry, and all runs of an entry count for it.
    better = drawn(store, "ada", 8.0, b"y = 2")
    assert board(store) == [(1, "ada", 8.0), (2, "bob", 9.0)]
    slow = store.standings.placing(store.runs.get(runs[0].id))
    assert slow is not None
    assert verdict_line("H100", 7.02, slow, own=True).endswith(
        f"10.1 s, the median of 11 runs, 1.26x slower than your best, 8.00 s (run {better.id})"
    )
    store.moderation.remove([better.submission, runs[3].submission], "root", NOON, "")
    (row,) = [row for row in store.standings.list(*BOARD) if row.user == "ada"]
    assert (row.score_s, row.runs) == (10.0, 10)
    (entrant,) = [row for row in store.standings.page(*BOARD, Rows.ENTRANTS, "ada").rows if row.user == "ada"]
    assert (entrant.score_s, entrant.runs, entrant.rank) == (10.0, 10, 2)


def test_few_runs_of_the_same_code_have_the_medians_of_their_bounds(store: Store) -> None:
    for score_s, low_s, high_s in ((2.0, 1.0, 3.0), (4.0, 3.5, 4.5)):
        drawn(store, "ada", score_s, b"z = 1", interval=Interval(low_s, high_s))
    (row,) = store.standings.list(*BOARD)
    assert (row.score_s, row.interval) == (3.0, Interval(2.25, 3.75))
    drawn(store, "ada", 3.0, b"z = 1")
    (row,) = store.standings.list(*BOARD)
    assert (row.score_s, row.interval) == (3.0, None)


def reference(store: Store) -> Reference | None:
    found = store.standings.reference(*BOARD)
    assert store.standings.page(*BOARD, Rows.USERS, "ada").reference == found
    assert {run.reference for run in store.runs.list()} <= {found}
    assert {rank.reference for user in ("ada", "eve") for rank in store.standings.of_user(user, [TASK])} <= {found}
    return found


def test_the_reference_is_the_median_of_all_users_whoever_leads(path: Path, store: Store) -> None:
    assert reference(store) is None
    timed(store, "ada", 2.0, None)
    assert reference(store) is None
    mine = timed(store, "ada", 2.0, 6.0)
    assert reference(store) == Reference(6.0, 1)
    # A faster run in which the reference was slow takes the lead, and the speedup of the others stays.
    leader = timed(store, "eve", 1.0, 8.0)
    timed(store, "bob", 3.0, 6.2)
    assert reference(store) == Reference(6.2, 3)
    timed(store, "bob", 3.0, 6.1)
    assert reference(store) == Reference(6.15, 4)
    timed(store, "cyd", 3.0, 6.15)
    found = reference(store)
    assert found == Reference(6.15, 5, 6.0, 8.0)
    speedup = store.runs.get(mine.id).speedup
    assert speedup is not None
    assert speedup.ratio == pytest.approx(3.075)
    assert [speedup.low, speedup.high] == pytest.approx([2.787, 4.067], abs=1e-3)
    store.moderation.remove([leader.submission], "root", NOON, "")
    assert reference(store) == Reference(6.15, 4)
    store.moderation.readmit([leader.submission], "root", NOON, "")
    with opened(path) as db:
        ranking.readmit(db, leader.submission)
    assert reference(store) == found


def test_a_user_with_many_runs_moves_the_reference_no_more_than_another(store: Store) -> None:
    for user, time_s in (("ada", 6.0), ("bob", 6.1), ("cyd", 6.2), ("dee", 6.3), ("eve", 6.4)):
        timed(store, user, 1.0, time_s)
    for time_s in (9.0, 9.1, 9.2, 9.3):
        timed(store, "eve", 1.0, time_s)
    assert reference(store) == Reference(6.2, 9, *median_interval([6.0, 6.1, 6.2, 6.3, 9.1]))


def test_the_reference_of_many_runs_has_the_median_and_the_bounds_of_all_their_times(store: Store) -> None:
    times = [100 + 37 * number % 101 for number in range(60)]
    for time_s in times:
        timed(store, "ada", 1.0, float(time_s))
    assert reference(store) == Reference(statistics.median(times), 60, *median_interval(times))


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob", "cyd"]),
        st.integers(0, 3),  # minutes
        st.sampled_from([1.0, 2.0, 2.0, 3.0]),
        st.sampled_from(["counts", "counts", "counts", "withdrawn", "withdrawn and readmitted"]),
    ),
    max_size=10,
)


@settings(max_examples=25)
@given(HISTORIES, st.integers(0, 4), st.integers(1, 4))
def test_tables_and_pages_follow_the_rules_for_any_history(
    history: list[tuple[str, int, float, str]], offset: int, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, (store := Store(Path(folder) / "board.db")).file.session():
        counting: list[tuple[float, int, int, str]] = []
        for user, minutes, score_s, fate in history:
            run = passed(store, user, score_s, minutes=minutes)
            with opened(store.file.path) as db:
                if "withdrawn" in fate:
                    ranking.withdraw(db, run.submission)
                if "readmitted" in fate:
                    ranking.readmit(db, run.submission)
            if fate != "withdrawn":
                counting.append((score_s, minutes, run.id, user))
        best = {user: min(each for each in counting if each[3] == user) for *_, user in counting}

        def ranked(entries: list[tuple[float, int, int, str]]) -> list[tuple[int, int]]:
            return [(1 + sum(one[0] < each[0] for one in entries), each[2]) for each in sorted(entries)]

        everyone = ranked(list(best.values()))
        assert numbers(store.standings.list(*BOARD)) == everyone
        assert numbers(store.standings.list(*BOARD, limit=limit, offset=offset)) == everyone[offset : offset + limit]
        assert numbers(store.standings.page(*BOARD, Rows.RUNS, "").rows) == ranked(counting)
        page = ranked([each for each in counting if each[3] == "ada"])[offset : offset + limit]
        assert numbers(store.standings.page(*BOARD, Rows.OWN, "ada", limit=limit, offset=offset).rows) == page


def test_the_newest_runs_of_a_user_are_a_page_with_the_count_of_all(store: Store) -> None:
    runs = [passed(store, "ada", score_s, minutes=minute) for minute, score_s in enumerate((3.0, 1.0, 2.0, 2.0))]
    passed(store, "bob", 0.5)

    listed = store.standings.page(*BOARD, Rows.NEWEST, "ada", limit=3)

    assert numbers(listed.rows) == [(2, runs[3].id), (2, runs[2].id), (1, runs[1].id)]
    assert listed.total == 4
    assert listed.own is not None
    assert listed.own.run == runs[1].id


def between(store: Store, user: str, low_s: float, score_s: float, high_s: float) -> Run:
    (run,) = submitted(store, user)
    finish(store, run, score_s, interval=Interval(low_s, high_s))
    return run


def overlapping(rows: Iterable[Standing | None]) -> list[str]:
    return [row.user for row in rows if row is not None and row.overlaps_above]


def test_rows_that_cannot_be_told_from_the_one_above_say_so(store: Store) -> None:
    between(store, "ada", 1.0, 1.1, 1.2)
    between(store, "bob", 1.2, 1.3, 1.4)
    passed(store, "cyd", 1.35)
    between(store, "dee", 1.3, 1.4, 1.5)
    between(store, "eve", 1.51, 1.6, 1.7)
    between(store, "ada", 1.1, 1.25, 1.3)
    (run, *_) = store.standings.list(*BOARD)

    assert run.interval == Interval(1.0, 1.2)
    assert overlapping(store.standings.list(*BOARD)) == ["bob"]
    assert overlapping(store.standings.page(*BOARD, Rows.RUNS, "").rows) == ["ada", "bob"]
    assert overlapping(store.standings.list(*BOARD, limit=2, offset=1)) == ["bob"], (
        "the one above is on the page before"
    )
    assert overlapping(store.standings.at_rank(*BOARD, 2)) == ["bob"]
    own = [store.standings.page(*BOARD, Rows.USERS, user, limit=1).own for user in ("bob", "dee")]
    assert overlapping(own) == ["bob"], "one's own row is on no page"
    assert overlapping(store.standings.page(*BOARD, Rows.OWN, "ada").rows) == ["ada"]


def test_equal_scores_cannot_be_told_apart(store: Store) -> None:
    for user in ("ada", "bob"):
        between(store, user, 1.0, 1.0, 1.0)
    assert [(row.rank, row.overlaps_above) for row in store.standings.list(*BOARD)] == [(1, False), (1, True)]


def questions(run: Run) -> dict[str, Callable[[Database], object]]:
    mine = (run.task, run.task_version, run.gpu)
    page: dict[str, Any] = {"limit": 20, "offset": 20}
    return {
        "first page": lambda db: standings(db).list(*mine, limit=20),
        "a page": lambda db: standings(db).list(*mine, **page),
        "at rank": lambda db: standings(db).at_rank(*mine, 7),
        "placing": lambda db: standings(db).placing(run),
        "listed users": lambda db: standings(db).page(*mine, Rows.USERS, run.user, **page),
        "listed runs": lambda db: standings(db).page(*mine, Rows.RUNS, run.user, limit=20),
        "listed own runs": lambda db: standings(db).page(*mine, Rows.OWN, run.user, **page),
        "versions": lambda db: standings(db).versions(run.task),
        "score": lambda db: ranking.score(db, run.id),
        "podium": lambda db: ranking.podium(db, ranking.BoardKey(*mine)),
        "passed": lambda db: ranking.passed_by(db, ranking.BoardKey(*mine), 1.0, None),
        "withdraw": lambda db: ranking.withdraw(db, run.submission),
        "readmit": lambda db: ranking.readmit(db, run.submission),
        "records": lambda db: standings(db).records(*BOARD),
        "feed": asking_feed(),
        "feed of some tasks": asking_feed(among=[run.task]),
        "feed of a task": asking_feed(task=run.task),
        "feed of a board": asking_feed(task=run.task, gpu=run.gpu),
        "feed of a GPU": asking_feed(gpu=run.gpu, before=9),
        "feed of a user": asking_feed(user=run.user),
        "feed of a user on a board": asking_feed(user=run.user, task=run.task, gpu=run.gpu),
    }


def standings(db: Database) -> StandingsGateway:
    return StandingsGateway(OpenDatabase(db))


def asking_feed(
    task: str | None = None,
    gpu: str | None = None,
    user: str | None = None,
    before: int | None = None,
    among: list[str] | None = None,
) -> Callable[[Database], object]:
    return lambda db: standings(db).feed(task=task, gpu=gpu, user=user, before=before, limit=20, among=among)


def test_nothing_is_read_whole_or_sorted_but_a_page(path: Path, store: Store) -> None:
    run = passed(store, "ada", 1.0)
    asked: list[str] = []
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection)
        connection.set_trace_callback(asked.append)
        for ask in questions(run).values():
            ask(db)
        read = re.compile(r"\s*(select|with|delete|insert into scores)", re.IGNORECASE)
        connection.set_trace_callback(None)
        tables = re.compile("scores|bests|feed|passing_runs|milestone")
        told = [sql for sql in asked if read.match(sql) and tables.search(sql)]
        assert len(told) > len(questions(run))
        for sql in told:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()
            steps = "\n".join(str(step[3]) for step in plan)
            # The newest of the whole feed are found at the end of the table: no more is read than the page has.
            whole = "FROM feed" in sql and ("WHERE TRUE" in sql or "json_each" in sql)
            assert not re.search(r"SCAN (?!listed|CONSTANT|\(subquery)", steps) or whole, f"{sql}\n{steps}"
            assert "TEMP B-TREE" not in steps, f"{sql}\n{steps}"


def test_ranks_of_a_user_take_one_query_on_any_number_of_leaderboards(path: Path, store: Store) -> None:
    gpus = [f"gpu{number}" for number in range(8)]
    for gpu in gpus:
        passed(store, "ada", 2.0, gpu=gpu)
        passed(store, "bob", 1.0, gpu=gpu)
    passed(store, "eve", 2.0, gpu="gpu3")
    asked: list[str] = []
    with closing(sqlite3.connect(path)) as connection:
        db = Database(connection)
        connection.set_trace_callback(asked.append)
        found = standings(db).of_user("ada", [TASK])
        connection.set_trace_callback(None)
    assert [(rank.gpu, rank.row.rank, rank.users, rank.best_s) for rank in found] == [
        (gpu, 2, 3 if gpu == "gpu3" else 2, 1.0) for gpu in gpus
    ]
    assert len([sql for sql in asked if "SELECT" in sql]) == 1


def steps_of(path: Path, ask: Callable[[Database], object]) -> int:
    """Return the hundreds of instructions of SQLite's machine for an answer, which no other load changes."""
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(tick, 100)
        ask(Database(connection))
    return ticks


def fill(path: Path, users: int, runs_each: int) -> None:
    """Slower runs of other users on the same board, and as many on another, in the tables that ranks come from."""
    counts = [
        {
            "run": 1000 + 2 * number + (gpu == "A100"),
            "task": TASK.name,
            "version": TASK.version,
            "gpu": gpu,
            "user": f"u{number // runs_each}",
            "score_s": 100.0 + number,
            "at": NOON.isoformat(),
        }
        for number in range(users * runs_each)
        for gpu in ("H100", "A100")
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO scores VALUES (:run, 1, :task, :version, :gpu, :user, :run, :score_s, NULL, NULL, :at)", counts
        )
        connection.execute(
            """
            INSERT INTO entries
            SELECT task, task_version, gpu, user, run, 1, entry, score_s, NULL, NULL, submitted_at
              FROM scores WHERE user LIKE 'u%'
            """
        )
        connection.execute(
            """
            INSERT INTO bests
            SELECT task, task_version, gpu, user, run, runs, entry, MIN(score_s), NULL, NULL, submitted_at
              FROM entries WHERE user LIKE 'u%' GROUP BY task, task_version, gpu, user
            """
        )


def test_a_page_and_a_rank_cost_the_same_however_many_runs_there_are(tmp_path: Path) -> None:
    costs: list[dict[str, int]] = []
    for runs_each in (10, 400):
        path = tmp_path / f"{runs_each}.db"
        store = Store(path)
        for place in range(40):
            run = passed(store, f"ada{place}", 1.0 + place)
        fill(path, users=30, runs_each=runs_each)
        costs.append({name: steps_of(path, ask) for name, ask in questions(run).items()})
    few, many = costs
    # The number of a board's runs is counted from an index, and so are its records.
    few.pop("listed runs")
    few.pop("records")

    assert all(many[name] <= 1.1 * few[name] + 1 for name in few), {name: (few[name], many[name]) for name in few}


def test_the_records_are_the_runs_that_were_faster_than_all_submitted_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for minutes, (user, score_s) in enumerate((("ada", 3.0), ("bob", 4.0), ("bob", 2.0), ("ada", 2.0), ("eve", 1.0))):
        passed(store, user, score_s, minutes=10 * minutes)
    passed(store, "cyd", 0.5, gpu="A100")
    found = store.standings.records(*BOARD)
    assert [(each.user, each.score_s) for each in found] == [("ada", 3.0), ("bob", 2.0), ("eve", 1.0)]
    assert [each.at for each in found] == [NOON + timedelta(minutes=minutes) for minutes in (0, 20, 40)]
    assert store.standings.records(TASK.name, "another", "H100") == ()
    monkeypatch.setattr("hpc_board.store.standings._RECORDS_MAX", 2)
    assert store.standings.records(*BOARD) == found[1:]
