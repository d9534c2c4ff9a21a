"""The queue: the folder that holds the jobs of the local scheduler, and the only code that reads or writes it."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from hpc_board.domain.run import JobState
from hpc_board.errors import SchedulerError, StorageError
from hpc_board.files import locked, read_bounded, take_lock, write_whole
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.gpu import Device

RECORD_BYTES_MAX = 256 * 1024

CLOCK_SLACK = timedelta(days=1)
"""The tolerance for a clock that was set back between a run's creation and its job's submission."""

VISIBLE = {Device.CUDA: "CUDA_VISIBLE_DEVICES", Device.HIP: "HIP_VISIBLE_DEVICES"}
"""The environment variable by which each kind of GPU is shown to a process or hidden from it."""


class Slot(msgspec.Struct, frozen=True):
    """One device of a pool, for one job at a time: an index, or another value of the variables in `VISIBLE`."""

    pool: Device
    device: str

    @property
    def file_name(self) -> str:
        """Return the slot's name in file names."""
        return re.sub(r"[^A-Za-z0-9-]", "_", f"{self.pool}-{self.device}")

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that show a job the slot's device and no other GPU."""
        return {variable: self.device if self.pool is kind else "" for kind, variable in VISIBLE.items()}


def slots(device: Device, environment: Mapping[str, str], nvidia_gpus: int) -> tuple[Slot, ...]:
    """Return the slots on which jobs for this kind of device run, all GPU names of the kind together.

    A list of visible devices in `environment` names them; otherwise they are counted from 0, with `nvidia_gpus` for
    CUDA and one for any other kind.
    """
    visible = environment.get(VISIBLE.get(device, ""))
    if visible is None:
        count = nvidia_gpus if device is Device.CUDA and nvidia_gpus else 1
        devices = [str(index) for index in range(count)]
    else:
        devices = list(takewhile(lambda entry: entry not in ("", "-1"), map(str.strip, visible.split(","))))
    return tuple(Slot(device, name) for name in devices)


class End(msgspec.Struct, frozen=True):
    """The end of a job."""

    state: JobState
    reason: str


class Entry(msgspec.Struct, frozen=True):
    """A job, as its file has it: its machine and pool, and later its device and its end.

    `environment` is the part of the submitter's environment that the job gets, as from a login shell on a cluster. The
    device is stored before the script starts; `cancelled` requests the end. A job that `shares_runner` has the batch
    script of all runs.
    """

    number: int
    name: str
    host: str
    pool: Device
    folder: str
    script: str
    time_limit_seconds: int
    submitted_at: Annotated[datetime, msgspec.Meta(tz=True)]
    environment: dict[str, str]
    shares_runner: bool = False
    device: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    end: End | None = None
    cancelled: bool = False


