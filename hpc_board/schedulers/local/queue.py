"""The queue: the folder that holds the jobs of the local scheduler, and the only code that reads or writes it."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hpc_board.errors import SchedulerError, StorageError
from hpc_board.files import NotRegularFileError, locked, open_regular, take_lock, write_whole
from hpc_board.schedulers.local import records
from hpc_board.schedulers.local.records import RECORD_BYTES_MAX, DamagedRecord, End, Entry, Start, Ticket
from hpc_board.schedulers.local.slots import Slot

CLOCK_SLACK = timedelta(days=1)
"""The tolerance for a clock that was set back between a run's creation and its job's submission."""


class Queue:
    """The jobs of one board that run on the machines with this folder, as one of these machines, `host`, sees them.

    In `devices`, by default a folder of its own, queues tell each other which devices their jobs have. If that
    folder is not writable, only this queue's jobs exclude each other. The caller of a method that reads or writes
    jobs holds `locked`. All methods raise StorageError if the folder is not usable.
    """

    def __init__(self, folder: Path, host: str, devices: Path | None = None) -> None:
        self.folder = folder
        self.host = host
        self.devices = (devices or folder / "devices").absolute()
        self._active = folder / "active"
        self._ended = folder / "ended"
        self._locks = folder / "locks"

    def create(self) -> None:
        """Make the folder, readable for its owner alone, unless it is there already."""
        with _storage(self.folder):
            for folder in (self.folder, self._active, self._ended, self._locks):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            self.devices.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def locked(self, *, patience_seconds: float = 30) -> Iterator[None]:
        """Lock the queue, for one reader or writer at a time.

        Raises:
            SchedulerError: another process held it for `patience_seconds`.
        """
        lock = self._locks / "queue"
        with _storage(self.folder), locked(lock, wait_seconds=patience_seconds) as mine:
            if not mine:
                raise SchedulerError(
                    f"{lock}: another process has held this lock for {patience_seconds:.0f} s",
                    hint="Look for a stopped hpc-board (`jobs`, `ps`), and let it go on or end it.",
                )
            yield

    def claim_serving(self, slot: Slot) -> int | None:
        """Return a descriptor that makes its holder the one process that serves `slot`; None if another one does."""
        with _storage(self.folder):
            return take_lock(self._locks / f"serving-{self.host}-{slot.file_name}")

    def claim_device(self, slot: Slot) -> int | None:
        """Return a descriptor that keeps the device of `slot` busy while any process has it; None while it is busy."""
        with _storage(self.folder):
            return take_lock(self._device_lock(slot))

    def device_is_busy(self, slot: Slot) -> bool:
        """Return whether a job of this queue or another one has the device of `slot`."""
        with _storage(self.folder):
            looked = take_lock(self._device_lock(slot), shared=True)
        if looked is not None:
            os.close(looked)
        return looked is None

    def _device_lock(self, slot: Slot) -> Path:
        folder = self.devices if os.access(self.devices, os.W_OK | os.X_OK) else self._locks
        return folder / f"{self.host}-{slot.file_name}"

    def add(
        self,
        *,
        name: str,
        pool: str,
        folder: Path,
        script: str,
        time_limit_seconds: int,
        environment: Mapping[str, str],
    ) -> int:
        """Append a job to the queue and return its number, which no other job of this folder ever has."""
        with _storage(self.folder):
            number = self._next_number()
            write_whole(self.folder / "last-number", str(number).encode())
            home = self._active / str(number)
            home.mkdir(mode=0o700)
            ticket = Ticket(
                number=number,
                name=name,
                host=self.host,
                pool=pool,
                folder=str(folder),
                script=script,
                time_limit_seconds=time_limit_seconds,
                submitted_at=datetime.now(UTC).isoformat(),
                environment=dict(environment),
            )
            try:
                write_whole(home / "job.json", records.encoded(ticket))
            except OSError:
                shutil.rmtree(home, ignore_errors=True)
                raise
            return number

    def entry(self, number: int) -> Entry | None:
        """Return the records of job `number`; None if it is unknown or they are damaged."""
        with _storage(self.folder):
            return _entry(self._active / str(number)) or _entry(self._ended / str(number))

    def unended(self) -> list[Entry]:
        """Return the jobs of all machines that have not ended, oldest first."""
        with _storage(self.folder):
            entries = [entry for number in _numbers(self._active) if (entry := _entry(self._active / str(number)))]
            for entry in entries:
                if entry.end is not None:
                    # Not needed for the answer, and a folder in the way must not stop the other jobs.
                    with contextlib.suppress(OSError):
                        self._put_away(entry.ticket.number)
            return [entry for entry in entries if entry.end is None]

    def find(self, name: str, submitted_at: datetime) -> int | None:
        """Return the number of the job called `name`, among those submitted since `submitted_at`."""
        with _storage(self.folder):
            numbers = sorted({*_numbers(self._active), *_numbers(self._ended)}, reverse=True)
        for entry in filter(None, map(self.entry, numbers)):
            if datetime.fromisoformat(entry.ticket.submitted_at) < submitted_at - CLOCK_SLACK:
                return None
            if entry.ticket.name == name:
                return entry.ticket.number
        return None

    def record_start(self, number: int, start: Start) -> None:
        """Store that the job runs now."""
        with _storage(self.folder):
            write_whole(self._active / str(number) / "started.json", records.encoded(start))

    def record_end(self, number: int, end: End) -> None:
        """Store how the job ended and take it out of the queue."""
        with _storage(self.folder):
            write_whole(self._active / str(number) / "end.json", records.encoded(end))
            self._put_away(number)

    def request_cancel(self, number: int) -> None:
        """Store a cancel request for the process that serves the job's slot."""
        with _storage(self.folder):
            (self._active / str(number) / "cancel").touch()

    def cancel_requested(self, number: int) -> bool:
        """Return whether a cancel of the job was requested; needs no lock."""
        return (self._active / str(number) / "cancel").exists()

    def _put_away(self, number: int) -> None:
        (self._active / str(number)).rename(self._ended / str(number))

    def _next_number(self) -> int:
        try:
            last = int((_own_file(self.folder / "last-number") or b"0")[:19])
        except (DamagedRecord, ValueError):
            last = 0
        number = 1 + max([last, *_numbers(self._active)])
        # The ended jobs are all those since the board began; they are listed only if the last number is not known.
        if last == 0 or (self._ended / str(number)).exists():
            number = max([number, *(1 + ended for ended in _numbers(self._ended))])
        return number


