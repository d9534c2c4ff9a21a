"""Child processes that cannot hold this one: their output goes to a file, and each is killed with all of its own."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_SECONDS = 0.05
_KILL_SECONDS = 3.0
"""Time that killed processes get to end; the driver of a broken GPU may hold one for longer."""

_libc = ctypes.CDLL(None, use_errno=True)
_held: set[int] = set()
"""Processes that outlived SIGKILL; no later wait is for them."""


@dataclass(frozen=True)
class Ended:
    """The end of a child: `status` is None if it was killed at its limit, `held` the processes that outlived that."""

    status: int | None
    seconds: float
    held: int = 0


def adopt() -> None:
    """Let orphans among this process's descendants become its children, so that `run` can find and kill them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(
    command: Sequence[str | Path],
    seconds: float,
    printed: Path,
    environ: Mapping[str, str] | None = None,
    poll: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a command for at most `seconds`, and kill it and all of its descendants then.

    Its output goes to the file `printed`; `poll` is called while it runs. It dies with this process.
    """
    start = time.monotonic()
    with printed.open("wb") as output:
        child = subprocess.Popen(
            [str(part) for part in command],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
        )
    while child.poll() is None and time.monotonic() - start < seconds:
        time.sleep(_POLL_SECONDS)
        poll()
    status = child.poll()
    held = _killed(child)
    return Ended(status, time.monotonic() - start, held)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _killed(child: "subprocess.Popen[bytes]") -> int:
    """Kill all descendants of this process; return the number of those that did not end in time."""
    end = time.monotonic() + _KILL_SECONDS
    while left := descendants(os.getpid()) - _held:
        if time.monotonic() > end:
            _held.update(left)
            return len(left)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
        # Before the others: its status is asked for by its own object.
        if child.poll() is not None:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    return 0


def descendants(ancestor: int) -> set[int]:
    """Return all processes below one that have not ended."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - only names
        with suppress(OSError, ValueError, IndexError):
            # The name of a program may contain blanks and brackets.
            state, parent = Path(f"/proc/{int(name)}/stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(name)] = int(parent)
    found: set[int] = set()
    new = {ancestor}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found
