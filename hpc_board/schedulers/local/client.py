"""The embedded scheduler's client: a queue on disk, and spoolers that live as long as they have work."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec

import hpc_board
from hpc_board.domain.run import JobState, JobStatus
from hpc_board.errors import SchedulerError, SchedulerRefused, StorageError
from hpc_board.files import locked
from hpc_board.model.gpu import Availability, Cluster, Device, Gpu
from hpc_board.model.runner import QUEUE, entry_name, is_entry, number_of
from hpc_board.schedulers import Job, JobKey
from hpc_board.schedulers.local.queue import Entry, Pool, Slot, visible_devices
from hpc_board.schedulers.runner_queue import job_state

CLOCK_SLACK = timedelta(days=1)
"""The tolerance for a clock that was set back between a run's creation and its job's submission."""

JOB_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LD_LIBRARY_PATH")
"""The part of the submitter's environment that jobs get."""

LOG_BYTES_MAX = 256 * 1024
"""The size from which the spoolers' log is begun anew."""

_SPOOLER = (
    "import sys; sys.path += sys.argv[1:3]; from hpc_board.schedulers.local.spooler import main; main(sys.argv[3:])"
)
_START_PATIENCE_SECONDS = 60
_LOCK_PATIENCE_SECONDS = 30
_NUMBER = re.compile(r"[1-9][0-9]{0,7}")


