"""The queue on disk: jobs wait, run and end as the runs of a runner do, by the protocol of `model/runner.py`."""

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from hpc_board.files import read_bounded, take_lock
from hpc_board.model.files import NotRegularFileError
from hpc_board.model.gpu import Device
from hpc_board.model.runner import DONE, QUEUE, TAKEN, WITHDRAWN, End, decoded, is_entry
from hpc_board.model.value import Value
from hpc_board.schedulers.runner_queue import RunnerQueue
from hpc_board.transport.local_files import LocalFiles

ENTRY_BYTES_MAX = 256 * 1024

VISIBLE = {Device.CUDA: "CUDA_VISIBLE_DEVICES", Device.HIP: "HIP_VISIBLE_DEVICES"}
"""The environment variable by which each kind of GPU is shown to a process or hidden from it."""


class Entry(Value):
    """A job in the queue, in a file that is never changed.

    `environment` is the part of the submitter's environment that the job gets, as from a login shell on a cluster, each
    as NAME=VALUE. Jobs with equal ones and the same `request`, unless it is empty, may share a runner.
    """

    name: str
    job_id: str
    folder: str
    script: str
    seconds: int
    request: str
    environment: list[str]

    def may_share_runner(self, other: "Entry") -> bool:
        """Return whether one runner may judge both."""
        return self.request != "" and (self.request, self.environment) == (other.request, other.environment)


class Pool(msgspec.Struct, frozen=True):
    """The jobs of one board for one `kind` of device of the machine `host`; they wait and end in `folder`.

    In `devices` queues tell each other which devices their jobs have. If that folder is not writable, only this queue's
    jobs exclude each other.
    """

    folder: Path
    host: str
    kind: Device
    devices: Path

    @property
    def queue(self) -> RunnerQueue:
        """Return the files of the jobs, of which running ones are in a folder for each slot."""
        return RunnerQueue(LocalFiles(), self.folder)

    def make(self) -> None:
        """Make the folders of the queue."""
        for name in (TAKEN, DONE, WITHDRAWN, QUEUE):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def waiting(self) -> list[str]:
        """Return the entries that wait for a slot, in their order."""
        return sorted(name for name, at in self._entries(QUEUE).items() if at)

    def taken(self) -> "dict[str, Slot]":
        """Return the entries of running jobs, and of those that were lost with their spooler, with their slots."""
        return {name: slot for slot in self._slots() for name, at in self._entries(slot.taken).items() if at}

    def jobs(self) -> dict[str, float]:
        """Return the entries of all jobs, with the times of their files: that of submission, or of a job's end."""
        found = self._entries(QUEUE)
        for slot in self._slots():
            found |= self._entries(slot.taken)
        return found | self._entries(DONE) | self._entries(WITHDRAWN)

    def _entries(self, part: str) -> dict[str, float]:
        """Return the entries in a folder, each with the time of its file, 0 for something else in its place."""
        with suppress(FileNotFoundError):
            listed = self.queue.files.entries(self.folder / part, most=None)
            return {entry.name: entry.modified_at for entry in listed if is_entry(entry.name)}
        return {}

    def _slots(self) -> "list[Slot]":
        """Return the slots that may have taken a job; clients may see others than the submitter."""
        names = [entry.name for entry in self.queue.files.entries(self.folder / TAKEN) if entry.is_folder]
        return [slot for slot in (Slot(self, unquote(name.partition("-")[2])) for name in names) if slot.name in names]

    def end_of(self, name: str) -> End | None:
        """Return the end of a job, None before it."""
        if self.queue.files.is_file(self.folder / WITHDRAWN / name):
            return End("cancelled", "cancelled while it waited")
        return self.queue.end_of(name)

    def entry(self, name: str) -> Entry | None:
        """Return a waiting job; None if its file is damaged.

        Raises:
            FileNotFoundError: it waits no more.
        """
        try:
            return decoded(read_bounded(self.folder / QUEUE / name, ENTRY_BYTES_MAX), Entry)
        except (ValueError, NotRegularFileError, PermissionError):
            return None


class Slot(msgspec.Struct, frozen=True):
    """One device of a pool, for one job at a time: an index, or another value of the variables in `VISIBLE`."""

    pool: Pool
    device: str

    @property
    def name(self) -> str:
        """Return the slot's name in file names."""
        return f"{self.pool.kind}-{quote(self.device, safe='')}"

    @property
    def taken(self) -> str:
        """Return the folder of the jobs that the slot has taken, in that of its pool."""
        return f"{TAKEN}/{self.name}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that show a job the slot's device and no other GPU."""
        return {variable: self.device if self.pool.kind is kind else "" for kind, variable in VISIBLE.items()}

    def claim_serving(self) -> int | None:
        """Return a descriptor that makes its holder the one process that serves the slot; None if another one does."""
        return take_lock(self.pool.folder / f"serving-{self.name}")

    def claim_device(self, *, shared: bool = False) -> int | None:
        """Return a descriptor that keeps the device busy while any process has it; None while it is busy.

        With `shared` it excludes only jobs.
        """
        folder = self.pool.devices if os.access(self.pool.devices, os.W_OK | os.X_OK) else self.pool.folder.parents[1]
        return take_lock(folder / f"{self.pool.host}-{self.name}", shared=shared)


def visible_devices(kind: Device, environment: Mapping[str, str], nvidia_gpus: int) -> list[str]:
    """Return the devices of a kind on which jobs run, all GPU names of the kind together.

    A list of visible devices in `environment` names them; otherwise they are counted from 0, with `nvidia_gpus` for
    CUDA and one for any other kind.
    """
    visible = environment.get(VISIBLE.get(kind, ""))
    if visible is None:
        return [str(index) for index in range(nvidia_gpus if kind is Device.CUDA and nvidia_gpus else 1)]
    return list(takewhile(lambda entry: entry not in ("", "-1"), map(str.strip, visible.split(","))))
