"""Addresses of a service on another machine."""

import re

import msgspec

from hpc_board.domain.roles import ACCOUNT_PATTERN

PROGRAM = "hpc-board"
"""The command of hpc-board on the service's machine, unless an address names another one."""

_SSH_FORM = "ssh://[USER@]HOST[:PORT]/PATH[?command=PATH]"

# Paths reach the login shell of another machine, whose language is not known: no character of theirs is special in any.
_PATH = r"(?:/[A-Za-z0-9._@%+=:,-]+)+"
_HOST = r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9][A-Za-z0-9._-]{0,253})"
_LABEL_MAX = 63
_USER = rf"(?:(?P<user>(?!@){ACCOUNT_PATTERN})@)?"
_PORT = r"(?P<port>[0-9]{1,5})"
_SSH = rf"ssh://{_USER}{_HOST}(?::{_PORT})?(?P<path>{_PATH})(?:\?command=(?P<command>{_PATH}))?"


class SshAddress(msgspec.Struct, frozen=True):
    """A service's socket at `path` of a host to log in to; `command` is hpc-board there."""

    host: str
    path: str
    user: str = ""
    port: int | None = None
    command: str = PROGRAM

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        port = "" if self.port is None else f":{self.port}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{user}{host}{port}{self.path}"


def service_address(text: str) -> SshAddress:
    """Return the address in `text`, which is not the path of a socket.

    Raises:
        ValueError: `text` is none.
    """
    found = re.fullmatch(_SSH, text)
    if found is None:
        raise ValueError(f"expected the full path of a socket, or {_SSH_FORM}")
    port = None if found["port"] is None else _port(found["port"])
    return SshAddress(_host(found), found["path"], found["user"] or "", port, found["command"] or PROGRAM)


def _host(found: "re.Match[str]") -> str:
    host = found["host"].strip("[]")
    # A name may end with the dot of the root.
    if not all(0 < len(label) <= _LABEL_MAX for label in host.removesuffix(".").split(".")):
        raise ValueError(f"expected a host with 1 to {_LABEL_MAX} characters between its dots")
    return host


def _port(text: str) -> int:
    if not 0 < int(text) < 65_536:
        raise ValueError("expected a port from 1 to 65535")
    return int(text)
