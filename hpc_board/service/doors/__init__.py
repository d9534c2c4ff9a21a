"""Doors of a service: ways on which a client's bytes reach it, each of which tells the service who asks.

Each opens streams, whose steps take so many seconds at most; OSError says that a stream broke.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.errors import BoardError

if TYPE_CHECKING:
    from hpc_board.domain.service_address import SshAddress
    from hpc_board.service.doors.ssh import SshDoor
    from hpc_board.service.doors.unix import UnixDoor


class ServiceError(BoardError):
    """The service cannot be reached, or has broken off."""

    title = "The service did not answer"


class InDoubtError(ServiceError):
    """The service broke off, and may have carried out a question that changes the board."""


def door_to(address: "Path | SshAddress") -> "UnixDoor | SshDoor":
    """Return the door at `address`; a client loads only the modules of this one."""
    if isinstance(address, Path):
        from hpc_board.service.doors.unix import UnixDoor

        return UnixDoor(address)
    from hpc_board.service.doors.ssh import SshDoor

    return SshDoor(address)
