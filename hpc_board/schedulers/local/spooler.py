"""The spooler: the process that serves one slot. Clients start it; it exits when no job waits."""

import ctypes
import fcntl
import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hpc_board.domain.run import JobState
from hpc_board.errors import StorageError
from hpc_board.files import lock_descriptor, read_bounded, write_whole
from hpc_board.harness.processes.tree import children_by_parent, ended, reap_orphans, signal_all
from hpc_board.model.gpu import Device
from hpc_board.model.job_environment import log_name
from hpc_board.model.text import one_line
from hpc_board.schedulers.local.queue import RECORD_BYTES_MAX, End, Entry, Queue, Slot, running, waiting
from hpc_board.schedulers.local.runner import LocalRunner, Request, request_of, runner_folder, runner_name

TERM_GRACE_SECONDS = 5.0
"""The time between SIGTERM and SIGKILL."""

_KILL_PATIENCE_SECONDS = 10.0
_KILL_PAUSE_SECONDS = 0.05
_PAUSE_SECONDS = 0.2
_STORAGE_PAUSE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> None:
    """Serve a slot in the background.

    The arguments are the queue's folder, the machine's name in it, the folder of its devices, the slot's pool and
    device, and the number of the inherited descriptor that makes this process the only one that serves the slot.
    """
    folder, host, devices, pool, device, serving = arguments
    if os.fork():
        return
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # An orphan of a job becomes a child of this process, which finds and ends it with the job.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    serve(Queue(Path(folder), host, Path(devices)), Slot(Device(pool), device), int(serving))


def serve(queue: Queue, slot: Slot, serving: int) -> None:
    """Run the jobs of the slot, one after the other, until none is left.

    The spooler decides to end while the queue is locked, and closes `serving` before it unlocks it: a client that has
    added a job finds the slot either served by a spooler that will see the job, or not served.
    """
    with queue.locked(patience_seconds=math.inf, create=False):
        lost = running(queue.unended(), queue.host, slot.pool).get(slot.device)
    spooler = _Spooler(queue, slot)
    spooler.end_runner()
    if lost is not None:
        _end_processes(lost.name)
        _store_end(queue, lost.number, End(JobState.NODE_FAIL, "its spooler was killed, or the machine restarted"))
    spooler.serve(serving)


class _Spooler:
    """The slot's jobs in turn; a runner judges runs with one request while several wait."""

    def __init__(self, queue: Queue, slot: Slot) -> None:
        self._queue = queue
        self._slot = slot
        self._runner: LocalRunner | None = None
        self._unfit: list[Request] = []
        """The requests whose runner did not take its first run."""

        self._note = queue.folder / f"runner-{queue.host}-{slot.file_name}"
        """The file that tells the spooler after a killed one of its runner."""

    def serve(self, serving: int) -> None:
        """Run jobs until none is left, and close `serving`."""
        while True:
            with self._queue.locked(patience_seconds=math.inf, create=False):
                ahead = waiting(self._queue.unended(), self._queue.host, self._slot.pool)
                if not ahead and self._runner is None:
                    os.close(serving)
                    return
                fits = self._runner is None or bool(ahead and self._runner.serves(request_of(ahead[0])))
                device = self._claimed_device() if fits else None
                if device is not None:
                    # Stored first, so that no job runs twice.
                    self._queue.record_start(ahead[0].number, self._slot.device)
            if self._runner is not None and not fits:
                self.end_runner()
                os.close(self._runner.device)
                self._runner = None
            elif device is None:
                time.sleep(_PAUSE_SECONDS)
            else:
                if self._runner is None and len(ahead) > 1:
                    self._start_runner(ahead[0], ahead[1], device)
                _store_end(self._queue, ahead[0].number, self._run(ahead[0], device))

    def _claimed_device(self) -> int | None:
        if self._runner is None:
            return self._queue.claim_device(self._slot)
        return self._runner.device if lock_descriptor(self._runner.device) else None

    def _start_runner(self, job: Entry, behind: Entry, device: int) -> None:
        """Start a runner for a job if the next one has the same request: a single run would not end earlier."""
        request = request_of(job)
        if request is None or request != request_of(behind) or request in self._unfit:
            return
        environment = {**job.environment, **self._slot.environment, **_names(job)}
        try:
            write_whole(self._note, str(runner_folder(job)).encode())
            self._runner = LocalRunner(job, request, environment, device)
        except OSError:
            self.end_runner()

    def _run(self, job: Entry, device: int) -> End:
        if self._runner is not None:
            end = self._runner.judge(job, self._unwanted(job))
            if end is not None:
                fcntl.flock(device, fcntl.LOCK_UN)
                return end
            if not self._runner.has_judged:
                self._unfit.append(self._runner.request)
            self.end_runner()
            self._runner = None
        try:
            return _run(self._queue, self._slot, job, device)
        finally:
            os.close(device)

    def _unwanted(self, job: Entry) -> Callable[[], bool]:
        """Return the function that waits for a moment, and returns whether the job is to be cancelled."""
        began = time.monotonic()

        def unwanted() -> bool:
            time.sleep(min(_PAUSE_SECONDS, 0.01 + (time.monotonic() - began) / 10))
            return self._queue.cancel_requested(job.number)

        return unwanted

    def end_runner(self) -> None:
        """End the processes of the slot's runner, also of a killed spooler's, and remove its folder."""
        with suppress(FileNotFoundError):
            folder = Path(os.fsdecode(read_bounded(self._note, RECORD_BYTES_MAX)))
            _end_processes(runner_name(folder))
            shutil.rmtree(folder, ignore_errors=True)
            self._note.unlink()


