"""A relay between a client's SSH session and the service's socket on this machine."""

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

from hpc_board.errors import BoardError, InputError
from hpc_board.service import wire
from hpc_board.service.doors import ServiceError
from hpc_board.service.doors.unix import SocketStream, UnixDoor, fault_of

_CHUNK_BYTES = 256 * 1024
_CONNECT_SECONDS = 30.0


def relay(path: Path) -> None:
    """Carry bytes between standard input and output and the service at `path`, until one of the ends closes.

    Raises:
        BoardError: there is no such service, or it is not to be trusted; the client is told as by the service itself.
    """
    if os.isatty(0) or os.isatty(1):
        raise InputError(
            "`serve --stdio` talks with a client of hpc-board, and this is a terminal.",
            hint="Give clients an address that begins with ssh://; they start it by themselves.",
        )
    try:
        service = _open(path)
    except BoardError as error:
        _write(wire.encoded(wire.Reply(0, error=wire.failure(error))) + b"\n")
        raise
    service.limit(None)
    threading.Thread(target=_carry_in, args=(service,), daemon=True).start()
    # A relay ends with its service or its client.
    with suppress(OSError):
        while data := service.receive():
            _write(data)


def _open(path: Path) -> SocketStream:
    door = UnixDoor(path)
    try:
        return door.open(_CONNECT_SECONDS)
    except OSError as error:
        where = f"{path} on {socket.gethostname()}"
        reason, hint = fault_of(path, error)
        raise ServiceError(f"{where}: {reason}.", hint=hint) from error


def _carry_in(service: SocketStream) -> None:
    with suppress(OSError):
        while data := os.read(0, _CHUNK_BYTES):
            service.send(data)
    with suppress(OSError):
        service.end()


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
