"""The copy of an output holds the worker's memory at the moment at which nothing of the submission runs any more."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hpc_board.harness.measure.worker_handle import Worker
from hpc_board.harness.processes import child, tree
from hpc_board.harness.processes.calls import CallFailed, TimeBudget
from hpc_board.harness.processes.memory import may_read, read_memory
from hpc_board.harness.wire import channel
from hpc_board.model.limits import Limits
from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode
from tests.harness.evaluations import ARRAYS, QUICK, a_task, evaluate
from tests.harness.harness_file import Edit, edited

np = pytest.importorskip("numpy")

LARGE: dict[str, Any] = {
    "tests": ({"size": 2**21, "seed": 1},),
    "benchmarks": ({"size": 2**21, "seed": 2}, {"size": 1000, "seed": 3}),
    "limits": {**QUICK, "slack_seconds": 1},
}
RIGHT = "def custom_kernel(data):\n    return 2 * data\n"
BY_A_THREAD = """
import threading
import numpy as np

def custom_kernel(data):
    output = np.zeros_like(data)
    def fill():
        for begin in range(0, len(data), 64):
            np.multiply(data[begin:begin + 64], 2, out=output[begin:begin + 64])
    threading.Thread(target=fill).start()
    return output
"""
BY_A_PROCESS = """
import mmap, os, signal
import numpy as np

shared = np.frombuffer(mmap.mmap(-1, 2**24))
reader, writer = os.pipe()
worker = os.getpid()
if os.fork() == 0:
    while os.read(reader, 1):
        for _ in range(2000):
            os.kill(worker, signal.SIGCONT)
        for begin in range(0, len(shared), 64):
            shared[begin:begin + 64] *= 2
    os._exit(0)

def custom_kernel(data):
    shared[:len(data)] = data
    os.write(writer, b".")
    return shared[:len(data)]
"""
LYING = """
from hpc_board.harness.worker import worker

honest = worker._Worker._run

def run(self, number, fds):
    done = honest(self, number, fds)
    return {**done, **(CHANGE)(done)}

worker._Worker._run = run

def custom_kernel(data):
    return 2 * data
"""
WRITING = "worker._Worker._take_as_they_are = lambda *_: False\n"


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.RANKED])
def test_large_outputs_come_from_the_memory_of_the_worker(tmp_path: Path, mode: Mode) -> None:
    result = evaluate(tmp_path, RIGHT, a_task(ARRAYS, **LARGE), mode).result
    assert result.verdict is Verdict.PASS, result.message


def test_where_memory_cannot_be_read_outputs_are_written(tmp_path: Path) -> None:
    never = edited((Edit("processes/memory.py", "-errno.EFAULT and", "-errno.EFAULT and False and"),))
    result = evaluate(tmp_path, RIGHT, a_task(ARRAYS, **LARGE), Mode.RANKED, harness=never).result
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.quiet
@pytest.mark.parametrize("source", [BY_A_THREAD, BY_A_PROCESS], ids=["thread", "process"])
def test_nobody_fills_an_output_after_the_call(tmp_path: Path, source: str) -> None:
    result = evaluate(tmp_path, source, a_task(ARRAYS, **LARGE)).result
    assert result.verdict is Verdict.LATE_WRITE, result.message


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("lambda done: {'blocks': [0] * len(done['blocks'])}", "its output is not where it claims"),
        ("lambda done: {'blocks': [2**62] * len(done['blocks'])}", "its output is not where it claims"),
        ("lambda done: {'blocks': done['blocks'] * 2}", "the number of outputs differs from the number of calls"),
        ("lambda done: {'call': 1}", "it answered another call"),
        ("lambda done: {'blocks': []}", "the number of outputs differs from the number of calls"),
        ("lambda done: {'outputs': [[0, 64]], 'blocks': []}", "the bytes are not a payload"),
    ],
    ids=["nowhere", "endless", "more", "another call", "none", "not written"],
)
def test_an_output_that_is_not_where_it_is_said_to_be_is_a_violation(tmp_path: Path, change: str, told: str) -> None:
    result = evaluate(tmp_path, LYING.replace("CHANGE", change), a_task(ARRAYS, **LARGE)).result
    assert (result.verdict, told in result.message) == (Verdict.PROTOCOL_VIOLATION, True), result.message


def test_a_worker_that_does_not_map_its_inputs_in_time_is_late(tmp_path: Path) -> None:
    source = (
        "import gc, time\nfrom hpc_board.harness.worker import worker\n"
        "(it,) = [one for one in gc.get_objects() if type(one) is worker._Worker]\n"
        "it._with_memory['map'] = lambda *_: time.sleep(60)\n"
    )
    result = evaluate(tmp_path, source + RIGHT, a_task(ARRAYS, limits={**QUICK, "first_call_seconds": 1})).result
    assert result.verdict is Verdict.TIMEOUT, result.message
    assert "it was not ready for a test call within 1 s" in result.message


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("lambda done: {'outputs': [[0, done['outputs'][0][1] + 64]]}", "64 bytes follow the last leaf"),
        ("lambda done: {'outputs': [[2**40, 64]]}", "are not a payload"),
        ("lambda done: {'outputs': done['outputs'] * 2}", "the number of outputs differs from the number of calls"),
        ("lambda done: {'outputs': [[0, 2**50]]}", "its output takes 1125899906842624 bytes"),
    ],
)
def test_an_output_that_is_not_written_as_it_is_said_to_be_is_refused(tmp_path: Path, change: str, told: str) -> None:
    source = LYING.replace("CHANGE", change) + WRITING
    result = evaluate(tmp_path, source, a_task(ARRAYS, **LARGE)).result
    assert result.verdict in (Verdict.PROTOCOL_VIOLATION, Verdict.OUTPUT_LIMIT), result.message
    assert told in result.message


HOLDER = """
import ctypes, sys, threading, time
memory = bytearray(b"held" * 2**20)
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
while True:
    pass
