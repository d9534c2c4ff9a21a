"""For how long a submission waited for a processor while others had it, by the system's account."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from hpc_board.harness.processes.tree import ProcessorTimes, processor_times, signal_all

WALL_NS = 100
BEFORE = ProcessorTimes(run_ns=300, wait_ns=50, sleeps=3, others_ns=1000, last_pid=7, siblings=frozenset({5, 6}))


def after(**changes: object) -> ProcessorTimes:
    values = {"run_ns": 310, "wait_ns": 90, "sleeps": 5, "others_ns": 1000, "last_pid": 7, **changes}
    values.setdefault("siblings", frozenset({5, 6}))
    return ProcessorTimes(**values)  # type: ignore[arg-type]


def test_waiting_is_excused_while_nothing_else_of_the_submission_ran() -> None:
    assert after().waited_since(BEFORE, WALL_NS) == 40


@pytest.mark.parametrize(("others_ns", "excused"), [(1030, 10), (1040, 0), (5000, 0)])
def test_the_work_of_its_other_threads_and_processes_is_taken_off(others_ns: int, excused: float) -> None:
    assert after(others_ns=others_ns).waited_since(BEFORE, WALL_NS) == excused


@pytest.mark.parametrize(
    "changes",
    [{"last_pid": 8}, {"last_pid": None}, {"siblings": frozenset({5})}, {"siblings": frozenset({5, 6, 9})}],
    ids=["begun", "unknown", "ended", "another"],
)
def test_nothing_is_excused_where_a_process_has_begun_or_ended(changes: dict[str, object]) -> None:
    assert after(**changes).waited_since(BEFORE, WALL_NS) == 0


def test_an_account_that_goes_down_excuses_no_more_than_the_waiting() -> None:
    assert after(others_ns=0).waited_since(BEFORE, WALL_NS) == 40


@pytest.mark.parametrize(("run_ns", "excused"), [(360, 40), (375, 25), (500, 0)])
def test_a_thread_does_not_wait_while_it_runs(run_ns: int, excused: float) -> None:
    assert after(run_ns=run_ns).waited_since(BEFORE, WALL_NS) == excused


def test_nothing_is_excused_where_the_thread_has_slept_in_a_call() -> None:
    assert after(sleeps=6).waited_since(BEFORE, WALL_NS) == 0


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