class LocalScheduler:
    """A cluster that is only this machine. Jobs outlive the client; every client that polls sees to it that they run.

    `folder` holds the queue. One job at a time runs on the CPU, and one on each GPU. Queues with the same folder
    `devices` share the machine's devices: a job waits until no other queue's job has its own.
    """

    def __init__(self, cluster: Cluster, folder: Path, *, devices: Path | None = None) -> None:
        self._cluster = cluster
        self._folder = folder.absolute()
        self._devices = (devices or folder / "devices").absolute()
        self._host = socket.gethostname()
        self._log = self._folder / "spooler.log"

    def command(self, job: Job) -> Sequence[str]:
        return ["bash", str(job.folder / job.script)]

    def submit(self, job: Job) -> str:
        if shutil.which("bash") is None:
            raise SchedulerRefused("bash is not on PATH", hint="Install bash; jobs on this machine are bash scripts.")
        pool = self._pool(self._host, job.gpu.device)
        if not self._slots(pool):
            raise SchedulerRefused(
                f"no {job.gpu.device} device can be used for {job.gpu.name} on {self._host}",
                hint="Check CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES, or choose another GPU.",
            )
        with self._usable(), locked(self._folder / "lock", wait_seconds=_LOCK_PATIENCE_SECONDS) as mine:
            if not mine:
                raise SchedulerError(
                    f"{self._folder / 'lock'}: another process has held this lock for {_LOCK_PATIENCE_SECONDS:.0f} s",
                    hint="Find a suspended hpc-board (`jobs`, `ps`), and resume or kill it.",
                )
            pool.make()
            number = 1 + max([0, *(number_of(name) for each in self._pools() for name in each.jobs())])
            entry = Entry(
                name=job.name,
                job_id=str(number),
                folder=str(job.folder.absolute()),
                script=job.script,
                seconds=job.time_limit_seconds,
                # A site's own template may do something for each run, and a container sees only its run's folder.
                request="" if job.gpu.template or job.gpu.container else job.request,
                environment=[f"{name}={value}" for name, value in _environment().items()],
            )
            pool.queue.add(entry_name(number, job.name), entry)
        self._start_spoolers()
        return str(number)

    def find(self, job: JobKey) -> str | None:
        since = (job.submitted_at - CLOCK_SLACK).timestamp()
        with self._usable():
            jobs = [(name, at) for pool in self._pools() for name, at in pool.jobs().items()]
        numbers = [number_of(name) for name, at in jobs if name.partition(".")[2] == job.name and at >= since]
        return str(max(numbers)) if numbers else None

    def poll(self, jobs: Sequence[JobKey]) -> Mapping[str, JobStatus]:
        """Return the status of each job, by its name; replace spoolers that died."""
        keys = {name: job for job in jobs if is_entry(name := _entry_name(job))}
        missing = JobStatus(JobState.MISSING, source="local: the queue has no such job")
        news = dict.fromkeys([job.name for job in jobs], missing)
        with self._usable():
            for pool in self._pools():
                news |= self._news(pool, keys)
        self._start_spoolers()
        return news

    def cancel(self, jobs: Sequence[JobKey]) -> None:
        """End the jobs: a waiting one at once, a running one as soon as its spooler reads the request."""
        with self._usable():
            for pool in self._pools():
                for name in filter(is_entry, map(_entry_name, jobs)):
                    if not pool.queue.withdraw(name) and name in pool.taken():
                        pool.queue.stop(name)
        self._start_spoolers()

    def availability(self, gpus: Sequence[Gpu]) -> Sequence[Availability]:
        # A free slot is of no use where no job can start in it.
        self._start_spoolers()
        with self._usable():
            return [self._availability(gpu) for gpu in gpus]

    def _availability(self, gpu: Gpu) -> Availability:
        pool = self._pool(self._host, gpu.device)
        total = len(self._slots(pool))
        return Availability(gpu.name, self._free(pool), total, len(pool.waiting()), "up" if total else "no device")

    def _free(self, pool: Pool) -> int:
        """Return the number of slots whose device no job of this queue or another one has."""
        claims = [slot.claim_device(shared=True) for slot in self._slots(pool)]
        free = [claim for claim in claims if claim is not None]
        for claim in free:
            os.close(claim)
        return len(free)

    def _news(self, pool: Pool, jobs: Mapping[str, JobKey]) -> Iterator[tuple[str, JobStatus]]:
        """Yield the names and statuses of those of these jobs, by their entries, that the pool has."""
        # A job goes from the queue to a slot, and from there to its end.
        places = {name: place for place, name in enumerate(pool.waiting(), start=1)}
        taken = pool.taken()
        is_next = places and pool.host == self._host and len(taken) < len(self._slots(pool))
        first = "waits for a job of another board to release the device" if is_next and not self._free(pool) else ""
        for name, key in jobs.items():
            job, job_id = key.name, key.job_id
            if (place := places.get(name)) is not None:
                reason = first if first and place == 1 else f"position {place} in the queue"
                yield job, JobStatus(JobState.PENDING, job_id, reason, source=f"local: waits on {pool.host}")
            elif (end := pool.end_of(name)) is not None:
                yield job, JobStatus(job_state(end), job_id, end.reason, pool.host, f"local: {end.reason}")
            elif (slot := taken.get(name)) is not None:
                reason = "is being cancelled" if pool.queue.is_stopped(name) else ""
                source = f"local: runs on {pool.kind} {slot.device}"
                yield job, JobStatus(JobState.RUNNING, job_id, reason, pool.host, source)

    def _pool(self, host: str, kind: Device) -> Pool:
        return Pool(self._folder / host / kind, host, kind, self._devices)

    def _pools(self) -> list[Pool]:
        """Return the pools of all machines that have had jobs."""
        found = ((path.parents[1].name, kind) for kind in Device for path in self._folder.glob(f"*/{kind}/{QUEUE}"))
        return [self._pool(host, kind) for host, kind in found]

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Make the folders if they are missing, and translate the errors of using them."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(OSError):
                self._devices.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield
        except OSError as error:
            raise StorageError(
                f"{error.filename or self._folder}: the local scheduler cannot use it: {error.strerror or error}",
                hint=f"Check that you can write to {self._folder} and that its disk is not full.",
            ) from error

    def _slots(self, pool: Pool) -> list[Slot]:
        nvidia_gpus = len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
        return [Slot(pool, device) for device in visible_devices(pool.kind, os.environ, nvidia_gpus)]

    def _start_spoolers(self) -> None:
        """Start a spooler for every slot with a job, and one for each waiting job, up to the number of slots."""
        try:
            for pool in [each for each in self._pools() if each.host == self._host]:
                taken, wanted = set(pool.taken().values()), len(pool.waiting())
                for slot in taken:
                    self._start_spooler(slot)
                for slot in self._slots(pool):
                    if wanted and slot not in taken and self._start_spooler(slot):
                        wanted -= 1
        except (OSError, subprocess.SubprocessError) as error:
            raise SchedulerError(
                f"cluster {self._cluster.name} is down: no spooler could be started to run its jobs: "
                f"{_reason(error)}; its log is {self._log}",
                hint="The jobs stay in the queue until the next try.",
            ) from error

    def _start_spooler(self, slot: Slot) -> bool:
        """Start a process that serves the slot, and return whether it was needed."""
        serving = slot.claim_serving()
        if serving is None:
            return False
        os.close(serving)
        # Without the site module, which reads every package's start-up files, Python finds only these two.
        packages = [str(Path(file).absolute().parents[1]) for file in (hpc_board.__file__, msgspec.__file__)]
        pool = slot.pool
        place = [str(pool.folder), pool.host, pool.kind, str(pool.devices), slot.device]
        with self._log.open("ab") as log:
            if log.tell() > LOG_BYTES_MAX:
                log.truncate(0)
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", _SPOOLER, *packages, *place],
                check=True,
                cwd="/",
                env=_environment(),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=_START_PATIENCE_SECONDS,
            )
        return True


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in JOB_VARIABLES if name in os.environ}


def _entry_name(job: JobKey) -> str:
    """Return the file name of a job's entry; "" if it can have none."""
    return entry_name(int(job.job_id), job.name) if _NUMBER.fullmatch(job.job_id) else ""


def _reason(error: Exception) -> str:
    """Return the reason of a failed start, without the whole command that failed."""
    match error:
        case subprocess.CalledProcessError():
            return f"it exited with status {error.returncode}"
        case subprocess.TimeoutExpired():
            return f"it did not start within {error.timeout:g} s"
    return str(error)
