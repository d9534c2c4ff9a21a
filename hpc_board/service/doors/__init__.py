"""Doors of a service: ways on which a client's bytes reach it, each of which tells the service who asks."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hpc_board.errors import BoardError

if TYPE_CHECKING:
    from hpc_board.domain.service_address import SshAddress


class ServiceError(BoardError):
    """The service cannot be reached, or has broken off."""

    title = "The service did not answer"


class Stream(Protocol):
    """A connection to a service, for bytes in both directions; OSError says that it broke."""

    def send(self, data: bytes) -> None:
        """Send `data`, whole."""

    def receive(self) -> bytes:
        """Return the next bytes, b"" at the end of all.

        Raises:
            TimeoutError: none came within the limit.
        """

    def limit(self, seconds: float | None) -> None:
        """Let `send` and `receive` wait so long at most."""

    def is_open(self) -> bool:
        """Return whether neither bytes nor the end have come unasked."""

    def close(self) -> None:
        """Close the connection."""


class Door(Protocol):
    """A way to a service; `hint` is the advice for one that cannot be reached."""

    hint: str

    def open(self, seconds: float) -> Stream:
        """Make a connection, on which each step may take so long.

        Raises:
            BoardError, OSError: the service cannot be reached.
        """

    def close(self) -> None:
        """Give up the common resources of the connections."""


def door_to(address: "Path | SshAddress") -> Door:
    """Return the door at `address`; a client loads the modules of this one alone."""
    if isinstance(address, Path):
        from hpc_board.service.doors.unix import UnixDoor

        return UnixDoor(address)
    from hpc_board.service.doors.ssh import SshDoor

    return SshDoor(address)
