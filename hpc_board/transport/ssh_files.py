"""Files of a login node, by SFTP over the connection that its commands use."""

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hpc_board.errors import SchedulerError, SchedulerRefused
from hpc_board.model.text import one_line
from hpc_board.transport.sftp_files import STALL_SECONDS, SftpFiles
from hpc_board.transport.ssh import Connection
from hpc_board.transport.time_budget import RETRY_SECONDS, close_quietly

if TYPE_CHECKING:
    from paramiko import Channel, SFTPClient

    from hpc_board.transport.ssh_login import Link

_CHUNK_BYTES = 32 * 1024
_NOISE_BYTES_MAX = 64 * 1024
_VERSION_ANSWER = re.compile(rb"\0[\0-\xff]{3}\x02\0\0\0\x03", re.DOTALL)


class SshFiles(SftpFiles):
    """Files that a login node sees."""

    def __init__(
        self, connection: Connection, *, stall_seconds: float = STALL_SECONDS, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        super().__init__(_SshSessions(connection), stall_seconds=stall_seconds, retry_seconds=retry_seconds)


class _SshSession:
    """A session of the link's subsystem for files."""

    def __init__(self, name: str, link: "Link", channel: "Channel") -> None:
        self._name = name
        self._link = link
        self._channel = channel

    @cached_property
    def sftp(self) -> "SFTPClient":
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
            raise self._without_sftp(SchedulerRefused, "its server refuses the subsystem") from error
        except BaseException:
            close_quietly(self._channel)
            raise

    def _without_sftp(self, kind: type[SchedulerError], words: str) -> SchedulerError:
        close_quietly(self._channel)
        return kind(
            f"{self._name} offers no SFTP: {one_line(words, 200) or 'the session ended at once'}",
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
        return self._link.alive and not self._channel.closed

    def close(self) -> None:
        self._channel.close()


class _SshSessions:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def name(self) -> str:
        return self._connection.name

    def open(self, stall_seconds: float) -> _SshSession:
        link, channel = self._connection.channel()
        channel.settimeout(stall_seconds)
        return _SshSession(self.name, link, channel)


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
