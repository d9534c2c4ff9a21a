"""Logging in to a host by SSH: the way there, its host key, and the keys of the user."""

import contextlib
import logging
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.model.text import one_line
from hpc_board.transport.known_hosts import fingerprint, known_keys
from hpc_board.transport.ssh_config import Destination, destination
from hpc_board.transport.ssh_master import MasterLink
from hpc_board.transport.time_budget import ended_after

if TYPE_CHECKING:
    from paramiko import Channel, PKey, Transport
    from paramiko.pkey import PublicBlob

KEEPALIVE_SECONDS: Final = 30
"""The interval of keepalive messages on a quiet connection, so that no firewall drops it."""

_SILENT_SECONDS: Final = 45
"""The time after which data without an acknowledgement means a lost connection."""

_AGENT_SECONDS: Final = 30.0
_RSA: Final = ("rsa-sha2-512", "rsa-sha2-256")

# Without a handler of its own the library's complaints would appear on the terminal, across the app.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class LoginRefused(SchedulerError):
    """A refusal of a host: it does not let this account in, or its key is not known; a person has to act."""


class OwnLink(msgspec.Struct, frozen=True, eq=False):
    """An open connection to a host, and the process of its proxy."""

    destination: Destination
    transport: "Transport"
    under: contextlib.ExitStack

    @property
    def alive(self) -> bool:
        """Return whether no fault of the connection is known."""
        return bool(self.transport.is_active())

    def open_session(self, seconds: float) -> "Channel":
        """Open a session within `seconds`.

        Raises:
            ChannelException: the host opens no further session on this connection.
            SSHException, EOFError, OSError: the connection is lost.
        """
        return self.transport.open_session(timeout=seconds)

    def close(self) -> None:
        """Close the connection, from any thread; threads that wait for an answer stop waiting."""
        self.transport.close()
        self.under.close()


Link = OwnLink | MasterLink


def log_in(login: Login) -> Link:
    """Log in to the account of `login`, with a known host key and an accepted user key, unless a master has done it.

    Raises:
        LoginRefused: the host key is unknown or another one, or none of the user's keys opens the account.
        SchedulerError: the host cannot be reached, or does not speak SSH.
    """
    import paramiko

    place = destination(login)
    if place.master and (master := MasterLink(place)).alive:
        return master
    with contextlib.ExitStack() as under:
        complaints, end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        under.callback(os.close, complaints)
        under.callback(os.close, end)
        try:
            transport = paramiko.Transport(_socket(place, end, under))
            under.callback(transport.close)
            with ended_after(3 * place.connect_seconds, transport.close) as late:
                _agree(place, transport)
                _authenticate(place, transport, late)
            transport.set_keepalive(KEEPALIVE_SECONDS)
        except (paramiko.SSHException, EOFError, OSError) as error:
            words = _read_complaints(complaints) or _words(error)
            refused = re.search("Permission denied|verification failed", words) is not None
            raise (LoginRefused if place.proxy and refused else SchedulerError)(
                f"{place.name} cannot be reached: {words}",
                hint=f"Check that `{place.command}` works; a VPN may be down, or the host may be down for maintenance.",
            ) from error
        return OwnLink(place, transport, under.pop_all())


def _words(error: Exception) -> str:
    return one_line(getattr(error, "strerror", None) or str(error) or "the connection was closed", 200)


def _read_complaints(complaints: int) -> str:
    try:
        return one_line(os.read(complaints, 4096).decode(errors="replace"), 200)
    except BlockingIOError:
        return ""


def _socket(place: Destination, complaints: int, under: contextlib.ExitStack) -> socket.socket:
    """Open a stream to the host's SSH server, which `under` closes; a proxy's standard error is `complaints`."""
    if not place.proxy:
        try:
            direct = under.enter_context(socket.create_connection((place.host, place.port), place.connect_seconds))
        except UnicodeError as error:
            raise OSError("invalid host name") from error
        direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_SECONDS * 1000)
        return direct
    ours, theirs = socket.socketpair()
    under.enter_context(ours)
    with theirs:
        process = subprocess.Popen(
            place.proxy, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=complaints, start_new_session=True
        )
    under.callback(process.wait)
    under.callback(process.kill)
    return ours


