"""Processes that are stopped while the reference is timed, and the system's account of their work and their waiting."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.measure import worker_handle
from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes.calls import TimeBudget
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.tree import ProcessorTimes, Turns, processor_ns, processor_times, signal_all, turns
from hpc_board.harness.wire.channel import pair
from hpc_board.model.limits import Limits

pytestmark = pytest.mark.quiet

ROOT = Path(__file__).resolve().parents[2]

STOPPER = """
import json, subprocess, sys, time
from pathlib import Path
from hpc_board.harness.processes.tree import children_of, stopped_but

PARENT = "import subprocess, sys; print(subprocess.Popen(['sleep', '100']).pid, flush=True); sys.stdin.read()"

def family():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return parent, [parent.pid, int(parent.stdout.readline())]

def stopped(pids):
    return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T" for pid in pids]

def awaited(pids, wanted):
    while stopped(pids) != wanted:
        time.sleep(0.01)
    return stopped(pids)

(one, kept), (other, rest) = family(), family()
with stopped_but([one.pid]):
    during = awaited(rest, [True, True]), stopped(kept)
after = awaited(rest, [False, False]), stopped(kept)
print(json.dumps([during, after]))
for parent, pids in ((one, kept), (other, rest)):
    subprocess.run(["kill", str(pids[1])])
    parent.communicate()
"""


def test_everything_is_stopped_but_what_is_to_be_kept_and_what_that_has_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPER], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    during, after = json.loads(done.stdout)
    assert during == [[True, True], [False, False]]
    assert after == [[False, False], [False, False]]


@pytest.fixture
def spinning() -> Iterator[Child]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    channel, theirs = pair()
    child = Child(process.pid, channel, [], printed_bytes_max=0)
    try:
        while not processor_ns(process.pid):
            time.sleep(0.01)
        yield child
    finally:
        theirs.close()
        child.end()
        process.wait()


@pytest.mark.parametrize("runs_meanwhile", [False, True])
def test_to_read_of_threads_counts_only_where_one_of_them_runs_meanwhile(
    spinning: Child, monkeypatch: pytest.MonkeyPatch, runs_meanwhile: bool
) -> None:
    # A thread leaves its processor late where the machine under it stands still, and is charged for that too.
    tries = 1 if runs_meanwhile else 10
    assert any(_charged(spinning, monkeypatch, runs_meanwhile) is runs_meanwhile for _ in range(tries))


def _charged(spinning: Child, monkeypatch: pytest.MonkeyPatch, runs_meanwhile: bool) -> bool:
    """Return whether reading of the threads counts as time of the worker's call."""
    begun_ns: list[int] = []

    def read(pids: Iterable[int]) -> Turns:
        begun_ns.append(time.monotonic_ns())
        if runs_meanwhile and len(begun_ns) == 1:
            spinning.thaw()
            before = processor_ns(spinning.pid)
            while processor_ns(spinning.pid) < before + 10_000_000:
                time.sleep(0.001)
            spinning.freeze(time.monotonic() + 10)
        return turns(pids)

    monkeypatch.setattr(worker_handle, "turns", read)
    worker = Worker(spinning, Limits(), TimeBudget(60))
    still_ns, _ = worker._stop()
    worker._go_on()
    return still_ns > begun_ns[0]


def test_a_process_that_is_gone_has_not_run() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert processor_ns(process.pid) == 0


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
def three_spinning() -> Iterator[list[int]]:
    """Three processes on one processor, which the system gives to one after the other."""
    place = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    processes = [subprocess.Popen([sys.executable, "-S", "-c", f"{place}\nwhile True: pass"]) for _ in range(3)]
    yield [each.pid for each in processes]
    for each in processes:
        each.kill()
        each.wait()


def test_the_system_tells_of_waiting_and_of_work(three_spinning: list[int]) -> None:
    worker, beside, _ = three_spinning
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
