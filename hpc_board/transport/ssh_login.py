"""Logging in to a host by SSH: the way there, its host key, and the keys of the user."""

import contextlib
import logging
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.model.text import one_line
from hpc_board.transport.known_hosts import KnownHosts, fingerprint, name_of
from hpc_board.transport.ssh_config import Destination, destination
from hpc_board.transport.time_budget import ended_after

if TYPE_CHECKING:
    from paramiko import PKey, Transport

KEEPALIVE_SECONDS: Final = 30
"""The interval of keepalive messages on a quiet connection, so that no firewall drops it."""

_SILENT_SECONDS: Final = 45
"""The time after which data without an acknowledgement means a lost connection."""

_HOPS_MAX: Final = 8
_AGENT_SECONDS: Final = 30.0
_RSA: Final = ("rsa-sha2-512", "rsa-sha2-256")

# Without a handler of its own the library's complaints would appear on the terminal, across the app.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class LoginRefused(SchedulerError):
    """A refusal of a host: it does not let this account in, or its key is not known; a person has to act."""


class Link(msgspec.Struct, frozen=True):
    """An open connection to a host, and its path: other hosts, and the process of a ProxyCommand."""

    destination: Destination
    transport: "Transport"
    under: contextlib.ExitStack

    @property
    def alive(self) -> bool:
        """Return whether no fault of the connection is known."""
        return bool(self.transport.is_active())

    def close(self) -> None:
        """Close the connection, from any thread; threads that wait for an answer stop waiting."""
        self.transport.close()
        self.under.close()


def log_in(login: Login) -> Link:
    """Log in to the account of `login`, with a known host key and an accepted user key.

    Raises:
        LoginRefused: the host key is unknown or another one, or none of the user's keys opens the account.
        SchedulerError: the host cannot be reached, or does not speak SSH.
    """
    return _link(destination(login), hops=0)


def _link(place: Destination, hops: int) -> Link:
    import paramiko

    if hops > _HOPS_MAX:
        raise SchedulerError(
            f"the way to {place.name} leads over more than {_HOPS_MAX} hosts",
            hint="ProxyJump goes in a circle: give `ProxyJump none` to the first of them in ~/.ssh/config.",
        )
    with contextlib.ExitStack() as under:
        try:
            transport = paramiko.Transport(_socket(place, hops, under))
            under.callback(transport.close)
            with ended_after(3 * place.connect_seconds, transport.close) as late:
                _agree(place, transport)
                _authenticate(place, transport, late)
            transport.set_keepalive(KEEPALIVE_SECONDS)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise SchedulerError(
                f"{place.name} cannot be reached: {_words(error)}",
                hint=f"Look whether `{place.command}` works; a VPN may be down, or the host in maintenance.",
            ) from error
        return Link(place, transport, under.pop_all())


def _words(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or "the connection was closed", 200)


def _socket(place: Destination, hops: int, under: contextlib.ExitStack) -> Any:
    """Open a stream to the host's SSH server, which `under` closes."""
    if place.proxy_command:
        return _proxy(place.proxy_command, under)
    if place.jump is None:
        direct = under.enter_context(_connected(place))
        direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_SECONDS * 1000)
        return direct
    jump = _link(destination(place.jump), hops + 1)
    under.callback(jump.close)
    return jump.transport.open_channel(
        "direct-tcpip", (place.host, place.port), ("127.0.0.1", 0), timeout=place.connect_seconds
    )


def _connected(place: Destination) -> socket.socket:
    try:
        return socket.create_connection((place.host, place.port), timeout=place.connect_seconds)
    except UnicodeError as error:
        raise OSError("the host's name is no valid one") from error


def _proxy(command: str, under: contextlib.ExitStack) -> socket.socket:
    """Open a stream through a command of the user's own configuration, run by a shell as OpenSSH does."""
    ours, theirs = socket.socketpair()
    under.enter_context(ours)
    with theirs:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    under.callback(process.wait)
    under.callback(process.kill)
    return ours


