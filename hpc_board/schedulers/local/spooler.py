"""The spooler: the process that serves one slot. Clients start it; it exits when the queue is empty."""

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hpc_board.domain.run import JobState
from hpc_board.errors import StorageError
from hpc_board.model.text import one_line
from hpc_board.schedulers import log_name
from hpc_board.schedulers.local.processes import (
    Process,
    boot_id,
    end_processes,
    family,
    has_variable,
    process,
    processes,
)
from hpc_board.schedulers.local.queue import Queue, running, waiting
from hpc_board.schedulers.local.records import End, Start, Ticket
from hpc_board.schedulers.local.slots import Slot, slot_environment

GATE = 'read -r go && exec bash "$1" </dev/null'
"""Starts the script once a line arrives. The line is sent when the start is on disk, so that no job runs twice: if
the spooler dies before, its end of the pipe closes and the script never starts.
"""

_PAUSE_SECONDS = 0.2
_STORAGE_PAUSE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36


class StartedJob:
    """A job that runs, as the process that serves its slot sees it: its own child, or one that it has adopted."""

    def __init__(self, ticket: Ticket, start: Start, child: subprocess.Popen[bytes] | None) -> None:
        self.ticket = ticket
        self.start = start
        self._child = child
        self._variable = os.fsencode(f"SLURM_JOB_NAME={ticket.name}")

    @property
    def exit_code(self) -> int | None:
        """Return the script's exit status, negative for a signal; None while it runs, or if it is unknown."""
        return None if self._child is None else self._child.returncode

    def is_running(self) -> bool:
        """Return whether the script still runs."""
        self._reap()
        if self._child is not None:
            return self._child.returncode is None
        return self._leader_is_there()

    def members(self) -> list[Process]:
        """Return the processes of the job that have not ended, in any session."""
        self._reap()
        everyone = processes()
        session = self.start.leader if self._leader_is_there() else None
        here = os.getpid()
        return family(
            (one for one in everyone if one.pid != here),
            lambda one: one.session == session or one.parent == here or self._is_marked(one),
        )

    def _leader_is_there(self) -> bool:
        leader = process(self.start.leader)
        return leader is not None and leader.start_ticks == self.start.start_ticks

    def _is_marked(self, one: Process) -> bool:
        return one.start_ticks >= self.start.start_ticks and has_variable(one.pid, self._variable)

    def _reap(self) -> None:
        """Reap ended children, among them the job's orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._child is not None and pid == self._child.pid:
                self._child.returncode = os.waitstatus_to_exitcode(status)


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
    serve(Queue(Path(folder), host, Path(devices)), Slot(pool, device), int(serving))


def serve(queue: Queue, slot: Slot, serving: int) -> None:
    """Run the jobs of the slot, one after the other, until none is left; an earlier spooler's job comes first.

    The spooler decides to end while the queue is locked, and closes `serving` before it unlocks it: a client that has
    added a job finds the slot either served by a spooler that will see the job, or not served.
    """
    while True:
        with queue.locked(patience_seconds=math.inf):
            entries = queue.unended()
            ahead = waiting(entries, queue.host, slot.pool)
            earlier = running(entries, queue.host, slot.pool).get(slot.device)
            if earlier is not None and earlier.start is not None:
                job: StartedJob | None = StartedJob(earlier.ticket, earlier.start, None)
            elif ahead:
                job = _started(queue, slot, ahead[0].ticket)
            else:
                os.close(serving)
                return
        if job is None:
            time.sleep(_PAUSE_SECONDS)
        else:
            _store_end(queue, job.ticket.number, _outcome(queue, job))


def _started(queue: Queue, slot: Slot, ticket: Ticket) -> StartedJob | None:
    """Start the job; return None if it ended at once, or if processes of an earlier job still have the device."""
    busy = queue.claim_device(slot)
    if busy is None:
        return None
    try:
        child = _bash_at_the_gate(ticket, slot, busy)
    except (OSError, ValueError) as error:
        reason = one_line(f"cannot be started: {error}")
        queue.record_end(ticket.number, End(JobState.ENDED.value, reason, None))
        return None
    finally:
        os.close(busy)
    leader = process(child.pid)
    if leader is None or child.stdin is None:
        child.wait()
        return None
    start = Start(slot.device, leader.pid, leader.start_ticks, boot_id(), time.monotonic())
    queue.record_start(ticket.number, start)
    with contextlib.suppress(BrokenPipeError), child.stdin as gate:
        gate.write(b"go\n")
    return StartedJob(ticket, start, child)


def _bash_at_the_gate(ticket: Ticket, slot: Slot, busy: int) -> subprocess.Popen[bytes]:
    folder = Path(ticket.folder)
    names = {"SLURM_JOB_ID": str(ticket.number), "SLURM_JOB_NAME": ticket.name}
    with (folder / log_name(str(ticket.number))).open("ab") as output:
        return subprocess.Popen(
            ["bash", "-c", GATE, "bash", str(folder / ticket.script)],
            bufsize=0,
            cwd=folder,
            env={**ticket.environment, **slot_environment(slot), **names},
            pass_fds=[busy],
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _outcome(queue: Queue, job: StartedJob) -> End:
    """Return the end of the job, once it and all its processes have ended."""
    if job.start.boot != boot_id():
        return End(JobState.NODE_FAIL.value, "the machine was restarted while the job ran", None)
    limit = job.ticket.time_limit_seconds
    state, reason = JobState.ENDED, ""
    while job.is_running():
        age_seconds = time.monotonic() - job.start.monotonic_s
        if queue.cancel_requested(job.ticket.number):
            state, reason = JobState.CANCELLED, "cancelled while it ran"
            break
        if age_seconds >= limit:
            state, reason = JobState.TIMEOUT, f"ran into its time limit of {limit} s"
            break
        time.sleep(min(_PAUSE_SECONDS, 0.01 + age_seconds / 10))
    all_gone = end_processes(job.members)
    if state is JobState.ENDED:
        state, reason = _own_end(queue, job)
    return End(state.value, reason if all_gone else f"{reason}; some of its processes cannot be ended", job.exit_code)


def _own_end(queue: Queue, job: StartedJob) -> tuple[JobState, str]:
    code = job.exit_code
    if code is None and queue.cancel_requested(job.ticket.number):
        return JobState.CANCELLED, "cancelled while it ran"
    if code is None:
        return JobState.ENDED, "ended while its spooler was gone; the exit status is unknown"
    return JobState.ENDED, f"ended by signal {-code}" if code < 0 else f"ended with exit status {code}"


def _store_end(queue: Queue, number: int, end: End) -> None:
    """Store the end, waiting while the disk is full; it has no other copy."""
    while True:
        try:
            with queue.locked(patience_seconds=math.inf):
                if queue.entry(number) is not None:
                    queue.record_end(number, end)
        except StorageError:
            if not queue.folder.is_dir():
                raise
        else:
            return
        time.sleep(_STORAGE_PAUSE_SECONDS)
