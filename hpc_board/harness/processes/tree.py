"""Processes of this node as /proc shows them: parents and children, and stopping or killing many at once.

/proc may hide some: mounted with hidepid, it hides a process that is not dumpable even from its own user. A process
that exists and cannot be seen counts as running.
"""

import itertools
import math
import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

REAP_SECONDS = 5.0
"""Time within which a killed process should end."""

REAP_POLL_SECONDS = 0.002
_STOP_SECONDS = 1.0
_REAPED_MAX = 10_000
_READ_BYTES = 2**16
# The kernel's include/linux/posix-timers.h: the clock of a whole process, in nanoseconds.
_CPUCLOCK_SCHED = 2
_ENDED_STATES = ("Z", "X")
_STOPPED_STATES = ("T", "t", *_ENDED_STATES)
_UNSEEN_STATE = "?"
_UNSEEN_THREADS = 2**22
"""A thread count above any system's limit, for processes that cannot be seen: too many in any case."""
_unseen = itertools.count(1)
_SLEEPS_OF_A_ROW = 2
"""The sleeps of a worker's first thread in a row: it waits for the next request, and is stopped."""


class StillRunning(Exception):
    """Processes start others faster than they are stopped, or do not stay stopped."""


@contextmanager
def stopped_but(keep: Sequence[int]) -> Iterator[None]:
    """Stop every descendant except `keep` and their descendants, and continue them afterwards.

    Raises:
        StillRunning: the descendants start others without end, or one of them ran meanwhile.
    """
    deadline = time.monotonic() + _STOP_SECONDS
    stopped: list[int] = []
    try:
        while True:
            running = [pid for pid in descendants_of(os.getpid(), leaving_out=keep) if pid not in stopped]
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
    """Return whether no thread of a process runs; True for an ended process, False for a hidden one."""
    try:
        threads = [thread.name for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return _gone(pid)
    return all(_state(f"{pid}/task/{thread}") in _STOPPED_STATES for thread in threads)


Turns = dict[int, dict[str, str]]
"""Number of times each thread of each process has been scheduled."""


def turns(pids: Iterable[int]) -> Turns:
    """Return how often each thread of some processes has been scheduled so far.

    A stopped process can be woken by a timer of its own that sends SIGCONT, without help from another process, and stop
    itself again, or end: its state at two moments proves nothing about the time between. While this value is the same,
    no thread was scheduled, and no thread began or ended.
    """
    return {pid: _turns(pid) for pid in pids}


def _turns(pid: int) -> dict[str, str]:
    """Return the third field of schedstat, see the kernel's Documentation/scheduler/sched-stats.

    It is 0 if the kernel does not count it. The first field, a thread's run time, still changes when the thread counts
    as stopped and is only about to leave its processor. An unreadable value never equals another.
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
    """Return the total run time of all threads of a process in nanoseconds; 0 if the process is gone."""
    try:
        return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return 0


@dataclass(frozen=True)
class ProcessorTimes:
    """The kernel's times of a submission, read while all of it is stopped, in nanoseconds.

    `run_ns` is the run time of the worker's first thread, or of the worker if the kernel does not count it by threads;
    `wait_ns` is the time that this thread has waited for a processor, and `sleeps` the number of times that it gave its
    processor up to sleep or stop. `others_ns` is the run time of all its other threads and of the processes `siblings`.
    `last_pid` is the last process id that the node has assigned; None if a value is missing, and then no waiting is
    known.
    """

    run_ns: int = 0
    wait_ns: int = 0
    sleeps: int = 0
    others_ns: int = 0
    last_pid: int | None = None
    siblings: frozenset[int] = frozenset()

    def ran_since(self, before: "ProcessorTimes") -> int:
        """Return the run time of the worker's first thread since `before`."""
        return max(0, self.run_ns - before.run_ns)

    def worked_since(self, before: "ProcessorTimes") -> float:
        """Return the run time of the whole submission since `before`; infinite if it may have had other processes."""
        if not self._same_processes(before):
            return math.inf
        return float(max(0, self.run_ns - before.run_ns + self.others_ns - before.others_ns))

    def _same_processes(self, before: "ProcessorTimes") -> bool:
        """Return whether no process or thread has begun on this node since, and none of the submission has ended."""
        return self.last_pid is not None and (self.last_pid, self.siblings) == (before.last_pid, before.siblings)

    def waited_since(self, before: "ProcessorTimes", wall_ns: int) -> float:
        """Return for how long since `before` processes outside of the submission had the processor that it waited for.

        `wall_ns` is the elapsed time: a thread does not run while it waits, whatever the kernel has counted.
        The run time of the submission's other threads and processes is subtracted: they may have caused the waiting and
        done the work. If a process has begun since, it could have run and be gone; if one has ended since, its run time
        is unknown: in both cases no waiting is excused. Neither is it if the thread slept, but for the next request:
        on a busy machine Linux 6.18 counts part of some sleeps as waiting.
        """
        if not self._same_processes(before):
            return 0.0
        if self.sleeps - before.sleeps > _SLEEPS_OF_A_ROW:
            return 0.0
        ran_ns = max(0, self.others_ns - before.others_ns)
        waited_ns = self.wait_ns - before.wait_ns - ran_ns
        return float(max(0, min(waited_ns, wall_ns - self.ran_since(before))))


def processor_times(worker: int, siblings: Sequence[int]) -> ProcessorTimes:
    """Return the times of a worker and of the processes that it has started, all of which are stopped.

    The fields of schedstat are in the kernel's Documentation/scheduler/sched-stats, those of status and loadavg in
    proc(5).
    """
    thread = Path(f"/proc/{worker}/task/{worker}")
    try:
        run, wait, _ = map(int, (thread / "schedstat").read_text().split())
        sleeps = int((thread / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        last_pid = int(Path("/proc/loadavg").read_text().split()[-1])
    except (OSError, ValueError, IndexError):
        return ProcessorTimes(processor_ns(worker))
    others_ns = processor_ns(worker) - run + sum(map(processor_ns, siblings))
    running = frozenset(pid for pid in siblings if not ended(pid))
    return ProcessorTimes(run, wait, sleeps, others_ns, last_pid, running)


def ended(pid: int) -> bool:
    """Return whether a process is gone, or only waits to be reaped."""
    return _state(str(pid)) in _ENDED_STATES


def _state(process: str) -> str:
    """Return the state of a process, or of a thread as `process/task/thread`; "X" if it is gone."""
    try:
        return stat_fields(process)[0]
    except OSError:
        return "X" if _gone(int(process.rpartition("/")[2])) else _UNSEEN_STATE


def _gone(pid: int) -> bool:
    """Return whether a process or thread no longer exists, independent of /proc's view of it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    with suppress(ChildProcessError):
        # A child that has ended exists until it is reaped.
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; some may be gone."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_orphans(keep: Sequence[int], patience_seconds: float = REAP_SECONDS) -> int:
    """Kill every descendant except `keep`, and return how many are left after that time.

    Descendants of dead workers have become children of this subreaper.
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
    """Reap ended descendants except `keep`, so that a worker cannot fill the process table.

    The number per call is bounded, so that a worker that starts processes all the time does not delay this process.
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
    """Return the processes whose parent is `parent`, including hidden ones if the kernel lists them."""
    return _with_hidden(parent, children_by_parent())


def _with_hidden(parent: int, children: dict[int, list[int]]) -> list[int]:
    """Return the `children` of a process, and those that /proc hides from this process's user."""
    return list(dict.fromkeys([*children.get(parent, ()), *(_children(parent) or ())]))


def descendants_of(*tops: int, leaving_out: Sequence[int] = ()) -> list[int]:
    """Return the processes below any of `tops`, without `leaving_out` and their descendants."""
    children = children_by_parent()
    found: dict[int, None] = {}
    generation = [*tops]
    while generation:
        next_generation = [pid for parent in generation for pid in _with_hidden(parent, children)]
        generation = [pid for pid in next_generation if pid not in leaving_out and pid not in found]
        found.update(dict.fromkeys(generation))
    return list(found)


def below(top: int, leaving_out: Sequence[int] = ()) -> list[int]:
    """Return `descendants_of`, without a scan of every process of the node if the kernel allows it.

    A process that ends meanwhile may hide another, so this is for stopped processes.
    """
    found: list[int] = []
    waiting = [top]
    while waiting:
        children = _children(waiting.pop())
        if children is None:
            return descendants_of(top, leaving_out=leaving_out)
        new = [pid for pid in children if pid not in leaving_out]
        found += new
        waiting += new
    return found


def _children(parent: int) -> list[int] | None:
    """Return the processes that a process's threads have started or adopted; None if the kernel does not list them."""
    found: list[int] = []
    try:
        with os.scandir(f"/proc/{parent}/task") as entries:
            threads = [entry.path for entry in entries]
    except OSError:
        return found
    for thread in threads:
        try:
            found += map(int, _read(f"{thread}/children").split())
        except OSError:
            if Path(thread).exists():
                return None
    return found


def _read(path: str) -> bytes:
    """Return the contents of a file in /proc, for a third of the time that a file object takes.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = [os.read(descriptor, _READ_BYTES)]
        while len(parts[-1]) == _READ_BYTES:
            parts.append(os.read(descriptor, _READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def children_by_parent() -> dict[int, list[int]]:
    """Return the visible processes of this node, grouped by parent."""
    children: dict[int, list[int]] = {}
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries]
    for name in names:
        if name.isdigit():
            with suppress(OSError):
                children.setdefault(int(stat_fields(name)[1]), []).append(int(name))
    return children


def thread_count(pid: int) -> int:
    """Return the number of a process's threads; 0 if it is gone, and more than any limit if it is hidden."""
    try:
        return int(stat_fields(pid)[17])
    except OSError:
        return 0 if _gone(pid) else _UNSEEN_THREADS


def stat_fields(process: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on, which is field 3 of proc(5).

    Raises:
        OSError: the process does not exist, or is hidden.
    """
    # A ranked run reads those of all processes of the node some hundred times. Field 2 may hold brackets.
    return _read(f"/proc/{process}/stat").rpartition(b")")[2].decode().split()
