"""For how long a submission waited for a processor while others had it, by the system's account."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hpc_board.harness.processes.tree import ProcessorTimes, processor_times, signal_all

WALL_NS = 100
BEFORE = ProcessorTimes(run_ns=300, wait_ns=50, sleeps=3, others_ns=1000, last_pid=7, siblings=frozenset({5, 6}))


@pytest.mark.parametrize(
    ("changes", "excused"),
    [
        ({}, 40),
        ({"others_ns": 1030}, 10),
        ({"others_ns": 1040}, 0),
        ({"others_ns": 5000}, 0),
        ({"others_ns": 0}, 40),
        ({"run_ns": 360}, 40),
        ({"run_ns": 375}, 25),
        ({"run_ns": 500}, 0),
        ({"sleeps": 6}, 0),
        ({"last_pid": 8}, 0),
        ({"last_pid": None}, 0),
        ({"siblings": frozenset({5})}, 0),
        ({"siblings": frozenset({5, 6, 9})}, 0),
    ],
)
def test_waiting_is_excused_while_nothing_else_of_the_submission_ran(changes: dict[str, Any], excused: float) -> None:
    after = replace(BEFORE, **{"run_ns": 310, "wait_ns": 90, "sleeps": 5, **changes})
    assert after.waited_since(BEFORE, WALL_NS) == excused


@pytest.fixture
def spinning() -> Iterator[list[int]]:
    """Three processes on one processor, which the system gives to one after the other."""
    place = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    processes = [subprocess.Popen([sys.executable, "-S", "-c", f"{place}\nwhile True: pass"]) for _ in range(3)]
    yield [each.pid for each in processes]
    for each in processes:
        each.kill()
        each.wait()


def test_the_system_tells_of_waiting_and_of_work(spinning: list[int]) -> None:
    worker, beside, _ = spinning
    time.sleep(0.3)

    def account() -> ProcessorTimes:
        signal_all([worker, beside], signal.SIGSTOP)
        time.sleep(0.05)
        try:
            return processor_times(worker, [beside])
        finally:
            signal_all([worker, beside], signal.SIGCONT)

    first = account()
    time.sleep(0.6)
    second = account()
    if first.last_pid is None:
        pytest.skip("this kernel keeps no account of waiting")
    assert second.wait_ns - first.wait_ns > 0.1e9
    assert second.ran_since(first) > 0.05e9
    assert 1 <= second.sleeps - first.sleeps <= 2
    assert second.others_ns - first.others_ns > 0.05e9
    assert second.siblings == {beside}
