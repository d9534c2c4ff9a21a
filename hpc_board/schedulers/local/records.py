"""Records in a job's folder of the queue, and their strict reading."""

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from hpc_board.domain.run import JobState
from hpc_board.model.gpu import Device

RECORD_BYTES_MAX = 256 * 1024
"""The size from which a record is not believed to be one."""

_DEVICE_CHARACTERS_MAX = 100


class DamagedRecord(Exception):
    """A file in the queue that this program cannot have written."""


class Ticket(msgspec.Struct, frozen=True):
    """`job.json`: the job to run, its machine and its pool.

    `environment` is the part of the submitter's environment that the job gets, as from a login shell on a cluster.
    """

    number: int
    name: str
    host: str
    pool: str
    folder: str
    script: str
    time_limit_seconds: int
    submitted_at: str
    environment: Mapping[str, str]


class Start(msgspec.Struct, frozen=True):
    """`started.json`: the leader of the job's session, told apart from a later process with the same number.

    `start_ticks` is the leader's start time as the kernel counts it, `monotonic_s` the clock at the start; both mean
    something only while `boot` is the machine's boot id.
    """

    device: str
    leader: int
    start_ticks: int
    boot: str
    monotonic_s: float


class End(msgspec.Struct, frozen=True):
    """`end.json`: the end of the job. `exit_code` is negative for a signal, None if it is unknown."""

    state: str
    reason: str
    exit_code: int | None


class Entry(msgspec.Struct, frozen=True):
    """Everything that the queue knows of one job."""

    ticket: Ticket
    start: Start | None = None
    end: End | None = None
    cancelled: bool = False


Record = TypeVar("Record", Ticket, Start, End)


def encoded(record: Ticket | Start | End) -> bytes:
    """Return the record as the text of its file."""
    return json.dumps(msgspec.structs.asdict(record), indent=1).encode()


def ticket(data: bytes) -> Ticket:
    """Return the ticket in `data`.

    Raises:
        DamagedRecord: it holds none.
    """
    record = _decoded(data, Ticket)
    if record.pool not in set(Device):
        raise DamagedRecord("pool is not a kind of device")
    variables = record.environment.items()
    if not all(_is_text(name) and "=" not in name and _is_text(value) for name, value in variables):
        raise DamagedRecord("environment cannot be used")
    try:
        zone = datetime.fromisoformat(record.submitted_at).tzinfo
    except ValueError as error:
        raise DamagedRecord("submitted_at is no time") from error
    if zone is None:
        raise DamagedRecord("submitted_at has no zone")
    return record


def start(data: bytes) -> Start:
    """Return the start in `data`.

    Raises:
        DamagedRecord: it holds none.
    """
    record = _decoded(data, Start)
    if record.leader <= 1:
        raise DamagedRecord("leader is not the number of a job's process")
    return record


def end(data: bytes) -> End:
    """Return the end in `data`.

    Raises:
        DamagedRecord: it holds none.
    """
    record = _decoded(data, End)
    if record.state not in set(JobState):
        raise DamagedRecord("state is not the state of a job")
    return record


def _decoded(data: bytes, kind: type[Record]) -> Record:
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedRecord("not JSON") from error
    if not isinstance(document, dict) or document.keys() != set(kind.__struct_fields__):
        raise DamagedRecord(f"not the keys of a {kind.__name__.lower()}")
    for name, value in document.items():
        if not _fits(name, value):
            raise DamagedRecord(f"{name} cannot be used")
    return kind(**document)


def _fits(name: str, value: object) -> bool:
    if name == "environment":
        return isinstance(value, dict)
    if name == "exit_code":
        return value is None or _is_count(value)
    if name == "monotonic_s":
        return isinstance(value, float) and math.isfinite(value)
    if name in ("number", "time_limit_seconds", "leader", "start_ticks"):
        return _is_count(value)
    return _is_text(value) and (name != "device" or len(str(value)) <= _DEVICE_CHARACTERS_MAX)


def _is_count(value: object) -> bool:
    return type(value) is int and abs(value) < 2**53


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value
