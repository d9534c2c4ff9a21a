"""The log of a service: one JSON object a line, in which no client has room for lines without end."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from hpc_board.service.counts import Counts

_REFUSED_SECONDS = 1.0
_REFUSED_OF_PEER = 10
_PEERS_MAX = 1_000


class ServiceLog:
    """A log, to stderr by default, in which a peer has a few refusals a second; its next line counts the others.

    `counts` has the events of all lines, also of those that are left out.
    """

    def __init__(self, write: Callable[[str], object] = sys.stderr.write) -> None:
        self.counts = Counts()
        self._write = write
        self._peers: dict[object, tuple[float, int, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, event: str, **details: object) -> None:
        """Write an event with its time and details."""
        self.counts.logged(event)
        if event == "refused":
            with self._lock:
                suppressed = self._suppressed(details.get("uid", details.get("address")))
            if suppressed is None:
                return
            details |= {"suppressed": suppressed} if suppressed else {}
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
        with suppress(OSError, ValueError):
            self._write(f"{json.dumps(line, default=str)}\n")

    def _suppressed(self, peer: object) -> int | None:
        """Return the number of suppressed refusals of a peer before this one; None if this one is suppressed, too."""
        now = time.monotonic()
        begun, told, suppressed = self._peers.get(peer, (-math.inf, 0, 0))
        if now - begun >= _REFUSED_SECONDS:
            begun, told = now, 0
        if told >= _REFUSED_OF_PEER:
            self._peers[peer] = begun, told, suppressed + 1
            return None
        if len(self._peers) >= _PEERS_MAX:
            self._peers.clear()
        self._peers[peer] = begun, told + 1, 0
        return suppressed
