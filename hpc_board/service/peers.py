"""Peers of a Unix socket: the account at the other end, as the kernel tells it."""

import pwd
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from hpc_board.errors import InputError, Refused

if TYPE_CHECKING:
    import socket
else:
    import _socket as socket  # as in doors.unix


def peer_uid(connected: socket.socket) -> int:
    """Return the uid of the process at the other end of a connected Unix socket (SO_PEERCRED of unix(7)).

    At the client's end it is the process that called listen, at the service's end the one that called connect.
    """
    return _credentials(connected)[1]


def peer_pid(connected: socket.socket) -> int:
    """Return the number of the process at the other end of a connected Unix socket, as `peer_uid` does its account."""
    return _credentials(connected)[0]


def _credentials(connected: socket.socket) -> tuple[int, int, int]:
    found: tuple[int, int, int] = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return found


def peer_name(uid: int) -> str:
    """Return the name of the account `uid`.

    Raises:
        Refused: it has none, or its name belongs to another account.
    """
    try:
        name = pwd.getpwuid(uid).pw_name
        if pwd.getpwnam(name).pw_uid == uid:
            return name
    except KeyError:
        pass
    raise Refused(f"unknown user ID {uid} on this machine.", hint="Ask its admin; the board identifies users by name.")


def check_place(path: Path, owner: int, *, in_sticky: bool = False) -> None:
    """Require that only `owner` and root could have put the socket or the board at `path`, or can replace it.

    With `in_sticky`, its folder may be a sticky one for all: the caller checks the owner of `path` itself.

    Raises:
        InputError: another account may write the folder of `path`, or one above it.
    """
    for place in dict.fromkeys((path.absolute(), path.resolve())):
        for folder in place.parents:
            try:
                # The owner of a link may lead it elsewhere.
                owners = {folder.lstat().st_uid, (status := folder.stat()).st_uid}
            except OSError as error:
                raise InputError(f"{folder}: {error.strerror}", hint="Check the path of the service.") from error
            # In a sticky folder no account can replace the entry of another; the entry itself is checked in its turn.
            sticky = bool(status.st_mode & stat.S_ISVTX) and (in_sticky or folder != place.parent)
            if owners - {0, owner} or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
                raise InputError(
                    f"{path}: accounts other than the service's can write to {folder}, and could impersonate it.",
                    hint="Ask the admin for a folder that only the service's account can write to, like its parents.",
                )
