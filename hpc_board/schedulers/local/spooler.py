"""The spooler: the process that serves one slot. Clients start it; it exits when no job waits."""

import ctypes
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hpc_board.files import lock_descriptor, read_bounded, write_whole
from hpc_board.harness.processes.tree import children_by_parent, descendants_of, ended, reap_orphans, signal_all
from hpc_board.model.gpu import Device
from hpc_board.model.runner import QUEUE, End, record_end
from hpc_board.model.text import one_line
from hpc_board.schedulers.local.queue import ENTRY_BYTES_MAX, Entry, Pool, Slot
from hpc_board.schedulers.local.runner import LocalRunner, started

TERM_GRACE_SECONDS = 5.0
"""The time between SIGTERM and SIGKILL."""

_KILL_PATIENCE_SECONDS = 10.0
_KILL_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS = 0.2
_STORAGE_PAUSE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> None:
    """Serve a slot in the background, unless another process does.

    The arguments are the folder of the slot's pool, the machine's name, the kind of the pool, the folder of the
    machine's devices, and the slot's device.
    """
    folder, host, kind, devices, device = arguments
    slot = Slot(Pool(Path(folder), host, Device(kind), Path(devices)), device)
    if os.fork():
        return
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # An orphan of a job becomes a child of this process, which finds and ends it with the job.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Claimed here alone: a copy of the descriptor in the parent would outlive the spooler's.
    serving = slot.claim_serving()
    while serving is not None:
        _Spooler(slot).serve()
        os.close(serving)
        # The client that has added a job just now has found the slot served.
        serving = slot.claim_serving() if slot.pool.waiting() else None


class _Spooler:
    """The jobs of one slot in turn; a runner judges runs with one request while several wait."""

    def __init__(self, slot: Slot) -> None:
        self._slot, self._pool = slot, slot.pool
        self._runner: LocalRunner | None = None
        self._unfit: list[Entry] = []
        """Jobs whose runner did not take them, its first run."""

        self._note = slot.pool.folder / f"runner-{slot.name}"
        """The file that tells the spooler after a killed one of its runner."""

    def _end_lost(self) -> None:
        self._end_runner()
        for name in [name for name, slot in self._pool.taken().items() if slot == self._slot]:
            _end_processes(name.partition(".")[2])
            lost = End("node_fail", "its spooler was killed, or the machine restarted")
            self._store_end(name, self._pool.end_of(name) or lost)

    def serve(self) -> None:
        """End the runner and the job of a killed spooler, and run jobs until none is left."""
        self._end_lost()
        while (names := self._pool.waiting()) or self._runner is not None:
            try:
                job, behind = [*map(self._pool.entry, names[:2]), None, None][:2]
            except FileNotFoundError:
                continue
            if self._runner is not None and not self._runner.serves(job):
                device = self._runner.device
                self._end_runner()
                os.close(device)
            elif (claimed := self._claimed_device()) is None:
                time.sleep(_PAUSE_SECONDS)
            elif not self._take(names[0]):
                self._release(claimed)
            elif job is None:
                self._release(claimed)
                self._store_end(names[0], End("node_fail", "its file in the queue is damaged"))
            else:
                self._store_end(names[0], self._ended(names[0], job, behind, claimed))

    def _claimed_device(self) -> int | None:
        if self._runner is None:
            return self._slot.claim_device()
        return self._runner.device if lock_descriptor(self._runner.device) else None

    def _release(self, device: int) -> None:
        if self._runner is None:
            os.close(device)
        else:
            fcntl.flock(device, fcntl.LOCK_UN)

    def _take(self, name: str) -> bool:
        """Take a job out of the queue, so that nothing else starts or withdraws it; return False if it is gone."""
        taken = self._pool.folder / self._slot.taken
        taken.mkdir(mode=0o700, exist_ok=True)
        try:
            (self._pool.folder / QUEUE / name).rename(taken / name)
        except FileNotFoundError:
            return False
        return True

    def _ended(self, name: str, job: Entry, behind: Entry | None, device: int) -> End:
        """Run a job, and return its end once it and all its processes have ended."""
        began = time.monotonic()

        def unwanted() -> bool:
            time.sleep(min(_PAUSE_SECONDS, 0.01 + (time.monotonic() - began) / 10))
            return self._pool.queue.is_stopped(name)

        # A single run would not end earlier at a runner.
        if self._runner is None and behind is not None and job.may_share_runner(behind):
            self._start_runner(job, device)
        try:
            if self._runner is not None:
                end = self._runner.judge(job, unwanted)
                if end is not None:
                    return end
                if not self._runner.has_judged:
                    self._unfit.append(job)
                self._end_runner()
            return _ended_alone(self._slot, job, device, unwanted)
        finally:
            self._release(device)

    def _start_runner(self, job: Entry, device: int) -> None:
        if any(map(job.may_share_runner, self._unfit)):
            return
        folder = Path(job.folder).with_name(f"{job.name}-runner")
        try:
            write_whole(self._note, str(folder).encode())
            self._runner = LocalRunner(job, folder, self._slot, device)
        except (OSError, ValueError, LookupError, TypeError):
            self._end_runner()

    def _end_runner(self) -> None:
        """End the processes of the slot's runner, also of a killed spooler's, and remove its folder."""
        with suppress(FileNotFoundError):
            folder = Path(os.fsdecode(read_bounded(self._note, ENTRY_BYTES_MAX)))
            _end_processes(folder.name)
            shutil.rmtree(folder, ignore_errors=True)
            self._note.unlink()
        self._runner = None

    def _store_end(self, name: str, end: End) -> None:
        """Store the end, waiting while the disk is full; it has no other copy."""
        while True:
            try:
                record_end(self._pool.folder, name, end, self._slot.taken)
            except OSError:
                if not self._pool.folder.is_dir():
                    raise
            else:
                return
            time.sleep(_STORAGE_PAUSE_SECONDS)