def _agree(place: Destination, transport: "Transport") -> None:
    """Negotiate SSH with a host, whose key has to be a known one.

    Raises:
        LoginRefused: it shows another one, or is not known.
    """
    known = known_keys(place.known_hosts, place.names)
    options = transport.get_security_options()
    kinds = [line.key_type for line in known if not line.revoked]
    algorithms = [name for kind in kinds for name in (_RSA if kind == "ssh-rsa" else (kind,))]
    first = [algorithm for algorithm in dict.fromkeys(algorithms) if algorithm in options.key_types]
    options.key_types = [*first, *(kind for kind in options.key_types if kind not in first)]
    transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = place.connect_seconds
    transport.start_client(timeout=2 * place.connect_seconds)
    shown = transport.get_remote_server_key()
    kind, key = str(shown.get_name()), bytes(shown.asbytes())
    same = [line for line in known if line.key == key]
    if same and not any(line.revoked for line in same):
        return
    for line in known:
        if line.key_type == kind and line.revoked == (line.key == key):
            raise LoginRefused(
                f"{one_line(place.host, 100)} shows the {kind} host key {fingerprint(key)}, and {line.place} has"
                f" {'revoked it' if line.revoked else 'another one for it'}: another machine may be intercepting the"
                " connection",
                hint="Nothing was sent. Ask the site whether its host key was changed; only then remove that line with"
                f" `ssh-keygen -R '{place.names[0]}'` and run `{place.command}` once.",
            )
    files = ", ".join(map(str, place.known_hosts)) or "no file"
    raise LoginRefused(
        f"run `{place.command}` once: the host key of {one_line(place.names[0], 100)} is not known; it shows"
        f" the {kind} key {fingerprint(key)}, and {files} have none for it",
        hint=f"Run `{place.command}` once, compare the fingerprint with the one that the site publishes, and answer"
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
                tried.append("the host closed the connection before all keys were tried")
                break
            try:
                more = transport.auth_publickey(place.user, key)
            except paramiko.BadAuthenticationType as error:
                tried.append(f"the host does not accept keys, only {', '.join(error.allowed_types)}")
                break
            except paramiko.AuthenticationException:
                tried.append(f"{name}: refused")
                continue
            if not more:
                return
            raise LoginRefused(
                f"{place.name} requires more than a key: {one_line(', '.join(more), 100)}",
                hint="hpc-board never asks for passwords or codes. With a `ControlPath` for it in ~/.ssh/config, log in"
                f" by `{place.command.replace('ssh', 'ssh -fNM', 1)}`: hpc-board uses that connection as long as it "
                "lasts.",
            )
    raise LoginRefused(
        f"{place.name} rejected the login: {one_line('; '.join(tried), 500) or 'there is no key to offer'}",
        hint=f"Check that `{place.command}` logs in without a prompt. A key with a passphrase must be in an"
        " agent: `ssh-add KEY`.",
    )


def _keys(place: Destination, stack: contextlib.ExitStack, tried: list[str]) -> Iterator[tuple[str, "PKey"]]:
    """Yield the user's keys by their names, those of named files first; `tried` gets the unusable ones.

    A certificate precedes its key: those of CertificateFile, else the one beside the key's file.
    """
    in_agent = _agent_keys(place, stack, tried)
    named = [found for file in place.certificates if (found := _public(file))]
    for file in place.keys:
        public = _public(file.with_name(f"{file.name}.pub")) or _public(file)
        key = in_agent.pop(public.key_blob, None) if public else None
        name = f"{file} (by the agent)" if key else str(file)
        key = key or _key(file, tried)
        beside = _public(file.with_name(f"{file.name}-cert.pub"))
        for certificate in named or ([beside] if beside else []):
            held = in_agent.pop(certificate.key_blob, None)
            if held is not None:
                yield f"a certificate of {file} (by the agent)", held
            elif key is not None and _is_for(certificate, key):
                key.public_blob = certificate
                yield f"{name} with its certificate", key
                key.public_blob = None
        if key is not None:
            in_agent.pop(bytes(key.asbytes()), None)
            yield name, key
    if not place.keys_only:
        yield from ((f"a key of the agent ({fingerprint(public)})", key) for public, key in in_agent.items())


def _agent_keys(place: Destination, stack: contextlib.ExitStack, tried: list[str]) -> dict[bytes, "PKey"]:
    """Return the agent's keys and certificates by their public halves."""
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
    keys = sorted(agent.get_keys(), key=lambda key: "-cert-" not in key.name)
    for key in keys:
        if "-cert-" in key.name:
            # The library would ask the agent to sign with the plain key of an RSA certificate, which may not be there.
            key.inner_key = None
    return {bytes(key.blob): key for key in keys}


def _public(file: Path) -> "PublicBlob | None":
    """Return the public key or certificate in a file, None if there is none."""
    from paramiko.pkey import PublicBlob

    with contextlib.suppress(OSError, ValueError):
        return PublicBlob.from_string(file.read_text(encoding="utf-8"))
    return None


def _is_for(certificate: "PublicBlob", key: "PKey") -> bool:
    """Return whether a certificate is for `key`: its type and a nonce precede the numbers of the key."""
    import paramiko

    certified, plain = paramiko.Message(certificate.key_blob), paramiko.Message(key.asbytes())
    certified.get_string(), certified.get_string(), plain.get_string()
    return bool(certified.get_remainder().startswith(plain.get_remainder()))


def _key(file: Path, tried: list[str]) -> "PKey | None":
    import paramiko
    from cryptography.exceptions import UnsupportedAlgorithm
    from paramiko.pkey import UnknownKeyType

    try:
        key: PKey = paramiko.PKey.from_path(str(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        tried.append(f"{file} cannot be read: {error.strerror}")
    except (TypeError, paramiko.PasswordRequiredException):
        tried.append(f"{file} has a passphrase, but no agent has it")
    except (ValueError, paramiko.SSHException, UnsupportedAlgorithm, UnknownKeyType):
        # The words of these errors may hold parts of the key.
        tried.append(f"{file} is not a supported private key")
    else:
        key.public_blob = None
        return key
    return None
