"""The door on the service's own machine: a Unix socket, at which the kernel tells each end the other's account."""

import os
import select
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.service.peers import check_place, peer_uid

if TYPE_CHECKING:
    import socket
else:
    # The socket of the C module has all that a client needs; to make the enums of `socket` takes a twentieth of the
    # processor time of `hpc-board runs`.
    import _socket as socket

_CHUNK_BYTES = 256 * 1024
_QUEUE_SECONDS = 0.05
"""The pause before another try to connect, while the service's queue of connections is full."""


def reason_of(error: Exception) -> str:
    """Return the reason why no connection could be made, or why it was lost."""
    match error:
        case ConnectionRefusedError():
            return "no service listens there"
        case OSError(strerror=str(reason)):
            return reason
    return str(error)


def fault_of(path: Path, error: Exception, origin: str = "") -> tuple[str, str]:
    """Return the reason why no connection to the socket `path` could be made, or why it was lost, and a hint.

    `origin` is the place that names the path.
    """
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError | ConnectionRefusedError):
        return reason_of(error), UnixDoor.hint
    named = f", which {origin} names," if origin else ""
    compare = f"Compare the path{named} with the one that the board's admin gave."
    place = real = Path(os.path.realpath(path))
    try:
        for place in (*reversed(real.parents), real):
            mode = place.stat().st_mode
            if place != real and not stat.S_ISDIR(mode):
                return f"{place} is not a folder", compare
    except FileNotFoundError:
        return ("there is no such socket", UnixDoor.hint) if place == real else (f"there is no folder {place}", compare)
    except PermissionError:
        closed = place.parent
        return f"this account cannot enter {closed}", (
            f"{compare} If they are the same, ask the admin to open the folder with `chmod o+x {closed}`, or to move "
            "the socket out of it; the board's own folder must stay closed."
        )
    except OSError as unknown:
        return reason_of(unknown), compare
    if not stat.S_ISSOCK(mode):
        return f"this is a {'folder' if stat.S_ISDIR(mode) else 'file'}, not a socket", compare
    if isinstance(error, PermissionError):
        return "this account cannot write to the socket", UnixDoor.hint
    return reason_of(error), UnixDoor.hint


class UnixDoor:
    """The door at the socket `path`."""

    hint = (
        "Is the service running? Its admin starts it with `hpc-board serve`; "
        "`hpc-board admin doctor` finds other causes."
    )

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, seconds: float) -> "SocketStream":
        """Connect to the socket, which no other account could have put there."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(seconds)
            self._connect(connected, seconds)
            check_place(self._path, peer_uid(connected))
        except BaseException:
            connected.close()
            raise
        return SocketStream(connected)

    def _connect(self, connected: socket.socket, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return connected.connect(str(self._path))
            except BlockingIOError as error:
                # The queue of the socket is full if many clients connect at one moment: an error, and no wait.
                if time.monotonic() > deadline:
                    raise TimeoutError from error
                time.sleep(_QUEUE_SECONDS)

    def close(self) -> None:
        """Do nothing: connections share nothing."""


class SocketStream:
    """A stream over a connected socket, which it owns."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Return the next bytes, b"" at the end of all."""
        return self._socket.recv(_CHUNK_BYTES)

    def limit(self, seconds: float | None) -> None:
        """Let `send` and `receive` wait so long at most."""
        self._socket.settimeout(seconds)

    def is_open(self) -> bool:
        """Return whether neither bytes nor the end have come unasked."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return not waiting.poll(0)

    def end(self) -> None:
        """Tell the other end that no more is sent."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()
