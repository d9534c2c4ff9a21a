"""Frames between the supervisor and its children: small JSON objects over a socket that keeps their borders.

Values travel beside the frames, as file descriptors of anonymous memory; nothing is ever unpickled. A frame from a
worker is hostile: its size, its shape and its order are checked, and whatever is unexpected ends the worker.
"""

import json
import os
import socket
from typing import Any, Dict, List, Sequence, Tuple

FRAME_BYTES_MAX = 64 * 1024
_FDS_MAX = 2
_MSG_CMSG_CLOEXEC = 0x40000000

Frame = Dict[str, Any]


class ChannelClosed(Exception):
    """The other end is gone."""


class ProtocolViolation(Exception):
    """The other end sent something that is no frame, or not the one expected."""


class Channel:
    """One end of a connection that carries frames and file descriptors."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    def send(self, frame: Frame, fds: Sequence[int] = ()) -> None:
        """Send one frame, with up to two descriptors.

        Raises:
            ChannelClosed: the other end is gone.
        """
        data = json.dumps(frame, allow_nan=False, ensure_ascii=False).encode()
        if len(data) > FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {len(data)} bytes")
        try:
            if fds:
                socket.send_fds(self._socket, [data], list(fds))
            else:
                self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed from error

    def receive(self) -> Tuple[Frame, List[int]]:
        """The next frame and the descriptors that came with it, which the caller closes.

        Raises:
            ChannelClosed: the other end is gone.
            ProtocolViolation: what came is no frame.
        """
        try:
            data, fds, flags, _ = socket.recv_fds(self._socket, FRAME_BYTES_MAX, _FDS_MAX, _MSG_CMSG_CLOEXEC)
        except ConnectionResetError as error:
            raise ChannelClosed from error
        try:
            if not data:
                raise ChannelClosed
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ProtocolViolation("a frame that is too large")
            try:
                frame = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise ProtocolViolation("a frame that is not JSON") from error
            if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
                raise ProtocolViolation("a frame without a type")
        except (ChannelClosed, ProtocolViolation):
            for descriptor in fds:
                os.close(descriptor)
            raise
        return frame, fds

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def pair() -> Tuple[Channel, socket.socket]:
    """A channel for this process, and the other end as a socket to hand to a child."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours), theirs


def inherited(descriptor: int) -> Channel:
    """The channel at a descriptor that the parent left open."""
    return Channel(socket.socket(fileno=descriptor))
