"""Messages to the service manager by the protocol of sd_notify(3): ready, alive, stopping."""

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send `state`, such as READY=1, to the socket in $NOTIFY_SOCKET; without a manager, nothing happens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    # A name that begins with @ is in the abstract namespace, whose first byte is null.
    place = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.sendto(state.encode(), place)