def _run(queue: Queue, slot: Slot, job: Entry, busy: int) -> End:
    """Run the job, and return its end once it and all its processes have ended."""
    began = time.monotonic()
    try:
        child = _start(slot, job, busy)
    except (OSError, ValueError) as error:
        return End(JobState.ENDED, one_line(f"cannot be started: {error}"))
    state, reason = JobState.ENDED, ""
    while state is JobState.ENDED and child.poll() is None:
        reap_orphans([child.pid])
        age_seconds = time.monotonic() - began
        if queue.cancel_requested(job.number):
            state, reason = JobState.CANCELLED, "cancelled while it ran"
        elif age_seconds >= job.time_limit_seconds:
            state, reason = JobState.TIMEOUT, f"exceeded its time limit of {job.time_limit_seconds} s"
        else:
            time.sleep(min(_PAUSE_SECONDS, 0.01 + age_seconds / 10))
    all_gone = _end_processes(job.name)
    code = child.poll() or 0
    if state is JobState.ENDED:
        reason = f"killed by signal {-code}" if code < 0 else f"exited with status {code}"
    return End(state, reason if all_gone else f"{reason}; some of its processes cannot be killed")


def _start(slot: Slot, job: Entry, busy: int) -> "subprocess.Popen[bytes]":
    folder = Path(job.folder)
    with (folder / log_name(str(job.number))).open("ab") as output:
        return subprocess.Popen(
            ["bash", str(folder / job.script)],
            cwd=folder,
            env={**job.environment, **slot.environment, **_names(job)},
            pass_fds=[busy],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _names(job: Entry) -> dict[str, str]:
    return {"SLURM_JOB_ID": str(job.number), "SLURM_JOB_NAME": job.name}


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
    here, children = os.getpid(), children_by_parent()
    marked = [pid for pids in children.values() for pid in pids if variable in _environment(pid)]
    found: set[int] = {here}
    heads = [*children.get(here, ()), *marked]
    while heads:
        head = heads.pop()
        if head not in found:
            found.add(head)
            heads += children.get(head, ())
    return [pid for pid in found if pid != here and not ended(pid)]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _store_end(queue: Queue, number: int, end: End) -> None:
    """Store the end, waiting while the disk is full; it has no other copy."""
    while True:
        try:
            with queue.locked(patience_seconds=math.inf, create=False):
                if queue.entry(number) is not None:
                    queue.record_end(number, end)
        except StorageError:
            if not queue.folder.is_dir():
                raise
        else:
            return
        time.sleep(_STORAGE_PAUSE_SECONDS)
