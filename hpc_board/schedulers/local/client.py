"""The embedded scheduler's client: a queue on disk, and spoolers that live as long as they have work."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

import hpc_board
from hpc_board.domain.run import JobState, JobStatus
from hpc_board.errors import SchedulerError, SchedulerRefused, StorageError
from hpc_board.model.gpu import Availability, Cluster, Device, Gpu
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.local.queue import End, Entry, Queue, Slot, is_number, running, slots, waiting

JOB_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LD_LIBRARY_PATH")
"""The part of the submitter's environment that jobs get."""

LOG_BYTES_MAX = 256 * 1024
"""The size from which the spoolers' log is begun anew."""

_SPOOLER = (
    "import sys; sys.path += sys.argv[1:3]; from hpc_board.schedulers.local.spooler import main; main(sys.argv[3:])"
)
_START_PATIENCE_SECONDS = 60


class LocalScheduler:
    """A cluster that is only this machine. Jobs outlive the client; every client that polls sees to it that they run.

    `folder` holds the queue. One job at a time runs on the CPU, and one on each GPU. Queues with the same folder
    `devices` share the machine's devices: a job waits until no other queue's job has its own.
    """

    def __init__(self, cluster: Cluster, folder: Path, *, devices: Path | None = None) -> None:
        self._cluster = cluster
        self._queue = Queue(folder.absolute(), socket.gethostname(), devices)

    def command(self, job: Job) -> Sequence[str]:
        return ["bash", str(job.folder / job.script)]

    def submit(self, job: Job) -> str:
        environment = {name: os.environ[name] for name in JOB_VARIABLES if name in os.environ}
        if shutil.which("bash") is None:
            raise SchedulerRefused("bash is not on PATH", hint="Install bash; jobs on this machine are bash scripts.")
        if not self._slots(job.gpu.device):
            raise SchedulerRefused(
                f"no {job.gpu.device} device can be used for {job.gpu.name} on {self._queue.host}",
                hint="Check CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES, or choose another GPU.",
            )
        with self._queue.locked():
            number = self._queue.add(
                name=job.name,
                pool=job.gpu.device,
                folder=job.folder.absolute(),
                script=job.script,
                time_limit_seconds=job.time_limit_seconds,
                environment=environment,
                # A site's own template may do something for each run, and a container sees only its run's folder.
                shares_runner=not (job.gpu.template or job.gpu.container),
            )
        self._start_spoolers()
        return str(number)

    def find(self, job: JobKey) -> str | None:
        with self._queue.locked():
            number = self._queue.find(job.name, job.submitted_at)
        return None if number is None else str(number)

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        """Return the status of each job, by its name; replace spoolers that died."""
        with self._queue.locked():
            entries = self._queue.unended()
            news = {job.name: self._news(self._entry(job), entries) for job in jobs}
        self._start_spoolers()
        return news

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """End the jobs: a waiting one at once, a running one as soon as its spooler reads the request."""
        with self._queue.locked():
            for entry in filter(None, map(self._entry, jobs)):
                if entry.end is not None:
                    continue
                if entry.device is None:
                    end = End(JobState.CANCELLED, "cancelled while it waited")
                    self._queue.record_end(entry.number, end)
                else:
                    self._queue.request_cancel(entry.number)
        self._start_spoolers()

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        # A free slot is of no use where no job can start in it.
        self._start_spoolers()
        with self._queue.locked():
            entries = self._queue.unended()
            return [self._availability(gpu, entries) for gpu in gpus]

    def _availability(self, gpu: Gpu, entries: Sequence[Entry]) -> Availability:
        total = len(self._slots(gpu.device))
        queued = len(waiting(entries, self._queue.host, gpu.device))
        return Availability(gpu.name, self._free(gpu.device, entries), total, queued, "up" if total else "no device")

    def _free(self, pool: Device, entries: Sequence[Entry]) -> int:
        """Return the number of slots that no job of this queue or another one has."""
        own = running(entries, self._queue.host, pool)
        return sum(slot.device not in own and not self._queue.device_is_busy(slot) for slot in self._slots(pool))

    def _entry(self, job: JobKey) -> Entry | None:
        entry = self._queue.entry(int(job.job_id)) if is_number(job.job_id) else None
        return entry if entry is not None and entry.name == job.name else None

    def _news(self, entry: Entry | None, entries: Sequence[Entry]) -> JobStatus:
        if entry is None:
            return JobStatus(JobState.MISSING, source="local: the queue has no such job")
        job_id = str(entry.number)
        if entry.end is not None:
            return JobStatus(entry.end.state, job_id, entry.end.reason, entry.host, f"local: {entry.end.reason}")
        if entry.device is not None:
            reason = "is being cancelled" if entry.cancelled else ""
            source = f"local: runs on {entry.pool} {entry.device}"
            return JobStatus(JobState.RUNNING, job_id, reason, entry.host, source)
        position = [each.number for each in waiting(entries, entry.host, entry.pool)].index(entry.number) + 1
        reason = f"position {position} in the queue"
        if position == 1 and entry.host == self._queue.host:
            own = running(entries, entry.host, entry.pool)
            if len(own) < len(self._slots(entry.pool)) and not self._free(entry.pool, entries):
                reason = "waits for a job of another board to release the device"
        return JobStatus(JobState.PENDING, job_id, reason, source=f"local: waits on {entry.host}")

    def _slots(self, device: Device) -> tuple[Slot, ...]:
        return slots(device, os.environ, _nvidia_gpus())

    def _start_spoolers(self) -> None:
        """Start a spooler for every slot with a job, and one for each waiting job, up to the number of slots."""
        host = self._queue.host
        try:
            with self._queue.locked():
                entries = self._queue.unended()
            for pool in sorted({entry.pool for entry in entries if entry.host == host}):
                taken = [Slot(pool, device) for device in running(entries, host, pool)]
                others = [slot for slot in self._slots(pool) if slot not in taken]
                wanted = len(waiting(entries, host, pool))
                for slot in taken:
                    self._start_spooler(slot)
                for slot in others:
                    if wanted and self._start_spooler(slot):
                        wanted -= 1
        except (OSError, StorageError, subprocess.SubprocessError) as error:
            raise SchedulerError(
                f"cluster {self._cluster.name} is down: no spooler could be started to run its jobs: "
                f"{_reason(error)}; its log is {self._log}",
                hint="The jobs stay in the queue until the next try.",
            ) from error

    def _start_spooler(self, slot: Slot) -> bool:
        """Start a process that serves the slot, and return whether it was needed."""
        serving = self._queue.claim_serving(slot)
        if serving is None:
            return False
        try:
            self._run_spooler(slot, serving)
        finally:
            os.close(serving)
        return True

    def _run_spooler(self, slot: Slot, serving: int) -> None:
        # Without the site module, which reads every package's start-up files, Python finds only these two.
        packages = [str(Path(file).absolute().parents[1]) for file in (hpc_board.__file__, msgspec.__file__)]
        queue = [str(self._queue.folder), self._queue.host, str(self._queue.devices)]
        place = [*queue, slot.pool, slot.device, str(serving)]
        with self._log.open("ab") as log:
            if log.tell() > LOG_BYTES_MAX:
                log.truncate(0)
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", _SPOOLER, *packages, *place],
                check=True,
                cwd="/",
                env={name: os.environ[name] for name in JOB_VARIABLES if name in os.environ},
                pass_fds=[serving],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=_START_PATIENCE_SECONDS,
            )

    @property
    def _log(self) -> Path:
        return self._queue.folder / "spooler.log"


def _reason(error: Exception) -> str:
    """Return the reason of a failed start, without the whole command that failed."""
    match error:
        case subprocess.CalledProcessError():
            return f"it exited with status {error.returncode}"
        case subprocess.TimeoutExpired():
            return f"it did not start within {error.timeout:g} s"
    return str(error)


def _nvidia_gpus() -> int:
    try:
        return len(list(Path("/proc/driver/nvidia/gpus").iterdir()))
    except OSError:
        return 0