def waiting(entries: Iterable[Entry], host: str, pool: str) -> list[Entry]:
    """Return the `entries` that wait for a slot of this pool on this machine, in their order."""
    return [
        entry for entry in entries if entry.start is None and (entry.ticket.host, entry.ticket.pool) == (host, pool)
    ]


def running(entries: Iterable[Entry], host: str, pool: str) -> dict[str, Entry]:
    """Return the started `entries` of this pool on this machine, by their device."""
    started = [entry for entry in entries if (entry.ticket.host, entry.ticket.pool) == (host, pool)]
    return {entry.start.device: entry for entry in started if entry.start is not None}


def _numbers(folder: Path) -> list[int]:
    names = [path.name for path in folder.iterdir()]
    return sorted(int(name) for name in names if is_number(name))


def is_number(text: str) -> bool:
    """Return whether `text` can be a job's id."""
    return text.isascii() and text.isdigit() and len(text) < 19 and not text.startswith("0")


def _entry(home: Path) -> Entry | None:
    try:
        job, started, ended = (_own_file(home / name) for name in ("job.json", "started.json", "end.json"))
        if job is None:
            return None
        ticket = records.ticket(job)
        if str(ticket.number) != home.name:
            return None
        return Entry(
            ticket,
            None if started is None else records.start(started),
            None if ended is None else records.end(ended),
            (home / "cancel").exists(),
        )
    except DamagedRecord:
        return None


@contextmanager
def _storage(path: Path) -> Iterator[None]:
    """Translate the errors of the files inside into a StorageError that names `path`."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{error.filename or path}: the local scheduler cannot use it: {error.strerror or error}",
            hint=f"Check that you may write {path} and that its disk is not full.",
        ) from error


def _own_file(path: Path) -> bytes | None:
    """Return the bytes of a record, None if the file is missing.

    Raises:
        DamagedRecord: it is not a plain file that this user owns, or too long to be a record.
        OSError: it cannot be read now.
    """
    try:
        with open_regular(path) as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.geteuid() or facts.st_size > RECORD_BYTES_MAX:
                raise DamagedRecord(f"{path}: not a record of this user")
            return file.read(RECORD_BYTES_MAX)
    except FileNotFoundError:
        return None
    except (NotRegularFileError, NotADirectoryError, PermissionError) as error:
        raise DamagedRecord(f"{path}: {error}") from error