def _agree(place: Destination, transport: "Transport") -> None:
    """Negotiate SSH with a host, whose key has to be a known one.

    Raises:
        LoginRefused: it shows another one, or is not known.
    """
    known, name = KnownHosts.read(place.known_hosts), place.alias or name_of(place.host, place.port)
    options = transport.get_security_options()
    algorithms = [name for kind in known.key_types(name) for name in (_RSA if kind == "ssh-rsa" else (kind,))]
    first = [algorithm for algorithm in algorithms if algorithm in options.key_types]
    options.key_types = [*first, *(kind for kind in options.key_types if kind not in first)]
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = place.connect_seconds
    transport.start_client(timeout=2 * place.connect_seconds)
    shown = transport.get_remote_server_key()
    kind, key = str(shown.get_name()), bytes(shown.asbytes())
    if known.knows(name, key):
        return
    contradiction = known.contradicts(name, kind, key)
    if contradiction:
        raise LoginRefused(
            f"{one_line(place.host, 100)} shows the {kind} host key {fingerprint(key)}, and {contradiction} has another"
            " one for it: a machine in between may be listening",
            hint="Nothing was sent. Ask the site whether its host key has changed; only then remove that line with"
            f" `ssh-keygen -R '{name}'` and call `{place.command}` once.",
        )
    files = ", ".join(map(str, place.known_hosts)) or "no file"
    raise LoginRefused(
        f"call `{place.command}` once: the host key of {one_line(name, 100)} is not known; it shows the {kind} key"
        f" {fingerprint(key)}, and {files} have none for it",
        hint=f"Call `{place.command}` once, compare the fingerprint with the one that the site publishes, and answer"
        f" yes: that adds it to {place.known_hosts[0] if place.known_hosts else '~/.ssh/known_hosts'}.",
    )


def _authenticate(place: Destination, transport: "Transport", late: threading.Event) -> None:
    """Log in with the first key that the host accepts, never by a password.

    Raises:
        LoginRefused: it takes none of them, or wants more than a key.
    """
    import paramiko

    tried: list[str] = []
    with contextlib.ExitStack() as stack:
        for name, key in _keys(place, stack, tried):
            if late.is_set() or not transport.is_active():
                tried.append("the host closed the connection before it had seen all keys")
                break
            try:
                more = transport.auth_publickey(place.user, key)
            except paramiko.BadAuthenticationType as error:
                tried.append(f"the host takes no keys, only {', '.join(error.allowed_types)}")
                break
            except paramiko.AuthenticationException:
                tried.append(f"{name}: refused")
                continue
            if not more:
                return
            raise LoginRefused(
                f"{place.name} wants more than a key: {one_line(', '.join(more), 100)}",
                hint="hpc-board never asks for passwords or codes. Use an account or a login node that takes a key"
                " alone, or run hpc-board on the login node.",
            )
    raise LoginRefused(
        f"{place.name} refuses the login: {one_line('; '.join(tried), 500) or 'there is no key to offer'}",
        hint=f"Look whether `{place.command}` logs in without a question. A key with a passphrase has to be in an"
        " agent: `ssh-add KEY`.",
    )


def _keys(place: Destination, stack: contextlib.ExitStack, tried: list[str]) -> Iterator[tuple[str, "PKey"]]:
    """Yield the user's keys by their names, those of named files first; `tried` gets the unusable ones."""
    in_agent = _agent_keys(place, stack, tried)
    for file in place.keys:
        public = _public_key(file)
        held = in_agent.pop(public, None) if public else None
        if held is not None:
            yield f"{file} (by the agent)", held
            continue
        key = _key(file, tried)
        if key is not None:
            in_agent.pop(bytes(key.asbytes()), None)
            yield str(file), key
    if not place.keys_only:
        yield from ((f"a key of the agent ({fingerprint(public)})", key) for public, key in in_agent.items())


def _agent_keys(place: Destination, stack: contextlib.ExitStack, tried: list[str]) -> dict[bytes, "PKey"]:
    """Return the agent's keys by their public halves."""
    import paramiko

    if not place.agent:
        return {}
    # The library's own way to an agent waits for its answer for ever.
    agent = paramiko.agent.AgentSSH()
    try:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(_AGENT_SECONDS)
        connection.connect(place.agent)
        agent._connect(connection)  # noqa: SLF001
    except (OSError, paramiko.SSHException) as error:
        tried.append(f"the agent at {place.agent} does not answer: {_words(error)}")
        return {}
    return {bytes(key.blob): key for key in agent.get_keys()}


def _public_key(file: Path) -> bytes:
    """Return the public key beside a private one, empty if it is missing."""
    import base64
    import binascii

    with contextlib.suppress(OSError, ValueError, IndexError, binascii.Error):
        return base64.b64decode(file.with_name(f"{file.name}.pub").read_text(encoding="utf-8").split()[1])
    return b""


def _key(file: Path, tried: list[str]) -> "PKey | None":
    import paramiko
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko.pkey import UnknownKeyType

    try:
        key: PKey = paramiko.PKey.from_path(str(file))
    except FileNotFoundError:
        pass
    except OSError as error:
        tried.append(f"{file} cannot be read: {error.strerror}")
    except (TypeError, paramiko.PasswordRequiredException):
        tried.append(f"{file} has a passphrase, and no agent holds it")
    except (ValueError, paramiko.SSHException, UnsupportedAlgorithm, UnknownKeyType):
        # The words of these errors may hold parts of the key.
        tried.append(f"{file} is no private key of a kind that can be used")
    else:
        return key
    return None