class Queue:
    """The jobs of one board that run on the machines with this folder, as one of these machines, `host`, sees them.

    In `devices`, by default a folder of its own, queues tell each other which devices their jobs have. If that
    folder is not writable, only this queue's jobs exclude each other. The caller of a method that reads or writes
    jobs holds `locked`.
    """

    def __init__(self, folder: Path, host: str, devices: Path | None = None) -> None:
        self.folder = folder
        self.host = host
        self.devices = (devices or folder / "devices").absolute()
        self._active = folder / "active"
        self._ended = folder / "ended"
        self._locks = folder / "locks"

    @contextmanager
    def locked(self, *, patience_seconds: float = 30, create: bool = True) -> Iterator[None]:
        """Lock the queue, for one reader or writer at a time, and make its folder if it is missing.

        Raises:
            SchedulerError: another process held it for `patience_seconds`.
            StorageError: the folder is not usable.
        """
        lock = self._locks / "queue"
        try:
            if create:
                for folder in (self.folder, self._active, self._ended, self._locks):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                with contextlib.suppress(OSError):
                    self.devices.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(lock, wait_seconds=patience_seconds) as mine:
                if not mine:
                    raise SchedulerError(
                        f"{lock}: another process has held this lock for {patience_seconds:.0f} s",
                        hint="Find a suspended hpc-board (`jobs`, `ps`), and resume or kill it.",
                    )
                yield
        except OSError as error:
            raise StorageError(
                f"{error.filename or self.folder}: the local scheduler cannot use it: {error.strerror or error}",
                hint=f"Check that you can write to {self.folder} and that its disk is not full.",
            ) from error

    def claim_serving(self, slot: Slot) -> int | None:
        """Return a descriptor that makes its holder the one process that serves `slot`; None if another one does."""
        return take_lock(self._locks / f"serving-{self.host}-{slot.file_name}")

    def claim_device(self, slot: Slot, *, shared: bool = False) -> int | None:
        """Return a descriptor that keeps the device of `slot` busy while any process has it; None while it is busy.

        With `shared` it excludes only jobs.
        """
        folder = self.devices if os.access(self.devices, os.W_OK | os.X_OK) else self._locks
        return take_lock(folder / f"{self.host}-{slot.file_name}", shared=shared)

    def device_is_busy(self, slot: Slot) -> bool:
        """Return whether a job of this queue or another one has the device of `slot`."""
        looked = self.claim_device(slot, shared=True)
        if looked is not None:
            os.close(looked)
        return looked is None

    def add(
        self,
        *,
        name: str,
        pool: Device,
        folder: Path,
        script: str,
        time_limit_seconds: int,
        environment: Mapping[str, str],
        shares_runner: bool = False,
    ) -> int:
        """Append a job to the queue and return its number, which no other job of this folder ever has."""
        number = 1 + max([0, *_numbers(self._active), *_numbers(self._ended)])
        now = datetime.now(UTC)
        given = (str(folder), script, time_limit_seconds, now, dict(environment), shares_runner)
        entry = Entry(number, name, self.host, pool, *given)
        write_whole(_file(self._active, number), msgspec.json.encode(entry))
        return number

    def entry(self, number: int) -> Entry | None:
        """Return job `number`; None if it is unknown or its file is damaged."""
        return _entry(self._active, number) or _entry(self._ended, number)

    def unended(self) -> list[Entry]:
        """Return the jobs of all machines that have not ended, oldest first."""
        entries = [entry for number in _numbers(self._active) if (entry := _entry(self._active, number))]
        for entry in entries:
            if entry.end is not None:
                # Not needed for the answer, and an obstacle must not stop the other jobs.
                with contextlib.suppress(OSError):
                    self._put_away(entry.number)
        return [entry for entry in entries if entry.end is None]

    def find(self, name: str, submitted_at: datetime) -> int | None:
        """Return the number of the job called `name`, among those submitted since `submitted_at`."""
        numbers = sorted({*_numbers(self._active), *_numbers(self._ended)}, reverse=True)
        for entry in filter(None, map(self.entry, numbers)):
            if entry.submitted_at < submitted_at - CLOCK_SLACK:
                return None
            if entry.name == name:
                return entry.number
        return None

    def record_start(self, number: int, device: str) -> None:
        """Store that the job runs now."""
        self._change(number, device=device)

    def record_end(self, number: int, end: End) -> None:
        """Store how the job ended and take it out of the queue."""
        self._change(number, end=end)
        self._put_away(number)

    def request_cancel(self, number: int) -> None:
        """Store a cancel request for the process that serves the job's slot."""
        self._change(number, cancelled=True)

    def cancel_requested(self, number: int) -> bool:
        """Return whether a cancel of the job was requested; needs no lock."""
        entry = _entry(self._active, number)
        return entry is not None and entry.cancelled

    def _change(self, number: int, **changes: Any) -> None:
        if (entry := _entry(self._active, number)) is not None:
            write_whole(_file(self._active, number), msgspec.json.encode(replace(entry, **changes)))

    def _put_away(self, number: int) -> None:
        _file(self._active, number).rename(_file(self._ended, number))


def waiting(entries: Iterable[Entry], host: str, pool: Device) -> list[Entry]:
    """Return the `entries` that wait for a slot of this pool on this machine, in their order."""
    return [entry for entry in entries if entry.device is None and (entry.host, entry.pool) == (host, pool)]


def running(entries: Iterable[Entry], host: str, pool: Device) -> dict[str, Entry]:
    """Return the started `entries` of this pool on this machine, by their device."""
    return {
        entry.device: entry
        for entry in entries
        if entry.device is not None and (entry.host, entry.pool) == (host, pool)
    }


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number}.json"


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.iterdir() if path.suffix == ".json" and is_number(path.stem))


def is_number(text: str) -> bool:
    """Return whether `text` can be a job's id."""
    return text.isascii() and text.isdigit() and len(text) < 19 and not text.startswith("0")


def _entry(folder: Path, number: int) -> Entry | None:
    try:
        entry = msgspec.json.decode(read_bounded(_file(folder, number), RECORD_BYTES_MAX), type=Entry)
    except (msgspec.DecodeError, RecursionError, NotRegularFileError, FileNotFoundError, PermissionError):
        return None
    return entry if entry.number == number else None
