"""The processes of this node, as the system shows them: who is below whom, and stopping or killing many at once.

The system need not show all: where /proc is mounted with hidepid, a process that is not dumpable is hidden from its
own user. What is there and cannot be seen counts as running.
"""

import itertools
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

REAP_SECONDS = 5.0
"""How long a process that was killed may take to go."""

REAP_POLL_SECONDS = 0.002
_STOP_SECONDS = 1.0
_REAPED_MAX = 10_000
# The kernel's include/linux/posix-timers.h: the clock of a whole process, to the nanosecond.
_CPUCLOCK_SCHED = 2
_ENDED_STATES = ("Z", "X")
_STOPPED_STATES = ("T", "t", *_ENDED_STATES)
_UNSEEN_STATE = "?"
_UNSEEN_THREADS = 2**22
"""More threads than a system may have: those of a process that cannot be seen are too many in any case."""
_unseen = itertools.count(1)


class StillRunning(Exception):
    """Processes start others faster than they are stopped, or do not stay stopped."""


@contextmanager
def stopped_but(keep: Sequence[int]) -> Iterator[None]:
    """Stop every descendant but `keep` and what those have started, and let them go on afterwards.

    Raises:
        StillRunning: they start others without end, or one of them ran meanwhile.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    stopped: list[int] = []
    try:
        while True:
            running = [pid for pid in descendants_of(os.getpid(), keep) if pid not in stopped]
            if not running and all(map(all_stopped, stopped)):
                break
            if time.monotonic() >= deadline:
                raise StillRunning
            stopped += running
            signal_all(running or stopped, signal.SIGSTOP)
        before = turns(stopped)
        yield
        if turns(before) != before:
            raise StillRunning
    finally:
        signal_all(stopped, signal.SIGCONT)


def all_stopped(pid: int) -> bool:
    """Whether no thread of a process runs; one that is gone has none, of one that is hidden nobody knows."""
    try:
        threads = [thread.name for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return _gone(pid)
    return all(_state(f"{pid}/task/{thread}") in _STOPPED_STATES for thread in threads)


Turns = dict[int, dict[str, str]]
"""Of processes, how often each of their threads has been given a processor."""


def turns(pids: Iterable[int]) -> Turns:
    """How often each thread of some processes has been given a processor so far.

    A stopped process can be woken without anybody's help, by a timer of its own that sends SIGCONT, and stop itself
    again, or end: that it is stopped now and then says nothing of the time between. No process has been given one, and
    no thread has come or gone, as long as this is the same.
    """
    return {pid: _turns(pid) for pid in pids}


def _turns(pid: int) -> dict[str, str]:
    """The third field of schedstat, see the kernel's Documentation/scheduler/sched-stats; 0 where it is not kept.

    The first, how long a thread ran, still changes when the thread counts as stopped and is only about to leave its
    processor. What cannot be seen is never the same twice.
    """
    found: dict[str, str] = {}
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found[thread.name] = _turns_of_thread(thread)
    except OSError:
        if not _gone(pid):
            found["unseen"] = str(next(_unseen))
    return found


def _turns_of_thread(thread: Path) -> str:
    try:
        return (thread / "schedstat").read_text().rpartition(" ")[2]
    except OSError:
        return f"unseen {next(_unseen)}" if os.path.exists("/proc/self/schedstat") else ""  # noqa: PTH110 - never raises


def processor_ns(pid: int) -> int:
    """How long all threads of a process have run so far, in nanoseconds; 0 where it is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0


@dataclass(frozen=True)
class ProcessorTimes:
    """The system's account of a submission, read while all of it is stopped, in nanoseconds.

    `wait_ns` is how long the worker's first thread has waited for a processor, `others_ns` how long all of its other
    threads and the processes `beside` it have run. `last_pid` is the last process id that the node has
    given to anything; None where an account is missing, so that nothing is known.
    """

    wait_ns: int = 0
    others_ns: int = 0
    last_pid: int | None = None
    beside: frozenset[int] = frozenset()

    def waited_since(self, before: "ProcessorTimes") -> float:
        """Return for how long since `before` others than the submission had the processor that it waited for.

        What else of the submission ran meanwhile is taken off: it may be the cause of the waiting, and do the work.
        Where a process has begun since, that could have run and be gone, and of one that has ended since nobody knows
        for how long it ran: then nothing is excused.
        """
        if self.last_pid is None or self.last_pid != before.last_pid or self.beside != before.beside:
            return 0.0
        ran_ns = max(0, self.others_ns - before.others_ns)
        return float(max(0, self.wait_ns - before.wait_ns - ran_ns))


