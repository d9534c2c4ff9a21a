"""The end of a process, which may be asked for twice, and which a signal may cut short anywhere."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from hpc_board.harness.processes import child
from hpc_board.harness.processes.child import Child
from hpc_board.harness.processes.output import Printed
from hpc_board.harness.processes.tree import REAP_SECONDS
from hpc_board.harness.wire.channel import pair

ROOT = Path(__file__).resolve().parents[2]


class Cut(BaseException):
    """An exception of a signal's handler."""


def sleeping() -> tuple[Child, Printed]:
    """A process that sleeps after it has printed something, and what it prints."""
    channel, theirs = pair()
    theirs.close()
    reader, writer = os.pipe()
    os.write(writer, b"last words")
    pid = os.posix_spawn(
        "/bin/sleep", ["sleep", "100"], {}, setsid=True, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)]
    )
    os.close(writer)
    printed = Printed()
    return Child(pid, channel, [(reader, printed)], printed_bytes_max=2**20), printed


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def cut_at(step: int, act: Callable[[], None]) -> bool:
    """Do something that is cut short before its instruction of this number; whether it was, or had ended before."""
    left = step

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != child.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Cut
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except Cut:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_process_can_be_ended_twice() -> None:
    before = descriptors()
    process, printed = sleeping()
    process.end()
    assert not is_there(process.pid)
    assert descriptors() == before
    # Those that take the numbers of the closed ones.
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
    process.end()
    for descriptor in others:
        os.close(descriptor)
    assert printed.log().text == "last words"


def test_a_process_is_ended_by_the_next_call_wherever_a_signal_cuts_the_first_one_short() -> None:
    step, was_cut = 0, True
    while was_cut:
        before = descriptors()
        process, _ = sleeping()
        was_cut = cut_at(step, process.end)
        others = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
        began = time.monotonic()
        process.end()
        assert time.monotonic() - began < REAP_SECONDS / 2, f"cut before instruction {step}: its status is lost"
        for descriptor in others:
            os.close(descriptor)
        left_open = descriptors() - before
        assert len(left_open) <= 1, f"cut before instruction {step}: {left_open} are left open"
        for name in left_open:
            os.close(int(name))
        if is_there(process.pid):
            assert os.waitpid(process.pid, 0)[1] == signal.SIGKILL, f"cut before instruction {step}: it still runs"
        step += 1
    assert step > 100


ENDED = """
import os, signal, time
from hpc_board.harness.wire.channel import pair
from hpc_board.harness.processes.child import Child, ChildEnded
for end in (lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGSEGV), lambda: os._exit(0)):
    channel, theirs = pair()
    pid = os.fork()
    if not pid:
        end()
    theirs.close()
    child = Child(pid, channel, [], printed_bytes_max=1)
    try:
        child.answer(("none",), time.monotonic() + 10)
    except ChildEnded as error:
        print(error.how, error.signal)
    child.end()
"""


def test_how_a_process_has_ended_is_told_by_status_or_signal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == [
        "it exited with status 3 None",
        "it was killed by signal 11 (SIGSEGV) 11",
        "it exited with status 0 None",
    ], done.stderr
