import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from hpc_board.domain.feed import Entry, FeedEntry, FeedKind, News
from hpc_board.domain.run import Run, RunState, Status
from hpc_board.errors import StorageError
from hpc_board.model.result import Result, Verdict
from hpc_board.model.task import Language, Mode, Task, TaskFile
from hpc_board.store import Store
from hpc_board.store.submissions import NewRun, NewSubmission
from tests.values import replace

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TASK = Task("softmax", Language.PY, "Exponentials.", (TaskFile("submission.py", None),))
_tokens = count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "board.db"


@pytest.fixture
def store(path: Path) -> Store:
    return Store(path)


def submitted(store: Store, user: str, gpu: str = "H100", *, mode: Mode = Mode.RANKED, task: Task = TASK) -> Run:
    number = next(_tokens)
    new = NewRun(gpu, "main", "", f"job-{number}", "n", "self-run", False, "h")
    code = f"x = {number}".encode()
    _, (run,) = store.submissions.add(
        NewSubmission(task=task, user=user, file_name="kernel.py", code=code, mode=mode, note="", at=NOON, runs=[new]),
        sender=None,
    )
    return run


def finished(store: Store, run: Run, score_s: float | None, verdict: Verdict = Verdict.PASS) -> Run:
    result = Result(run=run.id, nonce="n", mode=run.mode.value, verdict=verdict, message="", cases=())
    at = NOON + timedelta(minutes=run.id)
    assert store.runs.finish(run.id, Status(RunState.FINISHED, at), result, score_s)
    return run


def passed(store: Store, user: str, score_s: float, gpu: str = "H100") -> Run:
    return finished(store, submitted(store, user, gpu), score_s)


def newest(store: Store) -> News:
    return store.standings.feed(limit=1)[0].news


def podium(store: Store) -> None:
    for user, score_s in (("ada", 1.0), ("bob", 2.0), ("cyd", 3.0)):
        passed(store, user, score_s)


def test_the_first_on_a_board_holds_its_record(store: Store) -> None:
    run = passed(store, "ada", 2.0)

    assert store.standings.feed() == (
        FeedEntry(
            id=1,
            at=NOON + timedelta(minutes=run.id),
            task=TASK.name,
            task_version=TASK.version,
            gpu="H100",
            user="ada",
            submission=run.submission,
            run=run.id,
            submitter="ada",
            emulated=False,
            news=News(FeedKind.RECORD, 1, 2.0),
        ),
    )


def test_who_takes_the_first_place_is_told_with_whom_they_beat(store: Store) -> None:
    passed(store, "bob", 2.0)
    passed(store, "ada", 3.0)

    passed(store, "ada", 1.0)

    assert newest(store) == News(FeedKind.RECORD, 1, 1.0, 2, 3.0, Entry("bob", 2.0))


def test_who_is_faster_than_their_own_record_has_beaten_nobody_else(store: Store) -> None:
    passed(store, "ada", 2.0)
    passed(store, "bob", 3.0)

    passed(store, "ada", 1.0)

    assert newest(store) == News(FeedKind.RECORD, 1, 1.0, 1, 2.0)


def test_who_is_alone_on_a_board_breaks_no_record(store: Store) -> None:
    passed(store, "ada", 2.0)

    passed(store, "ada", 1.0)

    assert newest(store) == News(FeedKind.BEST, 1, 1.0, 1, 2.0)


def test_who_falls_out_of_the_first_three_is_told(store: Store) -> None:
    podium(store)

    passed(store, "dee", 1.5)

    assert newest(store) == News(FeedKind.PODIUM, 2, 1.5, None, None, Entry("bob", 2.0), (Entry("cyd", 3.0),))


def test_two_who_share_the_third_place_fall_together(store: Store) -> None:
    podium(store)
    passed(store, "cid", 3.0)

    passed(store, "dee", 0.5)

    assert newest(store).fallen == (Entry("cyd", 3.0), Entry("cid", 3.0))


def test_a_move_within_the_first_three_is_told_and_nobody_falls(store: Store) -> None:
    podium(store)

    passed(store, "cyd", 1.5)

    assert newest(store) == News(FeedKind.PODIUM, 2, 1.5, 3, 3.0, Entry("bob", 2.0))


def test_who_shares_the_first_place_has_not_taken_it(store: Store) -> None:
    podium(store)

    passed(store, "dee", 1.0)

    assert newest(store) == News(FeedKind.PODIUM, 1, 1.0, None, None, Entry("bob", 2.0), (Entry("cyd", 3.0),))


def test_below_the_first_three_a_first_success_and_a_personal_best_are_told(store: Store) -> None:
    podium(store)

    passed(store, "dee", 9.0)
    assert newest(store) == News(FeedKind.FIRST, 4, 9.0)
    passed(store, "dee", 8.0)
    assert newest(store) == News(FeedKind.BEST, 4, 8.0, 4, 9.0)


def test_only_a_faster_run_of_its_user_is_told(store: Store) -> None:
    passed(store, "ada", 2.0)

    passed(store, "ada", 2.0)
    passed(store, "ada", 3.0)
    finished(store, submitted(store, "ada", mode=Mode.TEST), None)
    finished(store, submitted(store, "ada", mode=Mode.BENCHMARK), 1.0)
    finished(store, submitted(store, "ada"), 1.0, Verdict.WRONG_VALUE)

    assert len(store.standings.feed()) == 1


def test_a_run_that_was_submitted_before_an_equal_one_is_its_users_best_and_no_news(store: Store) -> None:
    early, late = submitted(store, "ada"), submitted(store, "ada")
    finished(store, late, 2.0)
    finished(store, early, 2.0)

    assert [row.run for row in store.standings.list(TASK.name, TASK.version, "H100")] == [early.id]
    assert [entry.run for entry in store.standings.feed()] == [late.id]


def test_the_feed_is_filtered_and_paged(store: Store) -> None:
    other = replace(TASK, name="matmul")
    first = passed(store, "ada", 2.0)
    second = passed(store, "bob", 1.0, gpu="A100")
    third = finished(store, submitted(store, "ada", task=other), 1.0)

    def runs(entries: tuple[FeedEntry, ...]) -> list[int]:
        return [entry.run for entry in entries]

    assert runs(store.standings.feed()) == [third.id, second.id, first.id]
    assert runs(store.standings.feed(limit=2)) == [third.id, second.id]
    assert runs(store.standings.feed(before=store.standings.feed()[1].id)) == [first.id]
    assert runs(store.standings.feed(task=TASK.name)) == [second.id, first.id]
    assert runs(store.standings.feed(task=TASK.name, gpu="H100")) == [first.id]
    assert runs(store.standings.feed(gpu="H100", user="ada")) == [third.id, first.id]
    assert runs(store.standings.feed(among=["matmul"])) == [third.id]
    assert runs(store.standings.feed(among=["matmul", TASK.name], limit=2)) == [third.id, second.id]


def test_a_run_enters_its_board_and_the_feed_or_does_not_finish(path: Path, store: Store) -> None:
    run = submitted(store, "ada")
    with closing(sqlite3.connect(path)) as connection, connection:
        # An index whose expression fails on each new row.
        connection.execute("CREATE INDEX failing ON feed (json('{' || user))")

    with pytest.raises(StorageError, match="malformed JSON"):
        finished(store, run, 2.0)

    assert store.runs.get(run.id).state is RunState.CREATED
    assert store.standings.list(TASK.name, TASK.version, "H100") == ()
