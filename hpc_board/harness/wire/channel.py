"""Frames between the supervisor and its children: small JSON objects over a socket that keeps message boundaries.

Values travel beside the frames, as file descriptors of anonymous memory; nothing is ever unpickled. A frame from a
worker is hostile: its size, its shape and its order are checked, and any unexpected frame ends the worker.
"""

import errno
import json
import os
import socket
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

FRAME_BYTES_MAX = 64 * 1024
_FDS_MAX = 128
_FD_BYTES = 4
_MSG_CMSG_CLOEXEC = 0x40000000

Frame = dict[str, Any]


class ChannelClosed(Exception):
    """The peer has closed its end."""


class ProtocolViolation(Exception):
    """The peer sent a malformed frame, or not the expected one."""


class ChannelFull(Exception):
    """The peer does not read the frames that were sent."""


class Channel:
    """One end of a connection that carries frames, and file descriptors where `takes_fds`.

    Sending never waits for the peer to read.
    """

    def __init__(self, connection: socket.socket, *, takes_fds: bool) -> None:
        self._socket = connection
        self._control_bytes = socket.CMSG_SPACE(_FDS_MAX * _FD_BYTES) if takes_fds else 0

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> None:
        """Send one frame, with up to 128 descriptors.

        Raises:
            ChannelClosed: the peer has closed its end.
            ChannelFull: the peer has not read earlier frames, or the system takes no more descriptors.
        """
        data = json.dumps(frame, allow_nan=False, ensure_ascii=False).encode()
        try:
            # Not socket.send_fds: many versions of Python drop its flags, so that it would block.
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
            self._socket.sendmsg([data], rights, socket.MSG_DONTWAIT)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error
        except BlockingIOError as error:
            raise ChannelFull from error
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            raise ChannelFull from error

    def receive(self) -> tuple[Frame, list[int]]:
        """Return the next frame and its descriptors, which the caller closes.

        Raises:
            ChannelClosed: the peer has closed its end.
            ProtocolViolation: the received bytes are no frame.
        """
        try:
            data, control, flags, _ = self._socket.recvmsg(FRAME_BYTES_MAX, self._control_bytes, _MSG_CMSG_CLOEXEC)
        except ConnectionResetError as error:
            raise ChannelClosed from error
        fds = [descriptor for _, _, packed in control for (descriptor,) in struct.iter_unpack("=i", packed)]
        try:
            return _frame(data, flags), fds
        except (ChannelClosed, ProtocolViolation):
            for descriptor in fds:
                os.close(descriptor)
            raise

    def requests(self) -> Iterator[tuple[Frame, list[int]]]:
        """Yield each frame with its descriptors, which are closed afterwards, until the peer closes its end.

        Raises:
            ProtocolViolation: the received bytes are no frame.
        """
        while True:
            try:
                frame, fds = self.receive()
            except ChannelClosed:
                return
            try:
                yield frame, fds
            finally:
                for descriptor in fds:
                    os.close(descriptor)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def _frame(data: bytes, flags: int) -> Frame:
    if not data:
        raise ChannelClosed
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise ProtocolViolation("a frame that is too large, or descriptors")
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation("a frame that is not JSON") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise ProtocolViolation("a frame without a type")
    return frame


def pair() -> tuple[Channel, socket.socket]:
    """Return a channel for this process, which takes no descriptors, and the other end as a socket for a child."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours, takes_fds=False), theirs


def inherited(descriptor: int) -> Channel:
    """Return the channel at a descriptor that the parent left open."""
    return Channel(socket.socket(fileno=descriptor), takes_fds=True)
