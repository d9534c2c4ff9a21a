"""The door over TCP at the client's end: munge tells the service who asks, and no other account can answer for it."""

import pwd
import random
import select
import socket
import time

import msgspec

from hpc_board import __version__
from hpc_board.domain.service_address import MungeAddress
from hpc_board.errors import BoardError, InputError
from hpc_board.service.doors import Forged, ServiceError, frames, handshake
from hpc_board.transport import munge
from hpc_board.transport.munge import Trouble

_STEP_SECONDS = 15.0
"""The time for the connection, and for each answer of the handshake."""

_BUSY_SECONDS = 15.0
"""The time after which no further connection is tried with a service that has no room for another pending client."""

_BUSY_PAUSE_SECONDS = 0.1, 0.5
_ANSWER_BYTES_MAX = 80
_CHUNK_BYTES = 256 * 1024
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 60, 10, 6

_CLOCKS = "Compare the clocks of both machines, and have their admin set them; a credential lives for a minute."
_NO_DAEMON = "Tell the admin of that machine: `systemctl status munge` says more."
_ELSEWHERE = "{} names the socket of a munged that is not at its usual place."

_entropy = random.SystemRandom()

_REFUSALS: dict[str, tuple[str, str]] = {
    Trouble.EXPIRED: ("the service finds the credential expired: its clock is ahead of this machine's.", _CLOCKS),
    Trouble.REWOUND: ("the service finds the credential to come from the future: its clock is behind.", _CLOCKS),
    Trouble.REPLAYED: (
        "the credential was used before: another program has sent it first.",
        "Try again. If that happens again, a machine in between reads along: tell the service's admin.",
    ),
    Trouble.INVALID: (
        "the machines have different keys of munge, or the credential was altered on its way.",
        "Machines of one cluster have the same key. From elsewhere, use an address that begins with ssh://.",
    ),
    handshake.UNFIT: (
        "the service does not take the credential for this connection.",
        "Try again. If that happens again, a machine in between changes the connection.",
    ),
    handshake.UNAVAILABLE: (
        "munge does not answer on the service's machine.",
        f"{_NO_DAEMON} {_ELSEWHERE.format('`serve.munge_socket` in the settings of the service')}",
    ),
}
"""The message and the hint for each reason of a refusal: its own text would come from a program of any account."""


class _Busy(Exception):
    """A service that has no room for another client whose account it does not know yet."""


class MungeDoor:
    """The door at `address`."""

    hint = "Is the service running, with this port under `serve.munge` in its settings?"

    def __init__(self, address: MungeAddress) -> None:
        self._address = address

    def open(self, seconds: float) -> "MungeStream":
        """Connect, and have munge tell the service who asks; try again for some time if others crowd its door."""
        reader = self._service_uid()
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return self._introduce(reader, seconds)
            except _Busy as error:
                if time.monotonic() >= deadline:
                    raise ServiceError(
                        f"{self._address}: too many programs are at this port, and the service does not know yet who "
                        "they are.",
                        hint="Try again in a moment. If that happens again, tell the service's admin: a program floods "
                        "the port, maybe from this machine.",
                    ) from error
            # By chance, so that many who were refused at one moment do not come back at one moment.
            time.sleep(_entropy.uniform(*_BUSY_PAUSE_SECONDS))

    def _introduce(self, reader: int, seconds: float) -> "MungeStream":
        """Make a connection on which the service knows who asks.

        Raises:
            _Busy: the service has no room for it now.
        """
        connected = self._connect()
        try:
            protocol, nonce = self._greeting(connected)
            if protocol != handshake.PROTOCOL:
                raise InputError(
                    f"{self._address}: this client, version {__version__}, and the service do not know the same "
                    "handshake.",
                    hint="Use the service's version.",
                )
            payload = handshake.new_payload(nonce)
            self._check(self._answer(connected, self._credential(payload, reader)))
            to_service, to_client = handshake.frame_keys(payload)
            connected.settimeout(seconds)
            return MungeStream(connected, self._address, frames.Sealing(to_service), frames.Opening(to_client))
        except BaseException:
            connected.close()
            raise

    def close(self) -> None:
        """Do nothing: connections share nothing."""

    def _service_uid(self) -> int:
        account = self._address.account
        try:
            return int(account) if account.isdecimal() else pwd.getpwnam(account).pw_uid
        except KeyError as error:
            raise InputError(
                f"{self._address}: this machine has no account {account}, under which the service is said to run.",
                hint="Name the service's account: munge://ACCOUNT@HOST:PORT.",
            ) from error

    def _connect(self) -> socket.socket:
        try:
            connected = socket.create_connection((self._address.host, self._address.port), timeout=_STEP_SECONDS)
        except (OSError, UnicodeError) as error:
            raise ServiceError(
                f"{self._address}: {_reason(error)}.", hint=f"{self.hint} Is the port open to this machine?"
            ) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        alive(connected)
        return connected

    def _greeting(self, connected: socket.socket) -> tuple[int, str]:
        try:
            line = _line(connected, handshake.GREETING_BYTES_MAX)
            if not line:
                raise self._cut()
            return handshake.parsed_greeting(line)
        except TimeoutError as error:
            raise self._late() from error
        except ValueError as error:
            raise ServiceError(
                f"{self._address}: the program at this port is no service of hpc-board.",
                hint="Correct the port: the service's admin has it under `serve.munge` of the settings.",
            ) from error
        except OSError as error:
            raise self._cut() from error

    def _credential(self, payload: handshake.Payload, reader: int) -> bytes:
        try:
            credential = munge.encode(msgspec.json.encode(payload).decode(), reader, self._address.socket)
        except munge.MungeFailed as error:
            raise _own_trouble(error.trouble) from error
        return f"{credential}\n".encode()

    def _answer(self, connected: socket.socket, credential: bytes) -> bytes:
        try:
            connected.sendall(credential)
            return _line(connected, _ANSWER_BYTES_MAX)
        except TimeoutError as error:
            raise self._late() from error
        except (OSError, ValueError) as error:
            raise self._cut() from error

    def _check(self, answer: bytes) -> None:
        if answer == handshake.ACCEPTED:
            return
        if not answer:
            raise self._cut()
        reason = answer.removeprefix(handshake.REFUSED).decode(errors="replace")
        if reason == handshake.BUSY:
            raise _Busy
        if reason == Trouble.UNAUTHORIZED:
            raise InputError(
                f"{self._address}: the program at this port does not run as the account {self._address.account}.",
                hint="It may be an impostor. If the service has another account, write munge://ACCOUNT@HOST:PORT.",
            )
        message, hint = _REFUSALS.get(reason, ("the service has refused the credential.", "Use the service's version."))
        raise ServiceError(f"{self._address}: {message}", hint=hint)

    def _late(self) -> ServiceError:
        return ServiceError(
            f"{self._address}: the program at this port did not answer within {_STEP_SECONDS:g} s.",
            hint="Try again in a moment: the service may be busy. If that happens again, compare the port with "
            "`serve.munge` in the service's settings.",
        )

    def _cut(self) -> ServiceError:
        return ServiceError(
            f"{self._address}: the connection was closed before the service knew who asks.",
            hint="Try again in a moment: the service may have ended, or may have too many connections.",
        )