"""


@pytest.fixture
def holder() -> Iterator[tuple[child.Child, int]]:
    """A busy process of two threads, and where it holds 4 MiB that are known."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = int(process.stdout.readline())
    end, theirs = channel.pair()
    theirs.close()
    holder = child.Child(process.pid, end, [], printed_bytes_max=0)
    yield holder, address
    holder.end()
    process.stdout.close()
    process.wait()


def test_a_process_is_stopped_read_and_goes_on(holder: tuple[child.Child, int]) -> None:
    process, address = holder
    assert not tree.all_stopped(process.pid)
    for _ in range(3):
        process.freeze(time.monotonic() + 10)
        assert tree.all_stopped(process.pid)
        memory = bytearray(2**22 + 64)
        read_memory(process.pid, address, memory, 2**22)
        assert memory == b"held" * 2**20 + bytes(64)
        with pytest.raises(OSError, match="Bad address"):
            read_memory(process.pid, 4096, memory, 64)
        process.thaw()
        while tree.all_stopped(process.pid):
            time.sleep(0.001)
    assert not may_read(process.pid), "it has no filter of system calls"
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(child.ChildEnded):
        process.freeze(time.monotonic() + 10)


def test_processes_that_start_others_without_end_are_not_waited_for(holder: tuple[child.Child, int]) -> None:
    process, _ = holder
    beyond = itertools.count(2**23)
    worker = Worker(process, Limits(), TimeBudget(60), lambda: [next(beyond)])
    with pytest.raises(CallFailed, match="still running") as failed, worker.frozen():
        raise AssertionError
    assert failed.value.verdict is Verdict.LATE_WRITE
    assert not tree.all_stopped(process.pid)


def test_the_descendants_of_a_process_are_found_below_it() -> None:
    nested = "import subprocess, sys; subprocess.run(['sleep', '100'])"
    process = subprocess.Popen([sys.executable, "-c", nested])
    try:
        while len(tree.below(process.pid)) != 1:
            time.sleep(0.01)
        (sleeper,) = tree.below(process.pid)
        assert {process.pid, sleeper} <= set(tree.below(os.getpid()))
        assert not {process.pid, sleeper} & set(tree.below(os.getpid(), [process.pid]))
        os.kill(sleeper, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
