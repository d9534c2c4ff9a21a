"""Finding runs by words, and turning the pages of a long list of them."""

from pathlib import Path

import pytest

from hpc_board.domain.run import RunState, Status
from hpc_board.domain.run_order import RunOrder, SortColumn
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store, listing
from hpc_board.store.listing import EVERY_RUN, RunQuery
from hpc_board.store.submissions import NewSubmission
from tests.unit.store.test_store import TASK, add, finish, later, new_run, numbers, outcome
from tests.values import replace


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "board" / "board.db")


@pytest.fixture
def five(store: Store) -> Store:
    """Runs 1 to 5: a wrong value, a pass, one in the queue, one of bob's, and one with a note."""
    wrong, right, queued = add(store, "H100", "A100", "H100")
    add(store, "A100", user="bob", mode=Mode.TEST)
    noted = NewSubmission(
        task=TASK,
        user="ada",
        file_name="Fast_Kernel.py",
        code=b"kernel",
        mode=Mode.BENCHMARK,
        note="100 % of 16-byte loads",
        at=later(1),
        runs=[new_run("job-5", "L4")],
    )
    store.submissions.add_all([noted], sender=None)
    finish(store, wrong, None, Verdict.WRONG_VALUE)
    finish(store, right, 1e-5)
    store.runs.record(queued.id, Status(RunState.QUEUED, later(2)))
    return store


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [5, 4, 3, 2, 1]),
        ("h100", [3, 1]),
        ("H100 queued", [3]),
        ("wrong value", [1]),
        ("wrong_value", [1]),
        ("pass", [2]),
        ("fast_kernel", [5]),
        ("16-byte", [5]),
        ("%", [5]),
        ("bench", [5]),
        ("bob", [4]),
        ("vector_add test", [4]),
        ("h100a100", []),
        ("gpu:h100", []),
        ("'; drop table runs; --", []),
    ],
)
def test_runs_are_found_by_all_of_the_words(five: Store, text: str, found: list[int]) -> None:
    assert numbers(five.runs.list(RunQuery(words=text))) == found
    assert five.runs.count(RunQuery(words=text)) == len(found)


def test_a_word_is_found_within_one_field_only(five: Store) -> None:
    assert numbers(five.runs.list(RunQuery(words="vector_addh100"))) == []


@pytest.mark.parametrize("column", SortColumn)
@pytest.mark.parametrize("reverse", [False, True])
def test_words_are_searched_in_the_newest_runs_of_all_users_and_in_every_run_of_one(
    five: Store, monkeypatch: pytest.MonkeyPatch, column: SortColumn, reverse: bool
) -> None:
    order = RunOrder(column, reverse)

    def found(query: RunQuery = EVERY_RUN) -> list[int]:
        pages: list[int] = []
        behind = None
        while page := five.runs.list(replace(query, words="vector", order=order, behind=behind), 2):
            pages += numbers(page)
            behind = order.position(page[-1])
        return pages

    assert found() == numbers(five.runs.list(RunQuery(order=order)))
    monkeypatch.setattr(listing, "SEARCHED_MAX", 3)
    assert sorted(found()) == [3, 4, 5]
    assert sorted(found(RunQuery(gpu="H100"))) == [3]
    assert sorted(found(RunQuery(user="ada"))) == [1, 2, 3, 5]
    assert sorted(found(RunQuery(task=TASK.name))) == [1, 2, 3, 4, 5]


def test_words_past_the_eighth_narrow_nothing_down(five: Store) -> None:
    assert numbers(five.runs.list(RunQuery(words="h100 " * 8 + "qqq"))) == [3, 1]
    assert numbers(five.runs.list(RunQuery(words="h100 " * 100_000))) == [3, 1]


def test_the_start_of_a_run_is_that_of_its_last_time_on_a_node(store: Store) -> None:
    never, twice = add(store, "H100", "A100")
    for state, minutes in ((RunState.RUNNING, 1), (RunState.QUEUED, 2), (RunState.RUNNING, 4)):
        store.runs.record(twice.id, Status(state, later(minutes)))
    assert store.runs.started([never.id, twice.id]) == {twice.id: later(4)}
    assert store.runs.started([]) == {}


@pytest.mark.parametrize(
    ("told", "minutes"),
    [
        (later(3).isoformat(), 3),
        (later(5).isoformat(), 5),
        (later(-1).isoformat(), None),
        (later(6).isoformat(), None),
        ("", None),
        ("yesterday", None),
    ],
)
def test_a_job_that_nobody_saw_running_tells_its_start_itself(store: Store, told: str, minutes: int | None) -> None:
    (short,) = add(store, "H100")
    result = replace(outcome(short, Verdict.PASS), started_at=told)
    assert store.runs.finish(short.id, Status(RunState.FINISHED, later(9)), result, 1e-5, later(5))
    assert store.runs.started([short.id]) == ({} if minutes is None else {short.id: later(minutes)})
