"""The door over SSH: `hpc-board serve --stdio` on the service's machine, where the kernel tells who has logged in."""

import shlex
import time
from typing import TYPE_CHECKING

from hpc_board.domain.service_address import SshAddress
from hpc_board.errors import InputError, SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.model.text import one_line
from hpc_board.service.doors import ServiceError
from hpc_board.transport.ssh import Connection

if TYPE_CHECKING:
    from paramiko import Channel

    from hpc_board.transport.ssh_login import Link

_START_SECONDS = 30.0
_END_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_CHUNK_BYTES = 64 * 1024
_NOT_FOUND = (126, 127)
"""The statuses of shells for a command that cannot be run, or is not there."""


class SshDoor:
    """The door at `address`; all its connections share one login."""

    hint = "Is the service running there? Its admin starts it with `hpc-board serve`."

    def __init__(self, address: SshAddress) -> None:
        self._address = address
        self._connection = Connection(Login(address.host, address.user, address.port))

    def open(self, seconds: float) -> "SshStream":
        """Log in, unless that has been done, and start a relay to the service's socket."""
        import paramiko

        from hpc_board.transport.time_budget import closed_after

        try:
            link, channel = self._connection.channel()
        except SchedulerError as error:
            raise ServiceError(f"{error.message}.", hint=error.hint) from error
        stream = SshStream(self._address, link, channel)
        try:
            with closed_after(_START_SECONDS, link):
                channel.exec_command(
                    shlex.join([self._address.command, "serve", "--stdio", "--socket", self._address.path])
                )
            channel.settimeout(seconds)
        except (paramiko.SSHException, EOFError, OSError) as error:
            stream.close()
            raise stream.lost() from error
        return stream

    def close(self) -> None:
        """Log out; the next connection logs in anew."""
        self._connection.close()


class SshStream:
    """A stream over a session of SSH, which it owns."""

    def __init__(self, address: SshAddress, link: "Link", channel: "Channel") -> None:
        self._address = address
        self._link = link
        self._channel = channel
        self._begun = False

    def send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise
        except (OSError, EOFError) as error:
            if not self._begun:
                self.receive()  # a command that has ended at once leaves its reason
            raise self.lost() from error

    def receive(self) -> bytes:
        data = bytes(self._channel.recv(_CHUNK_BYTES))
        if not data and not self._link.alive:
            raise self.lost()
        if not self._begun:
            self._check_begin(data)
        self._begun = True
        return data

    def limit(self, seconds: float | None) -> None:
        self._channel.settimeout(seconds)

    def is_open(self) -> bool:
        channel = self._channel
        return self._link.alive and not (channel.closed or channel.eof_received or channel.recv_ready())

    def close(self) -> None:
        from hpc_board.transport.time_budget import close_quietly

        close_quietly(self._channel)

    def lost(self) -> ConnectionResetError:
        """Return the error of a connection that broke."""
        return ConnectionResetError(f"the connection to {one_line(self._address.host, 100)} was lost")

    def _check_begin(self, data: bytes) -> None:
        """Require that the first bytes are the service's, whose lines are objects of JSON.

        Raises:
            BoardError: the host has not started the relay, or its shells print something before.
        """
        host = one_line(self._address.host, 100)
        if data[:1] == b"{":
            return
        if data:
            shown = one_line(data.decode(errors="replace"), 80)
            raise InputError(
                f"{host} printed {shown!r} instead of the service's answer.",
                hint="Start-up files of the account there, such as ~/.bashrc, must print nothing in sessions without a "
                "terminal.",
            )
        deadline = time.monotonic() + _END_SECONDS
        while not self._channel.exit_status_ready() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        status = self._channel.recv_exit_status() if self._channel.exit_status_ready() else -1
        words = one_line(self._complaint(), 200)
        if status in _NOT_FOUND:
            raise InputError(
                f"{host} cannot run {self._address.command}: {words or 'its shell does not find it'}",
                hint=f"Add its path on {host} to the address: {self._address}?command=/path/to/hpc-board.",
            )
        words = words or f"it exited with status {status}"
        raise ServiceError(
            f"{host} did not start `{self._address.command} serve --stdio`: {words}",
            hint="Use the same version of hpc-board there and here.",
        )

    def _complaint(self) -> str:
        text = b""
        while self._channel.recv_stderr_ready() and len(text) < _CHUNK_BYTES:
            text += self._channel.recv_stderr(_CHUNK_BYTES)
        return text.decode(errors="replace")
