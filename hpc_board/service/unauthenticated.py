"""Clients over TCP until the service knows who they are: few, for a short time, and with few bytes of each."""

import asyncio
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, cast
from weakref import WeakValueDictionary

import msgspec

from hpc_board.domain.service_address import MungeListener
from hpc_board.errors import StorageError
from hpc_board.service.doors import Forged, frames, handshake
from hpc_board.service.doors.munge import alive
from hpc_board.service.machine_pool import Crowded, MachinePool
from hpc_board.service.machines import machine_of
from hpc_board.transport import munge
from hpc_board.transport.munge import Trouble

PENDING_MAX = 128
"""The number of clients that have not sent their credential yet."""

CREDENTIALS_MAX = 256
"""The number of clients whose credential has arrived, and is not decoded yet."""

_DECODERS = 4
_LOG_SECONDS = 1.0
_CHUNK_BYTES = 64 * 1024

_FRAMES_AT_ONCE = 32
_FRAMES_COUNTED = 1000
_FRAME_BYTES_MEAN = 16
"""The least mean of data in a frame after so many: a client sends a line in one, and no line is as short."""


class _NotAdmitted(Exception):
    """A client whose account is not told; `reason` is for the client, `details` are for the log."""

    def __init__(self, reason: str, **details: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = details


class _PendingClient(NamedTuple):
    """A client that has not sent its credential yet."""

    machine: str
    writer: asyncio.StreamWriter


class SealedReader:
    """The bytes of a client, which arrive in frames; all readers of one account share `turn`."""

    def __init__(self, reader: asyncio.StreamReader, opening: frames.Opening, turn: asyncio.Lock) -> None:
        self._reader = reader
        self._opening = opening
        self._turn = turn
        self._rest = b""
        self._frames = self._bytes = 0

    async def read(self, size: int) -> bytes:
        """Return at most `size` bytes, b"" at the end.

        Raises:
            ConnectionError: the connection was cut.
            Forged: the bytes are not those that the client sent, or their frames are too small.
        """
        while not self._rest and not self._opening.ended:
            if await self._open_some():
                continue
            data = await self._reader.read(_CHUNK_BYTES)
            if not data:
                raise ConnectionResetError("the connection was cut")
            self._opening.take(data)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    async def _open_some(self) -> int:
        """Open a few of the frames that have arrived, and return their number."""
        async with self._turn:
            texts = list(islice(iter(self._opening.next, None), _FRAMES_AT_ONCE))
            self._rest = b"".join(texts)
            self._frames += len(texts)
            self._bytes += len(self._rest)
            # The last frame has no data, and no frame follows it.
            counted = self._frames - self._opening.ended
            if counted > _FRAMES_COUNTED and self._bytes < counted * _FRAME_BYTES_MEAN:
                raise Forged("frames have too little data")
            if texts:
                # Within the turn: the loop goes round before this account costs it more, on whichever connection.
                await asyncio.sleep(0)
            return len(texts)


class SealedWriter:
    """A writer that sends bytes in frames."""

    def __init__(self, writer: asyncio.StreamWriter, sealing: frames.Sealing) -> None:
        self._writer = writer
        self._sealing = sealing

    @property
    def transport(self) -> asyncio.WriteTransport:
        """The transport below the frames."""
        return self._writer.transport

    def write(self, data: bytes) -> None:
        """Write `data`, once there is room."""
        self._writer.write(self._sealing.sealed(data))

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._writer.drain()

    def close(self) -> None:
        """Say that no more comes, and close the connection."""
        if not self._writer.is_closing():
            self._writer.write(self._sealing.end())
        self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until all has left."""
        await self._writer.wait_closed()


class PendingClients:
    """The clients that have connected to `listener`, until munge tells their uid within `seconds`."""

    def __init__(self, listener: MungeListener, log: Callable[..., None], seconds: float) -> None:
        self._listener = listener
        self._log = log
        self._seconds = seconds
        self._waiting: dict[asyncio.Task[Any], _PendingClient] = {}
        # Processes of munge start here, so that a munged that hangs keeps no question waiting.
        self._decoders = MachinePool("munge", _DECODERS, CREDENTIALS_MAX)
        self._opening_turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._told_at = -_LOG_SECONDS
        self._untold = 0

    def listening(self) -> socket.socket:
        """Return the listening socket.

        Raises:
            StorageError: it cannot be made.
        """
        host, port = self._listener.host, self._listener.port
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            return socket.create_server(place[:2], family=family)
        except (OSError, UnicodeError) as error:
            reason = "the host's name is no valid one" if isinstance(error, UnicodeError) else error.strerror or error
            raise StorageError(
                f"the service cannot listen at {self._listener}: {reason}",
                hint="Correct `serve.munge` of the settings: an address of this machine, and a port that is free.",
            ) from error

    async def admit(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[int, SealedReader, SealedWriter] | None:
        """Return the uid of a client and its stream, or None after it has been sent away."""
        connected = writer.get_extra_info("socket")
        address = str((writer.get_extra_info("peername") or ("unknown",))[0])
        machine = machine_of(address)
        alive(connected)
        self._make_room()
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._waiting[task] = _PendingClient(machine, writer)
        try:
            async with asyncio.timeout(self._seconds):
                nonce = handshake.new_nonce()
                writer.write(handshake.greeting(nonce))
                await writer.drain()
                credential = await _credential(reader)
                # From now on no other client can take its place.
                del self._waiting[task]
                uid, payload = await self._identify(credential, nonce, machine, reader)
                writer.write(handshake.ACCEPTED + b"\n")
        except (ConnectionError, TimeoutError):
            return None
        except _NotAdmitted as error:
            if error.reason not in (handshake.BUSY, handshake.UNAVAILABLE):
                self._decoders.blame(machine)
            self._tell(address, error)
            writer.write(_refusal(error.reason))
            return None
        finally:
            self._waiting.pop(task, None)
        to_service, to_client = handshake.frame_keys(payload)
        turn = self._opening_turns.setdefault(uid, asyncio.Lock())
        return (
            uid,
            SealedReader(reader, frames.Opening(to_service), turn),
            SealedWriter(writer, frames.Sealing(to_client)),
        )

    def close(self) -> None:
        """Let the calls of munge end."""
        self._decoders.close()

    def _make_room(self) -> None:
        """Let the longest waiting client of the busiest machine go, so that no machine keeps those of others out."""
        if len(self._waiting) < PENDING_MAX:
            return
        (busiest, _), *_ = Counter(each.machine for each in self._waiting.values()).most_common(1)
        oldest = next(task for task, each in self._waiting.items() if each.machine == busiest)
        self._waiting.pop(oldest).writer.write(_refusal(handshake.BUSY))
        oldest.cancel()

    async def _identify(
        self, credential: str, nonce: str, machine: str, reader: asyncio.StreamReader
    ) -> tuple[int, handshake.Payload]:
        """Return the uid of the client with this credential, and its payload."""
        decode = partial(munge.decode, credential, self._listener.socket)
        try:
            decoded = await self._decoders.run(machine, decode, lambda: not reader.at_eof())
        except Crowded as error:
            raise _NotAdmitted(handshake.BUSY) from error
        except munge.MungeFailed as error:
            own = error.trouble in (Trouble.DEAD, Trouble.MISSING)
            raise _NotAdmitted(handshake.UNAVAILABLE if own else error.trouble, munge=error.trouble) from error
        try:
            payload = msgspec.json.decode(decoded.payload, type=handshake.Payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise _NotAdmitted(handshake.UNFIT, uid=decoded.uid, part="payload") from error
        # Another nonce is that of another connection; a credential for all readers may have been made for anything.
        if payload.nonce != nonce or payload.protocol != handshake.PROTOCOL or decoded.reader != os.geteuid():
            raise _NotAdmitted(handshake.UNFIT, uid=decoded.uid)
        return decoded.uid, payload

    def _tell(self, address: str, error: _NotAdmitted) -> None:
        """Log a refusal, at most one a second: pending clients must not fill the log."""
        self._untold += 1
        now = time.monotonic()
        if now - self._told_at >= _LOG_SECONDS:
            self._log("refused", address=address, reason=error.reason, times=self._untold, **error.details)
            self._told_at, self._untold = now, 0


def _refusal(reason: str) -> bytes:
    return handshake.REFUSED + reason.encode() + b"\n"


async def _credential(reader: asyncio.StreamReader) -> str:
    """Return the client's line.

    Raises:
        _NotAdmitted: it has not the form of a credential, or more follows it.
        ConnectionError: the connection has ended before.
    """
    line = b""
    while b"\n" not in line and len(line) <= handshake.CREDENTIAL_BYTES_MAX:
        data = await reader.read(handshake.CREDENTIAL_BYTES_MAX)
        if not data:
            raise ConnectionResetError("the connection was closed")
        line += data
    text, _, rest = line.partition(b"\n")
    if rest or not handshake.is_credential(text):
        raise _NotAdmitted(handshake.UNFIT)
    return text.decode("ascii")
