"""The door on the service's own machine: a Unix socket, at which the kernel tells each end the other's account."""

import select
import socket
from pathlib import Path

from hpc_board.service.peers import check_place, peer_uid

_CHUNK_BYTES = 256 * 1024


class UnixDoor:
    """The door at the socket `path`."""

    hint = "Is the service running? Its admin starts it with `hpc-board serve`."

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, seconds: float) -> "SocketStream":
        """Connect to the socket, which no other account could have put there."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(seconds)
            connected.connect(str(self._path))
            check_place(self._path, peer_uid(connected))
        except BaseException:
            connected.close()
            raise
        return SocketStream(connected)

    def close(self) -> None:
        """Do nothing: connections share nothing."""


class SocketStream:
    """A stream over a connected socket, which it owns."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes) -> None:
        """Send `data`, whole."""
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Return the next bytes, b"" at the end."""
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
        """Close the connection."""
        self._socket.close()