def _ended_alone(slot: Slot, job: Entry, device: int, unwanted: Callable[[], bool]) -> End:
    """Run a job with its own batch script, and return its end."""
    began = time.monotonic()
    try:
        child = started(job, slot, device)
    except (OSError, ValueError) as error:
        return End("ended", one_line(f"cannot be started: {error}"))
    state, reason = "ended", ""
    while state == "ended" and child.poll() is None:
        reap_orphans([child.pid])
        if unwanted():
            state, reason = "cancelled", "cancelled while it ran"
        elif time.monotonic() - began >= job.seconds:
            state, reason = "timeout", f"exceeded its time limit of {job.seconds} s"
    all_gone = _end_processes(job.name)
    code = child.poll() or 0
    if state == "ended":
        reason = f"killed by signal {-code}" if code < 0 else f"exited with status {code}"
    return End(state, reason if all_gone else f"{reason}; some of its processes cannot be killed")


def _end_processes(name: str) -> bool:
    """End the processes of the job `name`, by SIGTERM and then by SIGKILL, and return whether none is left."""
    signal_all(_members(name), signal.SIGTERM)
    began = time.monotonic()
    while left := _members(name):
        waited_seconds = time.monotonic() - began
        if waited_seconds >= TERM_GRACE_SECONDS + _KILL_PATIENCE_SECONDS:
            return False
        if waited_seconds >= TERM_GRACE_SECONDS:
            signal_all(left, signal.SIGKILL)
        time.sleep(_KILL_PAUSE_SECONDS)
    return True


def _members(name: str) -> list[int]:
    """Return the processes of the job that have not ended: those below this one, and those marked with its name."""
    variable = os.fsencode(f"SLURM_JOB_NAME={name}")
    marked = [pid for pids in children_by_parent().values() for pid in pids if variable in _environment(pid)]
    found = {*marked, *descendants_of(os.getpid(), *marked)} - {os.getpid()}
    return [pid for pid in found if not ended(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
