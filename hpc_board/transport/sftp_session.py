"""Sessions with the SFTP server of a login node, on the connection that its commands use."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.text import one_line
from hpc_board.transport.ssh import Connection
from hpc_board.transport.time_budget import close_quietly

if TYPE_CHECKING:
    from paramiko import Channel, SFTPClient

STALL_SECONDS: Final = 10.0
"""The longest silence of the server: a hanging file system must not block a board's other clusters."""

_CHUNK_BYTES = 32 * 1024
_NOISE_BYTES_MAX = 64 * 1024
_VERSION_ANSWER = re.compile(rb"\0[\0-\xff]{3}\x02\0\0\0\x03", re.DOTALL)


class SftpSession:
    """A session with the server's subsystem for files, which may be silent for STALL_SECONDS.

    Raises:
        SchedulerError: the host cannot be reached.
    """

    def __init__(self, connection: Connection) -> None:
        self._name = connection.name
        self._link, self._channel = connection.channel()
        self._channel.settimeout(STALL_SECONDS)

    @cached_property
    def sftp(self) -> "SFTPClient":
        """Return the client of the protocol, whose first use greets the server.

        Raises:
            SchedulerError: the server offers no SFTP; a SchedulerRefused if it says so.
            OSError, SSHException: it is silent, or the connection was lost; the session is closed.
        """
        import paramiko

        try:
            self._channel.invoke_subsystem("sftp")
            # paramiko asks for a channel, and uses the methods of `_Quiet`.
            return paramiko.SFTPClient(_Quiet(self._channel))
        except _NoSftp as error:
            complaint = self._channel.recv_stderr(_CHUNK_BYTES) if self._channel.recv_stderr_ready() else b""
            raise self._without_sftp(SchedulerError, f"{error} {complaint.decode(errors='replace')}") from error
        except paramiko.SSHException as error:
            if not self._is_open():
                raise
            raise self._without_sftp(SchedulerRefused, "its server rejected the subsystem") from error
        except BaseException:
            close_quietly(self._channel)
            raise

    def _without_sftp(self, kind: type[SchedulerError], words: str) -> SchedulerError:
        close_quietly(self._channel)
        return kind(
            f"{self._name} offers no SFTP: {one_line(words, 200) or 'the session ended immediately'}",
            hint="hpc-board needs what `sftp` needs: a line `Subsystem sftp` in the server's sshd_config, and start-up"
            " files, such as ~/.bashrc, that start no other program in sessions without a terminal.",
        )

    def _is_open(self) -> bool:
        """Return whether the connection still opens sessions, so that a refusal was the server's own answer."""
        import paramiko

        close_quietly(self._channel)
        try:
            close_quietly(self._link.open_session(STALL_SECONDS))
        except paramiko.ChannelException:
            return True
        except (paramiko.SSHException, EOFError, OSError):
            return False
        return True

    @property
    def alive(self) -> bool:
        """Return whether no fault of the session is known."""
        return self._link.alive and not self._channel.closed

    def close(self) -> None:
        """Close the session, from any thread; a thread that waits for an answer stops waiting."""
        self._channel.close()


class _NoSftp(Exception):
    """A session that ended, or said something else, in the place of the server's first answer."""


class _Quiet:
    """A channel to an SFTP server from which the words of shell start-up files before its first answer are taken."""

    def __init__(self, channel: "Channel") -> None:
        self._channel = channel
        self._begun = False
        self._first = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, data: bytes) -> int:
        """Send `data`, or a part of it, and return the number of sent bytes."""
        try:
            return int(self._channel.send(data))
        except OSError:
            transport = self._channel.get_transport()
            if not self._begun and self._channel.closed and transport is not None and transport.is_active():
                self.recv(1)  # of a session that has ended before its greeting: tells its words
            raise

    def recv(self, size: int) -> bytes:
        """Read at most `size` bytes of the server's answers; none at their end."""
        while not self._begun:
            data = bytes(self._channel.recv(_CHUNK_BYTES))
            self._first += data
            answer = _VERSION_ANSWER.search(self._first)
            if answer is not None:
                self._begun, self._first = True, self._first[answer.start() :]
            elif not data or len(self._first) > _NOISE_BYTES_MAX:
                raise _NoSftp(one_line(self._first.decode(errors="replace"), 80))
        if not self._first:
            return bytes(self._channel.recv(size))
        part, self._first = self._first[:size], self._first[size:]
        return part
