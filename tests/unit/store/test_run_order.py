"""Lists of runs in the order of a column, page by page in both directions."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from hpc_board.domain.run import Run, RunState
from hpc_board.domain.run_order import RunOrder, RunPosition, SortColumn
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from hpc_board.store import Store
from hpc_board.store.listing import RunQuery
from tests.unit.recorded import REPOSITORY

ORDERS = [RunOrder(by, reverse) for by in SortColumn for reverse in (False, True)]
QUERIES = {
    "everyone's": RunQuery(),
    "own": RunQuery(user="ada"),
    "a task's": RunQuery(task="matmul"),
    "a GPU's": RunQuery(gpu="A100"),
    "passed": RunQuery(outcome=Verdict.PASS),
    "timed out": RunQuery(outcome=RunState.TIMEOUT),
    "finished": RunQuery(outcome=RunState.FINISHED),
    "others'": RunQuery(mode=Mode.TEST, hidden=("matmul",), unless_by="ada"),
    "searched": RunQuery(words="h100 a"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A generated board of 240 runs, whose database stays open."""
    path = tmp_path_factory.mktemp("order") / "board.db"
    size = ("--runs", "240", "--users", "12", "--tasks", "5")
    command = [sys.executable, str(REPOSITORY / "scripts" / "board_generator.py"), str(path), *size]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(REPOSITORY)})
    found = Store(path)
    with found.file.session():
        yield found


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: f"{order.by}{'-reversed' if order.reverse else ''}")
@pytest.mark.parametrize("name", QUERIES)
def test_pages_in_an_order_join_to_the_sorted_list(store: Store, name: str, order: RunOrder) -> None:
    query = replace(QUERIES[name], order=order)
    found = store.runs.list(QUERIES[name])
    expected = [run.id for run in sorted(found, key=order.key, reverse=order.descending)]
    assert expected
    assert [run.id for run in store.runs.list(query)] == expected
    forwards: list[Run] = []
    while page := store.runs.list(replace(query, behind=order.position(forwards[-1]) if forwards else None), 7):
        forwards += page
    assert [run.id for run in forwards] == expected
    by_offset: list[Run] = []
    while page := store.runs.list(replace(query, offset=len(by_offset)), 7):
        by_offset += page
    assert [run.id for run in by_offset] == expected
    assert store.runs.count(query) == len(expected)


@pytest.mark.parametrize("by", SortColumn)
@pytest.mark.parametrize("value", [None, "\ud800", "x" * 5000, -1, 10**30, 1e308, "'; drop table runs; --"])
def test_a_position_with_any_value_of_a_client_is_read(store: Store, by: SortColumn, value: str | float | None) -> None:
    for run in (-1, 1, 10**30):
        at = RunPosition(run, value)
        store.runs.list(RunQuery(order=RunOrder(by), behind=at), 3)
        store.runs.list(RunQuery(order=RunOrder(by, reverse=True), behind=at, offset=run, user="ada"), 3)
