"""The costs of pages and ranks on a board and on one with ten times as many runs: SQLite's own steps are counted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.recorded import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"
PATHS = {"PYTHONPATH": str(REPOSITORY)}

PAGES = (
    *("`show`, first page", "`show --user`", "`runs --all`", "runs, an old page"),
    *("`runs --all --state lost`", "`runs --all --state crash`"),
    *("feed", "feed of a board", "`run ID`", "`submit`, the transaction"),
)
LISTS = (
    *("`runs`", "`runs --task`", "`runs --all --task`", "`runs --all --gpu`, a new one"),
    *("`runs --all --state collecting`", "`runs --all --state task_error`"),
    *("`runs --all --sort score`", "`runs --all --sort gpu`, the end", "`runs --all --sort state`, an inner page"),
    "runs with words, by score",
)
"""The lists that read each run, for less than a microsecond."""

PERSONAL = "`show --own`, first page"
WHOLE = "`admin stats`"
DAY = "`admin stats --days 1`"
HOUR = ("sent within the hour", "users of the Admin screen")
RANK = "a rank, the last one's"

Costs = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Costs, Costs]:
    """Return the cost of questions to boards of 3,000 and 30,000 runs by as many users, on which every page is full."""
    small, large = (measured(tmp_path_factory.mktemp("board") / "board.db", runs) for runs in (3_000, 30_000))
    return small, large


def measured(path: Path, runs: int) -> Costs:
    size = ("--runs", str(runs), "--users", "30", "--tasks", "2", "--gpus", "1")
    call(SCRIPTS / "board_generator.py", path, *size)
    found: Costs = json.loads(
        call(
            SCRIPTS / "bench_store.py",
            path,
            *(f"--ask={name}" for name in (*PAGES, *LISTS, *HOUR, PERSONAL, RANK, WHOLE, DAY)),
        )
    )
    return found


def call(script: Path, *argv: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, script, *argv], capture_output=True, text=True, check=False, env=os.environ | PATHS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.slow
def test_a_page_takes_no_more_steps_on_a_larger_board(costs: tuple[Costs, Costs], name: str) -> None:
    small, large = (each[name]["steps"] for each in costs)
    assert 50 < large < 1.1 * small + 50


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.slow
def test_a_sorted_or_filtered_list_reads_each_run_once(costs: tuple[Costs, Costs], name: str) -> None:
    _, large = costs
    assert large[name]["steps"] < 80 * 30_000


def test_the_runs_of_a_user_on_a_board_are_counted_in_an_index(costs: tuple[Costs, Costs]) -> None:
    small, large = (each[PERSONAL]["steps"] for each in costs)
    more_runs = (30_000 - 3_000) / 30
    assert large < small + more_runs


def test_a_rank_takes_steps_for_the_users_on_its_board_alone(costs: tuple[Costs, Costs]) -> None:
    small, large = (each[RANK]["steps"] for each in costs)
    assert large < small + 300


def test_a_day_takes_no_more_than_its_share(costs: tuple[Costs, Costs]) -> None:
    _, large = costs
    assert large[DAY]["steps"] < large[WHOLE]["steps"] / 50


@pytest.mark.parametrize("name", HOUR)
def test_views_of_admins_take_no_more_steps_on_a_larger_board(costs: tuple[Costs, Costs], name: str) -> None:
    small, large = (each[name]["steps"] for each in costs)
    assert large < small + 1_000


def test_what_reads_everything_is_seen_to_do_so(costs: tuple[Costs, Costs]) -> None:
    small, large = (each[WHOLE]["steps"] for each in costs)
    assert large > 8 * small
