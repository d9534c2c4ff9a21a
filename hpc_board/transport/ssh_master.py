"""Sessions through a running master of OpenSSH (`ControlPath`), which has logged in already, also by a second factor.

Each session is a process `ssh -S PATH`: it hands its streams to the master, and ends with the session.
"""

import contextlib
import os
import socket
import stat
import subprocess
import weakref
from pathlib import Path

from hpc_board.transport.ssh_config import Destination


class MasterLink:
    """The connection of a master, which belongs to the user: `close` ends only the sessions."""

    def __init__(self, place: Destination) -> None:
        self.destination = place
        self._sessions: weakref.WeakSet[MasterSession] = weakref.WeakSet()

    @property
    def alive(self) -> bool:
        """Return whether a process of this account, or root's, listens at the path of the master."""
        try:
            status = Path(self.destination.master).stat()
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(self.destination.connect_seconds)
                probe.connect(self.destination.master)
        except OSError:
            return False
        return stat.S_ISSOCK(status.st_mode) and status.st_uid in (0, os.geteuid())

    def open_session(self, _: float) -> "MasterSession":
        """Return a session, which begins with its command."""
        session = MasterSession(self.destination)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        """End the sessions, from any thread."""
        for session in tuple(self._sessions):
            session.close()


class MasterSession:
    """A session of a master, with the methods of the library's `Channel` that are used here."""

    def __init__(self, place: Destination) -> None:
        path = place.master.replace("%", "%%")
        # Should the master end, ssh would log in itself: it gets no way to the host.
        alone = ("-o", "ControlMaster=no", "-o", "BatchMode=yes", "-o", "ProxyCommand=false")
        self._command = ("ssh", "-F", "none", "-T", "-S", path, *alone)
        self._host = place.given
        self._process: subprocess.Popen[bytes] | None = None
        self._stream, self._their_stream = socket.socketpair()
        self._errors, self._their_errors = socket.socketpair()
        self.settimeout, self.sendall, self.recv_stderr = (
            self._stream.settimeout,
            self._stream.sendall,
            self._errors.recv,
        )

    def exec_command(self, command: str, *options: str) -> None:
        with self._their_stream as stream, self._their_errors as errors:
            self._process = subprocess.Popen(
                (*self._command, *options, "--", self._host, command),
                stdin=stream.fileno(),
                stdout=stream.fileno(),
                stderr=errors.fileno(),
                start_new_session=True,
            )

    def invoke_subsystem(self, name: str) -> None:
        self.exec_command(name, "-s")

    def send(self, data: bytes | memoryview) -> int:
        """Send the beginning of `data`, and return its length; `recv` tells the end of a session that takes none."""
        try:
            return self._stream.send(data)
        except BrokenPipeError:
            return len(data)

    def recv(self, size: int) -> bytes:
        try:
            return self._stream.recv(size)
        except ConnectionResetError:
            return b""

    def recv_ready(self) -> bool:
        return bool(_next(self._stream))

    def recv_stderr_ready(self) -> bool:
        return bool(_next(self._errors))

    @property
    def eof_received(self) -> bool:
        """Return whether all bytes have been received."""
        return _next(self._stream) == b""

    @property
    def closed(self) -> bool:
        return self._stream.fileno() < 0 or self.exit_status_ready()

    def exit_status_ready(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def recv_exit_status(self) -> int:
        """Wait for the end of the command, and return its status; that of ssh itself is 255."""
        return -1 if self._process is None else self._process.wait()

    def get_name(self) -> str:
        return "master"

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)  # which wakes a thread that waits
        for end in (self._stream, self._their_stream, self._errors, self._their_errors):
            end.close()


def _next(stream: socket.socket) -> bytes | None:
    """Return the next byte of a stream without taking it, b"" at the end; None if none has come yet."""
    try:
        return stream.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""