def processor_times(worker: int, company: Sequence[int]) -> ProcessorTimes:
    """Return the account of a worker and of the processes that it has started, all of which are stopped.

    The fields of schedstat are in the kernel's Documentation/scheduler/sched-stats, those of loadavg in proc(5).
    """
    try:
        run, wait, _ = Path(f"/proc/{worker}/task/{worker}/schedstat").read_text().split()
        last_pid = int(Path("/proc/loadavg").read_text().split()[-1])
    except (OSError, ValueError):
        return ProcessorTimes()
    others_ns = processor_ns(worker) - int(run) + sum(map(processor_ns, company))
    beside = frozenset(pid for pid in company if not ended(pid))
    return ProcessorTimes(int(wait), others_ns, last_pid, beside)


def ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for its status to be taken."""
    return _state(str(pid)) in _ENDED_STATES


def _state(process: str) -> str:
    """The state of a process, or of a thread as `process/task/thread`; "X" for one that is gone."""
    try:
        return stat_fields(process)[0]
    except OSError:
        return "X" if _gone(int(process.rpartition("/")[2])) else _UNSEEN_STATE


def _gone(pid: int) -> bool:
    """Whether there is no such process or thread any more, whatever may be seen of it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    with suppress(ChildProcessError):
        # A child that has ended is there until its status is taken.
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes, of which some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_orphans(keep: Sequence[int], patience_seconds: float = REAP_SECONDS) -> int:
    """Kill every descendant but `keep`, and return how many are still there after that time.

    Those of dead workers have become children of this subreaper.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        orphans = [pid for pid in children_of(os.getpid()) if pid not in keep]
        if not orphans or time.monotonic() >= deadline:
            return len(orphans)
        for pid in orphans:
            with suppress(ProcessLookupError, ChildProcessError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(REAP_POLL_SECONDS)


def reap_orphans(keep: Sequence[int]) -> None:
    """Take the status of ended descendants but `keep`, so that a worker cannot fill the process table.

    Of so many at most that somebody who starts processes all the time does not hold this one up.
    """
    for _ in range(_REAPED_MAX):
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in keep:
            return
        with suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def children_of(parent: int) -> list[int]:
    """The processes whose parent is `parent`, hidden ones too where the kernel tells of them."""
    return _with_hidden(parent, children_by_parent())


def _with_hidden(parent: int, children: dict[int, list[int]]) -> list[int]:
    """The `children` of a process, and those that are not shown to this process's user."""
    return list(dict.fromkeys([*children.get(parent, ()), *(_children(parent) or ())]))


def descendants_of(top: int, leaving_out: Sequence[int] = ()) -> list[int]:
    """The processes below `top`, without some and without those below them."""
    children = children_by_parent()
    found: dict[int, None] = {}
    generation = [top]
    while generation:
        below_them = [pid for parent in generation for pid in _with_hidden(parent, children)]
        generation = [pid for pid in below_them if pid not in leaving_out and pid not in found]
        found.update(dict.fromkeys(generation))
    return list(found)


def below(top: int, leaving_out: Sequence[int] = ()) -> list[int]:
    """The same as `descendants_of`, faster than by looking at every process of the node where the kernel allows it.

    A process that ends meanwhile may hide another, so that this is for processes that are stopped.
    """
    found: list[int] = []
    waiting = [top]
    while waiting:
        children = _children(waiting.pop())
        if children is None:
            return descendants_of(top, leaving_out)
        new = [pid for pid in children if pid not in leaving_out]
        found += new
        waiting += new
    return found


def _children(parent: int) -> list[int] | None:
    """The processes that a process's threads have started or adopted; None where the kernel does not tell."""
    found: list[int] = []
    try:
        threads = list(Path(f"/proc/{parent}/task").iterdir())
    except OSError:
        return found
    for thread in threads:
        try:
            found += map(int, (thread / "children").read_bytes().split())
        except OSError:
            if thread.exists():
                return None
    return found


def children_by_parent() -> dict[int, list[int]]:
    """The processes of this node that are shown, below their parents."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                children.setdefault(int(stat_fields(entry.name)[1]), []).append(int(entry.name))
    return children


def thread_count(pid: int) -> int:
    """How many threads a process has; 0 where it is gone, and too many where it is hidden."""
    try:
        return int(stat_fields(pid)[17])
    except OSError:
        return 0 if _gone(pid) else _UNSEEN_THREADS


def stat_fields(process: int | str) -> list[str]:
    """What the system says of a process, by its id, from its state on, which is field 3 of proc(5).

    Raises:
        OSError: there is no such process, or it is hidden.
    """
    # The field before may hold anything, brackets among it.
    return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
