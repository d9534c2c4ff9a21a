"""The sockets of the pages."""

import socket
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

from hpc_board.errors import InputError, StorageError

SUFFIX = ".http"
"""The suffix of the pages' socket, in place of that of the board's."""


def page_socket(path: Path) -> Path:
    """Return the path of the pages' socket beside the board's at `path`.

    Raises:
        InputError: the board's own has that suffix.
    """
    if path.suffix == SUFFIX:
        raise InputError(
            f"{path}: the suffix {SUFFIX} is reserved for the socket of the page.",
            hint="Choose a socket with another suffix.",
        )
    return path.with_suffix(SUFFIX)


def place_of(address: str) -> tuple[int, tuple[str, int]]:
    """Return the family and the place of an address of the settings, whose form they have checked."""
    name, _, port = address.rpartition(":")
    host = "127.0.0.1" if name == "localhost" else name.strip("[]")
    return socket.AF_INET6 if ":" in host else socket.AF_INET, (host, int(port))


def tcp_socket(address: str, stack: ExitStack, log: Callable[..., None]) -> socket.socket:
    """Return a socket that listens at `address`, and warn if other machines reach it.

    Raises:
        StorageError: this machine has no such address, or another process listens there.
    """
    family, place = place_of(address)
    try:
        listening = stack.enter_context(socket.create_server(place, family=family))
    except (OSError, OverflowError) as error:
        raise StorageError(
            f"{address}: the page cannot be served there: {getattr(error, 'strerror', None) or error}",
            hint="Set another address in `serve.web` of the settings, or none.",
        ) from error
    if not ip_address(place[0].partition("%")[0]).is_loopback:
        log(
            "warning",
            text=f"serve.web: {address} accepts connections from other machines: everyone who can connect sees the "
            "open boards.",
        )
    return listening