class MungeStream:
    """A stream of frames over a socket, which it owns."""

    def __init__(
        self, connected: socket.socket, address: MungeAddress, sealing: frames.Sealing, opening: frames.Opening
    ) -> None:
        self._socket = connected
        self._address = address
        self._sealing = sealing
        self._opening = opening

    def send(self, data: bytes) -> None:
        """Send `data`, whole."""
        try:
            self._socket.sendall(self._sealing.sealed(data))
        except OSError as error:
            raise _in_words(error) from error

    def receive(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        while not self._opening.ended:
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except OSError as error:
                raise _in_words(error) from error
            if not data:
                raise ConnectionResetError("the connection was cut")
            try:
                opened = self._opening.opened(data)
            except Forged as error:
                raise self._forgery_error() from error
            if opened:
                return opened
        return b""

    def limit(self, seconds: float | None) -> None:
        """Let `send` and `receive` wait so long at most."""
        self._socket.settimeout(seconds)

    def is_open(self) -> bool:
        """Return whether neither bytes nor the end have come unasked."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return not self._opening.ended and not waiting.poll(0)

    def close(self) -> None:
        """Tell the service that no more comes, as far as it listens, and close the connection."""
        try:
            self._socket.settimeout(0)
            self._socket.sendall(self._sealing.end())
        except OSError:
            pass
        finally:
            self._socket.close()

    def _forgery_error(self) -> BoardError:
        if self._opening.begun:
            return ServiceError(
                f"{self._address}: an answer was altered on its way.",
                hint="Try again. If that happens again, a machine in between changes the connection.",
            )
        return ServiceError(
            f"{self._address}: the program at this port could not read the credential: it is not the service of the "
            f"account {self._address.account}.",
            hint="Nothing was told to it. It may be an impostor: ask the service's admin for the address.",
        )


def alive(connected: socket.socket) -> None:
    """Have the kernel notice within two minutes that the other machine is gone."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


def _line(connected: socket.socket, bytes_max: int) -> bytes:
    """Return the next line without its end, b"" if the connection has ended before.

    Raises:
        ValueError: it is longer.
        TimeoutError: it takes too long.
    """
    line = bytearray()
    deadline = time.monotonic() + _STEP_SECONDS
    while len(line) < bytes_max:
        connected.settimeout(max(deadline - time.monotonic(), 0.001))
        # One at a time: the bytes after the line belong to the frames.
        byte = connected.recv(1)
        if byte == b"\n":
            return bytes(line)
        if not byte:
            return b""
        line += byte
    raise ValueError("a line is too long")


def _own_trouble(trouble: Trouble) -> BoardError:
    if trouble is Trouble.MISSING:
        return InputError(
            "munge is not installed on this machine, which an address that begins with munge:// needs.",
            hint="Use an address that begins with ssh://, or have the machine's admin install munge.",
        )
    return ServiceError(
        "munge does not answer on this machine.",
        hint=f"{_NO_DAEMON} {_ELSEWHERE.format('`?socket=PATH` at the end of the address')}",
    )


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):
        return "the host's name is no valid one"
    if isinstance(error, TimeoutError):
        return f"no connection within {_STEP_SECONDS:g} s"
    return error.strerror or str(error)


def _in_words(error: OSError) -> OSError:
    """Return `error` in words: of a machine that fell silent, which Python calls a time-out, and of a connection cut.

    A connection that is closed is an end of its bytes or an error, by the moment at which the kernel notices.
    """
    if isinstance(error, TimeoutError) and error.errno is not None:
        return ConnectionResetError("the machine no longer answers")
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return ConnectionResetError("the connection was cut")
    return error
